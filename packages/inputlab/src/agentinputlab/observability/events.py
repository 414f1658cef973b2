"""What a monitor tells its sinks, and the sink that writes a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from agentinputlab.contracts.serialization import to_jsonable
from ripieno.canonical import canonical_json

__all__ = ["EventKind", "EventSink", "JsonlEventSink", "MonitorEvent", "RunStatus"]


class EventKind(StrEnum):
    """What happened."""

    RUN_STARTED = "run_started"
    RUN_FINISHED = "run_finished"
    STAGE_STARTED = "stage_started"
    STAGE_FINISHED = "stage_finished"
    USAGE_RECORDED = "usage_recorded"
    BUDGET_EXCEEDED = "budget_exceeded"
    INTENT_CHECKED = "intent_checked"
    FAILURE_RECORDED = "failure_recorded"
    RESOURCE_RECEIPT_RECORDED = "resource_receipt_recorded"


class RunStatus(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"
    INTENT_REJECTED = "intent_rejected"

    @property
    def meaning(self) -> str:
        """The sentence for the reader."""
        return _MEANINGS[self]


_MEANINGS = {
    RunStatus.RUNNING: "The run has not ended.",
    RunStatus.SUCCEEDED: "The run gave a result within its budget.",
    RunStatus.FAILED: "The run ended with an error.",
    RunStatus.CANCELLED: "The run was stopped from outside.",
    RunStatus.BUDGET_EXHAUSTED: "The run wanted or used more than its budget: raise the cap or call less.",
    RunStatus.INTENT_REJECTED: "The patch lost or invented something that the intent contract names.",
}


@dataclass(frozen=True, slots=True)
class MonitorEvent:
    """One event of one run.

    Attributes:
        run_id: the run.
        sequence: number of the event within its run, from 1.
        kind: what happened.
        at: when, as ISO 8601 in UTC.
        payload: JSON values, free of what looks like a secret.
    """

    run_id: str
    sequence: int
    kind: EventKind
    at: str
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        """Give the event as JSON values."""
        return to_jsonable(self)


EventSink = Callable[[MonitorEvent], None]
"""Gets every event in order; an error it raises ends the run that the event belongs to."""


class JsonlEventSink:
    """Appends every event to a file, one canonical JSON line each; closed by `close` or as a context manager.

    A line is written in one piece, so several sinks may share a file. A file that does not exist is made, readable for
    its owner only.

    Args:
        path: the file.

    Raises:
        OSError: the file cannot be opened; a link is not followed.
    """

    def __init__(self, path: Path | str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._stream = os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0)
        self._lock = Lock()

    def __call__(self, event: MonitorEvent) -> None:
        """Write one event.

        Raises:
            OSError: the file system refuses the line.
        """
        rest = memoryview(canonical_json(event.as_dict()) + b"\n")
        with self._lock:
            while rest:
                rest = rest[self._stream.write(rest) :]

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> JsonlEventSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
