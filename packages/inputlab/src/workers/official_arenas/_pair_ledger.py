"""The ledger of one pair: a directory that is made once, filled in order, and closed by a sealed terminal.

Making the directory is the lock. Whatever a crash leaves in it stays an interrupted attempt for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ripieno.errors import IntegrityError
from ripieno.receipts import check_sealed
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import (
    Directory,
    EvidenceStorageError,
    canonical_and_evidence_bytes,
    evidence_bytes,
    is_leftover,
    parse_object,
    read_tree,
    sealed_evidence_bytes,
    sha256_bytes,
)
from workers.official_arenas.protocol import content_hash

__all__ = [
    "ANSWERED_BY",
    "FAILED_UNSCORED",
    "INTERRUPTED_MESSAGE",
    "OUTCOME",
    "PAIRED_SCORED",
    "PAIR_START",
    "REQUEST",
    "RESPONSE",
    "ROLES",
    "SCORED_TERMINAL",
    "TERMINAL",
    "TERMINAL_PROTOCOL",
    "TRACE",
    "PairBinding",
    "RetailAttemptUnavailable",
    "cached_response",
    "close_cell",
    "evidence_files",
    "open_cell",
    "retained_response",
]

TERMINAL_PROTOCOL = "retail-pair-terminal.v1"
PAIR_START = "pair-start.json"
REQUEST = "request.json"
TRACE = "trace.json"
OUTCOME = "arm-outcome.json"
ANSWERED_BY = "answered-by.json"
RESPONSE = "response.json"
TERMINAL = "terminal.json"
ROLES = ("baseline", "treatment")

SCORED_TERMINAL = "scored_terminal"
FAILED_UNSCORED = "failed_unscored"
PAIRED_SCORED = "paired_scored"

INTERRUPTED_MESSAGE = "Retail attempt is live or interrupted; automatic retry is forbidden"
_DIFFERS = "Retail terminal or raw trajectory evidence differs"


class RetailAttemptUnavailable(OfficialArenaError):  # noqa: N818 - the documented name
    """An attempt exists that is live, interrupted or unscored; it must be looked at and not run again."""


@dataclass(frozen=True, slots=True)
class PairBinding:
    """What a ledger is bound to.

    Attributes:
        request_hash: of the whole envelope.
        scope_sha256: of the scope file that allowed it.
        identity: see `workers.official_arenas.retail_driver.cell_identity`.
    """

    request_hash: str
    scope_sha256: str
    identity: Mapping[str, Any]


def open_cell(
    root: Directory,
    cell_id: str,
    binding: PairBinding,
    *,
    envelope: Mapping[str, Any],
    bytes_of: Callable[[object], bytes] = evidence_bytes,
) -> Directory:
    """Take the slot of a pair and write how it starts; of many callers exactly one gets it.

    Args:
        root: of the ledger.
        cell_id: name of the slot.
        binding: what the ledger is bound to.
        envelope: the whole request.
        bytes_of: gives evidence bytes; a faster one fits where more is known of envelope and binding.

    Raises:
        FileExistsError: the slot was taken before.
        EvidenceStorageError: the disk refused. If it refused the start itself, the slot is free again.
    """
    start = {
        "request_hash": binding.request_hash,
        "scope_sha256": binding.scope_sha256,
        "cell_identity": binding.identity,
        "pid": os.getpid(),
        "uid": os.getuid(),
        "retry_permitted": False,
    }
    cell = root.make_directory(cell_id)
    try:
        try:
            cell.create(PAIR_START, bytes_of(start))
        except EvidenceStorageError:
            if not cell.has(PAIR_START):
                root.remove_directory(cell_id)
            raise
        cell.create(REQUEST, bytes_of(envelope))
    except BaseException:
        cell.close()
        raise
    return cell


def close_cell(
    cell: Directory, binding: PairBinding, *, failed_roles: list[str], response: Mapping[str, Any] | None
) -> None:
    """Write the response, if there is one, and the terminal that seals every file of the cell.

    Raises:
        EvidenceStorageError: the disk refused.
        OfficialArenaError: a link lies in the cell.
    """
    response_sha256 = None
    if response is not None:
        canonical, data = canonical_and_evidence_bytes(response)
        cell.create(RESPONSE, data)
        response_sha256 = sha256_bytes(canonical)
    terminal = {
        "protocol": TERMINAL_PROTOCOL,
        "request_hash": binding.request_hash,
        "scope_sha256": binding.scope_sha256,
        "status": FAILED_UNSCORED if failed_roles else PAIRED_SCORED,
        "failed_roles": failed_roles,
        "physical_arm_attempts": 2,
        "retry_permitted": False,
        "files": evidence_files(read_tree(cell)),
        "response_sha256": response_sha256,
    }
    cell.create(TERMINAL, sealed_evidence_bytes(terminal))


def evidence_files(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Give relative path -> SHA-256 of the files of a cell, as its terminal lists them."""
    return {path: sha256_bytes(data) for path, data in contents.items() if not is_terminal_file(path)}


