"""Checks what a caller submits as an action, once, before anything moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from chamber.errors import ActionError
from chamber.sim._extremes import extremes

__all__ = ["checked_actions", "read_numbers", "require_action_like"]

FloatArray = NDArray[np.float64]


def checked_actions(
    action: Mapping[str, Any], *, widths: Mapping[str, int], num_envs: int
) -> tuple[dict[str, FloatArray], dict[str, NDArray[np.bool_]]]:
    """Give every robot's action as an array of its own, and in which copies it had to be clipped.

    Args:
        action: uid to action, shape ``(width,)`` for a single environment, else ``(num_envs, width)``.
        widths: uid to number of components.
        num_envs: number of copies.

    Returns:
        Per uid the action clipped to [-1, 1], shape ``(num_envs, width)``, and whether anything was clipped, shape
        ``(num_envs,)``.

    Raises:
        ActionError: (a ValueError) a robot is missing or unknown, a shape is wrong, or a component is not finite.
    """
    if not isinstance(cast("object", action), Mapping):
        kind = type(action).__name__
        raise ActionError(f"step() takes a mapping from uid to action, got {kind}")
    if action.keys() != widths.keys():
        raise ActionError(_what_is_wrong_with_the_uids(action, widths))
    checked: dict[str, FloatArray] = {}
    was_clipped: dict[str, NDArray[np.bool_]] = {}
    for uid, width in widths.items():
        value = _as_array(action[uid], uid)
        if value.shape == (width,) and num_envs == 1:
            value = value[None]
        if value.shape != (num_envs, width):
            expected: Sequence[int] = (width,) if num_envs == 1 else (num_envs, width)
            raise ActionError(f"action of {uid!r} must have shape {tuple(expected)}, got {value.shape}")
        span = extremes(value)
        if span is None:
            raise ActionError(f"action of {uid!r} must be finite, got {value.tolist()}")
        if span[0] < -1.0 or span[1] > 1.0:
            was_clipped[uid] = np.any(np.abs(value) > 1.0, axis=1)
            np.clip(value, -1.0, 1.0, out=value)
        else:
            was_clipped[uid] = np.zeros(num_envs, dtype=bool)
        checked[uid] = value
    return checked, was_clipped


def require_action_like(held: object, value: object, uid: str) -> None:
    """Refuse what could not take the place of an action that was taken before.

    Args:
        held: the action that was taken, of any shape.
        value: what is submitted now: as many numbers in the same shape; a single copy may have an axis of its own.
        uid: the robot.

    Raises:
        ActionError: (a ValueError) ``value`` has another shape, is not numbers, or a component is not finite.
    """
    array, expected = _as_array(_on_host(value), uid), np.shape(_on_host(held))
    if _in_copies(array.shape) != _in_copies(expected):
        raise ActionError(f"action of {uid!r} must have shape {expected}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ActionError(f"action of {uid!r} must be finite, got {array.tolist()}")


def _in_copies(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, *shape) if len(shape) == 1 else shape


def _on_host(value: Any) -> Any:
    """Give a tensor without its gradient in the memory of the host, and anything else as it is."""
    return value.detach().cpu() if hasattr(value, "detach") else value


def _what_is_wrong_with_the_uids(action: Mapping[str, Any], widths: Mapping[str, int]) -> str:
    missing = sorted(widths.keys() - action.keys())
    if missing:
        return f"step() action missing uid {missing[0]!r}; got keys {sorted(action, key=str)}"
    unknown = min(action.keys() - widths.keys(), key=str)
    return f"step() action has unknown uid {unknown!r}; the robots are {sorted(widths)}"


def read_numbers(value: object) -> FloatArray:
    """Give an array of its own; what NumPy would convert without being a real number is refused.

    Raises:
        TypeError: it is a text, a complex number, a date or rows of different lengths, or entries are masked; the
            message is what it is.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{type(value).__name__} of {array.dtype}")
    if np.ma.is_masked(value):  # asarray gives what lies beneath the mask
        raise TypeError(f"{type(value).__name__} with masked entries")
    return np.array(array, dtype=np.float64)


def _as_array(value: object, uid: str) -> FloatArray:
    try:
        return read_numbers(value)
    except TypeError as error:
        raise ActionError(f"action of {uid!r} must be numbers, got {error}") from None
