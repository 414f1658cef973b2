"""The checkpoint inventory: what interventions may see of every captured task, read once and bound by hash."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.protocols import CHECKPOINT_INVENTORY_PROTOCOL
from agentinputlab.contracts.state import FrozenAgentState
from ripieno.canonical import strict_loads
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas._replay_inventory import replay_identity
from workers.official_arenas._screening import screen_visible_state
from workers.official_arenas.protocol import (
    MAX_INVENTORY_BYTES,
    OfficialArenaError,
    content_hash,
    is_sha256,
    read_bound_bytes,
    validate_dependency_hashes,
)

__all__ = ["parse_checkpoint_inventory", "read_checkpoint_inventory"]

_ROOT_FIELDS = frozenset({"schema_version", "protocol", "checkpoint_count", "checkpoints"})
_ROW_FIELDS = frozenset(
    {
        "benchmark_id",
        "split",
        "checkpoint_id",
        "group_id",
        "source_revision",
        "origin_state_hash",
        "replay_identity",
        "visible_state",
        "visible_state_hash",
        "eligible_families",
    }
)
_LOCK_FIELDS = frozenset({"locked_dependency_hashes", "locked_dependency_hashes_by_model_slot"})
_GROUP = re.compile(r"group_[0-9a-f]{64}")
_FAMILIES = frozenset(family.value for family in SemanticFamily)


def read_checkpoint_inventory(
    *,
    path_variable: str,
    sha256_variable: str,
    expected_sha256: str,
    environment: Mapping[str, str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Read the inventory that two environment variables and a digest in a config name.

    Args:
        path_variable: variable with its path.
        sha256_variable: variable with its digest.
        expected_sha256: the digest that the config locks.
        environment: where the variables are looked up; ``os.environ`` by default.

    Returns:
        Rows by checkpoint id, in the order of the file.

    Raises:
        OfficialArenaError: a variable is missing, the digests differ, the file is missing, linked or too long, or it
            is no valid inventory.
    """
    variables = os.environ if environment is None else environment
    path, digest = variables.get(path_variable), variables.get(sha256_variable)
    if not path or not digest:
        raise OfficialArenaError("Checkpoint inventory needs both of its environment variables")
    if digest != expected_sha256:
        raise OfficialArenaError("Checkpoint inventory digest differs from the one that the config locks")
    try:
        data = read_bound_bytes(Path(path), max_bytes=MAX_INVENTORY_BYTES)
    except (OSError, IntegrityError, InputError) as error:
        raise OfficialArenaError("Checkpoint inventory must be a readable regular file of at most 64 MiB") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise OfficialArenaError("Checkpoint inventory file differs from its digest")
    return parse_checkpoint_inventory(data)


def parse_checkpoint_inventory(data: bytes) -> dict[str, dict[str, Any]]:
    """Read the bytes of an inventory; every hash that can be recomputed is, and nothing privileged is visible.

    Raises:
        OfficialArenaError: not strict JSON, other fields or counts, a repeated checkpoint, a hash that differs, or a
            privileged key in a visible state.
    """
    try:
        value = strict_loads(data, max_bytes=MAX_INVENTORY_BYTES)
    except InputError as error:
        raise OfficialArenaError("Checkpoint inventory is not strict JSON (duplicate keys, depth, size)") from error
    if not isinstance(value, dict) or frozenset(cast("dict[str, Any]", value)) != _ROOT_FIELDS:
        raise OfficialArenaError("Checkpoint inventory fields differ")
    root = cast("dict[str, Any]", value)
    if type(root["schema_version"]) is not int or root["schema_version"] != 1:
        raise OfficialArenaError("Checkpoint inventory schema_version must be 1")
    if root["protocol"] != CHECKPOINT_INVENTORY_PROTOCOL:
        raise OfficialArenaError(f"Checkpoint inventory protocol must be {CHECKPOINT_INVENTORY_PROTOCOL}")
    rows = root["checkpoints"]
    if not isinstance(rows, list) or type(root["checkpoint_count"]) is not int:
        raise OfficialArenaError("Checkpoint inventory needs a list of checkpoints and their count")
    if root["checkpoint_count"] != len(cast("list[object]", rows)):
        raise OfficialArenaError("Checkpoint inventory checkpoint_count differs from its checkpoints")
    by_id: dict[str, dict[str, Any]] = {}
    for item in cast("list[object]", rows):
        row = _row(item)
        if row["checkpoint_id"] in by_id:
            raise OfficialArenaError("Checkpoint inventory repeats a checkpoint")
        by_id[row["checkpoint_id"]] = row
    return by_id


def _row(value: object) -> dict[str, Any]:
    fields = frozenset(cast("dict[str, Any]", value)) if isinstance(value, dict) else frozenset[str]()
    if fields - _LOCK_FIELDS != _ROW_FIELDS or len(fields & _LOCK_FIELDS) != 1:
        raise OfficialArenaError("Checkpoint inventory row fields differ")
    row = cast("dict[str, Any]", value)
    for name in ("benchmark_id", "split", "checkpoint_id", "source_revision"):
        if not isinstance(row[name], str) or not row[name].strip():
            raise OfficialArenaError(f"Checkpoint inventory {name} must be non-blank text")
    if not isinstance(row["group_id"], str) or not _GROUP.fullmatch(row["group_id"]):
        raise OfficialArenaError("Checkpoint inventory group_id must be group_ and 64 lowercase hex digits")
    if not is_sha256(row["origin_state_hash"]):
        raise OfficialArenaError("Checkpoint inventory origin_state_hash must be 64 lowercase hex digits")
    identity = {name: row[name] for name in ("benchmark_id", "source_revision", "checkpoint_id")}
    if row["replay_identity"] != replay_identity(**identity, origin=row["origin_state_hash"]):
        raise OfficialArenaError("Checkpoint inventory replay_identity differs")
    families = row["eligible_families"]
    listed = cast("Sequence[object]", families) if isinstance(families, list) else ()
    if not listed or not all(isinstance(item, str) and item in _FAMILIES for item in listed):
        raise OfficialArenaError(f"Checkpoint inventory eligible_families must be out of {sorted(_FAMILIES)}")
    _check_locks(row)
    _check_visible_state(row)
    return row


def _check_locks(row: Mapping[str, Any]) -> None:
    if "locked_dependency_hashes" in row:
        validate_dependency_hashes(row["locked_dependency_hashes"])
        return
    slots = row["locked_dependency_hashes_by_model_slot"]
    if not isinstance(slots, dict) or not slots:
        raise OfficialArenaError("Checkpoint inventory locks by model slot must be a non-empty object")
    for locks in cast("dict[str, object]", slots).values():
        validate_dependency_hashes(locks)


def _check_visible_state(row: Mapping[str, Any]) -> None:
    state = row["visible_state"]
    if not isinstance(state, dict):
        raise OfficialArenaError("Checkpoint inventory visible_state must be an object")
    screen_visible_state(cast("dict[str, Any]", state))
    if content_hash(state) != row["visible_state_hash"]:
        raise OfficialArenaError("Checkpoint inventory visible_state differs from visible_state_hash")
    try:
        FrozenAgentState.from_dict(state)
    except (ValidationError, TypeError, ValueError) as error:
        raise OfficialArenaError("Checkpoint inventory visible_state is no agent state") from error
