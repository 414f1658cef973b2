"""The checks that every safety filter has to pass, clause by clause.

Every answer is held against the rows of `concerto.testing._scenes`, which are computed there from the published
formula and not by the filter.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from concerto.safety.api import EgoOnlySafetyFilter, JointSafetyFilter, make_lambda_dict
from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.testing._arrays import demand_vector, flat, same_snapshots, shares_memory
from concerto.testing._filter_trial import FilterTrial, copy_of_scene
from concerto.testing._scenes import EGO, Scene, distance_to_safety, nearest_distance
from concerto.testing.conformance import Suite, demand, demand_members, demand_raises

ROW_TOLERANCE = 1e-6
DISTANCE_TOLERANCE = 1e-4
"""Slack of "nearest": an interior-point solver is up to 5e-5 off at a weakly active row."""
_INFO_KEYS = ("lambda", "constraint_violation", "prediction_gap_loss", "fallback_fired", "qp_solve_ms")

common: Suite[FilterTrial] = Suite()


@common.check("give the class the methods filter(...) and reset(*, seed=None), both with the documented keywords")
def protocol(trial: FilterTrial) -> None:
    """The filter has the two methods of its Protocol, and reset takes an optional seed."""
    safety_filter = trial.make(trial.active_scenes[0].models)
    demand_members(safety_filter, EgoOnlySafetyFilter if trial.ego_only else JointSafetyFilter)
    safety_filter.reset()
    safety_filter.reset(seed=1)


@common.check("return float64 arrays of the shape of the proposed action, a dict of them for several robots")
def action_form(trial: FilterTrial) -> None:
    """Every filtered action is a finite float64 vector of its robot's action_dim, one per proposed action."""
    for scene in trial.active_scenes:
        answer = trial.answer(scene)
        demand(set(answer.actions) == set(scene.actions), f"actions came back for {sorted(answer.actions)}")
        for uid, action in answer.actions.items():
            demand_vector(f"the action of {uid!r}", action, scene.models[uid].action_dim)


@common.check("return a copy, also when the nominal action passes unchanged, and no buffer that the next call reuses")
def fresh_output(trial: FilterTrial) -> None:
    """Filtered actions are the caller's own: not a view of the proposed ones, not reused by the next call."""
    for scene in (trial.maker("fresh").inactive(dim=2, n_partners=1), trial.active_scenes[0]):
        safety_filter = trial.make(scene.models)
        proposed = {uid: action.copy() for uid, action in scene.actions.items()}
        answer = trial.call(safety_filter, scene, proposed_action=proposed[EGO] if trial.ego_only else proposed)
        for action in answer.actions.values():
            demand(not shares_memory(action, *proposed.values()), "the filter returned a view of the proposed action")
        before = answer.as_bytes()
        other = replace(scene, actions={uid: 0.5 * action for uid, action in scene.actions.items()})
        trial.call(safety_filter, other)
        demand(answer.as_bytes() == before, "the next call changed an action that was returned earlier")


@common.check("work on copies of the action, the snapshots and the forecasts")
def inputs_unchanged(trial: FilterTrial) -> None:
    """The proposed action, the snapshots and the forecasts are read, never written."""
    for scene in trial.active_scenes:
        given = copy_of_scene(scene)
        proposed: object = given.actions[EGO] if trial.ego_only else given.actions
        changes: dict[str, Any] = {"proposed_action": proposed, "obs": {"agent_states": given.snapshots}}
        if trial.ego_only:
            changes["partner_predicted_states"] = given.forecasts
        trial.call(trial.make(scene.models), scene, **changes)
        same = all(np.array_equal(given.actions[uid], action) for uid, action in scene.actions.items())
        demand(same and list(given.actions) == list(scene.actions), "the filter wrote into the proposed action")
        demand(same_snapshots(given.snapshots, scene.snapshots), "the filter wrote into a snapshot")
        demand(same_snapshots(given.forecasts, scene.forecasts), "the filter wrote into a forecast")


@common.check("read state.lambda_ only; the conformal update belongs to the caller")
def state_unchanged(trial: FilterTrial) -> None:
    """The safety state, lambda above all, is never written."""
    for scene in trial.active_scenes:
        state, untouched = scene.state(), scene.state()
        trial.call(trial.make(scene.models), scene, state=state)
        demand(state == untouched, f"the state was {untouched} before the call and {state} after it")


