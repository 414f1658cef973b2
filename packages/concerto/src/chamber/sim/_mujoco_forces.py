"""Forces out of a MuJoCo state: sums of contacts, and what a parent puts on a link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chamber.sim._mujoco_bindings import MjData, MjModel, mujoco
from chamber.sim.backend import FloatArray

__all__ = ["Contact", "GeomMask", "contacts_of", "deepest_overlap", "link_wrench", "sum_of_forces"]

GeomMask = Sequence[bool]
"""Which geoms of a model, one entry per geom."""

Contact = tuple[int, int, float, Sequence[float] | None, Sequence[float]]
"""First and second geom; distance of their surfaces, m; force along the axes of the contact frame, N, or None when
nothing of it can move; and that frame, nine numbers, axis by axis. The first axis is the normal from the first geom to
the second, and the force is that on the second."""


def contacts_of(data: MjData) -> list[Contact]:
    """Give the contacts of a state in plain numbers: there are a few, and who asks for one sum asks for several.

    With elliptic cones, the constraint forces of a contact are its force in the contact frame.
    """
    if not data.ncon:
        return []
    contact, forces = data.contact, data.efc_force.tolist()
    columns = (contact.geom, contact.dist, contact.efc_address, contact.frame)
    return [
        (first, second, distance, None if address < 0 else forces[address : address + 3], frame)
        for (first, second), distance, address, frame in zip(*map(np.ndarray.tolist, columns), strict=True)
    ]


def sum_of_forces(contacts: Sequence[Contact], on: GeomMask, of: GeomMask) -> tuple[float, float, float]:
    """Give the sum of the contact forces of some geoms on others, N, world axes.

    Args:
        contacts: of a state.
        on: the geoms that feel the forces.
        of: the geoms that put them.
    """
    x = y = z = 0.0
    for first, second, _, force, frame in contacts:
        sign = (on[second] and of[first]) - (on[first] and of[second])
        if not sign or force is None:
            continue
        (normal, along, across), (n0, n1, n2, a0, a1, a2, c0, c1, c2) = force, frame
        if sign < 0:
            normal, along, across = -normal, -along, -across
        x = x + normal * n0 + along * a0 + across * c0
        y = y + normal * n1 + along * a1 + across * c1
        z = z + normal * n2 + along * a2 + across * c2
    return x, y, z


def deepest_overlap(contacts: Sequence[Contact], one: GeomMask, other: GeomMask) -> float:
    """Give the deepest overlap of some geoms with others, m, >= 0."""
    deepest = 0.0
    for first, second, distance, _, _ in contacts:
        if (one[first] and other[second]) or (other[first] and one[second]):
            deepest = max(deepest, -distance)
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
