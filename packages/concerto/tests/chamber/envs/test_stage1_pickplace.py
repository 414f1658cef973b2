"""Pick-place on the simulator: episodes, what is observed, success, and what the safety filter reads."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from chamber.agents.panda_jacobian import PandaJacobianProvider
from chamber.agents.pickplace_ego_scripted import ScriptedPickPlaceEgo
from chamber.envs.errors import ChamberEnvCompatibilityError
from chamber.envs.stage1_pickplace import (
    DEFAULT_EPISODE_LENGTH,
    GOAL_THRESHOLD_M,
    Stage1PickPlaceEnv,
    make_stage1_pickplace_env,
)
from chamber.envs.stage1_shaping import Stage1SettleShapingWrapper
from chamber.sim.scene import arm_group, finger_group
from concerto.safety.api import Bounds
from ripieno.randomness import derive_substream

EGO = "panda_wristcam"
HOMOGENEOUS = "stage1_pickplace_panda_only_mappo_shared_param"
HETEROGENEOUS = "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent"
STATE_BASED = (HOMOGENEOUS, HETEROGENEOUS)
PARTNER = {HOMOGENEOUS: "panda_partner", HETEROGENEOUS: "fetch"}


@pytest.fixture(scope="module", params=STATE_BASED)
def env(request: pytest.FixtureRequest) -> Any:
    made = make_stage1_pickplace_env(condition_id=request.param, render_backend="none")
    yield made
    made.close()


@pytest.fixture(scope="module")
def pandas() -> Any:
    made = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none")
    yield made
    made.close()


@pytest.fixture(scope="module")
def with_fetch() -> Any:
    made = Stage1PickPlaceEnv(condition_id=HETEROGENEOUS, render_backend="none")
    yield made
    made.close()


def random_actions(env: Any, seed: int, steps: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {uid: rng.uniform(-1.0, 1.0, space.shape) for uid, space in env.action_space.spaces.items()}
        for _ in range(steps)
    ]


def still(env: Any) -> dict[str, Any]:
    return {uid: np.zeros(space.shape) for uid, space in env.action_space.spaces.items()}


def flat(obs: Any) -> Any:
    """Everything of an observation in one row per copy."""
    if isinstance(obs, dict):
        return np.concatenate([np.atleast_2d(flat(obs[name])) for name in sorted(obs)], axis=-1)
    return obs


def play(env: Any, seed: int, actions: list[dict[str, Any]]) -> list[list[Any]]:
    """Per step: observation, reward, terminated, truncated, with one row per copy each."""
    rows = [[flat(env.reset(seed=seed)[0])]]
    for action in actions:
        obs, *outcome, _ = env.step(action)
        rows.append([flat(obs), *(np.atleast_1d(part) for part in outcome)])
    return rows


def assert_same(first: list[list[Any]], second: list[list[Any]]) -> None:
    for one, other in zip(first, second, strict=True):
        for part, other_part in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, other_part)


# --- episodes -------------------------------------------------------------------------------------------------


def test_an_episode_is_a_function_of_its_seed_whatever_came_before(env: Any) -> None:
    actions = random_actions(env, 0, 15)
    first = play(env, 5, actions)
    play(env, 6, random_actions(env, 1, 7))
    env.reset()
    assert_same(play(env, 5, actions), first)
    fresh = make_stage1_pickplace_env(condition_id=env.condition_id, render_backend="none")
    assert_same(play(fresh, 5, actions), first)
    fresh.close()


def test_seed_and_root_seed_both_choose_the_layout(pandas: Stage1PickPlaceEnv) -> None:
    other = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", root_seed=1)
    layouts = [
        tuple(np.concatenate([obs["extra"]["cube_pose"][0, :2], obs["extra"]["goal_pos"][0]]).tolist())
        for obs in (pandas.reset(seed=0)[0], pandas.reset(seed=1)[0], pandas.reset()[0], other.reset(seed=0)[0])
    ]
    other.close()
    assert len(set(layouts)) == 4


def test_layouts_fill_the_documented_region(pandas: Stage1PickPlaceEnv) -> None:
    layouts = []
    for seed in range(60):
        obs, _ = pandas.reset(seed=seed)
        cube = obs["extra"]["cube_pose"][0]
        np.testing.assert_array_equal(cube[2:], np.array([0.02, 1, 0, 0, 0], np.float32))
        layouts.append([*cube[:2], *obs["extra"]["goal_pos"][0]])
    low, high = np.min(layouts, axis=0), np.max(layouts, axis=0)
    assert (low >= [-0.05, -0.05, -0.05, -0.05, 0.02]).all()
    assert (high <= [0.05, 0.05, 0.05, 0.05, 0.32]).all()
    assert (high - low > 0.85 * np.array([0.1, 0.1, 0.1, 0.1, 0.3])).all()


def test_draws_come_from_named_substreams_in_the_documented_order() -> None:
    made = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", root_seed=9)
    extra = made.reset(seed=4)[0]["extra"]
    name = "env.stage1_pickplace.episode.4"
    layout = derive_substream(name, root_seed=9).default_rng()
    cube_xy, goal_xy = layout.uniform(-0.05, 0.05, 2), layout.uniform(-0.05, 0.05, 2)
    np.testing.assert_array_equal(extra["cube_pose"][0, :2], cube_xy.astype(np.float32))
    goal = np.array([*goal_xy, layout.uniform(0.0, 0.3) + 0.02])
    np.testing.assert_array_equal(extra["goal_pos"][0], goal.astype(np.float32))
    noise = derive_substream(f"{name}.force_torque", root_seed=9).default_rng().normal(0.0, 0.5, 6)
    np.testing.assert_array_equal(extra["force_torque"][0], noise.astype(np.float32))
    made.close()


def test_a_copy_among_others_lives_the_same_life_as_alone(pandas: Stage1PickPlaceEnv) -> None:
    together = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", num_envs=3)
    actions = random_actions(together, 2, 12)
    batch = play(together, 10, actions)
    for copy in range(3):
        alone = play(pandas, 10 + copy, [{uid: value[copy] for uid, value in action.items()} for action in actions])
        assert_same(alone, [[part[copy : copy + 1] for part in step] for step in batch])
    together.close()


def test_resetting_some_copies_leaves_every_bit_of_the_others(pandas: Stage1PickPlaceEnv) -> None:
    together = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", num_envs=3)
    together.reset(seed=[3, 4, 5])
    for action in random_actions(together, 3, 5):
        before = together.step(action)[0]
    obs, info = together.reset(seed=[7], options={"env_idx": [1]})
    rows, old = flat(obs), flat(before)
    np.testing.assert_array_equal(rows[[0, 2]], old[[0, 2]])
    np.testing.assert_array_equal(rows[1], flat(pandas.reset(seed=7)[0])[0])
    np.testing.assert_array_equal(info["elapsed_steps"], [5, 0, 5])
    together.close()


def test_several_copies_have_states_of_one_row_each_and_begin_anew_by_themselves() -> None:
    made = make_stage1_pickplace_env(condition_id=HOMOGENEOUS, num_envs=2, episode_length=2, render_backend="none")
    obs, _ = made.reset(seed=0)
    assert obs["agent"][EGO]["state"].shape == made.observation_space["agent"][EGO]["state"].shape == (2, 53)
    made.step(still(made))
    obs, _, _, truncated, info = made.step(still(made))
    assert truncated.all()
    assert (info["final_observation"]["extra"]["goal_pos"] != obs["extra"]["goal_pos"]).any(axis=1).all()
    assert made.elapsed_steps.tolist() == [0, 0]
    made.close()


def test_the_horizon_truncates_and_is_the_documented_one(pandas: Stage1PickPlaceEnv) -> None:
    assert pandas.episode_length == DEFAULT_EPISODE_LENGTH == 100
    short = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", episode_length=3)
    short.reset(seed=0)
    assert [short.step(still(short))[3] for _ in range(3)] == [False, False, True]
    short.close()


# --- observations ---------------------------------------------------------------------------------------------


def test_observations_are_in_their_space_with_the_documented_sizes(env: Any) -> None:
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    obs, *_ = env.step(still(env))
    assert env.observation_space.contains(obs)
    joints = {EGO: 9, "panda_partner": 9, "fetch": 15}
    for uid in (EGO, env.partner_uid):
        assert obs["agent"][uid]["qpos"].shape == obs["agent"][uid]["qvel"].shape == (1, joints[uid])
        assert env.action_space[uid] == gym.spaces.Box(-1.0, 1.0, ({15: 13, 9: 8}[joints[uid]],), np.float32)
    sizes = {
        "tcp_pose": 7,
        "goal_pos": 3,
        "cube_pose": 7,
        "cube_to_tcp_pos": 3,
        "cube_to_goal_pos": 3,
        "force_torque": 6,
    }
    assert {name: value.shape for name, value in obs["extra"].items()} == {name: (1, k) for name, k in sizes.items()}


def test_relative_positions_are_differences_of_the_absolute_ones(pandas: Stage1PickPlaceEnv) -> None:
    pandas.reset(seed=1)
    for action in random_actions(pandas, 4, 5):
        extra = pandas.step(action)[0]["extra"]
    cube, tcp, goal = extra["cube_pose"][:, :3], extra["tcp_pose"][:, :3], extra["goal_pos"]
    np.testing.assert_allclose(extra["cube_to_tcp_pos"], cube - tcp, atol=1e-6)
    np.testing.assert_allclose(extra["cube_to_goal_pos"], goal - cube, atol=1e-6)


def test_the_force_signal_is_what_presses_on_the_two_fingers() -> None:
    quiet = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", force_torque_noise_sigma=0.0)
    obs, _ = quiet.reset(seed=0)
    np.testing.assert_array_equal(obs["extra"]["force_torque"], np.zeros((1, 6)))
    ego = ScriptedPickPlaceEgo()
    for _ in range(60):
        action = {EGO: ego.act(obs), "panda_partner": np.zeros(8)}
        obs, _, is_over, _, info = quiet.step(action)
        if is_over:
            break
    left, right = obs["extra"]["force_torque"].reshape(2, 3)
    assert info["is_grasped"]
    assert left @ right < -0.5 * np.linalg.norm(left) * np.linalg.norm(right)  # squeezed from both sides
    assert 10.0 < np.linalg.norm(left) < 100.0
    quiet.close()


def test_the_noise_is_drawn_anew_in_every_step(pandas: Stage1PickPlaceEnv) -> None:
    pandas.reset(seed=0)  # the fingers touch nothing: all that is read is noise
    readings = [pandas.step(still(pandas))[0]["extra"]["force_torque"][0] for _ in range(6)]
    assert len(np.unique(readings)) == 36


def test_the_noise_has_streams_of_its_own_that_touch_nothing_else() -> None:
    made = {
        sigma: Stage1PickPlaceEnv(
            condition_id=HOMOGENEOUS, render_backend="none", num_envs=2, force_torque_noise_sigma=sigma
        )
        for sigma in (0.0, 2.0)
    }
    draws = []
    for seed in range(40):
        quiet, noisy = (made[sigma].reset(seed=[seed, seed + 100])[0] for sigma in (0.0, 2.0))
        draws.append(noisy["extra"].pop("force_torque") - quiet["extra"].pop("force_torque"))
        np.testing.assert_array_equal(flat(noisy), flat(quiet))
    noise = np.array(draws)
    assert abs(noise.mean()) < 0.3
    assert 1.8 < noise.std() < 2.2
    assert len(np.unique(noise)) == noise.size  # no two copies, seeds or components share numbers
    again = made[2.0].privileged_observation()
    np.testing.assert_array_equal(
        again["extra"]["force_torque"], made[2.0].privileged_observation()["extra"]["force_torque"]
    )
    for one in made.values():
        one.close()


# --- success --------------------------------------------------------------------------------------------------


def run_scripted(env: Any, seed: int, *, blind: bool = False) -> tuple[bool, int]:
    ego = ScriptedPickPlaceEgo(mask_partner_obs=blind, partner_uid=env.unwrapped.partner_uid)
    obs, _ = env.reset(seed=seed)
    for step in range(1, DEFAULT_EPISODE_LENGTH + 1):
        action = still(env)
        action[EGO] = ego.act(obs)
        obs, reward, terminated, _, info = env.step(action)
        assert terminated == (info["is_obj_placed"] and info["is_robot_static"]) == info["success"] == (reward == 1.0)
        assert 0.0 <= reward <= 1.0
        if terminated:
            return True, step
    return False, DEFAULT_EPISODE_LENGTH


def test_the_scripted_ego_places_the_cube_in_every_episode(env: Any) -> None:
    outcomes = [run_scripted(env, seed) for seed in range(6)]
    assert all(success for success, _ in outcomes)
    assert all(18 <= steps <= 40 for _, steps in outcomes), outcomes


@pytest.mark.slow
def test_the_scripted_ego_places_the_cube_in_a_hundred_episodes(env: Any) -> None:
    """Where the goal is a hair above the table, a finger may jam on it: 99 of 100 where this was written."""
    outcomes = [run_scripted(env, seed, blind=True) for seed in range(100)]
    assert sum(success for success, _ in outcomes) >= 97
    assert 25 <= np.median([steps for _, steps in outcomes]) <= 35


def test_placed_needs_nearness_and_success_needs_stillness_too(pandas: Stage1PickPlaceEnv) -> None:
    obs, _ = pandas.reset(seed=0)
    cube = obs["extra"]["cube_pose"][0, :3].astype(float)
    for distance, is_placed in ((GOAL_THRESHOLD_M - 1e-4, True), (GOAL_THRESHOLD_M + 1e-4, False)):
        pandas.goal[:] = cube + np.array([distance, 0.0, 0.0])
        evaluation = pandas.evaluate()
        assert evaluation["is_obj_placed"][0] == is_placed
        assert evaluation["success"][0] == is_placed
        assert not evaluation["is_grasped"][0]
    pandas.goal[:] = cube
    action = still(pandas)
    action[EGO][0] = 1.0
    _, reward, terminated, _, info = pandas.step(action)
    assert (info["is_obj_placed"], info["is_robot_static"], terminated) == (True, False, False)
    assert reward < 1.0


def test_evaluating_changes_nothing(pandas: Stage1PickPlaceEnv) -> None:
    pandas.reset(seed=0)
    state = pandas.rig.save_state(0)
    first = {name: value.copy() for name, value in pandas.evaluate().items()}
    assert {name: value.tolist() for name, value in pandas.evaluate().items()} == {
        name: value.tolist() for name, value in first.items()
    }
    np.testing.assert_array_equal(pandas.rig.save_state(0), state)


def test_shaping_can_read_the_settling_state() -> None:
    made = make_stage1_pickplace_env(condition_id=HOMOGENEOUS, render_backend="none")
    shaped = Stage1SettleShapingWrapper(made, alpha=0.5, qvel_cap=1.0, gamma=0.99, ego_uid=EGO)
    shaped.reset(seed=0)
    shaped.step(still(made))
    state = made.unwrapped.privileged_settle_state()
    assert {name: value.shape for name, value in state.items()} == {
        "ego_qvel": (1, 9), "cube_pos": (1, 3), "goal_pos": (1, 3),
    }  # fmt: skip
    with pytest.raises(ValueError, match="ego"):
        Stage1SettleShapingWrapper(made, alpha=0.5, qvel_cap=1.0, gamma=0.99, ego_uid="fetch")
    made.close()


# --- the scene ------------------------------------------------------------------------------------------------


def test_nothing_overlaps_when_an_episode_begins(env: Any) -> None:
    rig = env.unwrapped.rig
    for seed in range(20):
        env.reset(seed=seed)
        for rule in rig.scene.contacts:
            assert rig.penetration(rule.first, rule.second)[0] < 1e-4, rule


def test_a_resting_cube_weighs_64_grams_and_stays_where_it_is(pandas: Stage1PickPlaceEnv) -> None:
    obs, _ = pandas.reset(seed=2)
    start = obs["extra"]["cube_pose"].copy()
    for _ in range(20):
        obs, *_ = pandas.step(still(pandas))
    np.testing.assert_allclose(obs["extra"]["cube_pose"], start, atol=2e-4)
    np.testing.assert_allclose(pandas.rig.pair_force("cube", "table")[0], [0.0, 0.0, 0.064 * 9.81], atol=2e-3)


def lead_partner_to(env: Stage1PickPlaceEnv, target: Any, steps: int) -> None:
    kinematics = PandaJacobianProvider()
    half_turn = np.diag([-1.0, -1.0, 1.0])
    for _ in range(steps):
        position = env.tcp_pose("panda_partner")[0, :3]
        jacobian = half_turn @ kinematics.jacobian_6x7(env.rig.qpos("panda_partner")[0, :7])[:3]
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 0.01 * np.eye(3), target - position)
        action = still(env)
        action["panda_partner"][:7] = np.clip(step / 0.1, -1.0, 1.0)
        env.step(action)


def test_the_second_panda_faces_the_ego_and_reaches_the_middle_of_the_table(pandas: Stage1PickPlaceEnv) -> None:
    pandas.reset(seed=0)
    assert 0.2 < pandas.tcp_pose("panda_partner")[0, 0] < 0.615
    target = np.array([0.05, 0.1, 0.06])
    lead_partner_to(pandas, target, 40)
    np.testing.assert_allclose(pandas.tcp_pose("panda_partner")[0, :3], target, atol=0.02)


def test_the_fetch_stands_on_the_floor_beside_the_table_and_can_drive_its_hand_over_it(
    with_fetch: Stage1PickPlaceEnv,
) -> None:
    with_fetch.reset(seed=0)
    base = with_fetch.rig.link_pose("fetch", "base_link")[0]
    assert base[2] == pytest.approx(-0.9196)
    assert with_fetch.rig.penetration(arm_group("fetch"), "table")[0] == 0.0
    forward = still(with_fetch)
    forward["fetch"][11] = 0.5
    for _ in range(24):
        with_fetch.step(forward)
    assert with_fetch.rig.link_pose("fetch", "base_link")[0, 0] < base[0] - 0.2
    assert abs(with_fetch.tcp_pose("fetch")[0, 0]) < 0.15
    assert 0.0 < with_fetch.tcp_pose("fetch")[0, 2] < 0.4


def test_robots_stop_each_other(pandas: Stage1PickPlaceEnv) -> None:
    pandas.reset(seed=0)
    target = pandas.tcp_pose(EGO)[0, :3]
    lead_partner_to(pandas, target, 40)
    groups = [[arm_group(uid), finger_group(uid)] for uid in (EGO, "panda_partner")]
    forces = [np.linalg.norm(pandas.rig.pair_force(one, other)) for one in groups[0] for other in groups[1]]
    assert max(forces) > 5.0
    assert np.linalg.norm(pandas.tcp_pose("panda_partner")[0, :3] - target) > 0.03


def test_a_partner_can_push_the_cube_away(pandas: Stage1PickPlaceEnv) -> None:
    obs, _ = pandas.reset(seed=0)
    cube = obs["extra"]["cube_pose"][0, :3].astype(float)
    lead_partner_to(pandas, cube + np.array([0.12, 0.0, 0.0]), 25)
    lead_partner_to(pandas, cube - np.array([0.03, 0.0, 0.0]), 15)
    assert pandas.rig.body_pose("cube")[0, 0] < cube[0] - 0.01


# --- what the safety filter reads -----------------------------------------------------------------------------


def test_snapshots_say_where_the_robots_are_and_how_fast_and_change_nothing(pandas: Stage1PickPlaceEnv) -> None:
    pandas.reset(seed=0)
    assert all(not snapshot.velocity.any() for snapshot in pandas.build_agent_snapshots().values())
    for action in random_actions(pandas, 5, 4):
        pandas.step(action)
    state = pandas.rig.save_state(0)
    kinematics = PandaJacobianProvider()
    bases = {EGO: (np.eye(3), [-0.615, 0.0, 0.0]), "panda_partner": (np.diag([-1.0, -1.0, 1.0]), [0.615, 0.0, 0.0])}
    first, second = pandas.build_agent_snapshots(), pandas.build_agent_snapshots()
    assert list(first) == [EGO, "panda_partner"]
    for uid, snapshot in first.items():
        rotation, base = bases[uid]
        q, qd = pandas.rig.qpos(uid)[0, :7], pandas.rig.qvel(uid)[0, :7]
        np.testing.assert_allclose(snapshot.position, base + rotation @ kinematics.fk_tcp_position(q), atol=1e-9)
        moved = kinematics.fk_tcp_position(q + 1e-6 * qd) - kinematics.fk_tcp_position(q - 1e-6 * qd)
        np.testing.assert_allclose(snapshot.velocity, rotation @ moved / 2e-6, atol=1e-6)
        assert np.linalg.norm(snapshot.velocity) > 0.05
        np.testing.assert_array_equal(snapshot.qpos, q)
        assert snapshot.radius == 0.10
        np.testing.assert_array_equal(second[uid].velocity, snapshot.velocity)
    np.testing.assert_array_equal(pandas.rig.save_state(0), state)


def test_the_fetch_is_a_sphere_around_its_base(with_fetch: Stage1PickPlaceEnv) -> None:
    with_fetch.reset(seed=0)
    action = still(with_fetch)
    action["fetch"][11], action["fetch"][12] = 1.0, 0.3
    for _ in range(6):
        before = with_fetch.build_agent_snapshots()["fetch"]
        with_fetch.step(action)
    after = with_fetch.build_agent_snapshots()["fetch"]
    assert after.radius == 0.35
    assert after.velocity[0] < -0.3
    mean_velocity = (after.position - before.position) / with_fetch.control_timestep
    np.testing.assert_allclose(mean_velocity, (before.velocity + after.velocity) / 2, atol=0.02)


@pytest.mark.parametrize("condition", STATE_BASED)
def test_control_models_foresee_what_an_action_does_to_every_robot(
    condition: str, pandas: Stage1PickPlaceEnv, with_fetch: Stage1PickPlaceEnv
) -> None:
    env = pandas if condition == HOMOGENEOUS else with_fetch
    models = env.build_control_models()
    errors, changes = dict.fromkeys(models, 0.0), dict.fromkeys(models, 0.0)
    for seed in range(4):
        env.reset(seed=seed)
        for action in (action for action in random_actions(env, seed, 4) for _ in range(3)):
            before = env.build_agent_snapshots()
            foreseen = {uid: models[uid].action_to_cartesian_accel(before[uid], action[uid]) for uid in models}
            env.step(action)
            after = env.build_agent_snapshots()
            for uid in models:
                happened = (after[uid].velocity - before[uid].velocity) / env.control_timestep
                errors[uid] += float(np.linalg.norm(foreseen[uid] - happened))
                changes[uid] += float(np.linalg.norm(happened))
    for uid in models:
        assert errors[uid] < 0.4 * changes[uid], uid


def test_the_model_of_the_fetch_has_the_mass_the_drive_and_the_speed_of_its_base(
    with_fetch: Stage1PickPlaceEnv,
) -> None:
    with_fetch.reset(seed=0)
    model, action = with_fetch.build_control_models()["fetch"], still(with_fetch)
    for forward in (0.2, 0.2, 0.2, -0.2, 0.1):
        action["fetch"][11] = forward
        before = with_fetch.build_agent_snapshots()["fetch"]
        foreseen = model.action_to_cartesian_accel(before, action["fetch"])
        with_fetch.step(action)
        after = with_fetch.build_agent_snapshots()["fetch"]
        happened = (after.velocity - before.velocity) / with_fetch.control_timestep
        np.testing.assert_allclose(foreseen, happened, rtol=0.02, atol=1e-3)


def test_a_control_model_believes_the_joints_of_the_snapshot_and_measures_when_it_has_none(
    pandas: Stage1PickPlaceEnv,
) -> None:
    pandas.reset(seed=0)
    model = pandas.build_control_models()["panda_partner"]
    here = pandas.build_agent_snapshots()["panda_partner"]
    blank = type(here)(here.position, here.velocity, here.radius)
    elsewhere = type(here)(here.position, here.velocity, here.radius, np.full(7, 0.3))
    action = np.full(8, 0.5)
    measured = model.action_to_cartesian_accel(blank, action)
    np.testing.assert_array_equal(measured, model.action_to_cartesian_accel(here, action))
    assert np.linalg.norm(measured - model.action_to_cartesian_accel(elsewhere, action)) > 0.1
    assert model.action_dim == 8
    assert model.max_cartesian_accel(pandas.build_bounds()) == 10.0


def test_bounds_are_in_units_of_actions(pandas: Stage1PickPlaceEnv) -> None:
    assert pandas.build_bounds() == Bounds(
        action_linf_component=1.0,
        cartesian_accel_capacity=10.0,
        action_rate=10.0,
        comm_latency_ms=0.0,
        force_limit=50.0,
    )


def test_snapshots_need_a_reset_and_a_single_copy() -> None:
    fresh = Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none")
    with pytest.raises(RuntimeError, match="reset"):
        fresh.build_agent_snapshots()
    fresh.close()
    several = Stage1PickPlaceEnv(condition_id=HETEROGENEOUS, render_backend="none", num_envs=2)
    several.reset(seed=0)
    with pytest.raises(RuntimeError, match=r"safety\.enabled=false"):
        several.build_agent_snapshots()
    several.close()


# --- bad input ------------------------------------------------------------------------------------------------


def test_an_unknown_condition_is_refused_before_anything_is_built() -> None:
    with pytest.raises(ValueError, match="unknown Stage-1 condition_id 'x'"):
        make_stage1_pickplace_env(condition_id="x", backend="no such simulator")


@pytest.mark.parametrize("sigma", [-0.1, np.nan, np.inf])
def test_a_noise_that_is_no_deviation_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="force_torque_noise_sigma"):
        Stage1PickPlaceEnv(condition_id=HOMOGENEOUS, render_backend="none", force_torque_noise_sigma=sigma)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({EGO: np.full(8, np.nan)}, "must be finite"),
        ({EGO: np.zeros(7)}, r"shape \(8,\)"),
        ({"stranger": np.zeros(8)}, "unknown uid 'stranger'"),
        ({EGO: "push"}, "must be numbers"),
    ],
)
def test_a_bad_action_is_refused_and_nothing_moves(
    pandas: Stage1PickPlaceEnv, change: dict[str, Any], message: str
) -> None:
    pandas.reset(seed=0)
    state = pandas.rig.save_state(0)
    with pytest.raises(ValueError, match=message):
        pandas.step({**still(pandas), **change})
    np.testing.assert_array_equal(pandas.rig.save_state(0), state)
    assert pandas.elapsed_steps[0] == 0


def test_pictures_that_cannot_be_made_are_refused_before_a_simulator_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> None:
        raise AssertionError("nothing shall be built that nobody could close")

    monkeypatch.setattr("chamber.envs.rig_task.make_backend", build)
    with pytest.raises(ChamberEnvCompatibilityError, match="rendering is switched off"):
        make_stage1_pickplace_env(condition_id="stage1_pickplace_vision_only", render_backend="none")


def test_pictures_can_be_switched_off_by_argument_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for condition in ("stage1_pickplace_vision_only", "stage1_pickplace_vision_plus_force_torque_plus_proprio"):
        with pytest.raises(ChamberEnvCompatibilityError, match=r"fetch-1-fetch_hand.*CHAMBER_RENDER_BACKEND"):
            make_stage1_pickplace_env(condition_id=condition, render_backend="none")
    monkeypatch.setenv("CHAMBER_RENDER_BACKEND", "none")
    with pytest.raises(ChamberEnvCompatibilityError, match="render_backend"):
        make_stage1_pickplace_env(condition_id="stage1_pickplace_vision_only")
    made = make_stage1_pickplace_env(condition_id=HOMOGENEOUS, render_mode="rgb_array")
    made.reset(seed=0)
    made.step(still(made))
    with pytest.raises(ChamberEnvCompatibilityError, match="CHAMBER_RENDER_BACKEND"):
        made.render()
    made.close()
