"""An ego that acts at random: the baseline, and the trainer of a run that was given none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from concerto.training.protocols import EnvLike, PartnerLike
from concerto.training.seeding import derive_substream

if TYPE_CHECKING:
    from concerto.training.config import EgoAHTConfig

__all__ = ["RandomEgoTrainer", "make_random_trainer"]


class RandomEgoTrainer:
    """An ego that does not learn: actions uniform on ``[-1, 1]``, from the substream ``training.ego_random``.

    Args:
        ego_uid: the robot it moves.
        action_dim: width of an action.
        root_seed: seed of the run.
        num_envs: number of copies; actions have shape ``(num_envs, action_dim)`` when it is above 1.
    """

    def __init__(self, *, ego_uid: str, action_dim: int, root_seed: int, num_envs: int = 1) -> None:
        self.ego_uid = ego_uid
        self._shape = (action_dim,) if num_envs == 1 else (num_envs, action_dim)
        self._rng = derive_substream("training.ego_random", root_seed=root_seed).default_rng()

    def act(self, obs: Any, *, deterministic: bool = False) -> NDArray[np.float32]:
        """Give a random action, or zeros."""
        if deterministic:
            return np.zeros(self._shape, dtype=np.float32)
        return self._rng.uniform(-1.0, 1.0, self._shape).astype(np.float32)

    def observe(self, obs: Any, reward: Any, done: Any, *, truncated: Any = False, final_obs: Any = None) -> None:
        """Learn nothing."""

    def update(self) -> None:
        """Learn nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Give nothing: there are no weights."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take nothing."""

    def training_state(self) -> dict[str, Any]:
        """Give the state of the generator."""
        return {"generator": dict(self._rng.bit_generator.state)}

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Take the state of the generator."""
        self._rng.bit_generator.state = state["generator"]


def make_random_trainer(
    cfg: EgoAHTConfig, *, env: EnvLike, partner: PartnerLike, ego_uid: str, logger: Any = None
) -> RandomEgoTrainer:
    """Make the trainer of a run that was given none; its width is that of the environment's actions, else 2."""
    space: Any = getattr(env, "action_space", None)
    spaces: Any = getattr(space, "spaces", space)
    box: Any = spaces.get(ego_uid) if isinstance(spaces, Mapping) else None
    shape: tuple[int, ...] = tuple(getattr(box, "shape", None) or (2,))
    return RandomEgoTrainer(ego_uid=ego_uid, action_dim=shape[-1], root_seed=cfg.seed, num_envs=cfg.env.num_envs)
