"""What several suites ask of arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from concerto.safety.api import AgentSnapshot, FloatArray
from concerto.testing.conformance import demand


def flat(value: object) -> FloatArray:
    """Give the numbers of an answer, whatever its shape and type.

    Only the check of the output's form looks at shape and type, so that one defect is reported once.
    """
    return np.asarray(value, dtype=np.float64).reshape(-1)


def demand_vector(name: str, value: object, length: int) -> None:
    """Refuse anything but a finite float64 array of shape ``(length,)``."""
    demand(isinstance(value, np.ndarray), f"{name} is a {type(value).__name__}, not a NumPy array")
    array = np.asarray(value)
    demand(array.dtype == np.float64, f"{name} has dtype {array.dtype}, not float64")
    demand(array.shape == (length,), f"{name} has shape {array.shape}, not ({length},)")
    demand(np.isfinite(array).all(), f"{name} is not finite: {array}")


def shares_memory(value: object, *others: FloatArray) -> bool:
    """Tell whether an answer is a view of one of the other arrays."""
    return isinstance(value, np.ndarray) and any(np.shares_memory(value, other) for other in others)


def copy_of(snapshot: AgentSnapshot) -> AgentSnapshot:
    """Give a snapshot with arrays of its own."""
    qpos = None if snapshot.qpos is None else snapshot.qpos.copy()
    return AgentSnapshot(snapshot.position.copy(), snapshot.velocity.copy(), snapshot.radius, qpos)


def same_snapshot(a: AgentSnapshot, b: AgentSnapshot) -> bool:
    """Tell whether two snapshots hold the same numbers."""
    return (
        a.radius == b.radius
        and np.array_equal(a.position, b.position, equal_nan=True)
        and np.array_equal(a.velocity, b.velocity, equal_nan=True)
    )


def same_snapshots(a: Mapping[str, AgentSnapshot], b: Mapping[str, AgentSnapshot]) -> bool:
    """Tell whether two sets of snapshots name the same robots and hold the same numbers."""
    return list(a) == list(b) and all(same_snapshot(a[uid], b[uid]) for uid in a)
