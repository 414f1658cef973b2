"""Play a recorded session again and compare: bit for bit on the same kind of machine, within a tolerance elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.rollout.config import make_environment, make_team
from chamber.rollout.episode import Trajectory, play_episode
from chamber.rollout.session import read_session, trajectory_name
from ripieno import run as run_folders
from ripieno.errors import IntegrityError
from ripieno.verify import verify

__all__ = ["TOLERANCE", "EpisodeReplay", "Replay", "replay_session"]

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
        is_identical: every byte is the same.
        largest_difference: of any recorded number; ``inf`` when the episodes differ in length or layout.
        where: name of the array that holds it, empty when identical.
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
        same_machine: this machine has the processor features and package versions of the one that recorded it.
        tolerance: what may differ: nothing on the same kind of machine.
    """

    episodes: tuple[EpisodeReplay, ...]
    same_machine: bool
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether every episode came out as recorded."""
        return all(episode.largest_difference <= self.tolerance for episode in self.episodes)


def replay_session(folder: Path, *, progress: Progress = lambda _done, _words: None) -> Replay:
    """Verify a session's folder, play its episodes again and compare.

    Raises:
        InputError: no session, or it cannot be played here.
        IntegrityError: the folder does not verify.
    """
    report = verify(folder)
    if not report.ok:
        raise IntegrityError(f"{folder} does not verify: {report.first_problem}")
    record = read_session(folder)
    same_machine = _is_same_machine(run_folders.read_manifest(folder))
    rows: list[EpisodeReplay] = []
    for played in record.rounds:
        with closing(make_environment(played.config)) as env:
            team = make_team(played.config, env)
            for episode in played.episodes:
                progress(len(rows), f"{played.name}, episode {int(episode['episode_idx']) + 1}")
                again = play_episode(env, team, seed=int(episode["initial_state_seed"]))
                rows.append(_compared(played.name, episode, _recorded(folder, played.name, episode), again.trajectory))
    return Replay(tuple(rows), same_machine, 0.0 if same_machine else TOLERANCE)


def _recorded(folder: Path, round_name: str, episode: Mapping[str, Any]) -> Trajectory:
    name = trajectory_name(round_name, int(episode["episode_idx"]))
    trajectory = Trajectory.from_bytes((folder / name).read_bytes())
    if trajectory.sha256 != episode["trajectory_sha256"]:
        raise IntegrityError(f"{name} is not the trajectory that the log names")
    return trajectory


def _compared(round_name: str, episode: Mapping[str, Any], recorded: Trajectory, again: Trajectory) -> EpisodeReplay:
    index = int(episode["episode_idx"])
    if recorded.sha256 == again.sha256:
        return EpisodeReplay(round_name, index, is_identical=True, largest_difference=0.0, where="")
    differences = {
        name: _difference(recorded.arrays.get(name), again.arrays.get(name))
        for name in sorted({*recorded.arrays, *again.arrays})
    }
    where = max(differences, key=lambda name: differences[name])
    return EpisodeReplay(round_name, index, is_identical=False, largest_difference=differences[where], where=where)


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
