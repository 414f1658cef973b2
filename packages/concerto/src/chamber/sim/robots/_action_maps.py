"""What actions mean: joint displacements, positions and velocities, as affine maps from actions to controls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ARM_STEP", "ActuatorRule", "AffineActionMap", "displacement", "position", "velocity"]

FloatArray = NDArray[np.float64]

ARM_STEP = 0.1
"""Largest displacement of a joint target from the measured joint position in one control step, rad."""


@dataclass(frozen=True, slots=True)
class ActuatorRule:
    """What one actuator aims at: ``qpos_gain * qpos[joint] + action_gain * action[component] + offset``."""

    component: int
    action_gain: float
    joint: int = 0
    qpos_gain: float = 0.0
    offset: float = 0.0


def displacement(component: int, joint: int, *, step: float, ratio: float = 1.0) -> ActuatorRule:
    """Aim at ``ratio`` times (the measured position of a joint plus ``step`` times the action)."""
    return ActuatorRule(component, ratio * step, joint, ratio)


def position(component: int, *, low: float, high: float) -> ActuatorRule:
    """Aim at ``low`` for an action of -1 and at ``high`` for +1, whatever is measured."""
    return ActuatorRule(component, (high - low) / 2.0, offset=(high + low) / 2.0)


def velocity(component: int, *, limit: float) -> ActuatorRule:
    """Aim at the velocity ``limit`` times the action."""
    return ActuatorRule(component, limit)


class AffineActionMap:
    """One `ActuatorRule` per actuator, evaluated for all copies at once.

    Args:
        action_dim: number of components of an action.
        rules: in the order of the actuators.
    """

    def __init__(self, action_dim: int, rules: tuple[ActuatorRule, ...]) -> None:
        self.action_dim = action_dim
        self._rules = [(rule.component, rule.action_gain, rule.joint, rule.qpos_gain, rule.offset) for rule in rules]
        self._components = np.array([rule.component for rule in rules])
        self._joints = np.array([rule.joint for rule in rules])
        self._action_gains = np.array([rule.action_gain for rule in rules])
        self._qpos_gains = np.array([rule.qpos_gain for rule in rules])
        self._offsets = np.array([rule.offset for rule in rules])

    def targets(self, action: FloatArray, qpos: FloatArray) -> FloatArray:
        """Give controls, shape ``(n, n_actuators)``, for clipped actions and measured joint positions."""
        if len(action) == 1:  # in plain numbers this takes a third of the time, and has the same last bit
            wanted, measured = action[0].tolist(), qpos[0].tolist()
            return np.array(
                [
                    [
                        measured[joint] * qpos_gain + wanted[component] * action_gain + offset
                        for component, action_gain, joint, qpos_gain, offset in self._rules
                    ]
                ]
            )
        from_joints = qpos[:, self._joints] * self._qpos_gains
        return from_joints + action[:, self._components] * self._action_gains + self._offsets
