"""Communication as the partners hear it: whatever a channel lets through, under ``obs["comm"]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium as gym
from gymnasium import spaces

from chamber.envs._spaces import AnyEnv, Observation, PacketSpace, require_dict_space

__all__ = ["CommShapingWrapper", "PacketChannel"]


class PacketChannel(Protocol):
    """The part of a communication channel that the wrapper uses."""

    def reset(self, *, seed: int | None = None) -> None:
        """Begin an episode."""
        ...

    def encode(self, state: object, /) -> Mapping[str, Any]:
        """Turn the observation of this step into the packet that arrives in this step."""
        ...


class CommShapingWrapper(gym.Wrapper[Observation, Any, Observation, Any]):
    """Adds the packet of a channel to every observation; latency, loss and jitter belong to the channel.

    Put it outermost among the wrappers that vary one thing each: it encodes what they leave visible. Reward and
    flags pass through, and the inner observation is never changed.

    Args:
        env: environment with a dictionary observation space.
        channel: what packets travel through. An episode's ``reset(seed=...)`` is passed on to it.

    Raises:
        ChamberEnvCompatibilityError: the observation space is no ``Dict``.
    """

    def __init__(self, env: AnyEnv, channel: PacketChannel) -> None:
        inner = require_dict_space(env.observation_space, wrapper=type(self).__name__, which="observation space")
        super().__init__(env)
        self._channel = channel
        self.observation_space = spaces.Dict({**inner.spaces, "comm": PacketSpace()})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Reset the environment, then the channel, then encode the first packet."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._channel.reset(seed=seed)
        return self._with_packet(obs), info

    def step(self, action: Any) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        """Step the environment and encode one packet."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._with_packet(obs), reward, terminated, truncated, info

    def _with_packet(self, obs: Observation) -> Observation:
        return {**obs, "comm": self._channel.encode(obs)}
