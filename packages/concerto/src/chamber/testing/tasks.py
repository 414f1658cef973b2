"""The checks of a task: spaces, seeds, determinism, independence of the past, honest refusals, a reachable success."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from gymnasium import spaces

from chamber.testing._records import copied, first_difference, go_on, is_over, leaves, play, sampled_actions
from concerto.testing.conformance import Check, Suite, demand, demand_raises, raise_first_problem

__all__ = ["TaskUnderTrial", "check_task", "task_checks"]

N_STEPS = 12
"""Steps of a short play."""

_UNLIKELY_SEED = 2_718_281_828


class ReferenceTeam(Protocol):
    """Who is known to solve a task."""

    def reset(self, *, seed: int) -> None:
        """Begin an episode."""
        ...

    def act(self, obs: Any) -> Any:
        """Give what ``step`` takes."""
        ...


@dataclass(frozen=True, slots=True)
class TaskUnderTrial:
    """What the checks need to know about a task.

    Attributes:
        make: builds a fresh environment.
        reference: gives the team that solves it; None when nobody is known to, or the task has no success.
        seeds: seeds of the starts that are tried.
        needed_successes: of the reference team, over these seeds.
    """

    make: Callable[[], Any]
    reference: Callable[[Any], ReferenceTeam] | None
    seeds: tuple[int, ...]
    needed_successes: int

    def actions(self, env: Any, *, seed: int = 0, n: int = N_STEPS) -> list[Any]:
        """Draw actions for a short play."""
        return sampled_actions(env.action_space, n=n, seed=seed)


_suite: Suite[TaskUnderTrial] = Suite()


def task_checks(
    env_factory: Callable[[], Any],
    *,
    reference: Callable[[Any], ReferenceTeam] | None = None,
    seeds: tuple[int, ...] = (0, 1, 2),
    needed_successes: int | None = None,
) -> list[Check]:
    """Give the checks of a task, ready to be tried.

    Args:
        env_factory: builds a fresh environment, with one copy or several; called many times.
        reference: gives a team for an environment, e.g. `chamber.rollout.references.reference`; without it the check
            whether success can be reached is left out.
        seeds: starts that are tried, at least two different ones.
        needed_successes: how many of these starts the reference must solve; all when None.

    Raises:
        ValueError: fewer than two different seeds.
    """
    if len(set(seeds)) < 2:
        raise ValueError(f"seeds must be at least two different ones, got {seeds}")
    needed = len(seeds) if needed_successes is None else needed_successes
    checks = _suite.bind(TaskUnderTrial(env_factory, reference, seeds, needed))
    return [check for check in checks if reference is not None or check.name != the_reference_reaches_success.__name__]


def check_task(
    env_factory: Callable[[], Any],
    *,
    reference: Callable[[Any], ReferenceTeam] | None = None,
    seeds: tuple[int, ...] = (0, 1, 2),
    needed_successes: int | None = None,
) -> None:
    """Refuse a task that breaks a clause; see `task_checks` for the arguments.

    Raises:
        ConformanceError: the first clause that does not hold, with how to mend it.
    """
    raise_first_problem(task_checks(env_factory, reference=reference, seeds=seeds, needed_successes=needed_successes))


# --- spaces ---------------------------------------------------------------------------------------------------


@_suite.check("Give action_space as a Dict of finite Box spaces keyed by robot uid, or as one Box for a task of turns.")
def actions_have_finite_bounds(task: TaskUnderTrial) -> None:
    """Every component of every action has finite bounds, low below high."""
    with closing(task.make()) as env:
        space = env.action_space
        demand(isinstance(space, spaces.Dict | spaces.Box), f"action_space is a {type(space).__name__}")
        members = cast("dict[str, Any]", space.spaces) if isinstance(space, spaces.Dict) else {"action": space}
        demand(members, "action_space has no robot")
        for uid, box in members.items():
            demand(isinstance(box, spaces.Box), f"the action space of {uid!r} is a {type(box).__name__}")
            demand(np.isfinite(box.low).all() and np.isfinite(box.high).all(), f"actions of {uid!r} have no bounds")
            demand((box.low < box.high).all(), f"actions of {uid!r} have a bound with low >= high")


@_suite.check("Return (obs, info) from reset and (obs, reward, terminated, truncated, info) from step.")
def answers_have_the_shape_of_gymnasium(task: TaskUnderTrial) -> None:
    """Reset gives two values and step five; reward is a finite number, the flags are booleans, info is a mapping."""
    with closing(task.make()) as env:
        answer = env.reset(seed=task.seeds[0])
        demand(isinstance(answer, tuple) and len(answer) == 2, f"reset gave {_kind(answer)}")
        demand(isinstance(answer[1], dict), f"info of reset is a {type(answer[1]).__name__}")
        for action in task.actions(env, n=2):
            step = env.step(action)
            demand(isinstance(step, tuple) and len(step) == 5, f"step gave {_kind(step)}")
            _, reward, terminated, truncated, info = step
            demand(np.isfinite(np.asarray(reward, dtype=np.float64)).all(), f"the reward is {reward}")
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                demand(np.asarray(flag).dtype == np.bool_, f"{name} is {flag!r} of type {type(flag).__name__}")
            demand(isinstance(info, dict), f"info of step is a {type(info).__name__}")
            if is_over(terminated, truncated):
                break


@_suite.check("Make observation_space say what reset and step give: same keys, shapes and dtypes.")
def observations_are_in_their_space(task: TaskUnderTrial) -> None:
    """Every observation is contained in the declared space."""
    with closing(task.make()) as env:
        for number, obs in enumerate(_observations(play(env, seed=task.seeds[0], actions=task.actions(env)))):
            problem = "" if env.observation_space.contains(obs) else _outside(env.observation_space, obs)
            demand(not problem, f"observation {number}: {problem}")


@_suite.check("Look for a division by zero, a diverged simulation or an uninitialised array.")
def observations_are_finite(task: TaskUnderTrial) -> None:
    """No number in an observation is NaN or infinite."""
    with closing(task.make()) as env:
        for seed in task.seeds:
            for number, obs in enumerate(_observations(play(env, seed=seed, actions=task.actions(env, seed=seed)))):
                for path, array in leaves(obs):
                    demand(array.dtype.kind != "f" or np.isfinite(array).all(), f"{path} of observation {number}")


# --- seeds ----------------------------------------------------------------------------------------------------


@_suite.check("Derive the start from the seed that reset gets, and nothing else; remember that 0 is a seed.")
def a_seed_gives_one_start(task: TaskUnderTrial) -> None:
    """Two resets with one seed give the same bytes, for seed 0 as for every other."""
    with closing(task.make()) as env:
        for seed in {0, *task.seeds}:
            first, second = copied(env.reset(seed=seed)[0]), copied(env.reset(seed=seed)[0])
            difference = first_difference(first, second)
            demand(not difference, f"two resets with seed {seed}: {difference}")


@_suite.check("Draw the start from a generator made from the seed.")
def seeds_give_different_starts(task: TaskUnderTrial) -> None:
    """The seeds that are tried do not all give one and the same start."""
    with closing(task.make()) as env:
        starts = [copied(env.reset(seed=seed)[0]) for seed in task.seeds]
        demand(any(first_difference(starts[0], start) for start in starts[1:]), f"seeds {task.seeds} give one start")


@_suite.check(
    "Restore everything that the simulation remembers: warm starts, controls, activations, time, own counters."
)
def a_start_forgets_earlier_episodes(task: TaskUnderTrial) -> None:
    """After other episodes a seed gives the bytes of a fresh environment, and so do the steps that follow."""
    with closing(task.make()) as used, closing(task.make()) as fresh:
        play(used, seed=task.seeds[1], actions=task.actions(used, seed=1))
        play(used, seed=task.seeds[0] + 17, actions=task.actions(used, seed=2, n=3))
        actions = task.actions(fresh, seed=3)
        difference = first_difference(
            play(used, seed=task.seeds[0], actions=actions), play(fresh, seed=task.seeds[0], actions=actions)
        )
        demand(not difference, f"a used and a fresh environment after reset(seed={task.seeds[0]}): {difference}")


@_suite.check("Remove what is not a function of seed and actions: clocks, hashes, threads, global generators.")
def equal_actions_give_equal_bytes(task: TaskUnderTrial) -> None:
    """Seed and actions determine observations, rewards and flags."""
    with closing(task.make()) as env:
        actions = task.actions(env)
        first = play(env, seed=task.seeds[0], actions=actions)
        difference = first_difference(first, play(env, seed=task.seeds[0], actions=actions))
        demand(not difference, difference)


@_suite.check("Use generators of your own, made from the seed.")
def global_generators_are_left_alone(task: TaskUnderTrial) -> None:
    """Neither NumPy's nor Python's global generator is used."""
    found = (np.random.get_state(), random.getstate())  # noqa: NPY002 - it is put back
    try:
        # An unlikely state: a task that seeds a generator with its own seed would leave it as an earlier check did.
        np.random.seed(_UNLIKELY_SEED)  # noqa: NPY002
        random.seed(_UNLIKELY_SEED)
        before = (copied(np.random.get_state()), random.getstate())  # noqa: NPY002
        with closing(task.make()) as env:
            play(env, seed=task.seeds[0], actions=task.actions(env))
        after = (np.random.get_state(), random.getstate())  # noqa: NPY002
    finally:
        np.random.set_state(found[0])  # noqa: NPY002
        random.setstate(found[1])
    demand(not first_difference(before[0], after[0]), "NumPy's global generator was drawn from or seeded")
    demand(before[1] == after[1], "Python's global generator was drawn from or seeded")


# --- independence ---------------------------------------------------------------------------------------------


@_suite.check("Give fresh arrays from reset and step, never views of what changes later.")
def observations_stay_as_they_were(task: TaskUnderTrial) -> None:
    """A step does not change an observation that was given before."""
    with closing(task.make()) as env:
        obs, _ = env.reset(seed=task.seeds[0])
        kept = copied(obs)
        for action in task.actions(env, n=3):
            _, _, terminated, truncated, _ = env.step(action)
            demand(not first_difference(obs, kept), f"the first observation changed: {first_difference(obs, kept)}")
            if is_over(terminated, truncated):
                break


@_suite.check("Copy an action before you clip or scale it.")
def actions_stay_as_they_were(task: TaskUnderTrial) -> None:
    """A step does not change the action that it gets."""
    with closing(task.make()) as env:
        env.reset(seed=task.seeds[0])
        action = task.actions(env, n=1)[0]
        kept = copied(action)
        env.step(action)
        demand(not first_difference(action, kept), f"the action changed: {first_difference(action, kept)}")


@_suite.check("Keep all state in the instance; no module or class attribute may hold any.")
def two_environments_do_not_meet(task: TaskUnderTrial) -> None:
    """What one environment does changes nothing in another."""
    with closing(task.make()) as alone:
        actions = task.actions(alone)
        expected = play(alone, seed=task.seeds[0], actions=actions)
    with closing(task.make()) as one, closing(task.make()) as other:
        start = copied(one.reset(seed=task.seeds[0])[0])
        play(other, seed=task.seeds[1], actions=task.actions(other, seed=9))
        difference = first_difference(expected, go_on(one, [start], actions=actions))
        demand(not difference, difference)


# --- refusals -------------------------------------------------------------------------------------------------


@_suite.check("Check actions before anything moves, and raise ValueError naming what is wrong.")
def bad_actions_are_refused_and_change_nothing(task: TaskUnderTrial) -> None:
    """An action that is missing, misshapen or not finite raises ValueError, and nothing has moved then."""
    with closing(task.make()) as env:
        actions = task.actions(env)
        expected = play(env, seed=task.seeds[0], actions=actions[:1])
        env.reset(seed=task.seeds[0])
        for situation, bad in _bad_actions(env.action_space, actions[0]):
            demand_raises(ValueError, lambda bad=bad: env.step(bad), situation)
        difference = first_difference(expected, go_on(env, expected[:1], actions=actions[:1]))
        demand(not difference, f"a refused action changed what came after: {difference}")


@_suite.check("Clip to the action space, or refuse; do not extrapolate.")
def actions_out_of_range_are_clipped_or_refused(task: TaskUnderTrial) -> None:
    """An action beyond its bounds acts like the bound, or raises ValueError."""
    with closing(task.make()) as env:
        space = env.action_space
        if not isinstance(space, spaces.Dict):
            return  # the numbers of a turn are quantities of their own, with limits of their own
        high = {uid: cast("spaces.Box", box).high for uid, box in space.spaces.items()}
        beyond = {uid: value * 7.0 for uid, value in high.items()}
        expected = play(env, seed=task.seeds[0], actions=[high])
        try:
            difference = first_difference(expected, play(env, seed=task.seeds[0], actions=[beyond]))
        except ValueError:
            return
        demand(not difference, f"seven times the upper bound does not act like the bound: {difference}")


# --- the end of an episode ------------------------------------------------------------------------------------


@_suite.check("Set truncated when the number of steps reaches episode_length, and not before.")
def the_horizon_ends_an_episode(task: TaskUnderTrial) -> None:
    """An environment that declares episode_length truncates there, unless it terminated before."""
    with closing(task.make()) as env:
        length = getattr(env.unwrapped, "episode_length", None)
        if not isinstance(length, int):
            return
        still = _still(env.action_space)
        env.reset(seed=task.seeds[0])
        for step in range(1, length + 1):
            _, _, terminated, truncated, _ = env.step(still)
            if np.all(terminated):
                return
            demand(bool(np.all(truncated)) == (step == length), f"truncated is {truncated} at step {step} of {length}")


@_suite.check("Look at the reference beside the success predicate: one of them is not what the task says.")
def the_reference_reaches_success(task: TaskUnderTrial) -> None:
    """The reference team ends its episodes in success."""
    if task.reference is None:
        return
    with closing(task.make()) as env:
        solved = [seed for seed in task.seeds if _is_solved(env, task.reference(env), seed)]
        demand(
            len(solved) >= task.needed_successes,
            f"the reference succeeds from {len(solved)} of the starts {task.seeds}, {task.needed_successes} are needed",
        )


@_suite.check("Free resources once; a second close has nothing to do.")
def closing_twice_does_no_harm(task: TaskUnderTrial) -> None:
    """An environment can be closed twice."""
    env = task.make()
    env.reset(seed=task.seeds[0])
    env.close()
    env.close()


# --- private --------------------------------------------------------------------------------------------------


def _observations(record: list[Any]) -> list[Any]:
    return [record[0], *(entry[0] for entry in record[1:])]


def _kind(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _outside(space: Any, obs: Any, path: str = "obs") -> str:
    """Name the first part of an observation that its space does not contain."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict):
            return f"{path} is a {type(obs).__name__}, not a mapping"
        if obs.keys() != space.spaces.keys():
            return f"{path} has the keys {sorted(obs)}, its space {sorted(space.spaces)}"
        for key, inner in space.spaces.items():
            if not inner.contains(obs[key]):
                return _outside(inner, obs[key], f"{path}/{key}")
    array = np.asarray(obs)
    return f"{path} is {array.dtype} {array.shape}, its space is {space}"


