"""The models of robots are where their kinematic tables say, and move as their Jacobians say."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS
from chamber.sim.robots import robot_model, robot_names

FloatArray = NDArray[np.float64]

ARMS = {"panda_partner": "panda", "panda_wristcam": "panda", "xarm6_robotiq": "xarm6"}
N_CONFIGURATIONS = 25


class Rig:
    """A robot alone in MuJoCo."""

    def __init__(self, name: str) -> None:
        self.robot = robot_model(name)
        self.model = mujoco.MjModel.from_xml_string(self.robot.mjcf_text())
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(joint) for joint in self.robot.joint_names]
        self.qpos_places = np.array([joint.qposadr[0] for joint in joints])
        self.dof_places = np.array([joint.dofadr[0] for joint in joints])

    def configurations(self, seed: int) -> FloatArray:
        """Joint positions within the limits, +-3 where there are none."""
        low = np.maximum(self.robot.joint_lower, -3.0)
        high = np.minimum(self.robot.joint_upper, 3.0)
        return np.random.default_rng(seed).uniform(low, high, (N_CONFIGURATIONS, self.robot.n_joints))

    def place(self, qpos: FloatArray) -> None:
        self.data.qpos[self.qpos_places] = qpos
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)

    def pose(self, link: str) -> tuple[FloatArray, FloatArray]:
        if mujoco.mj_name2id(self.model, int(mujoco.mjtObj.mjOBJ_SITE), link) >= 0:
            frame = self.data.site(link)
        else:
            frame = self.data.body(link)
        return frame.xpos.copy(), frame.xmat.reshape(3, 3).copy()

    def jacobian(self, link: str) -> FloatArray:
        """Of the origin of a link, linear rows first, columns in the order of the robot's joints."""
        position, _ = self.pose(link)
        site = mujoco.mj_name2id(self.model, int(mujoco.mjtObj.mjOBJ_SITE), link)
        body = int(self.model.site_bodyid[site]) if site >= 0 else self.model.body(link).id
        rows = np.zeros((6, self.model.nv))
        mujoco.mj_jac(self.model, self.data, rows[:3], rows[3:], position, body)
        return rows[:, self.dof_places]


@pytest.mark.parametrize("name", ARMS)
def test_every_link_of_an_arm_is_where_its_chain_says(name: str) -> None:
    rig, chain = Rig(name), SerialChain(CHAINS[ARMS[name]])
    links = (*chain.table.link_names, *(fixed.child for fixed in chain.table.tail))
    for qpos in rig.configurations(0):
        rig.place(qpos)
        transforms = chain.link_transforms(qpos[rig.robot.arm_joints])
        for link in links:
            index, offset = chain.table.locate(link)
            expected = transforms[index] @ offset
            position, rotation = rig.pose(link)
            np.testing.assert_allclose(position, expected[:3, 3], atol=1e-9, err_msg=link)
            np.testing.assert_allclose(rotation, expected[:3, :3], atol=1e-9, err_msg=link)


@pytest.mark.parametrize("name", ARMS)
def test_the_jacobian_of_an_arm_is_that_of_its_chain(name: str) -> None:
    rig, chain = Rig(name), SerialChain(CHAINS[ARMS[name]])
    for qpos in rig.configurations(1):
        rig.place(qpos)
        arm = qpos[rig.robot.arm_joints]
        np.testing.assert_allclose(
            rig.jacobian(rig.robot.tcp_link)[:, rig.robot.arm_joints], chain.jacobian(arm), atol=1e-9
        )


@pytest.mark.parametrize("name", robot_names())
def test_named_places_move_as_finite_differences_say(name: str) -> None:
    rig = Rig(name)
    step = 1e-6
    for link in {rig.robot.tcp_link, rig.robot.hold_link, *rig.robot.finger_links}:
        for qpos in rig.configurations(2)[:3]:
            rig.place(qpos)
            jacobian = rig.jacobian(link)[:3]
            differences = np.empty_like(jacobian)
            for joint in range(rig.robot.n_joints):
                shifted = np.tile(qpos, (2, 1))
                shifted[:, joint] += (step, -step)
                places = []
                for configuration in shifted:
                    rig.place(configuration)
                    places.append(rig.pose(link)[0])
                differences[:, joint] = (places[0] - places[1]) / (2.0 * step)
            np.testing.assert_allclose(jacobian, differences, atol=1e-8, err_msg=link)


@pytest.mark.parametrize("name", ARMS)
def test_limits_of_an_arm_are_those_of_its_chain(name: str) -> None:
    robot, chain = robot_model(name), CHAINS[ARMS[name]]
    assert robot.joint_names[robot.arm_joints] == chain.joint_names
    np.testing.assert_array_equal(robot.joint_lower[robot.arm_joints], chain.lower)
    np.testing.assert_array_equal(robot.joint_upper[robot.arm_joints], chain.upper)
    np.testing.assert_array_equal(robot.joint_velocity_limits[robot.arm_joints], chain.velocity)


