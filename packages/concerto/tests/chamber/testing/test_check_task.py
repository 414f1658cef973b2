"""`check_task` accepts an honest task and names the clause that a planted fault breaks."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from chamber import tasks
from chamber.envs import MPECooperativePushEnv
from chamber.testing import ConformanceError, check_task, run_all, task_checks


class Honest(MPECooperativePushEnv):
    """The planar task, short."""

    def __init__(self) -> None:
        super().__init__(episode_length=20)


def broken(check: str, cls: type) -> Any:
    return pytest.param(check, cls, id=f"{check}: {cls.__doc__}")


class UnboundedActions(Honest):
    """No bounds of actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Dict({uid: spaces.Box(-np.inf, np.inf, (2,)) for uid in self.agent_uids})


class OneSpeed(Honest):
    """A bound that leaves one action."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Dict({uid: spaces.Box(1.0, 1.0, (2,)) for uid in self.agent_uids})


class NoInfo(Honest):
    """A reset without a mapping."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], None


class RewardIsNotANumber(Honest):
    """A reward that is NaN."""

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float("nan"), terminated, truncated, info


class FlagIsAnInteger(Honest):
    """A flag that is 0 or 1."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, int(terminated), truncated, info


class OutsideItsSpace(Honest):
    """An observation of another dtype than declared."""

    def step(self, action):
        obs, *rest = super().step(action)
        obs["agent"]["ego"]["state"] = obs["agent"]["ego"]["state"].astype(np.float64)
        return (obs, *rest)


class NotFinite(Honest):
    """A number that is infinite after some steps."""

    def step(self, action):
        obs, *rest = super().step(action)
        if self._n_steps == 5:
            obs["agent"]["ego"]["state"][3] = np.inf
        return (obs, *rest)


class SeedIsIgnored(Honest):
    """A start that goes on with the old stream."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


class ZeroIsNoSeed(Honest):
    """Seed 0 taken for no seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed or None)


class OneStart(Honest):
    """The same start for every seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=4)


class RemembersEpisodes(Honest):
    """A hidden state that survives a reset, and shows only in the steps after it."""

    def __init__(self) -> None:
        super().__init__()
        self._warm = 0.0

    def step(self, action):
        obs, *rest = super().step(action)
        self._warm += float(np.abs(action["ego"]).sum())
        obs["agent"]["ego"]["state"][0] += np.float32(1e-3 * self._warm)
        return (obs, *rest)


class Unrepeatable(Honest):
    """A reward that has noise of its own."""

    noise = np.random.default_rng(0)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return (obs, reward + 1e-9 * self.noise.normal(), *rest)


class UsesGlobalGenerators(Honest):
    """Draws from Python's generator."""

    def reset(self, *, seed=None, options=None):
        random.random()
        return super().reset(seed=seed)


class SeedsNumpy(Honest):
    """Seeds NumPy's generator."""

    def reset(self, *, seed=None, options=None):
        np.random.seed(seed)  # noqa: NPY002 - that is the fault
        return super().reset(seed=seed)


class SeedsPython(Honest):
    """Seeds Python's generator."""

    def reset(self, *, seed=None, options=None):
        random.seed(seed)
        return super().reset(seed=seed)


class Aliased(Honest):
    """One array for all observations."""

    def __init__(self) -> None:
        super().__init__()
        self._shared = np.zeros(10, dtype=np.float32)

    def _observation(self):
        obs = super()._observation()
        self._shared[:] = obs["agent"]["ego"]["state"]
        obs["agent"]["ego"]["state"] = self._shared
        return obs


class ChangesItsInput(Honest):
    """Scales the caller's action in place."""

    def step(self, action):
        action["ego"] *= np.float32(0.5)
        return super().step(action)


class SharesState(Honest):
    """A class attribute that all environments move."""

    shared = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.shared[0] = float(seed or 0)
        return super().reset(seed=seed)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return (obs, reward + self.shared[0], *rest)


class MovesBeforeItRefuses(Honest):
    """Counts a step for an action that it refuses."""

    def step(self, action):
        self._positions = self._positions + 1e-3
        return super().step(action)


class AcceptsNan(Honest):
    """Takes NaN for zero."""

    def step(self, action):
        return super().step({uid: np.nan_to_num(value) for uid, value in action.items()})


