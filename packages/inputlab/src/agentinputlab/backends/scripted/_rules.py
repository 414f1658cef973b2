"""One rule of a script: when it fits, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentinputlab.backends.chat import ChatRefusalError, Fault
from agentinputlab.backends.scripted._templates import Template

__all__ = ["MAX_SEARCHED_CHARACTERS", "PATTERN_KEYS", "CallTemplate", "Conversation", "Rule"]

PATTERN_KEYS = ("system", "last_user", "last", "any")
MAX_SEARCHED_CHARACTERS = 1_000_000
"""Longest message that patterns are searched in; a longer one is refused."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the conditions of a rule look at.

    Attributes:
        texts: for each pattern condition, the texts it is searched in.
        last_role: role of the last message.
        model: the model that is asked for.
        tools_offered: whether the request offers tools.
        turn: number of this answer in the conversation, from 1.
        call: number of this request, from 1.
    """

    texts: Mapping[str, tuple[str, ...]]
    last_role: str
    model: str
    tools_offered: bool
    turn: int
    call: int

    @classmethod
    def of(cls, body: Mapping[str, Any], *, call: int) -> Conversation:
        """Read a request body.

        Raises:
            ChatRefusalError: a message is longer than patterns are searched in.
        """
        messages: Sequence[Mapping[str, Any]] = body["messages"]
        contents = [(message["role"], message.get("content") or "") for message in messages]
        for index, (_, content) in enumerate(contents):
            if len(content) > MAX_SEARCHED_CHARACTERS:
                raise ChatRefusalError(
                    f"messages[{index}].content has {len(content)} characters, a script searches at most "
                    f"{MAX_SEARCHED_CHARACTERS}",
                    status=413,
                    code="message_too_long",
                    param=f"messages[{index}].content",
                )
        users = [content for role, content in contents if role == "user"]
        return cls(
            texts={
                "system": tuple(content for role, content in contents if role in {"system", "developer"}),
                "last_user": tuple(users[-1:]),
                "last": (contents[-1][1],),
                "any": tuple(content for _, content in contents),
            },
            last_role=contents[-1][0],
            model=body["model"],
            tools_offered=bool(body.get("tools")),
            turn=1 + sum(role == "assistant" for role, _ in contents),
            call=call,
        )

    def facts(self) -> dict[str, str]:
        """Give what every template may use."""
        return {"model": self.model, "call": str(self.call), "turn": str(self.turn)}


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """A tool call whose arguments may hold captured texts; ``arguments`` is JSON text or a JSON value."""

    name: str
    arguments: Template


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        patterns: condition name to compiled expression.
        equals: attribute of `Conversation` to the value it must have.
        reply: text to answer, or None.
        tool_calls: calls to answer.
        finish_reason: why the answer ends; blank for the usual reason.
        delay_seconds: wait before the answer.
        fault: what goes wrong on purpose, or None.
    """

    patterns: Mapping[str, re.Pattern[str]]
    equals: Mapping[str, object]
    reply: Template | None = None
    tool_calls: tuple[CallTemplate, ...] = ()
    finish_reason: str = ""
    delay_seconds: float = 0.0
    fault: Fault | None = None

    def match(self, conversation: Conversation) -> dict[str, str] | None:
        """Give what the templates of the rule may use, or None when it does not fit."""
        if any(getattr(conversation, name) != value for name, value in self.equals.items()):
            return None
        found = conversation.facts()
        for name, pattern in self.patterns.items():
            hit = next((hit for content in conversation.texts[name] if (hit := pattern.search(content))), None)
            if hit is None:
                return None
            found.update({f"{name}.{number}": group or "" for number, group in enumerate((hit[0], *hit.groups()))})
            found.update({key: group or "" for key, group in hit.groupdict().items()})
        return found

    @property
    def captures(self) -> frozenset[str]:
        """Names that the templates of the rule may use."""
        names = {"model", "call", "turn"}
        for name, pattern in self.patterns.items():
            names.update(f"{name}.{number}" for number in range(pattern.groups + 1))
            names.update(pattern.groupindex)
        return frozenset(names)
