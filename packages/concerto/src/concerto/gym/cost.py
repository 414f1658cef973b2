"""The constraint cost of a step, as safe reinforcement learning counts it.

The cost is a separate number in ``info["cost"]``, never part of the reward. It judges the state that the step
led to. Choose one of the functions below or write your own: anything that turns a `SafetyOutcome` into a float.
"""

from __future__ import annotations

from collections.abc import Callable

from concerto.gym.outcome import SafetyOutcome

__all__ = ["CostFunction", "contact_cost", "contact_or_violation_cost", "violation_cost"]

CostFunction = Callable[[SafetyOutcome], float]
"""Gives the constraint cost of a step."""


def contact_cost(outcome: SafetyOutcome) -> float:
    """1.0 when the ego touches a partner after the step, else 0.0."""
    return float(outcome.in_contact)


def violation_cost(outcome: SafetyOutcome) -> float:
    """Sum over the partners of how far the barrier is broken after the step, ``max(0, -h)``, m/s."""
    return sum(max(0.0, -value) for value in outcome.barrier_values.values())


def contact_or_violation_cost(outcome: SafetyOutcome) -> float:
    """1.0 when the ego touches a partner or a barrier is broken after the step, else 0.0; the default."""
    return float(outcome.in_contact or outcome.violates_barrier)
