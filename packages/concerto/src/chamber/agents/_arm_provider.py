"""What the providers of all arms share: one chain, the documented methods, and their checks of shapes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.agents._chain import SerialChain, TcpKinematics
from chamber.agents._chain_tables import CHAINS, ChainTable
from chamber.agents._urdf import read_chain

__all__ = ["ArmJacobianProvider"]

FloatArray = NDArray[np.float64]


class ArmJacobianProvider:
    """Forward kinematics and Jacobians of one arm's tool centre point (TCP), in the frame of the arm's base.

    Everything is computed in float64; implementations in single precision agree with it to about 1e-6. Methods take
    exactly one configuration; those named ``..._batch`` take many, of shape ``(m, n_joints)``, and give results with
    the leading axis m, equal to single ones bit for bit. Joint limits are not checked and angles are not wrapped;
    joints that are not finite give results that are not finite. A provider has no state that changes.

    Args:
        urdf_path: robot description to read the chain from, ``~`` for the home directory; None for the built-in table.
        ee_link: link whose frame is the TCP.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no chain ends at ``ee_link``, or it has another number of joints than the arm.
    """

    _ARM: ClassVar[str]
    _DOF: ClassVar[int]

    def __init__(self, urdf_path: str | Path | None = None, *, ee_link: str) -> None:
        self._ee_link = ee_link
        name = type(self).__name__
        if urdf_path is None:
            table = _built_in_table(self._ARM, ee_link, self._DOF, name)
        else:
            table = read_chain(urdf_path, end_link=ee_link, n_joints=self._DOF, reader=name)
        self._chain = SerialChain(table)

    @property
    def ee_link(self) -> str:
        """Link whose frame is the TCP."""
        return self._ee_link

    @property
    def chain(self) -> SerialChain:
        """The chain itself: poses and points of every link."""
        return self._chain

    def fk_tcp_position(self, qpos_arm: ArrayLike) -> FloatArray:
        """Give the origin of the TCP, m, shape ``(3,)``."""
        return self._chain.tcp_position(self._single(qpos_arm, ".fk_tcp_position"))

    def fk_tcp_rotation(self, qpos_arm: ArrayLike) -> FloatArray:
        """Give the orientation of the TCP, shape ``(3, 3)``."""
        return self._chain.tcp_rotation(self._single(qpos_arm, ".fk_tcp_rotation"))

    def fk_and_jacobian(self, qpos_arm: ArrayLike) -> TcpKinematics:
        """Give position, rotation and full Jacobian of shape ``(6, n_joints)`` in one pass over the chain."""
        return self._chain.tcp_kinematics(self._single(qpos_arm, ".fk_and_jacobian"))

    def __call__(self, snap: object, qpos_arm: ArrayLike) -> FloatArray:
        """Give the linear Jacobian, shape ``(3, n_joints)``, as `concerto.safety.api.JacobianControlModel` asks for it.

        Args:
            snap: ignored.
            qpos_arm: arm joints.
        """
        return self._chain.jacobian(self._single(qpos_arm, ""))[:3]

    def fk_tcp_position_batch(self, qpos_arm: ArrayLike) -> FloatArray:
        """Give the origins of the TCP, m, shape ``(m, 3)``."""
        return self._chain.tcp_position(self._batch(qpos_arm, ".fk_tcp_position_batch"))

    def fk_tcp_rotation_batch(self, qpos_arm: ArrayLike) -> FloatArray:
        """Give the orientations of the TCP, shape ``(m, 3, 3)``."""
        return self._chain.tcp_rotation(self._batch(qpos_arm, ".fk_tcp_rotation_batch"))

    def fk_and_jacobian_batch(self, qpos_arm: ArrayLike) -> TcpKinematics:
        """Give positions, rotations and full Jacobians of shape ``(m, 6, n_joints)`` in one pass over the chain."""
        return self._chain.tcp_kinematics(self._batch(qpos_arm, ".fk_and_jacobian_batch"))

    def _full_jacobian(self, qpos_arm: ArrayLike, method: str) -> FloatArray:
        return self._chain.jacobian(self._single(qpos_arm, method))

    def _full_jacobian_batch(self, qpos_arm: ArrayLike, method: str) -> FloatArray:
        return self._chain.jacobian(self._batch(qpos_arm, method))

    def _single(self, qpos_arm: ArrayLike, method: str) -> FloatArray:
        joints = np.asarray(qpos_arm, dtype=np.float64)
        if joints.shape != (self._DOF,):
            raise ValueError(
                f"{type(self).__name__}{method}: qpos_arm must have shape ({self._DOF},), got {joints.shape}"
            )
        return joints

    def _batch(self, qpos_arm: ArrayLike, method: str) -> FloatArray:
        joints = np.asarray(qpos_arm, dtype=np.float64)
        if joints.ndim != 2 or joints.shape[1] != self._DOF:
            raise ValueError(
                f"{type(self).__name__}{method}: qpos_arm must have shape (m, {self._DOF}), got {joints.shape}"
            )
        return joints


def _built_in_table(arm: str, ee_link: str, n_joints: int, reader: str) -> ChainTable:
    try:
        table = CHAINS[arm].ending_at(ee_link)
    except KeyError as error:
        raise ValueError(f"{reader} has no chain that ends at {ee_link!r}: {error.args[0]}") from error
    if len(table.joints) != n_joints:
        raise ValueError(
            f"{reader} needs a chain of exactly {n_joints} joints to {ee_link!r}, found {len(table.joints)}"
        )
    return table
