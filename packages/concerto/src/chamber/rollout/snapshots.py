"""Pictures of a session, taken while it is played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from chamber.envs.mpe_cooperative_push import RENDER_CAMERA
from chamber.rollout.episode import Episode
from chamber.rollout.pictures import Frame, captioned
from chamber.sim import FloatArray, RigBackend

__all__ = ["SessionPictures", "Snapshot", "Watcher", "camera_names"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A picture for the page.

    Attributes:
        round_name: the round it belongs to.
        caption: what it shows.
        frame: the picture.
    """

    round_name: str
    caption: str
    frame: Frame


@dataclass(slots=True)
class SessionPictures:
    """Where the pictures of a session go.

    Attributes:
        take: gives a frame of the environment.
        video: takes the captioned frames of a video, None for no video.
        linger: frames for which a video rests on the end of an episode.
        snapshots: start, middle and end of the first episode of every round.
    """

    take: Callable[[Any], Frame]
    video: Callable[[Frame], None] | None = None
    linger: int = 10
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])


def camera_names(env: Any) -> list[str]:
    """Give the names of the cameras of an environment; one that is drawn and not simulated has a single one."""
    task_env = env.unwrapped
    if hasattr(task_env, "rig"):
        return [camera.name for camera in task_env.rig.scene.cameras]
    return [RENDER_CAMERA]


class _Past(Protocol):
    """Looks back at any control step of the running episode."""

    def keep(self) -> None:
        """Remember the present step."""
        ...

    def picture(self, step: int) -> Frame:
        """Give the picture of a step that was kept."""
        ...


class _RigPast:
    """Keeps the state of the rig at every step, which costs next to nothing, and renders when it is asked."""

    def __init__(self, env: Any, take: Callable[[Any], Frame]) -> None:
        self._env = env
        self._take = take
        self._rig: RigBackend = env.unwrapped.rig
        self._states: list[FloatArray] = []

    def keep(self) -> None:
        self._states.append(self._rig.save_state(0))

    def picture(self, step: int) -> Frame:
        self._rig.restore_state(0, self._states[step])
        return self._take(self._env)


class _DrawnPast:
    """An environment that is drawn keeps its own way."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped

    def keep(self) -> None:
        """The environment does."""

    def picture(self, step: int) -> Frame:
        return self._env.picture(step=step)


class Watcher:
    """Takes the pictures of one episode: every control step for a video; three moments of the first one for the page.

    Those for the page are taken at the end.
    """

    def __init__(
        self, env: Any, pictures: SessionPictures, *, round_name: str, episode_idx: int, n_episodes: int
    ) -> None:
        self._env = env
        self._past: _Past = _RigPast(env, pictures.take) if hasattr(env.unwrapped, "rig") else _DrawnPast(env)
        self._pictures = pictures
        self._round_name = round_name
        self._number = f"{round_name}, episode {episode_idx + 1} of {n_episodes}"
        self._keeps = episode_idx == 0

    def look(self, step: int) -> None:
        """Look at a control step."""
        if self._keeps:
            self._past.keep()
        if self._pictures.video is not None:
            self._pictures.video(self._captioned(self._pictures.take(self._env), step))

    def finish(self, episode: Episode, *, telling_step: int | None) -> None:
        """Put pictures aside for the page, and let a video rest on the end for a moment.

        Args:
            episode: what was played.
            telling_step: the control step that says most about it; the middle one when None.
        """
        words = {True: "success", False: "no success", None: ""}[episode.success]
        if self._keeps:
            middle = episode.n_steps // 2 if telling_step is None else telling_step
            what = (
                f"Control step {middle}" if telling_step is None else f"Control step {middle}, the robots are nearest"
            )
            for step, caption in (
                (0, "The start."),
                (middle, f"{what}."),
                (episode.n_steps, f"The end after {episode.n_steps} control steps{words and f': {words}'}."),
            ):
                self._pictures.snapshots.append(Snapshot(self._round_name, caption, self._past.picture(step)))
        if self._pictures.video is not None:
            last = self._captioned(self._pictures.take(self._env), episode.n_steps, words)
            for _ in range(self._pictures.linger):
                self._pictures.video(last)

    def _captioned(self, frame: Frame, step: int, words: str = "") -> Frame:
        return captioned(frame, " · ".join([self._number, f"control step {step}", *([words] if words else [])]))
