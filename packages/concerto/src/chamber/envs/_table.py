"""The table that tasks stand on, with its top at z = 0, and the floor under it."""

from __future__ import annotations

from chamber.sim.scene import BodySpec, GeomSpec, Motion, Shape

__all__ = ["FLOOR", "FLOOR_Z_M", "TABLE", "TABLE_HALF_SIZE_M", "table_body"]

TABLE = "table"
"""Name of the body, and of the contact group of the table."""

FLOOR = "floor"
"""Contact group of the floor."""

TABLE_HALF_SIZE_M = (0.6045, 1.209, 0.4598)
"""Half edges; the long side is along y."""

FLOOR_Z_M = -2.0 * TABLE_HALF_SIZE_M[2]
"""Height of the floor."""

_CENTRE_X_M = -0.12
_FLOOR_HALF_SIZE_M = (3.0, 3.0, 0.01)  # it is felt only; pictures have a floor of their own, just below


def table_body() -> BodySpec:
    """Give table and floor as one body that never moves."""
    return BodySpec(
        name=TABLE,
        motion=Motion.FIXED,
        geoms=(
            GeomSpec(
                name="top",
                shape=Shape.BOX,
                size=TABLE_HALF_SIZE_M,
                position=(_CENTRE_X_M, 0.0, -TABLE_HALF_SIZE_M[2]),
                group=TABLE,
                rgba=(0.68, 0.60, 0.50, 1.0),
            ),
            GeomSpec(
                name="floor",
                shape=Shape.BOX,
                size=_FLOOR_HALF_SIZE_M,
                position=(0.0, 0.0, FLOOR_Z_M - _FLOOR_HALF_SIZE_M[2]),
                group=FLOOR,
                rgba=(0.0, 0.0, 0.0, 0.0),
            ),
        ),
    )
