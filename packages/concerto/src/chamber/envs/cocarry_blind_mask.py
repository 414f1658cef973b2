"""Takes the partner and the bar out of the ego's state: what can an ego do that does not see whom it works with?"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from chamber._observations import leaf
from chamber.envs._forwarding import find_attribute
from chamber.envs._spaces import AnyEnv, Observation
from chamber.envs._training_state import MemorylessWrapper

__all__ = ["COCARRY_BLIND_MASK_START", "COCARRY_BLIND_MASK_STOP", "CoCarryEgoBlindMask", "mask_ego_state"]

COCARRY_BLIND_MASK_START = 18
"""First of the partner's joint positions in the ego's state."""
COCARRY_BLIND_MASK_STOP = 43
"""One past the pose of the bar; the goal follows."""


def mask_ego_state(state: ArrayLike) -> NDArray[np.float32]:
    """Give a copy of the ego's state without the partner's joints and the pose of the bar, which become 0.

    Args:
        state: array, or tensor (which has ``detach`` and ``cpu``), shape ``(..., 46)``.
    """
    values: Any = state
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    masked = np.array(values, dtype=np.float32)
    masked[..., COCARRY_BLIND_MASK_START:COCARRY_BLIND_MASK_STOP] = 0.0
    return masked


class CoCarryEgoBlindMask(MemorylessWrapper, gym.ObservationWrapper[Observation, Any, Observation]):
    """Masks ``obs["agent"][ego]["state"]``; everything else, and the space, stays as it is.

    An ego that was trained with this mask is evaluated with it.

    Args:
        env: co-carry environment with state vectors, see `chamber.envs.cocarry_obs`.

    Raises:
        TypeError: the ego has no ``state`` in the declared space, or it is too short.
    """

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self._ego = str(find_attribute(env, "ego_uid"))
        space: Any = env.observation_space
        for key in ("agent", self._ego, "state"):
            space = space.spaces.get(key) if isinstance(space, spaces.Dict) else None
        if not isinstance(space, spaces.Box):
            raise TypeError(f"CoCarryEgoBlindMask: agent.{self._ego}.state must be a Box, got {type(space).__name__}")
        if space.shape[-1] < COCARRY_BLIND_MASK_STOP:
            raise TypeError(
                f"CoCarryEgoBlindMask: agent.{self._ego}.state must have at least {COCARRY_BLIND_MASK_STOP} "
                f"components, got shape {space.shape}"
            )

    def observation(self, observation: Observation) -> Observation:
        """Give a copy of the observation with the ego's state masked.

        Raises:
            TypeError: the ego has no ``state``.
        """
        state = leaf(observation, "agent", self._ego, "state")
        if state is None:
            raise TypeError(f"CoCarryEgoBlindMask: the observation has no agent.{self._ego}.state")
        agents = observation["agent"]
        ego = {**agents[self._ego], "state": mask_ego_state(state)}  # pyright: ignore[reportArgumentType]
        return {**observation, "agent": {**agents, self._ego: ego}}
