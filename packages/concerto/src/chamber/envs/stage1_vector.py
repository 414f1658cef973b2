"""Episodes that begin anew by themselves, copy by copy, in an environment that steps several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from chamber.envs._pbrs import flat_array
from chamber.envs._training_state import MemorylessWrapper

__all__ = ["Stage1AutoResetWrapper"]


class Stage1AutoResetWrapper(MemorylessWrapper, gym.Wrapper[Any, Any, Any, Any]):
    """Resets the copies whose episode is over, right after the step that ended it.

    Such a step gives the observation after the reset, while reward, flags and ``info`` are those of the step;
    ``info["final_observation"]`` is the observation of the whole batch before the reset. The reset gets no seed, so
    that every copy goes on with its own stream, and ``options={"env_idx": indices}``: int32, a tensor on the device of
    the observation when that has tensors, else an array.

    Args:
        env: environment whose ``reset`` takes the option ``env_idx``, such as `chamber.envs.rig_task.RigTaskEnv`.
    """

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all copies and reset those that are done."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        is_done = (flat_array(terminated) != 0.0) | (flat_array(truncated) != 0.0)
        if not is_done.any():
            return obs, reward, terminated, truncated, info
        indices = _indices_like(obs, np.flatnonzero(is_done).astype(np.int32))
        fresh_obs, _ = self.env.reset(options={"env_idx": indices})
        return fresh_obs, reward, terminated, truncated, {**info, "final_observation": obs}


def _indices_like(obs: object, indices: NDArray[np.int32]) -> Any:
    """Give indices as a tensor on the device of the first tensor in ``obs`` (which has ``new_zeros``), if any."""
    tensor = _first_tensor(obs)
    if tensor is None:
        return indices
    on_device = tensor.new_zeros((len(indices),)).int()
    for place, index in enumerate(indices):
        on_device[place] = int(index)
    return on_device


def _first_tensor(value: object) -> Any | None:
    if isinstance(value, Mapping):
        found = (_first_tensor(part) for part in cast("Mapping[str, object]", value).values())
        return next((tensor for tensor in found if tensor is not None), None)
    return value if hasattr(value, "new_zeros") else None
