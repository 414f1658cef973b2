r"""Can the arm still stop before the partner's worst declared motion? The question behind every answer of `ArmSafety`.

It carries the idea of `concerto.safety.stopping` from one sphere on a free path to two arms made of spheres:

* The *plan* of an action is to apply it for one control step and to hold still from then on (zero displacements: every
  step aims at the joint positions measured at its start). Where that takes the joints is predicted by the mass matrix
  and the drive (`chamber.arm_safety._kernels.predict_path`); the joints are at rest well within the horizon.
* A sphere of the partner at p whose speed stays below s is, after the time t, inside the ball around p of radius
  :math:`s t`.
* An action is *certified* when, at every time t of its plan, every pair of spheres is clear of these balls by at least
  the margin, or at least as far apart as it would be had the arm held still at once.

The balls of the next step, taken from wherever the partner went, lie inside the balls of this step, and holding still
is what the plan goes on with. So an arm that holds still whenever no better action is certified stays clear as long
as it follows its predicted path to within the margin.

The second half of the condition matters when the partner has come so near that holding still does not promise anything
any more. The arm may then give way, and giving way with one link brings others a little nearer to the partner. Such an
*evading* plan is certified too, when

* the smallest worst-case clearance of all pairs is at no time of it smaller than that of holding still, and
* every pair that comes nearer than it would by holding still, and is not clear, is clear of the partner as it moves
  now: of the ball around ``p + v t`` with radius ``EVADING_RESERVE_MS t``, v measured; or further from ``p + v t`` than
  by holding still.

So a pair that is too near excuses no other: no link is driven at a partner that goes on as it does.

Times are looked at every fifth of a control step. In between a sphere moves nearly straight, so on its way past
another one, over a length l at a distance d of the centres, it comes at most ``l^2 / (8 d)`` nearer than at both ends:
under 0.5 mm at the speeds that actions reach, which the margin has to hold beside the tracking error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety._kernels import ArmArrays, place_frames, place_spheres

__all__ = ["EVADING_RESERVE_MS", "PartnerSpheres", "certify", "pair_gaps", "sphere_paths"]

FloatArray = NDArray[np.float64]

EVADING_RESERVE_MS = 0.1
"""Change of the partner's velocity that a plan which gives way reckons with, m/s."""

_SAME_DISTANCE = 1e-9
"""Distances that differ by less are equal, m."""


class PartnerSpheres(NamedTuple):
    """The spheres of the partner as measured, and what is declared of them.

    Attributes:
        centers: m, shape ``(M, 3)``.
        radii: m, shape ``(M,)``.
        velocities: measured, m/s, shape ``(M, 3)``.
        max_speeds: declared, m/s, shape ``(M,)``.
    """

    centers: FloatArray
    radii: FloatArray
    velocities: FloatArray
    max_speeds: FloatArray


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
    partner: PartnerSpheres,
    sample_time: float,
    margin: float,
    clearances: FloatArray,
    holding_clearances: FloatArray,
) -> tuple[bool, float]:
    """Say whether a plan is certified, and how clear it is of the partner's worst declared motion.

    Args:
        centers: spheres along the plan, shape ``(T, N, 3)``.
        holding: spheres along the plan of holding still at once, shape ``(T, N, 3)``.
        gaps: `pair_gaps` at the start, ``inf`` for pairs that are not watched, shape ``(N, M)``.
        radii: of the arm's spheres, m, shape ``(N,)``.
        partner: its spheres.
        sample_time: between two samples, s.
        margin: taken off every clearance, m.
        clearances: written: the smallest clearance at every sample, m, 0.0 where none is negative, shape ``(T,)``.
        holding_clearances: the same of the plan of holding still; of that plan itself they are not looked at.

    Returns:
        Whether it is certified, never of a plan that is not finite; and the smallest clearance of any pair at any
        sample, m, ``inf`` when no pair is watched.
    """
    n_samples, n_spheres = centers.shape[0], centers.shape[1]
    horizon = (n_samples - 1) * sample_time
    is_clear_of_likely, evades = True, False
    worst = math.inf
    clearances[:] = 0.0
    for i in range(n_spheres):
        travel = 0.0
        for sample in range(1, n_samples):
            # A sphere is never further away than its path is long; a sum hands on what is not a number.
            travel += math.sqrt(_squared_distance(centers[sample, i], centers[sample - 1, i]))
        for j in range(partner.centers.shape[0]):
            least = gaps[i, j] - travel - partner.max_speeds[j] * horizon - margin
            if least >= 0.0 and least >= worst:
                continue
            reach = radii[i] + partner.radii[j] + margin
            for sample in range(n_samples):
                time = sample_time * sample
                distance = math.sqrt(_squared_distance(centers[sample, i], partner.centers[j]))
                clear = distance - reach - partner.max_speeds[j] * time
                worst = min(worst, clear)
                clearances[sample] = min(clearances[sample], clear)
                if clear >= -_SAME_DISTANCE:
                    continue
                held = math.sqrt(_squared_distance(holding[sample, i], partner.centers[j]))
                if not distance >= held - _SAME_DISTANCE:
                    evades = True
                    is_clear_of_likely &= _is_clear_of_likely(
                        centers[sample, i], holding[sample, i], partner.centers[j], partner.velocities[j], time, reach
                    )
    if not evades:
        return True, worst
    return is_clear_of_likely and bool(np.all(clearances >= holding_clearances - _SAME_DISTANCE)), worst


@njit(cache=True, error_model="numpy")
def _is_clear_of_likely(
    planned: FloatArray, held: FloatArray, partner: FloatArray, velocity: FloatArray, time: float, reach: float
) -> bool:
    """Say whether a sphere is clear of a partner that goes on as it moves now, or no nearer than by holding still."""
    squared, squared_held = 0.0, 0.0
    for k in range(3):
        ahead = partner[k] + velocity[k] * time
        squared += (planned[k] - ahead) ** 2
        squared_held += (held[k] - ahead) ** 2
    distance = math.sqrt(squared)
    return distance >= reach + EVADING_RESERVE_MS * time or distance >= math.sqrt(squared_held) - _SAME_DISTANCE


@njit(cache=True, error_model="numpy")
def _squared_distance(a: FloatArray, b: FloatArray) -> float:
    dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    return dx * dx + dy * dy + dz * dz
