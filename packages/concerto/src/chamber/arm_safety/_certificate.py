r"""Can the arm still stop before the partner's worst declared motion? The question behind every answer of `ArmSafety`.

It carries the idea of `concerto.safety.stopping` from one sphere on a free path to two arms made of spheres:

* The *plan* of an action is to apply it for one control step and to hold still from then on (zero displacements: every
  step aims at the joint positions measured at its start). Where that takes the joints is predicted by the mass matrix
  and the drive (`chamber.arm_safety._kernels.predict_path`); the joints are at rest well within the horizon.
* A sphere of the partner at p whose speed stays below s is, after the time t, inside the ball around p of radius
  :math:`s t`.
* An action is *certified* when, at every time t of its plan, every pair of spheres is clear of these balls by at least
  the margin, or at least as clear as it would be had the arm held still at once.

The balls of the next step, taken from wherever the partner went, lie inside the balls of this step, and holding still
is what the plan goes on with. So an arm that holds still whenever no better action is certified stays clear as long
as it follows its predicted path to within the margin. The second half of the condition matters when the partner has
come so near that holding still does not promise anything any more: the arm may then get away, on plans that bring no
pair nearer than holding still would. It says *every* pair, because the smallest of all clearances would be blind to
an elbow that swings at the partner while its hand already touches the shoulder.

Times are looked at every fifth of a control step. In between a sphere moves nearly straight, so on its way past
another one, over a length l at a distance d of the centres, it comes at most ``l^2 / (8 d)`` nearer than at both ends:
under 0.5 mm at the speeds that actions reach, which the margin has to hold beside the tracking error.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety._kernels import ArmArrays, place_frames, place_spheres

__all__ = ["certify", "pair_gaps", "sphere_paths"]

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
def certify(
    centers: FloatArray,
    holding: FloatArray,
    gaps: FloatArray,
    radii: FloatArray,
    other_centers: FloatArray,
    other_radii: FloatArray,
    other_speeds: FloatArray,
    sample_time: float,
    margin: float,
) -> tuple[bool, float]:
    """Say whether a plan is certified, and how clear it is of the partner's worst declared motion.

    Args:
        centers: spheres along the plan, shape ``(T, N, 3)``.
        holding: spheres along the plan of holding still at once, shape ``(T, N, 3)``.
        gaps: `pair_gaps` at the start, ``inf`` for pairs that are not watched, shape ``(N, M)``.
        radii: of the arm's spheres, m, shape ``(N,)``.
        other_centers: spheres of the partner, m, shape ``(M, 3)``.
        other_radii: m, shape ``(M,)``.
        other_speeds: their largest speeds, m/s, shape ``(M,)``.
        sample_time: between two samples, s.
        margin: taken off every clearance, m.

    Returns:
        Whether it is certified, never of a plan that is not finite; and the smallest clearance of any pair at any
        sample, m, ``inf`` when no pair is watched.
    """
    n_samples, n_spheres = centers.shape[0], centers.shape[1]
    horizon = (n_samples - 1) * sample_time
    certified = True
    worst = math.inf
    for i in range(n_spheres):
        travel = 0.0
        for sample in range(1, n_samples):
            # A sphere is never further away than its path is long; a sum hands on what is not a number.
            travel += math.sqrt(_squared_distance(centers[sample, i], centers[sample - 1, i]))
        for j in range(other_centers.shape[0]):
            least = gaps[i, j] - travel - other_speeds[j] * horizon - margin
            if least >= 0.0 and least >= worst:
                continue
            reach = radii[i] + other_radii[j] + margin
            for sample in range(n_samples):
                grown = reach + other_speeds[j] * sample_time * sample
                clear = math.sqrt(_squared_distance(centers[sample, i], other_centers[j])) - grown
                worst = min(worst, clear)
                if clear >= -_SAME_DISTANCE:
                    continue
                held = math.sqrt(_squared_distance(holding[sample, i], other_centers[j])) - grown
                if not clear >= held - _SAME_DISTANCE:
                    certified = False
    return certified, worst


@njit(cache=True, error_model="numpy")
def _squared_distance(a: FloatArray, b: FloatArray) -> float:
    dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return dx * dx + dy * dy + dz * dz
