"""Co-insert on the simulator: solved together and not alone, with the forces it should have, and seeds say it all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from chamber.envs import _coinsert_scene, coinsert
from chamber.envs.coinsert import (
    CLOSE_CAMERA,
    COINSERT_CLEARANCE_SET_M,
    CoInsertEnv,
    coinsert_matched_controller_specs,
    make_coinsert_env,
)
from chamber.partners.api import FrozenPartner, PartnerSpec
from chamber.partners.registry import load_partner
from chamber.sim.scene import ContactRule, arm_group, finger_group

EGO, PARTNER = "panda_wristcam", "panda_partner"
SINGLE = "coinsert_single_inserter_positive_control"
SETTLE_STEPS = 15
EVALUATION_KEYS = {
    *("success", "success_geom", "seated", "within_force", "both_static", "settled", "seated_depth_m"),
    *("axis_align_deg", "lateral_offset_m", "peak_insert_force_n", "peak_couple_wrench_n"),
}

Pair = dict[str, FrozenPartner]


def reference_pair(**inserter: str) -> Pair:
    extras = coinsert_matched_controller_specs()
    inserter = {**extras[EGO], **inserter}
    return {
        EGO: load_partner(PartnerSpec("coinsert_base_inserter", 0, None, None, inserter)),
        PARTNER: load_partner(PartnerSpec("coinsert_reference_holder", 0, None, None, extras[PARTNER])),
    }


def still() -> dict[str, np.ndarray]:
    return {EGO: np.zeros(8, dtype=np.float32), PARTNER: np.zeros(8, dtype=np.float32)}


def play(env: CoInsertEnv, *, seed: int, steps: int, pair: Pair | None = None) -> list[dict[str, Any]]:
    """One episode of the reference pair: ``info`` and telemetry of every step until success or the last one."""
    pair = pair or reference_pair()
    for partner in pair.values():
        partner.reset(seed=seed)
    obs, _ = env.reset(seed=seed)
    rows = []
    for _ in range(steps):
        obs, reward, terminated, _, info = env.step({uid: partner.act(obs) for uid, partner in pair.items()})
        rows.append({**info, **env.get_telemetry(), "reward": reward})
        if terminated:
            break
    return rows


def leaves(value: Any) -> list[bytes]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    return [np.asarray(value).tobytes()]


@pytest.fixture(scope="module")
def matched() -> Iterator[CoInsertEnv]:
    env = make_coinsert_env()
    yield env
    env.close()


@pytest.fixture(scope="module")
def probe() -> Iterator[CoInsertEnv]:
    env = make_coinsert_env(fidelity_probe=True)
    yield env
    env.close()


@pytest.fixture
def build() -> Iterator[Callable[..., CoInsertEnv]]:
    """Builds environments that are closed afterwards."""
    built: list[CoInsertEnv] = []

    def make(**arguments: Any) -> CoInsertEnv:
        built.append(make_coinsert_env(**arguments))
        return built[-1]

    yield make
    for env in built:
        env.close()


# --- solvable together, not alone -----------------------------------------------------------------------------


@pytest.mark.parametrize("clearance", COINSERT_CLEARANCE_SET_M)
def test_the_reference_pair_seats_the_peg_as_soon_as_the_settle_window_is_over(
    clearance: float, build: Callable[..., CoInsertEnv]
) -> None:
    rows = play(build(peg_clearance_m=clearance), seed=0, steps=40)
    last = rows[-1]
    assert last["success"]
    assert last["elapsed_steps"] == SETTLE_STEPS
    assert last["reward"] == 1.0
    assert last["seated_depth_m"] >= 0.038
    inside = [row["lateral_offset_m"] for row in rows if row["seated_depth_m"] > 0.0]
    assert max(inside) < clearance / 2 + 2e-5
    assert max(row["insert_force_n"] for row in rows) < 50.0
    assert last["max_penetration_m"] < 1e-5
    assert last["max_penetration_per_clearance"] == pytest.approx(last["max_penetration_m"] / clearance)


def test_the_peg_stays_in_when_nobody_lets_go(matched: CoInsertEnv) -> None:
    pair = reference_pair()
    play(matched, seed=0, steps=40, pair=pair)
    obs = matched.privileged_observation()
    for _ in range(60):
        obs, _, terminated, _, info = matched.step({uid: partner.act(obs) for uid, partner in pair.items()})
        assert terminated
    assert info["peak_insert_force_n"] < 10.0
    assert info["peak_couple_wrench_n"] < 10.0


def test_starts_half_a_millimetre_aside_are_solved_too(build: Callable[..., CoInsertEnv]) -> None:
    env = build(peg_clearance_m=2e-4, start_offset_m=5e-4)
    pair = reference_pair()
    assert all(play(env, seed=seed, steps=40, pair=pair)[-1]["success"] for seed in range(5))


def test_with_fingers_in_the_way_nobody_can_seat_the_peg(
    build: Callable[..., CoInsertEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = _coinsert_scene.coinsert_scene

    def with_finger_contact(*args: Any, **kwargs: Any) -> Any:
        scene = describe(*args, **kwargs)
        rule = ContactRule(finger_group(EGO), "coinsert_socket")
        return dataclasses.replace(scene, contacts=(*scene.contacts, rule))

    monkeypatch.setattr(coinsert, "coinsert_scene", with_finger_contact)
    rows = play(build(), seed=0, steps=80)
    assert not rows[-1]["success"]
    assert 0.029 < max(row["seated_depth_m"] for row in rows) < 0.033


def test_alone_the_socket_falls_and_nobody_succeeds(build: Callable[..., CoInsertEnv]) -> None:
    env = build(condition_id=SINGLE)
    assert env.single_inserter
    start = env.reset(seed=0)[0]["extra"]["receptacle_pose"][0]
    rows = play(env, seed=0, steps=150)
    assert not rows[-1]["success"]
    assert not any(row["seated"] for row in rows)
    assert rows[-1]["settled"]
    lying = env.privileged_observation()["extra"]["receptacle_pose"][0]
    assert start[2] - lying[2] > 1.0
    assert rows[-1]["seated_depth_m"] < -0.4


def test_the_free_socket_starts_where_the_holder_would_hold_it(
    build: Callable[..., CoInsertEnv], matched: CoInsertEnv
) -> None:
    held = matched.reset(seed=0)[0]["extra"]["receptacle_pose"][0]
    free = build(condition_id=SINGLE).reset(seed=0)[0]["extra"]["receptacle_pose"][0]
    assert free[:3] == pytest.approx(held[:3], abs=1e-6)


# --- the start ------------------------------------------------------------------------------------------------


def test_the_peg_starts_straight_above_the_mouth(matched: CoInsertEnv) -> None:
    obs, _ = matched.reset(seed=0)
    telemetry = matched.get_telemetry()
    assert telemetry["seated_depth_m"] == pytest.approx(-0.012, abs=1e-6)
    assert telemetry["lateral_offset_m"] < 2e-5
    assert telemetry["axis_align_deg"] < 1e-6
    assert obs["extra"]["peg_pose"][0] == pytest.approx(matched.tcp_pose(EGO)[0], abs=1e-6)


@pytest.mark.parametrize("condition_id", ["coinsert_matched_reference", SINGLE])
@pytest.mark.parametrize("fidelity_probe", [False, True])
def test_nothing_overlaps_at_the_start(
    condition_id: str, fidelity_probe: bool, build: Callable[..., CoInsertEnv]
) -> None:
    env = build(condition_id=condition_id, fidelity_probe=fidelity_probe)
    env.reset(seed=0)
    for rule in env.rig.scene.contacts:
        assert env.rig.penetration(rule.first, rule.second).max() == 0.0, rule


def test_the_documented_start_is_the_same_for_every_seed_but_for_the_goal(matched: CoInsertEnv) -> None:
    first, second = (matched.reset(seed=seed)[0] for seed in (0, 1))
    assert leaves(first["agent"]) == leaves(second["agent"])
    assert leaves(first["extra"]["goal_pos"]) != leaves(second["extra"]["goal_pos"])
    for seed in range(20):
        goal = matched.reset(seed=seed)[0]["extra"]["goal_pos"][0]
        assert np.abs(goal - [0.0, 0.0, 0.2]).max() <= 0.01


def test_an_offset_moves_the_peg_within_its_range_and_only_the_peg(build: Callable[..., CoInsertEnv]) -> None:
    env = build(start_offset_m=0.004)
    tips = []
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        tips.append(obs["extra"]["peg_pose"][0, :3].astype(float))
        assert obs["agent"][PARTNER]["qpos"][0, 0] == pytest.approx(0.5)
        assert env.get_telemetry()["axis_align_deg"] < 1e-4
    spread = np.array(tips) - [0.0116627, 0.0, 0.3226114]
    assert np.abs(spread).max() <= 0.004 + 1e-6
    assert np.abs(spread).max(axis=0).min() > 0.002


# --- forces ---------------------------------------------------------------------------------------------------


def test_at_rest_the_wrist_of_the_holder_carries_nothing_but_weight(matched: CoInsertEnv) -> None:
    matched.reset(seed=0)
    assert matched.workpiece_interaction_wrench() == pytest.approx(0.0, abs=1e-9)
    for _ in range(5):
        matched.step(still())
    assert matched.workpiece_interaction_wrench() == pytest.approx(0.0, abs=1e-3)
    assert matched.peg_socket_contact_force() == 0.0


def test_a_peg_that_presses_on_the_floor_is_felt_in_the_wrist(matched: CoInsertEnv) -> None:
    pair = reference_pair(depth_target="0.055")
    obs, _ = matched.reset(seed=0)
    contact, wrist = [], []
    for _ in range(20):
        obs, *_ = matched.step({uid: partner.act(obs) for uid, partner in pair.items()})
        contact.append(matched.peg_socket_contact_force())
        wrist.append(matched.workpiece_interaction_wrench())
    assert matched.get_telemetry()["seated_depth_m"] == pytest.approx(0.05, abs=3e-4)
    assert isinstance(contact[-1], float)
    assert np.mean(contact[-5:]) > 20.0
    assert np.mean(wrist[-5:]) == pytest.approx(np.mean(contact[-5:]), rel=0.05)


def test_peaks_count_only_after_the_settle_window(matched: CoInsertEnv) -> None:
    rows = play(matched, seed=0, steps=SETTLE_STEPS)
    assert max(row["insert_force_n"] for row in rows) > 0.5
    assert rows[-1]["peak_insert_force_n"] == rows[-1]["peak_couple_wrench_n"] == 0.0
    matched.step(still())
    telemetry, peaks = matched.get_telemetry(), matched.evaluate()
    assert peaks["peak_couple_wrench_n"][0] == telemetry["couple_wrench_n"] > 0.0
    assert peaks["peak_insert_force_n"][0] == telemetry["insert_force_n"]


def test_too_much_force_is_no_success(build: Callable[..., CoInsertEnv]) -> None:
    for limits in ({"f_insert_max": 1e-6}, {"f_couple_max": 1e-6}):
        env = build(dwell_steps=2, **limits)
        rows = play(env, seed=0, steps=40)
        assert not any(row["success"] for row in rows)
        assert rows[-1]["success_geom"]
        assert not rows[-1]["within_force"]
        assert rows[-1]["reward"] < 1.0


def test_the_limits_of_an_environment_are_the_derived_ones_unless_others_are_given(
    build: Callable[..., CoInsertEnv], matched: CoInsertEnv
) -> None:
    assert 0.0 < matched.limits.f_insert_max_n < math.inf
    assert 0.0 < matched.limits.f_couple_max_n < math.inf
    documented = build(limits="documented", f_couple_max=12.0).limits
    assert (documented.f_insert_max_n, documented.f_couple_max_n) == (math.inf, 12.0)


def test_success_can_be_asked_for_several_steps_in_a_row(build: Callable[..., CoInsertEnv]) -> None:
    assert play(build(dwell_steps=4), seed=0, steps=40)[-1]["elapsed_steps"] == SETTLE_STEPS + 3


def test_an_arm_that_moves_is_not_static(matched: CoInsertEnv) -> None:
    matched.reset(seed=0)
    for uid in (EGO, PARTNER):
        for _ in range(3):
            assert matched.step(still())[4]["both_static"]
        turning = still()
        turning[uid][6] = 0.5
        info = matched.step(turning)[4]
        assert not info["both_static"]
        assert np.abs(matched.arm_qvel(uid)).max() > 0.2
        for _ in range(20):
            matched.step(still())


# --- what an environment gives --------------------------------------------------------------------------------


def test_observations_and_info_have_their_documented_parts(matched: CoInsertEnv) -> None:
    obs, info = matched.reset(seed=0)
    assert matched.observation_space.contains(obs)
    assert {name: value.shape for name, value in obs["extra"].items()} == {
        "goal_pos": (1, 3),
        "peg_pose": (1, 7),
        "receptacle_pose": (1, 7),
    }
    obs, reward, terminated, truncated, info = matched.step(still())
    assert matched.observation_space.contains(obs)
    assert set(matched.evaluate()) == EVALUATION_KEYS
    assert set(info) >= EVALUATION_KEYS
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert (matched.ego_uid, matched.partner_uid) == (EGO, PARTNER)
    assert matched.condition_id == matched.condition_config.condition_id == "coinsert_matched_reference"
    assert matched.socket_inner_half_width == pytest.approx(0.0085)
    assert matched.peg_clearance_m == 1e-3


def test_evaluation_changes_nothing(matched: CoInsertEnv) -> None:
    play(matched, seed=0, steps=20)
    assert leaves(matched.evaluate()) == leaves(matched.evaluate())


def test_an_episode_is_truncated_at_its_length(build: Callable[..., CoInsertEnv]) -> None:
    env = build(episode_length=250)
    env.reset(seed=0)
    flags = [env.step(still())[3] for _ in range(250)]
    assert flags == [False] * 249 + [True]


# --- repeatability and copies ---------------------------------------------------------------------------------


def trace(env: CoInsertEnv, seed: int, steps: int = 20) -> list[bytes]:
    pair = reference_pair()
    obs, _ = env.reset(seed=seed)
    seen = leaves(obs)
    for _ in range(steps):
        obs, reward, *_, info = env.step({uid: partner.act(obs) for uid, partner in pair.items()})
        seen += [*leaves(obs), *leaves(reward), *leaves({key: info[key] for key in EVALUATION_KEYS})]
    return seen


def test_a_seed_gives_the_same_episode_whatever_came_before(build: Callable[..., CoInsertEnv]) -> None:
    env = build(start_offset_m=5e-4, peg_clearance_m=2e-4)
    first = trace(env, 5)
    trace(env, 6, steps=33)
    env.reset()
    assert trace(env, 5) == first
    assert trace(build(start_offset_m=5e-4, peg_clearance_m=2e-4), 5) == first
    assert trace(env, 6) != first


def test_copies_go_through_what_single_environments_go_through(build: Callable[..., CoInsertEnv]) -> None:
    copies, single = build(num_envs=3, start_offset_m=2e-3), build(start_offset_m=2e-3)
    batch = copies.reset(seed=4)[0]
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.2, 0.2, (20, 8)).astype(np.float32)
    for action in actions:
        batch = copies.step({EGO: np.tile(action, (3, 1)), PARTNER: np.zeros((3, 8))})[0]
    for env in range(3):
        single.reset(seed=4 + env)
        for action in actions:
            alone, *_ = single.step({EGO: action, PARTNER: np.zeros(8)})
        mine = {part: {name: value[env : env + 1] for name, value in batch[part].items()} for part in ("extra",)}
        assert leaves(mine["extra"]) == leaves(alone["extra"])
        assert copies.evaluate()["peak_couple_wrench_n"][env] == single.evaluate()["peak_couple_wrench_n"][0]


def test_a_reset_forgets_success_and_overlap(matched: CoInsertEnv) -> None:
    assert play(matched, seed=0, steps=40)[-1]["success"]
    assert matched.get_telemetry()["max_penetration_m"] > 0.0
    matched.reset(seed=0)
    assert not matched.evaluate()["success"][0]
    assert matched.get_telemetry()["max_penetration_m"] == 0.0


def test_a_socket_that_swings_is_not_settled(matched: CoInsertEnv) -> None:
    matched.reset(seed=0)
    for _ in range(SETTLE_STEPS + 5):
        info = matched.step(still())[4]
    assert info["settled"]
    swing = still()
    swing[PARTNER][0] = -0.3
    assert not matched.step(swing)[4]["settled"]


def test_a_partial_reset_forgets_the_peaks_of_those_copies_only(build: Callable[..., CoInsertEnv]) -> None:
    env = build(num_envs=2)
    env.reset(seed=0)
    swing = np.full((2, 8), 0.3, dtype=np.float32)
    for _ in range(20):
        env.step({EGO: np.zeros((2, 8)), PARTNER: swing})
    before = env.evaluate()["peak_couple_wrench_n"].copy()
    assert (before > 0.1).all()
    env.reset(seed=0, options={"env_idx": [1]})
    after = env.evaluate()["peak_couple_wrench_n"]
    assert after.tolist() == [before[0], 0.0]
    assert env.elapsed_steps.tolist() == [20, 0]


# --- the probe ------------------------------------------------------------------------------------------------


def press(env: CoInsertEnv, xyz: Any, steps: int = 6) -> dict[str, Any]:
    env.set_peg_pose(xyz, (0.0, 1.0, 0.0, 0.0))
    for _ in range(steps):
        env.step(still())
    return env.get_telemetry()


def test_the_socket_of_the_probe_hangs_where_it_should(probe: CoInsertEnv) -> None:
    probe.reset(seed=0)
    for _ in range(20):
        obs, *_, info = probe.step(still())
    assert obs["extra"]["receptacle_pose"][0, :3] == pytest.approx([0.0, 0.0, 0.30], abs=2e-5)
    assert info["settled"]
    assert probe.get_telemetry()["insert_force_n"] == 0.0


def test_the_peg_of_the_probe_goes_where_it_is_put_at_once(probe: CoInsertEnv) -> None:
    probe.reset(seed=0)
    probe.set_peg_pose((0.0, 0.0, 0.30), (0.0, 1.0, 0.0, 0.0))
    telemetry = probe.get_telemetry()
    assert telemetry["seated_depth_m"] == pytest.approx(0.02)
    assert telemetry["insert_force_n"] == 0.0
    obs, *_ = probe.step(still())
    assert obs["extra"]["peg_pose"][0] == pytest.approx([0.0, 0.0, 0.30, 0.0, 1.0, 0.0, 0.0])


def test_a_peg_within_its_clearance_touches_nothing_and_beyond_it_a_wall(probe: CoInsertEnv) -> None:
    for lateral, touches in ((0.0, False), (0.00049, False), (0.0006, True)):
        probe.reset(seed=0)
        telemetry = press(probe, (lateral, 0.0, 0.30 + 0.02 - 0.03))
        assert (telemetry["insert_force_n"] > 1.0) == touches
        assert (telemetry["max_penetration_m"] > 0.0) == touches


def test_pressing_deeper_gives_more_force_and_the_overlap_stays_far_below_the_clearance(probe: CoInsertEnv) -> None:
    forces = []
    for depth in (0.05005, 0.0501, 0.0502):
        probe.reset(seed=0)
        telemetry = press(probe, (0.0, 0.0, 0.30 + 0.02 - depth))
        forces.append(telemetry["insert_force_n"])
        assert telemetry["max_penetration_per_clearance"] < 0.05
    assert 0.0 < forces[0] < forces[1] < forces[2]


def test_a_peg_beside_the_socket_is_deep_but_not_seated(probe: CoInsertEnv) -> None:
    probe.reset(seed=0)
    press(probe, (0.06, 0.0, 0.30 + 0.02 - 0.04), steps=20)
    evaluation = probe.evaluate()
    assert evaluation["seated_depth_m"][0] == pytest.approx(0.04, abs=1e-4)
    assert not evaluation["seated"][0]
    press(probe, (0.0, 0.0, 0.30 + 0.02 - 0.04), steps=1)
    assert probe.evaluate()["seated"][0]


def test_a_peg_that_leans_more_than_five_degrees_is_not_seated(build: Callable[..., CoInsertEnv]) -> None:
    env = build(fidelity_probe=True, peg_clearance_m=0.012)
    for degrees, seated in ((4.5, True), (5.5, False)):
        env.reset(seed=0)
        half = math.radians(degrees) / 2
        env.set_peg_pose((0.0, 0.0, 0.30 + 0.02 - 0.04), (0.0, math.cos(half), 0.0, math.sin(half)))
        env.step(still())
        evaluation = env.evaluate()
        assert evaluation["axis_align_deg"][0] == pytest.approx(degrees, abs=1e-3)
        assert evaluation["seated_depth_m"][0] > 0.039
        assert evaluation["seated"][0] == seated


def test_the_peg_can_be_placed_per_copy(build: Callable[..., CoInsertEnv]) -> None:
    env = build(fidelity_probe=True, num_envs=2)
    env.reset(seed=0)
    env.set_peg_pose([[0.0, 0.0, 0.33], [0.0, 0.0, 0.31]], (0.0, 1.0, 0.0, 0.0))
    assert env.get_telemetry()["seated_depth_m"] == pytest.approx([-0.01, 0.01])
    assert env.peg_socket_contact_force().tolist() == [0.0, 0.0]


def test_only_the_peg_of_the_probe_can_be_placed(matched: CoInsertEnv) -> None:
    with pytest.raises(RuntimeError, match=r"set_peg_pose\(\) is for fidelity_probe=True"):
        matched.set_peg_pose((0.0, 0.0, 0.3), (1.0, 0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("xyz", "quat", "message"),
    [
        ((0.0, 0.0), (1.0, 0.0, 0.0, 0.0), "xyz must be 3 finite numbers"),
        ((0.0, 0.0, math.nan), (1.0, 0.0, 0.0, 0.0), "xyz must be 3 finite numbers"),
        ((0.0, 0.0, 0.3), (1.0, 0.0, 0.0), "quat must be 4 finite numbers"),
        ((0.0, 0.0, 0.3), (1.0, 1.0, 0.0, 0.0), "quat must have length 1"),
    ],
)
def test_a_pose_that_is_none_is_refused_and_nothing_moves(
    probe: CoInsertEnv, xyz: Any, quat: Any, message: str
) -> None:
    obs, _ = probe.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        probe.set_peg_pose(xyz, quat)
    assert leaves(probe.privileged_observation()["extra"]) == leaves(obs["extra"])


# --- pictures -------------------------------------------------------------------------------------------------


def orange_rows(picture: Any) -> np.ndarray:
    """Rows of a picture, from the top, in which the peg is seen."""
    red, green, blue = (picture[..., channel].astype(int) for channel in range(3))
    return np.flatnonzero(((red - blue > 90) & (red - green > 50)).sum(axis=1) > 8)


@pytest.mark.egl
def test_pictures_show_the_peg_going_into_the_open_side_of_the_socket(build: Callable[..., CoInsertEnv]) -> None:
    env = build(render_mode="rgb_array")
    env.reset(seed=0)
    above = orange_rows(env.picture(CLOSE_CAMERA))
    assert env.render().shape == (480, 640, 3)  # type: ignore[union-attr]
    play(env, seed=0, steps=SETTLE_STEPS)
    inside = orange_rows(env.picture(CLOSE_CAMERA))
    assert inside.max() > above.max() + 60


def test_arms_may_touch_each_other_and_not_the_fingers_of_a_hand(matched: CoInsertEnv) -> None:
    pairs = [frozenset({rule.first, rule.second}) for rule in matched.rig.scene.contacts]
    assert frozenset({arm_group(EGO), arm_group(PARTNER)}) in pairs
    assert frozenset({arm_group(EGO), "coinsert_socket"}) in pairs
    assert not any(finger_group(EGO) in pair and arm_group(PARTNER) in pair for pair in pairs)
