"""Where the Pandas of all tasks start: seven joints, rad, and two fingers, m."""

from __future__ import annotations

import math

from chamber.sim.robots import robot_model

__all__ = ["PANDA_READY_QPOS", "PANDA_RETRACTED_QPOS"]

PANDA_READY_QPOS = tuple(robot_model("panda_wristcam").ready_qpos.tolist())
"""The hand in front of the arm, pointing down."""

PANDA_RETRACTED_QPOS = (0.0, -math.pi / 4, 0.0, -7 * math.pi / 8, 0.0, 5 * math.pi / 8, -math.pi / 4, 0.04, 0.04)
"""The hand drawn back over the base, out of the way of another arm."""
