"""Where robots are and what they may do: the data that everything else of the filter reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AgentSnapshot", "Bounds", "FloatArray"]

FloatArray = NDArray[np.float64]
"""A float64 array of any shape."""


@dataclass(frozen=True, eq=False, init=False)
class AgentSnapshot:
    """Where one robot is and how it moves at one instant.

    The robot is covered by a sphere (a disc in 2-D); two robots are apart while their spheres are.

    Attributes:
        position: centre, m, shape ``(d,)`` with d = 2 or 3.
        velocity: velocity of the centre, m/s, shape ``(d,)``.
        radius: radius of the sphere, m, >= 0.
        qpos: joint positions for control models that need them, shape ``(n_joints,)``, or None.
    """

    position: FloatArray
    velocity: FloatArray
    radius: float
    qpos: FloatArray | None = None

    def __init__(
        self, position: FloatArray, velocity: FloatArray, radius: float, qpos: FloatArray | None = None
    ) -> None:
        """Take the fields; a quarter of the time of the method that `dataclass` makes for a frozen class."""
        values = self.__dict__
        values["position"] = position
        values["velocity"] = velocity
        values["radius"] = radius
        values["qpos"] = qpos


@dataclass(frozen=True)
class Bounds:
    """Numeric limits of a control step.

    The first two are independent: an action inside the box has a Euclidean norm up to ``sqrt(d)`` times the
    component limit, so ``cartesian_accel_capacity = action_linf_component`` is the conservative choice for a
    double integrator and ``sqrt(d) * action_linf_component`` the full envelope. The last three are declared for the
    record: no filter of this package reads them.

    Attributes:
        action_linf_component: limit of every component of an action, ``|u_k| <= value``, action units.
        cartesian_accel_capacity: limit of the Euclidean norm of the Cartesian acceleration, m/s^2.
        action_rate: limit of ``|u_k - u_{k-1}|``, action units per step.
        comm_latency_ms: mean latency of the communication profile, ms.
        force_limit: contact-force threshold, N.
    """

    action_linf_component: float
    cartesian_accel_capacity: float
    action_rate: float
    comm_latency_ms: float
    force_limit: float
