"""`ExpCBFQP`: the documented numbers, the order of validation, and what each mode may change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from concerto.safety.api import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    EgoOnlySafetyFilter,
    JacobianControlModel,
    JointSafetyFilter,
    SafetyMode,
    SafetyState,
    VelocityCommandControlModel,
    make_lambda_dict,
)
from concerto.safety.cbf_qp import DEFAULT_CBF_GAMMA, ExpCBFQP, pair_h_value
from concerto.safety.errors import ConcertoSafetyInfeasible, SolveStatus
from concerto.safety.solvers import make_solver

B1 = Bounds(1.0, 1.0, 10.0, 0.0, 50.0)
SOLVERS = (None, "daqp", "clarabel", "osqp")


def snapshot(position, velocity, radius=0.25):
    return AgentSnapshot(np.array(position, dtype=float), np.array(velocity, dtype=float), radius)


def double_integrators(uids, dim=2):
    return {uid: DoubleIntegratorControlModel(uid, dim) for uid in uids}


NEAR = {"a": snapshot((0, 0), (1, 0)), "b": snapshot((1, 0), (0, 0))}
AT_REST = {"a": snapshot((0, 0), (0, 0)), "b": snapshot((3, 0), (0, 0))}


def ego_filter(
    snapshots=NEAR, nominal=(1.0, 0.0), *, lambda_=0.0, forecast=None, dt=0.1, bounds=B1, qp=None, **keywords
):
    """Run the ego-only filter with ego "a" and a forecast that stands still unless one is given."""
    qp = qp or ExpCBFQP.ego_only(control_models=double_integrators(snapshots), **keywords)
    partners = {uid: snap for uid, snap in snapshots.items() if uid != "a"}
    return qp.filter(
        np.array(nominal, dtype=float),
        {"agent_states": snapshots},
        SafetyState(make_lambda_dict(snapshots, fill=lambda_, ego_uid="a")),
        bounds,
        ego_uid="a",
        partner_predicted_states=partners if forecast is None else forecast,
        dt=dt,
    )


def joint_filter(qp, actions, snapshots=NEAR, *, lambda_=0.0, **keywords):
    return qp.filter(
        {uid: np.array(action, dtype=float) for uid, action in actions.items()},
        {"agent_states": snapshots},
        SafetyState(make_lambda_dict(actions, fill=lambda_)),
        B1,
        **keywords,
    )


def row(snapshots, *, alpha=1.0, gamma=DEFAULT_CBF_GAMMA):
    """Measure R and the normal through the public door: bisect the largest slack at which an action is refused."""
    bounds = Bounds(1e6, alpha, 10.0, 0.0, 50.0)
    qp = ExpCBFQP.ego_only(control_models=double_integrators(snapshots), cbf_gamma=gamma)
    action, _ = ego_filter(snapshots, (0.0, 0.0), lambda_=-1e5, bounds=bounds, qp=qp)
    # Projection of 0 onto -n.u <= R - 1e5 is n (1e5 - R).
    length = float(np.linalg.norm(action))
    return 1e5 - length, action / length


# ------------------------------------------------------------------------------------------------ the pair's formulas


def test_case_1_closing_head_on():
    snapshots = {"a": snapshot((0, 0), (1, 0)), "b": snapshot((2, 0), (0, 0))}
    assert pair_h_value(snapshots["a"], snapshots["b"], alpha_pair=4) == pytest.approx(2.46410162, abs=1e-8)
    right, normal = row(snapshots, alpha=2.0)
    assert right == pytest.approx(11.16580754, abs=1e-6)
    np.testing.assert_allclose(normal, [-1, 0], atol=1e-9)


def test_case_2_passing_by_adds_the_tangential_term():
    snapshots = {"a": snapshot((0, 0), (0, 2)), "b": snapshot((2, 0), (0, 0))}
    assert pair_h_value(snapshots["a"], snapshots["b"], alpha_pair=4) == pytest.approx(3.46410162, abs=1e-8)
    assert row(snapshots, alpha=2.0)[0] == pytest.approx(19.32050808, abs=1e-6)


def test_case_3_coincident_centres():
    snapshots = {"a": snapshot((0, 0), (0, 0)), "b": snapshot((0, 0), (0, 0))}
    assert pair_h_value(snapshots["a"], snapshots["b"], alpha_pair=2) == -0.5
    right, normal = row(snapshots)
    assert right == pytest.approx(-1000, abs=1e-6)
    np.testing.assert_allclose(normal, [1, 0], atol=1e-12)
    with pytest.raises(ConcertoSafetyInfeasible) as caught:
        ego_filter(snapshots)
    assert caught.value.status is SolveStatus.INFEASIBLE


@pytest.mark.parametrize(("velocity", "h"), [((1, 0), -1.0), ((-1, 0), 1.0), ((0, 1), 0.0)])
def test_case_4_overlap_counts_the_closing_speed_alone(velocity, h):
    snapshots = {"a": snapshot((0, 0), velocity), "b": snapshot((0.3, 0), (0, 0))}
    assert pair_h_value(snapshots["a"], snapshots["b"], alpha_pair=2) == pytest.approx(h, abs=1e-12)
    if velocity == (0, 1):
        assert row(snapshots)[0] == pytest.approx(3.33333333, abs=1e-6)


def test_at_contact_the_approach_speed_has_a_floor():
    snapshots = {"a": snapshot((0, 0), (1e-4, 0)), "b": snapshot((0.5 + 1e-10, 0), (0, 0))}
    h = pair_h_value(snapshots["a"], snapshots["b"], alpha_pair=2.0)
    assert h == pytest.approx(1e-3 - 1e-4, abs=1e-12)
    assert row(snapshots)[0] == pytest.approx(2.0 / 1e-3 * -1e-4 + 5.0 * h, abs=1e-6)


# --------------------------------------------------------------------------------------------------- documented cases


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("lambda_", "expected"), [(0.0, 0.65685425), (-0.5, 0.15685425), (0.5, 1.0)])
def test_case_5_lambda_relaxes_when_positive_and_tightens_when_negative(solver, lambda_, expected):
    action, info = ego_filter(lambda_=lambda_, solver=solver and make_solver(solver))
    np.testing.assert_allclose(action, [expected, 0], atol=1e-6)
    assert info["lambda"] == {("a", "b"): lambda_}
    assert info["fallback_fired"] is False
    assert info["prediction_gap_loss"] is None
    assert info["constraint_violation"].tolist() == [0.0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_case_6_a_partner_forecast_to_accelerate_towards_the_ego_tightens_its_row(solver):
    forecast = {"b": snapshot((1, 0), (-0.05, 0))}
    action, _ = ego_filter(forecast=forecast, dt=0.1, solver=solver and make_solver(solver))
    np.testing.assert_allclose(action, [0.15685425, 0], atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_case_7_two_robots_share_the_correction(solver):
    qp = ExpCBFQP.centralized(control_models=double_integrators("ab"), solver=solver and make_solver(solver))
    actions, _ = joint_filter(qp, {"a": (1, 0), "b": (-1, 0)})
    np.testing.assert_allclose(actions["a"], [0.32842712, 0], atol=1e-6)
    np.testing.assert_allclose(actions["b"], [-0.32842712, 0], atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_case_8_a_partner_moves_no_further_than_its_bound(solver):
    qp = ExpCBFQP.shared_control(control_models=double_integrators("ab"), solver=solver and make_solver(solver))
    actions, _ = joint_filter(qp, {"a": (1, 0), "b": (-1, 0)}, ego_uid="a", partner_action_bound=0.1)
    np.testing.assert_allclose(actions["a"], [-0.24314575, 0], atol=1e-6)
    np.testing.assert_allclose(actions["b"], [-0.9, 0], atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_case_9_on_the_boundary_the_ego_alone_cannot_brake_for_two(solver):
    snapshots = {"a": snapshot((0, 0), (1.41421356, 0)), "b": NEAR["b"]}
    with pytest.raises(ConcertoSafetyInfeasible) as caught:
        ego_filter(snapshots, solver=solver and make_solver(solver))
    assert caught.value.status is SolveStatus.INFEASIBLE
    qp = ExpCBFQP.centralized(control_models=double_integrators("ab"), solver=solver and make_solver(solver))
    actions, _ = joint_filter(qp, {"a": (1, 0), "b": (-1, 0)}, snapshots)
    np.testing.assert_allclose(actions["a"], [-1, 0], atol=1e-6)
    np.testing.assert_allclose(actions["b"], [1, 0], atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_case_10_a_robot_alone_is_only_boxed_in(solver):
    snapshots = {"a": snapshot((0, 0), (0, 0))}
    action, info = ego_filter(snapshots, (2.0, 0.0), forecast={}, solver=solver and make_solver(solver))
    np.testing.assert_allclose(action, [1, 0], atol=1e-7)
    assert info["constraint_violation"].shape == (0,)
    assert info["lambda"] == {}


# --------------------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf])
def test_case_11_a_horizon_that_is_no_positive_number_is_refused(dt):
    with pytest.raises(ValueError, match="dt"):
        ego_filter(dt=dt)


def test_case_11_types_and_models():
    qp = ExpCBFQP.ego_only(control_models=double_integrators("a"))
    keywords = {"ego_uid": "a", "partner_predicted_states": {}, "dt": 0.1}
    obs, state = {"agent_states": {"a": NEAR["a"]}}, SafetyState({})
    for wrong, name in (({"a": np.zeros(2)}, "dict"), ([0.0, 0.0], "list")):
        with pytest.raises(TypeError, match=f"got a {name}"):
            qp.filter(wrong, obs, state, B1, **keywords)
    with pytest.raises(KeyError, match="'b'"):
        ego_filter(qp=qp)
    with pytest.raises(KeyError, match="'a'"):
        ego_filter(qp=ExpCBFQP.ego_only(control_models=double_integrators("b")))
    with pytest.raises(TypeError, match="array"):
        ExpCBFQP.centralized(control_models=double_integrators("a")).filter(np.zeros(2), obs, state, B1)


def test_case_12_slack_of_all_pairs_is_not_slack_of_the_ego():
    snapshots = {**NEAR, "c": snapshot((0, 3), (0, 0))}
    qp = ExpCBFQP.ego_only(control_models=double_integrators("abc"))
    with pytest.raises(ValueError, match=r"exactly \[\('a', 'b'\), \('a', 'c'\)\], got .*\('b', 'c'\)"):
        qp.filter(
            np.zeros(2),
            {"agent_states": snapshots},
            SafetyState(make_lambda_dict("abc")),
            B1,
            ego_uid="a",
            partner_predicted_states=snapshots,
            dt=0.1,
        )
    action, info = ego_filter(snapshots, qp=qp)
    np.testing.assert_allclose(action, [0.65685425, 0], atol=1e-8)
    assert info["constraint_violation"].shape == (2,)


def test_ego_checks_come_in_the_documented_order():
    qp = ExpCBFQP.ego_only(control_models=double_integrators("a"))
    arguments = {"ego_uid": None, "partner_predicted_states": None, "dt": None}
    obs, state = {"agent_states": None}, SafetyState({("x", "y"): 0.0})

    def refused(action, error, match):
        with pytest.raises(error, match=match):
            qp.filter(action, obs, state, B1, **arguments)

    refused([], ValueError, "agent_states.*NoneType")
    obs["agent_states"] = {"b": NEAR["b"]}
    refused([], ValueError, "ego_uid")
    arguments["ego_uid"] = "a"
    refused([], ValueError, "partner_predicted_states")
    arguments["partner_predicted_states"] = {}
    refused([], ValueError, "dt is required")
    arguments["dt"] = -0.1
    refused([], ValueError, r"dt must be .* got -0\.1")
    arguments["dt"] = 0.1
    refused([], TypeError, "list")
    refused(np.zeros(3), ValueError, "ego 'a'")
    obs["agent_states"] = dict(NEAR)
    refused(np.zeros(3), ValueError, "lambda keys")
    state.lambda_ = {("a", "b"): 0.0}
    refused(np.zeros(3), ValueError, r"\(2,\), got \(3,\)")
    refused(np.zeros(2), KeyError, "no control model for 'b'")
    qp = ExpCBFQP.ego_only(control_models=double_integrators("ab"))
    refused(np.zeros(2), KeyError, "no predicted state for 'b'")


def test_joint_checks_come_in_the_documented_order():
    qp = ExpCBFQP.shared_control(control_models=double_integrators("ab"))
    obs, state = {"agent_states": {"a": NEAR["a"]}}, SafetyState({})
    keywords = {"ego_uid": None, "partner_action_bound": None}
    actions = {"a": np.zeros(2), "b": np.zeros(2), "z": np.zeros(2)}

    def refused(error, match):
        with pytest.raises(error, match=match):
            qp.filter(actions, obs, state, B1, **keywords)

    refused(ValueError, "partner_action_bound")
    keywords["partner_action_bound"] = math.inf
    refused(ValueError, "partner_action_bound.*inf")
    keywords["partner_action_bound"] = 0.1
    refused(ValueError, "ego_uid")
    keywords["ego_uid"] = "a"
    refused(ValueError, "'b' has an action")
    obs["agent_states"] = dict(NEAR)
    refused(KeyError, "'z'")
    del actions["z"]
    actions["b"] = np.zeros(3)
    refused(ValueError, r"'b' must have shape \(2,\), got \(3,\)")
    actions["b"] = np.zeros(2)
    refused(ValueError, "lambda keys")
    state.lambda_ = {("a", "b"): 0.0}
    assert set(qp.filter(actions, obs, state, B1, **keywords)[0]) == {"a", "b"}


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"control_models": {}}, "control_models"),
        ({"cbf_gamma": 0.0}, "cbf_gamma"),
        ({"cbf_gamma": math.nan}, "cbf_gamma"),
        ({"partner_braking_fraction": 1.5}, "partner_braking_fraction"),
        ({"partner_braking_fraction": math.nan}, "partner_braking_fraction"),
    ],
)
def test_settings_out_of_range_are_refused(keywords, match):
    with pytest.raises(ValueError, match=match):
        ExpCBFQP(**{"control_models": double_integrators("a"), **keywords})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("field", "match"),
    [
        ("position", "position of 'b'"),
        ("velocity", "velocity of 'b'"),
        ("radius", "radius of 'b'"),
        ("forecast position", "forecast position of 'b'"),
        ("forecast velocity", "forecast velocity of 'b'"),
        ("action", "proposed action of 'a'"),
        ("lambda", "lambda of"),
        ("limit", "action_linf_component"),
        ("capacity", "max_cartesian_accel of 'a'"),
    ],
)
def test_a_number_that_is_not_finite_is_refused_by_name(field, match, value):
    partner = {"position": np.array([1.0, 0.0]), "velocity": np.zeros(2), "radius": 0.25}
    predicted = {"position": np.array([1.0, 0.0]), "velocity": np.zeros(2), "radius": 0.25}
    nominal, lambda_, bounds = np.array([1.0, 0.0]), 0.0, B1
    if field == "action":
        nominal[1] = value
    elif field == "lambda":
        lambda_ = value
    elif field == "limit":
        bounds = Bounds(value, 1.0, 10.0, 0.0, 50.0)
    elif field == "capacity":
        bounds = Bounds(1.0, value, 10.0, 0.0, 50.0)
    elif field == "radius":
        partner["radius"] = value
    else:
        target = predicted if field.startswith("forecast") else partner
        target[field.removeprefix("forecast ")][1] = value
    snapshots = {"a": NEAR["a"], "b": AgentSnapshot(**partner)}
    with pytest.raises(ValueError, match=match):
        ego_filter(snapshots, nominal, lambda_=lambda_, bounds=bounds, forecast={"b": AgentSnapshot(**predicted)})


def test_a_negative_radius_and_snapshots_of_different_dimension_are_refused_by_name():
    with pytest.raises(ValueError, match=r"radius of 'b'.*-0\.1"):
        ego_filter({"a": NEAR["a"], "b": snapshot((1, 0), (0, 0), -0.1)})
    with pytest.raises(ValueError, match=r"position of 'b'.*\(3,\)"):
        ego_filter({"a": NEAR["a"], "b": snapshot((1, 0, 0), (0, 0, 0))})
    with pytest.raises(ValueError, match=r"velocity of 'b'.*\(1,\)"):
        ego_filter({"a": NEAR["a"], "b": AgentSnapshot(np.zeros(2), np.zeros(1), 0.25)})
    with pytest.raises(ValueError, match=r"position of 'a'.*\(4,\)"):
        ego_filter({"a": snapshot(np.zeros(4), np.zeros(4)), "b": snapshot(np.zeros(4), np.zeros(4))})
    with pytest.raises(ValueError, match="AgentSnapshot"):
        ego_filter({"a": NEAR["a"], "b": None})
    with pytest.raises(ValueError, match="real numbers"):
        ego_filter({"a": NEAR["a"], "b": AgentSnapshot(np.array(["1", "x"]), np.zeros(2), 0.25)})
    with pytest.raises(ValueError, match="dimensions of the control model of 'a'"):
        ego_filter({"a": snapshot((0, 0, 0), (0, 0, 0)), "b": snapshot((1, 0, 0), (0, 0, 0))})


def test_finite_numbers_that_overflow_are_a_numerical_failure():
    snapshots = {"a": snapshot((0, 0), (1e200, 0)), "b": snapshot((1, 0), (-1e200, 0))}
    with pytest.raises(ConcertoSafetyInfeasible) as caught:
        ego_filter(snapshots)
    assert caught.value.status is SolveStatus.NUMERICAL_FAILURE


# -------------------------------------------------------------------------------------------------------- behaviour


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_nominal_action_that_is_safe_comes_back_bit_for_bit_in_a_fresh_array(solver):
    solver = solver and make_solver(solver)
    nominal = np.array([0.1 + 0.2, -0.7])
    action, info = ego_filter(AT_REST, nominal, solver=solver)
    assert action.tobytes() == nominal.tobytes()
    assert info["qp_solve_ms"] == 0.0
    assert not np.shares_memory(action, nominal)
    given = {"a": np.array([0.3, 0.1]), "b": np.array([1 / 3, 0.0])}
    qp = ExpCBFQP.centralized(control_models=double_integrators("ab"), solver=solver)
    actions, _ = qp.filter(given, {"agent_states": AT_REST}, SafetyState({("a", "b"): 0.0}), B1)
    for uid, value in given.items():
        assert actions[uid].tobytes() == value.tobytes()
        assert not np.shares_memory(actions[uid], value)


def test_input_is_read_and_never_written():
    state = SafetyState({("a", "b"): -0.5})
    nominal = np.array([1.0, 0.0])
    qp = ExpCBFQP.ego_only(control_models=double_integrators("ab"))
    _, info = qp.filter(
        nominal, {"agent_states": NEAR}, state, B1, ego_uid="a", partner_predicted_states={"b": NEAR["b"]}, dt=0.1
    )
    info["lambda"]["a", "b"] = 9.0
    assert state == SafetyState({("a", "b"): -0.5})
    assert nominal.tolist() == [1.0, 0.0]


def test_violation_is_the_negative_part_of_the_barrier_in_row_order():
    snapshots = {
        "ego": snapshot((0, 0), (1.5, 0)),
        "a": snapshot((0, 2), (0, 0)),
        "z": snapshot((1, 0), (0, 0)),
    }
    qp = ExpCBFQP.ego_only(control_models=double_integrators(snapshots))
    _, info = qp.filter(
        np.zeros(2),
        {"agent_states": snapshots},
        SafetyState(make_lambda_dict(snapshots, fill=20.0, ego_uid="ego")),
        B1,
        ego_uid="ego",
        partner_predicted_states={"a": snapshots["a"], "z": snapshots["z"]},
        dt=0.1,
    )
    h = pair_h_value(snapshots["ego"], snapshots["z"], alpha_pair=2.0)
    assert h < 0
    assert info["constraint_violation"].tolist() == [0.0, -h]


def test_the_mode_is_fixed_and_every_filter_satisfies_both_protocols():
    models = double_integrators("ab")
    for make, mode in (
        (ExpCBFQP.ego_only, SafetyMode.EGO_ONLY),
        (ExpCBFQP.centralized, SafetyMode.CENTRALIZED),
        (ExpCBFQP.shared_control, SafetyMode.SHARED_CONTROL),
    ):
        qp = make(control_models=models)
        assert qp.mode is mode
        assert isinstance(qp, EgoOnlySafetyFilter)
        assert isinstance(qp, JointSafetyFilter)
        qp.reset(seed=3)
    models.clear()
    assert ego_filter(qp=ExpCBFQP.ego_only(control_models=double_integrators("ab")))[0] is not None


def test_robots_may_come_and_go_between_calls():
    qp = ExpCBFQP.ego_only(control_models=double_integrators("abc"))
    three = {**NEAR, "c": snapshot((0, -0.8), (0, 0))}
    first, _ = ego_filter(three, (1.0, -1.0), qp=qp)
    np.testing.assert_allclose(ego_filter(NEAR, qp=qp)[0], [0.65685425, 0], atol=1e-8)
    again, _ = ego_filter(three, (1.0, -1.0), qp=qp)
    assert first.tobytes() == again.tobytes()


def test_changed_bounds_take_effect():
    qp = ExpCBFQP.ego_only(control_models=double_integrators("ab"))
    ego_filter(qp=qp)
    looser, _ = ego_filter(qp=qp, bounds=Bounds(1.0, 2.0, 10.0, 0.0, 50.0))
    assert looser.tolist() == [1.0, 0.0]


def test_shared_control_without_room_for_the_partner_is_infeasible():
    qp = ExpCBFQP.shared_control(control_models=double_integrators("ab"))
    with pytest.raises(ConcertoSafetyInfeasible):
        joint_filter(qp, {"a": (0, 0), "b": (1.2, 0)}, AT_REST, ego_uid="a", partner_action_bound=0.1)


# ------------------------------------------------------------------------------------------------- named corrections


def test_an_ego_that_counts_on_itself_alone_can_still_brake_on_the_boundary():
    # h = 0 with the ego's own capacity: v^2 = 2 * 1 * gap.
    snapshots = {"a": snapshot((0, 0), (0.999999, 0)), "b": NEAR["b"]}
    qp = ExpCBFQP.ego_only(control_models=double_integrators("ab"), partner_braking_fraction=0.0)
    action, _ = ego_filter(snapshots, qp=qp)
    np.testing.assert_allclose(action, [-1, 0], atol=1e-4)


def test_a_passive_body_needs_only_a_capacity():
    models = {"a": DoubleIntegratorControlModel("a", 2), "b": 1.0}
    action, _ = ego_filter(qp=ExpCBFQP.ego_only(control_models=models))
    np.testing.assert_allclose(action, [0.65685425, 0], atol=1e-8)
    still = ExpCBFQP.ego_only(control_models={**models, "b": 0.0})
    alone = ExpCBFQP.ego_only(control_models=models, partner_braking_fraction=0.0)
    assert ego_filter(qp=still)[0].tobytes() == ego_filter(qp=alone)[0].tobytes()
    with pytest.raises(ValueError, match="capacity of 'b'"):
        ego_filter(qp=ExpCBFQP.ego_only(control_models={**models, "b": -1.0}))
    with pytest.raises(TypeError, match="'a' decides"):
        ego_filter(qp=ExpCBFQP.ego_only(control_models={"a": 1.0, "b": 1.0}))


def test_a_capacity_that_changes_is_asked_for_again():
    class Warming(DoubleIntegratorControlModel):
        def max_cartesian_accel(self, bounds):
            return capacities.pop()

    capacities = [0.5, 1.0]  # read from the end
    qp = ExpCBFQP.ego_only(control_models={"a": DoubleIntegratorControlModel("a", 2), "b": Warming("b", 2)})
    np.testing.assert_allclose(ego_filter(qp=qp)[0], [0.65685425, 0], atol=1e-8)
    weaker = ExpCBFQP.ego_only(control_models={"a": DoubleIntegratorControlModel("a", 2), "b": 0.5})
    assert ego_filter(qp=qp)[0].tobytes() == ego_filter(qp=weaker)[0].tobytes()


def test_joint_modes_can_keep_clear_of_bodies_without_an_action():
    snapshots = {**NEAR, "c": snapshot((0, 0.6), (1, -0.4))}
    models = {**double_integrators("ab"), "c": 0.0}
    actions = {"a": np.array([0.0, 1.0]), "b": np.zeros(2)}
    blind = ExpCBFQP.centralized(control_models=models)
    free, _ = blind.filter(actions, {"agent_states": snapshots}, SafetyState({("a", "b"): 0.0}), B1)
    aware = ExpCBFQP.centralized(control_models=models, uncontrolled_rows=True)
    state = SafetyState({("a", "b"): 0.0, ("a", "c"): 0.0, ("b", "c"): 0.0})
    careful, info = aware.filter(actions, {"agent_states": snapshots}, state, B1)
    assert info["constraint_violation"].shape == (3,)
    assert careful.keys() == {"a", "b"}
    assert careful["a"][1] < free["a"][1] - 0.1
    moved = {"c": snapshot((0, 0.6), (1, -0.42))}
    tighter, _ = aware.filter(actions, {"agent_states": snapshots}, state, B1, partner_predicted_states=moved, dt=0.1)
    assert tighter["a"][1] < careful["a"][1] - 0.1


def test_a_velocity_command_gives_the_same_motion_as_the_acceleration_it_means():
    dt = 0.1
    models = {"a": VelocityCommandControlModel("a", 2, dt, max_cartesian_accel_value=1.0), "b": 1.0}
    wide = Bounds(10.0, 1.0, 10.0, 0.0, 50.0)
    command, _ = ego_filter(
        nominal=NEAR["a"].velocity + dt * np.array([1.0, 0.0]),
        bounds=wide,
        dt=dt,
        qp=ExpCBFQP.ego_only(control_models=models),
    )
    accel, _ = ego_filter(nominal=(1.0, 0.0), bounds=wide, dt=dt)
    np.testing.assert_allclose((command - NEAR["a"].velocity) / dt, accel, atol=1e-9)


def test_a_model_that_is_not_ours_is_linearised_around_zero():
    class Drifting:
        uid, action_dim, position_dim = "a", 2, 2

        def action_to_cartesian_accel(self, state, action):
            return 2.0 * np.asarray(action) - 0.3 * state.velocity

        def cartesian_accel_to_action(self, state, cartesian_accel):
            return (np.asarray(cartesian_accel) + 0.3 * state.velocity) / 2.0

        def max_cartesian_accel(self, bounds):
            return 1.0

    qp = ExpCBFQP.ego_only(control_models={"a": Drifting(), "b": 1.0})
    action, _ = ego_filter(qp=qp)
    # 2 u - 0.3 <= 0.65685425
    np.testing.assert_allclose(action, [(0.65685425 + 0.3) / 2.0, 0.0], atol=1e-8)


def test_a_robot_in_joint_space_is_projected_through_its_jacobian():
    jacobian = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 1.0]])
    arm = JacobianControlModel("a", 3, 2, lambda _: jacobian, max_cartesian_accel_value=1.0)
    qp = ExpCBFQP.ego_only(control_models={"a": arm, "b": 1.0})
    action, _ = ego_filter(nominal=(1.0, 0.5, 0.2), qp=qp)
    assert (jacobian @ action)[0] == pytest.approx(0.65685425, abs=1e-8)
    # The correction is along J^T n, the shortest way in joint space.
    correction = np.array([1.0, 0.5, 0.2]) - action
    np.testing.assert_allclose(correction / correction[0], [1.0, 0.5, 0.0], atol=1e-9)


# ----------------------------------------------------------------------------------------------- overlap with its depth


def overlapping_pair(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(2, 4))
    direction = rng.normal(size=dim)
    direction /= np.linalg.norm(direction)
    position = direction * rng.uniform(0.1, 0.95)
    return AgentSnapshot(position, rng.uniform(-1, 1, dim), 0.5), AgentSnapshot(
        np.zeros(dim), rng.uniform(-1, 1, dim), 0.5
    )


def test_the_barrier_of_an_overlap_falls_with_its_depth_and_is_continuous_at_contact():
    def h(distance):
        a = AgentSnapshot(np.array([distance, 0.0]), np.array([0.2, 0.0]), 0.5)
        b = AgentSnapshot(np.zeros(2), np.zeros(2), 0.5)
        return pair_h_value(a, b, alpha_pair=2.0, overlap_depth=True)

    assert h(0.5) == pytest.approx(0.2 - math.sqrt(2 * 2.0 * 0.5))
    assert h(0.0) == pytest.approx(0.2 - math.sqrt(2 * 2.0 * 1.0))  # centres that coincide are only the deepest overlap
    assert h(0.3) < h(0.6) < h(0.9) < h(1.0)
    assert h(1.0 + 1e-12) - h(1.0) < 2e-3  # the floor of the approach speed
    documented = pair_h_value(
        AgentSnapshot(np.array([0.5, 0.0]), np.array([0.2, 0.0]), 0.5),
        AgentSnapshot(np.zeros(2), np.zeros(2), 0.5),
        alpha_pair=2.0,
    )
    assert documented == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(40))
def test_rows_with_depth_are_the_derivative_of_the_barrier_in_an_overlap(seed):
    a, b = overlapping_pair(seed)
    dim, alpha, eps = len(a.position), 1.7, 1e-6
    rng = np.random.default_rng(seed)
    accel = {"a": rng.normal(size=dim), "b": rng.normal(size=dim)}

    def h(t):
        moved = [
            AgentSnapshot(s.position + s.velocity * t + 0.5 * u * t * t, s.velocity + u * t, s.radius)
            for s, u in ((a, accel["a"]), (b, accel["b"]))
        ]
        return pair_h_value(*moved, alpha_pair=alpha, overlap_depth=True)

    distance = np.linalg.norm(a.position - b.position)
    normal = (a.position - b.position) / distance
    dv = a.velocity - b.velocity
    closing = normal @ dv
    expected = (
        alpha / math.sqrt(2 * alpha * (1.0 - distance)) * closing
        + (dv @ dv - closing**2) / distance
        + normal @ (accel["a"] - accel["b"])
    )
    assert (h(eps) - h(-eps)) / (2 * eps) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_the_row_of_an_overlap_with_depth_holds_and_binds(seed):
    a, b = overlapping_pair(seed)
    dim, alpha, gamma = len(a.position), 50.0, 5.0
    models = {"a": DoubleIntegratorControlModel("a", dim), "b": 0.0}
    bounds = Bounds(1e4, alpha, 10, 0, 50)
    qp = ExpCBFQP.ego_only(control_models=models, overlap_depth=True, partner_braking_fraction=0.0)
    state = SafetyState({("a", "b"): 0.0})
    nominal = 2.0 * (b.position - a.position)
    forecast = {"b": AgentSnapshot(b.position + 0.1 * b.velocity, b.velocity, b.radius)}
    obs = {"agent_states": {"a": a, "b": b}}
    action, info = qp.filter(nominal, obs, state, bounds, ego_uid="a", partner_predicted_states=forecast, dt=0.1)
    distance = np.linalg.norm(a.position)
    normal, dv = a.position / distance, a.velocity - b.velocity
    closing, stopping_speed = normal @ dv, math.sqrt(2 * alpha * (1.0 - distance))
    h = closing - stopping_speed
    hdot = alpha / stopping_speed * closing + (dv @ dv - closing**2) / distance + normal @ action
    assert info["constraint_violation"][0] == pytest.approx(max(0.0, -h))
    assert hdot + gamma * h >= -1e-6
    if not np.array_equal(action, nominal):
        assert hdot + gamma * h == pytest.approx(0.0, abs=1e-6)
