"""What is known about an arm agrees with the simulator: masses, places, and spheres that contain it."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.arm_safety import ArmModel, arm_of_scene
from chamber.sim import make_backend
from chamber.sim._mujoco_bindings import MjData, MjModel, mujoco
from chamber.sim.robots import robot_model
from chamber.sim.scene import RobotSpec, SceneSpec
from concerto.safety.geometry import SphereCloud

PANDAS = ("panda_wristcam", "panda_partner")


def _postures(count: int) -> np.ndarray:
    model = robot_model("panda_wristcam")
    rng = np.random.default_rng(5)
    return rng.uniform(model.joint_lower[:7], model.joint_upper[:7], (count, 7))


def _compiled(robot: str) -> tuple[MjModel, MjData]:
    compiled = mujoco.MjModel.from_xml_string(robot_model(robot).mjcf_text())
    return compiled, mujoco.MjData(compiled)


@pytest.mark.parametrize("robot", PANDAS)
def test_mass_matrix_is_that_of_the_simulator(robot: str) -> None:
    arm = arm_of_scene(
        SceneSpec(robots=(RobotSpec(uid="arm", model=robot, base_position=(0.3, 1, 2), base_yaw=0.9),)), "arm"
    )
    compiled, data = _compiled(robot)
    expected = np.zeros((compiled.nv, compiled.nv))
    for q in _postures(20):
        data.qpos[:7], data.qpos[7:] = q, 0.0
        mujoco.mj_forward(compiled, data)
        mujoco.mj_fullM(compiled, data, expected)
        np.testing.assert_allclose(arm.mass_matrix(q), expected[:7, :7], atol=1e-12)


def test_payload_is_a_point_mass_at_the_tool_centre_point(scene: SceneSpec, ego: ArmModel) -> None:
    loaded = arm_of_scene(scene, ego.uid, payload_kg=0.7)
    for q in _postures(5):
        _, jacobian = ego.tcp(q)
        np.testing.assert_allclose(loaded.mass_matrix(q), ego.mass_matrix(q) + 0.7 * jacobian.T @ jacobian, atol=1e-12)


@pytest.mark.parametrize("uid", PANDAS)
def test_tool_centre_point_is_where_the_simulator_has_it(scene: SceneSpec, uid: str) -> None:
    arm, rig = arm_of_scene(scene, uid), make_backend(scene)
    ready = {name: robot_model(name).ready_qpos[None].copy() for name in PANDAS}
    for q in _postures(5):
        ready[uid][0, :7] = q
        rig.reset(ready, {})
        position, jacobian = arm.tcp(q)
        np.testing.assert_allclose(position, rig.link_pose(uid, "panda_hand_tcp")[0, :3], atol=1e-9)
        numeric = [(arm.tcp(q + step)[0] - arm.tcp(q - step)[0]) / 2e-6 for step in 1e-6 * np.eye(7)]
        np.testing.assert_allclose(jacobian, np.stack(numeric, axis=1), atol=1e-8)
    rig.close()


def _surface_points(compiled: MjModel, data: MjData, geom: int) -> np.ndarray:
    """Give points on the surface of a capsule, box, sphere or cylinder, world."""
    size, kind = compiled.geom_size[geom], compiled.geom_type[geom]
    rng = np.random.default_rng(geom)
    directions = rng.normal(size=(400, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if kind == int(mujoco.mjtGeom.mjGEOM_CAPSULE):
        points = size[0] * directions
        points[:, 2] += size[1] * rng.choice((-1.0, -0.5, 0.0, 0.5, 1.0), 400)
    elif kind == int(mujoco.mjtGeom.mjGEOM_BOX):
        points = size * np.array(np.meshgrid(*[(-1.0, 0.0, 1.0)] * 3)).reshape(3, -1).T
    elif kind == int(mujoco.mjtGeom.mjGEOM_SPHERE):
        points = size[0] * directions
    else:
        raise AssertionError(f"geom type {kind} is not expected here")
    return points @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]


def _depth_inside(cloud: SphereCloud, points: np.ndarray) -> np.ndarray:
    distances = np.linalg.norm(points[:, None] - cloud.centers[None], axis=2)
    return (cloud.radii - distances).max(axis=1)


@pytest.mark.parametrize("robot", PANDAS)
@pytest.mark.parametrize("opening", [0.0, 0.02, 0.04])
def test_spheres_contain_everything_that_can_touch(robot: str, opening: float) -> None:
    arm = arm_of_scene(SceneSpec(robots=(RobotSpec(uid="arm", model=robot),)), "arm")
    compiled, data = _compiled(robot)
    collides = [geom for geom in range(compiled.ngeom) if compiled.geom_group[geom] == 3]
    assert len(collides) > 10
    for q in _postures(3):
        data.qpos[:7], data.qpos[7:] = q, opening
        mujoco.mj_forward(compiled, data)
        cloud = arm.spheres(q)
        for geom in collides:
            assert _depth_inside(cloud, _surface_points(compiled, data, geom)).min() > -1e-6, compiled.geom(geom).name


def test_spheres_stick_out_of_their_capsules_by_the_tolerance_at_most(scene: SceneSpec) -> None:
    radius_of = {}
    for capsule in robot_model("panda_wristcam").arm_geom_capsules:
        radius_of.setdefault(capsule.link, []).append(capsule.radius)
    for tolerance in (0.003, 0.01, 0.03):
        arm = arm_of_scene(scene, "panda_wristcam", cover_tolerance=tolerance)
        for link, radius in zip(arm.sphere_links, arm.arrays.sphere_radii, strict=True):
            assert min(radius - capsule for capsule in radius_of[link] if radius >= capsule) <= tolerance + 1e-12


def test_the_arm_of_another_robot_can_be_a_partner() -> None:
    scene = SceneSpec(robots=(RobotSpec(uid="other", model="xarm6_robotiq", base_position=(0.4, 0.0, 0.1)),))
    arm, rig = arm_of_scene(scene, "other"), make_backend(scene)
    position, _ = arm.tcp(robot_model("xarm6_robotiq").ready_qpos[arm.arm_joints])
    np.testing.assert_allclose(position, rig.link_pose("other", "eef")[0, :3], atol=1e-9)
    assert arm.drive is None
    rig.close()


def test_bad_input_is_refused_by_name(scene: SceneSpec, ego: ArmModel) -> None:
    with pytest.raises(KeyError, match="no robot 'nobody'"):
        arm_of_scene(scene, "nobody")
    with pytest.raises(ValueError, match="cover_tolerance must be finite and > 0"):
        arm_of_scene(scene, ego.uid, cover_tolerance=0.0)
    with pytest.raises(ValueError, match="payload_kg must be finite and >= 0"):
        arm_of_scene(scene, ego.uid, payload_kg=float("nan"))
    with pytest.raises(ValueError, match=r"must have shape \(7,\)"):
        ego.spheres(np.zeros(9))
    with pytest.raises(ValueError, match="no arm of a known chain"):
        arm_of_scene(SceneSpec(robots=(RobotSpec(uid="hand", model="allegro_hand_right"),)), "hand")
