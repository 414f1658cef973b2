"""`SafetyStack`: it always answers, the answer is admissible, and safety does not depend on the tuning."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concerto.safety import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    JacobianControlModel,
    SafetyStack,
    SafetyState,
    VelocityCommandControlModel,
)
from concerto.safety.cbf_qp import pair_h_value
from concerto.safety.conformal import constant_velocity_predict, update_lambda_from_forecast
from concerto.safety.stack import SafetySource
from concerto.safety.stopping import PartnerMotionBound

B1 = Bounds(1.0, 1.0, 10.0, 0.0, 50.0)


def snapshot(position, velocity, radius=0.25):
    return AgentSnapshot(np.array(position, dtype=float), np.array(velocity, dtype=float), radius)


def make_stack(dim=2, *, bounds=B1, dt=0.05, max_acceleration=0.0, **settings_):
    return SafetyStack(
        ego_uid="ego",
        control_models={"ego": DoubleIntegratorControlModel("ego", dim)},
        bounds=bounds,
        dt=dt,
        partner_motion=PartnerMotionBound(max_acceleration=max_acceleration),
        **settings_,
    )


# --------------------------------------------------------------------------------------------- where answers come from


def test_an_action_that_needs_nothing_passes_bit_for_bit():
    nominal = np.array([0.1, -1.0 / 3.0])
    step = make_stack().step(nominal, {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([9, 0], [0, 0])})
    assert step.source is SafetySource.PASS_THROUGH
    assert step.action.tobytes() == nominal.tobytes()
    assert step.action is not nominal
    assert not step.fallback_fired


def test_without_partners_only_the_box_acts():
    step = make_stack().step(np.array([2.0, 0.0]), {"ego": snapshot([0, 0], [0, 0])})
    assert step.action.tolist() == [1.0, 0.0]
    assert step.source is SafetySource.QP
    assert step.stopping_margin_m == math.inf
    assert step.barrier_values == {}


def test_a_violated_row_is_projected():
    # Partner far enough to stop for, near enough that full speed ahead breaks the barrier row.
    states = {"ego": snapshot([0, 0], [1.0, 0]), "p": snapshot([1.3, 0], [0, 0])}
    step = make_stack(dt=0.01, tau_brake=0.0).step(np.array([1.0, 0.0]), states)
    gap, alpha, gamma = 0.8, 1.0, 5.0
    psi = math.sqrt(2 * alpha * gap)
    expected = (alpha / psi) * -1.0 + gamma * (psi - 1.0)  # n = (-1, 0): u_x <= R
    assert step.source is SafetySource.PASS_THROUGH if expected > 1 else step.source is SafetySource.QP
    states["ego"] = snapshot([0, 0], [1.2, 0])
    step = make_stack(dt=0.01, tau_brake=0.0).step(np.array([1.0, 0.0]), states)
    expected = (alpha / psi) * -1.2 + gamma * (psi - 1.2)
    assert -1.0 < expected < 1.0
    assert step.source is SafetySource.QP
    np.testing.assert_allclose(step.action, [expected, 0.0], atol=1e-9)


def test_an_ego_that_could_not_stop_after_the_answer_brakes_at_its_limit():
    states = {"ego": snapshot([0, 0], [1.0, 0.5]), "p": snapshot([1.0, 0.4], [0, 0])}
    step = make_stack().step(np.array([1.0, 0.0]), states)
    assert step.source in {SafetySource.BRAKING, SafetySource.FALLBACK}
    np.testing.assert_allclose(step.action, -np.array([1.0, 0.5]) / math.hypot(1.0, 0.5), atol=1e-12)
    assert step.fallback_fired


def test_the_last_braking_step_ends_at_rest():
    states = {"ego": snapshot([0, 0], [0.02, 0.0]), "p": snapshot([0.5, 0.0], [0, 0])}
    step = make_stack(dt=0.1).step(np.array([1.0, 0.0]), states)
    assert states["ego"].velocity[0] + 0.1 * step.action[0] == pytest.approx(0.0, abs=1e-15)


def test_braking_to_rest_in_this_step_needs_no_further_step():
    """What rounding leaves of the speed (3e-18 m/s here) is rest, not a reason to ask for another step's clearance."""
    stack = SafetyStack(
        ego_uid="ego",
        control_models={"ego": DoubleIntegratorControlModel("ego", 2)},
        bounds=B1,
        dt=0.3,
        partner_motion=PartnerMotionBound(math.inf, max_speed=0.7),
    )
    states = {"ego": snapshot([0, 0], [-0.02982711, 0.00024054]), "p": snapshot([0, 0.75], [0, -0.7])}
    step = stack.step(np.zeros(2), states)
    assert step.source in {SafetySource.BRAKING, SafetySource.FALLBACK}
    assert 0.0 < step.stopping_margin_m < 0.25 - 0.3 * 0.7 + 1e-6


def test_an_infeasible_projection_falls_back_to_the_push_when_it_is_certified():
    # The partner closes in faster than the ego can answer the row; it may not accelerate, and misses the ego sideways.
    states = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([1.0, 0.6], [-2.5, 0])}
    step = make_stack(max_acceleration=0.0, tau_brake=0.0).step(np.array([1.0, 0.0]), states)
    assert step.source is SafetySource.FALLBACK
    assert step.fallback_fired
    assert np.max(np.abs(step.action)) <= 1.0


