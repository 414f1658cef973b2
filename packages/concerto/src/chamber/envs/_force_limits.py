"""How much force a task allows: the one rule that derives a limit, and where derived limits are kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

__all__ = ["FORCE_LIMIT_MARGIN", "FORCE_LIMIT_PERCENTILE", "derive_force_limit", "published_limits"]

FORCE_LIMIT_MARGIN = 1.25
FORCE_LIMIT_PERCENTILE = 99.0


def derive_force_limit(peak_force_of_successes: Sequence[float]) -> float:
    """Give the limit that follows from matched successes: 1.25 times their 99th percentile, rounded up to a newton.

    Args:
        peak_force_of_successes: largest force of each matched success, N. The benchmark of a task says which steps of
            an episode it takes.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    if len(peak_force_of_successes) == 0 or not np.isfinite(peak_force_of_successes).all():
        raise ValueError(f"peak_force_of_successes must be finite numbers, got {list(peak_force_of_successes)}")
    return float(math.ceil(FORCE_LIMIT_MARGIN * np.percentile(peak_force_of_successes, FORCE_LIMIT_PERCENTILE)))


def published_limits(file_name: str) -> dict[str, float]:
    """Give the limits of a file in ``chamber/envs/data``, by the names of the fields that they fill."""
    return json.loads((files("chamber.envs") / "data" / file_name).read_text(encoding="utf-8"))["limits"]
