"""Sums over the contacts of a MuJoCo state, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_contact_forces", "deepest_overlap"]

FloatArray = NDArray[np.float64]
GeomMask = NDArray[np.bool_]


@njit(cache=True)
def add_contact_forces(
    geoms: NDArray[np.int32],
    addresses: NDArray[np.int32],
    frames: FloatArray,
    constraint_forces: FloatArray,
    on: GeomMask,
    of: GeomMask,
    total: FloatArray,
) -> None:
    """With elliptic cones, the constraint forces of a contact are its force in the contact frame.

    The first axis of that frame is the normal from the first geom to the second; the force is that on the second.
    """
    for contact in range(len(addresses)):
        address, first, second = addresses[contact], geoms[contact, 0], geoms[contact, 1]
        if address < 0:  # nothing of it can move, so it needs no force
            continue
        sign = 0.0
        if on[second] and of[first]:
            sign += 1.0
        if on[first] and of[second]:
            sign -= 1.0
        for row in range(3):
            for axis in range(3):
                total[axis] += sign * constraint_forces[address + row] * frames[contact, 3 * row + axis]


@njit(cache=True)
def deepest_overlap(geoms: NDArray[np.int32], distances: FloatArray, one: GeomMask, other: GeomMask) -> float:
    deepest = 0.0
    for contact in range(len(distances)):
        first, second = geoms[contact, 0], geoms[contact, 1]
        is_pair = (one[first] and other[second]) or (other[first] and one[second])
        if is_pair:
            deepest = max(deepest, -distances[contact])
    return deepest