def test_time_to_collision_brakes_an_approaching_ego_even_when_nothing_is_declared_to_move():
    states = {"ego": snapshot([0, 0], [0.2, 0]), "p": snapshot([0.57, 0], [-0.8, 0])}
    with_trigger = make_stack(dt=0.01, tau_brake=0.1).step(np.zeros(2), states)
    assert with_trigger.source in {SafetySource.BRAKING, SafetySource.FALLBACK}
    np.testing.assert_allclose(with_trigger.action, [-1.0, 0.0], atol=1e-12)


def test_an_ego_at_rest_may_leave_when_it_outruns_the_partner_within_the_bound():
    states = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([0.85, 0], [-0.8, 0])}
    step = make_stack(dt=0.05).step(np.array([0.0, 0.0]), states)
    assert step.action[0] < 0.0
    assert step.stopping_margin_m >= 0.0


# ----------------------------------------------------------------------------------------------------------- the answer


def answered(n_partners=2):
    stack = make_stack(eta=0.5)
    states = {"ego": snapshot([0, 0], [1.0, 0.1])}
    states |= {f"p{i}": snapshot([1.2 + i, 0.2], [0.1 * i, 0]) for i in range(n_partners)}
    stack.step(np.array([1.0, 0.2], dtype=np.float32), states)
    return stack, states, stack.step(np.array([1.0, 0.2], dtype=np.float32), states)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda step: pickle.loads(pickle.dumps(step))])
@pytest.mark.parametrize("n_partners", [0, 1, 3])
def test_a_copy_of_an_answer_holds_every_value_and_nothing_else(copied, n_partners):
    _, _, step = answered(n_partners)
    names = [field.name for field in dataclasses.fields(step)]
    copy_ = copied(step)
    assert sorted(vars(copy_)) == sorted(names)
    assert copy_.to_info() == step.to_info()
    assert dataclasses.asdict(copy_).keys() == dataclasses.asdict(step).keys()
    for name in ("action", "nominal_action", "filtered_action"):
        assert getattr(copy_, name).tobytes() == getattr(step, name).tobytes()
    assert copy_ != step, "answers are compared by identity"
    assert dataclasses.replace(step, solve_ms=0.0).lambda_ == step.lambda_


def test_an_answer_stays_what_it_was_whenever_it_is_read():
    stack, states, step = answered()
    _, _, read_at_once = answered()
    early = read_at_once.to_info()
    states["p0"] = snapshot([0.9, -0.1], [-1.0, 0])
    for _ in range(3):
        stack.step(np.array([-1.0, 0.0]), states)
    stack.start_episode()
    late = step.to_info()
    assert {**late, "solve_ms": 0} == {**early, "solve_ms": 0}
    assert step.lambda_ is step.lambda_, "a value is made once"
    step.lambda_["ego", "p0"] = step.filtered_action[0] = step.nominal_action[0] = 99.0
    assert stack.state.lambda_["ego", "p0"] != 99.0
    assert step.action[0] != 99.0
    with pytest.raises(AttributeError, match="no attribute 'gap_m'"):
        step.gap_m  # noqa: B018
    with pytest.raises(dataclasses.FrozenInstanceError):
        step.solve_ms = 0.0


def test_a_copied_or_pickled_stack_goes_on_alike():
    stack, states, _ = answered()
    others = [copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))]
    expected = stack.step(np.array([0.3, 0.1]), states).to_info()
    for other in others:
        assert {**other.step(np.array([0.3, 0.1]), states).to_info(), "solve_ms": 0} == {**expected, "solve_ms": 0}


@pytest.mark.parametrize(
    "other",
    [
        lambda s: AgentSnapshot(s.position.tolist(), tuple(s.velocity.tolist()), s.radius),  # type: ignore[arg-type]
        lambda s: AgentSnapshot(s.position[::-1].copy()[::-1], s.velocity, np.float64(s.radius)),
        lambda s: AgentSnapshot(s.position, s.velocity, np.array(s.radius)),  # type: ignore[arg-type]
        lambda s: AgentSnapshot.of_numbers((*s.position.tolist(), *s.velocity.tolist()), s.radius),
    ],
)
def test_snapshots_of_any_kind_of_numbers_give_the_same_answer(other):
    plain, mixed = make_stack(eta=0.5), make_stack(eta=0.5)
    rng = np.random.default_rng(4)
    for _ in range(20):
        states = {uid: snapshot(rng.uniform(-2, 2, 2), rng.uniform(-1, 1, 2)) for uid in ("ego", "p", "q")}
        nominal = rng.uniform(-1, 1, 2)
        expected = plain.step(nominal, states).to_info()
        answer = mixed.step(nominal, {**states, "p": other(states["p"])}).to_info()
        assert {**answer, "solve_ms": 0} == {**expected, "solve_ms": 0}


def test_a_radius_that_is_changed_in_place_is_seen():
    stack = make_stack()
    radius = np.array(0.25)
    states = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([3, 0], [0, 0], radius)}
    assert stack.step(np.zeros(2), states).gaps_m["ego", "p"] == 2.5
    radius[...] = 1.0
    assert stack.step(np.zeros(2), states).gaps_m["ego", "p"] == 1.75


def test_what_looks_like_a_number_but_is_masked_or_complex_is_read_as_before():
    """The quick way reads plain float64 arrays; all else is `np.array`'s to judge."""
    stack = make_stack()
    good = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([3, 0], [0, 0])}
    stack.step(np.zeros(2), good)
    masked = np.ma.array([3.0, 0.0], mask=[True, False])
    assert stack.step(np.zeros(2), {**good, "p": AgentSnapshot(masked, np.zeros(2), 0.25)}).gaps_m["ego", "p"] == 2.5
    before = stack.state
    for bad in (np.array([None, 0.0]), np.zeros((2, 1)), np.zeros(3)):
        with pytest.raises(ValueError, match="position of 'p'"):
            stack.step(np.zeros(2), {**good, "p": AgentSnapshot(bad, np.zeros(2), 0.25)})
    assert stack.state == before


