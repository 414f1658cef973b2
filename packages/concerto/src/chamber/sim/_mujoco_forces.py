"""Forces out of a MuJoCo state: sums of contacts, and what a parent puts on a link."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.sim._mujoco_bindings import MjData, MjModel, mujoco
from chamber.sim.backend import FloatArray

__all__ = ["GeomMask", "add_contact_forces", "deepest_overlap", "link_wrench"]

GeomMask = NDArray[np.bool_]
"""Which geoms of a model, shape ``(ngeom,)``."""


def add_contact_forces(data: MjData, on: GeomMask, of: GeomMask, total: FloatArray) -> None:
    """Add the contact forces of some geoms on others to ``total``, N, world axes, shape ``(3,)``.

    Args:
        data: a state.
        on: the geoms that feel the forces.
        of: the geoms that put them.
        total: it is changed.
    """
    if data.ncon:
        contact = data.contact
        _add_contact_forces(contact.geom, contact.efc_address, contact.frame, data.efc_force, on, of, total)


def deepest_overlap(data: MjData, one: GeomMask, other: GeomMask) -> float:
    """Give the deepest overlap of some geoms with others, m, >= 0."""
    if not data.ncon:
        return 0.0
    contact = data.contact
    return _deepest_overlap(contact.geom, contact.dist, one, other)


@njit(cache=True)
def _add_contact_forces(
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
def _deepest_overlap(geoms: NDArray[np.int32], distances: FloatArray, one: GeomMask, other: GeomMask) -> float:
    deepest = 0.0
    for contact in range(len(distances)):
        first, second = geoms[contact, 0], geoms[contact, 1]
        is_pair = (one[first] and other[second]) or (other[first] and one[second])
        if is_pair:
            deepest = max(deepest, -distances[contact])
    return deepest


def link_wrench(model: MjModel, data: MjData, body: int) -> FloatArray:
    """Give force and torque of the parent on a body, at the body's origin, world axes, shape ``(6,)``."""
    if not data.flg_rnepost:
        mujoco.mj_rnePostConstraint(model, data)
    # MuJoCo has it as torque and force at the centre of mass of the whole robot.
    about_centre = data.cfrc_int[body]
    wrench = np.empty(6)
    wrench[:3] = about_centre[3:]
    mujoco.mju_cross(wrench[3:], data.subtree_com[model.body_rootid[body]] - data.xpos[body], wrench[:3])
    wrench[3:] += about_centre[:3]
    return wrench
