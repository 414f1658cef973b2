"""What a task shows of its state: it can be read at any time, and what was given out does not change afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from chamber.envs.cocarry import make_cocarry_env
from chamber.envs.cocarry_shaping import CoCarryTransportPBRSWrapper
from chamber.envs.coinsert import make_coinsert_env
from chamber.envs.stage1_pickplace import make_stage1_pickplace_env

MAKERS: dict[str, Callable[[], Any]] = {
    "cocarry": lambda: make_cocarry_env(condition_id="cocarry_single_arm_positive_control"),
    "coinsert": make_coinsert_env,
    "pickplace": lambda: make_stage1_pickplace_env(condition_id="stage1_pickplace_panda_only_mappo_shared_param"),
}
READERS = {"cocarry": ("get_telemetry", "privileged_transport_distance"), "coinsert": ("get_telemetry",)}


@pytest.fixture(params=sorted(MAKERS))
def named_task(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    env = MAKERS[request.param]()
    yield request.param, env.unwrapped
    env.close()


def still(env: Any) -> dict[str, np.ndarray]:
    return {uid: np.zeros(space.shape) for uid, space in env.action_space.spaces.items()}


def test_a_task_can_be_read_before_its_first_reset_and_not_stepped(named_task: tuple[str, Any]) -> None:
    name, env = named_task
    assert env.evaluate()["success"].shape == (1,)
    for reader in READERS.get(name, ()):
        assert getattr(env, reader)() is not None
    shown = env.privileged_observation()
    declared = {part: env.observation_space[part] for part in ("agent", "extra")}
    assert gym.spaces.Dict(declared).contains(shown)
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.step(still(env))


def test_a_shaped_task_asks_for_a_reset_too() -> None:
    env = CoCarryTransportPBRSWrapper(make_cocarry_env(), coeff=1.0, gamma=0.99)
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.step(still(env))
    env.close()


def test_an_evaluation_is_a_snapshot_that_belongs_to_who_asked(named_task: tuple[str, Any]) -> None:
    _, env = named_task
    env.reset(seed=0)
    for _ in range(18):
        env.step(still(env))
    first = env.evaluate()
    kept = {name: value.copy() for name, value in first.items()}
    for _ in range(12):
        env.step({uid: np.full(8, 0.4) for uid in env.agent_uids})
    for name, value in kept.items():
        np.testing.assert_array_equal(first[name], value, err_msg=name)
    now = {name: value.copy() for name, value in env.evaluate().items()}
    for name, value in env.evaluate().items():
        if name.startswith(("max_", "peak_")):
            value[:] = -1.0
    for name, value in env.evaluate().items():
        np.testing.assert_array_equal(value, now[name], err_msg=name)


@pytest.fixture
def pair() -> Iterator[Any]:
    env = make_cocarry_env(num_envs=2)
    yield env
    env.close()


def test_what_a_step_reports_of_several_copies_stays_as_it_was(pair: Any) -> None:
    _, started = pair.reset(seed=0)
    reports = [started] + [pair.step(still(pair))[4] for _ in range(3)]
    assert [report["elapsed_steps"].tolist() for report in reports] == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_an_integer_seed_of_a_partial_reset_is_that_of_the_first_copy_named(pair: Any) -> None:
    pair.reset(seed=[7, 8])
    of_seven = pair.goal_centroid[0]
    pair.reset(seed=7, options={"env_idx": [1]})
    np.testing.assert_array_equal(pair.goal_centroid, [of_seven, of_seven])


def test_a_negative_seed_is_refused_and_starts_nothing(pair: Any) -> None:
    pair.reset(seed=3)
    before = pair.goal_centroid
    with pytest.raises(ValueError, match="seed must be >= 0, got -1"):
        pair.reset(seed=-1)
    np.testing.assert_array_equal(pair.goal_centroid, before)
