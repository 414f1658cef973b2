"""Actions of a rig: what is out of range is clipped and reported per copy, and copies start together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from chamber import tasks

EGO, PARTNER = "panda_wristcam", "panda_partner"


@pytest.fixture
def pair() -> Iterator[Any]:
    with closing(tasks.make("cocarry", num_envs=2)) as env:
        yield env


def test_clipping_is_reported_for_the_robot_and_the_copy_that_it_concerns(pair: Any):
    pair.reset(seed=0)
    ego = np.zeros((2, 8))
    ego[1, 3] = -7.0
    info = pair.step({EGO: ego, PARTNER: np.ones((2, 8))})[4]
    assert info["action_clipped"][EGO].tolist() == [False, True]
    assert info["action_clipped"][PARTNER].tolist() == [False, False]
    positions = pair.rig.qpos(EGO)[1]
    pair.reset(seed=0)
    pair.step({EGO: np.maximum(ego, -1.0), PARTNER: np.ones((2, 8))})
    assert positions.tobytes() == pair.rig.qpos(EGO)[1].tobytes()


def test_a_single_environment_reports_clipping_as_a_plain_flag():
    with closing(tasks.make("cocarry")) as env:
        env.reset(seed=0)
        info = env.step({EGO: np.full(8, 1.5), PARTNER: np.zeros(8)})[4]
    assert info["action_clipped"] == {EGO: True, PARTNER: False}


def test_copies_are_stepped_when_all_of_them_were_reset(pair: Any):
    still = {uid: np.zeros((2, 8)) for uid in (EGO, PARTNER)}
    pair.reset(seed=0, options={"env_idx": [1]})
    with pytest.raises(gym.error.ResetNeeded):
        pair.step(still)
    pair.reset(seed=0, options={"env_idx": [0]})
    assert pair.step(still)[4]["elapsed_steps"].tolist() == [1, 1]
