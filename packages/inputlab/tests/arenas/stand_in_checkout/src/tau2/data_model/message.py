"""A small stand-in for tau2, written for these tests from documented facts; it is not tau2 and shares no code with it.

It has the names that the arena imports, the conversation rules (half duplex, greeting, stop tokens, a message has text
or tool calls) and nothing of the retail domain but two tools. ``tau2.utils.llm_utils.REPLIES`` is its language model.
"""

from typing import Any, Literal

from pydantic import BaseModel


class ToolCall(BaseModel):
    id: str = ""
    name: str
    arguments: dict[str, Any]
    requestor: str = "assistant"


class SystemMessage(BaseModel):
    role: Literal["system"] = "system"
    content: str | None = None
    timestamp: str | None = "2026-01-01T00:00:00"
    turn_idx: int | None = None


class _Participant(BaseModel):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    cost: float | None = None
    usage: dict[str, Any] | None = None
    raw_data: dict[str, Any] | None = None
    timestamp: str | None = "2026-01-01T00:00:00"
    turn_idx: int | None = None


class AssistantMessage(_Participant):
    role: Literal["assistant"] = "assistant"


class UserMessage(_Participant):
    role: Literal["user"] = "user"


class ToolMessage(BaseModel):
    id: str
    role: Literal["tool"] = "tool"
    content: str | None = None
    error: bool = False
    requestor: str = "assistant"
    timestamp: str | None = "2026-01-01T00:00:00"
    turn_idx: int | None = None


class MultiToolMessage(BaseModel):
    role: Literal["tool"] = "tool"
    tool_messages: list[ToolMessage]