def _bad_actions(space: Any, good: Any) -> list[tuple[str, Any]]:
    """Actions that nobody can carry out, with what is wrong with each."""
    if not isinstance(space, spaces.Dict):
        nan = np.full_like(np.asarray(good, dtype=np.float64), np.nan)
        return [("a vector of another length", np.append(good, 0.0)), ("an action that is not a number", nan)]
    uid = next(iter(space.spaces))
    nan = {**good, uid: np.full_like(np.asarray(good[uid], dtype=np.float64), np.nan)}
    return [
        (f"an action without {uid!r}", {key: value for key, value in good.items() if key != uid}),
        (f"an action of another length for {uid!r}", {**good, uid: np.append(np.ravel(good[uid]), 0.0)}),
        (f"an action of {uid!r} that is not a number", nan),
    ]


def _still(space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {uid: _still(inner) for uid, inner in space.spaces.items()}
    return np.zeros(space.shape, dtype=space.dtype)


def _is_solved(env: Any, team: ReferenceTeam, seed: int) -> bool:
    obs, _ = env.reset(seed=seed)
    team.reset(seed=seed)
    terminated = truncated = False
    info: dict[str, Any] = {}
    while not is_over(terminated, truncated):
        obs, _, terminated, truncated, info = env.step(team.act(obs))
    return bool(np.all(info.get("success", terminated)))
