"""Robots do under their actions what the actions say, and nothing when they say nothing."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from chamber.sim import make_backend
from chamber.sim.robots import robot_model, robot_names
from chamber.sim.scene import (
    BodySpec,
    ContactRule,
    GeomSpec,
    Motion,
    RobotSpec,
    SceneSpec,
    Shape,
    finger_group,
)

FloatArray = NDArray[np.float64]

SUBSTEPS = 25
CONTROL_STEPS_PER_SECOND = 20
ARM_SPEED = 1.0
"""rad/s at which a drive of 1000 N m/rad and 100 N m s/rad follows a target that is 0.1 rad ahead; so do the others."""


class Rig:
    """A robot alone, with the options of the simulator's scenes and without contact."""

    def __init__(self, name: str) -> None:
        self.robot = robot_model(name)
        self.model = mujoco.MjModel.from_xml_string(self.robot.mjcf_text())
        self.model.opt.timestep = 0.002
        self.model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
        self.model.geom_contype[:] = 0
        self.model.geom_conaffinity[:] = 0
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(joint) for joint in self.robot.joint_names]
        self.qpos_places = np.array([joint.qposadr[0] for joint in joints])
        self.dof_places = np.array([joint.dofadr[0] for joint in joints])
        self.data.qpos[self.qpos_places] = self.robot.ready_qpos

    @property
    def qpos(self) -> FloatArray:
        return self.data.qpos[self.qpos_places].copy()

    @property
    def qvel(self) -> FloatArray:
        return self.data.qvel[self.dof_places].copy()

    def step(self, action: FloatArray) -> float:
        """Simulate one control step and give the largest speed of each joint on the way."""
        self.data.ctrl[:] = self.robot.targets(action[None], self.qpos[None])[0]
        fastest = np.zeros(self.robot.n_joints)
        for _ in range(SUBSTEPS):
            mujoco.mj_step(self.model, self.data)
            fastest = np.maximum(fastest, np.abs(self.qvel))
        return fastest


@pytest.mark.parametrize("name", robot_names())
def test_a_robot_that_is_told_nothing_stays_where_it_is_for_five_seconds(name: str) -> None:
    rig = Rig(name)
    start = rig.qpos
    for _ in range(5 * CONTROL_STEPS_PER_SECOND):
        rig.step(np.zeros(rig.robot.action_dim))
    assert np.all(np.isfinite(rig.data.qpos))
    assert np.abs(rig.qpos - start)[rig.robot.body_joints].max() <= 1e-9
    assert np.abs(rig.qvel).max() <= 1e-7


@pytest.mark.parametrize("name", robot_names())
def test_a_robot_that_is_pushed_comes_to_rest(name: str) -> None:
    rig = Rig(name)
    moving = np.arange(rig.robot.n_joints)[rig.robot.body_joints]
    rig.data.qvel[rig.dof_places[moving]] = np.resize([0.5, -0.5], len(moving))
    for _ in range(4 * CONTROL_STEPS_PER_SECOND):
        rig.step(np.zeros(rig.robot.action_dim))
    assert np.abs(rig.qvel).max() <= 1e-3


@pytest.mark.parametrize("name", robot_names())
def test_reversing_full_commands_never_makes_a_joint_fly(name: str) -> None:
    rig = Rig(name)
    rng = np.random.default_rng(0)
    # a joint is faster than its drive for a moment when another one throws it about
    limits = {"allegro_hand_right": 4.0, "fetch": 6.0, "xarm6_robotiq": 3.0}
    fastest = np.zeros(rig.robot.n_joints)
    for _ in range(5 * CONTROL_STEPS_PER_SECOND):
        fastest = np.maximum(fastest, rig.step(rng.choice([-1.0, 1.0], rig.robot.action_dim)))
    assert fastest.max() <= limits.get(name, 3.0) * ARM_SPEED


