"""Recorded answers as a responder: a JSON document, given back in order or by request."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from agentinputlab.backends.chat import ChatRefusalError, ChatReply, ToolCall, tool_arguments
from agentinputlab.contracts._checks import digest, exact_fields, text, whole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = ["RecordedReplies", "body_hash", "load_recording", "parse_recording"]

_FIELDS = ("text", "tool_calls", "finish_reason", "input_tokens", "output_tokens", "token_counter", "request_hash")
_TRANSPORT_FIELDS = ("stream", "stream_options")


def body_hash(body: Mapping[str, Any]) -> str:
    """Give the content hash of a request body without the fields that only say how the answer travels."""
    return content_hash({key: value for key, value in body.items() if key not in _TRANSPORT_FIELDS})


class RecordedReplies:
    """Answers recorded before, each given once and in order.

    Attributes:
        model: name of the recorded model.
    """

    def __init__(self, model: str, replies: list[tuple[ChatReply, str | None]]) -> None:
        self.model = model
        self._replies = replies
        self._next = 0
        self._lock = threading.Lock()

    def respond(self, body: Mapping[str, Any]) -> ChatReply:
        """Give the next answer; a refused request takes none.

        Raises:
            ChatRefusalError: no answer is left, or the next one belongs to another request.
        """
        with self._lock:
            position = self._next
            if position == len(self._replies):
                raise ChatRefusalError(
                    f"all {position} recorded answers are used up", status=404, code="recording_exhausted"
                )
            reply, wanted = self._replies[position]
            if wanted is not None and wanted != body_hash(body):
                raise ChatRefusalError(
                    f"recorded answer {position + 1} belongs to another request", status=409, code="recording_differs"
                )
            self._next += 1
        return reply


def load_recording(path: Path | str) -> RecordedReplies:
    """Read a JSON file ``{"model": ..., "responses": [...]}``.

    Raises:
        ValidationError: it is no recording; the message names file and place.
        OSError: the file cannot be read.
    """
    from ripieno.canonical import strict_loads
    from ripieno.files import open_regular

    path = Path(path)
    with open_regular(path) as stream:
        data = stream.readall()
    try:
        return parse_recording(strict_loads(data))
    except ValueError as error:
        raise ValidationError(f"{path.name}: {error}") from error


def parse_recording(value: Mapping[str, Any]) -> RecordedReplies:
    """Read a recording: ``model`` and ``responses``.

    A response has ``text`` or ``tool_calls`` (``name``, ``arguments``, ``id``), and, if known, ``finish_reason``,
    ``input_tokens``, ``output_tokens``, ``token_counter`` and ``request_hash`` (`body_hash` of the request it answers).

    Raises:
        ValidationError: it is no recording; the message names the place.
    """
    recording = exact_fields(value, "recording", allowed=("model", "responses"), required=("responses",))
    rows = recording["responses"]
    if not isinstance(rows, list | tuple) or not rows:
        raise ValidationError("responses must be a list of at least one response")
    replies = [_reply(row, f"responses[{index}]") for index, row in enumerate(cast("list[object]", rows))]
    return RecordedReplies(text(recording.get("model", "recorded"), "model"), replies)


def _reply(value: object, place: str) -> tuple[ChatReply, str | None]:
    fields = exact_fields(value, place, allowed=_FIELDS)
    if "text" not in fields and not fields.get("tool_calls"):
        raise ValidationError(f"{place} must have text or tool_calls")
    calls = fields.get("tool_calls", [])
    if not isinstance(calls, list | tuple):
        raise ValidationError(f"{place}.tool_calls must be a list, got {type(calls).__name__}")
    counts = {
        name: whole(fields[name], f"{place}.{name}") for name in ("input_tokens", "output_tokens") if name in fields
    }
    others = {
        name: text(fields[name], f"{place}.{name}") for name in ("finish_reason", "token_counter") if name in fields
    }
    wanted = digest(fields["request_hash"], f"{place}.request_hash") if "request_hash" in fields else None
    try:
        reply = ChatReply(
            text(fields.get("text", ""), f"{place}.text", blank=True),
            tuple(_call(call, f"{place}.tool_calls[{i}]") for i, call in enumerate(cast("list[object]", calls))),
            **counts,
            **cast("Any", others),
        )
    except ValidationError as error:
        raise ValidationError(f"{place}: {error}") from error
    return reply, wanted


def _call(value: object, place: str) -> ToolCall:
    fields = exact_fields(value, place, allowed=("name", "arguments", "id"), required=("name",))
    return ToolCall(
        text(fields["name"], f"{place}.name"),
        tool_arguments(fields.get("arguments", {})),
        text(fields.get("id", ""), f"{place}.id", blank=True),
    )