def test_a_stretched_fetch_reaches_as_far_as_its_links_are_long() -> None:
    rig = Rig("fetch")
    qpos = np.zeros(rig.robot.n_joints)
    qpos[rig.robot.joint_names.index("torso_lift_joint")] = 0.1
    rig.place(qpos)
    position, rotation = rig.pose("gripper_link")
    arm = (0.119525, 0.117, 0.219, 0.133, 0.197, 0.1245, 0.1385, 0.16645)
    np.testing.assert_allclose(position, [sum(arm) - 0.086875, 0.0, 0.37743 + 0.1 + 0.34858 + 0.06], atol=1e-12)
    np.testing.assert_allclose(rotation, np.eye(3), atol=1e-12)
    camera, _ = rig.pose("head_camera_link")
    height = 0.37743 + 0.1 + 0.603001417713939 + 0.057999 + 0.0225
    np.testing.assert_allclose(camera, [-0.086875 + 0.053125 + 0.14253 + 0.055, 0.0, height], atol=1e-12)


def test_the_base_of_fetch_moves_along_its_root_and_then_turns() -> None:
    rig = Rig("fetch")
    qpos = np.zeros(rig.robot.n_joints)
    qpos[:3] = (1.0, 2.0, math.pi / 2)
    rig.place(qpos)
    position, rotation = rig.pose("base_link")
    np.testing.assert_allclose(position, [1.0, 2.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(rotation[:, 0], [0.0, 1.0, 0.0], atol=1e-12)


def test_the_stretched_fingers_of_allegro_are_as_long_as_their_links() -> None:
    rig = Rig("allegro_hand_right")
    rig.place(np.zeros(16))
    middle, _ = rig.pose("link_7.0_tip")
    length = 0.0164 + 0.054 + 0.0384 + 0.0267
    np.testing.assert_allclose(middle, [0.0, 0.0, 0.0007 + length], atol=1e-12)
    index, _ = rig.pose("link_3.0_tip")
    lean = 0.08726646255
    np.testing.assert_allclose(
        index, [0.0, 0.0435 + length * math.sin(lean), -0.001542 + length * math.cos(lean)], atol=1e-12
    )
    ring, _ = rig.pose("link_11.0_tip")
    np.testing.assert_allclose(ring, index * (1.0, -1.0, 1.0), atol=1e-12)


def test_the_camera_of_the_panda_looks_along_its_hand() -> None:
    rig = Rig("panda_wristcam")
    rig.place(rig.robot.ready_qpos)
    hand, hand_rotation = rig.pose("panda_hand")
    camera, camera_rotation = rig.pose("camera_link")
    np.testing.assert_allclose(camera_rotation[:, 0], hand_rotation[:, 2], atol=2e-4)
    # 0.035 and 0.0115 along hand x, 0.02 against hand y, 0.036 along hand z; the published angles are rounded to 1e-4
    np.testing.assert_allclose(hand_rotation.T @ (camera - hand), [0.0465, -0.02, 0.036], atol=5e-6)


def test_the_fingertips_of_the_panda_reach_9_5_mm_beyond_its_tcp() -> None:
    rig = Rig("panda_wristcam")
    rig.place(rig.robot.ready_qpos)
    tcp, rotation = rig.pose("panda_hand_tcp")
    for side in ("left", "right"):
        pad = rig.model.geom(f"panda_{side}finger_pad_box")
        tip = rig.data.geom(f"panda_{side}finger_pad_box").xpos + rotation[:, 2] * pad.size[2]
        assert (tip - tcp) @ rotation[:, 2] == pytest.approx(0.0095, abs=1e-9)


def test_the_pads_of_the_partner_are_where_its_description_puts_them() -> None:
    rig = Rig("panda_partner")
    rig.place(rig.robot.ready_qpos)
    for side in ("left", "right"):
        finger, rotation = rig.pose(f"panda_{side}finger")
        pad, _ = rig.pose(f"panda_{side}finger_pad")
        np.testing.assert_allclose(rotation.T @ (pad - finger), [0.0, 0.0, 0.0455], atol=1e-12)


@pytest.mark.parametrize("name", [name for name in robot_names() if robot_model(name).opening_axes])
def test_opening_moves_every_finger_along_its_opening_axis(name: str) -> None:
    rig = Rig(name)
    opening_speeds = -np.ones(6) if name == "xarm6_robotiq" else np.ones(2)  # the 2F-85 closes with growing angles
    speeds = np.zeros(rig.robot.n_joints)
    speeds[-len(opening_speeds) :] = opening_speeds
    if name == "xarm6_robotiq":
        speeds[-2:] = 1.0
    rig.place(rig.robot.ready_qpos)
    for link, axis in rig.robot.opening_axes.items():
        _, rotation = rig.pose(link)
        velocity = rig.jacobian(link)[:3] @ speeds
        assert velocity @ rotation @ np.array(axis) > 0.0, link
