"""Forces out of a MuJoCo state: sums of contacts, and what a parent puts on a link."""

from __future__ import annotations

import numpy as np
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
        from chamber.sim import _contact_kernels  # a compiler: not for scenes that ask for no contact

        contact = data.contact
        _contact_kernels.add_contact_forces(
            contact.geom, contact.efc_address, contact.frame, data.efc_force, on, of, total
        )


def deepest_overlap(data: MjData, one: GeomMask, other: GeomMask) -> float:
    """Give the deepest overlap of some geoms with others, m, >= 0."""
    if not data.ncon:
        return 0.0
    from chamber.sim import _contact_kernels

    contact = data.contact
    return _contact_kernels.deepest_overlap(contact.geom, contact.dist, one, other)


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
