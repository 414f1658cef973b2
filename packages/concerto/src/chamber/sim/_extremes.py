"""The least and the largest of some numbers, which also tells whether all are finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["extremes"]

_FEW = 20
"""So many numbers are looked at faster one by one than as an array."""


def extremes(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Give the least and the largest component, zeros when there is none; None when a component is not finite."""
    if values.size > _FEW:
        least, most = float(values.min()), float(values.max())
        return (least, most) if math.isfinite(least) and math.isfinite(most) else None
    components: list[Any] = values.ravel().tolist()
    if not all(map(math.isfinite, components)):
        return None
    return min(components, default=0.0), max(components, default=0.0)
