"""An OpenAI-style completion, read strictly: what is missing is an error, never a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agentinputlab.backends.llm._types import GenerationResponse, Usage

__all__ = ["MalformedCompletionError", "parse_completion"]


class MalformedCompletionError(ValueError):
    """A completion lacks something or has it in the wrong form; the text names the field and quotes no value."""


def parse_completion(value: object, *, model_id: str) -> GenerationResponse:
    """Read a ``chat.completion`` object.

    Args:
        value: the parsed JSON.
        model_id: name of the model where the answer gives none.

    Raises:
        MalformedCompletionError: a field is missing or wrong.
    """
    body = _mapping(value, "the response")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedCompletionError("choices is missing or empty")
    choice = _mapping(cast("list[object]", choices)[0], "choices[0]")
    message = _mapping(choice.get("message"), "choices[0].message")
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise MalformedCompletionError("choices[0].message.content is not a string")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise MalformedCompletionError("choices[0].message.tool_calls is not a list")
    for index, call in enumerate(cast("list[object]", calls)):
        _check_call(call, f"choices[0].message.tool_calls[{index}]")
    if content is None and not calls:
        raise MalformedCompletionError("choices[0].message has neither content nor tool_calls")
    return GenerationResponse(
        text=content or "",
        model=_name(body.get("model", model_id), "model"),
        finish_reason=_name(choice.get("finish_reason"), "choices[0].finish_reason"),
        usage=_usage(body.get("usage")),
        raw=body,
    )


def _check_call(value: object, name: str) -> None:
    call = _mapping(value, name)
    _name(call.get("id"), f"{name}.id")
    function = _mapping(call.get("function"), f"{name}.function")
    _name(function.get("name"), f"{name}.function.name")
    if not isinstance(function.get("arguments"), str):
        raise MalformedCompletionError(f"{name}.function.arguments is not a string")


def _usage(value: object) -> Usage:
    usage = _mapping(value, "usage")
    counts: list[int] = []
    for name in ("prompt_tokens", "completion_tokens"):
        count = usage.get(name)
        if type(count) is not int or count < 0:
            raise MalformedCompletionError(f"usage.{name} is missing or not a whole number")
        counts.append(count)
    return Usage(input_tokens=counts[0], output_tokens=counts[1])


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise MalformedCompletionError(f"{name} is missing or not an object")
    return cast("Mapping[str, Any]", value)


def _name(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MalformedCompletionError(f"{name} is missing or not a string")
    return value
