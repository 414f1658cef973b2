"""A policy from a checkpoint as the ego of a team: which task it is for, what it sees, and its seat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from chamber.cell.checkpoint import load_fitting_policy
from chamber.rollout.team import Seat
from ripieno.errors import InputError

if TYPE_CHECKING:
    from chamber.learning import TrainedPolicy

__all__ = [
    "TASKS_BY_WIDTHS",
    "PolicyIdentity",
    "task_of_checkpoint",
    "trained_seat",
    "was_trained_blind",
    "with_states",
]

TASKS_BY_WIDTHS: Mapping[tuple[int, int], str] = {
    (10, 2): "mpe_cooperative_push",
    (46, 8): "cocarry",
    (53, 8): "stage1_pickplace_as",
    (65, 8): "stage1_pickplace_as",
}
"""Width of the ego's state and of its action -> the task that has them."""

_TASKS_BY_TRAINING_NAME = {"stage1_pickplace": "stage1_pickplace_as"}
"""A training configuration's name of a task, where the task itself has another."""

_MOST_LINE_BYTES = 100_000


class PolicyIdentity(Protocol):
    """Which policy an ego is."""

    @property
    def checkpoint_sha256(self) -> str:
        """Hash of the checkpoint's payload."""
        ...

    @property
    def run_id(self) -> str:
        """The training run that wrote it."""
        ...

    @property
    def step(self) -> int:
        """Frames that it had learned from."""
        ...

    @property
    def file_name(self) -> str:
        """Name of the checkpoint in the folder of a session."""
        ...


class _TrainedController:
    """The mean of a policy, without exploration."""

    def __init__(self, policy: TrainedPolicy) -> None:
        self._policy = policy

    def reset(self, *, seed: int | None = None) -> None:
        self._policy.reset(seed=seed)

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.float32]:
        return self._policy.act(obs, deterministic=True)


def trained_seat(identity: PolicyIdentity, env: Any, uid: str, checkpoints: Mapping[str, Path], *, task: str) -> Seat:
    """Give a robot to a trained policy.

    Args:
        identity: which policy.
        env: the environment, see `with_states`.
        uid: the robot.
        checkpoints: file of a checkpoint by its SHA-256.
        task: for messages.

    Raises:
        InputError: there is no such checkpoint, it is damaged or another one, or does not fit the task.
        ImportError: PyTorch is not installed.
    """
    path = checkpoints.get(identity.checkpoint_sha256)
    if path is None:
        raise InputError(f"the checkpoint with SHA-256 {identity.checkpoint_sha256} is not at hand")
    obs_dim, action_dim = _widths(env, uid, task)
    policy = load_fitting_policy(path, uid=uid, obs_dim=obs_dim, action_dim=action_dim, task=task)
    if policy.checkpoint_sha256 != identity.checkpoint_sha256:
        raise InputError(
            f"{path} has SHA-256 {policy.checkpoint_sha256}, the session is one of {identity.checkpoint_sha256}"
        )
    parameters = {"checkpoint": identity.file_name, "run": identity.run_id, "frames": str(identity.step)}
    return Seat(uid, "trained", parameters, _TrainedController(policy))


def with_states(env: Any, *, is_blind: bool = False) -> Any:
    """Give an environment whose robots have the state vectors that training gave them.

    Args:
        env: the environment.
        is_blind: whether the ego was trained without the partner and the bar in its state.

    Raises:
        InputError: an ego is blind in no task but co-carry.
    """
    from chamber.envs.cocarry import CoCarryEnv
    from chamber.envs.cocarry_blind_mask import CoCarryEgoBlindMask
    from chamber.envs.cocarry_obs import with_cocarry_states

    if isinstance(env, CoCarryEnv):
        stated = with_cocarry_states(env)
        return CoCarryEgoBlindMask(stated) if is_blind else stated
    if is_blind:
        raise InputError("a blind ego is one of cocarry only: no other task is trained with env.mask_partner_obs")
    return env


def task_of_checkpoint(path: Path, policy: TrainedPolicy) -> str:
    """Say which task a policy is for: what the log of its run says, else the task of its widths.

    The log of a run is looked for beside the checkpoint and in the folders ``logs`` above it and here.

    Raises:
        InputError: it cannot be told.
    """
    task = _told_by_log(path, policy).get("task")
    if isinstance(task, str):
        return _TASKS_BY_TRAINING_NAME.get(task, task)
    widths = policy.obs_dim, policy.action_dim
    if widths not in TASKS_BY_WIDTHS:
        raise InputError(
            f"{path} does not say which task it is for: there is no log of its run {policy.run_id} nearby, and no task "
            f"has states of width {widths[0]} and actions of width {widths[1]}; say it with --task"
        )
    return TASKS_BY_WIDTHS[widths]


def was_trained_blind(path: Path, policy: TrainedPolicy) -> bool:
    """Say whether the log of a policy's run tells that it did not see its partner; False where there is no log."""
    return _told_by_log(path, policy).get("mask_partner_obs") == "true"


def _told_by_log(path: Path, policy: TrainedPolicy) -> Mapping[str, object]:
    """What every line of a run's log tells of the run; nothing when there is no log with a task nearby."""
    first_lines = map(_first_line, _places_of_log(path.resolve(), policy.run_id))
    return next((line for line in first_lines if isinstance(line.get("task"), str)), {})


def _places_of_log(path: Path, run_id: str) -> Iterator[Path]:
    for folder in (*path.parents[:3], Path.cwd()):
        yield folder / f"{run_id}.jsonl"
        yield folder / "logs" / f"{run_id}.jsonl"


def _first_line(log: Path) -> Mapping[str, object]:
    """The first line of a log; nothing when there is none that can be read."""
    try:
        with log.open("rb") as file:
            first = json.loads(file.readline(_MOST_LINE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("Mapping[str, object]", first) if isinstance(first, dict) else {}


def _widths(env: Any, uid: str, task: str) -> tuple[int, int]:
    from gymnasium import spaces  # late: whoever lacks Gymnasium is told by the environment

    state = env.observation_space
    for key in ("agent", uid, "state"):
        state = state.spaces.get(key) if isinstance(state, spaces.Dict) else None
    action = env.action_space.spaces.get(uid) if isinstance(env.action_space, spaces.Dict) else None
    if not isinstance(state, spaces.Box) or not isinstance(action, spaces.Box):
        raise InputError(f"{task} has no state vector of {uid!r} that a trained policy could read")
    return state.shape[-1], action.shape[-1]
