"""A closed environment says so: whatever the task, alone, in copies, and through every wrapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import SyncVectorEnv

from chamber import tasks
from chamber.benchmarks.stage0_smoke import make_stage0_env
from chamber.comm.fixed_format import FixedFormatCommChannel
from chamber.envs import (
    CommShapingWrapper,
    MPECooperativePushEnv,
    PartnerIdAnnotationWrapper,
    PerAgentActionRepeatWrapper,
    TextureFilterObsWrapper,
)
from chamber.envs._closing import RefusesWhenClosed
from chamber.envs.cocarry import make_cocarry_env
from chamber.envs.cocarry_blind_mask import CoCarryEgoBlindMask
from chamber.envs.cocarry_obs import make_cocarry_training_env
from chamber.envs.cocarry_shaping import CoCarryTransportPBRSWrapper
from chamber.envs.coinsert import make_coinsert_env
from chamber.envs.handover_place import make_handover_place_env
from chamber.envs.stage1_pickplace import make_stage1_pickplace_env

PANDAS = "stage1_pickplace_panda_only_mappo_shared_param"
CASES: dict[str, Callable[[], Any]] = {
    "planar": MPECooperativePushEnv,
    "planar by name": lambda: tasks.make("mpe_cooperative_push"),
    "handover": make_handover_place_env,
    "co-carry": make_cocarry_env,
    "co-carry in copies": lambda: make_cocarry_env(num_envs=2),
    "co-carry for training": lambda: CoCarryEgoBlindMask(
        CoCarryTransportPBRSWrapper(make_cocarry_training_env(), coeff=1.0, gamma=0.99)
    ),
    "co-insert": make_coinsert_env,
    "pick-place, filtered": lambda: make_stage1_pickplace_env(condition_id=PANDAS),
    "pick-place, copies that restart": lambda: make_stage1_pickplace_env(condition_id=PANDAS, num_envs=2),
    "stage 0, five wrappers": make_stage0_env,
    "partner id": lambda: PartnerIdAnnotationWrapper(MPECooperativePushEnv(), partner_id="0" * 16),
    "action repeat": lambda: PerAgentActionRepeatWrapper(MPECooperativePushEnv(), {"ego": 2}),
    "channel filter": lambda: TextureFilterObsWrapper(MPECooperativePushEnv(), {"ego": ["state"]}),
    "messages": lambda: CommShapingWrapper(MPECooperativePushEnv(), FixedFormatCommChannel()),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_a_closed_environment_refuses_to_step_and_to_reset_and_closes_twice(make: Callable[[], Any]) -> None:
    env = make()
    env.reset(seed=0)
    action = env.action_space.sample()
    env.step(action)
    env.close()
    env.close()
    name = type(env.unwrapped).__name__
    with pytest.raises(ClosedEnvironmentError, match=rf"{name} was closed before step\(\)"):
        env.step(action)
    with pytest.raises(ClosedEnvironmentError, match=rf"{name} was closed before reset\(\)"):
        env.reset(seed=0)


def test_one_that_was_never_reset_says_that_it_is_closed_and_not_that_it_needs_a_reset() -> None:
    env = make_cocarry_env()
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        env.step(env.action_space.sample())


def test_a_vector_environment_of_closed_ones_says_so() -> None:
    envs = SyncVectorEnv([MPECooperativePushEnv] * 2)
    envs.reset(seed=0)
    still = {uid: np.zeros((2, 2), np.float32) for uid in ("ego", "partner")}
    envs.step(still)
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(still)
    with pytest.raises(ClosedEnvironmentError):
        envs.reset()


def test_a_closed_environment_does_not_close_another_one() -> None:
    first, second = MPECooperativePushEnv(), MPECooperativePushEnv()
    first.close()
    second.reset(seed=0)
    second.step(second.action_space.sample())


def test_what_stands_behind_it_is_closed_too():
    closed: list[str] = []

    class Window(gymnasium.Env[Any, Any]):
        def close(self) -> None:
            closed.append("window")
            super().close()

    class Room(RefusesWhenClosed[Any, Any], Window):
        pass

    room = Room()
    room.close()
    assert closed == ["window"]
    with pytest.raises(ClosedEnvironmentError, match=r"Room was closed before step\(\)"):
        room._require_open("step")
