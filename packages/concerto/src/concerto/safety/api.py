"""Contracts of the safety filter: snapshots, limits, control models, pair keys and the two filter protocols.

Everything here is plain data or a pure function over NumPy arrays; importing it pulls in no solver and no
compiler. Arrays are float64. A *uid* is the text that names a robot; a *pair* is two uids in lexicographic
order.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypedDict, runtime_checkable

from concerto.safety._control_models import (
    DEFAULT_DLS_DAMPING,
    AgentControlModel,
    DoubleIntegratorControlModel,
    JacobianControlModel,
    VelocityCommandControlModel,
)
from concerto.safety._pairs import (
    LambdaDict,
    canonical_pair_key,
    canonical_pair_order,
    lambda_from_jsonable,
    lambda_to_jsonable,
    make_lambda_dict,
    make_pair_keys,
)
from concerto.safety._snapshots import AgentSnapshot, Bounds, FloatArray

__all__ = [
    "DEFAULT_DLS_DAMPING",
    "DEFAULT_EPSILON",
    "DEFAULT_ETA",
    "DEFAULT_WARMUP_STEPS",
    "AgentControlModel",
    "AgentSnapshot",
    "Bounds",
    "DoubleIntegratorControlModel",
    "EgoOnlySafetyFilter",
    "FilterInfo",
    "FloatArray",
    "JacobianControlModel",
    "JointSafetyFilter",
    "LambdaDict",
    "SafetyMode",
    "SafetyState",
    "VelocityCommandControlModel",
    "canonical_pair_key",
    "canonical_pair_order",
    "lambda_from_jsonable",
    "lambda_to_jsonable",
    "make_lambda_dict",
    "make_pair_keys",
]

SAFETY_FILTER_IS_DEPRECATED = (
    "SafetyFilter is deprecated and will be removed in version 1.0: use EgoOnlySafetyFilter or JointSafetyFilter"
)

DEFAULT_EPSILON = -0.05
"""Target of the average conformal loss."""
DEFAULT_ETA = 0.01
"""Learning rate of the conformal slack."""
DEFAULT_WARMUP_STEPS = 50
"""Control steps of stricter slack after the partner has changed."""


@dataclass
class SafetyState:
    """What a filter remembers between steps: the conformal slack and its settings.

    Attributes:
        lambda_: slack per pair, m/s^2; positive relaxes a row, negative tightens it.
        epsilon: target of the average conformal loss.
        eta: learning rate of the slack.
        warmup_steps_remaining: control steps of warm-up still to go.
    """

    lambda_: LambdaDict
    epsilon: float = DEFAULT_EPSILON
    eta: float = DEFAULT_ETA
    warmup_steps_remaining: int = 0


FilterInfo = TypedDict(
    "FilterInfo",
    {
        "lambda": LambdaDict,
        "constraint_violation": FloatArray,
        "prediction_gap_loss": LambdaDict | None,
        "fallback_fired": bool,
        "qp_solve_ms": float,
    },
)
"""Telemetry of one call of a filter.

- ``lambda``: copy of the slack that was used.
- ``constraint_violation``: ``max(0, -h)`` of every row, m/s, shape ``(n_rows,)``, in the order of the rows:
  sorted partners for the ego alone, `make_pair_keys` order for several robots.
- ``prediction_gap_loss``: filled by the caller from the conformal functions, else None.
- ``fallback_fired``: the returned action did not come from the quadratic program.
- ``qp_solve_ms``: wall time of the projection alone, ms; 0 when the nominal action passed unchanged.
"""


class SafetyMode(Enum):
    """Whose actions the filter may change; it fixes the pairs, hence the keys of the slack, for good."""

    EGO_ONLY = "ego_only"
    """Only the ego's: the mode for black-box partners."""
    CENTRALIZED = "centralized"
    """Everybody's: an oracle or an ablation."""
    SHARED_CONTROL = "shared_control"
    """The ego's freely, the partners' within a bound: a laboratory baseline."""


@runtime_checkable
class EgoOnlySafetyFilter(Protocol):
    """A filter that changes the ego's action only; partners are forecast."""

    def reset(self, *, seed: int | None = None) -> None:
        """Forget what was learnt within an episode."""
        ...

    def filter(
        self,
        proposed_action: FloatArray,
        obs: Mapping[str, Any],
        state: SafetyState,
        bounds: Bounds,
        *,
        ego_uid: str,
        partner_predicted_states: dict[str, AgentSnapshot],
        dt: float,
    ) -> tuple[FloatArray, FilterInfo]:
        """Give the nearest safe action of the ego.

        Args:
            proposed_action: nominal action of the ego, shape ``(action_dim,)``.
            obs: observation with ``agent_states`` (uid to `AgentSnapshot`) and optionally
                ``meta.partner_id``.
            state: slack per ego pair; read, never written.
            bounds: limits of the step.
            ego_uid: the ego.
            partner_predicted_states: forecast of every partner for the next step.
            dt: horizon of the forecast, s, > 0.

        Returns:
            The action, a fresh array of the same shape, and the telemetry.

        Raises:
            ConcertoSafetyInfeasible: no safe action exists; brake.
        """
        ...


@runtime_checkable
class JointSafetyFilter(Protocol):
    """A filter that changes the actions of several robots at once."""

    def reset(self, *, seed: int | None = None) -> None:
        """Forget what was learnt within an episode."""
        ...

    def filter(
        self,
        proposed_action: dict[str, FloatArray],
        obs: Mapping[str, Any],
        state: SafetyState,
        bounds: Bounds,
        *,
        ego_uid: str | None = None,
        partner_action_bound: float | None = None,
    ) -> tuple[dict[str, FloatArray], FilterInfo]:
        """Give the nearest safe joint action.

        Args:
            proposed_action: nominal action per uid.
            obs: observation with ``agent_states`` (uid to `AgentSnapshot`).
            state: slack per pair of the proposed actions; read, never written.
            bounds: limits of the step.
            ego_uid: the robot without a partner bound; required for shared control.
            partner_action_bound: largest change of every component of a partner's action; required for shared
                control.

        Returns:
            The actions, fresh arrays of the same shapes, and the telemetry.

        Raises:
            ConcertoSafetyInfeasible: no safe joint action exists; brake.
        """
        ...


def __getattr__(name: str) -> object:
    if name == "SafetyFilter":
        warnings.warn(SAFETY_FILTER_IS_DEPRECATED, DeprecationWarning, stacklevel=2)
        return EgoOnlySafetyFilter | JointSafetyFilter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
