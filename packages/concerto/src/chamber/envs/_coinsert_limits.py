"""How much force co-insert allows, and where those numbers come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from chamber.envs._coinsert_rules import COINSERT_COUPLE_FORCE_MAX_N, COINSERT_INSERT_FORCE_MAX_N
from chamber.envs._force_limits import published_limits

__all__ = ["COINSERT_LIMITS_DATA", "CoInsertLimits", "resolve_coinsert_limits"]

COINSERT_LIMITS_DATA = "coinsert_limits.json"
"""In ``chamber/envs/data``: the derived limits with their episodes; `benchmarks/coinsert_limits.py` derives them.

The forces count from the first step on: the reference seats the peg within the settle window, in which an episode's own
peaks do not count yet.
"""


@dataclass(frozen=True, slots=True)
class CoInsertLimits:
    """The two forces that an episode may reach and not exceed, N.

    Attributes:
        f_insert_max_n: of the contact between peg and socket.
        f_couple_max_n: in the wrist of the holder.
    """

    f_insert_max_n: float
    f_couple_max_n: float


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
        return CoInsertLimits(**published_limits(COINSERT_LIMITS_DATA))
    raise ValueError(f"limits must be 'v2' or 'documented', got {name!r}")
