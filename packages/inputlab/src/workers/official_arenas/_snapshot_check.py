"""Whether an inventory snapshot holds in itself: name, dispositions, artifacts, and what they say of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ripieno._verdict import Check, VerifyStatus
from ripieno.canonical import plain_json
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import (
    evidence_bytes,
    is_leftover,
    parse_json,
    plain_evidence_bytes,
    plain_hash,
    sha256_bytes,
)
from workers.official_arenas._first_capture import (
    CAPTURE_FAILED,
    CAPTURED,
    RESERVED_UNRESOLVED,
    CaptureStatus,
    receipt_name,
    start_name,
)
from workers.official_arenas._replay_inventory import check_replay_inventory
from workers.official_arenas.protocol import CHECKPOINT_INVENTORY_PROTOCOL, content_hash

__all__ = ["DISPOSITIONS", "SnapshotResult", "check_snapshot"]

DISPOSITIONS = "dispositions.json"
DISPOSITION_PROTOCOL = "retail-capture-inventory-disposition.v1"
_ARTIFACTS = ("checkpoints.json", "replays.json", "units.json")


@dataclass
class SnapshotResult:
    """What was found.

    Attributes:
        status: complete, failed or interrupted, if all rows hold.
        rows: what was looked at.
        digest: hash of the dispositions, which names the folder and covers the artifacts.
        document: the dispositions, when they hold in themselves.
        protected: checkpoint id -> protected content that a pair would replay.
        visible: checkpoint id -> state that an intervention would see.
    """

    status: VerifyStatus = VerifyStatus.INTERRUPTED
    rows: list[Check] = field(default_factory=list[Check])
    digest: str = ""
    document: Mapping[str, Any] | None = None
    protected: dict[str, Any] = field(default_factory=dict[str, Any])
    visible: dict[str, Any] = field(default_factory=dict[str, Any])


def check_snapshot(contents: Mapping[str, bytes], *, name: str) -> SnapshotResult:
    """Check the files of a snapshot.

    Args:
        contents: file name -> bytes.
        name: name of the folder.
    """
    result = SnapshotResult()
    files = {file: data for file, data in contents.items() if not is_leftover(file)}
    try:
        document, result.digest = _document(files, name)
        artifacts = _artifacts(files, document)
        if artifacts:
            result.protected = _check_artifacts(artifacts, document)
            rows = artifacts["checkpoints.json"][0]["checkpoints"]
            result.visible = {row["checkpoint_id"]: row["visible_state"] for row in rows}
        _check_counts(document)
    except OfficialArenaError as error:
        file, _, detail = str(error).partition(": ")
        result.rows.append(Check(file, ok=False, detail=detail))
        return result
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # named well, and nothing that we write
        result.rows.append(Check(DISPOSITIONS, ok=False, detail=f"is malformed: {type(error).__name__}"))
        return result
    result.document = document
    statuses = [row["status"] for row in document["dispositions"]]
    if RESERVED_UNRESOLVED not in statuses:
        result.status = VerifyStatus.FAILED if CAPTURE_FAILED in statuses else VerifyStatus.COMPLETE
    counted = ", ".join(f"{statuses.count(status)} {status}" for status in sorted(CaptureStatus))
    result.rows.append(Check(DISPOSITIONS, ok=True, detail=f"{len(statuses)} tasks: {counted}"))
    return result


def _problem(file: str, detail: str) -> OfficialArenaError:
    return OfficialArenaError(f"{file}: {detail}")


def _value(files: Mapping[str, bytes], file: str) -> tuple[Any, str, Callable[[object], str]]:
    """Give a value whose every byte is as it was written, its content hash, and what gives that of its parts."""
    if file not in files:
        raise _problem(file, "is missing")
    try:
        value = parse_json(files[file])
    except OfficialArenaError as error:
        raise _problem(file, "was changed") from error
    plain = plain_json(value)
    if (evidence_bytes(value) if plain is None else plain_evidence_bytes(value)) != files[file]:
        raise _problem(file, "was changed")
    if plain is None:
        return value, content_hash(value), content_hash
    return value, sha256_bytes(plain), plain_hash


def _document(files: Mapping[str, bytes], name: str) -> tuple[dict[str, Any], str]:
    document, digest, _ = _value(files, DISPOSITIONS)
    if not isinstance(document, dict):
        raise _problem(DISPOSITIONS, "was changed")
    fields = cast("dict[str, Any]", document)
    if name != f"inventory-{digest}":
        raise _problem(DISPOSITIONS, "was changed: the folder has another name")
    if fields.get("protocol") != DISPOSITION_PROTOCOL:
        raise _problem(DISPOSITIONS, "is of another protocol")
    return fields, digest


def _artifacts(
    files: Mapping[str, bytes], document: Mapping[str, Any]
) -> dict[str, tuple[Any, Callable[[object], str]]]:
    """Give the value of every artifact, and what gives the content hash of its parts."""
    listed = cast("Mapping[str, str]", document.get("inventory_content_sha256"))
    read = {file: _value(files, file) for file in sorted(listed)}
    for file, (_, digest, _) in read.items():
        if digest != listed[file]:
            raise _problem(file, "was changed")
    for file in files:
        if file != DISPOSITIONS and file not in listed:
            raise _problem(file, "was added")
    if read and set(read) != set(_ARTIFACTS):
        raise _problem(DISPOSITIONS, "lists other artifacts")
    return {file: (value, hash_of) for file, (value, _, hash_of) in read.items()}


def _check_artifacts(
    artifacts: Mapping[str, tuple[Any, Callable[[object], str]]], document: Mapping[str, Any]
) -> dict[str, Any]:
    """The two inventories and the list speak of the same checkpoints, and their hashes are those of their content."""
    captured = document["captured_task_ids"]
    checkpoints, hash_of = artifacts["checkpoints.json"]
    replays, hash_of_replays = artifacts["replays.json"]
    rows = checkpoints.get("checkpoints", [])
    if checkpoints.get("protocol") != CHECKPOINT_INVENTORY_PROTOCOL:
        raise _problem("checkpoints.json", "is of another protocol")
    if [row["checkpoint_id"] for row in rows] != captured or artifacts["units.json"][0] != captured:
        raise _problem("checkpoints.json", "holds other checkpoints than were captured")
    try:
        _, records = check_replay_inventory(replays, hash_of=hash_of_replays)
    except OfficialArenaError as error:
        raise _problem("replays.json", str(error)) from error
    if list(records) != captured:
        raise _problem("replays.json", "holds other checkpoints than were captured")
    for row in rows:
        record = records[row["checkpoint_id"]]
        if hash_of(row["visible_state"]) != row["visible_state_hash"]:
            raise _problem("checkpoints.json", f"the visible state of {row['checkpoint_id']} has another hash")
        if any(row[name] != record[name] for name in ("origin_state_hash", "replay_identity", "visible_state_hash")):
            raise _problem("replays.json", f"is of another origin of {row['checkpoint_id']} than checkpoints.json")
    return {task_id: record["protected"] for task_id, record in records.items()}


def _check_counts(document: Mapping[str, Any]) -> None:
    expected, rows = document["expected_task_ids"], document["dispositions"]
    statuses = [row["status"] for row in rows]
    captured = [row["task_id"] for row in rows if row["status"] == CAPTURED]
    listed = set(document["receipt_files"])
    if (
        listed != {_evidence_name(row) for row in rows}
        or not set(statuses) <= CaptureStatus
        or [row["task_id"] for row in rows] != expected
        or document["expected_denominator"] != len(expected)
        or document["captured_task_ids"] != captured
        or document["all_tasks_terminal"] is not (RESERVED_UNRESOLVED not in statuses)
        or bool(document["inventory_content_sha256"]) is not (document["all_tasks_terminal"] and bool(captured))
    ):
        raise _problem(DISPOSITIONS, "counts other tasks than it lists")


def _evidence_name(row: Mapping[str, Any]) -> str:
    return start_name(row["task_id"]) if row["status"] == RESERVED_UNRESOLVED else receipt_name(row["task_id"])
