"""What the training loop asks of its parts, and what it hands out: environment, partner, trainer, safety, curve.

The loop (`concerto.training.ego_aht.train`) knows its parts only by these protocols; everything concrete is given to
it. Members that only some trainers or environments have are found by name (`getattr`) and described here:

- a trainer may accept ``executed_action`` in `EgoTrainer.observe`, and be a `ResumableTrainer`;
- an environment with several copies may be a `ResumableEnv`; a single one needs nothing to be resumed, because the
  running episode is played again;
- an environment may declare ``gripper_index``, the component of the ego's action that commands a gripper.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import FloatArray, LambdaDict

__all__ = [
    "EgoTrainer",
    "EnvLike",
    "PartnerLike",
    "ResumableEnv",
    "ResumableTrainer",
    "RewardCurve",
    "RewardSeries",
    "SafetyDecision",
    "SafetyDriver",
    "TrainerFactory",
    "TrainingInterrupted",
    "TrainingProgress",
]


@runtime_checkable
class EnvLike(Protocol):
    """An environment of one ego and one partner, or N copies of it that reset themselves."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; equal seeds start equal episodes."""
        ...

    def step(self, action: dict[str, Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step with an action per uid.

        Returns:
            Observation, reward, terminated, truncated, info. With N copies reward and flags are vectors of shape
            ``(N,)``, and ``info["final_observation"]`` holds the observation before the reset when any copy ended.
        """
        ...


@runtime_checkable
class ResumableEnv(Protocol):
    """N copies whose state can be saved and loaded, so that a run with them can be resumed.

    A wrapper that passes both methods on counts as one only when what it wraps is one.
    """

    def save_training_state(self) -> dict[str, Any]:
        """Give everything that decides what happens next: nested dictionaries of arrays, numbers, text and None.

        Arrays may be tensors.
        """
        ...

    def load_training_state(self, state: dict[str, Any]) -> Any:
        """Go back to a saved state and give the observation of it, the one that the last step or reset gave.

        What was an array or a tensor is a NumPy array.
        """
        ...


@runtime_checkable
class PartnerLike(Protocol):
    """The frozen partner: it acts, and it forgets everything at a reset. ``spec`` is read for messages only."""

    spec: Any

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the last episode."""
        ...

    def act(self, obs: Any, *, deterministic: bool = True) -> Any:
        """Give the partner's action for one observation."""
        ...


class EgoTrainer(Protocol):
    """The learner. ``act`` and ``observe`` alternate; the trainer remembers the observation of its last ``act``.

    ``observe`` may have one more keyword, ``executed_action``: the action that the environment really got, which
    differs from the trainer's own where the safety driver overrode it. It is passed to trainers that accept it.

    ``act(..., deterministic=True)`` between ``observe`` and the next ``act`` must leave no trace: evaluations and
    recordings ask for it in the middle of a run.
    """

    def act(self, obs: Any, *, deterministic: bool = False) -> NDArray[Any]:
        """Give the ego's nominal action, shape ``(action_dim,)`` or ``(N, action_dim)``."""
        ...

    def observe(self, obs: Any, reward: Any, done: Any, *, truncated: Any = False, final_obs: Any = None) -> None:
        """Learn what the last action led to.

        Args:
            obs: the *next* observation.
            reward: a float, or shape ``(N,)`` float64.
            done: whether the episode ended, either way: a bool, or shape ``(N,)``.
            truncated: whether it ended at a time limit *only*; a step that is terminated and truncated is terminated
                (Pardo et al. 2018, "Time Limits in Reinforcement Learning": only truncation is bootstrapped).
            final_obs: ``info["final_observation"]``; passed with N copies only.
        """
        ...

    def update(self) -> None:
        """Learn from the rollout; called every ``rollout_length`` iterations."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Give what is worth keeping of the learner, for a checkpoint: its networks and optimisers.

        Values are tensors, numbers, bools, texts, None, or mappings and lists of these. Other arrays are refused, at
        the first checkpoint: `torch.as_tensor` makes a tensor of one of NumPy's.
        """
        ...


@runtime_checkable
class ResumableTrainer(Protocol):
    """A trainer that can go on exactly where it was."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what ``state_dict`` gave."""
        ...

    def training_state(self) -> dict[str, Any]:
        """Give everything beyond ``state_dict``: generators, counters, the rollout so far, the remembered observation.

        Nested dictionaries of tensors, integers, floats, bools, text and None.
        """
        ...

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Take what ``training_state`` gave; called after ``load_state_dict``."""
        ...


class TrainerFactory(Protocol):
    """Makes the trainer of a run.

    It gets the partner so that it can refuse one that is not frozen, and the run's logger when it has a parameter for
    it. ``cfg`` is a `concerto.training.config.EgoAHTConfig`.
    """

    def __call__(self, cfg: Any, *, env: EnvLike, partner: PartnerLike, ego_uid: str, logger: Any = None) -> EgoTrainer:
        """Make the trainer."""
        ...


class SafetyDecision(NamedTuple):
    """What a safety driver answers: the action to apply, and what had to be done for it."""

    action: NDArray[Any]
    """Action of the ego that the environment gets."""
    braking_fired: bool
    """A braking layer replaced the action."""
    fallback_fired: bool
    """The action came from a fallback, not from the projection."""
    qp_infeasible: bool
    """No action satisfied every row."""
    is_overridden: bool
    """The action differs from the nominal one."""


class SafetyDriver(Protocol):
    """The safety layer as the loop drives it: one decision per step, a slack that lives as long as the run."""

    @property
    def lambda_(self) -> LambdaDict:
        """Slack per pair, m/s^2; empty before the first decision of a driver that does not know its pairs yet."""
        ...

    @property
    def capacity(self) -> float:
        """Acceleration capacity of the ego, m/s^2."""
        ...

    @property
    def lambda_bound(self) -> float | None:
        """Clamp of the slack, m/s^2; None without a clamp."""
        ...

    def bind(self, env: Any) -> None:
        """Take the environment that will be stepped; called before anything else, so that a mistake shows early.

        Raises:
            ValueError: the driver reads the state of another environment.
        """
        ...

    def start_run(self, seed: int) -> None:
        """Prepare for a run."""
        ...

    def start_episode(self) -> None:
        """Forget the last step, keep the slack: a forecast error must not span a reset."""
        ...

    def decide(self, env: Any, ego_action: NDArray[Any], partner_action: Any) -> SafetyDecision:
        """Decide the ego's action of one step in the environment that is stepped."""
        ...

    def state(self) -> dict[str, Any]:
        """Give what outlives an episode: the slack and its warm-up; nested dictionaries of numbers and text."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take what ``state`` gave."""
        ...


class RewardSeries(MutableSequence[float]):
    """A list of floats in one block of eight bytes each: a run of twenty million steps takes 160 MB, not 640.

    Equal to any sequence of equal numbers; ``numpy.asarray`` gives a copy.
    """

    __slots__ = ("_values",)
    __hash__ = None  # type: ignore[assignment]  # mutable, like a list

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._values = array("d", values)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> RewardSeries: ...
    def __getitem__(self, index: int | slice) -> float | RewardSeries:
        return RewardSeries(self._values[index]) if isinstance(index, slice) else self._values[index]

    @overload
    def __setitem__(self, index: int, value: float) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[float]) -> None: ...
    def __setitem__(self, index: int | slice, value: float | Iterable[float]) -> None:
        if isinstance(index, slice):
            self._values[index] = array("d", cast("Iterable[float]", value))
        else:
            self._values[index] = cast("float", value)

    def __delitem__(self, index: int | slice) -> None:
        del self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    def insert(self, index: int, value: float) -> None:
        """Put a value before an index."""
        self._values.insert(index, value)

    def append(self, value: float) -> None:
        """Put a value at the end."""
        self._values.append(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        if copy is False:
            raise ValueError("a RewardSeries grows in place: its array is always a copy")
        return np.array(self._values, dtype=np.float64 if dtype is None else dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RewardSeries):
            return self._values == other._values
        if isinstance(other, list | tuple):
            return list(self._values) == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        return f"RewardSeries({self._values.tolist()})"


@dataclass(frozen=True)
class RewardCurve:
    """What a run earned; the sequences are appended to in place.

    Attributes:
        run_id: identity of the run.
        per_step_ego_rewards: reward of every iteration; with N copies their mean.
        per_episode_ego_rewards: sum of the rewards of every episode, in the order in which they ended; an episode that
            the budget cut is the last entry, if it has a step.
        checkpoint_paths: payload of every checkpoint, in order.
    """

    run_id: str
    per_step_ego_rewards: MutableSequence[float] = field(default_factory=RewardSeries)
    per_episode_ego_rewards: list[float] = field(default_factory=list[float])
    checkpoint_paths: list[Path] = field(default_factory=list[Path])


@dataclass(frozen=True)
class TrainingProgress:
    """How far a run is.

    Attributes:
        frames: steps so far, over all copies; those of an earlier process included.
        total_frames: steps that the run will take.
        episodes: episodes that have ended.
        mean_reward_last_10: mean sum of rewards of the last ten episodes that ended; None before the first one.
        frames_per_second: rate since this process began to step.
    """

    frames: int
    total_frames: int
    episodes: int
    mean_reward_last_10: float | None
    frames_per_second: float


class TrainingInterrupted(Exception):  # noqa: N818 - nothing is wrong: the run was asked to stop
    """The run was asked to stop, and saved its policy and, if it can, what it needs to go on.

    Attributes:
        checkpoint_path: payload of the checkpoint.
        can_resume: whether the run can go on from it; not where the trainer, or an environment with several copies,
            cannot save itself.
    """

    def __init__(self, checkpoint_path: Path, *, can_resume: bool = True) -> None:
        what_now = f"it can be resumed from {checkpoint_path}"
        if not can_resume:
            what_now = (
                f"its policy is in {checkpoint_path}, but trainer or environment cannot save itself, so it ends here"
            )
        super().__init__(f"training was interrupted; {what_now}")
        self.checkpoint_path = checkpoint_path
        self.can_resume = can_resume
