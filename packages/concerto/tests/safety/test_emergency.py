"""Emergency actions: away from everybody, at the limit and never beyond it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from concerto.safety.api import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    JacobianControlModel,
    VelocityCommandControlModel,
)
from concerto.safety.emergency import (
    CartesianAccelEmergencyController,
    EmergencyController,
    JacobianEmergencyController,
)
from ripieno.randomness import derive_substream

UNIT_BOUNDS = Bounds(1.0, 1.0, 10.0, 0.0, 50.0)
AT_REST = AgentSnapshot(np.zeros(2), np.zeros(2), 0.25)
RIGHT, LEFT, UP = np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.array([0.0, 1.0])

seeds = st.integers(0, 2**32 - 1)
angles = st.lists(st.floats(-math.pi, math.pi), min_size=1, max_size=6)


def jacobian_model(jacobian, **settings) -> JacobianControlModel:
    return JacobianControlModel(
        uid="arm",
        action_dim=jacobian.shape[1],
        position_dim=jacobian.shape[0],
        jacobian_fn=lambda _: jacobian,
        **settings,
    )


# --- documented answers -------------------------------------------------------------------------------------


def test_damped_inverse_of_a_task_row() -> None:
    model = jacobian_model(np.array([[1.0, 0.0, 0.0]]))
    action = model.cartesian_accel_to_action(AT_REST, np.array([2.0]))
    np.testing.assert_allclose(action, [1.999998, 0.0, 0.0], atol=1e-9)


def test_override_is_scaled_to_the_capacity_then_mapped_then_clipped() -> None:
    model = jacobian_model(0.5 * np.eye(2))
    raw = model.cartesian_accel_to_action(AT_REST, np.array([10.0, 0.0]))
    np.testing.assert_allclose(raw, [19.99992, 0.0], atol=1e-5)
    override = JacobianEmergencyController(control_model=model).compute_override(
        AT_REST, [RIGHT], Bounds(5.0, 10.0, 10.0, 0.0, 50.0)
    )
    np.testing.assert_array_equal(override, [5.0, 0.0])


def test_one_repulsion_gives_the_capacity_along_it() -> None:
    override = CartesianAccelEmergencyController().compute_override(AT_REST, [LEFT], Bounds(1.0, 3.0, 10.0, 0.0, 50.0))
    np.testing.assert_array_equal(override, [-3.0, 0.0])
    assert override.dtype == np.float64


STAR = [np.array([math.cos(angle), math.sin(angle)]) for angle in (0.0, 2.0 * math.pi / 3.0, 4.0 * math.pi / 3.0)]


@pytest.mark.parametrize(
    "vectors", [[], [RIGHT, LEFT], STAR, [RIGHT, UP, LEFT, -UP]], ids=["none", "two", "three", "four"]
)
def test_without_a_direction_nothing_is_asked(vectors) -> None:
    moving = AgentSnapshot(np.zeros(2), np.array([0.0, 2.0]), 0.25)
    override = CartesianAccelEmergencyController().compute_override(moving, vectors, UNIT_BOUNDS)
    np.testing.assert_array_equal(override, [0.0, 0.0])
    model = jacobian_model(np.ones((2, 3)))
    override = JacobianEmergencyController(control_model=model).compute_override(moving, vectors, UNIT_BOUNDS)
    np.testing.assert_array_equal(override, [0.0, 0.0, 0.0])


def test_missing_kinematics_fail_at_first_use() -> None:
    model = JacobianControlModel(uid="arm", action_dim=7, position_dim=2)
    with pytest.raises(NotImplementedError, match="arm"):
        JacobianEmergencyController(control_model=model).compute_override(AT_REST, [RIGHT], UNIT_BOUNDS)
    with pytest.raises(AttributeError):
        JacobianEmergencyController(control_model=None).compute_override(AT_REST, [RIGHT], UNIT_BOUNDS)


def test_both_controllers_satisfy_the_protocol() -> None:
    assert isinstance(CartesianAccelEmergencyController(), EmergencyController)
    assert isinstance(JacobianEmergencyController(control_model=jacobian_model(np.eye(2))), EmergencyController)
    assert not isinstance(object(), EmergencyController)


# --- properties ---------------------------------------------------------------------------------------------


@given(angles, st.floats(0.01, 100.0))
def test_cartesian_override_is_at_the_capacity_or_zero(directions, capacity) -> None:
    vectors = [np.array([math.cos(angle), math.sin(angle)]) for angle in directions]
    override = CartesianAccelEmergencyController().compute_override(
        AT_REST, vectors, Bounds(1.0, capacity, 10.0, 0.0, 50.0)
    )
    total = np.sum(vectors, axis=0)
    if np.linalg.norm(total) < 1e-12:
        np.testing.assert_array_equal(override, [0.0, 0.0])
    else:
        assert np.linalg.norm(override) == pytest.approx(capacity)
        assert override @ total == pytest.approx(capacity * np.linalg.norm(total))


@given(seeds, st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_jacobian_override_never_leaves_the_box(seed, limit, capacity) -> None:
    rng = derive_substream("test.safety.emergency", root_seed=seed).default_rng()
    model = jacobian_model(rng.normal(size=(2, 7)))
    controller = JacobianEmergencyController(control_model=model)
    override = controller.compute_override(AT_REST, [UP], Bounds(limit, capacity, 10.0, 0.0, 50.0))
    assert np.abs(override).max() <= limit
    raw = model.cartesian_accel_to_action(AT_REST, capacity * UP)
    np.testing.assert_array_equal(override, np.clip(raw, -limit, limit))


@given(angles)
def test_order_of_the_repulsions_does_not_matter(directions) -> None:
    vectors = [np.array([math.cos(angle), math.sin(angle)]) for angle in directions]
    if np.linalg.norm(np.sum(vectors, axis=0)) < 1e-6:
        return
    controller = CartesianAccelEmergencyController()
    np.testing.assert_allclose(
        controller.compute_override(AT_REST, vectors, UNIT_BOUNDS),
        controller.compute_override(AT_REST, vectors[::-1], UNIT_BOUNDS),
        atol=1e-9,
    )


@given(hnp.arrays(np.float64, 2, elements=st.floats(-10.0, 10.0)))
def test_a_squeezed_robot_can_be_made_to_brake(velocity) -> None:
    moving = AgentSnapshot(np.zeros(2), velocity, 0.25)
    bounds = Bounds(1.0, 3.0, 10.0, 0.0, 50.0)
    override = CartesianAccelEmergencyController(brake_when_squeezed=True).compute_override(
        moving, [RIGHT, LEFT], bounds
    )
    speed = np.linalg.norm(velocity)
    expected = -3.0 * velocity / speed if speed >= 1e-12 else np.zeros(2)
    np.testing.assert_allclose(override, expected, atol=1e-12)


def test_braking_when_squeezed_changes_nothing_while_there_is_a_way_out() -> None:
    moving = AgentSnapshot(np.zeros(2), np.array([5.0, 0.0]), 0.25)
    controller = CartesianAccelEmergencyController(brake_when_squeezed=True)
    np.testing.assert_array_equal(controller.compute_override(moving, [UP], UNIT_BOUNDS), UP)


def test_a_velocity_commanded_robot_is_driven_through_its_own_map() -> None:
    moving = AgentSnapshot(np.zeros(2), np.array([0.5, 0.0]), 0.25)
    model = VelocityCommandControlModel(uid="base", action_dim=2, dt=0.1)
    override = JacobianEmergencyController(control_model=model).compute_override(
        moving, [LEFT], Bounds(1.0, 2.0, 10.0, 0.0, 50.0)
    )
    np.testing.assert_allclose(override, [0.3, 0.0])


def test_identity_map_gives_the_cartesian_override_inside_the_box() -> None:
    model = DoubleIntegratorControlModel("base", 2)
    override = JacobianEmergencyController(control_model=model).compute_override(AT_REST, [UP], UNIT_BOUNDS)
    np.testing.assert_array_equal(override, UP)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_input_names_its_field(bad) -> None:
    controller = CartesianAccelEmergencyController(brake_when_squeezed=True)
    with pytest.raises(ValueError, match="pairwise_repulsion_vectors must be finite"):
        controller.compute_override(AT_REST, [np.array([bad, 0.0])], UNIT_BOUNDS)
    with pytest.raises(ValueError, match=r"agent_state\.velocity must be finite"):
        controller.compute_override(AgentSnapshot(np.zeros(2), np.array([0.0, bad]), 0.1), [RIGHT, LEFT], UNIT_BOUNDS)
    with pytest.raises(ValueError, match="cartesian_accel_capacity"):
        controller.compute_override(AT_REST, [RIGHT], Bounds(1.0, bad, 10.0, 0.0, 50.0))
    mapped = JacobianEmergencyController(control_model=jacobian_model(np.eye(2)))
    with pytest.raises(ValueError, match="action_linf_component"):
        mapped.compute_override(AT_REST, [RIGHT], Bounds(bad, 1.0, 10.0, 0.0, 50.0))
