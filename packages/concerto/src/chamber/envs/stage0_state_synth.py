"""One flat ``state`` vector per robot, made of the channels that a simulator happens to offer."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from chamber.envs._spaces import AnyEnv, Observation
from chamber.envs.errors import ChamberEnvCompatibilityError

__all__ = ["Stage0StateSynthesizer"]


class Stage0StateSynthesizer(gym.ObservationWrapper[Observation, Any, Observation]):
    """Adds ``obs["agent"][uid]["state"]`` to every robot that has an action but no state vector.

    The state is the float32 concatenation, in alphabetical order, of the robot's ``Box`` channels of shape
    ``(n,)`` or ``(1, n)``; images and other ranks are left out. The ``agent`` space keeps only the robots of the
    action space.

    Raises:
        TypeError: the observation space, its ``agent`` entry or the action space is no ``Dict``.
        ChamberEnvCompatibilityError: a robot has no channel to make a state of.
    """

    def __init__(self, env: AnyEnv) -> None:
        observation_space = _require_dict(env.observation_space, "observation_space")
        agents = _require_dict(observation_space.spaces.get("agent"), "observation_space['agent']")
        actions = _require_dict(env.action_space, "action_space")
        super().__init__(env)
        self._sources: dict[str, tuple[str, ...]] = {}
        adapted: dict[str, spaces.Space[Any]] = {}
        for uid in actions.spaces:
            space = agents.spaces.get(uid)
            if space is None:
                continue
            adapted[uid] = space
            if isinstance(space, spaces.Dict) and "state" not in space.spaces:
                boxes = _flat_boxes(space)
                if not boxes:
                    raise ChamberEnvCompatibilityError(
                        f"Stage0StateSynthesizer: robot {uid!r} has no Box channel of shape (n,) or (1, n) among "
                        f"{sorted(space.spaces)} ({type(env).__name__}; ADR-001 §Risks)"
                    )
                self._sources[uid] = tuple(boxes)
                adapted[uid] = spaces.Dict({**space.spaces, "state": _concatenated(list(boxes.values()))})
        self.observation_space = spaces.Dict({**observation_space.spaces, "agent": spaces.Dict(adapted)})

    def observation(self, observation: Observation) -> Observation:
        """Give a copy of the observation with the state vectors added."""
        agents: object = observation.get("agent")
        if not self._sources or not isinstance(agents, dict):
            return dict(observation)
        extended = cast("dict[str, Any]", dict(agents))
        for uid, names in self._sources.items():
            channels: object = extended.get(uid)
            if isinstance(channels, dict):
                channels = cast("dict[str, Any]", channels)
                parts = [_as_float32(channels[name]) for name in names if name in channels]
                extended[uid] = {**channels, "state": np.concatenate([np.zeros(0, np.float32), *parts])}
        return {**observation, "agent": extended}


def _require_dict(space: object, name: str) -> spaces.Dict:
    if not isinstance(space, spaces.Dict):
        raise TypeError(f"Stage0StateSynthesizer: {name} must be a gymnasium.spaces.Dict, got {type(space).__name__}")
    return space


def _flat_boxes(space: spaces.Dict) -> dict[str, spaces.Box]:
    """The channels that are vectors, by name in alphabetical order."""
    return {
        name: channel
        for name, channel in sorted(space.spaces.items())
        if isinstance(channel, spaces.Box)
        and (len(channel.shape) == 1 or (len(channel.shape) == 2 and channel.shape[0] == 1))
    }


def _concatenated(boxes: list[spaces.Box]) -> spaces.Box:
    low = np.concatenate([box.low.ravel() for box in boxes]).astype(np.float32)
    high = np.concatenate([box.high.ravel() for box in boxes]).astype(np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def _as_float32(value: Any) -> NDArray[np.float32]:
    """Flatten an array, or a tensor on any device (which has ``detach`` and ``cpu``)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value, dtype=np.float32).ravel()
