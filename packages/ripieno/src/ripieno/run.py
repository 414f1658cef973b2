"""One folder per run: what it read, what it was seeded with, what it did and what came out.

    RUN/run.json        the manifest, sealed; replaced once, when the run ends
    RUN/events.jsonl    a hash chain (`ripieno.chain`) of events and artifacts, bound to the manifest
    RUN/...             artifacts, each written once
    RUN/signature.json  optional, by `ripieno sign`

Killed at any moment, a run leaves a folder that verifies as interrupted and holds every event whose call had
returned. User values are stored by the rules of `ripieno._portable.to_portable`: numbers that other languages
would write differently become ``{"$float": "1.0"}`` or ``{"$int": "..."}``; `read_events` and `read_manifest`
give them back exactly.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from ripieno import _environment
from ripieno._layout import (
    EVENTS,
    FORMAT,
    MANIFEST,
    PARTIAL,
    PARTIAL_MANIFEST,
    RunStatus,
    check_artifact_name,
    manifest_bytes,
    opening_hash,
    parse_manifest,
    read_manifest_bytes,
    readable_manifest,
)
from ripieno._portable import from_portable, recordable_text, require_portable_key, to_portable
from ripieno.canonical import content_hash
from ripieno.chain import ChainWriter, FsyncPolicy, walk_chain
from ripieno.errors import InputError, IntegrityError, RipienoError, StorageError
from ripieno.files import CHUNK_BYTES, create_only, sha256_file, sync_directory, write_all, write_atomic
from ripieno.receipts import seal

__all__ = ["Event", "RunStatus", "RunWriter", "environment", "read_events", "read_manifest"]


@dataclass(frozen=True)
class Event:
    """One recorded event: line number in the chain, kind, and the fields as they were given."""

    sequence: int
    kind: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class _PendingArtifact:
    """An artifact between its first byte and its final name; line ``sequence`` records it."""

    sequence: int
    temporary: Path
    final: Path


class RunWriter:
    """Write one run folder. Use it as a context manager and call `finish` at the end of the block.

    Leaving the block without `finish` closes the run as failed (an exception, which is recorded) or
    interrupted (Ctrl-C). All methods may be called from several threads, but only in the process that made
    the writer.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> with RunWriter(folder, system="demo", kind="example", config={"steps": 1}) as run:
        ...     run.event("step", reward=1.0)
        ...     digest = run.finish(summary={"total_reward": 1.0})
        >>> [event.fields for event in read_events(folder)]
        [{'reward': 1.0}]
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        system: str,
        kind: str,
        config: Mapping[str, Any],
        seeds: Mapping[str, int] | None = None,
        inputs: Mapping[str, Path] | None = None,
        durability: FsyncPolicy = "batch",
    ) -> None:
        """Create the folder with its manifest (status ``running``) and an open chain, all at once.

        Args:
            folder: must not exist; missing parents are created.
            system: which system runs, e.g. ``"chamber"``.
            kind: what it runs, e.g. ``"cell"``.
            config: everything that decides what happens, as JSON-like values.
            seeds: root seeds by name.
            inputs: files that are read, by the name under which they are recorded (their paths are not).
            durability: when lines are forced to disk, see `ChainWriter`.

        Raises:
            InputError: the folder exists or cannot be created, an input cannot be read, or a value cannot
                be recorded; nothing was left behind.
        """
        self.folder = _absolute(folder)
        portable_config = _mapping("config", config)
        self._opening: dict[str, Any] = {
            "format": FORMAT,
            "system": _label("system", system),
            "kind": _label("kind", kind),
            "config": portable_config,
            "config_sha256": content_hash(portable_config),
            "seeds": _mapping("seeds", _integers(seeds or {})),
            "inputs": {_input_name(name): _input(name, path) for name, path in (inputs or {}).items()},
            **environment(),
            "git": _environment.git_state(Path()),
            "durability": durability,
            "started_at": _now(),
        }
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._artifacts: dict[str, dict[str, Any]] = {}
        self._pending: _PendingArtifact | None = None
        self._digest: str | None = None
        self._chain = self._create_folder(durability)

    def _create_folder(self, durability: FsyncPolicy) -> ChainWriter:
        """Build the folder under another name and rename it, so that a half-made run never has its name."""
        running = seal({**self._opening, "status": RunStatus.RUNNING.value})
        manifest = manifest_bytes(running)
        # Outside of the block below: in Python 3.12 and 3.13 no handler sees what a tracer raises in a comprehension.
        opening = {"opening": {name: running[name] for name in ("format", "kind", "system")}}
        if os.path.lexists(self.folder):
            raise InputError(f"the run folder {self.folder} exists already; choose another")
        staging = self.folder.with_name(f".{self.folder.name}.{secrets.token_hex(8)}.partial")
        chain: ChainWriter | None = None
        new_parents: list[Path] = []
        try:
            new_parents += (parent for parent in self.folder.parents if not parent.exists())
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            staging.mkdir(mode=0o700)
            chain = ChainWriter(staging / EVENTS, durability, genesis=opening_hash(running))
            chain.append(opening)
            create_only(staging / MANIFEST, manifest)
            staging.rename(self.folder)  # fails when another writer was faster: its folder is not empty
            chain.path = self.folder / EVENTS
            sync_directory(self.folder.parent)
        except BaseException as error:
            if chain is not None:
                chain.abandon()
            shutil.rmtree(staging, ignore_errors=True)
            with suppress(OSError):  # somebody else has put something there
                for parent in new_parents:
                    parent.rmdir()
            cause = error.__cause__ if isinstance(error, StorageError) else error
            if isinstance(cause, OSError) and cause.errno == errno.ENOTEMPTY:
                raise InputError(f"the run folder {self.folder} exists already; choose another") from error
            if isinstance(cause, OSError):
                raise InputError(f"cannot create the run folder {self.folder}: {cause.strerror}") from error
            raise
        return chain

    def event(self, kind: str, /, **fields: Any) -> None:
        """Record one event; when the call returns, the death of this process cannot lose it.

        Raises:
            InputError: a field cannot be recorded; nothing was written.
            StorageError: the file system refused; what was recorded before still holds.
            RipienoError: the run is over.
        """
        payload = {"event": _label("event kind", kind), "fields": to_portable(fields)}
        with self._held():
            self._settle()
            self._chain.append(payload)

    def artifact(self, name: str, content: bytes | str | Path) -> Path:
        """Write a file into the folder, once, and record its hash.

        Args:
            name: relative POSIX path, e.g. ``"figures/lambda.svg"``.
            content: bytes, text (written as UTF-8), or the path of a file to copy.

        Returns:
            The path of the file.

        Raises:
            InputError: a bad or used name, or content that cannot be read; nothing was written.
            StorageError: the file system refused; what was recorded before still holds.
            RipienoError: the run is over.
        """
        final = self.folder / check_artifact_name(name)
        with self._held():
            self._settle()
            self._require_free(name, final)
            sequence = self._chain.sequence
            temporary = self.folder / f"{PARTIAL}{sequence}"
            self._pending = _PendingArtifact(sequence, temporary, final)
            try:
                record = _write_artifact(temporary, content, self.folder)
                self._artifacts[name] = record
                self._chain.append({"artifact": name, **record})
            finally:
                self._settle()
        return final

    def _settle(self) -> None:
        """Bring the last artifact to its final name if the chain records it, else remove what is there.

        Called before every other step, so that an interrupt at any place is made good by the next one.
        """
        pending = self._pending
        if pending is None:
            return
        try:
            if self._chain.sequence == pending.sequence:
                pending.temporary.unlink(missing_ok=True)
                self._artifacts.pop(pending.final.relative_to(self.folder).as_posix(), None)
            elif pending.temporary.exists():
                if self._opening["durability"] != "never":
                    self._chain.sync()  # a file must not outlive the line that explains it
                pending.final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                pending.temporary.rename(pending.final)
                sync_directory(pending.final.parent)
        except OSError as error:
            raise StorageError(f"cannot store {pending.final}: {error.strerror}") from error
        self._pending = None

    def finish(self, *, summary: Mapping[str, Any] | None = None) -> str:
        """Close the run as complete.

        Args:
            summary: the results worth reading first.

        Returns:
            The digest of the run: the SHA-256 of ``run.json``, for pinning it elsewhere.

        Raises:
            InputError: the summary cannot be recorded.
            StorageError: the file system refused; the run stays interrupted, `finish` may be tried again.
            RipienoError: the run is over.
        """
        portable = None if summary is None else _mapping("summary", summary)
        return self._close(RunStatus.COMPLETE, portable, None)

    def _close(self, status: RunStatus, summary: dict[str, Any] | None, error: dict[str, str] | None) -> str:
        with self._held():
            self._settle()
            if self._chain.closing is None:
                closing = {"status": status.value, "summary": summary, "error": error, "ended_at": _now()}
                self._chain.close(closing)
            final = seal(
                {
                    **self._opening,
                    **(self._chain.closing or {}),
                    "artifacts": self._artifacts,
                    "events": {
                        "lines": self._chain.sequence,
                        "head": self._chain.head,
                        "size": self._chain.size,
                    },
                }
            )
            data = manifest_bytes(final)
            try:
                (self.folder / PARTIAL_MANIFEST).unlink(missing_ok=True)
                write_atomic(self.folder / MANIFEST, data, temporary_name=PARTIAL_MANIFEST)
            except OSError as problem:
                raise StorageError(f"cannot finish {self.folder}: {problem.strerror}") from problem
            self._chain.abandon()
            self._digest = hashlib.sha256(data).hexdigest()
            return self._digest

    @contextmanager
    def _held(self) -> Generator[None]:
        """Keep other threads out for one step of an open run."""
        # Before the lock: a fork copies it as it is, and the thread that holds it does not live in the child.
        if os.getpid() != self._process:
            raise RipienoError("a run is written by the process that started it; collect results there")
        with self._lock:
            if self._digest is not None:
                raise RipienoError(f"the run {self.folder} is over; nothing can be added")
            yield

    def _require_free(self, name: str, final: Path) -> None:
        try:
            final.lstat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:  # such as a path that is too long: found out before the chain records it
            raise InputError(f"the artifact name {name[:80]!r} cannot be used: {error.strerror}") from error
        else:
            raise InputError(f"the artifact {name!r} exists already; every artifact is written once")
        for parent in final.relative_to(self.folder).parents:
            if os.path.lexists(self.folder / parent) and not (self.folder / parent).is_dir():
                raise InputError(f"the artifact {name!r} needs the folder {str(parent)!r}, which is a file")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._digest is not None or os.getpid() != self._process:
            return
        status = RunStatus.FAILED if error is None or isinstance(error, Exception) else RunStatus.INTERRUPTED
        try:
            self._close(status, None, _describe(error))
        except RipienoError as problem:
            self._chain.abandon()
            if error is None:
                raise
            error.add_note(f"The end of the run could not be recorded: {problem}")


