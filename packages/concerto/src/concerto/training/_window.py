"""What the loop counts: outcomes of steps, episodes as they end, and the signals between two updates."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import FloatArray
from concerto.training.protocols import RewardCurve

__all__ = ["EpisodeBook", "FinishedEpisode", "Outcome", "RolloutWindow", "read_outcome"]

LAST_EPISODES = 10
"""Episodes over which a mean reward is reported."""
_STAGES = {
    "grasp_rate": "is_grasped",
    "place_rate": "is_obj_placed",
    "static_rate": "is_robot_static",
    "success_rate": "success",
}
"""Name of every logged rate, and the flag of ``info`` it counts."""

BoolArray = NDArray[np.bool_]


class Outcome(NamedTuple):
    """What one step led to, as plain numbers, or as vectors of shape ``(N,)`` for N copies.

    Termination beats truncation: a step with both flags is terminated, so nothing is bootstrapped from it.
    """

    reward: float | FloatArray
    mean_reward: float
    done: bool | BoolArray
    terminated: bool | BoolArray
    truncated: bool | BoolArray


def read_outcome(reward: Any, terminated: Any, truncated: Any, *, n_envs: int) -> Outcome:
    """Turn what an environment returned into plain numbers, once.

    Args:
        reward: a number, a one-element array or tensor; of shape ``(N,)`` for N copies.
        terminated: flag or flags; a single one counts for all copies.
        truncated: the same.
        n_envs: number of copies.

    Raises:
        ValueError: the reward has another number of values.
    """
    if n_envs > 1:
        rewards = _vector("reward", reward, np.float64, n_envs)
        ended = _vector("terminated", terminated, np.bool_, n_envs)
        cut = _vector("truncated", truncated, np.bool_, n_envs)
        return Outcome(rewards, float(rewards.mean()), ended | cut, ended, cut & ~ended)
    value = reward if type(reward) is float else float(_single("reward", reward))
    is_terminated = terminated if type(terminated) is bool else bool(_single("terminated", terminated))
    is_truncated = truncated if type(truncated) is bool else bool(_single("truncated", truncated))
    is_cut = is_truncated and not is_terminated
    return Outcome(value, value, is_terminated or is_truncated, is_terminated, is_cut)


class FinishedEpisode(NamedTuple):
    """An episode that has ended."""

    reward: float
    """Sum of its rewards."""
    length: int
    """Its steps."""
    is_terminated: bool
    """Whether it ended by itself, not at the time limit."""
    success: float
    """What ``info["success"]`` said at its last step; NaN when it said nothing."""


class EpisodeBook:
    """Sums the rewards of running episodes and files those that end in the curve.

    Args:
        curve: gets the reward of every iteration and of every episode.
        n_envs: number of copies.
    """

    def __init__(self, curve: RewardCurve, *, n_envs: int) -> None:
        self.last: deque[FinishedEpisode] = deque(maxlen=LAST_EPISODES)
        self.n_finished = 0
        self._curve = curve
        self._is_single = n_envs == 1
        # A single copy is counted with plain numbers: an array operation costs ten times as much.
        self._sum, self._length = 0.0, 0
        self._sums, self._lengths = np.zeros(n_envs), np.zeros(n_envs, dtype=np.int64)

    @property
    def mean_reward_of_last(self) -> float | None:
        """Mean sum of rewards of the last ten episodes that ended; None before the first."""
        return sum(episode.reward for episode in self.last) / len(self.last) if self.last else None

    def record(self, outcome: Outcome, info: Mapping[str, Any]) -> list[FinishedEpisode]:
        """Count one iteration and give the episodes that it ended, lower copies first."""
        self._curve.per_step_ego_rewards.append(outcome.mean_reward)
        if self._is_single:
            self._sum += outcome.mean_reward
            self._length += 1
            if not outcome.done:
                return []
            success = _batch_mean(info.get("success"))
            ended = [FinishedEpisode(self._sum, self._length, bool(outcome.terminated), _or_nan(success))]
            self._sum, self._length = 0.0, 0
        else:
            self._sums += outcome.reward
            self._lengths += 1
            indices = np.flatnonzero(outcome.done)
            if not indices.size:
                return []
            ended = [self._finished(index, cast("BoolArray", outcome.terminated), info) for index in indices.tolist()]
            self._sums[indices], self._lengths[indices] = 0.0, 0
        self.n_finished += len(ended)
        self.last.extend(ended)
        self._curve.per_episode_ego_rewards.extend(episode.reward for episode in ended)
        return ended

    def close(self) -> int:
        """File what runs when the budget ends, if it has a step, lower copies first; give how many there were."""
        sums = [self._sum] if self._is_single else self._sums.tolist()
        lengths = [self._length] if self._is_single else self._lengths.tolist()
        partial = [reward for reward, length in zip(sums, lengths, strict=True) if length > 0]
        self._curve.per_episode_ego_rewards.extend(partial)
        return len(partial)

    def summary(self) -> dict[str, float]:
        """Give the mean of the last ten episodes that ended, in the fields of an evaluation; empty before the first."""
        if not self.last:
            return {}
        rewards, lengths, terminated, successes = (np.array(column) for column in zip(*self.last, strict=True))
        means = {
            "mean_episode_reward": float(rewards.mean()),
            "mean_episode_length": float(lengths.mean()),
            "n_terminated": int(terminated.sum()),
            "n_truncated": int((~terminated).sum()),
        }
        return means if np.isnan(successes).any() else {"success_rate": float(successes.mean()), **means}

    def state(self) -> dict[str, Any]:
        """Give what a resumed run needs, with arrays as NumPy arrays."""
        return {
            "n_finished": self.n_finished,
            "sums": np.array([self._sum]) if self._is_single else self._sums.copy(),
            "lengths": np.array([self._length]) if self._is_single else self._lengths.copy(),
            "last": np.array(self.last, dtype=np.float64).reshape(-1, len(FinishedEpisode._fields)),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave."""
        self.n_finished = int(state["n_finished"])
        self._sums, self._lengths = state["sums"].copy(), state["lengths"].copy()
        self._sum, self._length = float(self._sums[0]), int(self._lengths[0])
        self.last.clear()
        for reward, length, terminated, success in state["last"].tolist():
            self.last.append(FinishedEpisode(reward, int(length), bool(terminated), success))

    def _finished(self, index: int, terminated: BoolArray, info: Mapping[str, Any]) -> FinishedEpisode:
        success = info.get("success")
        values = None if success is None else _as_numbers(success)
        own = float("nan") if values is None else float(values[index] if values.size > 1 else values[0])
        return FinishedEpisode(float(self._sums[index]), int(self._lengths[index]), bool(terminated[index]), own)


