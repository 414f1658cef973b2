"""How hard the arms work through the bar: three measures of stress, each a function of the state of the rig."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from chamber.envs._cocarry_kernels import largest_norms
from chamber.envs._cocarry_rules import Coupling
from chamber.envs._cocarry_scene import BAR, BarHold
from chamber.sim.backend import RigBackend
from chamber.sim.scene import Vector3

__all__ = ["STRESS_MEASURES", "StressMeasure", "internal_force", "stress_measure"]

FloatArray = NDArray[np.float64]
StressMeasure = Callable[[RigBackend], FloatArray]
"""Gives stress, N, shape ``(num_envs,)``."""

STRESS_MEASURES = ("wrist", "coupling", "coupling_internal")
"""Names of measures.

* ``"wrist"``: the largest force in a hold.
* ``"coupling"``: the largest force of the coupling alone, without its damping: stiffness times the distance between the
  point of the hand and the end of the bar, at most the force limit. A rigid hold has no such distance; its coupling
  carries what its ball joint carries.
* ``"coupling_internal"``: what the forces of the two couplings do against each other along the bar, see
  `internal_force`.
"""


def stress_measure(name: str, *, holds: Sequence[BarHold], coupling: Coupling, is_rigid: bool) -> StressMeasure:
    """Give the measure of that name for the holds of a scene.

    Args:
        name: one of `STRESS_MEASURES`.
        holds: the hands at the bar.
        coupling: how they hold it; a stiffness of zero is no hold.
        is_rigid: they hold it by ball joints that do not give, and only the force limit of ``coupling`` matters.

    Raises:
        ValueError: there is no such measure.
    """
    if name not in STRESS_MEASURES:
        raise ValueError(f"stress_measure must be one of {', '.join(STRESS_MEASURES)}, got {name!r}")
    if (not is_rigid and coupling.stiffness == 0.0) or (name == "coupling_internal" and len(holds) < 2):
        return lambda rig: np.zeros(rig.num_envs)
    if name == "wrist":
        return lambda rig: largest_norms(_pin_forces(rig, holds))

    def coupling_forces(rig: RigBackend) -> tuple[FloatArray, ...]:
        return _pin_forces(rig, holds) if is_rigid else _spring_forces(rig, holds, coupling.stiffness)

    if name == "coupling":
        return lambda rig: np.minimum(largest_norms(coupling_forces(rig)), coupling.force_limit)

    def along_the_bar(rig: RigBackend) -> FloatArray:
        bar_axis = _rotated(rig.body_pose(BAR)[:, 3:], np.array([1.0, 0.0, 0.0]))
        components = (np.stack(coupling_forces(rig)) * bar_axis).sum(axis=-1)
        return internal_force(*np.clip(components, -coupling.force_limit, coupling.force_limit))

    return along_the_bar


def internal_force(first: FloatArray, second: FloatArray) -> FloatArray:
    """Give how much of two forces along one line cancels, ``(|a| + |b| - |a + b|) / 2``.

    It is zero when they point the same way, and the smaller one's size when they oppose each other.
    """
    return (np.abs(first) + np.abs(second) - np.abs(first + second)) / 2.0


def _pin_forces(rig: RigBackend, holds: Sequence[BarHold]) -> tuple[FloatArray, ...]:
    """Forces of the holds on the bar, N, world axes, each of shape ``(num_envs, 3)``."""
    return tuple([rig.pin_force(hold.pin) for hold in holds])


def _spring_forces(rig: RigBackend, holds: Sequence[BarHold], stiffness: float) -> tuple[FloatArray, ...]:
    """The same for springs, from how far hand and bar are apart."""
    bar = rig.body_pose(BAR)
    return tuple(
        stiffness * (_point(rig.link_pose(hold.uid, hold.link), hold.link_offset) - _point(bar, hold.end))
        for hold in holds
    )


def _point(pose: FloatArray, offset: Vector3) -> FloatArray:
    """Where a point of a body is, for poses ``(n, 7)`` and its place in the body ``(3,)``."""
    return pose[:, :3] + _rotated(pose[:, 3:], np.array(offset))


def _rotated(quaternion: FloatArray, vector: FloatArray) -> FloatArray:
    """A vector ``(3,)`` turned by unit quaternions ``(n, 4)``: ``v + 2 w (q x v) + 2 q x (q x v)``."""
    w, axis = quaternion[:, :1], quaternion[:, 1:]
    cross = np.cross(axis, vector)
    return vector + 2.0 * (w * cross + np.cross(axis, cross))
