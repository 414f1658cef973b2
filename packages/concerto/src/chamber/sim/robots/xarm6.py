"""UFACTORY xArm6 with a Robotiq 2F-85 gripper."""

from __future__ import annotations

import numpy as np

from chamber.agents._chain_tables import CHAINS
from chamber.sim.robots._action_maps import ARM_STEP, AffineActionMap, displacement
from chamber.sim.robots._mjcf import Document
from chamber.sim.robots.model import LinkCapsule, RobotModel

__all__ = ["xarm6_robotiq"]

_GRIPPER_RATIOS = {
    "left_outer_knuckle_joint": 1.0,
    "left_inner_knuckle_joint": 1.0,
    "right_outer_knuckle_joint": 1.0,
    "right_inner_knuckle_joint": 1.0,
    "left_inner_finger_joint": -1.0,
    "right_inner_finger_joint": -1.0,
}
_GRIPPER_STEP = 0.15  # rad of the left outer knuckle per control step; the other five follow it by their ratios
_GRIPPER_SPEED = 2.0
_READY = (0.0, 0.22, -1.23, 0.0, 1.01, 0.0, *(0.0,) * 6)


def xarm6_robotiq() -> RobotModel:
    """Give the xArm6 with its gripper: six arm joints, then six of the gripper's linkage."""
    name = "xarm6_robotiq"
    chain = CHAINS["xarm6"]
    arm = tuple(displacement(i, i, step=ARM_STEP) for i in range(6))
    gripper = tuple(displacement(6, 6, step=_GRIPPER_STEP, ratio=ratio) for ratio in _GRIPPER_RATIOS.values())
    return RobotModel(
        name=name,
        description="UFACTORY xArm6 with a Robotiq 2F-85 gripper, 6 joints and 6 of the gripper's linkage.",
        document=Document("xarm6_robotiq.xml", model=name),
        joint_names=(*chain.joint_names, *_GRIPPER_RATIOS),
        arm_joints=slice(0, 6),
        body_joints=slice(0, 6),
        ready_qpos=np.array(_READY),
        joint_velocity_limits=np.array([*chain.velocity, *(_GRIPPER_SPEED,) * 6]),
        action_map=AffineActionMap(7, (*arm, *gripper)),
        tcp_link="eef",
        hold_link="eef",
        finger_links=("left_inner_finger", "right_inner_finger"),
        opening_axes={"left_inner_finger": (0.0, 1.0, 0.0), "right_inner_finger": (0.0, 1.0, 0.0)},
        envelope=(
            LinkCapsule("robotiq_arg2f_base_link", (0.0, -0.048, 0.074), (0.0, 0.048, 0.074), 0.045),
            LinkCapsule("robotiq_arg2f_base_link", (0.0, -0.05, 0.122), (0.0, 0.05, 0.122), 0.048),
        ),
    )
