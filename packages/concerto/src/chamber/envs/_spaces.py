"""Checks and small builders for the nested dictionary spaces that all wrappers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Env, spaces

from chamber.envs.errors import ChamberEnvCompatibilityError

__all__ = ["AnyEnv", "Observation", "PacketSpace", "require_dict_space", "zeros_like"]

AnyEnv = Env[Any, Any]
Observation = dict[str, Any]


def require_dict_space(space: object, *, wrapper: str, which: str) -> spaces.Dict:
    """Give ``space`` back when it is a dictionary space.

    Args:
        space: the space to check.
        wrapper: class name of the wrapper that asks.
        which: which space it is, e.g. ``"observation space"``.

    Raises:
        ChamberEnvCompatibilityError: it is anything else; the message names the wrapper and the type.
    """
    if not isinstance(space, spaces.Dict):
        raise ChamberEnvCompatibilityError(
            f"{wrapper} needs a gymnasium.spaces.Dict {which}, got {type(space).__name__} (ADR-001 §Risks)"
        )
    return space


def zeros_like(value: Any) -> Any:
    """Give zeros of the same shape and type; a tensor (which has ``new_zeros``) stays on its device."""
    new_zeros = getattr(value, "new_zeros", None)
    return new_zeros(value.shape) if callable(new_zeros) else np.zeros_like(value)


class PacketSpace(spaces.Dict):
    """The space of communication packets: any mapping with text keys.

    Which uids a packet mentions changes from step to step and no Gymnasium space can say that. It equals the
    empty ``Dict({})``, and a packet is contained in it.
    """

    def contains(self, x: object) -> bool:
        """Say whether ``x`` can be a packet."""
        return isinstance(x, Mapping) and all(isinstance(key, str) for key in x)
