"""An answer as bytes: one JSON object, or a stream of server-sent events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

__all__ = ["error_object", "json_bytes", "stream_events"]

_PIECE = re.compile(r"\s*\S+\s*|\s+")


def json_bytes(value: object) -> bytes:
    """Give a value as JSON text."""
    return orjson.dumps(value)


def error_object(message: str, *, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    """Give an OpenAI-style error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def stream_events(completion: Mapping[str, Any], *, include_usage: bool) -> Iterator[bytes]:
    """Give the events of a streamed completion: role, content word by word, tool calls, reason, usage, ``[DONE]``.

    Args:
        completion: a ``chat.completion`` object.
        include_usage: whether the last event before ``[DONE]`` carries the usage.
    """
    head = {name: completion[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = completion["choices"][0]
    message = choice["message"]

    def chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        body: dict[str, Any] = {
            **head,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}],
        }
        return _event(body | ({"usage": None} if include_usage else {}))

    yield chunk({"role": "assistant", "content": "" if message["content"] is not None else None})
    for piece in _PIECE.findall(message["content"] or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
    yield chunk({}, choice["finish_reason"])
    if include_usage and "usage" in completion:
        yield _event({**head, "choices": [], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def _event(value: object) -> bytes:
    return b"data: " + json_bytes(value) + b"\n\n"
