"""Shaping for co-carry: nearer to the goal is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chamber.envs._pbrs import PotentialShapingWrapper, flat_array, positive, privileged_accessor
from chamber.envs._spaces import AnyEnv

__all__ = ["CoCarryTransportPBRSWrapper"]


class CoCarryTransportPBRSWrapper(PotentialShapingWrapper):
    """Shapes with ``potential = -coeff * ||bar centroid - goal||``.

    Args:
        env: co-carry environment, or a wrapper of one; needs ``privileged_transport_distance()``.
        coeff: weight, 1/m. The registered recipe is ``chamber.envs.cocarry.COCARRY_REWARD_TRANSPORT_PBRS_COEFF``.
        gamma: discount of the task.

    Raises:
        ValueError: ``coeff`` or ``gamma`` is out of range.
        TypeError: the environment does not show the distance.
    """

    def __init__(self, env: AnyEnv, *, coeff: float, gamma: float) -> None:
        super().__init__(env, gamma=gamma)
        self._coeff = positive("coeff", coeff)
        self._distance = privileged_accessor(env, "privileged_transport_distance", wrapper=type(self).__name__)

    def potential(self) -> NDArray[np.float64]:
        """Give the potential of the present state, shape ``(num_envs,)``."""
        return -self._coeff * flat_array(self._distance())
