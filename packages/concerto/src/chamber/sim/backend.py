"""`RigBackend`: everything a task asks of a simulator.

A backend steps ``num_envs`` copies of one scene at once. Every array it gives or takes has a leading axis of that
length; arrays are float64, in SI units and the world frame unless said; poses are ``(x, y, z, w, qx, qy, qz)``. What
happens in one copy never depends on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chamber.sim.scene import SceneSpec

__all__ = ["FloatArray", "IndexArray", "Picture", "RigBackend"]

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """What one camera sees.

    Attributes:
        rgb: shape ``(height, width, 3)``, uint8.
        depth: distance along the viewing axis, m, shape ``(height, width)``, float32.
    """

    rgb: NDArray[np.uint8]
    depth: NDArray[np.float32]


@runtime_checkable
class RigBackend(Protocol):
    """A scene in a simulator. Names that are not in the scene raise ``KeyError`` listing those that are."""

    @property
    def name(self) -> str:
        """Name and version of the simulator, for records."""
        ...

    @property
    def scene(self) -> SceneSpec:
        """What was built."""
        ...

    @property
    def num_envs(self) -> int:
        """Number of copies."""
        ...

    def reset(
        self,
        joint_positions: Mapping[str, FloatArray],
        body_poses: Mapping[str, FloatArray],
        *,
        env_idx: Sequence[int] | IndexArray | None = None,
    ) -> None:
        """Put copies into exactly the given state, at rest, with no memory of what was before.

        Args:
            joint_positions: per uid, shape ``(k, n_joints)`` for k copies; every robot must be there.
            body_poses: per free or kinematic body, shape ``(k, 7)``; a body that is left out goes to its pose of the
            scene.
            env_idx: which copies; all when None. The others are not touched, not even in their last bit.

        Raises:
            ValueError: a shape is wrong or a value is not finite; nothing was changed then.
        """
        ...

    def apply(self, uid: str, action: FloatArray) -> None:
        """Set the targets of a robot for the coming control step from actions, shape ``(num_envs, action_dim)``.

        What an action means is said by the robot's model (`chamber.sim.robots`); components are clipped to [-1, 1].
        """
        ...

    def advance(self, env_idx: Sequence[int] | IndexArray | None = None) -> None:
        """Simulate one control step of the given copies (all when None)."""
        ...

    def qpos(self, uid: str) -> FloatArray:
        """Give joint positions in the model's order, shape ``(num_envs, n_joints)``."""
        ...

    def qvel(self, uid: str) -> FloatArray:
        """Give joint velocities in the model's order, shape ``(num_envs, n_joints)``."""
        ...

    def link_pose(self, uid: str, link: str) -> FloatArray:
        """Give the pose of a link frame, shape ``(num_envs, 7)``."""
        ...

    def body_pose(self, name: str) -> FloatArray:
        """Give the pose of a body, shape ``(num_envs, 7)``."""
        ...

    def body_velocity(self, name: str) -> FloatArray:
        """Give the linear and angular velocity of a body at its origin, world axes, shape ``(num_envs, 6)``."""
        ...

    def set_body_pose(self, name: str, pose: FloatArray) -> None:
        """Place a kinematic body, shape ``(num_envs, 7)``."""
        ...

    def pin_force(self, pin: str) -> FloatArray:
        """Give the force that a pin puts on its body, N, world axes, shape ``(num_envs, 3)``."""
        ...

    def pair_force(self, first: str, second: str) -> FloatArray:
        """Give the sum of the contact forces of group ``second`` on group ``first``, N, shape ``(num_envs, 3)``."""
        ...

    def link_pair_force(self, uid: str, link: str, group: str) -> FloatArray:
        """Give the sum of the contact forces of a group on one link, N, world axes, shape ``(num_envs, 3)``."""
        ...

    def net_force(self, uid: str, link: str) -> FloatArray:
        """Give the sum of all contact forces on one link, N, world axes, shape ``(num_envs, 3)``."""
        ...

    def penetration(self, first: str, second: str) -> FloatArray:
        """Give the deepest overlap of two groups in contact, m, >= 0, shape ``(num_envs,)``."""
        ...

    def link_wrench(self, uid: str, link: str) -> FloatArray:
        """Give force and torque of the parent on a link, at the link's origin, world axes, shape ``(num_envs, 6)``.

        Weight that gravity compensation carries is in it, because compensation is an applied force.
        """
        ...

    def carried_mass(self, uid: str, link: str) -> float:
        """Give the mass of a link and of all that is fixed or jointed to it further out, kg."""
        ...

    def set_collision_groups(self, first: str, second: str, *, enabled: bool) -> None:
        """Let two groups of a `chamber.sim.scene.ContactRule` touch or pass through each other from now on."""
        ...

    def save_state(self, env: int) -> FloatArray:
        """Give everything that determines the future of one copy."""
        ...

    def restore_state(self, env: int, state: FloatArray) -> None:
        """Put back what `save_state` gave, bit for bit."""
        ...

    def render(self, camera: str, *, env: int = 0) -> Picture:
        """Give what a camera sees in one copy.

        Raises:
            ChamberEnvCompatibilityError: there is no off-screen rendering on this machine; the message says what to
            install.
        """
        ...

    def close(self) -> None:
        """Free what was allocated; calling it twice does no harm."""
        ...