def displaced_joints(name: str) -> list[tuple[int, int, float]]:
    """Action components that displace a joint, with that joint and the displacement that they ask for."""
    robot = robot_model(name)
    ready, zero = robot.ready_qpos[None], np.zeros((1, robot.action_dim))
    found = []
    for component in range(robot.action_dim):
        action = zero.copy()
        action[0, component] = 1.0
        asked = (robot.targets(action, ready) - robot.targets(zero, ready))[0]
        joint = robot.joint_names.index(robot.actuator_names[int(np.argmax(np.abs(asked)))])
        if joint in np.arange(robot.n_joints)[robot.body_joints] and "root" not in robot.joint_names[joint]:
            found.append((component, joint, float(np.abs(asked).max())))
    return found


@pytest.mark.parametrize("name", robot_names())
def test_a_displacement_is_approached_with_the_time_constant_of_the_drive(name: str) -> None:
    # 1 - exp(-0.05/0.1) of it within a control step, less what the mass of the joint makes it lag
    shares = (0.5, 0.65) if name == "allegro_hand_right" else (0.15, 0.40)
    for component, joint, asked in displaced_joints(name):
        rig = Rig(name)
        ready = rig.robot.ready_qpos[joint]
        towards_middle = 1.0 if rig.robot.joint_upper[joint] - ready >= ready - rig.robot.joint_lower[joint] else -1.0
        action = np.zeros(rig.robot.action_dim)
        action[component] = towards_middle
        rig.step(action)
        share = towards_middle * (rig.qpos[joint] - ready) / asked
        assert shares[0] <= share <= shares[1], rig.robot.joint_names[joint]


@pytest.mark.parametrize("name", robot_names())
def test_limits_hold_a_drive_that_pushes_against_them(name: str) -> None:
    for component, joint, _ in displaced_joints(name):
        for direction in (1.0, -1.0):
            rig = Rig(name)
            limit = rig.robot.joint_upper[joint] if direction > 0.0 else rig.robot.joint_lower[joint]
            if not np.isfinite(limit):
                continue
            rig.data.qpos[rig.qpos_places[joint]] = limit - 0.1 * direction
            action = np.zeros(rig.robot.action_dim)
            action[component] = direction
            beyond = []
            for _ in range(2 * CONTROL_STEPS_PER_SECOND):
                rig.step(action)
                beyond.append(direction * (rig.qpos[joint] - limit))
            message = f"{rig.robot.joint_names[joint]} {direction}"
            assert max(beyond) <= 0.01, message
            assert -1e-3 <= beyond[-1] <= 1e-3, message
            assert np.abs(rig.qvel).max() <= 1e-3, message


@pytest.mark.parametrize("name", [name for name in robot_names() if name.startswith("panda")])
def test_the_panda_opens_and_closes_its_hand_with_equal_fingers(name: str) -> None:
    rig = Rig(name)
    for gripper, expected in ((-1.0, 0.0), (0.2, 0.02), (1.0, 0.04)):
        for _ in range(2 * CONTROL_STEPS_PER_SECOND):
            rig.step(np.array([0.0] * 7 + [gripper]))
        left, right = rig.qpos[7:]
        assert left == pytest.approx(expected, abs=5e-4)
        assert left == pytest.approx(right, abs=1e-5)
        assert np.abs(rig.qvel).max() <= 1e-4


@pytest.mark.parametrize("name", ["fetch", "panda_wristcam"])
def test_a_push_on_one_finger_moves_both(name: str) -> None:
    rig = Rig(name)
    action = np.zeros(rig.robot.action_dim)
    finger = rig.robot.finger_links[0]
    for _ in range(CONTROL_STEPS_PER_SECOND):
        rig.step(action)
    alone = rig.qpos[-2:]
    rotation = rig.data.body(finger).xmat.reshape(3, 3)
    rig.data.body(finger).xfrc_applied[:3] = -5.0 * rotation @ np.array(rig.robot.opening_axes[finger])
    for _ in range(CONTROL_STEPS_PER_SECOND):
        rig.step(action)
    yielded = alone - rig.qpos[-2:]
    # 5 N against two drives of 1000 N/m
    np.testing.assert_allclose(yielded, [0.0025, 0.0025], atol=2e-4)


