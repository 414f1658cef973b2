"""What a robot model says about a robot: names, masses, limits, capsules, and what an action aims at."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chamber.sim.robots import RobotModel, robot_model, robot_names
from chamber.sim.robots._mjcf import Document

FloatArray = NDArray[np.float64]

PANDA_MASSES = {
    "panda_link0": 0.629769,
    "panda_link1": 4.970684,
    "panda_link2": 0.646926,
    "panda_link3": 3.228604,
    "panda_link4": 3.587895,
    "panda_link5": 1.225946,
    "panda_link6": 1.666555,
    "panda_link7": 0.735522,
    "panda_hand": 0.73,
    "panda_leftfinger": 0.015,
    "panda_rightfinger": 0.015,
}
XARM6_MASSES = {
    "link_base": 2.7,
    "link1": 2.16,
    "link2": 1.71,
    "link3": 1.384,
    "link4": 1.115,
    "link5": 1.275,
    "link6": 0.1096,
    "robotiq_arg2f_base_link": 0.22652,
}
SIZES = {  # joints, action components, joints that count as moving
    "allegro_hand_right": (16, 16, 16),
    "fetch": (15, 13, 13),
    "panda_partner": (9, 8, 7),
    "panda_wristcam": (9, 8, 7),
    "xarm6_robotiq": (12, 7, 6),
}


def compiled(robot: RobotModel) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(robot.mjcf_text())


def masses(robot: RobotModel) -> dict[str, float]:
    return {inertial.link: inertial.mass for inertial in robot.link_inertials}


# --- names --------------------------------------------------------------------------------------------------


def test_an_unknown_robot_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(KeyError, match="there is no robot 'panda'; there are allegro_hand_right, fetch, panda_partner"):
        robot_model("panda")


def test_the_robots_are_those_of_the_tasks() -> None:
    assert robot_names() == tuple(sorted(SIZES))


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_spaces(name: str) -> None:
    robot = robot_model(name)
    moving = np.arange(robot.n_joints)[robot.body_joints]
    assert (robot.n_joints, robot.action_dim, len(moving)) == SIZES[name]
    assert set(np.arange(robot.n_joints)[robot.arm_joints]) <= set(moving)


def test_models_need_no_simulator() -> None:
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "from chamber.sim.robots import robot_model, robot_names\n"
        "print(sum(len(robot_model(name).mjcf_text()) > 1000 for name in robot_names()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(len(SIZES))


def test_variants_of_the_panda_differ_by_camera_and_pads() -> None:
    with_camera, partner = (set(robot_model(name).link_names) for name in ("panda_wristcam", "panda_partner"))
    assert with_camera - partner == {"camera_base_link", "camera_link"}
    assert partner - with_camera == {"panda_leftfinger_pad", "panda_rightfinger_pad"}


def test_the_order_of_the_joints_of_fetch_is_the_documented_one() -> None:
    assert robot_model("fetch").joint_names == (
        "root_x_axis_joint",
        "root_y_axis_joint",
        "root_z_rotation_joint",
        "torso_lift_joint",
        "head_pan_joint",
        "shoulder_pan_joint",
        "head_tilt_joint",
        "shoulder_lift_joint",
        "upperarm_roll_joint",
        "elbow_flex_joint",
        "forearm_roll_joint",
        "wrist_flex_joint",
        "wrist_roll_joint",
        "r_gripper_finger_joint",
        "l_gripper_finger_joint",
    )


# --- the MJCF -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
def test_the_mjcf_has_what_the_model_names(name: str) -> None:
    robot = robot_model(name)
    model = compiled(robot)
    frames = {model.body(place).name for place in range(1, model.nbody)} | {
        model.site(place).name for place in range(model.nsite)
    }
    assert set(robot.link_names) == frames
    assert len(robot.link_names) == len(frames)
    assert {robot.tcp_link, robot.hold_link, *robot.finger_links, *robot.opening_axes} <= frames
    assert set(robot.opening_axes) in (set(), set(robot.finger_links))
    assert {model.joint(place).name for place in range(model.njnt)} == set(robot.joint_names)
    assert tuple(model.actuator(place).name for place in range(model.nu)) == robot.actuator_names
    for place in range(model.nu):
        joint = model.joint(int(model.actuator_trnid[place, 0])).name
        assert robot.actuator_names[place] == joint


@pytest.mark.parametrize("name", SIZES)
def test_limits_and_inertias_are_those_that_mujoco_uses(name: str) -> None:
    robot = robot_model(name)
    model = compiled(robot)
    for place, joint in enumerate(robot.joint_names):
        element = model.joint(joint)
        expected = tuple(element.range) if model.jnt_limited[element.id] else (-math.inf, math.inf)
        assert (robot.joint_lower[place], robot.joint_upper[place]) == expected
        assert robot.joint_armature[place] == model.dof_armature[element.dofadr[0]]
    assert sum(masses(robot).values()) == pytest.approx(float(model.body_mass.sum()), abs=1e-9)
    for inertial in robot.link_inertials:
        body = model.body(inertial.link)
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, body.iquat)
        axes = rotation.reshape(3, 3)
        assert body.mass[0] == inertial.mass
        np.testing.assert_allclose(body.ipos, inertial.center_of_mass, atol=1e-12)
        np.testing.assert_allclose(axes @ np.diag(body.inertia) @ axes.T, inertial.inertia, atol=1e-9)


@pytest.mark.parametrize("name", SIZES)
def test_the_ready_posture_is_within_the_limits(name: str) -> None:
    robot = robot_model(name)
    assert np.all(robot.ready_qpos >= robot.joint_lower)
    assert np.all(robot.ready_qpos <= robot.joint_upper)
    assert np.all(robot.joint_velocity_limits > 0.0)


@pytest.mark.parametrize("name", SIZES)
def test_robots_have_no_weight_and_their_geoms_have_a_class(name: str) -> None:
    robot = robot_model(name)
    assert np.all(compiled(robot).body_gravcomp[1:] == 1.0)
    geoms = list(ElementTree.fromstring(robot.mjcf_text()).find("worldbody").iter("geom"))
    assert {geom.get("class") for geom in geoms} == {"arm", "finger", "visual"}
    assert all("name" in geom.attrib for geom in geoms if geom.get("class") != "visual")


def test_masses_of_the_pandas_are_the_published_ones() -> None:
    assert masses(robot_model("panda_partner")) == PANDA_MASSES
    assert masses(robot_model("panda_wristcam")) == {**PANDA_MASSES, "camera_link": 0.564}


def test_masses_of_the_xarm6_are_the_published_ones() -> None:
    found = masses(robot_model("xarm6_robotiq"))
    assert {link: found[link] for link in XARM6_MASSES} == XARM6_MASSES


def test_fetch_weighs_what_it_weighs() -> None:
    assert sum(masses(robot_model("fetch")).values()) == pytest.approx(121.3, abs=1e-9)


def test_drives_are_the_documented_ones() -> None:
    panda, xarm6 = compiled(robot_model("panda_wristcam")), compiled(robot_model("xarm6_robotiq"))
    for model, stiffness, damping, joint_damping, joints in (
        (panda, 1e3, 1e2, 0.003, range(7)),
        (xarm6, 1e4, 1e3, 1.0, range(6)),
    ):
        for joint in joints:
            assert model.actuator_gainprm[joint, 0] == stiffness
            of_drive = -model.actuator_biasprm[joint, 2]
            assert of_drive + model.dof_damping[joint] == pytest.approx(damping + joint_damping, abs=1e-12)
            assert tuple(model.actuator_forcerange[joint]) == (-100.0, 100.0)
    fetch = compiled(robot_model("fetch"))
    for joint in range(3):
        assert fetch.actuator_gainprm[joint, 0] == -fetch.actuator_biasprm[joint, 2] == 1000.0
        assert tuple(fetch.actuator_forcerange[joint]) == (-500.0, 500.0)


@pytest.mark.parametrize("name", SIZES)
def test_fingers_hold_and_links_slide(name: str) -> None:
    spec = mujoco.MjSpec.from_string(robot_model(name).mjcf_text())
    frictions = {"arm": 0.3, "finger": 2.0}
    for geom in spec.geoms:
        if geom.classname.name in frictions:
            assert geom.friction[0] == frictions[geom.classname.name], geom.name


# --- capsules -----------------------------------------------------------------------------------------------


def surface_points(model: mujoco.MjModel, geom: int, rng: np.random.Generator) -> FloatArray:
    """Points on the surface of a geom in its own frame; all corners of a box."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == int(mujoco.mjtGeom.mjGEOM_MESH):
        mesh = int(model.geom_dataid[geom])
        first = int(model.mesh_vertadr[mesh])
        return model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])]
    if kind == int(mujoco.mjtGeom.mjGEOM_BOX):
        return np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T * size
    directions = rng.normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if kind == int(mujoco.mjtGeom.mjGEOM_SPHERE):
        return directions * size[0]
    if kind == int(mujoco.mjtGeom.mjGEOM_CAPSULE):
        return directions * size[0] + np.sign(directions[:, 2:]) * (0.0, 0.0, size[1])
    assert kind == int(mujoco.mjtGeom.mjGEOM_CYLINDER)
    across = directions[:, :2] / np.linalg.norm(directions[:, :2], axis=1, keepdims=True)
    return np.column_stack([across * size[0], np.sign(directions[:, 2]) * size[1]])


