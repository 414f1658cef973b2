"""A hook that may shorten what an agent sees of its own conversation, within strict limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from workers.official_arenas.protocol import OfficialArenaError, merge_usage

__all__ = ["LiveHistoryTransform", "TransformedHistory", "transform_history"]

_ANSWER_FIELDS = frozenset({"messages", "usage"})


class LiveHistoryTransform(Protocol):
    """Changes the messages of each generation."""

    def transform(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        state: Mapping[str, Any],
        remaining_budget: Mapping[str, int | None],
    ) -> Mapping[str, Any]:
        """Give ``{"messages": [...], "usage": {...}}``."""
        ...

    def fingerprint(self) -> str:
        """Give the identity of the hook; it is bound into the trace."""
        ...


@dataclass(frozen=True, slots=True)
class TransformedHistory:
    """What the hook gave, checked.

    Attributes:
        kept: for each retained message its index in the original.
        messages: the retained messages; only the text of the system and of the first user message may be new.
        usage: what the hook used, in the eleven fields.
    """

    kept: tuple[int, ...]
    messages: tuple[dict[str, Any], ...]
    usage: Mapping[str, Any]


def transform_history(
    hook: LiveHistoryTransform,
    messages: Sequence[Mapping[str, Any]],
    *,
    state: Mapping[str, Any],
    remaining_budget: Mapping[str, int | None],
) -> TransformedHistory:
    """Give what the agent is shown in place of its history.

    Args:
        hook: the hook.
        messages: the conversation; ``role``, ``content``, and for calls ``tool_calls`` and ``tool_call_id``.
        state: materialized visible state.
        remaining_budget: what is left of the agent's caps (None: no cap).

    Raises:
        OfficialArenaError: the hook returned other fields, dropped or changed a system or first user message in more
            than its text, added or reordered a message, left a tool call without its result or the reverse, used
            tools or retrieval, or used more than is left.
    """
    originals = [dict(message) for message in messages]
    answer = cast(
        "object",
        hook.transform([dict(message) for message in originals], state=state, remaining_budget=dict(remaining_budget)),
    )
    if not isinstance(answer, Mapping) or frozenset(cast("Mapping[str, Any]", answer)) != _ANSWER_FIELDS:
        raise OfficialArenaError("Live history must give exactly messages and usage")
    result = cast("Mapping[str, Any]", answer)
    if not isinstance(result["messages"], list | tuple) or not result["messages"]:
        raise OfficialArenaError("Live history messages must be a non-empty list")
    given = cast("Sequence[object]", result["messages"])
    if not all(isinstance(message, Mapping) for message in given):
        raise OfficialArenaError("Live history messages must be objects")
    retained = [dict(cast("Mapping[str, Any]", message)) for message in given]
    kept = _align(originals, retained)
    _require_balanced_calls(retained)
    usage = merge_usage(cast("Mapping[str, Any]", result["usage"]))
    _require_usage(usage, remaining_budget)
    return TransformedHistory(kept, tuple(retained), usage)


def _align(originals: Sequence[dict[str, Any]], retained: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    editable = _editable(originals)
    kept: list[int] = []
    position = 0
    for message in retained:
        while position < len(originals) and not _is_same(originals[position], message, position in editable):
            position += 1
        if position == len(originals):
            raise OfficialArenaError("Live history may only drop messages, not add, change or reorder them")
        kept.append(position)
        position += 1
    if not editable <= set(kept):
        raise OfficialArenaError("Live history must keep the system and the first user message")
    return tuple(kept)


def _editable(messages: Sequence[dict[str, Any]]) -> set[int]:
    roles = [message.get("role") for message in messages]
    found = {index for index, role in enumerate(roles) if role == "system"}
    if "user" in roles:
        found.add(roles.index("user"))
    return found


def _is_same(original: dict[str, Any], message: dict[str, Any], may_edit: bool) -> bool:
    if not may_edit:
        return original == message
    if not isinstance(message.get("content"), str) or not message["content"].strip():
        return False
    return {**original, "content": None} == {**message, "content": None}


def _require_balanced_calls(messages: Sequence[dict[str, Any]]) -> None:
    open_calls: set[str] = set()
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise OfficialArenaError("Live history keeps a tool result without its call")
            open_calls.discard(message["tool_call_id"])
        else:
            if open_calls:
                break
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls:
        raise OfficialArenaError("Live history keeps a tool call without its result")


def _require_usage(usage: Mapping[str, Any], remaining: Mapping[str, int | None]) -> None:
    if usage["tool_calls"] or usage["retrieval_calls"]:
        raise OfficialArenaError("Live history may not use tools or retrieval")
    for name in ("model_calls", "input_tokens", "output_tokens"):
        cap = remaining.get(name)
        if cap is not None and usage[name] > cap:
            raise OfficialArenaError(f"Live history used {usage[name]} {name}, left were {cap}")
