"""How a learner reads its part of an observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["flat_ego_obs"]


def flat_ego_obs(obs: Mapping[str, Any], ego_uid: str) -> NDArray[np.float32]:
    """Give ``obs["agent"][ego_uid]["state"]`` as a contiguous float32 array of its own rank.

    Args:
        obs: an observation; the state is an array, or a tensor on any device.
        ego_uid: whose state.
    """
    state = obs["agent"][ego_uid]["state"]
    if isinstance(state, np.ndarray):
        return np.ascontiguousarray(state, dtype=np.float32)
    if hasattr(state, "detach"):
        state = state.detach().cpu().numpy()
    return np.ascontiguousarray(state, dtype=np.float32)
