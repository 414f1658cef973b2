"""Play a recorded session again and compare: bit for bit on the same kind of machine, within a tolerance elsewhere.

What the folder shows besides its log, the page and the table of episodes, is held against the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.rollout._album import Album
from chamber.rollout._shown_files import FileReplay, compare_shown_files
from chamber.rollout.config import SessionConfig, make_environment, make_team
from chamber.rollout.episode import Episode, Trajectory, play_episode
from chamber.rollout.session import Page, RoundRecord, SessionRecord, read_session, session_seeds, trajectory_name
from ripieno import run as run_folders
from ripieno._layout import check_artifact_name
from ripieno.errors import InputError, IntegrityError
from ripieno.verify import verify

__all__ = ["TOLERANCE", "EpisodeReplay", "FileReplay", "Replay", "replay_session"]

TOLERANCE = 1e-4
"""Largest difference of any recorded number (m, rad, their rates, action units) that counts as the same elsewhere.

Processors with other vector instructions round differently in the last digit, and a simulation carries that on. On the
kind of machine that recorded a session nothing may differ at all.
"""

_DECIDING_FEATURES = ("architecture", "cpu_features")
_DECIDING_PACKAGES = ("mujoco", "numba", "numpy", "ripieno-concerto", "scipy")

Progress = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class EpisodeReplay:
    """One episode, played again.

    Attributes:
        round_name, episode_idx: which one.
        is_identical: every byte is the same, and so is what became of the episode.
        largest_difference: of any recorded number; ``inf`` when the episodes differ in length, layout or a text.
        where: name of the array that holds it, ``outcome/...`` for what became of it; empty when identical.
    """

    round_name: str
    episode_idx: int
    is_identical: bool
    largest_difference: float
    where: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A session, played again.

    Attributes:
        episodes: one row per recorded episode.
        n_planned: how many the configuration asks for; an interrupted session has fewer.
        same_machine: this machine has the processor features and package versions of the one that recorded it.
        tolerance: what may differ: nothing on the same kind of machine.
        files: one row per file that shows results: the table of episodes, the page, and what nobody can make again.
    """

    episodes: tuple[EpisodeReplay, ...]
    n_planned: int
    same_machine: bool
    tolerance: float
    files: tuple[FileReplay, ...]

    @property
    def holds(self) -> bool:
        """Whether every episode came out as recorded, and no file says anything else."""
        return _all_hold(self.episodes, self.tolerance) and not any(file.holds is False for file in self.files)


def replay_session(
    folder: Path, *, page: Page | None = None, progress: Progress = lambda _done, _words: None
) -> Replay:
    """Verify a session's folder, play its episodes again and compare.

    A folder verifies whoever sealed it. What its log claims is therefore held against what the configuration gives:
    the episodes and their seeds, every array, and what became of each. What its page and its table of episodes show is
    held against the log, and pictures against those that are taken again, where this machine can.

    Args:
        folder: of the session.
        page: what made ``index.html``, when it was neither `chamber.rollout.page.render_session_page` nor the demo.
        progress: called with the number of episodes done and a few words.

    Raises:
        InputError: no session, one without any episode yet, or it cannot be played here.
        IntegrityError: the folder does not verify, or does not fit its own configuration.
    """
    report = verify(folder)
    if not report.ok:
        raise IntegrityError(f"{folder} does not verify: {report.first_problem}")
    record, manifest = read_session(folder), run_folders.read_manifest(folder)
    _require_what_was_planned(folder, record, is_complete=manifest["status"] == "complete")
    if manifest.get("summary") not in (None, {played.name: played.summary() for played in record.rounds}):
        raise IntegrityError(f"{folder}: the summary in run.json does not say what the log says")
    if manifest["seeds"] != session_seeds({played.name: played.config for played in record.rounds}):
        raise IntegrityError(f"{folder}: the seeds in run.json are not those of the configuration")
    same_machine = _is_same_machine(manifest)
    tolerance = 0.0 if same_machine else TOLERANCE
    album = Album(folder / "index.html", partial(_playable, folder, record.rounds[0]))
    rows: list[EpisodeReplay] = []
    for played in record.rounds:
        with closing(_environment(folder, played, render=album.is_rendered)) as env:
            ego = played.config.ego
            team = make_team(
                played.config,
                env,
                checkpoints={} if ego is None else {ego.checkpoint_sha256: folder / ego.file_name},
            )
            if played.episodes and not _agree(team.description(), played.team, tolerance):
                raise IntegrityError(f"{folder}: the log of {played.name} names another team than its configuration")
            for index, episode in enumerate(played.episodes):
                progress(len(rows), f"{played.name}, episode {index + 1}")
                recorded = _recorded(folder, played.name, episode)
                look = album.begin(env, played.name, index)
                seed = played.config.initial_state_seed(index)
                again = play_episode(env, team, seed=seed, episode_idx=index, spectator=look)
                album.finish(again, telling_step=team.telling_step())
                rows.append(_compared(played.name, episode, recorded, again, same_machine=same_machine))
    if not rows:
        raise InputError(f"{folder} has no episode to play again: it was interrupted before its first one ended")
    n_planned = sum(played.config.episodes for played in record.rounds)
    files = compare_shown_files(
        folder,
        record,
        album,
        page=page,
        versions=manifest["versions"],
        same_machine=same_machine,
        is_true=_all_hold(rows, tolerance),
    )
    return Replay(tuple(rows), n_planned, same_machine, tolerance, tuple(files))


