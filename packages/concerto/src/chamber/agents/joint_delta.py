r"""What a ``pd_joint_delta_pos`` action does to a joint: the exact map of one control step, without any simulator.

At the start of a control step every joint gets the target measured position plus ``action_scale * clip(a)``;
a PD drive then pulls it there for ``substeps`` physics steps. A joint, or a mode of an arm, of inertia m obeys

    m q'' = k (target - q) - c q'

The integrator ``implicitfast`` treats the velocity of the force implicitly and its position explicitly. With the
distance ``e = q - target``, the velocity v, and the physics step h, one physics step is

    v+ = (m v - h k e) / (m + h c)        e+ = e + h v+

which is linear, so a control step is its ``substeps``-th power. Four numbers say all of it: how far a joint gets and
how fast it ends, per rad of target and per rad/s of velocity at the start.

The map is exact for a single joint whose torque stays within the limit. An arm has it per eigenvector of its mass
matrix, because all its joints share k and c. What it leaves out is the change of that matrix during the step and
velocity-squared torques, which are small for the speeds such actions reach, and saturation: a command of full size from
rest asks for exactly the limit of the Panda, so only a command *against* the motion saturates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["CartesianMap", "JointDeltaDrive", "StepResponse", "step_powers"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepResponse:
    """What one control step does, per inertia; every field has the shape of the inertias that were asked for.

    Attributes:
        position_per_velocity: displacement per velocity at the start, s; the target stays at the starting position.
        position_per_target: displacement per target, both from the starting position.
        velocity_per_velocity: velocity at the end per velocity at the start.
        velocity_per_target: velocity at the end per target, 1/s.
    """

    position_per_velocity: FloatArray
    position_per_target: FloatArray
    velocity_per_velocity: FloatArray
    velocity_per_target: FloatArray

    @property
    def stopping_position_per_velocity(self) -> FloatArray:
        """Displacement until rest per velocity, s, when every following action is zero: ``p / (1 - d)``.

        One such step displaces by ``p v`` and leaves ``d v``, hence the sum ``p v (1 + d + d^2 + ...)``.
        """
        return self.position_per_velocity / (1.0 - self.velocity_per_velocity)

    @property
    def stopping_position_per_target(self) -> FloatArray:
        """Shift of the point where the joint comes to rest, per target.

        A joint at q with velocity v that is told to stop comes to rest at ``s = q + S v``. A target first moves it and
        leaves it with another velocity; the sum of both shifts s by this factor, whatever v is. In s the drive is an
        integrator without drift: ``s+ = s + factor * target``.
        """
        return self.position_per_target + self.stopping_position_per_velocity * self.velocity_per_target


@dataclass(frozen=True, slots=True)
class CartesianMap:
    """Mean acceleration of a point over a control step: ``scale * J u + drift_rate * v``, of Jacobian J and velocity v.

    These are ``scale`` and, with ``offset_fn = lambda snapshot: drift_rate * snapshot.velocity``, the offset of a
    `concerto.safety.api.JacobianControlModel`.

    Attributes:
        scale: 1/s^2 per unit of action.
        drift_rate: 1/s, negative.
    """

    scale: float
    drift_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JointDeltaDrive:
    """The drive of the joints of an arm.

    Attributes:
        stiffness: k, N m/rad.
        damping: c, N m s/rad, of drive and joint together.
        torque_limit: of the drive, N m.
        action_scale: target per unit of action, rad.
        physics_timestep: h, s.
        substeps: physics steps per control step.

    Raises:
        ValueError: a value is not finite and > 0.
    """

    stiffness: float = 1000.0
    damping: float = 100.0
    torque_limit: float = 100.0
    action_scale: float = 0.1
    physics_timestep: float = 0.002
    substeps: int = 25

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping", "torque_limit", "action_scale", "physics_timestep", "substeps"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be finite and > 0, got {value}")

    @property
    def control_timestep(self) -> float:
        """Length of a control step, s."""
        return self.physics_timestep * self.substeps

    def response(self, inertia: ArrayLike) -> StepResponse:
        """Give the map of one control step.

        Args:
            inertia: of the joint or of the modes of an arm, kg m^2, >= 0, any shape. Zero is the limit of a weightless
                joint, which follows its drive at once.

        Raises:
            ValueError: an inertia is negative or not finite.
        """
        inertias = np.asarray(inertia, dtype=np.float64)
        if not (np.isfinite(inertias).all() and (inertias >= 0.0).all()):
            raise ValueError(f"inertia must be finite and >= 0, got {inertias.tolist()}")
        shape = inertias.shape
        powers = step_powers(inertias.ravel(), self.stiffness, self.damping, self.physics_timestep, self.substeps)
        return StepResponse(
            position_per_velocity=powers[1].reshape(shape),
            position_per_target=1.0 - powers[0].reshape(shape),
            velocity_per_velocity=powers[3].reshape(shape),
            velocity_per_target=-powers[2].reshape(shape),
        )

    def cartesian_map(self, inertia: float = 0.0) -> CartesianMap:
        """Give the map from actions to the Cartesian acceleration of a point, for joints of one typical inertia.

        With the velocity ``v+ = J qdot+`` at the end of the step, ``(v+ - v)/dt`` is the mean acceleration; the change
        of J during the step is left out. `chamber.arm_safety` has the map with the mass matrix of the arm.
        """
        response = self.response(inertia)
        dt = self.control_timestep
        return CartesianMap(
            scale=self.action_scale * float(response.velocity_per_target) / dt,
            drift_rate=(float(response.velocity_per_velocity) - 1.0) / dt,
        )


def step_powers(inertias: FloatArray, stiffness: float, damping: float, timestep: float, substeps: int) -> FloatArray:
    """Give the ``substeps``-th power of the physics step of every inertia, shape ``(4, n)``.

    Rows: distance to the target at the end per distance at the start, the same per velocity, velocity per distance, and
    velocity per velocity.
    """
    effective = inertias + timestep * damping
    kept = inertias / effective
    pull = timestep * stiffness / effective
    distance = np.repeat([[1.0], [0.0]], len(inertias), axis=1)
    velocity = 1.0 - distance
    for _ in range(substeps):
        velocity = kept * velocity - pull * distance
        distance += timestep * velocity
    return np.concatenate([distance, velocity])
