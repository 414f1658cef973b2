"""One decision of the safety stack, compiled: project, certify, or brake.

The order of the questions:

1. Does the nominal action satisfy every barrier row and the box? Then it is the candidate, bit for bit.
2. Otherwise: which action nearest to it does? The candidate is the projection; without one, the largest push along
   the violated rows.
3. Would the ego, after the candidate, still drive into a partner within ``tau_brake`` at constant velocities? Then
   brake.
4. Is the stopping plan of the candidate certified (`concerto.safety.stopping`)? Then apply it. Otherwise apply the
   certified mix of candidate and braking that is nearest to the candidate, or brake.

Every number that cannot be used (overflow of finite but absurd input) leads to braking.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from concerto.safety._active_set import float_scratch_shape, int_scratch_length, project_onto_rows
from concerto.safety._barrier import pair_barrier
from concerto.safety._projection import OPTIMAL, nominal_is_feasible, project_onto_row
from concerto.safety.api import FloatArray
from concerto.safety.stopping import (
    EgoBrakes,
    WorstMotions,
    braking_limit_along,
    plan_clearance,
    planned_deceleration,
)

__all__ = [
    "BAD_INPUT",
    "BRAKING",
    "FALLBACK",
    "PASS_THROUGH",
    "QP",
    "AnswerLayout",
    "EgoSettings",
    "answer",
    "answer_layout",
    "pack_settings",
]

PASS_THROUGH, QP, BRAKING, FALLBACK = 0, 1, 2, 3
BAD_INPUT = -1
"""A number of the state is not finite, or a radius is negative."""

_MIX_HALVINGS = 5
"""Steps of the search between braking and the candidate: the mix is at most 1/32 away from the best one."""


# --- one control step in one call ---------------------------------------------------------------------------------
#
# To hand an array to compiled code costs more than what the code does with it, so `answer` takes few and long ones.

_N_HEAD = 2
"""The clearance of the stopping plan and its deceleration come first in an answer."""
_N_SCALARS = 10
"""Numbers at the beginning of the settings."""


class AnswerLayout(NamedTuple):
    """Where an answer of `answer` holds what, for n partners.

    Attributes:
        margin: clearance of the stopping plan, m.
        planned: deceleration of the stopping plan, m/s^2.
        nominal: wanted action.
        filtered: candidate before any braking.
        barriers: per partner, m/s.
        gaps: per partner, m.
        slacks: per partner, m/s^2.
        losses: per partner; undefined without a past.
        length: of the whole. What is not named is the forecast of positions, then of velocities.
    """

    margin: int
    planned: int
    nominal: slice
    filtered: slice
    barriers: slice
    gaps: slice
    slacks: slice
    losses: slice
    length: int


def answer_layout(n_partners: int, n_actions: int, dim: int) -> AnswerLayout:
    """Give the layout; `answer` reads and writes by the same arithmetic."""
    n, m, start = n_partners, n_actions, _N_HEAD + 2 * n_actions
    barriers, gaps, slacks, losses = (slice(start + k * n, start + (k + 1) * n) for k in range(4))
    nominal, filtered = slice(_N_HEAD, _N_HEAD + m), slice(_N_HEAD + m, start)
    return AnswerLayout(0, 1, nominal, filtered, barriers, gaps, slacks, losses, start + 4 * n + 2 * n * dim)


class EgoSettings(NamedTuple):
    """What `answer` must know of the ego.

    Attributes:
        maps: row by row, d numbers each: the Jacobian transposed (m rows), `EgoBrakes.action_from_accel` (m),
            `EgoBrakes.offset_from_velocity` (m), `EgoBrakes.missed` (d), the acceleration at zero action (1).
        numbers: settings, limits and switches, then `EgoBrakes.offset_at_rest`; the declarations of the partners are to
            follow.
    """

    maps: FloatArray
    numbers: FloatArray


def pack_settings(
    *,
    gamma: float,
    tau_brake: float,
    dt: float,
    eta: float,
    slack_bound: float,
    jacobian: FloatArray,
    drift: FloatArray,
    brakes: EgoBrakes,
    is_velocity_command: bool,
) -> EgoSettings:
    """Put together what `answer` must know of the ego.

    Args:
        gamma: rate of the barrier, 1/s.
        tau_brake: time to collision below which the ego brakes, s.
        dt: control period, s.
        eta: learning rate of the slack.
        slack_bound: largest absolute slack, m/s^2.
        jacobian: ego acceleration per unit action, shape ``(d, m)``.
        drift: ego acceleration at zero action, m/s^2, shape ``(d,)``.
        brakes: of the ego.
        is_velocity_command: the acceleration at zero action is ``-v/dt`` in place of ``drift``.
    """
    numbers = (
        gamma, tau_brake, dt, eta, slack_bound, brakes.capacity, brakes.action_limit, brakes.is_immediate, brakes.holds,
        is_velocity_command, *brakes.offset_at_rest.tolist(),
    )  # fmt: skip
    maps = jacobian.T, brakes.action_from_accel, brakes.offset_from_velocity, brakes.missed, drift[np.newaxis]
    return EgoSettings(np.concatenate(maps, dtype=np.float64), np.array(numbers, dtype=np.float64))


@njit(cache=True, error_model="numpy")
def answer(  # noqa: PLR0912, PLR0915 - to hand on as many arrays as a half of it needs costs more than they take
    scene: FloatArray,
    maps: FloatArray,
    numbers: FloatArray,
    memory: FloatArray,
    has_past: bool,
    target: float,
    action: FloatArray,
    out: FloatArray,
) -> int:
    """Check the state, learn from the last forecast, and decide: one whole control step.

    Args:
        scene: wanted action (m), then radius (m), position (m) and velocity (m/s) of the ego and of every partner, and,
            if they are not to be forecast by constant velocity, positions of the partners one control period ahead,
            then their velocities; shape ``(m + (n + 1) (1 + 2 d) [+ 2 n d],)``.
        maps: see `EgoSettings`.
        numbers: see `EgoSettings`, followed by the partners' largest accelerations (m/s^2) and speeds (m/s), and the
            braking of each pair that the barrier counts on (m/s^2), each of shape ``(n,)``.
        memory: answer of the step before, see `AnswerLayout`; without a past only slacks and deceleration count.
        has_past: whether the forecast in ``memory`` was made for this step.
        target: value the mean conformal loss is driven to.
        action: output, the action to apply, shape ``(m,)``.
        out: output, see `AnswerLayout`.

    Returns:
        The source code of the action; or `BAD_INPUT`, and nothing has been written.
    """
    m, d = action.shape[0], maps.shape[1]
    n = (out.shape[0] - _N_HEAD - 2 * m) // (4 + 2 * d)
    width = 1 + 2 * d  # of a body
    end = m + (n + 1) * width
    for i in range(scene.shape[0]):
        if not math.isfinite(scene[i]):
            return BAD_INPUT
    for i in range(m, end, width):
        if scene[i] < 0.0:
            return BAD_INPUT
    nominal = out[_N_HEAD : _N_HEAD + m]
    for k in range(m):
        nominal[k] = scene[k]
    of_space = np.empty((2 * n + 5, d))
    bodies = of_space[: 2 * n + 2]
    positions, velocities = bodies[: n + 1], bodies[n + 1 :]
    for i in range(n + 1):
        for k in range(d):
            positions[i, k] = scene[m + i * width + 1 + k]
            velocities[i, k] = scene[m + i * width + 1 + d + k]
    dt = numbers[2]
    _write_forecast(bodies, scene[end:], dt, out[_N_HEAD + 2 * m + 4 * n :])

    of_actions = np.empty((n + 3, m))
    rows, brake = of_actions[:n], of_actions[n]
    accel = of_space[2 * n + 2]
    of_partners = np.empty((2, n))
    distances, right = of_partners[0], of_partners[1]
    for i in range(n):
        distances[i] = scene[m] + scene[m + (1 + i) * width]
    drift = maps[3 * m + d]
    if numbers[9] != 0.0:
        drift = of_space[2 * n + 3]
        for k in range(d):
            drift[k] = -velocities[0, k] / dt
    jacobian = maps[:m]
    start = _N_SCALARS + m  # of what is declared
    are_finite = _learn_and_write_rows(
        positions, velocities, distances, jacobian, drift, numbers, numbers[start + 2 * n :], memory, has_past, target,
        out, rows, right, of_space[2 * n + 4],
    )  # fmt: skip

    brakes = EgoBrakes(
        maps[m : 2 * m], numbers[_N_SCALARS:start], maps[2 * m : 3 * m], maps[3 * m : 3 * m + d], numbers[5],
        numbers[6], numbers[7] != 0.0, numbers[8] != 0.0,
    )  # fmt: skip
    partners = WorstMotions(
        positions[1:], velocities[1:], distances, numbers[start : start + n], numbers[start + n : start + 2 * n]
    )
    brakes = _brakes_to_use(positions[0], velocities[0], jacobian, drift, brakes, memory[1], dt, partners)
    filtered = out[_N_HEAD + m : _N_HEAD + 2 * m]
    source = FALLBACK
    if are_finite:
        source = _filter(nominal, rows, right, brakes.action_limit, of_actions[n + 1 :], filtered)
        for k in range(m):
            are_finite = are_finite and math.isfinite(filtered[k])
    if not are_finite:
        _braking_action(velocities[0], brakes, dt, filtered)
    for k in range(m):
        action[k] = filtered[k]

    _write_acceleration(jacobian, action, drift, accel)
    share = 0.0  # of the candidate in the mix with braking
    if not _drives_into_somebody(positions, velocities, accel, distances, numbers[1], dt):
        clearance = plan_clearance(positions[0], velocities[0], accel, dt, brakes, partners)
        if clearance >= 0.0:
            out[0] = clearance
            out[1] = planned_deceleration(velocities[0], accel, dt, brakes)
            return source
        _braking_action(velocities[0], brakes, dt, brake)
        step = 1.0
        for _ in range(_MIX_HALVINGS):
            step *= 0.5
            _mix(brake, filtered, share + step, brakes.action_limit, action)
            _write_acceleration(jacobian, action, drift, accel)
            if plan_clearance(positions[0], velocities[0], accel, dt, brakes, partners) >= 0.0:
                share += step
    else:
        _braking_action(velocities[0], brakes, dt, brake)
    _mix(brake, filtered, share, brakes.action_limit, action)
    _write_acceleration(jacobian, action, drift, accel)
    out[0] = plan_clearance(positions[0], velocities[0], accel, dt, brakes, partners)
    out[1] = planned_deceleration(velocities[0], accel, dt, brakes)
    return FALLBACK if source == FALLBACK else BRAKING


# --- what it consists of ----------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def _write_forecast(bodies: FloatArray, given: FloatArray, dt: float, out: FloatArray) -> None:
    """Write positions and velocities of the partners one control period ahead: what is given, or constant velocity."""
    for j in range(given.shape[0]):
        out[j] = given[j]
    if given.shape[0] > 0:
        return
    n, d = bodies.shape[0] // 2 - 1, bodies.shape[1]
    for i in range(n):
        for k in range(d):
            velocity = bodies[n + 2 + i, k]
            out[i * d + k] = bodies[1 + i, k] + dt * velocity
            out[(n + i) * d + k] = velocity


@njit(cache=True, error_model="numpy")
def _learn_and_write_rows(
    positions: FloatArray,
    velocities: FloatArray,
    distances: FloatArray,
    jacobian: FloatArray,
    drift: FloatArray,
    numbers: FloatArray,
    alphas: FloatArray,
    memory: FloatArray,
    has_past: bool,
    target: float,
    out: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    normal: FloatArray,
) -> bool:
    """Update every slack, and write barriers, gaps and the constraint rows that follow from it.

    A slack moves by the signed bounded loss, `concerto.safety.conformal.compute_signed_loss` with the ego's true state,
    and stays within its bound.

    Args:
        positions: ego first, m, shape ``(n + 1, d)``.
        velocities: the same order, m/s, shape ``(n + 1, d)``.
        distances: sums of the radii of ego and partner, m, shape ``(n,)``.
        jacobian: ego acceleration per unit action, transposed, shape ``(m, d)``.
        drift: ego acceleration at zero action, m/s^2, shape ``(d,)``.
        numbers: see `answer`.
        alphas: braking of each pair that the barrier counts on, m/s^2, shape ``(n,)``.
        memory: see `answer`.
        has_past: see `answer`.
        target: see `answer`.
        out: see `answer`; the forecast is there already.
        rows: output, A of ``A u <= b``, shape ``(n, m)``.
        right: output, b, shape ``(n,)``.
        normal: scratch, shape ``(d,)``.

    Returns:
        Whether all rows are finite.
    """
    (n, d), m = velocities[1:].shape, jacobian.shape[0]
    gamma, dt, eta, bound = numbers[0], numbers[2], numbers[3], numbers[4]
    barriers = _N_HEAD + 2 * m
    gaps, slacks, losses, places = barriers + n, barriers + 2 * n, barriers + 3 * n, barriers + 4 * n
    speeds = places + n * d
    are_finite = True
    for i in range(n):
        slack = memory[slacks + i]
        barrier = expected = 0.0
        if has_past:
            place, speed = places + i * d, speeds + i * d
            expected, _ = pair_barrier(
                positions[0], velocities[0], memory[place : place + d], memory[speed : speed + d], distances[i],
                alphas[i], 0.0, 0.0, True, normal,
            )  # fmt: skip
        barrier, bound_of_row = pair_barrier(
            positions[0], velocities[0], positions[i + 1], velocities[i + 1], distances[i], alphas[i], gamma, 0.0, True,
            normal,
        )  # fmt: skip
        if has_past:
            loss = math.atan(slack + (expected - barrier) / dt) / math.pi
            if math.isnan(loss):
                loss = 0.5  # absurd numbers count as the worst surprise
            slack = min(max(slack + eta * (target - loss), -bound), bound)
            out[losses + i] = loss
        out[slacks + i] = slack
        out[barriers + i] = barrier
        bound_of_row += slack
        squared_distance = 0.0
        for k in range(d):
            offset = positions[0, k] - positions[i + 1, k]
            squared_distance += offset * offset
            bound_of_row += normal[k] * (drift[k] - (out[speeds + i * d + k] - velocities[i + 1, k]) / dt)
        out[gaps + i] = math.sqrt(squared_distance) - distances[i]
        right[i] = bound_of_row
        are_finite = are_finite and math.isfinite(bound_of_row)
        for column in range(m):
            entry = 0.0
            for k in range(d):
                entry -= normal[k] * jacobian[column, k]
            rows[i, column] = entry
            are_finite = are_finite and math.isfinite(entry)
    return are_finite


@njit(cache=True, error_model="numpy")
def _brakes_to_use(
    position: FloatArray,
    velocity: FloatArray,
    jacobian: FloatArray,
    drift: FloatArray,
    brakes: EgoBrakes,
    planned: float,
    dt: float,
    partners: WorstMotions,
) -> EgoBrakes:
    """Give the brakes, or those of the last stopping plan where braking harder than planned is what is not certified.

    Drag that helps less and less, say, leaves more to brake with at a lower speed. But an ego that leaves the way of a
    partner stays in it when it brakes harder than it planned.
    """
    if brakes.is_immediate or not 0.0 < planned < math.inf or not _has_entry(brakes.offset_from_velocity):
        return brakes  # without an offset that follows the velocity the limit is the same all the way
    action = np.empty(jacobian.shape[0])
    accel = np.empty(drift.shape[0])
    _braking_action(velocity, brakes, dt, action)
    _write_acceleration(jacobian, action, drift, accel)
    hard = plan_clearance(position, velocity, accel, dt, brakes, partners)
    if hard >= 0.0:
        return brakes
    weaker = EgoBrakes(
        brakes.action_from_accel,
        brakes.offset_at_rest,
        brakes.offset_from_velocity,
        brakes.missed,
        planned,
        brakes.action_limit,
        brakes.is_immediate,
        brakes.holds,
    )
    _braking_action(velocity, weaker, dt, action)
    _write_acceleration(jacobian, action, drift, accel)
    return weaker if plan_clearance(position, velocity, accel, dt, weaker, partners) > hard else brakes


@njit(cache=True, error_model="numpy")
def _has_entry(matrix: FloatArray) -> bool:
    """Whether an entry is not zero."""
    for i in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            if matrix[i, k] != 0.0:
                return True
    return False


@njit(cache=True, error_model="numpy")
def _mix(brake: FloatArray, candidate: FloatArray, share: float, action_limit: float, out: FloatArray) -> None:
    """Write ``(1 - share) brake + share candidate``; the sum may round past the limit, the answer may not."""
    for k in range(out.shape[0]):
        out[k] = min(max(brake[k] + share * (candidate[k] - brake[k]), -action_limit), action_limit)


@njit(cache=True, error_model="numpy")
def _write_acceleration(jacobian: FloatArray, action: FloatArray, drift: FloatArray, out: FloatArray) -> None:
    """Write ``J u + a0``; the Jacobian is transposed, shape ``(m, d)``."""
    for k in range(out.shape[0]):
        total = drift[k]
        for column in range(action.shape[0]):
            total += jacobian[column, k] * action[column]
        out[k] = total


@njit(cache=True, error_model="numpy")
def _filter(
    nominal: FloatArray, rows: FloatArray, right: FloatArray, action_limit: float, limits: FloatArray, out: FloatArray
) -> int:
    """Write the nearest action that satisfies the rows and the box, or the push along the violated rows.

    The array ``limits`` is scratch, shape ``(2, m)``.
    """
    n_rows, n_actions = rows.shape
    lower, upper = limits[0], limits[1]
    for k in range(n_actions):
        lower[k], upper[k] = -action_limit, action_limit
        out[k] = nominal[k]
    if nominal_is_feasible(nominal, rows, right, lower, upper):
        return PASS_THROUGH
    for k in range(n_actions):
        out[k] = min(max(nominal[k], lower[k]), upper[k])
    if n_rows == 0:
        return QP
    if n_rows == 1:
        status = project_onto_row(nominal, rows[0], right[0], lower, upper, out)
    else:
        multipliers = np.empty(n_rows + 2 * n_actions)
        norms = np.empty(n_rows)
        floats = np.empty(float_scratch_shape(n_actions))
        integers = np.empty(int_scratch_length(n_actions, n_rows), dtype=np.int64)
        status = project_onto_rows(nominal, rows, right, lower, upper, out, multipliers, norms, floats, integers)
    if status == OPTIMAL:
        for k in range(n_actions):
            out[k] = min(max(out[k], lower[k]), upper[k])
        return QP
    _push(nominal, rows, right, action_limit, out)
    return FALLBACK


@njit(cache=True, error_model="numpy")
def _push(nominal: FloatArray, rows: FloatArray, right: FloatArray, action_limit: float, out: FloatArray) -> None:
    """Write the largest action along the sum of the violated rows, each scaled to unit length."""
    n_rows, n_actions = rows.shape
    for k in range(n_actions):
        out[k] = 0.0
    for i in range(n_rows):
        value = -right[i]
        squares = 0.0
        for k in range(n_actions):
            value += rows[i, k] * min(max(nominal[k], -action_limit), action_limit)
            squares += rows[i, k] * rows[i, k]
        if value > 0.0 and squares > 0.0:
            for k in range(n_actions):
                out[k] -= rows[i, k] / math.sqrt(squares)
    largest = 0.0
    for k in range(n_actions):
        largest = max(largest, abs(out[k]))
    scale = action_limit / largest if largest > 1e-9 else 0.0
    for k in range(n_actions):
        out[k] = min(max(scale * out[k], -action_limit), action_limit)  # the product may round past the limit


@njit(cache=True, error_model="numpy")
def _braking_action(velocity: FloatArray, brakes: EgoBrakes, dt: float, action: FloatArray) -> None:
    """Write the action that brakes along -v at the limit, and no harder than to rest within the step."""
    n_actions, dim = brakes.action_from_accel.shape
    if brakes.is_immediate:
        for a in range(n_actions):
            action[a] = 0.0
        return
    largest = 0.0
    for k in range(dim):
        largest = max(largest, abs(velocity[k]))
    direction = np.zeros(dim)
    deceleration = 0.0
    if largest > 0.0:
        squares = 0.0
        for k in range(dim):
            direction[k] = velocity[k] / largest  # scaled first: the square of a huge or tiny speed has no float64
            squares += direction[k] * direction[k]
        norm = math.sqrt(squares)
        for k in range(dim):
            direction[k] /= norm
        speed = largest * norm
        deceleration = min(braking_limit_along(direction, speed, brakes), speed / dt)
    for a in range(n_actions):
        action[a] = brakes.offset_at_rest[a]
        for k in range(dim):
            action[a] += brakes.offset_from_velocity[a, k] * velocity[k]
            action[a] -= brakes.action_from_accel[a, k] * direction[k] * deceleration
        action[a] = min(max(action[a], -brakes.action_limit), brakes.action_limit)


@njit(cache=True, error_model="numpy")
def _drives_into_somebody(
    positions: FloatArray, velocities: FloatArray, accel: FloatArray, distances: FloatArray, tau: float, dt: float
) -> bool:
    """Whether the ego, at its velocity after the step, approaches a partner it would touch within ``tau``.

    Needs no declared bound. A partner that runs into an ego which rests or moves away is no reason to brake.
    """
    dim = positions.shape[1]
    for i in range(1, positions.shape[0]):
        a = b = c = own = 0.0
        for k in range(dim):
            dp = positions[0, k] - positions[i, k]
            after = velocities[0, k] + accel[k] * dt
            dv = after - velocities[i, k]
            a += dv * dv
            b += dp * dv
            c += dp * dp
            own += dp * after
        c -= distances[i - 1] * distances[i - 1]
        if own >= 0.0 or b >= 0.0:
            continue
        if c <= 0.0:
            return True
        discriminant = b * b - a * c
        if discriminant >= 0.0 and c <= tau * (-b + math.sqrt(discriminant)):  # first root c / (-b + sqrt(disc))
            return True
    return False