def _agree(a: Any, b: Any, tolerance: float) -> bool:
    """Tell whether two plain values are equal, numbers up to a tolerance."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_agree(value, b[name], tolerance) for name, value in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_agree(one, other, tolerance) for one, other in zip(a, b, strict=True))
    if type(a) in (int, float) and type(b) in (int, float):
        return a == b or abs(a - b) <= tolerance
    return a == b


def _all_hold(episodes: Sequence[EpisodeReplay], tolerance: float) -> bool:
    return all(episode.largest_difference <= tolerance for episode in episodes)


def _require_what_was_planned(folder: Path, record: SessionRecord, *, is_complete: bool) -> None:
    """Refuse a log that leaves out, invents or exchanges episodes."""
    names = [played.name for played in record.rounds]
    if not names or len(set(names)) != len(names):
        raise IntegrityError(f"{folder} has no rounds, or one twice: {', '.join(names)}")
    for event in run_folders.read_events(folder):
        if event.fields.get("round") not in names:
            raise IntegrityError(f"{folder}: the log has a line of no round: {str(event.fields.get('round'))!r}")
    for played in record.rounds:
        planned, n_recorded = played.config, len(played.episodes)
        if n_recorded > planned.episodes or (is_complete and n_recorded < planned.episodes):
            raise IntegrityError(
                f"{folder}: {played.name} has {n_recorded} episodes, its configuration {planned.episodes}"
            )
        for index, episode in enumerate(played.episodes):
            for field, expected in (("episode_idx", index), ("initial_state_seed", planned.initial_state_seed(index))):
                if episode.get(field) != expected:
                    where = f"{played.name}, episode {index + 1}"
                    raise IntegrityError(f"{folder}: {field} of {where} is {episode.get(field)!r}, not {expected}")


def _playable(folder: Path, played: RoundRecord) -> SessionConfig:
    """Give what a round plays, when it can be played here."""
    _environment(folder, played).close()
    return played.config


def _environment(folder: Path, played: RoundRecord, *, render: bool = False) -> Any:
    try:
        return make_environment(played.config, render=render)
    except KeyError as error:
        raise InputError(f"{folder} cannot be played again here: {error.args[0]}") from error


def _recorded(folder: Path, round_name: str, episode: Mapping[str, Any]) -> Trajectory:
    name = check_artifact_name(trajectory_name(round_name, int(episode["episode_idx"])))
    try:
        trajectory = Trajectory.from_bytes((folder / name).read_bytes())
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{folder}: {name}: {error}") from error
    if trajectory.sha256 != episode.get("trajectory_sha256"):
        raise IntegrityError(f"{folder}: {name} is not the trajectory that the log names")
    return trajectory


def _compared(
    round_name: str, episode: Mapping[str, Any], recorded: Trajectory, again: Episode, *, same_machine: bool
) -> EpisodeReplay:
    outcome, outcome_again = _outcome(episode, same_machine), _outcome(again.to_event(), same_machine)
    if recorded.sha256 == again.trajectory.sha256 and repr(outcome) == repr(outcome_again):
        return EpisodeReplay(round_name, again.episode_idx, is_identical=True, largest_difference=0.0, where="")
    differences = {
        name: _difference(recorded.arrays.get(name), again.trajectory.arrays.get(name))
        for name in sorted({*recorded.arrays, *again.trajectory.arrays})
    } | {
        f"outcome/{name}": _difference_of_claims(outcome.get(name), outcome_again.get(name))
        for name in sorted({*outcome, *outcome_again})
    }
    where = max(differences, key=lambda name: differences[name])
    return EpisodeReplay(
        round_name, again.episode_idx, is_identical=False, largest_difference=differences[where], where=where
    )


def _outcome(episode: Mapping[str, Any], same_machine: bool) -> dict[str, Any]:
    """Give what an event says about the end of an episode, by name; the total reward is spread over the steps.

    Texts name versions, which may be others on another kind of machine.
    """
    metrics = episode.get("metrics")
    claims = {
        **{name: episode.get(name) for name in ("success", "n_steps", "terminated", "truncated")},
        "mean_reward": _mean(episode.get("total_reward"), episode.get("n_steps")),
        **({f"metrics/{name}": value for name, value in metrics.items()} if isinstance(metrics, Mapping) else {}),
    }
    return {name: claims[name] for name in sorted(claims) if same_machine or not isinstance(claims[name], str)}


def _mean(total: Any, count: Any) -> float | None:
    return total / count if _is_number(total) and _is_number(count) and count > 0 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _difference_of_claims(recorded: Any, again: Any) -> float:
    if repr(recorded) == repr(again):
        return 0.0
    difference = abs(recorded - again) if _is_number(recorded) and _is_number(again) else np.inf
    return float(np.nan_to_num(difference, nan=np.inf))


def _difference(recorded: NDArray[Any] | None, again: NDArray[Any] | None) -> float:
    if recorded is None or again is None or recorded.shape != again.shape:
        return float("inf")
    difference = np.abs(recorded.astype(np.float64) - again.astype(np.float64))
    same = (recorded == again) | (np.isnan(recorded) & np.isnan(again))
    return float(np.nan_to_num(np.where(same, 0.0, difference), nan=np.inf).max(initial=0.0))


def _is_same_machine(manifest: dict[str, Any]) -> bool:
    here = run_folders.environment()
    return all(manifest["machine"].get(name) == here["machine"].get(name) for name in _DECIDING_FEATURES) and all(
        manifest["versions"].get(name) == here["versions"].get(name) for name in _DECIDING_PACKAGES
    )
