r"""Can the ego still stop before a partner's worst declared motion?

The question behind every answer of the safety stack, after the idea of Responsibility-Sensitive Safety
(Shalev-Shwartz, Shammah & Shashua 2017, arXiv 1708.06374), for spheres on free paths:

* A partner at position :math:`p` with velocity :math:`v` whose acceleration stays below :math:`a` and whose
  speed stays below :math:`s` is, after the time :math:`t`, inside the ball around :math:`p + vt` with radius
  :math:`a t^2/2` *and* inside the ball around :math:`p` with radius :math:`s t`.
* The *stopping plan* of an ego action is: apply it for one control step, then brake along :math:`-v` at the
  limit until at rest (constant acceleration over each control step, the last one weaker, so that the ego ends
  at rest exactly).
* An action is *certified* when its plan stays clear, for every partner and at every time until the ego rests,
  of at least one of the partner's two balls, enlarged by both radii.

The property that makes this a guarantee: the balls of the next step, computed from wherever the partner went,
lie inside the balls of this step. So the rest of a certified plan stays certified, whatever the partner does
within its bound, and an ego that brakes whenever no better action is certified is never in contact while it
moves. At rest it may be hit; a partner that can reach a resting ego cannot be stopped by the ego's brakes.

The clearance is a lower bound: on short pieces of the plan the path is replaced by its chord, and the chord's
largest deviation is subtracted. What is certified is therefore truly clear; what is not certified costs
comfort, never safety.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["PartnerMotionBound", "braking_limit_along", "plan_clearance", "stopping_distance"]

FloatArray = NDArray[np.float64]

_CHORD_TOLERANCE = 1e-3
"""Largest deviation of a chord from the path, as a share of the smallest safety distance."""

_MAX_PIECES = 64
"""Upper limit of chords per segment; beyond it the deviation grows and the bound becomes more careful."""


@dataclass(frozen=True)
class PartnerMotionBound:
    """The worst motion a partner is declared to be capable of.

    Attributes:
        max_acceleration: largest acceleration in any direction, m/s^2, L2 norm; ``inf`` when unknown.
        max_speed: largest speed, m/s, L2 norm; ``inf`` when unknown.

    Raises:
        ValueError: a value is negative or NaN, or both are infinite (then nothing could ever be certified).
    """

    max_acceleration: float
    max_speed: float = math.inf

    def __post_init__(self) -> None:
        for name in ("max_acceleration", "max_speed"):
            value = getattr(self, name)
            if math.isnan(value) or value < 0:
                raise ValueError(f"{name} must be >= 0, got {value}")
        if math.isinf(self.max_acceleration) and math.isinf(self.max_speed):
            raise ValueError("max_acceleration and max_speed are both infinite: declare at least one")


def stopping_distance(speed: float, *, braking_limit: float, dt: float) -> float:
    """Path length until rest, m, when braking with constant acceleration over each control step.

    With ``n = floor(speed / (braking_limit * dt))`` full steps and the rest speed ``r``, the distance is that of
    the full steps plus ``r * dt / 2``: between ``speed**2 / (2 * braking_limit)`` and that plus
    ``braking_limit * dt**2 / 8``.

    Args:
        speed: present speed, m/s.
        braking_limit: largest deceleration, m/s^2.
        dt: control period, s.

    Example:
        >>> stopping_distance(1.0, braking_limit=2.0, dt=0.1)
        0.25
    """
    n_full, rest = _full_braking_steps(speed, braking_limit, dt)
    full_time = n_full * dt
    return speed * full_time - 0.5 * braking_limit * full_time**2 + 0.5 * rest * dt


@njit(cache=True, error_model="numpy")
def _full_braking_steps(speed: float, braking_limit: float, dt: float) -> tuple[float, float]:
    """Number of whole control steps of braking at the limit, and the speed that is left after them."""
    n_full = np.floor(speed / (braking_limit * dt) + 1e-12)
    return n_full, max(speed - n_full * braking_limit * dt, 0.0)


@njit(cache=True, error_model="numpy")
def _smallest_chord_clearance(q0: FloatArray, q1: FloatArray, r0: float, r1: float) -> float:
    """Minimum over s in [0, 1] of |q0 + (q1 - q0) s| - (r0 + (r1 - r0) s): convex, so in closed form."""
    a = b = c = 0.0
    for k in range(q0.shape[0]):
        step = q1[k] - q0[k]
        a += step * step
        b += q0[k] * step
        c += q0[k] * q0[k]
    end = math.sqrt(max(a + 2.0 * b + c, 0.0)) - r1
    smallest = min(math.sqrt(c) - r0, end)
    slope = r1 - r0
    if a > slope * slope:
        s = (-b + slope * math.sqrt(max(a * c - b * b, 0.0) / (a - slope * slope))) / a
        if 0.0 < s < 1.0:
            smallest = min(smallest, math.sqrt(max((a * s + 2.0 * b) * s + c, 0.0)) - (r0 + slope * s))
    return smallest


@njit(cache=True, error_model="numpy")
def braking_limit_along(
    direction: FloatArray,
    action_from_accel: FloatArray,
    action_offset: FloatArray,
    capacity: float,
    action_limit: float,
) -> float:
    """Largest deceleration against ``direction`` (unit vector) that capacity and action box allow, m/s^2."""
    limit = capacity
    for k in range(action_from_accel.shape[0]):
        gain = 0.0
        for j in range(direction.shape[0]):
            gain += action_from_accel[k, j] * direction[j]
        if abs(gain) > 1e-12:
            limit = min(limit, (action_limit - abs(action_offset[k])) / abs(gain))
    return max(limit, 0.0)


@njit(cache=True, error_model="numpy")
def _segment_clearance(
    position: FloatArray,
    velocity: FloatArray,
    acceleration: FloatArray,
    start: float,
    duration: float,
    partners_p: FloatArray,
    partners_v: FloatArray,
    distances: FloatArray,
    max_accels: FloatArray,
    max_speeds: FloatArray,
    worst: float,
) -> float:
    """Smaller of ``worst`` and the clearance on one segment of constant acceleration that begins at ``start``."""
    dim = position.shape[0]
    accel_norm = math.sqrt(np.sum(acceleration * acceleration))
    tolerance = max(_CHORD_TOLERANCE * np.min(distances), 1e-6)
    wanted_pieces = duration * math.sqrt(accel_norm / (8.0 * tolerance))
    if not wanted_pieces < math.inf:
        return -math.inf  # beyond the range of float64: nothing can be certified
    pieces = int(min(max(np.ceil(wanted_pieces), 1.0), _MAX_PIECES))
    h = duration / pieces
    deviation = accel_norm * h * h / 8.0
    ego0 = position.copy()
    ego1 = np.empty(dim)
    q0 = np.empty(dim)
    q1 = np.empty(dim)
    for piece in range(1, pieces + 1):
        t = piece * h
        for k in range(dim):
            ego1[k] = position[k] + velocity[k] * t + 0.5 * acceleration[k] * t * t
        t0 = start + (piece - 1) * h
        t1 = start + t
        for i in range(partners_p.shape[0]):
            clear = -math.inf
            if max_accels[i] < math.inf:
                for k in range(dim):
                    q0[k] = ego0[k] - partners_p[i, k] - partners_v[i, k] * t0
                    q1[k] = ego1[k] - partners_p[i, k] - partners_v[i, k] * t1
                r0 = distances[i] + 0.5 * max_accels[i] * t0 * t0
                r1 = distances[i] + 0.5 * max_accels[i] * t1 * t1
                clear = _smallest_chord_clearance(q0, q1, r0, r1)
            if max_speeds[i] < math.inf and clear < worst + deviation:
                for k in range(dim):
                    q0[k] = ego0[k] - partners_p[i, k]
                    q1[k] = ego1[k] - partners_p[i, k]
                r0 = distances[i] + max_speeds[i] * t0
                r1 = distances[i] + max_speeds[i] * t1
                clear = max(clear, _smallest_chord_clearance(q0, q1, r0, r1))
            if math.isnan(clear):
                return -math.inf
            worst = min(worst, clear - deviation)
        ego0[:] = ego1
    return worst


@njit(cache=True, error_model="numpy")
def plan_clearance(
    position: FloatArray,
    velocity: FloatArray,
    acceleration: FloatArray,
    dt: float,
    partner_positions: FloatArray,
    partner_velocities: FloatArray,
    safety_distances: FloatArray,
    partner_max_accelerations: FloatArray,
    partner_max_speeds: FloatArray,
    action_from_accel: FloatArray,
    action_offset: FloatArray,
    capacity: float,
    action_limit: float,
    velocity_command: bool,
) -> float:
    """Smallest clearance of the stopping plan of one ego action, m; a lower bound, negative means "not certified".

    Args:
        position: ego position ``(d,)``, m.
        velocity: ego velocity ``(d,)``, m/s.
        acceleration: ego acceleration under the action ``(d,)``, m/s^2, held for one control step.
        dt: control period, s.
        partner_positions: ``(n, d)``, m.
        partner_velocities: ``(n, d)``, m/s.
        safety_distances: sums of radii ``(n,)``, m.
        partner_max_accelerations: declared bounds ``(n,)``, m/s^2, may be ``inf``.
        partner_max_speeds: declared bounds ``(n,)``, m/s, may be ``inf``.
        action_from_accel: matrix ``(m, d)`` from acceleration to action of the ego's control model.
        action_offset: action ``(m,)`` that gives zero acceleration.
        capacity: largest Cartesian acceleration of the ego, m/s^2.
        action_limit: largest absolute value of an action component.
        velocity_command: the ego moves at its commanded velocity at once and stops within one step
            (``velocity + acceleration * dt`` is the command).

    Returns:
        Clearance in m; ``inf`` without partners.
    """
    worst = math.inf
    if partner_positions.shape[0] == 0:
        return worst
    dim = position.shape[0]
    next_velocity = velocity + acceleration * dt
    if velocity_command:
        rest = np.zeros(dim)
        return _segment_clearance(
            position, next_velocity, rest, 0.0, dt, partner_positions, partner_velocities, safety_distances,
            partner_max_accelerations, partner_max_speeds, worst,
        )  # fmt: skip
    worst = _segment_clearance(
        position, velocity, acceleration, 0.0, dt, partner_positions, partner_velocities, safety_distances,
        partner_max_accelerations, partner_max_speeds, worst,
    )  # fmt: skip
    speed = math.sqrt(np.sum(next_velocity * next_velocity))
    if speed == 0.0:
        return worst
    direction = next_velocity / speed
    limit = braking_limit_along(direction, action_from_accel, action_offset, capacity, action_limit)
    if limit <= 0.0:
        return -math.inf
    n_full, last_speed = _full_braking_steps(speed, limit, dt)
    next_position = position + velocity * dt + 0.5 * acceleration * dt * dt
    full_time = n_full * dt
    if n_full > 0:
        worst = _segment_clearance(
            next_position, next_velocity, -limit * direction, dt, full_time, partner_positions, partner_velocities,
            safety_distances, partner_max_accelerations, partner_max_speeds, worst,
        )  # fmt: skip
    if last_speed > 0.0:
        last_position = next_position + direction * (speed * full_time - 0.5 * limit * full_time * full_time)
        worst = _segment_clearance(
            last_position, last_speed * direction, -(last_speed / dt) * direction, dt + full_time, dt,
            partner_positions, partner_velocities, safety_distances, partner_max_accelerations, partner_max_speeds,
            worst,
        )  # fmt: skip
    return worst