class RolloutWindow:
    """Signals of the iterations since the last update.

    Stage rates are reported when ``info`` had ``is_grasped``. The gripper command is the component ``gripper_index`` of
    the nominal action when the environment declares one, else the last one when it reports stage flags: an action
    of a robot without a gripper says nothing about grasping.

    Args:
        gripper_index: declared by the environment, or None.
    """

    def __init__(self, gripper_index: int | None = None) -> None:
        self._gripper_index = gripper_index
        self.clear()

    def clear(self) -> None:
        """Start a new window."""
        self._n_steps = self._n_staged = self._n_commands = 0
        self._reward_sum = 0.0
        self._stage_sums = dict.fromkeys(_STAGES, 0.0)
        self._command_sum, self._command_min = 0.0, float("inf")

    def add(self, mean_reward: float, info: Mapping[str, Any], nominal_action: Any) -> None:
        """Count one iteration."""
        self._n_steps += 1
        self._reward_sum += mean_reward
        has_stages = "is_grasped" in info
        if has_stages:
            self._add_stages(info)
        if has_stages or self._gripper_index is not None:
            self._add_command(nominal_action)

    def scalars(self) -> dict[str, float]:
        """Give the means over the window."""
        means = {"mean_reward": self._reward_sum / self._n_steps}
        if self._n_staged:
            means |= {name: total / self._n_steps for name, total in self._stage_sums.items()}
        if self._n_commands:
            means["gripper_cmd_mean"] = self._command_sum / self._n_commands
            means["gripper_cmd_min"] = self._command_min
        return means

    def state(self) -> dict[str, Any]:
        """Give what a resumed run needs."""
        return {
            "n_steps": self._n_steps,
            "n_staged": self._n_staged,
            "n_commands": self._n_commands,
            "reward_sum": self._reward_sum,
            "stage_sums": dict(self._stage_sums),
            "command_sum": self._command_sum,
            "command_min": self._command_min,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take what `state` gave.

        Raises:
            TypeError: a value is no number.
        """
        stage_sums = {name: state["stage_sums"][name] for name in _STAGES}
        numbers = [*stage_sums.values(), *(value for name, value in state.items() if name != "stage_sums")]
        if not all(type(number) in {int, float} for number in numbers):
            raise TypeError(f"the signals of a rollout must be numbers, got {numbers}")
        self._n_steps, self._n_staged = state["n_steps"], state["n_staged"]
        self._n_commands = state["n_commands"]
        self._reward_sum = state["reward_sum"]
        self._stage_sums = stage_sums
        self._command_sum, self._command_min = state["command_sum"], state["command_min"]

    def _add_stages(self, info: Mapping[str, Any]) -> None:
        self._n_staged += 1
        for name, flag in _STAGES.items():
            self._stage_sums[name] += _batch_mean(info.get(flag)) or 0.0

    def _add_command(self, nominal_action: Any) -> None:
        actions = _as_numbers(nominal_action, flat=False)
        if actions is None:
            return
        index = -1 if self._gripper_index is None else self._gripper_index
        commands = actions[..., index]
        self._n_commands += 1
        self._command_sum += float(commands.mean())
        self._command_min = min(self._command_min, float(commands.min()))


def _batch_mean(value: Any) -> float | None:
    numbers = None if value is None else _as_numbers(value)
    return None if numbers is None else float(numbers.mean())


def _as_numbers(value: Any, *, flat: bool = True) -> FloatArray | None:
    """Give an array, tensor or number as float64, at least one-dimensional; None for what has no numbers in it."""
    try:
        numbers = np.atleast_1d(np.asarray(_to_host(value), dtype=np.float64))
    except (TypeError, ValueError):
        return None
    if not numbers.size:
        return None
    return numbers.ravel() if flat else numbers


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _to_host(value: Any) -> Any:
    """Bring a tensor to the memory that NumPy can read."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _single(name: str, value: Any) -> Any:
    values = np.asarray(_to_host(value))
    if values.size != 1:
        raise ValueError(f"{name} must be a single value with one environment, got shape {values.shape}")
    return values.item()


def _vector(name: str, value: Any, dtype: Any, n_envs: int) -> NDArray[Any]:
    """Give a fresh vector with one value per copy; a single flag is repeated."""
    values = np.array(_to_host(value), dtype=dtype)
    if values.ndim == 0 and dtype is np.bool_:
        return np.full(n_envs, values)
    if values.size != n_envs:
        raise ValueError(f"{name} must have one value per environment, {n_envs}, got shape {values.shape}")
    return values.reshape(n_envs)
