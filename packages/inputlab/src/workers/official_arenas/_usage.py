"""Resource usage as the workers report it: eleven fields, and an unknown field is an error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from workers.official_arenas._errors import OfficialArenaError

__all__ = ["USAGE_FIELDS", "merge_usage"]

_COUNTS = (
    "model_calls",
    "retrieval_calls",
    "tool_calls",
    "embedding_calls",
    "unpriced_model_calls",
    "input_tokens",
    "output_tokens",
)
_AMOUNTS = ("cpu_seconds", "accelerator_seconds", "cost_usd", "compute_cost_usd")
_ZERO: Mapping[str, int | float] = {**dict.fromkeys(_COUNTS, 0), **dict.fromkeys(_AMOUNTS, 0.0)}
_COUNTED = frozenset(_COUNTS)
_PRICED = frozenset(_AMOUNTS)
USAGE_FIELDS = frozenset({*_COUNTS, *_AMOUNTS})
"""The eleven fields of a usage row."""


def merge_usage(*usages: Mapping[str, Any]) -> dict[str, Any]:
    """Add usage maps; the result has all eleven fields, a missing one counts as 0.

    Raises:
        OfficialArenaError: an unknown field, or a value that is negative, boolean, not a number or not finite.

    Examples:
        >>> merged = merge_usage({"model_calls": 1}, {"cost_usd": 0.5})
        >>> len(merged), merged["model_calls"], merged["cost_usd"], merged["tool_calls"]
        (11, 1, 0.5, 0)
    """
    total: dict[str, Any] = dict(_ZERO)
    for usage in usages:
        if type(usage) is not dict and not isinstance(cast("object", usage), Mapping):
            raise OfficialArenaError("Usage must be an object")
        for name, value in usage.items():
            kind = type(value)
            if (kind is int and name in _COUNTED and value >= 0) or (
                kind is float and name in _PRICED and 0.0 <= value < math.inf
            ):
                total[name] += value
            elif name in USAGE_FIELDS:
                total[name] += _checked(name, value)
            else:
                raise OfficialArenaError(f"Usage has an unknown field; known are {sorted(USAGE_FIELDS)}")
    for name in _AMOUNTS:
        if total[name] == math.inf:  # none is negative, and none was given as NaN
            raise OfficialArenaError("Usage sums must be finite")
    return total


def _checked(name: str, value: object) -> int | float:
    if name in _COUNTS:
        if type(value) is int and value >= 0:
            return value
        raise OfficialArenaError(f"Usage {name} must be a non-negative integer, got {type(value).__name__}")
    if type(value) in {int, float}:
        try:
            amount = float(cast("float", value))
        except OverflowError:
            amount = math.inf
        if math.isfinite(amount) and amount >= 0:
            return amount
    raise OfficialArenaError(f"Usage {name} must be a non-negative finite number")
