"""The safety layer of a training run: one decision per step, by the documented filter or by the safety stack."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import (
    AgentSnapshot,
    Bounds,
    EgoOnlySafetyFilter,
    FloatArray,
    LambdaDict,
    SafetyState,
    lambda_from_jsonable,
    lambda_to_jsonable,
)
from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.training.protocols import EnvLike, SafetyDecision, SafetyDriver
from ripieno.errors import InputError

if TYPE_CHECKING:
    from concerto.safety.emergency import EmergencyController
    from concerto.safety.stack import SafetyStack
    from concerto.training.config import EgoAHTConfig

__all__ = [
    "FilterDriver",
    "InfeasiblePolicy",
    "SafetyBuilder",
    "SnapshotBuilder",
    "StackDriver",
    "make_safety_driver",
    "require_builder_reads",
]

SnapshotBuilder = Callable[[Any], Mapping[str, AgentSnapshot]]
"""Gives the snapshot of every robot in the environment that it is called with."""
SafetyBuilder = Callable[[Any], SafetyDriver]
"""Makes the safety driver for the environment that is stepped."""
InfeasiblePolicy = Literal["brake", "nominal"]
"""What a step does when no action satisfies every row."""

_new_tuple = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes."""

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
        return _state_to_plain(self._state)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take the slack and its warm-up."""
        loaded = _state_from_plain(state)
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


class StackDriver:
    """Drives a `SafetyStack`, which always answers; its action stays float64, as certified.

    An environment may have a method ``executable_action(uid, action)``. What the stack answers passes through it,
    because the certificate holds only for an action that is carried out in full: a wall must not cut it short.

    Args:
        stack: the stack of the ego.
        snapshot_builder: reads the environment that it is called with.
        partner_id: identity of the partner, if known; another one restarts the slack.
    """

    def __init__(self, stack: SafetyStack, snapshot_builder: SnapshotBuilder, *, partner_id: str | None = None) -> None:
        from concerto.safety.stack import SafetySource

        self._braking, self._fallback = SafetySource.BRAKING, SafetySource.FALLBACK
        self._pass_through = SafetySource.PASS_THROUGH
        self._stack = stack
        self._ego_uid = stack.ego_uid
        self._builder = snapshot_builder
        self._partner_id = partner_id
        self._lambda: LambdaDict = {}
        self._env: Any = None
        self._executable: Callable[[str, FloatArray], FloatArray] | None = None

    @property
    def lambda_(self) -> LambdaDict:
        """Slack per ego pair that the last decision used, m/s^2; empty before the first one."""
        return self._lambda

    @property
    def capacity(self) -> float:
        """Acceleration capacity of the ego, m/s^2."""
        return self._stack.capacity

    @property
    def lambda_bound(self) -> float | None:
        """Clamp of the slack, m/s^2."""
        return self._stack.lambda_bound

    def bind(self, env: Any) -> None:
        """Check that the snapshot builder reads the environment that is stepped, and look for its hook."""
        require_builder_reads(env, self._builder)
        hooks = (getattr(layer, "executable_action", None) for layer in _layers(env))
        self._env = env
        self._executable = cast("Any", next((hook for hook in hooks if callable(hook)), None))

    def start_run(self, seed: int) -> None:
        """Forget everything, the slack too: a run starts without a past."""
        self._stack.reset(seed=seed)

    def start_episode(self) -> None:
        """Forget the last step, keep the slack."""
        self._stack.start_episode()

    def decide(self, env: Any, ego_action: NDArray[Any], partner_action: Any) -> SafetyDecision:
        """Decide the ego's action, float64; what the partner wants does not matter, only what it could do."""
        if env is not self._env:
            self.bind(env)
        answer = self._stack.step(ego_action, self._builder(env), partner_id=self._partner_id)
        self._lambda = answer.lambda_
        action, source = answer.action, answer.source
        is_overridden = source is not self._pass_through
        if self._executable is not None:
            executable = self._executable(self._ego_uid, action)
            is_overridden = is_overridden or executable is not action
            action = executable
        has_fallen_back = source is self._fallback
        has_braked = source is self._braking
        return _new_tuple(SafetyDecision, (action, has_braked, has_fallen_back, has_fallen_back, is_overridden))

    def state(self) -> dict[str, Any]:
        """Give the slack and its warm-up."""
        return _state_to_plain(self._stack.state)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take the slack and its warm-up."""
        loaded = _state_from_plain(state)
        self._stack.restore(loaded, partner_id=self._partner_id)
        self._lambda = loaded.lambda_


def make_safety_driver(
    cfg: EgoAHTConfig,
    env: EnvLike,
    *,
    safety_filter: EgoOnlySafetyFilter | None,
    state: SafetyState | None,
    bounds: Bounds | None,
    snapshot_builder: SnapshotBuilder | None,
    dt: float | None,
    emergency_controllers: Mapping[str, EmergencyController] | None,
    safety_builder: SafetyBuilder | None,
) -> SafetyDriver | None:
    """Check how the safety layer of a run is wired, and make its driver; None with safety off.

    Raises:
        InputError: (a ValueError) in this order: some but not all of the five parts, several environments with safety
            on, safety on without parts, parts with safety off, parts and a builder at once, or a driver that reads
            another environment.
    """
    parts = {
        "safety_filter": safety_filter,
        "safety_state": state,
        "safety_bounds": bounds,
        "safety_snapshot_builder": snapshot_builder,
        "safety_dt": dt,
    }
    missing = [name for name, part in parts.items() if part is None]
    has_parts = len(missing) < len(parts)
    if missing and has_parts:
        raise InputError(f"the safety layer needs all of {', '.join(parts)}; missing: {', '.join(missing)}")
    if cfg.safety.enabled and cfg.env.num_envs > 1:
        raise InputError(
            f"safety.enabled needs one environment, got env.num_envs={cfg.env.num_envs}: "
            "the safety layer is not vectorised"
        )
    if cfg.safety.enabled and not has_parts and safety_builder is None:
        raise InputError(f"safety.enabled is true, but there is no safety layer: give safety_builder, or {[*parts]}")
    if not cfg.safety.enabled and (has_parts or safety_builder is not None):
        raise InputError("a safety layer is given, but safety.enabled is false: it would not be used")
    if has_parts and safety_builder is not None:
        raise InputError("give safety_builder or the parts of a safety layer, not both")
    if safety_builder is not None:
        driver = safety_builder(env)
    elif safety_filter is None or state is None or bounds is None or snapshot_builder is None or dt is None:
        return None
    else:
        ego_uid, partner_uid = cfg.env.agent_uids
        driver = FilterDriver(
            safety_filter=safety_filter,
            state=state,
            bounds=bounds,
            snapshot_builder=snapshot_builder,
            dt=dt,
            ego_uid=ego_uid,
            partner_uid=partner_uid,
            partner_id=cfg.partner.class_name,
            cbf_gamma=cfg.safety.cbf_gamma,
            tau_brake=cfg.safety.tau_brake,
            lambda_bound=cfg.safety.clamp_floor_ratio * bounds.cartesian_accel_capacity,
            emergency_controllers=emergency_controllers,
        )
    driver.bind(env)
    return driver


def require_builder_reads(env: Any, builder: SnapshotBuilder) -> None:
    """Refuse a snapshot builder that holds on to another environment than the one that is stepped.

    Such a builder shows the safety layer a world that never moves. Looked at are the object that a method is bound to,
    the arguments of a `functools.partial`, and the variables that a function or lambda closes over.

    Raises:
        InputError: (a ValueError) an environment is held that is neither the stepped one nor a layer of it.
    """
    from concerto.safety.stack import SafetyStack

    own = list(_layers(env))
    for held in _held_by(builder):
        is_env = isinstance(held, EnvLike) and not isinstance(held, SafetyStack | type)
        if is_env and not any(layer is mine for layer in _layers(held) for mine in own):
            raise InputError(
                f"safety_snapshot_builder reads another environment ({type(held).__name__}) than the one that is "
                f"stepped ({type(env).__name__}): it must read the environment that it is called with"
            )


def _layers(env: Any) -> Iterator[Any]:
    """Give an environment and everything that it wraps, outermost first."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = getattr(env, "env", None)


