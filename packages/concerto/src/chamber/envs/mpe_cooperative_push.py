"""Two point robots cover two landmarks on a square: small, deterministic, and needing no simulator.

The counterpart of ``simple_spread`` of the multi-particle environments (Lowe et al. 2017, arXiv 1706.02275),
with velocity commands instead of forces.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from chamber.envs._integers import require_integer
from chamber.envs._spaces import Observation
from ripieno.randomness import derive_substream

__all__ = [
    "DEFAULT_EPISODE_LENGTH",
    "DT",
    "N_LANDMARKS",
    "POSITION_BOUND",
    "VELOCITY_BOUND",
    "MPECooperativePushEnv",
]

DEFAULT_EPISODE_LENGTH = 50
N_LANDMARKS = 2
POSITION_BOUND = 1.0
"""Half the side of the square, metres."""
VELOCITY_BOUND = 1.0
"""Limit of each component of a velocity command, metres per second."""
DT = 0.1
"""Time between two steps, seconds."""

_SUBSTREAM = "env.mpe_cooperative_push"
_N_AGENTS = 2
_STATE_DIM = 4 + 2 * N_LANDMARKS + 2 * (_N_AGENTS - 1)

FloatArray = NDArray[np.float64]


class MPECooperativePushEnv(gym.Env[Observation, dict[str, Any]]):
    """Both robots share the reward: minus the sum over landmarks of the distance to the nearest robot.

    An action is a velocity command per robot, ``Box(-1, 1, (2,), float32)``; it is clipped to that box and reached
    at once: ``velocity = a``, ``position = clip(position + a * DT, -1, 1)``. A robot observes, as float32,
    ``[own position 2, own velocity 2, landmark - own position 2 x 2, other robot - own position 2]``.

    ``reset(seed=k)`` starts episode ``k`` of the run that ``root_seed`` names; without a seed the current stream
    goes on. Equal root seed, reset seed and actions give the same bytes.

    Args:
        agent_uids: two distinct uids, in the order in which start positions are drawn.
        episode_length: steps until ``truncated``.
        root_seed: seed of the run.

    Raises:
        ValueError: not two distinct uids, or an episode length below 1.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it per instance

    def __init__(
        self,
        *,
        agent_uids: tuple[str, str] = ("ego", "partner"),
        episode_length: int = DEFAULT_EPISODE_LENGTH,
        root_seed: int = 0,
    ) -> None:
        uids = tuple(agent_uids)
        if len(uids) != _N_AGENTS or len(set(uids)) != _N_AGENTS:
            raise ValueError(f"agent_uids must be two distinct uids, got {uids!r}")
        episode_length = require_integer("episode_length", episode_length, at_least=1)
        root_seed = require_integer("root_seed", root_seed, at_least=0)
        self.agent_uids = uids
        self.episode_length = episode_length
        self.root_seed = root_seed
        command = spaces.Box(-VELOCITY_BOUND, VELOCITY_BOUND, (2,), np.float32)
        state = spaces.Box(-np.inf, np.inf, (_STATE_DIM,), np.float32)
        self.action_space = spaces.Dict(dict.fromkeys(uids, command))
        self.observation_space = spaces.Dict(
            {"agent": spaces.Dict({uid: spaces.Dict({"state": state}) for uid in uids})}
        )
        self.np_random = derive_substream(_SUBSTREAM, root_seed=root_seed).default_rng()
        self._landmarks: FloatArray = np.zeros((N_LANDMARKS, 2))
        self._positions: FloatArray = np.zeros((_N_AGENTS, 2))
        self._velocities: FloatArray = np.zeros((_N_AGENTS, 2))
        self._clipped_uids: tuple[str, ...] = ()
        self._n_steps = 0

    @property
    def clipped_uids(self) -> tuple[str, ...]:
        """Whose command the last step had to clip."""
        return self._clipped_uids

    @property
    def landmarks(self) -> FloatArray:
        """Landmark positions, a copy, shape ``(2, 2)``, metres."""
        return self._landmarks.copy()

    def position(self, uid: str) -> FloatArray:
        """Position of one robot in full precision, a copy, shape ``(2,)``, metres."""
        return self._positions[self.agent_uids.index(uid)].copy()

    def velocity(self, uid: str) -> FloatArray:
        """Velocity command that one robot follows, a copy, shape ``(2,)``, metres per second."""
        return self._velocities[self.agent_uids.index(uid)].copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw landmarks, then start positions in uid order; velocities are zero.

        Args:
            seed: index of the episode under the root seed; ``None`` continues the current stream.
            options: unused.
        """
        if seed is not None:
            name = f"{_SUBSTREAM}.episode.{operator.index(seed)}"
            self.np_random = derive_substream(name, root_seed=self.root_seed).default_rng()
        rng = self.np_random
        self._landmarks = rng.uniform(-POSITION_BOUND, POSITION_BOUND, (N_LANDMARKS, 2))
        self._positions = np.stack([rng.uniform(-POSITION_BOUND, POSITION_BOUND, 2) for _ in self.agent_uids])
        self._velocities = np.zeros((_N_AGENTS, 2))
        self._clipped_uids = ()
        self._n_steps = 0
        return self._observation(), {}

    def step(self, action: Mapping[str, ArrayLike]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move both robots, then observe and reward.

        Args:
            action: velocity command of shape ``(2,)`` for each uid. Other keys are ignored with a warning.

        Returns:
            Observation, shared reward, ``terminated`` (always False), ``truncated``, and an empty ``info``.

        Raises:
            ValueError: a uid is missing, or a command is not two finite numbers; nothing has changed then.
        """
        submitted = np.stack([self._command(action, uid) for uid in self.agent_uids])
        extra = sorted(set(action) - set(self.agent_uids))
        if extra:
            warnings.warn(f"step() ignores the action of unknown uids {extra}", stacklevel=2)
        self._velocities = np.clip(submitted, -VELOCITY_BOUND, VELOCITY_BOUND)
        self._positions = np.clip(self._positions + self._velocities * DT, -POSITION_BOUND, POSITION_BOUND)
        self._n_steps += 1
        was_clipped = (submitted != self._velocities).any(axis=1)
        self._clipped_uids = tuple(uid for uid, far in zip(self.agent_uids, was_clipped, strict=True) if far)
        return self._observation(), self._reward(), False, self._n_steps >= self.episode_length, {}

    @staticmethod
    def _command(action: Mapping[str, ArrayLike], uid: str) -> FloatArray:
        if uid not in action:
            raise ValueError(f"step() action missing uid {uid!r}; got keys {sorted(action)}")
        command = np.asarray(action[uid], dtype=np.float64)
        if command.shape != (2,) or not np.isfinite(command).all():
            raise ValueError(f"step() action[{uid!r}] must be 2 finite numbers, got {command!r}")
        return command

    def _reward(self) -> float:
        offsets = self._positions[None, :, :] - self._landmarks[:, None, :]
        return -float(np.linalg.norm(offsets, axis=2).min(axis=1).sum())

    def _observation(self) -> Observation:
        agents: dict[str, dict[str, NDArray[np.float32]]] = {}
        for index, uid in enumerate(self.agent_uids):
            own = self._positions[index]
            state = np.concatenate(
                [
                    own,
                    self._velocities[index],
                    (self._landmarks - own).ravel(),
                    self._positions[1 - index] - own,
                ]
            )
            agents[uid] = {"state": state.astype(np.float32)}
        return {"agent": agents}
