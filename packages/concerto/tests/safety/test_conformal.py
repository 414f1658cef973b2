"""The slack: its documented numbers, and the average-loss guarantee of the signed loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concerto.safety.api import AgentSnapshot, SafetyState, make_lambda_dict
from concerto.safety.cbf_qp import pair_h_value
from concerto.safety.conformal import (
    compute_per_pair_loss,
    compute_prediction_gap_for_pairs,
    compute_signed_loss,
    constant_acceleration_predict,
    constant_velocity_predict,
    reset_on_partner_swap,
    update_lambda,
    update_lambda_from_forecast,
    update_lambda_from_predictor,
)

KEY = ("a", "b")


def snapshot(position, velocity, radius=0.25):
    return AgentSnapshot(np.array(position, dtype=float), np.array(velocity, dtype=float), radius)


PREVIOUS = {"a": snapshot((0, 0), (1, 0)), "b": snapshot((2, 0), (-1, 0))}
NOW = {"a": snapshot((0.1, 0), (1, 0)), "b": snapshot((1.88, 0), (-1.4, 0))}


# ------------------------------------------------------------------------------------------------- documented numbers


@pytest.mark.parametrize(("in_warmup", "expected"), [(False, -0.0005), (True, -0.00075)])
def test_case_14_one_step_without_loss(in_warmup, expected):
    state = SafetyState({KEY: 0.0})
    update_lambda(state, {KEY: 0.0}, in_warmup=in_warmup)
    assert state.lambda_[KEY] == pytest.approx(expected, abs=1e-15)
    assert state.warmup_steps_remaining == 0


def test_case_14_sixty_steps_after_a_partner_swap():
    state = SafetyState({KEY: 3.0})
    reset_on_partner_swap(state, uids="ab")
    assert (state.lambda_, state.warmup_steps_remaining) == ({KEY: 0.0}, 50)
    for _ in range(60):
        update_lambda(state, {KEY: 0.0}, in_warmup=state.warmup_steps_remaining > 0)
    assert state.lambda_[KEY] == pytest.approx(-0.0425, abs=1e-12)
    assert state.warmup_steps_remaining == 0


def test_case_15_the_clamp_is_reached_and_kept():
    state = SafetyState({KEY: 0.0})
    values = []
    for _ in range(14_010):
        update_lambda(state, {KEY: 0.0}, lambda_bound=7.0)
        values.append(state.lambda_[KEY])
    first = values.index(-7.0) + 1
    assert 14_000 <= first <= 14_001
    assert set(values[first - 1 :]) == {-7.0}


def test_case_16_one_step_of_the_documented_loop():
    state = SafetyState({KEY: 0.0})
    loss = update_lambda_from_predictor(state, NOW, PREVIOUS, alpha_pair=2.0, gamma=5.0, dt=0.1)
    assert loss[KEY] == pytest.approx(0.41760915, abs=1e-8)
    assert state.lambda_[KEY] == pytest.approx(-0.00467609, abs=1e-8)


# --------------------------------------------------------------------------------------------------------- the parts


def test_constant_velocity_forecast():
    snap = snapshot((1, 2), (0.5, -1))
    predicted = constant_velocity_predict(snap, 0.2)
    np.testing.assert_allclose(predicted.position, [1.1, 1.8])
    assert predicted.velocity.tolist() == [0.5, -1.0]
    assert not np.shares_memory(predicted.velocity, snap.velocity)
    assert predicted.radius == 0.25


def test_constant_acceleration_forecast_moves_as_physics_does():
    predicted = constant_acceleration_predict(snapshot((0, 0), (1, 0)), np.array([-2.0, 1.0]), 0.5)
    np.testing.assert_allclose(predicted.position, [0.25, 0.125])
    np.testing.assert_allclose(predicted.velocity, [0.0, 0.5])


def test_per_pair_loss_is_the_optimism_alone():
    np.testing.assert_array_equal(compute_per_pair_loss(np.array([1.0, 2.0]), np.array([2.0, 0.5])), [0.0, 1.5])
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        compute_per_pair_loss(np.zeros(2), np.zeros(3))


def test_a_perfect_forecast_has_no_gap_and_order_does_not_matter():
    shuffled = dict(reversed(NOW.items()))
    assert compute_prediction_gap_for_pairs(NOW, shuffled, alpha_pair=2.0, gamma=5.0) == {KEY: 0.0}


def test_pairs_may_have_their_own_braking_and_an_ego_only_its_own_pairs():
    now = {**NOW, "c": snapshot((0, 2), (0, -1))}
    before = {**PREVIOUS, "c": snapshot((0, 2.1), (0, -0.5))}
    alphas = {("a", "b"): 2.0, ("a", "c"): 3.0}
    gaps = compute_prediction_gap_for_pairs(now, before, alpha_pair=alphas, gamma=5.0, ego_uid="a")
    for key, alpha in alphas.items():
        difference = pair_h_value(*(before[u] for u in key), alpha_pair=alpha) - pair_h_value(
            *(now[u] for u in key), alpha_pair=alpha
        )
        assert gaps[key] == pytest.approx(max(0.0, difference), abs=1e-12)
    assert gaps.keys() == alphas.keys()
    with pytest.raises(ValueError, match=r"\('b', 'c'\)"):
        compute_prediction_gap_for_pairs(now, before, alpha_pair=alphas, gamma=5.0)


def test_an_ego_forecast_under_its_applied_action_is_no_error():
    acceleration = np.array([4.0, -2.0])
    now = {
        "a": constant_acceleration_predict(PREVIOUS["a"], acceleration, 0.1),
        "b": constant_velocity_predict(PREVIOUS["b"], 0.1),
    }
    naive = SafetyState({KEY: 0.0})
    blamed = update_lambda_from_predictor(naive, now, PREVIOUS, alpha_pair=2.0, gamma=5.0, dt=0.1)
    fair = SafetyState({KEY: 0.0})
    loss = update_lambda_from_predictor(
        fair, now, PREVIOUS, alpha_pair=2.0, gamma=5.0, dt=0.1, ego_uid="a", ego_acceleration=acceleration
    )
    assert blamed[KEY] > 0.1
    assert loss[KEY] == 0.0


def test_a_swap_can_keep_the_pairs_of_an_ego():
    state = SafetyState({})
    reset_on_partner_swap(state, uids="abc", ego_uid="c", lambda_safe=-0.5, n_warmup_steps=3)
    assert state.lambda_ == make_lambda_dict("abc", fill=-0.5, ego_uid="c")
    assert state.warmup_steps_remaining == 3


@given(st.floats(-0.4, 0.4))
def test_warm_up_is_stricter_for_every_epsilon_when_asked_to_be(epsilon):
    def step(**keywords):
        state = SafetyState({KEY: 0.0}, epsilon=epsilon)
        update_lambda(state, {KEY: 0.1}, **keywords)
        return state.lambda_[KEY]

    assert step(in_warmup=True, tighten_in_warmup=True) <= step()
    if epsilon <= 0:
        assert step(in_warmup=True, tighten_in_warmup=True) == pytest.approx(step(in_warmup=True), abs=1e-15)


# ------------------------------------------------------------------------------------------------------- refusals


def refused(match, call, *arguments, **keywords):
    with pytest.raises(ValueError, match=match):
        call(*arguments, **keywords)


def test_bad_input_is_refused_before_anything_changes():
    state = SafetyState({KEY: 0.25}, warmup_steps_remaining=4)
    good = {"alpha_pair": 2.0, "gamma": 5.0, "dt": 0.1}
    refused("pairs", update_lambda, state, {("a", "c"): 0.0}, in_warmup=True)
    refused("lambda_bound", update_lambda, state, {KEY: 0.0}, lambda_bound=0.0)
    refused("loss of", update_lambda, state, {KEY: math.nan}, in_warmup=True)
    refused("snaps_prev", update_lambda_from_predictor, state, NOW, {"a": NOW["a"]}, **good)
    refused("dt", update_lambda_from_predictor, state, NOW, PREVIOUS, **{**good, "dt": 0.0})
    refused("gamma", update_lambda_from_predictor, state, NOW, PREVIOUS, **{**good, "gamma": math.nan})
    refused("alpha_pair", update_lambda_from_predictor, state, NOW, PREVIOUS, **{**good, "alpha_pair": -1.0})
    refused("ego_uid", update_lambda_from_predictor, state, NOW, PREVIOUS, **good, ego_uid="z")
    refused("ego_uid", update_lambda_from_predictor, state, NOW, PREVIOUS, **good, ego_acceleration=np.zeros(2))
    refused("snaps_predicted", compute_prediction_gap_for_pairs, NOW, {}, alpha_pair=2.0, gamma=5.0)
    refused("'b' has a slack", update_lambda_from_forecast, state, NOW, {"a": NOW["a"]}, alpha_pair=2.0, dt=0.1)
    refused("scale", update_lambda_from_forecast, state, NOW, PREVIOUS, alpha_pair=2.0, dt=0.1, scale=0.0)
    refused("n_warmup_steps", reset_on_partner_swap, state, uids="ab", n_warmup_steps=-1)
    refused("lambda_safe", reset_on_partner_swap, state, uids="ab", lambda_safe=math.nan)
    assert state == SafetyState({KEY: 0.25}, warmup_steps_remaining=4)


# ------------------------------------------------------------------------------------------------- the signed loss


def signed(lambda_, now=NOW, predicted=PREVIOUS):
    return compute_signed_loss({KEY: lambda_}, now, predicted, alpha_pair=2.0, dt=0.1)[KEY]


def test_the_signed_loss_in_numbers():
    predicted = {uid: constant_velocity_predict(snap, 0.1) for uid, snap in PREVIOUS.items()}
    assert signed(0.0, predicted=predicted) == pytest.approx(math.atan(4.1760915) / math.pi, abs=1e-8)
    assert signed(0.0, predicted=NOW) == 0.0
    assert signed(1.0, predicted=NOW) == pytest.approx(0.25)
    assert signed(-1.0, predicted=NOW) == pytest.approx(-0.25)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_signed_loss_is_bounded_and_rises_with_lambda(one, other):
    low, high = sorted((one, other))
    assert -0.5 < signed(low) <= signed(high) < 0.5


def test_one_step_moves_the_slack_by_the_signed_loss():
    state = SafetyState({KEY: 0.0})
    loss = update_lambda_from_forecast(state, NOW, PREVIOUS, alpha_pair=2.0, dt=0.1)
    assert state.lambda_[KEY] == pytest.approx(0.01 * (-0.05 - loss[KEY]), abs=1e-15)


def simulated_losses(epsilon, error_bound, n_steps=4000, seed=0):
    """Drive the slack with forecasts of b's velocity that err at random and, half of the time, as badly as allowed."""
    rng = np.random.default_rng(seed)
    state = SafetyState({KEY: 0.0}, epsilon=epsilon, eta=0.05)
    ego = snapshot((0, 0), (0, 0))
    losses, slacks = [], [0.0]
    for step in range(n_steps):
        error = error_bound if step % 2 else rng.uniform(-error_bound, error_bound)
        true, forecast = snapshot((2, 0), (-error * 0.1, 0)), snapshot((2, 0), (0, 0))
        loss = update_lambda_from_forecast(
            state, {"a": ego, "b": true}, {"a": ego, "b": forecast}, alpha_pair=2.0, dt=0.1
        )
        losses.append(loss[KEY])
        slacks.append(state.lambda_[KEY])
    return np.array(losses), np.array(slacks)


