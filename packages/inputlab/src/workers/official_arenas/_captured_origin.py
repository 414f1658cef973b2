"""The protected origin that both arms of a pair are restored from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["checked_replay"]


def checked_replay(record: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the protected content of a replay record: the fixed first capture of exactly this config.

    Args:
        record: from the replay inventory.
        config: checked config of the arena.

    Raises:
        OfficialArenaError: it holds nothing protected, no history, or was captured otherwise.
    """
    if not isinstance(record.get("protected"), Mapping):
        raise OfficialArenaError("Retail replay record has no protected content")
    protected = cast("Mapping[str, Any]", record["protected"])
    expected = {
        "task_id": record.get("checkpoint_id"),
        "capture_attempt": 1,
        "capture_seed": config["capture_seed"],
        "locked_dependency_hashes": config["locked_dependency_hashes"],
    }
    if any(protected.get(name) != item for name, item in expected.items()) or not protected.get(
        "initial_message_history"
    ):
        raise OfficialArenaError("Retail replay is not the fixed first capture of this config")
    return protected
