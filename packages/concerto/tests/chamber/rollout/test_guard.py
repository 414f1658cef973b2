"""What a guarded team measures belongs to one episode."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pytest

from chamber.rollout.config import SessionConfig, make_environment, make_team
from chamber.rollout.episode import play_episode
from chamber.rollout.guard import Guard


@pytest.mark.parametrize("guard", [Guard.WATCH, Guard.ON])
def test_an_episode_is_measured_as_if_it_were_the_first(guard: Guard):
    config = SessionConfig.of("cocarry", partner="cocarry_erratic", guard=guard, episode_length=40)

    def measured(*seeds: int) -> list[Mapping[str, object]]:
        with closing(make_environment(config)) as env:
            team = make_team(config, env)
            return [play_episode(env, team, seed=seed).metrics for seed in seeds]

    (first,), (second,) = measured(0), measured(1)
    assert first["smallest_gap_m"] != second["smallest_gap_m"]
    assert measured(0, 1) == [first, second]
    assert measured(1, 0) == [second, first], "a smaller gap of an earlier episode must not stay"
    assert ("interventions" in first) is (guard is Guard.ON)
