"""Typed readers for the fields of review records: what a value must be, said with its name.

A boolean is never a number, NaN and infinities are refused, and every message names the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from scpn_phase_orchestrator.exceptions import ValidationError

__all__ = [
    "boolean",
    "finite_number",
    "hex_digest",
    "integer",
    "named_numbers",
    "non_empty_text",
    "non_negative_number",
    "positive_number",
    "unique_names",
]

_HEX_64 = re.compile(r"[0-9a-f]{64}")


def finite_number(value: object, name: str) -> float:
    """Give a finite number as a float.

    Raises:
        ValidationError: a boolean, no number, NaN or infinite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValidationError(f"{name} must be a number, got {value!r:.80}")
    try:
        number = float(value)
    except OverflowError:
        raise ValidationError(f"{name} must be a finite number, got an integer beyond the range of doubles") from None
    if not math.isfinite(number):
        raise ValidationError(f"{name} must be a finite number, got {number!r}")
    return number


def positive_number(value: object, name: str) -> float:
    """Give a finite number above 0.

    Raises:
        ValidationError: anything else.
    """
    number = finite_number(value, name)
    if number <= 0.0:
        raise ValidationError(f"{name} must be positive, got {number!r}")
    return number


def non_negative_number(value: object, name: str) -> float:
    """Give a finite number that is at least 0.

    Raises:
        ValidationError: anything else.
    """
    number = finite_number(value, name)
    if number < 0.0:
        raise ValidationError(f"{name} must be non-negative, got {number!r}")
    return number


def integer(value: object, name: str, *, minimum: int = 0) -> int:
    """Give an integer that is at least `minimum`.

    Raises:
        ValidationError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(f"{name} must be an integer, got {value!r:.80}")
    if value < minimum:
        raise ValidationError(f"{name} must be at least {minimum}, got {value}")
    return value


def boolean(value: object, name: str) -> bool:
    """Give a boolean.

    Raises:
        ValidationError: anything else.
    """
    if not isinstance(value, bool):
        raise ValidationError(f"{name} must be a boolean, got {value!r:.80}")
    return value


def non_empty_text(value: object, name: str) -> str:
    """Give a text that is more than white space, as it is written.

    Raises:
        ValidationError: anything else.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValidationError(f"{name} must be a non-empty string, got {value!r:.80}")
    return value


def hex_digest(value: object, name: str, *, lower: bool = False) -> str:
    """Give a SHA-256 in hex.

    Args:
        value: the text.
        name: what it is called.
        lower: accept capital digits and give lowercase ones.

    Raises:
        ValidationError: not 64 (lowercase) hex digits.
    """
    text = value.lower() if lower and isinstance(value, str) else value
    if not isinstance(text, str) or not _HEX_64.fullmatch(text):
        raise ValidationError(f"{name} must be 64 lowercase hex digits, got {value!r:.80}")
    return text


def unique_names(values: object, name: str) -> tuple[str, ...]:
    """Give a non-empty sequence of different, non-empty texts, in its order.

    Raises:
        ValidationError: anything else.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValidationError(f"{name} must be a sequence of strings, got {values!r:.80}")
    names = tuple(non_empty_text(item, f"{name}[]") for item in cast("Iterable[object]", values))
    if not names:
        raise ValidationError(f"{name} must be non-empty")
    if len(set(names)) != len(names):
        duplicate = next(item for item in names if names.count(item) > 1)
        raise ValidationError(f"{name} must be unique, {duplicate!r} is there twice")
    return names


def named_numbers(value: object, name: str) -> dict[str, float]:
    """Give a mapping (or a list of pairs) of names to finite numbers, sorted by name.

    Raises:
        ValidationError: empty, a name twice, or a value that is no finite number.
    """
    pairs: list[tuple[object, object]]
    if isinstance(value, Mapping):
        pairs = list(cast("Mapping[object, object]", value).items())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        pairs = [_pair(item, name) for item in cast("Sequence[object]", value)]
    else:
        raise ValidationError(f"{name} must be a mapping of names to numbers, got {value!r:.80}")
    if not pairs:
        raise ValidationError(f"{name} must be non-empty")
    result: dict[str, float] = {}
    for key, item in pairs:
        text = non_empty_text(key, f"a key of {name}")
        if text in result:
            raise ValidationError(f"{name} has the key {text!r} twice")
        result[text] = finite_number(item, f"{name}[{text!r}]")
    return dict(sorted(result.items()))


def _pair(value: object, name: str) -> tuple[object, object]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValidationError(f"{name} must be a mapping or a list of [name, number] pairs, got {value!r:.80}")
    items = cast("Sequence[Any]", value)
    if len(items) != 2:
        raise ValidationError(f"{name} must hold pairs of two members, got {value!r:.80}")
    return items[0], items[1]
