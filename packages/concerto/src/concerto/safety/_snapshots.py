"""Where robots are and what they may do: the data that everything else of the filter reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

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
    def of_numbers(cls, numbers: tuple[float, ...], radius: float) -> AgentSnapshot:
        """Make a snapshot of position and velocity, one after the other, as plain floats.

        This is the quick way: the arrays are made only if somebody reads them.
        """
        snapshot = object.__new__(cls)
        values = snapshot.__dict__
        values[PLAIN_NUMBERS] = numbers
        values["radius"] = radius
        return snapshot

    def __getstate__(self) -> dict[str, Any]:
        """Give the fields: copies and pickles hold arrays."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}


class _ArrayOnDemand:
    """Makes the arrays of a snapshot of numbers when one of them is read; what is in the instance comes before it.

    A method ``__getattr__`` would do the same, and make every other attribute four times as slow.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, snapshot: AgentSnapshot | None, owner: type[AgentSnapshot]) -> Any:
        if snapshot is None or PLAIN_NUMBERS not in snapshot.__dict__:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}")
        values = snapshot.__dict__
        numbers = values.pop(PLAIN_NUMBERS)  # an array can be written to: from now on it is what counts
        dim = len(numbers) // 2
        values["position"] = np.array(numbers[:dim], dtype=np.float64)
        values["velocity"] = np.array(numbers[dim:], dtype=np.float64)
        return values[self._name]


for _name in ("position", "velocity"):
    setattr(AgentSnapshot, _name, _ArrayOnDemand(_name))  # not in the class, where it would be a default


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
