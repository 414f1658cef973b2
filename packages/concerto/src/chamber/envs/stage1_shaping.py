"""Shaping for pick-place: once the cube is at its goal, a quieter arm is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array
from chamber.envs._forwarding import find_attribute
from chamber.envs._pbrs import PotentialShapingWrapper, positive, privileged_accessor
from chamber.envs._spaces import AnyEnv
from chamber.envs._stage1_rules import GOAL_THRESHOLD_M

__all__ = ["Stage1SettleShapingWrapper"]

_PANDA_ARM_DOF = 7


class Stage1SettleShapingWrapper(PotentialShapingWrapper):
    """Shapes with ``potential = -alpha * min(max_j |qvel_j|, qvel_cap)`` while the cube is placed, else 0.

    j runs over the seven arm joints of the ego; placed means within 2.5 cm of the goal.

    Args:
        env: Stage-1 environment, or a wrapper of one; needs ``privileged_settle_state()``.
        alpha: weight, s/rad.
        qvel_cap: joint speed from which on faster is not worse, rad/s.
        gamma: discount of the task.
        ego_uid: the robot whose speed counts.

    Raises:
        ValueError: a number is out of range, the environment has another ego, or another idea of placed.
        TypeError: the environment does not show its settling state.
    """

    def __init__(self, env: AnyEnv, *, alpha: float, qvel_cap: float, gamma: float, ego_uid: str) -> None:
        super().__init__(env, gamma=gamma)
        self._alpha = positive("alpha", alpha)
        self._qvel_cap = positive("qvel_cap", qvel_cap)
        self._state = privileged_accessor(env, "privileged_settle_state", wrapper=type(self).__name__)
        threshold = find_attribute(env, "_goal_thresh")
        if threshold is not None and abs(float(threshold) - GOAL_THRESHOLD_M) > 1e-9:
            raise ValueError(f"the environment's _goal_thresh is {threshold}, the shaping is for {GOAL_THRESHOLD_M}")
        ego = find_attribute(env, "ego_uid")
        if ego is not None and ego != ego_uid:
            raise ValueError(f"ego_uid is {ego_uid!r}, but the ego of the environment is {ego!r}")

    def potential(self) -> NDArray[np.float64]:
        """Give the potential of the present state, shape ``(num_envs,)``."""
        state = self._state()
        qvel, cube, goal = (_rows(state[name]) for name in ("ego_qvel", "cube_pos", "goal_pos"))
        speed = np.abs(qvel[:, :_PANDA_ARM_DOF]).max(axis=1)
        is_placed = np.linalg.norm(goal - cube, axis=1) <= GOAL_THRESHOLD_M
        return np.where(is_placed, -self._alpha * np.minimum(speed, self._qvel_cap), 0.0)


def _rows(value: object) -> NDArray[np.float64]:
    """Give a leaf as ``(num_envs, k)``."""
    array = as_array(value)
    if array is None:
        raise TypeError(f"privileged_settle_state() must give arrays or tensors, got {type(value).__name__}")
    return np.atleast_2d(array)
