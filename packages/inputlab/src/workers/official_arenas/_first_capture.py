"""The first user message of every task, generated once: start file, one generation, sealed receipt.

The start file is the lock and the memory of a slot. It is durable before the one generation begins, so a slot that
has a start and no receipt is never tried again: neither its age nor the missing result proves that it ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ripieno.errors import IntegrityError
from ripieno.receipts import check_sealed, seal
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import (
    Directory,
    evidence_bytes,
    open_private_root,
    parse_object,
    sha256_bytes,
)
from workers.official_arenas.protocol import OfficialArenaProvider, content_hash

__all__ = [
    "BATCH_PROTOCOL",
    "CAPTURE_PROTOCOL",
    "RECEIPT_NAME",
    "SEED",
    "START_NAME",
    "CaptureStatus",
    "capture_batch",
    "check_task_id",
    "create_receipt",
    "parse_receipt",
    "read_receipt",
    "receipt_name",
    "saved_capture",
    "start_name",
    "start_record",
]

CAPTURE_PROTOCOL = "retail-first-capture.v1"
BATCH_PROTOCOL = "retail-capture-batch.v1"
SEED = 17
"""The one seed of captures and arms."""
START_NAME = re.compile(r"first-capture-([0-9]+)-start\.json")
RECEIPT_NAME = re.compile(r"first-capture-([0-9]+)\.json")
ROOT_MESSAGE = "Retail capture root must be an existing owned private directory"

CAPTURED = "captured"
CAPTURE_FAILED = "capture_failed"
RESERVED_UNRESOLVED = "reserved_unresolved"
CaptureStatus = frozenset({CAPTURED, CAPTURE_FAILED, RESERVED_UNRESOLVED})
"""What can be said of a task's one attempt."""

_RECORD_FIELDS = frozenset({"checkpoint_id", "group_key", "visible_state", "eligible_families", "protected"})


def receipt_name(task_id: str) -> str:
    """Give the file name of a task's receipt."""
    return f"first-capture-{task_id}.json"


def start_name(task_id: str) -> str:
    """Give the file name of a task's start."""
    return f"first-capture-{task_id}-start.json"


def start_record(binding: str, task_id: str) -> dict[str, Any]:
    """Give what a start file says; nothing in it is free, so its bytes can be checked."""
    return {
        "protocol": CAPTURE_PROTOCOL,
        "config_binding": binding,
        "task_id": task_id,
        "seed": SEED,
        "attempt": 1,
    }


def check_task_id(task_id: object) -> str:
    """Give a task id that is safe in a file name: ASCII digits.

    Raises:
        OfficialArenaError: it is something else.
    """
    if not isinstance(task_id, str) or re.fullmatch(r"[0-9]{1,64}", task_id) is None:
        raise OfficialArenaError("Retail task ID is not a safe official identity")
    return task_id


