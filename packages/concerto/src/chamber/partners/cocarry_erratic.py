"""A co-carry partner that carries well and misbehaves: every so often it leans its elbow at the other arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS
from chamber.partners._arm_control import CONTROL_PERIOD_S, JOINT_STEP_PER_ACTION_RAD, FloatArray
from chamber.partners._cocarry_servo import Rows, remember_first
from chamber.partners._parameters import positive_integer
from chamber.partners.api import PartnerSpec
from chamber.partners.cocarry_impedance import CoCarryImpedancePartner
from chamber.partners.registry import register_partner

__all__ = ["COCARRY_ERRATIC_CLASS", "CoCarryErraticPartner"]

COCARRY_ERRATIC_CLASS = "cocarry_erratic"

_ELBOW_LINK = 4
_ELBOW_POINT = (0.0, 0.0, 0.0)
_DAMPING_M = 0.05
_RETURN_GAIN = 0.15  # per call


@register_partner(COCARRY_ERRATIC_CLASS)
class CoCarryErraticPartner(CoCarryImpedancePartner):
    """Holds its end of the bar like the reference and swings its elbow forward, at whoever stands opposite.

    From the first call on it repeats: ``swing_calls`` in which its elbow is asked to move forward (the x axis of its
    base) with ``swing_speed``, as far as that does not move its hand; as many in which it goes back to where its joints
    were at the first call; then ``rest_calls`` like the reference.

    A swing asks the elbow for no more than ``swing_speed``; what the hand's motion adds is that of the reference.

    Args:
        spec: beyond what `CoCarryImpedancePartner` knows, ``swing_speed`` (0.35 m/s), ``swing_calls`` (30) and
            ``rest_calls`` (24).

    Raises:
        ValueError: a parameter is out of range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        **CoCarryImpedancePartner.defaults,
        "uid": "panda_partner",
        "base_xyz": "0.5,0.0,0.0",
        "base_yaw_deg": "180",
        "end_sign": "-1",
        "swing_speed": "0.35",
        "swing_calls": "30",
        "rest_calls": "24",
    }
    units: ClassVar[Mapping[str, str]] = {
        **CoCarryImpedancePartner.units,
        "swing_speed": "m/s",
        "swing_calls": "calls",
        "rest_calls": "calls",
    }

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self._speed = self._number("swing_speed")
        self._swing_calls = positive_integer("swing_calls", self._text("swing_calls"))
        self._rest_calls = positive_integer("rest_calls", self._text("rest_calls"))

    def _begin(self, n_rows: int) -> None:
        super()._begin(n_rows)
        self._calls = np.zeros(n_rows, dtype=np.int64)

    def _clear(self, rows: Rows) -> None:
        super()._clear(rows)
        self._calls[rows] = 0

    def _postures(self, joints: FloatArray) -> FloatArray:
        remember_first(self._rest_joints, joints)
        steps = super()._postures(joints)
        place = self._calls % (2 * self._swing_calls + self._rest_calls)
        for row in np.flatnonzero(np.isfinite(joints).all(axis=1)):
            if place[row] < self._swing_calls:
                steps[row] = self._lean(joints[row])
            elif place[row] < 2 * self._swing_calls:
                steps[row] = self._go_back(joints[row], self._rest_joints[row])
        return steps

    def _sent(self, commands: NDArray[np.float32], joints: FloatArray, rows: Rows) -> None:
        super()._sent(commands, joints, rows)
        self._calls[rows] += 1

    def _lean(self, joints: FloatArray) -> FloatArray:
        """Give the joint step that moves the elbow forward and the hand not at all, rad.

        With the projection N onto the motions that leave the hand where it is, and the row j of the elbow's Jacobian
        that belongs to the direction, it is ``N j^T speed dt / (j N j^T + damping^2)`` (Siciliano & Slotine 1991).
        """
        hand = _PANDA.jacobian(joints)[:3]
        free = np.eye(self.n_arm_joints) - hand.T @ np.linalg.solve(hand @ hand.T + 1e-6 * np.eye(3), hand)
        forward = _PANDA.point_jacobian(joints, _ELBOW_LINK, _ELBOW_POINT)[0]
        step = free @ forward * (self._speed * CONTROL_PERIOD_S / (forward @ free @ forward + _DAMPING_M**2))
        return step * min(1.0, JOINT_STEP_PER_ACTION_RAD / max(float(np.abs(step).max()), math.ulp(1.0)))

    def _go_back(self, joints: FloatArray, home: FloatArray) -> FloatArray:
        """Give the joint step towards ``home`` in which the elbow is no faster than in a swing, rad."""
        step = _RETURN_GAIN * (home - joints)
        elbow = float(np.linalg.norm(_PANDA.point_jacobian(joints, _ELBOW_LINK, _ELBOW_POINT) @ step))
        return step * min(1.0, self._speed * CONTROL_PERIOD_S / max(elbow, math.ulp(1.0)))


_PANDA = SerialChain(CHAINS["panda"])
