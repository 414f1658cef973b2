"""Kinematics of a serial chain: where its links are and how they move with its joints, compiled, in float64.

Every function takes one configuration of shape ``(n_joints,)`` or many of shape ``(m, n_joints)``; the results of many
have the leading axis m and are equal to the single ones bit for bit. Joint limits are not looked at and angles are not
wrapped; joints that are not finite give results that are not finite.

With ``o_i`` and ``z_i`` the origin and the unit axis of joint i and p a point of a link that it carries, column i of
the geometric Jacobian is ``[z_i x (p - o_i); z_i]`` (Siciliano et al., "Robotics: Modelling, Planning and Control",
2009, section 3.1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from chamber.agents._chain_tables import ChainTable
from chamber.agents._transforms import rotation_to_axis, transform

__all__ = ["SerialChain", "TcpKinematics"]

FloatArray = NDArray[np.float64]


class TcpKinematics(NamedTuple):
    """Where the TCP is and how it moves with the joints; see `SerialChain` for shapes."""

    position: FloatArray
    rotation: FloatArray
    jacobian: FloatArray


class SerialChain:
    """A chain that is ready to be computed.

    Frames are those of the table's links; link 0 is the base, in whose frame everything is expressed, and link i is
    carried by joint i, counted from 1. The TCP is the end of the table's tail.

    Args:
        table: the chain.
    """

    def __init__(self, table: ChainTable) -> None:
        self.table = table
        self.n_joints = len(table.joints)
        # The compiled functions turn joints about z: frames are turned so that z is their joint's axis, and back at the
        # end.
        alignments = [np.eye(3), *(rotation_to_axis(joint.axis) for joint in table.joints)]
        steps = [transform(joint.xyz, joint.rpy) for joint in table.joints]
        steps.append(table.locate(table.end_link)[1])
        origins = np.zeros((self.n_joints + 1, 3, 4))
        for place, step in enumerate(steps):
            origins[place] = alignments[place].T @ step[:3]
            if place < self.n_joints:
                origins[place, :, :3] @= alignments[place + 1]
        self._origins = origins
        self._alignments = np.stack(alignments)

    @property
    def origins(self) -> FloatArray:
        """Fixed transforms between joints, ``(R | p)`` each, for code that walks the chain itself; do not write to it.

        Shape ``(n_joints + 1, 3, 4)``; the last one leads to the TCP. Frames are those of joints, whose z is the axis.
        """
        return self._origins

    @property
    def alignments(self) -> FloatArray:
        """Rotations from links' frames to those of their joints, the identity where the axis is z.

        Shape ``(n_joints + 1, 3, 3)``, for the base first: ``R_link = R_joint @ alignment.T``.
        """
        return self._alignments

    def tcp_position(self, q: ArrayLike) -> FloatArray:
        """Give the origin of the TCP, m, shape ``(3,)``."""
        joints, is_single = self._joints(q)
        positions = _tcp_positions(self._origins, joints)
        return positions[0] if is_single else positions

    def tcp_rotation(self, q: ArrayLike) -> FloatArray:
        """Give the orientation of the TCP, shape ``(3, 3)``."""
        joints, is_single = self._joints(q)
        rotations = _tcp_rotations(self._origins, joints)
        return rotations[0] if is_single else rotations

    def jacobian(self, q: ArrayLike) -> FloatArray:
        """Give the geometric Jacobian of the TCP, linear rows first, shape ``(6, n_joints)``."""
        joints, is_single = self._joints(q)
        jacobians = _tcp_jacobians(self._origins, joints)
        return jacobians[0] if is_single else jacobians

    def tcp_kinematics(self, q: ArrayLike) -> TcpKinematics:
        """Give what `tcp_position`, `tcp_rotation` and `jacobian` give, in one pass over the chain."""
        joints, is_single = self._joints(q)
        positions, rotations, jacobians = _tcps_and_jacobians(self._origins, joints)
        if is_single:
            return TcpKinematics(positions[0], rotations[0], jacobians[0])
        return TcpKinematics(positions, rotations, jacobians)

    def link_transforms(self, q: ArrayLike) -> FloatArray:
        """Give the poses of the base (the identity) and of the links that joints carry, shape ``(n_joints + 1, 4, 4)``.

        A link of the tail, the TCP too, is at ``link_transforms(q)[index] @ offset`` with
        ``index, offset = table.locate(name)``.
        """
        joints, is_single = self._joints(q)
        transforms = _link_transforms(self._origins, self._alignments, joints)
        return transforms[0] if is_single else transforms

    def point_jacobian(self, q: ArrayLike, link_index: int, point_in_link: ArrayLike) -> FloatArray:
        """Give how a point that moves with a link follows the joints, shape ``(3, n_joints)``.

        Args:
            q: configurations.
            link_index: 0 for the base, whose points do not move, to ``n_joints``.
            point_in_link: the point in the link's frame, m, shape ``(3,)``.

        Raises:
            ValueError: a shape is wrong or there is no such link.
        """
        joints, is_single = self._joints(q)
        point = np.ascontiguousarray(point_in_link, dtype=np.float64)
        if point.shape != (3,):
            raise ValueError(f"point_in_link must have shape (3,), got {point.shape}")
        if not 0 <= link_index <= self.n_joints:
            raise ValueError(f"link_index must be in 0 to {self.n_joints}, got {link_index}")
        jacobians = _point_jacobians(self._origins, self._alignments, joints, link_index, point)
        return jacobians[0] if is_single else jacobians

    def _joints(self, q: ArrayLike) -> tuple[FloatArray, bool]:
        joints = np.ascontiguousarray(q, dtype=np.float64)
        if joints.shape == (self.n_joints,):
            return joints.reshape(1, -1), True
        if joints.ndim != 2 or joints.shape[1] != self.n_joints:
            raise ValueError(f"q must have shape ({self.n_joints},) or (m, {self.n_joints}), got {joints.shape}")
        return joints, False


@njit(cache=True, error_model="numpy")
def _place_frames(origins: FloatArray, q: FloatArray, frames: FloatArray) -> None:
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
def _tcp_positions(origins: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    positions = np.empty((n, 3))
    for k in range(n):
        _place_frames(origins, q[k], frames)
        positions[k] = frames[n_joints + 1, :, 3]
    return positions


@njit(cache=True, error_model="numpy")
def _tcp_rotations(origins: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    rotations = np.empty((n, 3, 3))
    for k in range(n):
        _place_frames(origins, q[k], frames)
        rotations[k] = frames[n_joints + 1, :, :3]
    return rotations


@njit(cache=True, error_model="numpy")
def _tcp_jacobians(origins: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    jacobians = np.empty((n, 6, n_joints))
    for k in range(n):
        _place_frames(origins, q[k], frames)
        _write_tcp_jacobian(frames, n_joints, jacobians[k])
    return jacobians


@njit(cache=True, error_model="numpy")
def _tcps_and_jacobians(origins: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    positions, rotations, jacobians = np.empty((n, 3)), np.empty((n, 3, 3)), np.empty((n, 6, n_joints))
    for k in range(n):
        _place_frames(origins, q[k], frames)
        positions[k] = frames[n_joints + 1, :, 3]
        rotations[k] = frames[n_joints + 1, :, :3]
        _write_tcp_jacobian(frames, n_joints, jacobians[k])
    return positions, rotations, jacobians


@njit(cache=True, error_model="numpy")
def _link_transforms(origins: FloatArray, alignments: FloatArray, q: FloatArray) -> FloatArray:
    n, n_joints = q.shape
    frames = np.empty((n_joints + 2, 3, 4))
    transforms = np.zeros((n, n_joints + 1, 4, 4))
    for k in range(n):
        _place_frames(origins, q[k], frames)
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
def _point_jacobians(
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
        _place_frames(origins, q[k], frames)
        for row in range(3):
            frame = frames[link, row]
            point[row] = (
                frame[3] + frame[0] * in_joint_frame[0] + frame[1] * in_joint_frame[1] + frame[2] * in_joint_frame[2]
            )
        _write_linear_columns(frames, link, point, jacobians[k])
    return jacobians
