"""The checks that only filters of several robots' actions have to pass, centralized or in shared control."""

from __future__ import annotations

from concerto.testing._filter_checks import ROW_TOLERANCE
from concerto.testing._filter_trial import FilterTrial
from concerto.testing._scenes import EGO
from concerto.testing.conformance import Suite, demand, demand_raises

centralized: Suite[FilterTrial] = Suite()
shared_control: Suite[FilterTrial] = Suite()


@centralized.check("accept ego_uid and partner_action_bound and ignore them: everybody is controlled alike")
def ignores_ego_and_bound(trial: FilterTrial) -> None:
    """A centralized filter gives the same answer with and without ego_uid and partner_action_bound."""
    for scene in trial.active_scenes:
        answer = trial.call(trial.make(scene.models), scene, ego_uid=EGO, partner_action_bound=1e-3)
        demand(
            answer.as_bytes() == trial.answer(scene).as_bytes(), "ego_uid and partner_action_bound changed the answer"
        )


@shared_control.check("keep every partner within partner_action_bound of its nominal action, component by component")
def partner_bound_holds(trial: FilterTrial) -> None:
    """No component of a partner's action moves by more than partner_action_bound."""
    for scene in trial.active_scenes:
        for uid, action in trial.answer(scene).numbers().items():
            low, high = scene.box(uid)
            demand(
                uid == EGO or bool(((action >= low - ROW_TOLERANCE) & (action <= high + ROW_TOLERANCE)).all()),
                f"the action of {uid!r} went from {scene.actions[uid]} to {action}",
            )


@shared_control.check("require partner_action_bound > 0 and an ego_uid among the actions")
def rejects_missing_bound(trial: FilterTrial) -> None:
    """Shared control without a bound or without an ego among the actions raises ValueError."""
    scene = trial.active_scenes[0]
    safety_filter = trial.make(scene.models)
    for changes in ({"partner_action_bound": None}, {"partner_action_bound": 0.0},
                    {"ego_uid": None}, {"ego_uid": "nobody"}):  # fmt: skip
        demand_raises(ValueError, lambda changes=changes: trial.call(safety_filter, scene, **changes), f"{changes}")
