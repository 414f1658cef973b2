"""How much force co-insert allows, and where those numbers come from."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from chamber.envs._coinsert_rules import COINSERT_COUPLE_FORCE_MAX_N, COINSERT_INSERT_FORCE_MAX_N

__all__ = [
    "COINSERT_LIMITS_DATA",
    "FORCE_LIMIT_MARGIN",
    "FORCE_LIMIT_PERCENTILE",
    "CoInsertLimits",
    "derive_force_limit",
    "resolve_coinsert_limits",
]

COINSERT_LIMITS_DATA = "coinsert_limits.json"
"""In ``chamber/envs/data``: the derived limits and the episodes behind them, from `benchmarks/coinsert_limits.py`."""

FORCE_LIMIT_MARGIN = 1.25
FORCE_LIMIT_PERCENTILE = 99.0


@dataclass(frozen=True, slots=True)
class CoInsertLimits:
    """The two forces that an episode may reach and not exceed, N.

    Attributes:
        f_insert_max_n: of the contact between peg and socket.
        f_couple_max_n: in the wrist of the holder.
    """

    f_insert_max_n: float
    f_couple_max_n: float


def derive_force_limit(peak_force_of_successes: Sequence[float]) -> float:
    """Give the limit that follows from matched successes: 1.25 times their 99th percentile, rounded up to a newton.

    Args:
        peak_force_of_successes: largest force of each matched success, from its first step on, N. The reference seats
            the peg within the settle window, in which an episode's own peaks do not count yet.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    if len(peak_force_of_successes) == 0 or not np.isfinite(peak_force_of_successes).all():
        raise ValueError(f"peak_force_of_successes must be finite numbers, got {list(peak_force_of_successes)}")
    return float(math.ceil(FORCE_LIMIT_MARGIN * np.percentile(peak_force_of_successes, FORCE_LIMIT_PERCENTILE)))


@cache
def resolve_coinsert_limits(name: str) -> CoInsertLimits:
    """Give the limits of that name.

    Args:
        name: ``"v2"``, derived from our own matched episodes, or ``"documented"``, which has none: infinite.

    Raises:
        ValueError: there are no such limits.
    """
    if name == "documented":
        return CoInsertLimits(
            math.inf if COINSERT_INSERT_FORCE_MAX_N is None else COINSERT_INSERT_FORCE_MAX_N,
            math.inf if COINSERT_COUPLE_FORCE_MAX_N is None else COINSERT_COUPLE_FORCE_MAX_N,
        )
    if name == "v2":
        text = (files("chamber.envs") / "data" / COINSERT_LIMITS_DATA).read_text(encoding="utf-8")
        return CoInsertLimits(**json.loads(text)["limits"])
    raise ValueError(f"limits must be 'v2' or 'documented', got {name!r}")
