"""The matched reference of co-carry: a compliant arm that carries its end of the bar to the goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.partners._arm_control import CommandDelay, FloatArray
from chamber.partners._cocarry_servo import CoCarryServoPartner, Rows, ServoGains, remember_first
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import register_partner

__all__ = ["CoCarryImpedancePartner"]

_LAG_STEPS_MAX = 10


@register_partner("cocarry_impedance")
class CoCarryImpedancePartner(CoCarryServoPartner):
    """Pulls its end of the bar to where it belongs at the goal; two of them carry the bar level.

    The target is ``x = g + s h (1, 0, 0)`` with the goal g of the bar's centre, the end sign s and half the bar's
    length h; the law is that of `chamber.partners._arm_control.servo`. Joint steps from measured joints let the arms
    share the load; the integral, gated to errors below 12 cm, removes the offset of centimetres that the load causes.

    Args:
        spec: beyond what `CoCarryServoPartner` knows,

            * ``kp`` (2.5 per step), ``ki`` (0.6 1/s), ``step_max`` (0.03 m per step and axis), ``damping`` (0.04 m);
            * ``lag_steps``, 0 to 10: calls by which the arm's commands are held back, the gripper's never;
            * ``posture_gain`` (0, off), per step: how fast joints go back to where they were at the first call of the
              episode, as far as that does not move the tool centre point. Without it four freedoms of the arm drift.

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        **CoCarryServoPartner.defaults,
        "kp": "2.5",
        "ki": "0.6",
        "step_max": "0.03",
        "damping": "0.04",
        "lag_steps": "0",
        "posture_gain": "0",
    }
    units: ClassVar[Mapping[str, str]] = {
        **CoCarryServoPartner.units,
        "lag_steps": "calls",
        "posture_gain": "per step",
    }

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self.gains = ServoGains(
            kp=self._number("kp"),
            ki=self._number("ki"),
            step_max=self._number("step_max"),
            damping=self._number("damping"),
        )
        self._lag_steps = _lag_steps(self._text("lag_steps"))
        self._posture_gain = self._number("posture_gain")

    def _make_arm(self, urdf_path: str | None) -> Any:
        from chamber.agents.panda_jacobian import PandaJacobianProvider

        return PandaJacobianProvider(urdf_path)

    def _linear_jacobian(self, joints: FloatArray) -> FloatArray:
        return self._arm(None, joints)

    def _begin(self, n_rows: int) -> None:
        super()._begin(n_rows)
        self._delay = CommandDelay(n_rows, width=self.n_arm_joints, n_calls=self._lag_steps)
        self._rest_joints = np.full((n_rows, self.n_arm_joints), np.nan)

    def _clear(self, rows: Rows) -> None:
        super()._clear(rows)
        self._delay.clear(rows)
        self._rest_joints[rows] = np.nan

    def _postures(self, joints: FloatArray) -> FloatArray:
        if self._posture_gain == 0.0:
            return super()._postures(joints)
        remember_first(self._rest_joints, joints)
        return self._posture_gain * (self._rest_joints - joints)

    def _sent(self, commands: NDArray[np.float32], joints: FloatArray, rows: Rows) -> None:
        if self._lag_steps:
            self._delay.swap(commands, rows)


def _lag_steps(text: str) -> int:
    rule = f"lag_steps must be an int in [0, {_LAG_STEPS_MAX}]"
    try:
        steps = int(text)
    except ValueError:
        raise ValueError(rule) from None
    if not 0 <= steps <= _LAG_STEPS_MAX:
        raise ValueError(f"{rule}; got {steps}")
    return steps
