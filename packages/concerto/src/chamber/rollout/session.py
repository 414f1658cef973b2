"""A session: a number of episodes of one task and one team, in a run folder that anybody can check.

Besides ``run.json`` and ``events.jsonl`` the folder holds ``trajectories/NNNN.npz`` per episode, ``episodes.json``, the
page ``index.html`` and, when asked for, a video. Episode i begins with ``reset(seed=seed * 1000 + i)``: the same
starts for every team, so that results of two teams can be compared episode by episode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chamber import tasks
from chamber.errors import ChamberEnvCompatibilityError
from chamber.rollout.episode import Episode, play_episode
from chamber.rollout.pictures import Frame, captioned
from chamber.rollout.references import reference
from chamber.rollout.team import Team, registered_seat
from ripieno.errors import InputError
from ripieno.run import RunWriter, read_events, read_manifest

__all__ = [
    "EPISODES_PER_SEED",
    "PartnerChoice",
    "SessionConfig",
    "SessionPictures",
    "SessionRecord",
    "SessionResult",
    "Snapshot",
    "make_environment",
    "make_team",
    "read_session",
    "run_session",
    "why_no_pictures",
]

EPISODES_PER_SEED = 1000
EPISODE_EVENT = "episode"
TEAM_EVENT = "team"
SESSION_KIND = "session"
_MOST_KEPT = 32

Page = Callable[["SessionRecord", list["Snapshot"]], str]
Progress = Callable[[int, str], None]


class PartnerChoice(BaseModel):
    """A registered partner in place of the reference's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, str] = Field(default_factory=dict[str, str])


class SessionConfig(BaseModel):
    """Everything that decides what a session plays.

    Attributes:
        task_id, version: the task.
        condition: its condition; None for a task without any.
        episodes: how many, at most 1000.
        seed: which block of starts.
        partner: who plays the partner; None for the reference team's.
        episode_length: control steps until the horizon; None for the task's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    version: int
    condition: str | None
    episodes: Annotated[int, Field(ge=1, le=EPISODES_PER_SEED)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    partner: PartnerChoice | None = None
    episode_length: Annotated[int, Field(ge=1)] | None = None

    @classmethod
    def of(
        cls,
        task: str,
        *,
        condition: str | None = None,
        episodes: int = 1,
        seed: int = 0,
        partner: str | None = None,
        partner_parameters: dict[str, str] | None = None,
        episode_length: int | None = None,
    ) -> SessionConfig:
        """Give the configuration of a session of a task, by name or by name and version (``cocarry@v2``).

        Raises:
            InputError: no such task, version or condition, or a number is out of range.
        """
        task_id, version = _task_and_version(task)
        try:
            spec = tasks.get(task_id, version)
        except KeyError as error:
            raise InputError(str(error.args[0])) from error
        if partner is None and partner_parameters:
            raise InputError("parameters of a partner need a partner; give its name too")
        try:
            return cls(
                task_id=task_id,
                version=spec.version,
                condition=reference(task_id).condition(condition),
                episodes=episodes,
                seed=seed,
                partner=None if partner is None else PartnerChoice(name=partner, parameters=partner_parameters or {}),
                episode_length=episode_length,
            )
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}") from error

    @property
    def slug(self) -> str:
        """Name and version of the task."""
        return f"{self.task_id}@v{self.version}"

    def initial_state_seed(self, episode_idx: int) -> int:
        """Give the seed of the reset of an episode."""
        return self.seed * EPISODES_PER_SEED + episode_idx


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A picture for the page."""

    caption: str
    frame: Frame


