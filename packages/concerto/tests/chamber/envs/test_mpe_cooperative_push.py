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
    VELOCITY_BOUND,
)

STILL = {"ego": np.zeros(2), "partner": np.zeros(2)}


def test_constants_are_the_documented_ones():
    assert (DEFAULT_EPISODE_LENGTH, N_LANDMARKS, POSITION_BOUND, VELOCITY_BOUND, DT) == (50, 2, 1.0, 1.0, 0.1)
    assert MPECooperativePushEnv.metadata == {"render_modes": []}


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
    ],
)
def test_a_bad_action_is_refused_before_anything_changes(action: dict[str, list[float]], message: str):
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    before = [env.position(uid) for uid in env.agent_uids], [env.velocity(uid) for uid in env.agent_uids]
    with pytest.raises(ValueError, match=message):
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
