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
from concerto.safety._assembly import all_finite, is_state
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
    "answer",
    "answer_layout",
    "decide",
    "pack_settings",
    "update_slacks",
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
        filtered: candidate before any braking.
        barriers: per partner, m/s.
        gaps: per partner, m.
        slacks: per partner, m/s^2.
        losses: per partner; undefined without a past.
        length: of the whole. What is not named is the forecast of positions, then of velocities.
    """

    margin: int
    planned: int
    filtered: slice
    barriers: slice
    gaps: slice
    slacks: slice
    losses: slice
    length: int


def answer_layout(n_partners: int, n_actions: int, dim: int) -> AnswerLayout:
    """Give the layout; `answer` reads and writes by the same arithmetic."""
    n, start = n_partners, _N_HEAD + n_actions
    barriers, gaps, slacks, losses = (slice(start + k * n, start + (k + 1) * n) for k in range(4))
    return AnswerLayout(0, 1, slice(_N_HEAD, start), barriers, gaps, slacks, losses, start + 4 * n + 2 * n * dim)


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
) -> FloatArray:
    """Give what `answer` must know of the ego in one vector; the declarations of the partners are to follow it.

    Args:
        gamma: rate of the barrier, 1/s.
        tau_brake: time to collision below which the ego brakes, s.
        dt: control period, s.
        eta: learning rate of the slack.
        slack_bound: largest absolute slack, m/s^2.
        jacobian: ego acceleration per unit action, shape ``(d, m)``.
        drift: ego acceleration at zero action, shape ``(d,)``.
        brakes: of the ego.
        is_velocity_command: the drift follows the velocity: it is ``-v/dt`` in place of ``drift``.
    """
    scalars = (
        gamma, tau_brake, dt, eta, slack_bound, brakes.capacity, brakes.action_limit, brakes.is_immediate, brakes.holds,
        is_velocity_command,
    )  # fmt: skip
    arrays = (
        jacobian,
        drift,
        brakes.action_from_accel,
        brakes.offset_at_rest,
        brakes.offset_from_velocity,
        brakes.missed,
    )
    return np.concatenate([np.array(scalars, dtype=np.float64), *(part.ravel() for part in arrays)], dtype=np.float64)


@njit(cache=True, error_model="numpy")
def answer(
    nominal: FloatArray,
    bodies: FloatArray,
    radii: FloatArray,
    given_forecast: FloatArray,
    settings: FloatArray,
    memory: FloatArray,
    has_past: bool,
    target: float,
    action: FloatArray,
    out: FloatArray,
) -> int:
    """Check the state, learn from the last forecast, and decide: one whole control step.

    Args:
        nominal: wanted action, shape ``(m,)``.
        bodies: positions, ego first, then velocities in the same order, m and m/s, shape ``(2 (n + 1) d,)``.
        radii: ego first, m, shape ``(n + 1,)``.
        given_forecast: positions of the partners one control period ahead, then their velocities, shape ``(2 n d,)``;
            empty for constant velocities.
        settings: as `pack_settings` gives them, followed by the partners' largest accelerations (m/s^2) and speeds
            (m/s), and the braking of each pair that the barrier counts on (m/s^2), each of shape ``(n,)``.
        memory: answer of the step before, see `answer_layout`; without a past only slacks and deceleration count.
        has_past: whether the forecast in ``memory`` was made for this step.
        target: value the mean conformal loss is driven to.
        action: output, the action to apply, shape ``(m,)``.
        out: output, see `answer_layout`.

    Returns:
        The source code of the action; or `BAD_INPUT`, and nothing has been written.
    """
    if not is_state(nominal, bodies, radii) or not all_finite(given_forecast):
        return BAD_INPUT
    m = nominal.shape[0]
    n = radii.shape[0] - 1
    d = bodies.shape[0] // (2 * (n + 1))
    dt = settings[2]
    positions = bodies[: (n + 1) * d].reshape((n + 1, d))
    velocities = bodies[(n + 1) * d :].reshape((n + 1, d))

    k = _N_SCALARS
    jacobian = settings[k : k + d * m].reshape((d, m))
    k += d * m
    drift = settings[k : k + d]
    k += d
    if settings[9] != 0.0:
        drift = np.empty(d)
        for axis in range(d):
            drift[axis] = -velocities[0, axis] / dt
    action_from_accel = settings[k : k + m * d].reshape((m, d))
    k += m * d
    offset_at_rest = settings[k : k + m]
    k += m
    offset_from_velocity = settings[k : k + m * d].reshape((m, d))
    k += m * d
    missed = settings[k : k + d * d].reshape((d, d))
    k += d * d
    brakes = EgoBrakes(
        action_from_accel, offset_at_rest, offset_from_velocity, missed, settings[5], settings[6],
        settings[7] != 0.0, settings[8] != 0.0,
    )  # fmt: skip
    alphas = settings[k + 2 * n : k + 3 * n]

    start = _N_HEAD + m
    first = start + 4 * n  # of the forecast
    half = n * d
    slacks = out[start + 2 * n : start + 3 * n]
    slacks[:] = memory[start + 2 * n : start + 3 * n]
    if has_past:
        update_slacks(
            slacks, positions, velocities, radii, memory[first : first + half].reshape((n, d)),
            memory[first + half : first + 2 * half].reshape((n, d)), alphas, dt, target, settings[3], settings[4],
            out[start + 3 * n : first],
        )  # fmt: skip
    forecast = out[first + half : first + 2 * half].reshape((n, d))
    if given_forecast.shape[0] > 0:
        out[first : first + 2 * half] = given_forecast
    else:
        for i in range(n):
            for axis in range(d):
                out[first + i * d + axis] = positions[i + 1, axis] + dt * velocities[i + 1, axis]
                forecast[i, axis] = velocities[i + 1, axis]
    code, out[0], out[1] = decide(
        nominal, positions, velocities, radii, forecast, settings[k : k + n], settings[k + n : k + 2 * n], alphas,
        slacks, jacobian, drift, brakes, memory[1], settings[0], settings[1], dt, action, out[_N_HEAD:start],
        out[start : start + n], out[start + n : start + 2 * n],
    )  # fmt: skip
    return code


# --- what it consists of ----------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy")
def update_slacks(
    slacks: FloatArray,
    positions: FloatArray,
    velocities: FloatArray,
    radii: FloatArray,
    forecast_positions: FloatArray,
    forecast_velocities: FloatArray,
    alphas: FloatArray,
    dt: float,
    target: float,
    eta: float,
    bound: float,
    losses: FloatArray,
) -> None:
    """Update every slack in place by the signed bounded loss: `compute_signed_loss` with the ego's true state.

    Args:
        slacks: lambda per partner, m/s^2, shape ``(n,)``; changed in place and kept within +-bound.
        positions: now, ego first, m, shape ``(n + 1, d)``.
        velocities: now, ego first, m/s, shape ``(n + 1, d)``.
        radii: ego first, m, shape ``(n + 1,)``.
        forecast_positions: what the last step forecast for the partners, m, shape ``(n, d)``.
        forecast_velocities: m/s, shape ``(n, d)``.
        alphas: braking of the pairs, m/s^2, shape ``(n,)``.
        dt: control period, s.
        target: value the mean loss is driven to.
        eta: learning rate.
        bound: largest absolute slack, m/s^2.
        losses: output, shape ``(n,)``.
    """
    normal = np.empty(positions.shape[1])
    for i in range(slacks.shape[0]):
        distance = radii[0] + radii[i + 1]
        expected, _ = pair_barrier(
            positions[0], velocities[0], forecast_positions[i], forecast_velocities[i], distance, alphas[i], 0.0, 0.0,
            True, normal,
        )  # fmt: skip
        actual, _ = pair_barrier(
            positions[0], velocities[0], positions[i + 1], velocities[i + 1], distance, alphas[i], 0.0, 0.0,
            True, normal,
        )  # fmt: skip
        loss = math.atan(slacks[i] + (expected - actual) / dt) / math.pi
        losses[i] = 0.5 if math.isnan(loss) else loss  # absurd numbers count as the worst surprise
        slacks[i] = min(max(slacks[i] + eta * (target - losses[i]), -bound), bound)


@njit(cache=True, error_model="numpy")
def decide(
    nominal: FloatArray,
    positions: FloatArray,
    velocities: FloatArray,
    radii: FloatArray,
    forecast: FloatArray,
    max_accelerations: FloatArray,
    max_speeds: FloatArray,
    alphas: FloatArray,
    slacks: FloatArray,
    jacobian: FloatArray,
    drift: FloatArray,
    own_brakes: EgoBrakes,
    planned: float,
    gamma: float,
    tau_brake: float,
    dt: float,
    action: FloatArray,
    filtered: FloatArray,
    barriers: FloatArray,
    gaps: FloatArray,
) -> tuple[int, float, float]:
    """Choose the ego's action for one control step.

    Args:
        nominal: wanted action, shape ``(m,)``.
        positions: ego first, then the n partners, m, shape ``(n + 1, d)``.
        velocities: the same order, m/s, shape ``(n + 1, d)``.
        radii: the same order, m, shape ``(n + 1,)``.
        forecast: velocities of the partners one control period ahead, m/s, shape ``(n, d)``.
        max_accelerations: declared bounds of the partners, m/s^2, shape ``(n,)``.
        max_speeds: declared bounds of the partners, m/s, shape ``(n,)``.
        alphas: braking of each pair that the barrier counts on, m/s^2, shape ``(n,)``.
        slacks: lambda per partner, m/s^2, shape ``(n,)``.
        jacobian: ego acceleration per unit action, shape ``(d, m)``.
        drift: ego acceleration at zero action, shape ``(d,)``.
        own_brakes: of the ego.
        planned: deceleration of the stopping plan of the last action, m/s^2; ``inf`` when there is none.
        gamma: rate of the barrier, 1/s.
        tau_brake: time to collision below which the ego brakes, s.
        dt: control period, s.
        action: output, the action to apply, shape ``(m,)``.
        filtered: output, the candidate before any braking, shape ``(m,)``.
        barriers: output, barrier values, m/s, shape ``(n,)``.
        gaps: output, distances between the surfaces of ego and partners, m, shape ``(n,)``; negative in overlap.

    Returns:
        The source code of the action, the clearance of its stopping plan, m, and the plan's deceleration, m/s^2.
    """
    n, dim = forecast.shape
    position, velocity = positions[0], velocities[0]
    rows = np.zeros((n, nominal.shape[0]))
    right = np.empty(n)
    distances = radii[0] + radii[1:]
    normal = np.empty(dim)
    for i in range(n):
        barriers[i], right[i] = pair_barrier(
            position,
            velocity,
            positions[i + 1],
            velocities[i + 1],
            distances[i],
            alphas[i],
            gamma,
            slacks[i],
            True,
            normal,
        )
        squared_distance = 0.0
        for k in range(dim):
            offset = position[k] - positions[i + 1, k]
            squared_distance += offset * offset
            right[i] += normal[k] * (drift[k] - (forecast[i, k] - velocities[i + 1, k]) / dt)
            for column in range(nominal.shape[0]):
                rows[i, column] -= normal[k] * jacobian[k, column]
        gaps[i] = math.sqrt(squared_distance) - distances[i]

    partners = WorstMotions(positions[1:], velocities[1:], distances, max_accelerations, max_speeds)
    brakes = _brakes_to_use(position, velocity, jacobian, drift, own_brakes, planned, dt, partners)
    brake = _braking_action(velocity, brakes, dt)
    source = FALLBACK
    filtered[:] = brake
    if all_finite(rows) and all_finite(right):
        source = _filter(nominal, rows, right, brakes.action_limit, filtered)
    if not all_finite(filtered):
        filtered[:] = brake

    action[:] = filtered
    accel = _acceleration(jacobian, action, drift)
    share = 0.0  # of the candidate in the mix with braking
    if not _drives_into_somebody(positions, velocities, accel, distances, tau_brake, dt):
        clearance = plan_clearance(position, velocity, accel, dt, brakes, partners)
        if clearance >= 0.0:
            return source, clearance, planned_deceleration(velocity, accel, dt, brakes)
        step = 1.0
        for _ in range(_MIX_HALVINGS):
            step *= 0.5
            _mix(brake, filtered, share + step, brakes.action_limit, action)
            accel = _acceleration(jacobian, action, drift)
            if plan_clearance(position, velocity, accel, dt, brakes, partners) >= 0.0:
                share += step
    _mix(brake, filtered, share, brakes.action_limit, action)
    accel = _acceleration(jacobian, action, drift)
    clearance = plan_clearance(position, velocity, accel, dt, brakes, partners)
    code = FALLBACK if source == FALLBACK else BRAKING
    return code, clearance, planned_deceleration(velocity, accel, dt, brakes)


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
    if brakes.is_immediate or not 0.0 < planned < math.inf or not np.any(brakes.offset_from_velocity):
        return brakes  # without an offset that follows the velocity the limit is the same all the way
    accel = _acceleration(jacobian, _braking_action(velocity, brakes, dt), drift)
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
    accel = _acceleration(jacobian, _braking_action(velocity, weaker, dt), drift)
    return weaker if plan_clearance(position, velocity, accel, dt, weaker, partners) > hard else brakes


@njit(cache=True, error_model="numpy")
def _mix(brake: FloatArray, candidate: FloatArray, share: float, action_limit: float, out: FloatArray) -> None:
    """Write ``(1 - share) brake + share candidate``; the sum may round past the limit, the answer may not."""
    for k in range(out.shape[0]):
        out[k] = min(max(brake[k] + share * (candidate[k] - brake[k]), -action_limit), action_limit)


@njit(cache=True, error_model="numpy")
def _acceleration(jacobian: FloatArray, action: FloatArray, drift: FloatArray) -> FloatArray:
    """Give ``J u + a0``."""
    accel = drift.copy()
    for k in range(accel.shape[0]):
        for column in range(action.shape[0]):
            accel[k] += jacobian[k, column] * action[column]
    return accel


@njit(cache=True, error_model="numpy")
def _filter(nominal: FloatArray, rows: FloatArray, right: FloatArray, action_limit: float, out: FloatArray) -> int:
    """Give the nearest action that satisfies the rows and the box, or the push along the violated rows."""
    n_rows, n_actions = rows.shape
    upper = np.full(n_actions, action_limit)
    lower = -upper
    out[:] = nominal
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
    out[:] = 0.0
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
def _braking_action(velocity: FloatArray, brakes: EgoBrakes, dt: float) -> FloatArray:
    """Give the action that brakes along -v at the limit, and no harder than to rest within the step."""
    n_actions, dim = brakes.action_from_accel.shape
    action = np.zeros(n_actions)
    if brakes.is_immediate:
        return action
    largest = np.max(np.abs(velocity))
    direction = np.zeros(dim)
    deceleration = 0.0
    if largest > 0.0:
        direction[:] = velocity / largest  # scaled first: the square of a huge or tiny speed has no float64
        norm = math.sqrt(np.sum(direction * direction))
        direction /= norm
        speed = largest * norm
        deceleration = min(braking_limit_along(direction, speed, brakes), speed / dt)
    for a in range(n_actions):
        action[a] = brakes.offset_at_rest[a]
        for k in range(dim):
            action[a] += brakes.offset_from_velocity[a, k] * velocity[k]
            action[a] -= brakes.action_from_accel[a, k] * direction[k] * deceleration
        action[a] = min(max(action[a], -brakes.action_limit), brakes.action_limit)
    return action


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
