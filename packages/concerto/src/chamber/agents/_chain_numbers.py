"""The arithmetic of a serial chain in plain Python numbers: one configuration in about ten microseconds.

It does what `chamber.agents._chain_kernels` does, operation by operation, so that results are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FixedStep", "PoseNumbers", "TcpNumbers", "Triple", "numbers_of", "pose_numbers", "tcp_numbers"]

Triple = tuple[float, float, float]

FixedStep = tuple[float, ...]
"""A transform ``(R | p)`` between joints, 12 numbers, row by row."""


class TcpNumbers(NamedTuple):
    """Position of the TCP, m, and the columns of its linear Jacobian, one per joint."""

    position: Triple
    columns: list[Triple]


class PoseNumbers(NamedTuple):
    """Position of the TCP, m, its orientation, row by row, and the six rows of its Jacobian, linear ones first."""

    position: Triple
    rotation: tuple[Triple, Triple, Triple]
    jacobian: list[tuple[float, ...]]


_Axis = tuple[float, float, float, float, float, float]
"""Direction of a joint's axis, and a point on it."""


def numbers_of(origins: NDArray[np.float64]) -> list[FixedStep]:
    """Give the origins of a chain as `tcp_numbers` takes them; the first one as it is after it was carried to the base.

    ``1 s + 0 t + 0 u`` is s, but for the sign of a zero, which the compiled code looks after in the same way.
    """
    carried = np.eye(3)[:, :, None] * origins[0]
    first = carried[:, 0] + carried[:, 1] + carried[:, 2]
    first[:, 3] += 0.0
    return [_fixed_step(first), *map(_fixed_step, origins[1:])]


def _fixed_step(origin: NDArray[np.float64]) -> FixedStep:
    return tuple(origin.ravel().tolist())


def tcp_numbers(steps: Sequence[FixedStep], q: Sequence[float]) -> TcpNumbers:
    """Give where the TCP is, and how it moves.

    Args:
        steps: the first leads to the first joint, the last from the last joint to the TCP.
        q: rad, finite.
    """
    position, _, axes = _walk(steps, q)
    return TcpNumbers(position, _linear_columns(axes, position))


def pose_numbers(steps: Sequence[FixedStep], q: Sequence[float]) -> PoseNumbers:
    """Give what `tcp_numbers` gives, and how the TCP is turned and turns; see there."""
    position, (a0, a1, a2, b0, b1, b2, c0, c1, c2), axes = _walk(steps, q)
    s00, s01, s02, _, s10, s11, s12, _, s20, s21, s22, _ = steps[-1]
    rotation = (
        _unturned(a0 * s00 + a1 * s10 + a2 * s20, a0 * s01 + a1 * s11 + a2 * s21, a0 * s02 + a1 * s12 + a2 * s22),
        _unturned(b0 * s00 + b1 * s10 + b2 * s20, b0 * s01 + b1 * s11 + b2 * s21, b0 * s02 + b1 * s12 + b2 * s22),
        _unturned(c0 * s00 + c1 * s10 + c2 * s20, c0 * s01 + c1 * s11 + c2 * s21, c0 * s02 + c1 * s12 + c2 * s22),
    )
    directions = [*zip(*axes, strict=True)][:3]
    return PoseNumbers(position, rotation, [*zip(*_linear_columns(axes, position), strict=True), *directions])


def _walk(steps: Sequence[FixedStep], q: Sequence[float]) -> tuple[Triple, tuple[float, ...], list[_Axis]]:
    """Walk along the chain, carrying the pose ``(R | p)`` of the joint that was reached.

    Returns:
        Where the TCP is; R of the last joint, turned, row by row; and the axes of all joints.
    """
    # R by rows a, b and c, and p: in the frame of the joint that was reached, before it is turned.
    a0, a1, a2, px, b0, b1, b2, py, c0, c1, c2, pz = steps[0]
    axes = [(a2, b2, c2, px, py, pz)]
    for angle, (s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23) in zip(q, steps[1:-1], strict=False):
        cosine, sine = cos(angle), sin(angle)
        x, y = cosine * a0 + sine * a1, cosine * a1 - sine * a0
        px = px + x * s03 + y * s13 + a2 * s23
        a0, a1, a2 = x * s00 + y * s10 + a2 * s20, x * s01 + y * s11 + a2 * s21, x * s02 + y * s12 + a2 * s22
        x, y = cosine * b0 + sine * b1, cosine * b1 - sine * b0
        py = py + x * s03 + y * s13 + b2 * s23
        b0, b1, b2 = x * s00 + y * s10 + b2 * s20, x * s01 + y * s11 + b2 * s21, x * s02 + y * s12 + b2 * s22
        x, y = cosine * c0 + sine * c1, cosine * c1 - sine * c0
        pz = pz + x * s03 + y * s13 + c2 * s23
        c0, c1, c2 = x * s00 + y * s10 + c2 * s20, x * s01 + y * s11 + c2 * s21, x * s02 + y * s12 + c2 * s22
        axes.append((a2, b2, c2, px, py, pz))
    cosine, sine = cos(q[-1]), sin(q[-1])
    a0, a1 = cosine * a0 + sine * a1, cosine * a1 - sine * a0
    b0, b1 = cosine * b0 + sine * b1, cosine * b1 - sine * b0
    c0, c1 = cosine * c0 + sine * c1, cosine * c1 - sine * c0
    _, _, _, s03, _, _, _, s13, _, _, _, s23 = steps[-1]
    px = px + a0 * s03 + a1 * s13 + a2 * s23
    py = py + b0 * s03 + b1 * s13 + b2 * s23
    pz = pz + c0 * s03 + c1 * s13 + c2 * s23
    return (px, py, pz), (a0, a1, a2, b0, b1, b2, c0, c1, c2), axes


def _linear_columns(axes: Sequence[_Axis], point: Triple) -> list[Triple]:
    px, py, pz = point
    columns: list[Triple] = []
    for zx, zy, zz, ox, oy, oz in axes:
        dx, dy, dz = px - ox, py - oy, pz - oz
        columns.append((zy * dz - zz * dy, zz * dx - zx * dz, zx * dy - zy * dx))
    return columns


def _unturned(x: float, y: float, z: float) -> Triple:
    """Turn a row by no angle, as the compiled code turns the last one: that decides the sign of a zero."""
    return x + 0.0 * y, y - 0.0 * x, z