def create_receipt(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write a receipt that must not exist yet: mode 0600, whole or not at all, never through a link.

    Args:
        path: the file; its directory exists and is no link.
        value: JSON object; written with sorted keys, indented by two, UTF-8 unescaped, a line feed at the end.
        durable: force the file and its name to disk before the call returns.

    Raises:
        FileExistsError: something has that name.
        InputError: JSON cannot say the value (NaN, for one).
        EvidenceStorageError: the file system refused; nothing has that name.
    """
    data = evidence_bytes(dict(value))
    with Directory.open(path.parent, durable=durable) as directory:
        directory.create(path.name, data)


def saved_capture(path: Path, *, binding: str, task_id: str) -> dict[str, Any]:
    """Give an existing receipt after every binding was checked.

    Raises:
        OfficialArenaError: it is absent, linked, changed, or of another config, task, seed or attempt.
    """
    try:
        with Directory.open(path.parent) as directory:
            return _read_receipt(directory, task_id, binding=binding, name=path.name)[0]
    except OSError as error:
        raise OfficialArenaError("Retail capture receipt is absent or symlinked") from error


_create_only = create_receipt  # the documented names
_saved_capture = saved_capture


def read_receipt(directory: Directory, task_id: str, *, binding: str) -> tuple[dict[str, Any], str]:
    """Give the receipt of a task and the SHA-256 of its bytes, read once.

    Raises:
        OfficialArenaError: as `saved_capture`.
    """
    return _read_receipt(directory, task_id, binding=binding, name=receipt_name(task_id))


def _read_receipt(directory: Directory, task_id: str, *, binding: str, name: str) -> tuple[dict[str, Any], str]:
    try:
        data = directory.read(name)
    except (OSError, OfficialArenaError) as error:
        raise OfficialArenaError("Retail capture receipt is absent or symlinked") from error
    return parse_receipt(data, binding=binding, task_id=task_id), sha256_bytes(data)


def parse_receipt(data: bytes, *, binding: str | None, task_id: str) -> dict[str, Any]:
    """Give a receipt from its bytes, every one of which counts.

    Args:
        data: bytes of the file.
        binding: hash of the config that it must be bound to; None accepts any.
        task_id: task that it must be of.

    Raises:
        OfficialArenaError: a byte was changed, or it is of another config, task, seed or attempt.
    """
    try:
        receipt = parse_object(data)
        is_as_written = evidence_bytes(receipt) == data
        check_sealed(receipt)
    except (OfficialArenaError, IntegrityError, ValueError) as error:
        raise OfficialArenaError("Retail existing capture receipt differs") from error
    fixed = {**start_record(binding or str(receipt.get("config_binding")), task_id)}
    is_bound = all(type(receipt.get(name)) is type(item) and receipt[name] == item for name, item in fixed.items())
    terminal = receipt.get("terminal")
    is_valid = terminal == CAPTURE_FAILED or (terminal == CAPTURED and _names_task(receipt.get("record"), task_id))
    if not (is_as_written and is_bound and is_valid):
        raise OfficialArenaError("Retail existing capture receipt differs")
    return receipt


def _names_task(record: object, task_id: str) -> bool:
    if not isinstance(record, Mapping):
        return False
    row = cast("Mapping[str, Any]", record)
    protected = row.get("protected")
    if not isinstance(protected, Mapping):
        return False
    return row.get("checkpoint_id") == task_id and cast("Mapping[str, Any]", protected).get("task_id") == task_id


# --- the loop -----------------------------------------------------------------------------------------------


def capture_batch(
    provider: OfficialArenaProvider,
    config: Mapping[str, Any],
    *,
    output_root: Path,
    durable: bool = True,
    on_task: Callable[[str, str], None] | None = None,
) -> dict[str, Any]:
    """Play every task to its first user message, once; what was tried before is read, never repeated.

    Args:
        provider: the arena; its ``_first_turn`` makes exactly one user generation.
        config: provider config; its hash after validation binds every receipt.
        output_root: private directory of the receipts.
        durable: force every file and name to disk before going on.
        on_task: called with task id and status after each task.

    Returns:
        ``protocol, config_binding, expected_task_ids, records, dispositions, all_tasks_terminal``.

    Raises:
        OfficialArenaError: no or unsafe task ids, an unsafe root, a changed receipt, or a write was refused.
    """
    checked = provider._validate_config(config)  # pyright: ignore[reportPrivateUsage] - documented provider hook
    binding = content_hash(checked)
    task_ids = [check_task_id(task_id) for task_id in provider.task_ids(checked)]
    if not task_ids:
        raise OfficialArenaError("Retail capture resolved no official tasks")
    if len(set(task_ids)) != len(task_ids):
        raise OfficialArenaError("Retail capture expected task inventory is invalid")
    records: list[dict[str, Any]] = []
    dispositions: list[dict[str, Any]] = []
    with open_private_root(output_root, message=ROOT_MESSAGE, durable=durable) as root:
        for task_id in task_ids:
            receipt = _receipt_of(provider, checked, task_id, binding=binding, root=root)
            disposition = _disposition(task_id, receipt)
            dispositions.append(disposition)
            if receipt is not None and receipt["terminal"] == CAPTURED:
                records.append(receipt["record"])
            if on_task is not None:
                on_task(task_id, disposition["status"])
        root.sync()  # names that an earlier, killed capture left are as durable as those of this one
    return {
        "protocol": BATCH_PROTOCOL,
        "config_binding": binding,
        "expected_task_ids": task_ids,
        "records": records,
        "dispositions": dispositions,
        "all_tasks_terminal": all(row["status"] != RESERVED_UNRESOLVED for row in dispositions),
    }


def _disposition(task_id: str, receipt: Mapping[str, Any] | None) -> dict[str, Any]:
    if receipt is None:
        return {"task_id": task_id, "status": RESERVED_UNRESOLVED, "retry_permitted": False}
    return {
        "task_id": task_id,
        "status": receipt["terminal"],
        "receipt_sha256": receipt["receipt_sha256"],
        "retry_permitted": False,
    }


def _receipt_of(
    provider: OfficialArenaProvider, config: Mapping[str, Any], task_id: str, *, binding: str, root: Directory
) -> dict[str, Any] | None:
    """Give the receipt of a task's one attempt, made now or before; None when an attempt never ended."""
    if root.has(receipt_name(task_id)):
        return read_receipt(root, task_id, binding=binding)[0]
    start = start_record(binding, task_id)
    try:
        root.create(start_name(task_id), evidence_bytes(start))
    except FileExistsError:
        # Another process may have written the receipt between the two looks.
        return read_receipt(root, task_id, binding=binding)[0] if root.has(receipt_name(task_id)) else None
    data = _generation(provider, config, task_id, start=start)
    try:
        root.create(receipt_name(task_id), data)
    except FileExistsError as error:  # this process owns the start: nobody else may have written a result
        raise OfficialArenaError("Retail existing capture receipt differs") from error
    return parse_object(data)


def _require_record(record: Mapping[str, Any], task_id: str) -> None:
    if frozenset(record) != _RECORD_FIELDS or not _names_task(record, task_id):
        raise OfficialArenaError("Retail captured record has other fields or another task")


def _generation(
    provider: OfficialArenaProvider, config: Mapping[str, Any], task_id: str, *, start: Mapping[str, Any]
) -> bytes:
    """Give the bytes of the receipt after exactly one user generation, whatever became of it."""
    try:
        record, tokens = provider._first_turn(config, task_id)  # pyright: ignore[reportPrivateUsage] - as above
        _require_record(record, task_id)
        usage = {
            "model_calls": 1,
            "tokens": tokens,
            "token_usage_incomplete": tokens is None,
            "outside_agent_budget": True,
        }
        captured = {"terminal": CAPTURED, "record": record, "environment_capture_usage": usage}
        return evidence_bytes(seal({**start, **captured}))
    except Exception as error:  # noqa: BLE001 - whatever stopped the one attempt is its outcome
        text = str(error).encode("utf-8", "backslashreplace")
        failed = {
            "terminal": CAPTURE_FAILED,
            "exception_type": type(error).__name__,
            "exception_sha256": sha256_bytes(text),
            "retry_permitted": False,
        }
        return evidence_bytes(seal({**start, **failed}))
