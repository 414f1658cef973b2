"""The arithmetic of `chamber.agents._chain.SerialChain`, compiled: many configurations in one call.

``origins`` and ``alignments`` are those of the chain; ``q`` has shape ``(n, n_joints)``, rad.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "link_transforms",
    "place_frames",
    "point_jacobians",
    "tcp_jacobians",
    "tcp_positions",
    "tcp_rotations",
    "tcps_and_jacobians",
]

FloatArray = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def place_frames(origins: FloatArray, q: FloatArray, frames: FloatArray) -> None:
    """Write the poses ``(R | p)`` of the base, of every joint's frame turned by q, and of the TCP into ``frames``."""
    n_joints = q.shape[0]
    frames[0] = 0.0
    for axis in range(3):
        frames[0, axis, axis] = 1.0
    for joint in range(n_joints + 1):
        cosine, sine = (math.cos(q[joint]), math.sin(q[joint])) if joint < n_joints else (1.0, 0.0)
        step, before, after = origins[joint], frames[joint], frames[joint + 1]
        for row in range(3):
            r0, r1, r2 = before[row, 0], before[row, 1], before[row, 2]
            x = r0 * step[0, 0] + r1 * step[1, 0] + r2 * step[2, 0]
            y = r0 * step[0, 1] + r1 * step[1, 1] + r2 * step[2, 1]
            after[row, 0] = cosine * x + sine * y
            after[row, 1] = cosine * y - sine * x
            after[row, 2] = r0 * step[0, 2] + r1 * step[1, 2] + r2 * step[2, 2]
            after[row, 3] = before[row, 3] + r0 * step[0, 3] + r1 * step[1, 3] + r2 * step[2, 3]


@njit(cache=True, error_model="numpy")
def _write_linear_columns(frames: FloatArray, n_columns: int, point: FloatArray, jacobian: FloatArray) -> None:
    """Write ``z_i x (p - o_i)`` into the first columns: a joint turns neither its own origin nor its own axis."""
    for joint in range(n_columns):
        frame = frames[joint + 1]
        zx, zy, zz = frame[0, 2], frame[1, 2], frame[2, 2]
        dx, dy, dz = point[0] - frame[0, 3], point[1] - frame[1, 3], point[2] - frame[2, 3]
        jacobian[0, joint] = zy * dz - zz * dy
        jacobian[1, joint] = zz * dx - zx * dz
        jacobian[2, joint] = zx * dy - zy * dx


@njit(cache=True, error_model="numpy")
def _write_tcp_jacobian(frames: FloatArray, n_joints: int, jacobian: FloatArray) -> None:
    _write_linear_columns(frames, n_joints, frames[n_joints + 1, :, 3], jacobian)
    for joint in range(n_joints):
        for row in range(3):
            jacobian[3 + row, joint] = frames[joint + 1, row, 2]


@njit(cache=True, error_model="numpy")
def tcp_positions(origins: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    positions = np.empty((n, 3))
    for k in range(n):
        place_frames(origins, q[k], frames)
        positions[k] = frames[n_joints + 1, :, 3]
    return positions


@njit(cache=True, error_model="numpy")
def tcp_rotations(origins: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    rotations = np.empty((n, 3, 3))
    for k in range(n):
        place_frames(origins, q[k], frames)
        rotations[k] = frames[n_joints + 1, :, :3]
    return rotations


@njit(cache=True, error_model="numpy")
def tcp_jacobians(origins: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    jacobians = np.empty((n, 6, n_joints))
    for k in range(n):
        place_frames(origins, q[k], frames)
        _write_tcp_jacobian(frames, n_joints, jacobians[k])
    return jacobians


@njit(cache=True, error_model="numpy")
def tcps_and_jacobians(origins: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    positions, rotations, jacobians = np.empty((n, 3)), np.empty((n, 3, 3)), np.empty((n, 6, n_joints))
    for k in range(n):
        place_frames(origins, q[k], frames)
        positions[k] = frames[n_joints + 1, :, 3]
        rotations[k] = frames[n_joints + 1, :, :3]
        _write_tcp_jacobian(frames, n_joints, jacobians[k])
    return positions, rotations, jacobians


@njit(cache=True, error_model="numpy")
def link_transforms(origins: FloatArray, alignments: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    transforms = np.zeros((n, n_joints + 1, 4, 4))
    for k in range(n):
        place_frames(origins, q[k], frames)
        for link in range(n_joints + 1):
            out = transforms[k, link]
            for row in range(3):
                frame = frames[link, row]
                for column in range(3):
                    turn = alignments[link, column]
                    out[row, column] = frame[0] * turn[0] + frame[1] * turn[1] + frame[2] * turn[2]
                out[row, 3] = frame[3]
            out[3, 3] = 1.0
    return transforms


@njit(cache=True, error_model="numpy")
def point_jacobians(
    origins: FloatArray, alignments: FloatArray, q: FloatArray, link: int, point_in_link: FloatArray
) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    jacobians = np.zeros((n, 3, n_joints))
    in_joint_frame, point = np.empty(3), np.empty(3)
    for row in range(3):  # the transposed alignment takes the link's coordinates to those of its joint
        in_joint_frame[row] = (
            alignments[link, 0, row] * point_in_link[0]
            + alignments[link, 1, row] * point_in_link[1]
            + alignments[link, 2, row] * point_in_link[2]
        )
    for k in range(n):
        place_frames(origins, q[k], frames)
        for row in range(3):
            frame = frames[link, row]
            point[row] = (
                frame[3] + frame[0] * in_joint_frame[0] + frame[1] * in_joint_frame[1] + frame[2] * in_joint_frame[2]
            )
        _write_linear_columns(frames, link, point, jacobians[k])
    return jacobians
