"""Contacts and whose fault they are, decided from recorded positions alone.

Both robots follow velocity commands that hold for one step, so between two samples each moves on a straight line
at constant speed, and a robot that is commanded to stop is at rest from the next step on. The general rule, after
Responsibility-Sensitive Safety (Shalev-Shwartz, Shammah & Shashua 2017, arXiv 1708.06374): a contact is the ego's
fault unless it was at rest, or had been stopping at its limit since the last moment at which it could still stop
before the worst declared motion of the partner. Here stopping at the limit means being at rest in the very next
step, so the two exceptions are one: **a contact is the ego's fault unless the ego is at rest in the step in which
the contact begins.** Nothing in this module uses a number that the safety stack computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Approach", "Contact", "closest_approach", "find_contacts", "step_distances"]

FloatArray = NDArray[np.float64]

_TOUCH_TOLERANCE_M = 1e-9
"""A contact is a distance at least this much below two radii, far above rounding and far below any robot."""
_REST_TOLERANCE_M = 1e-9
"""A robot that moves less than this in one step is at rest."""


@dataclass(frozen=True)
class Contact:
    """The beginning of one contact.

    Attributes:
        step: index of the step in which it begins.
        ego_displacement_m: how far the ego moves in that step.
        at_fault: whether it is the ego's fault.
    """

    step: int
    ego_displacement_m: float
    at_fault: bool


@dataclass(frozen=True)
class Approach:
    """Where the robots come nearest.

    Attributes:
        distance_m: distance of the centres.
        step: index of the step.
        ego: position of the ego then, shape ``(2,)``, metres.
        partner: position of the partner then, shape ``(2,)``, metres.
    """

    distance_m: float
    step: int
    ego: FloatArray
    partner: FloatArray


def step_distances(ego: FloatArray, partner: FloatArray) -> FloatArray:
    """Give the smallest distance of the centres within each step, metres, shape ``(n_steps,)``.

    Args:
        ego: positions at the samples, shape ``(n_steps + 1, 2)``, metres.
        partner: likewise.
    """
    offset, change = _relative_motion(ego, partner)
    nearest = offset + _nearest_fraction(offset, change)[:, None] * change
    return np.linalg.norm(nearest, axis=1)


def closest_approach(ego: FloatArray, partner: FloatArray) -> Approach:
    """Find the moment of an episode at which the robots are nearest, between samples too."""
    distances = step_distances(ego, partner)
    step = int(np.argmin(distances))
    offset, change = _relative_motion(ego, partner)
    fraction = float(_nearest_fraction(offset, change)[step])
    return Approach(
        distance_m=float(distances[step]),
        step=step,
        ego=ego[step] + fraction * (ego[step + 1] - ego[step]),
        partner=partner[step] + fraction * (partner[step + 1] - partner[step]),
    )


def find_contacts(ego: FloatArray, partner: FloatArray, *, safety_distance_m: float) -> tuple[Contact, ...]:
    """Find every step in which a contact begins, and say whose fault it is.

    Args:
        ego: positions at the samples, shape ``(n_steps + 1, 2)``, metres.
        partner: likewise.
        safety_distance_m: sum of the radii.
    """
    touching = safety_distance_m - _TOUCH_TOLERANCE_M
    apart_at_start = np.linalg.norm((ego - partner)[:-1], axis=1) >= touching
    begins = apart_at_start & (step_distances(ego, partner) < touching)
    displacement = np.linalg.norm(np.diff(ego, axis=0), axis=1)
    return tuple(
        Contact(int(step), float(displacement[step]), bool(displacement[step] >= _REST_TOLERANCE_M))
        for step in np.flatnonzero(begins)
    )


def _relative_motion(ego: FloatArray, partner: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Offset at the start of each step, and its change over the step, both ``(n_steps, 2)``."""
    relative = ego - partner
    return relative[:-1], np.diff(relative, axis=0)


def _nearest_fraction(offset: FloatArray, change: FloatArray) -> FloatArray:
    """The s in [0, 1] that minimises |offset + s change| in each step."""
    speed_squared = np.sum(change * change, axis=1)
    moving = speed_squared > 0.0
    fraction = -np.sum(offset * change, axis=1) / np.where(moving, speed_squared, 1.0)
    return np.where(moving, np.clip(fraction, 0.0, 1.0), 0.0)
