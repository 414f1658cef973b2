"""Nominal policies of the ego: what it would do if nobody were in the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView, straight_command
from chamber.cell.checkpoint import load_fitting_policy
from chamber.cell.config import Cell, EgoPolicy
from ripieno.errors import InputError

if TYPE_CHECKING:
    from chamber.learning import TrainedPolicy

__all__ = ["LandmarkPolicy", "LearnedPolicy", "NominalPolicy", "make_ego"]


class NominalPolicy(Protocol):
    """What the ego would do if nobody were in the way."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.float64]:
        """Give the velocity command, shape ``(2,)``, metres per second."""
        ...


def make_ego(cell: Cell, env: Any, *, uid: str, checkpoint: Path | None) -> NominalPolicy:
    """Build the policy that a cell names.

    Args:
        cell: it.
        env: the environment that it acts in.
        uid: the ego.
        checkpoint: file of a trained policy; None for the others.

    Raises:
        InputError: the checkpoint is missing, damaged, another one than the cell's, or of another task.
        ImportError: a trained policy needs PyTorch, which is not installed.
    """
    settings = cell.ego
    if settings.policy is not EgoPolicy.TRAINED:
        return LandmarkPolicy(
            uid=uid, choice=settings.policy, speed_limit=settings.speed_limit_m_s, dt=env.control_timestep
        )
    if checkpoint is None:
        raise InputError("a cell with a trained ego needs the file of its checkpoint")
    policy = load_fitting_policy(
        checkpoint,
        uid=uid,
        obs_dim=env.observation_space["agent"][uid]["state"].shape[-1],
        action_dim=env.action_space[uid].shape[-1],
        task=cell.task.name.value,
    )
    if policy.checkpoint_sha256 != settings.checkpoint_sha256:
        raise InputError(
            f"the cell is one of the checkpoint with SHA-256 {settings.checkpoint_sha256}, "
            f"{checkpoint} has {policy.checkpoint_sha256}"
        )
    return LearnedPolicy(policy, speed_limit=settings.speed_limit_m_s)


class LearnedPolicy:
    """Does what training made of it: the mean of the policy, without exploration, within the speed limit.

    Args:
        policy: it.
        speed_limit: largest magnitude of each velocity component, metres per second.
    """

    def __init__(self, policy: TrainedPolicy, *, speed_limit: float) -> None:
        self._policy = policy
        self._speed_limit = speed_limit

    def reset(self) -> None:
        """Begin an episode; the mean of the policy has no memory."""

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.float64]:
        """Give the velocity command, shape ``(2,)``, metres per second."""
        wanted = self._policy.act(obs, deterministic=True).astype(np.float64)
        return np.clip(wanted, -self._speed_limit, self._speed_limit)


class LandmarkPolicy:
    """Drives straight to the landmark that is nearest, or farthest, when the episode begins, and stays there.

    The farthest one makes the paths of the two robots cross most often.

    Args:
        uid: the ego.
        choice: which landmark: the nearest or the farthest.
        speed_limit: largest magnitude of each velocity component, metres per second.
        dt: length of a step, seconds.
    """

    def __init__(self, *, uid: str, choice: EgoPolicy, speed_limit: float, dt: float) -> None:
        self._uid = uid
        self._choose = np.argmin if choice is EgoPolicy.NEAREST_LANDMARK else np.argmax
        self._speed_limit = speed_limit
        self._dt = dt
        self._landmark: int | None = None

    def reset(self) -> None:
        """Begin an episode: the landmark is chosen at the next observation."""
        self._landmark = None

    def act(self, obs: Mapping[str, object]) -> NDArray[np.float64]:
        """Give the velocity command, shape ``(2,)``, metres per second."""
        view = PlanarView.of(obs, self._uid)
        if self._landmark is None:
            self._landmark = int(self._choose(np.linalg.norm(view.landmarks, axis=1)))
        return straight_command(view.landmarks[self._landmark], speed_limit=self._speed_limit, dt=self._dt)
