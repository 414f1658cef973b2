"""What all co-carry controllers share: each holds one end of the bar and pulls it to where it thinks it belongs."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.partners._arm_control import ArmPartner, FloatArray, read_rows
from chamber.partners._servo_numbers import long_axis, servo_numbers
from chamber.partners.api import PartnerSpec

if TYPE_CHECKING:
    from chamber.agents._chain import SerialChain

__all__ = ["BarEnds", "CoCarryServoPartner", "Rows", "ServoGains", "remember_first"]

Rows = NDArray[np.int64]
"""Indices of environments of a batch."""

INTEGRAL_RADIUS_M = 0.12
INTEGRAL_BOUND_M_S = 0.6

_VALID = np.ones(1, dtype=np.bool_)
_INVALID = np.zeros(1, dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServoGains:
    """Gains of the Cartesian PI law.

    Attributes:
        kp: per control step.
        ki: 1/s.
        step_max: largest motion per axis and control step, m.
        damping: of the inverse Jacobian, m.
    """

    kp: float = 2.5
    ki: float = 0.0
    step_max: float = 0.03
    damping: float = 0.04


@dataclass(frozen=True, slots=True, eq=False)
class BarEnds:
    """Where the ends of the bar are, world, m, shape ``(n, 3)`` each: the one that this arm holds, and the other."""

    own: FloatArray
    other: FloatArray


class CoCarryServoPartner(ArmPartner):
    """Base of the co-carry controllers: a target for the own end of the bar, and a servo that goes there.

    It reads ``obs["extra"]["goal_pos"]`` and ``obs["agent"][uid]["qpos"]``; a subclass may look at
    ``obs["extra"]["bar_pose"]`` too. Equal observations since a reset give equal actions, byte for byte.

    Args:
        spec: beyond what `ArmPartner` knows, ``end_sign`` (``"1"`` for the bar's +x end, ``"-1"`` for the other) and
            ``bar_half_len``, m.

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {**ArmPartner.defaults, "end_sign": "1", "bar_half_len": "0.115"}
    units: ClassVar[Mapping[str, str]] = {
        **ArmPartner.units,
        "bar_half_len": "m",
        "kp": "per step",
        "ki": "1/s",
        "step_max": "m per step and axis",
        "damping": "m",
    }
    n_arm_joints: ClassVar[int] = 7
    gripper_command: ClassVar[float] = 1.0
    reads_bar_pose: ClassVar[bool] = False
    gains = ServoGains()

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        end_sign = self._number("end_sign", minimum=-1.0)
        if abs(end_sign) != 1.0:
            raise ValueError(f"end_sign must be 1 or -1; got {self._text('end_sign')!r}")
        self._end_offset = np.array([end_sign * self._number("bar_half_len"), 0.0, 0.0])
        self._arm = self._make_arm(self._text("urdf_path") or None)
        self._chain: SerialChain | None = getattr(self._arm, "chain", None)
        self._base: tuple[list[float], list[list[float]]] = (self._base_position.tolist(), self._base_rotation.tolist())
        self._n_rows = 0

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the last episode; the seed has no effect, because nothing here is drawn."""
        super().reset(seed=seed)
        self._n_rows = 0

    def reset_rows(self, env_idx: Sequence[int] | Rows) -> None:
        """Forget the episodes of some environments of the batch that `act_batch` answers."""
        if self._n_rows:
            self._clear(np.asarray(env_idx, dtype=np.int64))

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Give the joint commands and the gripper's, shape ``(n_arm_joints + 1,)``, in [-1, 1]."""
        actions = self._respond(obs, is_batch=False)
        if actions is None:
            actions = np.zeros((1, self.n_arm_joints + 1), dtype=np.float32)
            actions[:, -1] = self.gripper_command
        return actions[0]

    def act_batch(self, obs: Mapping[str, object]) -> NDArray[np.float32]:
        """Give the actions of a batch, shape ``(n, n_arm_joints + 1)``; row i is what `act` gives for environment i.

        Raises:
            ValueError: a field is missing, or n is not that of the episode's first call.
        """
        actions = self._respond(obs, is_batch=True)
        if actions is None:
            raise ValueError(
                f"a batch needs obs['extra']['goal_pos'] of shape (n, 3) and obs['agent'][{self._uid!r}]['qpos'] of "
                f"shape (n, >= {self.n_arm_joints})"
            )
        return actions

    # --- what a controller is made of -----------------------------------------------------------------------

    @abstractmethod
    def _make_arm(self, urdf_path: str | None) -> Any:
        """Give the provider of the arm's kinematics, a chain or at least the documented calls."""

    @abstractmethod
    def _linear_jacobian(self, joints: FloatArray) -> FloatArray:
        """Give the linear Jacobian of one configuration, shape ``(3, n_arm_joints)``."""

    def _begin(self, n_rows: int) -> None:
        """Make room for the memory of ``n_rows`` environments."""
        self._integrals = np.zeros((n_rows, 3))
        self._all_rows = np.arange(n_rows)
        self._n_rows = n_rows

    def _clear(self, rows: Rows) -> None:
        """Empty the memory of some environments."""
        self._integrals[rows] = 0.0

    def _joints(self, obs: Mapping[str, object], *, is_batch: bool) -> FloatArray | None:
        """Give the joints that the controller believes in, shape ``(n, n_arm_joints)``."""
        return read_rows(obs, "agent", self._uid, "qpos", size=self.n_arm_joints, is_batch=is_batch)

    def _targets(self, wanted: FloatArray, goals: FloatArray, bar: BarEnds | None) -> FloatArray:
        """Give where to pull the own end of the bar, world, shape ``(n, 3)``.

        Args:
            wanted: where it belongs when the bar is level and at its goal, shape ``(n, 3)``.
            goals: of the bar's centre, shape ``(n, 3)``.
            bar: where the ends are, if this controller looks and sees them.
        """
        return wanted

    def _postures(self, joints: FloatArray) -> FloatArray:
        """Give joint steps to take as far as they do not move the tool centre point, rad."""
        return np.zeros(joints.shape)

    def _sent(self, commands: NDArray[np.float32], joints: FloatArray, rows: Rows) -> None:
        """Look at, or change, the commands of the complete rows before they are sent."""

    # --- private --------------------------------------------------------------------------------------------

    def _respond(self, obs: Mapping[str, object], *, is_batch: bool) -> NDArray[np.float32] | None:
        joints = self._joints(obs, is_batch=is_batch)
        goals = read_rows(obs, "extra", "goal_pos", size=3, is_batch=is_batch)
        if joints is None or goals is None:
            self.n_incomplete_observations += 1
            return None
        self._require_rows(len(joints))
        self._require_rows(len(goals))
        targets = self._targets(goals + self._end_offset, goals, self._bar_ends(obs, is_batch=is_batch))
        actions, is_valid, n_valid = self._servo(targets, joints)
        actions[:, -1] = self.gripper_command
        rows = self._all_rows
        if n_valid < self._n_rows:
            rows = np.flatnonzero(is_valid)
            self.n_incomplete_observations += self._n_rows - n_valid
        self._sent(actions[:, :-1], joints, rows)
        return actions

    def _servo(self, targets: FloatArray, joints: FloatArray) -> tuple[NDArray[np.float32], NDArray[np.bool_], int]:
        gains, postures = self.gains, self._postures(joints)
        if self._chain is not None and len(joints) == 1:
            return self._servo_alone(self._chain, targets[0].tolist(), joints[0].tolist(), postures[0].tolist())
        from chamber.partners._servo_kernels import servo, servo_on_chain  # a compiler: not for one arm

        if self._chain is not None:
            return servo_on_chain(
                targets, self._base_position, self._base_rotation, self._chain.origins, joints, postures,
                gains.kp, gains.ki, gains.step_max, gains.damping,
                INTEGRAL_RADIUS_M, INTEGRAL_BOUND_M_S, self._integrals,
            )  # fmt: skip
        tcp = np.array([self._arm.fk_tcp_position(row) for row in joints])
        jacobians = np.array([self._linear_jacobian(row) for row in joints])
        return servo(
            targets, self._base_position, self._base_rotation, tcp, jacobians, postures,
            gains.kp, gains.ki, gains.step_max, gains.damping,
            INTEGRAL_RADIUS_M, INTEGRAL_BOUND_M_S, self._integrals,
        )  # fmt: skip

    def _servo_alone(
        self, chain: SerialChain, target: list[float], joints: list[float], posture: list[float]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], int]:
        """Do what the compiled servo does for one arm, which is faster than to load it."""
        actions = np.zeros((1, len(joints) + 1), dtype=np.float32)
        commands, integral, gains = None, self._integrals[0].tolist(), self.gains
        if all(map(math.isfinite, joints)):
            commands = servo_numbers(
                target, *self._base, chain.tcp_numbers(joints), posture,
                gains.kp, gains.ki, gains.step_max, gains.damping,
                INTEGRAL_RADIUS_M, INTEGRAL_BOUND_M_S, integral,
            )  # fmt: skip
        if commands is None:
            return actions, _INVALID, 0
        self._integrals[0] = integral
        actions[0, :-1] = commands
        return actions, _VALID, 1

    def _require_rows(self, n_rows: int) -> None:
        if self._n_rows == 0:
            self._begin(n_rows)
        if self._n_rows != n_rows:
            raise ValueError(f"this episode has {self._n_rows} environments, got an observation of {n_rows}")

    def _bar_ends(self, obs: Mapping[str, object], *, is_batch: bool) -> BarEnds | None:
        if not self.reads_bar_pose:
            return None
        pose = read_rows(obs, "extra", "bar_pose", size=7, is_batch=is_batch)
        if pose is None:
            return None
        centre = pose[:, :3]
        along = _long_axes(pose[:, 3:]) * self._end_offset[0]
        return BarEnds(own=centre + along, other=centre - along)


def _long_axes(quaternions: FloatArray) -> FloatArray:
    """Where the x axis of bodies points, shape ``(n, 4)`` to ``(n, 3)``."""
    if len(quaternions) == 1:
        return np.array([long_axis(quaternions[0].tolist())])
    from chamber.partners._servo_kernels import rotations_from_quaternions

    return rotations_from_quaternions(quaternions)[:, :, 0]


def remember_first(memory: FloatArray, seen: FloatArray) -> None:
    """Write the rows of ``seen`` into those rows of ``memory`` that are not finite, which is how they begin."""
    is_empty = ~np.isfinite(memory).all(axis=1)
    memory[is_empty] = seen[is_empty]
