"""Rigid transforms as matrices, for tables and files that give them as a translation and three angles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["rotation_from_rpy", "rotation_to_axis", "transform"]

FloatArray = NDArray[np.float64]


def rotation_from_rpy(rpy: Sequence[float]) -> FloatArray:
    """Give ``Rot_z(yaw) Rot_y(pitch) Rot_x(roll)`` for ``(roll, pitch, yaw)`` in radians, shape ``(3, 3)``."""
    (cr, cp, cy), (sr, sp, sy) = map(math.cos, rpy), map(math.sin, rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def transform(xyz: Sequence[float], rpy: Sequence[float]) -> FloatArray:
    """Give ``Trans(xyz) Rot(rpy)``, shape ``(4, 4)``."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation_from_rpy(rpy)
    matrix[:3, 3] = xyz
    return matrix


def rotation_to_axis(axis: Sequence[float]) -> FloatArray:
    """Give a rotation that carries the z axis onto a unit vector, the identity for z itself, shape ``(3, 3)``.

    It is the smallest one, ``I + K + K^2 / (1 + c)`` with K the cross-product matrix of ``z x axis`` and ``c = z . axis``;
    for ``c < 0`` half a turn about x follows the smallest one to the axis so turned.
    """
    x, y, z = axis
    if z < 0.0:
        half_turn = np.diag([1.0, -1.0, -1.0])
        return half_turn @ rotation_to_axis((x, -y, -z))
    cross = np.array([[0.0, 0.0, x], [0.0, 0.0, y], [-x, -y, 0.0]])
    return np.eye(3) + cross + cross @ cross / (1.0 + z)
