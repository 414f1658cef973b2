"""What the safety filter asks of pick-place: where the robots are, and how their actions move them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS
from chamber.agents._transforms import rotation_from_rpy
from chamber.agents.joint_delta import JointDeltaDrive
from chamber.envs._stage1_rules import FETCH_CARTESIAN_ACCEL_CAPACITY_MS2, PANDA_CARTESIAN_ACCEL_CAPACITY_MS2
from concerto.safety.api import AgentSnapshot, JacobianControlModel

__all__ = ["FETCH_MASS_KG", "base_rotation", "fetch_control_model", "panda_control_model", "tcp_jacobian"]

FloatArray = NDArray[np.float64]

FETCH_MASS_KG = 121.3
"""Mass that the drive of the Fetch's base moves."""

_FETCH_DRIVE_DAMPING = 1000.0  # N s/m, of the velocity drive of the base
_FETCH_FULL_SPEED_MS = 1.0  # forward speed that an action of 1 asks for
_FETCH_FORWARD_COMPONENT = 11
_PANDA_TYPICAL_INERTIA_KG_M2 = 1.0  # of the modes of the arm that move the tool centre point most
_PANDA_CHAIN = SerialChain(CHAINS["panda"])


def base_rotation(yaw: float) -> FloatArray:
    """Give the orientation of a base that is turned about the vertical by ``yaw`` rad, shape ``(3, 3)``."""
    return rotation_from_rpy((0.0, 0.0, yaw))


def tcp_jacobian(arm_qpos: FloatArray, base_yaw: float) -> FloatArray:
    """Give how the tool centre point of a Panda follows its arm joints, world axes, shape ``(3, 7)``."""
    return base_rotation(base_yaw) @ _PANDA_CHAIN.jacobian(arm_qpos)[:3]


def panda_control_model(
    uid: str,
    *,
    action_dim: int,
    base_yaw: float,
    drive: JointDeltaDrive,
    measured_arm_qpos: Callable[[], FloatArray],
) -> JacobianControlModel:
    """Give how an action of a Panda accelerates its tool centre point, world axes.

    An action is a displacement of joint targets, so over one control step the point's mean acceleration is
    ``scale * J u + drift_rate * v`` with the numbers of `chamber.agents.joint_delta.JointDeltaDrive.cartesian_map`; the
    components after the arm's, the gripper's, do not move the point.

    Args:
        uid: the robot.
        action_dim: components of its action, >= 7.
        base_yaw: of its base, rad.
        drive: of its joints.
        measured_arm_qpos: gives the arm's joint positions, shape ``(7,)``, for snapshots that have none.
    """
    cartesian = drive.cartesian_map(_PANDA_TYPICAL_INERTIA_KG_M2)

    def jacobian(snapshot: AgentSnapshot) -> FloatArray:
        arm_qpos = measured_arm_qpos() if snapshot.qpos is None else snapshot.qpos
        columns = np.zeros((3, action_dim))
        columns[:, :7] = tcp_jacobian(arm_qpos, base_yaw)
        return columns

    def drift(snapshot: AgentSnapshot) -> FloatArray:
        return cartesian.drift_rate * np.asarray(snapshot.velocity, dtype=np.float64)

    return JacobianControlModel(
        uid=uid,
        action_dim=action_dim,
        position_dim=3,
        jacobian_fn=jacobian,
        max_cartesian_accel_value=PANDA_CARTESIAN_ACCEL_CAPACITY_MS2,
        offset_fn=drift,
        scale=cartesian.scale,
    )


def fetch_control_model(
    uid: str, *, action_dim: int, control_timestep: float, measured_heading: Callable[[], float]
) -> JacobianControlModel:
    """Give how an action of the Fetch accelerates its base, world axes.

    The base has mass m and a velocity drive of damping c: a commanded speed u is approached as ``m v' = c (u - v)``, so
    over a control step the mean acceleration is ``(1 - exp(-c dt/m))/dt * (u - v)`` along the heading. Arm, head and
    torso do not move the base. The drive's force limit is left out; ``FETCH_CARTESIAN_ACCEL_CAPACITY_MS2`` is below it.

    Args:
        uid: the robot.
        action_dim: components of its action.
        control_timestep: s.
        measured_heading: gives where its base points, rad about the vertical of the world.
    """
    rate = -math.expm1(-_FETCH_DRIVE_DAMPING * control_timestep / FETCH_MASS_KG) / control_timestep

    def jacobian(snapshot: AgentSnapshot) -> FloatArray:
        columns = np.zeros((3, action_dim))
        heading = measured_heading()
        columns[:2, _FETCH_FORWARD_COMPONENT] = math.cos(heading), math.sin(heading)
        return columns

    def drift(snapshot: AgentSnapshot) -> FloatArray:
        return -rate * np.asarray(snapshot.velocity, dtype=np.float64)

    return JacobianControlModel(
        uid=uid,
        action_dim=action_dim,
        position_dim=3,
        jacobian_fn=jacobian,
        max_cartesian_accel_value=FETCH_CARTESIAN_ACCEL_CAPACITY_MS2,
        offset_fn=drift,
        scale=rate * _FETCH_FULL_SPEED_MS,
    )