# ------------------------------------------------------------------------------------------------------ always answers

finite = st.floats(allow_nan=False, allow_infinity=False)
modest = st.floats(-10, 10)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(finite, modest), min_size=18, max_size=18), st.integers(0, 3), st.booleans())
def test_any_finite_state_gets_a_finite_action_inside_the_box(numbers, n_partners, is_velocity):
    numbers = iter(numbers)

    def take():
        return [next(numbers), next(numbers)]

    states = {"ego": snapshot(take(), take(), 0.3)}
    for i in range(n_partners):
        states[f"p{i}"] = snapshot(take(), take(), 0.2)
    model = (
        VelocityCommandControlModel("ego", 2, 0.1, is_immediate=n_partners == 1)
        if is_velocity
        else DoubleIntegratorControlModel("ego", 2)
    )
    stack = SafetyStack(ego_uid="ego", control_models={"ego": model}, bounds=B1, dt=0.1)
    for _ in range(2):
        step = stack.step(np.array(take() if n_partners < 3 else [1.0, 0.0]), states)
        assert np.all(np.isfinite(step.action))
        assert np.max(np.abs(step.action)) <= 1.0
        assert all(math.isfinite(value) for value in step.lambda_.values())
        numbers = iter([0.5] * 18)


@pytest.mark.parametrize("velocity", [-1.0, 1.0])
def test_an_overlap_shows_in_the_gap_whether_or_not_the_barrier_is_broken(velocity):
    overlapping = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([0.3, 0], [velocity, 0])}
    step = make_stack().step(np.zeros(2), {**overlapping, "q": snapshot([0, 3.5], [0, 0], 0.5)})
    assert step.gaps_m == pytest.approx({("ego", "p"): -0.2, ("ego", "q"): 2.75})
    assert step.barrier_values["ego", "p"] == pytest.approx(velocity - math.sqrt(2 * 1.0 * 0.2))  # by its depth


def test_coincident_centres_and_zero_radii_are_answered():
    states = {"ego": snapshot([0, 0], [0.3, 0], 0.0), "p": snapshot([0, 0], [0, 0], 0.0)}
    step = make_stack().step(np.array([1.0, 1.0]), states)
    assert np.all(np.abs(step.action) <= 1.0)
    assert step.source in {SafetySource.BRAKING, SafetySource.FALLBACK}  # never the nominal action
    assert step.stopping_margin_m < 0.0
    deep = {"ego": snapshot([0, 0], [0.3, 0], 0.5), "p": snapshot([0, 0], [0, 0], 0.5)}
    step = make_stack().step(np.array([1.0, 1.0]), deep)
    assert step.source is SafetySource.FALLBACK
    assert step.barrier_values == {("ego", "p"): pytest.approx(0.3 - math.sqrt(2.0))}


def test_no_rounding_takes_the_action_out_of_the_box():
    """The push and the mix with braking end in a product and a sum that may round past a limit like 0.8858..."""
    rng = np.random.default_rng(0)
    sources = set()
    for _ in range(300):
        limit = rng.uniform(0.1, 3.0)
        stack = make_stack(3, bounds=Bounds(limit, limit, 10.0, 0.0, 50.0))
        away = rng.normal(size=3)
        away /= np.linalg.norm(away)
        states = {"ego": snapshot(np.zeros(3), np.zeros(3)), "p": snapshot(-1.2 * away, 2.0 * away)}
        step = stack.step(-limit * away, states)
        assert np.max(np.abs(step.action)) <= limit
        sources.add(step.source)
    assert SafetySource.FALLBACK in sources


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"nominal": [math.nan, 0.0]}, "nominal_action"),
        ({"nominal": [0.0, math.inf]}, "nominal_action"),
        ({"nominal": [0.0]}, "nominal_action"),
        ({"ego": snapshot([math.nan, 0], [0, 0])}, "position of 'ego'"),
        ({"p": snapshot([3, 0], [0, math.inf])}, "velocity of 'p'"),
        ({"p": snapshot([3, 0], [0, 0], math.nan)}, "radius of 'p'"),
        ({"p": snapshot([3, 0], [0, 0], -0.1)}, "radius of 'p'"),
        ({"p": snapshot([3, 0, 0], [0, 0, 0])}, "position of 'p'"),
        ({"ego": snapshot([0, 0, 0], [0, 0, 0]), "p": snapshot([3, 0, 0], [0, 0, 0])}, "2 dimensions"),
        ({"forecast": snapshot([3, 0], [math.nan, 0])}, "forecast velocity of 'p'"),
        ({"nominal": ["left", "right"]}, "nominal_action"),
        ({"p": AgentSnapshot([None, 0.0], np.zeros(2), 0.25)}, "position of 'p'"),  # type: ignore[arg-type]
        ({"p": AgentSnapshot(np.array([3.0, 0.0]), np.zeros(2), None)}, "radius of 'p'"),  # type: ignore[arg-type]
        ({"p": AgentSnapshot([10**400, 0.0], np.zeros(2), 0.25)}, "real numbers"),  # type: ignore[arg-type]
    ],
)
def test_bad_numbers_are_refused_by_name_and_change_nothing(change, name):
    stack = make_stack()
    good = {"ego": snapshot([0, 0], [0.1, 0]), "p": snapshot([2, 0], [0, 0])}
    stack.step(np.zeros(2), good)
    stack.step(np.zeros(2), good)
    before = stack.state
    states = {uid: change.get(uid, good[uid]) for uid in good}
    forecast = {"p": change["forecast"]} if "forecast" in change else None
    with pytest.raises(ValueError, match=name):
        stack.step(np.array(change.get("nominal", [0.0, 0.0])), states, partner_predicted_states=forecast)
    assert stack.state == before


