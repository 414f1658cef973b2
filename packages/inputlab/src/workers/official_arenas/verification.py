"""What ``ripieno verify`` looks at in capture roots, inventory snapshots, single cells and ledgers of pairs.

A verification reads every file once, follows no link, and names the first thing that does not hold. It needs neither
the scope nor the place where the folder was written, so a copied folder verifies too.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.state import FrozenAgentState
from ripieno._verdict import Check, VerifyOptions, VerifyReport, VerifyStatus
from ripieno.errors import InputError
from ripieno.files import list_tree
from workers.official_arenas import _cell_check, _snapshot_check
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import (
    Directory,
    evidence_bytes,
    is_leftover,
    parse_object,
    read_tree,
    sha256_bytes,
)
from workers.official_arenas._first_capture import (
    CAPTURE_FAILED,
    RECEIPT_NAME,
    START_NAME,
    parse_receipt,
    receipt_name,
    start_name,
    start_record,
)
from workers.official_arenas._modes import is_file_or_directory, mode_problem, modes_row
from workers.official_arenas._pair_ledger import PAIR_START, TERMINAL
from workers.official_arenas._rejections import REJECTION_NAME
from workers.official_arenas._score_check import score_problem
from workers.official_arenas._written import RequestReading
from workers.official_arenas.protocol import content_hash

__all__ = [
    "INPUT_LAB_VERIFIER",
    "InputLabVerifier",
    "verify_capture_root",
    "verify_cell",
    "verify_ledger_root",
    "verify_snapshot",
]

CELL_FORMAT = "input-lab pair"
LEDGER_FORMAT = "input-lab pair ledger"
CAPTURE_FORMAT = "input-lab capture"
SNAPSHOT_FORMAT = "input-lab inventory"

_CELL_NAME = re.compile(r"[0-9a-f]{64}")
_SNAPSHOT_NAME = re.compile(r"inventory-[0-9a-f]{64}")


@dataclass
class _Findings:
    """Rows of a report while it is made."""

    rows: list[Check] = field(default_factory=list[Check])

    def holds(self, name: str, detail: str) -> None:
        self.rows.append(Check(name, ok=True, detail=detail))

    def broken(self, name: str, detail: str) -> None:
        self.rows.append(Check(name, ok=False, detail=detail))

    @property
    def problem(self) -> str:
        return next((f"{row.name}: {row.detail}" for row in self.rows if not row.ok), "")

    def report(self, path: Path, form: str, status: VerifyStatus, digest: str) -> VerifyReport:
        problem = self.problem
        verdict = VerifyStatus.TAMPERED if problem else status
        return VerifyReport(str(path), form, verdict, "" if problem else digest, tuple(self.rows), problem)


class InputLabVerifier:
    """The four kinds of folders that capture and the paired driver write."""

    @property
    def name(self) -> str:
        """Name of the format."""
        return "input-lab ledger"

    def recognises(self, path: Path) -> bool:
        """Tell whether a folder holds, or once held, evidence of captures or pairs."""
        return _kind_of(path) is not None

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        """Check every file.

        Raises:
            InputError: the reader lacks a permission.
        """
        check = _kind_of(path)
        if check is None:
            raise InputError(f"{path} holds no evidence of captures or pairs")
        return check(path)


def _kind_of(path: Path) -> Callable[[Path], VerifyReport] | None:
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            return None
        names = {entry.name for entry in path.iterdir()}
    except PermissionError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except OSError:
        return None
    is_cell = bool({PAIR_START, TERMINAL} & names) or (_CELL_NAME.fullmatch(path.name) is not None and not names)
    has_captures = any(RECEIPT_NAME.fullmatch(name) or START_NAME.fullmatch(name) for name in names)
    has_snapshots = any(_SNAPSHOT_NAME.fullmatch(name) for name in names)
    kinds: tuple[tuple[bool, Callable[[Path], VerifyReport]], ...] = (
        (is_cell, verify_cell),
        (has_captures, verify_capture_root),
        (_snapshot_check.DISPOSITIONS in names, verify_snapshot),
        (has_snapshots, verify_capture_root),
        (any(_CELL_NAME.fullmatch(name) and _is_cell(path / name) for name in names), verify_ledger_root),
    )
    return next((check for fits, check in kinds if fits), None)


def _is_cell(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    names = {entry.name for entry in path.iterdir()}
    return not names or bool({PAIR_START, TERMINAL, *_cell_check.ROLE_NAMES} & names)


INPUT_LAB_VERIFIER = InputLabVerifier()
"""The entry point of the group ``ripieno.verifiers``."""


# --- cells and ledgers --------------------------------------------------------------------------------------


def verify_cell(path: Path) -> VerifyReport:
    """Verify the ledger of one pair.

    Returns:
        ``complete`` for a scored pair, ``failed`` for one whose failure was recorded, ``interrupted`` for one that
        never ended, ``tampered`` otherwise. The digest is the hash of ``{path: sha256}`` of its files.

    Raises:
        InputError: the reader lacks a permission.
    """
    return verified_cell(Path(path))[0]


def verified_cell(path: Path, *, request: RequestReading | None = None) -> tuple[VerifyReport, _cell_check.CellResult]:
    """Verify the ledger of one pair and give what its files say, too.

    Args:
        path: of the ledger.
        request: of the pair as it was read elsewhere, see `check_cell`.

    Raises:
        InputError: the reader lacks a permission.
    """
    findings, result = _Findings(), _cell_check.CellResult()
    contents = _contents(path, findings)
    if contents is not None:
        name = path.absolute().name
        cell_id = name if _CELL_NAME.fullmatch(name) else None
        result = _cell_check.check_cell(contents, cell_id=cell_id, request=request)
        findings.rows.extend(result.rows)
        if not findings.problem and (unsupported := score_problem(contents)):
            findings.broken(*unsupported)
    digest = content_hash(_without_leftovers(result.hashes))
    return findings.report(path, CELL_FORMAT, result.status, digest), result


def verify_ledger_root(path: Path) -> VerifyReport:
    """Verify every pair below a ledger root.

    A ledger does not know which pairs were to be played: a pair that is missing as a whole shows only in the digest,
    and in a campaign, which lists its pairs.

    Returns:
        ``complete`` when every pair was scored, ``failed`` when one failed, ``interrupted`` when one never ended.
        The digest is the hash of ``{cell id: digest}``.

    Raises:
        InputError: the reader lacks a permission.
    """
    findings, statuses, digests = _Findings(), list[VerifyStatus](), dict[str, str]()
    owners: dict[str, str] = {}
    for name in _names(path, findings):
        if _CELL_NAME.fullmatch(name) is None:
            if name != REJECTION_NAME and not is_leftover(name):
                findings.broken("ledger", f"{name} was added")
            continue
        report, result = verified_cell(path / name)
        statuses.append(report.status)
        digests[name] = report.digest
        if not report.ok:
            findings.broken(f"pair {name}", report.first_problem)
        for nonce in result.nonces:
            if owners.setdefault(nonce, name) != name:
                findings.broken(f"pair {name}", f"holds a runtime of pair {owners[nonce]}")
    counts = {status: statuses.count(status) for status in (VerifyStatus.COMPLETE, VerifyStatus.FAILED)}
    interrupted = statuses.count(VerifyStatus.INTERRUPTED)
    findings.holds("pairs", f"{len(statuses)}: {', '.join(_counted(counts, interrupted))}")
    status = VerifyStatus.COMPLETE if statuses else VerifyStatus.INTERRUPTED
    if counts[VerifyStatus.FAILED]:
        status = VerifyStatus.FAILED
    if interrupted:
        status = VerifyStatus.INTERRUPTED
    return findings.report(path, LEDGER_FORMAT, status, content_hash(digests))


def _counted(counts: Mapping[VerifyStatus, int], interrupted: int) -> list[str]:
    words = {VerifyStatus.COMPLETE: "scored", VerifyStatus.FAILED: "failed"}
    return [*(f"{counts[status]} {word}" for status, word in words.items()), f"{interrupted} interrupted"]


# --- captures -----------------------------------------------------------------------------------------------


def verify_snapshot(path: Path, *, require_private: bool = False) -> VerifyReport:
    """Verify one inventory snapshot by itself; whether its receipts still exist shows only in their root.

    Args:
        path: of the snapshot.
        require_private: whether one that others can read or change is refused, as it is before it is used.

    Returns:
        ``complete`` when every task was captured, ``failed`` when a capture failed, ``interrupted`` when one never
        ended. The digest is the one in the folder's name.

    Raises:
        InputError: the reader lacks a permission.
    """
    findings = _Findings()
    contents = _contents(path, findings, require_private=require_private)
    status, digest = VerifyStatus.INTERRUPTED, ""
    if contents is not None:
        result = _snapshot_check.check_snapshot(contents, name=path.absolute().name)
        findings.rows.extend(result.rows)
        status, digest = result.status, result.digest
    return findings.report(path, SNAPSHOT_FORMAT, status, digest)


def verify_capture_root(path: Path) -> VerifyReport:
    """Verify receipts of first messages and the snapshots that were made of them.

    Returns:
        ``complete`` when every task was captured and a snapshot says so, ``failed`` when a capture failed,
        ``interrupted`` when a capture never ended or no snapshot covers the receipts. The digest is the hash of
        ``{path: sha256}`` of all evidence.

    Raises:
        InputError: the reader lacks a permission.
    """
    findings = _Findings()
    contents = _contents(path, findings)
    if contents is None:
        return findings.report(path, CAPTURE_FORMAT, VerifyStatus.INTERRUPTED, "")
    state = _CaptureState()
    snapshots: dict[str, dict[str, bytes]] = {}
    for name, data in contents.items():
        top, _, below = name.partition("/")
        if below and _SNAPSHOT_NAME.fullmatch(top):
            snapshots.setdefault(top, {})[below] = data
        elif match := RECEIPT_NAME.fullmatch(name):
            state.take_receipt(match[1], data, findings)
        elif match := START_NAME.fullmatch(name):
            state.starts[match[1]] = data
        elif name != REJECTION_NAME and not is_leftover(top):
            findings.broken("capture", f"{name} was added")
    state.check_starts(findings)
    is_current = False
    for name in sorted({*snapshots, *_empty_snapshots(path, snapshots)}):
        result = _snapshot_check.check_snapshot(snapshots.get(name, {}), name=name)
        findings.rows.extend(Check(f"{name[:18]}.../{row.name}", row.ok, row.detail) for row in result.rows)
        if result.document is not None:
            is_current |= state.agrees_with(result, findings, name)
    findings.holds("receipts", f"{len(state.receipts)} of {len(state.starts)} started captures ended")
    findings.holds("snapshots", f"{len(snapshots)}; the receipts are {'' if is_current else 'not yet '}all in one")
    digest = content_hash(_without_leftovers({name: sha256_bytes(data) for name, data in contents.items()}))
    return findings.report(path, CAPTURE_FORMAT, state.status(is_current=is_current), digest)


def _empty_snapshots(path: Path, snapshots: Mapping[str, object]) -> list[str]:
    """Snapshots without any file, which a listing of files does not show."""
    return [
        entry.name for entry in path.iterdir() if _SNAPSHOT_NAME.fullmatch(entry.name) and entry.name not in snapshots
    ]


@dataclass
class _CaptureState:
    """Starts and receipts of a capture root."""

    starts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    hashes: dict[str, str] = field(default_factory=dict[str, str])

    def take_receipt(self, task_id: str, data: bytes, findings: _Findings) -> None:
        try:
            self.receipts[task_id] = parse_receipt(data, binding=None, task_id=task_id)
        except OfficialArenaError:
            findings.broken(receipt_name(task_id), "was changed")
            return
        self.hashes[receipt_name(task_id)] = sha256_bytes(data)

    def check_starts(self, findings: _Findings) -> None:
        bindings = {str(receipt["config_binding"]) for receipt in self.receipts.values()}
        for data in self.starts.values():
            bindings.add(_binding_of_start(data))
        if len(bindings) > 1:
            findings.broken("capture", "receipts of different configs lie in one root, or a start was changed")
            return
        for task_id in self.receipts:
            if task_id not in self.starts:
                findings.broken(start_name(task_id), "is missing")
        for task_id, data in self.starts.items():
            if data != evidence_bytes(start_record(next(iter(bindings)), task_id)):
                findings.broken(start_name(task_id), "was changed")
            self.hashes[start_name(task_id)] = sha256_bytes(data)

    def agrees_with(self, result: _snapshot_check.SnapshotResult, findings: _Findings, name: str) -> bool:
        """Check a snapshot against the files; tell whether it speaks of all of them as they are now."""
        document = cast("Mapping[str, Any]", result.document)
        is_current = set(self.starts) <= set(document["expected_task_ids"])
        for file, digest in document["receipt_files"].items():
            if file not in self.hashes:
                findings.broken(file, f"is missing, {name} lists it")
            elif self.hashes[file] != digest:
                findings.broken(file, f"was changed since {name} was made")
        for row in document["dispositions"]:
            receipt = self.receipts.get(row["task_id"])
            if row["status"] == "reserved_unresolved":
                is_current &= receipt is None
            elif receipt is not None and (receipt["terminal"], receipt["receipt_sha256"]) != (
                row["status"],
                row["receipt_sha256"],
            ):
                findings.broken(name, f"says of task {row['task_id']} what its receipt does not")
        for task_id, protected in result.protected.items():
            receipt = self.receipts.get(task_id)
            if receipt is not None and receipt.get("record", {}).get("protected") != protected:
                findings.broken(name, f"replays another record of task {task_id} than its receipt")
            elif receipt is not None and _shown(receipt["record"]) != result.visible[task_id]:
                findings.broken(name, f"shows another state of task {task_id} than its receipt")
        return is_current

    def status(self, *, is_current: bool) -> VerifyStatus:
        if not is_current or len(self.receipts) < len(self.starts):
            return VerifyStatus.INTERRUPTED
        has_failed = any(receipt["terminal"] == CAPTURE_FAILED for receipt in self.receipts.values())
        return VerifyStatus.FAILED if has_failed else VerifyStatus.COMPLETE


def _shown(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give the state of a captured record as an inventory shows it, or None when it is no state."""
    try:
        return FrozenAgentState.from_dict(record["visible_state"]).canonical_dict()
    except (ValidationError, LookupError, TypeError, ValueError):
        return None


