r"""From a normalised ``pd_joint_delta_pos`` action to the Cartesian acceleration of any point of the arm.

With the mass matrix M of the arm, held for one control step, and its drive (`chamber.agents.joint_delta`), positions
and velocities at the end of the step are linear in the velocities and the action at its start:

.. math:: q^+ - q = P \dot q + Q\,s u, \qquad \dot q^+ = D \dot q + V\,s u

with the action scale s and matrices P, Q, D, V that are functions of M alone: along an eigenvector of M with
eigenvalue m they are the four numbers of `StepResponse` for the inertia m. A point with Jacobian J and velocity
:math:`v = J \dot q` has, over the step, the mean acceleration

.. math:: a = \frac{J \dot q^+ - v}{dt} = \underbrace{\frac{s}{dt}}_{\text{scale}} J V\,u
          + \underbrace{\frac{1}{dt} J (D - 1) \dot q}_{a_0}

which is the affine map of `concerto.safety.api.JacobianControlModel`, with ``J V`` for its Jacobian. The change of J
during the step is left out. `chamber.arm_safety.tracking` measures how far all this is from the simulated arm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber.agents.joint_delta import JointDeltaDrive
from chamber.arm_safety import _kernels
from chamber.arm_safety.arm_model import ArmModel
from concerto.safety.api import AgentSnapshot, JacobianControlModel

__all__ = ["StepMap", "known_drive", "step_map", "tcp_control_model"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepMap:
    """What one control step does to the joints of an arm; all matrices have shape ``(n, n)``.

    Attributes:
        position_per_velocity: P, s.
        position_per_action: ``s Q``, rad.
        velocity_per_velocity: D.
        velocity_per_action: ``s V``, rad/s.
    """

    position_per_velocity: FloatArray
    position_per_action: FloatArray
    velocity_per_velocity: FloatArray
    velocity_per_action: FloatArray


def step_map(arm: ArmModel, q: FloatArray) -> StepMap:
    """Give the map of one control step from the arm joints q, rad, shape ``(n,)``.

    Raises:
        ValueError: the drive of the arm is not known.
    """
    drive = known_drive(arm)
    powers = _kernels.step_matrices(arm.arrays, _kernels.velocity_update(arm.arrays, arm.mass_matrix(q)))
    return StepMap(
        position_per_velocity=powers[0, 1],
        position_per_action=drive.action_scale * (np.eye(arm.n_joints) - powers[0, 0]),
        velocity_per_velocity=powers[1, 1],
        velocity_per_action=-drive.action_scale * powers[1, 0],
    )


def tcp_control_model(
    arm: ArmModel,
    arm_state: Callable[[], tuple[FloatArray, FloatArray]],
    *,
    action_dim: int,
    max_cartesian_accel: float,
) -> JacobianControlModel:
    """Give the control model of the arm's tool centre point, with the mass matrix of the arm.

    Args:
        arm: the arm.
        arm_state: gives measured positions and velocities of the arm joints, rad and rad/s, each of shape ``(n,)``,
            because snapshots do not carry them.
        action_dim: number of components of an action; those beyond the arm joints move nothing.
        max_cartesian_accel: capacity, m/s^2.

    Raises:
        ValueError: the drive of the arm is not known.
    """
    drive = known_drive(arm)

    def jacobian(_: AgentSnapshot) -> FloatArray:
        q, _q_dot = arm_state()
        columns = np.zeros((3, action_dim))
        columns[:, : arm.n_joints] = arm.tcp(q)[1] @ step_map(arm, q).velocity_per_action
        return columns

    def offset(_: AgentSnapshot) -> FloatArray:
        q, q_dot = arm_state()
        return arm.tcp(q)[1] @ (step_map(arm, q).velocity_per_velocity @ q_dot - q_dot) / drive.control_timestep

    return JacobianControlModel(
        uid=arm.uid,
        action_dim=action_dim,
        position_dim=3,
        jacobian_fn=jacobian,
        max_cartesian_accel_value=max_cartesian_accel,
        offset_fn=offset,
        scale=1.0 / drive.control_timestep,
    )


def known_drive(arm: ArmModel) -> JointDeltaDrive:
    """Give the drive of an arm.

    Raises:
        ValueError: `chamber.arm_safety.arm_model.ARM_DRIVES` does not know it.
    """
    if arm.drive is None:
        raise ValueError(f"the drive of {arm.uid!r} is not known: it is not one of ARM_DRIVES")
    return arm.drive