def test_missing_robots_are_named():
    stack = make_stack()
    with pytest.raises(KeyError, match="ego"):
        stack.step(np.zeros(2), {"p": snapshot([2, 0], [0, 0])})
    states = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([2, 0], [0, 0])}
    with pytest.raises(KeyError, match="partner_predicted_states must hold 'p'"):
        stack.step(np.zeros(2), states, partner_predicted_states={})
    named = SafetyStack(
        ego_uid="ego",
        control_models={"ego": DoubleIntegratorControlModel("ego", 2)},
        bounds=B1,
        dt=0.1,
        partner_motion={"q": PartnerMotionBound(1.0)},
    )
    with pytest.raises(KeyError, match="partner_motion must hold 'p'"):
        named.step(np.zeros(2), states)


@pytest.mark.parametrize(
    ("settings_", "error", "name"),
    [
        ({"partner_motion": {"p": PartnerMotionBound(0.0)}}, KeyError, "partner_motion must hold 'q'"),
        ({"partner_braking_fraction": 0.5}, KeyError, "control_models must hold 'q'"),
    ],
)
def test_a_partner_that_nothing_is_declared_of_is_refused_again_and_again_and_changes_nothing(settings_, error, name):
    double_integrators = {uid: DoubleIntegratorControlModel(uid, 2) for uid in ("ego", "p")}
    stack = SafetyStack(ego_uid="ego", control_models=double_integrators, bounds=B1, dt=0.05, **settings_)
    known = {"ego": snapshot([0, 0], [1, 0]), "p": snapshot([3, 0], [0, 0])}
    stack.step(np.zeros(2), known, partner_id="first")
    stack.step(np.zeros(2), known, partner_id="first")
    before = stack.state
    for _ in range(3):
        with pytest.raises(error, match=name):
            stack.step(np.zeros(2), {**known, "q": snapshot([5, 0], [0, 0])}, partner_id="second")
        assert stack.state == before
    step = stack.step(np.zeros(2), known, partner_id="first")
    assert step.lambda_ != {("ego", "p"): 0.0}, "the slack of the partner that was there goes on"


@pytest.mark.parametrize("capacity", [math.nan, 0.0, -1.0, math.inf])
def test_a_capacity_of_a_partner_that_cannot_be_is_refused_by_name(capacity):
    class Partner(DoubleIntegratorControlModel):
        def max_cartesian_accel(self, bounds):
            return capacity

    models = {"ego": DoubleIntegratorControlModel("ego", 2), "p": Partner("p", 2)}
    stack = SafetyStack(ego_uid="ego", control_models=models, bounds=B1, dt=0.05, partner_braking_fraction=1.0)
    with pytest.raises(ValueError, match="capacity of 'p' must be finite and > 0"):
        stack.step(np.zeros(2), {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([3, 0], [0, 0])})


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_control_model_that_gives_no_numbers_is_refused_instead_of_steered_by(number):
    jacobian = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, number]])
    model = JacobianControlModel("ego", 3, 2, lambda _: jacobian, max_cartesian_accel_value=1.0)
    stack = SafetyStack(ego_uid="ego", control_models={"ego": model}, bounds=B1, dt=0.05)
    states = {"ego": snapshot([0, 0], [1, 0]), "p": snapshot([0.8, 0], [0, 0])}
    with pytest.raises(ValueError, match="control model of 'ego' must give finite"):
        stack.step(np.zeros(3), states)


def test_a_control_model_whose_map_has_another_shape_is_refused_by_name():
    class Crooked(DoubleIntegratorControlModel):
        def affine(self, state):
            return np.eye(2, 3), np.zeros(2)

    stack = SafetyStack(ego_uid="ego", control_models={"ego": Crooked("ego", 2)}, bounds=B1, dt=0.05)
    with pytest.raises(ValueError, match=r"control model of 'ego' must give a map of the shapes \(2, 2\) and \(2,\)"):
        stack.step(np.zeros(2), {"ego": snapshot([0, 0], [1, 0])})


@pytest.mark.parametrize(
    "setting",
    [
        {"dt": 0.0},
        {"dt": math.nan},
        {"cbf_gamma": -1.0},
        {"epsilon": 0.5},
        {"eta": -0.1},
        {"tau_brake": -1.0},
        {"partner_braking_fraction": 1.1},
        {"lambda_bound": 0.0},
        {"lambda_safe": math.inf},
        {"n_warmup_steps": -1},
        {"bounds": Bounds(0.0, 1.0, 1.0, 0.0, 1.0)},
        {"bounds": Bounds(1.0, math.nan, 1.0, 0.0, 1.0)},
    ],
)
def test_settings_out_of_range_are_refused_by_name(setting):
    name = next(iter(setting))
    with pytest.raises(ValueError, match="capacity|action_linf" if name == "bounds" else name):
        make_stack(**setting)