def _write_artifact(temporary: Path, content: bytes | str | Path, folder: Path) -> dict[str, Any]:
    """Write the bytes durably and give their size and hash."""
    if isinstance(content, Path):
        return _copy_artifact(temporary, content, folder)
    try:
        data = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise InputError(f"text of an artifact must be valid Unicode: {error}") from error
    if not isinstance(cast("object", data), bytes | bytearray):  # the length of an array is not its number of bytes
        raise InputError(f"content of an artifact must be bytes, text or a Path, got {type(data).__name__}")
    try:
        create_only(temporary, data)
    except OSError as error:
        raise StorageError(f"cannot write an artifact into {folder}: {error.strerror}") from error
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _copy_artifact(temporary: Path, source: Path, folder: Path) -> dict[str, Any]:
    resolved = source.resolve()
    if resolved.is_relative_to(folder.resolve()):
        raise InputError(f"{source} lies in the run folder, where only the writer puts files; write it elsewhere")
    digest, size = hashlib.sha256(), 0
    try:
        if not stat.S_ISREG(resolved.stat().st_mode):
            raise InputError(f"{source} must be a regular file")
        reader = io.FileIO(resolved)
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror}") from error
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with reader, io.FileIO(descriptor, "wb") as writer:
            while chunk := reader.read(CHUNK_BYTES):
                write_all(writer, chunk)
                digest.update(chunk)
                size += len(chunk)
            os.fsync(descriptor)
    except OSError as error:
        raise StorageError(f"cannot copy {source} into {folder}: {error.strerror}") from error
    return {"size": size, "sha256": digest.hexdigest()}


