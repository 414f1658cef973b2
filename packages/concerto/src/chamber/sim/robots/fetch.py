"""Fetch Mobile Manipulator: a base that drives, a torso that lifts, a head, a 7-joint arm and a gripper."""

from __future__ import annotations

import math

import numpy as np

from chamber.sim.robots._action_maps import (
    ARM_STEP,
    ActuatorRule,
    AffineActionMap,
    FloatArray,
    displacement,
    position,
    velocity,
)
from chamber.sim.robots._mjcf import Document
from chamber.sim.robots.model import LinkCapsule, RobotModel

__all__ = ["fetch"]

# joint: (place in ready_qpos, speed limit); the order is that of qpos
_JOINTS = {
    "root_x_axis_joint": (0.0, 1.0),
    "root_y_axis_joint": (0.0, 1.0),
    "root_z_rotation_joint": (0.0, 3.14),
    "torso_lift_joint": (0.386, 0.1),
    "head_pan_joint": (0.0, 1.57),
    "shoulder_pan_joint": (0.0, 1.256),
    "head_tilt_joint": (0.0, 1.57),
    "shoulder_lift_joint": (-math.pi / 4, 1.454),
    "upperarm_roll_joint": (0.0, 1.571),
    "elbow_flex_joint": (math.pi / 4, 1.521),
    "forearm_roll_joint": (0.0, 1.571),
    "wrist_flex_joint": (math.pi / 3, 2.268),
    "wrist_roll_joint": (0.0, 2.268),
    "r_gripper_finger_joint": (0.015, 0.05),
    "l_gripper_finger_joint": (0.015, 0.05),
}
_ARM = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "upperarm_roll_joint",
    "elbow_flex_joint",
    "forearm_roll_joint",
    "wrist_flex_joint",
    "wrist_roll_joint",
)
_BODY = ("head_pan_joint", "head_tilt_joint", "torso_lift_joint")
_GRIPPER, _FORWARD, _TURN = 7, 11, 12  # components of the action behind the arm's seven and the body's three
_FORWARD_SPEED, _TURN_SPEED = 1.0, 3.14
_GRIPPER_LOW, _GRIPPER_HIGH = -0.01, 0.05


class _DrivingActionMap:
    """Arm, body and gripper as an affine map; the forward speed goes along the heading at the start of the step."""

    def __init__(self) -> None:
        names = tuple(_JOINTS)
        rules: dict[str, ActuatorRule] = {
            "root_x_axis_joint": velocity(_FORWARD, limit=_FORWARD_SPEED),
            "root_y_axis_joint": velocity(_FORWARD, limit=_FORWARD_SPEED),
            "root_z_rotation_joint": velocity(_TURN, limit=_TURN_SPEED),
        }
        for first, joints in ((0, _ARM), (8, _BODY)):
            for component, joint in enumerate(joints, start=first):
                rules[joint] = displacement(component, names.index(joint), step=ARM_STEP)
        for joint in names[-2:]:
            rules[joint] = position(_GRIPPER, low=_GRIPPER_LOW, high=_GRIPPER_HIGH)
        self._affine = AffineActionMap(13, tuple(rules[joint] for joint in names))
        self._heading = names.index("root_z_rotation_joint")

    @property
    def action_dim(self) -> int:
        """Number of components of an action."""
        return self._affine.action_dim

    def targets(self, action: FloatArray, qpos: FloatArray) -> FloatArray:
        """Give controls, shape ``(n, n_actuators)``, for clipped actions and measured joint positions."""
        controls = self._affine.targets(action, qpos)
        controls[:, 0] *= np.cos(qpos[:, self._heading])
        controls[:, 1] *= np.sin(qpos[:, self._heading])
        return controls


def fetch() -> RobotModel:
    """Give the Fetch robot; its base frame is the point on the floor where ``root`` stands."""
    names = tuple(_JOINTS)
    return RobotModel(
        name="fetch",
        description="Fetch Mobile Manipulator: driving base, lifting torso, head, 7-joint arm and two fingers.",
        document=Document("fetch.xml", model="fetch"),
        joint_names=names,
        arm_joints=np.array([names.index(joint) for joint in _ARM]),
        body_joints=slice(0, 13),
        ready_qpos=np.array([ready for ready, _ in _JOINTS.values()]),
        joint_velocity_limits=np.array([limit for _, limit in _JOINTS.values()]),
        action_map=_DrivingActionMap(),
        tcp_link="gripper_link",
        hold_link="gripper_link",
        finger_links=("r_gripper_finger_link", "l_gripper_finger_link"),
        opening_axes={"r_gripper_finger_link": (0.0, 1.0, 0.0), "l_gripper_finger_link": (0.0, -1.0, 0.0)},
        envelope=(LinkCapsule("gripper_link", (-0.008, -0.055, 0.0), (-0.008, 0.055, 0.0), 0.034),),
    )
