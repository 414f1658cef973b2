"""What the robots of the planar push task share: how they see it, and how they drive straight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array, leaf

__all__ = ["PlanarView", "straight_command"]

FloatArray = NDArray[np.float64]

_STATE_DIM = 10


@dataclass(frozen=True)
class PlanarView:
    """What a robot sees, relative to itself, in metres.

    Attributes:
        landmarks: offsets of the two landmarks, shape ``(2, 2)``.
        other: offset of the other robot, shape ``(2,)``.
    """

    landmarks: FloatArray
    other: FloatArray

    @classmethod
    def of(cls, obs: Mapping[str, object], uid: str) -> PlanarView:
        """Read the state vector of ``uid``.

        Raises:
            ValueError: there is none of length 10.
        """
        state = as_array(leaf(obs, "agent", uid, "state"))
        if state is None or state.shape != (_STATE_DIM,):
            raise ValueError(f"obs['agent'][{uid!r}]['state'] must be a vector of length {_STATE_DIM}")
        return cls(landmarks=state[4:8].reshape(2, 2), other=state[8:10])


def straight_command(offset: FloatArray, *, speed_limit: float, dt: float) -> FloatArray:
    """Give the velocity that goes straight to ``offset`` and arrives exactly, as fast as the limit allows.

    Args:
        offset: where to go, relative to the robot, metres, shape ``(2,)``.
        speed_limit: largest magnitude of each component, metres per second.
        dt: length of a step, seconds.
    """
    velocity = offset / dt
    fastest = float(np.abs(velocity).max())
    return velocity * (speed_limit / fastest) if fastest > speed_limit else velocity
