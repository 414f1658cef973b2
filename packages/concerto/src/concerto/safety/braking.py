"""The last line: when two robots are about to touch, push them apart and ask no solver."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
from numba import njit
from numpy.typing import NDArray

from concerto.safety._barrier import COINCIDENT_DISTANCE
from concerto.safety.api import AgentSnapshot, Bounds, FloatArray, make_pair_keys
from concerto.safety.emergency import CartesianAccelEmergencyController, EmergencyController

__all__ = ["DEFAULT_TAU_BRAKE", "compute_min_ttc", "maybe_brake"]

DEFAULT_TAU_BRAKE = 0.100
"""Time to collision below which braking starts, s."""


def compute_min_ttc(snaps: Mapping[str, AgentSnapshot]) -> dict[tuple[str, str], float]:
    """Time until the spheres of each pair touch when everybody keeps its velocity, s.

    With ``a = dv.dv``, ``b = 2 dp.dv`` and ``c = dp.dp - D^2`` it is the first positive root of
    ``a t^2 + b t + c = 0``; 0.0 for spheres that touch or overlap already (even while they separate), inf for
    pairs that never touch or whose relative speed is below 1e-6 m/s.

    Returns:
        One time per pair, keyed in `make_pair_keys` order; empty for fewer than two robots.

    Raises:
        ValueError: a snapshot is not finite, has a negative radius, or another dimension than the others.
    """
    uids = sorted(snaps)
    if len(uids) < 2:
        return {}
    times = _times_to_collision(*_stacked(uids, snaps))
    return dict(zip(make_pair_keys(uids), times.tolist(), strict=True))


def maybe_brake(
    proposed_action: Mapping[str, FloatArray],
    snaps: Mapping[str, AgentSnapshot],
    *,
    bounds: Bounds,
    tau_brake: float = DEFAULT_TAU_BRAKE,
    emergency_controllers: Mapping[str, EmergencyController] | None = None,
    stopping_reaction_time: float | None = None,
    brake_when_squeezed: bool = False,
) -> tuple[dict[str, FloatArray] | None, bool]:
    """Override the actions of all robots that are about to touch somebody.

    A pair is dangerous when its time to collision is below ``tau_brake``. Each controlled robot of a dangerous
    pair is pushed away from the other one; a robot in several such pairs from all of them at once, so one that
    is squeezed from two opposite sides gets no acceleration at all unless ``brake_when_squeezed`` is set.

    The time to collision alone does not guarantee a stop: from closing speed s it leaves enough room only if
    ``s <= 2 tau_brake a`` for the capacity a. ``stopping_reaction_time`` adds the test that does, for one of
    the two robots braking alone: the gap is at most ``s t_r + s^2 / (2 a)``.

    Args:
        proposed_action: action per controlled robot, shape ``(action_dim,)`` each.
        snaps: every robot and obstacle now; one without a proposed action counts as an uncontrolled obstacle.
        bounds: limits of the step.
        tau_brake: threshold of the time to collision, s, positive.
        emergency_controllers: controller per controlled robot; None for one
            `CartesianAccelEmergencyController` each.
        stopping_reaction_time: time t_r before braking bites, usually the control step, s; None for no
            stopping-distance test.
        brake_when_squeezed: let the default controllers decelerate along ``-v`` when their repulsion vectors
            cancel.

    Returns:
        ``(None, False)`` when no controlled robot is in a dangerous pair; else an action for every uid of
        ``proposed_action`` (the same array where nothing changed) and True.

    Raises:
        KeyError: a controlled robot in a dangerous pair has no controller in ``emergency_controllers``.
        ValueError: a number is not finite or out of range, or a snapshot does not fit the others.
    """
    if not (math.isfinite(tau_brake) and tau_brake > 0.0):
        raise ValueError(f"tau_brake must be positive and finite, got {tau_brake}")
    for uid, action in proposed_action.items():
        if not np.isfinite(action).all():
            raise ValueError(f"proposed_action[{uid!r}] must be finite, got {action}")
    repulsion: dict[str, list[FloatArray]] = {}
    for i, j in _dangerous_pairs(snaps, bounds.cartesian_accel_capacity, tau_brake, stopping_reaction_time):
        normal = _unit_offset(snaps[i], snaps[j])
        for uid, away in ((i, normal), (j, -normal)):
            if uid in proposed_action:
                repulsion.setdefault(uid, []).append(away)
    if not repulsion:
        return None, False

    if emergency_controllers is None:
        default = CartesianAccelEmergencyController(brake_when_squeezed=brake_when_squeezed)
        emergency_controllers = dict.fromkeys(proposed_action, default)
    override = dict(proposed_action)
    for uid, vectors in repulsion.items():
        if uid not in emergency_controllers:
            raise KeyError(f"emergency_controllers has no entry for {uid!r}, which is about to touch somebody")
        override[uid] = emergency_controllers[uid].compute_override(snaps[uid], vectors, bounds)
    return override, True


def _dangerous_pairs(
    snaps: Mapping[str, AgentSnapshot], capacity: float, tau_brake: float, reaction_time: float | None
) -> list[tuple[str, str]]:
    """Give the pairs that are about to touch, or too fast to stop when there is a reaction time."""
    if reaction_time is not None:
        if not (math.isfinite(reaction_time) and reaction_time >= 0.0):
            raise ValueError(f"stopping_reaction_time must be finite and >= 0, got {reaction_time}")
        if not (math.isfinite(capacity) and capacity > 0.0):
            raise ValueError(f"bounds.cartesian_accel_capacity must be positive and finite, got {capacity}")
    uids = sorted(snaps)
    if len(uids) < 2:
        return []
    stacked = _stacked(uids, snaps)
    is_dangerous = _times_to_collision(*stacked) < tau_brake
    if reaction_time is not None:
        is_dangerous |= _are_too_fast_to_stop(*stacked, capacity, reaction_time)
    return list(itertools.compress(make_pair_keys(uids), is_dangerous)) if is_dangerous.any() else []


def _stacked(uids: list[str], snaps: Mapping[str, AgentSnapshot]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions ``(n, d)``, velocities ``(n, d)`` and radii ``(n,)`` in the order of ``uids``, checked."""
    shape = np.shape(snaps[uids[0]].position)
    for uid in uids:
        snapshot = snaps[uid]
        for name in ("position", "velocity"):
            if np.shape(getattr(snapshot, name)) != shape or len(shape) != 1:
                found = np.shape(getattr(snapshot, name))
                raise ValueError(f"snaps[{uid!r}].{name} must be a vector like everybody's, {shape}, got {found}")
    positions = np.array([snaps[uid].position for uid in uids], dtype=np.float64)
    velocities = np.array([snaps[uid].velocity for uid in uids], dtype=np.float64)
    radii = np.array([snaps[uid].radius for uid in uids], dtype=np.float64)
    for name, values in (("position", positions), ("velocity", velocities), ("radius", radii)):
        if not np.isfinite(values).all():
            uid = uids[int(np.argwhere(~np.isfinite(values))[0, 0])]
            raise ValueError(f"snaps[{uid!r}].{name} must be finite, got {getattr(snaps[uid], name)}")
    if (radii < 0.0).any():
        uid = uids[int(np.argmin(radii))]
        raise ValueError(f"snaps[{uid!r}].radius must be >= 0, got {snaps[uid].radius}")
    return positions, velocities, radii


