r"""Can the arm still stop before the partner's worst declared motion? The question behind every answer of `ArmSafety`.

It carries the idea of `concerto.safety.stopping` from one sphere on a free path to two arms made of spheres:

* The *plan* of an action is to apply it for one control step and to hold still from then on (zero displacements: every
  step aims at the joint positions measured at its start). Where that takes the joints is predicted by the mass matrix
  and the drive (`chamber.arm_safety._kernels.predict_path`); the joints are at rest well within the horizon.
* A sphere of the partner at p whose speed stays below s is, after the time t, inside the ball around p of radius
  :math:`s t`.
* An action is *certified* when, at every time t of its plan, the smallest clearance of any pair of spheres from these
  balls is at least the margin, or at least what it would be had the arm held still at once; and the same holds of the
  smallest distance to the partner where it is now.

The balls of the next step, taken from wherever the partner went, lie inside the balls of this step, and holding still
is what the plan goes on with. So an arm that holds still whenever no better action is certified stays clear as long
as it follows its predicted path to within the margin. The second half of the condition matters when the partner has
come so near that holding still does not promise anything any more: the arm may then get away, on plans that are
nowhere nearer than holding still would be.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety._kernels import ArmArrays, place_frames, place_spheres

__all__ = ["is_certified", "pair_gaps", "plan_clearance", "sphere_paths"]

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
    centers: FloatArray,
    radii: FloatArray,
    other_centers: FloatArray,
    other_radii: FloatArray,
    watched: NDArray[np.bool_],
    gaps: FloatArray,
) -> tuple[float, int, int]:
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
    gaps: FloatArray,
    radii: FloatArray,
    other_centers: FloatArray,
    other_radii: FloatArray,
    other_speeds: FloatArray,
    sample_time: float,
    margin: float,
    clearances: FloatArray,
) -> float:
    """Write how clear a plan is of the partner, at each of its samples, and give its smallest clearance.

    Args:
        centers: spheres along the plan, shape ``(T, N, 3)``.
        gaps: `pair_gaps` at the start, ``inf`` for pairs that are not watched, shape ``(N, M)``.
        radii: of the arm's spheres, m, shape ``(N,)``.
        other_centers: spheres of the partner, m, shape ``(M, 3)``.
        other_radii: m, shape ``(M,)``.
        other_speeds: their largest speeds, m/s, shape ``(M,)``.
        sample_time: between two samples, s.
        margin: taken off every clearance, m.
        clearances: written, shape ``(2, T)``: the smallest clearance from the partner's worst declared motion, and from
            the partner where it is now; 0.0 where none is negative, m.

    Returns:
        The smallest clearance from the worst declared motion, m; ``inf`` when no pair is watched.
    """
    n_samples, n_spheres = centers.shape[0], centers.shape[1]
    horizon = (n_samples - 1) * sample_time
    clearances[:] = 0.0
    worst = math.inf
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
                now = math.sqrt(_squared_distance(centers[sample, i], other_centers[j])) - reach
                clear = now - other_speeds[j] * sample_time * sample
                worst = min(worst, clear)
                clearances[0, sample] = min(clearances[0, sample], clear)
                clearances[1, sample] = min(clearances[1, sample], now)
    return worst


@njit(cache=True, error_model="numpy")
def is_certified(clearances: FloatArray, holding: FloatArray) -> bool:
    """Say whether a plan is nowhere less clear than holding still, or clear; see `plan_clearance` for both arrays."""
    for kind in range(clearances.shape[0]):
        for sample in range(clearances.shape[1]):
            if not clearances[kind, sample] >= holding[kind, sample] - _SAME_DISTANCE:
                return False
    return True


@njit(cache=True, error_model="numpy")
def _squared_distance(a: FloatArray, b: FloatArray) -> float:
    dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return dx * dx + dy * dy + dz * dz
