"""Kinematics of the arms against published numbers, DH parameters, finite differences and an independent library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS, ChainTable, FixedJoint, RotaryJoint
from chamber.agents._transforms import rotation_from_rpy, rotation_to_axis, rotation_to_rpy
from ripieno.randomness import derive_substream

FloatArray = NDArray[np.float64]

REST = [0.0, math.pi / 8, 0.0, -5 * math.pi / 8, 0.0, 3 * math.pi / 4, math.pi / 4]
MODIFIED_DH = [  # (a_{i-1}, alpha_{i-1}, d_i), Craig's convention, as Franka Robotics publishes them
    (0.0, 0.0, 0.333),
    (0.0, -math.pi / 2, 0.0),
    (0.0, math.pi / 2, 0.316),
    (0.0825, math.pi / 2, 0.0),
    (-0.0825, -math.pi / 2, 0.384),
    (0.0, math.pi / 2, 0.0),
    (0.088, math.pi / 2, 0.0),
]


def chain(arm: str) -> SerialChain:
    return SerialChain(CHAINS[arm])


def configurations(arm: str, *, count: int) -> FloatArray:
    table = CHAINS[arm]
    return (
        derive_substream(f"test.serial_chain.{arm}", root_seed=0)
        .default_rng()
        .uniform(table.lower, table.upper, (count, len(table.joints)))
    )


def pose_by_scipy(table: ChainTable, q: FloatArray, *, n_links: int | None = None) -> FloatArray:
    """Multiply the transforms of the table one by one; of all joints and the tail, or of the first joints only."""
    pose = np.eye(4)
    for joint, angle in zip(table.joints[:n_links], q[:n_links], strict=True):
        pose = pose @ homogeneous(joint.xyz, joint.rpy)
        pose[:3, :3] = pose[:3, :3] @ Rotation.from_rotvec(angle * np.array(joint.axis)).as_matrix()
    for fixed in table.tail if n_links is None else ():
        pose = pose @ homogeneous(fixed.xyz, fixed.rpy)
    return pose


def homogeneous(xyz: tuple[float, ...], rpy: tuple[float, ...]) -> FloatArray:
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", rpy).as_matrix()
    matrix[:3, 3] = xyz
    return matrix


def tilted_chain(seed: int) -> ChainTable:
    """A chain of five joints with random offsets and axes, one of them -z, and a tail of two links."""
    rng = derive_substream("test.serial_chain.tilted", root_seed=seed).default_rng()
    joints = []
    for place in range(5):
        axis = rng.normal(size=3)
        axis = (0.0, 0.0, -1.0) if place == 2 else tuple(map(float, axis / np.linalg.norm(axis)))
        xyz, rpy = rng.uniform(-0.4, 0.4, 3).tolist(), rng.uniform(-3.0, 3.0, 3).tolist()
        joints.append(RotaryJoint(f"j{place}", f"l{place}", tuple(xyz), tuple(rpy), -3.0, 3.0, 1.0, 1.0, axis))
    tail = (FixedJoint("f0", "wrist", (0.1, 0.0, 0.2), (0.3, -0.2, 0.1)), FixedJoint("f1", "tip", (0.0, 0.05, 0.1)))
    return ChainTable("base", tuple(joints), tail)


class TestPublishedNumbers:
    def test_panda_stretched_out(self):
        panda = chain("panda")
        np.testing.assert_allclose(panda.tcp_position(np.zeros(7)), [0.088, 0.0, 0.8226], atol=1e-5)
        half = math.sqrt(0.5)
        np.testing.assert_allclose(
            panda.tcp_rotation(np.zeros(7)), [[half, half, 0], [half, -half, 0], [0, 0, -1]], atol=1e-5
        )
        jacobian = panda.jacobian(np.zeros(7))
        np.testing.assert_allclose(
            jacobian[:3],
            [
                [0, 0.4896, 0, -0.1736, 0, 0.2104, 0],
                [0.088, 0, 0.088, 0, 0.088, 0, 0],
                [0, -0.088, 0, 0.0055, 0, 0.088, 0],
            ],
            atol=1e-5,
        )
        np.testing.assert_allclose(jacobian[5], [1, 0, 1, 0, 1, 0, -1], atol=1e-5)
        np.testing.assert_allclose(jacobian[4], [0, 1, 0, -1, 0, -1, 0], atol=1e-5)

    def test_panda_at_rest(self):
        panda = chain("panda")
        np.testing.assert_allclose(panda.tcp_position(REST), [0.615013, 0, 0.169782], atol=1e-5)
        np.testing.assert_allclose(panda.tcp_rotation(REST), np.diag([1, -1, -1]), atol=1e-5)
        np.testing.assert_allclose(panda.jacobian(REST)[1], [0.615013, 0, 0.630659, 0, 0.086550, 0, 0], atol=1e-5)

    def test_panda_anywhere(self):
        q = (0.1, -0.2, 0.3, -1.5, 0.4, 1.8, 0.5)
        panda = chain("panda")
        np.testing.assert_allclose(panda.tcp_position(q), [0.465697, 0.295523, 0.703320], atol=1e-5)
        jacobian = panda.jacobian(q)
        np.testing.assert_allclose(jacobian[:3, 3], [-0.057279, 0.009394, 0.521679], atol=1e-5)
        np.testing.assert_allclose(jacobian[3:, 6], [0.289919, 0.479360, -0.828349], atol=1e-5)

    def test_panda_in_the_ready_pose_of_its_maker(self):
        ready = (0, -math.pi / 4, 0, -3 * math.pi / 4, 0, math.pi / 2, math.pi / 4)
        np.testing.assert_allclose(chain("panda").tcp_position(ready), [0.3069, 0.0, 0.4869], atol=1e-4)

    def test_xarm6(self):
        xarm = chain("xarm6")
        np.testing.assert_allclose(xarm.tcp_position(np.zeros(6)), [0.2070, 0, -0.0380], atol=1e-5)
        np.testing.assert_allclose(
            xarm.jacobian(np.zeros(6))[:3],
            [
                [0, -0.305, -0.5895, 0, -0.247, 0],
                [0.207, 0, 0, -0.076, 0, 0],
                [0, -0.207, -0.1535, 0, -0.076, 0],
            ],
            atol=1e-5,
        )
        rest = (0, 0.22, -1.23, 0, 1.01, 0)
        np.testing.assert_allclose(xarm.tcp_position(rest), [0.521556, 0, 0.169435], atol=1e-5)
        q = (0.1, -0.2, -0.9, 0.4, 0.7, 0.5)
        np.testing.assert_allclose(xarm.tcp_position(q), [0.499653, 0.089658, 0.279368], atol=1e-5)

    def test_panda_equals_its_modified_dh_parameters(self):
        panda = chain("panda")
        for q in configurations("panda", count=50):
            pose = np.eye(4)
            for (a, alpha, d), theta in zip(MODIFIED_DH, q, strict=True):
                ca, sa, ct, st_ = math.cos(alpha), math.sin(alpha), math.cos(theta), math.sin(theta)
                pose = pose @ np.array(
                    [
                        [ct, -st_, 0, a],
                        [st_ * ca, ct * ca, -sa, -d * sa],
                        [st_ * sa, ct * sa, ca, d * ca],
                        [0, 0, 0, 1],
                    ]
                )
            hand = pose @ homogeneous((0, 0, 0.107 + 0.1034), (0, 0, -math.pi / 4))
            np.testing.assert_allclose(panda.tcp_position(q), hand[:3, 3], atol=1e-12)
            np.testing.assert_allclose(panda.tcp_rotation(q), hand[:3, :3], atol=1e-12)

    def test_the_upper_arm_of_the_xarm6_has_its_published_length(self):
        assert math.hypot(*CHAINS["xarm6"].joints[2].xyz) == pytest.approx(0.28949, abs=1e-5)


@pytest.mark.parametrize("arm", ["panda", "xarm6"])
class TestMechanics:
    def test_positions_and_rotations_equal_the_product_of_the_transforms(self, arm: str):
        arm_chain = chain(arm)
        for q in configurations(arm, count=20):
            pose = pose_by_scipy(CHAINS[arm], q)
            np.testing.assert_allclose(arm_chain.tcp_position(q), pose[:3, 3], atol=1e-12)
            np.testing.assert_allclose(arm_chain.tcp_rotation(q), pose[:3, :3], atol=1e-12)

    def test_rotations_are_rotations(self, arm: str):
        rotations = chain(arm).tcp_rotation(configurations(arm, count=200))
        products = rotations @ rotations.transpose(0, 2, 1)
        np.testing.assert_allclose(products, np.broadcast_to(np.eye(3), products.shape), atol=1e-13)
        np.testing.assert_allclose(np.linalg.det(rotations), 1.0, atol=1e-13)

    def test_linear_rows_are_the_derivative_of_the_position(self, arm: str):
        arm_chain, step = chain(arm), 1e-6
        for q in configurations(arm, count=20):
            jacobian = arm_chain.jacobian(q)
            for joint, direction in enumerate(np.eye(len(q))):
                ahead, behind = (arm_chain.tcp_position(q + sign * step * direction) for sign in (1, -1))
                np.testing.assert_allclose(jacobian[:3, joint], (ahead - behind) / (2 * step), atol=1e-6)

    def test_angular_rows_are_the_angular_velocity(self, arm: str):
        arm_chain, step = chain(arm), 1e-6
        for q in configurations(arm, count=20):
            jacobian = arm_chain.jacobian(q)
            for joint, direction in enumerate(np.eye(len(q))):
                ahead, behind = (arm_chain.tcp_rotation(q + sign * step * direction) for sign in (1, -1))
                velocity = Rotation.from_matrix(ahead @ behind.T).as_rotvec() / (2 * step)
                np.testing.assert_allclose(jacobian[3:, joint], velocity, atol=1e-6)

    def test_the_last_joint_does_not_move_the_tcp_that_lies_on_its_axis(self, arm: str):
        jacobians = chain(arm).jacobian(configurations(arm, count=50))
        np.testing.assert_allclose(jacobians[:, :3, -1], 0.0, atol=1e-12)

    def test_links_are_where_their_joints_put_them(self, arm: str):
        arm_chain = chain(arm)
        for q in configurations(arm, count=10):
            transforms = arm_chain.link_transforms(q)
            assert transforms.shape == (len(q) + 1, 4, 4)
            for n_links in range(len(q) + 1):
                np.testing.assert_allclose(
                    transforms[n_links], pose_by_scipy(CHAINS[arm], q, n_links=n_links), atol=1e-12
                )

    def test_links_of_the_tail_are_found_from_the_last_moving_one(self, arm: str):
        arm_chain, table = chain(arm), CHAINS[arm]
        q = configurations(arm, count=1)[0]
        index, offset = table.locate(table.end_link)
        tcp = arm_chain.link_transforms(q)[index] @ offset
        np.testing.assert_allclose(tcp[:3, 3], arm_chain.tcp_position(q), atol=1e-12)
        np.testing.assert_allclose(tcp[:3, :3], arm_chain.tcp_rotation(q), atol=1e-12)

    def test_jacobians_of_points_are_derivatives(self, arm: str):
        arm_chain, step, point = chain(arm), 1e-6, np.array([0.05, -0.1, 0.2])
        for q in configurations(arm, count=5):
            for link in range(len(q) + 1):
                jacobian = arm_chain.point_jacobian(q, link, point)
                for joint, direction in enumerate(np.eye(len(q))):
                    ahead, behind = (
                        arm_chain.link_transforms(q + sign * step * direction)[link] @ [*point, 1.0] for sign in (1, -1)
                    )
                    np.testing.assert_allclose(jacobian[:, joint], ((ahead - behind) / (2 * step))[:3], atol=1e-6)

    def test_the_jacobian_of_the_tcp_is_that_of_its_point(self, arm: str):
        arm_chain, table = chain(arm), CHAINS[arm]
        q = configurations(arm, count=8)
        index, offset = table.locate(table.end_link)
        np.testing.assert_allclose(
            arm_chain.point_jacobian(q, index, offset[:3, 3]), arm_chain.jacobian(q)[:, :3], atol=1e-12
        )

    def test_many_configurations_equal_single_ones_bit_for_bit(self, arm: str):
        arm_chain, point = chain(arm), [0.1, 0.2, -0.3]
        q = configurations(arm, count=64)
        functions = [
            arm_chain.tcp_position,
            arm_chain.tcp_rotation,
            arm_chain.jacobian,
            arm_chain.link_transforms,
            lambda joints: arm_chain.point_jacobian(joints, 3, point),
            *(lambda joints, k=k: arm_chain.tcp_kinematics(joints)[k] for k in range(3)),
        ]
        for function in functions:
            assert np.stack([function(row) for row in q]).tobytes() == function(q).tobytes()

    def test_one_pass_gives_what_three_give(self, arm: str):
        arm_chain, q = chain(arm), configurations(arm, count=4)
        together = arm_chain.tcp_kinematics(q)
        assert together.position.tobytes() == arm_chain.tcp_position(q).tobytes()
        assert together.rotation.tobytes() == arm_chain.tcp_rotation(q).tobytes()
        assert together.jacobian.tobytes() == arm_chain.jacobian(q).tobytes()

    def test_slices_lists_and_read_only_arrays_are_taken(self, arm: str):
        arm_chain = chain(arm)
        wide = np.repeat(configurations(arm, count=3), 2, axis=1)
        strided = wide[:, ::2]
        expected = arm_chain.tcp_position(strided.copy())
        frozen = strided.copy()
        frozen.setflags(write=False)
        for same in (strided, strided.tolist(), frozen, np.asfortranarray(strided)):
            assert arm_chain.tcp_position(same).tobytes() == expected.tobytes()

    def test_no_configurations_give_no_results(self, arm: str):
        arm_chain = chain(arm)
        assert arm_chain.jacobian(np.zeros((0, arm_chain.n_joints))).shape == (0, 6, arm_chain.n_joints)

    def test_other_shapes_are_refused(self, arm: str):
        arm_chain = chain(arm)
        n = arm_chain.n_joints
        for shape in ((n + 1,), (n - 1,), (2, n + 1), (1, 1, n), ()):
            for function in (arm_chain.tcp_position, arm_chain.jacobian, arm_chain.link_transforms):
                with pytest.raises(ValueError, match="q must have shape"):
                    function(np.zeros(shape))

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_what_is_not_finite_stays_visible(self, arm: str, value: float):
        arm_chain = chain(arm)
        q = np.zeros(arm_chain.n_joints)
        q[0] = value
        assert not np.isfinite(arm_chain.tcp_position(q)).any(where=[True, True, False])
        assert np.isnan(arm_chain.jacobian(q)).any()

    def test_points_and_links_that_are_not_there_are_refused(self, arm: str):
        arm_chain = chain(arm)
        q = np.zeros(arm_chain.n_joints)
        with pytest.raises(ValueError, match="point_in_link"):
            arm_chain.point_jacobian(q, 1, [0.0, 0.0])
        for link in (-1, arm_chain.n_joints + 1):
            with pytest.raises(ValueError, match="link_index"):
                arm_chain.point_jacobian(q, link, [0.0, 0.0, 0.0])


class TestTables:
    @pytest.mark.parametrize("arm", ["panda", "xarm6"])
    def test_limits_are_ordered(self, arm: str):
        table = CHAINS[arm]
        assert (table.lower < table.upper).all()
        assert (table.velocity > 0).all()
        assert (table.effort > 0).all()

    def test_names(self):
        panda = CHAINS["panda"]
        assert panda.joint_names == tuple(f"panda_joint{k}" for k in range(1, 8))
        assert panda.link_names == tuple(f"panda_link{k}" for k in range(8))
        assert panda.end_link == "panda_hand_tcp"
        assert CHAINS["xarm6"].end_link == "eef"

    def test_a_chain_can_end_earlier(self):
        panda = CHAINS["panda"]
        assert panda.ending_at("panda_hand").end_link == "panda_hand"
        shorter = panda.ending_at("panda_link4")
        assert shorter.end_link == "panda_link4"
        assert len(shorter.joints) == 4
        q = configurations("panda", count=1)[0]
        np.testing.assert_allclose(
            SerialChain(shorter).tcp_position(q[:4]), chain("panda").link_transforms(q)[4, :3, 3], atol=1e-15
        )

    def test_unknown_links_are_refused_with_those_there_are(self):
        with pytest.raises(KeyError, match="panda_hand_tcp"):
            CHAINS["panda"].locate("elbow")
        with pytest.raises(KeyError, match="elbow"):
            CHAINS["panda"].ending_at("elbow")


class TestAxes:
    @pytest.mark.parametrize("seed", range(4))
    def test_joints_turn_about_any_axis(self, seed: int):
        table = tilted_chain(seed)
        tilted = SerialChain(table)
        rng = derive_substream("test.serial_chain.angles", root_seed=seed).default_rng()
        for q in rng.uniform(-3, 3, (10, 5)):
            pose = pose_by_scipy(table, q)
            np.testing.assert_allclose(tilted.tcp_position(q), pose[:3, 3], atol=1e-12)
            np.testing.assert_allclose(tilted.tcp_rotation(q), pose[:3, :3], atol=1e-12)
            for n_links, transform in enumerate(tilted.link_transforms(q)):
                np.testing.assert_allclose(transform, pose_by_scipy(table, q, n_links=n_links), atol=1e-12)

    def test_its_arrays_lead_to_the_same_places(self):
        tilted, q = SerialChain(tilted_chain(0)), np.array([0.3, -1.0, 0.7, 2.0, -0.4])
        pose = np.eye(4)
        transforms = tilted.link_transforms(q)
        for place, step in enumerate(tilted.origins):
            pose = pose @ np.vstack([step, [0, 0, 0, 1]])
            if place < tilted.n_joints:
                pose[:3, :3] = pose[:3, :3] @ Rotation.from_euler("z", q[place]).as_matrix()
                link = pose[:3, :3] @ tilted.alignments[place + 1].T
                np.testing.assert_allclose(link, transforms[place + 1, :3, :3], atol=1e-14)
        np.testing.assert_allclose(pose[:3, 3], tilted.tcp_position(q), atol=1e-14)
        np.testing.assert_allclose(pose[:3, :3], tilted.tcp_rotation(q), atol=1e-14)

    def test_jacobians_of_such_a_chain_are_derivatives(self):
        tilted, step, point = SerialChain(tilted_chain(0)), 1e-6, np.array([0.1, -0.2, 0.3])
        q = np.array([0.3, -1.0, 0.7, 2.0, -0.4])
        jacobian, of_point = tilted.jacobian(q), tilted.point_jacobian(q, 4, point)
        for joint, direction in enumerate(np.eye(5)):
            ahead, behind = (tilted.tcp_position(q + sign * step * direction) for sign in (1, -1))
            np.testing.assert_allclose(jacobian[:3, joint], (ahead - behind) / (2 * step), atol=1e-6)
            ahead, behind = (tilted.link_transforms(q + sign * step * direction)[4] @ [*point, 1.0] for sign in (1, -1))
            np.testing.assert_allclose(of_point[:, joint], ((ahead - behind) / (2 * step))[:3], atol=1e-6)


angle = st.floats(-math.pi, math.pi)


class TestTransforms:
    @given(st.tuples(angle, st.floats(-math.pi / 2, math.pi / 2), angle))
    def test_angles_come_back_as_the_same_rotation(self, rpy: tuple[float, float, float]):
        rotation = rotation_from_rpy(rpy)
        np.testing.assert_allclose(rotation_from_rpy(rotation_to_rpy(rotation)), rotation, atol=1e-14)

    @pytest.mark.parametrize("pitch", [math.pi / 2, -math.pi / 2, math.pi / 2 - 1e-9, 1e-10 - math.pi / 2])
    def test_also_where_the_pitch_is_a_right_angle(self, pitch: float):
        rotation, other = rotation_from_rpy((0.7, pitch, -1.3)), rotation_from_rpy((0.3, 0.2, 0.1))
        for same in (rotation, other.T @ (other @ rotation)):  # the second has entries that are zero but for rounding
            np.testing.assert_allclose(rotation_from_rpy(rotation_to_rpy(same)), rotation, atol=1e-14)

    @given(st.tuples(angle, angle, angle))
    def test_angles_mean_what_they_mean_elsewhere(self, rpy: tuple[float, float, float]):
        np.testing.assert_allclose(rotation_from_rpy(rpy), Rotation.from_euler("xyz", rpy).as_matrix(), atol=1e-14)

    @given(st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda axis: math.hypot(*axis) > 1e-3))
    def test_z_is_carried_onto_every_axis_by_a_rotation(self, axis: tuple[float, float, float]):
        unit = np.array(axis) / math.hypot(*axis)
        rotation = rotation_to_axis(tuple(unit))
        np.testing.assert_allclose(rotation @ [0, 0, 1], unit, atol=1e-14)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-13)
        assert np.linalg.det(rotation) > 0

    def test_nothing_is_turned_for_z_itself(self):
        assert (rotation_to_axis((0.0, 0.0, 1.0)) == np.eye(3)).all()


@pytest.mark.parametrize("arm", sorted(CHAINS))
def test_plain_numbers_are_those_of_the_compiled_code(arm: str):
    serial = chain(arm)
    for joints in configurations(arm, count=200):
        position, rotation, jacobian = serial.tcp_kinematics(joints)
        numbers = serial.tcp_numbers(joints.tolist())
        assert np.array(numbers.position).tobytes() == position.tobytes()
        assert np.array(numbers.columns).T.tobytes() == jacobian[:3].tobytes()
        pose = serial.pose_numbers(joints.tolist())
        assert np.array(pose.position).tobytes() == position.tobytes()
        assert np.array(pose.rotation).tobytes() == rotation.tobytes()
        assert np.array(pose.jacobian).tobytes() == jacobian.tobytes()