@pytest.mark.parametrize("epsilon", [-0.2, -0.05, 0.1])
def test_the_average_loss_meets_its_target(epsilon):
    error_bound, eta = 1.5, 0.05
    losses, slacks = simulated_losses(epsilon, error_bound)
    # The identity of conformal decision theory, for every K.
    n = np.arange(1, len(losses) + 1)
    np.testing.assert_allclose(np.cumsum(losses) / n, epsilon + (slacks[0] - slacks[1:]) / (eta * n), atol=1e-9)
    # A slack this low makes every loss at most epsilon, so it can fall below it by one step only.
    lambda_safe = math.tan(math.pi * epsilon) - error_bound
    assert slacks.min() >= lambda_safe - eta
    assert losses.mean() <= epsilon + (slacks[0] - lambda_safe + eta) / (eta * len(losses))
    assert losses.mean() == pytest.approx(epsilon, abs=0.02)


def test_the_documented_loss_has_no_such_target():
    state = SafetyState({KEY: 0.0})
    for _ in range(2000):
        loss = compute_prediction_gap_for_pairs(NOW, NOW, alpha_pair=2.0, gamma=5.0)
        update_lambda(state, loss)
    assert state.lambda_[KEY] == pytest.approx(-1.0, abs=1e-9)  # a perfect forecast, and still falling
