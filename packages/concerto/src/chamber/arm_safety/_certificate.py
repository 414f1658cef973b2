r"""Can the arm still stop before the partner's worst declared motion? The question behind every answer of `ArmSafety`.

It carries the idea of `concerto.safety.stopping` from one sphere on a free path to two arms made of spheres:

* The *plan* of an action is to apply it for one control step and to hold still from then on (zero displacements: every
  step aims at the joint positions measured at its start). Where that takes the joints is predicted by the mass matrix and
  the drive (`chamber.arm_safety._kernels.predict_path`); the joints are at rest well within the horizon.
* A sphere of the partner at p whose speed stays below s is, after the time t, inside the ball around p of radius
  :math:`s t`.
* An action is *certified* when, at every time of its plan, every pair of spheres is clear of that ball by the margin, or
  at least as far apart as it would be had the arm held still at once.

The balls of the next step, taken from wherever the partner went, lie inside the balls of this step, and holding still is
what the plan goes on with. So an arm that holds still whenever no better action is certified stays certified, as long as
it follows its predicted path to within the margin. The second half of the condition lets an arm get away from a partner
that walks into it, and never lets it come closer on its own account.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety._kernels import ArmArrays, place_frames, place_spheres

__all__ = ["pair_gaps", "plan_clearance", "sphere_paths"]

FloatArray = NDArray[np.float64]

_SAME_DISTANCE = 1e-9
"""Distances that differ by less are equal, m."""


@njit(cache=True, error_model="numpy")
def sphere_paths(arm: ArmArrays, path: FloatArray, frames: FloatArray, centers: FloatArray) -> None:
    """Write the centres of all spheres at every sample of a joint path, shape ``(T, N, 3)``."""
    for sample in range(path.shape[0]):
        place_frames(arm, path[sample], frames)
        place_spheres(arm, frames, centers[sample])


@njit(cache=True, error_model="numpy")
def pair_gaps(
    centers: FloatArray, radii: FloatArray, other_centers: FloatArray, other_radii: FloatArray, watched: NDArray[np.bool_],
    gaps: FloatArray,
) -> tuple[float, int, int]:  # fmt: skip
    """Write the distances between the surfaces of all watched pairs, m, shape ``(N, M)``; ``inf`` for the others.

    Returns:
        The smallest gap and its two spheres; ``inf`` and -1 when no pair is watched.
    """
    smallest, first, second = math.inf, -1, -1
    for i in range(centers.shape[0]):
        for j in range(other_centers.shape[0]):
            gaps[i, j] = math.inf
            if not watched[i, j]:
                continue
            dx = centers[i, 0] - other_centers[j, 0]
            dy = centers[i, 1] - other_centers[j, 1]
            dz = centers[i, 2] - other_centers[j, 2]
            gap = math.sqrt(dx * dx + dy * dy + dz * dz) - radii[i] - other_radii[j]
            gaps[i, j] = gap
            if gap < smallest:
                smallest, first, second = gap, i, j
    return smallest, first, second


@njit(cache=True, error_model="numpy")
def plan_clearance(
    centers: FloatArray,
    holding_centers: FloatArray,
    gaps: FloatArray,
    radii: FloatArray,
    other_centers: FloatArray,
    other_radii: FloatArray,
    other_speeds: FloatArray,
    sample_time: float,
    margin: float,
) -> tuple[bool, float]:
    """Say whether the plan of an action is certified, and how clear it is of the partner's worst declared motion.

    Args:
        centers: spheres along the plan, shape ``(T, N, 3)``.
        holding_centers: the same had the arm held still at once, shape ``(T, N, 3)``.
        gaps: `pair_gaps` at the start, ``inf`` for pairs that are not watched, shape ``(N, M)``.
        radii: of the arm's spheres, m, shape ``(N,)``.
        other_centers, other_radii, other_speeds: of the partner's spheres; m, m, and largest speeds in m/s.
        sample_time: between two samples, s.
        margin: clearance to keep, m.

    Returns:
        Whether it is certified, and the smallest clearance in m, from which the margin is taken off already.
    """
    n_samples, n_spheres = centers.shape[0], centers.shape[1]
    horizon = (n_samples - 1) * sample_time
    certified, worst = True, math.inf
    for i in range(n_spheres):
        travel = 0.0
        for sample in range(1, n_samples):
            travel = max(travel, _squared_distance(centers[sample, i], centers[0, i]))
        travel = math.sqrt(travel)
        for j in range(other_centers.shape[0]):
            least = gaps[i, j] - travel - other_speeds[j] * horizon - margin
            if least >= 0.0 and least >= worst:
                continue
            reach = radii[i] + other_radii[j] + margin
            for sample in range(n_samples):
                distance = math.sqrt(_squared_distance(centers[sample, i], other_centers[j]))
                clear = distance - reach - other_speeds[j] * sample_time * sample
                worst = min(worst, clear)
                if certified and not clear >= 0.0:
                    held = math.sqrt(_squared_distance(holding_centers[sample, i], other_centers[j]))
                    certified = distance >= held - _SAME_DISTANCE
    return certified, worst


@njit(cache=True, error_model="numpy")
def _squared_distance(a: FloatArray, b: FloatArray) -> float:
    dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return dx * dx + dy * dy + dz * dz
