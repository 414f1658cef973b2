"""The judge of contacts: hand-computed verdicts, agreement with brute force, and proofs that it can say "at fault"."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from concerto.testing.responsibility import (
    BrakingLimit,
    DeclaredMotion,
    RecordedPartner,
    Recording,
    Tolerances,
    Verdict,
    can_still_stop,
    find_lapses,
    judge_contacts,
    least_clearance,
)
from ripieno.randomness import derive_substream

FloatArray = NDArray[np.float64]

DT = 0.1
LIMIT = BrakingLimit(acceleration=2.0, component=10.0)
STANDS = DeclaredMotion(max_acceleration=0.0)
FULL_BRAKE = -2.0
PERIODS_TO_REST = 5  # from 1 m/s at 2 m/s^2 in periods of 0.1 s
STOPPING_DISTANCE = 0.25  # 1^2 / (2 * 2) m, whole periods, so sampling costs nothing
RADII = 0.5


def integrate(start: FloatArray, velocity: FloatArray, accelerations: FloatArray) -> tuple[FloatArray, FloatArray]:
    velocities = np.vstack([velocity, velocity + DT * np.cumsum(accelerations, axis=0)])
    steps = DT * velocities[:-1] + 0.5 * DT**2 * accelerations
    return np.vstack([start, start + np.cumsum(steps, axis=0)]), velocities


def record(
    accelerations: FloatArray,
    *,
    partner_start: FloatArray,
    partner_velocity: FloatArray | None = None,
    partner_accelerations: FloatArray | None = None,
    declared: DeclaredMotion = STANDS,
    velocity: FloatArray | None = None,
    limit: BrakingLimit = LIMIT,
) -> Recording:
    """Ego from the origin at 1 m/s along +x; both radii 0.25 m."""
    n, dim = accelerations.shape
    start_velocity = np.eye(dim)[0] if velocity is None else velocity
    positions, velocities = integrate(np.zeros(dim), start_velocity, accelerations)
    p, v = integrate(
        partner_start,
        np.zeros(dim) if partner_velocity is None else partner_velocity,
        np.zeros((n, dim)) if partner_accelerations is None else partner_accelerations,
    )
    return Recording(
        control_period=DT,
        times=DT * np.arange(n + 1),
        ego_positions=positions,
        ego_velocities=velocities,
        ego_accelerations=accelerations,
        ego_radius=0.25,
        braking_limit=limit,
        partners={"partner": RecordedPartner(p, v, 0.25, declared)},
    )


def drive_then_brake(free_periods: int, brake: float = FULL_BRAKE, total: int = 20) -> FloatArray:
    """Keep 1 m/s along +x, then brake to rest with a last, weaker period."""
    accelerations = np.zeros((total, 2))
    speed = 1.0
    for k in range(free_periods, total):
        accelerations[k, 0] = max(brake, -speed / DT)
        speed += DT * accelerations[k, 0]
    return accelerations


def standing_partner_reached_after(free_periods: int) -> FloatArray:
    """A partner that an ego which brakes after so many free periods touches exactly, without a contact."""
    return np.array([free_periods * DT * 1.0 + STOPPING_DISTANCE + RADII, 0.0])


# ---------------------------------------------------------------------------------------------- at fault


def test_driving_into_a_standing_partner_is_at_fault() -> None:
    (contact,) = judge_contacts(record(np.zeros((20, 2)), partner_start=np.array([1.2, 0.0])))
    assert contact.verdict is Verdict.AT_FAULT
    assert contact.time == pytest.approx(0.7, abs=1e-8)
    assert contact.last_safe_action == pytest.approx(0.3)
    assert contact.ego_speed == pytest.approx(1.0)
    assert not contact.partner_broke_its_word


def test_braking_just_in_time_makes_no_contact() -> None:
    recording = record(drive_then_brake(5), partner_start=standing_partner_reached_after(5))
    assert judge_contacts(recording) == ()
    assert find_lapses(recording) == ()
    assert least_clearance(recording, "partner") == pytest.approx(0.0, abs=1e-12)


def test_braking_one_period_too_late_is_at_fault() -> None:
    recording = record(drive_then_brake(6), partner_start=standing_partner_reached_after(5))
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.AT_FAULT
    assert [lapse.period for lapse in find_lapses(recording)] == [5]


def test_braking_at_ninety_percent_is_at_fault() -> None:
    recording = record(drive_then_brake(5, brake=0.9 * FULL_BRAKE), partner_start=standing_partner_reached_after(5))
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.AT_FAULT


def test_swerving_instead_of_braking_is_at_fault() -> None:
    accelerations = np.zeros((20, 2))
    accelerations[5:, 1] = 2.0
    (contact,) = judge_contacts(record(accelerations, partner_start=standing_partner_reached_after(5)))
    assert contact.verdict is Verdict.AT_FAULT


def test_braking_early_letting_go_and_braking_again_too_late_is_at_fault() -> None:
    accelerations = drive_then_brake(6)
    accelerations[4, 0], accelerations[5, 0] = FULL_BRAKE, -FULL_BRAKE
    recording = record(accelerations, partner_start=np.array([1.1 + 0.1, 0.0]))
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.AT_FAULT


def test_a_late_brake_is_at_fault_even_when_the_partner_breaks_its_word_later() -> None:
    """The partner's fault is reported beside the ego's; it does not wash it away."""
    partner_accelerations = np.zeros((20, 2))
    partner_accelerations[7:, 0] = -1.0
    recording = record(
        drive_then_brake(6),
        partner_start=standing_partner_reached_after(5),
        partner_accelerations=partner_accelerations,
    )
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.AT_FAULT
    assert contact.partner_broke_its_word


def test_moving_without_braking_when_it_never_could_stop_is_at_fault() -> None:
    (contact,) = judge_contacts(record(np.zeros((20, 2)), partner_start=np.array([0.6, 0.0])))
    assert contact.verdict is Verdict.AT_FAULT
    assert contact.last_safe_action is None


# ------------------------------------------------------------------------------------------ not at fault


def test_an_ego_at_rest_is_not_at_fault() -> None:
    recording = record(
        np.zeros((20, 2)),
        velocity=np.zeros(2),
        partner_start=np.array([1.0, 0.0]),
        partner_velocity=np.array([-1.0, 0.0]),
    )
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.NOT_AT_FAULT_AT_REST
    assert contact.time == pytest.approx(0.5, abs=1e-8)
    assert not contact.partner_broke_its_word


def test_an_ego_that_came_to_rest_before_it_was_hit_is_not_at_fault() -> None:
    recording = record(
        drive_then_brake(0),
        partner_start=np.array([1.5, 0.0]),
        partner_velocity=np.array([-0.5, 0.0]),
    )
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.NOT_AT_FAULT_AT_REST
    assert contact.time == pytest.approx(1.5, abs=1e-8)


def test_braking_from_the_first_period_is_not_at_fault_when_it_never_could_stop() -> None:
    (contact,) = judge_contacts(record(drive_then_brake(0), partner_start=np.array([0.6, 0.0])))
    assert contact.verdict is Verdict.NOT_AT_FAULT_BRAKING
    assert contact.last_safe_action is None


def test_braking_when_a_partner_breaks_its_word_is_not_at_fault() -> None:
    partner_accelerations = np.zeros((20, 2))
    partner_accelerations[2:, 0] = -4.0
    recording = record(
        drive_then_brake(2),
        partner_start=np.array([0.95, 0.0]),
        partner_accelerations=partner_accelerations,
    )
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.NOT_AT_FAULT_BRAKING
    assert contact.partner_broke_its_word
    assert contact.last_safe_action == pytest.approx(0.2)


def test_an_action_that_was_safe_when_it_was_chosen_is_not_a_fault_when_the_partner_breaks_its_word() -> None:
    """In period 2 the ego still drives, and could: braking after it ends exactly at a partner that stands."""
    partner_accelerations = np.zeros((20, 2))
    partner_accelerations[2:, 0] = -4.0
    recording = record(
        drive_then_brake(3),
        partner_start=standing_partner_reached_after(3),
        partner_accelerations=partner_accelerations,
    )
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.NOT_AT_FAULT_BRAKING
    assert contact.last_safe_action == pytest.approx(0.2)
    honest = replace(
        recording,
        partners={"partner": replace(recording.partners["partner"], declared=DeclaredMotion(max_acceleration=4.0))},
    )
    (contact,) = judge_contacts(honest)
    assert contact.verdict is Verdict.AT_FAULT, "had the partner declared 4 m/s^2, that action was a risk"


def test_a_brake_sent_in_single_precision_is_limit_braking() -> None:
    partner_accelerations = np.zeros((20, 2))
    partner_accelerations[1:, 0] = -4.0
    exact = record(
        drive_then_brake(1), partner_start=np.array([0.95, 0.0]), partner_accelerations=partner_accelerations
    )
    rounded = np.asarray(exact.ego_accelerations * 0.9999, dtype=np.float32).astype(np.float64) / 0.9999
    recording = record(rounded, partner_start=np.array([0.95, 0.0]), partner_accelerations=partner_accelerations)
    assert not np.array_equal(rounded, exact.ego_accelerations)
    (contact,) = judge_contacts(recording)
    assert contact.verdict is Verdict.NOT_AT_FAULT_BRAKING


def test_every_verdict_has_its_sentence() -> None:
    assert len({verdict.sentence for verdict in Verdict}) == len(Verdict)


# ------------------------------------------------------------------------------- contact between samples


def test_a_contact_between_two_samples_is_found() -> None:
    """At 40 m/s the partner is 2 m away at both samples around the contact."""
    recording = record(
        np.zeros((4, 2)),
        velocity=np.zeros(2),
        partner_start=np.array([6.0, 0.3]),
        partner_velocity=np.array([-40.0, 0.0]),
    )
    gaps = np.linalg.norm(recording.ego_positions - recording.partners["partner"].positions, axis=1) - RADII
    assert gaps.min() > 1.5
    (contact,) = judge_contacts(recording)
    assert contact.time == pytest.approx((6.0 - 0.4) / 40.0, abs=1e-8)  # 0.4^2 + 0.3^2 = 0.5^2
    assert least_clearance(recording, "partner") == pytest.approx(0.3 - RADII)


def test_a_contact_shallower_than_the_tolerance_does_not_count() -> None:
    recording = record(drive_then_brake(5), partner_start=standing_partner_reached_after(5) - 1e-7)
    assert len(judge_contacts(recording)) == 1
    assert judge_contacts(replace(recording, tolerances=Tolerances(distance_m=1e-6))) == ()


# --------------------------------------------------------------------------------- could it still stop?


@given(
    speed=st.floats(0.01, 5.0),
    strength=st.floats(0.2, 5.0),
    period=st.floats(0.01, 0.3),
    side=st.sampled_from([-1e-6, 1e-6]),
)
def test_the_stopping_distance_for_a_standing_partner_is_the_sampled_one(
    speed: float, strength: float, period: float, side: float
) -> None:
    whole = math.floor(speed / (strength * period))
    left = speed - whole * strength * period
    distance = speed * whole * period - 0.5 * strength * (whole * period) ** 2 + 0.5 * left * period
    assert can_still_stop(
        np.zeros(2),
        np.array([speed, 0.0]),
        braking_limit=BrakingLimit(strength),
        control_period=period,
        partner_position=np.array([distance + RADII + side, 0.0]),
        partner_velocity=np.zeros(2),
        radii=RADII,
        declared=STANDS,
    ) == (side > 0.0)


def test_the_component_limit_weakens_braking_along_an_axis() -> None:
    def stops(component: float) -> bool:
        return can_still_stop(
            np.zeros(2),
            np.array([1.0, 0.0]),
            braking_limit=BrakingLimit(2.0, component),
            control_period=DT,
            partner_position=np.array([STOPPING_DISTANCE + RADII + 1e-6, 0.0]),
            partner_velocity=np.zeros(2),
            radii=RADII,
            declared=STANDS,
        )

    assert stops(2.0)
    assert not stops(1.9)


def test_being_outside_either_ball_at_each_moment_suffices() -> None:
    """Neither ball alone lets the ego pass and stop: early the speed ball is the larger one, late the other."""

    def stops(declared: DeclaredMotion) -> bool:
        return can_still_stop(
            np.zeros(2),
            np.array([2.0, 0.0]),
            braking_limit=LIMIT,
            control_period=DT,
            partner_position=np.array([0.05, 0.52]),
            partner_velocity=np.zeros(2),
            radii=RADII,
            declared=declared,
        )

    assert not stops(DeclaredMotion(max_acceleration=1e6, max_speed=0.55))
    assert not stops(DeclaredMotion(max_acceleration=3.0))
    assert stops(DeclaredMotion(max_acceleration=3.0, max_speed=0.55))


def brute_force_margin(
    position: FloatArray,
    velocity: FloatArray,
    limit: BrakingLimit,
    period: float,
    partner_position: FloatArray,
    partner_velocity: FloatArray,
    declared: DeclaredMotion,
    first: FloatArray | None,
) -> float:
    """Least clearance (m) of the manoeuvre on a dense grid, stepping period by period as a controller would."""
    margin, start = np.inf, 0.0
    queue = [] if first is None else [first]
    while queue or np.linalg.norm(velocity) > 1e-12:
        if queue:
            acceleration = queue.pop()
        else:
            speed = np.linalg.norm(velocity)
            strength = min(limit.acceleration, limit.component * speed / np.abs(velocity).max(), speed / period)
            acceleration = -strength * velocity / speed
        t = np.linspace(0.0, period, 401)[:, None]
        now = start + t
        ego = position + t * velocity + 0.5 * t * t * acceleration
        centre = partner_position + now * partner_velocity
        gap = np.linalg.norm(ego - centre, axis=1) - 0.5 * declared.max_acceleration * now[:, 0] ** 2
        if math.isfinite(declared.max_speed):
            by_speed = np.linalg.norm(ego - partner_position, axis=1) - declared.max_speed * now[:, 0]
            gap = np.maximum(gap, by_speed)
        margin = min(margin, float(gap.min()) - RADII)
        position = position + period * velocity + 0.5 * period**2 * acceleration
        velocity = velocity + period * acceleration
        start += period
    return margin


def test_the_exact_answer_agrees_with_brute_force() -> None:
    """Random manoeuvres whose margin is neither hopeless nor generous; the grid resolves a millimetre."""
    rng = derive_substream("tests.responsibility.brute_force").default_rng()
    answers: list[bool] = []
    while len(answers) < 400:
        dim = int(rng.integers(2, 4))
        position, velocity = np.zeros(dim), rng.uniform(-1.5, 1.5, dim)
        limit = BrakingLimit(rng.uniform(0.5, 4.0), rng.uniform(0.5, 4.0))
        period = rng.uniform(0.05, 0.3)
        first = rng.uniform(-2.0, 2.0, dim) if rng.random() < 0.5 else None
        declared = DeclaredMotion(rng.uniform(0.0, 4.0), rng.choice([np.inf, rng.uniform(0.3, 2.0)]))
        partner_velocity = rng.uniform(-1.0, 1.0, dim)
        partner_velocity *= min(1.0, declared.max_speed / np.linalg.norm(partner_velocity))
        partner_position = rng.uniform(-1.5, 1.5, dim)
        margin = brute_force_margin(
            position, velocity, limit, period, partner_position, partner_velocity, declared, first
        )
        if not 1e-3 < abs(margin) < 0.5:
            continue
        answer = can_still_stop(
            position,
            velocity,
            braking_limit=limit,
            control_period=period,
            partner_position=partner_position,
            partner_velocity=partner_velocity,
            radii=RADII,
            declared=declared,
            first_acceleration=first,
        )
        assert answer == (margin > 0.0)
        answers.append(answer)
    assert min(answers.count(True), answers.count(False)) > 100


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), max_speed=st.sampled_from([np.inf, 1.0]))
def test_an_ego_that_brakes_stays_able_to_stop_while_the_partner_keeps_its_word(seed: int, max_speed: float) -> None:
    rng = derive_substream("tests.responsibility.recursion", root_seed=seed).default_rng()
    declared = DeclaredMotion(2.0, max_speed)
    position, velocity = np.zeros(2), rng.uniform(-2.0, 2.0, 2)
    p, v = rng.uniform(-2.5, 2.5, 2), rng.uniform(-0.7, 0.7, 2)

    def stops() -> bool:
        return can_still_stop(
            position,
            velocity,
            braking_limit=LIMIT,
            control_period=DT,
            partner_position=p,
            partner_velocity=v,
            radii=RADII,
            declared=declared,
        )

    if not stops():
        return
    while np.linalg.norm(velocity) > 1e-12:
        speed = np.linalg.norm(velocity)
        brake = -min(2.0, speed / DT) * velocity / speed
        push = 2.0 * np.array([math.cos(seed), math.sin(seed)])
        target = v + DT * push
        target *= min(1.0, max_speed / np.linalg.norm(target))
        push = (target - v) / DT
        position, velocity = position + DT * velocity + 0.5 * DT**2 * brake, velocity + DT * brake
        p, v = p + DT * v + 0.5 * DT**2 * push, v + DT * push
        assert stops()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_first_contact_and_least_clearance_agree_with_dense_sampling(seed: int) -> None:
    rng = derive_substream("tests.responsibility.contact", root_seed=seed).default_rng()
    recording = record(
        rng.uniform(-4.0, 4.0, (12, 3)),
        partner_start=rng.uniform(0.4, 1.0, 3),
        partner_velocity=rng.uniform(-2.0, 2.0, 3),
        partner_accelerations=rng.uniform(-4.0, 4.0, (12, 3)),
    )
    offsets, velocities, accelerations = recording.relative_motion("partner")
    t = np.linspace(0.0, DT, 401)[:, None, None]
    distances = np.linalg.norm(offsets + t * velocities + 0.5 * t * t * accelerations, axis=2)
    assert least_clearance(recording, "partner") == pytest.approx(distances.min() - RADII, abs=1e-5)
    contacts = judge_contacts(recording)
    touching = np.argwhere(distances.T < RADII)
    if len(touching):
        (contact,) = contacts
        sampled = touching[0][0] * DT + touching[0][1] * DT / 400
        assert sampled - DT / 400 - 1e-9 <= contact.time <= sampled + 1e-9
    elif distances.min() > RADII + 1e-4:
        assert contacts == ()


@settings(max_examples=60, deadline=None)
@given(angle=st.floats(0.0, 2.0 * math.pi), shift=st.floats(-100.0, 100.0), late=st.sampled_from([0, 1]))
def test_verdicts_do_not_depend_on_the_frame(angle: float, shift: float, late: int) -> None:
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    original = record(drive_then_brake(5 + late), partner_start=standing_partner_reached_after(5) + 1e-6)
    partner = original.partners["partner"]
    moved = replace(
        original,
        ego_positions=original.ego_positions @ rotation.T + shift,
        ego_velocities=original.ego_velocities @ rotation.T,
        ego_accelerations=original.ego_accelerations @ rotation.T,
        partners={
            "partner": replace(
                partner, positions=partner.positions @ rotation.T + shift, velocities=partner.velocities @ rotation.T
            )
        },
    )
    assert [c.verdict for c in judge_contacts(moved)] == [c.verdict for c in judge_contacts(original)]
    assert len(judge_contacts(moved)) == late


# ------------------------------------------------------------------------------------------- bad input


def spoil(recording: Recording, **changes: object) -> Recording:
    return replace(recording, **changes)


GOOD = record(np.zeros((5, 2)), partner_start=np.array([3.0, 0.0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"control_period": 0.0}, "control_period must be positive"),
        ({"times": np.arange(6.0)}, "times must be one control period"),
        ({"times": np.zeros(1)}, "times must hold at least two"),
        ({"ego_positions": np.zeros((6, 4))}, "2 or 3 columns"),
        ({"ego_velocities": np.zeros((5, 2))}, r"ego_velocities must have shape \(6, 2\)"),
        ({"ego_accelerations": np.full((5, 2), np.nan)}, "ego_accelerations must be finite"),
        ({"ego_accelerations": np.ones((5, 2))}, "velocities of the ego must follow constant acceleration"),
        ({"ego_radius": -1.0}, "ego_radius must be finite and >= 0"),
    ],
)
def test_a_recording_that_does_not_fit_together_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spoil(GOOD, **changes)


def test_a_partner_that_jumps_is_refused() -> None:
    partner = GOOD.partners["partner"]
    jumped = partner.positions.copy()
    jumped[3:] += 0.01
    with pytest.raises(ValueError, match="positions of partner 'partner' must follow constant acceleration"):
        spoil(GOOD, partners={"partner": replace(partner, positions=jumped)})


def test_a_recording_that_starts_in_contact_is_refused() -> None:
    with pytest.raises(ValueError, match="must start before contact"):
        record(np.zeros((5, 2)), partner_start=np.array([0.4, 0.0]))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_braking_limit_is_positive_and_finite(value: float) -> None:
    with pytest.raises(ValueError, match="acceleration must be positive and finite"):
        BrakingLimit(value)


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_a_declared_motion_is_not_negative(value: float) -> None:
    with pytest.raises(ValueError, match="max_acceleration must be finite and >= 0"):
        DeclaredMotion(value)
    with pytest.raises(ValueError, match="max_speed must be >= 0"):
        DeclaredMotion(1.0, value)
