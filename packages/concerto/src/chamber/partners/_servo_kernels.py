"""The mathematics of arm controllers, compiled, for many arms at once.

What a controller of one arm computes in every step has a form in plain numbers, `chamber.partners._servo_numbers`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.agents._chain_kernels import tcps_and_jacobians
from chamber.partners._arm_control import CONTROL_PERIOD_S, JOINT_STEP_PER_ACTION_RAD
from chamber.partners._servo_numbers import QUATERNION_FLOOR

__all__ = [
    "damped_command",
    "rotations_from_quaternions",
    "servo",
    "servo_on_chain",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@njit(cache=True, error_model="numpy")
def _factorise(jacobian: FloatArray, damping: float, factor: FloatArray) -> bool:
    """Write the lower Cholesky factor of ``J J^T + damping^2 I``; False where that is not positive definite."""
    n_rows, n_joints = jacobian.shape
    for row in range(n_rows):
        for column in range(row + 1):
            value = damping * damping if row == column else 0.0
            for joint in range(n_joints):
                value += jacobian[row, joint] * jacobian[column, joint]
            for k in range(column):
                value -= factor[row, k] * factor[column, k]
            if row != column:
                factor[row, column] = value / factor[column, column]
            elif value > 0.0:
                factor[row, row] = math.sqrt(value)
            else:
                return False
    return True


@njit(cache=True, error_model="numpy")
def _add_damped_step(jacobian: FloatArray, motion: FloatArray, damping: float, step: FloatArray) -> None:
    """Add ``J^T (J J^T + damping^2 I)^-1 motion`` to ``step``, or nothing where that matrix is singular.

    This is the damped least-squares inverse of Nakamura and Hanafusa (1986).
    """
    n_rows, n_joints = jacobian.shape
    factor = np.empty((n_rows, n_rows))
    dual = np.empty(n_rows)
    if not _factorise(jacobian, damping, factor):
        return
    for row in range(n_rows):
        value = motion[row]
        for k in range(row):
            value -= factor[row, k] * dual[k]
        dual[row] = value / factor[row, row]
    for row in range(n_rows - 1, -1, -1):
        value = dual[row]
        for k in range(row + 1, n_rows):
            value -= factor[k, row] * dual[k]
        dual[row] = value / factor[row, row]
    for joint in range(n_joints):
        for row in range(n_rows):
            step[joint] += jacobian[row, joint] * dual[row]


@njit(cache=True, error_model="numpy")
def damped_command(jacobian: FloatArray, motion: FloatArray, damping: float) -> FloatArray:
    """Give the normalised joint command of a Cartesian motion, components in [-1, 1].

    ``clip(J^T (J J^T + damping^2 I)^-1 motion / 0.1, -1, 1)``

    Args:
        jacobian: J, shape ``(k, n_joints)``.
        motion: per control step, in the frame of J, shape ``(k,)``.
        damping: in the units of J's singular values.
    """
    step = np.zeros(jacobian.shape[1])
    _add_damped_step(jacobian, motion, damping, step)
    for joint in range(step.shape[0]):
        step[joint] = min(max(step[joint] / JOINT_STEP_PER_ACTION_RAD, -1.0), 1.0)
    return step


@njit(cache=True, error_model="numpy")
def _servo_row(
    target: FloatArray,
    base_position: FloatArray,
    base_rotation: FloatArray,
    tcp: FloatArray,
    jacobian: FloatArray,
    posture: FloatArray,
    kp: float,
    ki: float,
    step_max: float,
    damping: float,
    radius: float,
    bound: float,
    integral: FloatArray,
    action: NDArray[np.float32],
) -> bool:
    """Write the commands of one arm; see `servo`. False, with nothing written, when the error is not finite."""
    error, motion = np.empty(3), np.empty(3)
    squared = 0.0
    for row in range(3):
        error[row] = -tcp[row]
        for axis in range(3):
            error[row] += base_rotation[axis, row] * (target[axis] - base_position[axis])
        squared += error[row] * error[row]
    if not math.isfinite(squared):
        return False
    for row in range(3):
        if math.sqrt(squared) < radius:
            integral[row] = min(max(integral[row] + CONTROL_PERIOD_S * error[row], -bound), bound)
        motion[row] = min(max(kp * error[row] + ki * integral[row], -step_max), step_max)
        for joint in range(posture.shape[0]):
            motion[row] -= jacobian[row, joint] * posture[joint]
    step = posture.copy()
    _add_damped_step(jacobian[:3], motion, damping, step)
    for joint in range(posture.shape[0]):
        action[joint] = min(max(step[joint] / JOINT_STEP_PER_ACTION_RAD, -1.0), 1.0)
    return True


@njit(cache=True, error_model="numpy")
def servo(
    targets: FloatArray,
    base_position: FloatArray,
    base_rotation: FloatArray,
    tcp: FloatArray,
    jacobians: FloatArray,
    postures: FloatArray,
    kp: float,
    ki: float,
    step_max: float,
    damping: float,
    radius: float,
    bound: float,
    integrals: FloatArray,
) -> tuple[NDArray[np.float32], BoolArray, int]:
    """Give the joint commands that pull tool centre points to targets, by a PI law with a gated integral.

    ``e = R_b^T (x - b) - p``;  ``I <- clip(I + dt e, +-bound)`` where ``|e| < radius``;
    ``v = clip(kp e + ki I, +-step_max)``;  ``dq = J+ v + (1 - J+ J) w`` with the damped inverse ``J+`` and the posture
    step w;  ``clip(dq / 0.1, -1, 1)``.

    Args:
        targets: x, world, shape ``(n, 3)``.
        base_position: b, world, shape ``(3,)``.
        base_rotation: R_b, shape ``(3, 3)``.
        tcp: p, in the frame of the base, shape ``(n, 3)``.
        jacobians: J, of which the first three rows count, the linear ones, shape ``(n, 3 or 6, n_joints)``.
        postures: w, rad, shape ``(n, n_joints)``.
        kp: per control step.
        ki: 1/s.
        step_max: largest component of v, m.
        damping: in the units of J.
        radius: of the error within which the integral grows, m.
        bound: of the integral's components, m s.
        integrals: I, shape ``(n, 3)``; changed in place.

    Returns:
        Commands in [-1, 1] with one more column of zeros, for the gripper, shape ``(n, n_joints + 1)``; whether each
        row could be computed, shape ``(n,)``; and how many could. A row whose error is not finite has zeros and leaves
        its integral alone.
    """
    n, n_joints = postures.shape
    actions = np.zeros((n, n_joints + 1), dtype=np.float32)
    is_valid = np.empty(n, dtype=np.bool_)
    for k in range(n):
        is_valid[k] = _servo_row(
            targets[k], base_position, base_rotation, tcp[k], jacobians[k], postures[k], kp, ki, step_max, damping,
            radius, bound, integrals[k], actions[k],
        )  # fmt: skip
    return actions, is_valid, is_valid.sum()


@njit(cache=True, error_model="numpy")
def servo_on_chain(
    targets: FloatArray,
    base_position: FloatArray,
    base_rotation: FloatArray,
    origins: FloatArray,
    joints: FloatArray,
    postures: FloatArray,
    kp: float,
    ki: float,
    step_max: float,
    damping: float,
    radius: float,
    bound: float,
    integrals: FloatArray,
) -> tuple[NDArray[np.float32], BoolArray, int]:
    """Give what `servo` gives, to the last bit, with the kinematics of a chain computed on the way.

    Args:
        targets: see `servo`.
        base_position: see `servo`.
        base_rotation: see `servo`.
        origins: of a `chamber.agents._chain.SerialChain`.
        joints: rad, shape ``(n, n_joints)``.
        postures: see `servo`.
        kp: see `servo`.
        ki: see `servo`.
        step_max: see `servo`.
        damping: see `servo`.
        radius: see `servo`.
        bound: see `servo`.
        integrals: see `servo`.
    """
    tcp, _, jacobians = tcps_and_jacobians(origins, joints)
    return servo(
        targets, base_position, base_rotation, tcp, jacobians, postures, kp, ki, step_max, damping, radius, bound,
        integrals,
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def rotations_from_quaternions(quaternions: FloatArray) -> FloatArray:
    """Give the rotations of quaternions ``(w, x, y, z)`` of any length, shape ``(n, 4)`` to ``(n, 3, 3)``.

    Lengths below 1e-12 are taken for 1e-12 when it is normalised; the zero quaternion gives the identity.
    """
    n = quaternions.shape[0]
    rotations = np.empty((n, 3, 3))
    for k in range(n):
        w, x, y, z = quaternions[k, 0], quaternions[k, 1], quaternions[k, 2], quaternions[k, 3]
        length = max(math.sqrt(w * w + x * x + y * y + z * z), QUATERNION_FLOOR)
        w, x, y, z = w / length, x / length, y / length, z / length
        rotation = rotations[k]
        rotation[0, 0] = 1.0 - 2.0 * (y * y + z * z)
        rotation[0, 1] = 2.0 * (x * y - w * z)
        rotation[0, 2] = 2.0 * (x * z + w * y)
        rotation[1, 0] = 2.0 * (x * y + w * z)
        rotation[1, 1] = 1.0 - 2.0 * (x * x + z * z)
        rotation[1, 2] = 2.0 * (y * z - w * x)
        rotation[2, 0] = 2.0 * (x * z - w * y)
        rotation[2, 1] = 2.0 * (y * z + w * x)
        rotation[2, 2] = 1.0 - 2.0 * (x * x + y * y)
    return rotations
