"""Limits of a program that runs outside, and the receipt for what it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, cast

from agentinputlab.contracts._checks import finite, flag, text, whole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.observability.usage import ResourceUsage

__all__ = ["ResourceLimits", "ResourceReceipt"]


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What a program outside may take; None means no limit.

    Attributes:
        wall_timeout_seconds: time after which it and its children are killed.
        memory_bytes: memory.
        cpus: processors, such as 1.5.
        pids_limit: processes and threads.
    """

    wall_timeout_seconds: float = 300.0
    memory_bytes: int | None = None
    cpus: float | None = None
    pids_limit: int | None = None

    def __post_init__(self) -> None:
        if finite(self.wall_timeout_seconds, "ResourceLimits.wall_timeout_seconds") <= 0:
            raise ValidationError(
                f"ResourceLimits.wall_timeout_seconds must be positive, got {self.wall_timeout_seconds!r}"
            )
        if self.memory_bytes is not None:
            whole(self.memory_bytes, "ResourceLimits.memory_bytes", minimum=1)
        if self.cpus is not None and finite(self.cpus, "ResourceLimits.cpus") <= 0:
            raise ValidationError(f"ResourceLimits.cpus must be positive, got {self.cpus!r}")
        if self.pids_limit is not None:
            whole(self.pids_limit, "ResourceLimits.pids_limit", minimum=1)


@dataclass(frozen=True, slots=True)
class ResourceReceipt:
    """What one program outside took.

    Attributes:
        supervisor: who ran it, such as ``local-subprocess``.
        limits: what it was allowed.
        exit_code: its exit code, negative for a signal; None when it was not there to ask.
        wall_seconds: from start to end.
        cpu_seconds: processor time of it and of the children it waited for; None when unknown.
        peak_memory_bytes: largest resident memory; None when unknown.
        timed_out: it was killed at `ResourceLimits.wall_timeout_seconds`.
    """

    supervisor: str
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    exit_code: int | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    timed_out: bool = False

    def __post_init__(self) -> None:
        text(self.supervisor, "ResourceReceipt.supervisor")
        if not isinstance(cast("object", self.limits), ResourceLimits):
            raise ValidationError(f"ResourceReceipt.limits must be ResourceLimits, got {type(self.limits).__name__}")
        finite(self.wall_seconds, "ResourceReceipt.wall_seconds", minimum=0)
        if self.cpu_seconds is not None:
            finite(self.cpu_seconds, "ResourceReceipt.cpu_seconds", minimum=0)
        if self.peak_memory_bytes is not None:
            whole(self.peak_memory_bytes, "ResourceReceipt.peak_memory_bytes")
        flag(self.timed_out, "ResourceReceipt.timed_out")

    @property
    def usage(self) -> ResourceUsage:
        """The part that adds up with other usage."""
        return ResourceUsage(cpu_seconds=self.cpu_seconds or 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Give the receipt as JSON values."""
        return asdict(self)
