"""What an agent knows from a conversation: what was said, what tools answered, and in which order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from workers.official_arenas.embedded.understanding import affirms

__all__ = ["Transcript", "read_transcript"]

Call = tuple[str, str]
"""Tool name and its arguments as JSON with sorted keys."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation in chat messages.

    Attributes:
        system: text of the system messages.
        said: the customer's texts.
        turns: role and text of every message that is no tool result, in order.
        results: per call, whether it was refused and what came back; the first result of a repeated call counts.
        call_count: number of calls made so far.
    """

    system: str
    said: tuple[str, ...]
    turns: tuple[tuple[str, str], ...]
    results: Mapping[Call, tuple[bool, str]]
    call_count: int

    def result(self, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str] | None:
        """Give ``(refused, text)`` of a call, or None when it was not made or not answered."""
        return self.results.get((name, _key(arguments)))

    def answers(self, name: str) -> list[tuple[bool, str]]:
        """Give ``(refused, text)`` of every call of a tool, in order."""
        return [value for (called, _), value in self.results.items() if called == name]

    def object(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Give the object that a call returned, or None when it was refused or not made."""
        found = self.result(name, arguments)
        if found is None or found[0]:
            return None
        try:
            value = json.loads(found[1])
        except ValueError:
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None

    def confirmed(self, summary: str) -> bool:
        """Tell whether the customer said yes to a proposal that holds a summary."""
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return any(
            before[0] == "assistant" and summary in before[1] and after[0] == "user" and affirms(after[1])
            for before, after in pairs
        )

    def times_said(self, text: str) -> int:
        """Give how often the agent said a text."""
        return sum(role == "assistant" and text in content for role, content in self.turns)


def read_transcript(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Read chat messages (OpenAI shape: tool calls under ``function``, arguments as JSON text)."""
    system: list[str] = []
    turns: list[tuple[str, str]] = []
    calls: dict[str, Call] = {}
    results: dict[Call, tuple[bool, str]] = {}
    for message in messages:
        role, content = str(message.get("role")), message.get("content") or ""
        if role == "system":
            system.append(content)
        elif role == "tool":
            call = calls.get(str(message.get("tool_call_id")))
            if call is not None:
                results.setdefault(call, (content.startswith("Error: "), content))
        else:
            for item in message.get("tool_calls") or ():
                function = item["function"]
                calls[str(item["id"])] = (function["name"], _normalised(function["arguments"]))
            if content:
                turns.append((role, content))
    said = tuple(content for role, content in turns if role == "user")
    return Transcript("\n".join(system), said, tuple(turns), results, len(calls))


def _key(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


def _normalised(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments
