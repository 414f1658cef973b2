"""Emergency actions: push away from every dangerous partner at the limit, without solving anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds, FloatArray

__all__ = ["CartesianAccelEmergencyController", "EmergencyController", "JacobianEmergencyController"]

_CANCELLED = 1e-12  # length of a sum of unit vectors that cancel, up to rounding


@runtime_checkable
class EmergencyController(Protocol):
    """How one robot turns "get away from there" into its own action; deterministic."""

    def compute_override(
        self, agent_state: AgentSnapshot, pairwise_repulsion_vectors: Sequence[FloatArray], bounds: Bounds
    ) -> FloatArray:
        """Give the emergency action of one robot, float64, in the shape of its actions.

        Args:
            agent_state: the robot now.
            pairwise_repulsion_vectors: one unit vector per dangerous pair, shape ``(d,)``, pointing away from
                the partner; at least one.
            bounds: limits of the step.
        """
        ...


class CartesianAccelEmergencyController:
    """For robots whose action is a Cartesian acceleration: the summed repulsion, scaled to the capacity.

    Args:
        brake_when_squeezed: when the vectors cancel, decelerate along ``-v`` at the capacity (Wang, Ames &
            Egerstedt 2017, eq. 17) instead of coasting with zero acceleration.
    """

    def __init__(self, *, brake_when_squeezed: bool = False) -> None:
        self._brake_when_squeezed = brake_when_squeezed

    def compute_override(
        self, agent_state: AgentSnapshot, pairwise_repulsion_vectors: Sequence[FloatArray], bounds: Bounds
    ) -> FloatArray:
        """Give the acceleration, m/s^2, shape ``(d,)``: of length ``cartesian_accel_capacity``, or zero.

        Raises:
            ValueError: a vector, the velocity or the capacity is not finite.
        """
        acceleration = _escape_acceleration(
            agent_state, pairwise_repulsion_vectors, bounds, brake_when_squeezed=self._brake_when_squeezed
        )
        return np.zeros(np.shape(agent_state.position)) if acceleration is None else acceleration


class JacobianEmergencyController:
    """For robots that act in their own coordinates: the same acceleration, mapped by their control model.

    Args:
        control_model: map between acceleration and action.
        brake_when_squeezed: as for `CartesianAccelEmergencyController`.
    """

    def __init__(self, *, control_model: AgentControlModel, brake_when_squeezed: bool = False) -> None:
        self._control_model = control_model
        self._brake_when_squeezed = brake_when_squeezed

    def compute_override(
        self, agent_state: AgentSnapshot, pairwise_repulsion_vectors: Sequence[FloatArray], bounds: Bounds
    ) -> FloatArray:
        """Give the action, shape ``(action_dim,)``: capacity first, then the map, then the box.

        Every component is clipped to ``+/- action_linf_component``; without a direction the action is zero.

        Raises:
            NotImplementedError: the control model has no Jacobian.
            ValueError: a vector, the velocity, the capacity or the box limit is not finite.
        """
        acceleration = _escape_acceleration(
            agent_state, pairwise_repulsion_vectors, bounds, brake_when_squeezed=self._brake_when_squeezed
        )
        if acceleration is None:
            return np.zeros(self._control_model.action_dim)
        limit = bounds.action_linf_component
        if not (math.isfinite(limit) and limit > 0.0):
            raise ValueError(f"bounds.action_linf_component must be positive and finite, got {limit}")
        return np.clip(self._control_model.cartesian_accel_to_action(agent_state, acceleration), -limit, limit)


def _escape_acceleration(
    agent_state: AgentSnapshot,
    repulsion_vectors: Sequence[FloatArray],
    bounds: Bounds,
    *,
    brake_when_squeezed: bool,
) -> FloatArray | None:
    """Acceleration at the capacity along the summed repulsion; None when there is no direction to take."""
    capacity = bounds.cartesian_accel_capacity
    if not (math.isfinite(capacity) and capacity > 0.0):
        raise ValueError(f"bounds.cartesian_accel_capacity must be positive and finite, got {capacity}")
    direction = np.zeros(np.shape(agent_state.position))
    for vector in repulsion_vectors:
        direction = direction + vector
    length = math.sqrt(direction @ direction)
    if not math.isfinite(length):
        raise ValueError(f"pairwise_repulsion_vectors must be finite, got {list(repulsion_vectors)}")
    if length < _CANCELLED and brake_when_squeezed:
        direction = -np.asarray(agent_state.velocity, dtype=np.float64)
        length = math.sqrt(direction @ direction)
        if not math.isfinite(length):
            raise ValueError(f"agent_state.velocity must be finite, got {agent_state.velocity}")
    return None if length < _CANCELLED else direction * (capacity / length)
