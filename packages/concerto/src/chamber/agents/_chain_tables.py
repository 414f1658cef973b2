"""Kinematic tables of the arms: the one place where their link lengths, limits and link names are written down.

Convention of URDF: a joint carries its child by ``Trans(xyz) Rot_z(yaw) Rot_y(pitch) Rot_x(roll)`` and then by the
rotation q about its axis. Lengths in metres, angles in radians, velocities in rad/s, efforts in N m.

Sources: Franka Robotics, "Robot and interface specifications" (modified DH parameters and limits of the Panda, which
the vendor's robot description repeats link by link); UFACTORY's robot description of the xArm6, whose right angles are
written as 1.5708, with a Robotiq 2F-85 gripper at its flange.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chamber.agents._transforms import transform

__all__ = ["CHAINS", "ChainTable", "FixedJoint", "RotaryJoint"]

FloatArray = NDArray[np.float64]
Vector3 = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class RotaryJoint:
    """A joint that turns its child about an axis.

    Attributes:
        name: of the joint.
        child: link that it carries; its frame turns with it.
        xyz, rpy: pose of the child's frame in its parent's at q = 0.
        lower, upper: limits of q; infinite for a joint that turns without end.
        velocity: limit of ``|dq/dt|``.
        effort: limit of the torque.
        axis: unit vector in the child's frame.
    """

    name: str
    child: str
    xyz: Vector3
    rpy: Vector3
    lower: float
    upper: float
    velocity: float
    effort: float
    axis: Vector3 = (0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class FixedJoint:
    """A joint that does not move: where ``child`` is in the frame of the link before it."""

    name: str
    child: str
    xyz: Vector3
    rpy: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ChainTable:
    """A serial chain: a base, rotary joints in a row, and links fixed one after the other to the last of them.

    Attributes:
        base_link: link in whose frame everything is expressed.
        joints: from the base outwards.
        tail: fixed links behind the last joint; the last one is the end of the chain, the tool centre point (TCP).
    """

    base_link: str
    joints: tuple[RotaryJoint, ...]
    tail: tuple[FixedJoint, ...] = ()
    joint_names: tuple[str, ...] = field(init=False)
    link_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint_names", tuple(joint.name for joint in self.joints))
        object.__setattr__(self, "link_names", (self.base_link, *(joint.child for joint in self.joints)))

    @property
    def end_link(self) -> str:
        """Name of the last link of the tail, or of the last joint's child when there is no tail."""
        return self.tail[-1].child if self.tail else self.link_names[-1]

    @property
    def lower(self) -> FloatArray:
        """Lower joint limits, shape ``(n_joints,)``."""
        return np.array([joint.lower for joint in self.joints])

    @property
    def upper(self) -> FloatArray:
        """Upper joint limits, shape ``(n_joints,)``."""
        return np.array([joint.upper for joint in self.joints])

    @property
    def velocity(self) -> FloatArray:
        """Limits of the joint speeds, shape ``(n_joints,)``."""
        return np.array([joint.velocity for joint in self.joints])

    @property
    def effort(self) -> FloatArray:
        """Limits of the joint torques, shape ``(n_joints,)``."""
        return np.array([joint.effort for joint in self.joints])

    def locate(self, link: str) -> tuple[int, FloatArray]:
        """Say which moving link carries ``link`` and where.

        Returns:
            Index into ``link_names`` (0 is the base), and the pose of ``link`` in that link's frame, shape ``(4, 4)``.

        Raises:
            KeyError: the chain has no such link; the message lists those it has.
        """
        if link in self.link_names:
            return self.link_names.index(link), np.eye(4)
        pose = np.eye(4)
        for fixed in self.tail:
            pose = pose @ transform(fixed.xyz, fixed.rpy)
            if fixed.child == link:
                return len(self.joints), pose
        known = ", ".join((*self.link_names, *(fixed.child for fixed in self.tail)))
        raise KeyError(f"the chain has no link {link!r}; it has {known}")

    def ending_at(self, link: str) -> ChainTable:
        """Give the part of the chain from the base to ``link``.

        Raises:
            KeyError: the chain has no such link; the message lists those it has.
        """
        n_joints, _ = self.locate(link)
        if link in self.link_names:
            return ChainTable(self.base_link, self.joints[:n_joints])
        n_fixed = 1 + [fixed.child for fixed in self.tail].index(link)
        return ChainTable(self.base_link, self.joints, self.tail[:n_fixed])


_RIGHT = math.pi / 2.0
_TURN = 2.0 * math.pi

_PANDA = ChainTable(
    "panda_link0",
    (
        RotaryJoint("panda_joint1", "panda_link1", (0, 0, 0.333), (0, 0, 0), -2.8973, 2.8973, 2.175, 87),
        RotaryJoint("panda_joint2", "panda_link2", (0, 0, 0), (-_RIGHT, 0, 0), -1.7628, 1.7628, 2.175, 87),
        RotaryJoint("panda_joint3", "panda_link3", (0, -0.316, 0), (_RIGHT, 0, 0), -2.8973, 2.8973, 2.175, 87),
        RotaryJoint("panda_joint4", "panda_link4", (0.0825, 0, 0), (_RIGHT, 0, 0), -3.0718, -0.0698, 2.175, 87),
        RotaryJoint("panda_joint5", "panda_link5", (-0.0825, 0.384, 0), (-_RIGHT, 0, 0), -2.8973, 2.8973, 2.61, 12),
        RotaryJoint("panda_joint6", "panda_link6", (0, 0, 0), (_RIGHT, 0, 0), -0.0175, 3.7525, 2.61, 12),
        RotaryJoint("panda_joint7", "panda_link7", (0.088, 0, 0), (_RIGHT, 0, 0), -2.8973, 2.8973, 2.61, 12),
    ),
    (
        FixedJoint("panda_joint8", "panda_link8", (0, 0, 0.107)),
        FixedJoint("panda_hand_joint", "panda_hand", (0, 0, 0), (0, 0, -math.pi / 4.0)),
        FixedJoint("panda_hand_tcp_joint", "panda_hand_tcp", (0, 0, 0.1034)),
    ),
)

_XARM6 = ChainTable(
    "link_base",
    (
        RotaryJoint("joint1", "link1", (0, 0, 0.267), (0, 0, 0), -_TURN, _TURN, 3.14, 50),
        RotaryJoint("joint2", "link2", (0, 0, 0), (-1.5708, 0, 0), -2.059, 2.0944, 3.14, 50),
        RotaryJoint("joint3", "link3", (0.0535, -0.2845, 0), (0, 0, 0), -3.8, 0.19198, 3.14, 32),
        RotaryJoint("joint4", "link4", (0.0775, 0.3425, 0), (-1.5708, 0, 0), -_TURN, _TURN, 3.14, 32),
        RotaryJoint("joint5", "link5", (0, 0, 0), (1.5708, 0, 0), -1.69297, math.pi, 3.14, 32),
        RotaryJoint("joint6", "link6", (0.076, 0.097, 0), (-1.5708, 0, 0), -_TURN, _TURN, 3.14, 20),
    ),
    (
        FixedJoint("gripper_fix", "robotiq_arg2f_base_link", (0, 0, 0)),
        FixedJoint("eef_joint", "eef", (0, 0, 0.15)),
    ),
)

CHAINS: dict[str, ChainTable] = {"panda": _PANDA, "xarm6": _XARM6}
"""Chains by arm. The Panda's fingers hang off ``panda_hand`` and are no part of its chain."""
