"""An episode records everything that happened, as it was when it happened, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chamber.rollout.episode import play_episode
from chamber.rollout.team import Seat, Team

PICTURE = np.zeros((4, 4, 3), dtype=np.uint8)


class Counting:
    """Counts steps in one array that it gives again and again; with a picture, a text and nothing beside it."""

    def __init__(self, *, length: int | None) -> None:
        self._length = length
        self._count = np.zeros(1)

    def _obs(self) -> dict[str, Any]:
        return {"agent": {"a": {"count": self._count, "note": "text"}}, "sensor_data": {"rgb": PICTURE}, "comm": None}

    def reset(self, *, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self._count[:] = 0.0
        return self._obs(), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._count += 1.0
        is_over = self._length is not None and self._count[0] >= self._length
        return self._obs(), 2.0, False, is_over, {"count": np.float64(self._count[0]), "parts": {}, "words": "w"}


class Remembers:
    """Does nothing, and keeps the seeds that it gets."""

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None) -> None:
        self.seeds.append(seed)

    def act(self, obs: Any) -> Any:
        return np.zeros(2)


def team(controller: Remembers | None = None) -> Team:
    return Team((Seat("a", "remembers", {}, controller or Remembers()),))


def test_rows_are_what_they_were_and_pictures_and_texts_are_left_out():
    arrays = play_episode(Counting(length=3), team(), seed=0).trajectory.arrays
    assert arrays.keys() == {"obs/agent/a/count", "action/a", "reward"}
    assert arrays["obs/agent/a/count"].ravel().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert arrays["action/a"].shape == (3, 2)


def test_the_outcome_is_that_of_the_last_step():
    episode = play_episode(Counting(length=3), team(), seed=0, episode_idx=4)
    assert (episode.episode_idx, episode.n_steps, episode.total_reward) == (4, 3, 6.0)
    assert (episode.terminated, episode.truncated, episode.success) == (False, True, None)
    assert episode.metrics == {"count": 3.0, "words": "w"}
    assert type(episode.metrics["count"]) is float


def test_controllers_get_the_seed_of_the_episode():
    controller = Remembers()
    play_episode(Counting(length=1), team(controller), seed=11)
    assert controller.seeds == [11]


def test_an_environment_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("chamber.rollout.episode.MAX_STEPS", 7)
    episode = play_episode(Counting(length=None), team(), seed=0)
    assert (episode.n_steps, episode.terminated, episode.truncated) == (7, False, False)


def test_a_spectator_is_told_of_the_start_and_of_every_step():
    told: list[int] = []
    play_episode(Counting(length=3), team(), seed=0, spectator=lambda step, _info: told.append(step))
    assert told == [0, 1, 2, 3]
