"""The encounters: reproducible, true to what partners declare, dangerous without a filter, fair to a good one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from concerto.safety.api import AgentSnapshot
from concerto.testing import _worst_case
from concerto.testing._behaviours import limit_speed
from concerto.testing.encounters import (
    Behaviour,
    Controller,
    ControllerFactory,
    Encounter,
    EncounterSettings,
    draw_encounter,
    run_encounter,
    run_encounters,
    simulate,
    unfiltered,
)
from concerto.testing.responsibility import Contact, Recording, Verdict, can_still_stop, judge_contacts

FloatArray = NDArray[np.float64]

SAMPLE = range(60)


def braking_rule(encounter: Encounter, *, believed_period: float) -> Controller:
    """Drive on while the ego could still stop after one more period, else brake: the rule of the judge itself."""
    limit = encounter.braking_limit

    def control(nominal: FloatArray, agent_states: dict[str, AgentSnapshot]) -> tuple[FloatArray, str]:
        ego = agent_states["ego"]
        may_drive_on = all(
            can_still_stop(
                ego.position,
                ego.velocity,
                braking_limit=limit,
                control_period=believed_period,
                partner_position=state.position,
                partner_velocity=state.velocity,
                radii=ego.radius + state.radius,
                declared=encounter.declared,
                first_acceleration=nominal,
            )
            for uid, state in agent_states.items()
            if uid != "ego"
        )
        if may_drive_on:
            return nominal, "pass_through"
        brake = _worst_case.braking_acceleration(
            ego.velocity, limit.acceleration, limit.component, encounter.control_period
        )
        return brake, "braking"

    return control


def brakes_in_time(encounter: Encounter) -> Controller:
    return braking_rule(encounter, believed_period=encounter.control_period)


def brakes_too_late(encounter: Encounter) -> Controller:
    """Believes that it decides every millisecond, and so trusts to come round again before it is too late."""
    return braking_rule(encounter, believed_period=1e-3)


# ------------------------------------------------------------------------------------------- reproducible


def test_the_same_index_and_seed_give_the_same_encounter() -> None:
    first, second = draw_encounter(3, root_seed=7), draw_encounter(3, root_seed=7)
    assert first.position.tobytes() == second.position.tobytes()
    for partner, again in zip(first.partners, second.partners, strict=True):
        assert partner.positions.tobytes() == again.positions.tobytes()
    assert draw_encounter(4, root_seed=7).position.tobytes() != first.position.tobytes()
    assert draw_encounter(3, root_seed=8).position.tobytes() != first.position.tobytes()


def test_a_run_is_reproducible_to_the_last_byte() -> None:
    runs = [simulate(draw_encounter(5), unfiltered(draw_encounter(5))) for _ in range(2)]
    assert runs[0].recording.ego_positions.tobytes() == runs[1].recording.ego_positions.tobytes()


def test_every_behaviour_number_and_dimension_occurs() -> None:
    encounters = [draw_encounter(index) for index in SAMPLE]
    assert {partner.behaviour for e in encounters for partner in e.partners} == set(Behaviour)
    assert {len(e.partners) for e in encounters} == {1, 2, 3, 4, 5}
    assert {e.dimension for e in encounters} == {2, 3}


# -------------------------------------------------------------------------------------- what is declared


def largest_use_of_the_declaration(encounter: Encounter) -> tuple[float, float]:
    """Largest acceleration and speed of any partner in a run, as shares of what it declared."""
    recording = simulate(encounter, brakes_in_time(encounter)).recording
    accelerations = [np.linalg.norm(recording.partner_accelerations(uid), axis=1).max() for uid in recording.partners]
    speeds = [np.linalg.norm(partner.velocities, axis=1).max() for partner in recording.partners.values()]
    return (
        float(max(accelerations)) / encounter.declared.max_acceleration,
        float(max(speeds)) / encounter.declared.max_speed,
    )


@pytest.mark.parametrize("speed", [math.inf, 1.0])
def test_partners_keep_what_they_declare(speed: float) -> None:
    settings = EncounterSettings(declared_acceleration=0.7, declared_speed=speed)
    for index in SAMPLE:
        acceleration, fastest = largest_use_of_the_declaration(draw_encounter(index, settings=settings))
        assert acceleration <= 1.0 + 1e-9
        assert fastest <= 1.0 + 1e-9


def test_a_behaviour_scale_above_one_breaks_the_declaration() -> None:
    uses = [
        largest_use_of_the_declaration(draw_encounter(index, settings=EncounterSettings(behaviour_scale=3.0)))[0]
        for index in SAMPLE
    ]
    assert max(uses) == pytest.approx(3.0)
    outcomes = run_encounters(SAMPLE, brakes_in_time, settings=EncounterSettings(behaviour_scale=3.0))
    assert any(partner.broke_its_word for outcome in outcomes for partner in outcome.partners)


@given(
    velocity=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)),
    acceleration=st.tuples(st.floats(-50.0, 50.0), st.floats(-50.0, 50.0)),
    max_speed=st.floats(1.5, 3.0),
)
def test_limiting_the_speed_never_asks_for_more_acceleration(
    velocity: tuple[float, float], acceleration: tuple[float, float], max_speed: float
) -> None:
    v, a = np.array(velocity), np.array(acceleration)
    limited = limit_speed(v, a, 0.1, max_speed)
    assert np.linalg.norm(v + 0.1 * limited) <= max_speed + 1e-12
    assert np.linalg.norm(limited) <= np.linalg.norm(a) + 1e-12


# ------------------------------------------------------------------------------------ fair and dangerous


def test_the_ego_can_still_stop_at_the_start_and_touches_nobody() -> None:
    for index in SAMPLE:
        encounter = draw_encounter(index)
        for partner in encounter.partners:
            radii = encounter.radius + partner.radius
            assert np.linalg.norm(encounter.position - partner.positions[0]) > radii
            assert can_still_stop(
                encounter.position,
                encounter.velocity,
                braking_limit=encounter.braking_limit,
                control_period=encounter.control_period,
                partner_position=partner.positions[0],
                partner_velocity=partner.velocities[0],
                radii=radii,
                declared=encounter.declared,
            )


def test_with_nobody_in_the_way_the_ego_arrives_when_the_encounter_says() -> None:
    for index in SAMPLE:
        outcome = run_encounter(replace(draw_encounter(index), partners=()), unfiltered)
        assert outcome.arrival_s == pytest.approx(outcome.unobstructed_arrival_s)
        assert outcome.sources == {"nominal": outcome.n_periods}


def test_without_a_filter_most_encounters_end_in_a_contact_at_fault() -> None:
    outcomes = run_encounters(SAMPLE, unfiltered)
    assert sum(outcome.n_at_fault > 0 for outcome in outcomes) > 0.9 * len(outcomes)
    assert any(partner.lapses for outcome in outcomes for partner in outcome.partners)


def test_an_ego_that_brakes_in_time_is_never_at_fault() -> None:
    outcomes = run_encounters(SAMPLE, brakes_in_time)
    verdicts = {partner.verdict for outcome in outcomes for partner in outcome.partners}
    assert Verdict.AT_FAULT not in verdicts
    assert Verdict.NOT_AT_FAULT_BRAKING not in verdicts, "partners kept their word"
    assert Verdict.NOT_AT_FAULT_AT_REST in verdicts, "some partners drive at an ego at rest"
    assert not any(partner.lapses for outcome in outcomes for partner in outcome.partners)


def test_an_ego_that_brakes_too_late_is_caught() -> None:
    outcomes = run_encounters(SAMPLE, brakes_too_late)
    assert any(outcome.n_at_fault for outcome in outcomes)
    assert any(partner.lapses for outcome in outcomes for partner in outcome.partners)


def test_an_ego_that_brakes_in_time_is_not_at_fault_when_partners_break_their_word() -> None:
    outcomes = run_encounters(SAMPLE, brakes_in_time, settings=EncounterSettings(behaviour_scale=3.0))
    verdicts = [partner.verdict for outcome in outcomes for partner in outcome.partners]
    assert Verdict.AT_FAULT not in verdicts
    assert Verdict.NOT_AT_FAULT_BRAKING in verdicts


def verdict_to_the_letter(recording: Recording, contact: Contact) -> Verdict:
    """Decide the rule in its own words: braking in every period from the last one at which braking was enough."""

    def could_stop(period: int) -> bool:
        partner = recording.partners[contact.partner]
        return can_still_stop(
            recording.ego_positions[period],
            recording.ego_velocities[period],
            braking_limit=recording.braking_limit,
            control_period=recording.control_period,
            partner_position=partner.positions[period],
            partner_velocity=partner.velocities[period],
            radii=recording.ego_radius + partner.radius,
            declared=partner.declared,
        )

    def brakes(period: int) -> bool:
        velocity, applied = recording.ego_velocities[period], recording.ego_accelerations[period]
        limit = recording.braking_limit
        speed = np.linalg.norm(velocity)
        if speed == 0.0:
            return not applied.any()
        strength = min(limit.acceleration, limit.component / np.abs(velocity / speed).max())
        return bool(np.allclose(applied, -min(strength, speed / recording.control_period) * velocity / speed))

    if contact.ego_speed <= 1e-6:
        return Verdict.NOT_AT_FAULT_AT_REST
    since = max((k for k in range(contact.period + 1) if could_stop(k)), default=0)
    braked = all(brakes(k) for k in range(since, contact.period + 1))
    return Verdict.NOT_AT_FAULT_BRAKING if braked else Verdict.AT_FAULT


@pytest.mark.parametrize("make_controller", [unfiltered, brakes_in_time, brakes_too_late])
def test_for_partners_that_keep_their_word_the_verdict_is_the_rule_to_the_letter(
    make_controller: ControllerFactory,
) -> None:
    for encounter in map(draw_encounter, SAMPLE):
        recording = simulate(encounter, make_controller(encounter)).recording
        for contact in judge_contacts(recording):
            assert contact.verdict is verdict_to_the_letter(recording, contact)


# --------------------------------------------------------------------------------------------- bad actions


def test_actions_beyond_the_box_are_counted_and_cut_to_it() -> None:
    encounter = draw_encounter(0)

    def overdo(nominal: FloatArray, agent_states: dict[str, AgentSnapshot]) -> tuple[FloatArray, str]:
        return np.full_like(nominal, 1.01 * encounter.braking_limit.component), "overdone"

    run = simulate(encounter, overdo)
    assert run.out_of_bounds == run.recording.n_periods
    assert np.all(run.recording.ego_accelerations == encounter.braking_limit.component)


@pytest.mark.parametrize("bad", [np.array([np.nan, 0.0]), np.array([np.inf, -np.inf]), np.zeros(1)])
def test_an_action_that_is_no_finite_vector_is_refused(bad: FloatArray) -> None:
    encounter = next(e for e in map(draw_encounter, SAMPLE) if e.dimension == 2)
    with pytest.raises(ValueError, match="the action must be a finite vector of length 2"):
        simulate(encounter, lambda _nominal, _states: (bad, "bad"))
