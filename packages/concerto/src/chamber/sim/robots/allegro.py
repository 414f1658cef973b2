"""Allegro hand, right: four fingers of four joints on a palm that stands still."""

from __future__ import annotations

import numpy as np

from chamber.sim.robots._action_maps import ARM_STEP, AffineActionMap, displacement
from chamber.sim.robots._mjcf import Document
from chamber.sim.robots.model import RobotModel

__all__ = ["allegro_hand_right"]

_N_JOINTS = 16
_SPEED = 7.0
_READY = (*(0.0, 0.3, 0.3, 0.3) * 3, 0.6, 0.3, 0.3, 0.3)


def allegro_hand_right() -> RobotModel:
    """Give the right Allegro hand; its base frame is the palm's."""
    name = "allegro_hand_right"
    tips = ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip")
    return RobotModel(
        name=name,
        description="Right Allegro hand: index, middle and ring finger and thumb of 4 joints each.",
        document=Document("allegro_hand_right.xml", model=name),
        joint_names=tuple(f"joint_{number}.0" for number in range(_N_JOINTS)),
        arm_joints=slice(0, _N_JOINTS),
        body_joints=slice(0, _N_JOINTS),
        ready_qpos=np.array(_READY),
        joint_velocity_limits=np.full(_N_JOINTS, _SPEED),
        action_map=AffineActionMap(
            _N_JOINTS, tuple(displacement(joint, joint, step=ARM_STEP) for joint in range(_N_JOINTS))
        ),
        tcp_link="palm",
        hold_link="palm",
        finger_links=tips,
    )
