"""One flat ``state`` vector per robot, made of the channels that a simulator happens to offer."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces

from chamber.envs._spaces import AnyEnv, Observation
from chamber.envs._state_synthesis import StateField, StateSynthesizer
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
        acting = {uid: agents.spaces[uid] for uid in actions.spaces if uid in agents.spaces}
        layouts = {
            uid: _flat_channels(uid, space, env)
            for uid, space in acting.items()
            if isinstance(space, spaces.Dict) and "state" not in space.spaces
        }
        self._synthesize = StateSynthesizer(
            spaces.Dict({**observation_space.spaces, "agent": spaces.Dict(acting)}),
            layouts,
            owner=type(self).__name__,
            skips_missing=True,
            keeps_bounds=True,
        )
        self.observation_space = self._synthesize.observation_space

    def observation(self, observation: Observation) -> Observation:
        """Give a copy of the observation with the state vectors added."""
        return dict(self._synthesize(observation))


def _require_dict(space: object, name: str) -> spaces.Dict:
    if not isinstance(space, spaces.Dict):
        raise TypeError(f"Stage0StateSynthesizer: {name} must be a gymnasium.spaces.Dict, got {type(space).__name__}")
    return space


def _flat_channels(uid: str, space: spaces.Dict, env: AnyEnv) -> list[StateField]:
    """The channels that are vectors, in alphabetical order."""
    names = [
        name
        for name, channel in sorted(space.spaces.items())
        if isinstance(channel, spaces.Box)
        and (len(channel.shape) == 1 or (len(channel.shape) == 2 and channel.shape[0] == 1))
    ]
    if not names:
        raise ChamberEnvCompatibilityError(
            f"Stage0StateSynthesizer: robot {uid!r} has no Box channel of shape (n,) or (1, n) among "
            f"{sorted(space.spaces)} ({type(env).__name__}; ADR-001 §Risks)"
        )
    return [StateField(("agent", uid, name)) for name in names]
