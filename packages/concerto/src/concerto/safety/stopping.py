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
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "EgoBrakes",
    "PartnerMotionBound",
    "WorstMotions",
    "braking_limit_along",
    "plan_clearance",
    "planned_deceleration",
    "stopping_distance",
]

FloatArray = NDArray[np.float64]

_CHORD_TOLERANCE = 1e-3
"""Largest deviation of a chord from the path, as a share of the smallest safety distance."""

_MAX_PIECES = 64
"""Upper limit of chords per segment; beyond it the deviation grows and the bound becomes more careful."""

_BOX_TOLERANCE = 1e-9
"""Share of the box by which the rounding of a braking action may exceed it."""

_MISSED_TOLERANCE = 1e-6
"""Share of the deceleration that an action of braking may miss in any direction."""

_REST_ROUNDING = 1e-9
"""Share of its speed that an ego keeps by rounding when it brakes to rest within one control step."""


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


class EgoBrakes(NamedTuple):
    """What the ego can do to come to rest.

    Its action of the acceleration a at the velocity v is ``action_from_accel @ a + offset_at_rest +
    offset_from_velocity @ v``; the offset is the action of zero acceleration (drag, velocity commands, gravity).

    Attributes:
        action_from_accel: shape ``(m, d)``.
        offset_at_rest: shape ``(m,)``.
        offset_from_velocity: shape ``(m, d)``.
        missed: share of a wanted acceleration that its action does not bring about, shape ``(d, d)``; zero but for
            singular maps.
        capacity: largest Cartesian acceleration, m/s^2.
        action_limit: largest absolute value of an action component.
        is_immediate: the ego moves at its commanded velocity at once and stops within one step.
        holds: some action inside the box keeps an ego at rest where it is.
    """

    action_from_accel: FloatArray
    offset_at_rest: FloatArray
    offset_from_velocity: FloatArray
    missed: FloatArray
    capacity: float
    action_limit: float
    is_immediate: bool
    holds: bool


class WorstMotions(NamedTuple):
    """Where n partners are and the worst they are declared to be capable of.

    Attributes:
        positions: m, shape ``(n, d)``.
        velocities: m/s, shape ``(n, d)``.
        safety_distances: sums of the radii of ego and partner, m, shape ``(n,)``.
        max_accelerations: m/s^2, may be ``inf``, shape ``(n,)``.
        max_speeds: m/s, may be ``inf``, shape ``(n,)``.
    """

    positions: FloatArray
    velocities: FloatArray
    safety_distances: FloatArray
    max_accelerations: FloatArray
    max_speeds: FloatArray