@common.check("return a dict with the five keys of FilterInfo and their types")
def info_form(trial: FilterTrial) -> None:
    """The telemetry has the keys and types of FilterInfo, and says that no fallback was taken."""
    info = trial.answer(trial.active_scenes[0]).info
    missing = [key for key in _INFO_KEYS if key not in info]
    demand(not missing, f"info lacks {missing}")
    demand(info["prediction_gap_loss"] is None, "prediction_gap_loss is the caller's to fill: it must be None")
    demand(
        info["fallback_fired"] is False, f"fallback_fired is {info['fallback_fired']!r} for an answer of the program"
    )
    solve_ms = info["qp_solve_ms"]
    demand(isinstance(solve_ms, float) and 0.0 <= solve_ms < math.inf, f"qp_solve_ms is {solve_ms!r}")


@common.check("put a shallow copy of state.lambda_ into info['lambda']")
def info_lambda(trial: FilterTrial) -> None:
    """info['lambda'] holds the slack that was used, as a copy."""
    scene = trial.active_scenes[0]
    state = scene.state()
    info = trial.call(trial.make(scene.models), scene, state=state).info
    demand(info["lambda"] is not state.lambda_, "info['lambda'] is the state's own dict")
    demand(info["lambda"] == scene.slack, f"info['lambda'] is {info['lambda']}, the slack was {scene.slack}")


@common.check("report max(0, -h) per row: sorted partners for the ego alone, make_pair_keys order for several robots")
def info_violation(trial: FilterTrial) -> None:
    """info['constraint_violation'] is max(0, -h) of every row, in the documented order."""
    for scene in (*trial.active_scenes, *map(_fast, trial.active_scenes), *map(_overlapping, trial.active_scenes)):
        expected = np.array([max(0.0, -row.barrier) for row in trial.rows.of(scene)])
        violation = flat(trial.answer(scene).info["constraint_violation"])
        demand(violation.shape == expected.shape, f"there are {violation.size} violations for {expected.size} rows")
        demand(np.allclose(violation, expected, atol=1e-9), f"the violations are {violation}, not {expected}")


def _fast(scene: Scene) -> Scene:
    """Make the ego fast enough to break a barrier, and every limit wide enough that an answer exists."""
    bounds = replace(scene.bounds, action_linf_component=1e3)
    bound = None if scene.partner_action_bound is None else 1e3
    other = next(uid for uid in scene.snapshots if uid != EGO)
    towards = scene.snapshots[other].position / np.linalg.norm(scene.snapshots[other].position)
    ego = replace(scene.snapshots[EGO], velocity=4.0 * towards)
    return replace(scene, snapshots={**scene.snapshots, EGO: ego}, bounds=bounds, partner_action_bound=bound)


def _overlapping(scene: Scene) -> Scene:
    """Let the ego overlap a partner that it approaches: no braking distance is left, h is the closing velocity."""
    fast = _fast(scene)
    other = next(uid for uid in scene.snapshots if uid != EGO)
    near = fast.snapshots[other].position * (0.3 / np.linalg.norm(fast.snapshots[other].position))
    return replace(fast, snapshots={**fast.snapshots, other: replace(fast.snapshots[other], position=near)})


@common.check("keep |u_k| <= bounds.action_linf_component for every component of every robot")
def action_box(trial: FilterTrial) -> None:
    """No component of a filtered action exceeds the action box, however large the nominal one is."""
    quiet = trial.maker("box").inactive(dim=2, n_partners=1)
    for scene in (quiet, *trial.active_scenes):
        actions = {uid: action * (3.0 if uid == EGO else 1.0) for uid, action in scene.actions.items()}
        limit = scene.bounds.action_linf_component
        for uid, action in trial.answer(replace(scene, actions=actions)).numbers().items():
            largest = float(np.abs(action).max())
            demand(
                largest <= limit * (1.0 + ROW_TOLERANCE),
                f"a component of {uid!r} is {largest:.9g}, the limit {limit:g}",
            )


@common.check("satisfy -n.a_i + n.a_j <= R for every pair; mind the forecast acceleration and add lambda to R")
def rows_hold(trial: FilterTrial) -> None:
    """The filtered actions satisfy every row of the barrier, whenever an action exists that does."""
    for scene in trial.active_scenes:
        for kind, variant in (
            ("", scene),
            (" of which one overlaps", _overlapping(scene)),
            (" and a nominal action that is nearly safe", _nearly_safe(trial, scene)),
        ):
            excess = trial.rows.excess(variant, trial.answer(variant).numbers())
            demand(
                excess.max() <= ROW_TOLERANCE,
                f"with {len(scene.snapshots) - 1} partners{kind} a row is broken by {excess.max():.3g} of its size",
            )


