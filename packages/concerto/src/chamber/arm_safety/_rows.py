r"""The rows of the operational-space filter, for the point where the arm would come to rest.

An arm at q with velocity :math:`\dot q` that holds still comes to rest at a *stopping point* :math:`q_s`. An action u moves
that point by :math:`g u` in one control step, with a factor g that hardly depends on the inertia
(`chamber.agents.joint_delta.StepResponse.stopping_position_per_target`): the stopping point is an integrator without drift.
So the velocity filter, whose variable is a joint velocity without inertia, is right when its variable is
:math:`w = g u / dt`, the velocity of the stopping point, and its gaps are those *at* the stopping point.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.arm_safety._kernels import sphere_jacobian

__all__ = ["collision_rows"]

FloatArray = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def collision_rows(
    frames: FloatArray,
    links: NDArray[np.int64],
    centers: FloatArray,
    radii: FloatArray,
    other_frames: FloatArray,
    other_links: NDArray[np.int64],
    other_centers: FloatArray,
    other_radii: FloatArray,
    other_joint_velocities: FloatArray,
    standoffs: FloatArray,
    closing_speeds: FloatArray,
    watched: NDArray[np.bool_],
    alpha: float,
    limits: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    pairs: NDArray[np.int64],
) -> int:
    """Write the rows ``A w <= b`` of the pairs that can matter: ``-n^T J w <= alpha h - c``.

    n is the unit vector from the partner's sphere to the arm's, J the Jacobian of the arm's sphere, ``h = gap - standoff``,
    and c the speed at which the partner closes in, at most the declared one; with ``closing_speeds`` it is given, else it
    is the measured ``max(0, n . v)``. A pair that no w inside the limits can violate is left out. When there are more than
    the arrays hold, those with the least room are kept.

    Args:
        frames, links, centers, radii: of the arm at its stopping point.
        other_frames, other_links, other_centers, other_radii: of the partner as measured.
        other_joint_velocities: of the partner, rad/s, shape ``(k,)``.
        standoffs: distance to keep per sphere of the partner, m, shape ``(M,)``.
        closing_speeds: per sphere of the partner, m/s, shape ``(M,)``, or negative for the measured one.
        watched: which pairs count, shape ``(N, M)``.
        alpha: decay rate, 1/s.
        limits: largest ``|w|`` per joint, rad/s, shape ``(n,)``.
        rows, right, pairs: written, shapes ``(p, n)``, ``(p,)`` and ``(p, 2)``.

    Returns:
        Number of rows.
    """
    n = rows.shape[1]
    n_rows = 0
    n_other = other_joint_velocities.shape[0]
    jacobian = np.empty((3, n))
    other_jacobian = np.empty((3, n_other))
    room = np.empty(rows.shape[0])
    velocities = np.zeros(other_centers.shape)
    row = np.empty(n)
    for j in range(other_centers.shape[0]):
        if closing_speeds[j] < 0.0:
            sphere_jacobian(other_frames, other_links[j], other_centers[j], other_jacobian)
            velocities[j] = np.dot(other_jacobian, other_joint_velocities)
    for i in range(centers.shape[0]):
        if links[i] == 0:
            continue
        sphere_jacobian(frames, links[i], centers[i], jacobian)
        most = 0.0  # the fastest this sphere can be
        for k in range(n):
            most += limits[k] * math.sqrt(jacobian[0, k] ** 2 + jacobian[1, k] ** 2 + jacobian[2, k] ** 2)
        for j in range(other_centers.shape[0]):
            if not watched[i, j]:
                continue
            dx = centers[i, 0] - other_centers[j, 0]
            dy = centers[i, 1] - other_centers[j, 1]
            dz = centers[i, 2] - other_centers[j, 2]
            distance = math.sqrt(dx * dx + dy * dy + dz * dz)
            value = alpha * (distance - radii[i] - other_radii[j] - standoffs[j])
            if value > most + _speed(velocities[j]) + max(closing_speeds[j], 0.0):
                continue
            if distance < 1e-9:
                dx, dy, dz, distance = 1.0, 0.0, 0.0, 1.0
            nx, ny, nz = dx / distance, dy / distance, dz / distance
            closing = closing_speeds[j]
            if closing < 0.0:
                closing = max(0.0, nx * velocities[j, 0] + ny * velocities[j, 1] + nz * velocities[j, 2])
            value -= closing
            reach = 0.0
            for k in range(n):
                row[k] = -(nx * jacobian[0, k] + ny * jacobian[1, k] + nz * jacobian[2, k])
                reach += abs(row[k]) * limits[k]
            if reach <= value:
                continue
            place = n_rows
            if n_rows == rows.shape[0]:
                place = int(np.argmax(room))
                if room[place] <= value - reach:
                    continue
            else:
                n_rows += 1
            rows[place] = row
            right[place] = value
            room[place] = value - reach
            pairs[place, 0] = i
            pairs[place, 1] = j
    return n_rows


@njit(cache=True, error_model="numpy")
def _speed(velocity: FloatArray) -> float:
    return math.sqrt(velocity[0] ** 2 + velocity[1] ** 2 + velocity[2] ** 2)
