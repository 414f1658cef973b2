"""How two robots share the right-hand side of their common row when each enforces its half alone.

A decentralised filter of robot i keeps ``-n.a_i <= beta_i R`` and robot j keeps ``n.a_j <= beta_j R``; with
``beta_i + beta_j = 1`` both together keep the row ``-n.a_i + n.a_j <= R`` (Wang, Ames & Egerstedt 2017, eq. 12).
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

__all__ = [
    "SUPPORTED_STRATEGIES",
    "BudgetSplitStrategy",
    "ProportionalBudgetSplit",
    "RelativeDegreeAwareBudgetSplit",
    "make_budget_split",
]

SUPPORTED_STRATEGIES = ("proportional", "relative_degree_aware")
"""Names of the strategies; the second is reserved and has no rule yet."""


@runtime_checkable
class BudgetSplitStrategy(Protocol):
    """A rule that divides one right-hand side between two robots."""

    name: str

    def split(self, alpha_i: float, alpha_j: float) -> tuple[float, float]:
        """Give the shares of robots i and j, each in [0, 1], with the sum 1.

        Args:
            alpha_i: braking capacity of robot i, m/s^2.
            alpha_j: braking capacity of robot j, m/s^2.
        """
        ...


class ProportionalBudgetSplit:
    """Every robot carries the share of its braking capacity (Wang, Ames & Egerstedt 2017, eq. 12)."""

    name = "proportional"

    def split(self, alpha_i: float, alpha_j: float) -> tuple[float, float]:
        """Give ``alpha_i / (alpha_i + alpha_j)`` and its complement.

        Raises:
            ValueError: a capacity is not finite and > 0.

        Examples:
            >>> ProportionalBudgetSplit().split(3.0, 1.0)
            (0.75, 0.25)
        """
        for name, value in (("alpha_i", alpha_i), ("alpha_j", alpha_j)):
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be finite and > 0, got {value}")
        share = alpha_i / (alpha_i + alpha_j)
        return share, 1.0 - share


class RelativeDegreeAwareBudgetSplit:
    """Reserved for robots whose actions act on different derivatives of the position; there is no rule for it yet."""

    name = "relative_degree_aware"

    def split(self, alpha_i: float, alpha_j: float) -> tuple[float, float]:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("the relative-degree-aware budget split has no published rule: use 'proportional'")


def make_budget_split(name: str) -> BudgetSplitStrategy:
    """Make a strategy by its name.

    Raises:
        ValueError: the name is unknown.
        NotImplementedError: the name is reserved.
    """
    if name == "proportional":
        return ProportionalBudgetSplit()
    if name == "relative_degree_aware":
        raise NotImplementedError("the relative-degree-aware budget split has no published rule: use 'proportional'")
    raise ValueError(f"budget split must be one of {SUPPORTED_STRATEGIES}, got {name!r}")
