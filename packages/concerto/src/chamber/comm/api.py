"""What travels between robots, and the protocol of everything it can travel through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypedDict, runtime_checkable

__all__ = ["SCHEMA_VERSION", "CommChannel", "CommPacket", "Pose", "TaskStatePredicate"]

SCHEMA_VERSION: int = 1
"""Version of the packet's shape; a decoder refuses any other, and every change of the shape raises it."""


class Pose(TypedDict):
    """Where a robot says it is.

    Attributes:
        xyz: position in the base frame of the environment, m.
        quat_wxyz: orientation, unit quaternion, real part first.
    """

    xyz: tuple[float, float, float]
    quat_wxyz: tuple[float, float, float, float]


class TaskStatePredicate(TypedDict, total=False):
    """What a robot says about its task; a further key would be a new schema version.

    Attributes:
        grasp_side: side on which it grasps.
        object_class: class of the object it handles.
        contact_force: force it feels, N.
    """

    grasp_side: str
    object_class: str
    contact_force: float


class CommPacket(TypedDict):
    """One message.

    Attributes:
        schema_version: shape of the packet, see `SCHEMA_VERSION`.
        pose: per uid, for those with news in this message.
        task_state: per uid, for those with news in this message.
        aoi: Age of Information per uid that was ever heard of, in ticks (calls of ``encode``);
            `chamber.comm.aoi.aoi_ms` turns it into milliseconds.
        learned_overlay: a tensor of jointly trained partners, else None.
    """

    schema_version: int
    pose: dict[str, Pose]
    task_state: dict[str, TaskStatePredicate]
    aoi: dict[str, float]
    learned_overlay: object | None


@runtime_checkable
class CommChannel(Protocol):
    """What turns the state of an environment into packets and packets into what a reader can use."""

    def reset(self, *, seed: int | None = None) -> None:
        """Begin an episode; a seed roots the channel's random substream."""
        ...

    def encode(self, state: object) -> CommPacket:
        """Give the packet that arrives in this tick; one call is one tick."""
        ...

    def decode(self, packet: CommPacket) -> Mapping[str, object]:
        """Give the packet's contents.

        Raises:
            ChamberCommError: the packet is malformed or of another schema version.
        """
        ...
