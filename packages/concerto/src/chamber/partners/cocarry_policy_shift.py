"""Co-carry arms with the body and the target of the reference, and other habits.

They measure how much a cooperation depends on the policy of the partner. Their gains belong to the class and cannot be
set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.partners._arm_control import FloatArray
from chamber.partners._cocarry_servo import BarEnds, CoCarryServoPartner, Rows, ServoGains, remember_first
from chamber.partners.registry import register_partner

__all__ = [
    "COCARRY_POLICY_SHIFT_CANDIDATES",
    "CoCarryAdmittancePartner",
    "CoCarryNullspaceImpedancePartner",
    "CoCarrySlewImpedancePartner",
    "CoCarryStiffImpedancePartner",
]

COCARRY_POLICY_SHIFT_CANDIDATES = (
    "cocarry_stiff_impedance",
    "cocarry_admittance",
    "cocarry_slew_impedance",
    "cocarry_nullspace_impedance",
)
"""Keys of the family."""

_GIVE_WAY = 0.35
_SLEW_CALLS = 140
_POSTURE_GAIN = 0.4
_POSTURE_RAD = (0.4, np.pi / 6, -0.4, -5 * np.pi / 8, 0.3, 2 * np.pi / 3, -np.pi / 6)


class _PolicyShiftPartner(CoCarryServoPartner):
    """The reference law without integral, on a Panda that by default holds the -x end."""

    defaults: ClassVar[Mapping[str, str]] = {**CoCarryServoPartner.defaults, "uid": "panda_partner", "end_sign": "-1"}

    def _make_arm(self, urdf_path: str | None) -> Any:
        from chamber.agents.panda_jacobian import PandaJacobianProvider

        return PandaJacobianProvider(urdf_path)

    def _linear_jacobian(self, joints: FloatArray) -> FloatArray:
        return self._arm(None, joints)


@register_partner("cocarry_stiff_impedance")
class CoCarryStiffImpedancePartner(_PolicyShiftPartner):
    """Pulls hard: a high gain, long steps, little damping."""

    gains = ServoGains(kp=6.0, step_max=0.06, damping=0.02)


@register_partner("cocarry_admittance")
class CoCarryAdmittancePartner(_PolicyShiftPartner):
    """Gives way: its target is 35 % of the way from where its end of the bar is to where it belongs.

    While it does not see the bar its target is where the end belongs.
    """

    gains = ServoGains(kp=1.2, step_max=0.025, damping=0.08)
    reads_bar_pose = True

    def _targets(self, wanted: FloatArray, goals: FloatArray, bar: BarEnds | None) -> FloatArray:
        return wanted if bar is None else bar.own + _GIVE_WAY * (wanted - bar.own)


@register_partner("cocarry_slew_impedance")
class CoCarrySlewImpedancePartner(_PolicyShiftPartner):
    """Takes its time: the target moves evenly, in 140 calls, from where the end was first seen to where it belongs.

    Only calls with complete observations count. Until it has seen the bar its target is where the end belongs; a bar
    that is first seen late has the rest of the calls.
    """

    reads_bar_pose = True

    def _begin(self, n_rows: int) -> None:
        super()._begin(n_rows)
        self._starts = np.full((n_rows, 3), np.nan)
        self._n_calls = np.zeros((n_rows, 1), dtype=np.int64)

    def _clear(self, rows: Rows) -> None:
        super()._clear(rows)
        self._starts[rows] = np.nan
        self._n_calls[rows] = 0

    def _targets(self, wanted: FloatArray, goals: FloatArray, bar: BarEnds | None) -> FloatArray:
        if bar is not None:
            remember_first(self._starts, bar.own)
        share = np.minimum((self._n_calls + 1) / _SLEW_CALLS, 1.0)
        slewed = self._starts + share * (wanted - self._starts)
        return np.where(np.isfinite(self._starts), slewed, wanted)

    def _sent(self, commands: NDArray[np.float32], joints: FloatArray, rows: Rows) -> None:
        self._n_calls[rows] += 1


@register_partner("cocarry_nullspace_impedance")
class CoCarryNullspaceImpedancePartner(_PolicyShiftPartner):
    """Moves its elbow: as far as the tool centre point does not mind, its joints go to a posture of its own."""

    def _postures(self, joints: FloatArray) -> FloatArray:
        return _POSTURE_GAIN * (np.array(_POSTURE_RAD) - joints)
