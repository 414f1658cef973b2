"""Draw an encounter: an ego on its way to a goal, and partners that meet it on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from concerto.testing._behaviours import Behaviour, draw_program, random_direction, replay
from concerto.testing.responsibility import BrakingLimit, DeclaredMotion, can_still_stop
from ripieno.randomness import derive_substream

__all__ = ["EGO", "Encounter", "EncounterSettings", "Partner", "draw_encounter"]

FloatArray = NDArray[np.float64]

EGO = "ego"
"""uid of the ego in every encounter."""

ARRIVAL_RADIUS = 0.15  # m
TIME_CONSTANT = 0.4  # s, of the nominal controller
MAX_PERIODS = 200
MAX_PARTNERS = 5
LARGEST_MISS = 1.2  # nearest approach to the unobstructed ego at the meeting, in contact distances
LEAST_INITIAL_GAP = 0.02  # m, between any two surfaces


@dataclass(frozen=True)
class EncounterSettings:
    """What the partners declare, and whether they keep it.

    Attributes:
        declared_acceleration: the declared acceleration limit of every partner, in units of the ego's own
            acceleration limit (`BrakingLimit.acceleration`).
        declared_speed: the declared speed limit of every partner, m/s; infinite for none.
        behaviour_scale: the partners use up to this many times what they declared; above 1 they break their word.
    """

    declared_acceleration: float = 1.0
    declared_speed: float = math.inf
    behaviour_scale: float = 1.0


@dataclass(frozen=True)
class Partner:
    """One partner of an encounter.

    Attributes:
        uid: its name.
        behaviour: what it does.
        radius: of its safety ball, m.
        positions: replayed positions, m, shape (n + 1, d); for `Behaviour.ACCELERATES_AT_EGO` only the first counts.
        velocities: replayed velocities, m/s, shape (n + 1, d); likewise.
        strength: largest acceleration that it really uses, m/s^2.
        max_speed: largest speed that it really uses, m/s.
    """

    uid: str
    behaviour: Behaviour
    radius: float
    positions: FloatArray
    velocities: FloatArray
    strength: float
    max_speed: float


@dataclass(frozen=True)
class Encounter:
    """An ego, its goal and its partners; everything that a controller does not decide.

    Attributes:
        index: number of the encounter.
        control_period: s.
        n_periods: after so many control periods the encounter ends.
        braking_limit: limits of the ego's acceleration.
        radius: of the ego's safety ball, m.
        position: of the ego at the start, m, shape (d,).
        velocity: of the ego at the start, m/s, shape (d,).
        goal: m, shape (d,).
        cruise_speed: speed the nominal controller aims at, m/s.
        unobstructed_arrival_s: when the ego arrives if it follows the nominal controller and nothing is in its way.
        declared: the worst motion that every partner declares.
        partners: who it meets.
    """

    index: int
    control_period: float
    n_periods: int
    braking_limit: BrakingLimit
    radius: float
    position: FloatArray
    velocity: FloatArray
    goal: FloatArray
    cruise_speed: float
    unobstructed_arrival_s: float
    declared: DeclaredMotion
    partners: tuple[Partner, ...]

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.position.size

    def nominal_action(self, position: FloatArray, velocity: FloatArray) -> FloatArray:
        """Give the acceleration towards the goal, m/s^2, shape (d,), inside the box; it ignores the partners."""
        return _nominal(position, velocity, self.goal, self.cruise_speed, self.braking_limit.component)

    def has_arrived(self, position: FloatArray) -> bool:
        """Tell whether the ego's centre is at its goal."""
        return _is_near(position, self.goal)


def draw_encounter(index: int, *, root_seed: int = 0, settings: EncounterSettings | None = None) -> Encounter:
    """Draw encounter number ``index``; the same index, seed and settings give the same encounter.

    The ego and 1 to 5 partners are drawn in 2-D or 3-D, uniformly over dimensions, numbers and behaviours. Every
    partner is placed so that it meets the unobstructed ego on its way: at a random moment it is at most 1.2 contact
    distances away. Draws are repeated until no two robots overlap at the start and the ego can still stop before the
    declared worst motion of every partner, by the criterion of `concerto.testing.responsibility`.
    """
    settings = settings or EncounterSettings()
    rng = derive_substream(f"concerto.testing.encounters.{index}", root_seed=root_seed).default_rng()
    dimension = int(rng.integers(2, 4))
    behaviours = [list(Behaviour)[k] for k in rng.integers(len(Behaviour), size=rng.integers(1, MAX_PARTNERS + 1))]
    while True:
        encounter = _draw(index, rng, settings, dimension, behaviours)
        if encounter is not None:
            return encounter


