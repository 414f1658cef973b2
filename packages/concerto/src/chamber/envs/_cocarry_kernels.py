"""The arithmetic of a co-carry step: one loop over the copies, instead of a hundred small array operations.

Arrays have one row per copy. What is accumulated over an episode is changed in place.

They run as they are for one copy and compiled for several; see `chamber.envs._loops`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chamber.envs._loops import compiled

__all__ = ["excess_penalties", "judge_step", "largest_norms", "reward_of_step", "tilts_deg"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.int64]
StepArray = NDArray[np.int32]
Numbers = Sequence[float]
Rows = Sequence[Sequence[float]]


def tilts_deg(quaternions: FloatArray) -> FloatArray:
    """Give the tilt of every row, shape ``(n,)``, for quaternions ``(w, x, y, z)``, shape ``(n, 4)``."""
    if len(quaternions) == 1:
        return _tilts_deg(quaternions.tolist())
    return compiled(_tilts_deg, _tilt_deg)(quaternions)


def largest_norms(vectors: tuple[FloatArray, ...]) -> FloatArray:
    """Give the largest length of the vectors of each row, shape ``(n,)``, for arrays of shape ``(n, 3)``."""
    if len(vectors[0]) == 1:
        return _largest_norms([rows.tolist() for rows in vectors])
    return compiled(_largest_norms)(vectors)


def excess_penalties(stress: FloatArray, coeff: float, threshold: float, scale: float) -> FloatArray:
    """Give ``coeff * tanh(max(stress - threshold, 0) / scale)``, shape ``(n,)``."""
    if len(stress) == 1:
        return _excess_penalties(stress.tolist(), coeff, threshold, scale)
    return compiled(_excess_penalties, _excess_penalty)(stress, coeff, threshold, scale)


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
    if len(bar_pose) == 1:
        return _judge_step(
            bar_pose.tolist(),
            goal.tolist(),
            stress.tolist(),
            [rows.tolist() for rows in qvels],
            [joints.tolist() for joints in arms],
            [joints.tolist() for joints in bodies],
            elapsed_steps.tolist(),
            settle_window,
            thresholds.tolist(),
            max_tilt_deg,
            max_stress,
            steps_met,
            is_new_step,
        )
    return compiled(_judge_step, _tilt_deg)(
        bar_pose, goal, stress, qvels, arms, bodies, elapsed_steps, settle_window, thresholds, max_tilt_deg,
        max_stress, steps_met, is_new_step,
    )  # fmt: skip


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
    columns = (distance, tilt_deg, arm_speed, stress, is_placed, is_settled, success, weights)
    if len(distance) == 1:
        return _reward_of_step(*[column.tolist() for column in columns])
    return compiled(_reward_of_step, _excess_penalty)(*columns)


# --- the loops: what follows runs interpreted on lists and compiled on arrays ------------------------------------


def _tilt_deg(w: float, x: float, y: float, z: float) -> float:
    """Angle between a body's x axis, first column of the rotation matrix, and the horizontal plane, degrees."""
    along_x, along_y, along_z = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    length = math.sqrt(along_x * along_x + along_y * along_y + along_z * along_z)
    if length == 0.0:
        return 0.0
    return math.degrees(math.asin(min(abs(along_z) / length, 1.0)))


def _excess_penalty(stress: float, coeff: float, threshold: float, scale: float) -> float:
    return coeff * math.tanh(max(stress - threshold, 0.0) / scale)


def _tilts_deg(quaternions: Rows) -> FloatArray:
    tilts = np.empty(len(quaternions))
    for k in range(len(quaternions)):
        w, x, y, z = quaternions[k]
        tilts[k] = _tilt_deg(w, x, y, z)
    return tilts


def _largest_norms(vectors: Sequence[Rows]) -> FloatArray:
    n = len(vectors[0])
    norms = np.empty(n)
    for k in range(n):
        largest = 0.0
        for place in range(len(vectors)):
            x, y, z = vectors[place][k]
            largest = max(largest, math.sqrt(x * x + y * y + z * z))
        norms[k] = largest
    return norms


def _excess_penalties(stress: Numbers, coeff: float, threshold: float, scale: float) -> FloatArray:
    penalties = np.empty(len(stress))
    for k in range(len(stress)):
        penalties[k] = _excess_penalty(stress[k], coeff, threshold, scale)
    return penalties


def _judge_step(
    bar_pose: Rows,
    goal: Rows,
    stress: Numbers,
    qvels: Sequence[Rows],
    arms: Sequence[Sequence[int]],
    bodies: Sequence[Sequence[int]],
    elapsed_steps: Sequence[int],
    settle_window: int,
    thresholds: Numbers,
    max_tilt_deg: FloatArray,
    max_stress: FloatArray,
    steps_met: IndexArray,
    is_new_step: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    n = len(bar_pose)
    distance, tilt, arm_speed, flags = np.empty(n), np.empty(n), np.empty(n), np.empty((5, n), dtype=np.bool_)
    for k in range(n):
        pose, aim = bar_pose[k], goal[k]
        x, y, z = pose[0] - aim[0], pose[1] - aim[1], pose[2] - aim[2]
        distance_now = math.sqrt(x * x + y * y + z * z)
        tilt_now = _tilt_deg(pose[3], pose[4], pose[5], pose[6])
        fastest_arm, fastest_joint = 0.0, 0.0
        for robot in range(len(qvels)):
            qvel, squared = qvels[robot][k], 0.0
            for joint in arms[robot]:
                speed = qvel[joint]
                squared += speed * speed
            fastest_arm = max(fastest_arm, math.sqrt(squared))
            for joint in bodies[robot]:
                speed = abs(qvel[joint])
                if speed > fastest_joint:  # noqa: PLR1730 - a call would take longer than all the rest
                    fastest_joint = speed
        is_settled = elapsed_steps[k] >= settle_window
        most_tilt, most_stress = float(max_tilt_deg[k]), float(max_stress[k])
        if is_settled:
            most_tilt, most_stress = max(most_tilt, tilt_now), max(most_stress, stress[k])
            max_tilt_deg[k], max_stress[k] = most_tilt, most_stress
        is_placed = distance_now <= thresholds[0]
        was_level = most_tilt < thresholds[1]
        was_unstressed = most_stress < thresholds[2]
        is_static = fastest_joint <= thresholds[3]
        if is_new_step:
            is_met = is_placed and was_level and was_unstressed and is_static and is_settled
            steps_met[k] = steps_met[k] + 1 if is_met else 0
        distance[k], tilt[k], arm_speed[k] = distance_now, tilt_now, fastest_arm
        flags[0, k], flags[1, k], flags[2, k], flags[3, k] = is_placed, was_level, was_unstressed, is_static
        flags[4, k] = is_settled
    return distance, tilt, arm_speed, flags


def _reward_of_step(
    distance: Numbers,
    tilt_deg: Numbers,
    arm_speed: Numbers,
    stress: Numbers,
    is_placed: Sequence[bool],
    is_settled: Sequence[bool],
    success: Sequence[bool],
    weights: Numbers,
) -> FloatArray:
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
