"""`RobotModel`: what a backend, a task and the safety code need to know about a robot, beside its MJCF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.sim.robots import _mjcf
from chamber.sim.scene import Vector3

__all__ = ["ActionMap", "FloatArray", "JointIndex", "LinkCapsule", "LinkInertial", "RobotModel"]

FloatArray = NDArray[np.float64]

JointIndex = slice | NDArray[np.int64]
"""What picks joints out of an array of joint values: a slice where they stand together, else their places."""


@dataclass(frozen=True, slots=True)
class LinkCapsule:
    """A capsule that encloses a part of a robot.

    Attributes:
        link: link that it is fixed to.
        start, end: the two centres of its half spheres in the frame of the link, m.
        radius: m.
    """

    link: str
    start: Vector3
    end: Vector3
    radius: float


@dataclass(frozen=True, slots=True, eq=False)
class LinkInertial:
    """Mass and inertia of one link.

    Attributes:
        link: its name.
        mass: kg.
        center_of_mass: in the frame of the link, m.
        inertia: about the centre of mass, in the axes of the link, kg m^2, shape ``(3, 3)``.
    """

    link: str
    mass: float
    center_of_mass: Vector3
    inertia: FloatArray


class ActionMap(Protocol):
    """Turns actions into controls of actuators."""

    @property
    def action_dim(self) -> int:
        """Number of components of an action."""
        ...

    def targets(self, action: FloatArray, qpos: FloatArray) -> FloatArray:
        """Give controls, shape ``(n, n_actuators)``, for clipped actions and measured joint positions."""
        ...


@dataclass(frozen=True, eq=False)
class RobotModel:
    """A robot: its MJCF, how its joints are ordered, what an action does, and its named places.

    Joint arrays have one entry per joint in the order of `joint_names`, which need not be the order in the MJCF: look
    joints up by name. Controls are in the order of the actuators of the MJCF. Angles in radians, lengths in metres.

    Attributes:
        name: key of `chamber.sim.robots.robot_model`.
        description: one sentence for people.
        document: the MJCF as package data and what of it this robot leaves out.
        joint_names: order of ``qpos`` and ``qvel``.
        arm_joints: the joints of the arm, whose order is that of its kinematic chain.
        body_joints: all joints but those of the gripper; a robot is static when these are slow.
        ready_qpos: where tasks start, shape ``(n_joints,)``.
        joint_velocity_limits: rad/s or m/s, shape ``(n_joints,)``.
        action_map: what an action does.
        tcp_link: link whose frame is the tool centre point.
        hold_link, hold_offset: where the hand holds something: a link and a point in its frame.
        finger_links: links that touch what is grasped.
        opening_axes: per finger link, the unit vector in its frame along which it opens.
        envelope: capsules around parts whose collision geometry is not made of capsules.
    """

    name: str
    description: str
    document: _mjcf.Document
    joint_names: tuple[str, ...]
    arm_joints: JointIndex
    body_joints: JointIndex
    ready_qpos: FloatArray
    joint_velocity_limits: FloatArray
    action_map: ActionMap
    tcp_link: str
    hold_link: str
    hold_offset: Vector3 = (0.0, 0.0, 0.0)
    finger_links: tuple[str, ...] = ()
    opening_axes: Mapping[str, Vector3] = field(default_factory=lambda: MappingProxyType({}))
    envelope: tuple[LinkCapsule, ...] = ()

    def __post_init__(self) -> None:
        known = self.document.joint_ranges
        if sorted(self.joint_names) != sorted(known):
            raise ValueError(f"joint_names of {self.name!r} must be those of its MJCF, {sorted(known)}")
        for name in ("ready_qpos", "joint_velocity_limits"):
            values = _frozen(getattr(self, name))
            if values.shape != (self.n_joints,):
                raise ValueError(f"{name} of {self.name!r} must have shape ({self.n_joints},), got {values.shape}")
            object.__setattr__(self, name, values)

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    @property
    def action_dim(self) -> int:
        """Number of components of an action."""
        return self.action_map.action_dim

    @cached_property
    def joint_lower(self) -> FloatArray:
        """Lower joint limits, -inf for a joint without, shape ``(n_joints,)``."""
        return _frozen([self.document.joint_ranges[name][0] for name in self.joint_names])

    @cached_property
    def joint_upper(self) -> FloatArray:
        """Upper joint limits, inf for a joint without, shape ``(n_joints,)``."""
        return _frozen([self.document.joint_ranges[name][1] for name in self.joint_names])

    @cached_property
    def joint_armature(self) -> FloatArray:
        """Inertia that the drive of a joint adds to it, kg m^2 or kg, shape ``(n_joints,)``."""
        return _frozen([self.document.joint_armatures[name] for name in self.joint_names])

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """Every frame that has a name: bodies and sites of the MJCF, from the base outwards."""
        return self.document.link_names

    @cached_property
    def actuator_names(self) -> tuple[str, ...]:
        """The actuators, in the order of `targets`; each has the name of its joint."""
        return self.document.actuator_names

    @cached_property
    def arm_geom_capsules(self) -> tuple[LinkCapsule, ...]:
        """Capsules that enclose the robot: those it collides with, and `envelope`."""
        capsules = (LinkCapsule(link, start, end, radius) for link, start, end, radius in self.document.capsules())
        return (*capsules, *self.envelope)

    @cached_property
    def link_inertials(self) -> tuple[LinkInertial, ...]:
        """Mass and inertia of every link that has them, from the base outwards, the links of the hand among them."""
        return tuple(
            LinkInertial(link, mass, center, _symmetric(moments))
            for link, mass, center, moments in self.document.inertials()
        )

    def mjcf_text(self) -> str:
        """Give the MJCF of this robot alone, with its base frame at the origin of the world."""
        return self.document.text()

    def targets(self, action: FloatArray, qpos: FloatArray) -> FloatArray:
        """Give what the actuators aim at during a control step.

        Args:
            action: shape ``(n, action_dim)``; components are clipped to [-1, 1].
            qpos: measured joint positions at the start of the step, shape ``(n, n_joints)``.

        Returns:
            Controls in the order of `actuator_names`, shape ``(n, n_actuators)``.

        Raises:
            ValueError: a shape is wrong.
        """
        if action.ndim != 2 or action.shape[1] != self.action_dim:
            raise ValueError(f"action of {self.name!r} must have shape (n, {self.action_dim}), got {action.shape}")
        if qpos.shape != (action.shape[0], self.n_joints):
            raise ValueError(
                f"qpos of {self.name!r} must have shape ({action.shape[0]}, {self.n_joints}), got {qpos.shape}"
            )
        return self.action_map.targets(np.clip(action, -1.0, 1.0), qpos)


def _frozen(values: ArrayLike) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _symmetric(moments: list[float]) -> FloatArray:
    xx, yy, zz, xy, xz, yz = moments
    return _frozen([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
