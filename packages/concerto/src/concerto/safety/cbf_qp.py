"""The safety filter: the action nearest to the wanted one that keeps every pair of safety spheres apart.

For every pair the braking-distance barrier gives one row ``-n.a_i + n.a_j <= R`` (`concerto.safety._barrier` has the
formulas); the filter projects the nominal action onto these rows and the box ``|u_k| <= action_linf_component``.
Lambda is added to R: positive relaxes, negative tightens. The barrier decays at most like ``exp(-gamma t)``.

What this filter does not do: it has no slack variable (a problem without answer raises), does not read
``obs["comm"]`` or the identity of the partner, does not limit the rate of the action, owns no randomness, and never
writes the state. `concerto.safety.stack.SafetyStack` adds braking, the fallback and the conformal update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast, overload

import numpy as np

from concerto.safety._assembly import (
    BAD_INPUT,
    OVERFLOW,
    PASS_THROUGH,
    Team,
    assemble,
    bad_number_error,
    pack_states,
    snapshots_of,
)
from concerto.safety._barrier import DEFAULT_CBF_GAMMA, pair_barrier
from concerto.safety._projection import largest_violation
from concerto.safety.api import (
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    FilterInfo,
    FloatArray,
    SafetyMode,
    SafetyState,
    canonical_pair_order,
    make_pair_keys,
)
from concerto.safety.errors import ConcertoSafetyInfeasible, SolveStatus
from concerto.safety.solvers import DAQPSolver, QPSolver

__all__ = ["DEFAULT_CBF_GAMMA", "AgentSnapshot", "ExpCBFQP", "pair_h_value"]

_LARGEST_VIOLATION = 1e-5
"""Relative violation of a row beyond which an answer of a given solver is not handed out."""


def pair_h_value(
    snap_i: AgentSnapshot, snap_j: AgentSnapshot, *, alpha_pair: float, overlap_depth: bool = False
) -> float:
    """Give the barrier of a pair, m/s; negative when the robots can no longer stop in time or overlap while closing.

    With the gap ``e`` between the spheres and the speed ``c`` of the distance between the centres it is
    ``sqrt(2 alpha_pair e) + c`` for spheres apart, ``c`` for overlapping ones, and minus the sum of the radii when
    the centres coincide.

    Args:
        snap_i: one robot.
        snap_j: the other one.
        alpha_pair: braking of both along their line of centres, m/s^2.
        overlap_depth: ``c - sqrt(-2 alpha_pair e)`` for spheres that overlap, however near their centres are: negative
            unless they separate faster the deeper they overlap.

    Examples:
        >>> a = AgentSnapshot(np.array([0.0, 0.0]), np.array([1.0, 0.0]), 0.25)
        >>> b = AgentSnapshot(np.array([2.0, 0.0]), np.array([0.0, 0.0]), 0.25)
        >>> round(pair_h_value(a, b, alpha_pair=4.0), 8)
        2.46410162
    """
    h, _ = pair_barrier(
        np.asarray(snap_i.position, dtype=np.float64),
        np.asarray(snap_i.velocity, dtype=np.float64),
        np.asarray(snap_j.position, dtype=np.float64),
        np.asarray(snap_j.velocity, dtype=np.float64),
        float(snap_i.radius + snap_j.radius),
        float(alpha_pair),
        0.0,
        0.0,
        overlap_depth,
        np.empty(len(snap_i.position)),
    )
    return h


class ExpCBFQP:
    """Braking-distance barrier filter for the ego alone or for several robots (Wang, Ames & Egerstedt 2017).

    Prefer the constructors `ego_only`, `centralized` and `shared_control`, whose `filter` has one exact type each.

    With ``partner_braking_fraction=1`` the barrier of the ego counts on every partner to brake with its full
    capacity. A black-box partner has promised no such thing, and near the boundary the row then asks for more than
    the ego can do: use 0 for black boxes, or have a fallback ready for `ConcertoSafetyInfeasible`.

    Args:
        control_models: control model of every robot that decides an action, and control model or bare braking
            capacity (m/s^2, >= 0) of every other body.
        mode: whose actions the filter may change.
        solver: backend for the projection; None for the exact dense path: one row in closed form, several rows
            through `DAQPSolver`.
        cbf_gamma: rate of the barrier, 1/s, > 0.
        partner_braking_fraction: share in [0, 1] of its capacity that a body without a decision here is counted on
            to brake with.
        overlap_depth: let the barrier of overlapping spheres count how deep they overlap, see `pair_h_value`; without
            it an overlap that separates is no violation, and coincident centres get a row nobody can meet.
        uncontrolled_rows: in joint modes, keep the deciding robots apart from bodies without a proposed action too;
            lambda then has a key for each of these pairs. Such a body moves as ``partner_predicted_states`` and
            ``dt`` say when they are given to `filter`, else at constant velocity.

    Raises:
        ValueError: there is no control model, or a number is out of range.
    """

    def __init__(
        self,
        *,
        control_models: Mapping[str, AgentControlModel | float],
        mode: SafetyMode = SafetyMode.EGO_ONLY,
        solver: QPSolver | None = None,
        cbf_gamma: float = DEFAULT_CBF_GAMMA,
        partner_braking_fraction: float = 1.0,
        overlap_depth: bool = False,
        uncontrolled_rows: bool = False,
    ) -> None:
        if not control_models:
            raise ValueError("control_models must not be empty")
        if not (math.isfinite(cbf_gamma) and cbf_gamma > 0.0):
            raise ValueError(f"cbf_gamma must be finite and > 0, got {cbf_gamma}")
        if not 0.0 <= partner_braking_fraction <= 1.0:
            raise ValueError(f"partner_braking_fraction must be in [0, 1], got {partner_braking_fraction}")
        self._models = dict(control_models)
        self._mode = mode
        self._solver: QPSolver = DAQPSolver() if solver is None else solver
        self._gamma = float(cbf_gamma)
        self._overlap_depth = overlap_depth
        self._partner_braking_fraction = float(partner_braking_fraction)
        self._uncontrolled_rows = uncontrolled_rows
        self._team_key: object = None
        self._team: Team | None = None

    @classmethod
    def ego_only(
        cls,
        *,
        control_models: Mapping[str, AgentControlModel | float],
        solver: QPSolver | None = None,
        cbf_gamma: float = DEFAULT_CBF_GAMMA,
        partner_braking_fraction: float = 1.0,
        overlap_depth: bool = False,
    ) -> ExpCBFQP:
        """Make a filter that changes the ego's action only."""
        return cls(
            control_models=control_models,
            mode=SafetyMode.EGO_ONLY,
            solver=solver,
            cbf_gamma=cbf_gamma,
            partner_braking_fraction=partner_braking_fraction,
            overlap_depth=overlap_depth,
        )

    @classmethod
    def centralized(
        cls,
        *,
        control_models: Mapping[str, AgentControlModel | float],
        solver: QPSolver | None = None,
        cbf_gamma: float = DEFAULT_CBF_GAMMA,
        partner_braking_fraction: float = 1.0,
        overlap_depth: bool = False,
        uncontrolled_rows: bool = False,
    ) -> ExpCBFQP:
        """Make a filter that changes every proposed action."""
        return cls(
            control_models=control_models,
            mode=SafetyMode.CENTRALIZED,
            solver=solver,
            cbf_gamma=cbf_gamma,
            partner_braking_fraction=partner_braking_fraction,
            overlap_depth=overlap_depth,
            uncontrolled_rows=uncontrolled_rows,
        )

    @classmethod
    def shared_control(
        cls,
        *,
        control_models: Mapping[str, AgentControlModel | float],
        solver: QPSolver | None = None,
        cbf_gamma: float = DEFAULT_CBF_GAMMA,
        partner_braking_fraction: float = 1.0,
        overlap_depth: bool = False,
        uncontrolled_rows: bool = False,
    ) -> ExpCBFQP:
        """Make a filter that changes the ego's action freely and the partners' within a bound."""
        return cls(
            control_models=control_models,
            mode=SafetyMode.SHARED_CONTROL,
            solver=solver,
            cbf_gamma=cbf_gamma,
            partner_braking_fraction=partner_braking_fraction,
            overlap_depth=overlap_depth,
            uncontrolled_rows=uncontrolled_rows,
        )

    @property
    def mode(self) -> SafetyMode:
        """Whose actions the filter may change."""
        return self._mode

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the warm start of the solver, if it has one; ``seed`` is unused, the filter draws nothing."""
        reset = getattr(self._solver, "reset", None)
        if reset is not None:
            reset()

    @overload
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
    ) -> tuple[FloatArray, FilterInfo]: ...

    @overload
    def filter(
        self,
        proposed_action: dict[str, FloatArray],
        obs: Mapping[str, Any],
        state: SafetyState,
        bounds: Bounds,
        *,
        ego_uid: str | None = None,
        partner_action_bound: float | None = None,
        partner_predicted_states: dict[str, AgentSnapshot] | None = None,
        dt: float | None = None,
    ) -> tuple[dict[str, FloatArray], FilterInfo]: ...

    def filter(
        self,
        proposed_action: FloatArray | dict[str, FloatArray],
        obs: Mapping[str, Any],
        state: SafetyState,
        bounds: Bounds,
        *,
        ego_uid: str | None = None,
        partner_predicted_states: dict[str, AgentSnapshot] | None = None,
        dt: float | None = None,
        partner_action_bound: float | None = None,
    ) -> tuple[FloatArray | dict[str, FloatArray], FilterInfo]:
        """Give the nearest safe action; see `EgoOnlySafetyFilter.filter` and `JointSafetyFilter.filter`.

        A nominal action that satisfies every row and the box is returned bit for bit.

        Raises:
            ConcertoSafetyInfeasible: no safe action exists, or none was found; its ``status`` says which.
            ValueError: a keyword the mode needs is missing, shapes or uids do not fit, or a number is not finite.
            TypeError: the action is an array where the mode needs a dict, or the other way round.
            KeyError: a control model or a forecast is missing.
        """
        snapshots = snapshots_of(obs)
        if self._mode is SafetyMode.EGO_ONLY:
            return self._filter_ego(proposed_action, snapshots, state, bounds, ego_uid, partner_predicted_states, dt)
        return self._filter_joint(
            proposed_action, snapshots, state, bounds, ego_uid, partner_action_bound, partner_predicted_states, dt
        )

    def _filter_ego(
        self,
        proposed_action: object,
        snapshots: dict[str, AgentSnapshot],
        state: SafetyState,
        bounds: Bounds,
        ego_uid: str | None,
        forecast: dict[str, AgentSnapshot] | None,
        dt: float | None,
    ) -> tuple[FloatArray, FilterInfo]:
        if ego_uid is None:
            raise ValueError("ego_uid is required in EGO_ONLY mode")
        if forecast is None:
            raise ValueError("partner_predicted_states is required in EGO_ONLY mode")
        horizon = _require_dt(dt, "in EGO_ONLY mode")
        if not isinstance(proposed_action, np.ndarray):
            raise TypeError(
                f"proposed_action must be an array in EGO_ONLY mode, got a {type(proposed_action).__name__}"
            )
        team = self._ego_team(ego_uid, snapshots)
        slacks = team.slacks(state.lambda_)
        nominal = np.array(proposed_action, dtype=np.float64)
        if nominal.shape != (team.n_actions,):
            raise ValueError(f"action of {ego_uid!r} must have shape ({team.n_actions},), got {nominal.shape}")
        lower, upper = team.box(_action_limit(bounds))
        capacities = team.capacities(bounds)
        forecasts = _forecasts_of(team.uids[1:], forecast)
        action, info = self._solve(
            team,
            [snapshots[uid] for uid in team.uids],
            forecasts,
            slacks,
            capacities,
            horizon,
            nominal,
            lower,
            upper,
            state,
        )
        return action, info

    def _ego_team(self, ego_uid: str, snapshots: dict[str, AgentSnapshot]) -> Team:
        key = (ego_uid, *snapshots)
        if self._team is None or key != self._team_key:
            if ego_uid not in snapshots:
                raise ValueError(f"ego {ego_uid!r} must be in obs['agent_states'], got {sorted(snapshots)}")
            partners = [uid for uid in sorted(snapshots) if uid != ego_uid]
            pairs = [(ego_uid, uid) for uid in partners]
            self._team = Team([ego_uid], partners, pairs, self._models, self._partner_braking_fraction)
            self._team_key = key
        return self._team

    def _filter_joint(
        self,
        proposed_action: object,
        snapshots: dict[str, AgentSnapshot],
        state: SafetyState,
        bounds: Bounds,
        ego_uid: str | None,
        partner_action_bound: float | None,
        forecast: dict[str, AgentSnapshot] | None,
        dt: float | None,
    ) -> tuple[dict[str, FloatArray], FilterInfo]:
        if not isinstance(proposed_action, dict):
            raise TypeError(
                f"proposed_action must be a dict of arrays in {self._mode.name} mode, "
                f"got a {type(proposed_action).__name__}"
            )
        actions = cast("dict[str, FloatArray]", proposed_action)
        if self._mode is SafetyMode.SHARED_CONTROL:
            if partner_action_bound is None or not 0.0 < partner_action_bound < math.inf:
                raise ValueError(f"partner_action_bound must be finite and > 0, got {partner_action_bound}")
            if ego_uid is None or ego_uid not in actions:
                raise ValueError(f"ego_uid must be one of {sorted(actions)}, got {ego_uid!r}")
        uids = canonical_pair_order(actions)
        for uid in uids:
            if uid not in self._models:
                raise KeyError(f"no control model for {uid!r}")
            if uid not in snapshots:
                raise ValueError(f"{uid!r} has an action but is not in obs['agent_states']")
        team = self._joint_team(uids, snapshots)
        nominal = _stack_actions(team, actions)
        slacks = team.slacks(state.lambda_)
        lower, upper = team.box(_action_limit(bounds))
        if self._mode is SafetyMode.SHARED_CONTROL and partner_action_bound is not None:
            k = team.uids.index(cast("str", ego_uid))
            reach = np.full(nominal.size, partner_action_bound)
            reach[team.slots[k] : team.slots[k] + team.action_dims[k]] = math.inf
            lower = np.maximum(lower, nominal - reach)
            upper = np.minimum(upper, nominal + reach)
            if (lower > upper).any():
                raise ConcertoSafetyInfeasible(
                    "a partner's nominal action is further outside the box than partner_action_bound lets it move"
                )
        others = team.uids[team.n_deciding :]
        forecasts = [] if forecast is None else _forecasts_of(others, forecast)
        action, info = self._solve(
            team,
            [snapshots[uid] for uid in team.uids],
            forecasts,
            slacks,
            team.capacities(bounds),
            _require_dt(dt, "with partner_predicted_states") if forecasts else 1.0,
            nominal,
            lower,
            upper,
            state,
        )
        return {uid: action[slot : slot + width].copy() for uid, slot, width in team.layout()}, info

    def _joint_team(self, uids: list[str], snapshots: dict[str, AgentSnapshot]) -> Team:
        others = sorted(set(snapshots).difference(uids)) if self._uncontrolled_rows else []
        key = (tuple(uids), tuple(others))
        if self._team is None or key != self._team_key:
            pairs = [(i, j) for i, j in make_pair_keys([*uids, *others]) if i in uids or j in uids]
            self._team = Team(uids, others, pairs, self._models, self._partner_braking_fraction)
            self._team_key = key
        return self._team

    def _solve(
        self,
        team: Team,
        states: list[AgentSnapshot],
        forecasts: list[AgentSnapshot],
        slacks: FloatArray,
        capacities: FloatArray,
        horizon: float,
        nominal: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        state: SafetyState,
    ) -> tuple[FloatArray, FilterInfo]:
        packed, radii = pack_states(team.uids, states, forecasts)
        maps = team.affine_maps(states, packed.shape[1])
        verdict, violation, rows, right = assemble(
            packed,
            radii,
            capacities,
            maps[0],
            maps[1],
            team.slots,
            team.action_dims,
            team.pairs,
            slacks,
            self._gamma,
            self._overlap_depth,
            horizon,
            nominal,
            lower,
            upper,
        )
        if verdict == BAD_INPUT:
            raise bad_number_error(team, states, forecasts, slacks, nominal, maps)
        if verdict == OVERFLOW:
            raise ConcertoSafetyInfeasible(
                "positions, velocities or accelerations are so large that a row overflows",
                status=SolveStatus.NUMERICAL_FAILURE,
            )
        action, elapsed_ms = nominal, 0.0
        if verdict != PASS_THROUGH:
            action, elapsed_ms = self._project(team, nominal, rows, right, lower, upper)
        return action, {
            "lambda": dict(state.lambda_),
            "constraint_violation": violation,
            "prediction_gap_loss": None,
            "fallback_fired": False,
            "qp_solve_ms": elapsed_ms,
        }

    def _project(
        self,
        team: Team,
        nominal: FloatArray,
        rows: FloatArray,
        right: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
    ) -> tuple[FloatArray, float]:
        if isinstance(self._solver, DAQPSolver):
            return self._solver.project(nominal, rows, right, lower, upper)
        box, box_right = _box_rows(team, lower, upper, by_body=self._mode is not SafetyMode.EGO_ONLY)
        x, elapsed_ms = self._solver.solve(
            2.0 * np.eye(nominal.size), -2.0 * nominal, np.vstack((rows, box)), np.concatenate((right, box_right))
        )
        action = np.clip(np.asarray(x, dtype=np.float64), lower, upper)
        if largest_violation(action, rows, right, lower, upper) > _LARGEST_VIOLATION:
            raise ConcertoSafetyInfeasible(
                "the answer of the solver violates a row", status=SolveStatus.NUMERICAL_FAILURE
            )
        return action, elapsed_ms


def _require_dt(dt: float | None, where: str) -> float:
    if dt is None:
        raise ValueError(f"dt is required {where}")
    if not (math.isfinite(dt) and dt > 0.0):
        raise ValueError(f"dt must be finite and > 0, got {dt}")
    return float(dt)


def _action_limit(bounds: Bounds) -> float:
    limit = float(bounds.action_linf_component)
    if not (math.isfinite(limit) and limit > 0.0):
        raise ValueError(f"bounds.action_linf_component must be finite and > 0, got {limit}")
    return limit


def _forecasts_of(uids: tuple[str, ...], forecast: dict[str, AgentSnapshot]) -> list[AgentSnapshot]:
    try:
        return [forecast[uid] for uid in uids]
    except KeyError:
        missing = next(uid for uid in uids if uid not in forecast)
        raise KeyError(f"no predicted state for {missing!r}") from None


def _stack_actions(team: Team, actions: dict[str, FloatArray]) -> FloatArray:
    nominal = np.empty(team.n_actions)
    for uid, slot, width in team.layout():
        action = np.asarray(actions[uid], dtype=np.float64)
        if action.shape != (width,):
            raise ValueError(f"action of {uid!r} must have shape ({width},), got {action.shape}")
        nominal[slot : slot + width] = action
    return nominal


def _box_rows(team: Team, lower: FloatArray, upper: FloatArray, *, by_body: bool) -> tuple[FloatArray, FloatArray]:
    """Give the box as rows: uppers then lowers, or upper and lower of each component in turn."""
    identity = np.eye(team.n_actions)
    rows = np.vstack((identity, -identity))
    right = np.concatenate((upper, -lower))
    if not by_body:
        return rows, right
    order = np.arange(2 * team.n_actions).reshape(2, -1).T.ravel()
    return rows[order], right[order]
