"""What an intervention found, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentinputlab.contracts._checks import Record, finite, frozen, put, text
from agentinputlab.contracts.enums import EvidenceKind
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.state import ContextBlock

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True)
class Evidence(Record):
    """One piece of evidence.

    Attributes:
        kind: a retrieved document, a text that a model made up in its place, or what a tool answered.
        text: its text; not empty.
        evidence_id: its name, such as a document id.
        source: where it comes from.
        score: how relevant it was found, or None.
        metadata: JSON values.
    """

    kind: EvidenceKind
    text: str
    evidence_id: str = ""
    source: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not text(self.text, "Evidence.text", blank=True):
            raise ValidationError("Evidence.text must not be empty")
        text(self.evidence_id, "Evidence.evidence_id", blank=True)
        text(self.source, "Evidence.source", blank=True)
        if self.score is not None:
            finite(self.score, "Evidence.score")
        put(self, kind=EvidenceKind(self.kind), metadata=frozen(self.metadata, "Evidence.metadata"))

    def as_block(self) -> ContextBlock:
        """Give the evidence as a context block whose metadata says its kind."""
        return ContextBlock(
            self.text,
            block_id=self.evidence_id,
            source=self.source,
            score=self.score,
            metadata={**self.metadata, "evidence_kind": self.kind.value},
        )
