"""How much stress co-carry allows, and where those numbers come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from chamber.envs._cocarry_rules import (
    COCARRY_REWARD_STRESS_TANH_SCALE_N,
    COCARRY_REWARD_STRESS_THRESHOLD_N,
    COCARRY_STRESS_MAX_PROXY_N,
)
from chamber.envs._force_limits import derive_force_limit, published_limits

__all__ = ["COCARRY_LIMITS_DATA", "CoCarryLimits", "derive_stress_limits", "resolve_cocarry_limits"]

COCARRY_LIMITS_DATA = "cocarry_limits.json"
"""In ``chamber/envs/data``: the derived limits with their episodes; `benchmarks/cocarry_limits.py` derives them."""


@dataclass(frozen=True, slots=True)
class CoCarryLimits:
    """The three numbers that say what stress is too much, N.

    Attributes:
        stress_max_n: an episode that ever reaches it does not succeed.
        stress_threshold_n: above it, stress costs reward.
        stress_scale_n: the excess that costs about three quarters of the full penalty.
    """

    stress_max_n: float
    stress_threshold_n: float
    stress_scale_n: float


def derive_stress_limits(peak_stress_of_successes: Sequence[float]) -> CoCarryLimits:
    """Give the limits that follow from matched successes.

    The limit is that of `chamber.envs._force_limits.derive_force_limit`. Threshold and scale of the penalty keep the
    proportions of the documented ones: 110/130 and 20/130 of the limit.

    Args:
        peak_stress_of_successes: largest stress of each matched success, N.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    stress_max = derive_force_limit(peak_stress_of_successes)
    return CoCarryLimits(
        stress_max_n=stress_max,
        stress_threshold_n=stress_max * COCARRY_REWARD_STRESS_THRESHOLD_N / COCARRY_STRESS_MAX_PROXY_N,
        stress_scale_n=stress_max * COCARRY_REWARD_STRESS_TANH_SCALE_N / COCARRY_STRESS_MAX_PROXY_N,
    )


@cache
def resolve_cocarry_limits(name: str) -> CoCarryLimits:
    """Give the limits of that name.

    Args:
        name: ``"v2"``, derived from our own matched episodes, or ``"documented"``, 130, 110 and 20 N.

    Raises:
        ValueError: there are no such limits.
    """
    if name == "documented":
        return CoCarryLimits(
            COCARRY_STRESS_MAX_PROXY_N, COCARRY_REWARD_STRESS_THRESHOLD_N, COCARRY_REWARD_STRESS_TANH_SCALE_N
        )
    if name == "v2":
        return CoCarryLimits(**published_limits(COCARRY_LIMITS_DATA))
    raise ValueError(f"limits must be 'v2' or 'documented', got {name!r}")
