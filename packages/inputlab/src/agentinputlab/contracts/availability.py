"""Whether a release can run here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentinputlab.contracts._checks import Record, flag, frozen, put, text
from agentinputlab.contracts.enums import RunnerKind
from agentinputlab.contracts.errors import ValidationError

__all__ = ["RuntimeProbe"]


@dataclass(frozen=True, slots=True)
class RuntimeProbe(Record):
    """What a look at this machine says about one release.

    Attributes:
        release_id: the release.
        runner_kind: what it needs.
        available: whether it can run here and now.
        reason: why not; not blank when it cannot.
        details: what was found, JSON values.
    """

    release_id: str
    runner_kind: RunnerKind
    available: bool
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        text(self.release_id, "RuntimeProbe.release_id")
        flag(self.available, "RuntimeProbe.available")
        text(self.reason, "RuntimeProbe.reason", blank=True)
        if not self.available and not self.reason.strip():
            raise ValidationError(f"RuntimeProbe.reason of {self.release_id} must say why it is not available")
        put(
            self,
            runner_kind=RunnerKind(self.runner_kind),
            details=frozen(self.details, "RuntimeProbe.details"),
        )