@dataclass(frozen=True)
class SessionRecord:
    """What a session recorded.

    Attributes:
        config: what was played.
        config_sha256: its hash, as in ``run.json``.
        team: names and parameters of the controllers, by robot.
        episodes: what became of every episode, see `Episode.to_event`.
    """

    config: SessionConfig
    config_sha256: str
    team: dict[str, Any]
    episodes: tuple[dict[str, Any], ...]

    @property
    def n_successes(self) -> int:
        """Number of episodes that ended in success."""
        return sum(episode["success"] is True for episode in self.episodes)


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A finished session: its record, and the digest that pins its folder."""

    record: SessionRecord
    digest: str


def make_environment(config: SessionConfig, *, render: bool = False) -> Any:
    """Build the environment of a session.

    Raises:
        InputError: the task has none, or takes no option that the configuration sets.
        ChamberEnvCompatibilityError: the simulator cannot be used.
    """
    overrides: dict[str, Any] = {}
    if config.condition is not None:
        overrides["condition_id"] = config.condition
    if config.episode_length is not None:
        overrides["episode_length"] = config.episode_length
    if render:
        overrides["render_mode"] = "rgb_array"
    try:
        return tasks.make(config.task_id, version=config.version, **overrides)
    except NotImplementedError as error:
        raise InputError(str(error)) from error
    except TypeError as error:
        raise InputError(f"{config.slug} does not take all of {', '.join(overrides)}: {error}") from error
    except ValueError as error:
        raise InputError(f"{config.slug}: {error}") from error


def why_no_pictures(config: SessionConfig) -> InputError | ChamberEnvCompatibilityError | None:
    """Give the reason why no picture of a session can be made here, or None.

    Raises:
        InputError: the environment cannot be built at all.
        ChamberEnvCompatibilityError: likewise.
    """
    if tasks.get(config.task_id, config.version).sim_backend != "mujoco":
        return InputError(f"{config.slug} has no camera: it is not simulated in three dimensions")
    with closing(make_environment(config, render=True)) as env:
        env.reset(seed=0)
        try:
            env.unwrapped.picture()
        except ChamberEnvCompatibilityError as error:
            return error
    return None


def make_team(config: SessionConfig, env: Any) -> Team:
    """Give the team of a session: the reference team, with another partner when the configuration names one.

    Raises:
        InputError: the partner does not exist or refuses its parameters.
    """
    team = reference(config.task_id).build(env, config.condition)
    if config.partner is None:
        return team
    seat = team.seats[-1]
    parameters = {**seat.parameters, **config.partner.parameters}
    return team.replaced(registered_seat(seat.uid, config.partner.name, parameters))


@dataclass(slots=True)
class SessionPictures:
    """Frames of a session, taken while it is played.

    Attributes:
        take: gives a frame of the environment, None for no pictures.
        video: takes the captioned frames of a video, None for no video.
        linger: frames for which a video rests on the end of an episode.
    """

    take: Callable[[Any], Frame] | None = None
    video: Callable[[Frame], None] | None = None
    linger: int = 10
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])


def run_session(
    config: SessionConfig,
    folder: Path,
    *,
    page: Page | None = None,
    pictures: SessionPictures | None = None,
    progress: Progress = lambda _done, _words: None,
) -> SessionResult:
    """Play every episode and write the run folder.

    Args:
        config: what to play.
        folder: must not exist.
        page: makes ``index.html`` from the record and the pictures.
        pictures: what to take pictures for; None takes none.
        progress: called at every control step with the number of episodes done and a few words.

    Raises:
        InputError: the folder cannot be made or the session cannot be played; nothing is left behind then.
    """
    pictures = pictures or SessionPictures()
    with closing(make_environment(config, render=pictures.take is not None)) as env:
        team = make_team(config, env)
        settings = config.model_dump(mode="json")
        with RunWriter(
            folder, system="chamber", kind=SESSION_KIND, config=settings, seeds={"seed": config.seed}
        ) as run:
            run.event(TEAM_EVENT, team=team.description())
            for episode in _episodes(config, env, team, pictures, progress):
                name = f"trajectories/{episode.episode_idx:04d}.npz"
                run.artifact(name, episode.trajectory.to_bytes())
                run.event(EPISODE_EVENT, **episode.to_event())
            record = read_session(folder)
            run.artifact("episodes.json", json.dumps(record.episodes, indent=1, sort_keys=True) + "\n")
            if page is not None:
                progress(config.episodes, "the page")
                run.artifact("index.html", page(record, pictures.snapshots))
            digest = run.finish(summary={"episodes": len(record.episodes), "successes": record.n_successes})
    return SessionResult(record, digest)


def read_session(folder: Path) -> SessionRecord:
    """Rebuild the record of a session from its log; an interrupted session gives the episodes it has.

    Raises:
        InputError: no session.
        IntegrityError: a line of the log does not hold.
    """
    manifest = read_manifest(folder)
    if (manifest["system"], manifest["kind"]) != ("chamber", SESSION_KIND):
        raise InputError(f"{folder} is no session of Chamber but {manifest['system']}/{manifest['kind']}")
    events = list(read_events(folder))
    teams = [event.fields["team"] for event in events if event.kind == TEAM_EVENT]
    return SessionRecord(
        config=SessionConfig.model_validate(manifest["config"]),
        config_sha256=str(manifest["config_sha256"]),
        team=teams[0] if teams else {},
        episodes=tuple(event.fields for event in events if event.kind == EPISODE_EVENT),
    )


def _episodes(
    config: SessionConfig, env: Any, team: Team, pictures: SessionPictures, progress: Progress
) -> Iterator[Episode]:
    for index in range(config.episodes):
        watcher = _Watcher(env, pictures, episode_idx=index, n_episodes=config.episodes)

        def look(step: int, _info: Mapping[str, Any], watcher: _Watcher = watcher, index: int = index) -> None:
            progress(index, f"episode {index + 1}, control step {step}")
            watcher.look(step)

        episode = play_episode(env, team, seed=config.initial_state_seed(index), episode_idx=index, spectator=look)
        watcher.finish(episode)
        yield episode


class _Watcher:
    """Takes the pictures of one episode: every frame for a video; start, middle and end of the first for the page."""

    def __init__(self, env: Any, pictures: SessionPictures, *, episode_idx: int, n_episodes: int) -> None:
        self._env = env
        self._pictures = pictures
        self._number = f"episode {episode_idx + 1} of {n_episodes}"
        self._keeps = episode_idx == 0
        self._kept: list[tuple[int, Frame]] = []
        self._stride = 1

    def look(self, step: int) -> None:
        """Take the picture of a control step."""
        if self._pictures.take is None or not (self._keeps or self._pictures.video):
            return
        frame = self._pictures.take(self._env)
        if self._keeps and step % self._stride == 0:
            self._keep(step, frame)
        if self._pictures.video is not None:
            self._pictures.video(self._captioned(frame, step))

    def finish(self, episode: Episode) -> None:
        """Put pictures aside for the page, and let a video rest on the end for a moment."""
        if self._pictures.take is None or not (self._keeps or self._pictures.video):
            return
        words = {True: "success", False: "no success", None: "the end"}[episode.success]
        last = self._pictures.take(self._env)
        if self._keeps:
            middle_step, middle = self._kept[len(self._kept) // 2]
            self._pictures.snapshots += [
                Snapshot("The start.", self._kept[0][1]),
                Snapshot(f"Control step {middle_step}.", middle),
                Snapshot(f"The end after {episode.n_steps} control steps: {words}.", last),
            ]
        if self._pictures.video is not None:
            for _ in range(self._pictures.linger):
                self._pictures.video(self._captioned(last, episode.n_steps, words))

    def _keep(self, step: int, frame: Frame) -> None:
        """Keep at most `_MOST_KEPT` pictures, evenly over the episode, however long it gets."""
        self._kept.append((step, frame))
        if len(self._kept) > _MOST_KEPT:
            self._stride *= 2
            self._kept = [(at, kept) for at, kept in self._kept if at % self._stride == 0]

    def _captioned(self, frame: Frame, step: int, words: str = "") -> Frame:
        return captioned(frame, " · ".join([self._number, f"control step {step}", *([words] if words else [])]))


def _task_and_version(task: str) -> tuple[str, int | None]:
    task_id, separator, version = task.partition("@v")
    if not separator:
        return task, None
    if not version.isdigit():
        raise InputError(f"a task is named like cocarry or cocarry@v2, got {task!r}")
    return task_id, int(version)