@pytest.mark.parametrize("name", ["ego_uid", "bounds", "dt", "partner_motion"])
def test_what_a_stack_was_told_can_be_read_and_not_exchanged_behind_its_back(name):
    stack = make_stack()
    told = getattr(stack, name)
    with pytest.raises(AttributeError):
        setattr(stack, name, told)


# ----------------------------------------------------------------------------------------------------- conformal slack


def run_steps(stack, n, *, push=0.0, rng=None):
    """Step beside a partner that accelerates by ``push`` towards the ego; give losses and slacks."""
    position, velocity, losses, slacks = 1e4, 0.0, [], []
    for _ in range(n):
        states = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([position, 0], [velocity, 0])}
        step = stack.step(np.zeros(2), states)
        slacks.append(step.lambda_["ego", "p"])
        if step.prediction_loss is not None:
            losses.append(step.prediction_loss["ego", "p"])
        accel = -push if rng is None else rng.uniform(-1, 1)
        position += stack.dt * velocity + 0.5 * stack.dt**2 * accel
        velocity += stack.dt * accel
    return losses, slacks


def test_the_slack_follows_the_public_conformal_functions():
    rng = np.random.default_rng(8)
    stack = make_stack(eta=0.3, n_warmup_steps=20, partner_braking_fraction=0.0)
    state = SafetyState({("ego", "p"): 0.0, ("ego", "q"): 0.0}, -0.05, 0.3, 20)
    predicted = None
    for _ in range(60):
        uids = ("ego", "p", "q")
        states = {uid: snapshot(rng.uniform(-3, 3, 2), rng.uniform(-1, 1, 2)) for uid in uids}
        if predicted is not None:
            update_lambda_from_forecast(
                state,
                states,
                {**predicted, "ego": states["ego"]},
                alpha_pair=1.0,
                dt=0.05,
                overlap_depth=True,
                lambda_bound=0.7,
            )
        step = stack.step(np.zeros(2), states)
        assert step.lambda_ == pytest.approx(state.lambda_, abs=1e-12)
        assert stack.state.warmup_steps_remaining == state.warmup_steps_remaining
        predicted = {uid: constant_velocity_predict(states[uid], 0.05) for uid in uids}


def test_the_mean_loss_obeys_the_identity_of_conformal_decision_theory():
    stack = make_stack(n_warmup_steps=0, eta=0.05)
    losses, slacks = run_steps(stack, 400, rng=np.random.default_rng(3))
    k = len(losses)
    identity = stack.state.epsilon + (slacks[0] - slacks[-1]) / (0.05 * k)
    assert np.mean(losses) == pytest.approx(identity, abs=1e-12)


def test_the_slack_settles_where_the_loss_meets_its_target():
    losses, slacks = run_steps(make_stack(n_warmup_steps=0, eta=0.5), 600)
    assert slacks[-1] == pytest.approx(math.tan(-0.05 * math.pi), abs=1e-6)
    assert losses[-1] == pytest.approx(-0.05, abs=1e-6)
    _, tighter = run_steps(make_stack(n_warmup_steps=0, eta=0.5, lambda_bound=9.0), 600, push=1.0)
    assert tighter[-1] == pytest.approx(
        slacks[-1] - 1.0, abs=1e-3
    )  # a partner that presses is answered by a tighter row


def test_warm_up_is_stricter_and_ends():
    _, warm = run_steps(make_stack(n_warmup_steps=10, epsilon=0.1), 8)
    _, cold = run_steps(make_stack(n_warmup_steps=0, epsilon=0.1), 8)
    assert warm[-1] < cold[-1]
    stack = make_stack(n_warmup_steps=10)
    run_steps(stack, 30)
    assert stack.state.warmup_steps_remaining == 0


def test_the_slack_never_leaves_its_bound():
    _, slacks = run_steps(make_stack(eta=5.0, lambda_bound=0.4), 100, rng=np.random.default_rng(1))
    assert max(np.abs(slacks)) <= 0.4


def test_a_new_partner_identity_restarts_slack_and_warm_up():
    stack = make_stack(n_warmup_steps=3, eta=0.5)
    states = {"ego": snapshot([0, 0], [0, 0]), "p": snapshot([9, 0], [0, 0])}
    for _ in range(10):
        stack.step(np.zeros(2), states, partner_id="first")
    assert stack.state.warmup_steps_remaining == 0
    step = stack.step(np.zeros(2), states, partner_id="second")
    assert step.lambda_ == {("ego", "p"): 0.0}
    assert step.prediction_loss is None
    assert stack.state.warmup_steps_remaining == 3


def test_partners_come_and_go_and_the_others_keep_their_slack():
    stack = make_stack(eta=0.5)
    ego, p, q = snapshot([0, 0], [0, 0]), snapshot([9, 0], [0, 0]), snapshot([0, 9], [0, 0])
    for _ in range(5):
        last = stack.step(np.zeros(2), {"ego": ego, "p": p}).lambda_["ego", "p"]
    both = stack.step(np.zeros(2), {"q": q, "ego": ego, "p": p}).lambda_
    assert last != 0.0
    assert both["ego", "q"] == 0.0
    assert both["ego", "p"] == pytest.approx(last, abs=0.1)
    assert list(stack.step(np.zeros(2), {"ego": ego, "q": q}).lambda_) == [("ego", "q")]


# -------------------------------------------------------------------------------------------------------- other models


