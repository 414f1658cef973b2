"""How partners read their text parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from chamber.partners.api import PartnerSpec

__all__ = ["UnknownParameters", "finite_floats", "positive_integer", "warn_about_unknown_keys"]

_METADATA = frozenset({"action_dim", "other_uid", "role", "task", "uid"})
"""Keys that those who seat partners may add and no controller reads."""


class UnknownParameters(UserWarning):
    """A partner was given parameters that it does not have.

    Attributes:
        keys: their names.
    """

    def __init__(self, message: str, keys: Collection[str]) -> None:
        super().__init__(message)
        self.keys = frozenset(keys)


def warn_about_unknown_keys(spec: PartnerSpec, known: Collection[str]) -> None:
    """Give `UnknownParameters` when a partner was given a parameter that it does not have: usually a misspelt one."""
    unknown = sorted(spec.extra.keys() - set(known) - _METADATA)
    if unknown:
        message = f"{spec.class_name} has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}"
        warnings.warn(UnknownParameters(message, unknown), stacklevel=3)


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
