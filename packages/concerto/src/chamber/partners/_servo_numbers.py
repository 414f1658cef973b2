"""The mathematics of a controller of one arm in plain Python numbers.

They do what `chamber.partners._servo_kernels` does, operation by operation, so that results are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import sqrt

from chamber.agents._chain_numbers import TcpNumbers, Triple
from chamber.partners._arm_control import CONTROL_PERIOD_S, JOINT_STEP_PER_ACTION_RAD

__all__ = ["damped_numbers", "local_z", "long_axis", "rotation_vector_numbers", "servo_numbers", "within"]

QUATERNION_FLOOR = 1e-12
"""Length for which a shorter quaternion is taken when it is normalised."""

SMALLEST_ANGLE_RAD = 1e-6
"""A smaller rotation is taken for none."""


def servo_numbers(
    target: Sequence[float],
    base_position: Sequence[float],
    base_rotation: Sequence[Sequence[float]],
    tcp: TcpNumbers,
    posture: Sequence[float],
    kp: float,
    ki: float,
    step_max: float,
    damping: float,
    radius: float,
    bound: float,
    integral: list[float],
) -> list[float] | None:
    """Give one row of `chamber.partners._servo_kernels.servo`.

    Args:
        target: x, world, 3 numbers.
        base_position: b, world, 3 numbers.
        base_rotation: R_b, 3 rows of 3 numbers.
        tcp: p and J, in the frame of the base.
        posture: w, rad, one number per joint.
        kp: per control step.
        ki: 1/s.
        step_max: largest component of v, m.
        damping: in the units of J.
        radius: of the error within which the integral grows, m.
        bound: of the integral's components, m s.
        integral: I, 3 numbers; changed in place.

    Returns:
        Commands in [-1, 1], one per joint; None, with the integral left alone, when the error is not finite.
    """
    (px, py, pz), columns = tcp
    (r00, r01, r02), (r10, r11, r12), (r20, r21, r22) = base_rotation
    dx, dy, dz = target[0] - base_position[0], target[1] - base_position[1], target[2] - base_position[2]
    ex = -px + r00 * dx + r10 * dy + r20 * dz
    ey = -py + r01 * dx + r11 * dy + r21 * dz
    ez = -pz + r02 * dx + r12 * dy + r22 * dz
    squared = ex * ex + ey * ey + ez * ez
    if not math.isfinite(squared):
        return None
    if sqrt(squared) < radius:
        integral[0] = within(integral[0] + CONTROL_PERIOD_S * ex, bound)
        integral[1] = within(integral[1] + CONTROL_PERIOD_S * ey, bound)
        integral[2] = within(integral[2] + CONTROL_PERIOD_S * ez, bound)
    vx = within(kp * ex + ki * integral[0], step_max)
    vy = within(kp * ey + ki * integral[1], step_max)
    vz = within(kp * ez + ki * integral[2], step_max)
    # v - J w, and the lower triangle of J J^T + damping^2 I.
    xx = yy = zz = damping * damping
    yx = zx = zy = 0.0
    for (x, y, z), aside in zip(columns, posture, strict=True):
        vx -= x * aside
        vy -= y * aside
        vz -= z * aside
        xx += x * x
        yx += y * x
        yy += y * y
        zx += z * x
        zy += z * y
        zz += z * z
    dual = _solve((xx, yx, yy, zx, zy, zz), vx, vy, vz)
    if dual is None:
        step = posture
    else:
        u, v, w = dual
        step = [aside + x * u + y * v + z * w for (x, y, z), aside in zip(columns, posture, strict=True)]
    return [within(part / JOINT_STEP_PER_ACTION_RAD, 1.0) for part in step]


def within(value: float, bound: float) -> float:
    """Give the number in ``[-bound, bound]`` that is nearest to a value."""
    if value > bound:
        return bound
    if value < -bound:
        return -bound
    return value


def _solve(matrix: Sequence[float], x: float, y: float, z: float) -> Triple | None:
    """Solve by Cholesky for a lower triangle, row by row; None where the matrix is not positive definite."""
    xx, yx, yy, zx, zy, zz = matrix
    if not xx > 0.0:
        return None
    l00 = sqrt(xx)
    l10 = yx / l00
    pivot = yy - l10 * l10
    if not pivot > 0.0:
        return None
    l11 = sqrt(pivot)
    l20 = zx / l00
    l21 = (zy - l20 * l10) / l11
    pivot = zz - l20 * l20 - l21 * l21
    if not pivot > 0.0:
        return None
    l22 = sqrt(pivot)
    u = x / l00
    v = (y - l10 * u) / l11
    w = (z - l20 * u - l21 * v) / l22
    w = w / l22
    v = (v - l21 * w) / l11
    u = (u - l10 * v - l20 * w) / l00
    return u, v, w


def damped_numbers(jacobian: Sequence[Sequence[float]], motion: Sequence[float], damping: float) -> list[float]:
    """Give what `chamber.partners._servo_kernels.damped_command` gives: a joint command, components in [-1, 1].

    Args:
        jacobian: J, 6 rows of 7 numbers, one per joint.
        motion: per control step, in the frame of J, 6 numbers.
        damping: in the units of J's singular values.
    """
    # The lower triangle of J J^T + damping^2 I, row by row.
    matrix: list[float] = []
    for place, (a0, a1, a2, a3, a4, a5, a6) in enumerate(jacobian):
        for b0, b1, b2, b3, b4, b5, b6 in jacobian[:place]:
            matrix.append(0.0 + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3 + a4 * b4 + a5 * b5 + a6 * b6)
        squared = damping * damping + a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3 + a4 * a4 + a5 * a5 + a6 * a6
        matrix.append(squared)
    try:
        x, y, z, u, v, w = _solve_six(matrix, motion)
    except (ValueError, ZeroDivisionError):  # a pivot that is negative, zero or no number: not positive definite
        return [0.0] * len(jacobian[0])
    return [
        within((0.0 + a * x + b * y + c * z + d * u + e * v + f * w) / JOINT_STEP_PER_ACTION_RAD, 1.0)
        for a, b, c, d, e, f in zip(*jacobian, strict=True)
    ]


def _solve_six(matrix: Sequence[float], motion: Sequence[float]) -> tuple[float, float, float, float, float, float]:
    """Solve by Cholesky for a lower triangle, row by row, written out: loops would take three times as long.

    Raises:
        ValueError, ZeroDivisionError: the matrix is not positive definite.
    """
    (
        xx,
        yx, yy,
        zx, zy, zz,
        ux, uy, uz, uu,
        vx, vy, vz, vu, vv,
        wx, wy, wz, wu, wv, ww,
    ) = matrix  # fmt: skip
    x, y, z, u, v, w = motion
    xx = sqrt(xx)
    x = x / xx
    yx = yx / xx
    yy = sqrt(yy - yx * yx)
    y = (y - yx * x) / yy
    zx = zx / xx
    zy = (zy - zx * yx) / yy
    zz = sqrt(zz - zx * zx - zy * zy)
    z = (z - zx * x - zy * y) / zz
    ux = ux / xx
    uy = (uy - ux * yx) / yy
    uz = (uz - ux * zx - uy * zy) / zz
    uu = sqrt(uu - ux * ux - uy * uy - uz * uz)
    u = (u - ux * x - uy * y - uz * z) / uu
    vx = vx / xx
    vy = (vy - vx * yx) / yy
    vz = (vz - vx * zx - vy * zy) / zz
    vu = (vu - vx * ux - vy * uy - vz * uz) / uu
    vv = sqrt(vv - vx * vx - vy * vy - vz * vz - vu * vu)
    v = (v - vx * x - vy * y - vz * z - vu * u) / vv
    wx = wx / xx
    wy = (wy - wx * yx) / yy
    wz = (wz - wx * zx - wy * zy) / zz
    wu = (wu - wx * ux - wy * uy - wz * uz) / uu
    wv = (wv - wx * vx - wy * vy - wz * vz - wu * vu) / vv
    ww = sqrt(ww - wx * wx - wy * wy - wz * wz - wu * wu - wv * wv)
    if not ww > 0.0:  # a pivot that is no number makes the last one none
        raise ValueError("the matrix is not positive definite")
    w = (w - wx * x - wy * y - wz * z - wu * u - wv * v) / ww
    # The factor is done, and the forward substitution with it; back.
    w = w / ww
    v = (v - wv * w) / vv
    u = (u - vu * v - wu * w) / uu
    z = (z - uz * u - vz * v - wz * w) / zz
    y = (y - zy * z - uy * u - vy * v - wy * w) / yy
    x = (x - yx * y - zx * z - ux * u - vx * v - wx * w) / xx
    return x, y, z, u, v, w


def rotation_vector_numbers(rotation: Sequence[Sequence[float]]) -> Triple:
    """Give axis times angle of a rotation, angle in [0, pi]; zero below 1e-6 rad.

    By way of the quaternion (Shepperd 1978), which is well conditioned at every angle, half a turn included.

    Args:
        rotation: 3 rows of 3 numbers.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    trace, largest = xx + yy + zz, max(xx, yy, zz)
    if trace > largest:
        real, x, y, z = 1.0 + trace, zy - yz, xz - zx, yx - xy
    elif largest == xx:
        real, x, y, z = zy - yz, 1.0 + xx - yy - zz, yx + xy, zx + xz
    elif largest == yy:
        real, x, y, z = xz - zx, xy + yx, 1.0 + yy - zz - xx, zy + yz
    else:
        real, x, y, z = yx - xy, xz + zx, yz + zy, 1.0 + zz - xx - yy
    length = sqrt(x * x + y * y + z * z)
    angle = 2.0 * math.atan2(length, abs(real))
    if not angle >= SMALLEST_ANGLE_RAD:
        return 0.0, 0.0, 0.0
    scale = math.copysign(angle, real) / length
    return x * scale, y * scale, z * scale


def long_axis(quaternion: Sequence[float]) -> Triple:
    """Give the first column of `chamber.partners._servo_kernels.rotations_from_quaternions`: where the x axis points.

    Args:
        quaternion: ``(w, x, y, z)`` of any length.
    """
    w, x, y, z = _normalised(quaternion)
    return 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)


def local_z(quaternion: Sequence[float]) -> Triple:
    """Give the third column of the rotation: where its z axis points.

    Args:
        quaternion: ``(w, x, y, z)`` of any length.
    """
    w, x, y, z = _normalised(quaternion)
    return 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)


def _normalised(quaternion: Sequence[float]) -> tuple[float, float, float, float]:
    w, x, y, z = quaternion
    length = max(sqrt(w * w + x * x + y * y + z * z), QUATERNION_FLOOR)
    return w / length, x / length, y / length, z / length
