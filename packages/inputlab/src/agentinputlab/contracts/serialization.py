"""One JSON text and one hash per value, and copies of values that nobody can change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NoReturn, cast

from ripieno import canonical

__all__ = ["canonical_json", "content_hash", "deep_freeze_jsonable", "freeze_mapping", "to_jsonable"]

_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_jsonable(value: object) -> Any:
    """Give a value as dicts, lists, strings, numbers, booleans and None.

    Dataclasses become dicts of their fields, enumeration members their values, paths their text, tuples lists.

    Raises:
        TypeError: a set, a key that is no string, or any other type.
        ValueError: nested deeper than `ripieno.canonical.MAX_DEPTH` levels.
    """
    return _to_jsonable(value, canonical.MAX_DEPTH)


def canonical_json(value: object) -> str:
    """Give the one JSON text of a value: sorted keys, no blanks, unescaped, numbers as Python writes them.

    Raises:
        TypeError: as `to_jsonable`.
        ValueError: NaN or Infinity, a lone surrogate, or nested too deep.

    Examples:
        >>> canonical_json({"b": "é", "a": [1, 2.0, True, None]})
        '{"a":[1,2.0,true,null],"b":"é"}'
    """
    return canonical.canonical_json(to_jsonable(value)).decode()


def content_hash(value: object) -> str:
    """Give the lowercase hex SHA-256 of `canonical_json`.

    Raises:
        TypeError: as `to_jsonable`.
        ValueError: as `canonical_json`.

    Examples:
        >>> content_hash({})
        '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
    """
    return json_hash(to_jsonable(value))


def json_hash(value: object) -> str:
    """Give the `content_hash` of a value that `to_jsonable` gave.

    Raises:
        ValueError: as `canonical_json`.
    """
    return hashlib.sha256(canonical.canonical_json(value)).hexdigest()


def deep_freeze_jsonable(value: object) -> Any:
    """Give a detached copy that cannot be changed: mappings are read-only, sequences are tuples.

    Raises:
        TypeError: as `to_jsonable`.
        ValueError: nested too deep.
    """
    return _freeze(to_jsonable(value))


def freeze_mapping(mapping: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Give a detached, read-only copy of a mapping; an empty one for ``None``.

    Raises:
        TypeError: no mapping, or as `to_jsonable`.
        ValueError: nested too deep.
    """
    if mapping is None:
        return MappingProxyType({})
    if not isinstance(cast("object", mapping), Mapping):
        raise TypeError(f"Expected a mapping, got {type(mapping).__name__}")
    return deep_freeze_jsonable(mapping)


def _to_jsonable(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth == 0:
        raise ValueError(f"Canonical value is nested more than {canonical.MAX_DEPTH} levels deep")
    if kind is dict or kind is MappingProxyType:
        return _object(value, depth - 1)
    if kind is list or kind is tuple:
        return _array(value, depth - 1)
    if isinstance(value, Enum):
        return _to_jsonable(value.value, depth - 1)
    if hasattr(kind, "__dataclass_fields__"):  # as `is_dataclass` tells it of an object
        depth -= 1
        return {
            name: item if type(item := getattr(value, name)) in _PLAIN else _to_jsonable(item, depth)
            for name in field_names(kind)
        }
    return _less_common(value, depth - 1)


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """Give the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(kind))


def _less_common(value: object, depth: int) -> Any:
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value), depth)
    if isinstance(value, list | tuple):
        return _array(cast("list[object]", value), depth)
    if isinstance(value, PurePath):
        return str(value)
    for base in (str, int, float):  # subclasses, such as numpy's float64, give their plain value
        if isinstance(value, base):
            return base(value)
    raise TypeError(f"Unsupported canonical value: {type(value).__name__}")


# Scalars are seen here, without a call of their own: nearly everything is one.


def _array(value: Iterable[object], depth: int) -> list[Any]:
    return [item if type(item) in _PLAIN else _to_jsonable(item, depth) for item in value]


def _object(value: Mapping[object, object], depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is str:
            result[key] = item if type(item) in _PLAIN else _to_jsonable(item, depth)
        elif isinstance(key, Enum) and isinstance(key, str):
            result[str(key.value)] = _to_jsonable(item, depth)
        else:
            _refuse_key(key)
    return result


def _refuse_key(key: object) -> NoReturn:
    raise TypeError(f"Unsupported canonical key: {key!r:.80} is of type {type(key).__name__}, keys are strings")


def _freeze(value: Any) -> Any:
    if type(value) is dict:
        mapping: dict[str, Any] = value
        return MappingProxyType({key: item if type(item) in _PLAIN else _freeze(item) for key, item in mapping.items()})
    if type(value) is list:
        items: list[Any] = value
        return tuple([item if type(item) in _PLAIN else _freeze(item) for item in items])
    return value
