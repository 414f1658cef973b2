"""The checks that only filters of the ego's action have to pass."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from concerto.safety.api import AgentSnapshot, DoubleIntegratorControlModel
from concerto.testing._arrays import flat
from concerto.testing._filter_checks import DISTANCE_TOLERANCE
from concerto.testing._filter_trial import FilterTrial
from concerto.testing._scenes import BOUNDS, EGO, PARTNERS, Scene
from concerto.testing.conformance import Suite, demand, demand_raises

ego_only: Suite[FilterTrial] = Suite()


@ego_only.check("accept a scene without partners: only the box applies, and there are no violations")
def no_partners(trial: FilterTrial) -> None:
    """Without partners the nominal action is only clipped to the box."""
    snapshots = {EGO: AgentSnapshot(np.zeros(2), np.array([1.0, 0.0]), 0.25)}
    models = {EGO: DoubleIntegratorControlModel(EGO, 2)}
    answer = trial.answer(Scene(models, snapshots, {EGO: np.array([5.0, 0.5])}, {}, {}))
    expected = np.array([BOUNDS.action_linf_component, 0.5])
    action = answer.numbers()[EGO]
    demand(np.allclose(action, expected, atol=DISTANCE_TOLERANCE), f"the action is {action}, not {expected}")
    demand(flat(answer.info["constraint_violation"]).size == 0, "there are violations without partners")


@ego_only.check("require dt finite and > 0: it is the horizon of the forecast")
def rejects_bad_dt(trial: FilterTrial) -> None:
    """A dt that is not finite and > 0 raises ValueError."""
    scene = trial.active_scenes[0]
    for dt in (0.0, -1.0, math.nan, math.inf):
        demand_raises(ValueError, lambda dt=dt: trial.answer(replace(scene, dt=dt)), f"dt = {dt}")


@ego_only.check("raise KeyError naming the partner without a forecast; never take it for standing still")
def rejects_missing_forecast(trial: FilterTrial) -> None:
    """A partner without a forecast raises KeyError."""
    scene = trial.active_scenes[2]
    known = {PARTNERS[0]: scene.forecasts[PARTNERS[0]]}
    demand_raises(KeyError, lambda: trial.answer(replace(scene, forecasts=known)), "a partner without a forecast")