def test_an_ego_that_obeys_velocities_at_once_stops_within_one_step():
    model = VelocityCommandControlModel("ego", 2, 0.1, is_immediate=True)
    stack = SafetyStack(
        ego_uid="ego",
        control_models={"ego": model},
        bounds=B1,
        dt=0.1,
        partner_motion=PartnerMotionBound(math.inf, max_speed=math.sqrt(2)),
    )
    near = {"ego": snapshot([0, 0], [1.0, 0], 0.1), "p": snapshot([0.3, 0], [0, 0], 0.1)}
    step = stack.step(np.array([1.0, 0.0]), near)
    assert step.action.tolist() == [0.0, 0.0]
    far = {"ego": snapshot([0, 0], [1.0, 0], 0.1), "p": snapshot([2.0, 0], [0, 0], 0.1)}
    assert stack.step(np.array([1.0, 0.0]), far).source is SafetySource.PASS_THROUGH


def velocity_jacobian(damping=0.0):
    """A velocity-commanded robot written as a Jacobian model: ``a = (u - v)/dt``."""
    return JacobianControlModel(
        "ego",
        2,
        2,
        jacobian_fn=lambda _: np.eye(2),
        damping=damping,
        max_cartesian_accel_value=2.0,
        offset_fn=lambda state: -state.velocity / 0.1,
        scale=10.0,
    )


