"""Whole numbers that a caller gives: counts, seeds, places. A float or a boolean is a mistake, and says so."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

__all__ = ["require_integer", "require_integers"]


def require_integer(name: str, value: object, *, at_least: int) -> int:
    """Give a value as an integer.

    Raises:
        ValueError: it is none, or smaller than ``at_least``.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(cast("Any", value))
    except TypeError:
        number = None
    if number is None:
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if number < at_least:
        raise ValueError(f"{name} must be >= {at_least}, got {number}")
    return number


def require_integers(name: str, values: object, *, at_least: int) -> list[int]:
    """Give the members of a sequence or of an array as integers.

    Raises:
        ValueError: it is no sequence, or a member is no integer or smaller than ``at_least``.
    """
    members = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(members, str | bytes) or not isinstance(members, Iterable):
        raise ValueError(f"{name} must be integers, got {values!r}")  # noqa: TRY004 - as documented
    return [require_integer(name, member, at_least=at_least) for member in cast("Iterable[object]", members)]
