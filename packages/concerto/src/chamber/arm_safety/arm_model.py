"""`ArmModel`: what arm safety knows about one arm of a scene, made from its `chamber.sim.robots.RobotModel`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS
from chamber.agents.joint_delta import JointDeltaDrive
from chamber.arm_safety import _kernels
from chamber.arm_safety._inertials import carried_inertials
from chamber.arm_safety._kernels import ArmArrays
from chamber.sim.robots import JointIndex, RobotModel, robot_model
from chamber.sim.scene import SceneSpec
from concerto.safety.geometry import SphereCloud, decompose_capsule

__all__ = ["ARM_DRIVES", "ArmModel", "arm_of_scene"]

FloatArray = NDArray[np.float64]

ARM_DRIVES: Mapping[str, JointDeltaDrive] = {
    "panda": JointDeltaDrive(stiffness=1000.0, damping=100.003, torque_limit=100.0),
}
"""Drive of the joints by chain, for arms whose drive hardly ever saturates: `JointDeltaDrive` describes no others."""

DEFAULT_COVER_TOLERANCE = 0.01
"""How far the spheres may stick out of the capsules that they cover, m."""


@dataclass(frozen=True, eq=False)
class ArmModel:
    """An arm at its place in the world.

    Attributes:
        uid: the robot.
        chain: its kinematic chain.
        drive: what its actions do; None when `ARM_DRIVES` does not know.
        n_robot_joints: number of all its joints, with those of the gripper.
        arm_joints: the arm joints among them.
        joint_lower, joint_upper, joint_velocity_limits: of the arm joints, rad and rad/s, shape ``(n,)``.
        sphere_links: link of every sphere by its name in the robot model.
        arrays: all this for compiled functions.
    """

    uid: str
    chain: SerialChain
    drive: JointDeltaDrive | None
    n_robot_joints: int
    arm_joints: JointIndex
    joint_lower: FloatArray
    joint_upper: FloatArray
    joint_velocity_limits: FloatArray
    sphere_links: tuple[str, ...]
    arrays: ArmArrays

    @property
    def n_joints(self) -> int:
        """Number of arm joints."""
        return self.chain.n_joints

    def spheres(self, q: FloatArray) -> SphereCloud:
        """Give the spheres in the world; together they contain every capsule of the robot model.

        Args:
            q: arm joints, rad, shape ``(n,)``.
        """
        frames, centers = self._placed(q)
        _kernels.place_spheres(self.arrays, frames, centers)
        return SphereCloud(centers, self.arrays.sphere_radii)

    def mass_matrix(self, q: FloatArray) -> FloatArray:
        """Give the joint-space inertia, kg m^2, shape ``(n, n)``.

        Args:
            q: arm joints, rad, shape ``(n,)``.
        """
        return _kernels.joint_space_inertia(self.arrays, self._placed(q)[0])

    def tcp(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give position and Jacobian of the tool centre point in the world, shapes ``(3,)`` and ``(3, n)``.

        Args:
            q: arm joints, rad, shape ``(n,)``.
        """
        frames, _ = self._placed(q)
        jacobian = np.empty((3, self.n_joints))
        position = frames[self.n_joints + 1, :, 3]
        _kernels.sphere_jacobian(frames, self.n_joints, position, jacobian)
        return position, jacobian

    def _placed(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        joints = np.ascontiguousarray(q, dtype=np.float64)
        if joints.shape != (self.n_joints,):
            raise ValueError(f"q of {self.uid!r} must have shape ({self.n_joints},), got {joints.shape}")
        frames = np.empty((self.n_joints + 2, 3, 4))
        _kernels.place_frames(self.arrays, joints, frames)
        return frames, np.empty((len(self.sphere_links), 3))


def arm_of_scene(
    scene: SceneSpec, uid: str, *, cover_tolerance: float = DEFAULT_COVER_TOLERANCE, payload_kg: float = 0.0
) -> ArmModel:
    """Make the model of one robot of a scene.

    Args:
        scene: the scene.
        uid: the robot.
        cover_tolerance: how far spheres may stick out of the capsules, m; smaller ones need more spheres.
        payload_kg: point mass held at the tool centre point.

    Raises:
        KeyError: the scene has no such robot.
        ValueError: the robot has no arm whose chain is known, or an argument is out of range.
    """
    robots = {robot.uid: robot for robot in scene.robots}
    if uid not in robots:
        raise KeyError(f"the scene has no robot {uid!r}; it has {sorted(robots)}")
    if not (math.isfinite(cover_tolerance) and cover_tolerance > 0.0):
        raise ValueError(f"cover_tolerance must be finite and > 0, got {cover_tolerance}")
    if not (math.isfinite(payload_kg) and payload_kg >= 0.0):
        raise ValueError(f"payload_kg must be finite and >= 0, got {payload_kg}")
    spec = robots[uid]
    model = robot_model(spec.model)
    key = _chain_key(model)
    chain = SerialChain(CHAINS[key])
    drive = None
    if key in ARM_DRIVES:
        drive = replace(ARM_DRIVES[key], physics_timestep=scene.physics_timestep, substeps=scene.substeps)
    if scene.substeps < _kernels.SAMPLES_PER_STEP:
        raise ValueError(f"a control step must have at least {_kernels.SAMPLES_PER_STEP} physics steps")
    turns = chain.alignments
    links, clouds = _cover(model, cover_tolerance)
    base = _base_pose(spec.base_position, spec.base_yaw)
    origins = chain.origins.copy()
    origins[0] = base[:3] @ np.vstack([origins[0], [0.0, 0.0, 0.0, 1.0]])
    masses, centers, inertias = _inertials(model, chain, payload_kg)
    places = [chain.table.locate(link) for link in links]
    points = [
        (clouds[k].centers @ pose[:3, :3].T + pose[:3, 3]) @ turns[index] for k, (index, pose) in enumerate(places)
    ]
    arrays = ArmArrays(
        base=base[:3].copy(),
        origins=origins,
        sphere_links=np.array([index for k, (index, _) in enumerate(places) for _ in range(len(clouds[k]))]),
        sphere_points=np.concatenate(points),
        sphere_radii=np.concatenate([cloud.radii for cloud in clouds]),
        masses=masses,
        mass_centers=np.stack([centers[k] @ turns[k + 1] for k in range(chain.n_joints)]),
        inertias=np.stack([turns[k + 1].T @ inertias[k] @ turns[k + 1] for k in range(chain.n_joints)]),
        stiffness=drive.stiffness if drive else 0.0,
        damping=drive.damping if drive else 0.0,
        torque_limit=drive.torque_limit if drive else 0.0,
        action_scale=drive.action_scale if drive else 0.0,
        physics_timestep=scene.physics_timestep,
        substeps=scene.substeps,
    )
    return ArmModel(
        uid=uid,
        chain=chain,
        drive=drive,
        n_robot_joints=model.n_joints,
        arm_joints=model.arm_joints,
        joint_lower=model.joint_lower[model.arm_joints],
        joint_upper=model.joint_upper[model.arm_joints],
        joint_velocity_limits=model.joint_velocity_limits[model.arm_joints],
        sphere_links=tuple(link for k, link in enumerate(links) for _ in range(len(clouds[k]))),
        arrays=arrays,
    )


def _chain_key(model: RobotModel) -> str:
    arm = tuple(np.array(model.joint_names)[model.arm_joints].tolist())
    for key, table in CHAINS.items():
        if table.joint_names == arm:
            return key
    raise ValueError(f"robot {model.name!r} has no arm of a known chain; there are {', '.join(CHAINS)}")


def _cover(model: RobotModel, tolerance: float) -> tuple[list[str], list[SphereCloud]]:
    """Cover every capsule by spheres that stick out of it by at most ``tolerance``."""
    links, clouds = list[str](), list[SphereCloud]()
    for capsule in model.arm_geom_capsules:
        start, end = np.array(capsule.start), np.array(capsule.end)
        length = float(np.linalg.norm(end - start))
        # At spacing s the spheres need radius sqrt(r^2 + s^2/4) <= r + tolerance.
        spacing = 2.0 * math.sqrt((capsule.radius + tolerance) ** 2 - capsule.radius**2)
        count = 1 if length / 2.0 <= tolerance else 1 + math.ceil(length / spacing)
        links.append(capsule.link)
        clouds.append(decompose_capsule(start, end, capsule.radius, count, inflate=True))
    return links, clouds


def _inertials(model: RobotModel, chain: SerialChain, payload_kg: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    masses, centers, inertias = carried_inertials(model.mjcf_text(), chain.table.link_names[1:])
    if payload_kg > 0.0:
        tip = chain.table.locate(chain.table.end_link)[1][:3, 3]
        total = masses[-1] + payload_kg
        offset = tip - centers[-1]
        reduced = masses[-1] * payload_kg / total
        inertias[-1] += reduced * (offset @ offset * np.eye(3) - np.outer(offset, offset))
        centers[-1] = (masses[-1] * centers[-1] + payload_kg * tip) / total
        masses[-1] = total
    return masses, centers, inertias


def _base_pose(position: tuple[float, float, float], yaw: float) -> FloatArray:
    pose = np.eye(4)
    pose[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
    pose[:3, 3] = position
    return pose
