"""Checks that the contracts share: each gives the value back or says which field is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeGuard, TypeVar, cast

from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import field_names, freeze_mapping, json_hash, to_jsonable

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_DIGEST = re.compile("[0-9a-f]{64}")


class Record:
    """A frozen record that can be pickled and copied although its mappings are read-only."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {name: _thaw(getattr(self, name)) for name in field_names(type(self))})


def _rebuild(kind: type[T], values: dict[str, Any]) -> T:
    return kind(**values)


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thaw(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if type(value) is tuple:
        return tuple(_thaw(item) for item in cast("tuple[Any, ...]", value))
    return value


class Hashed(Record):
    """A record that remembers its content hash; it cannot change, so the hash cannot either."""

    __slots__ = ("_content_hash",)

    _content_hash: str

    def remembered_hash(self) -> str:
        """Give the content hash, which is taken once."""
        try:
            return self._content_hash
        except AttributeError:
            return self.json_and_hash()[1]

    def json_and_hash(self) -> tuple[dict[str, Any], str]:
        """Give the record as JSON values, and `remembered_hash`: both for the price of one."""
        value: dict[str, Any] = to_jsonable(self)
        try:
            return value, self._content_hash
        except AttributeError:
            put(self, _content_hash=json_hash(value))
            return value, self._content_hash


def put(record: object, **values: object) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def text(value: object, name: str, *, blank: bool = False) -> str:
    """Give a string; refuse other types and, unless allowed, blank ones."""
    if not isinstance(value, str):
        raise ValidationError(f"{name} must be a string, got {type(value).__name__}")
    if not blank and not value.strip():
        raise ValidationError(f"{name} must not be blank")
    return value


def optional_text(value: object, name: str) -> str | None:
    """Give a non-blank string or None."""
    return None if value is None else text(value, name)


def whole(value: object, name: str, *, minimum: int = 0) -> int:
    """Give an integer of at least ``minimum``; booleans are no integers."""
    if type(value) is not int or value < minimum:
        raise ValidationError(f"{name} must be an integer >= {minimum}, got {value!r:.80}")
    return value


def finite(value: object, name: str, *, minimum: float | None = None) -> float:
    """Give a finite number, int or float as it came; booleans are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValidationError(f"{name} must be a finite number, got {value!r:.80}")
    try:
        is_finite = math.isfinite(value)
    except OverflowError as error:
        raise ValidationError(f"{name} must be a finite number, this integer is too large for a double") from error
    if not is_finite:
        raise ValidationError(f"{name} must be a finite number, got {value!r:.80}")
    if minimum is not None and value < minimum:
        raise ValidationError(f"{name} must be >= {minimum:g}, got {value!r:.80}")
    return value


def flag(value: object, name: str) -> bool:
    """Give a boolean."""
    if type(value) is not bool:
        raise ValidationError(f"{name} must be true or false, got {value!r:.80}")
    return value


def member(value: object, kind: type[E]) -> E:
    """Give the member of an enumeration that a value is or names, as calling the enumeration does."""
    return value if isinstance(value, kind) else kind(value)


def frozen(value: object, name: str) -> Mapping[str, Any]:
    """Give a detached read-only copy of a mapping of JSON values."""
    mapping: Any = value
    if type(value) is dict or type(value) is MappingProxyType:
        if not mapping:
            return MappingProxyType({})
    elif not isinstance(value, Mapping):
        raise ValidationError(f"{name} must be a mapping, got {type(value).__name__}")
    try:
        return freeze_mapping(mapping)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"{name} must hold JSON values only: {error}") from error


def entries(value: object, name: str, kind: type[T]) -> tuple[T, ...]:
    """Give a tuple of a list or tuple whose entries are all of one type."""
    if type(value) is tuple and not value:
        return ()
    if not isinstance(value, list | tuple):
        raise ValidationError(f"{name} must be a list or tuple, got {type(value).__name__}")
    rows: Any = value
    for index, item in enumerate(rows):
        if not isinstance(item, kind):
            raise ValidationError(f"{name}[{index}] must be a {kind.__name__}, got {type(item).__name__}")
    return tuple(rows)


def texts(value: object, name: str) -> tuple[str, ...]:
    """Give a tuple of non-blank strings."""
    result = entries(value, name, str)
    for index, item in enumerate(result):
        text(item, f"{name}[{index}]")
    return result


def digest(value: object, name: str) -> str:
    """Give a lowercase hex SHA-256."""
    if not is_digest(value):
        raise ValidationError(f"{name} must be 64 lowercase hex digits, got {value!r:.80}")
    return value


def is_digest(value: object) -> TypeGuard[str]:
    """Tell whether a value is a lowercase hex SHA-256."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def exact_fields(
    value: object, name: str, *, allowed: Iterable[str], required: Iterable[str] = ()
) -> Mapping[str, Any]:
    """Give a mapping without unknown and without missing fields; the message names them."""
    if not isinstance(value, Mapping):
        raise ValidationError(f"{name} must be an object, got {type(value).__name__}")
    mapping = cast("Mapping[Any, Any]", value)
    known = tuple(allowed)
    for key in mapping:
        if key not in known:
            raise ValidationError(f"{name} has the unknown field {key!r:.80}; known fields: {', '.join(known)}")
    for key in required:
        if key not in mapping:
            raise ValidationError(f"{name} lacks the field {key!r}")
    return cast("Mapping[str, Any]", mapping)


def load(kind: type[T], value: object, name: str) -> T:
    """Make a dataclass of a mapping that has its fields and no other ones."""
    mapping = exact_fields(value, name, allowed=field_names(kind))
    try:
        return kind(**mapping)
    except TypeError as error:  # a field without default is missing
        raise ValidationError(f"{name} is incomplete: {error}") from error
