"""The mathematics that controllers of arms share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.agents import PandaJacobianProvider
from chamber.agents._arm_provider import ArmJacobianProvider
from chamber.agents._chain_numbers import TcpNumbers
from chamber.agents.xarm6_jacobian import XArm6JacobianProvider
from chamber.partners._arm_control import CommandDelay, read_rows
from chamber.partners._servo_kernels import (
    damped_command,
    rotations_from_quaternions,
    servo,
    servo_on_chain,
)
from chamber.partners._servo_numbers import (
    SMALLEST_ANGLE_RAD,
    damped_numbers,
    local_z,
    long_axis,
    rotation_vector_numbers,
    servo_numbers,
)

unit = st.floats(-1.0, 1.0)
vectors = st.tuples(unit, unit, unit).map(np.array).filter(lambda v: np.linalg.norm(v) > 0.1)


def rotation_about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Give axis times angle by way of the quaternion, with the axes numbered instead of written out."""
    r = rotation
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    vector = np.empty(3)
    i = 0
    for axis in range(1, 3):
        if r[axis, axis] > r[i, i]:
            i = axis
    if trace > r[i, i]:
        real = 1.0 + trace
        vector[0], vector[1], vector[2] = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    else:
        j, k = (i + 1) % 3, (i + 2) % 3
        real = r[k, j] - r[j, k]
        vector[i] = 1.0 + r[i, i] - r[j, j] - r[k, k]
        vector[j], vector[k] = r[j, i] + r[i, j], r[k, i] + r[i, k]
    length = math.sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2])
    angle = 2.0 * math.atan2(length, abs(real))
    return vector * (math.copysign(angle, real) / length) if angle >= SMALLEST_ANGLE_RAD else np.zeros(3)


