"""What an environment tells the safety stack, and where it is looked up.

A hook is a method of the environment or the same thing given to the wrapper. Gymnasium's wrappers do not forward
attributes, so a hook is looked up through all of them; nothing is guessed when it is missing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import gymnasium as gym
from gymnasium.vector import VectorEnv

__all__ = ["FALLBACK_CONTROL_TIMESTEP", "call_vector_hook", "control_timestep_of", "find_hook", "require_timestep"]

FALLBACK_CONTROL_TIMESTEP = 0.02
"""Length of a control step, s, when an environment does not tell."""

ResultT = TypeVar("ResultT")


def find_hook(
    env: gym.Env[Any, Any], name: str, given: Callable[[gym.Env[Any, Any]], ResultT] | None
) -> Callable[[], ResultT]:
    """Give the given callable, bound to the environment, or else the environment's own method.

    Raises:
        ValueError: there is neither.
    """
    if given is not None:
        return lambda: given(env)
    if not env.has_wrapper_attr(name):
        raise ValueError(f"{env} has no method {name}(): add it to the environment, or give {name}= to the wrapper")
    return env.get_wrapper_attr(name)


def call_vector_hook(
    env: VectorEnv[Any, Any, Any], name: str, given: Callable[[VectorEnv[Any, Any, Any]], Any] | None
) -> list[Any]:
    """Ask the given callable, or else the method of every sub-environment; one result per sub-environment.

    Raises:
        ValueError: there is neither, or the number of results is not that of the sub-environments.
    """
    if given is not None:
        results = list(given(env))
    else:
        try:
            results = list(cast("Any", env.unwrapped).call(name))
        except AttributeError as error:
            raise ValueError(
                f"the sub-environments of {env} have no {name}: add it to them, or give {name}= to the wrapper"
            ) from error
    if len(results) != env.num_envs:
        raise ValueError(f"{name} must give {env.num_envs} results, one per sub-environment, got {len(results)}")
    return results


def control_timestep_of(env: gym.Env[Any, Any], given: float | None) -> float:
    """Give the length of a control step, s: the given one, else ``env.control_timestep``, else 0.02 with a warning.

    Raises:
        ValueError: it is not a finite number > 0.
    """
    if given is not None:
        return require_timestep(given)
    if env.has_wrapper_attr("control_timestep"):
        return require_timestep(env.get_wrapper_attr("control_timestep"))
    warnings.warn(
        f"{env} has no control_timestep: {FALLBACK_CONTROL_TIMESTEP} s is assumed; give control_timestep= to be safe",
        UserWarning,
        stacklevel=3,
    )
    return FALLBACK_CONTROL_TIMESTEP


def require_timestep(value: Any) -> float:
    """Give ``value`` as a float; refuse anything but a finite number > 0."""
    try:
        timestep = float(value)
    except (TypeError, ValueError):
        timestep = math.nan
    if not (math.isfinite(timestep) and timestep > 0.0):
        raise ValueError(f"control_timestep must be finite and > 0, got {value!r}")
    return timestep