def _nearly_safe(trial: FilterTrial, scene: Scene) -> Scene:
    """Propose almost what the filter itself answered: a thousandth of the way back to the nominal action."""
    answer = trial.answer(scene).numbers()
    return replace(
        scene, actions={uid: 0.999 * answer[uid] + 0.001 * nominal for uid, nominal in scene.actions.items()}
    )


@common.check("linearise as J e_k = accel(e_k) - accel(0) and move n.accel(0) to the right-hand side of the row")
def affine_rows_hold(trial: FilterTrial) -> None:
    """Rows hold for robots whose acceleration is affine, not linear, in the action."""
    maker = trial.maker("affine")
    for _ in range(4):
        scene = maker.active(dim=2, n_partners=1, velocity_commands=True)
        excess = trial.rows.excess(scene, trial.answer(scene).numbers())
        demand(
            excess.max() <= ROW_TOLERANCE, f"with velocity commands a row is broken by {excess.max():.3g} of its size"
        )


@common.check("return the nominal action bit for bit when it satisfies every row and the box; skip the solver")
def pass_through(trial: FilterTrial) -> None:
    """A nominal action that breaks nothing comes back unchanged, to the last bit."""
    maker = trial.maker("pass_through")
    for scene in [maker.inactive(dim=dim, n_partners=n) for dim in (2, 3) for n in (1, 2)]:
        for uid, action in trial.answer(scene).numbers().items():
            change = np.abs(action - scene.actions[uid]).max()
            demand(action.tobytes() == scene.actions[uid].tobytes(), f"the action of {uid!r} changed by {change:.3g}")


@common.check("minimise |u - nominal|^2 and nothing else; add margins as slack or bounds, where the caller sees them")
def nearest(trial: FilterTrial) -> None:
    """No safe action is nearer to the nominal one than the filtered action."""
    for scene in trial.active_scenes:
        answer = trial.answer(scene).numbers()
        change = math.sqrt(sum(float(np.sum((answer[uid] - scene.actions[uid]) ** 2)) for uid in scene.actions))
        rows = trial.rows.of(scene)
        optimum = nearest_distance(scene, rows[0]) if len(rows) == 1 else distance_to_safety(scene, rows)
        demand(
            change <= optimum + DISTANCE_TOLERANCE * (1.0 + optimum),
            f"the filter changed the action by {change:.6g}, {optimum:.6g} would have been enough",
        )


@common.check("start every solve from the same point: clear warm starts, or make the answer independent of them")
def determinism(trial: FilterTrial) -> None:
    """Equal arguments give equal bytes, whatever the filter was asked before."""
    for first, other in zip(trial.active_scenes[:3], trial.active_scenes[1:4], strict=True):
        fresh = trial.answer(first).as_bytes()
        used = trial.make({**first.models, **other.models})
        trial.call(used, other)
        demand(trial.call(used, first).as_bytes() == fresh, "an earlier call changed the answer")
        demand(trial.call(used, first).as_bytes() == fresh, "a repeated call changed the answer")


@common.check("order robots by their uids, not by their place in a dict")
def uid_order(trial: FilterTrial) -> None:
    """The order of the uids in the mappings has no influence."""
    for scene in trial.active_scenes:
        turned = replace(
            scene,
            snapshots=dict(reversed(scene.snapshots.items())),
            actions=dict(reversed(scene.actions.items())),
            forecasts=dict(reversed(scene.forecasts.items())),
            slack=dict(reversed(scene.slack.items())),
        )
        same = trial.answer(turned).as_bytes() == trial.answer(scene).as_bytes()
        demand(same, "reordering the mappings changed the answer")


@common.check("raise ConcertoSafetyInfeasible when no action satisfies the rows; never return the nominal one instead")
def infeasible(trial: FilterTrial) -> None:
    """A scene without a safe action raises ConcertoSafetyInfeasible, so that the caller brakes."""
    scene = trial.active_scenes[0]
    other = next(uid for uid in scene.snapshots if uid != EGO)
    on_top = replace(scene.snapshots[other], position=scene.snapshots[EGO].position.copy())
    stuck = replace(scene, snapshots={**scene.snapshots, other: on_top})
    demand_raises(ConcertoSafetyInfeasible, lambda: trial.answer(stuck), "a partner in the ego's own place")


