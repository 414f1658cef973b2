"""Contracts: pair keys, the JSON form of the slack, control models, lazy names and deprecated ones."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import concerto.safety
from concerto.safety import api
from concerto.safety.api import (
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    EgoOnlySafetyFilter,
    JacobianControlModel,
    JointSafetyFilter,
    VelocityCommandControlModel,
    canonical_pair_key,
    canonical_pair_order,
    lambda_from_jsonable,
    lambda_to_jsonable,
    make_lambda_dict,
    make_pair_keys,
)

BOUNDS = Bounds(1.0, 2.0, 10.0, 0.0, 50.0)
SNAPSHOT = AgentSnapshot(np.array([0.0, 0.0]), np.array([0.5, -0.25]), 0.25)
UIDS = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


# ------------------------------------------------------------------------------------------------------ snapshots


def test_a_snapshot_of_numbers_is_the_one_of_their_arrays():
    quick = AgentSnapshot.of_numbers((0.0, 1.5, 0.5, -0.25), 0.25)
    assert not hasattr(quick, "positions")
    assert quick.qpos is None
    assert quick.position is quick.position, "the array is made once"
    quick.position[0] = 7.0
    plain = AgentSnapshot(np.array([7.0, 1.5]), np.array([0.5, -0.25]), radius=0.25)
    copies = copy.copy(quick), copy.deepcopy(quick), pickle.loads(pickle.dumps(quick))
    for snapshot in (quick, *copies, dataclasses.replace(quick), dataclasses.replace(plain, qpos=None)):
        assert repr(snapshot) == repr(plain)
        assert snapshot.position.dtype == snapshot.velocity.dtype == np.float64
        assert snapshot != plain, "snapshots are compared by identity"
        assert vars(copy.copy(snapshot)).keys() == {"position", "velocity", "radius", "qpos"}
    untouched = AgentSnapshot.of_numbers((0.0, 1.5, 0.5, -0.25), 0.25)
    assert pickle.loads(pickle.dumps(untouched)).velocity.tolist() == [0.5, -0.25]


def test_a_snapshot_cannot_be_changed_and_takes_its_fields_by_name():
    snapshot = AgentSnapshot(radius=0.1, velocity=np.zeros(2), position=np.ones(2), qpos=np.zeros(7))
    assert snapshot.position.tolist() == [1.0, 1.0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        snapshot.radius = 1.0
    with pytest.raises(TypeError, match="radius"):
        AgentSnapshot(np.zeros(2), np.zeros(2))  # type: ignore[call-arg]


# ---------------------------------------------------------------------------------------------------------- pairs


def test_pairs_are_the_upper_triangle_over_the_sorted_uids():
    assert canonical_pair_order(["c", "a", "b"]) == ["a", "b", "c"]
    assert make_pair_keys("cab") == [("a", "b"), ("a", "c"), ("b", "c")]
    assert canonical_pair_key("b", "a") == ("a", "b")


def test_a_uid_that_occurs_twice_is_refused_by_name():
    for call in (canonical_pair_order, make_pair_keys, make_lambda_dict):
        with pytest.raises(ValueError, match="'x'"):
            call(["x", "y", "x"])
    with pytest.raises(ValueError, match="'x'"):
        canonical_pair_key("x", "x")


@given(UIDS)
def test_n_uids_make_all_canonical_pairs_once(uids):
    keys = make_pair_keys(uids)
    assert len(set(keys)) == len(keys) == len(uids) * (len(uids) - 1) // 2
    assert all(a < b for a, b in keys)


def test_an_ego_keeps_only_its_own_pairs():
    assert make_lambda_dict("cab", fill=2, ego_uid="b") == {("a", "b"): 2.0, ("b", "c"): 2.0}
    with pytest.raises(ValueError, match="'z'"):
        make_lambda_dict("abc", ego_uid="z")


# ------------------------------------------------------------------------------------------------- JSON of the slack


def test_records_are_read_with_reordered_names_and_text_numbers():
    assert lambda_from_jsonable([{"a": "z", "b": "a", "value": "1.5"}]) == {("a", "z"): 1.5}


def test_the_empty_list_names_no_robots_unless_it_is_said_to_mean_no_pairs():
    with pytest.raises(TypeError, match="uids"):
        lambda_from_jsonable([])
    assert lambda_from_jsonable([], allow_empty=True) == {}


def test_bare_numbers_are_deprecated_and_need_one_value_per_pair():
    with pytest.warns(DeprecationWarning, match="lambda"), pytest.raises(ValueError, match="3 values"):
        lambda_from_jsonable([1, 2], uids="abc")
    with pytest.warns(DeprecationWarning, match="lambda"):
        assert lambda_from_jsonable([1, 2, 3], uids="cab") == {("a", "b"): 1.0, ("a", "c"): 2.0, ("b", "c"): 3.0}


@pytest.mark.parametrize("payload", [{}, "ab", None, [{"a": "x", "b": "y", "value": 1}, 2.0]])
def test_other_json_values_are_refused(payload):
    with pytest.raises(TypeError):
        lambda_from_jsonable(payload)


def test_records_that_contradict_each_other_are_refused():
    record = {"a": "x", "b": "y", "value": 1.0}
    with pytest.raises(ValueError, match="two values"):
        lambda_from_jsonable([record, {"a": "y", "b": "x", "value": 2.0}])
    with pytest.raises(ValueError, match="'x'"):
        lambda_from_jsonable([{"a": "x", "b": "x", "value": 1.0}])
    with pytest.raises(ValueError, match=r"without.*'b'"):
        lambda_from_jsonable([{"a": "x", "value": 1.0}])


def test_a_key_that_is_not_canonical_is_refused_and_never_dropped():
    with pytest.raises(ValueError, match="ordered"):
        lambda_to_jsonable({("b", "a"): 1.0})


@given(UIDS, st.floats(-1e6, 1e6))
def test_the_slack_survives_its_json_form(uids, fill):
    slack = make_lambda_dict(uids, fill=fill)
    assert lambda_from_jsonable(lambda_to_jsonable(slack), allow_empty=True) == slack


# --------------------------------------------------------------------------------------------------- control models


def jacobian_model(jacobian, **fields):
    array = np.array(jacobian, dtype=float)
    return JacobianControlModel("arm", array.shape[1], array.shape[0], lambda _: array, **fields)


MODELS = [
    DoubleIntegratorControlModel("ego", 2),
    VelocityCommandControlModel("ego", 2, dt=0.1),
    jacobian_model([[1.0, 0.5, 0.0], [0.0, 1.0, 1.0]], max_cartesian_accel_value=3.0),
    jacobian_model(
        [[1.0, 0.5, 0.0], [0.0, 1.0, 1.0]],
        max_cartesian_accel_value=3.0,
        scale=100.0,
        offset_fn=lambda state: -state.velocity / 0.1,
    ),
]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_affine_and_its_two_maps_agree(model):
    assert isinstance(model, AgentControlModel)
    jacobian, offset = model.affine(SNAPSHOT)
    action = np.linspace(-0.3, 0.4, model.action_dim)
    accel = model.action_to_cartesian_accel(SNAPSHOT, action)
    np.testing.assert_allclose(jacobian @ action + offset, accel, atol=1e-12)
    back = model.action_to_cartesian_accel(SNAPSHOT, model.cartesian_accel_to_action(SNAPSHOT, accel))
    np.testing.assert_allclose(back, accel, rtol=1e-5)
    assert model.max_cartesian_accel(BOUNDS) > 0


def test_the_damped_inverse_has_the_documented_error():
    model = jacobian_model([[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(model.cartesian_accel_to_action(SNAPSHOT, np.array([2.0])), [1.999998, 0, 0], atol=1e-9)


def test_a_velocity_command_is_reached_within_one_step():
    model = VelocityCommandControlModel("ego", 2, dt=0.1)
    accel = model.action_to_cartesian_accel(SNAPSHOT, np.array([0.0, 1.0]))
    np.testing.assert_allclose(SNAPSHOT.velocity + 0.1 * accel, [0.0, 1.0], atol=1e-15)
    assert model.max_cartesian_accel(BOUNDS) == pytest.approx(10.0)
    assert VelocityCommandControlModel("ego", 2, 0.1, max_cartesian_accel_value=4.0).max_cartesian_accel(BOUNDS) == 4.0


def test_identity_maps_give_copies():
    action = np.array([1.0, 2.0])
    model = DoubleIntegratorControlModel("ego", 2)
    model.action_to_cartesian_accel(SNAPSHOT, action)[0] = 9.0
    model.cartesian_accel_to_action(SNAPSHOT, action)[0] = 9.0
    assert action.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("model", MODELS)
def test_wrong_shapes_are_refused_with_shape_uid_and_expectation(model):
    with pytest.raises(ValueError, match=rf"'{model.uid}'.*\({model.action_dim},\).*\(5,\)"):
        model.action_to_cartesian_accel(SNAPSHOT, np.zeros(5))
    with pytest.raises(ValueError, match=rf"'{model.uid}'.*\({model.position_dim},\).*\(5,\)"):
        model.cartesian_accel_to_action(SNAPSHOT, np.zeros(5))


def test_a_jacobian_model_without_kinematics_refuses_to_guess():
    model = JacobianControlModel("arm", 7, 3)
    for call in (model.action_to_cartesian_accel, model.cartesian_accel_to_action):
        with pytest.raises(NotImplementedError, match="'arm'"):
            call(SNAPSHOT, np.zeros(7))
    with pytest.raises(ValueError, match="'arm'"):
        model.max_cartesian_accel(BOUNDS)


@pytest.mark.parametrize("fields", [{"scale": 0.0}, {"scale": np.nan}, {"damping": -1.0}, {"damping": np.inf}])
def test_jacobian_parameters_out_of_range_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        JacobianControlModel("arm", 7, 3, **fields)


@pytest.mark.parametrize("capacity", [0.0, -1.0, np.inf, np.nan])
def test_capacities_out_of_range_are_refused(capacity):
    with pytest.raises(ValueError, match="max_cartesian_accel"):
        jacobian_model([[1.0]], max_cartesian_accel_value=capacity).max_cartesian_accel(BOUNDS)
    with pytest.raises(ValueError, match="max_cartesian_accel"):
        VelocityCommandControlModel("ego", 2, 0.1, max_cartesian_accel_value=capacity)


def test_a_jacobian_or_offset_of_a_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="jacobian of 'arm'"):
        JacobianControlModel("arm", 2, 2, lambda _: np.eye(3)).affine(SNAPSHOT)
    with pytest.raises(ValueError, match="offset of 'arm'"):
        JacobianControlModel("arm", 2, 2, lambda _: np.eye(2), offset_fn=lambda _: np.zeros(3)).affine(SNAPSHOT)


# ------------------------------------------------------------------------------------------- names of the package


def test_the_deprecated_name_warns_once_per_access_and_points_at_the_caller():
    for module in (api, concerto.safety):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = module.SafetyFilter
        assert value == EgoOnlySafetyFilter | JointSafetyFilter
        assert [(w.category, w.filename) for w in caught] == [(DeprecationWarning, __file__)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from concerto.safety import SafetyFilter  # noqa: F401 - the import is what is tested
    assert [(w.category, w.filename) for w in caught] == [(DeprecationWarning, __file__)]


def test_every_public_name_exists_and_unknown_ones_are_named():
    for name in concerto.safety.__all__:
        assert getattr(concerto.safety, name) is not None
    assert set(api.__all__) <= set(concerto.safety.__all__)
    assert "SafetyFilter" not in api.__all__ + concerto.safety.__all__
    for module in (api, concerto.safety):
        with pytest.raises(AttributeError, match=rf"{module.__name__}.*'nothing_here'"):
            _ = module.nothing_here


def test_importing_the_package_loads_no_solver_and_no_compiler():
    code = (
        "import sys, concerto.safety; print(sorted({'numba', 'scipy', 'clarabel', 'osqp', 'daqp'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_benchmark_program_has_the_documented_optimum_whatever_it_is_given():
    for arguments in ((), (1, "x")):
        norm, seconds = concerto.safety.solve_qp_stub(*arguments, ignored=True)
        assert norm == pytest.approx(0.2236068, abs=1e-7)
        assert seconds > 0
