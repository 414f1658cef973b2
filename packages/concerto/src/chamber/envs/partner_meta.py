"""Who the partner is, as an opaque id under ``obs["meta"]["partner_id"]``."""

from __future__ import annotations

import string
from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces

from chamber.envs._spaces import AnyEnv, Observation, require_dict_space

__all__ = ["PartnerIdAnnotationWrapper"]


class PartnerIdAnnotationWrapper(gym.Wrapper[Observation, Any, Observation, Any]):
    """Adds the partner's id to every observation, so that a safety filter can notice a swap.

    Args:
        env: environment with a dictionary observation space.
        partner_id: id of the partner, usually ``PartnerSpec.partner_id``; its format is not checked.

    Raises:
        ChamberEnvCompatibilityError: the observation space is no ``Dict``.
    """

    def __init__(self, env: AnyEnv, *, partner_id: str) -> None:
        inner = require_dict_space(env.observation_space, wrapper=type(self).__name__, which="observation space")
        super().__init__(env)
        self._partner_id = partner_id
        declared = inner.spaces.get("meta")
        fields = dict(declared.spaces) if isinstance(declared, spaces.Dict) else {}
        fields["partner_id"] = spaces.Text(min_length=0, max_length=256, charset=string.printable)
        self.observation_space = spaces.Dict({**inner.spaces, "meta": spaces.Dict(fields)})

    @property
    def partner_id(self) -> str:
        """The id that the next observation will carry."""
        return self._partner_id

    def set_partner_id(self, partner_id: str) -> None:
        """Name another partner, from the next observation on; nothing is reset."""
        self._partner_id = partner_id

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Reset the environment and annotate its first observation."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._annotated(obs), info

    def step(self, action: Any) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        """Step the environment and annotate its observation."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._annotated(obs), reward, terminated, truncated, info

    def _annotated(self, obs: Observation) -> Observation:
        meta: object = obs.get("meta")
        existing = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
        return {**obs, "meta": {**existing, "partner_id": self._partner_id}}