def _held_by(builder: Any, depth: int = 4) -> Iterator[Any]:
    """Give what a callable holds on to: its object, its bound arguments, and the variables it closes over."""
    held: list[Any] = [getattr(builder, "__self__", None)]
    if isinstance(builder, functools.partial):
        partial = cast("functools.partial[Any]", builder)
        held += [partial.func, *partial.args, *partial.keywords.values()]
    for cell in getattr(builder, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # a variable that was never assigned
            continue
    for value in held:
        if value is None:
            continue
        yield value
        if depth > 0 and callable(value) and not isinstance(value, EnvLike | type):
            yield from _held_by(value, depth - 1)


def _state_to_plain(state: SafetyState) -> dict[str, Any]:
    records = lambda_to_jsonable(state.lambda_)
    return {
        "lambda": {str(index): record for index, record in enumerate(records)},
        "epsilon": float(state.epsilon),
        "eta": float(state.eta),
        "warmup_steps_remaining": int(state.warmup_steps_remaining),
    }


def _state_from_plain(plain: Mapping[str, Any]) -> SafetyState:
    slack = lambda_from_jsonable(list(plain["lambda"].values()), allow_empty=True)
    return SafetyState(slack, plain["epsilon"], plain["eta"], plain["warmup_steps_remaining"])
