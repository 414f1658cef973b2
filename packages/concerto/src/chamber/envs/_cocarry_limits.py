"""How much stress co-carry allows, and where those numbers come from."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from chamber.envs._cocarry_rules import (
    COCARRY_REWARD_STRESS_TANH_SCALE_N,
    COCARRY_REWARD_STRESS_THRESHOLD_N,
    COCARRY_STRESS_MAX_PROXY_N,
)

__all__ = [
    "COCARRY_LIMITS_DATA",
    "STRESS_LIMIT_MARGIN",
    "STRESS_LIMIT_PERCENTILE",
    "CoCarryLimits",
    "derive_stress_limits",
    "resolve_cocarry_limits",
]

COCARRY_LIMITS_DATA = "cocarry_limits.json"
"""In ``chamber/envs/data``: the derived limits with their episodes; `benchmarks/cocarry_limits.py` writes it."""

STRESS_LIMIT_MARGIN = 1.25
STRESS_LIMIT_PERCENTILE = 99.0


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


def derive_stress_limits(max_stress_of_successes: Sequence[float]) -> CoCarryLimits:
    """Give the limits that follow from matched successes.

    The limit is 1.25 times the 99th percentile of their largest stress, rounded up to whole newtons.
    Threshold and scale of the penalty keep the proportions of the documented ones: 110/130 and 20/130 of the limit.

    Args:
        max_stress_of_successes: largest stress of each matched success, N.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    if len(max_stress_of_successes) == 0 or not np.isfinite(max_stress_of_successes).all():
        raise ValueError(f"max_stress_of_successes must be finite numbers, got {max_stress_of_successes}")
    highest = float(np.percentile(max_stress_of_successes, STRESS_LIMIT_PERCENTILE))
    stress_max = float(math.ceil(STRESS_LIMIT_MARGIN * highest))
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
        text = (files("chamber.envs") / "data" / COCARRY_LIMITS_DATA).read_text(encoding="utf-8")
        return CoCarryLimits(**json.loads(text)["limits"])
    raise ValueError(f"limits must be 'v2' or 'documented', got {name!r}")
