"""Kinematics of a serial chain: where its links are and how they move with its joints, in float64.

The arrays of `SerialChain` come from compiled code, which is loaded when the first of them is asked for; what a
controller asks for in every step has a form in plain numbers, so that one arm needs no compiler in memory.

Every function takes one configuration of shape ``(n_joints,)`` or many of shape ``(m, n_joints)``; the results of many
have the leading axis m and are equal to the single ones bit for bit. Joint limits are not looked at and angles are not
wrapped; joints that are not finite give results that are not finite.

With ``o_i`` and ``z_i`` the origin and the unit axis of joint i and p a point of a link that it carries, column i of
the geometric Jacobian is ``[z_i x (p - o_i); z_i]`` (Siciliano et al., "Robotics: Modelling, Planning and Control",
2009, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.agents._chain_numbers import PoseNumbers, TcpNumbers, numbers_of, pose_numbers, tcp_numbers
from chamber.agents._chain_tables import ChainTable
from chamber.agents._transforms import rotation_to_axis, transform

if TYPE_CHECKING:
    from types import ModuleType

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
        self._steps = numbers_of(origins)
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
        positions = self._compiled.tcp_positions(self._origins, joints)
        return positions[0] if is_single else positions

    def tcp_rotation(self, q: ArrayLike) -> FloatArray:
        """Give the orientation of the TCP, shape ``(3, 3)``."""
        joints, is_single = self._joints(q)
        rotations = self._compiled.tcp_rotations(self._origins, joints)
        return rotations[0] if is_single else rotations

    def jacobian(self, q: ArrayLike) -> FloatArray:
        """Give the geometric Jacobian of the TCP, linear rows first, shape ``(6, n_joints)``."""
        joints, is_single = self._joints(q)
        jacobians = self._compiled.tcp_jacobians(self._origins, joints)
        return jacobians[0] if is_single else jacobians

    def tcp_kinematics(self, q: ArrayLike) -> TcpKinematics:
        """Give what `tcp_position`, `tcp_rotation` and `jacobian` give, in one pass over the chain."""
        joints, is_single = self._joints(q)
        positions, rotations, jacobians = self._compiled.tcps_and_jacobians(self._origins, joints)
        if is_single:
            return TcpKinematics(positions[0], rotations[0], jacobians[0])
        return TcpKinematics(positions, rotations, jacobians)

    def tcp_numbers(self, q: Sequence[float]) -> TcpNumbers:
        """Give position and linear Jacobian of `tcp_kinematics`, to the last bit, in plain numbers for plain numbers.

        Args:
            q: one configuration, finite.
        """
        return tcp_numbers(self._steps, q)

    def pose_numbers(self, q: Sequence[float]) -> PoseNumbers:
        """Give all of `tcp_kinematics`, to the last bit, in plain numbers for plain numbers.

        Args:
            q: one configuration, finite.
        """
        return pose_numbers(self._steps, q)

    def link_transforms(self, q: ArrayLike) -> FloatArray:
        """Give the poses of the base (the identity) and of the links that joints carry, shape ``(n_joints + 1, 4, 4)``.

        A link of the tail, the TCP too, is at ``link_transforms(q)[index] @ offset`` with
        ``index, offset = table.locate(name)``.
        """
        joints, is_single = self._joints(q)
        transforms = self._compiled.link_transforms(self._origins, self._alignments, joints)
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
        jacobians = self._compiled.point_jacobians(self._origins, self._alignments, joints, link_index, point)
        return jacobians[0] if is_single else jacobians

    @cached_property
    def _compiled(self) -> ModuleType:
        from chamber.agents import _chain_kernels

        return _chain_kernels

    def _joints(self, q: ArrayLike) -> tuple[FloatArray, bool]:
        joints = np.ascontiguousarray(q, dtype=np.float64)
        if joints.shape == (self.n_joints,):
            return joints.reshape(1, -1), True
        if joints.ndim != 2 or joints.shape[1] != self.n_joints:
            raise ValueError(f"q must have shape ({self.n_joints},) or (m, {self.n_joints}), got {joints.shape}")
        return joints, False
