"""What an agent can see before it acts: a frozen state that its hash names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agentinputlab.contracts._checks import (
    Hashed,
    Record,
    entries,
    exact_fields,
    finite,
    frozen,
    load,
    optional_text,
    put,
    text,
    texts,
    whole,
)
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import to_jsonable

__all__ = ["ContextBlock", "ExecutionBudget", "FrozenAgentState", "Message"]


@dataclass(frozen=True, slots=True)
class Message(Record):
    """One message of a conversation.

    Attributes:
        role: who speaks; not blank.
        content: what was said; may be empty.
        name: name of the speaker, where the role has several.
    """

    role: str
    content: str
    name: str | None = None

    def __post_init__(self) -> None:
        text(self.role, "Message.role")
        text(self.content, "Message.content", blank=True)
        optional_text(self.name, "Message.name")

    @classmethod
    def from_dict(cls, value: object) -> Message:
        """Give the message that a mapping describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        return load(cls, value, "message")


@dataclass(frozen=True, slots=True)
class ContextBlock(Record):
    """One piece of context.

    Attributes:
        text: the piece; not empty.
        block_id: its name.
        source: where it comes from.
        score: how relevant it was found, or None.
        metadata: JSON values.
    """

    text: str
    block_id: str = ""
    source: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not text(self.text, "ContextBlock.text", blank=True):
            raise ValidationError("ContextBlock.text must not be empty")
        text(self.block_id, "ContextBlock.block_id", blank=True)
        text(self.source, "ContextBlock.source", blank=True)
        if self.score is not None:
            finite(self.score, "ContextBlock.score")
        put(self, metadata=frozen(self.metadata, "ContextBlock.metadata"))

    @classmethod
    def from_dict(cls, value: object) -> ContextBlock:
        """Give the block that a mapping describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        return load(cls, value, "context block")


@dataclass(frozen=True, slots=True)
class ExecutionBudget(Record):
    """What a run may use, over all its calls. A cap of 0 means none, ``None`` means no cap.

    Attributes:
        max_model_calls: calls of a language model.
        max_retrieval_calls: calls of a retriever.
        max_tool_calls: calls of tools.
        max_output_tokens: generated tokens.
        max_context_tokens: input tokens, added up over all calls.
        max_cost_usd: money; with a cap, a call without a price breaks the budget.
    """

    max_model_calls: int = 8
    max_retrieval_calls: int = 8
    max_tool_calls: int = 8
    max_output_tokens: int = 4096
    max_context_tokens: int | None = None
    max_cost_usd: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_model_calls", "max_retrieval_calls", "max_tool_calls", "max_output_tokens"):
            whole(getattr(self, name), f"ExecutionBudget.{name}")
        if self.max_context_tokens is not None:
            whole(self.max_context_tokens, "ExecutionBudget.max_context_tokens")
        if self.max_cost_usd is not None:
            finite(self.max_cost_usd, "ExecutionBudget.max_cost_usd", minimum=0)

    @classmethod
    def from_dict(cls, value: object) -> ExecutionBudget:
        """Give the budget that a mapping describes; absent fields have their defaults.

        Raises:
            ValidationError: an unknown or wrong field, which is named.
        """
        return load(cls, value, "budget")


_STATE_FIELDS = ("query", "task_id", "instruction", "context", "messages", "tool_names", "metadata", "budget")


@dataclass(frozen=True, slots=True)
class FrozenAgentState(Hashed):
    """Everything an agent can see before it acts. Deeply immutable; `state_hash` names it.

    Attributes:
        query: what the user wants.
        task_id: name of the task.
        instruction: what the agent was told to do; query or instruction is not blank.
        context: pieces of context, in order.
        messages: the conversation so far.
        tool_names: tools the agent may call.
        metadata: JSON values.
        budget: what a run on this state may use.
    """

    query: str
    task_id: str = ""
    instruction: str = ""
    context: tuple[ContextBlock, ...] = ()
    messages: tuple[Message, ...] = ()
    tool_names: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    budget: ExecutionBudget = field(default_factory=ExecutionBudget)

    def __post_init__(self) -> None:
        for name in ("query", "task_id", "instruction"):
            text(getattr(self, name), f"FrozenAgentState.{name}", blank=True)
        if not self.query.strip() and not self.instruction.strip():
            raise ValidationError("FrozenAgentState.query and .instruction must not both be blank")
        put(
            self,
            context=entries(self.context, "FrozenAgentState.context", ContextBlock),
            messages=entries(self.messages, "FrozenAgentState.messages", Message),
            tool_names=texts(self.tool_names, "FrozenAgentState.tool_names"),
            metadata=frozen(self.metadata, "FrozenAgentState.metadata"),
        )
        if not isinstance(cast("object", self.budget), ExecutionBudget):
            raise ValidationError(
                f"FrozenAgentState.budget must be an ExecutionBudget, got {type(self.budget).__name__}"
            )

    @classmethod
    def from_dict(cls, value: object) -> FrozenAgentState:
        """Give the state that a mapping, such as `canonical_dict`, describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        mapping = dict(exact_fields(value, "state", allowed=_STATE_FIELDS, required=("query",)))
        for name, kind in (("context", ContextBlock), ("messages", Message)):
            if name in mapping:
                rows: tuple[object, ...] = entries(mapping[name], f"state.{name}", object)
                mapping[name] = tuple(kind.from_dict(row) for row in rows)
        if "budget" in mapping:
            mapping["budget"] = ExecutionBudget.from_dict(mapping["budget"])
        return cls(**mapping)

    def canonical_dict(self) -> dict[str, Any]:
        """Give the state as JSON values; `from_dict` reads them back."""
        return to_jsonable(self)

    @property
    def state_hash(self) -> str:
        """The content hash of `canonical_dict`."""
        return self.remembered_hash()