MODELS = {
    "velocity command": (VelocityCommandControlModel("ego", 2, 0.1), 0.0),
    "velocity through a Jacobian": (velocity_jacobian(), 0.0),
    "velocity through a damped Jacobian": (velocity_jacobian(1e-3), 1e-6),
    "drag": (
        JacobianControlModel(
            "ego",
            3,
            2,
            jacobian_fn=lambda _: np.array([[1.0, 0.2, 0.0], [0.0, 0.5, 1.0]]),
            max_cartesian_accel_value=1.0,
            offset_fn=lambda state: -0.8 * state.velocity,
        ),
        1e-6,
    ),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", MODELS)
def test_an_ego_with_a_drifting_model_is_at_rest_in_every_contact(name, seed):
    """Acceleration held over the step, offsets that follow the velocity, partners that chase at their bound."""
    model, rest_speed = MODELS[name]
    rng = np.random.default_rng(1000 + seed)
    dt, declared = 0.1, float(rng.uniform(0.0, 2.0))
    stack = SafetyStack(
        ego_uid="ego", control_models={"ego": model}, bounds=B1, dt=dt, partner_motion=PartnerMotionBound(declared)
    )
    p, v = np.zeros(2), np.zeros(2)
    q, w = rng.normal(size=2), np.zeros(2)
    q *= rng.uniform(0.8, 2.0) / np.linalg.norm(q)
    nominal = rng.uniform(-1, 1, model.action_dim)
    moved = 0.0
    for k in range(80):
        if k % 10 == 0:
            nominal = model.cartesian_accel_to_action(snapshot(p, v), 5.0 * (q - p)) + rng.normal(size=model.action_dim)
        states = {"ego": snapshot(p, v), "p": snapshot(q, w)}
        action = stack.step(nominal, states).action
        assert np.max(np.abs(action)) <= 1.0
        a = model.action_to_cartesian_accel(states["ego"], action)
        chase = declared * (p - q) / max(float(np.linalg.norm(p - q)), 1e-9)
        for s in np.linspace(0, dt, 9):
            gap = np.linalg.norm(p + v * s + 0.5 * a * s * s - q - w * s - 0.5 * chase * s * s)
            if gap < 0.5 - 1e-9:
                assert np.linalg.norm(v + a * s) <= 1e-9 + rest_speed
        p, v = p + v * dt + 0.5 * a * dt * dt, v + a * dt
        q, w = q + w * dt + 0.5 * chase * dt * dt, w + chase * dt
        moved = max(moved, float(np.linalg.norm(p)))
    assert moved > 0.01


@pytest.mark.parametrize(
    ("offset", "capacity", "velocity", "is_certified"),
    [
        (lambda _: np.array([0.0, -0.5]), 1.0, [0.0, 1.0], True),
        (lambda _: np.array([0.0, -1.5]), 1.0, [0.0, 1.0], False),  # a weight that no action inside the box holds
        (lambda state: -2.0 * state.velocity, 1.0, [1.0, 0.0], True),
        (lambda state: -2.0 * state.velocity, 0.5, [1.0, 0.0], False),  # drag alone brakes harder than the plan says
    ],
)
def test_a_stopping_plan_that_the_box_cuts_short_is_not_certified(offset, capacity, velocity, is_certified):
    model = JacobianControlModel(
        "ego", 2, 2, jacobian_fn=lambda _: np.eye(2), max_cartesian_accel_value=capacity, offset_fn=offset
    )
    stack = SafetyStack(ego_uid="ego", control_models={"ego": model}, bounds=B1, dt=0.1)
    states = {"ego": snapshot([0, 0], velocity), "p": snapshot([-50, 0], [0, 0])}
    margin = stack.step(model.cartesian_accel_to_action(states["ego"], np.zeros(2)), states).stopping_margin_m
    assert (margin > 0.0) == is_certified


def stack_behind(jacobian, *, damping=1e-3, offset_fn=None, bounds=B1, **settings_):
    model = JacobianControlModel(
        "ego",
        jacobian.shape[1],
        2,
        jacobian_fn=lambda _: jacobian,
        damping=damping,
        max_cartesian_accel_value=1.0,
        offset_fn=offset_fn,
    )
    return SafetyStack(ego_uid="ego", control_models={"ego": model}, bounds=bounds, dt=0.1, **settings_)


@pytest.mark.parametrize("damping", [0.0, 1e-3])
@pytest.mark.parametrize("jacobian", [np.zeros((2, 3)), np.eye(2, 3) * [[1.0], [0.0]], np.full((2, 3), 1e-200)])
def test_a_singular_map_is_answered_and_has_no_brakes_where_it_has_no_reach(jacobian, damping):
    far = snapshot([-50, 0], [0, 0])
    upwards = {"ego": snapshot([0, 0], [0, 1.0]), "p": far}
    step = stack_behind(jacobian, damping=damping).step(np.zeros(3), upwards)
    assert np.max(np.abs(step.action)) <= 1.0
    assert step.stopping_margin_m == -math.inf
    sideways = {"ego": snapshot([0, 0], [1.0, 0]), "p": far}
    margin = stack_behind(jacobian, damping=damping).step(np.zeros(3), sideways).stopping_margin_m
    assert (margin > 0.0) == (jacobian[0, 0] == 1.0)


def test_a_singular_map_that_cannot_hold_its_weight_has_no_brakes_at_all():
    stack = stack_behind(np.eye(2, 3) * [[1.0], [0.0]], offset_fn=lambda _: np.array([0.0, -0.5]))
    states = {"ego": snapshot([0, 0], [1.0, 0]), "p": snapshot([-50, 0], [0, 0])}
    assert stack.step(np.zeros(3), states).stopping_margin_m == -math.inf


def test_coming_to_rest_is_not_enough_where_the_weight_cannot_be_held():
    """Falling up at 0.01 m/s the last step of braking needs less than the weight; at rest it would need more."""
    stack = stack_behind(np.eye(2), offset_fn=lambda _: np.array([0.0, -1.05]))
    states = {"ego": snapshot([0, 0], [0, 0.01]), "p": snapshot([-50, 0], [0, 0])}
    assert stack.step(np.array([0.0, 0.95]), states).stopping_margin_m == -math.inf


@pytest.mark.parametrize("singular_value", [1e-3, 1e-2])
def test_a_nearly_singular_map_brakes_as_hard_as_certified(singular_value):
    """At a singular value like the damping, damped least squares alone would give half of the acceleration."""
    jacobian = np.diag([1.0, singular_value])
    stack = stack_behind(jacobian, bounds=Bounds(1e4, 1.0, 10.0, 0.0, 50.0))
    states = {"ego": snapshot([0, 0], [0, 1.0]), "p": snapshot([0, 0.9], [0, 0])}
    np.testing.assert_allclose(jacobian @ stack.step(np.zeros(2), states).action, [0.0, -1.0], atol=1e-9)


def test_velocity_commands_for_another_control_period_are_refused():
    model = VelocityCommandControlModel("ego", 2, 0.5, is_immediate=True)
    with pytest.raises(ValueError, match="control period"):
        SafetyStack(ego_uid="ego", control_models={"ego": model}, bounds=B1, dt=0.1)


@pytest.mark.parametrize(("crossing", "moment"), [(1.0, 1.6), (1.15, 1.8), (1.2, 1.9), (1.05, 1.7)])
def test_an_ego_with_stronger_brakes_at_lower_speed_keeps_to_its_plan(crossing, moment):
    """It means to be through before a partner crosses behind it; braking harder than planned would keep it there."""
    nothing = PartnerMotionBound(0.0)
    stack = stack_behind(np.eye(2), offset_fn=lambda state: 0.9 * state.velocity, partner_motion=nothing)
    p, v = np.zeros(2), np.array([1.0, 0.0])
    q, w = np.array([crossing, 1.5 * moment]), np.array([0.0, -1.5])
    for k in range(60):
        step = stack.step(np.array([-1.0, 0.0]), {"ego": snapshot(p, v, 0.2), "p": snapshot(q, w, 0.2)})
        assert k > 0 or step.stopping_margin_m > 0.0
        a = step.action + 0.9 * v
        for s in np.linspace(0.0, 0.1, 11):
            if np.linalg.norm(p + v * s + 0.5 * a * s * s - q - w * s) < 0.4 - 1e-6:
                assert np.linalg.norm(v + a * s) < 1e-6
        p, v, q = p + 0.1 * v + 0.005 * a, v + 0.1 * a, q + 0.1 * w


@pytest.mark.parametrize("speed", [1e200, 1e308])
@pytest.mark.parametrize("name", MODELS)
def test_absurd_speeds_are_answered_behind_every_model(name, speed):
    model = MODELS[name][0]
    stack = SafetyStack(ego_uid="ego", control_models={"ego": model}, bounds=B1, dt=0.1)
    states = {"ego": snapshot([0, 0], [speed, -speed]), "p": snapshot([3, 0], [0, 0])}
    step = stack.step(np.ones(model.action_dim), states)
    assert np.all(np.isfinite(step.action))
    assert np.max(np.abs(step.action)) <= 1.0


def test_a_velocity_commanded_ego_behind_a_jacobian_brakes_at_full_speed():
    stack = SafetyStack(
        ego_uid="ego",
        control_models={"ego": velocity_jacobian()},
        bounds=Bounds(1.0, 2.0, 10.0, 0.0, 50.0),
        dt=0.1,
        partner_motion=PartnerMotionBound(0.0),
    )
    states = {"ego": snapshot([0, 0], [1.0, 0.0]), "p": snapshot([0.7, 0.0], [0, 0])}
    np.testing.assert_allclose(stack.step(np.array([1.0, 0.0]), states).action, [0.8, 0.0], atol=1e-12)


def test_a_redundant_arm_brakes_through_its_jacobian():
    rng = np.random.default_rng(5)
    jacobian = rng.normal(size=(3, 7))
    model = JacobianControlModel("ego", 7, 3, jacobian_fn=lambda _: jacobian, max_cartesian_accel_value=2.0)
    stack = SafetyStack(
        ego_uid="ego",
        control_models={"ego": model},
        bounds=Bounds(5.0, 2.0, 10.0, 0.0, 50.0),
        dt=0.05,
        partner_motion=PartnerMotionBound(0.0),
    )
    states = {"ego": snapshot([0, 0, 0], [1.0, 0, 0], 0.1), "p": snapshot([0.35, 0, 0], [0, 0, 0], 0.1)}
    step = stack.step(rng.normal(size=7), states)
    assert step.action.shape == (7,)
    np.testing.assert_allclose(jacobian @ step.action, [-2.0, 0, 0], atol=1e-4)


# ------------------------------------------------------------------------------------------ safety whatever the tuning


@pytest.mark.parametrize("seed", range(40))
def test_an_ego_is_at_rest_in_every_contact_whatever_the_tuning(seed):
    """Hostile tuning (slack pushed up, no gamma to speak of, wrong forecasts) beside partners that chase."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(2, 4))
    dt = float(rng.choice([0.02, 0.05, 0.2]))
    capacity, declared = float(rng.uniform(0.5, 4)), float(rng.uniform(0, 4))
    stack = make_stack(
        dim,
        bounds=Bounds(capacity, capacity, 1, 0, 1),
        dt=dt,
        max_acceleration=declared,
        cbf_gamma=float(rng.choice([0.1, 5.0, 100.0])),
        lambda_safe=float(rng.choice([-3.0, 0.0, 50.0])),
        lambda_bound=60.0,
        tau_brake=float(rng.choice([0.0, 0.1])),
    )
    n = int(rng.integers(1, 4))
    p, v = np.zeros(dim), np.zeros(dim)
    q = rng.normal(size=(n, dim))
    q *= (rng.uniform(1.0, 3.0, n) / np.linalg.norm(q, axis=1))[:, None]
    w = np.zeros((n, dim))
    goal = 3.0 * q[0] / np.linalg.norm(q[0])
    moved = 0.0
    for _ in range(int(12 / dt)):
        states = {"ego": AgentSnapshot(p, v, 0.2), **{f"p{i}": AgentSnapshot(q[i], w[i], 0.2) for i in range(n)}}
        wrong = {f"p{i}": AgentSnapshot(q[i], w[i] + rng.normal(size=dim), 0.2) for i in range(n)}
        step = stack.step(3 * (goal - p) - 0.5 * v, states, partner_predicted_states=wrong)
        chase = p - q
        chase *= (declared * rng.uniform(0, 1, n) / np.maximum(np.linalg.norm(chase, axis=1), 1e-9))[:, None]
        for s in np.linspace(0, dt, 9):
            ego = p + v * s + 0.5 * step.action * s * s
            others = q + w * s + 0.5 * chase * s * s
            if np.min(np.linalg.norm(ego - others, axis=1)) < 0.4 - 1e-9:
                assert np.linalg.norm(v + step.action * s) < 1e-9
        p, v = p + v * dt + 0.5 * step.action * dt * dt, v + step.action * dt
        q, w = q + w * dt + 0.5 * chase * dt * dt, w + chase * dt
        moved = max(moved, float(np.linalg.norm(p)))
    assert moved > 1e-3 or declared > 0.0


@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_barrier_values_of_a_state_are_those_a_step_in_it_reports_and_change_nothing(fraction):
    models = {uid: DoubleIntegratorControlModel(uid, 2) for uid in ("ego", "a", "p")}
    stack = SafetyStack(
        ego_uid="ego", control_models=models, bounds=B1, dt=0.05, eta=0.3, partner_braking_fraction=fraction
    )
    first = {"ego": snapshot([0, 0], [1, 0]), "p": snapshot([3, 0], [-0.5, 0.2])}
    second = {**first, "a": snapshot([-1, 1], [0, -1])}
    for states in (first, second, first):
        looked_at = stack.barrier_values(states)
        before = stack.state
        assert stack.barrier_values(states) == looked_at
        assert stack.state == before
        assert stack.step(np.zeros(2), states).barrier_values == looked_at
    alone = pair_h_value(first["ego"], first["p"], alpha_pair=1.0 + fraction)
    assert stack.barrier_values(first) == {("ego", "p"): alone}


def test_telemetry_survives_json():
    states = {"ego": snapshot([0, 0], [1, 0]), "p": snapshot([1.2, 0], [0, 0])}
    stack = make_stack()
    stack.step(np.array([1.0, 0.0]), states)
    info = json.loads(json.dumps(stack.step(np.array([1.0, 0.0]), states).to_info(), allow_nan=False))
    assert info["source"] in {source.value for source in SafetySource}
    assert set(info["barrier_values"]) == {"ego|p"}
    assert info["stopping_margin_m"] is not None
    assert info["gaps_m"] == {"ego|p": pytest.approx(0.7)}


@pytest.mark.parametrize("far", [1e160, 1e308])
def test_telemetry_of_absurd_numbers_survives_json_too(far):
    states = {"ego": snapshot([0, 0], [1, 0]), "p": snapshot([far, 0], [0, -far])}
    info = make_stack().step(np.array([1.0, 0.0]), states).to_info()
    assert json.loads(json.dumps(info, allow_nan=False))["gaps_m"] == {"ego|p": None}
