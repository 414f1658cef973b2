"""What one filtered step of an environment did, and how it is told in ``info``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import LambdaDict
from concerto.safety.stack import SafetySource, StackStep

__all__ = ["SafetyOutcome", "by_partner"]


@dataclass(frozen=True, eq=False)
class SafetyOutcome:
    """One filtered step: the decision of the stack, and where it led.

    Attributes:
        step: the decision, made in the state before the step.
        applied_action: what the environment got: the stack's action in the shape and dtype of its space.
        clearances: distance between the surfaces of ego and partner after the step, m, per partner; negative in
            contact.
        barrier_values: barrier value h after the step, m/s, per partner; negative is a violation.
    """

    step: StackStep
    applied_action: NDArray[Any]
    clearances: dict[str, float]
    barrier_values: dict[str, float]

    @property
    def in_contact(self) -> bool:
        """Whether the ego touches a partner after the step."""
        return any(clearance < 0.0 for clearance in self.clearances.values())

    @property
    def violates_barrier(self) -> bool:
        """Whether a barrier value is negative after the step."""
        return any(value < 0.0 for value in self.barrier_values.values())

    def to_info(self, ego_uid: str) -> dict[str, Any]:
        """Give the value of ``info["safety"]``: numbers, arrays, text, and dicts of numbers by partner.

        Wall-clock times are left out, so that equal seeds give equal infos.
        """
        step = self.step
        info: dict[str, Any] = {
            "nominal_action": np.array(step.nominal_action),
            "filtered_action": np.array(step.filtered_action),
            "applied_action": self.applied_action.copy(),
            "source": step.source.value,
            "intervened": step.source is not SafetySource.PASS_THROUGH,
            "fallback_fired": step.fallback_fired,
            "stopping_margin_m": step.stopping_margin_m,
            "barrier_values": by_partner(step.barrier_values, ego_uid),
            "lambda": by_partner(step.lambda_, ego_uid),
            "next_barrier_values": dict(self.barrier_values),
            "next_clearances_m": dict(self.clearances),
            "in_contact": self.in_contact,
            "violates_barrier": self.violates_barrier,
        }
        if step.prediction_loss is not None:
            info["prediction_loss"] = by_partner(step.prediction_loss, ego_uid)
        return info


def by_partner(values: LambdaDict, ego_uid: str) -> dict[str, float]:
    """Key the values of the ego's pairs by the other robot."""
    return {b if a == ego_uid else a: float(value) for (a, b), value in values.items()}
