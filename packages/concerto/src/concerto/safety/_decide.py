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

import numpy as np
from numba import njit

from concerto.safety._active_set import float_scratch_shape, int_scratch_length, project_onto_rows
from concerto.safety._assembly import all_finite
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

__all__ = ["BRAKING", "FALLBACK", "PASS_THROUGH", "QP", "decide", "update_slacks"]

PASS_THROUGH, QP, BRAKING, FALLBACK = 0, 1, 2, 3

_MIX_HALVINGS = 5
"""Steps of the search between braking and the candidate: the mix is at most 1/32 away from the best one."""


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