def is_terminal_file(path: str) -> bool:
    """Tell whether a path is the terminal, or what a kill between its two names left of it."""
    return path == TERMINAL or (path.startswith(f".{TERMINAL}.") and is_leftover(path))


def retained_response(root: Directory, cell_id: str, *, request_hash: str, scope_sha256: str) -> dict[str, Any]:
    """Give the response of an attempt that ended, from bytes that were all checked; see `read_retained`.

    Raises:
        RetailAttemptUnavailable: the attempt is live, interrupted or failed.
        OfficialArenaError: the slot belongs to another request, or its evidence was changed.
    """
    try:
        cell = root.open_directory(cell_id)
    except OSError as error:
        raise OfficialArenaError("Retail logical attempt directory is invalid") from error
    with cell:
        response = read_retained(cell, request_hash=request_hash, scope_sha256=scope_sha256)
        cell.sync()  # names that a killed driver left are made durable before they are acknowledged
    root.sync()
    return response


def read_retained(cell: Directory, *, request_hash: str, scope_sha256: str) -> dict[str, Any]:
    """Give the response of an open cell; every file is read once, and the bytes that were hashed are used.

    Raises:
        RetailAttemptUnavailable: the attempt is live, interrupted or failed.
        OfficialArenaError: the slot belongs to another request, or its evidence was changed.
    """
    try:
        contents = read_tree(cell)
    except OSError as error:
        raise OfficialArenaError(_DIFFERS) from error
    if PAIR_START not in contents:
        # Nothing was ever acknowledged here, unless somebody removed the start of an attempt that ended.
        if TERMINAL in contents:
            raise OfficialArenaError(_DIFFERS)
        raise RetailAttemptUnavailable(INTERRUPTED_MESSAGE)
    start = parse_object(contents[PAIR_START])
    if start.get("request_hash") != request_hash or start.get("scope_sha256") != scope_sha256:
        raise OfficialArenaError("Retail existing logical cell has a different full request or scope")
    if TERMINAL not in contents:
        raise RetailAttemptUnavailable(INTERRUPTED_MESSAGE)
    terminal = parse_terminal(contents)
    if terminal["request_hash"] != request_hash or terminal["scope_sha256"] != scope_sha256:
        raise OfficialArenaError(_DIFFERS)
    if terminal["status"] != PAIRED_SCORED:
        raise RetailAttemptUnavailable("Retail failed attempt is retained and terminal; automatic retry is forbidden")
    response = parse_object(contents.get(RESPONSE, b"{}"))
    if content_hash(response) != terminal["response_sha256"]:
        raise OfficialArenaError("Retail retained response differs")
    return response


def parse_terminal(contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Give the terminal of a cell whose file map is that of the bytes.

    Raises:
        OfficialArenaError: it was changed, or the files of the cell are not those that it lists.
    """
    raw = contents[TERMINAL]
    try:
        terminal = parse_object(raw)
        is_as_written = evidence_bytes(terminal) == raw
        check_sealed(terminal)
    except (OfficialArenaError, IntegrityError, ValueError) as error:
        raise OfficialArenaError(_DIFFERS) from error
    names = {"protocol", "request_hash", "scope_sha256", "status", "failed_roles", "files", "response_sha256"}
    leftovers = [data for path, data in contents.items() if is_terminal_file(path) and path != TERMINAL]
    if (
        not is_as_written
        or not names <= set(terminal)
        or terminal["protocol"] != TERMINAL_PROTOCOL
        or terminal["files"] != evidence_files(contents)
        or any(data != raw for data in leftovers)
    ):
        raise OfficialArenaError(_DIFFERS)
    return terminal


def cached_response(root: Path, request_hash: str, scope_sha256: str) -> dict[str, Any]:
    """Give the response of an attempt that ended, by the path of its cell; see `retained_response`."""
    try:
        parent = Directory.open(root.parent)
    except OSError as error:
        raise OfficialArenaError("Retail logical attempt directory is invalid") from error
    with parent:
        return retained_response(parent, root.name, request_hash=request_hash, scope_sha256=scope_sha256)


_cached = cached_response  # the documented name
