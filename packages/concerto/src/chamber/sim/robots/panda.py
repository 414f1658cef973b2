"""Franka Panda with its two-finger hand: with a wrist camera, and as the partner without one."""

from __future__ import annotations

import math

import numpy as np

from chamber.agents._chain_tables import CHAINS
from chamber.sim.robots._action_maps import ARM_STEP, AffineActionMap, displacement, position
from chamber.sim.robots._mjcf import Document
from chamber.sim.robots.model import LinkCapsule, RobotModel

__all__ = ["panda_partner", "panda_wristcam"]

_READY = (0.0, math.pi / 8, 0.0, -5 * math.pi / 8, 0.0, 3 * math.pi / 4, -math.pi / 4, 0.04, 0.04)
_FINGER_SPEED = 0.2
_GRIPPER_LOW, _GRIPPER_HIGH = -0.01, 0.04  # the low end is past closed, so that a closed gripper keeps squeezing

_BLUE, _ORANGE = (0.10, 0.36, 0.66), (0.86, 0.42, 0.08)  # so that people can tell the two apart in pictures

_FINGERS = LinkCapsule("panda_hand", (0.0, -0.05, 0.0857), (0.0, 0.05, 0.0857), 0.033)  # at every opening


def panda_wristcam() -> RobotModel:
    """Give the Panda with a camera at its wrist."""
    return _panda(
        "panda_wristcam",
        "Franka Panda, 7 joints and two fingers, with a camera at the wrist.",
        Document(
            "panda.xml",
            model="panda_wristcam",
            without=("panda_leftfinger_pad", "panda_rightfinger_pad"),
            colors={"accent": _BLUE},
        ),
        LinkCapsule("panda_hand", (0.042, -0.04, 0.026), (0.042, 0.04, 0.026), 0.020),  # the camera
    )


def panda_partner() -> RobotModel:
    """Give the Panda without a camera."""
    return _panda(
        "panda_partner",
        "Franka Panda, 7 joints and two fingers.",
        Document("panda.xml", model="panda_partner", without=("camera_base_link",), colors={"accent": _ORANGE}),
    )


def _panda(name: str, description: str, document: Document, *envelope: LinkCapsule) -> RobotModel:
    chain = CHAINS["panda"]
    fingers = ("panda_finger_joint1", "panda_finger_joint2")
    gripper = position(7, low=_GRIPPER_LOW, high=_GRIPPER_HIGH)
    return RobotModel(
        name=name,
        description=description,
        document=document,
        joint_names=(*chain.joint_names, *fingers),
        arm_joints=slice(0, 7),
        body_joints=slice(0, 7),
        ready_qpos=np.array(_READY),
        joint_velocity_limits=np.array([*chain.velocity, _FINGER_SPEED, _FINGER_SPEED]),
        action_map=AffineActionMap(8, (*(displacement(i, i, step=ARM_STEP) for i in range(7)), gripper, gripper)),
        tcp_link="panda_hand_tcp",
        hold_link="panda_hand",
        hold_offset=(0.0, 0.0, 0.1034),
        finger_links=("panda_leftfinger", "panda_rightfinger"),
        opening_axes={"panda_leftfinger": (0.0, 1.0, 0.0), "panda_rightfinger": (0.0, -1.0, 0.0)},
        envelope=(_FINGERS, *envelope),
    )
