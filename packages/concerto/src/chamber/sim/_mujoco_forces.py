"""Forces out of a MuJoCo state: sums of contacts, and what a parent puts on a link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber.sim._mujoco_bindings import MjData, MjModel, mujoco
from chamber.sim.backend import FloatArray

__all__ = ["ContactTable", "contact_table", "link_wrench"]

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ContactTable:
    """The contacts of one copy that put forces.

    Attributes:
        groups: contact groups of the two geoms, shape ``(n, 2)``.
        bodies: bodies of the two geoms, shape ``(n, 2)``.
        forces: on the second geom, N, world axes, shape ``(n, 3)``.
        distances: between the geoms, negative in overlap, m, shape ``(n,)``.
    """

    groups: Indices
    bodies: Indices
    forces: FloatArray
    distances: FloatArray

    def force_between_groups(self, first: int, second: int) -> FloatArray:
        """Give the force of group ``second`` on group ``first``, N, shape ``(3,)``."""
        one, other = self.groups[:, 0], self.groups[:, 1]
        return _signed(on_second=(one == second) & (other == first), on_first=(one == first) & (other == second)) @ (
            self.forces
        )

    def force_on_body(self, body: int, group: int | None = None) -> FloatArray:
        """Give the force of a group, or of everything, on a body, N, shape ``(3,)``."""
        on_second, on_first = self.bodies[:, 1] == body, self.bodies[:, 0] == body
        if group is not None:
            on_second = on_second & (self.groups[:, 0] == group)
            on_first = on_first & (self.groups[:, 1] == group)
        return _signed(on_second=on_second, on_first=on_first) @ self.forces

    def penetration(self, first: int, second: int) -> float:
        """Give the deepest overlap of two groups, m, >= 0."""
        one, other = self.groups[:, 0], self.groups[:, 1]
        is_pair = ((one == first) & (other == second)) | ((one == second) & (other == first))
        return max(0.0, -self.distances[is_pair].min(initial=0.0))


def _signed(*, on_second: NDArray[np.bool_], on_first: NDArray[np.bool_]) -> FloatArray:
    return on_second.astype(np.float64) - on_first


def contact_table(data: MjData, *, geom_groups: Indices, geom_bodies: Indices) -> ContactTable | None:
    """Read the contacts of a state; None when nothing touches.

    With elliptic cones the constraint forces of a contact are its force in the contact frame, whose first axis is the
    normal from the first geom to the second.
    """
    contact = data.contact
    (active,) = np.nonzero(contact.efc_address >= 0)
    if len(active) == 0:
        return None
    rows = contact.efc_address[active]
    in_contact_frame = data.efc_force[rows[:, None] + np.arange(3)]
    frames = contact.frame[active].reshape(-1, 3, 3)
    geoms = contact.geom[active]
    return ContactTable(
        groups=geom_groups[geoms],
        bodies=geom_bodies[geoms],
        forces=np.einsum("ni,nij->nj", in_contact_frame, frames),
        distances=contact.dist[active],
    )


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
