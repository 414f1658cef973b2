"""A session: rounds of episodes, each of one task and one team, in a run folder that anybody can check.

Besides ``run.json`` and ``events.jsonl`` the folder holds ``trajectories/ROUND/NNNN.npz`` per episode,
``episodes.json``, the page ``index.html``, and ``checkpoints/SHA.pt`` when an ego is a trained policy. Episode i of a
round begins with ``reset(seed=seed * 1000 + i)``: rounds with the same seed have the same starts, so that their results
can be compared episode by episode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chamber.cell.checkpoint import store_checkpoint
from chamber.rollout.config import SessionConfig, make_environment, make_team, rehearse
from chamber.rollout.episode import Episode, play_episode
from chamber.rollout.snapshots import SessionPictures, Snapshot, Watcher
from chamber.rollout.team import Team
from ripieno.errors import InputError
from ripieno.run import RunWriter, read_events, read_manifest

__all__ = [
    "Page",
    "RoundRecord",
    "SessionRecord",
    "SessionResult",
    "episode_table",
    "read_session",
    "run_session",
    "session_seeds",
    "trajectory_name",
]

EPISODE_EVENT = "episode"
TEAM_EVENT = "team"
SESSION_KIND = "session"
_ROUND_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")

Page = Callable[["SessionRecord", Sequence[Snapshot]], str]
"""Makes a page of a record and pictures."""
Progress = Callable[[int, str], None]


@dataclass(frozen=True)
class RoundRecord:
    """What one round recorded.

    Attributes:
        name: of the round.
        config: what was played.
        team: names and parameters of the controllers, by robot.
        episodes: what became of every episode, see `Episode.to_event`.
    """

    name: str
    config: SessionConfig
    team: dict[str, Any]
    episodes: tuple[dict[str, Any], ...]

    @property
    def n_successes(self) -> int:
        """Number of episodes that ended in success."""
        return sum(episode["success"] is True for episode in self.episodes)

    def summary(self) -> dict[str, int]:
        """Give the numbers of episodes and of successes."""
        return {"episodes": len(self.episodes), "successes": self.n_successes}


@dataclass(frozen=True)
class SessionRecord:
    """What a session recorded.

    Attributes:
        rounds: in the order in which they were played.
        config_sha256: hash of the configuration, as in ``run.json``.
    """

    rounds: tuple[RoundRecord, ...]
    config_sha256: str

    @property
    def n_episodes(self) -> int:
        """Number of episodes of all rounds."""
        return sum(len(played.episodes) for played in self.rounds)


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A finished session: its record, and the digest that pins its folder."""

    record: SessionRecord
    digest: str


def session_seeds(rounds: Mapping[str, SessionConfig]) -> dict[str, int]:
    """Give the seeds of a session as its manifest names them."""
    return {f"seed of {name}": config.seed for name, config in rounds.items()}


def run_session(
    rounds: Mapping[str, SessionConfig],
    folder: Path,
    *,
    checkpoints: Mapping[str, Path] | None = None,
    page: Page | None = None,
    pictures: SessionPictures | None = None,
    progress: Progress = lambda _done, _words: None,
) -> SessionResult:
    """Play every episode of every round and write the run folder.

    Args:
        rounds: what to play, by name: lowercase letters, digits, ``-`` and ``_``.
        folder: must not exist.
        checkpoints: files of trained egos by their SHA-256; the session is played from the copies in its folder.
        page: makes ``index.html`` from the record and the pictures.
        pictures: where pictures go; None takes none.
        progress: called at every control step with the number of episodes done and a few words.

    Raises:
        InputError: the folder cannot be made or a round cannot be played; nothing is left behind then.
    """
    wrong = [name for name in rounds if not _ROUND_NAME.fullmatch(name)]
    if wrong or not rounds:
        raise InputError(f"a session needs rounds with names like 'matched' or 'one-arm', got {wrong}")
    for config in rounds.values():  # whatever is wrong with a later round is said before the first is played
        with closing(make_environment(config)) as env:
            rehearse(config, env, make_team(config, env, checkpoints=checkpoints))
    settings = {"rounds": [{"name": name, **config.model_dump(mode="json")} for name, config in rounds.items()]}
    seeds = session_seeds(rounds)
    starts = accumulate((config.episodes for config in rounds.values()), initial=0)
    played_before = dict(zip(rounds, starts, strict=False))
    with RunWriter(folder, system="chamber", kind=SESSION_KIND, config=settings, seeds=seeds) as run:
        kept = _keep_checkpoints(run, rounds.values(), checkpoints or {})
        for name, config in rounds.items():
            with closing(make_environment(config, render=pictures is not None)) as env:
                team = make_team(config, env, checkpoints=kept)
                run.event(TEAM_EVENT, round=name, team=team.description())
                say = partial(_say, progress, name, played_before[name])
                for episode in _episodes(name, config, env, team, pictures, say):
                    run.artifact(trajectory_name(name, episode.episode_idx), episode.trajectory.to_bytes())
                    run.event(EPISODE_EVENT, round=name, **episode.to_event())
        record = read_session(folder)
        run.artifact("episodes.json", episode_table(record))
        if page is not None:
            progress(record.n_episodes, "the page")
            run.artifact("index.html", page(record, pictures.snapshots if pictures else ()))
        digest = run.finish(summary={played.name: played.summary() for played in record.rounds})
    return SessionResult(record, digest)


