"""The pictures of a session's page, taken again while its episodes are played again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chamber.envs.rig_task import RENDER_CAMERA
from chamber.errors import ChamberEnvCompatibilityError
from chamber.rollout._page_check import n_pictures
from chamber.rollout.config import SessionConfig, why_no_pictures
from chamber.rollout.episode import Episode
from chamber.rollout.pictures import Frame, require_package
from chamber.rollout.snapshots import SessionPictures, Snapshot, Watcher

__all__ = ["Album"]


class Album:
    """Takes the pictures that a page has; none for a page without any.

    Where this machine cannot take them, empty ones of the same size stand in, so that the words can be compared.

    Args:
        page: the file; it may be missing.
        config: gives what its first round plays; asked when there are pictures.

    Attributes:
        problem: why the pictures cannot be taken here; empty when they can, or when there are none.
        is_comparable: whether a page can be made at all.
    """

    def __init__(self, page: Path, config: Callable[[], SessionConfig]) -> None:
        self.problem = ""
        self.is_comparable = True
        self._pictures: SessionPictures | None = None
        self._watcher: Watcher | None = None
        if not (page.is_file() and n_pictures(page.read_bytes())):
            return
        problem = why_no_pictures(config())
        if problem is None:
            self._pictures = SessionPictures(take=_picture)
        elif isinstance(problem, ChamberEnvCompatibilityError):  # else the task has no camera, and no picture is right
            self.problem = str(problem)
            self._pictures = SessionPictures(take=_empty_picture)
            self.is_comparable = _can_write_pictures()

    @property
    def is_rendered(self) -> bool:
        """Whether environments have to be built for pictures."""
        return self._pictures is not None and not self.problem

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """What was taken so far."""
        return () if self._pictures is None else tuple(self._pictures.snapshots)

    def begin(self, env: Any, round_name: str, episode_idx: int) -> Any:
        """Give the spectator of an episode; only the first one of a round has pictures."""
        self._watcher = None
        if self._pictures is None or not self.is_comparable or episode_idx > 0 or not hasattr(env.unwrapped, "picture"):
            return _look_away
        self._watcher = Watcher(env, self._pictures, round_name=round_name, episode_idx=0, n_episodes=1)
        watcher = self._watcher

        def look(step: int, _info: Mapping[str, Any]) -> None:
            watcher.look(step)

        return look

    def finish(self, episode: Episode, *, telling_step: int | None) -> None:
        """Take the pictures of an episode that was played to its end."""
        if self._watcher is not None:
            self._watcher.finish(episode, telling_step=telling_step)


def _look_away(_step: int, _info: Mapping[str, Any]) -> None:
    """Take no picture."""


def _picture(env: Any) -> Frame:
    return env.unwrapped.picture()


def _empty_picture(env: Any) -> Frame:
    camera = next(camera for camera in env.unwrapped.rig.scene.cameras if camera.name == RENDER_CAMERA)
    return np.zeros((camera.height, camera.width, 3), dtype=np.uint8)


def _can_write_pictures() -> bool:
    try:
        require_package("PIL")
    except ChamberEnvCompatibilityError:
        return False
    return True
