"""Logs of training runs as they lie in a folder: which runs there are, and what each of them says.

A log is read line by line and never held. Lines that are no JSON object are skipped: a run that was killed may leave a
torn one. Where a run went on from a checkpoint (event ``training_resumed``), what its log said before about later steps
was played again and does not count; of two lines about the same step the later one wins.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from ripieno.errors import InputError

__all__ = ["SUMMARY_FIELDS", "Archive", "EpisodeRewards", "Reading", "RunLog", "read_lines", "run_log"]

Event = dict[str, Any]

SUMMARY_FIELDS = (
    "run_id",
    "jsonl_path",
    "stage",
    "sub_stage",
    "condition",
    "seed",
    "task",
    "run_kind",
    "git_sha",
    "n_steps",
    "terminal_success_rate",
    "mean_reward_final",
    "lambda_steady_state",
)
"""Fields of a run's summary, in order; what a log does not say is None."""

_NO_METRICS = frozenset({"seed", "step"})
"""Numbers on every line that name the line."""
_TENSOR = re.compile(r"tensor\(\[?\s*([-+0-9.eE]+|nan|inf|-inf)\s*\]?.*\)")
"""How a reward looks in logs of old programs: ``tensor([-1.5])``."""


@dataclass(frozen=True)
class Reading:
    """One value of a metric: the frame, the time it was written, and the number."""

    step: int | None
    wall_time: str | None
    value: float


@dataclass(frozen=True)
class EpisodeRewards:
    """The finished episodes of a run, in order, as the learning-signal check reads them."""

    run_id: str
    per_episode_ego_rewards: list[float]


