"""The reference pair of co-insert: one arm holds a socket still in mid-air, the other puts a peg into it.

Peg and socket are welded to the hands. Both arms close the loop on the poses they observe and keep their hands from
turning. With the socket's axis a (its local z, out of the mouth), the mouth m (its origin) and the peg's tip t:
``d = -(t - m) . a`` is the depth, positive inside, and ``|t - m + d a|`` the lateral offset.
"""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.partners._arm_control import (
    CONTROL_PERIOD_S,
    ArmPartner,
    FloatArray,
    read_rows,
)
from chamber.partners._servo_numbers import damped_numbers, local_z, rotation_vector_numbers, within
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import register_partner

if TYPE_CHECKING:
    from chamber.agents._chain import SerialChain

__all__ = ["COINSERT_CHAMFER_M", "CoInsertBaseInserter", "CoInsertReferenceHolder"]

COINSERT_CHAMFER_M = 5e-4
"""Offset from the axis at which a chamfered mouth catches the tip of the peg: part of the envelope that an inserter
declares, although the socket of the task has no chamfer."""

_N_ARM_JOINTS = 7
_GRIPPER_COMMAND = -1.0
_AXIS_FLOOR = 1e-12
_TURN_MAX_RAD = 0.15
_INTEGRAL_RADIUS_M = 0.05
_INTEGRAL_BOUND_M_S = 0.4

_STANDOFF_M = 0.004
_LATERAL_TOLERANCE_M = 0.0012
_PROGRESS_EPSILON_M = 1e-4
_SEAT_MARGIN_M = 0.002
_OVERTRAVEL_M = 0.005
_STALL_CALLS = 8
_RETRACT_CALLS = 5
_RETRACT_DISTANCE_M = 0.009
_RETRACT_DEPTH_MIN_M = -0.005
_SPIRAL_RATE_RAD = 0.6
_NO_DEPTH_M = -1.0


class _CoInsertPartner(ArmPartner):
    """Moves its hand by a Cartesian command and keeps the orientation that the hand had in the episode's first step.

    With the orientation R of the hand, R* that of the first step, and the world command v: the hand turns by
    ``w = clip(ori_hold_gain log(R* R^T), +-0.15 rad)`` and the joint step is the damped inverse of the 6 x 7 Jacobian
    times ``[R_b^T v; w]``.

    Args:
        spec: beyond what `ArmPartner` knows, ``peg_half_len`` (0.040 m), ``damping`` (0.04), ``step_max`` (0.02 m per
            step and axis) and ``ori_hold_gain`` (2.5 per step).

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        **ArmPartner.defaults,
        "peg_half_len": "0.040",
        "damping": "0.04",
        "step_max": "0.02",
        "ori_hold_gain": "2.5",
    }
    units: ClassVar[Mapping[str, str]] = {
        **ArmPartner.units,
        "peg_half_len": "m",
        "step_max": "m per step and axis",
        "ori_hold_gain": "per step",
    }

    def __init__(self, spec: PartnerSpec) -> None:
        from chamber.agents.panda_jacobian import PandaJacobianProvider

        super().__init__(spec)
        self._peg_half_length = self._number("peg_half_len")
        self._damping = self._number("damping")
        self._step_max = self._number("step_max")
        self._hold_gain = self._number("ori_hold_gain")
        self._arm: Any = PandaJacobianProvider(self._text("urdf_path") or None)
        self._forget()

    @property
    def _chain(self) -> SerialChain | None:
        return getattr(self._arm, "chain", None)

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the last episode; the seed has no effect, because nothing here is drawn."""
        super().reset(seed=seed)
        self._forget()

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Give the joint commands and the closed gripper's, shape ``(8,)``, in [-1, 1]."""
        self._n_calls += 1
        action = np.zeros(_N_ARM_JOINTS + 1, dtype=np.float32)
        action[-1] = _GRIPPER_COMMAND
        joints = _vector(obs, "agent", self._uid, "qpos", size=_N_ARM_JOINTS)
        velocity = None if joints is None else self._velocity(obs)
        if joints is None or velocity is None:
            self.n_incomplete_observations += 1
        else:
            action[:-1] = self._joint_command(joints, velocity)
        return action

    def assert_episode_state_clear(self) -> None:
        """Check that nothing is left of an earlier episode.

        Raises:
            AssertionError: something is; the message names the class and all of it.
        """
        left = [name for name, is_left in self._episode_state().items() if is_left]
        if left:
            raise AssertionError(f"{type(self).__name__} still has state of an episode: {', '.join(left)}")

    @abstractmethod
    def _velocity(self, obs: Mapping[str, object]) -> FloatArray | None:
        """Give the command, world axes, m per step; None when the observation is not complete."""

    def _forget(self) -> None:
        self._n_calls = 0
        self._integral = np.zeros(3)
        self._held_rotation: FloatArray | None = None

    def _episode_state(self) -> dict[str, bool]:
        return {
            "call counter": self._n_calls != 0,
            "integral": bool(self._integral.any()),
            "held orientation": self._held_rotation is not None,
        }

    def _integrate(self, error: FloatArray, growth: FloatArray) -> None:
        if np.sqrt(error @ error) < _INTEGRAL_RADIUS_M:
            grown = self._integral + CONTROL_PERIOD_S * growth
            self._integral = grown.clip(-_INTEGRAL_BOUND_M_S, _INTEGRAL_BOUND_M_S)

    def _joint_command(self, joints: FloatArray, velocity: FloatArray) -> list[float]:
        rotation, jacobian = self._rotation_and_jacobian(joints)
        if self._held_rotation is None:
            self._held_rotation = rotation
        turn = rotation_vector_numbers((self._held_rotation @ rotation.T).tolist())
        turned = [within(self._hold_gain * part, _TURN_MAX_RAD) for part in turn]
        return damped_numbers(jacobian, [*(velocity @ self._base_rotation).tolist(), *turned], self._damping)

    def _rotation_and_jacobian(self, joints: FloatArray) -> tuple[FloatArray, Sequence[Sequence[float]]]:
        if self._chain is None:
            return self._arm.fk_tcp_rotation(joints), self._arm.jacobian_6x7(joints).tolist()
        pose = self._chain.pose_numbers(joints.tolist())
        return np.array(pose.rotation), pose.jacobian