def protrusion(robot: RobotModel, qpos: FloatArray, geom_class: str) -> float:
    """How far geoms of a class stick out of the capsules of a robot, m."""
    spec = mujoco.MjSpec.from_string(robot.mjcf_text())
    chosen = [place for place, geom in enumerate(spec.geoms) if geom.classname.name == geom_class]
    model = spec.compile()
    data = mujoco.MjData(model)
    for joint, value in zip(robot.joint_names, qpos, strict=True):
        data.joint(joint).qpos[0] = value
    mujoco.mj_kinematics(model, data)
    starts, ends = (
        np.array(
            [
                data.body(capsule.link).xpos + data.body(capsule.link).xmat.reshape(3, 3) @ getattr(capsule, end)
                for capsule in robot.arm_geom_capsules
            ]
        )
        for end in ("start", "end")
    )
    radii = np.array([capsule.radius for capsule in robot.arm_geom_capsules])
    rng = np.random.default_rng(0)
    points = np.vstack(
        [
            surface_points(model, geom, rng) @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
            for geom in chosen
        ]
    )
    axes = ends - starts
    along = np.einsum("pck,ck->pc", points[:, None] - starts, axes) / np.maximum((axes**2).sum(axis=1), 1e-12)
    nearest = starts + np.clip(along, 0.0, 1.0)[..., None] * axes
    return float((np.linalg.norm(points[:, None] - nearest, axis=2) - radii).min(axis=1).max())


