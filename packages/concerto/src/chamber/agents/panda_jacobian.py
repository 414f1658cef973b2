"""Kinematics of the Franka Panda."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.agents._arm_provider import ArmJacobianProvider

__all__ = ["CARTESIAN_POSITION_DIM", "PANDA_ARM_DOF", "PandaJacobianProvider"]

PANDA_ARM_DOF = 7
CARTESIAN_POSITION_DIM = 3


class PandaJacobianProvider(ArmJacobianProvider):
    """Forward kinematics and Jacobians of a Panda, joints ``panda_joint1`` to ``panda_joint7``, in ``panda_link0``.

    Calling it gives the 3 x 7 linear Jacobian. See `ArmJacobianProvider` for what all methods have in common.

    Example:
        >>> from chamber.agents import PandaJacobianProvider
        >>> PandaJacobianProvider().fk_tcp_position([0.1, -0.2, 0.3, -1.5, 0.4, 1.8, 0.5]).round(4).tolist()
        [0.4657, 0.2955, 0.7033]
    """

    _ARM: ClassVar[str] = "panda"
    _DOF: ClassVar[int] = PANDA_ARM_DOF

    def __init__(self, urdf_path: str | Path | None = None, *, ee_link: str = "panda_hand_tcp") -> None:
        super().__init__(urdf_path, ee_link=ee_link)

    def jacobian_6x7(self, qpos_arm: ArrayLike) -> NDArray[np.float64]:
        """Give the geometric Jacobian of the TCP, shape ``(6, 7)``: rows 0 to 2 linear, rows 3 to 5 angular."""
        return self._full_jacobian(qpos_arm, ".jacobian_6x7")

    def jacobian_6x7_batch(self, qpos_arm: ArrayLike) -> NDArray[np.float64]:
        """Give the geometric Jacobians of many configurations, shape ``(m, 6, 7)``."""
        return self._full_jacobian_batch(qpos_arm, ".jacobian_6x7_batch")
