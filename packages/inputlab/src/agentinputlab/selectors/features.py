"""Measures of a visible state: numbers that a selector may look at, and nothing that an agent could not see."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["FEATURES", "FEATURES_ID", "visible_features"]

FEATURES_ID: Final = "agentinputlab.visible_features.v1"
"""Name of this set of measures; another set has another name."""

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?]+(?:\s|\Z)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_JOINING = re.compile(r"\b(?:and|also|then|plus|as well|afterwards|after that)\b")
_CONDITION = re.compile(r"\b(?:if|unless|otherwise|provided|as long as|in case|whether)\b")
_CONTRAST = re.compile(r"\b(?:but|except|without|not|instead|rather|only)\b")
_VAGUE = re.compile(r"\b(?:it|that|this|those|these|they|them|something|some|thing|things|stuff|one|ones)\b")
_QUESTION_WORD = re.compile(r"\b(?:who|what|when|where|which|why|how)\b")


def _count(pattern: re.Pattern[str], text: str) -> int:
    return len(pattern.findall(text.casefold()))


def _sentences(text: str) -> int:
    """Ends of sentences; a text without any is one sentence, unless it is blank."""
    return max(_count(_SENTENCE_END, text), 1) if text.strip() else 0


def _context_words(state: FrozenAgentState) -> int:
    return sum(_count(_WORD, block.text) for block in state.context)


FEATURES: Mapping[str, tuple[str, Callable[[FrozenAgentState], int]]] = MappingProxyType(
    {
        "query_characters": ("characters of the query", lambda state: len(state.query)),
        "query_words": ("words of the query", lambda state: _count(_WORD, state.query)),
        "query_sentences": ("sentences of the query", lambda state: _sentences(state.query)),
        "query_questions": ("question marks in the query", lambda state: state.query.count("?")),
        "query_question_words": ("who, what, when, ...", lambda state: _count(_QUESTION_WORD, state.query)),
        "query_numbers": ("numbers in the query", lambda state: _count(_NUMBER, state.query)),
        "query_joining_words": ("and, also, then, ...", lambda state: _count(_JOINING, state.query)),
        "query_conditions": ("if, unless, otherwise, ...", lambda state: _count(_CONDITION, state.query)),
        "query_contrasts": ("but, except, not, ...", lambda state: _count(_CONTRAST, state.query)),
        "query_vague_words": ("it, that, something, ...", lambda state: _count(_VAGUE, state.query)),
        "instruction_words": ("words of the instruction", lambda state: _count(_WORD, state.instruction)),
        "context_blocks": ("pieces of context", lambda state: len(state.context)),
        "context_words": ("words of all context", _context_words),
        "messages": ("messages so far", lambda state: len(state.messages)),
        "user_messages": ("messages of the user", lambda state: sum(m.role == "user" for m in state.messages)),
        "message_words": ("words of all messages", lambda state: sum(_count(_WORD, m.content) for m in state.messages)),
        "tools": ("tools the agent may call", lambda state: len(state.tool_names)),
        "model_calls_left": ("calls the budget allows", lambda state: state.budget.max_model_calls),
    }
)
"""Name of a measure -> what it counts, and the function that counts it."""


def visible_features(state: FrozenAgentState) -> dict[str, int]:
    """Give every measure of a state, in the order of `FEATURES`.

    Examples:
        >>> from agentinputlab import FrozenAgentState
        >>> features = visible_features(FrozenAgentState("Cancel it, and refund the 2 lamps. Can you?"))
        >>> features["query_words"], features["query_sentences"], features["query_joining_words"]
        (9, 2, 1)
    """
    return {name: measure(state) for name, (_, measure) in FEATURES.items()}
