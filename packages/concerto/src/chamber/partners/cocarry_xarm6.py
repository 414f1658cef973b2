"""Co-carry with another body: an xArm6 that follows the law of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from chamber.partners._arm_control import FloatArray
from chamber.partners._cocarry_servo import BarEnds, CoCarryServoPartner, ServoGains
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import register_partner

__all__ = ["CoCarryXArm6Partner"]


@register_partner("cocarry_xarm6_impedance")
class CoCarryXArm6Partner(CoCarryServoPartner):
    """Holds the -x end with six joints, with the compliant gains of the reference, so that a drop is due to the body.

    While it sees the bar, its target is ``own end + admit_bias (x - own end)`` in the plane, and in height the goal's
    plus ``level_gain`` times how much higher the other end is than its own; else x, where its end belongs at the goal.

    Args:
        spec: beyond what `CoCarryServoPartner` knows, ``kp`` (2.5 per step), ``ki`` (0.6 1/s), ``step_max`` (0.03 m per
            step and axis), ``damping`` (0.04 m), ``level_gain`` (1) and ``admit_bias`` (1).

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        **CoCarryServoPartner.defaults,
        "uid": "xarm6_robotiq",
        "base_xyz": "0.5,0,0",
        "base_yaw_deg": "180",
        "end_sign": "-1",
        "kp": "2.5",
        "ki": "0.6",
        "step_max": "0.03",
        "damping": "0.04",
        "level_gain": "1.0",
        "admit_bias": "1.0",
    }
    n_arm_joints = 6
    gripper_command = 0.0
    reads_bar_pose = True

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self.gains = ServoGains(
            kp=self._number("kp"),
            ki=self._number("ki"),
            step_max=self._number("step_max"),
            damping=self._number("damping"),
        )
        self._level_gain = self._number("level_gain")
        self._admit_bias = self._number("admit_bias")

    def _make_arm(self, urdf_path: str | None) -> Any:
        from chamber.agents.xarm6_jacobian import XArm6JacobianProvider

        return XArm6JacobianProvider(urdf_path)

    def _linear_jacobian(self, joints: FloatArray) -> FloatArray:
        return self._arm.jacobian(joints)

    def _targets(self, wanted: FloatArray, goals: FloatArray, bar: BarEnds | None) -> FloatArray:
        if bar is None:
            return wanted
        targets = bar.own + self._admit_bias * (wanted - bar.own)
        targets[:, 2] = goals[:, 2] + self._level_gain * (bar.other[:, 2] - bar.own[:, 2])
        return targets