class TestDampedInverse:
    @pytest.mark.parametrize(("rows", "joints"), [(3, 7), (3, 6), (6, 7), (6, 6)])
    def test_it_solves_the_damped_least_squares_problem(self, rows: int, joints: int):
        rng = np.random.default_rng(rows * joints)
        for _ in range(20):
            jacobian, motion = rng.normal(size=(rows, joints)), 1e-2 * rng.normal(size=rows)
            step = 0.1 * damped_command(jacobian, motion, 0.3)
            # the minimum of |J x - v|^2 + 0.3^2 |x|^2
            stacked = np.vstack([jacobian, 0.3 * np.eye(joints)])
            expected = np.linalg.lstsq(stacked, np.concatenate([motion, np.zeros(joints)]), rcond=None)[0]
            assert np.abs(expected).max() < 0.1
            np.testing.assert_allclose(step, expected, atol=1e-14)

    def test_a_singular_arm_without_damping_stands_still(self):
        flat = np.zeros((3, 7))
        flat[0, 0] = flat[1, 1] = 1.0
        np.testing.assert_array_equal(damped_command(flat, np.array([0.01, 0.0, 0.01]), 0.0), np.zeros(7))
        assert damped_command(flat, np.array([0.01, 0.0, 0.01]), 0.1)[0] > 0.0

    @pytest.mark.parametrize("damping", [0.0, 0.04])
    def test_one_arm_in_plain_numbers_changes_no_bit(self, damping: float):
        rng, commands = np.random.default_rng(5), []
        for k in range(300):
            jacobian, motion = rng.normal(size=(6, 7)), 0.1 * rng.normal(size=6)
            if k % 10 == 0:
                jacobian[k // 10 % 6] = 0.0  # singular
            if k % 10 == 1:
                jacobian[5] = jacobian[2]  # singular but for rounding
            commands.append(damped_command(jacobian, motion, damping))
            numbers = damped_numbers(jacobian.tolist(), motion.tolist(), damping)
            assert np.array(numbers).tobytes() == commands[-1].tobytes()
            with_nan = jacobian.copy()
            with_nan[k % 6, k % 7] = np.nan
            for broken in (with_nan, 1e160 * jacobian):
                numbers = damped_numbers(broken.tolist(), motion.tolist(), damping)
                assert np.array(numbers).tobytes() == damped_command(broken, motion, damping).tobytes()
                np.testing.assert_array_equal(numbers, np.zeros(7))
        assert (np.abs(commands) == 1.0).any()
        assert np.any(commands[::10], axis=1).all() == (damping > 0.0)
        assert np.any(commands[2::10], axis=1).all()

    def test_commands_are_clipped(self):
        np.testing.assert_array_equal(damped_command(np.eye(3), np.array([5.0, -5.0, 0.0]), 0.1), [1.0, -1.0, 0.0])


class TestServo:
    def test_posture_steps_do_not_move_the_tool_centre_point(self):
        arm = PandaJacobianProvider()
        rng = np.random.default_rng(3)
        for _ in range(10):
            q = np.array([0.0, 0.4, 0.0, -2.0, 0.0, 2.3, 0.0]) + rng.uniform(-0.3, 0.3, 7)
            tcp = arm.fk_tcp_position(q)
            actions, is_valid, n_valid = servo(
                tcp[None], np.zeros(3), np.eye(3), tcp[None], arm(None, q)[None], rng.uniform(-1e-2, 1e-2, (1, 7)),
                2.5, 0.0, 0.03, 1e-6, 0.12, 0.6, np.zeros((1, 3)),
            )  # fmt: skip
            assert is_valid.all()
            assert n_valid == 1
            assert np.abs(actions).max() > 1e-2
            np.testing.assert_allclose(arm(None, q) @ actions[0, :7], 0.0, atol=1e-8)

    @pytest.mark.parametrize("provider", [PandaJacobianProvider(), XArm6JacobianProvider()])
    def test_kinematics_on_the_way_change_no_bit(self, provider: ArmJacobianProvider):
        rng, n, dof = np.random.default_rng(8), 20, provider.chain.n_joints
        joints = rng.uniform(-1.0, 1.0, (n, dof))
        joints[3] = np.nan
        kinematics = provider.fk_and_jacobian_batch(joints)
        law = rng.normal(size=3), rotation_about(np.array([0.0, 0.0, 1.0]), 0.7)
        postures = rng.uniform(-1e-2, 1e-2, (n, dof))
        targets = kinematics.position @ law[1].T + law[0] + rng.uniform(-0.1, 0.1, (n, 3))
        gains, first, second = (2.5, 0.6, 0.03, 0.04, 0.12, 0.6), np.zeros((n, 3)), np.zeros((n, 3))
        given_kinematics = servo(targets, *law, kinematics.position, kinematics.jacobian, postures, *gains, first)
        on_the_way = servo_on_chain(targets, *law, provider.chain.origins, joints, postures, *gains, second)
        assert [np.asarray(part).tobytes() for part in on_the_way] == [
            np.asarray(part).tobytes() for part in given_kinematics
        ]
        assert first.tobytes() == second.tobytes()
        assert on_the_way[2] == n - 1
        assert first.any()

    @pytest.mark.parametrize("provider", [PandaJacobianProvider(), XArm6JacobianProvider()])
    @pytest.mark.parametrize("reach", [0.05, 0.5])
    def test_one_arm_in_plain_numbers_changes_no_bit(self, provider: ArmJacobianProvider, reach: float):
        rng, n, dof = np.random.default_rng(9), 200, provider.chain.n_joints
        joints, postures = rng.uniform(-3.0, 3.0, (n, dof)), rng.uniform(-1e-2, 1e-2, (n, dof))
        base = rng.normal(size=3), rotation_about(np.array([0.0, 0.0, 1.0]), 0.7)
        targets = provider.fk_tcp_position_batch(joints) @ base[1].T + base[0] + rng.uniform(-reach, reach, (n, 3))
        targets[5] = np.inf
        gains, integrals = (2.5, 0.6, 0.03, 0.001, 0.12, 0.6), rng.uniform(-0.6, 0.6, (n, 3))
        alone = integrals.tolist()
        actions, is_valid, _ = servo_on_chain(
            targets, *base, provider.chain.origins, joints, postures, *gains, integrals
        )
        for k in range(n):
            commands = servo_numbers(
                targets[k].tolist(), base[0].tolist(), base[1].tolist(), provider.chain.tcp_numbers(joints[k].tolist()),
                postures[k].tolist(), *gains, alone[k],
            )  # fmt: skip
            assert (commands is not None) == is_valid[k]
            assert np.array(commands or [0.0] * dof, dtype=np.float32).tobytes() == actions[k, :-1].tobytes()
        assert np.array(alone).tobytes() == integrals.tobytes()
        assert not is_valid.all()

    @pytest.mark.parametrize("n_ways", [0, 1, 2, 3])
    def test_a_singular_arm_without_damping_moves_to_its_posture_in_plain_numbers_too(self, n_ways: int):
        columns = [tuple(float(row == joint < n_ways) for row in range(3)) for joint in range(7)]
        posture, law = [1e-3 * joint for joint in range(7)], (2.5, 0.0, 0.03, 0.0, 0.12, 0.6)
        target, home, level = [0.01, 0.02, 0.03], [0.0] * 3, np.eye(3)
        commands = servo_numbers(
            target, home, level.tolist(), TcpNumbers((0.0, 0.0, 0.0), columns), posture, *law, [0.0] * 3
        )
        actions, *_ = servo(
            np.array([target]), np.zeros(3), level, np.zeros((1, 3)), np.array([columns]).transpose(0, 2, 1).copy(),
            np.array([posture]), *law, np.zeros((1, 3)),
        )  # fmt: skip
        assert np.array(commands, dtype=np.float32).tobytes() == actions[0, :-1].tobytes()
        if n_ways < 3:
            np.testing.assert_allclose(commands, np.array(posture) / 0.1)

    def test_an_error_of_exactly_the_radius_is_outside_of_it_in_both_forms(self):
        law = (2.5, 0.6, 0.03, 0.001, 0.12, 0.6)
        columns = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
        alone, together = [0.0] * 3, np.zeros((1, 3))
        servo_numbers(
            [0.12, 0.0, 0.0],
            [0.0] * 3,
            np.eye(3).tolist(),
            TcpNumbers((0.0, 0.0, 0.0), columns),
            [0.0] * 3,
            *law,
            alone,
        )
        servo(
            np.array([[0.12, 0.0, 0.0]]), np.zeros(3), np.eye(3), np.zeros((1, 3)), np.eye(3)[None], np.zeros((1, 3)),
            *law, together,
        )  # fmt: skip
        assert alone == together[0].tolist() == [0.0] * 3

    @given(st.tuples(unit, unit, unit, unit))
    def test_where_a_bar_points_is_the_first_column_of_its_rotation(self, quaternion: tuple[float, ...]):
        column = rotations_from_quaternions(np.array([quaternion]))[0, :, 0]
        assert np.array(long_axis(quaternion)).tobytes() == column.tobytes()

    @given(st.tuples(unit, unit, unit, unit))
    def test_where_a_peg_points_is_the_third_column_of_its_rotation(self, quaternion: tuple[float, ...]):
        column = rotations_from_quaternions(np.array([quaternion]))[0, :, 2]
        assert np.array(local_z(quaternion)).tobytes() == column.tobytes()

    def test_the_integral_grows_inside_its_radius_only_and_is_bounded(self):
        integrals = np.zeros((2, 3))
        targets = np.array([[0.1199, 0.0, 0.0], [0.1201, 0.0, 0.0]])
        for _ in range(200):
            servo(
                targets, np.zeros(3), np.eye(3), np.zeros((2, 3)), np.tile(np.eye(3, 7), (2, 1, 1)), np.zeros((2, 7)),
                2.5, 0.6, 0.03, 0.04, 0.12, 0.6, integrals,
            )  # fmt: skip
        np.testing.assert_array_equal(integrals, [[0.6, 0.0, 0.0], [0.0, 0.0, 0.0]])

    def test_a_row_that_is_not_finite_stands_still_and_leaves_the_others_alone(self):
        def answer(targets: np.ndarray, integrals: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
            n = len(targets)
            return servo(
                targets, np.zeros(3), np.eye(3), np.zeros((n, 3)), np.tile(np.eye(3, 7), (n, 1, 1)), np.zeros((n, 7)),
                2.5, 0.6, 0.03, 0.04, 0.12, 0.6, integrals,
            )  # fmt: skip

        good = np.array([0.01, 0.02, 0.03])
        integrals, alone = np.zeros((3, 3)), np.zeros((1, 3))
        actions, is_valid, n_valid = answer(np.array([good, [np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0]]), integrals)
        np.testing.assert_array_equal(is_valid, [True, False, False])
        assert n_valid == 1
        np.testing.assert_array_equal(actions[0], answer(good[None], alone)[0][0])
        np.testing.assert_array_equal(integrals, [alone[0], np.zeros(3), np.zeros(3)])
        np.testing.assert_array_equal(actions[1:], np.zeros((2, 8)))


class TestRotations:
    @given(axis=vectors, angle=st.floats(0.0, np.pi))
    def test_the_rotation_vector_is_the_inverse_of_rodrigues_formula_up_to_half_a_turn(
        self, axis: np.ndarray, angle: float
    ):
        rotation = rotation_about(axis, angle)
        vector = rotation_vector(rotation)
        assert np.array(rotation_vector_numbers(rotation.tolist())).tobytes() == vector.tobytes()
        length = np.linalg.norm(vector)
        assert length <= np.pi + 1e-12
        assert length == pytest.approx(angle if angle >= 1e-6 else 0.0, abs=2e-8)
        if length > 0.0:
            np.testing.assert_allclose(rotation_about(vector, float(length)), rotation, atol=1e-9)

    @pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)])
    @pytest.mark.parametrize("angle", [0.0, 1e-7, 0.5, 2.1, np.pi, -2.9])
    def test_ties_of_the_largest_component_are_broken_alike_in_plain_numbers(
        self, axis: tuple[int, int, int], angle: float
    ):
        rotation = rotation_about(np.array(axis, dtype=np.float64), angle)
        vector = rotation_vector(rotation)
        assert np.array(rotation_vector_numbers(rotation.tolist())).tobytes() == vector.tobytes()

    def test_angles_below_a_millionth_are_zero(self):
        tiny = rotation_about(np.array([0.0, 0.0, 1.0]), 0.9e-6)
        np.testing.assert_array_equal(rotation_vector(tiny), np.zeros(3))
        np.testing.assert_allclose(
            rotation_vector(rotation_about(np.array([0.0, 0.0, 1.0]), 1e-5)), [0.0, 0.0, 1e-5], atol=1e-12
        )

    @given(axis=vectors, angle=st.floats(-3.0, 3.0), length=st.floats(1e-6, 1e6))
    def test_quaternions_of_any_length_rotate_alike(self, axis: np.ndarray, angle: float, length: float):
        half = angle / 2.0
        quaternion = np.concatenate([[np.cos(half)], np.sin(half) * axis / np.linalg.norm(axis)])
        rotation = rotations_from_quaternions(length * quaternion[None])[0]
        np.testing.assert_allclose(rotation, rotation_about(axis, angle), atol=1e-12)

    def test_the_zero_quaternion_is_the_identity(self):
        np.testing.assert_array_equal(rotations_from_quaternions(np.zeros((2, 4))), [np.eye(3), np.eye(3)])


