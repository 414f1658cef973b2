"""The controllers that the safety evidence compares: none, the documented default loop, the safety stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import (
    DEFAULT_WARMUP_STEPS,
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    SafetyState,
    make_lambda_dict,
)
from concerto.safety.braking import maybe_brake
from concerto.safety.cbf_qp import DEFAULT_CBF_GAMMA, ExpCBFQP
from concerto.safety.conformal import constant_velocity_predict, update_lambda_from_predictor
from concerto.safety.emergency import CartesianAccelEmergencyController
from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.safety.stack import SafetyStack
from concerto.safety.stopping import PartnerMotionBound
from concerto.testing._encounter import EGO, Encounter
from concerto.testing.responsibility import DeclaredMotion

__all__ = [
    "Controller",
    "ControllerFactory",
    "bounds_of",
    "control_models_of",
    "documented_default",
    "safety_stack",
    "unfiltered",
]

FloatArray = NDArray[np.float64]

CLAMP_FLOOR_RATIO = 0.7  # documented clamp of the slack, share of the capacity


class Controller(Protocol):
    """What decides the ego's acceleration."""

    def __call__(self, nominal: FloatArray, agent_states: dict[str, AgentSnapshot]) -> tuple[FloatArray, str]:
        """Give the acceleration to apply for one control period (m/s^2, shape (d,)) and where it came from."""
        ...


ControllerFactory = Callable[[Encounter], Controller]
"""Makes a fresh controller for an encounter."""


def control_models_of(encounter: Encounter) -> dict[str, AgentControlModel]:
    """Give a double integrator for the ego and for every partner."""
    uids = [EGO, *(partner.uid for partner in encounter.partners)]
    return {uid: DoubleIntegratorControlModel(uid, encounter.dimension) for uid in uids}


def bounds_of(encounter: Encounter) -> Bounds:
    """Give the ego's limits in the form that the filters take."""
    limit = encounter.braking_limit
    return Bounds(
        action_linf_component=limit.component,
        cartesian_accel_capacity=limit.acceleration,
        action_rate=10.0,
        comm_latency_ms=0.0,
        force_limit=50.0,
    )


def unfiltered(encounter: Encounter) -> Controller:
    """Make the controller that always takes the nominal action."""

    def control(nominal: FloatArray, agent_states: dict[str, AgentSnapshot]) -> tuple[FloatArray, str]:
        return nominal, "nominal"

    return control


def documented_default(encounter: Encounter) -> Controller:
    """Make the loop that the documented interface prescribes for training, with its default settings.

    Every step: conformal update from the constant-velocity forecast of the step before; braking on time to collision;
    else the ego-only quadratic program; and the nominal action when the program has no solution. The slack is kept for
    the pairs of the ego (the documented all-pairs form is refused by the ego-only filter for more than one partner).
    """
    return _DocumentedDefault(encounter)


class _DocumentedDefault:
    def __init__(self, encounter: Encounter) -> None:
        models = control_models_of(encounter)
        self._period = encounter.control_period
        self._bounds = bounds_of(encounter)
        self._filter = ExpCBFQP.ego_only(control_models=models)
        self._state = SafetyState(make_lambda_dict(models, ego_uid=EGO), warmup_steps_remaining=DEFAULT_WARMUP_STEPS)
        self._coasting = {partner.uid: np.zeros(encounter.dimension) for partner in encounter.partners}
        self._emergency = {uid: CartesianAccelEmergencyController() for uid in models}
        self._previous: dict[str, AgentSnapshot] | None = None

    def __call__(self, nominal: FloatArray, agent_states: dict[str, AgentSnapshot]) -> tuple[FloatArray, str]:
        self._update_slack(agent_states)
        override, fired = maybe_brake(
            {EGO: nominal, **self._coasting},
            agent_states,
            bounds=self._bounds,
            emergency_controllers=self._emergency,
        )
        if fired and override is not None:
            return override[EGO], "braking"
        forecasts = {
            uid: constant_velocity_predict(state, self._period) for uid, state in agent_states.items() if uid != EGO
        }
        try:
            action, _ = self._filter.filter(
                nominal,
                {"agent_states": agent_states, "meta": {"partner_id": None}},
                self._state,
                self._bounds,
                ego_uid=EGO,
                partner_predicted_states=forecasts,
                dt=self._period,
            )
        except ConcertoSafetyInfeasible:
            return nominal, "nominal_on_infeasible"
        return action, "pass_through" if np.array_equal(action, nominal) else "qp"

    def _update_slack(self, agent_states: dict[str, AgentSnapshot]) -> None:
        if self._previous is not None:
            update_lambda_from_predictor(
                self._state,
                agent_states,
                self._previous,
                alpha_pair=2.0 * self._bounds.cartesian_accel_capacity,
                gamma=DEFAULT_CBF_GAMMA,
                dt=self._period,
                in_warmup=self._state.warmup_steps_remaining > 0,
                lambda_bound=CLAMP_FLOOR_RATIO * self._bounds.cartesian_accel_capacity,
                ego_uid=EGO,
            )
        self._previous = agent_states


def safety_stack(encounter: Encounter, *, believed: DeclaredMotion | None = None) -> Controller:
    """Make the safety stack with its default settings, told what the partners declare.

    Args:
        encounter: the encounter it acts in.
        believed: tell it this worst motion instead; for studies of what a wider or narrower declaration costs.
    """
    declared = encounter.declared if believed is None else believed
    stack = SafetyStack(
        ego_uid=EGO,
        control_models=control_models_of(encounter),
        bounds=bounds_of(encounter),
        dt=encounter.control_period,
        partner_motion=PartnerMotionBound(declared.max_acceleration, declared.max_speed),
    )

    def control(nominal: FloatArray, agent_states: dict[str, AgentSnapshot]) -> tuple[FloatArray, str]:
        step = stack.step(nominal, agent_states)
        return step.action, step.source.value

    return control
