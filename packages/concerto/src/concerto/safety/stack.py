"""`SafetyStack`: one call per control step that always answers and says where the answer came from.

It composes the layers of the package, each of which can also be used alone: input checks, the braking-distance
barrier and its projection (`concerto.safety.cbf_qp`), the conformal slack (`concerto.safety.conformal`),
time-to-collision braking, and on top of all of them the stopping certificate (`concerto.safety.stopping`), which
makes safety a property of the answer and not of the tuning: whatever the slack, the forecast and the projection say,
no action is applied after which the ego could not stop before the worst declared motion of every partner.

Examples:
    An ego that wants to drive on towards a standing partner is slowed down.

    >>> import numpy as np
    >>> from concerto.safety import AgentSnapshot, Bounds, DoubleIntegratorControlModel
    >>> stack = SafetyStack(
    ...     ego_uid="ego",
    ...     control_models={"ego": DoubleIntegratorControlModel("ego", 2)},
    ...     bounds=Bounds(1.0, 1.0, 10.0, 0.0, 50.0),
    ...     dt=0.05,
    ...     partner_motion=PartnerMotionBound(max_acceleration=0.0),
    ... )
    >>> states = {
    ...     "ego": AgentSnapshot(np.array([0.0, 0.0]), np.array([1.0, 0.0]), 0.25),
    ...     "box": AgentSnapshot(np.array([1.0, 0.0]), np.array([0.0, 0.0]), 0.25),
    ... }
    >>> step = stack.step(np.array([1.0, 0.0]), states)
    >>> step.source, step.action.round(6)
    (<SafetySource.BRAKING: 'braking'>, array([-1.,  0.]))
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from concerto.safety._assembly import affine_map, bad_state_error, is_state, pack_states
from concerto.safety._barrier import DEFAULT_CBF_GAMMA, barrier_values
from concerto.safety._decide import BRAKING, FALLBACK, PASS_THROUGH, QP, decide, update_slacks
from concerto.safety.api import (
    DEFAULT_EPSILON,
    DEFAULT_ETA,
    DEFAULT_WARMUP_STEPS,
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    FloatArray,
    LambdaDict,
    SafetyState,
    VelocityCommandControlModel,
    canonical_pair_key,
)
from concerto.safety.braking import DEFAULT_TAU_BRAKE
from concerto.safety.stopping import EgoBrakes, PartnerMotionBound

__all__ = ["SafetySource", "SafetyStack", "StackStep"]


_MAX_REFINEMENTS = 12
"""Enough for singular values down to a tenth of the damping."""
_HOLDING_TOLERANCE = 1e-9
"""Share of its limits by which an ego at rest may fail to hold its weight."""
_INVERSE_TOLERANCE = 1e-12
"""Share of an acceleration that the inverse of the ego's map may miss before it is refined."""


class SafetySource(StrEnum):
    """Where an action came from."""

    PASS_THROUGH = "pass_through"  # noqa: S105 - no password
    """The nominal action, bit for bit: it satisfied every row and its stopping plan was certified."""
    QP = "qp"
    """The nearest action to the nominal one that satisfies every barrier row and the box."""
    BRAKING = "braking"
    """Braking along -v, or the certified mix of braking and the projected action."""
    FALLBACK = "fallback"
    """No action satisfied every row: a certified push along the violated rows, or braking along -v."""


_SOURCE_OF_CODE = {
    PASS_THROUGH: SafetySource.PASS_THROUGH,
    QP: SafetySource.QP,
    BRAKING: SafetySource.BRAKING,
    FALLBACK: SafetySource.FALLBACK,
}