def _keep_checkpoints(
    run: RunWriter, configs: Iterable[SessionConfig], checkpoints: Mapping[str, Path]
) -> dict[str, Path]:
    """Copy the checkpoints of all egos into the folder of the run and give the copies by their SHA-256."""
    egos = {config.ego.checkpoint_sha256: config.ego for config in configs if config.ego is not None}
    for sha256, ego in egos.items():
        store_checkpoint(run, ego.file_name, checkpoints[sha256], sha256=sha256)
    return {sha256: run.folder / ego.file_name for sha256, ego in egos.items()}


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
    try:
        rounds = tuple(
            RoundRecord(
                name=settings["name"],
                config=SessionConfig.model_validate({key: value for key, value in settings.items() if key != "name"}),
                team=next(
                    (event.fields["team"] for event in _of(events, TEAM_EVENT, settings["name"])), dict[str, Any]()
                ),
                episodes=tuple(
                    {key: value for key, value in event.fields.items() if key != "round"}
                    for event in _of(events, EPISODE_EVENT, settings["name"])
                ),
            )
            for settings in manifest["config"]["rounds"]
        )
    except (KeyError, TypeError, ValidationError) as error:
        raise InputError(f"{folder} is no session that this version can read: {error!r}") from error
    return SessionRecord(rounds, str(manifest["config_sha256"]))


def episode_table(record: SessionRecord) -> str:
    """Give the text of ``episodes.json``: what became of every episode, by round."""
    table = {played.name: played.episodes for played in record.rounds}
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def trajectory_name(round_name: str, episode_idx: int) -> str:
    """Give the name of the file with the trajectory of an episode, in the folder of its session."""
    return f"trajectories/{round_name}/{episode_idx:04d}.npz"


def _say(progress: Progress, round_name: str, played_before: int, index: int, step: int) -> None:
    progress(played_before + index, f"{round_name}, episode {index + 1}, step {step}")


def _of(events: Sequence[Any], kind: str, round_name: str) -> Iterator[Any]:
    return (event for event in events if event.kind == kind and event.fields["round"] == round_name)


def _episodes(
    name: str,
    config: SessionConfig,
    env: Any,
    team: Team,
    pictures: SessionPictures | None,
    say: Callable[[int, int], None],
) -> Iterator[Episode]:
    for index in range(config.episodes):
        watcher = None
        if pictures is not None:
            watcher = Watcher(env, pictures, round_name=name, episode_idx=index, n_episodes=config.episodes)

        def look(step: int, _info: Mapping[str, Any], watcher: Watcher | None = watcher, index: int = index) -> None:
            say(index, step)
            if watcher is not None:
                watcher.look(step)

        episode = play_episode(env, team, seed=config.initial_state_seed(index), episode_idx=index, spectator=look)
        if watcher is not None:
            watcher.finish(episode, telling_step=team.telling_step())
        yield episode
