"""What the partners of the planar push task have in common: they see their state vector and pick a goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber.partners._reading import as_array, finite_floats, leaf
from chamber.partners.api import PartnerSpec
from chamber.partners.interface import PartnerBase

__all__ = ["PushPartner", "PushView"]

_STATE_DIM = 10


@dataclass(frozen=True)
class PushView:
    """What a robot of the push task sees, relative to itself, in metres.

    Attributes:
        landmarks: offsets of the two landmarks, shape ``(2, 2)``.
        other: offset of the other robot, shape ``(2,)``.
    """

    landmarks: NDArray[np.float64]
    other: NDArray[np.float64]

    @classmethod
    def of(cls, obs: Mapping[str, object], uid: str) -> PushView:
        """Read the state vector of ``uid``.

        Raises:
            ValueError: there is none of length 10.
        """
        state = as_array(leaf(obs, "agent", uid, "state"))
        if state is None or state.shape != (_STATE_DIM,):
            raise ValueError(f"obs['agent'][{uid!r}]['state'] must be a vector of length {_STATE_DIM}")
        return cls(landmarks=state[4:8].reshape(2, 2), other=state[8:10])


class PushPartner(PartnerBase, ABC):
    """Drives straight at its goal, as fast as it may, and arrives on it exactly.

    Args:
        spec: ``extra`` may hold ``uid`` (default ``"partner"``), ``speed_limit`` (``"1.0"``, metres per second and
            component) and ``dt`` (``"0.1"``, seconds per step).

    Raises:
        ValueError: a parameter is no positive number.
    """

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        self._uid = spec.extra.get("uid", "partner")
        self._speed_limit = _positive("speed_limit", spec.extra.get("speed_limit", "1.0"))
        self._dt = _positive("dt", spec.extra.get("dt", "0.1"))

    @abstractmethod
    def goal(self, view: PushView) -> NDArray[np.float64]:
        """Give the offset of the point to drive to, shape ``(2,)``, metres."""

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Give the velocity command, shape ``(2,)``, metres per second."""
        velocity = self.goal(PushView.of(obs, self._uid)) / self._dt
        fastest = float(np.abs(velocity).max())
        if fastest > self._speed_limit:
            velocity = velocity * (self._speed_limit / fastest)
        return velocity.astype(np.float32)


def _positive(name: str, text: str) -> float:
    number = float(finite_floats(name, text, count=1)[0])
    if number <= 0.0:
        raise ValueError(f"{name} must be positive; got {text!r}")
    return number
