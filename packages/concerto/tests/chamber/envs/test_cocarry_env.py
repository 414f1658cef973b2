"""Co-carry on the simulator: together the arms carry the bar, one alone drops it, and a seed says everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chamber.envs.cocarry import (
    COCARRY_BAR_MASS_KG,
    COCARRY_GOAL_CENTROID_XYZ,
    COCARRY_SETTLE_WINDOW_STEPS,
    CoCarryEnv,
    cocarry_excess_stress_penalty,
    cocarry_matched_controller_specs,
    cocarry_xarm6_controller_spec,
    evaluate_cocarry_success,
    make_cocarry_env,
    tilt_deg_from_quaternion,
)
from chamber.envs.cocarry_blind_mask import CoCarryEgoBlindMask
from chamber.envs.cocarry_obs import make_cocarry_training_env
from chamber.envs.errors import ChamberEnvCompatibilityError
from chamber.partners import FrozenPartner, PartnerSpec, load_partner

EGO, PARTNER, XARM6 = "panda_wristcam", "panda_partner", "xarm6_robotiq"
SINGLE_ARM, WITH_XARM6 = "cocarry_single_arm_positive_control", "cocarry_xarm6_partner"
WEIGHT_N = 9.81 * COCARRY_BAR_MASS_KG


def controllers(ego: str = "cocarry_impedance", partner: str = "cocarry_impedance") -> dict[str, Any]:
    specs = cocarry_matched_controller_specs()
    return {
        uid: load_partner(PartnerSpec(name, 0, None, None, specs[uid]))
        for uid, name in ((EGO, ego), (PARTNER, partner))
    }


def play(
    env: CoCarryEnv, pair: Mapping[str, FrozenPartner], seed: int, *, steps: int = 320, to_the_end: bool = False
) -> dict[str, Any]:
    """Play one episode; give the telemetry at its end, and ``success_step``."""
    obs, _ = env.reset(seed=seed)
    for controller in pair.values():
        controller.reset(seed=seed)
    success_step = None
    for _ in range(steps):
        obs, _, terminated, truncated, info = env.step({uid: arm.act(obs) for uid, arm in pair.items()})
        if terminated and success_step is None:
            success_step = info["elapsed_steps"]
        if truncated or (terminated and not to_the_end):
            break
    return {**env.get_telemetry(), "success_step": success_step}


def random_actions(steps: int, *, copies: int = 1) -> list[dict[str, NDArray[np.float64]]]:
    rng = np.random.default_rng(7)
    shape = (8,) if copies == 1 else (copies, 8)
    return [{uid: rng.uniform(-0.5, 0.5, shape) for uid in (EGO, PARTNER)} for _ in range(steps)]


def everything(obs: Mapping[str, Any]) -> dict[str, bytes]:
    """The bytes of every leaf of an observation."""
    leaves: dict[str, bytes] = {}
    for name, value in obs.items():
        if isinstance(value, Mapping):
            leaves.update({f"{name}.{inner}": content for inner, content in everything(value).items()})
        else:
            leaves[name] = value.tobytes()
    return leaves


def trajectory(env: CoCarryEnv, actions: list[dict[str, Any]], **reset: Any) -> list[dict[str, bytes]]:
    states = [everything(env.reset(**reset)[0])]
    states += [everything(env.step(action)[0]) for action in actions]
    return states


@pytest.fixture(scope="module")
def matched() -> Iterator[CoCarryEnv]:
    env = make_cocarry_env()
    yield env
    env.close()


@pytest.fixture(scope="module")
def alone() -> Iterator[CoCarryEnv]:
    env = make_cocarry_env(condition_id=SINGLE_ARM)
    yield env
    env.close()


# --- the cells ----------------------------------------------------------------------------------------------


def test_a_matched_pair_carries_the_bar_level_to_the_goal(matched: CoCarryEnv) -> None:
    pair = controllers()
    episodes = [play(matched, pair, seed) for seed in range(20)]
    steps = [episode["success_step"] for episode in episodes]
    assert sum(step is not None for step in steps) >= 19
    assert steps[:6] == [COCARRY_SETTLE_WINDOW_STEPS] * 6
    assert max(episode["max_tilt_deg"] for episode in episodes) <= 0.5
    assert max(episode["centroid_to_goal"] for episode in episodes) <= 0.02


def test_a_matched_pair_shares_the_weight_and_hardly_fights(matched: CoCarryEnv) -> None:
    at_the_end = play(matched, controllers(), 0, to_the_end=True)
    forces = np.array([matched.rig.pin_force(pin.name)[0] for pin in matched.rig.scene.pins])
    assert forces[:, 2] == pytest.approx(np.full(2, WEIGHT_N / 2), abs=0.02)
    assert forces[:, :2].sum(axis=0) == pytest.approx(np.zeros(2), abs=0.02)
    assert 2.5 <= at_the_end["stress_proxy"] <= 2.9
    assert 2.9 <= at_the_end["max_stress_proxy"] < matched.limits.stress_max_n
    assert at_the_end["max_tilt_deg"] <= 0.25
    assert at_the_end["centroid_to_goal"] <= 0.001


def test_one_arm_alone_drops_the_free_end() -> None:
    env = make_cocarry_env(condition_id=SINGLE_ARM, num_envs=20)
    pair = controllers()
    obs, _ = env.reset(seed=0)
    for _ in range(env.episode_length):
        obs, _, success, _, info = env.step({uid: arm.act_batch(obs) for uid, arm in pair.items()})
        assert not success.any()
    assert info["max_tilt_deg"].min() > 60.0
    assert info["centroid_to_goal"].min() > 0.10
    env.close()


@pytest.mark.parametrize(
    ("ego", "partner"),
    [("cocarry_impedance", "cocarry_blind_impedance"), ("cocarry_blind_impedance", "cocarry_impedance")],
)
def test_a_pair_of_which_one_is_blind_tilts_the_bar_and_fights(matched: CoCarryEnv, ego: str, partner: str) -> None:
    pair = controllers(ego, partner)
    for seed in range(2):
        episode = play(matched, pair, seed)
        assert episode["success_step"] is None
        assert episode["max_tilt_deg"] > 15.0
        assert episode["max_stress_proxy"] > matched.limits.stress_max_n


def test_the_bar_at_rest_hangs_with_half_its_weight_in_each_hand(matched: CoCarryEnv) -> None:
    matched.reset(seed=3)
    for _ in range(5):
        matched.step({uid: np.zeros(8) for uid in (EGO, PARTNER)})
    for pin in matched.rig.scene.pins:
        assert matched.rig.pin_force(pin.name)[0, 2] == pytest.approx(WEIGHT_N / 2, abs=0.1)


# --- a seed says everything ---------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_episode_bit_for_bit(matched: CoCarryEnv) -> None:
    actions = random_actions(50)
    first = trajectory(matched, actions, seed=5)
    goal, qpos = matched.goal_centroid, matched.rig.qpos(EGO).copy()
    matched.reset(seed=6)
    assert not np.array_equal(matched.goal_centroid, goal)
    assert trajectory(matched, actions, seed=5) == first
    assert np.array_equal(matched.goal_centroid, goal)
    assert np.array_equal(matched.rig.qpos(EGO), qpos)


def test_an_episode_does_not_depend_on_those_before_it(matched: CoCarryEnv) -> None:
    play(matched, controllers(), 11, steps=40, to_the_end=True)
    actions = random_actions(50)
    used = trajectory(matched, actions, seed=5)
    fresh = make_cocarry_env()
    assert trajectory(fresh, actions, seed=5) == used
    fresh.close()


def test_a_start_is_a_function_of_root_seed_and_seed(matched: CoCarryEnv) -> None:
    def goal(env: CoCarryEnv, seed: int) -> list[float]:
        env.reset(seed=seed)
        return env.goal_centroid[0].tolist()

    other_run = make_cocarry_env(root_seed=1)
    goals = [goal(matched, 0), goal(matched, 1), goal(other_run, 0), goal(other_run, 1)]
    assert len({tuple(value) for value in goals}) == 4
    assert goal(matched, 0) == goals[0]
    other_run.close()


def test_copies_are_the_single_environments_of_their_seeds() -> None:
    actions = random_actions(10, copies=3)
    batch = make_cocarry_env(num_envs=3)
    batch.reset(seed=4)
    batched = [batch.step(action) for action in actions]
    single = make_cocarry_env()
    for env in range(3):
        single.reset(seed=4 + env)
        for action, (obs, reward, success, truncated, info) in zip(actions, batched, strict=True):
            alone_obs, alone_reward, alone_success, alone_truncated, alone_info = single.step(
                {uid: value[env] for uid, value in action.items()}
            )
            assert obs["extra"]["bar_pose"][env].tobytes() == alone_obs["extra"]["bar_pose"][0].tobytes()
            assert obs["agent"][EGO]["qvel"][env].tobytes() == alone_obs["agent"][EGO]["qvel"][0].tobytes()
            assert (reward[env], success[env], truncated[env]) == (alone_reward, alone_success, alone_truncated)
            assert info["max_stress_proxy"][env] == alone_info["max_stress_proxy"]
    batch.close()
    single.close()


def test_a_partial_reset_leaves_the_other_copies_alone() -> None:
    env = make_cocarry_env(num_envs=2)
    env.reset(seed=0)
    for action in random_actions(17, copies=2):
        env.step(action)
    before, state = env.get_telemetry(), env.rig.save_state(0)
    assert before["max_stress_proxy"].min() > 0.0
    obs, info = env.reset(seed=9, options={"env_idx": [1]})
    after = env.get_telemetry()
    for name in before:
        assert after[name][0] == before[name][0]
    assert np.array_equal(env.rig.save_state(0), state)
    assert (after["max_stress_proxy"][1], after["max_tilt_deg"][1]) == (0.0, 0.0)
    assert info["elapsed_steps"].tolist() == [17, 0]
    assert obs["extra"]["bar_pose"].shape == (2, 7)
    env.close()


# --- the start ----------------------------------------------------------------------------------------------


def test_hands_and_bar_ends_start_together_across_each_other(matched: CoCarryEnv) -> None:
    obs, _ = matched.reset(seed=0)
    assert matched.tcp_pose(EGO)[0, :3] == pytest.approx(np.array([0.115, 0.0, 0.1698]), abs=1e-4)
    assert matched.tcp_pose(PARTNER)[0, :3] == pytest.approx(np.array([-0.115, 0.0, 0.1698]), abs=1e-4)
    assert obs["extra"]["bar_pose"][0] == pytest.approx(np.array([0.0, 0.0, 0.1698, 1, 0, 0, 0]), abs=1e-4)
    assert obs["extra"]["bar_tilt_deg"] == pytest.approx(np.zeros((1, 1)))


def test_a_lone_arm_holds_the_end_at_plus_x(alone: CoCarryEnv) -> None:
    obs, _ = alone.reset(seed=0)
    hand = alone.tcp_pose(EGO)[0, :3]
    assert obs["extra"]["bar_pose"][0, :3] == pytest.approx(hand - np.array([0.115, 0.0, 0.0]), abs=1e-6)
    assert [pin.link.uid for pin in alone.rig.scene.pins] == [EGO]
    assert alone.tcp_pose(PARTNER)[0, 2] > 0.25


def test_the_xarm6_reaches_the_other_end_too() -> None:
    env = make_cocarry_env(condition_id=WITH_XARM6)
    obs, _ = env.reset(seed=0)
    assert env.tcp_pose(XARM6)[0, :3] == pytest.approx(np.array([-0.115, 0.0, 0.1698]), abs=5e-4)
    assert obs["agent"][XARM6]["qpos"].shape == (1, 12)
    assert env.action_space[XARM6].shape == (7,)
    env.close()
    moved = make_cocarry_env(condition_id=WITH_XARM6, xarm6_base_x=0.4, xarm6_ready_qpos=[0.1] * 12)
    moved.reset(seed=0)
    assert moved.rig.qpos(XARM6)[0] == pytest.approx(np.full(12, 0.1))
    assert moved.rig.link_pose(XARM6, "link_base")[0, 0] == pytest.approx(0.4)
    moved.close()


def test_goals_are_drawn_around_their_centre(matched: CoCarryEnv) -> None:
    goals = []
    for seed in range(30):
        obs, _ = matched.reset(seed=seed)
        goals.append(matched.goal_centroid[0])
        assert obs["extra"]["goal_pos"][0] == pytest.approx(goals[-1], abs=1e-6)
    spread = np.array(goals) - COCARRY_GOAL_CENTROID_XYZ
    assert np.abs(spread).max() <= 0.02
    assert (np.ptp(spread, axis=0) > 0.02).all()
    elsewhere = make_cocarry_env(goal_centroid=(0.1, 0.0, 0.4))
    elsewhere.reset(seed=0)
    assert elsewhere.goal_centroid[0] - [0.1, 0.0, 0.4] == pytest.approx(goals[0] - COCARRY_GOAL_CENTROID_XYZ)
    elsewhere.close()


# --- observation, reward, success ---------------------------------------------------------------------------


def test_observations_are_what_the_space_says(matched: CoCarryEnv) -> None:
    obs, info = matched.reset(seed=0)
    assert matched.observation_space.contains(obs)
    assert {name: value.shape for name, value in obs["extra"].items()} == {
        "goal_pos": (1, 3),
        "bar_pose": (1, 7),
        "bar_tilt_deg": (1, 1),
        "wrist_stress_proxy": (1, 1),
    }
    assert obs["agent"][PARTNER]["qvel"].shape == (1, 9)
    assert info["backend"].startswith("mujoco")
    obs, *_ = matched.step(random_actions(1)[0])
    assert matched.observation_space.contains(obs)
    telemetry = matched.get_telemetry()
    assert obs["extra"]["bar_tilt_deg"][0, 0] == pytest.approx(telemetry["tilt_deg"])
    assert obs["extra"]["wrist_stress_proxy"][0, 0] == pytest.approx(telemetry["stress_proxy"], rel=1e-6)
    assert tilt_deg_from_quaternion(obs["extra"]["bar_pose"][0, 3:]) == pytest.approx(telemetry["tilt_deg"], abs=1e-3)


def test_the_reward_is_the_documented_sum(matched: CoCarryEnv) -> None:
    matched.reset(seed=0)
    limits = matched.limits
    placed_and_moving = penalised = 0
    pair = controllers(partner="cocarry_blind_impedance")
    for controller in pair.values():
        controller.reset(seed=0)
    obs, _ = matched.reset(seed=0)
    for step in range(1, 41):
        obs, reward, terminated, _, info = matched.step({uid: arm.act(obs) for uid, arm in pair.items()})
        now = matched.get_telemetry()
        speed = max(np.linalg.norm(matched.rig.qvel(uid)[0, :7]) for uid in (EGO, PARTNER))
        penalty = cocarry_excess_stress_penalty(
            now["stress_proxy"], threshold=limits.stress_threshold_n, scale=limits.stress_scale_n
        )
        expected = 2 - np.tanh(5 * now["centroid_to_goal"]) - np.tanh(5 * np.radians(now["tilt_deg"]))
        if now["centroid_to_goal"] <= 0.10:
            expected += 1 - np.tanh(5 * speed)
            placed_and_moving += 1
        if step >= COCARRY_SETTLE_WINDOW_STEPS:
            expected -= penalty
            penalised += penalty > 0
        assert not terminated
        assert reward == pytest.approx(expected / 5, abs=1e-9)
        assert info["is_placed"] == (now["centroid_to_goal"] <= 0.10)
    assert placed_and_moving > 5
    assert penalised > 5


def test_success_is_worth_one_and_ends_the_episode(matched: CoCarryEnv) -> None:
    pair = controllers()
    obs, _ = matched.reset(seed=1)
    for controller in pair.values():
        controller.reset(seed=1)
    terminated = False
    while not terminated:
        obs, reward, terminated, truncated, info = matched.step({uid: arm.act(obs) for uid, arm in pair.items()})
    assert (reward, truncated, info["success"]) == (1.0, False, True)
    assert evaluate_cocarry_success(
        centroid_to_goal_dist=info["centroid_to_goal"],
        max_tilt_deg=info["max_tilt_deg"],
        max_stress_proxy=info["max_stress_proxy"],
        both_static=info["both_static"],
        stress_max=matched.limits.stress_max_n,
    )
    assert all(info[name] for name in ("is_placed", "is_level", "is_unstressed", "both_static", "is_settled"))
    matched.reset(seed=1)
    assert not matched.evaluate()["success"].any()


def test_maxima_start_after_the_settle_window_and_never_fall(alone: CoCarryEnv) -> None:
    pair = controllers()
    obs, _ = alone.reset(seed=0)
    for controller in pair.values():
        controller.reset(seed=0)
    seen_tilts: list[float] = []
    for step in range(1, 40):
        obs, *_ = alone.step({uid: arm.act(obs) for uid, arm in pair.items()})
        now = alone.get_telemetry()
        if step >= COCARRY_SETTLE_WINDOW_STEPS:
            seen_tilts.append(now["tilt_deg"])
        assert now["max_tilt_deg"] == max(seen_tilts, default=0.0)
        assert now["max_tilt_deg"] >= 0.0


def test_evaluation_changes_nothing(matched: CoCarryEnv) -> None:
    matched.reset(seed=0)
    matched.step(random_actions(1)[0])
    first = matched.evaluate()
    second = matched.evaluate()
    assert {name: value.tolist() for name, value in first.items()} == {
        name: value.tolist() for name, value in second.items()
    }
    assert matched.privileged_transport_distance().tolist() == first["centroid_to_goal"].tolist()


def test_a_dwell_asks_for_success_in_a_row() -> None:
    env = make_cocarry_env(dwell_steps=4)
    assert play(env, controllers(), 1)["success_step"] == COCARRY_SETTLE_WINDOW_STEPS + 3
    env.close()


def test_an_interrupted_dwell_begins_again() -> None:
    env = make_cocarry_env(dwell_steps=3)
    pair = controllers()
    obs, _ = env.reset(seed=1)
    for controller in pair.values():
        controller.reset(seed=1)
    jolts_at, successes = 17, []
    for step in range(1, 30):
        action = {uid: arm.act(obs) for uid, arm in pair.items()}
        if step == jolts_at:
            action = {uid: np.array([0, 0, 0, 0, 0, 0, 1.0, 1.0]) for uid in action}
        obs, _, terminated, _, info = env.step(action)
        if step == jolts_at:
            assert not info["both_static"]
        if terminated:
            successes.append(step)
    assert successes
    assert successes[0] >= jolts_at + 3
    env.close()


def test_the_episode_is_cut_at_its_horizon() -> None:
    env = make_cocarry_env(episode_length=3)
    env.reset(seed=0)
    assert [env.step(action)[3] for action in random_actions(3)] == [False, False, True]
    env.close()


# --- holds and stress ---------------------------------------------------------------------------------------


def test_the_documented_limits_can_be_had(matched: CoCarryEnv) -> None:
    documented = make_cocarry_env(limits="documented")
    assert documented.limits.stress_max_n == 130.0
    assert matched.limits.stress_max_n < 10.0
    documented.close()


@pytest.mark.parametrize("stiffness", [200.0, 2e4])
def test_a_spring_pulls_with_its_stiffness(stiffness: float) -> None:
    env = make_cocarry_env(drive_stiffness=stiffness, stress_measure="coupling")
    at_the_end = play(env, controllers(), 0, steps=60, to_the_end=True)
    assert at_the_end["success_step"] == COCARRY_SETTLE_WINDOW_STEPS
    x, y, z, qw, qx, qy, qz = env.rig.body_pose("bar")[0]
    bar_axis = np.array([1 - 2 * (qy**2 + qz**2), 2 * (qx * qy + qw * qz), 2 * (qx * qz - qw * qy)])
    pulls = []
    for uid, side in ((EGO, 1.0), (PARTNER, -1.0)):
        pulls.append(stiffness * (env.tcp_pose(uid)[0, :3] - [x, y, z] - side * 0.115 * bar_axis))
        assert pulls[-1][2] == pytest.approx(WEIGHT_N / 2, abs=0.1)
        assert env.rig.pin_force(f"{uid}_hold")[0] == pytest.approx(pulls[-1], abs=0.2)
    assert at_the_end["stress_proxy"] == pytest.approx(np.linalg.norm(pulls, axis=1).max(), rel=1e-6)
    env.close()


def test_a_spring_that_is_too_weak_lets_the_bar_sink() -> None:
    env = make_cocarry_env(drive_stiffness=2e4, drive_force_limit=1.0, stress_measure="coupling")
    episode = play(env, controllers(), 0, steps=80, to_the_end=True)
    assert episode["success_step"] is None
    assert episode["max_stress_proxy"] == pytest.approx(1.0)
    env.close()


def test_without_stiffness_nobody_holds_the_bar() -> None:
    env = make_cocarry_env(drive_stiffness=0.0)
    episode = play(env, controllers(), 0, steps=20, to_the_end=True)
    assert env.rig.scene.pins == ()
    assert episode["max_stress_proxy"] == 0.0
    assert env.rig.body_pose("bar")[0, 2] < 0.02
    env.close()


def test_in_a_rigid_hold_all_measures_are_those_of_its_ball_joints() -> None:
    envs = {name: make_cocarry_env(stress_measure=name) for name in ("wrist", "coupling", "coupling_internal")}
    stresses = {name: play(env, controllers(), 0, steps=60, to_the_end=True) for name, env in envs.items()}
    forces = np.array([envs["wrist"].rig.pin_force(f"{uid}_hold")[0] for uid in (EGO, PARTNER)])
    assert stresses["wrist"]["stress_proxy"] == pytest.approx(np.linalg.norm(forces, axis=1).max())
    assert stresses["coupling"] == stresses["wrist"]
    assert stresses["coupling_internal"]["stress_proxy"] == pytest.approx(np.abs(forces[:, 0]).min(), rel=1e-3)
    for env in envs.values():
        env.close()


def test_one_arm_has_nothing_to_fight() -> None:
    env = make_cocarry_env(condition_id=SINGLE_ARM, stress_measure="coupling_internal")
    assert play(env, controllers(), 0, steps=20)["max_stress_proxy"] == 0.0
    env.close()


def test_arms_and_bar_pass_through_each_other_unless_legacy(matched: CoCarryEnv) -> None:
    matched.reset(seed=0)
    assert not matched.rig.net_force(EGO, "panda_link5").any()
    legacy = make_cocarry_env(collision="legacy")
    legacy.reset(seed=0)
    arms, grip = (f"{EGO}.arm", f"{PARTNER}.arm"), ("bar", f"{EGO}.fingers")
    np.testing.assert_allclose(legacy.rig.penetration(*arms), 0.058, atol=5e-4)
    np.testing.assert_allclose(legacy.rig.penetration(*grip), 0.021, atol=5e-4)
    assert 4.5e4 < np.linalg.norm(legacy.rig.pair_force(*arms)) < 5.5e4
    assert 9e3 < np.linalg.norm(legacy.rig.pair_force(*grip)) < 1.1e4
    legacy.close()


# --- refusals, wrappers, pictures ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"condition_id": "x"}, "condition_id"),
        ({"stress_measure": "wrist_force"}, "stress_measure must be one of wrist, coupling, coupling_internal"),
        ({"limits": "v1"}, "limits"),
        ({"collision": "none"}, "collision"),
        ({"dwell_steps": 0}, "dwell_steps"),
        ({"episode_length": 0}, "episode_length"),
        ({"num_envs": 0}, "num_envs"),
        ({"goal_centroid": (0.0, 0.1)}, "goal_centroid"),
        ({"goal_centroid": (0.0, 0.1, np.nan)}, "goal_centroid"),
        ({"drive_stiffness": -1.0}, "drive_stiffness"),
        ({"xarm6_base_x": 0.3}, "xarm6_base_x"),
        ({"condition_id": WITH_XARM6, "xarm6_ready_qpos": [0.0] * 6}, "xarm6_ready_qpos"),
        ({"condition_id": WITH_XARM6, "xarm6_base_x": np.inf}, "xarm6_base_x"),
        ({"backend": "sapien"}, "backend"),
        ({"render_mode": "human"}, "render_mode"),
    ],
)
def test_what_cannot_be_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_cocarry_env(**arguments)


def test_a_bad_action_moves_nothing(matched: CoCarryEnv) -> None:
    matched.reset(seed=0)
    state = matched.rig.save_state(0)
    good = random_actions(1)[0]
    for bad in ({EGO: good[EGO]}, {**good, "third": good[EGO]}, {**good, PARTNER: np.full(8, np.nan)}):
        with pytest.raises(ValueError, match="action"):
            matched.step(bad)
    assert np.array_equal(matched.rig.save_state(0), state)


def test_the_training_environment_gives_states() -> None:
    env = make_cocarry_training_env(root_seed=2)
    obs, _ = env.reset(seed=0)
    state = obs["agent"][EGO]["state"]
    assert env.observation_space.contains(obs)
    assert np.array_equal(state[:9], obs["agent"][EGO]["qpos"][0])
    assert np.array_equal(state[18:27], obs["agent"][PARTNER]["qpos"][0])
    assert np.array_equal(state[36:46], np.concatenate([obs["extra"]["bar_pose"][0], obs["extra"]["goal_pos"][0]]))
    assert env.episode_length == 320
    blind, *_ = CoCarryEgoBlindMask(env).step(random_actions(1)[0])
    assert not blind["agent"][EGO]["state"][18:43].any()
    assert blind["agent"][EGO]["state"][:9].any()
    env.close()


def test_beside_an_xarm6_the_ego_state_keeps_its_width() -> None:
    ready = [0.01 * joint for joint in range(1, 13)]
    env = make_cocarry_training_env(condition_id=WITH_XARM6, episode_length=5, xarm6_ready_qpos=ready)
    obs, _ = env.reset(seed=0)
    qpos = obs["agent"][XARM6]["qpos"][0]
    assert obs["agent"][EGO]["state"].shape == (46,)
    assert obs["agent"][EGO]["state"][18:27].tolist() == [*qpos[:6], 0.0, *qpos[6:8]]
    env.close()


def test_training_needs_the_normalised_dense_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoCarryEnv, "reward_mode", "sparse")
    with pytest.raises(ChamberEnvCompatibilityError, match="sparse"):
        make_cocarry_training_env()


def test_the_xarm6_and_the_ego_carry_the_bar_together() -> None:
    env = make_cocarry_env(condition_id=WITH_XARM6)
    pair = controllers()
    pair[XARM6] = load_partner(PartnerSpec("cocarry_xarm6_impedance", 0, None, None, cocarry_xarm6_controller_spec()))
    del pair[PARTNER]
    for seed in range(3):
        episode = play(env, pair, seed)
        assert episode["success_step"] is not None
        assert episode["max_tilt_deg"] < 2.0
    env.close()


@pytest.mark.egl
def test_a_picture_shows_the_bar_and_the_goal() -> None:
    env = make_cocarry_env(render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (480, 640, 3)
    red, green, blue = (picture[..., channel].astype(int) for channel in range(3))
    is_bar = (red > 140) & (green > 110) & (blue < 80)
    is_goal = (green > 90) & (green > red + 40) & (green > blue + 30)
    assert is_bar.sum() > 300
    assert is_goal.sum() > 200
    env.close()
