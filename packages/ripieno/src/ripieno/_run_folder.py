"""The verifier of run folders: manifest, chain of events, every file, signature."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ripieno._layout import (
    CLOSING_MEMBERS,
    EVENTS,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    PARTIAL,
    PARTIAL_MANIFEST,
    SIGNATURE,
    RunStatus,
    check_artifact_name,
    opening_hash,
    parse_manifest,
    read_manifest_bytes,
)
from ripieno._verdict import Check, SignatureState, VerifyOptions, VerifyReport, VerifyStatus
from ripieno.chain import ChainBroken, ChainReport, Entry, verify_chain
from ripieno.errors import InputError, IntegrityError
from ripieno.files import FileRecord, list_tree, open_regular, sha256_file
from ripieno.signing import MAX_DETACHED_BYTES, PublicKey, check_detached_signature

MARK = b'"ripieno.run/'
"""Both the manifest and line 1 of the events hold it, so that damage to one of them does not hide the run."""
MAX_FIRST_LINE_BYTES = 2**16


class RunFolderVerifier:
    """Verifies what `ripieno.run.RunWriter` writes."""

    name = "run folder"

    def recognises(self, path: Path) -> bool:
        """Tell whether the manifest or the events say that this is, or was, a run folder."""
        return path.is_dir() and (
            _holds_mark(path / MANIFEST, MAX_MANIFEST_BYTES) or _holds_mark(path / EVENTS, MAX_FIRST_LINE_BYTES)
        )

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        """Check everything; memory grows with the manifest, never with the size of artifacts or the number of events.

        Raises:
            InputError: the reader lacks a permission.
        """
        folder = _RunFolder(path, options.public_key)
        steps = (
            ("manifest", folder.check_manifest),
            ("events", folder.check_events),
            ("files", folder.check_files),
            ("hashes", folder.check_hashes),
            ("signature", folder.check_signature),
        )
        rows: list[Check] = []
        for name, step in steps:
            try:
                rows.append(Check(name, ok=True, detail=step()))
            except (IntegrityError, InputError) as error:
                rows.append(Check(name, ok=False, detail=str(error)))
            except PermissionError as error:  # what may not be read is not known to be changed
                raise InputError(f"cannot read {error.filename or path}: {error.strerror}") from error
            except OSError as error:
                file = Path(os.fsdecode(error.filename)).name if error.filename else path.name
                rows.append(Check(name, ok=False, detail=f"{file}: {error.strerror}"))
            if not rows[-1].ok:
                break  # later steps build on what does not hold
        problem = "" if rows[-1].ok else rows[-1].detail
        status = VerifyStatus.TAMPERED if problem else folder.status
        return VerifyReport(str(path), self.name, status, folder.digest, tuple(rows), problem, folder.signature)


def _holds_mark(path: Path, n_bytes: int) -> bool:
    try:
        with open_regular(path) as stream:
            return MARK in stream.read(n_bytes)
    except PermissionError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (OSError, IntegrityError):
        return False


@dataclass
class _RunFolder:
    """What is known about one folder; each step uses what the steps before found and gives a row's text."""

    path: Path
    public_key: PublicKey | None
    status: VerifyStatus = VerifyStatus.INTERRUPTED
    digest: str = ""
    signature: SignatureState = SignatureState.ABSENT
    manifest: dict[str, Any] = field(default_factory=dict[str, Any])
    artifacts: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    entries: list[tuple[str, os.stat_result]] = field(default_factory=list[tuple[str, os.stat_result]])
    last_artifact: tuple[int, str] = (-1, "")
    n_events: int = 0
    n_lines: int = 0

    def check_manifest(self) -> str:
        data = read_manifest_bytes(self.path)
        self.digest = hashlib.sha256(data).hexdigest()
        self.manifest = parse_manifest(data)
        if not self._is_running():
            self.status = VerifyStatus(self.manifest["status"])
        return f"{self.manifest['system']} {self.manifest['kind']}, started {self.manifest['started_at']}"

    def check_events(self) -> str:
        # Listed before the events are read: the writer of a living run may publish a file at any moment, but
        # only after the line that records it.
        self.entries = list(list_tree(self.path))
        try:
            chain = verify_chain(self.path / EVENTS, genesis=opening_hash(self.manifest), visit=self._take)
        except ChainBroken as error:
            raise IntegrityError(f"{EVENTS} {error}") from error
        if chain.entries == 0:
            raise IntegrityError(f"{EVENTS} line 1 (bytes 0 to {chain.size}): the opening record is missing")
        self.n_lines = chain.entries
        if self._is_running():
            # run.json was written before the events: only together with the last line do they say all.
            self.digest = hashlib.sha256(f"{self.digest} {chain.head}".encode()).hexdigest()
        else:
            self._compare_with_manifest(chain)
        torn = f", half a line of {chain.torn_bytes} bytes left out" if chain.torn_bytes else ""
        return f"{self.n_events} events and {len(self.artifacts)} artifacts in {chain.entries} lines{torn}"

    def _take(self, entry: Entry) -> None:
        """Check the content of one line of the chain and note what it records."""
        payload = entry.payload
        if entry.closing:
            return
        if entry.sequence == 0:
            expected = {"opening": {name: self.manifest[name] for name in ("format", "kind", "system")}}
            valid = payload == expected
        elif "artifact" in payload:
            valid = self._take_artifact(entry)
        else:
            valid = set(payload) == {"event", "fields"} and isinstance(payload["fields"], dict)
            self.n_events += 1
        if not valid:
            raise IntegrityError(f"{EVENTS} line {entry.sequence + 1}: not a record of a run")

    def _take_artifact(self, entry: Entry) -> bool:
        name, size, sha256 = (entry.payload.get(key) for key in ("artifact", "size", "sha256"))
        if not (isinstance(name, str) and type(size) is int and isinstance(sha256, str)):
            return False
        try:
            check_artifact_name(name)
        except InputError as error:
            raise IntegrityError(f"{EVENTS} line {entry.sequence + 1}: {error}") from error
        is_new = name not in self.artifacts
        self.artifacts[name] = FileRecord(name, size, sha256)
        self.last_artifact = (entry.sequence, name)
        return is_new and len(entry.payload) == 3

    def _compare_with_manifest(self, chain: ChainReport) -> None:
        if chain.closing is None:
            raise IntegrityError(f"{EVENTS} ends at byte {chain.size} without the closing record")
        if dict(chain.closing) != {name: self.manifest[name] for name in CLOSING_MEMBERS}:
            raise IntegrityError(f"{EVENTS} line {chain.entries}: the closing record is not the one of {MANIFEST}")
        found = {"lines": chain.entries, "head": chain.head, "size": chain.size}
        if self.manifest["events"] != found:
            raise IntegrityError(f"{EVENTS} is not the one of {MANIFEST}: its last line has hash {chain.head}")
        recorded = {name: {"size": file.size, "sha256": file.sha256} for name, file in self.artifacts.items()}
        if self.manifest["artifacts"] != recorded:
            raise IntegrityError(f"{MANIFEST}: the artifacts are not those that {EVENTS} records")

    def check_files(self) -> str:
        folders = {parent.as_posix() for name in self.artifacts for parent in PurePosixPath(name).parents}
        missing = dict(self.artifacts)
        partial = ""
        for name, status in self.entries:
            if stat.S_ISDIR(status.st_mode) and name in folders:
                continue
            if not stat.S_ISREG(status.st_mode):
                is_known = name in self.artifacts or name in (MANIFEST, EVENTS, SIGNATURE)
                verb = "replaced by" if is_known else "added:"
                raise IntegrityError(f"{name}: {verb} a {_kind_of_entry(status.st_mode)}")
            if name in missing:
                _require_size(missing.pop(name), status)
            elif self._may_be_left_over(name) and not partial:
                partial = name
            elif name not in (MANIFEST, EVENTS, SIGNATURE):
                raise IntegrityError(f"{name}: added; no line of {EVENTS} records it")
        for name in sorted(missing):
            self._require_late_artifact(missing[name])
        note = f"; {partial} is what the writer had not finished" if partial else ""
        return f"nothing added, missing or replaced{note}"

    def _is_running(self) -> bool:
        return self.manifest["status"] == RunStatus.RUNNING

    def _may_be_left_over(self, name: str) -> bool:
        """Tell whether a writer that was killed can have left this file: one unfinished file, and no other."""
        if not self._is_running() or not name.startswith(PARTIAL):
            return False
        number = name.removeprefix(PARTIAL)
        recorded = self.n_lines - 1  # the line that records the artifact may be there already, as the last one
        is_latest = number.isascii() and number.isdigit() and str(int(number)) == number and int(number) >= recorded
        has_gone = not os.path.lexists(self.path / name)  # a living writer has finished it in the meantime
        return name == PARTIAL_MANIFEST or is_latest or has_gone

    def _require_late_artifact(self, record: FileRecord) -> None:
        """Find an artifact that got its name after the files were listed, or whose writer died just before that.

        Raises:
            IntegrityError: it is missing.
        """
        sequence, last = self.last_artifact
        names = [record.path, f"{PARTIAL}{sequence}", record.path] if record.path == last else [record.path]
        for name in names if self._is_running() else []:
            try:
                status = (self.path / name).lstat()
            except FileNotFoundError:
                continue
            _require_size(record, status)
            self.artifacts[record.path] = replace(record, path=name)
            return
        raise IntegrityError(f"{record.path}: missing")

    def check_hashes(self) -> str:
        for name, record in sorted(self.artifacts.items()):
            try:
                sha256 = sha256_file(self.path / record.path)
            except FileNotFoundError:
                sha256 = sha256_file(self.path / name)  # a living writer has given it its name in the meantime
            if sha256 != record.sha256:
                raise IntegrityError(f"{name}: changed; its SHA-256 is {sha256}, recorded is {record.sha256}")
        n_bytes = sum(record.size for record in self.artifacts.values())
        return f"{len(self.artifacts)} artifacts, {n_bytes} bytes"

    def check_signature(self) -> str:
        path = self.path / SIGNATURE
        if not os.path.lexists(path):
            return f"{SignatureState.ABSENT.value}; pin the digest elsewhere and give it with --expect"
        self.signature = SignatureState.INVALID
        with open_regular(path) as stream:
            data = stream.read(MAX_DETACHED_BYTES + 1)
        try:
            signer = check_detached_signature(data, self.digest, self.public_key)
        except IntegrityError as error:
            raise IntegrityError(f"{SIGNATURE}: {error}") from error
        self.signature = SignatureState.UNCHECKED if self.public_key is None else SignatureState.VALID
        return f"{self.signature.value} ({signer})"


def _require_size(record: FileRecord, status: os.stat_result) -> None:
    if status.st_size != record.size:
        raise IntegrityError(f"{record.path}: {status.st_size} bytes long, recorded are {record.size}")


def _kind_of_entry(mode: int) -> str:
    kinds = (("link", stat.S_ISLNK), ("folder", stat.S_ISDIR), ("pipe", stat.S_ISFIFO), ("socket", stat.S_ISSOCK))
    return next((name for name, matches in kinds if matches(mode)), "device")
