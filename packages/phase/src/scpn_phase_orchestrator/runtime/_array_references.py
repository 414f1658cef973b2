"""Arrays that are written once and named afterwards: the names, and which arrays a log still knows."""

from __future__ import annotations

import hashlib
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ARRAYS_KEPT", "REFERENCED_ARRAYS", "ReferenceTable", "array_reference"]

REFERENCED_ARRAYS = ("knm", "alpha", "omegas", "knm_r", "mu")
"""Fields of a step record that a reference can stand for."""
ARRAYS_KEPT = 8
"""Different arrays per field that a writer may refer to, so that a reader needs bounded memory."""

Value = TypeVar("Value")


def array_reference(array: NDArray[np.float64]) -> str:
    """Give the name of an array: SHA-256 of its shape (``"2x2"`` and a line feed) and its little-endian float64 bytes.

    Examples:
        >>> array_reference(np.zeros(2)) == hashlib.sha256(b"2\\n" + bytes(16)).hexdigest()
        True
    """
    values = np.ascontiguousarray(array, dtype="<f8")
    shape = "x".join(map(str, values.shape))
    return hashlib.sha256(f"{shape}\n".encode() + values.tobytes()).hexdigest()


class ReferenceTable(Generic[Value]):
    """The arrays of each field that were used last; writer and reader forget by this one rule."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Value]] = {name: {} for name in REFERENCED_ARRAYS}

    def find(self, name: str, reference: str) -> Value | None:
        """Give what is kept under a reference."""
        return self._kept[name].get(reference)

    def use(self, name: str, reference: str, *, value: Value) -> None:
        """Note that a record used an array; the one that was not used for longest is forgotten."""
        kept = self._kept[name]
        kept.pop(reference, None)
        kept[reference] = value
        if len(kept) > ARRAYS_KEPT:
            del kept[next(iter(kept))]
