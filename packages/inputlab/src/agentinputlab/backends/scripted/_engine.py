"""A script at work: the first rule that fits answers, within the limits that the request sets."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agentinputlab.backends.chat import ChatRefusalError, ChatReply, ToolCall, tool_arguments
from agentinputlab.backends.scripted._rules import Conversation, Rule
from agentinputlab.backends.tokens import count_tokens, first_tokens

__all__ = ["NoRuleFitsError", "ScriptedRules"]


class NoRuleFitsError(ChatRefusalError):
    """No rule of a script fits a request."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(
            f"no rule of the script fits request {conversation.call} (answer {conversation.turn} of its conversation, "
            f"last message by {conversation.last_role}); add a last rule without `when`",
            status=404,
            code="no_rule_fits",
        )


class ScriptedRules:
    """An ordered list of rules; made by `parse_rules` and `load_rules`.

    Attributes:
        model: name of the scripted model.
        rules: the rules.
        rules_hash: content hash of the script.
    """

    def __init__(self, model: str, rules: Sequence[Rule], *, rules_hash: str) -> None:
        self.model = model
        self.rules = tuple(rules)
        self.rules_hash = rules_hash
        self._calls = 0
        self._lock = threading.Lock()

    def respond(self, body: Mapping[str, Any]) -> ChatReply:
        """Answer an OpenAI-style request body.

        A reply is cut at the first of the request's ``stop`` texts and after its ``max_tokens`` tokens, as a model's
        would be.

        Raises:
            NoRuleFitsError: no rule fits.
            ChatRefusalError: a message is too long to be searched.
        """
        with self._lock:
            self._calls += 1
            call = self._calls
        conversation = Conversation.of(body, call=call)
        for rule in self.rules:
            captured = rule.match(conversation)
            if captured is not None:
                return _reply(rule, captured, body)
        raise NoRuleFitsError(conversation)


def _reply(rule: Rule, captured: Mapping[str, str], body: Mapping[str, Any]) -> ChatReply:
    content = "" if rule.reply is None else str(rule.reply.fill(captured))
    calls = tuple(ToolCall(call.name, tool_arguments(call.arguments.fill(captured))) for call in rule.tool_calls)
    content, is_cut = _within_limits(content, body)
    return ChatReply(
        text=content,
        tool_calls=() if is_cut else calls,
        finish_reason="length" if is_cut else rule.finish_reason,
        delay_seconds=rule.delay_seconds,
        fault=rule.fault,
    )


def _within_limits(content: str, body: Mapping[str, Any]) -> tuple[str, bool]:
    stops = body.get("stop") or ()
    for stop in (stops,) if isinstance(stops, str) else stops:
        content = content.partition(stop)[0]
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is None or count_tokens(content) <= limit:
        return content, False
    return first_tokens(content, limit), True
