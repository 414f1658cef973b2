"""Checks of packets and of what goes into them; what they give shares nothing mutable with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from typing import Any, cast

from chamber._observations import as_array
from chamber.comm.api import CommPacket, Pose, TaskStatePredicate
from chamber.comm.errors import ChamberCommError

__all__ = ["checked_packet", "checked_poses", "checked_task_states", "copied_packet", "empty_packet"]

_PACKET_KEYS = frozenset(CommPacket.__annotations__)
_POSE_KEYS = frozenset(Pose.__annotations__)
_PREDICATE_KEYS = frozenset(TaskStatePredicate.__annotations__)

_QUATERNION_NORM_TOLERANCE = 1e-3
"""Generous: float32 poses and long integrations pass, a quaternion that was forgotten or scaled does not."""


def empty_packet(schema_version: int) -> CommPacket:
    """Give the packet of a robot that has heard nothing."""
    return CommPacket(schema_version=schema_version, pose={}, task_state={}, aoi={}, learned_overlay=None)


def copied_packet(packet: CommPacket, *, older_by: float = 0.0) -> CommPacket:
    """Give a packet of its own, whose ages are ``older_by`` ticks higher; the overlay is shared."""
    return CommPacket(
        schema_version=packet["schema_version"],
        pose={uid: pose.copy() for uid, pose in packet["pose"].items()},
        task_state={uid: predicate.copy() for uid, predicate in packet["task_state"].items()},
        aoi={uid: age + older_by for uid, age in packet["aoi"].items()},
        learned_overlay=packet["learned_overlay"],
    )


def checked_packet(packet: Mapping[str, Any], *, schema_version: int) -> CommPacket:
    """Give a copy of a packet after checking it.

    Raises:
        ChamberCommError: it is of another schema version, lacks a key, has an unknown one, or an entry is malformed.
    """
    if not isinstance(packet, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - packets come from outside
        raise ChamberCommError(f"a comm packet must be a mapping, got {type(packet).__name__}")
    if "schema_version" not in packet:
        raise ChamberCommError(f"comm packet has no schema_version; its keys are {sorted(map(str, packet))}")
    if packet["schema_version"] != schema_version:
        raise ChamberCommError(
            f"comm packet schema_version mismatch: channel expects {schema_version}, "
            f"packet carries {packet['schema_version']}"
        )
    _require_keys(packet, exactly=_PACKET_KEYS, what="comm packet")
    return CommPacket(
        schema_version=schema_version,
        pose=checked_poses(packet["pose"]),
        task_state=checked_task_states(packet["task_state"]),
        aoi={uid: _age(uid, age) for uid, age in _entries(packet["aoi"], "aoi").items()},
        learned_overlay=packet["learned_overlay"],
    )


def checked_poses(poses: object) -> dict[str, Pose]:
    """Give poses as plain numbers.

    Args:
        poses: uid to a mapping with ``xyz`` and ``quat_wxyz``, each a sequence or an array; None is none.

    Raises:
        ChamberCommError: a key is missing or unknown, there are not 3 and 4 finite numbers, or the quaternion is not of
            unit length.
    """
    checked: dict[str, Pose] = {}
    for uid, pose in _entries(poses, "pose").items():
        what = f"pose of {uid!r}"
        fields = _entries(pose, what)
        _require_keys(fields, exactly=_POSE_KEYS, what=what)
        x, y, z = _finite_numbers(fields["xyz"], 3, f"xyz of the {what}")
        w, qx, qy, qz = _finite_numbers(fields["quat_wxyz"], 4, f"quat_wxyz of the {what}")
        norm = math.sqrt(w * w + qx * qx + qy * qy + qz * qz)
        if abs(norm - 1.0) > _QUATERNION_NORM_TOLERANCE:
            raise ChamberCommError(f"quat_wxyz of the {what} must have length 1, got {norm:.6g}")
        checked[uid] = Pose(xyz=(x, y, z), quat_wxyz=(w, qx, qy, qz))
    return checked


def checked_task_states(task_states: object) -> dict[str, TaskStatePredicate]:
    """Give a copy of what robots say about their tasks.

    Raises:
        ChamberCommError: a key is unknown or a value is of another type than `TaskStatePredicate` says.
    """
    checked: dict[str, TaskStatePredicate] = {}
    for uid, predicate in _entries(task_states, "task_state").items():
        what = f"task_state of {uid!r}"
        fields = dict(_entries(predicate, what))
        unknown = sorted(fields.keys() - _PREDICATE_KEYS)
        if unknown:
            raise ChamberCommError(f"{what} has unknown keys {unknown}; known: {sorted(_PREDICATE_KEYS)}")
        for name in fields.keys() & {"grasp_side", "object_class"}:
            if not isinstance(fields[name], str):
                raise ChamberCommError(f"{name} of the {what} must be text, got {fields[name]!r}")
        if "contact_force" in fields:
            fields["contact_force"] = _finite_number(fields["contact_force"], f"contact_force of the {what}")
        checked[uid] = cast("TaskStatePredicate", fields)
    return checked


def _entries(value: object, what: str) -> Mapping[str, Any]:
    """A mapping with text keys; None and anything of length zero count as empty."""
    if value is None or (isinstance(value, Sized) and len(value) == 0):
        return {}
    if not isinstance(value, Mapping):
        raise ChamberCommError(f"{what} must be a mapping, got {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise ChamberCommError(f"{what} must have text keys, got {key!r}")
    return cast("Mapping[str, Any]", value)


def _require_keys(fields: Mapping[str, Any], *, exactly: frozenset[str], what: str) -> None:
    missing, unknown = sorted(exactly - fields.keys()), sorted(fields.keys() - exactly)
    if missing or unknown:
        raise ChamberCommError(
            f"{what} lacks keys {missing} and has unknown keys {unknown}; it needs {sorted(exactly)}"
        )


def _finite_numbers(value: object, count: int, what: str) -> Sequence[float]:
    try:
        array = as_array(value)
    except (TypeError, ValueError) as error:
        raise ChamberCommError(f"{what} must be {count} numbers, got {value!r}") from error
    if array is None or array.shape != (count,):
        raise ChamberCommError(f"{what} must be {count} numbers, got {value!r}")
    numbers: list[float] = array.tolist()
    if not all(map(math.isfinite, numbers)):
        raise ChamberCommError(f"{what} must be finite, got {numbers}")
    return numbers


def _finite_number(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ChamberCommError(f"{what} must be a number, got {value!r}") from error
    if not math.isfinite(number):
        raise ChamberCommError(f"{what} must be finite, got {number}")
    return number


def _age(uid: str, value: Any) -> float:
    age = _finite_number(value, f"aoi of {uid!r}")
    if age < 0.0:
        raise ChamberCommError(f"aoi of {uid!r} must be >= 0, got {age}")
    return age
