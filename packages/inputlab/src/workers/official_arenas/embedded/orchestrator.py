"""One conversation: agent and customer take turns, tools answer in between, and a budget ends what gets too long."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agentinputlab.backends.chat import ToolCall
from ripieno.canonical import strict_loads
from ripieno.errors import InputError
from workers.official_arenas._agent_allowance import STOP_MESSAGE, AgentAllowance
from workers.official_arenas.embedded.chat_models import ChatModel, prompt_tokens
from workers.official_arenas.embedded.customers import Customer
from workers.official_arenas.embedded.errors import (
    ContextWindowExceededError,
    EpisodeTimeoutError,
    MalformedGenerationError,
)
from workers.official_arenas.embedded.scorer import spoken_turns
from workers.official_arenas.embedded.tools import RetailTools
from workers.official_arenas.embedded.user import STOP_TOKENS

__all__ = ["GREETING", "Conversation", "Limits", "trace_message"]

GREETING = "Hi! How can I help you today?"
"""First message of every conversation; nobody generates it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a conversation is ended from outside.

    Attributes:
        max_steps: messages after the start, whoever sends them.
        max_errors: refused tool calls.
        max_tokens: longest generation of the agent.
        deadline: of `time.monotonic`.
    """

    max_steps: int
    max_errors: int
    max_tokens: int
    deadline: float

    @property
    def seconds(self) -> float:
        """Time that is left."""
        return self.deadline - time.monotonic()


def trace_message(role: str, content: str, turn: int, **fields: Any) -> dict[str, Any]:
    """Give a message of a trace: ``role, content, tool_calls, tool_call_id, usage, turn``; no clock in it."""
    base = {"role": role, "content": content, "tool_calls": None, "tool_call_id": None, "usage": None, "turn": turn}
    return {**base, **fields}


@dataclass(slots=True)
class Conversation:
    """A conversation while it is played.

    Attributes:
        system: system message of the agent.
        query: what the agent reads in place of the customer's first message, or None.
        agent: who generates for the agent.
        customer: who wants something.
        tools: what the agent can call.
        allowance: what the agent may still spend.
        limits: when it is ended from outside.
        messages: the trace so far; begins with the captured greeting and first customer message.
    """

    system: str
    query: str | None
    agent: ChatModel
    customer: Customer
    tools: RetailTools
    allowance: AgentAllowance
    limits: Limits
    messages: list[dict[str, Any]]
    _chat: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _steps: int = 0
    _errors: int = 0

    def play(self, *, clarification: str | None = None) -> str:
        """Play to the end and give how it ended.

        Args:
            clarification: a question that the agent starts with; it costs nothing.

        Raises:
            MalformedGenerationError: a message is empty, or a call's arguments are no JSON object.
            EpisodeTimeoutError: the deadline passed.
        """
        self._chat = [{"role": "system", "content": self.system}]
        self._chat += [{"role": row["role"], "content": row["content"]} for row in self.messages]
        if clarification is not None:
            self._say("assistant", clarification)
            if self._customer_stops():
                return "user_stop"
        elif self.query is not None:
            first = next(index for index, row in enumerate(self._chat) if row["role"] == "user")
            self._chat[first] = {"role": "user", "content": self.query}
        while True:
            ended = self._ended_from_outside()
            if ended is not None:
                return ended
            try:
                has_called_tools = self._agent_turn()
            except ContextWindowExceededError:
                self.allowance.charge(input_tokens=0, output_tokens=0)  # asked, and nothing was read or written
                return "context_window_exceeded"
            if has_called_tools:
                continue  # the agent goes on with what the tools answered
            if self.messages[-1]["content"] == STOP_MESSAGE:  # a stop token in another text of an agent ends nothing
                return "agent_stop"
            ended = self._ended_from_outside()
            if ended is not None:
                return ended
            if self._customer_stops():
                return "user_stop"

    def _ended_from_outside(self) -> str | None:
        if self.limits.seconds <= 0:
            raise EpisodeTimeoutError("Retail episode ran out of time")
        if self._errors >= self.limits.max_errors:
            return "too_many_errors"
        # Without a generation left the agent's next turn is its stop message, which says more than a step count.
        is_stopping = self.messages[-1]["role"] != "assistant" and self.allowance.rest("model_calls") == 0
        return "max_steps" if self._steps >= self.limits.max_steps and not is_stopping else None

    def _say(self, role: str, content: str, **fields: Any) -> None:
        self.messages.append(trace_message(role, content, len(self.messages), **fields))
        self._chat.append({"role": role, "content": content})
        self._steps += 1

    def _customer_stops(self) -> bool:
        text = self.customer.reply(spoken_turns(self.messages), seconds=self.limits.seconds)
        self._say("user", text)
        return any(token in text for token in STOP_TOKENS)

    def _agent_turn(self) -> bool:
        """Let the agent generate once; tell whether tools were called."""
        counted = prompt_tokens(self._chat, offer_tools=True)
        expected = self.allowance.expected_input(counted)
        limit = self.allowance.admit(expected, self.limits.max_tokens)
        if limit is None:
            self._say("assistant", STOP_MESSAGE)
            return False
        generation = self.agent.generate(self._chat, offer_tools=True, max_tokens=limit, seconds=self.limits.seconds)
        self.allowance.learn_counter(counted, generation.input_tokens)
        self.allowance.charge(input_tokens=generation.input_tokens, output_tokens=generation.output_tokens)
        usage = {"input_tokens": generation.input_tokens, "output_tokens": generation.output_tokens}
        if not generation.tool_calls:
            if not generation.text.strip():
                raise MalformedGenerationError("Retail agent generated an empty message")
            self._say("assistant", generation.text, usage=usage)
            return False
        calls = [_parsed(call) for call in generation.tool_calls]
        kept = calls[: self.allowance.take_tool_calls(len(calls))]
        if not kept:
            self._say("assistant", STOP_MESSAGE, usage=usage)
            return False
        self._say("assistant", generation.text, usage=usage, tool_calls=kept)
        self._chat[-1] |= {"content": generation.text or None, "tool_calls": [_chat_call(call) for call in kept]}
        for call in kept:
            result = self.tools.call(call["name"], call["arguments"])
            self._errors += result.error
            self.messages.append(
                trace_message("tool", result.content, len(self.messages), tool_call_id=call["id"], error=result.error)
            )
            self._chat.append({"role": "tool", "content": result.content, "tool_call_id": call["id"]})
        self._steps += 1  # the tools answer together
        return True


def _parsed(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = strict_loads(call.arguments or "{}", max_bytes=2**20)
    except InputError as error:
        raise MalformedGenerationError("Retail agent generated a call whose arguments are not JSON") from error
    if not isinstance(arguments, dict):
        raise MalformedGenerationError("Retail agent generated a call whose arguments are no object")
    return {"id": call.call_id, "name": call.name, "arguments": cast("dict[str, Any]", arguments)}


def _chat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call["arguments"], sort_keys=True)
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}
