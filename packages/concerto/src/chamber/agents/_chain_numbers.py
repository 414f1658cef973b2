"""The arithmetic of a serial chain in plain Python numbers: one configuration in about ten microseconds.

It does what `chamber.agents._chain_kernels` does, operation by operation, so that results are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, sin
from typing import NamedTuple

__all__ = ["TcpNumbers", "Triple", "tcp_numbers"]

Triple = tuple[float, float, float]


class TcpNumbers(NamedTuple):
    """Position of the TCP, m, and the columns of its linear Jacobian, one per joint."""

    position: Triple
    columns: list[Triple]


def tcp_numbers(origins: Sequence[Sequence[Sequence[float]]], q: Sequence[float]) -> TcpNumbers:
    """Walk along the chain, carrying the pose ``(R | p)`` of the joint that was reached.

    Args:
        origins: those of the chain.
        q: rad, finite.
    """
    # R by rows a, b and c, and p; all start as the base.
    a0, a1, a2, b0, b1, b2, c0, c1, c2 = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0
    px = py = pz = 0.0
    axes: list[tuple[float, float, float, float, float, float]] = []
    for angle, ((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23)) in zip(q, origins, strict=False):
        cosine, sine = cos(angle), sin(angle)
        px = px + a0 * s03 + a1 * s13 + a2 * s23
        py = py + b0 * s03 + b1 * s13 + b2 * s23
        pz = pz + c0 * s03 + c1 * s13 + c2 * s23
        x, y, a2 = a0 * s00 + a1 * s10 + a2 * s20, a0 * s01 + a1 * s11 + a2 * s21, a0 * s02 + a1 * s12 + a2 * s22
        a0, a1 = cosine * x + sine * y, cosine * y - sine * x
        x, y, b2 = b0 * s00 + b1 * s10 + b2 * s20, b0 * s01 + b1 * s11 + b2 * s21, b0 * s02 + b1 * s12 + b2 * s22
        b0, b1 = cosine * x + sine * y, cosine * y - sine * x
        x, y, c2 = c0 * s00 + c1 * s10 + c2 * s20, c0 * s01 + c1 * s11 + c2 * s21, c0 * s02 + c1 * s12 + c2 * s22
        c0, c1 = cosine * x + sine * y, cosine * y - sine * x
        axes.append((a2, b2, c2, px, py, pz))
    (_, _, _, s03), (_, _, _, s13), (_, _, _, s23) = origins[-1]
    px = px + a0 * s03 + a1 * s13 + a2 * s23
    py = py + b0 * s03 + b1 * s13 + b2 * s23
    pz = pz + c0 * s03 + c1 * s13 + c2 * s23
    columns: list[Triple] = []
    for zx, zy, zz, ox, oy, oz in axes:
        dx, dy, dz = px - ox, py - oy, pz - oz
        columns.append((zy * dz - zz * dy, zz * dx - zx * dz, zx * dy - zy * dx))
    return TcpNumbers((px, py, pz), columns)