def _binding_of_start(data: bytes) -> str:
    try:
        return str(parse_object(data).get("config_binding"))
    except OfficialArenaError:
        return "unreadable"


# --- files --------------------------------------------------------------------------------------------------


def _contents(path: Path, findings: _Findings, *, require_private: bool = False) -> dict[str, bytes] | None:
    """Give relative path -> bytes of all files, or None when the folder itself is not what it must be."""
    try:
        with Directory.open(path, durable=False) as directory:
            _check_modes(path, findings, require_private=require_private)
            if findings.problem:
                return None
            return read_tree(directory)
    except PermissionError as error:
        raise InputError(f"cannot read {error.filename or path}: {error.strerror}") from error
    except OSError as error:
        findings.broken("folder", f"{path.name} is no directory, or a link: {error.strerror}")
    except OfficialArenaError as error:
        findings.broken("folder", str(error))
    return None


def _check_modes(path: Path, findings: _Findings, *, require_private: bool) -> None:
    """Links are no evidence; modes are none either: they keep others out while a run is written."""
    found = [("modes", mode_problem(path.name, path.lstat()))]
    for name, status in list_tree(path):
        if is_file_or_directory(status):
            found.append(("modes", mode_problem(name, status)))
        else:
            found.append(("files", f"{name} is a link or a special file"))
    for name, problem in found:
        if problem and (require_private or name == "files"):
            findings.broken(name, problem)
    if not findings.problem:
        findings.rows.append(modes_row(path, [problem for _, problem in found if problem]))


def _names(path: Path, findings: _Findings) -> list[str]:
    try:
        names = sorted(entry.name for entry in path.iterdir())
        found = [(path.name, path.lstat()), *list_tree(path)]
    except PermissionError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    problems = [mode_problem(name, status) for name, status in found if is_file_or_directory(status)]
    findings.rows.append(modes_row(path, [problem for problem in problems if problem]))
    return names


def _without_leftovers(hashes: Mapping[str, str]) -> dict[str, str]:
    """Leave out notes and leftovers, which are no evidence."""
    return {
        name: digest
        for name, digest in hashes.items()
        if name != REJECTION_NAME and not any(map(is_leftover, name.split("/")))
    }