@dataclass(frozen=True, eq=False)
class StackStep:
    """The answer of one control step. Arrays are fresh float64 arrays of the shape of an action.

    Attributes:
        action: the action to apply; finite and inside the box.
        nominal_action: what was asked for.
        filtered_action: the answer before braking: the nominal action, its projection, or the push.
        source: where `action` came from.
        barrier_values: h per ego pair, m/s; negative is a violation. An overlap counts by its depth, see
            `concerto.safety.cbf_qp.pair_h_value`.
        gaps_m: distance between the surfaces per ego pair, m; negative is an overlap and its depth.
        lambda_: slack per ego pair that was used, m/s^2.
        prediction_loss: conformal loss per ego pair of the step before, in (-1/2, 1/2); None at the first step.
        stopping_margin_m: smallest clearance of the stopping plan of `action` from every partner's worst declared
            motion, m; negative when not even braking is certified, ``inf`` without partners.
        fallback_fired: the action did not come from the quadratic program: source `BRAKING` or `FALLBACK`.
        solve_ms: wall time of the decision, ms.
    """

    action: FloatArray
    nominal_action: FloatArray
    filtered_action: FloatArray
    source: SafetySource
    barrier_values: LambdaDict
    gaps_m: LambdaDict
    lambda_: LambdaDict
    prediction_loss: LambdaDict | None
    stopping_margin_m: float
    fallback_fired: bool
    solve_ms: float

    def to_info(self) -> dict[str, object]:
        """Give the step as values that JSON can hold: pairs become ``"a|b"``, numbers that are not finite None."""

        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        def by_text(values: LambdaDict) -> dict[str, float | None]:
            return {f"{a}|{b}": finite(value) for (a, b), value in values.items()}

        return {
            "action": self.action.tolist(),
            "nominal_action": self.nominal_action.tolist(),
            "filtered_action": self.filtered_action.tolist(),
            "source": self.source.value,
            "barrier_values": by_text(self.barrier_values),
            "gaps_m": by_text(self.gaps_m),
            "lambda": by_text(self.lambda_),
            "prediction_loss": None if self.prediction_loss is None else by_text(self.prediction_loss),
            "stopping_margin_m": finite(self.stopping_margin_m),
            "fallback_fired": self.fallback_fired,
            "solve_ms": self.solve_ms,
        }