def openings(robot: RobotModel) -> list[FloatArray]:
    """The ready posture with the gripper open, half open and closed."""
    postures = []
    for share in (0.0, 0.5, 1.0):
        qpos = robot.ready_qpos.copy()
        gripper = np.setdiff1d(np.arange(robot.n_joints), np.arange(robot.n_joints)[robot.body_joints])
        if robot.name == "xarm6_robotiq":
            qpos[gripper] = share * 0.81 * np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
        else:
            qpos[gripper] = share * robot.joint_upper[gripper]
        postures.append(qpos)
    return postures


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("geom_class", ["arm", "finger"])
def test_the_capsules_contain_all_that_can_touch_something(name: str, geom_class: str) -> None:
    robot = robot_model(name)
    assert max(protrusion(robot, qpos, geom_class) for qpos in openings(robot)) <= 1e-9


@pytest.mark.parametrize("name", SIZES)
def test_the_capsules_contain_what_is_drawn_but_for_edges(name: str) -> None:
    robot = robot_model(name)
    edge = 0.035 if name == "fetch" else 0.015  # the rims of its base and the corners of its column
    assert max(protrusion(robot, qpos, "visual") for qpos in openings(robot)) <= edge


# --- actions ------------------------------------------------------------------------------------------------


def clipped(action: FloatArray) -> FloatArray:
    return np.clip(action, -1.0, 1.0)


@st.composite
def commands(draw: st.DrawFn, name: str) -> tuple[FloatArray, FloatArray]:
    """Actions, some of them out of range, and joint positions of one to four copies."""
    robot = robot_model(name)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    copies = draw(st.integers(1, 4))
    return rng.uniform(-1.5, 1.5, (copies, robot.action_dim)), rng.uniform(-3.0, 3.0, (copies, robot.n_joints))


@pytest.mark.parametrize("name", ["panda_partner", "panda_wristcam"])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_panda_targets_are_measured_positions_plus_a_tenth_and_an_absolute_opening(
    name: str, data: st.DataObject
) -> None:
    action, qpos = data.draw(commands(name))
    targets = robot_model(name).targets(action, qpos)
    np.testing.assert_allclose(targets[:, :7], qpos[:, :7] + 0.1 * clipped(action[:, :7]), atol=1e-15)
    opening = -0.01 + 0.05 * (clipped(action[:, 7]) + 1.0) / 2.0
    np.testing.assert_allclose(targets[:, 7:], np.column_stack([opening, opening]), atol=1e-15)


@settings(deadline=None, max_examples=30)
@given(command=commands("xarm6_robotiq"))
def test_xarm6_targets_move_the_linkage_by_the_left_outer_knuckle(command: tuple[FloatArray, FloatArray]) -> None:
    action, qpos = command
    targets = robot_model("xarm6_robotiq").targets(action, qpos)
    np.testing.assert_allclose(targets[:, :6], qpos[:, :6] + 0.1 * clipped(action[:, :6]), atol=1e-15)
    knuckle = qpos[:, 6] + 0.15 * clipped(action[:, 6])
    np.testing.assert_allclose(targets[:, 6:], np.outer(knuckle, [1, 1, 1, 1, -1, -1]), atol=1e-15)


