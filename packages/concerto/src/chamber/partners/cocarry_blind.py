"""A co-carry arm that feels nothing: what is lost without the coupling through the bar."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from chamber.partners._arm_control import JOINT_STEP_PER_ACTION_RAD, FloatArray
from chamber.partners._cocarry_servo import Rows, remember_first
from chamber.partners.api import PartnerSpec
from chamber.partners.cocarry_impedance import CoCarryImpedancePartner
from chamber.partners.registry import register_partner

__all__ = ["COCARRY_BLIND_IMPEDANCE_CLASS", "CoCarryBlindImpedancePartner"]

COCARRY_BLIND_IMPEDANCE_CLASS = "cocarry_blind_impedance"


@register_partner(COCARRY_BLIND_IMPEDANCE_CLASS)
class CoCarryBlindImpedancePartner(CoCarryImpedancePartner):
    """Looks at its joints once per episode and from then on believes that they follow every command exactly.

    The law is that of `CoCarryImpedancePartner` without integral, on dead-reckoned joints: after each call they have
    moved by 0.1 rad times the command that was sent, but not beyond a limit of the joint. ``ki`` and ``lag_steps`` are
    checked and have no effect.

    Args:
        spec: as for `CoCarryImpedancePartner`.

    Raises:
        ValueError: a parameter is out of range.
    """

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self.gains = dataclasses.replace(self.gains, ki=0.0)
        self._believed: FloatArray | None = None
        self._lower: FloatArray | float = -np.inf if self._chain is None else self._chain.table.lower
        self._upper: FloatArray | float = np.inf if self._chain is None else self._chain.table.upper

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the last episode; the joints are looked at again in the next call."""
        super().reset(seed=seed)
        self._believed = None

    def _clear(self, rows: Rows) -> None:
        super()._clear(rows)
        if self._believed is not None:
            self._believed[rows] = np.nan

    def _joints(self, obs: Mapping[str, object], *, is_batch: bool) -> FloatArray | None:
        if self._believed is not None and np.isfinite(self._believed).all():
            return self._believed
        measured = super()._joints(obs, is_batch=is_batch)
        if measured is None:
            return None
        if self._believed is None:
            self._believed = measured
        else:
            self._require_rows(len(measured))
            remember_first(self._believed, measured)
        return self._believed

    def _sent(self, commands: NDArray[np.float32], joints: FloatArray, rows: Rows) -> None:
        before = joints[rows]
        moved = before + JOINT_STEP_PER_ACTION_RAD * commands[rows].astype(np.float64)
        joints[rows] = np.clip(moved, np.minimum(before, self._lower), np.maximum(before, self._upper))
