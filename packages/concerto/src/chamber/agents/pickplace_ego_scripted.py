"""The scripted ego of the pick-and-place task: it reaches, grasps, carries and holds, and needs no partner for it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array, leaf
from chamber.agents.panda_jacobian import PANDA_ARM_DOF, PandaJacobianProvider

__all__ = ["PICKPLACE_EGO_BASE_XYZ", "PICKPLACE_EGO_UID", "PICKPLACE_PHASES", "ScriptedPickPlaceEgo"]

FloatArray = NDArray[np.float64]

PICKPLACE_EGO_UID = "panda_wristcam"
PICKPLACE_EGO_BASE_XYZ = (-0.615, 0.0, 0.0)
"""Base of the ego in the world, m; it is not rotated."""
PICKPLACE_PHASES = ("reach_above", "descend", "grasp", "move", "settle")

_HOVER = np.array([0.0, 0.0, 0.08])
_GRASP_DEPTH = np.array([0.0, 0.0, -0.002])
_REACH_TOLERANCE_M = 0.015
_DESCEND_TOLERANCE_M = 0.008
_PLACE_TOLERANCE_M = 0.015
_DROP_TOLERANCE_M = 0.06
_GRIPPER_CLOSE_STEPS = 8
_POSITION_GAIN = 2.5
_ROTATION_GAIN = 1.0
_DAMPING = 0.01 * np.eye(6)
_ACTION_SCALE_RAD = 0.1
_OPEN, _CLOSED = 1.0, -1.0

_log = logging.getLogger(__name__)


class ScriptedPickPlaceEgo:
    """Picks the cube up from above and holds it at the goal: an oracle, which shows that the task can be solved alone.

    It reads ``obs["extra"]["cube_pose" | "goal_pos" | "tcp_pose"]`` and its own ``qpos``; of batched observations the
    first copy. An action is ``(8,)`` float32: seven joint increments in units of 0.1 rad, and the gripper (+1 open).

    With J the 6 x 7 Jacobian, p and z the position and the z axis of the tool and x the target of the phase, all in the
    frame of the base, a step is the damped least-squares one (Nakamura & Hanafusa 1986)::

        e = [2.5 (x - p); z cross (0, 0, -1)]        dq = J^T (J J^T + 0.01 I)^-1 e

    Args:
        mask_partner_obs: take the partner out of the observation before anything is read: blind by construction.
        partner_uid: whom that concerns.
        base_xyz: base of the arm in the world, m.

    Raises:
        ValueError: ``base_xyz`` is not three finite numbers.
    """

    def __init__(
        self,
        *,
        mask_partner_obs: bool = False,
        partner_uid: str = "fetch",
        base_xyz: Sequence[float] = PICKPLACE_EGO_BASE_XYZ,
    ) -> None:
        base = np.array(base_xyz, dtype=np.float64)
        if base.shape != (3,) or not np.isfinite(base).all():
            raise ValueError(f"base_xyz must be three finite numbers, got {base_xyz!r}")
        self._base = base
        self._mask_partner_obs = mask_partner_obs
        self._partner_uid = partner_uid
        self._kinematics = PandaJacobianProvider()
        limits = self._kinematics.chain.table
        self._lower, self._upper = limits.lower, limits.upper
        self.reset()

    @property
    def phase(self) -> str:
        """What it is doing, one of `PICKPLACE_PHASES`."""
        return self._phase

    @property
    def joint_limit_violations(self) -> int:
        """How many actions of this episode asked for a joint position beyond its limits; the first one is logged."""
        return self._joint_limit_violations

    def reset(self, *, seed: int | None = None) -> None:
        """Start with the first phase; there is nothing to seed."""
        self._phase = PICKPLACE_PHASES[0]
        self._steps_in_phase = 0
        self._joint_limit_violations = 0

    def act(self, obs: Mapping[str, object]) -> NDArray[np.float32]:
        """Give the next action, shape ``(8,)``.

        Raises:
            KeyError: a field is missing; the message names it.
            ValueError: a field is too short or not finite.
        """
        if self._mask_partner_obs:
            obs = self._without_partner(obs)
        cube = _vector(obs, 3, "extra", "cube_pose")
        goal = _vector(obs, 3, "extra", "goal_pos")
        tcp = _vector(obs, 3, "extra", "tcp_pose")
        joints = _vector(obs, PANDA_ARM_DOF, "agent", PICKPLACE_EGO_UID, "qpos")
        target, gripper = self._next_target(cube, goal, tcp)
        self._steps_in_phase += 1
        step = self._joint_step(joints, target)
        self._watch_limits(joints + step)
        action = np.append(np.clip(step / _ACTION_SCALE_RAD, -1.0, 1.0), gripper)
        return action.astype(np.float32)

    def _next_target(self, cube: FloatArray, goal: FloatArray, tcp: FloatArray) -> tuple[FloatArray, float]:
        """Go on to the phase that is due, through several when their tests hold; give its target and gripper."""
        target, gripper = cube + _HOVER, _OPEN
        if self._phase == "reach_above" and _distance(tcp, target) < _REACH_TOLERANCE_M:
            self._enter("descend")
        if self._phase == "descend":
            target = cube + _GRASP_DEPTH
            if _distance(tcp, target) < _DESCEND_TOLERANCE_M:
                self._enter("grasp")
        if self._phase == "grasp":
            target, gripper = tcp, _CLOSED
            if self._steps_in_phase >= _GRIPPER_CLOSE_STEPS:
                self._enter("move")
        if self._phase in {"move", "settle"}:
            if _distance(cube, tcp) > _DROP_TOLERANCE_M:
                self._enter("reach_above")
                return cube + _HOVER, _OPEN
            target, gripper = goal, _CLOSED
            if self._phase == "move" and _distance(cube, goal) < _PLACE_TOLERANCE_M:
                self._enter("settle")
        return target, gripper

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._steps_in_phase = 0

    def _joint_step(self, joints: FloatArray, target: FloatArray) -> FloatArray:
        tool = self._kinematics.chain.pose_numbers(joints.tolist())
        (_, _, axis_x), (_, _, axis_y), _ = tool.rotation
        jacobian: FloatArray = np.array(tool.jacobian)
        error = np.zeros(6)
        error[:3] = _POSITION_GAIN * (target - self._base - tool.position)
        error[3], error[4] = -_ROTATION_GAIN * axis_y, _ROTATION_GAIN * axis_x  # z cross (0, 0, -1)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + _DAMPING, error)
        return np.clip(step, -_ACTION_SCALE_RAD, _ACTION_SCALE_RAD)

    def _watch_limits(self, joints: FloatArray) -> None:
        beyond = (joints < self._lower) | (joints > self._upper)
        if not beyond.any():
            return
        self._joint_limit_violations += 1
        if self._joint_limit_violations == 1:
            names = [name for name, is_beyond in zip(self._joint_names(), beyond, strict=True) if is_beyond]
            _log.warning("the scripted ego asks for %s beyond the joint limits in phase %s", names, self._phase)

    def _joint_names(self) -> tuple[str, ...]:
        return self._kinematics.chain.table.joint_names

    def _without_partner(self, obs: Mapping[str, object]) -> Mapping[str, object]:
        agents = leaf(obs, "agent")
        if not isinstance(agents, Mapping):
            return obs
        return {**obs, "agent": {uid: value for uid, value in agents.items() if uid != self._partner_uid}}


def _distance(a: FloatArray, b: FloatArray) -> float:
    return math.dist(a, b)


def _vector(obs: Mapping[str, object], length: int, *path: str) -> FloatArray:
    """Give the first ``length`` components of a field, of the first copy when it is batched."""
    field = ".".join(path)
    value = as_array(leaf(obs, *path))
    if value is None:
        raise KeyError(f"the observation has no {field}")
    vector = (value[0] if value.ndim >= 2 else value).ravel()[:length]
    if vector.shape != (length,) or not np.isfinite(vector).all():
        raise ValueError(f"{field} must start with {length} finite numbers, got {vector.tolist()}")
    return vector