def _input_name(name: object) -> str:
    label = _label("input name", name)
    require_portable_key("input name", label)
    return label


def _input(name: str, path: Path) -> dict[str, Any]:
    try:
        resolved = Path(path).resolve(strict=True)
        return {"size": resolved.stat().st_size, "sha256": sha256_file(resolved)}
    except (OSError, IntegrityError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a regular file"
        raise InputError(f"input {name!r} ({path}) cannot be read: {reason}") from error


def _label(what: str, value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InputError(f"{what} must be a non-empty printable string, got {value!r:.80}")
    return str.__str__(value)


def _absolute(folder: Path | str) -> Path:
    try:
        return Path(folder).absolute()
    except OSError as error:  # the working directory is gone
        raise InputError(f"cannot create the run folder {folder}: {error.strerror}") from error


def _integers(seeds: object) -> object:
    if isinstance(seeds, Mapping):
        for name, seed in cast("Mapping[object, object]", seeds).items():
            if not hasattr(seed, "__index__"):
                raise InputError(f"the seed {name!r} must be an integer, got {seed!r:.80}")
    return seeds


def _mapping(what: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{what} must be a mapping, got {type(value).__name__}")
    return to_portable(value)


def _describe(error: BaseException | None) -> dict[str, str] | None:
    if error is None:
        return {"type": "Unfinished", "message": "the block ended without a call of finish()"}
    return {"type": type(error).__name__, "message": recordable_text(str(error))}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def environment() -> dict[str, Any]:
    """Give what a run records of where it runs: package ``versions`` and the ``machine`` with its processor."""
    return {"versions": _environment.package_versions(), "machine": _environment.machine()}


def read_events(folder: Path | str) -> Iterator[Event]:
    """Give the events of a run one by one, each line checked against the one before.

    A half-written last line of an interrupted run is left out. Use `ripieno.verify` to check the whole run.

    Raises:
        InputError: no run folder.
        IntegrityError: a line does not hold.
    """
    try:
        for entry in walk_chain(Path(folder) / EVENTS, genesis=None):
            if "event" in entry.payload:
                yield Event(entry.sequence, entry.payload["event"], from_portable(entry.payload["fields"]))
    except OSError as error:
        raise InputError(f"{folder} is not a run folder: {error.strerror}") from error


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """Give ``run.json`` of a run, its seal checked and the numbers of the user decoded.

    Raises:
        InputError: no run folder.
        IntegrityError: the manifest does not hold.
    """
    try:
        data = read_manifest_bytes(Path(folder))
    except OSError as error:
        raise InputError(f"{folder} is not a run folder: {error.strerror}") from error
    return readable_manifest(parse_manifest(data))
