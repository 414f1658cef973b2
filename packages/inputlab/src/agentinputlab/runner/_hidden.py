"""The check that an intervention reaches the world through its context only."""

from __future__ import annotations

import functools
import io
import re
import socket
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from agentinputlab.contracts.errors import ValidationError

__all__ = ["declared_fields", "refuse_hidden_dependencies"]

_SERVICES = ("generate", "retrieve", "embed", "search", "respond", "call", "handle", "select")
"""Methods by which things of a context are used: what has one of them is executable."""
_HARMLESS = (str, bytes, int, float, complex, bool, type(None), type, re.Pattern)


def declared_fields(value: object) -> Iterator[tuple[str, Any]]:
    """Give name and value of every field that an object declares: of a dataclass, in slots, or set on it."""
    names: dict[str, None] = {}
    if is_dataclass(value):
        names |= dict.fromkeys(field.name for field in fields(value))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    names |= dict.fromkeys(getattr(value, "__dict__", {}))
    for name in names:
        if hasattr(value, name):  # a slot may be empty
            yield name, getattr(value, name)


def refuse_hidden_dependencies(intervention: object) -> None:
    """Check that no declared field of an intervention holds something executable.

    Looked at are its declared fields, what containers in them hold, and the declared fields of dataclasses and of other
    interventions among those. Functions and classes that a module defines are code, like the intervention itself, and
    are allowed; everything callable that carries a state is not.

    Raises:
        ValidationError: names the field.
    """
    seen = {id(intervention)}
    pending = [(name, value) for name, value in declared_fields(intervention)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, _HARMLESS) or id(value) in seen:
            continue
        seen.add(id(value))
        reason = _executable(value)
        if reason is not None:
            raise ValidationError(
                f"field {name} of {_name(intervention)} holds {reason}; "
                "it must come through the InterventionContext of the run"
            )
        if isinstance(value, Mapping):
            pending += [(f"{name}[{key!r:.40}]", item) for key, item in cast("Mapping[Any, Any]", value).items()]
        elif isinstance(value, list | tuple | set | frozenset):
            items = cast("list[Any]", value)
            pending += [(f"{name}[{index}]", item) for index, item in enumerate(items)]
        elif is_dataclass(value) or hasattr(value, "propose"):
            pending += [(f"{name}.{inner}", item) for inner, item in declared_fields(value)]


def _name(intervention: Any) -> str:
    """Give the release, or the class where the release cannot be told: a chain's is a hash of what is wrong here."""
    try:
        return str(intervention.release_id)
    except (AttributeError, ValidationError):
        return type(intervention).__name__


def _executable(value: object) -> str | None:
    """Say what is executable about a value, or None."""
    if isinstance(value, types.FunctionType):
        hidden = value.__closure__ is not None or "<" in value.__qualname__  # a lambda or made inside a function
        return f"the local function {value.__qualname__}" if hidden else None
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, types.ModuleType | None):
        return None
    kind = type(value).__name__
    if isinstance(value, types.MethodType | types.BuiltinFunctionType | functools.partial):
        return f"a {kind}"
    if isinstance(value, types.ModuleType | io.IOBase | socket.socket):
        return f"a {kind}"
    for service in _SERVICES:
        if callable(getattr(value, service, None)):
            return f"a {kind}, which has {service}()"
    return f"a {kind}, which can be called" if callable(value) else None
