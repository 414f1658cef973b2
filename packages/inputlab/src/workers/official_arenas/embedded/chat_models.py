"""Who generates: the scripted agent in this process, or a model behind the chat API on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from agentinputlab.backends.chat import ChatReply, ToolCall
from agentinputlab.backends.tokens import count_tokens, first_tokens
from agentinputlab.contracts.serialization import canonical_json
from workers.official_arenas.embedded import agent
from workers.official_arenas.embedded.errors import (
    ContextWindowExceededError,
    EpisodeTimeoutError,
    MalformedGenerationError,
    ModelEndpointError,
)
from workers.official_arenas.embedded.tools import tool_schemas

__all__ = ["ChatModel", "EndpointModel", "Generation", "ScriptedAgent", "limited", "prompt_tokens", "reply_tokens"]

ChatMessages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer of a model and what it used.

    Attributes:
        text: content of the message.
        tool_calls: calls that the model wants made, arguments as it wrote them.
        input_tokens: tokens read, by the counter of whoever generated.
        output_tokens: tokens written, likewise.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    input_tokens: int
    output_tokens: int


class ChatModel(Protocol):
    """Something that answers a conversation."""

    def generate(self, messages: ChatMessages, *, offer_tools: bool, max_tokens: int, seconds: float) -> Generation:
        """Give the next message; at most ``max_tokens`` long and within ``seconds``."""
        ...


_count = lru_cache(maxsize=8192)(count_tokens)


@lru_cache(maxsize=1)
def _tool_tokens() -> int:
    return sum(count_tokens(canonical_json(tool)) for tool in tool_schemas())


def prompt_tokens(messages: ChatMessages, *, offer_tools: bool) -> int:
    """Give what `agentinputlab.backends.tokens.count_prompt_tokens` gives; texts that come again are counted once."""
    total = _tool_tokens() if offer_tools else 0
    for message in messages:
        total += _count(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            total += _count(call["function"]["name"]) + _count(call["function"]["arguments"])
    return total


def reply_tokens(reply: ChatReply) -> int:
    """Give the tokens of an answer: its text and its calls."""
    calls = sum(_count(call.name) + _count(call.arguments) for call in reply.tool_calls)
    return _count(reply.text) + calls


def limited(reply: ChatReply, max_tokens: int) -> ChatReply:
    """Give an answer as a model with an output limit gives it: cut off, and calls that do not fit are lost."""
    if reply_tokens(reply) <= max_tokens:
        return reply
    text = first_tokens(reply.text, max_tokens)
    rest = max_tokens - count_tokens(text)
    kept: list[ToolCall] = []
    for call in reply.tool_calls:
        rest -= count_tokens(call.name) + count_tokens(call.arguments)
        if rest < 0:
            break
        kept.append(call)
    return replace(reply, text=text, tool_calls=tuple(kept), finish_reason="length")


class ScriptedAgent:
    """The rule policy of `agent`, asked in this process."""

    def generate(self, messages: ChatMessages, *, offer_tools: bool, max_tokens: int, seconds: float) -> Generation:
        """Give the policy's next message, with counts of `agentinputlab.backends.tokens`."""
        reply = limited(agent.respond(messages), max_tokens)
        used = prompt_tokens(messages, offer_tools=offer_tools)
        return Generation(reply.text, reply.tool_calls, used, reply_tokens(reply))


class EndpointModel:
    """A model behind the chat API on this machine: one attempt per generation.

    Args:
        model: its name there.
        args: checked arguments of the config: ``api_base, temperature, seed, num_retries, max_tokens, timeout`` and,
            optionally, ``api_key_env``.
        response_format: what kind of text is asked for, or None.
    """

    def __init__(
        self, model: str, args: Mapping[str, Any], *, response_format: Mapping[str, Any] | None = None
    ) -> None:
        self._model = model
        self._args = dict(args)
        self._response_format = response_format

    def generate(self, messages: ChatMessages, *, offer_tools: bool, max_tokens: int, seconds: float) -> Generation:
        """Give the model's next message, with the counts of its server.

        Raises:
            ContextWindowExceededError: the server says that the conversation is longer than its model can read.
            EpisodeTimeoutError: no answer in time.
            MalformedGenerationError: the answer is a message without text and without calls.
            ModelEndpointError: no usable answer; the text carries at most the HTTP status.
        """
        from agentinputlab.backends.llm import (
            ContextLengthExceededError,
            GenerationRequest,
            OpenAICompatibleBackend,
            OpenAICompatibleError,
            OpenAICompatibleTransportError,
        )

        limit = min(seconds, float(self._args["timeout"]))
        if limit <= 0:
            raise EpisodeTimeoutError("Retail episode ran out of time")
        key_env = self._args.get("api_key_env")
        backend = OpenAICompatibleBackend(
            self._model,
            self._args["api_base"],
            {"revision": self._model},
            api_key=os.environ.get(key_env) or None if key_env else None,
            api_key_env=None,
            timeout_seconds=limit,
        )
        request = GenerationRequest(
            messages=tuple(messages),
            temperature=0.0,
            max_tokens=max_tokens,
            seed=self._args["seed"],
            response_format=self._response_format,
            tools=tool_schemas() if offer_tools else (),
        )
        started = time.monotonic()
        try:
            response = backend.generate(request)
        except ContextLengthExceededError as error:
            raise ContextWindowExceededError(str(error)) from error
        except OpenAICompatibleTransportError as error:
            if error.http_status is None and time.monotonic() - started >= limit:
                raise EpisodeTimeoutError("Retail model endpoint did not answer in time") from error
            raise ModelEndpointError(str(error)) from error
        except OpenAICompatibleError as error:
            if "neither content nor tool_calls" in str(error):
                raise MalformedGenerationError("Retail model generated an empty message") from error
            raise ModelEndpointError(str(error)) from error
        message = response.raw["choices"][0]["message"]
        calls = tuple(
            ToolCall(call["function"]["name"], call["function"]["arguments"], call["id"])
            for call in message.get("tool_calls") or ()
        )
        return Generation(response.text, calls, response.usage.input_tokens, response.usage.output_tokens)
