"""Why the supervisor acted: a report on an audit log for people, as Markdown or PDF."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ripieno._printable import printable
from ripieno.chain import Entry
from ripieno.files import write_atomic
from scpn_phase_orchestrator.reporting._pdf import text_pdf
from scpn_phase_orchestrator.runtime._audit_check import LogCheck, check_log
from scpn_phase_orchestrator.runtime._audit_lines import RecordKind, record_kind

__all__ = [
    "ActionExplanation",
    "EventNote",
    "ExplainabilityReport",
    "MetricEvidence",
    "RegimeTransition",
    "build_explainability_report",
    "render_markdown",
    "write_markdown",
    "write_pdf",
]

MAX_EVENTS = 12
MAX_TRANSITIONS = 100
TITLE = "Why the supervisor acted"
_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")
_MEASURED = re.compile(r"=[^=\s]+(?= outside \[)")
_RECORD_KEYS = ("event", "step", "ts")


@dataclass(frozen=True)
class MetricEvidence:
    """How one metric went over the run."""

    name: str
    mean: float
    final: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class RegimeTransition:
    """A step at which the regime changed."""

    step: int
    before: str
    after: str


@dataclass(frozen=True)
class ActionExplanation:
    """One action, its reason, and what the supervisor saw.

    Attributes:
        step: when.
        knob: what was turned.
        value: by how much.
        scope: where.
        ttl_s: for how long, in s.
        regime: the regime that was decided in that step.
        reason: as the supervisor gave it.
        evidence: coherence after the step.
    """

    step: int
    knob: str
    value: float
    scope: str
    ttl_s: float
    regime: str
    reason: str
    evidence: str


@dataclass(frozen=True)
class EventNote:
    """One event, or several of one boundary in steps without a break.

    Attributes:
        step: the step, the first one of several; ``None`` without.
        name: name of the event.
        detail: its other fields as text, of the first event of several.
        count: how many there were, one in each step.
    """

    step: int | None
    name: str
    detail: str
    count: int = 1

    @property
    def step_after(self) -> int | None:
        """The step after the last one."""
        return None if self.step is None else self.step + self.count


@dataclass(frozen=True)
class ExplainabilityReport:
    """What `build_explainability_report` found; the lists are the first ones, the counts are of all."""

    name: str
    steps: int
    final_regime: str
    final_stability: float
    status: str
    problem: str
    records: int
    metrics: Sequence[MetricEvidence]
    regime_counts: Mapping[str, int]
    transitions: Sequence[RegimeTransition]
    transition_count: int
    actions: Sequence[ActionExplanation]
    action_count: int
    events: Sequence[EventNote]
    event_count: int


def build_explainability_report(path: Path | str, *, max_actions: int = 12) -> ExplainabilityReport:
    """Explain the actions in an audit log, read once in memory that does not grow with it.

    Args:
        path: the log; of one that does not hold, the lines before the first bad one are used, and the report says so.
        max_actions: actions to explain, from the first on.

    Raises:
        ValueError: ``max_actions`` is below 1, the log has no step records, or the keys are unusable.
        IntegrityError: the path is no regular file.
        OSError: it cannot be read.
    """
    if type(max_actions) is not int or max_actions < 1:
        raise ValueError(f"max_actions must be >= 1, got {max_actions!r}")
    reader = _Reader(max_actions)
    check = check_log(path, visit=reader.take)
    if not reader.steps:
        raise ValueError("no step records in log")
    return reader.report(check)


class _Range:
    """Mean, last, smallest and largest of a series."""

    def __init__(self) -> None:
        self.count, self.total, self.last = 0, 0.0, 0.0
        self.minimum, self.maximum = float("inf"), float("-inf")

    def add(self, value: float) -> None:
        self.count, self.total, self.last = self.count + 1, self.total + value, value
        self.minimum, self.maximum = min(self.minimum, value), max(self.maximum, value)

    def evidence(self, name: str) -> MetricEvidence:
        return MetricEvidence(name, self.total / self.count, self.last, self.minimum, self.maximum)


class _Reader:
    """Collects what the report needs, record by record."""

    def __init__(self, max_actions: int) -> None:
        self._max_actions = max_actions
        self.steps = 0
        self._name = ""
        self._ranges: dict[str, _Range] = {}
        self._regimes: Counter[str] = Counter()
        self._regime = ""
        self._transitions: list[RegimeTransition] = []
        self._transition_count = 0
        self._actions: list[ActionExplanation] = []
        self._action_count = 0
        self._events: list[EventNote] = []
        self._breaches: dict[str, int] = {}

    def take(self, entry: Entry) -> None:
        record = entry.payload
        kind = record_kind(record)
        if kind is RecordKind.HEADER:
            binding = record.get("binding_config")
            self._name = str(binding.get("name", "")) if isinstance(binding, Mapping) else ""
            self._regime = ""
        elif kind is RecordKind.STEP:
            self._take_step(record)
        elif kind is RecordKind.EVENT:
            self._take_event(record)

    def _take_event(self, record: Mapping[str, Any]) -> None:
        fields = {key: record[key] for key in record if key not in _RECORD_KEYS and not key.startswith("_")}
        detail = ", ".join(f"{key}={value}" for key, value in fields.items())
        step = record.get("step") if type(record.get("step")) is int else None
        name = str(record["event"])
        if name == "boundary_breach" and step is not None:
            # The measured value differs from step to step; what the boundary says around it does not.
            boundary = _MEASURED.sub("", detail, count=1)
            place = self._breaches.get(boundary)
            if place is not None and self._events[place].step_after == step:
                self._events[place] = replace(self._events[place], count=self._events[place].count + 1)
                return
            if len(self._events) < MAX_EVENTS:
                self._breaches[boundary] = len(self._events)
        if len(self._events) < MAX_EVENTS:
            self._events.append(EventNote(step, name, detail))

    def _take_step(self, record: Mapping[str, Any]) -> None:
        step, before = record["step"], str(record["regime"])
        after = str(record.get("regime_decided", before))
        self.steps += 1
        self._regimes[before] += 1
        values = {f"R of layer {index}": float(layer["R"]) for index, layer in enumerate(record.get("layers", ()))}
        values["stability"] = float(record.get("stability", 0.0))
        for name, value in values.items():
            self._ranges.setdefault(name, _Range()).add(value)
        for old, new in ((self._regime, before), (before, after)):
            if old and old != new:
                self._transition_count += 1
                if len(self._transitions) < MAX_TRANSITIONS:
                    self._transitions.append(RegimeTransition(step, old, new))
        self._regime = after
        evidence = ", ".join(f"{name} = {value:.4f}" for name, value in values.items())
        for action in record.get("actions", ()):
            self._action_count += 1
            if len(self._actions) < self._max_actions:
                self._actions.append(_explained(action, step, after, evidence))

    def report(self, check: LogCheck) -> ExplainabilityReport:
        return ExplainabilityReport(
            name=self._name,
            steps=self.steps,
            final_regime=self._regime,
            final_stability=self._ranges["stability"].last,
            status=check.status.value,
            problem=check.problem,
            records=check.records,
            metrics=[found.evidence(name) for name, found in self._ranges.items()],
            regime_counts=dict(sorted(self._regimes.items())),
            transitions=self._transitions,
            transition_count=self._transition_count,
            actions=self._actions,
            action_count=self._action_count,
            events=self._events,
            event_count=check.counts.get(RecordKind.EVENT, 0),
        )


def _explained(action: Mapping[str, Any], step: int, regime: str, evidence: str) -> ActionExplanation:
    return ActionExplanation(
        step=step,
        knob=str(action["knob"]),
        value=float(action["value"]),
        scope=str(action["scope"]),
        ttl_s=float(action["ttl_s"]),
        regime=regime,
        reason=str(action["justification"]),
        evidence=evidence,
    )


def _sections(report: ExplainabilityReport) -> list[tuple[str, list[str]]]:
    """Give the headings and the lines below them, as plain text."""
    integrity = f"FAILED after {report.records} records: {report.problem}" if report.problem else "holds"
    summary = [
        f"Run: {report.name or 'unnamed'}",
        f"Steps: {report.steps}",
        f"Final regime: {report.final_regime}",
        f"Final stability: {report.final_stability:.4f}",
        f"Control actions: {report.action_count}",
        f"Log: {report.status}; the hash chain of {report.records} records {integrity}",
    ]
    metrics = [
        f"{metric.name}: mean {metric.mean:.4f}, final {metric.final:.4f}, min {metric.minimum:.4f}, "
        f"max {metric.maximum:.4f}"
        for metric in report.metrics
    ]
    regimes = [
        f"{regime}: {count} steps ({100 * count / report.steps:.1f}%)" for regime, count in report.regime_counts.items()
    ]
    transitions = [f"step {change.step}: {change.before} to {change.after}" for change in report.transitions]
    actions = [
        f"step {action.step}: {action.knob}={action.value:g}, scope {action.scope}, ttl {action.ttl_s:g} s, "
        f"regime {action.regime}; reason: {action.reason}; evidence: {action.evidence}"
        for action in report.actions
    ]
    events = [_event_text(event) for event in report.events]
    return [
        ("Summary", summary),
        ("Metric Evidence", metrics),
        ("Regime Distribution", regimes),
        ("Regime Transitions", _or_none(transitions, report.transition_count)),
        (
            "Control Action Explanations",
            _or_none(actions, report.action_count, f"; --max-actions {report.action_count} explains all"),
        ),
        ("Events", _or_none(events, report.event_count - sum(event.count - 1 for event in report.events))),
    ]


def _event_text(event: EventNote) -> str:
    step = "" if event.step is None else f" at step {event.step}"
    if event.step is not None and event.count > 1:
        step = f" at each step from {event.step} to {event.step + event.count - 1}, at first"
    return f"{event.name}{step}: {event.detail}" if event.detail else f"{event.name}{step}"


def _or_none(lines: list[str], count: int, how_to_see: str = "") -> list[str]:
    if not lines:
        return ["none"]
    return [*lines, f"and {count - len(lines)} more{how_to_see}"] if count > len(lines) else lines


def render_markdown(report: ExplainabilityReport) -> str:
    """Give the report as Markdown; text from the log is escaped, so that it is shown and never interpreted."""
    lines = [f"# {TITLE}"]
    for heading, items in _sections(report):
        lines += ["", f"## {heading}", "", *(f"- {_escaped(item)}" for item in items)]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", printable(text)).replace("&", "&amp;").replace("<", "&lt;")


def write_markdown(report: ExplainabilityReport, path: Path | str) -> None:
    """Write the report as a Markdown file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    write_atomic(path, render_markdown(report).encode())


def write_pdf(report: ExplainabilityReport, path: Path | str) -> None:
    """Write the report as a PDF file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    lines = [TITLE]
    for heading, items in _sections(report):
        lines += ["", heading, *(f"- {item}" for item in items)]
    write_atomic(path, text_pdf(lines))