def stopping_distance(speed: float, *, braking_limit: float, dt: float) -> float:
    """Path length until rest, m, when braking with constant acceleration over each control step.

    With ``n = floor(speed / (braking_limit * dt))`` full steps and the rest speed ``r``, the distance is that of
    the full steps plus ``r * dt / 2``: between ``speed**2 / (2 * braking_limit)`` and that plus
    ``braking_limit * dt**2 / 8``.

    Args:
        speed: present speed, m/s.
        braking_limit: largest deceleration, m/s^2.
        dt: control period, s.

    Examples:
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


# Small arrays that come and go cost more than the arithmetic, in time and in machine code: hence the loops below.


@njit(cache=True, error_model="numpy")
def _norm(vector: FloatArray) -> float:
    squares = 0.0
    for k in range(vector.shape[0]):
        squares += vector[k] * vector[k]
    return math.sqrt(squares)


@njit(cache=True, error_model="numpy")
def _smallest_chord_clearance(a: float, b: float, c: float, r0: float, r1: float) -> float:
    """Minimum over s in [0, 1] of ``|q0 + (q1 - q0) s| - (r0 + (r1 - r0) s)``: convex, so in closed form.

    Args:
        a: ``|q1 - q0|^2``.
        b: ``q0 . (q1 - q0)``.
        c: ``|q0|^2``.
        r0: radius at the beginning.
        r1: radius at the end.
    """
    end = math.sqrt(max(a + 2.0 * b + c, 0.0)) - r1
    smallest = min(math.sqrt(c) - r0, end)
    slope = r1 - r0
    if a > slope * slope:
        s = (-b + slope * math.sqrt(max(a * c - b * b, 0.0) / (a - slope * slope))) / a
        if 0.0 < s < 1.0:
            smallest = min(smallest, math.sqrt(max((a * s + 2.0 * b) * s + c, 0.0)) - (r0 + slope * s))
    return smallest


@njit(cache=True, error_model="numpy")
def braking_limit_along(direction: FloatArray, speed: float, brakes: EgoBrakes) -> float:
    """Largest deceleration against the velocity ``v = speed * direction`` that is available all the way to rest, m/s^2.

    The action of braking must stay in the box. Its offset is linear in the velocity, so the limit on the way lies
    between those at v and at rest.

    Args:
        direction: unit vector, shape ``(d,)``.
        speed: m/s.
        brakes: of the ego.
    """
    limit = brakes.capacity
    for k in range(brakes.offset_at_rest.shape[0]):
        gain = 0.0
        moving_offset = brakes.offset_at_rest[k]
        for j in range(direction.shape[0]):
            gain += brakes.action_from_accel[k, j] * direction[j]
            moving_offset += brakes.offset_from_velocity[k, j] * direction[j] * speed
        if abs(gain) > 1e-12:
            sign = 1.0 if gain > 0.0 else -1.0
            room = brakes.action_limit + min(sign * brakes.offset_at_rest[k], sign * moving_offset)
            limit = min(limit, room / abs(gain))
    return max(limit, 0.0)


@njit(cache=True, error_model="numpy")
def _can_follow(direction: FloatArray, speed: float, limit: float, dt: float, brakes: EgoBrakes) -> bool:
    """Whether the ego really brakes so: at ``limit`` from ``speed * direction`` to rest, with actions inside the box.

    `braking_limit_along` keeps one side of the box; on the other an offset (a velocity beyond the box, drag above the
    speed it allows) would make the ego brake harder when the action is cut. The ego must hold at rest (`EgoBrakes`).
    Actions are linear in speed and deceleration, so the ends of the manoeuvre speak for all of it.
    """
    for k in range(direction.shape[0]):
        missed = 0.0
        for j in range(direction.shape[0]):
            missed += brakes.missed[k, j] * direction[j]
        if not abs(missed) <= _MISSED_TOLERANCE:
            return False
    most = brakes.action_limit * (1.0 + _BOX_TOLERANCE)
    weakest = min(limit, speed / dt)
    for k in range(brakes.offset_at_rest.shape[0]):
        gain = 0.0
        moving_offset = brakes.offset_at_rest[k]
        for j in range(direction.shape[0]):
            gain += brakes.action_from_accel[k, j] * direction[j]
            moving_offset += brakes.offset_from_velocity[k, j] * direction[j] * speed
        if not abs(moving_offset - gain * weakest) <= most:
            return False
    return True


@njit(cache=True, error_model="numpy")
def _segment_clearance(
    position: FloatArray,
    velocity: FloatArray,
    acceleration: FloatArray,
    start: float,
    duration: float,
    partners: WorstMotions,
    worst: float,
) -> float:
    """Smaller of ``worst`` and the clearance on one segment of constant acceleration that begins at ``start``."""
    dim = position.shape[0]
    accel_norm = _norm(acceleration)
    smallest_distance = partners.safety_distances[0]
    for i in range(1, partners.safety_distances.shape[0]):
        smallest_distance = min(smallest_distance, partners.safety_distances[i])
    tolerance = max(_CHORD_TOLERANCE * smallest_distance, 1e-6)
    wanted_pieces = duration * math.sqrt(accel_norm / (8.0 * tolerance))
    if not wanted_pieces < math.inf:
        return -math.inf  # beyond the range of float64: nothing can be certified
    pieces = int(min(max(np.ceil(wanted_pieces), 1.0), _MAX_PIECES))
    h = duration / pieces
    deviation = accel_norm * h * h / 8.0
    ego = np.empty((2, dim))  # at the beginning and at the end of a piece
    for k in range(dim):
        ego[1, k] = position[k]
    for piece in range(1, pieces + 1):
        t = piece * h
        for k in range(dim):
            ego[0, k] = ego[1, k]
            ego[1, k] = position[k] + velocity[k] * t + 0.5 * acceleration[k] * t * t
        t0 = start + (piece - 1) * h
        t1 = start + t
        for i in range(partners.positions.shape[0]):
            distance = partners.safety_distances[i]
            clear = -math.inf
            if partners.max_accelerations[i] < math.inf:
                a = b = c = 0.0
                for k in range(dim):
                    q0 = ego[0, k] - partners.positions[i, k] - partners.velocities[i, k] * t0
                    step = ego[1, k] - partners.positions[i, k] - partners.velocities[i, k] * t1 - q0
                    a += step * step
                    b += q0 * step
                    c += q0 * q0
                half = 0.5 * partners.max_accelerations[i]
                clear = _smallest_chord_clearance(a, b, c, distance + half * t0 * t0, distance + half * t1 * t1)
            if partners.max_speeds[i] < math.inf and clear < worst + deviation:
                a = b = c = 0.0
                for k in range(dim):
                    q0 = ego[0, k] - partners.positions[i, k]
                    step = ego[1, k] - partners.positions[i, k] - q0
                    a += step * step
                    b += q0 * step
                    c += q0 * q0
                speed = partners.max_speeds[i]
                clear = max(clear, _smallest_chord_clearance(a, b, c, distance + speed * t0, distance + speed * t1))
            if math.isnan(clear):
                return -math.inf
            worst = min(worst, clear - deviation)
    return worst


@njit(cache=True, error_model="numpy")
def planned_deceleration(velocity: FloatArray, acceleration: FloatArray, dt: float, brakes: EgoBrakes) -> float:
    """Deceleration of the stopping plan of one ego action, m/s^2; ``inf`` when nothing is left to brake.

    Args:
        velocity: ego velocity, m/s, shape ``(d,)``.
        acceleration: ego acceleration under the action, m/s^2, shape ``(d,)``.
        dt: control period, s.
        brakes: of the ego.
    """
    if brakes.is_immediate:
        return math.inf
    direction = np.empty(velocity.shape[0])
    for k in range(velocity.shape[0]):
        direction[k] = velocity[k] + acceleration[k] * dt
    speed = _norm(direction)
    if speed == 0.0:
        return math.inf
    for k in range(velocity.shape[0]):
        direction[k] /= speed
    return braking_limit_along(direction, speed, brakes)


@njit(cache=True, error_model="numpy")
def plan_clearance(
    position: FloatArray,
    velocity: FloatArray,
    acceleration: FloatArray,
    dt: float,
    brakes: EgoBrakes,
    partners: WorstMotions,
) -> float:
    """Smallest clearance of the stopping plan of one ego action, m; a lower bound, negative: not certified.

    Args:
        position: ego position, m, shape ``(d,)``.
        velocity: ego velocity, m/s, shape ``(d,)``.
        acceleration: ego acceleration under the action, m/s^2, shape ``(d,)``; held for one control step, or, for an
            ego that obeys velocities at once, the one that means the command ``velocity + acceleration * dt``.
        dt: control period, s.
        brakes: of the ego.
        partners: their worst declared motions.

    Returns:
        Clearance in m; ``inf`` without partners.
    """
    worst = math.inf
    if partners.positions.shape[0] == 0:
        return worst
    dim = position.shape[0]
    vectors = np.empty((4, dim))
    at, moving, direction, braking = vectors[0], vectors[1], vectors[2], vectors[3]
    for k in range(dim):
        moving[k] = velocity[k] + acceleration[k] * dt
        braking[k] = 0.0
    if brakes.is_immediate:
        return _segment_clearance(position, moving, braking, 0.0, dt, partners, worst)
    if not brakes.holds:
        return -math.inf
    worst = _segment_clearance(position, velocity, acceleration, 0.0, dt, partners, worst)
    speed = _norm(moving)
    if speed <= _REST_ROUNDING * _norm(velocity):
        return worst  # at rest but for rounding: it needs no further control step of braking
    for k in range(dim):
        direction[k] = moving[k] / speed
    limit = braking_limit_along(direction, speed, brakes)
    if limit <= 0.0 or not _can_follow(direction, speed, limit, dt, brakes):
        return -math.inf
    n_full, last_speed = _full_braking_steps(speed, limit, dt)
    full_time = n_full * dt
    for k in range(dim):
        at[k] = position[k] + velocity[k] * dt + 0.5 * acceleration[k] * dt * dt
        braking[k] = -limit * direction[k]
    if n_full > 0:
        worst = _segment_clearance(at, moving, braking, dt, full_time, partners, worst)
    if last_speed > 0.0:
        way = speed * full_time - 0.5 * limit * full_time * full_time
        for k in range(dim):
            at[k] += direction[k] * way
            moving[k] = last_speed * direction[k]
            braking[k] = -moving[k] / dt
        worst = _segment_clearance(at, moving, braking, dt + full_time, dt, partners, worst)
    return worst