def _number_of(value: object) -> float | None:
    """Give a finite number, None for anything else; true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _whole_number_of(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class RunLog:
    """The log of one run.

    Attributes:
        path: the file.
        identity: the fields of its last ``training_start``, or of its last line if there is none.
    """

    path: Path
    identity: Mapping[str, Any]

    @property
    def run_id(self) -> str:
        """Identity of the run."""
        return str(self.identity["run_id"])

    def events(self) -> Iterator[Event]:
        """Give every event that counts, in the order of the file."""
        for number, event in _events_of(self.path):
            step = _whole_number_of(event.get("step"))
            if step is None or all(step <= restart for line, restart in self._restarts if line > number):
                yield event

    def readings(self, metric: str, *, namespace: str | None = None) -> list[Reading]:
        """Give the values of a metric by step.

        Args:
            metric: a field of any event.
            namespace: only of events with this ``metric_namespace``.

        Raises:
            InputError: no event has such a number; the message lists the nearest names.
        """
        found: dict[tuple[Any, ...], Reading] = {}
        for event in self.events():
            if namespace is not None and event.get("metric_namespace") != namespace:
                continue
            value = _number_of(event.get(metric))
            if value is None or metric in _NO_METRICS:
                continue
            step = _whole_number_of(event.get("step"))
            time = _text_of(event.get("wall_time"))
            # Without a step every line stands for itself.
            key = (event.get("event"), event.get("metric_namespace"), event.get("episode"), step)
            found[key if step is not None else (len(found),)] = Reading(step, time, value)
        if not found:
            raise InputError(self._no_such_metric(metric, namespace))
        return sorted(found.values(), key=lambda reading: math.inf if reading.step is None else reading.step)

    def episode_rewards(self) -> EpisodeRewards:
        """Give the sum of rewards of every finished episode; one that was not finite, which is logged as null, is NaN.

        Raises:
            InputError: no episode has finished.
        """
        found: dict[int, float] = {}
        for event in self.events():
            number = _whole_number_of(event.get("episode"))
            if event.get("event") == "episode_end" and number is not None:
                reward = _number_of(event.get("reward"))
                found[number] = math.nan if reward is None else reward
        if not found:
            raise InputError(f"run {self.run_id} has no finished episode (event episode_end) in {self.path}")
        return EpisodeRewards(self.run_id, [found[number] for number in sorted(found)])

    def summary(self, envelope: Mapping[str, Any] | None) -> dict[str, Any]:
        """Give the fields of `SUMMARY_FIELDS`.

        Args:
            envelope: the record of the spike that the run belongs to, if there is one.
        """
        n_steps, last_reward, last_evaluated, slack = 0, None, None, None
        conditions: list[str] = []
        for event in self.events():
            kind = event.get("event")
            n_steps = max(n_steps, _whole_number_of(event.get("step")) or 0)
            if kind == "rollout_update":
                last_reward = _reward_of(event.get("last_reward"), otherwise=last_reward)
            elif kind == "eval":
                last_evaluated = _reward_of(event.get("mean_episode_reward"), otherwise=last_evaluated)
                conditions.append(str(event.get("condition")))
            elif kind == "safety_telemetry_final" and event.get("safety_enabled", True):
                slack = _number_of(event.get("lambda_steady_state"))
        sub_stage = _text_of((envelope or {}).get("sub_stage"))
        seed, condition = self.identity.get("seed"), _condition_of(self.identity, conditions, envelope)
        return {
            "run_id": self.run_id,
            "jsonl_path": str(self.path),
            "stage": sub_stage[:1] if sub_stage else None,
            "sub_stage": sub_stage,
            "condition": condition,
            "seed": seed,
            "task": _text_of(self.identity.get("task")),
            "run_kind": _text_of(self.identity.get("run_kind")),
            "git_sha": _text_of(self.identity.get("git_sha")),
            "n_steps": n_steps or None,
            "terminal_success_rate": _success_rate(envelope, seed, condition),
            "mean_reward_final": last_reward if last_evaluated is None else last_evaluated,
            "lambda_steady_state": slack,
        }

    @cached_property
    def _restarts(self) -> list[tuple[int, int]]:
        """Number of the line and step of every ``training_resumed``."""
        return [
            (number, step)
            for number, event in _events_of(self.path, containing=b"training_resumed")
            if event.get("event") == "training_resumed" and (step := _whole_number_of(event.get("step"))) is not None
        ]

    def _no_such_metric(self, metric: str, namespace: str | None) -> str:
        known: set[str] = set()
        for event in self.events():
            if namespace is None or event.get("metric_namespace") == namespace:
                known |= {name for name, value in event.items() if _number_of(value) is not None}
        known -= _NO_METRICS
        where = "" if namespace is None else f" in namespace {namespace!r}"
        near = get_close_matches(metric, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
        return f"run {self.run_id} has no metric {metric!r}{where}; {hint}"


class Archive:
    """The runs of a folder: every ``*.jsonl`` in it that is a log, or, if there is none, every one below it.

    Args:
        root: the folder.

    Raises:
        InputError: there is no such folder.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"the archive root {root} is no folder")
        self.root = root

    @cached_property
    def runs(self) -> list[RunLog]:
        """The logs, by seed and run id."""
        found = self._logs(self.root.glob("*.jsonl")) or self._logs(self.root.rglob("*.jsonl"))
        return sorted(found, key=lambda run: (_seed_order(run.identity.get("seed")), run.run_id, str(run.path)))

    def _logs(self, paths: Iterable[Path]) -> list[RunLog]:
        """The logs among some files; recorded episodes are none."""
        files = [
            path for path in sorted(paths) if path.is_file() and "rollouts" not in path.relative_to(self.root).parts
        ]
        return [log for log in map(run_log, files) if log is not None]

    @cached_property
    def envelope(self) -> Mapping[str, Any] | None:
        """The first ``spike_*.json`` that can be read, by name."""
        for path in sorted(self.root.glob("spike_*.json")):
            try:
                record = json.loads(path.read_bytes())
            except (OSError, ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                return record
        return None

    def summaries(self) -> list[dict[str, Any]]:
        """Give the summary of every run."""
        return [run.summary(self.envelope) for run in self.runs]

    def run(self, run_id: str) -> RunLog:
        """Give the run of an id.

        Raises:
            InputError: there is none, or there are several logs of it.
        """
        found = [run for run in self.runs if run.run_id == run_id]
        if len(found) > 1:
            paths = ", ".join(str(run.path) for run in found)
            raise InputError(f"run {run_id!r} has {len(found)} logs, choose a narrower --archive-root: {paths}")
        if not found:
            near = get_close_matches(run_id, [run.run_id for run in self.runs], n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else "see list-runs for those that there are"
            raise InputError(f"there is no run {run_id!r} in {self.root}; {hint}")
        return found[0]

    def recordings(self, run: RunLog) -> list[Path]:
        """Give the recorded episodes of a run, ``rollouts/**/step_*.jsonl``.

        Recordings do not name their run. They are its own when they lie beside its log, or in a folder around it; or
        when there is no other run.

        Raises:
            InputError: there are none.
        """
        folders = [path for path in sorted(self.root.rglob("rollouts")) if path.is_dir()]
        if not folders:
            raise InputError(f"there is no folder rollouts below {self.root}")
        around = [folder for folder in folders if folder.parent in run.path.parents]
        if around:
            nearest = max(len(folder.parts) for folder in around)
            folders = [folder for folder in around if len(folder.parts) == nearest]
        elif len(self.runs) > 1:
            raise InputError(f"no folder rollouts lies beside the log of run {run.run_id}, {run.path}")
        return [path for folder in folders for path in sorted(folder.rglob("step_*.jsonl")) if path.is_file()]


def read_lines(path: Path) -> Iterator[Event]:
    """Give every JSON object of a file of lines; other lines are skipped."""
    return (event for _, event in _events_of(path))


def _events_of(path: Path, *, containing: bytes = b"") -> Iterator[tuple[int, Event]]:
    """Give every JSON object of a file with the number of its line; only of lines that hold some bytes."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                if containing not in line:
                    continue
                try:
                    event = json.loads(line, parse_constant=lambda _: None)  # old logs have bare NaN
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, dict):
                    yield number, event
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def run_log(path: Path) -> RunLog | None:
    """Give the log that a file is; None when no line of it names a run.

    Raises:
        InputError: it cannot be read.
    """
    identity: Event | None = None
    for _, event in _events_of(path):
        is_start = event.get("event") == "training_start"
        if isinstance(event.get("run_id"), str) and (
            is_start or identity is None or identity.get("event") != "training_start"
        ):
            identity = event
    return None if identity is None else RunLog(path, identity)


def _seed_order(seed: object) -> float:
    return seed if isinstance(seed, int) else math.inf


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _reward_of(value: object, *, otherwise: float | None) -> float | None:
    """A logged reward, also one that an old program wrote as the text of a tensor; else what was known before."""
    if isinstance(value, str) and (match := _TENSOR.fullmatch(value)):
        value = float(match[1])
    number = _number_of(value)
    return otherwise if number is None else number


def _condition_of(identity: Mapping[str, Any], evaluated: list[str], envelope: Mapping[str, Any] | None) -> str | None:
    """The condition of a run: what its log says, or which of the envelope's two it was evaluated in."""
    said = _text_of(identity.get("condition")) or _text_of(identity.get("condition_id"))
    if said is not None:
        return said
    pair = (envelope or {}).get("condition_pair")
    known = [value for value in pair.values() if isinstance(value, str)] if isinstance(pair, dict) else []
    return next((name for name in reversed(evaluated) if name in known), None)


def _success_rate(envelope: Mapping[str, Any] | None, seed: object, condition: str | None) -> float | None:
    """Mean success of the envelope's episodes of a seed; of one condition, because two have nothing in common."""
    episodes = (envelope or {}).get("episode_results")
    if not isinstance(episodes, list):
        return None
    of_seed = [episode for episode in episodes if isinstance(episode, dict) and episode.get("seed") == seed]
    conditions = {_episode_condition(episode) for episode in of_seed}
    if len(conditions) > 1:
        of_seed = [episode for episode in of_seed if _episode_condition(episode) == condition]
    outcomes = [bool(episode["success"]) for episode in of_seed if "success" in episode]
    return sum(outcomes) / len(outcomes) if outcomes else None


def _episode_condition(episode: Mapping[str, Any]) -> str | None:
    metadata = episode.get("metadata")
    return _text_of(metadata.get("condition")) if isinstance(metadata, dict) else None
