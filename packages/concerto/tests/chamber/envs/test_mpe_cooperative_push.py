"""The planar push task: documented numbers, determinism, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from chamber.envs import MPECooperativePushEnv
from chamber.envs.mpe_cooperative_push import (
    DEFAULT_EPISODE_LENGTH,
    DT,
    N_LANDMARKS,
    POSITION_BOUND,
    ROBOT_RADIUS_M,
    VELOCITY_BOUND,
)
from chamber.errors import ActionError
from ripieno.randomness import derive_substream

STILL = {"ego": np.zeros(2), "partner": np.zeros(2)}


def test_constants_are_the_documented_ones():
    assert (DEFAULT_EPISODE_LENGTH, N_LANDMARKS, POSITION_BOUND, VELOCITY_BOUND, DT) == (50, 2, 1.0, 1.0, 0.1)
    assert MPECooperativePushEnv.metadata == {"render_modes": ["rgb_array"], "render_fps": round(1 / DT)}


def test_episode_zero_has_the_documented_start():
    env = MPECooperativePushEnv()
    obs, info = env.reset(seed=0)
    np.testing.assert_allclose(env.landmarks, [[0.53752693, 0.94247120], [-0.19845083, -0.57631984]], atol=5e-9)
    np.testing.assert_allclose(env.position("ego"), [-0.44703895, 0.74684033], atol=5e-9)
    np.testing.assert_allclose(env.position("partner"), [0.03063037, 0.82544039], atol=5e-9)
    expected = [0.98456585, 0.19563088, 0.24858811, -1.3231602, 0.47766933, 0.07860006]
    np.testing.assert_allclose(obs["agent"]["ego"]["state"][4:], expected, atol=5e-9)
    assert info == {}


def test_first_step_of_episode_zero_has_the_documented_outcome():
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step({"ego": np.array([2.0, -0.5]), "partner": np.zeros(2)})
    expected = np.array([-0.34703895, 0.69684035, 1.0, -0.5], np.float32)
    np.testing.assert_allclose(obs["agent"]["ego"]["state"][:4], expected, atol=4e-8)
    assert reward == pytest.approx(-1.802032605927311, abs=1e-15)
    assert (terminated, truncated, info) == (False, False, {})
    assert env.clipped_uids == ("ego",)


def test_root_seed_and_episode_number_both_choose_the_start():
    env = MPECooperativePushEnv(root_seed=1)
    env.reset(seed=0)
    np.testing.assert_allclose(env.position("ego"), [0.10167107, -0.7382994], atol=5e-8)


def test_without_an_episode_number_the_stream_of_the_run_goes_on():
    env = MPECooperativePushEnv()
    env.reset()
    np.testing.assert_allclose(env.position("ego"), [-0.18221694, 0.04217185], atol=5e-9)
    first = env.position("ego")
    env.reset()
    assert not np.array_equal(first, env.position("ego"))


def test_episode_is_truncated_at_its_length_and_not_before():
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    flags = [env.step(STILL)[3] for _ in range(50)]
    assert flags[48] is False
    assert flags[49] is True


@pytest.mark.parametrize("uids", [("a", "a"), ("a",), ("a", "b", "c")])
def test_other_than_two_distinct_uids_are_refused(uids: tuple[str, ...]):
    with pytest.raises(ValueError, match="two distinct uids"):
        MPECooperativePushEnv(agent_uids=uids)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"ego": [1.0, 0.0]}, r"missing uid 'partner'; got keys \['ego'\]"),
        ({"ego": [1.0, 0.0], "partner": [np.nan, 0.0]}, "'partner'.*finite"),
        ({"ego": [np.inf, 0.0], "partner": [0.0, 0.0]}, "'ego'.*finite"),
        ({"ego": [1.0], "partner": [0.0, 0.0]}, "'ego'.*2 finite numbers"),
        ({"ego": [0.0, 0.0], "partner": "left"}, "'partner'.*2 finite numbers"),
    ],
)
def test_a_bad_action_is_refused_before_anything_changes(action: dict[str, list[float]], message: str):
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    before = [env.position(uid) for uid in env.agent_uids], [env.velocity(uid) for uid in env.agent_uids]
    with pytest.raises(ActionError, match=message):
        env.step(action)
    after = [env.position(uid) for uid in env.agent_uids], [env.velocity(uid) for uid in env.agent_uids]
    np.testing.assert_array_equal(before, after)
    assert not any(env.step(STILL)[3] for _ in range(49)), "the refused step was counted"


def test_actions_of_unknown_uids_are_ignored_with_a_warning():
    env, twin = MPECooperativePushEnv(), MPECooperativePushEnv()
    env.reset(seed=3)
    twin.reset(seed=3)
    with pytest.warns(UserWarning, match="ghost"):
        outcome = env.step({**STILL, "ghost": np.ones(2)})
    assert outcome[1] == twin.step(STILL)[1]


@given(
    root_seed=st.integers(0, 2**31),
    episode=st.integers(0, 10_000),
    actions=st.lists(st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=4), min_size=1, max_size=12),
)
def test_equal_seeds_and_actions_give_the_same_bytes(root_seed: int, episode: int, actions: list[list[float]]):
    def run() -> bytes:
        env = MPECooperativePushEnv(root_seed=root_seed)
        obs, _ = env.reset(seed=episode)
        recorded = [obs["agent"][uid]["state"].tobytes() for uid in env.agent_uids]
        for row in actions:
            obs, reward, *_ = env.step({"ego": row[:2], "partner": row[2:]})
            recorded += [obs["agent"][uid]["state"].tobytes() for uid in env.agent_uids]
            recorded.append(np.float64(reward).tobytes())
            assert env.observation_space.contains(obs)
            assert reward <= 0.0
            assert max(np.abs(env.position(uid)).max() for uid in env.agent_uids) <= POSITION_BOUND
        return b"".join(recorded)

    assert run() == run()


def test_gymnasium_accepts_the_environment():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about unbounded boxes and the missing render mode
        check_env(MPECooperativePushEnv(), skip_render_check=True)


class _ArrayFormulas:
    """The task as array formulas on float64, as its documentation states them."""

    def __init__(self, env: MPECooperativePushEnv) -> None:
        self.landmarks = env.landmarks
        self.positions = np.stack([env.position(uid) for uid in env.agent_uids])

    def step(self, commands: np.ndarray) -> list[bytes]:
        velocities = np.clip(commands, -VELOCITY_BOUND, VELOCITY_BOUND)
        self.positions = np.clip(self.positions + velocities * DT, -POSITION_BOUND, POSITION_BOUND)
        distances = np.linalg.norm(self.positions[None] - self.landmarks[:, None], axis=2)
        reward = -distances.min(axis=1).sum()
        states = [
            np.concatenate([own, velocity, (self.landmarks - own).ravel(), other - own]).astype(np.float32)
            for own, other, velocity in zip(self.positions, self.positions[::-1], velocities, strict=True)
        ]
        return [*(state.tobytes() for state in states), reward.tobytes(), self.positions.tobytes()]


@given(
    episode=st.integers(0, 10_000),
    dtype=st.sampled_from([np.float32, np.float64]),
    actions=st.lists(st.lists(st.floats(-3.0, 3.0, width=32), min_size=4, max_size=4), min_size=1, max_size=30),
)
def test_every_bit_is_that_of_the_array_formulas(episode: int, dtype: type, actions: list[list[float]]):
    env = MPECooperativePushEnv()
    env.reset(seed=episode)
    formulas = _ArrayFormulas(env)
    for row in actions:
        commands = np.array(row, dtype).reshape(2, 2)
        obs, reward, *_ = env.step(dict(zip(env.agent_uids, commands, strict=True)))
        got = [obs["agent"][uid]["state"].tobytes() for uid in env.agent_uids]
        got += [np.float64(reward).tobytes(), np.stack([env.position(uid) for uid in env.agent_uids]).tobytes()]
        assert got == formulas.step(commands.astype(np.float64))


def test_start_states_are_drawn_in_the_documented_order():
    env = MPECooperativePushEnv(root_seed=4)
    env.reset(seed=11)
    rng = derive_substream("env.mpe_cooperative_push.episode.11", root_seed=4).default_rng()
    np.testing.assert_array_equal(env.landmarks, rng.uniform(-1.0, 1.0, (2, 2)))
    np.testing.assert_array_equal(env.position("ego"), rng.uniform(-1.0, 1.0, 2))
    np.testing.assert_array_equal(env.position("partner"), rng.uniform(-1.0, 1.0, 2))


def test_snapshots_tell_where_the_robots_are_and_how_they_really_moved():
    env = MPECooperativePushEnv(agent_uids=("a", "b"))
    env.reset(seed=0)
    assert {uid: snapshot.velocity.tolist() for uid, snapshot in env.build_agent_snapshots().items()} == {
        "a": [0.0, 0.0],
        "b": [0.0, 0.0],
    }
    for _ in range(25):
        before = env.position("a")
        env.step({"a": np.array([1.0, 0.25]), "b": np.zeros(2)})
    snapshot = env.build_agent_snapshots()["a"]
    np.testing.assert_array_equal(snapshot.position, env.position("a"))
    np.testing.assert_array_equal(snapshot.velocity, (env.position("a") - before) / DT)
    assert snapshot.velocity[0] == 0.0, "the wall stopped it, whatever was commanded"
    assert (snapshot.radius, ROBOT_RADIUS_M) == (0.1, 0.1)


def test_a_refused_step_and_a_reset_leave_no_motion_behind_in_the_snapshots():
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    env.step({"ego": np.array([1.0, 0.0]), "partner": np.zeros(2)})
    moving = env.build_agent_snapshots()["ego"].velocity
    with pytest.raises(ValueError, match="missing uid"):
        env.step({"ego": np.zeros(2)})
    np.testing.assert_array_equal(env.build_agent_snapshots()["ego"].velocity, moving)
    env.reset(seed=1)
    np.testing.assert_array_equal(env.build_agent_snapshots()["ego"].velocity, [0.0, 0.0])


@given(
    episode=st.integers(0, 500), actions=st.lists(st.tuples(st.floats(-1.2, 1.2), st.floats(-1.2, 1.2)), max_size=25)
)
def test_an_executable_action_is_carried_out_in_full(episode: int, actions: list[tuple[float, float]]):
    env = MPECooperativePushEnv()
    env.reset(seed=episode)
    for action in actions:
        asked = np.array(action)
        command = env.executable_action("ego", asked)
        assert command is asked or not command.any()
        before = env.position("ego")
        env.step({"ego": command, "partner": np.zeros(2)})
        np.testing.assert_array_equal(env.velocity("ego"), command)
        np.testing.assert_array_equal(env.position("ego"), before + command * DT)


def test_an_action_that_a_wall_or_the_box_would_cut_short_becomes_standing_still():
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    while env.position("ego")[0] + 0.1 <= POSITION_BOUND:
        env.step({"ego": np.array([1.0, 0.0]), "partner": np.zeros(2)})
    np.testing.assert_array_equal(env.executable_action("ego", np.array([1.0, 0.0])), [0.0, 0.0])
    np.testing.assert_array_equal(env.executable_action("ego", np.array([-1.5, 0.0])), [0.0, 0.0])


def test_what_the_stack_asks_is_what_the_task_does():
    env = MPECooperativePushEnv()
    models, bounds, motion = env.build_control_models(), env.build_bounds(), env.build_partner_motion()
    assert list(models) == ["ego", "partner"]
    assert all(model.is_immediate and model.dt == DT and model.action_dim == 2 for model in models.values())
    assert (bounds.action_linf_component, bounds.cartesian_accel_capacity, env.control_timestep) == (1.0, 10.0, 0.1)
    assert (motion.max_acceleration, motion.max_speed) == (np.inf, np.sqrt(2.0))


@pytest.mark.parametrize("radius", [0.0, -0.1, np.nan, np.inf])
def test_a_radius_that_is_no_length_is_refused(radius: float):
    with pytest.raises(ValueError, match="robot_radius"):
        MPECooperativePushEnv(robot_radius=radius)
