"""The arithmetic of a co-carry step, compiled: instead of a hundred small array operations.

Arrays have one row per copy. What is accumulated over an episode is changed in place.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["excess_penalties", "judge_step", "largest_norms", "reward_of_step", "tilts_deg"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.int64]
StepArray = NDArray[np.int32]


@njit(cache=True, error_model="numpy")
def _tilt_deg(w: float, x: float, y: float, z: float) -> float:
    """Angle between a body's x axis, first column of the rotation matrix, and the horizontal plane, degrees."""
    along_x, along_y, along_z = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    length = math.sqrt(along_x * along_x + along_y * along_y + along_z * along_z)
    if length == 0.0:
        return 0.0
    return math.degrees(math.asin(min(abs(along_z) / length, 1.0)))


@njit(cache=True, error_model="numpy")
def tilts_deg(quaternions: FloatArray) -> FloatArray:
    """Give the tilt of every row, shape ``(n,)``, for quaternions ``(w, x, y, z)``, shape ``(n, 4)``."""
    tilts = np.empty(len(quaternions))
    for k in range(len(quaternions)):
        w, x, y, z = quaternions[k]
        tilts[k] = _tilt_deg(w, x, y, z)
    return tilts


@njit(cache=True, error_model="numpy")
def largest_norms(vectors: tuple[FloatArray, ...]) -> FloatArray:
    """Give the largest length of the vectors of each row, shape ``(n,)``, for arrays of shape ``(n, 3)``."""
    n = len(vectors[0])
    largest = np.zeros(n)
    for k in range(n):
        for place in range(len(vectors)):
            x, y, z = vectors[place][k]
            largest[k] = max(largest[k], math.sqrt(x * x + y * y + z * z))
    return largest


@njit(cache=True, error_model="numpy")
def _excess_penalty(stress: float, coeff: float, threshold: float, scale: float) -> float:
    return coeff * math.tanh(max(stress - threshold, 0.0) / scale)


@njit(cache=True, error_model="numpy")
def excess_penalties(stress: FloatArray, coeff: float, threshold: float, scale: float) -> FloatArray:
    """Give ``coeff * tanh(max(stress - threshold, 0) / scale)``, shape ``(n,)``."""
    penalties = np.empty(len(stress))
    for k in range(len(stress)):
        penalties[k] = _excess_penalty(stress[k], coeff, threshold, scale)
    return penalties


@njit(cache=True, error_model="numpy")
def judge_step(
    bar_pose: FloatArray,
    goal: FloatArray,
    stress: FloatArray,
    qvels: tuple[FloatArray, ...],
    arms: tuple[IndexArray, ...],
    bodies: tuple[IndexArray, ...],
    elapsed_steps: StepArray,
    settle_window: int,
    thresholds: FloatArray,
    max_tilt_deg: FloatArray,
    max_stress: FloatArray,
    steps_met: IndexArray,
    is_new_step: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Measure bar and arms, compare with the thresholds, and bring what is accumulated over the episode up to date.

    The comparisons are those of `chamber.envs.cocarry.evaluate_cocarry_success`.

    Args:
        bar_pose: shape ``(n, 7)``.
        goal: shape ``(n, 3)``.
        stress: N, shape ``(n,)``.
        qvels: per holding robot, shape ``(n, n_joints)``.
        arms: per holding robot, the joints of its arm.
        bodies: per holding robot, the joints that count for standing still.
        elapsed_steps: of the episodes, shape ``(n,)``.
        settle_window: steps at the start of an episode that do not count.
        thresholds: of distance (m), tilt (degrees), stress (N) and joint speed (rad/s).
        max_tilt_deg: largest tilt since the settle window, shape ``(n,)``.
        max_stress: largest stress since then, N, shape ``(n,)``.
        steps_met: steps in a row in which everything that success needs was there, shape ``(n,)``.
        is_new_step: this is a step to count, and not the last one again.

    Returns:
        Distance to the goal, m, tilt, degrees, and the largest 2-norm of an arm's joint velocities, rad/s, each of
        shape ``(n,)``; and, of shape ``(5, n)``, whether the bar is placed, was level, was unstressed, the arms are
        static, and the settle window is over.
    """
    n = len(bar_pose)
    distance, tilt, arm_speed, flags = np.empty(n), np.empty(n), np.zeros(n), np.empty((5, n), dtype=np.bool_)
    for k in range(n):
        x, y, z = bar_pose[k, 0] - goal[k, 0], bar_pose[k, 1] - goal[k, 1], bar_pose[k, 2] - goal[k, 2]
        distance[k] = math.sqrt(x * x + y * y + z * z)
        tilt[k] = _tilt_deg(bar_pose[k, 3], bar_pose[k, 4], bar_pose[k, 5], bar_pose[k, 6])
        fastest_joint = 0.0
        for robot in range(len(qvels)):
            qvel, squared = qvels[robot][k], 0.0
            for joint in arms[robot]:
                squared += qvel[joint] * qvel[joint]
            arm_speed[k] = max(arm_speed[k], math.sqrt(squared))
            for joint in bodies[robot]:
                fastest_joint = max(fastest_joint, abs(qvel[joint]))
        is_settled = elapsed_steps[k] >= settle_window
        if is_settled:
            max_tilt_deg[k] = max(max_tilt_deg[k], tilt[k])
            max_stress[k] = max(max_stress[k], stress[k])
        flags[0, k] = distance[k] <= thresholds[0]
        flags[1, k] = max_tilt_deg[k] < thresholds[1]
        flags[2, k] = max_stress[k] < thresholds[2]
        flags[3, k] = fastest_joint <= thresholds[3]
        flags[4, k] = is_settled
        if is_new_step:
            steps_met[k] = steps_met[k] + 1 if flags[:, k].all() else 0
    return distance, tilt, arm_speed, flags


@njit(cache=True, error_model="numpy")
def reward_of_step(
    distance: FloatArray,
    tilt_deg: FloatArray,
    arm_speed: FloatArray,
    stress: FloatArray,
    is_placed: BoolArray,
    is_settled: BoolArray,
    success: BoolArray,
    weights: FloatArray,
) -> FloatArray:
    """Give the reward that `chamber.envs.cocarry.CoCarryEnv.compute_normalized_dense_reward` describes, shape ``(n,)``.

    Args:
        distance: m, shape ``(n,)``, as all others but the last.
        tilt_deg: degrees.
        arm_speed: of the fastest arm, rad/s.
        stress: N.
        is_placed: the bar is at the goal.
        is_settled: stress counts.
        success: the step is a success.
        weights: coefficients of transport, levelness, stillness and stress; scale of distance and speed, and of tilt;
            threshold and scale of stress; reward of a success; divisor.
    """
    for_transport, for_level, for_stillness, for_stress = weights[0], weights[1], weights[2], weights[3]
    reward = np.empty(len(distance))
    for k in range(len(distance)):
        if success[k]:
            reward[k] = weights[8] / weights[9]
            continue
        value = for_transport * (1.0 - math.tanh(weights[4] * distance[k]))
        value += for_level * (1.0 - math.tanh(weights[5] * math.radians(tilt_deg[k])))
        if is_placed[k]:
            value += for_stillness * (1.0 - math.tanh(weights[4] * arm_speed[k]))
        if is_settled[k]:
            value -= _excess_penalty(stress[k], for_stress, weights[6], weights[7])
        reward[k] = value / weights[9]
    return reward
