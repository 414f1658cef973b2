"""The hook that may rewrite the history an agent sees before each of its calls, within the budget of its arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from agentinputlab.contracts._checks import entries, exact_fields, frozen, put
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.observability.usage import ResourceUsage, normalize_external_usage

__all__ = ["LiveHistoryResult", "LiveHistoryTransform", "RemainingBudget"]


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """What an arm has left; None means no cap.

    Attributes:
        model_calls: calls of a language model.
        output_tokens: generated tokens.
        context_tokens: input tokens over all calls.
    """

    model_calls: int | None
    output_tokens: int | None
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LiveHistoryResult:
    """A rewritten history and what rewriting it used.

    Attributes:
        messages: the history, one JSON object a message.
        usage: what was used; tools and retrieval are not allowed.
    """

    messages: tuple[Mapping[str, Any], ...]
    usage: ResourceUsage = field(default_factory=ResourceUsage)

    def __post_init__(self) -> None:
        rows: tuple[object, ...] = entries(self.messages, "LiveHistoryResult.messages", object)
        put(
            self,
            messages=tuple(frozen(row, f"LiveHistoryResult.messages[{index}]") for index, row in enumerate(rows)),
        )
        if not isinstance(cast("object", self.usage), ResourceUsage):
            raise ValidationError(f"LiveHistoryResult.usage must be a ResourceUsage, got {type(self.usage).__name__}")
        for name in ("tool_calls", "retrieval_calls"):
            if getattr(self.usage, name):
                raise ValidationError(f"LiveHistoryResult.usage.{name} must be 0: the hook may not use them")

    @classmethod
    def from_dict(cls, value: object) -> LiveHistoryResult:
        """Give the result that a hook describes as ``{messages, usage}``.

        Raises:
            ValidationError: a field is unknown, missing or wrong; it is named.
        """
        mapping = exact_fields(value, "live history", allowed=("messages", "usage"), required=("messages", "usage"))
        return cls(messages=mapping["messages"], usage=normalize_external_usage(mapping["usage"]))


@runtime_checkable
class LiveHistoryTransform(Protocol):
    """Rewrites the history of an agent; only the texts of the system and of the first user message may change.

    Every other message that is kept is an original one, in order, and every tool call keeps its result. The arena
    checks it.
    """

    def transform(
        self, messages: Sequence[Mapping[str, Any]], *, state: FrozenAgentState, remaining_budget: RemainingBudget
    ) -> Mapping[str, Any]:
        """Give ``{messages, usage}``, which `LiveHistoryResult.from_dict` reads."""
        ...

    def fingerprint(self) -> str:
        """Give an identity that changes whenever results may change."""
        ...
