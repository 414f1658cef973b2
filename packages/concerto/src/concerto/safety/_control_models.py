"""How the actions of a robot move it: the contract of a control model, and one model per kind of robot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from concerto.safety._snapshots import AgentSnapshot, Bounds, FloatArray

__all__ = [
    "DEFAULT_DLS_DAMPING",
    "AgentControlModel",
    "DoubleIntegratorControlModel",
    "JacobianControlModel",
    "VelocityCommandControlModel",
]

DEFAULT_DLS_DAMPING = 1e-3
"""Damping of the damped least-squares inverse of a Jacobian."""


@runtime_checkable
class AgentControlModel(Protocol):
    """How the action of one robot moves its sphere's centre: an affine map ``a = J(state) u + a0(state)``.

    Implementations are deterministic, and ``action_to_cartesian_accel(s, cartesian_accel_to_action(s, a))``
    gives back ``a`` for every ``a`` in the image of the map, to the precision the class states. The rows of
    the filter and the emergency override use this pair of maps and no other. A class may also offer
    ``affine(state) -> (J, a0)`` with shapes ``(position_dim, action_dim)`` and ``(position_dim,)``, which the
    filter then uses, so a subclass that changes one map overrides both; without it the filter evaluates
    ``action_to_cartesian_accel`` at zero and at every unit action.
    """

    @property
    def uid(self) -> str:
        """The robot this model belongs to."""
        ...

    @property
    def action_dim(self) -> int:
        """Number of components of an action."""
        ...

    @property
    def position_dim(self) -> int:
        """Number of Cartesian dimensions, 2 or 3."""
        ...

    def action_to_cartesian_accel(self, state: AgentSnapshot, action: FloatArray) -> FloatArray:
        """Give the Cartesian acceleration of an action, m/s^2, shape ``(position_dim,)``."""
        ...

    def cartesian_accel_to_action(self, state: AgentSnapshot, cartesian_accel: FloatArray) -> FloatArray:
        """Give an action that produces a Cartesian acceleration, shape ``(action_dim,)``."""
        ...

    def max_cartesian_accel(self, bounds: Bounds) -> float:
        """Give the largest Cartesian acceleration the robot has in every direction, m/s^2, > 0."""
        ...


def _require_vector(name: str, value: FloatArray, length: int, uid: str) -> FloatArray:
    """Give ``value`` as a float64 vector of its own; refuse any other shape."""
    vector = np.array(value, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"{name} of {uid!r} must have shape ({length},), got {vector.shape}")
    return vector


def _require_capacity(value: float, uid: str) -> float:
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"max_cartesian_accel_value of {uid!r} must be finite and > 0, got {value}")
    return float(value)


@dataclass(frozen=True)
class DoubleIntegratorControlModel:
    """A robot whose action is its Cartesian acceleration: ``a = u``.

    Attributes:
        uid: the robot.
        action_dim: number of components of an action and of Cartesian dimensions.
    """

    uid: str
    action_dim: int

    @property
    def position_dim(self) -> int:
        """Number of Cartesian dimensions, the same as ``action_dim``."""
        return self.action_dim

    def affine(self, state: AgentSnapshot) -> tuple[FloatArray, FloatArray]:
        """Give the map as ``(J, a0)`` = (identity, zero)."""
        return np.eye(self.action_dim), np.zeros(self.action_dim)

    def action_to_cartesian_accel(self, state: AgentSnapshot, action: FloatArray) -> FloatArray:
        """Give a copy of the action.

        Raises:
            ValueError: the action has not the shape ``(action_dim,)``.
        """
        return _require_vector("action", action, self.action_dim, self.uid)

    def cartesian_accel_to_action(self, state: AgentSnapshot, cartesian_accel: FloatArray) -> FloatArray:
        """Give a copy of the acceleration.

        Raises:
            ValueError: the acceleration has not the shape ``(action_dim,)``.
        """
        return _require_vector("cartesian_accel", cartesian_accel, self.action_dim, self.uid)

    def max_cartesian_accel(self, bounds: Bounds) -> float:
        """Give ``bounds.cartesian_accel_capacity``, m/s^2."""
        return float(bounds.cartesian_accel_capacity)


@dataclass(frozen=True)
class VelocityCommandControlModel:
    """A robot whose action is a Cartesian velocity that it reaches within one control step: ``a = (u - v)/dt``.

    Attributes:
        uid: the robot.
        action_dim: number of components of an action and of Cartesian dimensions.
        dt: length of a control step, s, > 0.
        max_cartesian_accel_value: capacity, m/s^2, > 0; None for ``action_linf_component / dt``, the change of
            velocity that is available in every direction to a robot that closes in at any admissible speed.
        is_immediate: the robot moves at the commanded velocity from the start of the step, as in simulators that set
            velocities; otherwise it gets there with constant acceleration over the step. `SafetyStack` certifies the
            motion that is named here.

    Raises:
        ValueError: ``dt`` or the capacity is not finite and > 0.
    """

    uid: str
    action_dim: int
    dt: float
    max_cartesian_accel_value: float | None = None
    is_immediate: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.dt) and self.dt > 0.0):
            raise ValueError(f"dt of {self.uid!r} must be finite and > 0, got {self.dt}")
        if self.max_cartesian_accel_value is not None:
            _require_capacity(self.max_cartesian_accel_value, self.uid)

    @property
    def position_dim(self) -> int:
        """Number of Cartesian dimensions, the same as ``action_dim``."""
        return self.action_dim

    def affine(self, state: AgentSnapshot) -> tuple[FloatArray, FloatArray]:
        """Give the map as ``(J, a0) = (I/dt, -v/dt)``."""
        velocity = _require_vector("velocity", state.velocity, self.action_dim, self.uid)
        return np.eye(self.action_dim) / self.dt, -velocity / self.dt

    def action_to_cartesian_accel(self, state: AgentSnapshot, action: FloatArray) -> FloatArray:
        """Give ``(u - v)/dt``, m/s^2, shape ``(action_dim,)``.

        Raises:
            ValueError: the action or the velocity has not the shape ``(action_dim,)``.
        """
        velocity = _require_vector("velocity", state.velocity, self.action_dim, self.uid)
        return (_require_vector("action", action, self.action_dim, self.uid) - velocity) / self.dt

    def cartesian_accel_to_action(self, state: AgentSnapshot, cartesian_accel: FloatArray) -> FloatArray:
        """Give ``v + a dt``, m/s, shape ``(action_dim,)``.

        Raises:
            ValueError: the acceleration or the velocity has not the shape ``(action_dim,)``.
        """
        velocity = _require_vector("velocity", state.velocity, self.action_dim, self.uid)
        return velocity + self.dt * _require_vector("cartesian_accel", cartesian_accel, self.action_dim, self.uid)

    def max_cartesian_accel(self, bounds: Bounds) -> float:
        """Give the configured capacity, or ``bounds.action_linf_component / dt``, m/s^2."""
        if self.max_cartesian_accel_value is not None:
            return float(self.max_cartesian_accel_value)
        return float(bounds.action_linf_component) / self.dt


@dataclass
class JacobianControlModel:
    """A robot whose action moves its sphere through a Jacobian: ``a = scale * J(state) u + a0(state)``.

    The action's meaning is in ``scale`` and ``offset_fn``; J is the Jacobian of the sphere's centre:

    | Action | ``scale`` | ``a0(state)`` |
    |---|---|---|
    | joint accelerations | 1 | ``Jdot qdot`` |
    | joint velocities, reached within one step | ``1/dt`` | ``-v/dt`` |
    | joint position increments per step | ``1/dt^2`` | ``-v/dt`` |

    The inverse is damped least squares (Nakamura & Hanafusa 1986):
    ``u = J^T (J J^T + damping^2 I)^-1 (a - a0)/scale``. It is a right inverse up to a relative error of
    ``damping^2/(sigma^2 + damping^2)`` for the singular value sigma of J in the direction of ``a``.

    Attributes:
        uid: the robot.
        action_dim: number of components of an action.
        position_dim: number of Cartesian dimensions.
        jacobian_fn: snapshot to Jacobian, shape ``(position_dim, action_dim)``; without it both maps refuse
            to work, so that a robot in joint space is never fed a Cartesian vector.
        damping: damping of the inverse, >= 0.
        max_cartesian_accel_value: capacity, m/s^2; it must be set before the filter asks for it.
        offset_fn: snapshot to ``a0``, m/s^2, shape ``(position_dim,)``; None for zero.
        scale: factor of ``J u``, not zero.

    Raises:
        ValueError: ``damping`` or ``scale`` is out of range.
    """

    uid: str
    action_dim: int
    position_dim: int
    jacobian_fn: Callable[[AgentSnapshot], FloatArray] | None = None
    damping: float = DEFAULT_DLS_DAMPING
    max_cartesian_accel_value: float = math.nan
    offset_fn: Callable[[AgentSnapshot], FloatArray] | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.damping) and self.damping >= 0.0):
            raise ValueError(f"damping of {self.uid!r} must be finite and >= 0, got {self.damping}")
        if not math.isfinite(self.scale) or self.scale == 0.0:
            raise ValueError(f"scale of {self.uid!r} must be finite and not 0, got {self.scale}")

    def affine(self, state: AgentSnapshot) -> tuple[FloatArray, FloatArray]:
        """Give the map as ``(scale * J, a0)``.

        Raises:
            NotImplementedError: there is no ``jacobian_fn``.
            ValueError: ``jacobian_fn`` or ``offset_fn`` returned a wrong shape.
        """
        return self.scale * self._jacobian(state), self._offset(state)

    def action_to_cartesian_accel(self, state: AgentSnapshot, action: FloatArray) -> FloatArray:
        """Give ``scale * J u + a0``, m/s^2, shape ``(position_dim,)``.

        Raises:
            NotImplementedError: there is no ``jacobian_fn``.
            ValueError: a shape is wrong.
        """
        jacobian, offset = self.affine(state)
        return jacobian @ _require_vector("action", action, self.action_dim, self.uid) + offset

    def cartesian_accel_to_action(self, state: AgentSnapshot, cartesian_accel: FloatArray) -> FloatArray:
        """Give the damped least-squares action, shape ``(action_dim,)``.

        Raises:
            NotImplementedError: there is no ``jacobian_fn``.
            ValueError: a shape is wrong.
        """
        jacobian = self._jacobian(state)
        accel = _require_vector("cartesian_accel", cartesian_accel, self.position_dim, self.uid)
        gram = jacobian @ jacobian.T + self.damping**2 * np.eye(self.position_dim)
        target = (accel - self._offset(state)) / self.scale
        try:
            return jacobian.T @ np.linalg.solve(gram, target)
        except np.linalg.LinAlgError:  # singular, and no damping to speak of: what damping -> 0 tends to
            return np.linalg.pinv(jacobian) @ target

    def max_cartesian_accel(self, bounds: Bounds) -> float:
        """Give the configured capacity, m/s^2.

        Raises:
            ValueError: the capacity is not finite and > 0.
        """
        return _require_capacity(self.max_cartesian_accel_value, self.uid)

    def _jacobian(self, state: AgentSnapshot) -> FloatArray:
        if self.jacobian_fn is None:
            raise NotImplementedError(f"control model of {self.uid!r} has no jacobian_fn: joint space needs kinematics")
        jacobian = np.asarray(self.jacobian_fn(state), dtype=np.float64)
        if jacobian.shape != (self.position_dim, self.action_dim):
            raise ValueError(
                f"jacobian of {self.uid!r} must have shape ({self.position_dim}, {self.action_dim}), "
                f"got {jacobian.shape}"
            )
        return jacobian

    def _offset(self, state: AgentSnapshot) -> FloatArray:
        if self.offset_fn is None:
            return np.zeros(self.position_dim)
        return _require_vector("offset", self.offset_fn(state), self.position_dim, self.uid)
