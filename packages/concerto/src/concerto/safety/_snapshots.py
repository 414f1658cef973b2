"""Where robots are and what they may do: the data that everything else of the filter reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PLAIN_NUMBERS", "AgentSnapshot", "Bounds", "FloatArray"]

FloatArray = NDArray[np.float64]
"""A float64 array of any shape."""

PLAIN_NUMBERS = "_plain_numbers"
"""Where a snapshot made by `AgentSnapshot.of_numbers` keeps position and velocity until somebody reads an array."""


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

    @classmethod
    def of_numbers(cls, position: tuple[float, ...], velocity: tuple[float, ...], radius: float) -> AgentSnapshot:
        """Make a snapshot of plain floats: the quick way, because its arrays are made only if somebody reads them."""
        snapshot = object.__new__(cls)
        values = snapshot.__dict__
        values[PLAIN_NUMBERS] = position, velocity
        values["radius"] = radius
        return snapshot

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            values = self.__dict__
            if name not in {"position", "velocity"} or PLAIN_NUMBERS not in values:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            position, velocity = values.pop(PLAIN_NUMBERS)  # an array can be written to: from now on it is what counts
            values["position"] = np.array(position, dtype=np.float64)
            values["velocity"] = np.array(velocity, dtype=np.float64)
            return values[name]

    def __getstate__(self) -> dict[str, Any]:
        """Give the fields: copies and pickles hold arrays."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}


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
