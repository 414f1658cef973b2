"""The replay inventory: protected origins, read once and bound by hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ripieno.canonical import strict_loads
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas._reading import written_value
from workers.official_arenas.protocol import (
    MAX_INVENTORY_BYTES,
    REPLAY_INVENTORY_PROTOCOL,
    OfficialArenaError,
    content_hash,
    is_sha256,
    read_bound_bytes,
)

__all__ = [
    "ReplayInventory",
    "check_replay_inventory",
    "origin_state_hash",
    "parse_replay_inventory",
    "read_replay_inventory",
    "replay_identity",
]

ReplayInventory = tuple[dict[str, str], dict[str, dict[str, Any]]]
"""Identity (``benchmark_id``, ``source_revision``) and records by checkpoint id."""

_ROOT_FIELDS = frozenset({"schema_version", "protocol", "benchmark_id", "source_revision", "record_count", "records"})
_RECORD_FIELDS = frozenset({"checkpoint_id", "origin_state_hash", "replay_identity", "protected"})
_OPTIONAL_RECORD_FIELDS = frozenset({"visible_state_hash", "model_slot"})


def origin_state_hash(
    *, benchmark_id: str, source_revision: str, checkpoint_id: str, protected: Mapping[str, Any]
) -> str:
    """Give the hash of a protected origin; nothing but the protected content and its identity enters."""
    return content_hash(_origin(benchmark_id, source_revision, checkpoint_id, protected))


def replay_identity(*, benchmark_id: str, source_revision: str, checkpoint_id: str, origin: str) -> str:
    """Give the identity of the replay of one origin (``origin`` is its `origin_state_hash`)."""
    return content_hash(_replay(benchmark_id, source_revision, checkpoint_id, origin))


def _origin(
    benchmark_id: str, source_revision: str, checkpoint_id: str, protected: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "benchmark_id": benchmark_id,
        "source_revision": source_revision,
        "checkpoint_id": checkpoint_id,
        "protected": dict(protected),
    }


def _replay(benchmark_id: str, source_revision: str, checkpoint_id: str, origin: str) -> dict[str, Any]:
    return {
        "protocol": REPLAY_INVENTORY_PROTOCOL,
        "benchmark_id": benchmark_id,
        "source_revision": source_revision,
        "checkpoint_id": checkpoint_id,
        "origin_state_hash": origin,
    }


def read_replay_inventory(
    parameters: Mapping[str, Any], *, environment: Mapping[str, str] | None = None
) -> ReplayInventory:
    """Read the inventory that the worker parameters name.

    Args:
        parameters: checked worker parameters.
        environment: where its path and digest are looked up; ``os.environ`` by default.

    Raises:
        OfficialArenaError: a variable is missing, the digest differs from the expected one or from the file, the
            file is missing, linked or too long, or it is no valid inventory.
    """
    variables = os.environ if environment is None else environment
    path = variables.get(parameters["replay_inventory_environment"])
    digest = variables.get(parameters["replay_inventory_sha256_environment"])
    if not path or not digest:
        raise OfficialArenaError("Replay inventory needs both of its environment variables")
    if digest != parameters["expected_replay_inventory_sha256"]:
        raise OfficialArenaError("Replay inventory digest differs from the one that the parameters expect")
    try:
        data = read_bound_bytes(Path(path), max_bytes=MAX_INVENTORY_BYTES)
    except (OSError, IntegrityError, InputError) as error:
        raise OfficialArenaError("Replay inventory must be a readable regular file of at most 64 MiB") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise OfficialArenaError("Replay inventory file differs from its digest")
    return parse_replay_inventory(data)


def parse_replay_inventory(data: bytes) -> ReplayInventory:
    """Read the bytes of an inventory and recompute the hashes of every record.

    Raises:
        OfficialArenaError: not strict JSON, other fields or counts, a repeated checkpoint, or a hash that differs.
    """
    try:
        value = written_value(data, max_bytes=MAX_INVENTORY_BYTES) or strict_loads(data, max_bytes=MAX_INVENTORY_BYTES)
    except InputError as error:
        raise OfficialArenaError("Replay inventory is not strict JSON (duplicate keys, depth, size)") from error
    return check_replay_inventory(value)


def check_replay_inventory(value: object, *, hash_of: Callable[[object], str] = content_hash) -> ReplayInventory:
    """Give the records of a parsed inventory, after the hashes of every one were computed again.

    Args:
        value: the inventory.
        hash_of: gives the content hash of what is made of its parts; a faster one fits where more is known of it.

    Raises:
        OfficialArenaError: other fields or counts, a repeated checkpoint, or a hash that differs.
    """
    if not isinstance(value, dict) or frozenset(cast("dict[str, Any]", value)) != _ROOT_FIELDS:
        raise OfficialArenaError("Replay inventory fields differ")
    root = cast("dict[str, Any]", value)
    if type(root["schema_version"]) is not int or root["schema_version"] != 1:
        raise OfficialArenaError("Replay inventory schema_version must be 1")
    if root["protocol"] != REPLAY_INVENTORY_PROTOCOL:
        raise OfficialArenaError(f"Replay inventory protocol must be {REPLAY_INVENTORY_PROTOCOL}")
    identity = {name: root[name] for name in ("benchmark_id", "source_revision")}
    if not all(isinstance(item, str) and item.strip() for item in identity.values()):
        raise OfficialArenaError("Replay inventory benchmark_id and source_revision must be non-blank text")
    records = root["records"]
    if not isinstance(records, list) or type(root["record_count"]) is not int:
        raise OfficialArenaError("Replay inventory needs a list of records and their count")
    if root["record_count"] != len(cast("list[object]", records)):
        raise OfficialArenaError("Replay inventory record_count differs from its records")
    by_id: dict[str, dict[str, Any]] = {}
    for row in cast("list[object]", records):
        record = _record(row, identity, hash_of)
        if record["checkpoint_id"] in by_id:
            raise OfficialArenaError("Replay inventory repeats a checkpoint")
        by_id[record["checkpoint_id"]] = record
    return identity, by_id


def _record(value: object, identity: Mapping[str, str], hash_of: Callable[[object], str]) -> dict[str, Any]:
    fields = frozenset(cast("dict[str, Any]", value)) if isinstance(value, dict) else frozenset[str]()
    if fields - _OPTIONAL_RECORD_FIELDS != _RECORD_FIELDS:
        raise OfficialArenaError("Replay inventory record fields differ")
    record = cast("dict[str, Any]", value)
    if not isinstance(record["checkpoint_id"], str) or not record["checkpoint_id"].strip():
        raise OfficialArenaError("Replay inventory checkpoint_id must be non-blank text")
    if not isinstance(record["protected"], dict):
        raise OfficialArenaError("Replay inventory protected content must be an object")
    if not is_sha256(record.get("visible_state_hash", "0" * 64)):
        raise OfficialArenaError("Replay inventory visible_state_hash must be 64 lowercase hex digits")
    slot = record.get("model_slot", "unbound")
    if not isinstance(slot, str) or not slot.strip():
        raise OfficialArenaError("Replay inventory model_slot must be non-blank text")
    names = identity["benchmark_id"], identity["source_revision"], record["checkpoint_id"]
    origin = hash_of(_origin(*names, record["protected"]))
    if record["origin_state_hash"] != origin:
        raise OfficialArenaError("Replay inventory origin_state_hash differs from the protected content")
    if record["replay_identity"] != hash_of(_replay(*names, origin)):
        raise OfficialArenaError("Replay inventory replay_identity differs")
    return record
