"""Corrections for testing several treatments at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentinputlab.contracts.errors import ValidationError

__all__ = ["benjamini_hochberg", "holm"]


def holm(p_values: Sequence[float]) -> list[float]:
    """Give Holm's adjusted p-values, which bound the chance of any false claim (Holm 1979).

    Args:
        p_values: one per treatment, between 0 and 1.

    Returns:
        Adjusted values in the same order.

    Raises:
        ValidationError: a value is not between 0 and 1.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    _check(p_values)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Give adjusted p-values that bound the expected share of false claims (Benjamini and Hochberg 1995).

    Args:
        p_values: one per treatment, between 0 and 1.

    Returns:
        Adjusted values in the same order.

    Raises:
        ValidationError: a value is not between 0 and 1.
    """
    _check(p_values)
    if not p_values:
        return []
    from scipy.stats import false_discovery_control

    return [float(value) for value in false_discovery_control(list(p_values), method="bh")]


def _check(p_values: Sequence[float]) -> None:
    for value in p_values:
        if not (math.isfinite(value) and 0.0 <= value <= 1.0):
            raise ValidationError(f"p_values must lie between 0 and 1, got {value!r}")
