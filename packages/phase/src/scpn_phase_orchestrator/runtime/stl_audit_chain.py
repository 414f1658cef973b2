"""Results of signal temporal logic monitors as events of an audit stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from scpn_phase_orchestrator.runtime.audit_stream import AuditStreamEvent, EventStreamWriter

__all__ = ["STL_EVENT_TYPE", "StlAuditResult", "read_stl_results", "write_stl_result"]

STL_EVENT_TYPE = "stl.trace_result"
_FIELDS = {"spec", "robustness", "satisfied", "backend"}


@dataclass(frozen=True)
class StlAuditResult:
    """What a monitor found on one trace.

    Attributes:
        spec: the formula.
        robustness: how far the trace is from changing the verdict; positive when it holds.
        satisfied: the verdict.
        backend: what computed it.

    Raises:
        ValueError: a field is of another type, or the robustness is not finite.
    """

    spec: str
    robustness: float
    satisfied: bool
    backend: str

    def __post_init__(self) -> None:
        for name in ("spec", "backend"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ValueError(f"{name} must be a non-empty string, got {value!r:.80}")
        if isinstance(self.robustness, bool) or not isinstance(self.robustness, Real):
            raise ValueError(f"robustness must be a number, got {self.robustness!r:.80}")  # noqa: TRY004 - documented
        if not math.isfinite(self.robustness):
            raise ValueError(f"robustness must be finite, got {self.robustness!r}: the trace never decides the formula")
        if type(self.satisfied) is not bool:
            raise ValueError(f"satisfied must be a boolean, got {self.satisfied!r:.80}")

    def to_payload(self) -> dict[str, Any]:
        """Give the payload of the event: exactly these four fields."""
        return {
            "spec": self.spec,
            "robustness": float(self.robustness),
            "satisfied": self.satisfied,
            "backend": self.backend,
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> StlAuditResult:
        """Read the payload of an event.

        Raises:
            ValueError: a field is missing, unknown or of another type.
        """
        if set(payload) != _FIELDS:
            raise ValueError(f"an STL result has exactly the fields {sorted(_FIELDS)}, got {sorted(payload)}")
        return cls(**payload)


def write_stl_result(writer: EventStreamWriter, result: StlAuditResult) -> None:
    """Add a result to a stream.

    Raises:
        StorageError: the file system refused.
    """
    writer.write(result.to_payload(), event_type=STL_EVENT_TYPE)


def read_stl_results(events: Iterable[AuditStreamEvent]) -> list[StlAuditResult]:
    """Give the results among the events of a stream, in order.

    Raises:
        ValueError: an event of that type holds something else; names it.
    """
    results: list[StlAuditResult] = []
    for event in events:
        if event.event_type != STL_EVENT_TYPE:
            continue
        try:
            results.append(StlAuditResult.from_payload(event.payload))
        except ValueError as error:
            raise ValueError(f"event {event.sequence}: {error}") from error
    return results