@njit(cache=True)
def _times_to_collision(positions: FloatArray, velocities: FloatArray, radii: FloatArray) -> FloatArray:
    """Time to collision of all pairs i < j, row by row, shape ``(n (n - 1) / 2,)``."""
    n, dim = positions.shape
    times = np.full(n * (n - 1) // 2, np.inf)
    pair = -1
    for i in range(n):
        for j in range(i + 1, n):
            pair += 1
            a = 0.0
            b = 0.0
            c = -((radii[i] + radii[j]) ** 2)
            for k in range(dim):
                dp = positions[i, k] - positions[j, k]
                dv = velocities[i, k] - velocities[j, k]
                a += dv * dv
                b += 2.0 * dp * dv
                c += dp * dp
            discriminant = b * b - 4.0 * a * c
            if c <= 0.0:
                times[pair] = 0.0
            elif a >= 1e-12 and b < 0.0 and discriminant >= 0.0:
                # The smaller root, in the form that does not subtract nearly equal numbers. With c > 0 both
                # roots have the sign of -b, so robots that do not approach never touch.
                times[pair] = 2.0 * c / (math.sqrt(discriminant) - b)
    return times


@njit(cache=True)
def _are_too_fast_to_stop(
    positions: FloatArray, velocities: FloatArray, radii: FloatArray, capacity: float, reaction_time: float
) -> NDArray[np.bool_]:
    """Whether the gap of a pair is too short for one of the two to take the closing speed away; pairs as above."""
    n, dim = positions.shape
    are_too_fast = np.zeros(n * (n - 1) // 2, dtype=np.bool_)
    pair = -1
    for i in range(n):
        for j in range(i + 1, n):
            pair += 1
            squared_distance = 0.0
            product = 0.0
            for k in range(dim):
                dp = positions[i, k] - positions[j, k]
                squared_distance += dp * dp
                product += dp * (velocities[i, k] - velocities[j, k])
            distance = math.sqrt(squared_distance)
            if distance < COINCIDENT_DISTANCE:
                closing_speed = velocities[j, 0] - velocities[i, 0]
            else:
                closing_speed = -product / distance
            needed = closing_speed * reaction_time + closing_speed * closing_speed / (2.0 * capacity)
            are_too_fast[pair] = closing_speed > 0.0 and distance - (radii[i] + radii[j]) <= needed
    return are_too_fast


def _unit_offset(i: AgentSnapshot, j: AgentSnapshot) -> FloatArray:
    """Unit vector from j to i; +x when the centres coincide."""
    offset = np.asarray(i.position, dtype=np.float64) - j.position
    distance = math.sqrt(offset @ offset)
    if distance < COINCIDENT_DISTANCE:
        offset = np.zeros_like(offset)
        offset[0] = distance = 1.0
    return offset / distance
