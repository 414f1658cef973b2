"""How well pick-place is going, from positions, velocities and forces alone; compiled, for all copies at once."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["GRASP_ANGLE_DEG", "GRASP_FORCE_N", "is_pressed_open", "normalized_reward"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

GRASP_FORCE_N = 0.5
"""Smallest force on a finger that counts as holding."""

GRASP_ANGLE_DEG = 85.0
"""Largest angle between that force and the direction in which the finger opens."""

_GRASP_COSINE = math.cos(math.radians(GRASP_ANGLE_DEG))
_DISTANCE_SCALE = 5.0  # 1/m, and s/rad for speeds
_SUCCESS_REWARD = 5.0


@njit(cache=True, error_model="numpy")
def is_pressed_open(forces: FloatArray, quaternions: FloatArray, opening_axis: FloatArray) -> BoolArray:
    """Say where a finger is pressed in the direction in which it opens, which is what a held object does to it.

    Args:
        forces: of the object on the finger, N, world axes, shape ``(n, 3)``.
        quaternions: orientation of the finger ``(w, x, y, z)``, shape ``(n, 4)``.
        opening_axis: unit vector in the finger's frame, shape ``(3,)``.

    Returns:
        True where the force is at least `GRASP_FORCE_N` and within `GRASP_ANGLE_DEG` of that axis, shape ``(n,)``.
    """
    pressed = np.zeros(forces.shape[0], dtype=np.bool_)
    ax, ay, az = opening_axis
    for row in range(forces.shape[0]):
        w, x, y, z = quaternions[row, 0], quaternions[row, 1], quaternions[row, 2], quaternions[row, 3]
        fx, fy, fz = forces[row, 0], forces[row, 1], forces[row, 2]
        along = (
            fx * ((1.0 - 2.0 * (y * y + z * z)) * ax + 2.0 * (x * y - w * z) * ay + 2.0 * (x * z + w * y) * az)
            + fy * (2.0 * (x * y + w * z) * ax + (1.0 - 2.0 * (x * x + z * z)) * ay + 2.0 * (y * z - w * x) * az)
            + fz * (2.0 * (x * z - w * y) * ax + 2.0 * (y * z + w * x) * ay + (1.0 - 2.0 * (x * x + y * y)) * az)
        )
        magnitude = math.sqrt(fx * fx + fy * fy + fz * fz)
        pressed[row] = magnitude >= GRASP_FORCE_N and along >= _GRASP_COSINE * magnitude
    return pressed


@njit(cache=True, error_model="numpy")
def normalized_reward(
    tcp: FloatArray,
    cube: FloatArray,
    goal: FloatArray,
    arm_qvel: FloatArray,
    is_grasped: BoolArray,
    is_placed: BoolArray,
    success: BoolArray,
) -> FloatArray:
    """Give the dense reward in [0, 1]; 1 exactly on success.

    ``R/5`` with ``R = [1 - tanh 5 |tcp - cube|] + g + g [1 - tanh 5 |cube - goal|] + p [1 - tanh 5 |qdot|]``, where g
    is 1 when the cube is grasped and p when it is placed, and R = 5 on success.

    Args:
        tcp: tool centre point, m; the first three columns count.
        cube: centre of the cube, m; the first three columns count.
        goal: where it shall be, m, shape ``(n, 3)``.
        arm_qvel: velocities of the arm's joints, rad/s, shape ``(n, n_joints)``.
        is_grasped: both fingers press on the cube, shape ``(n,)``.
        is_placed: the cube is at the goal, shape ``(n,)``.
        success: the task is done, shape ``(n,)``.
    """
    rewards = np.empty(goal.shape[0])
    for row in range(goal.shape[0]):
        if success[row]:
            rewards[row] = 1.0
            continue
        reach, place, speed = 0.0, 0.0, 0.0
        for axis in range(3):
            reach += (tcp[row, axis] - cube[row, axis]) ** 2
            place += (cube[row, axis] - goal[row, axis]) ** 2
        for joint in range(arm_qvel.shape[1]):
            speed += arm_qvel[row, joint] ** 2
        reward = _closeness(reach)
        if is_grasped[row]:
            reward += 1.0 + _closeness(place)
        if is_placed[row]:
            reward += _closeness(speed)
        rewards[row] = reward / _SUCCESS_REWARD
    return rewards


@njit(cache=True, error_model="numpy")
def _closeness(squared: float) -> float:
    return 1.0 - math.tanh(_DISTANCE_SCALE * math.sqrt(squared))