@settings(deadline=None, max_examples=30)
@given(command=commands("fetch"))
def test_fetch_targets_are_arm_gripper_body_and_base(command: tuple[FloatArray, FloatArray]) -> None:
    action, qpos = command
    robot = robot_model("fetch")
    targets = dict(zip(robot.actuator_names, robot.targets(action, qpos).T, strict=True))
    measured = dict(zip(robot.joint_names, qpos.T, strict=True))
    action = clipped(action)
    arm = ["shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex", "forearm_roll", "wrist_flex", "wrist_roll"]
    for component, joint in [*enumerate(arm), (8, "head_pan"), (9, "head_tilt"), (10, "torso_lift")]:
        name = f"{joint}_joint"
        np.testing.assert_allclose(targets[name], measured[name] + 0.1 * action[:, component], atol=1e-15)
    for finger in ("r_gripper_finger_joint", "l_gripper_finger_joint"):
        np.testing.assert_allclose(targets[finger], -0.01 + 0.06 * (action[:, 7] + 1.0) / 2.0, atol=1e-15)
    heading = measured["root_z_rotation_joint"]
    np.testing.assert_allclose(targets["root_x_axis_joint"], action[:, 11] * np.cos(heading), atol=1e-15)
    np.testing.assert_allclose(targets["root_y_axis_joint"], action[:, 11] * np.sin(heading), atol=1e-15)
    np.testing.assert_allclose(targets["root_z_rotation_joint"], 3.14 * action[:, 12], atol=1e-15)


@settings(deadline=None, max_examples=10)
@given(command=commands("allegro_hand_right"))
def test_allegro_targets_are_measured_positions_plus_a_tenth(command: tuple[FloatArray, FloatArray]) -> None:
    action, qpos = command
    targets = robot_model("allegro_hand_right").targets(action, qpos)
    np.testing.assert_allclose(targets, qpos + 0.1 * clipped(action), atol=1e-15)


@pytest.mark.parametrize("name", SIZES)
def test_targets_of_one_copy_do_not_depend_on_the_others(name: str) -> None:
    robot = robot_model(name)
    rng = np.random.default_rng(3)
    action, qpos = rng.uniform(-1, 1, (5, robot.action_dim)), rng.uniform(-1, 1, (5, robot.n_joints))
    alone = np.vstack([robot.targets(action[[copy]], qpos[[copy]]) for copy in range(5)])
    np.testing.assert_array_equal(robot.targets(action, qpos), alone)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8,), (1, 7), (1, 9), (1, 1, 8)])
def test_actions_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"action of 'panda_wristcam' must have shape \(n, 8\)"):
        robot_model("panda_wristcam").targets(np.zeros(shape), np.zeros((1, 9)))


@pytest.mark.parametrize("shape", [(9,), (1, 8), (3, 9)])
def test_joint_positions_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"qpos of 'panda_wristcam' must have shape \(2, 9\)"):
        robot_model("panda_wristcam").targets(np.zeros((2, 8)), np.zeros(shape))


@pytest.mark.parametrize("name", SIZES)
def test_arrays_of_a_model_cannot_be_written(name: str) -> None:
    robot = robot_model(name)
    shared = (robot.ready_qpos, robot.joint_velocity_limits, robot.joint_lower, robot.joint_upper, robot.joint_armature)
    for array in (*shared, robot.link_inertials[0].inertia):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_a_model_whose_joints_are_not_those_of_its_mjcf_is_refused() -> None:
    robot = robot_model("panda_wristcam")
    with pytest.raises(ValueError, match="joint_names of 'panda_wristcam' must be those of its MJCF"):
        replace(robot, joint_names=(*robot.joint_names[:-1], "panda_joint9"))


def test_a_model_with_a_posture_of_a_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ready_qpos of 'fetch' must have shape \(15,\), got \(3,\)"):
        replace(robot_model("fetch"), ready_qpos=np.zeros(3))


def test_a_document_cannot_leave_out_or_paint_what_it_does_not_have() -> None:
    with pytest.raises(KeyError, match="no body or site 'panda_link9'"):
        Document("panda.xml", model="panda", without=("panda_link9",))
    with pytest.raises(KeyError, match="no material 'gold'"):
        Document("panda.xml", model="panda", colors={"gold": (1.0, 0.8, 0.0)})


# --- the page -----------------------------------------------------------------------------------------------


def test_the_page_about_robots_has_every_robot_with_its_numbers() -> None:
    page = Path(__file__).parents[5] / "docs" / "reference" / "chamber-robots.md"
    rows = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].startswith("`"):
            rows[cells[0].strip("`")] = cells
    assert set(rows) == set(SIZES)
    for name, (_, joints, action, mass, tcp, hold) in rows.items():
        robot = robot_model(name)
        assert joints.startswith(f"{robot.n_joints}:")
        assert action == str(robot.action_dim)
        assert mass == f"{sum(masses(robot).values()):.3f}"
        assert tcp == f"`{robot.tcp_link}`"
        assert hold.startswith(f"`{robot.hold_link}`")
