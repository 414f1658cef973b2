"""What a chat model answers, as data: a text, tool calls, or something that goes wrong on purpose.

A *responder* is any function from an OpenAI-style request body to a `ChatReply`. The scripted rules, a recording and
the small language model are responders; `agentinputlab.model_server.ChatServer` serves one over a socket, and
`agentinputlab.backends.llm.ScriptedBackend` asks one in this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agentinputlab.backends.tokens import TOKEN_COUNTER, count_prompt_tokens, count_tokens
from agentinputlab.contracts._checks import entries, finite, put, text, whole
from agentinputlab.contracts.enums import StrEnum
from agentinputlab.contracts.errors import ExternalDependencyError, ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = [
    "FINISH_REASONS",
    "ChatRefusalError",
    "ChatReply",
    "Fault",
    "FaultKind",
    "Responder",
    "ToolCall",
    "completion_body",
    "tool_arguments",
]

FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter")
DEFAULT_OVERSIZED_BYTES = 17 * 2**20
"""More than the 16 MiB that the HTTP backend reads."""


class FaultKind(StrEnum):
    """What can be made to go wrong, so that a client can be tested against it."""

    HTTP_ERROR = "http_error"
    DROP_CONNECTION = "drop_connection"
    TRUNCATED = "truncated"
    MALFORMED_JSON = "malformed_json"
    MISSING_USAGE = "missing_usage"
    OVERSIZED_BODY = "oversized_body"
    KEY_ECHO = "key_echo"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong on purpose.

    Attributes:
        kind: what goes wrong.
        status: HTTP status of `FaultKind.HTTP_ERROR`, 400 to 599.
        body: JSON value or text that an HTTP error carries.
        size_bytes: length of an oversized body.
    """

    kind: FaultKind
    status: int = 0
    body: Any = field(default=None, repr=False)
    size_bytes: int = DEFAULT_OVERSIZED_BYTES

    def __post_init__(self) -> None:
        put(self, kind=FaultKind(self.kind))
        whole(self.status, "Fault.status")
        whole(self.size_bytes, "Fault.size_bytes", minimum=1)
        if self.kind is FaultKind.HTTP_ERROR and not 400 <= self.status <= 599:
            raise ValidationError(f"Fault.status must be 400 to 599, got {self.status}")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model wants made.

    Attributes:
        name: the tool.
        arguments: JSON text, as the model wrote it: it may be wrong.
        call_id: its name in the conversation; blank lets the server number it.
    """

    name: str
    arguments: str = field(default="{}", repr=False)
    call_id: str = ""

    def __post_init__(self) -> None:
        text(self.name, "ToolCall.name")
        text(self.arguments, "ToolCall.arguments", blank=True)
        text(self.call_id, "ToolCall.call_id", blank=True)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a responder answers.

    Attributes:
        text: content of the message; may be empty beside tool calls.
        tool_calls: calls the model wants made.
        finish_reason: one of `FINISH_REASONS`; by default ``tool_calls`` with calls and ``stop`` without.
        input_tokens: tokens read; by default counted with `agentinputlab.backends.tokens`.
        output_tokens: tokens written; by default counted likewise.
        token_counter: identity of whoever counted.
        model: name of the model; by default the one that was asked for.
        delay_seconds: wait before the answer.
        fault: what goes wrong on purpose, or None.
    """

    text: str = field(default="", repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    token_counter: str = TOKEN_COUNTER
    model: str = ""
    delay_seconds: float = 0.0
    fault: Fault | None = None

    def __post_init__(self) -> None:
        text(self.text, "ChatReply.text", blank=True)
        put(self, tool_calls=entries(self.tool_calls, "ChatReply.tool_calls", ToolCall))
        if not self.finish_reason:
            put(self, finish_reason="tool_calls" if self.tool_calls else "stop")
        if self.finish_reason not in FINISH_REASONS:
            raise ValidationError(
                f"ChatReply.finish_reason must be one of {', '.join(FINISH_REASONS)}, got {self.finish_reason!r:.80}"
            )
        for name in ("input_tokens", "output_tokens"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), f"ChatReply.{name}")
        text(self.token_counter, "ChatReply.token_counter")
        text(self.model, "ChatReply.model", blank=True)
        finite(self.delay_seconds, "ChatReply.delay_seconds", minimum=0)


class ChatRefusalError(ExternalDependencyError):
    """A chat server does not answer a request. The text is safe to show: it quotes no content of the request.

    Attributes:
        status: HTTP status, 400 to 599.
        code: short reason for programs.
        param: path of the field that is wrong, such as ``messages[0].role``, or None.
    """

    def __init__(self, message: str, *, status: int = 400, code: str = "invalid_value", param: str | None = None):
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


Responder = Callable[[dict[str, Any]], ChatReply]
"""From a checked request body to an answer."""


def completion_body(reply: ChatReply, request: Mapping[str, Any]) -> dict[str, Any]:
    """Give the ``chat.completion`` object of an answer. Equal requests and answers give equal objects.

    Args:
        reply: the answer; its fault is not looked at.
        request: the body it answers.
    """
    calls = [
        {
            "id": call.call_id or f"call_{_turn(request)}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for number, call in enumerate(reply.tool_calls, start=1)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.text if reply.text or not calls else None}
    if calls:
        message["tool_calls"] = calls
    model = reply.model or str(request["model"])
    return {
        "id": f"chatcmpl-{content_hash([request, message])[:24]}",
        "object": "chat.completion",
        "created": 0,  # no clock: the same request gives the same bytes
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": None}],
        "usage": _usage(reply, request),
    }


def _turn(request: Mapping[str, Any]) -> int:
    """Number of this answer in the conversation, so that ids of calls differ from turn to turn."""
    messages = cast("list[Mapping[str, Any]]", request["messages"])
    return 1 + sum(message["role"] == "assistant" for message in messages)


def _usage(reply: ChatReply, request: Mapping[str, Any]) -> dict[str, Any]:
    read = reply.input_tokens
    if read is None:
        read = count_prompt_tokens(request["messages"], request.get("tools") or ())
    written = reply.output_tokens
    if written is None:
        written = count_tokens(reply.text)
        written += sum(count_tokens(call.name) + count_tokens(call.arguments) for call in reply.tool_calls)
    counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {**counts, "token_counter": reply.token_counter}


def tool_arguments(value: object) -> str:
    """Give the JSON text of a tool call's arguments: text as it is, anything else written as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
