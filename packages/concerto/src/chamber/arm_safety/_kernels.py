"""Compiled functions of arm safety: where the spheres of an arm are, what it weighs, and where a command takes it.

An arm is an `ArmArrays`: the chain's kinematics in the world frame, its spheres, its inertias and its drive. Spheres
and centres of mass are given in the *turned* frame of their joint, whose z axis is the joint's axis
(`chamber.agents._chain`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.agents import _chain_kernels

__all__ = [
    "SAMPLES_PER_STEP",
    "ArmArrays",
    "joint_space_inertia",
    "place_frames",
    "place_spheres",
    "predict_path",
    "sphere_jacobian",
    "step_matrices",
    "velocity_update",
]

FloatArray = NDArray[np.float64]

SAMPLES_PER_STEP = 5
"""Places at which a predicted path is looked at within one control step."""


class ArmArrays(NamedTuple):
    """What the compiled functions know about an arm with n joints and N spheres.

    Attributes:
        base: pose of the base in the world, ``(R | p)``, shape ``(3, 4)``.
        origins: poses of the joints in the frame before at q = 0 and of the TCP, the first one in the world, shape
            ``(n + 1, 3, 4)``.
        sphere_links: link of every sphere, 0 for the base, i for the one that joint i carries, shape ``(N,)``.
        sphere_points: centres in the frame of their link, m, shape ``(N, 3)``.
        sphere_radii: m, shape ``(N,)``.
        masses: of what every joint carries up to the next one, kg, shape ``(n,)``.
        mass_centers: their centres of mass, m, shape ``(n, 3)``.
        inertias: about the centre of mass, kg m^2, shape ``(n, 3, 3)``.
        stiffness, damping, torque_limit, action_scale, physics_timestep, substeps: of the drive.
    """

    base: FloatArray
    origins: FloatArray
    sphere_links: NDArray[np.int64]
    sphere_points: FloatArray
    sphere_radii: FloatArray
    masses: FloatArray
    mass_centers: FloatArray
    inertias: FloatArray
    stiffness: float
    damping: float
    torque_limit: float
    action_scale: float
    physics_timestep: float
    substeps: int


@njit(cache=True, error_model="numpy")
def place_frames(arm: ArmArrays, q: FloatArray, frames: FloatArray) -> None:
    """Write the poses of base, joints and TCP in the world, shape ``(n + 2, 3, 4)``."""
    _chain_kernels.place_frames(arm.origins, q, frames)
    frames[0] = arm.base


@njit(cache=True, error_model="numpy")
def place_spheres(arm: ArmArrays, frames: FloatArray, centers: FloatArray) -> None:
    """Write the centres of all spheres in the world, shape ``(N, 3)``."""
    for sphere in range(centers.shape[0]):
        _transform(frames[arm.sphere_links[sphere]], arm.sphere_points[sphere], centers[sphere])


@njit(cache=True, error_model="numpy")
def sphere_jacobian(frames: FloatArray, link: int, center: FloatArray, jacobian: FloatArray) -> None:
    """Write how the centre of a sphere on ``link`` follows the joints, ``z_i x (c - o_i)``, shape ``(3, n)``."""
    jacobian[:] = 0.0
    for joint in range(link):
        frame = frames[joint + 1]
        zx, zy, zz = frame[0, 2], frame[1, 2], frame[2, 2]
        dx, dy, dz = center[0] - frame[0, 3], center[1] - frame[1, 3], center[2] - frame[2, 3]
        jacobian[0, joint] = zy * dz - zz * dy
        jacobian[1, joint] = zz * dx - zx * dz
        jacobian[2, joint] = zx * dy - zy * dx


@njit(cache=True, error_model="numpy")
def joint_space_inertia(arm: ArmArrays, frames: FloatArray) -> FloatArray:
    """Give the mass matrix, kg m^2, shape ``(n, n)``, by composite rigid bodies from the tip to the base.

    What joint j and all after it carry, of mass m, centre c and inertia I, moves by joint j with momentum
    ``p = m z_j x (c - o_j)`` and angular momentum ``l = I z_j`` about c; entry (i, j) is ``z_i . (l + (c - o_i) x p)``
    (Featherstone, "Rigid Body Dynamics Algorithms", 2008, section 6.2).
    """
    n = arm.masses.shape[0]
    matrix = np.empty((n, n))
    mass = 0.0
    center = np.zeros(3)
    inertia = np.zeros((3, 3))
    own_center = np.empty(3)
    momentum = np.empty(3)
    for joint in range(n - 1, -1, -1):
        frame = frames[joint + 1]
        rotation = frame[:, :3]
        _transform(frame, arm.mass_centers[joint], own_center)
        inertia += _turned(rotation, arm.inertias[joint])
        total = mass + arm.masses[joint]
        if total > 0.0:
            _add_point_masses(inertia, own_center - center, mass * arm.masses[joint] / total)
            center[:] = (mass * center + arm.masses[joint] * own_center) / total
        mass = total
        axis = frame[:, 2]
        arm_to_center = center - frame[:, 3]
        _cross(axis, arm_to_center, momentum)
        for k in range(3):
            momentum[k] *= mass
        for other in range(joint + 1):
            other_frame = frames[other + 1]
            value = 0.0
            rx = center[0] - other_frame[0, 3]
            ry = center[1] - other_frame[1, 3]
            rz = center[2] - other_frame[2, 3]
            moment = (
                ry * momentum[2] - rz * momentum[1],
                rz * momentum[0] - rx * momentum[2],
                rx * momentum[1] - ry * momentum[0],
            )
            for k in range(3):
                angular = inertia[k, 0] * axis[0] + inertia[k, 1] * axis[1] + inertia[k, 2] * axis[2]
                value += other_frame[k, 2] * (angular + moment[k])
            matrix[other, joint] = value
            matrix[joint, other] = value
    return matrix


@njit(cache=True, error_model="numpy")
def velocity_update(arm: ArmArrays, inertia: FloatArray) -> FloatArray:
    """Give ``(M + h c I)^-1``: what turns torques into changes of velocity in one physics step, shape ``(n, n)``."""
    n = inertia.shape[0]
    factor = inertia.copy()
    for k in range(n):
        factor[k, k] += arm.physics_timestep * arm.damping
    # Cholesky, then the inverse of the triangular factor: a handful of joints needs no LAPACK.
    for j in range(n):
        for k in range(j):
            factor[j, j] -= factor[j, k] * factor[j, k]
        factor[j, j] = math.sqrt(factor[j, j])
        for i in range(j + 1, n):
            for k in range(j):
                factor[i, j] -= factor[i, k] * factor[j, k]
            factor[i, j] /= factor[j, j]
    lower = np.zeros((n, n))
    for j in range(n):
        lower[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= factor[i, k] * lower[k, j]
            lower[i, j] = total / factor[i, i]
    inverse = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += lower[k, i] * lower[k, j]
            inverse[i, j] = total
            inverse[j, i] = total
    return inverse


@njit(cache=True, error_model="numpy")
def predict_path(
    arm: ArmArrays, update: FloatArray, q: FloatArray, q_dot: FloatArray, action: FloatArray, path: FloatArray
) -> None:
    """Write where the joints are, when ``action`` is applied for one control step and zero after it.

    Args:
        arm: the arm.
        update: `velocity_update` of its mass matrix, which is kept for the whole path.
        q: joint positions, rad, shape ``(n,)``.
        q_dot: joint velocities, rad/s, shape ``(n,)``.
        action: normalised joint displacements, shape ``(n,)``.
        path: written, shape ``(1 + n_steps * SAMPLES_PER_STEP, n)``; its first row is q.
    """
    n = q.shape[0]
    position, velocity = q.copy(), q_dot.copy()
    target, torque = np.empty(n), np.empty(n)
    path[0] = q
    sample = 1
    step = 0
    while sample < path.shape[0]:
        for k in range(n):
            target[k] = position[k] + (arm.action_scale * min(max(action[k], -1.0), 1.0) if step == 0 else 0.0)
        for substep in range(arm.substeps):
            for k in range(n):
                spring = arm.stiffness * (target[k] - position[k])
                torque[k] = min(max(spring, -arm.torque_limit), arm.torque_limit) - arm.damping * velocity[k]
            for i in range(n):
                change = 0.0
                for k in range(n):
                    change += update[i, k] * torque[k]
                velocity[i] += arm.physics_timestep * change
            for k in range(n):
                position[k] += arm.physics_timestep * velocity[k]
            if (substep + 1) * SAMPLES_PER_STEP // arm.substeps > substep * SAMPLES_PER_STEP // arm.substeps:
                path[sample] = position
                sample += 1
        step += 1


@njit(cache=True, error_model="numpy")
def step_matrices(arm: ArmArrays, update: FloatArray) -> FloatArray:
    """Give the linear map of one control step from (distance to the target, velocity), shape ``(2, 2, n, n)``.

    ``[0, 1]`` is the displacement per velocity, ``[1, 0]`` the velocity at the end per distance at the start.
    """
    n = update.shape[0]
    powers = np.zeros((2, 2, n, n))
    for column in range(2):
        distance = np.zeros((n, n))
        velocity = np.zeros((n, n))
        for k in range(n):
            if column == 0:
                distance[k, k] = 1.0
            else:
                velocity[k, k] = 1.0
        for _ in range(arm.substeps):
            torque = -arm.stiffness * distance - arm.damping * velocity
            velocity = velocity + arm.physics_timestep * np.dot(update, torque)
            distance = distance + arm.physics_timestep * velocity
        powers[0, column] = distance
        powers[1, column] = velocity
    return powers


@njit(cache=True, error_model="numpy")
def _transform(frame: FloatArray, point: FloatArray, out: FloatArray) -> None:
    for row in range(3):
        out[row] = frame[row, 3] + frame[row, 0] * point[0] + frame[row, 1] * point[1] + frame[row, 2] * point[2]


@njit(cache=True, error_model="numpy")
def _cross(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@njit(cache=True, error_model="numpy")
def _turned(rotation: FloatArray, inertia: FloatArray) -> FloatArray:
    """Give ``R I R^T``."""
    out = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            for k in range(3):
                for m in range(3):
                    out[i, j] += rotation[i, k] * inertia[k, m] * rotation[j, m]
    return out


@njit(cache=True, error_model="numpy")
def _add_point_masses(inertia: FloatArray, offset: FloatArray, reduced_mass: float) -> None:
    """Add what two bodies at this offset from each other have about their common centre beyond their own inertias."""
    squared = offset[0] * offset[0] + offset[1] * offset[1] + offset[2] * offset[2]
    for i in range(3):
        for j in range(3):
            inertia[i, j] -= reduced_mass * offset[i] * offset[j]
        inertia[i, i] += reduced_mass * squared
