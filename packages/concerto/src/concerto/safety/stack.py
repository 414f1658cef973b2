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
import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from concerto.safety._answer import SOURCE_OF_CODE, AnswerReader, SafetySource, StackStep
from concerto.safety._assembly import affine_map, bad_state_error, is_state, pack_states
from concerto.safety._barrier import DEFAULT_CBF_GAMMA, barrier_values
from concerto.safety._decide import (
    BAD_INPUT,
    BRAKING,
    EgoSettings,
    answer,
    answer_layout,
    pack_settings,
)
from concerto.safety._snapshots import PLAIN_NUMBERS
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
_FLOAT64 = np.dtype(np.float64)
_new = object.__new__


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
        self._dim = self._model.position_dim
        self._action_shape = (self._model.action_dim,)
        self._fixed_settings: EgoSettings | None = None
        if type(self._model) in {DoubleIntegratorControlModel, VelocityCommandControlModel}:
            origin = np.zeros(self._dim)
            self._fixed_settings = self._settings_in(AgentSnapshot(origin, origin, 0.0))
        self.reset()

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the slack, the partners and the last step. Nothing here is random: ``seed`` changes nothing."""
        self._partners: tuple[str, ...] | None = None
        self._partner_id: str | None = None
        self._n_bodies = 0  # of a scene that `_same_again` can read
        self._layout = answer_layout(0, *self._action_shape, self._dim)
        self._reader = AnswerReader(self._layout, [])
        self._warmup_steps_remaining = 0
        self._forget_last_step(np.zeros(self._layout.length))

    def _forget_last_step(self, memory: FloatArray) -> None:
        """Keep the slack in ``memory``, and nothing else."""
        self._memory = memory
        self._memory[self._layout.planned] = math.inf
        self._has_past = False

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
        slack = self._reader.by_pair(self._memory[self._layout.slacks])
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
            self._memory[self._layout.slacks] = [by_partner[uid] for uid in partners]
            self._warmup_steps_remaining = int(remaining)

    def start_episode(self) -> None:
        """Forget the last step, keep the slack: the next forecast error must not span a reset of the environment."""
        self._forget_last_step(self._memory.copy())  # steps that were answered still read theirs

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
        scene = self._same_again(nominal_action, agent_states, partner_predicted_states, partner_id)
        if scene is None:
            scene = self._read(nominal_action, agent_states, partner_predicted_states, partner_id)
        has_past, target = self._has_past, self._epsilon
        is_warming_up = has_past and self._warmup_steps_remaining > 0
        if is_warming_up:
            target -= 0.5 * abs(target)
        action, numbers = np.empty(self._action_shape), np.empty(len(self._memory))
        code = answer(scene, self._maps, self._numbers, self._memory, has_past, target, action, numbers)
        if code == BAD_INPUT:
            self._read(nominal_action, agent_states, partner_predicted_states, partner_id)
            raise AssertionError("the compiled check refused numbers that are all good")
        if is_warming_up:
            self._warmup_steps_remaining -= 1
        self._memory = numbers
        self._has_past = True
        step = _new(StackStep)
        attributes = step.__dict__  # a third of the time that the constructor takes
        attributes["action"] = action
        attributes["source"] = SOURCE_OF_CODE[code]
        attributes["fallback_fired"] = code >= BRAKING
        if self._only_pair is not None:  # the slack is what loops do read
            attributes["lambda_"] = {self._only_pair: numbers.item(self._first_slack)}
        attributes["_written"] = self._reader, numbers, has_past
        attributes["solve_ms"] = 1e3 * (time.perf_counter() - started)
        return step

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

    def _same_again(
        self,
        nominal_action: FloatArray,
        agent_states: Mapping[str, AgentSnapshot],
        predicted: Mapping[str, AgentSnapshot] | None,
        partner_id: str | None,
    ) -> FloatArray | None:
        """Read a scene with the partners of the last step, the quick way; None where there is something to look at.

        What is read here is checked by the compiled code alone, which says that something is wrong, but not what.
        """
        if (
            type(agent_states) is not dict
            or len(agent_states) != self._n_bodies
            or predicted is not None
            or type(nominal_action) is not np.ndarray
            or nominal_action.shape != self._action_shape
            or nominal_action.dtype.kind != "f"
            or (partner_id is not None and partner_id != self._partner_id)
        ):
            return None
        dim = self._dim
        try:
            numbers: list[float] = nominal_action.tolist()
            for state in self._select(agent_states):
                radius = state.radius
                if not isinstance(radius, float):
                    return None
                numbers.append(radius)
                plain = state.__dict__.get(PLAIN_NUMBERS)
                if plain is not None and len(plain) == 2 * dim:
                    numbers += plain
                elif (
                    type(state.position) is np.ndarray
                    and type(state.velocity) is np.ndarray
                    and state.position.dtype is state.velocity.dtype is _FLOAT64
                    and len(state.position) == len(state.velocity) == dim
                ):
                    numbers += state.position.tolist()
                    numbers += state.velocity.tolist()
                else:
                    return None
            struct.pack_into(self._scene_format, self._scene, 0, *numbers)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError, struct.error):
            return None
        return self._scene

    def _read(
        self,
        nominal_action: FloatArray,
        agent_states: Mapping[str, AgentSnapshot],
        predicted: Mapping[str, AgentSnapshot] | None,
        partner_id: str | None,
    ) -> FloatArray:
        """Read any scene, refuse what is wrong in it by name, and take note of partners who come and go."""
        nominal = _as_vector("nominal_action", nominal_action)
        partners = self._partners_of(agent_states)
        uids = (self._ego_uid, *partners)
        states = [agent_states[uid] for uid in uids]
        forecasts = self._forecasts_of(predicted, partners)
        packed, radii = pack_states(uids, states, forecasts)
        self._check(nominal, packed, radii, uids, states, forecasts)
        settings = self._settings_in(states[0]) if self._fixed_settings is None else None
        self._meet(partners, partner_id)
        if settings is not None:
            self._maps, self._numbers = settings.maps, np.concatenate((settings.numbers, self._declared))
        n = len(uids)
        bodies = np.concatenate((radii[:, np.newaxis], packed[:n], packed[n : 2 * n]), axis=1)
        return np.concatenate((nominal, bodies.ravel(), packed[2 * n :].ravel()))

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

    def _settings_in(self, ego: AgentSnapshot) -> EgoSettings:
        """Ask the control model for J and a0 of ``a = J u + a0`` in one state, and see what they leave for braking."""
        model = self._model
        dim = model.position_dim
        identity = np.eye(dim)
        with np.errstate(over="ignore", invalid="ignore"):  # an absurd velocity ends in braking, not in a warning
            jacobian, drift = affine_map(model, ego)
            if jacobian.shape != (dim, *self._action_shape) or drift.shape != (dim,):
                expected = f"({dim}, {self._action_shape[0]}) and ({dim},)"
                raise ValueError(
                    f"control model of {self._ego_uid!r} must give a map of the shapes {expected}, "
                    f"got {jacobian.shape} and {drift.shape}"
                )
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
        return pack_settings(
            gamma=self._gamma,
            tau_brake=self._tau_brake,
            dt=self._dt,
            eta=self._eta,
            slack_bound=self._lambda_bound,
            jacobian=jacobian,
            drift=drift,
            brakes=brakes,
            is_velocity_command=type(model) is VelocityCommandControlModel,
        )

    def _meet(self, partners: tuple[str, ...], partner_id: str | None) -> None:
        """Start or restart the slack when partners are new, and fix what is declared of them.

        Everything that can be refused is read before anything is kept, so a refused step leaves no half of it behind.
        """
        identity_changed = partner_id is not None and self._partner_id not in {None, partner_id}
        if partners is not self._partners or identity_changed:
            motions = self._motions_of(partners)
            alphas = self._pair_braking(partners)
            known = () if self._partners is None or identity_changed else self._partners
            old = dict(zip(known, self._memory[self._layout.slacks].tolist(), strict=False))
            if any(uid not in old for uid in partners):
                self._warmup_steps_remaining = self._n_warmup_steps
            planned = self._memory[self._layout.planned]
            self._layout = answer_layout(len(partners), *self._action_shape, self._dim)
            self._memory = np.zeros(self._layout.length)
            self._memory[self._layout.planned] = planned
            self._memory[self._layout.slacks] = [old.get(uid, self._lambda_safe) for uid in partners]
            self._has_past = False
            self._partners = partners
            pairs = [canonical_pair_key(self._ego_uid, uid) for uid in partners]
            self._reader = AnswerReader(self._layout, pairs)
            self._only_pair = pairs[0] if len(pairs) == 1 else None
            self._first_slack = self._layout.slacks.start
            worst = [[motion.max_acceleration for motion in motions], [motion.max_speed for motion in motions]]
            self._alphas = alphas
            self._declared = np.concatenate((*np.array(worst, dtype=np.float64), alphas))
            fixed = self._fixed_settings
            if fixed is not None:
                self._maps, self._numbers = fixed.maps, np.concatenate((fixed.numbers, self._declared))
                self._n_bodies = len(partners) + 1 if partners else 0
                self._select = itemgetter(self._ego_uid, *partners)
                self._scene: Any = np.empty(self._action_shape[0] + self._n_bodies * (1 + 2 * self._dim))
                self._scene_format = f"{len(self._scene)}d"
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


def _as_vector(name: str, value: object) -> FloatArray:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a vector of numbers: {error}") from None


def _require(name: str, value: float, holds: bool, expectation: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expectation}, got {value}")
