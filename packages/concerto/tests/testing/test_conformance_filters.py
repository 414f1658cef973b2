"""The checks of safety filters: the shipped ones pass, and every check refuses a filter that only it can refuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from concerto.safety import (
    AgentSnapshot,
    ConcertoSafetyInfeasible,
    DoubleIntegratorControlModel,
    ExpCBFQP,
    JacobianControlModel,
    SafetyMode,
    SafetyState,
    VelocityCommandControlModel,
    make_lambda_dict,
)
from concerto.safety.solvers import make_solver
from concerto.testing import (
    Check,
    ConformanceError,
    check_ego_only_filter,
    check_joint_filter,
    ego_only_filter_checks,
    joint_filter_checks,
    run_all,
)

EGO = "m"
"""Uid of the ego in the scenes of the checks."""
ALL_MODES = tuple(SafetyMode)


def checks_of(make_filter: Callable[[Mapping[str, Any]], Any], mode: SafetyMode) -> list[Check]:
    if mode is SafetyMode.EGO_ONLY:
        return ego_only_filter_checks(make_filter)
    return joint_filter_checks(make_filter, mode=mode)


@pytest.mark.parametrize("solver", [None, "clarabel", "osqp"])
@pytest.mark.parametrize("mode", ALL_MODES)
def test_shipped_filter_conforms(mode: SafetyMode, solver: str | None) -> None:
    def make(models: Mapping[str, Any]) -> ExpCBFQP:
        backend = None if solver is None else make_solver(solver)
        return ExpCBFQP(control_models=models, mode=mode, solver=backend)

    assert [row for row in run_all(checks_of(make, mode)) if not row.passed] == []


@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_shipped_filter_conforms_for_partners_that_may_not_brake(fraction: float) -> None:
    check_ego_only_filter(
        lambda models: ExpCBFQP.ego_only(control_models=models, partner_braking_fraction=fraction, cbf_gamma=3.0),
        cbf_gamma=3.0,
        partner_braking_fraction=fraction,
    )


def test_counting_on_partners_to_brake_is_refused_where_they_are_black_boxes() -> None:
    def make(models: Mapping[str, Any]) -> ExpCBFQP:
        return ExpCBFQP.ego_only(control_models=models)

    refused = {
        row.check for row in run_all(ego_only_filter_checks(make, partner_braking_fraction=0.0)) if not row.passed
    }
    assert "rows_hold" in refused
    with pytest.raises(ConformanceError):
        check_ego_only_filter(make, partner_braking_fraction=0.0)


def test_a_joint_filter_is_not_judged_as_an_ego_only_one() -> None:
    with pytest.raises(ValueError, match="ego_only_filter_checks"):
        check_joint_filter(lambda models: ExpCBFQP.centralized(control_models=models), mode=SafetyMode.EGO_ONLY)


class Broken:
    """A good filter to break."""

    def __init__(self, models: Mapping[str, Any], mode: SafetyMode) -> None:
        self.models = dict(models)
        self.mode = mode
        self.good = ExpCBFQP(control_models=models, mode=mode)
        self.calls = itertools.count(1)

    def reset(self, *, seed: int | None = None) -> None:
        self.good.reset(seed=seed)

    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        return self.good.filter(proposed_action, obs, state, bounds, **keywords)

    def info(self, state: SafetyState) -> Any:
        return {
            "lambda": dict(state.lambda_),
            "constraint_violation": np.zeros(1),
            "prediction_gap_loss": None,
            "fallback_fired": False,
            "qp_solve_ms": 0.0,
        }


def each(actions: Any, change: Callable[[Any], Any]) -> Any:
    return {uid: change(action) for uid, action in actions.items()} if isinstance(actions, dict) else change(actions)


def differs(actions: Any, proposed: Any) -> bool:
    if isinstance(actions, dict):
        return any(not np.array_equal(actions[uid], proposed[uid]) for uid in actions)
    return not np.array_equal(actions, proposed)


class ResetWithoutSeed(Broken):
    def reset(self) -> None:  # type: ignore[override]
        self.good.reset()


class ReturnsMatrices(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        return each(actions, lambda action: action[None, :]), info


class ReturnsTheProposedAction(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        return (actions if differs(actions, proposed_action) else proposed_action), info


class ReusesABuffer(Broken):
    def __init__(self, models: Mapping[str, Any], mode: SafetyMode) -> None:
        super().__init__(models, mode)
        self.buffers: dict[str, Any] = {}

    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        if not isinstance(actions, dict):
            return self.store(EGO, actions), info
        return {uid: self.store(uid, action) for uid, action in actions.items()}, info

    def store(self, uid: str, action: Any) -> Any:
        buffer = self.buffers.setdefault(uid, action)
        buffer[:] = action
        return buffer


class WritesIntoASnapshot(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        answer = super().filter(proposed_action, obs, state, bounds, **keywords)
        obs["agent_states"][EGO].velocity[:] += 1.0
        return answer


class CountsInTheState(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        answer = super().filter(proposed_action, obs, state, bounds, **keywords)
        state.lambda_.update({key: value - 1e-4 for key, value in state.lambda_.items()})
        return answer


class NoTiming(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        return actions, {key: value for key, value in info.items() if key != "qp_solve_ms"}


class HandsOutTheState(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        return actions, {**info, "lambda": state.lambda_}


class NeverReportsViolations(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        return actions, {**info, "constraint_violation": np.zeros_like(info["constraint_violation"])}


class WidensTheBox(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        if len(obs.get("agent_states", ())) > 1:
            bounds = replace(bounds, action_linf_component=1.5 * bounds.action_linf_component)
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class LeansTowardsTheNominal(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        if any(isinstance(model, VelocityCommandControlModel) for model in self.models.values()):
            return actions, info
        if not isinstance(actions, dict):
            return 0.99 * actions + 0.01 * np.clip(proposed_action, -2.0, 2.0), info
        lean = {uid: 0.99 * actions[uid] + 0.01 * np.clip(proposed_action[uid], -2.0, 2.0) for uid in actions}
        return (lean if differs(actions, proposed_action) else actions), info


class LooseInAnOverlap(Broken):
    """It has learnt that overlaps make programs infeasible."""

    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        others = [snapshot for uid, snapshot in obs.get("agent_states", {}).items() if uid != EGO]
        if any(0.1 < np.linalg.norm(other.position) < 0.4 for other in others):
            loose = replace(state, lambda_={key: value + 0.1 for key, value in state.lambda_.items()})
            actions, info = super().filter(proposed_action, obs, loose, bounds, **keywords)
            return actions, {**info, "lambda": dict(state.lambda_)}
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class PassesWhatIsNearlySafe(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        if isinstance(actions, dict):
            change = max(np.abs(actions[uid] - proposed_action[uid]).max() for uid in actions)
        else:
            change = np.abs(actions - proposed_action).max()
        return (each(proposed_action, np.copy) if change < 5e-3 else actions), info


class PushesHarderInACrowd(Broken):
    """Safe, and with one partner the nearest, too."""

    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        if len(obs.get("agent_states", ())) < 3:
            return super().filter(proposed_action, obs, state, bounds, **keywords)
        tighter = replace(state, lambda_={key: value - 2e-3 for key, value in state.lambda_.items()})
        actions, info = super().filter(proposed_action, obs, tighter, bounds, **keywords)
        return actions, {**info, "lambda": dict(state.lambda_)}


class ForgetsTheOverlap(Broken):
    """It reports the barrier of an overlap as if the braking distance never ended."""

    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        others = [snapshot for uid, snapshot in obs.get("agent_states", {}).items() if uid != EGO]
        if any(0.1 < np.linalg.norm(other.position) < 0.4 for other in others):
            info = {**info, "constraint_violation": np.maximum(info["constraint_violation"] - 1e-3, 0.0)}
        return actions, info


class ForgetsTheOffset(Broken):
    def __init__(self, models: Mapping[str, Any], mode: SafetyMode) -> None:
        super().__init__({uid: self.without_offset(model) for uid, model in models.items()}, mode)

    @staticmethod
    def without_offset(model: Any) -> Any:
        if not isinstance(model, VelocityCommandControlModel):
            return model
        dim, capacity = model.action_dim, model.max_cartesian_accel_value
        assert capacity is not None
        return JacobianControlModel(
            model.uid, dim, dim, lambda _: np.eye(dim), max_cartesian_accel_value=capacity, scale=1.0 / model.dt
        )


class AlwaysSolves(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        return each(actions, lambda action: action * (1.0 - 1e-9)), info


class HidesAMargin(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        tighter = replace(state, lambda_={key: value - 5e-4 for key, value in state.lambda_.items()})
        actions, info = super().filter(proposed_action, obs, tighter, bounds, **keywords)
        return actions, {**info, "lambda": dict(state.lambda_)}


class Trembles(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        factor = 1.0 - 1e-12 * next(self.calls) if differs(actions, proposed_action) else 1.0
        return each(actions, lambda action: action * factor), info


class MindsTheOrder(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        actions, info = super().filter(proposed_action, obs, state, bounds, **keywords)
        factor = 1.0 if next(iter(obs["agent_states"])) == EGO else 1.0 - 1e-12
        return each(actions, lambda action: action * factor), info


class PassesTheNominalWhenInfeasible(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        try:
            return super().filter(proposed_action, obs, state, bounds, **keywords)
        except ConcertoSafetyInfeasible:
            return each(proposed_action, np.copy), self.info(state)


class GuessesTheForm(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        is_dict = isinstance(proposed_action, dict)
        if self.mode is SafetyMode.EGO_ONLY and is_dict:
            proposed_action = proposed_action[EGO]
        if self.mode is not SafetyMode.EGO_ONLY and not is_dict:
            proposed_action = {uid: np.copy(proposed_action) for uid in obs["agent_states"]}
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class Reshapes(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        dim = next(iter(self.models.values())).action_dim
        if isinstance(proposed_action, np.ndarray if self.mode is SafetyMode.EGO_ONLY else dict):
            proposed_action = each(proposed_action, lambda action: np.ravel(action)[:dim])
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class InventsModels(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        known = dict(self.models)
        for uid in obs.get("agent_states", ()):
            known.setdefault(uid, DoubleIntegratorControlModel(uid, 2))
        return ExpCBFQP(control_models=known, mode=self.mode).filter(proposed_action, obs, state, bounds, **keywords)


class NeedsNoSnapshot(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        if EGO not in obs.get("agent_states", ()):
            return each(proposed_action, np.copy), self.info(state)
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class CompletesLambda(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        if not isinstance(obs.get("agent_states"), dict) or EGO not in obs["agent_states"]:
            return super().filter(proposed_action, obs, state, bounds, **keywords)
        keys = make_lambda_dict(obs["agent_states"], ego_uid=EGO if self.mode is SafetyMode.EGO_ONLY else None)
        full = replace(state, lambda_={key: state.lambda_.get(key, 0.0) for key in keys})
        return super().filter(proposed_action, obs, full, bounds, **keywords)


class TakesNanForZero(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        snapshots = obs.get("agent_states", {})
        obs = {"agent_states": {uid: self.mend(snapshot) for uid, snapshot in snapshots.items()}} if snapshots else obs
        return super().filter(proposed_action, obs, state, bounds, **keywords)

    @staticmethod
    def mend(snapshot: AgentSnapshot) -> AgentSnapshot:
        return replace(snapshot, radius=0.0) if math.isnan(snapshot.radius) else snapshot


class NeedsAPartner(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        if len(obs.get("agent_states", ())) == 1 and not state.lambda_:
            raise IndexError("no rows")
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class InventsDt(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        keywords["dt"] = keywords["dt"] if 0.0 < keywords["dt"] < math.inf else 0.1
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class InventsForecasts(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        forecasts = {**obs.get("agent_states", {}), **keywords.pop("partner_predicted_states")}
        return super().filter(proposed_action, obs, state, bounds, partner_predicted_states=forecasts, **keywords)


class SparesTheEgosPartners(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        if keywords.get("partner_action_bound") and isinstance(proposed_action, dict):
            shared = ExpCBFQP.shared_control(control_models=self.models)
            return shared.filter(proposed_action, obs, state, bounds, **keywords)
        return super().filter(proposed_action, obs, state, bounds, **keywords)


class MovesPartnersTooFar(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        bound = keywords.pop("partner_action_bound")
        wide = 3.0 * bound if bound else bound
        return super().filter(proposed_action, obs, state, bounds, partner_action_bound=wide, **keywords)


class InventsABound(Broken):
    def filter(self, proposed_action: Any, obs: Any, state: Any, bounds: Any, **keywords: Any) -> Any:
        keywords["partner_action_bound"] = keywords["partner_action_bound"] or 1.0
        return super().filter(proposed_action, obs, state, bounds, **keywords)


BROKEN: list[tuple[type[Broken], str, tuple[SafetyMode, ...]]] = [
    (ResetWithoutSeed, "protocol", ALL_MODES),
    (ReturnsMatrices, "action_form", ALL_MODES),
    (ReturnsTheProposedAction, "fresh_output", ALL_MODES),
    (ReusesABuffer, "fresh_output", ALL_MODES),
    (WritesIntoASnapshot, "inputs_unchanged", ALL_MODES),
    (CountsInTheState, "state_unchanged", ALL_MODES),
    (NoTiming, "info_form", ALL_MODES),
    (HandsOutTheState, "info_lambda", ALL_MODES),
    (NeverReportsViolations, "info_violation", ALL_MODES),
    (WidensTheBox, "action_box", ALL_MODES),
    (LeansTowardsTheNominal, "rows_hold", ALL_MODES),
    (LooseInAnOverlap, "rows_hold", ALL_MODES),
    (PassesWhatIsNearlySafe, "rows_hold", ALL_MODES),
    (PushesHarderInACrowd, "nearest", ALL_MODES),
    (ForgetsTheOverlap, "info_violation", ALL_MODES),
    (ForgetsTheOffset, "affine_rows_hold", ALL_MODES),
    (AlwaysSolves, "pass_through", ALL_MODES),
    (HidesAMargin, "nearest", ALL_MODES),
    (Trembles, "determinism", ALL_MODES),
    (MindsTheOrder, "uid_order", ALL_MODES),
    (PassesTheNominalWhenInfeasible, "infeasible", ALL_MODES),
    (GuessesTheForm, "rejects_other_action_form", ALL_MODES),
    (Reshapes, "rejects_wrong_shape", ALL_MODES),
    (InventsModels, "rejects_missing_model", ALL_MODES),
    (NeedsNoSnapshot, "rejects_missing_snapshot", ALL_MODES),
    (CompletesLambda, "rejects_wrong_lambda_keys", ALL_MODES),
    (TakesNanForZero, "rejects_non_finite", ALL_MODES),
    (NeedsAPartner, "no_partners", (SafetyMode.EGO_ONLY,)),
    (InventsDt, "rejects_bad_dt", (SafetyMode.EGO_ONLY,)),
    (InventsForecasts, "rejects_missing_forecast", (SafetyMode.EGO_ONLY,)),
    (SparesTheEgosPartners, "ignores_ego_and_bound", (SafetyMode.CENTRALIZED,)),
    (MovesPartnersTooFar, "partner_bound_holds", (SafetyMode.SHARED_CONTROL,)),
    (InventsABound, "rejects_missing_bound", (SafetyMode.SHARED_CONTROL,)),
]


@pytest.mark.parametrize(
    ("broken", "check", "mode"),
    [
        pytest.param(broken, check, mode, id=f"{broken.__name__}-{check}-{mode.value}")
        for broken, check, modes in BROKEN
        for mode in modes
    ],
)
def test_a_broken_filter_is_refused_by_the_check_for_its_defect_alone(
    broken: type[Broken], check: str, mode: SafetyMode
) -> None:
    rows = run_all(checks_of(lambda models: broken(models, mode), mode))
    assert {row.check: row.problem for row in rows if not row.passed}.keys() == {check}


@pytest.mark.parametrize("mode", ALL_MODES)
def test_every_check_is_proved_able_to_refuse(mode: SafetyMode) -> None:
    checks = checks_of(lambda models: Broken(models, mode), mode)
    assert {check.name for check in checks} == {name for _, name, modes in BROKEN if mode in modes}