@common.check("check that the form of proposed_action fits the mode: an array for the ego alone, else a dict")
def rejects_other_action_form(trial: FilterTrial) -> None:
    """Anything but an array given to an ego-only filter, or but a dict to a joint one, raises TypeError."""
    scene = trial.active_scenes[0]
    safety_filter = trial.make(scene.models)
    action = scene.actions[EGO]
    for wrong in (action.tolist(), scene.actions if trial.ego_only else action):
        demand_raises(
            TypeError,
            lambda wrong=wrong: trial.call(safety_filter, scene, proposed_action=wrong),
            f"a {type(wrong).__name__} as proposed_action",
        )


@common.check("raise ValueError naming shape and expected shape when an action has the wrong one")
def rejects_wrong_shape(trial: FilterTrial) -> None:
    """An action of the wrong shape raises ValueError."""
    scene = trial.active_scenes[0]
    for shape in ((3,), (1, 2)):
        wrong = replace(scene, actions={**scene.actions, EGO: np.zeros(shape)})
        demand_raises(ValueError, lambda wrong=wrong: trial.answer(wrong), f"an action of shape {shape}")


@common.check("raise KeyError naming the uid that has a snapshot but no control model")
def rejects_missing_model(trial: FilterTrial) -> None:
    """A robot without a control model raises KeyError."""
    scene = trial.active_scenes[0]
    for missing in scene.models:
        models = {uid: model for uid, model in scene.models.items() if uid != missing}
        demand_raises(
            KeyError, lambda models=models: trial.answer(replace(scene, models=models)), f"no model for {missing!r}"
        )


@common.check("raise ValueError naming the controlled robot without a snapshot, or agent_states that is no mapping")
def rejects_missing_snapshot(trial: FilterTrial) -> None:
    """A controlled robot without a snapshot, or no agent_states at all, raises ValueError."""
    scene = trial.active_scenes[0]
    others = {uid: snapshot for uid, snapshot in scene.snapshots.items() if uid != EGO}
    demand_raises(ValueError, lambda: trial.answer(replace(scene, snapshots=others)), "no snapshot of the ego")
    safety_filter = trial.make(scene.models)
    demand_raises(ValueError, lambda: trial.call(safety_filter, scene, obs={}), "obs without agent_states")


@common.check("require that the keys of state.lambda_ are exactly the pairs of the mode, and name both sets otherwise")
def rejects_wrong_lambda_keys(trial: FilterTrial) -> None:
    """Slack for other pairs than those of the mode raises ValueError."""
    scene = trial.active_scenes[2]
    other_mode = make_lambda_dict(scene.snapshots, ego_uid=None if trial.ego_only else EGO)
    for wrong in (other_mode, {}):
        demand_raises(
            ValueError, lambda wrong=wrong: trial.answer(replace(scene, slack=wrong)), f"lambda for {sorted(wrong)}"
        )


@common.check("check the action, every snapshot, forecast, lambda and limit for NaN and infinity before solving")
def rejects_non_finite(trial: FilterTrial) -> None:
    """NaN in any input raises ValueError: a solver may silently drop a row that holds one."""
    scene = trial.active_scenes[0]
    for name, spoiled in _spoiled(scene):
        demand_raises(ValueError, lambda spoiled=spoiled: trial.answer(spoiled), f"NaN in {name}")


def _spoiled(scene: Scene) -> list[tuple[str, Scene]]:
    """Give the scene once with NaN in each of its numbers' places."""
    spoiled: list[tuple[str, Scene]] = []
    for uid, snapshot in scene.snapshots.items():
        nan = np.full(snapshot.position.shape, math.nan)
        for field, value in (("position", nan), ("velocity", nan), ("radius", math.nan)):
            changed = replace(snapshot, **{field: value})
            spoiled.append((f"the {field} of {uid!r}", replace(scene, snapshots={**scene.snapshots, uid: changed})))
    for uid, action in scene.actions.items():
        changed_actions = {**scene.actions, uid: np.full(action.shape, math.nan)}
        spoiled.append((f"the action of {uid!r}", replace(scene, actions=changed_actions)))
    for uid, forecast in scene.forecasts.items():
        changed = replace(forecast, velocity=np.full(forecast.velocity.shape, math.nan))
        spoiled.append((f"the forecast of {uid!r}", replace(scene, forecasts={**scene.forecasts, uid: changed})))
    spoiled.extend((f"lambda of {key}", replace(scene, slack={**scene.slack, key: math.nan})) for key in scene.slack)
    spoiled.extend(
        (f"bounds.{field}", replace(scene, bounds=replace(scene.bounds, **{field: math.nan})))
        for field in ("action_linf_component", "cartesian_accel_capacity")
    )
    return spoiled
