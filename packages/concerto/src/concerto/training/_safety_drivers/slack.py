"""The slack of a driver as plain data, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from concerto.safety.api import SafetyState, lambda_from_jsonable, lambda_to_jsonable

__all__ = ["state_from_plain", "state_to_plain"]


def state_to_plain(state: SafetyState) -> dict[str, Any]:
    """Give slack and warm-up as plain data."""
    records = lambda_to_jsonable(state.lambda_)
    return {
        "lambda": {str(index): record for index, record in enumerate(records)},
        "epsilon": float(state.epsilon),
        "eta": float(state.eta),
        "warmup_steps_remaining": int(state.warmup_steps_remaining),
    }


def state_from_plain(plain: Mapping[str, Any]) -> SafetyState:
    """Read what `state_to_plain` gave."""
    slack = lambda_from_jsonable(list(plain["lambda"].values()), allow_empty=True)
    return SafetyState(slack, plain["epsilon"], plain["eta"], plain["warmup_steps_remaining"])
