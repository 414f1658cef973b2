"""Rigid transforms as matrices, for tables and files that give them as a translation and three angles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["rotation_from_rpy", "rotation_to_axis", "rotation_to_rpy", "transform"]

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


def rotation_to_rpy(rotation: FloatArray) -> tuple[float, float, float]:
    """Give ``(roll, pitch, yaw)`` that `rotation_from_rpy` makes ``rotation`` of, to rounding for every rotation.

    Where the pitch is a right angle only the difference of yaw and roll is determined; roll is then computed from the
    yaw that was chosen, so that what is lost in one is made up for in the other.
    """
    yaw = math.atan2(rotation[1, 0], rotation[0, 0])
    cosine, sine = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-rotation[2, 0], cosine * rotation[0, 0] + sine * rotation[1, 0])
    roll = math.atan2(sine * rotation[0, 2] - cosine * rotation[1, 2], cosine * rotation[1, 1] - sine * rotation[0, 1])
    return roll, pitch, yaw


def transform(xyz: Sequence[float], rpy: Sequence[float]) -> FloatArray:
    """Give ``Trans(xyz) Rot(rpy)``, shape ``(4, 4)``."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation_from_rpy(rpy)
    matrix[:3, 3] = xyz
    return matrix


def rotation_to_axis(axis: Sequence[float]) -> FloatArray:
    """Give a rotation that carries the z axis onto a unit vector, the identity for z itself, shape ``(3, 3)``.

    It is the smallest one, ``I + K + K^2 / (1 + c)`` with K the cross-product matrix of ``z x axis`` and c the cosine
    ``z . axis``; for ``c < 0`` half a turn about x follows the smallest one to the axis so turned.
    """
    x, y, z = axis
    if z < 0.0:
        half_turn = np.diag([1.0, -1.0, -1.0])
        return half_turn @ rotation_to_axis((x, -y, -z))
    cross = np.array([[0.0, 0.0, x], [0.0, 0.0, y], [-x, -y, 0.0]])
    return np.eye(3) + cross + cross @ cross / (1.0 + z)
