"""How well pick-place is going, from positions, velocities and forces alone, for all copies at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chamber.envs._loops import compiled

__all__ = ["GRASP_ANGLE_DEG", "GRASP_FORCE_N", "is_pressed_open", "normalized_reward"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Rows = Sequence[Sequence[float]]

GRASP_FORCE_N = 0.5
"""Smallest force on a finger that counts as holding."""

GRASP_ANGLE_DEG = 85.0
"""Largest angle between that force and the direction in which the finger opens."""

_GRASP_COSINE = math.cos(math.radians(GRASP_ANGLE_DEG))
_DISTANCE_SCALE = 5.0  # 1/m, and s/rad for speeds
_SUCCESS_REWARD = 5.0


def is_pressed_open(forces: FloatArray, quaternions: FloatArray, opening_axis: FloatArray) -> BoolArray:
    """Say where a finger is pressed in the direction in which it opens, which is what a held object does to it.

    Args:
        forces: of the object on the finger, N, world axes, shape ``(n, 3)``.
        quaternions: orientation of the finger ``(w, x, y, z)``, shape ``(n, 4)``.
        opening_axis: unit vector in the finger's frame, shape ``(3,)``.

    Returns:
        True where the force is at least `GRASP_FORCE_N` and within `GRASP_ANGLE_DEG` of that axis, shape ``(n,)``.
    """
    if len(forces) == 1:
        return _is_pressed_open(forces.tolist(), quaternions.tolist(), opening_axis.tolist())
    return compiled(_is_pressed_open)(forces, quaternions, opening_axis)


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
    columns = (tcp, cube, goal, arm_qvel, is_grasped, is_placed, success)
    if len(goal) == 1:
        return _normalized_reward(*[column.tolist() for column in columns])
    return compiled(_normalized_reward, _closeness)(*columns)


# --- the loops: what follows runs interpreted on lists and compiled on arrays ------------------------------------


def _is_pressed_open(forces: Rows, quaternions: Rows, opening_axis: Sequence[float]) -> BoolArray:
    pressed = np.zeros(len(forces), dtype=np.bool_)
    ax, ay, az = opening_axis
    for row in range(len(forces)):
        fx, fy, fz = forces[row]
        w, x, y, z = quaternions[row]
        along = (
            fx * ((1.0 - 2.0 * (y * y + z * z)) * ax + 2.0 * (x * y - w * z) * ay + 2.0 * (x * z + w * y) * az)
            + fy * (2.0 * (x * y + w * z) * ax + (1.0 - 2.0 * (x * x + z * z)) * ay + 2.0 * (y * z - w * x) * az)
            + fz * (2.0 * (x * z - w * y) * ax + 2.0 * (y * z + w * x) * ay + (1.0 - 2.0 * (x * x + y * y)) * az)
        )
        magnitude = math.sqrt(fx * fx + fy * fy + fz * fz)
        pressed[row] = magnitude >= GRASP_FORCE_N and along >= _GRASP_COSINE * magnitude
    return pressed


def _normalized_reward(
    tcp: Rows,
    cube: Rows,
    goal: Rows,
    arm_qvel: Rows,
    is_grasped: Sequence[bool],
    is_placed: Sequence[bool],
    success: Sequence[bool],
) -> FloatArray:
    rewards = np.empty(len(goal))
    for row in range(len(goal)):
        if success[row]:
            rewards[row] = 1.0
            continue
        reach, place, speed = 0.0, 0.0, 0.0
        for axis in range(3):
            to_cube, to_goal = tcp[row][axis] - cube[row][axis], cube[row][axis] - goal[row][axis]
            reach += to_cube * to_cube
            place += to_goal * to_goal
        for velocity in arm_qvel[row]:
            speed += velocity * velocity
        reward = _closeness(reach)
        if is_grasped[row]:
            reward += 1.0 + _closeness(place)
        if is_placed[row]:
            reward += _closeness(speed)
        rewards[row] = reward / _SUCCESS_REWARD
    return rewards


def _closeness(squared: float) -> float:
    return 1.0 - math.tanh(_DISTANCE_SCALE * math.sqrt(squared))
