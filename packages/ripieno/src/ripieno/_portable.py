"""Any Python number inside the JSON subset that every language reads and rewrites byte for byte."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ripieno.canonical import MAX_DEPTH
from ripieno.errors import InputError

LARGEST_PORTABLE_INTEGER = 2**53
"""Every integer up to this one is exact in languages whose only number is a double."""
MAX_FOREIGN_CHARACTERS = 1000


def to_portable(value: object, *, depth: int = MAX_DEPTH) -> Any:
    """Encode a value so that any language reads and rewrites it byte for byte (the RFC 8785 subset).

    Integers within 2^53 and floats whose text is the same everywhere stay numbers. The others are tagged:
    ``1.0`` becomes ``{"$float": "1.0"}``, ``nan`` ``{"$float": "nan"}``, ``2**60`` ``{"$int": "1152..."}``.
    A key that starts with ``$`` gets one more ``$``. NumPy scalars and arrays become numbers and lists.
    `from_portable` gives the value back, with tuples and arrays as lists.

    Raises:
        InputError: a type that JSON cannot say, a key that is no string or holds a character above U+FFFF
            (its place in the order differs between languages), or more than ``depth`` levels.

    Examples:
        >>> to_portable({"reward": 1.0, "margin_m": 0.25})
        {'reward': {'$float': '1.0'}, 'margin_m': 0.25}
    """
    if type(value) is str or value is None:  # most of what is recorded
        return value
    if isinstance(value, str | int | float):
        return _portable_scalar(value)
    if depth == 0:
        raise InputError(f"value is nested more than {MAX_DEPTH} levels deep")
    if type(value) is dict or isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_portable_key(key): to_portable(item, depth=depth - 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [to_portable(item, depth=depth - 1) for item in cast("Sequence[object]", value)]
    tolist = getattr(value, "tolist", None)  # NumPy scalars and arrays, without importing NumPy
    if callable(tolist):
        return to_portable(tolist(), depth=depth - 1)
    raise InputError(f"a value of type {type(value).__name__} cannot be recorded: {value!r:.80}")


def _portable_scalar(value: str | float | None) -> Any:
    """Encode a scalar; a subclass (an enumeration member, a NumPy float) becomes the plain value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        number = float(value)
        same_text_everywhere = not number.is_integer() and 1e-4 <= abs(number) < math.inf
        return number if same_text_everywhere else {"$float": repr(number)}
    if value is None or isinstance(value, bool):
        return value
    number = int(value)
    return number if abs(number) <= LARGEST_PORTABLE_INTEGER else {"$int": str(number)}


def _portable_key(key: object) -> str:
    if type(key) is str and key.isascii() and not key.startswith("$"):  # most keys
        return key
    if not isinstance(key, str):
        raise InputError(f"keys must be strings, got {key!r:.80}")
    require_portable_key("keys", key)
    return f"${key}" if key.startswith("$") else str.__str__(key)


def require_portable_key(what: str, key: str) -> None:
    """Refuse a key whose place among others differs between languages: some order UTF-16 units, some code points.

    Raises:
        InputError: it holds a character above U+FFFF.
    """
    if not key.isascii() and any(character > "\uffff" for character in key):
        raise InputError(f"{what} must not hold characters above U+FFFF, got {key!r:.80}")


def recordable_text(text: str) -> str:
    """Give text that came from elsewhere, such as the message of an error, in a form that every record takes.

    It is cut to 1000 characters, and lone surrogates, which UTF-8 cannot say, are escaped.
    """
    return text[:MAX_FOREIGN_CHARACTERS].encode(errors="backslashreplace").decode()


def from_portable(value: Any) -> Any:
    """Decode what `to_portable` wrote.

    Raises:
        InputError: an unknown or malformed tag.

    Examples:
        >>> from_portable({"reward": {"$float": "1.0"}, "margin_m": 0.25})
        {'reward': 1.0, 'margin_m': 0.25}
    """
    if isinstance(value, list):
        return [from_portable(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Any]", value)
    if len(mapping) == 1:
        ((tag, text),) = mapping.items()
        if tag in ("$float", "$int") and isinstance(text, str):
            try:
                return float(text) if tag == "$float" else int(text)
            except ValueError as error:
                raise InputError(f"malformed number {mapping!r:.80}") from error
    if any(key.startswith("$") and not key.startswith("$$") for key in mapping):
        raise InputError(f"unknown tag in {mapping!r:.80}")
    return {key.removeprefix("$"): from_portable(item) for key, item in mapping.items()}