class Extrapolates(Honest):
    """Rewards a command beyond its bound."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return (obs, reward + float(np.abs(action["ego"]).max()), *rest)


class NeverEnds(Honest):
    """No horizon."""

    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, False, info


class ClosesOnce(Honest):
    """A second close fails."""

    closed = False

    def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


def test_an_honest_task_passes():
    check_task(Honest)


def test_a_task_that_has_no_failed_check_has_tried_them_all():
    rows = run_all(task_checks(Reaches, reference=lambda _env: Drives(1.0)))
    assert len(rows) == 17
    assert all(row.passed and row.claim for row in rows)


def test_success_is_no_row_when_nobody_was_asked_to_reach_it():
    names = [check.name for check in task_checks(Honest)]
    assert len(names) == 16
    assert "the_reference_reaches_success" not in names


@pytest.mark.parametrize(
    ("check", "cls"),
    [
        broken("actions_have_finite_bounds", UnboundedActions),
        broken("actions_have_finite_bounds", OneSpeed),
        broken("answers_have_the_shape_of_gymnasium", NoInfo),
        broken("answers_have_the_shape_of_gymnasium", RewardIsNotANumber),
        broken("answers_have_the_shape_of_gymnasium", FlagIsAnInteger),
        broken("observations_are_in_their_space", OutsideItsSpace),
        broken("observations_are_finite", NotFinite),
        broken("a_seed_gives_one_start", SeedIsIgnored),
        broken("a_seed_gives_one_start", ZeroIsNoSeed),
        broken("seeds_give_different_starts", OneStart),
        broken("a_start_forgets_earlier_episodes", RemembersEpisodes),
        broken("equal_actions_give_equal_bytes", Unrepeatable),
        broken("global_generators_are_left_alone", UsesGlobalGenerators),
        broken("global_generators_are_left_alone", SeedsNumpy),
        broken("global_generators_are_left_alone", SeedsPython),
        broken("observations_stay_as_they_were", Aliased),
        broken("actions_stay_as_they_were", ChangesItsInput),
        broken("two_environments_do_not_meet", SharesState),
        broken("bad_actions_are_refused_and_change_nothing", MovesBeforeItRefuses),
        broken("bad_actions_are_refused_and_change_nothing", AcceptsNan),
        broken("actions_out_of_range_are_clipped_or_refused", Extrapolates),
        broken("the_horizon_ends_an_episode", NeverEnds),
        broken("closing_twice_does_no_harm", ClosesOnce),
    ],
)
def test_a_planted_fault_is_named_with_its_remedy(check: str, cls: type):
    rows = {row.check: row for row in run_all(task_checks(cls))}
    assert not rows[check].passed
    assert rows[check].problem
    assert rows[check].remedy
    with pytest.raises(ConformanceError, match="How to mend it"):
        check_task(cls)


def test_judging_leaves_the_global_generators_as_they_were():
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = (random.random(), np.random.random())  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    check_task(Honest)
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_seed_0_is_tried_whatever_the_seeds():
    rows = {row.check: row for row in run_all(task_checks(ZeroIsNoSeed, seeds=(1, 2)))}
    assert not rows["a_seed_gives_one_start"].passed


class Reaches(Honest):
    """Succeeds when the ego drives right for a while."""

    def __init__(self) -> None:
        super().__init__()
        self._right = 0

    def reset(self, *, seed=None, options=None):
        self._right = 0
        return super().reset(seed=seed)

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        self._right += int(action["ego"][0] > 0.9)
        return obs, reward, self._right >= 5, truncated, {**info, "success": self._right >= 5}


class Drives:
    def __init__(self, speed: float) -> None:
        self.speed = speed

    def reset(self, *, seed: int) -> None:
        pass

    def act(self, obs):
        return {"ego": np.array([self.speed, 0.0]), "partner": np.zeros(2)}


def test_a_reference_that_reaches_success_passes():
    check_task(Reaches, reference=lambda _env: Drives(1.0))


def test_a_reference_that_does_not_is_refused_with_the_count():
    with pytest.raises(ConformanceError, match=r"succeeds from 0 of the starts \(0, 1, 2\), 3 are needed"):
        check_task(Reaches, reference=lambda _env: Drives(0.5))


def test_an_environment_of_gymnasium_can_be_judged_and_the_page_says_what_it_breaks():
    rows = run_all(task_checks(lambda: gym.make("Pendulum-v1")))
    assert [row.check for row in rows if not row.passed] == ["bad_actions_are_refused_and_change_nothing"]


def two_copies() -> Any:
    return tasks.make("cocarry", num_envs=2, episode_length=16)


class EndsOneCopyAtRandom(gym.Wrapper):
    """One of two copies ends by chance; they never end together."""

    chance = np.random.default_rng(0)

    def step(self, action):
        obs, reward, terminated, _, info = self.env.step(action)
        return obs, reward, terminated, np.array([False, self.chance.random() < 0.5]), info


def test_an_honest_task_of_several_copies_passes():
    check_task(two_copies)


def test_a_fault_of_one_copy_is_seen():
    rows = {row.check: row for row in run_all(task_checks(lambda: EndsOneCopyAtRandom(two_copies())))}
    assert not rows["equal_actions_give_equal_bytes"].passed


def test_two_starts_are_needed_to_tell_anything():
    with pytest.raises(ValueError, match="at least two different"):
        task_checks(Honest, seeds=(3, 3))
