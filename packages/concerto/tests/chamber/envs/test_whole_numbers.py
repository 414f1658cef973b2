"""Counts, seeds and places are whole numbers; everything else is named, and nothing has begun then."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chamber.benchmarks.stage0_smoke import make_stage0_env
from chamber.envs import MPECooperativePushEnv, make_stage1_pickplace_env
from chamber.envs.cocarry import make_cocarry_env
from chamber.envs.coinsert import make_coinsert_env
from chamber.errors import ActionError


def make_pickplace_env(**options: Any) -> Any:
    return make_stage1_pickplace_env(condition_id="stage1_pickplace_vision_only", **options)


FACTORIES = [make_cocarry_env, make_pickplace_env, make_stage0_env, MPECooperativePushEnv]


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("value", [math.nan, math.inf, 2.5, 2.0, "5", None, True, np.float64(3.0)])
def test_an_episode_that_would_never_end_is_refused(factory: Callable[..., Any], value: Any):
    with pytest.raises(ValueError, match=r"^episode_length must be an integer, got"):
        factory(episode_length=value)


@pytest.mark.parametrize("factory", [*FACTORIES, make_coinsert_env])
@pytest.mark.parametrize("value", [math.nan, 1.5, "a", None, True])
def test_a_root_seed_is_an_integer(factory: Callable[..., Any], value: Any):
    with pytest.raises(ValueError, match=r"^root_seed must be an integer, got"):
        factory(root_seed=value)


@pytest.mark.parametrize("factory", [make_cocarry_env, make_coinsert_env])
@pytest.mark.parametrize(
    ("name", "value"), [("dwell_steps", math.nan), ("dwell_steps", 1.5), ("num_envs", "2"), ("num_envs", True)]
)
def test_a_count_is_an_integer(factory: Callable[..., Any], name: str, value: Any):
    with pytest.raises(ValueError, match=f"^{name} must be an integer, got"):
        factory(**{name: value})


@pytest.fixture(scope="module")
def pair() -> Any:
    env = make_cocarry_env(num_envs=2)
    env.reset(seed=0)
    yield env
    env.close()


@pytest.mark.parametrize(
    "seed", [1.5, math.nan, True, np.True_, "3", b"12", {1: 2}.keys, [0, True], [0, 1.0], [0, None]]
)
def test_a_seed_that_is_no_integer_is_refused(pair: Any, seed: Any):
    with pytest.raises(ValueError, match=r"^seed must be "):
        pair.reset(seed=seed)


@pytest.mark.parametrize("seed", [np.array([4, 5]), (4, 5), 4, np.int64(4), np.array(4), [np.uint8(4), 5]])
def test_integers_of_every_kind_are_seeds(pair: Any, seed: Any):
    expected = pair.reset(seed=[4, 5])[0]["extra"]["goal_pos"]
    assert np.array_equal(pair.reset(seed=seed)[0]["extra"]["goal_pos"], expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"env_idx": 0}, "env_idx must be integers, got 0"),
        ({"env_idx": "0"}, "env_idx must be integers, got '0'"),
        ({"env_idx": [0.0]}, "env_idx must be an integer, got 0.0"),
        ({"env_idx": [True]}, "env_idx must be an integer, got True"),
        ({"env_idx": [2**70]}, "env_idx must name copies 0 to 1"),
        ({"env_idx": []}, "env_idx must name copies 0 to 1"),
        ({3: 1, "x": 2}, "reset\\(\\) has no option 3"),
        (5, "options of reset\\(\\) must be a mapping, got 5"),
    ],
)
def test_options_that_name_no_copies_are_refused(pair: Any, options: Any, said: str):
    with pytest.raises(ValueError, match=said):
        pair.reset(options=options)


@pytest.mark.parametrize("action", [None, [1, 2], np.zeros(8), "abc"])
def test_an_action_that_is_no_mapping_is_refused(pair: Any, action: Any):
    with pytest.raises(ValueError, match="takes a mapping from uid to action"):
        pair.step(action)


def test_a_uid_that_is_no_text_is_named(pair: Any):
    still = {uid: np.zeros((2, 8)) for uid in pair.agent_uids}
    with pytest.raises(ValueError, match="unknown uid 3"):
        pair.step({**still, 3: np.zeros((2, 8)), "x": 0})


@pytest.mark.parametrize(
    "value",
    [
        np.full((2, 8), 1j),
        np.full((2, 8), "1"),
        np.zeros((2, 8), dtype="datetime64[s]"),
        np.zeros((2, 8), dtype=[("a", float)]),
        np.full((2, 8), None),
        [[1.0], [2.0, 3.0]],
        np.ma.masked_all((2, 8)),
        np.ma.masked_equal(np.eye(2, 8), 1.0),
    ],
)
def test_what_numpy_would_quietly_make_a_number_of_is_no_action(pair: Any, value: Any):
    still = {uid: np.zeros((2, 8)) for uid in pair.agent_uids}
    with pytest.raises(ActionError, match=r"action of '.*' must be numbers, got"):
        pair.step({**still, pair.agent_uids[0]: value})
