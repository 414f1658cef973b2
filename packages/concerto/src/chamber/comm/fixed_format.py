"""The plain channel: everything that is said arrives at once, with its age beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from chamber.comm._packets import checked_packet, checked_poses, checked_task_states
from chamber.comm.aoi import AoIClock
from chamber.comm.api import SCHEMA_VERSION, CommPacket
from chamber.comm.learned_overlay import LearnedOverlay

__all__ = ["SUBSTREAM_NAME", "FixedFormatCommChannel"]

SUBSTREAM_NAME = "comm.fixed"
"""Reserved for this channel; nothing is drawn from it."""


class FixedFormatCommChannel:
    """Packs ``pose``, ``task_state`` and ``learned_overlay`` of a state into a packet, without loss or delay.

    A uid that says something now has age 0; one that was last heard of k packets ago has age k; both stay in ``aoi``,
    but only those with news are in ``pose`` and ``task_state``.

    Args:
        schema_version: version that packets carry and `decode` expects.
        overlay: source of ``learned_overlay`` where the state has none; the channel's reset empties it.
        state_adapter: turns a state into a mapping with the keys above before it is packed, such as
            `chamber.comm.observed_poses.ObservedPoses` for the observations of a task, which have no ``pose`` of their
            own.
    """

    def __init__(
        self,
        *,
        schema_version: int = SCHEMA_VERSION,
        overlay: LearnedOverlay | None = None,
        state_adapter: Callable[[object], Mapping[str, Any]] | None = None,
    ) -> None:
        self.schema_version = schema_version
        self._overlay = overlay if overlay is not None else LearnedOverlay()
        self._state_adapter = state_adapter
        self._clock = AoIClock()

    def reset(self, *, seed: int | None = None) -> None:
        """Forget all ages and the overlay; the channel draws nothing, so the seed has no effect."""
        self._clock.reset()
        self._overlay.reset()

    def encode(self, state: object) -> CommPacket:
        """Pack a state; one call is one tick of all ages.

        Args:
            state: mapping that may have ``pose`` (uid to `chamber.comm.api.Pose`), ``task_state`` (uid to
                `chamber.comm.api.TaskStatePredicate`) and ``learned_overlay``; other keys are ignored, and anything
                that is no mapping counts as empty.

        Raises:
            ChamberCommError: a pose or a predicate is malformed; no time has passed then.
        """
        if self._state_adapter is not None:
            state = self._state_adapter(state)
        said: Mapping[str, Any] = cast("Mapping[str, Any]", state) if isinstance(state, Mapping) else {}
        pose, task_state = checked_poses(said.get("pose")), checked_task_states(said.get("task_state"))
        self._clock.tick(1.0)
        for uid in (*pose, *task_state):
            self._clock.mark_fresh(uid)
        overlay = said.get("learned_overlay")
        return CommPacket(
            schema_version=self.schema_version,
            pose=pose,
            task_state=task_state,
            aoi=self._clock.snapshot(),
            learned_overlay=self._overlay.encode() if overlay is None else overlay,
        )

    def decode(self, packet: CommPacket) -> dict[str, object]:
        """Give ``pose``, ``task_state``, ``aoi`` and ``learned_overlay`` of a packet.

        Raises:
            ChamberCommError: the packet is of another schema version, lacks a key, has an unknown one, or is malformed.
        """
        checked = checked_packet(packet, schema_version=self.schema_version)
        return {
            "pose": checked["pose"],
            "task_state": checked["task_state"],
            "aoi": checked["aoi"],
            "learned_overlay": LearnedOverlay.decode(checked["learned_overlay"]),
        }