def test_the_gripper_of_the_xarm6_closes_parallel_and_even() -> None:
    rig = Rig("xarm6_robotiq")

    def pad(side: str) -> tuple[FloatArray, FloatArray]:
        mujoco.mj_kinematics(rig.model, rig.data)
        base = rig.data.body("robotiq_arg2f_base_link")
        rotation = base.xmat.reshape(3, 3)
        site = rig.data.site(f"{side}_inner_finger_pad")
        return rotation.T @ (site.xpos - base.xpos), rotation.T @ site.xmat.reshape(3, 3)[:, 2]

    gaps = []
    for _ in range(CONTROL_STEPS_PER_SECOND):
        (left, left_axis), (right, right_axis) = pad("left"), pad("right")
        np.testing.assert_allclose(left, right * (1.0, -1.0, 1.0), atol=1e-6)
        # closed, the knuckles end at 0.81 and the fingers at 0.8757, as the published limits have it
        np.testing.assert_allclose(left_axis, [0.0, 0.0, 1.0], atol=0.07)
        np.testing.assert_allclose(right_axis, [0.0, 0.0, 1.0], atol=0.07)
        gaps.append(right[1] - left[1])
        rig.step(np.array([0.0] * 6 + [1.0]))
    assert gaps[0] == pytest.approx(0.085 + 2 * 0.003175, abs=2e-3)  # the stroke of 85 mm and two half pads
    assert gaps[-1] < 0.00635 + 0.005  # two half pads and 5 mm
    assert np.all(np.diff([gap for gap in gaps if gap > 0.02]) < 0.0)


def test_fetch_drives_where_it_looks() -> None:
    rig = Rig("fetch")
    heading = 0.7
    rig.data.qpos[rig.qpos_places[2]] = heading
    action = np.zeros(13)
    action[11] = 1.0
    for _ in range(CONTROL_STEPS_PER_SECOND):
        rig.step(action)
    x, y, yaw = rig.qpos[:3]
    travelled = np.hypot(x, y)
    assert 0.8 <= travelled <= 1.0  # 1 m/s for a second, less the start
    np.testing.assert_allclose([x, y], travelled * np.array([np.cos(heading), np.sin(heading)]), atol=0.02)
    assert yaw == pytest.approx(heading, abs=0.02)
    assert np.hypot(*rig.qvel[:2]) == pytest.approx(1.0, abs=0.02)


def test_fetch_turns_at_its_published_rate() -> None:
    rig = Rig("fetch")
    action = np.zeros(13)
    action[12] = -1.0
    for _ in range(CONTROL_STEPS_PER_SECOND):
        rig.step(action)
    assert rig.qvel[2] == pytest.approx(-3.14, abs=0.02)


def test_the_panda_lifts_a_cube_and_holds_it() -> None:
    panda = robot_model("panda_wristcam")
    base = (-0.615, 0.0, 0.0)
    cube = BodySpec(
        name="cube",
        motion=Motion.FREE,
        position=(0.0, 0.0, 0.1698),
        geoms=(GeomSpec(name="box", shape=Shape.BOX, size=(0.02,) * 3, group="cube"),),
    )
    scene = SceneSpec(
        robots=(RobotSpec(uid="arm", model="panda_wristcam", base_position=base),),
        bodies=(cube,),
        contacts=(ContactRule(finger_group("arm"), "cube"),),
    )
    rig = make_backend(scene)
    try:
        closed = panda.ready_qpos.copy()
        closed[7:] = 0.0201
        rig.reset({"arm": closed[None]}, {})
        held = []
        for step in range(2 * CONTROL_STEPS_PER_SECOND):
            lift = -0.5 if step >= CONTROL_STEPS_PER_SECOND // 2 else 0.0
            action = np.zeros((1, 8))
            action[0, 1], action[0, 7] = lift, -1.0
            rig.apply("arm", action)
            rig.advance()
            held.append(rig.body_pose("cube")[0, :3] - rig.link_pose("arm", "panda_hand_tcp")[0, :3])
        assert rig.body_pose("cube")[0, 2] > 0.3
        assert np.abs(np.array(held)).max() < 0.005
        assert rig.penetration(finger_group("arm"), "cube")[0] < 5e-4
    finally:
        rig.close()
