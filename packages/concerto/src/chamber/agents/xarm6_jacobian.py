"""Kinematics of the UFACTORY xArm6 with a Robotiq 2F-85 gripper."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.agents._arm_provider import ArmJacobianProvider

__all__ = ["CARTESIAN_POSITION_DIM", "XARM6_ARM_DOF", "XArm6JacobianProvider"]

XARM6_ARM_DOF = 6
CARTESIAN_POSITION_DIM = 3


class XArm6JacobianProvider(ArmJacobianProvider):
    """Forward kinematics and Jacobians of an xArm6, joints ``joint1`` to ``joint6``, in ``link_base``.

    Calling it gives the same 3 x 6 linear Jacobian as `jacobian`. See `ArmJacobianProvider` for what all methods have
    in common.
    """

    _ARM: ClassVar[str] = "xarm6"
    _DOF: ClassVar[int] = XARM6_ARM_DOF

    def __init__(self, urdf_path: str | Path | None = None, *, ee_link: str = "eef") -> None:
        super().__init__(urdf_path, ee_link=ee_link)

    def jacobian(self, qpos_arm: ArrayLike) -> NDArray[np.float64]:
        """Give the linear Jacobian of the TCP, shape ``(3, 6)``."""
        return self._full_jacobian(qpos_arm, ".jacobian")[:3]

    def jacobian_6x6(self, qpos_arm: ArrayLike) -> NDArray[np.float64]:
        """Give the geometric Jacobian of the TCP, shape ``(6, 6)``: rows 0 to 2 linear, rows 3 to 5 angular."""
        return self._full_jacobian(qpos_arm, ".jacobian_6x6")

    def jacobian_6x6_batch(self, qpos_arm: ArrayLike) -> NDArray[np.float64]:
        """Give the geometric Jacobians of many configurations, shape ``(m, 6, 6)``."""
        return self._full_jacobian_batch(qpos_arm, ".jacobian_6x6_batch")
