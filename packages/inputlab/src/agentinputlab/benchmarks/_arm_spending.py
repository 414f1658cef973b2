"""Whether the usage that a bridge reports for an arm can be true, by what the request says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agentinputlab.contracts.errors import ValidationError

__all__ = ["check_arm_spending"]

_CAPS: Mapping[str, str] = {
    "max_model_calls": "model_calls",
    "max_retrieval_calls": "retrieval_calls",
    "max_tool_calls": "tool_calls",
    "max_output_tokens": "output_tokens",
    "max_context_tokens": "input_tokens",
}
"""Cap of the budget -> usage that it limits."""


def check_arm_spending(payload: Mapping[str, Any], usage: Mapping[str, float], role: str) -> None:
    """Check that an arm used at least what its intervention had used, and no more than its budget.

    Args:
        payload: of the arm, as it was asked for; what it does not say limits nothing.
        usage: the eleven fields that came back, intervention included.
        role: of the arm, for the message.

    Raises:
        ValidationError: it used less or more, and the field is named.
    """
    execution = _object(payload.get("intervention_execution"))
    for name, amount in _object(execution.get("usage")).items():
        if name in usage and usage[name] < amount:
            raise ValidationError(f"result of {role}: usage.{name} is less than its intervention alone used")
    budget = _object(_object(execution.get("materialized_state")).get("budget"))
    for cap, name in _CAPS.items():
        limit = budget.get(cap)
        if limit is not None and usage[name] > limit:
            raise ValidationError(f"result of {role}: usage.{name} is {usage[name]}, its {cap} is {limit}")
    money = budget.get("max_cost_usd")
    if money is not None and usage["cost_usd"] + usage["compute_cost_usd"] > money:
        raise ValidationError(f"result of {role}: its cost is more than its max_cost_usd {money}")


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
