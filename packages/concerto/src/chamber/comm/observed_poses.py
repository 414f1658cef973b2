"""From a task's observation to the poses that its robots broadcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chamber._observations import as_array, leaf
from chamber.comm.api import Pose
from chamber.comm.errors import ChamberCommError

__all__ = ["ObservedPoses"]


class ObservedPoses:
    """Adds ``pose`` to an observation, read from pose vectors ``(x, y, z, w, qx, qy, qz)`` inside it.

    Give it to a channel as ``state_adapter``. A robot whose vector is missing in an observation says nothing then.

    Args:
        paths: per uid where its pose vector is, for example ``("extra", "tcp_pose")``.
        env: which copy is read where an observation has several.

    Examples:
        >>> poses = ObservedPoses({"arm": ("extra", "tcp_pose")})
        >>> poses({"extra": {"tcp_pose": [[0.5, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0]]}})["pose"]
        {'arm': {'xyz': (0.5, 0.0, 0.25), 'quat_wxyz': (1.0, 0.0, 0.0, 0.0)}}
    """

    def __init__(self, paths: Mapping[str, Sequence[str]], *, env: int = 0) -> None:
        self._paths = {uid: tuple(path) for uid, path in paths.items()}
        self._env = env

    def __call__(self, state: object) -> Mapping[str, Any]:
        """Give the entries of the state and ``pose``.

        Raises:
            ChamberCommError: what a path leads to is no vector of seven numbers.
        """
        if not isinstance(state, Mapping):
            return {}
        observation = cast("Mapping[str, Any]", state)
        poses: dict[str, Pose] = {}
        for uid, path in self._paths.items():
            value = leaf(observation, *path)
            if value is not None:
                poses[uid] = self._pose(value, uid)
        return {**observation, "pose": poses}

    def _pose(self, value: object, uid: str) -> Pose:
        vector = as_array(value)
        if vector is not None and vector.ndim == 2 and self._env < len(vector):
            vector = vector[self._env]
        if vector is None or vector.shape != (7,):
            found = type(value).__name__ if vector is None else f"shape {vector.shape}"
            raise ChamberCommError(f"the pose of {uid!r} must be 7 numbers at {self._paths[uid]}, got {found}")
        x, y, z, w, qx, qy, qz = vector.tolist()
        return Pose(xyz=(x, y, z), quat_wxyz=(w, qx, qy, qz))
