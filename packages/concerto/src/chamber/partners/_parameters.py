"""How partners read their text parameters."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["finite_floats", "positive_integer"]


def finite_floats(name: str, text: str, *, count: int) -> NDArray[np.float64]:
    """Parse ``count`` comma-separated finite numbers.

    Raises:
        ValueError: there are more, fewer, or something is no finite number.
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} must be exactly {count} comma-separated finite floats; got {text!r}")
    return np.array(numbers)


def positive_integer(name: str, text: str | None, *, minimum: int = 1) -> int:
    """Parse an integer of at least ``minimum``.

    Raises:
        ValueError: it is absent, no integer, or smaller.
    """
    try:
        number = int(text) if text is not None else 0
    except ValueError:
        number = 0
    if number < minimum:
        at_least = f" ≥ {minimum}" if minimum > 1 else ""
        raise ValueError(f"{name} must be a positive int{at_least}; got {text!r}")
    return number
