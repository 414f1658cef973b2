"""The driver of a documented filter, which may find no action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import AgentSnapshot, Bounds, EgoOnlySafetyFilter, FloatArray, LambdaDict, SafetyState
from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.training._safety_drivers.reading import SnapshotBuilder, require_builder_reads
from concerto.training._safety_drivers.slack import state_from_plain, state_to_plain
from concerto.training.protocols import SafetyDecision

if TYPE_CHECKING:
    from concerto.safety.emergency import EmergencyController

__all__ = ["FilterDriver", "InfeasiblePolicy"]

InfeasiblePolicy = Literal["brake", "nominal"]
"""What a step does when no action satisfies every row."""

_AT_REST = 1e-12
"""Speed below which there is nothing to brake, m/s."""


class FilterDriver:
    """Drives a documented filter: conformal update, forecast, time-to-collision braking, projection, in this order.

    Braking acts on the ego only, although both robots' actions go in: the pair's time to collision needs both. When the
    filter has no answer the ego brakes along ``-v``, at most at its capacity and never past rest, as the filter's error
    asks for (Wang, Ames & Egerstedt 2017, eq. 17); the policy ``"nominal"`` lets the unsafe action pass instead and is
    there for comparisons with results that were made that way.

    Args:
        safety_filter: the projection.
        state: slack per ego pair; changed in place and kept over episodes.
        bounds: limits of a step.
        snapshot_builder: reads the environment that it is called with.
        dt: control period, s.
        ego_uid: the ego.
        partner_uid: the partner.
        partner_id: identity that the filter is told.
        cbf_gamma: rate of the barrier, 1/s.
        tau_brake: time to collision below which braking starts, s.
        lambda_bound: clamp of the slack, m/s^2; None for no clamp.
        emergency_controllers: braking per uid; None for robots whose actions are accelerations.
        infeasible_policy: what happens when the filter has no answer.

    Raises:
        ValueError: the policy is unknown.
    """

    def __init__(
        self,
        *,
        safety_filter: EgoOnlySafetyFilter,
        state: SafetyState,
        bounds: Bounds,
        snapshot_builder: SnapshotBuilder,
        dt: float,
        ego_uid: str,
        partner_uid: str,
        partner_id: str,
        cbf_gamma: float = 5.0,
        tau_brake: float = 0.1,
        lambda_bound: float | None = None,
        emergency_controllers: Mapping[str, EmergencyController] | None = None,
        infeasible_policy: InfeasiblePolicy = "brake",
    ) -> None:
        if infeasible_policy not in {"brake", "nominal"}:
            raise ValueError(f"infeasible_policy must be 'brake' or 'nominal', got {infeasible_policy!r}")
        # Filters and controllers need the compiler, which takes a while to load: only runs with a filter pay for it.
        from concerto.safety import braking, conformal, emergency

        self._predict = conformal.constant_velocity_predict
        self._update_lambda = conformal.update_lambda_from_predictor
        self._maybe_brake = braking.maybe_brake
        self._filter = safety_filter
        self._state = state
        self._bounds = bounds
        self._builder = snapshot_builder
        self._dt = dt
        self._ego_uid = ego_uid
        self._partner_uid = partner_uid
        self._meta = {"partner_id": partner_id}
        self._gamma = cbf_gamma
        self._tau_brake = tau_brake
        self._lambda_bound = lambda_bound
        self._controllers = emergency_controllers
        self._brake: EmergencyController = (
            emergency.CartesianAccelEmergencyController()
            if emergency_controllers is None or ego_uid not in emergency_controllers
            else emergency_controllers[ego_uid]
        )
        self._policy = infeasible_policy
        self._env: Any = None
        self._seed: int | None = None
        self._previous: Mapping[str, AgentSnapshot] | None = None

    @property
    def lambda_(self) -> LambdaDict:
        """Slack per ego pair, m/s^2."""
        return self._state.lambda_

    @property
    def capacity(self) -> float:
        """Acceleration capacity of the ego, m/s^2."""
        return self._bounds.cartesian_accel_capacity

    @property
    def lambda_bound(self) -> float | None:
        """Clamp of the slack, m/s^2."""
        return self._lambda_bound

    def bind(self, env: Any) -> None:
        """Check that the snapshot builder reads the environment that is stepped."""
        require_builder_reads(env, self._builder)
        self._env = env

    def start_run(self, seed: int) -> None:
        """Prepare the filter."""
        self._seed = seed

    def start_episode(self) -> None:
        """Forget the last step; the warm start of the filter's solver too, so that an episode can be played again."""
        self._filter.reset(seed=self._seed)
        self._previous = None

    def decide(self, env: Any, ego_action: NDArray[Any], partner_action: Any) -> SafetyDecision:
        """Decide the ego's action, in the type of the nominal one."""
        if env is not self._env:
            self.bind(env)
        now = self._builder(env)
        if self._previous is not None:
            self._update_lambda(
                self._state,
                snaps_now=now,
                snaps_prev=self._previous,
                alpha_pair=2.0 * self.capacity,
                gamma=self._gamma,
                dt=self._dt,
                in_warmup=self._state.warmup_steps_remaining > 0,
                lambda_bound=self._lambda_bound,
                ego_uid=self._ego_uid,
            )
        self._previous = now
        forecasts = {uid: self._predict(snap, self._dt) for uid, snap in now.items() if uid != self._ego_uid}
        nominal = np.asarray(ego_action, dtype=np.float64)
        proposed = {self._ego_uid: nominal, self._partner_uid: np.asarray(partner_action, dtype=np.float64)}
        override, has_braked = self._maybe_brake(
            proposed,
            now,
            bounds=self._bounds,
            tau_brake=self._tau_brake,
            emergency_controllers=self._controllers,
        )
        is_infeasible = has_fallen_back = False
        if has_braked and override is not None:
            action = override[self._ego_uid]
        else:
            try:
                action, info = self._filter.filter(
                    nominal,
                    {"agent_states": now, "meta": self._meta},
                    self._state,
                    self._bounds,
                    ego_uid=self._ego_uid,
                    partner_predicted_states=forecasts,
                    dt=self._dt,
                )
                has_fallen_back = bool(info["fallback_fired"])
            except ConcertoSafetyInfeasible:
                is_infeasible = True
                has_braked = self._policy == "brake"
                action = self._braking(now[self._ego_uid]) if has_braked else nominal
        is_overridden = not np.array_equal(action, nominal)
        applied = action.astype(np.asarray(ego_action).dtype) if is_overridden else ego_action
        return SafetyDecision(applied, has_braked, has_fallen_back, is_infeasible, is_overridden)

    def state(self) -> dict[str, Any]:
        """Give the slack and its warm-up."""
        return state_to_plain(self._state)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take the slack and its warm-up."""
        loaded = state_from_plain(state)
        self._state.lambda_ = loaded.lambda_
        self._state.epsilon = loaded.epsilon
        self._state.eta = loaded.eta
        self._state.warmup_steps_remaining = loaded.warmup_steps_remaining

    def _braking(self, ego: AgentSnapshot) -> FloatArray:
        """Give the action that takes as much of the ego's velocity away as one step can."""
        speed = float(np.linalg.norm(ego.velocity))
        if speed < _AT_REST:
            return self._brake.compute_override(ego, [np.zeros_like(ego.velocity, dtype=np.float64)], self._bounds)
        gentle = replace(self._bounds, cartesian_accel_capacity=min(self.capacity, speed / self._dt))
        return self._brake.compute_override(ego, [-np.asarray(ego.velocity) / speed], gentle)
