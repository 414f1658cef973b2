"""Runs as they happen: events for sinks, and the state of every run at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import RLock
from typing import Any
from uuid import uuid4

from agentinputlab.contracts._checks import digest, frozen, text, whole
from agentinputlab.contracts.errors import (
    AgentInputLabError,
    BudgetExceededError,
    IntentViolationError,
    ValidationError,
)
from agentinputlab.contracts.serialization import freeze_mapping, to_jsonable
from agentinputlab.observability.events import EventKind, EventSink, MonitorEvent, RunStatus
from agentinputlab.observability.redaction import redact
from agentinputlab.observability.resources import ResourceReceipt
from agentinputlab.observability.usage import UNREPORTED_TOKEN_COUNTER, ResourceUsage

__all__ = ["RunMonitor", "RunSnapshot", "TokenCounts"]

_MESSAGE_CHARACTERS = 500

CPU_SECONDS_DECIMALS = 4
"""Processor time is recorded to a tenth of a millisecond; what lies below is noise of the clock and of neighbours."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens that one counter counted."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run at one moment.

    Attributes:
        run_id: the run.
        release_id: what runs.
        state_hash: what it runs on.
        tags: JSON values that the caller gave.
        status: how it stands.
        started_at: when it began, as ISO 8601 in UTC.
        duration_ms: time since then, or until its end.
        usage: what it used so far; the processor time of this process is added when it ends.
        token_counters: identity of a token counter to what it counted, since counters differ.
        failures: what went wrong: type of the error, and the message of our own errors.
        receipts: what programs outside took.
        event_count: how many events it has told.
    """

    run_id: str
    release_id: str
    state_hash: str
    tags: Mapping[str, Any]
    status: RunStatus
    started_at: str
    duration_ms: float = 0.0
    usage: ResourceUsage = field(default_factory=ResourceUsage)
    token_counters: Mapping[str, TokenCounts] = field(default_factory=dict[str, Any])
    failures: tuple[Mapping[str, Any], ...] = ()
    receipts: tuple[ResourceReceipt, ...] = ()
    event_count: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Give the snapshot as JSON values."""
        return {**to_jsonable(self), "usage": self.usage.as_dict()}


@dataclass(slots=True)
class _Run:
    """A run as it goes on; `snapshot` says how it stands."""

    run_id: str
    release_id: str
    state_hash: str
    tags: Mapping[str, Any]
    started_at: str
    started_seconds: float
    started_cpu_seconds: float
    status: RunStatus = RunStatus.RUNNING
    duration_ms: float = 0.0
    used: ResourceUsage | None = None
    token_counters: Mapping[str, TokenCounts] = field(default_factory=dict[str, TokenCounts])
    failures: tuple[Mapping[str, Any], ...] = ()
    receipts: tuple[ResourceReceipt, ...] = ()
    event_count: int = 0

    @property
    def is_running(self) -> bool:
        return self.status is RunStatus.RUNNING

    @property
    def usage(self) -> ResourceUsage:
        """What it used; most runs use nothing until their end."""
        return ResourceUsage() if self.used is None else self.used

    def elapsed_ms(self) -> float:
        """Time since it began, or until its end."""
        return 1e3 * (time.monotonic() - self.started_seconds) if self.is_running else self.duration_ms

    def snapshot(self) -> RunSnapshot:
        return RunSnapshot(
            self.run_id,
            self.release_id,
            self.state_hash,
            self.tags,
            self.status,
            self.started_at,
            self.elapsed_ms(),
            self.usage,
            self.token_counters,
            self.failures,
            self.receipts,
            self.event_count,
        )


