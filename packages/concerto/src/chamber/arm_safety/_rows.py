r"""The rows of the operational-space filter, for the point where the arm would come to rest.

An arm at q with velocity :math:`\dot q` that holds still comes to rest at a *stopping point* :math:`q_s`. An action u
moves that point by :math:`g u` in one control step, with a factor g that hardly depends on the inertia
(`chamber.agents.joint_delta.StepResponse.stopping_position_per_target`): the stopping point is an integrator without
drift. So the velocity filter, whose variable is a joint velocity without inertia, is right when its variable is
:math:`w = g u / dt`, the velocity of the stopping point, and its gaps are those *at* the stopping point.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety._kernels import sphere_jacobian

__all__ = ["PlacedArm", "collision_rows", "sphere_velocities"]

FloatArray = NDArray[np.float64]

_COINCIDENT_DISTANCE = 1e-9  # m


class PlacedArm(NamedTuple):
    """The spheres of an arm in one configuration.

    Attributes:
        frames: poses of base, joints and TCP in the world, shape ``(n + 2, 3, 4)``.
        links: link of every sphere, shape ``(N,)``.
        centers: m, shape ``(N, 3)``.
        radii: m, shape ``(N,)``.
    """

    frames: FloatArray
    links: NDArray[np.int64]
    centers: FloatArray
    radii: FloatArray


@njit(cache=True, error_model="numpy")
def sphere_velocities(arm: PlacedArm, q_dot: FloatArray, declared_speeds: FloatArray) -> tuple[FloatArray, float]:
    """Give the velocities of the centres, m/s, shape ``(N, 3)``, and their largest excess over declared speeds, m/s."""
    velocities = np.zeros((arm.links.shape[0], 3))
    jacobian = np.empty((3, q_dot.shape[0]))
    excess = -math.inf
    for sphere in range(velocities.shape[0]):
        sphere_jacobian(arm.frames, arm.links[sphere], arm.centers[sphere], jacobian)
        for axis in range(3):
            for joint in range(arm.links[sphere]):
                velocities[sphere, axis] += jacobian[axis, joint] * q_dot[joint]
        excess = max(excess, _length(velocities[sphere]) - declared_speeds[sphere])
    return velocities, excess


@njit(cache=True, error_model="numpy")
def collision_rows(
    arm: PlacedArm,
    other: PlacedArm,
    other_velocities: FloatArray,
    standoffs: FloatArray,
    watched: NDArray[np.bool_],
    alpha: float,
    limits: FloatArray,
    rows: FloatArray,
    right: FloatArray,
) -> int:
    """Write the rows ``A w <= b`` of the pairs that can matter: ``-n^T J w <= alpha h - max(0, n . v)``.

    n is the unit vector from the partner's sphere to the arm's, J the Jacobian of the arm's sphere, v the velocity of
    the partner's, and ``h = gap - standoff``. A pair that no w inside the limits can violate is left out. When there
    are more than the arrays hold, those are kept that leave the least share of what the joints can do.

    Args:
        arm: at its stopping point.
        other: the partner as measured.
        other_velocities: of its spheres, m/s, shape ``(M, 3)``.
        standoffs: distance to keep from them, m, shape ``(M,)``.
        watched: which pairs count, shape ``(N, M)``.
        alpha: decay rate, 1/s.
        limits: largest ``|w|`` per joint, rad/s, shape ``(n,)``.
        rows: A, written, shape ``(p, n)``.
        right: b, written, shape ``(p,)``.

    Returns:
        Number of rows.
    """
    n = rows.shape[1]
    n_rows = 0
    shares = np.empty(rows.shape[0])
    other_speeds = np.empty(other.centers.shape[0])
    for j in range(other_speeds.shape[0]):
        other_speeds[j] = _length(other_velocities[j])
    row = np.empty(n)
    normal = np.empty(3)
    jacobian = np.empty((3, n))
    for i in range(arm.centers.shape[0]):
        if arm.links[i] == 0:
            continue
        sphere_jacobian(arm.frames, arm.links[i], arm.centers[i], jacobian)
        fastest = _fastest(jacobian, limits)
        for j in range(other.centers.shape[0]):
            if not watched[i, j]:
                continue
            distance = _direction(arm.centers[i], other.centers[j], normal)
            value = alpha * (distance - arm.radii[i] - other.radii[j] - standoffs[j])
            if value > fastest + other_speeds[j]:
                continue
            velocity = other_velocities[j]
            value -= max(0.0, normal[0] * velocity[0] + normal[1] * velocity[1] + normal[2] * velocity[2])
            reach = 0.0
            for k in range(n):
                row[k] = -(normal[0] * jacobian[0, k] + normal[1] * jacobian[1, k] + normal[2] * jacobian[2, k])
                reach += abs(row[k]) * limits[k]
            if reach <= max(value, 0.0):
                continue
            n_rows = _keep(row, value, value / reach, rows, right, shares, n_rows)
    return n_rows


@njit(cache=True, error_model="numpy")
def _keep(
    row: FloatArray, value: float, share: float, rows: FloatArray, right: FloatArray, shares: FloatArray, n_rows: int
) -> int:
    """Add a row, or put it in the place of the one that leaves the largest share; give the number of rows."""
    place = n_rows
    if n_rows == rows.shape[0]:
        place = int(np.argmax(shares))
        if shares[place] <= share:
            return n_rows
    rows[place] = row
    right[place] = value
    shares[place] = share
    return max(n_rows, place + 1)


@njit(cache=True, error_model="numpy")
def _fastest(jacobian: FloatArray, limits: FloatArray) -> float:
    """Give a bound of the speed of a point, from the speeds of the joints."""
    speed = 0.0
    for k in range(limits.shape[0]):
        speed += limits[k] * math.sqrt(jacobian[0, k] ** 2 + jacobian[1, k] ** 2 + jacobian[2, k] ** 2)
    return speed


@njit(cache=True, error_model="numpy")
def _direction(to: FloatArray, origin: FloatArray, normal: FloatArray) -> float:
    """Write the unit vector between two points, +x where they coincide; give their distance."""
    dx, dy, dz = to[0] - origin[0], to[1] - origin[1], to[2] - origin[2]
    distance = math.sqrt(dx * dx + dy * dy + dz * dz)
    if distance < _COINCIDENT_DISTANCE:
        normal[0], normal[1], normal[2] = 1.0, 0.0, 0.0
    else:
        normal[0], normal[1], normal[2] = dx / distance, dy / distance, dz / distance
    return distance


@njit(cache=True, error_model="numpy")
def _length(vector: FloatArray) -> float:
    return math.sqrt(vector[0] ** 2 + vector[1] ** 2 + vector[2] ** 2)
