"""The observation space of a task on a rig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from chamber.sim.scene import CameraSpec

__all__ = ["rig_observation_space"]


def rig_observation_space(
    *, joints: Mapping[str, int], extras: Mapping[str, int], sensors: Sequence[CameraSpec], num_envs: int
) -> spaces.Dict:
    """Give the space of ``agent`` (joints of the robots), ``extra`` (fields of the task) and ``sensor_data``.

    Args:
        joints: uid to number of joints.
        extras: field to number of components.
        sensors: cameras whose pictures are observed; without any there is no ``sensor_data``.
        num_envs: number of copies, the leading axis of every leaf.
    """

    def box(size: int) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, (num_envs, size), np.float32)

    parts: dict[str, spaces.Space[Any]] = {
        "agent": spaces.Dict({uid: spaces.Dict({"qpos": box(n), "qvel": box(n)}) for uid, n in joints.items()}),
        "extra": spaces.Dict({name: box(size) for name, size in extras.items()}),
    }
    if sensors:
        parts["sensor_data"] = spaces.Dict({camera.name: _picture(camera, num_envs) for camera in sensors})
    return spaces.Dict(parts)


def _picture(camera: CameraSpec, num_envs: int) -> spaces.Dict:
    shape = (num_envs, camera.height, camera.width)
    return spaces.Dict(
        {
            "rgb": spaces.Box(0, 255, (*shape, 3), np.uint8),
            "depth": spaces.Box(0.0, np.inf, (*shape, 1), np.float32),
        }
    )
