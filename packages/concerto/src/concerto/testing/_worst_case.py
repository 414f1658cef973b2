"""Exact geometry of two moving balls: braking against the worst motion of a partner, first contact, least distance.

Everything here is decided by polynomials. Over one stretch of constant acceleration the ego moves on a parabola,
the partner (or the ball it can reach) moves and grows by a polynomial of degree two at most, and the squared
distance minus the squared radius is a quartic in time. A quartic is negative somewhere on an interval exactly when
it is negative at an end of the interval or at a root of its derivative, so there is no sampling and nothing can slip
between two samples.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "braking_acceleration",
    "first_contact",
    "least_distance",
    "stays_clear",
]

Array = NDArray[np.float64]

DEGREE = 4
BISECTIONS = 60  # halves any interval of seconds to the spacing of doubles


@njit(cache=True)
def value(polynomial: Array, t: float) -> float:
    """Evaluate the polynomial with coefficients in rising order (Horner)."""
    result = 0.0
    for power in range(polynomial.size - 1, -1, -1):
        result = result * t + polynomial[power]
    return result


@njit(cache=True)
def roots(polynomial: Array, end: float, order: int, found: Array) -> int:
    """Write the sign changes of derivative number ``order`` inside (0, ``end``) into ``found``; return how many.

    Between two neighbouring roots of its derivative a polynomial is monotone, so one bisection finds the only sign
    change there. The chain starts at the highest derivative, which has none. Vanishing leading coefficients need no
    special case.
    """
    derivative = np.empty(DEGREE + 1)
    breaks = np.empty(DEGREE + 2)
    breaks[0], breaks[1] = 0.0, end
    n_breaks = 2
    count = 0
    for level in range(DEGREE - 1, order - 1, -1):
        degree = DEGREE - level
        for power in range(degree + 1):
            factor = 1.0
            for k in range(level):
                factor *= power + level - k
            derivative[power] = factor * polynomial[power + level]
        current = derivative[: degree + 1]
        count = 0
        for k in range(n_breaks - 1):
            low, high = breaks[k], breaks[k + 1]
            rises = value(current, low) < 0.0
            if rises == (value(current, high) < 0.0):
                continue
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                if (value(current, middle) < 0.0) == rises:
                    low = middle
                else:
                    high = middle
            found[count] = high
            count += 1
        breaks[0] = 0.0
        for k in range(count):
            breaks[k + 1] = found[k]
        breaks[count + 1] = end
        n_breaks = count + 2
    return count


@njit(cache=True)
def gap_polynomial(offset: Array, velocity: Array, acceleration: Array, radius: Array, out: Array) -> None:
    """Write the coefficients of |offset + velocity t + acceleration t^2/2|^2 - (r0 + r1 t + r2 t^2)^2."""
    r0, r1, r2 = radius[0], radius[1], radius[2]
    out[0] = -r0 * r0
    out[1] = -2.0 * r0 * r1
    out[2] = -(r1 * r1 + 2.0 * r0 * r2)
    out[3] = -2.0 * r1 * r2
    out[4] = -r2 * r2
    for k in range(offset.size):
        a, b, c = offset[k], velocity[k], 0.5 * acceleration[k]
        out[0] += a * a
        out[1] += 2.0 * a * b
        out[2] += b * b + 2.0 * a * c
        out[3] += 2.0 * b * c
        out[4] += c * c


@njit(cache=True)
def one_is_never_negative(first: Array, second: Array, end: float, scratch: Array) -> bool:
    """Tell whether max(first, second) >= 0 on the whole of [0, end].

    The least value of the maximum of two smooth functions lies at an end, at a critical point of one of them, or
    where they cross.
    """
    if max(value(first, 0.0), value(second, 0.0)) < 0.0 or max(value(first, end), value(second, end)) < 0.0:
        return False
    for which in range(3):
        if which == 0:
            count = roots(first, end, 1, scratch)
        elif which == 1:
            count = roots(second, end, 1, scratch)
        else:
            count = roots(first - second, end, 0, scratch)
        for k in range(count):
            if max(value(first, scratch[k]), value(second, scratch[k])) < 0.0:
                return False
    return True


@njit(cache=True)
def braking_strength(velocity: Array, limit: float, component_limit: float) -> float:
    """Give the strongest acceleration (m/s^2) along -v that keeps the length and every component within its limit."""
    largest = np.max(np.abs(velocity))
    if largest == 0.0:
        return limit
    return min(limit, component_limit * (math.sqrt(np.sum(velocity * velocity)) / largest))


@njit(cache=True)
def braking_acceleration(velocity: Array, limit: float, component_limit: float, control_period: float) -> Array:
    """Give the acceleration of one period of braking along -v as hard as both limits allow, never past rest."""
    speed = math.sqrt(np.sum(velocity * velocity))
    if speed == 0.0:
        return np.zeros(velocity.size)
    strength = min(braking_strength(velocity, limit, component_limit), speed / control_period)
    return -(strength / speed) * velocity


@njit(cache=True)
def stays_clear(
    position: Array,
    velocity: Array,
    first_acceleration: Array,
    first_duration: float,
    limit: float,
    component_limit: float,
    control_period: float,
    rest_speed: float,
    partner_position: Array,
    partner_velocity: Array,
    contact_distance: float,
    partner_acceleration: float,
    partner_speed: float,
) -> bool:
    """Tell whether moving on, then braking to rest keeps the ego out of everything the partner can reach.

    The manoeuvre has at most three stretches of constant acceleration: ``first_acceleration`` for
    ``first_duration`` (zero for braking at once), whole control periods of braking at the limit, and one last, weaker
    period that ends at rest, unless no more than ``rest_speed`` is left. The ego is clear at time t when it is outside
    one of the two balls (radii enlarged by ``contact_distance``) that hold every motion of the partner: centre p + v t
    with radius a t^2/2, and centre p with radius s t.
    """
    dim = position.size
    p = position.copy()
    v = velocity.copy()
    accelerations = np.zeros((3, dim))
    durations = np.zeros(3)
    accelerations[0] = first_acceleration
    durations[0] = first_duration
    at_brake = v + first_acceleration * first_duration
    speed = math.sqrt(np.sum(at_brake * at_brake))
    if speed > 0.0:
        strength = braking_strength(at_brake, limit, component_limit)
        accelerations[1] = -(strength / speed) * at_brake
        durations[1] = math.floor(speed / (strength * control_period)) * control_period
        left = speed - strength * durations[1]
        if left > rest_speed:
            accelerations[2] = -(left / (speed * control_period)) * at_brake
            durations[2] = control_period

    by_acceleration = np.empty(DEGREE + 1)
    by_speed = np.empty(DEGREE + 1)
    scratch = np.empty(DEGREE)
    radius = np.empty(3)
    start = 0.0
    for stretch in range(3):
        duration = durations[stretch]
        a = accelerations[stretch]
        radius[0] = contact_distance + 0.5 * partner_acceleration * start * start
        radius[1] = partner_acceleration * start
        radius[2] = 0.5 * partner_acceleration
        centre = partner_position + partner_velocity * start
        gap_polynomial(p - centre, v - partner_velocity, a, radius, by_acceleration)
        if math.isinf(partner_speed):
            by_speed[:] = by_acceleration
        else:
            radius[0] = contact_distance + partner_speed * start
            radius[1] = partner_speed
            radius[2] = 0.0
            gap_polynomial(p - partner_position, v, a, radius, by_speed)
        if not one_is_never_negative(by_acceleration, by_speed, duration, scratch):
            return False
        p += v * duration + 0.5 * duration * duration * a
        v += duration * a
        start += duration
    return True


@njit(cache=True)
def first_contact(
    offsets: Array, velocities: Array, accelerations: Array, period: float, distance: float
) -> tuple[int, float]:
    """Find when two balls first come nearer than ``distance``: (index of the period, seconds into it), or (-1, 0).

    Args:
        offsets: relative positions at the starts of the periods, shape (n, d).
        velocities: relative velocities there, shape (n, d).
        accelerations: relative accelerations, constant over each period, shape (n, d).
        period: duration of every period (s).
        distance: distance of the centres at contact (m).
    """
    gap = np.empty(DEGREE + 1)
    critical = np.empty(DEGREE)
    radius = np.array([distance, 0.0, 0.0])
    for k in range(offsets.shape[0]):
        gap_polynomial(offsets[k], velocities[k], accelerations[k], radius, gap)
        if gap[0] < 0.0:
            return k, 0.0
        count = roots(gap, period, 1, critical)
        low = 0.0
        for j in range(count + 1):
            high = critical[j] if j < count else period
            if value(gap, high) < 0.0:
                for _ in range(BISECTIONS):
                    middle = 0.5 * (low + high)
                    if value(gap, middle) < 0.0:
                        high = middle
                    else:
                        low = middle
                return k, high
            low = high
    return -1, 0.0


@njit(cache=True)
def least_distance(offsets: Array, velocities: Array, accelerations: Array, period: float) -> float:
    """Give the least distance of two centres over all periods, between the samples too (arguments as above)."""
    gap = np.empty(DEGREE + 1)
    critical = np.empty(DEGREE)
    radius = np.zeros(3)
    least = np.inf
    for k in range(offsets.shape[0]):
        gap_polynomial(offsets[k], velocities[k], accelerations[k], radius, gap)
        least = min(least, gap[0], value(gap, period))
        for j in range(roots(gap, period, 1, critical)):
            least = min(least, value(gap, critical[j]))
    return math.sqrt(max(0.0, least))
