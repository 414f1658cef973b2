"""Request bodies checked field by field: the first thing that is wrong is named by its path and never quoted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from agentinputlab.backends.chat import ChatRefusalError

__all__ = ["checked_body"]

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal")
_FORMATS = ("text", "json_object", "json_schema")
Check = Callable[[Any, str], None]


def checked_body(value: object) -> dict[str, Any]:
    """Give a chat completion request whose every field is known and well formed.

    Contents given as text parts are joined, so that a responder sees texts only.

    Raises:
        ChatRefusalError: a field is unknown, missing or wrong; ``param`` is its path.
    """
    body = dict(_object(value, "body"))
    for name in ("model", "messages"):
        if name not in body:
            raise _refusal(name, "is required", code="missing_required_parameter")
    for name, item in body.items():
        check = _FIELDS.get(name)
        if check is None:
            raise _refusal(name[:80], "is not known to this server", code="unknown_parameter")
        if item is not None:
            check(item, name)
        elif name in {"model", "messages"}:
            raise _refusal(name, "must not be null")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise _refusal("stream_options", "needs stream: true")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise _refusal("top_logprobs", "needs logprobs: true")
    body["messages"] = [_joined(message) for message in body["messages"]]
    return body


def _refusal(param: str, problem: str, *, code: str = "invalid_value") -> ChatRefusalError:
    return ChatRefusalError(f"{param} {problem}", status=400, code=code, param=param)


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refusal(name, "must be an object", code="invalid_type")
    return cast("dict[str, Any]", value)


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise _refusal(name, "must be an array", code="invalid_type")
    return cast("list[Any]", value)


def _known(value: Mapping[str, Any], name: str, fields: tuple[str, ...]) -> None:
    for key in value:
        if key not in fields:
            raise _refusal(f"{name}.{key[:80]}", "is not known to this server", code="unknown_parameter")


def _text(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise _refusal(name, "must be a string", code="invalid_type")


def _name(value: object, name: str) -> None:
    _text(value, name)
    if not cast("str", value).strip():
        raise _refusal(name, "must not be blank")


def _flag(value: object, name: str) -> None:
    if type(value) is not bool:
        raise _refusal(name, "must be true or false", code="invalid_type")


def _whole(minimum: int | None = None, maximum: int | None = None) -> Check:
    def check(value: object, name: str) -> None:
        if type(value) is not int:
            raise _refusal(name, "must be an integer", code="invalid_type")
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            raise _refusal(name, f"must be {_range(minimum, maximum)}")

    return check


def _number(minimum: float, maximum: float) -> Check:
    def check(value: object, name: str) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (isinstance(value, float) and not math.isfinite(value)):
            raise _refusal(name, "must be a number", code="invalid_type")
        if not minimum <= cast("float", value) <= maximum:
            raise _refusal(name, f"must be {_range(minimum, maximum)}")

    return check


def _range(minimum: float | None, maximum: float | None) -> str:
    if maximum is None:
        return f"at least {minimum:g}"
    return f"from {minimum:g} to {maximum:g}" if minimum != maximum else f"{minimum:g}"


def _stop(value: object, name: str) -> None:
    texts = [value] if isinstance(value, str) else _list(value, name)
    if len(texts) > 4:
        raise _refusal(name, "must hold at most 4 texts")
    for index, item in enumerate(texts):
        place = name if isinstance(value, str) else f"{name}[{index}]"
        _text(item, place)
        if not item:
            raise _refusal(place, "must not be empty")


def _stream_options(value: object, name: str) -> None:
    options = _object(value, name)
    _known(options, name, ("include_usage",))
    if "include_usage" in options:
        _flag(options["include_usage"], f"{name}.include_usage")


def _response_format(value: object, name: str) -> None:
    chosen = _object(value, name)
    if chosen.get("type") not in _FORMATS:
        raise _refusal(f"{name}.type", f"must be one of {', '.join(_FORMATS)}")
    _known(chosen, name, ("type", "json_schema"))
    if chosen["type"] == "json_schema":
        schema = _object(chosen.get("json_schema"), f"{name}.json_schema")
        _name(schema.get("name"), f"{name}.json_schema.name")


def _tools(value: object, name: str) -> None:
    for index, item in enumerate(_list(value, name)):
        place = f"{name}[{index}]"
        tool = _object(item, place)
        _known(tool, place, ("type", "function"))
        if tool.get("type") != "function":
            raise _refusal(f"{place}.type", "must be function")
        function = _object(tool.get("function"), f"{place}.function")
        _known(function, f"{place}.function", ("name", "description", "parameters", "strict"))
        _name(function.get("name"), f"{place}.function.name")
        if function.get("description") is not None:
            _text(function["description"], f"{place}.function.description")
        if function.get("parameters") is not None:
            _object(function["parameters"], f"{place}.function.parameters")


def _tool_choice(value: object, name: str) -> None:
    if isinstance(value, str):
        if value not in {"none", "auto", "required"}:
            raise _refusal(name, "must be none, auto, required or a function")
        return
    choice = _object(value, name)
    if choice.get("type") != "function":
        raise _refusal(f"{name}.type", "must be function")
    _name(_object(choice.get("function"), f"{name}.function").get("name"), f"{name}.function.name")


def _messages(value: object, name: str) -> None:
    messages = _list(value, name)
    if not messages:
        raise _refusal(name, "must hold at least one message")
    for index, item in enumerate(messages):
        _message(item, f"{name}[{index}]")


def _message(value: object, name: str) -> None:
    message = _object(value, name)
    _known(message, name, _MESSAGE_FIELDS)
    if message.get("role") not in _ROLES:
        raise _refusal(f"{name}.role", f"must be one of {', '.join(_ROLES)}")
    content = message.get("content")
    if isinstance(content, list):
        for index, item in enumerate(cast("list[object]", content)):
            place = f"{name}.content[{index}]"
            part = _object(item, place)
            if part.get("type") != "text":
                raise _refusal(f"{place}.type", "must be text")
            _text(part.get("text"), f"{place}.text")
    elif content is not None:
        _text(content, f"{name}.content")
    calls = message.get("tool_calls")
    if calls is not None:
        if message["role"] != "assistant":
            raise _refusal(f"{name}.tool_calls", "belongs to an assistant message")
        for index, item in enumerate(_list(calls, f"{name}.tool_calls")):
            _tool_call(item, f"{name}.tool_calls[{index}]")
    if content is None and not calls:
        raise _refusal(f"{name}.content", "is required")
    if message["role"] == "tool":
        _name(message.get("tool_call_id"), f"{name}.tool_call_id")
    if message.get("name") is not None:
        _text(message["name"], f"{name}.name")


def _tool_call(value: object, name: str) -> None:
    call = _object(value, name)
    _known(call, name, ("id", "type", "function", "index"))
    _name(call.get("id"), f"{name}.id")
    function = _object(call.get("function"), f"{name}.function")
    _known(function, f"{name}.function", ("name", "arguments"))
    _name(function.get("name"), f"{name}.function.name")
    _text(function.get("arguments"), f"{name}.function.arguments")


def _joined(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    parts = cast("list[Mapping[str, str]]", content)
    return {**message, "content": "".join(part["text"] for part in parts)}


def _anything(value: object, name: str) -> None:
    """Check nothing: the field is known and has no effect here."""


_FIELDS: Mapping[str, Check] = {
    "model": _name,
    "messages": _messages,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "max_tokens": _whole(1),
    "max_completion_tokens": _whole(1),
    "n": _whole(1, 1),
    "stream": _flag,
    "stream_options": _stream_options,
    "stop": _stop,
    "seed": _whole(),
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _flag,
    "response_format": _response_format,
    "logprobs": _flag,
    "top_logprobs": _whole(0, 20),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "user": _text,
    "metadata": lambda value, name: cast("None", _object(value, name) and None),
    "store": _flag,
    "service_tier": _anything,
    "reasoning_effort": _anything,
}
"""Every field that a request may have."""