def _draw(
    index: int,
    rng: np.random.Generator,
    settings: EncounterSettings,
    dimension: int,
    behaviours: list[Behaviour],
) -> Encounter | None:
    period = float(rng.choice([0.05, 0.1]))
    component = rng.uniform(1.0, 4.0)
    # The two documented choices of the Euclidean limit: the box's inscribed ball and its corners.
    limit = BrakingLimit(component * (1.0 if rng.random() < 0.5 else math.sqrt(dimension)), component)
    cruise_speed = rng.uniform(0.5, 2.0)
    position = rng.uniform(-1.0, 1.0, size=dimension)
    goal = position + cruise_speed * rng.uniform(2.0, 3.5) * random_direction(rng, dimension)
    velocity = rng.uniform(0.0, cruise_speed) * random_direction(rng, dimension)
    if (goal - position) @ velocity < 0.0:
        velocity = -velocity
    path = _unobstructed_path(position, velocity, goal, cruise_speed, component, period)
    if path is None:
        return None
    declared = DeclaredMotion(settings.declared_acceleration * limit.acceleration, settings.declared_speed)
    encounter = Encounter(
        index=index,
        control_period=period,
        n_periods=min(MAX_PERIODS, 3 * len(path) + 40),
        braking_limit=limit,
        radius=rng.uniform(0.1, 0.4),
        position=position,
        velocity=velocity,
        goal=goal,
        cruise_speed=cruise_speed,
        unobstructed_arrival_s=period * (len(path) - 1),
        declared=declared,
        partners=(),
    )
    partners = tuple(
        _draw_partner(f"partner_{k}", behaviour, rng, encounter, path, settings)
        for k, behaviour in enumerate(behaviours)
    )
    if not _starts_apart(encounter, partners):
        return None
    return replace(encounter, partners=partners)


def _draw_partner(
    uid: str,
    behaviour: Behaviour,
    rng: np.random.Generator,
    encounter: Encounter,
    path: FloatArray,
    settings: EncounterSettings,
) -> Partner:
    dimension = encounter.dimension
    radius = rng.uniform(0.1, 0.5)
    strength = settings.behaviour_scale * encounter.declared.max_acceleration
    max_speed = settings.behaviour_scale * encounter.declared.max_speed
    velocity = min(max_speed, rng.uniform(0.2, 1.5)) * random_direction(rng, dimension)
    if behaviour is Behaviour.STANDS_STILL:
        velocity = np.zeros(dimension)
    program = draw_program(
        Behaviour.KEEPS_VELOCITY if behaviour is Behaviour.ACCELERATES_AT_EGO else behaviour,
        rng,
        velocity=velocity,
        n_periods=encounter.n_periods,
        period=encounter.control_period,
        strength=strength,
        max_speed=max_speed,
    )
    displacements, velocities = replay(velocity, program, encounter.control_period)
    meeting = int(rng.uniform(0.3, 0.8) * len(path))
    miss = rng.uniform(0.0, LARGEST_MISS) * (encounter.radius + radius) * random_direction(rng, dimension)
    positions = path[meeting] + miss - displacements[meeting] + displacements
    return Partner(uid, behaviour, radius, positions, velocities, strength, max_speed)


def _starts_apart(encounter: Encounter, partners: tuple[Partner, ...]) -> bool:
    balls = [(encounter.position, encounter.radius), *((p.positions[0], p.radius) for p in partners)]
    for k, (centre, radius) in enumerate(balls):
        for other_centre, other_radius in balls[:k]:
            if np.linalg.norm(centre - other_centre) < radius + other_radius + LEAST_INITIAL_GAP:
                return False
    return all(
        can_still_stop(
            encounter.position,
            encounter.velocity,
            braking_limit=encounter.braking_limit,
            control_period=encounter.control_period,
            partner_position=partner.positions[0],
            partner_velocity=partner.velocities[0],
            radii=encounter.radius + partner.radius,
            declared=encounter.declared,
        )
        for partner in partners
    )


def _nominal(
    position: FloatArray, velocity: FloatArray, goal: FloatArray, cruise_speed: float, component: float
) -> FloatArray:
    """Critically damped PD control with the error cut off where it asks for the cruise speed, saturated to the box."""
    error = goal - position
    distance = math.sqrt(float(error @ error))
    lookahead = 2.0 * TIME_CONSTANT * cruise_speed
    if distance > lookahead:
        error = error * (lookahead / distance)
    action = (error / TIME_CONSTANT - 2.0 * velocity) / TIME_CONSTANT
    return np.minimum(np.maximum(action, -component), component)


def _is_near(position: FloatArray, goal: FloatArray) -> bool:
    error = goal - position
    return float(error @ error) <= ARRIVAL_RADIUS**2


def _unobstructed_path(
    position: FloatArray, velocity: FloatArray, goal: FloatArray, cruise_speed: float, component: float, period: float
) -> FloatArray | None:
    """Positions at all samples until arrival under the nominal controller, or None when it takes too long."""
    path = [position]
    while not _is_near(position, goal):
        if len(path) > MAX_PERIODS // 2:
            return None
        action = _nominal(position, velocity, goal, cruise_speed, component)
        position = position + period * velocity + 0.5 * period * period * action
        velocity = velocity + period * action
        path.append(position)
    return np.array(path)
