"""Encounters: seeded meetings of a robot with strangers, to see what a controller makes of them.

Three nouns: an `Encounter` is drawn from an index and a seed and holds everything that the controller does not
decide; a `Controller` turns the nominal action and the snapshots of all robots into the acceleration that is applied;
an `EncounterOutcome` says what happened, with every contact judged by `concerto.testing.responsibility`.

The ego is a point mass whose acceleration is held over each control period and integrated exactly. A nominal
controller drives it to its goal and ignores everybody. The partners stand still, keep their velocity, stop, swerve,
follow a recorded random walk or accelerate at the ego; every one of them is placed so that it meets the ego on its
unobstructed way to the goal. Robots do not push each other: after a contact both move on, and only the first contact
with each partner counts.

Examples:
    >>> outcome = run_encounter(draw_encounter(1), unfiltered)
    >>> outcome.n_contacts >= 0
    True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import AgentSnapshot
from concerto.testing._behaviours import Behaviour, pursuit
from concerto.testing._controllers import (
    Controller,
    ControllerFactory,
    documented_default,
    safety_stack,
    unfiltered,
)
from concerto.testing._encounter import EGO, Encounter, EncounterSettings, Partner, draw_encounter
from concerto.testing.responsibility import (
    RecordedPartner,
    Recording,
    Verdict,
    find_lapses,
    judge_contacts,
    least_clearance,
)

__all__ = [
    "Behaviour",
    "Controller",
    "ControllerFactory",
    "Encounter",
    "EncounterOutcome",
    "EncounterSettings",
    "Partner",
    "PartnerOutcome",
    "Run",
    "documented_default",
    "draw_encounter",
    "run_encounter",
    "run_encounters",
    "safety_stack",
    "simulate",
    "unfiltered",
]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What happened when a controller met an encounter.

    Attributes:
        recording: the motion of everybody, for the judge.
        sources: where the action of each period came from.
        arrival_period: number of periods after which the ego was at its goal; None when it never was.
        out_of_bounds: number of actions with a component beyond its limit, as the controller gave them.
    """

    recording: Recording
    sources: tuple[str, ...]
    arrival_period: int | None
    out_of_bounds: int


@dataclass(frozen=True)
class PartnerOutcome:
    """What happened between the ego and one partner.

    Attributes:
        behaviour: what the partner did.
        clearance_m: least distance between the two surfaces, m; 0 when they touched.
        verdict: who answers for the first contact; None when there was none.
        broke_its_word: the partner exceeded its declared motion before the contact.
        lapses: number of periods in which the ego gave up being able to stop for this partner.
    """

    behaviour: Behaviour
    clearance_m: float
    verdict: Verdict | None
    broke_its_word: bool
    lapses: int


@dataclass(frozen=True)
class EncounterOutcome:
    """What an encounter adds to a table.

    Attributes:
        index: number of the encounter.
        n_periods: control periods simulated.
        partners: one row for each partner.
        arrival_s: when the ego reached its goal, without any contact before; None when it did not.
        unobstructed_arrival_s: when it would have with nothing in its way.
        sources: how many actions came from where.
        out_of_bounds: actions with a component beyond its limit.
    """

    index: int
    n_periods: int
    partners: tuple[PartnerOutcome, ...]
    arrival_s: float | None
    unobstructed_arrival_s: float
    sources: Mapping[str, int]
    out_of_bounds: int

    @property
    def n_contacts(self) -> int:
        """Number of partners that the ego touched."""
        return sum(partner.verdict is not None for partner in self.partners)

    @property
    def n_at_fault(self) -> int:
        """Number of partners with a contact that is the ego's fault."""
        return sum(partner.verdict is Verdict.AT_FAULT for partner in self.partners)


