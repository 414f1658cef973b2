r"""The braking-distance barrier of one pair and the constraint rows of many pairs, compiled.

Two spheres i and j with centres p, velocities v and radii r that can brake along their line of centres with up to
alpha together stay apart while the barrier h is not negative (Wang, Ames & Egerstedt 2017, eqs. 5-7, with the linear
class-K function gamma h and the row divided by the distance). With dp = p_i - p_j, dv = v_i - v_j, d = |dp|,
n = dp/d, c = n.dv, the gap e = d - r_i - r_j and the tangential term w = (dv.dv - c^2)/d:

    h = sqrt(2 alpha e) + c,        hdot = (alpha / sqrt(2 alpha e)) c + w + n.(a_i - a_j)

and the condition hdot + gamma h + lambda >= 0 is the row -n.a_i + n.a_j <= R. The scalar filter and the batched one
both call the functions below, so their rows are equal to the last bit. They are inlined into their callers, because
handing over many small arrays costs more than the mathematics.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from concerto.safety.api import FloatArray

__all__ = ["COINCIDENT_DISTANCE", "DEFAULT_CBF_GAMMA", "barrier_values", "pair_barrier", "write_constraint_rows"]

DEFAULT_CBF_GAMMA = 5.0
"""Rate at which the barrier may decay, 1/s."""

COINCIDENT_DISTANCE = 1e-9
"""Centres closer than this, m, have no direction: +x is taken."""
_COINCIDENT_RIGHT_HAND_SIDE = -1e3
_APPROACH_SPEED_FLOOR = 1e-3
"""Floor of sqrt(2 alpha e), m/s: keeps alpha / sqrt(2 alpha e) finite at contact."""


@njit(cache=True, error_model="numpy", inline="always")
def pair_barrier(
    position_i: FloatArray,
    velocity_i: FloatArray,
    position_j: FloatArray,
    velocity_j: FloatArray,
    safety_distance: float,
    alpha: float,
    gamma: float,
    slack: float,
    overlap_depth: bool,
    normal: FloatArray,
) -> tuple[float, float]:
    """Give the barrier h (m/s) and the right-hand side R (m/s^2) of one pair; write n into ``normal``.

    Cases: centres that coincide get h = -D and a right-hand side no robot can meet; overlapping spheres get h = c,
    whatever their depth; spheres apart get the formulas of the module. With ``overlap_depth`` the first two are one:
    h = c - sqrt(-2 alpha e), continuous at contact, so that a deeper overlap asks for a faster separation; its
    derivative is the one of spheres apart.
    """
    squared_distance = 0.0
    squared_speed = 0.0
    for k in range(normal.shape[0]):
        dp = position_i[k] - position_j[k]
        dv = velocity_i[k] - velocity_j[k]
        normal[k] = dp
        squared_distance += dp * dp
        squared_speed += dv * dv
    distance = math.sqrt(squared_distance)
    is_coincident = distance < COINCIDENT_DISTANCE
    if is_coincident:
        normal[:] = 0.0
        normal[0] = 1.0
        if not overlap_depth:
            return -safety_distance, _COINCIDENT_RIGHT_HAND_SIDE + slack
    closing = 0.0
    for k in range(normal.shape[0]):
        if not is_coincident:
            normal[k] /= distance
        closing += normal[k] * (velocity_i[k] - velocity_j[k])
    tangential = 0.0 if is_coincident else (squared_speed - closing * closing) / distance
    gap = distance - safety_distance
    if gap <= 0.0 and not overlap_depth:
        return closing, tangential + gamma * closing + slack
    stopping_speed = math.sqrt(2.0 * alpha * abs(gap))
    approach_speed = max(stopping_speed, _APPROACH_SPEED_FLOOR)
    h = closing + (approach_speed if gap > 0.0 else -stopping_speed)
    return h, (alpha / approach_speed) * closing + tangential + gamma * h + slack


@njit(cache=True, error_model="numpy", inline="always")
def write_constraint_rows(
    positions: FloatArray,
    velocities: FloatArray,
    radii: FloatArray,
    capacities: FloatArray,
    jacobians: FloatArray,
    drifts: FloatArray,
    slots: NDArray[np.int64],
    action_dims: NDArray[np.int64],
    pairs: NDArray[np.int64],
    slacks: FloatArray,
    gamma: float,
    overlap_depth: bool,
    normal: FloatArray,
    violation: FloatArray,
    rows: FloatArray,
    right: FloatArray,
) -> bool:
    """Write violations, rows and right-hand sides of all pairs in the space of the stacked actions.

    The acceleration of body k is ``jacobians[k] @ u[slots[k] : slots[k] + action_dims[k]] + drifts[k]``; a body whose
    action is not decided here has ``action_dims[k] == 0``, and its drift is its forecast acceleration.

    Args:
        positions: centres, m, shape ``(n, d)``.
        velocities: velocities, m/s, shape ``(n, d)``.
        radii: radii, m, shape ``(n,)``.
        capacities: braking each body contributes to its pairs, m/s^2, shape ``(n,)``.
        jacobians: accelerations per unit action, shape ``(n, d, m)``; columns beyond the body's own are ignored.
        drifts: accelerations at zero action, m/s^2, shape ``(n, d)``.
        slots: first component of each body in the stacked action, shape ``(n,)``.
        action_dims: number of components of each body, shape ``(n,)``.
        pairs: body indices i, j of every row, shape ``(p, 2)``.
        slacks: lambda of every row, m/s^2, shape ``(p,)``.
        gamma: rate of the barrier, 1/s.
        overlap_depth: see `pair_barrier`.
        normal: scratch, shape ``(d,)``.
        violation: ``max(0, -h)`` of every row, m/s, shape ``(p,)``; written.
        rows: A of ``A u <= b``, shape ``(p, n_actions)``; written.
        right: b, shape ``(p,)``; written.

    Returns:
        Whether all rows are finite; finite but absurd input overflows.
    """
    rows[:, :] = 0.0
    is_finite = True
    for row in range(pairs.shape[0]):
        i = pairs[row, 0]
        j = pairs[row, 1]
        h, bound = pair_barrier(
            positions[i],
            velocities[i],
            positions[j],
            velocities[j],
            float(radii[i] + radii[j]),
            float(capacities[i] + capacities[j]),
            gamma,
            slacks[row],
            overlap_depth,
            normal,
        )
        for k in range(normal.shape[0]):
            for column in range(action_dims[i]):
                rows[row, slots[i] + column] -= normal[k] * jacobians[i, k, column]
            for column in range(action_dims[j]):
                rows[row, slots[j] + column] += normal[k] * jacobians[j, k, column]
            bound += normal[k] * (drifts[i, k] - drifts[j, k])
        violation[row] = max(0.0, -h)
        right[row] = bound
        is_finite = is_finite and math.isfinite(bound)
        for column in range(rows.shape[1]):
            is_finite = is_finite and math.isfinite(rows[row, column])
    return is_finite


@njit(cache=True, error_model="numpy")
def barrier_values(
    packed: FloatArray, radii: FloatArray, pairs: NDArray[np.int64], alphas: FloatArray, overlap_depth: bool
) -> FloatArray:
    """Give the barrier h of many pairs, m/s, shape ``(p,)``.

    Args:
        packed: n positions followed by n velocities, shape ``(2 n, d)``.
        radii: m, shape ``(n,)``.
        pairs: body indices of every pair, shape ``(p, 2)``.
        alphas: braking of every pair, m/s^2, shape ``(p,)``.
        overlap_depth: see `pair_barrier`.
    """
    n = radii.shape[0]
    positions = packed[:n]
    velocities = packed[n:]
    h = np.empty(pairs.shape[0])
    normal = np.empty(packed.shape[1])
    for row in range(pairs.shape[0]):
        i = pairs[row, 0]
        j = pairs[row, 1]
        h[row], _ = pair_barrier(
            positions[i],
            velocities[i],
            positions[j],
            velocities[j],
            float(radii[i] + radii[j]),
            float(alphas[row]),
            0.0,
            0.0,
            overlap_depth,
            normal,
        )
    return h
