"""From actions to joint motion and Cartesian acceleration: the map, its modes, and the simulated arm."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.arm_safety import DEFAULT_TRACKING_ERROR_M, ArmModel, _kernels, arm_of_scene, step_map, tcp_control_model
from chamber.arm_safety.tracking import measure_joints, measure_plans
from chamber.sim.robots import robot_model
from chamber.sim.scene import RobotSpec, SceneSpec
from concerto.safety.api import AgentSnapshot, Bounds

READY = robot_model("panda_wristcam").ready_qpos[:7]


def _posture(seed: int) -> np.ndarray:
    return READY + np.random.default_rng(seed).uniform(-0.5, 0.5, 7)


@pytest.mark.parametrize("seed", range(4))
def test_step_map_has_the_response_of_a_single_joint_along_every_mode(ego: ArmModel, seed: int) -> None:
    q = _posture(seed)
    inertias, modes = np.linalg.eigh(ego.mass_matrix(q))
    response = ego.drive.response(inertias)
    linear = step_map(ego, q)
    for matrix, values in (
        (linear.position_per_velocity, response.position_per_velocity),
        (linear.position_per_action, 0.1 * response.position_per_target),
        (linear.velocity_per_velocity, response.velocity_per_velocity),
        (linear.velocity_per_action, 0.1 * response.velocity_per_target),
    ):
        np.testing.assert_allclose(matrix, modes @ np.diag(values) @ modes.T, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_predicted_path_ends_where_the_map_says_unless_a_drive_saturates(ego: ArmModel, seed: int) -> None:
    q, rng = _posture(seed), np.random.default_rng(seed + 100)
    q_dot, action = rng.uniform(-0.3, 0.3, 7), rng.uniform(-0.6, 0.6, 7)
    update = _kernels.velocity_update(ego.arrays, ego.mass_matrix(q))
    np.testing.assert_allclose(
        update @ (ego.mass_matrix(q) + 0.002 * ego.drive.damping * np.eye(7)), np.eye(7), atol=1e-12
    )
    path = np.empty((1 + 3 * _kernels.SAMPLES_PER_STEP, 7))
    _kernels.predict_path(ego.arrays, update, q, q_dot, action, path)
    linear = step_map(ego, q)
    after = q + linear.position_per_velocity @ q_dot + linear.position_per_action @ action
    np.testing.assert_array_equal(path[0], q)
    np.testing.assert_allclose(path[_kernels.SAMPLES_PER_STEP], after, atol=1e-12)
    velocity = linear.velocity_per_velocity @ q_dot + linear.velocity_per_action @ action
    np.testing.assert_allclose(
        path[2 * _kernels.SAMPLES_PER_STEP], after + linear.position_per_velocity @ velocity, atol=1e-12
    )


def test_predicted_path_saturates_when_a_command_opposes_the_motion(ego: ArmModel) -> None:
    q_dot, action = np.full(7, 0.8), -np.ones(7)
    update = _kernels.velocity_update(ego.arrays, ego.mass_matrix(READY))
    path = np.empty((1 + _kernels.SAMPLES_PER_STEP, 7))
    _kernels.predict_path(ego.arrays, update, READY, q_dot, action, path)
    linear = step_map(ego, READY)
    unlimited = READY + linear.position_per_velocity @ q_dot + linear.position_per_action @ action
    assert (path[-1] - unlimited).max() > 1e-4
    assert np.abs(path[-1] - unlimited).max() < 3e-3


def test_control_model_gives_the_mean_acceleration_of_the_tool_centre_point(ego: ArmModel) -> None:
    q, q_dot = _posture(9), np.random.default_rng(9).uniform(-0.3, 0.3, 7)
    model = tcp_control_model(ego, lambda: (q, q_dot), action_dim=8, max_cartesian_accel=10.0)
    _, jacobian = ego.tcp(q)
    snapshot = AgentSnapshot(ego.tcp(q)[0], jacobian @ q_dot, 0.1)
    action = np.append(np.random.default_rng(10).uniform(-0.5, 0.5, 7), 1.0)
    linear = step_map(ego, q)
    after = linear.velocity_per_velocity @ q_dot + linear.velocity_per_action @ action[:7]
    np.testing.assert_allclose(
        model.action_to_cartesian_accel(snapshot, action), jacobian @ (after - q_dot) / 0.05, atol=1e-10
    )
    wanted = np.array([1.0, -2.0, 0.5])
    back = model.action_to_cartesian_accel(snapshot, model.cartesian_accel_to_action(snapshot, wanted))
    np.testing.assert_allclose(back, wanted, atol=1e-3)
    assert model.max_cartesian_accel(Bounds(1.0, 1.0, 1.0, 0.0, 50.0)) == 10.0
    offset = model.action_to_cartesian_accel(snapshot, np.zeros(8))
    assert offset @ (jacobian @ q_dot) < 0.0  # holding still brakes


def test_every_joint_moves_as_predicted_at_rest_and_in_motion() -> None:
    rows = measure_joints()
    assert {row.joint for row in rows} == {f"panda_joint{k}" for k in range(1, 8)}
    assert max(abs(row.velocity_at_start) for row in rows) > 0.6
    for row in rows:
        assert row.displacement == pytest.approx(row.predicted_displacement, abs=2e-4), row
        assert row.velocity == pytest.approx(row.predicted_velocity, abs=2e-3), row
        assert row.stopping_displacement == pytest.approx(row.predicted_stopping_displacement, abs=3e-4), row
        assert abs(row.velocity_after_two_holds) < 0.012, row
    still = [row for row in rows if row.action == 0.0]
    assert len(still) == 7
    for row in still:  # an arm stops within a control step or two
        assert abs(row.velocity) < 0.11 * abs(row.velocity_at_start)
        assert abs(row.stopping_displacement) < 0.022 * abs(row.velocity_at_start)


def _check_plans(count: int, *, root_seed: int) -> None:
    plans = measure_plans(count, root_seed=root_seed)
    assert max(plan.joint_speed for plan in plans) > 0.7
    assert max(plan.sphere_error_m for plan in plans) < DEFAULT_TRACKING_ERROR_M / 1.5
    assert max(plan.speed_after_two_holds for plan in plans) < 0.1
    assert np.median([plan.acceleration_error for plan in plans]) < 0.6
    assert max(plan.acceleration_error for plan in plans) < 5.0


def test_plans_are_followed_to_within_the_declared_error() -> None:
    _check_plans(60, root_seed=1)


@pytest.mark.slow
def test_many_plans_are_followed_to_within_the_declared_error() -> None:
    _check_plans(1000, root_seed=2)


def test_an_arm_without_a_known_drive_has_no_map() -> None:
    arm = arm_of_scene(SceneSpec(robots=(RobotSpec(uid="other", model="xarm6_robotiq"),)), "other")
    with pytest.raises(ValueError, match="drive of 'other' is not known"):
        step_map(arm, np.zeros(6))
    with pytest.raises(ValueError, match="drive of 'other' is not known"):
        tcp_control_model(arm, lambda: (np.zeros(6), np.zeros(6)), action_dim=7, max_cartesian_accel=1.0)
