"""How the partners of an encounter move: one small program of accelerations per behaviour.

A program is drawn once, before the encounter, and replayed; only `Behaviour.ACCELERATES_AT_EGO` looks at the ego.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Behaviour", "draw_program", "limit_speed", "pursuit", "random_direction", "replay"]

FloatArray = NDArray[np.float64]


class Behaviour(StrEnum):
    """What a partner does during an encounter."""

    STANDS_STILL = "stands_still"
    KEEPS_VELOCITY = "keeps_velocity"
    STOPS = "stops"
    SWERVES = "swerves"
    RANDOM_WALK = "random_walk"
    ACCELERATES_AT_EGO = "accelerates_at_ego"


def random_direction(rng: np.random.Generator, dimension: int) -> FloatArray:
    """Draw a unit vector, uniform over all directions."""
    vector = rng.normal(size=dimension)
    return vector / np.linalg.norm(vector)


def limit_speed(velocity: FloatArray, acceleration: FloatArray, period: float, max_speed: float) -> FloatArray:
    """Weaken an acceleration so that the speed stays within ``max_speed``; it never becomes larger than it was.

    The velocity it leads to is projected onto the ball of permitted velocities; because the velocity now lies in that
    ball and a projection brings no two points further apart, the change of velocity can only shrink.
    """
    reached = velocity + period * acceleration
    speed = math.sqrt(float(reached @ reached))
    if speed <= max_speed:
        return acceleration
    return (reached * (max_speed / speed) - velocity) / period


def replay(velocity: FloatArray, program: FloatArray, period: float) -> tuple[FloatArray, FloatArray]:
    """Integrate a program exactly: displacements and velocities at all samples, shape (n + 1, d) each."""
    velocities = np.vstack([velocity, velocity + period * np.cumsum(program, axis=0)])
    steps = period * velocities[:-1] + 0.5 * period * period * program
    displacements = np.vstack([np.zeros_like(velocity), np.cumsum(steps, axis=0)])
    return displacements, velocities


def pursuit(
    position: FloatArray,
    velocity: FloatArray,
    ego_position: FloatArray,
    strength: float,
    period: float,
    max_speed: float,
) -> FloatArray:
    """Give the acceleration of a partner that drives at the ego with all it has."""
    towards = ego_position - position
    distance = math.sqrt(float(towards @ towards))
    if distance == 0.0:
        return np.zeros_like(towards)
    return limit_speed(velocity, (strength / distance) * towards, period, max_speed)


def draw_program(
    behaviour: Behaviour,
    rng: np.random.Generator,
    *,
    velocity: FloatArray,
    n_periods: int,
    period: float,
    strength: float,
    max_speed: float,
) -> FloatArray:
    """Draw the accelerations of a partner, m/s^2, shape (n_periods, d), never longer than ``strength``."""
    program = _PROGRAMS[behaviour](rng, velocity, n_periods, period, strength)
    if math.isinf(max_speed):
        return program
    now = velocity
    for k in range(n_periods):
        program[k] = limit_speed(now, program[k], period, max_speed)
        now = now + period * program[k]
    return program


_Program = Callable[[np.random.Generator, FloatArray, int, float, float], FloatArray]


def _no_acceleration(
    rng: np.random.Generator, velocity: FloatArray, n_periods: int, period: float, strength: float
) -> FloatArray:
    return np.zeros((n_periods, velocity.size))


def _stop(rng: np.random.Generator, velocity: FloatArray, n_periods: int, period: float, strength: float) -> FloatArray:
    """Drive on for a while, then brake to rest; the last period is weaker."""
    program = np.zeros((n_periods, velocity.size))
    braking = rng.uniform(0.3, 1.0) * strength
    now = velocity
    for k in range(rng.integers(n_periods // 2), n_periods):
        speed = math.sqrt(float(now @ now))
        if speed == 0.0:
            break
        program[k] = -min(braking / speed, 1.0 / period) * now
        now = now + period * program[k]
    return program


def _swerve(
    rng: np.random.Generator, velocity: FloatArray, n_periods: int, period: float, strength: float
) -> FloatArray:
    """Accelerate sideways for a while, then back for as long, from a random moment on."""
    program = np.zeros((n_periods, velocity.size))
    sideways = random_direction(rng, velocity.size)
    speed_squared = float(velocity @ velocity)
    if speed_squared > 0.0:
        sideways = sideways - (float(sideways @ velocity) / speed_squared) * velocity
        sideways = sideways / np.linalg.norm(sideways)
    start = int(rng.integers(n_periods // 2))
    half = int(rng.integers(1, n_periods // 3))
    push = rng.uniform(0.5, 1.0) * strength * sideways
    program[start : start + half] = push
    program[start + half : start + 2 * half] = -push
    return program


def _random_walk(
    rng: np.random.Generator, velocity: FloatArray, n_periods: int, period: float, strength: float
) -> FloatArray:
    """Hold a random acceleration for a random span of 1 to 10 periods, again and again."""
    program = np.empty((n_periods, velocity.size))
    k = 0
    while k < n_periods:
        span = int(rng.integers(1, 11))
        program[k : k + span] = rng.uniform(0.0, 1.0) * strength * random_direction(rng, velocity.size)
        k += span
    return program


_PROGRAMS: dict[Behaviour, _Program] = {
    Behaviour.STANDS_STILL: _no_acceleration,
    Behaviour.KEEPS_VELOCITY: _no_acceleration,
    Behaviour.STOPS: _stop,
    Behaviour.SWERVES: _swerve,
    Behaviour.RANDOM_WALK: _random_walk,
}
