"""Potential-based reward shaping: a hint for training that leaves the optimal policy as it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array
from chamber.envs._forwarding import find_attribute
from chamber.envs._spaces import AnyEnv
from chamber.envs._training_state import MemorylessWrapper

__all__ = ["PotentialShapingWrapper", "flat_array", "positive", "privileged_accessor"]


class PotentialShapingWrapper(MemorylessWrapper, gym.Wrapper[Any, Any, Any, Any], ABC):
    """Adds ``F = gamma * potential(s') - potential(s)`` to the reward of every step.

    Both potentials are read from the live state, right before and right after the inner step. A terminal state has
    potential 0. A truncated one keeps its own, because there the episode was cut and did not end; hence this wrapper
    goes inside a wrapper that resets by itself. Shaping with the discount of the task itself keeps the optimal policy
    (Ng, Harada and Russell 1999, theorem 1). For training only: evaluation uses the plain reward.

    Args:
        env: environment to shape. The reward keeps its kind: a number, an array of its type, or a tensor on its device.
        gamma: discount of the task, in [0, 1].

    Raises:
        ValueError: ``gamma`` is out of range.
    """

    def __init__(self, env: AnyEnv, *, gamma: float) -> None:
        super().__init__(env)
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"gamma must be in [0, 1], got {gamma}")
        self._gamma = float(gamma)

    @abstractmethod
    def potential(self) -> NDArray[np.float64]:
        """Give the potential of the state the environment is in now, shape ``(num_envs,)``."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environment and give its reward with the shaping term."""
        before = self.potential()
        obs, reward, terminated, truncated, info = self.env.step(action)
        after = np.where(flat_array(terminated) != 0.0, 0.0, self.potential())
        return obs, _plus(reward, self._gamma * after - before), terminated, truncated, info


def flat_array(value: Any) -> NDArray[np.float64]:
    """Give a number, array or tensor as a float64 vector."""
    array = as_array(value)
    return np.atleast_1d(np.asarray(value, dtype=np.float64) if array is None else array).ravel()


def positive(name: str, value: float) -> float:
    """Give a positive finite number back.

    Raises:
        ValueError: it is not.
    """
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be finite and > 0, got {value}")
    return float(value)


def privileged_accessor(env: AnyEnv, name: str, *, wrapper: str) -> Callable[[], Any]:
    """Give the method of the environment that shows what no observation does.

    Raises:
        TypeError: neither the environment nor what it wraps has it.
    """
    accessor = find_attribute(env, name)
    if not callable(accessor):
        raise TypeError(f"{wrapper} needs an environment with {name}(), which {env} does not have")
    return accessor


def _plus(reward: Any, shaping: NDArray[np.float64]) -> Any:
    """Add, and give what ``reward`` is: a tensor (which has ``new_tensor``), an array, or a number."""
    new_tensor = getattr(reward, "new_tensor", None)
    if callable(new_tensor):
        return reward + new_tensor(shaping.reshape(tuple(reward.shape)))
    if isinstance(reward, np.ndarray):
        return (reward + shaping.reshape(reward.shape)).astype(reward.dtype)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return float(reward) + shaping.item()
