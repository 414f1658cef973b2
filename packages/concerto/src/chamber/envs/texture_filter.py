"""Observation modality: blank the channels that a robot is not given, without changing any shape."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces

from chamber.envs._spaces import AnyEnv, Observation, zeros_like

__all__ = ["TextureFilterObsWrapper"]


class TextureFilterObsWrapper(gym.ObservationWrapper[Observation, Any, Observation]):
    """Replaces every channel that is not kept by zeros of the same shape, type and device.

    Spaces stay as they are. Robots that the mapping does not name keep all channels, by reference.

    Args:
        env: environment with observations ``obs["agent"][uid][channel]``.
        keep_per_agent: channels each named robot keeps. A robot or channel that the declared space does not
            have gives a ``UserWarning``: it is usually a misspelt name that blanks everything.
    """

    def __init__(self, env: AnyEnv, keep_per_agent: Mapping[str, Iterable[str]]) -> None:
        super().__init__(env)
        self._keep = {uid: frozenset(channels) for uid, channels in keep_per_agent.items()}
        _warn_about_unknown_names(env.observation_space, self._keep)

    def observation(self, observation: Observation) -> Observation:
        """Give the observation with the channels that are not kept set to zero."""
        agents: object = observation.get("agent")
        if not isinstance(agents, dict):
            return observation
        filtered = cast("dict[str, Any]", dict(agents))
        for uid, keep in self._keep.items():
            channels: object = filtered.get(uid)
            if isinstance(channels, dict):
                filtered[uid] = {
                    name: value if name in keep else zeros_like(value)
                    for name, value in cast("dict[str, Any]", channels).items()
                }
        return {**observation, "agent": filtered}


def _warn_about_unknown_names(space: object, keep: Mapping[str, frozenset[str]]) -> None:
    agents = space.spaces.get("agent") if isinstance(space, spaces.Dict) else None
    if not isinstance(agents, spaces.Dict):
        return
    for uid, channels in keep.items():
        known = agents.spaces.get(uid)
        if known is None:
            warnings.warn(f"keep_per_agent names unknown uid {uid!r}; known: {sorted(agents.spaces)}", stacklevel=3)
        elif isinstance(known, spaces.Dict) and not channels <= set(known.spaces):
            unknown = sorted(channels - set(known.spaces))
            warnings.warn(
                f"keep_per_agent[{uid!r}] names unknown channels {unknown}; known: {sorted(known.spaces)}",
                stacklevel=3,
            )
