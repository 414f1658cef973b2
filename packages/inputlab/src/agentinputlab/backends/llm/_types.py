"""What is asked of a language model and what it answers, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agentinputlab.contracts._checks import Record, exact_fields, finite, flag, frozen, put, text, texts, whole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.contracts.state import Message

__all__ = ["ROLES", "GenerationRequest", "GenerationResponse", "Usage"]

ROLES = ("system", "developer", "user", "assistant", "tool")
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
_FORMATS = ("text", "json_object", "json_schema")


@dataclass(frozen=True, slots=True)
class GenerationRequest(Record):
    """One call of a language model.

    Attributes:
        prompt: the last user message; may be empty when there are messages.
        messages: the conversation before it: `agentinputlab.contracts.Message` or OpenAI-style mappings (``role``,
            ``content``, ``name``, ``tool_calls``, ``tool_call_id``).
        system: the system message, or None.
        temperature: 0 to 2.
        max_tokens: longest answer, at least 1.
        seed: seed of the sampling, or None.
        stop: texts that end the answer.
        logprobs: whether to give log probabilities of the answer's tokens.
        top_logprobs: how many alternatives per token, 1 to 20, or None; needs ``logprobs``.
        response_format: OpenAI-style mapping with ``type`` text, json_object or json_schema, or None.
        tools: OpenAI-style schemas of the functions that may be called.
        metadata: JSON values for the caller's own use; part of the hash, never sent.
    """

    prompt: str = field(default="", repr=False)
    messages: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    system: str | None = field(default=None, repr=False)
    temperature: float = 0.0
    max_tokens: int = 512
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int | None = None
    response_format: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __post_init__(self) -> None:
        text(self.prompt, "GenerationRequest.prompt", blank=True)
        if self.system is not None:
            text(self.system, "GenerationRequest.system", blank=True)
        messages = _sequence(self.messages, "GenerationRequest.messages")
        put(self, messages=tuple(_message(item, index) for index, item in enumerate(messages)))
        if not self.prompt.strip() and not self.messages:
            raise ValidationError("GenerationRequest.prompt must not be blank when there are no messages")
        if finite(self.temperature, "GenerationRequest.temperature", minimum=0) > 2:
            raise ValidationError(f"GenerationRequest.temperature must be <= 2, got {self.temperature!r}")
        whole(self.max_tokens, "GenerationRequest.max_tokens", minimum=1)
        if self.seed is not None and type(self.seed) is not int:
            raise ValidationError(f"GenerationRequest.seed must be an integer or None, got {self.seed!r:.80}")
        put(self, stop=texts(self.stop, "GenerationRequest.stop"))
        flag(self.logprobs, "GenerationRequest.logprobs")
        if self.top_logprobs is not None:
            if whole(self.top_logprobs, "GenerationRequest.top_logprobs", minimum=1) > 20:
                raise ValidationError(f"GenerationRequest.top_logprobs must be 1 to 20, got {self.top_logprobs}")
            if not self.logprobs:
                raise ValidationError("GenerationRequest.top_logprobs needs logprobs=True")
        if self.response_format is not None:
            put(self, response_format=_response_format(self.response_format))
        tools = _sequence(self.tools, "GenerationRequest.tools")
        put(self, tools=tuple(_tool(item, index) for index, item in enumerate(tools)))
        put(self, metadata=frozen(self.metadata, "GenerationRequest.metadata"))

    @property
    def request_hash(self) -> str:
        """The content hash of all fields."""
        return content_hash(self)

    @property
    def required_capabilities(self) -> frozenset[str]:
        """What a backend must be able to do to answer this request."""
        needed = {"chat"}
        if self.tools:
            needed.add("tool_calling")
        if self.logprobs:
            needed.add("logprobs")
        if self.seed is not None:
            needed.add("seed")
        kind = "text" if self.response_format is None else self.response_format["type"]
        if kind != "text":
            needed.add(kind)
        return frozenset(needed)

    def chat_body(self, model_id: str) -> dict[str, Any]:
        """Give the body of an OpenAI-style chat completion request; what is None or empty is left out."""
        messages: list[dict[str, Any]] = []
        if self.system is not None:
            messages.append({"role": "system", "content": self.system})
        messages.extend(to_jsonable(message) for message in self.messages)
        if self.prompt:
            messages.append({"role": "user", "content": self.prompt})
        body: dict[str, Any] = {
            "model": model_id,
            "messages": messages,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        optional = {
            "seed": self.seed,
            "stop": list(self.stop) or None,
            "logprobs": self.logprobs or None,
            "top_logprobs": self.top_logprobs,
            "response_format": to_jsonable(self.response_format),
            "tools": to_jsonable(self.tools) or None,
        }
        return body | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """What one call used, as the model's side reports it.

    Attributes:
        input_tokens: tokens read.
        output_tokens: tokens written.
        cost_usd: price of the call, or None when nobody said one; unknown is never 0.
    """

    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None

    def __post_init__(self) -> None:
        whole(self.input_tokens, "Usage.input_tokens")
        whole(self.output_tokens, "Usage.output_tokens")
        if self.cost_usd is not None:
            finite(self.cost_usd, "Usage.cost_usd", minimum=0)


@dataclass(frozen=True, slots=True)
class GenerationResponse(Record):
    """What a language model answered.

    Attributes:
        text: the answer; empty when the model only calls tools.
        model: the model that answered, by its own name.
        finish_reason: why it ended, such as ``stop``, ``length`` or ``tool_calls``.
        usage: what the call used.
        raw: the whole answer as JSON values; an OpenAI-style completion where there is one.
    """

    text: str = field(repr=False)
    model: str
    finish_reason: str
    usage: Usage
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __post_init__(self) -> None:
        text(self.text, "GenerationResponse.text", blank=True)
        text(self.model, "GenerationResponse.model")
        text(self.finish_reason, "GenerationResponse.finish_reason")
        if not isinstance(cast("object", self.usage), Usage):
            raise ValidationError(f"GenerationResponse.usage must be a Usage, got {type(self.usage).__name__}")
        put(self, raw=frozen(self.raw, "GenerationResponse.raw"))

    @property
    def message(self) -> Mapping[str, Any]:
        """The assistant message for the next request of a conversation, tool calls included."""
        choices = self.raw.get("choices")
        if not choices:
            return {"role": "assistant", "content": self.text}
        return {key: value for key, value in choices[0]["message"].items() if key in _MESSAGE_FIELDS}

    @property
    def tool_calls(self) -> tuple[Mapping[str, Any], ...]:
        """The calls the model wants made: mappings with ``id`` and ``function`` (``name``, ``arguments`` as text)."""
        return tuple(self.message.get("tool_calls") or ())


def _sequence(value: object, name: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise ValidationError(f"{name} must be a list or tuple, got {type(value).__name__}")
    return tuple(cast("tuple[object, ...]", value))


def _message(value: object, index: int) -> Mapping[str, Any]:
    name = f"GenerationRequest.messages[{index}]"
    if isinstance(value, Message):
        value = {key: item for key, item in to_jsonable(value).items() if item is not None}
    message = frozen(exact_fields(value, name, allowed=_MESSAGE_FIELDS, required=("role",)), name)
    if message["role"] not in ROLES:
        raise ValidationError(f"{name}.role must be one of {', '.join(ROLES)}, got {message['role']!r:.80}")
    if message.get("content") is not None:
        text(message["content"], f"{name}.content", blank=True)
    elif not message.get("tool_calls"):
        raise ValidationError(f"{name} must have content or tool_calls")
    return message


def _response_format(value: object) -> Mapping[str, Any]:
    name = "GenerationRequest.response_format"
    chosen = frozen(value, name)
    if chosen.get("type") not in _FORMATS:
        raise ValidationError(f"{name}.type must be one of {', '.join(_FORMATS)}, got {chosen.get('type')!r:.80}")
    return chosen


def _tool(value: object, index: int) -> Mapping[str, Any]:
    name = f"GenerationRequest.tools[{index}]"
    tool = frozen(value, name)
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping):
        raise ValidationError(f"{name} must be {{type: function, function: {{name, ...}}}}")
    text(cast("Mapping[str, Any]", function).get("name"), f"{name}.function.name")
    return tool
