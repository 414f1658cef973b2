"""Nominal policies of the ego: what it would do if nobody were in the way."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView, straight_command
from chamber.cell.config import EgoPolicy

__all__ = ["LandmarkPolicy"]


class LandmarkPolicy:
    """Drives straight to the landmark that is nearest, or farthest, when the episode begins, and stays there.

    The farthest one makes the paths of the two robots cross most often.

    Args:
        uid: the ego.
        choice: which landmark.
        speed_limit: largest magnitude of each velocity component, metres per second.
        dt: length of a step, seconds.
    """

    def __init__(self, *, uid: str, choice: EgoPolicy, speed_limit: float, dt: float) -> None:
        self._uid = uid
        self._choose = np.argmin if choice is EgoPolicy.NEAREST_LANDMARK else np.argmax
        self._speed_limit = speed_limit
        self._dt = dt
        self._landmark: int | None = None

    def reset(self) -> None:
        """Begin an episode: the landmark is chosen at the next observation."""
        self._landmark = None

    def act(self, obs: Mapping[str, object]) -> NDArray[np.float64]:
        """Give the velocity command, shape ``(2,)``, metres per second."""
        view = PlanarView.of(obs, self._uid)
        if self._landmark is None:
            self._landmark = int(self._choose(np.linalg.norm(view.landmarks, axis=1)))
        return straight_command(view.landmarks[self._landmark], speed_limit=self._speed_limit, dt=self._dt)
