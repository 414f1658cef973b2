"""How observations are read: nested mappings whose leaves are arrays, or tensors on any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_array", "leaf"]


def leaf(obs: Mapping[str, object], *path: str) -> object | None:
    """Follow ``path`` through nested mappings; ``None`` when it ends early."""
    value: object = obs
    for key in path:
        if not isinstance(value, (dict, Mapping)):  # a dict is known at once, an abstract class has to be asked
            return None
        value = value.get(key)
    return value


def as_array(value: object | None) -> NDArray[np.float64] | None:
    """Give a list, array or tensor (which has ``detach`` and ``cpu``) as float64; ``None`` for anything else."""
    if hasattr(value, "detach"):
        value = cast("Any", value).detach().cpu().numpy()
    if not isinstance(value, (np.ndarray, list, tuple)):
        return None
    return np.asarray(cast("Any", value), dtype=np.float64)
