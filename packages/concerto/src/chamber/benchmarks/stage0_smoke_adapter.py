"""The Stage-0 rig as a training loop wants it: chosen robots act, the others stand still, each has a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from chamber.benchmarks.stage0_smoke import _SMOKE_ROBOT_UIDS, DEFAULT_EPISODE_LENGTH, make_stage0_env
from chamber.envs._forwarding import AttributeForwarding
from chamber.envs._spaces import AnyEnv, Observation
from chamber.envs.stage0_state_synth import Stage0StateSynthesizer

__all__ = ["DEFAULT_EPISODE_LENGTH", "make_stage0_training_env"]


class _Stage0TrainingAdapter(AttributeForwarding, gym.Wrapper[Observation, dict[str, Any], Observation, Any]):
    """Lets some robots of an environment act; the others get zeros unless an action of theirs is passed on purpose.

    Every robot that acts has ``obs["agent"][uid]["state"]``: its own, or else made of its vector channels by
    `Stage0StateSynthesizer`. Reward and flags are plain numbers.

    Args:
        env: its action space is a ``Dict`` of ``Box``.
        agent_uids: who acts; these are the keys of the action space.
        episode_length: steps until ``truncated``, if the environment does not say so earlier.

    Raises:
        ValueError: nobody acts, a uid is not in the action space, or the length is below 1.
        TypeError: a space is of another type.
        ChamberEnvCompatibilityError: a robot has no channel to make a state of.
    """

    def __init__(self, env: AnyEnv, *, agent_uids: Sequence[str], episode_length: int) -> None:
        if not agent_uids:
            raise ValueError("agent_uids must name at least one robot, got none")
        if episode_length < 1:
            raise ValueError(f"episode_length must be >= 1, got {episode_length}")
        inner = env.action_space
        if not isinstance(inner, spaces.Dict):
            raise TypeError(f"the action space must be a gymnasium.spaces.Dict, got {type(inner).__name__}")
        for uid in agent_uids:
            if uid not in inner.spaces:
                raise ValueError(f"agent_uids names unknown uid {uid!r}; known: {sorted(inner.spaces)}")
        for uid, member in inner.spaces.items():
            if not isinstance(member, spaces.Box):
                raise TypeError(f"the action space of {uid!r} must be a Box, got {type(member).__name__}")
        super().__init__(Stage0StateSynthesizer(env))
        self.action_space = spaces.Dict({uid: inner[uid] for uid in agent_uids})
        self._agent_uids = tuple(agent_uids)
        self._idle = {
            uid: np.zeros(member.shape, dtype=np.float32)
            for uid, member in inner.spaces.items()
            if uid not in self._agent_uids and member.shape is not None
        }
        self._episode_length = episode_length
        self._n_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._n_steps = 0
        return obs, info

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Step with the actions of those who act.

        Raises:
            ValueError: one of them is missing; nothing has changed then.
        """
        missing = [uid for uid in self._agent_uids if uid not in action]
        if missing:
            raise ValueError(f"step() action missing uid {missing[0]!r}; got keys {sorted(action)}")
        obs, reward, terminated, truncated, info = self.env.step({**self._idle, **action})
        self._n_steps += 1
        is_over = bool(_plain(truncated)) or self._n_steps >= self._episode_length
        return obs, float(_plain(reward)), bool(_plain(terminated)), is_over, info


def _plain(value: Any) -> Any:
    """The number in an array or tensor of one element, which has ``item``; a plain value as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def make_stage0_training_env(
    *,
    agent_uids: Sequence[str],
    episode_length: int = DEFAULT_EPISODE_LENGTH,
    root_seed: int = 0,
) -> gym.Env[Observation, dict[str, Any]]:
    """Build the Stage-0 rig in which ``agent_uids`` are trained and the other robots stand still.

    Args:
        agent_uids: among the three robots of the rig; the first one is the ego.
        episode_length: ticks until ``truncated``.
        root_seed: seed of the run.

    Raises:
        ValueError: a uid is not one of the rig's, there is none, or the length is below 1.
        ChamberEnvCompatibilityError: the simulator is missing or cannot build the scene.
    """
    unknown = sorted(set(agent_uids) - set(_SMOKE_ROBOT_UIDS))
    if unknown:
        raise ValueError(f"agent_uids must be among {list(_SMOKE_ROBOT_UIDS)}, got {unknown}")
    rig = make_stage0_env(episode_length=episode_length, root_seed=root_seed)
    return _Stage0TrainingAdapter(rig, agent_uids=agent_uids, episode_length=episode_length)