class _Branch(enum.Enum):
    APPROACH = enum.auto()
    PRESS = enum.auto()
    SEATED = enum.auto()


@register_partner("coinsert_base_inserter")
class CoInsertBaseInserter(_CoInsertPartner):
    """Puts the peg into the socket: above the mouth first, then in, and out and around when it gets stuck.

    It reads ``qpos`` of its arm, ``obs["extra"]["peg_pose"]`` and ``obs["extra"]["receptacle_pose"]``. In each call the
    first of these that holds decides:

    1. Seated, ``d >= depth_target - 2 mm``: no motion; the integral and both counters are cleared.
    2. Approach, ``d < -4 mm`` or more than 1.2 mm from the axis: the tip goes to 4 mm in front of the mouth. A peg that
       is inside and so far from the axis is pulled out.
    3. Press: the tip goes ``descend_step`` deeper, 5 mm beyond the target at most. After eight calls in a row that were
       not 0.1 mm deeper than the one before it retracts by 9 mm, but not further out than 5 mm, for five calls. The
       call that decides so, and all but the last of these five, add a circle of constant radius ``spiral_amp`` about
       the axis. An approach in between does not end the retraction.

    With the distance e from tip to target: ``I <- clip(I + dt e, +-0.4 m s)`` where ``|e| < 5 cm``, in approach and
    press alike, and the command is ``clip(kp e + ki I, +-step_max)`` in world axes.

    Args:
        spec: beyond the keys that both arms know, ``kp`` (2.5 per step), ``ki`` (0.6 1/s), ``spiral_amp`` (3 mm),
            ``descend_step`` (5 mm) and ``depth_target`` (40 mm), in metres.

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        **_CoInsertPartner.defaults,
        "kp": "2.5",
        "ki": "0.6",
        "spiral_amp": "0.003",
        "descend_step": "0.005",
        "depth_target": "0.040",
    }
    units: ClassVar[Mapping[str, str]] = {
        **_CoInsertPartner.units,
        "kp": "per step",
        "ki": "1/s",
        "spiral_amp": "m",
        "descend_step": "m",
        "depth_target": "m",
    }

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self._kp = self._number("kp")
        self._ki = self._number("ki")
        self._spiral_amplitude = self._number("spiral_amp")
        self._descend_step = self._number("descend_step")
        self._depth_target = self._number("depth_target")

    @property
    def insertion_envelope_m(self) -> dict[str, float]:
        """The pose error that is attempted, m: radius of the search, what the mouth catches, and their sum.

        Beyond it a lost socket is not found again.
        """
        return {
            "spiral_search_amplitude_m": self._spiral_amplitude,
            "chamfer_capture_radius_m": COINSERT_CHAMFER_M,
            "insertion_envelope_m": self._spiral_amplitude + COINSERT_CHAMFER_M,
        }

    def _forget(self) -> None:
        super()._forget()
        self._n_stalled = 0
        self._n_retracting = 0
        self._last_depth = _NO_DEPTH_M

    def _episode_state(self) -> dict[str, bool]:
        return {
            **super()._episode_state(),
            "stall counter": self._n_stalled != 0,
            "retract counter": self._n_retracting != 0,
            "last depth": self._last_depth != _NO_DEPTH_M,
        }

    def _velocity(self, obs: Mapping[str, object]) -> FloatArray | None:
        peg = _vector(obs, "extra", "peg_pose", size=7)
        socket = _vector(obs, "extra", "receptacle_pose", size=7)
        if peg is None or socket is None:
            return None
        axis = _axis(socket)
        mouth = socket[:3]
        tip = peg[:3] + self._peg_half_length * _local_z(peg)
        offset = tip - mouth
        height = float(offset @ axis)
        beside = offset - height * axis
        branch = self._branch(-height, float(np.sqrt(beside @ beside)))
        if branch is _Branch.SEATED:
            self._n_stalled = self._n_retracting = 0
            self._integral = np.zeros(3)
            return np.zeros(3)
        if branch is _Branch.APPROACH:
            self._n_stalled = 0
            target = mouth + _STANDOFF_M * axis
        else:
            target = mouth - self._pressed_depth(-height) * axis
            if self._n_retracting > 0:
                target = target + self._spiral(axis)
        self._last_depth = -height
        error = target - tip
        self._integrate(error, error)
        return (self._kp * error + self._ki * self._integral).clip(-self._step_max, self._step_max)

    def _branch(self, depth: float, lateral: float) -> _Branch:
        if depth >= self._depth_target - _SEAT_MARGIN_M:
            return _Branch.SEATED
        if depth < -_STANDOFF_M or lateral > _LATERAL_TOLERANCE_M:
            return _Branch.APPROACH
        return _Branch.PRESS

    def _pressed_depth(self, depth: float) -> float:
        """Give the depth to go to, and count stalled and retracting calls."""
        if self._n_retracting > 0:
            self._n_retracting -= 1
            return max(depth - _RETRACT_DISTANCE_M, _RETRACT_DEPTH_MIN_M)
        self._n_stalled = self._n_stalled + 1 if depth <= self._last_depth + _PROGRESS_EPSILON_M else 0
        if self._n_stalled == _STALL_CALLS:
            self._n_retracting = _RETRACT_CALLS
            self._n_stalled = 0
        return min(depth + self._descend_step, self._depth_target + _OVERTRAVEL_M)

    def _spiral(self, axis: FloatArray) -> FloatArray:
        reference = np.array([1.0, 0.0, 0.0]) if abs(axis[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
        first = np.cross(axis, reference)
        first /= np.sqrt(first @ first)
        phase = _SPIRAL_RATE_RAD * self._n_calls
        return self._spiral_amplitude * (np.cos(phase) * first + np.sin(phase) * np.cross(axis, first))


@register_partner("coinsert_reference_holder")
class CoInsertReferenceHolder(_CoInsertPartner):
    """Holds the socket where it first saw it, softly, with an integral along the socket's axis.

    It reads ``qpos`` of its arm and ``obs["extra"]["receptacle_pose"]``, and never looks at the peg. With the distance
    e from the mouth to where it first was, ``e_a`` along the axis and ``e_l`` across it:
    ``I <- clip(I + dt e_a, +-0.4 m s)`` where ``|e| < 5 cm``, and the command is
    ``clip(kp_lateral e_l + kp_axial e_a + ki I, +-step_max)`` in world axes.

    Args:
        spec: beyond the keys that both arms know, ``kp_lateral`` and ``kp_axial`` (2 per step each), ``ki`` (0.4 1/s).

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        **_CoInsertPartner.defaults,
        "kp_lateral": "2.0",
        "kp_axial": "2.0",
        "ki": "0.4",
    }
    units: ClassVar[Mapping[str, str]] = {
        **_CoInsertPartner.units,
        "kp_lateral": "per step",
        "kp_axial": "per step",
        "ki": "1/s",
    }

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self._kp_lateral = self._number("kp_lateral")
        self._kp_axial = self._number("kp_axial")
        self._ki = self._number("ki")

    def _forget(self) -> None:
        super()._forget()
        self._held_mouth: FloatArray | None = None

    def _episode_state(self) -> dict[str, bool]:
        return {**super()._episode_state(), "held mouth": self._held_mouth is not None}

    def _velocity(self, obs: Mapping[str, object]) -> FloatArray | None:
        socket = _vector(obs, "extra", "receptacle_pose", size=7)
        if socket is None:
            return None
        if self._held_mouth is None:
            self._held_mouth = socket[:3].copy()
        axis = _axis(socket)
        error = self._held_mouth - socket[:3]
        axial = (error @ axis) * axis
        self._integrate(error, axial)
        command = self._kp_lateral * (error - axial) + self._kp_axial * axial + self._ki * self._integral
        return command.clip(-self._step_max, self._step_max)


def _vector(obs: Mapping[str, object], *path: str, size: int) -> FloatArray | None:
    """Give the first components of a field that is there and finite."""
    rows = read_rows(obs, *path, size=size, is_batch=False)
    return rows[0] if rows is not None and all(map(math.isfinite, rows[0].tolist())) else None


def _axis(pose: FloatArray) -> FloatArray:
    """Give the unit vector along local z of a pose, world."""
    axis = _local_z(pose)
    return axis / max(np.sqrt(axis @ axis), _AXIS_FLOOR)


def _local_z(pose: FloatArray) -> FloatArray:
    return np.array(local_z(pose[3:].tolist()))