class SafetyStack:
    """The safety layer of one ego beside any number of partners.

    The guarantee, for an ego that moves as its control model says: if the ego could stop at the first step, every
    partner stays within its `PartnerMotionBound`, and the returned actions are applied in full, then the ego is at rest
    in every contact. It does not depend on the slack, the forecasts, ``cbf_gamma`` or ``tau_brake``.

    "As its control model says" means: the acceleration of the action holds for the whole control period (a
    `VelocityCommandControlModel` may instead move at its command at once), an offset of the map, if any, is linear in
    the velocity, and the Jacobian of an arm leaves it at least the present braking on the way to rest. An actuator, a
    wall or another layer that cuts an applied action short voids the guarantee.

    A stack remembers its last step: use one per ego, environment and thread.

    Args:
        ego_uid: the robot whose actions are decided.
        control_models: how actions move robots; only the ego's is needed. A partner's is used when
            ``partner_braking_fraction > 0``, for its capacity.
        bounds: box of the action and acceleration capacity.
        dt: control period, s.
        partner_motion: worst motion of every partner, or one per uid. Default: accelerations up to the ego's own
            capacity, because partners of the ego's own kind are the common case; declare what you know.
        partner_braking_fraction: share of a partner's own capacity that the barrier counts on, in [0, 1]. 0 for black
            boxes; 1 gives the barrier of robots that all brake.
        cbf_gamma: rate of the barrier, 1/s.
        epsilon: target of the conformal loss.
        eta: learning rate of the slack.
        lambda_bound: largest absolute slack, m/s^2. Default: 0.7 of the ego's capacity.
        lambda_safe: slack of a partner that is new, m/s^2.
        n_warmup_steps: steps of a stricter target after a partner is new.
        tau_brake: time to collision below which an approaching ego brakes, s; 0 switches this trigger off.

    Raises:
        ValueError: a setting is out of range; the message names it.
        KeyError: the ego has no control model.
    """

    def __init__(
        self,
        *,
        ego_uid: str,
        control_models: Mapping[str, AgentControlModel],
        bounds: Bounds,
        dt: float,
        partner_motion: PartnerMotionBound | Mapping[str, PartnerMotionBound] | None = None,
        partner_braking_fraction: float = 0.0,
        cbf_gamma: float = DEFAULT_CBF_GAMMA,
        epsilon: float = DEFAULT_EPSILON,
        eta: float = DEFAULT_ETA,
        lambda_bound: float | None = None,
        lambda_safe: float = 0.0,
        n_warmup_steps: int = DEFAULT_WARMUP_STEPS,
        tau_brake: float = DEFAULT_TAU_BRAKE,
    ) -> None:
        if ego_uid not in control_models:
            raise KeyError(f"control_models must hold the ego {ego_uid!r}, got {sorted(control_models)}")
        _require("dt", dt, math.isfinite(dt) and dt > 0.0, "finite and > 0")
        _require("cbf_gamma", cbf_gamma, math.isfinite(cbf_gamma) and cbf_gamma > 0.0, "finite and > 0")
        _require("epsilon", epsilon, -0.5 < epsilon < 0.5, "between -0.5 and 0.5, the range of the loss")
        _require("eta", eta, math.isfinite(eta) and eta >= 0.0, "finite and >= 0")
        _require("lambda_safe", lambda_safe, math.isfinite(lambda_safe), "finite")
        _require("n_warmup_steps", n_warmup_steps, 0 <= n_warmup_steps < math.inf, "finite and >= 0")
        _require("tau_brake", tau_brake, math.isfinite(tau_brake) and tau_brake >= 0.0, "finite and >= 0")
        share = partner_braking_fraction
        _require("partner_braking_fraction", share, 0.0 <= share <= 1.0, "in [0, 1]")
        limit = bounds.action_linf_component
        _require("bounds.action_linf_component", limit, math.isfinite(limit) and limit > 0.0, "finite and > 0")
        self._model = control_models[ego_uid]
        capacity = self._model.max_cartesian_accel(bounds)
        _require("capacity of the ego", capacity, math.isfinite(capacity) and capacity > 0.0, "finite and > 0")
        bound = 0.7 * capacity if lambda_bound is None else lambda_bound
        _require("lambda_bound", bound, math.isfinite(bound) and bound > 0.0, "finite and > 0")
        if isinstance(self._model, VelocityCommandControlModel):
            model_dt = self._model.dt
            _require("dt of the ego's velocity commands", model_dt, model_dt == dt, f"the control period ({dt:g})")

        self._ego_uid = ego_uid
        self._bounds = bounds
        self._dt = float(dt)
        self._partner_motion: PartnerMotionBound | Mapping[str, PartnerMotionBound] = (
            PartnerMotionBound(max_acceleration=capacity) if partner_motion is None else partner_motion
        )
        self._models = dict(control_models)
        self._capacity = float(capacity)
        self._action_limit = float(limit)
        self._partner_braking_fraction = float(share)
        self._gamma = float(cbf_gamma)
        self._epsilon = float(epsilon)
        self._eta = float(eta)
        self._lambda_bound = float(bound)
        self._lambda_safe = float(lambda_safe)
        self._n_warmup_steps = int(n_warmup_steps)
        self._tau_brake = float(tau_brake)
        self._is_immediate = isinstance(self._model, VelocityCommandControlModel) and self._model.is_immediate
        self._fixed_maps: tuple[FloatArray, FloatArray, EgoBrakes] | None = None
        if type(self._model) in {DoubleIntegratorControlModel, VelocityCommandControlModel}:
            origin = np.zeros(self._model.position_dim)
            self._fixed_maps = self._maps_in(AgentSnapshot(origin, origin, 0.0))
        self.reset()

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the slack, the partners and the last step. Nothing here is random: ``seed`` changes nothing."""
        self._partners: tuple[str, ...] | None = None
        self._partner_id: str | None = None
        self._slacks = np.zeros(0)
        self._warmup_steps_remaining = 0
        self._last_forecast: tuple[FloatArray, FloatArray] | None = None
        self._planned_deceleration = math.inf

    @property
    def ego_uid(self) -> str:
        """The robot whose actions are decided."""
        return self._ego_uid

    @property
    def bounds(self) -> Bounds:
        """Box of the action and acceleration capacity."""
        return self._bounds

    @property
    def dt(self) -> float:
        """Control period, s."""
        return self._dt

    @property
    def capacity(self) -> float:
        """Largest acceleration of the ego, m/s^2."""
        return self._capacity

    @property
    def lambda_bound(self) -> float:
        """Largest absolute slack, m/s^2."""
        return self._lambda_bound

    @property
    def partner_motion(self) -> PartnerMotionBound | Mapping[str, PartnerMotionBound]:
        """What is declared of the partners; for another declaration make another stack."""
        return self._partner_motion

    @property
    def state(self) -> SafetyState:
        """A copy of the conformal state: slack per ego pair and steps of warm-up that remain."""
        slack = dict(zip(self._pair_keys, self._slacks.tolist(), strict=True)) if self._partners is not None else {}
        return SafetyState(slack, self._epsilon, self._eta, self._warmup_steps_remaining)

    def restore(self, state: SafetyState, *, partner_id: str | None = None) -> None:
        """Go on with a conformal state that another stack of the same settings had; the last step is forgotten.

        What follows is what would have followed there after `start_episode`.

        Args:
            state: what `state` gave: slack per ego pair, and steps of warm-up that remain.
            partner_id: identity of the partners then, as it was given to `step`.

        Raises:
            ValueError: the state has other settings, a pair without the ego, or a slack that this stack cannot have
                reached; nothing has changed.
            KeyError: the declared motion or the needed control model of a partner is missing; nothing has changed.
        """
        for name, theirs, ours in (("epsilon", state.epsilon, self._epsilon), ("eta", state.eta, self._eta)):
            _require(f"{name} of the state", theirs, theirs == ours, f"the stack's, {ours:g}")
        largest = max(self._lambda_bound, abs(self._lambda_safe))
        by_partner: dict[str, float] = {}
        for pair, slack in state.lambda_.items():
            others = [uid for uid in pair if uid != self._ego_uid]
            if len(others) != 1:
                raise ValueError(f"pairs of the state must be of the ego {self._ego_uid!r} and a partner, got {pair!r}")
            _require(f"slack of {pair!r}", slack, abs(slack) <= largest, f"within +/- {largest:g}")
            by_partner[others[0]] = float(slack)
        remaining = state.warmup_steps_remaining
        _require("warmup_steps_remaining", remaining, 0 <= remaining <= self._n_warmup_steps, "a count of this stack")
        partners = tuple(sorted(by_partner))
        self._motions_of(partners)  # refuse what `_meet` would, before anything is forgotten
        self._pair_braking(partners)
        self.reset()
        if partners:
            self._meet(partners, partner_id)
            self._slacks = np.array([by_partner[uid] for uid in partners], dtype=np.float64)
            self._warmup_steps_remaining = int(remaining)

    def start_episode(self) -> None:
        """Forget the last step, keep the slack: the next forecast error must not span a reset of the environment."""
        self._last_forecast = None
        self._planned_deceleration = math.inf

    def step(
        self,
        nominal_action: FloatArray,
        agent_states: Mapping[str, AgentSnapshot],
        *,
        partner_predicted_states: Mapping[str, AgentSnapshot] | None = None,
        partner_id: str | None = None,
    ) -> StackStep:
        """Decide the action of one control step.

        Args:
            nominal_action: wanted action of the ego, shape ``(action_dim,)``.
            agent_states: snapshot of the ego and of every partner; no partner is fine.
            partner_predicted_states: forecast of every partner one control period ahead; constant velocity by default.
                The barrier uses the velocities, the conformal loss also the positions.
            partner_id: identity of the partners, when the caller knows it; a change restarts the slack and its warm-up.

        Raises:
            ValueError: a field is not finite or has a wrong shape, or a control model gives something that is not
                finite; the message names it, and nothing has changed.
            KeyError: the ego, a forecast or the declared motion of a partner is missing; nothing has changed.
        """
        started = time.perf_counter()
        nominal = _as_vector("nominal_action", nominal_action)
        partners = self._partners_of(agent_states)
        uids = (self._ego_uid, *partners)
        states = [agent_states[uid] for uid in uids]
        predicted = self._forecasts_of(partner_predicted_states, partners)
        packed, radii = pack_states(uids, states, predicted)
        self._check(nominal, packed, radii, uids, states, predicted)
        n = len(uids)
        positions, velocities = packed[:n], packed[n : 2 * n]
        forecast = self._forecast(packed, n, is_given=bool(predicted))
        jacobian, drift, brakes = self._ego_maps(states[0])

        self._meet(partners, partner_id)
        loss = self._update_slack(positions, velocities, radii)
        action, filtered = np.empty_like(nominal), np.empty_like(nominal)
        barriers, gaps = np.empty(n - 1), np.empty(n - 1)
        code, margin, self._planned_deceleration = decide(
            nominal, positions, velocities, radii, forecast[1], self._max_accelerations, self._max_speeds, self._alphas,
            self._slacks, jacobian, drift, brakes, self._planned_deceleration, self._gamma, self._tau_brake, self._dt,
            action, filtered, barriers, gaps,
        )  # fmt: skip
        self._last_forecast = forecast
        return StackStep(
            action=action,
            nominal_action=nominal,
            filtered_action=filtered,
            source=_SOURCE_OF_CODE[code],
            barrier_values=dict(zip(self._pair_keys, barriers.tolist(), strict=True)),
            gaps_m=dict(zip(self._pair_keys, gaps.tolist(), strict=True)),
            lambda_=dict(zip(self._pair_keys, self._slacks.tolist(), strict=True)),
            prediction_loss=None if loss is None else dict(zip(self._pair_keys, loss, strict=True)),
            stopping_margin_m=margin,
            fallback_fired=code >= BRAKING,
            solve_ms=1e3 * (time.perf_counter() - started),
        )

    def barrier_values(self, agent_states: Mapping[str, AgentSnapshot]) -> LambdaDict:
        """Give h of every ego pair in a state, m/s, with the braking this stack counts on; nothing is decided.

        Raises:
            ValueError: a position, velocity or radius has a wrong shape.
            KeyError: the ego is missing, or a partner's control model when ``partner_braking_fraction > 0``.
        """
        partners = self._partners_of(agent_states)
        uids = (self._ego_uid, *partners)
        packed, radii = pack_states(uids, [agent_states[uid] for uid in uids], [])
        alphas = self._alphas if partners is self._partners else self._pair_braking(partners)
        pairs = np.stack((np.zeros(len(partners), np.int64), np.arange(1, len(uids))), axis=1)
        values = barrier_values(packed, radii, pairs, alphas, True).tolist()
        return {canonical_pair_key(self._ego_uid, uid): value for uid, value in zip(partners, values, strict=True)}

    def _partners_of(self, agent_states: Mapping[str, AgentSnapshot]) -> tuple[str, ...]:
        """Give the partners in lexicographic order; the same object as long as nobody comes or goes."""
        known = self._partners
        if known is not None and len(agent_states) == len(known) + 1 and self._ego_uid in agent_states:
            for uid in known:
                if uid not in agent_states:
                    break
            else:
                return known
        if self._ego_uid not in agent_states:
            raise KeyError(f"agent_states must hold the ego {self._ego_uid!r}, got {sorted(agent_states)}")
        return tuple(sorted(uid for uid in agent_states if uid != self._ego_uid))

    def _forecasts_of(
        self, predicted: Mapping[str, AgentSnapshot] | None, partners: tuple[str, ...]
    ) -> list[AgentSnapshot]:
        if predicted is None:
            return []
        for uid in partners:
            if uid not in predicted:
                raise KeyError(f"partner_predicted_states must hold {uid!r}, got {sorted(predicted)}")
        return [predicted[uid] for uid in partners]

    def _check(
        self,
        nominal: FloatArray,
        packed: FloatArray,
        radii: FloatArray,
        uids: tuple[str, ...],
        states: list[AgentSnapshot],
        predicted: list[AgentSnapshot],
    ) -> None:
        """Refuse what is not a state of the world, naming the field; one compiled pass when all is well."""
        if nominal.shape != (self._model.action_dim,):
            raise ValueError(f"nominal_action must have shape ({self._model.action_dim},), got {nominal.shape}")
        if packed.shape[1] != self._model.position_dim:
            raise ValueError(
                f"snapshots must have the {self._model.position_dim} dimensions of the control model, "
                f"got {packed.shape[1]}"
            )
        if is_state(nominal, packed, radii):
            return
        if not np.isfinite(nominal).all():
            raise ValueError(f"nominal_action must be finite, got {nominal.tolist()}")
        error = bad_state_error(uids, states, predicted)
        if error is not None:
            raise error

    def _forecast(self, packed: FloatArray, n: int, *, is_given: bool) -> tuple[FloatArray, FloatArray]:
        """Give positions and velocities of the partners one control period ahead, shape ``(n, d)`` each."""
        if is_given:
            later = packed[2 * n :]
            return later[: n - 1], later[n - 1 :]
        velocities = packed[n + 1 : 2 * n]
        with np.errstate(over="ignore"):  # an absurd velocity ends in braking, not in a warning
            return packed[1:n] + self._dt * velocities, velocities

    def _ego_maps(self, ego: AgentSnapshot) -> tuple[FloatArray, FloatArray, EgoBrakes]:
        """Give J and a0 of ``a = J u + a0``, and what they leave for braking."""
        if self._fixed_maps is None:
            return self._maps_in(ego)
        jacobian, drift, brakes = self._fixed_maps
        if type(self._model) is VelocityCommandControlModel:  # the one thing that depends on the state
            with np.errstate(over="ignore"):  # an absurd velocity ends in braking, not in a warning
                drift = -np.asarray(ego.velocity, dtype=np.float64) / self._dt
        return jacobian, drift, brakes

    def _maps_in(self, ego: AgentSnapshot) -> tuple[FloatArray, FloatArray, EgoBrakes]:
        """Ask the control model for its maps in one state."""
        model = self._model
        dim = model.position_dim
        identity = np.eye(dim)
        with np.errstate(over="ignore", invalid="ignore"):  # an absurd velocity ends in braking, not in a warning
            jacobian, drift = affine_map(model, ego)
            drifts = [affine_map(model, replace(ego, velocity=velocity))[1] for velocity in (np.zeros(dim), *identity)]
            drift_from_velocity = np.stack([moving - drifts[0] for moving in drifts[1:]], axis=1)
            at_rest = replace(ego, velocity=np.zeros(dim))  # whose offset, unlike that of an absurd speed, is finite
            zero_action = model.cartesian_accel_to_action(at_rest, np.zeros(dim))
            columns = [model.cartesian_accel_to_action(at_rest, unit) - zero_action for unit in identity]
            inverse = np.stack(columns, axis=1)
            # A damped inverse misses its target by a share e; each Newton-Schulz step leaves e^2, so that the ego
            # brakes as certified and comes to rest. What is left after all is a direction without brakes.
            for _ in range(_MAX_REFINEMENTS):
                missed = identity - jacobian @ inverse
                if not np.max(np.abs(missed)) > _INVERSE_TOLERANCE:
                    break
                inverse = inverse + inverse @ missed
            missed = identity - jacobian @ inverse
            offsets = -inverse @ drifts[0], -inverse @ drift_from_velocity
            holds = bool(
                np.max(np.abs(offsets[0])) <= (1.0 + _HOLDING_TOLERANCE) * self._action_limit
                and np.max(np.abs(missed @ drifts[0])) <= _HOLDING_TOLERANCE * self._capacity
            )
        if not all(np.isfinite(part).all() for part in (jacobian, inverse, missed, *offsets)):
            raise ValueError(f"control model of {self._ego_uid!r} must give finite accelerations and actions")
        limits = self._capacity, self._action_limit
        brakes = EgoBrakes(inverse, *offsets, missed, *limits, is_immediate=self._is_immediate, holds=holds)
        return np.ascontiguousarray(jacobian), drift, brakes

    def _meet(self, partners: tuple[str, ...], partner_id: str | None) -> None:
        """Start or restart the slack when partners are new, and fix what is declared of them.

        Everything that can be refused is read before anything is kept, so a refused step leaves no half of it behind.
        """
        identity_changed = partner_id is not None and self._partner_id not in {None, partner_id}
        if partners is not self._partners or identity_changed:
            motions = self._motions_of(partners)
            alphas = self._pair_braking(partners)
            known = () if self._partners is None or identity_changed else self._partners
            old = dict(zip(known, self._slacks.tolist(), strict=False))
            self._slacks = np.array([old.get(uid, self._lambda_safe) for uid in partners], dtype=np.float64)
            if any(uid not in old for uid in partners):
                self._warmup_steps_remaining = self._n_warmup_steps
            self._last_forecast = None
            self._partners = partners
            self._pair_keys = [canonical_pair_key(self._ego_uid, uid) for uid in partners]
            self._max_accelerations = np.array([motion.max_acceleration for motion in motions], dtype=np.float64)
            self._max_speeds = np.array([motion.max_speed for motion in motions], dtype=np.float64)
            self._alphas = alphas
        if partner_id is not None:
            self._partner_id = partner_id

    def _motions_of(self, partners: tuple[str, ...]) -> list[PartnerMotionBound]:
        declared = self._partner_motion
        if isinstance(declared, PartnerMotionBound):
            return [declared] * len(partners)
        for uid in partners:
            if uid not in declared:
                raise KeyError(f"partner_motion must hold {uid!r}, got {sorted(declared)}")
        return [declared[uid] for uid in partners]

    def _pair_braking(self, partners: tuple[str, ...]) -> FloatArray:
        return np.array([self._capacity + self._braking_of(uid) for uid in partners], dtype=np.float64)

    def _braking_of(self, uid: str) -> float:
        if self._partner_braking_fraction == 0.0:
            return 0.0
        if uid not in self._models:
            raise KeyError(f"control_models must hold {uid!r} when partner_braking_fraction > 0")
        capacity = self._models[uid].max_cartesian_accel(self._bounds)
        _require(f"capacity of {uid!r}", capacity, math.isfinite(capacity) and capacity > 0.0, "finite and > 0")
        return self._partner_braking_fraction * capacity

    def _update_slack(self, positions: FloatArray, velocities: FloatArray, radii: FloatArray) -> list[float] | None:
        """Learn from how wrong the last forecast was; give the loss of every pair."""
        if self._last_forecast is None:
            return None
        target = self._epsilon
        if self._warmup_steps_remaining > 0:
            target -= 0.5 * abs(target)
            self._warmup_steps_remaining -= 1
        losses = np.empty(len(self._slacks))
        self._slacks = self._slacks.copy()
        update_slacks(
            self._slacks, positions, velocities, radii, *self._last_forecast, self._alphas, self._dt, target, self._eta,
            self._lambda_bound, losses,
        )  # fmt: skip
        return losses.tolist()


def _as_vector(name: str, value: object) -> FloatArray:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a vector of numbers: {error}") from None


def _require(name: str, value: float, holds: bool, expectation: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expectation}, got {value}")