def simulate(encounter: Encounter, controller: Controller) -> Run:
    """Let a controller act until the ego is at its goal or the encounter is over.

    The motors saturate: a component beyond its limit is cut to the limit before it is applied.

    Raises:
        ValueError: the controller returned an action that is not a finite vector of the right length.
    """
    n, dim, dt = encounter.n_periods, encounter.dimension, encounter.control_period
    positions, velocities, actions = np.empty((n + 1, dim)), np.empty((n + 1, dim)), np.empty((n, dim))
    positions[0], velocities[0] = encounter.position, encounter.velocity
    motions = {partner.uid: (partner.positions.copy(), partner.velocities.copy()) for partner in encounter.partners}
    sources: list[str] = []
    arrival: int | None = None
    out_of_bounds = 0
    most = encounter.braking_limit.component
    for k in range(n):
        position, velocity = positions[k], velocities[k]
        states = {EGO: AgentSnapshot(position, velocity, encounter.radius)}
        for partner in encounter.partners:
            partner_positions, partner_velocities = motions[partner.uid]
            states[partner.uid] = AgentSnapshot(partner_positions[k], partner_velocities[k], partner.radius)
        action, source = controller(encounter.nominal_action(position, velocity), states)
        if action.shape != (dim,) or not np.isfinite(action).all():
            raise ValueError(f"the action must be a finite vector of length {dim}, got {action} at period {k}")
        sources.append(source)
        out_of_bounds += bool(np.any(np.abs(action) > most * (1.0 + 1e-9)))
        actions[k] = np.minimum(np.maximum(action, -most), most)
        positions[k + 1], velocities[k + 1] = _advance(position, velocity, actions[k], dt)
        for partner in encounter.partners:
            if partner.behaviour is Behaviour.ACCELERATES_AT_EGO:
                p, v = motions[partner.uid]
                acceleration = pursuit(p[k], v[k], position, partner.strength, dt, partner.max_speed)
                p[k + 1], v[k + 1] = _advance(p[k], v[k], acceleration, dt)
        if encounter.has_arrived(positions[k + 1]):
            arrival = k + 1
            break
    n = len(sources)
    recording = Recording(
        control_period=dt,
        times=dt * np.arange(n + 1, dtype=np.float64),
        ego_positions=positions[: n + 1],
        ego_velocities=velocities[: n + 1],
        ego_accelerations=actions[:n],
        ego_radius=encounter.radius,
        braking_limit=encounter.braking_limit,
        partners={
            partner.uid: RecordedPartner(
                motions[partner.uid][0][: n + 1], motions[partner.uid][1][: n + 1], partner.radius, encounter.declared
            )
            for partner in encounter.partners
        },
    )
    return Run(recording, tuple(sources), arrival, out_of_bounds)


def run_encounter(encounter: Encounter, make_controller: ControllerFactory) -> EncounterOutcome:
    """Simulate an encounter with a fresh controller and judge what happened."""
    run = simulate(encounter, make_controller(encounter))
    recording = run.recording
    contacts = {contact.partner: contact for contact in judge_contacts(recording)}
    lapses = Counter(lapse.partner for lapse in find_lapses(recording))
    outcomes: list[PartnerOutcome] = []
    for partner in encounter.partners:
        contact = contacts.get(partner.uid)
        outcomes.append(
            PartnerOutcome(
                behaviour=partner.behaviour,
                clearance_m=0.0 if contact else least_clearance(recording, partner.uid),
                verdict=contact.verdict if contact else None,
                broke_its_word=contact.partner_broke_its_word if contact else False,
                lapses=lapses[partner.uid],
            )
        )
    arrived = run.arrival_period is not None and not contacts
    return EncounterOutcome(
        index=encounter.index,
        n_periods=recording.n_periods,
        partners=tuple(outcomes),
        arrival_s=float(recording.times[-1]) if arrived else None,
        unobstructed_arrival_s=encounter.unobstructed_arrival_s,
        sources=Counter(run.sources),
        out_of_bounds=run.out_of_bounds,
    )


def run_encounters(
    indices: Iterable[int],
    make_controller: ControllerFactory,
    *,
    root_seed: int = 0,
    settings: EncounterSettings | None = None,
) -> list[EncounterOutcome]:
    """Draw, simulate and judge the encounters with these numbers, one after the other."""
    return [
        run_encounter(draw_encounter(index, root_seed=root_seed, settings=settings), make_controller)
        for index in indices
    ]


def _advance(
    position: FloatArray, velocity: FloatArray, acceleration: FloatArray, period: float
) -> tuple[FloatArray, FloatArray]:
    """Integrate one period of constant acceleration exactly."""
    return position + period * velocity + 0.5 * period * period * acceleration, velocity + period * acceleration
