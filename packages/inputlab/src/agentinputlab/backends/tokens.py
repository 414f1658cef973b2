"""How scripted models count tokens: words and punctuation marks, the same number on every machine.

No model counts this way. A count is worth something only together with the name of its counter, so `TOKEN_COUNTER`
stands beside every number that is taken here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentinputlab.contracts.serialization import canonical_json

__all__ = ["TOKEN_COUNTER", "count_prompt_tokens", "count_tokens", "first_tokens"]

TOKEN_COUNTER = "agentinputlab.word_punctuation.v1"  # noqa: S105 - a name, no secret
"""Identity of the counter: one token per run of word characters, one per other visible character."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


def count_tokens(text: str) -> int:
    """Give the number of words and punctuation marks.

    Examples:
        >>> count_tokens("Order #W12, please!")
        6
    """
    return len(_TOKEN.findall(text))


def first_tokens(text: str, limit: int) -> str:
    """Give the beginning of a text that holds at most ``limit`` tokens; the text itself when it is short enough."""
    if limit <= 0:
        return ""
    for number, token in enumerate(_TOKEN.finditer(text), start=1):
        if number > limit:
            return text[: token.start()].rstrip()
    return text


def count_prompt_tokens(messages: Iterable[Mapping[str, Any]], tools: Iterable[Mapping[str, Any]] = ()) -> int:
    """Give the tokens a chat model reads: contents and tool calls of all messages, and the offered tool schemas.

    Args:
        messages: OpenAI-style messages, content as text.
        tools: OpenAI-style tool schemas; counted as their canonical JSON.
    """
    total = 0
    for message in messages:
        total += count_tokens(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            total += count_tokens(call["function"]["name"]) + count_tokens(call["function"]["arguments"])
    return total + sum(count_tokens(canonical_json(tool)) for tool in tools)
