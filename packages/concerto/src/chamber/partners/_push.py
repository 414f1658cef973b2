"""What the partners of the planar push task have in common: they see their state vector and pick a goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView, straight_command
from chamber.partners._parameters import finite_floats
from chamber.partners.api import PartnerSpec
from chamber.partners.interface import PartnerBase

__all__ = ["PushPartner"]


class PushPartner(PartnerBase, ABC):
    """Drives straight at its goal, as fast as it may, and arrives on it exactly.

    Args:
        spec: ``extra`` may hold ``uid`` (default ``"partner"``), ``speed_limit`` (``"1.0"``, metres per second and
            component) and ``dt`` (``"0.1"``, seconds per step).

    Raises:
        ValueError: a parameter is unknown or no positive number.
    """

    defaults: ClassVar[Mapping[str, str]] = {"uid": "partner", "speed_limit": "1.0", "dt": "0.1"}
    """Keys that ``extra`` may hold, and what is taken for an absent one."""
    units: ClassVar[Mapping[str, str]] = {"speed_limit": "m/s per component", "dt": "s per step"}

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        unknown = sorted(set(spec.extra) - set(self.defaults))
        if unknown:
            raise ValueError(f"unknown parameter {unknown[0]!r}; known: {', '.join(sorted(self.defaults))}")
        given = {**self.defaults, **spec.extra}
        self._uid = given["uid"]
        self._speed_limit = _positive("speed_limit", given["speed_limit"])
        self._dt = _positive("dt", given["dt"])

    @abstractmethod
    def goal(self, view: PlanarView) -> NDArray[np.float64]:
        """Give the offset of the point to drive to, shape ``(2,)``, metres."""

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Give the velocity command, shape ``(2,)``, metres per second.

        Raises:
            ValueError: the observation has no state vector of this robot.
        """
        goal = self.goal(PlanarView.of(obs, self._uid))
        return straight_command(goal, speed_limit=self._speed_limit, dt=self._dt).astype(np.float32)


def _positive(name: str, text: str) -> float:
    number = float(finite_floats(name, text, count=1)[0])
    if number <= 0.0:
        raise ValueError(f"{name} must be positive; got {text!r}")
    return number
