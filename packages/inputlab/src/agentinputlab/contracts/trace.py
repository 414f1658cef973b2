"""What an intervention did, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentinputlab.contracts._checks import Record, entries, exact_fields, finite, frozen, member, put, text, texts
from agentinputlab.contracts.enums import TracePhase
from agentinputlab.contracts.serialization import content_hash, to_jsonable

__all__ = ["ExecutionTrace", "TraceEvent"]


@dataclass(frozen=True, slots=True)
class TraceEvent(Record):
    """One thing that happened: phase, name, and JSON values about it."""

    phase: TracePhase
    name: str
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        text(self.name, "TraceEvent.name")
        put(self, phase=member(self.phase, TracePhase), payload=frozen(self.payload, "TraceEvent.payload"))

    @classmethod
    def from_dict(cls, value: object) -> TraceEvent:
        """Give the event that a mapping describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        mapping = exact_fields(value, "trace event", allowed=("phase", "name", "payload"), required=("phase", "name"))
        return cls(**mapping)


@dataclass(frozen=True, slots=True)
class ExecutionTrace(Record):
    """What one run of a release did.

    Attributes:
        method_id: the method.
        release_id: the release of it.
        events: what happened, in order.
        counters: what the intervention counted itself (``model_calls``, ``input_tokens``, ...), each >= 0.
        warnings: what a reader should know.
    """

    method_id: str
    release_id: str
    events: tuple[TraceEvent, ...] = ()
    counters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        text(self.method_id, "ExecutionTrace.method_id")
        text(self.release_id, "ExecutionTrace.release_id")
        counters = frozen(self.counters, "ExecutionTrace.counters")
        for name, count in counters.items():
            finite(count, f"ExecutionTrace.counters[{name!r}]", minimum=0)
        put(
            self,
            events=entries(self.events, "ExecutionTrace.events", TraceEvent),
            counters=counters,
            warnings=texts(self.warnings, "ExecutionTrace.warnings"),
        )

    @classmethod
    def from_dict(cls, value: object) -> ExecutionTrace:
        """Give the trace that a mapping, such as `as_dict`, describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        names = ("method_id", "release_id", "events", "counters", "warnings")
        mapping = dict(exact_fields(value, "trace", allowed=names, required=names[:2]))
        rows: tuple[object, ...] = entries(mapping.get("events", ()), "trace.events", object)
        mapping["events"] = tuple(TraceEvent.from_dict(row) for row in rows)
        return cls(**mapping)

    def append(self, event: TraceEvent) -> ExecutionTrace:
        """Give the trace with one more event."""
        return replace(self, events=(*self.events, event))

    def as_dict(self) -> dict[str, Any]:
        """Give the trace as JSON values."""
        return to_jsonable(self)

    @property
    def trace_hash(self) -> str:
        """The content hash of `as_dict`."""
        return content_hash(self)