class TestCommandDelay:
    def test_each_row_has_its_own_queue(self):
        delay = CommandDelay(2, width=1, n_calls=2)
        sent = []
        for call in range(5):
            commands = np.array([[call + 1.0], [10.0 * (call + 1.0)]])
            rows = np.array([0, 1]) if call != 1 else np.array([0])  # the second row misses a call
            delay.swap(commands, rows)
            sent.append(commands[rows].ravel().tolist())
        assert sent == [[0.0, 0.0], [0.0], [1.0, 0.0], [2.0, 10.0], [3.0, 30.0]]

    def test_clearing_a_row_leaves_the_other(self):
        delay = CommandDelay(2, width=1, n_calls=1)
        delay.swap(np.array([[1.0], [2.0]]), np.array([0, 1]))
        delay.clear(np.array([0]))
        commands = np.array([[3.0], [4.0]])
        delay.swap(commands, np.array([0, 1]))
        np.testing.assert_array_equal(commands, [[0.0], [2.0]])


class TestReading:
    @pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4), (2, 2, 2)])
    def test_the_first_environment_counts_and_long_fields_are_cut(self, shape: tuple[int, ...]):
        field = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        read = read_rows({"extra": {"x": field}}, "extra", "x", size=3, is_batch=False)
        assert read is not None
        assert read.dtype == np.float64
        np.testing.assert_array_equal(read, [[0.0, 1.0, 2.0]])

    @pytest.mark.parametrize(
        "field", [None, "text", 3.0, np.float64(2.0), [1.0, 2.0], np.zeros((0, 3)), np.zeros((1, 2)), np.zeros((3, 2))]
    )
    def test_missing_and_short_fields_are_absent(self, field: object):
        assert read_rows({"extra": {"x": field}}, "extra", "x", size=3, is_batch=False) is None
        assert read_rows({}, "extra", "x", size=3, is_batch=False) is None
        assert read_rows({"extra": 3}, "extra", "x", size=3, is_batch=False) is None

    def test_what_is_read_is_a_copy(self):
        field = np.zeros(3)
        for is_batch, given_field in ((False, field), (True, field[None])):
            read = read_rows({"x": given_field}, "x", size=3, is_batch=is_batch)
            assert read is not None
            read[:] = 1.0
        np.testing.assert_array_equal(field, np.zeros(3))