class RunMonitor:
    """Watches runs; all methods may be called from any thread.

    Args:
        sinks: functions that get every event, in order. An error of a sink is not hidden: it reaches the run.
        keep_runs: how many ended runs `snapshot` and `list_snapshots` remember.

    Examples:
        >>> monitor = RunMonitor()
        >>> with monitor.run_scope("baseline.no_op", "0" * 64) as run_id:
        ...     monitor.record_usage(run_id, ResourceUsage(retrieval_calls=1))
        >>> monitor.snapshot(run_id).status.value
        'succeeded'
    """

    def __init__(self, *, sinks: Iterable[EventSink] = (), keep_runs: int = 1024) -> None:
        self._sinks = tuple(sinks)
        self._keep_runs = whole(keep_runs, "keep_runs", minimum=1)
        self._lock = RLock()
        self._runs: dict[str, _Run] = {}
        self._ended: deque[str] = deque()

    @contextmanager
    def run_scope(self, release_id: str, state_hash: str, tags: Mapping[str, Any] | None = None) -> Generator[str]:
        """Open a run and end it with the block; the error that leaves the block decides its status.

        Args:
            release_id: what runs.
            state_hash: what it runs on.
            tags: JSON values to find the run by.

        Yields:
            The id of the run.
        """
        text(release_id, "release_id")
        digest(state_hash, "state_hash")
        kept = frozen(redact(frozen(tags, "tags")) if tags else {}, "tags")
        run_id = uuid4().hex
        with self._lock:
            self._runs[run_id] = _Run(
                run_id, release_id, state_hash, kept, _now(), time.monotonic(), time.process_time()
            )
        try:
            self._tell(
                run_id,
                EventKind.RUN_STARTED,
                lambda: {"release_id": release_id, "state_hash": state_hash, "tags": kept},
            )
            yield run_id
        except BaseException as error:
            if self._is_running(run_id):
                try:
                    self.record_failure(run_id, error)
                finally:  # the run has ended even when a sink refuses to hear of it
                    self.finish_run(run_id, _status_of(error))
            raise
        if self._is_running(run_id):
            self.finish_run(run_id, RunStatus.SUCCEEDED)

    @contextmanager
    def stage(self, run_id: str, name: str) -> Generator[None]:
        """Tell when a part of a run begins and ends."""
        text(name, "name")
        self._tell(run_id, EventKind.STAGE_STARTED, lambda: {"stage": name})
        started = time.monotonic()
        succeeded = False
        try:
            yield
            succeeded = True
        finally:
            duration_ms = 1e3 * (time.monotonic() - started)
            self._tell(
                run_id,
                EventKind.STAGE_FINISHED,
                lambda: {"stage": name, "duration_ms": duration_ms, "succeeded": succeeded},
            )

    def emit(self, run_id: str, kind: EventKind | str, payload: Mapping[str, Any] | None = None) -> MonitorEvent:
        """Tell the sinks an event; what looks like a secret is redacted before.

        Raises:
            ValidationError: the run or the kind is not known, or the payload holds more than JSON values.
        """
        try:
            kind = EventKind(kind)
            clean = freeze_mapping(redact(payload or {}))
        except (TypeError, ValueError) as error:
            raise ValidationError(f"event {str(kind)!r:.80}: {error}") from error
        with self._lock:  # held while the sinks listen, so that they hear events in order
            event = MonitorEvent(run_id, self._next_sequence(run_id), kind, _now(), clean)
            for sink in self._sinks:
                sink(event)
            return event

    def record_usage(
        self, run_id: str, usage: ResourceUsage, *, source: str = "", token_counter: str = UNREPORTED_TOKEN_COUNTER
    ) -> None:
        """Add what a call used.

        Args:
            run_id: the run.
            usage: what the call used.
            source: who made it, such as ``backend``.
            token_counter: identity of what counted its tokens.
        """
        with self._lock:
            run = self._running(run_id)
            counters = run.token_counters
            if usage.input_tokens or usage.output_tokens:
                so_far = counters.get(token_counter, TokenCounts())
                counted = TokenCounts(
                    so_far.input_tokens + usage.input_tokens, so_far.output_tokens + usage.output_tokens
                )
                counters = {**counters, token_counter: counted}
            run.used = run.usage + usage
            run.token_counters = counters
            self._tell(
                run_id,
                EventKind.USAGE_RECORDED,
                lambda: {
                    "source": source,
                    "usage": {name: amount for name, amount in usage.as_dict().items() if amount},
                    "token_counter": token_counter,
                },
            )

    def record_failure(self, run_id: str, error: BaseException) -> None:
        """Record what went wrong. Only errors of Input lab give their message; others may quote what users wrote."""
        failure: dict[str, Any] = {"exception_type": type(error).__name__, "category": _status_of(error).value}
        if isinstance(error, AgentInputLabError):
            failure["message"] = str(error)[:_MESSAGE_CHARACTERS]
        failure = redact(failure)
        with self._lock:
            run = self._running(run_id)
            run.failures = (*run.failures, freeze_mapping(failure))
            if isinstance(error, BudgetExceededError):
                self._tell(run_id, EventKind.BUDGET_EXCEEDED, lambda: failure)
            self._tell(run_id, EventKind.FAILURE_RECORDED, lambda: failure)

    def record_resource_receipt(self, run_id: str, receipt: ResourceReceipt) -> None:
        """Record what a program outside took; its usage counts through `record_usage`."""
        with self._lock:
            run = self._running(run_id)
            run.receipts = (*run.receipts, receipt)
            self._tell(run_id, EventKind.RESOURCE_RECEIPT_RECORDED, receipt.as_dict)

    def cpu_seconds(self, run_id: str) -> float:
        """Give the processor time of this process since the run began; runs side by side share it."""
        with self._lock:
            elapsed = time.process_time() - self._run(run_id).started_cpu_seconds
            return max(0.0, round(elapsed, CPU_SECONDS_DECIMALS))

    def finish_run(self, run_id: str, status: RunStatus | str) -> RunSnapshot:
        """End a run and add the processor time of this process to its usage.

        Raises:
            ValidationError: the run is not known or has ended, or the status is not one of an end.
        """
        try:
            status = RunStatus(status)
        except ValueError as error:
            raise ValidationError(f"status: {error}") from error
        if status is RunStatus.RUNNING:
            raise ValidationError("status must be one of an ended run, got 'running'")
        with self._lock:
            run = self._running(run_id)
            own = ResourceUsage(cpu_seconds=self.cpu_seconds(run_id))
            run.used = own if run.used is None else run.used + own
            run.duration_ms = run.elapsed_ms()
            run.status = status  # ended before the sinks hear of it, whatever they do
            self._tell(
                run_id,
                EventKind.RUN_FINISHED,
                lambda: {"status": status, "duration_ms": run.duration_ms, "usage": run.usage.as_dict()},
            )
            self._ended.append(run_id)
            if len(self._ended) > self._keep_runs:
                del self._runs[self._ended.popleft()]
            return run.snapshot()

    def snapshot(self, run_id: str) -> RunSnapshot:
        """Give a run as it is now.

        Raises:
            ValidationError: the run is not known, or it is forgotten.
        """
        with self._lock:
            return self._run(run_id).snapshot()

    def list_snapshots(self) -> tuple[RunSnapshot, ...]:
        """Give all runs that are remembered, in the order in which they began."""
        with self._lock:
            return tuple(self.snapshot(run_id) for run_id in self._runs)

    def _tell(self, run_id: str, kind: EventKind, payload: Callable[[], Mapping[str, Any]]) -> None:
        """Emit an event of our own; without sinks it is only counted, and its payload not made."""
        if self._sinks:
            self.emit(run_id, kind, payload())
            return
        with self._lock:
            self._run(run_id).event_count += 1

    def _is_running(self, run_id: str) -> bool:
        with self._lock:
            run = self._runs.get(run_id)
            return run is not None and run.is_running

    def _next_sequence(self, run_id: str) -> int:
        run = self._run(run_id)
        run.event_count += 1
        return run.event_count

    def _run(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            raise ValidationError(f"run {run_id!r:.80} is not known to this monitor")
        return self._runs[run_id]

    def _running(self, run_id: str) -> _Run:
        run = self._run(run_id)
        if not run.is_running:
            raise ValidationError(f"run {run_id} has ended ({run.status})")
        return run


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _status_of(error: BaseException) -> RunStatus:
    if isinstance(error, BudgetExceededError):
        return RunStatus.BUDGET_EXHAUSTED
    if isinstance(error, IntentViolationError):
        return RunStatus.INTENT_REJECTED
    return RunStatus.FAILED if isinstance(error, Exception) else RunStatus.CANCELLED
