"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentinputlab.contracts.intent import IntentCheck
from agentinputlab.contracts.lifecycle import CompositeResult
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.serialization import to_jsonable
from agentinputlab.observability import ResourceUsage, TokenCounts

__all__ = ["CompositeRunRecord", "InterventionStatus", "RunRecord"]


class InterventionStatus(StrEnum):
    """What an intervention came to."""

    SUCCESS = "success"
    NO_OP = "no_op"
    FALLBACK = "fallback"
    BUDGET_EXHAUSTED = "budget_exhausted"

    @property
    def meaning(self) -> str:
        """The sentence for the reader."""
        return _MEANINGS[self]

    @classmethod
    def declared(cls, metadata: Mapping[str, Any]) -> InterventionStatus | None:
        """Give the status that a result's metadata claim by a true ``fallback`` or ``budget_exhausted``, or None."""
        if not metadata:
            return None
        for status in (cls.FALLBACK, cls.BUDGET_EXHAUSTED):
            if metadata.get(status.value) is True or metadata.get("status") == status.value:
                return status
        return None


_MEANINGS = {
    InterventionStatus.SUCCESS: "The intervention changed the input.",
    InterventionStatus.NO_OP: "The intervention left the input as it was.",
    InterventionStatus.FALLBACK: "The intervention could not do its own and did what it declares for that case.",
    InterventionStatus.BUDGET_EXHAUSTED: "The intervention stopped early to stay within the budget.",
}


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of an intervention that gave a patch.

    Attributes:
        release_id: what ran.
        input_state_hash: what it ran on.
        output_state_hash: hash of the patched state.
        patch: the patch.
        status: what it came to.
        monitor_run_id: the run in the monitor.
        duration_ms: from start to end.
        usage: what it used, with the processor time of this process.
        intent_check: whether the intent was kept; None without a contract.
        token_counters: identity of a token counter to what it counted, since counters differ.
    """

    release_id: str
    input_state_hash: str
    output_state_hash: str
    patch: InputPatch
    status: InterventionStatus
    monitor_run_id: str
    duration_ms: float
    usage: ResourceUsage
    intent_check: IntentCheck | None = None
    token_counters: Mapping[str, TokenCounts] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        """Give the record as JSON values, with the hash of the patch."""
        return {
            **to_jsonable(self),
            "patch": self.patch.as_dict(),
            "patch_hash": self.patch.patch_hash,
            "usage": self.usage.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class CompositeRunRecord:
    """One run of a composite intervention that gave an answer.

    Attributes:
        release_id: what ran.
        input_state_hash: what it ran on.
        result: the answer.
        status: what it came to.
        monitor_run_id: the run in the monitor.
        duration_ms: from start to end.
        usage: what it used, with the processor time of this process.
        token_counters: identity of a token counter to what it counted.
    """

    release_id: str
    input_state_hash: str
    result: CompositeResult
    status: InterventionStatus
    monitor_run_id: str
    duration_ms: float
    usage: ResourceUsage
    token_counters: Mapping[str, TokenCounts] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        """Give the record as JSON values, with the hash of the result."""
        return {
            **to_jsonable(self),
            "result": self.result.as_dict(),
            "result_hash": self.result.result_hash,
            "usage": self.usage.as_dict(),
        }
