"""Append-only logs in which every line vouches for the one before.

A chain is a file of JSON lines. Each line is the canonical JSON of one of

    {"hash": H, "payload": {...}, "previous": P, "sequence": N}       a record
    {"hash": H, "closing": {...}, "previous": P, "sequence": N}       the last line of a closed chain

where ``hash`` is the SHA-256 of the canonical JSON of the other members, ``previous`` the hash of the line
before (for line 0 a genesis hash that the owner chooses) and ``sequence`` counts from 0. Any change, removal or
reordering of lines breaks the chain at a line that can be named. What a chain alone cannot show is that its
end was cut off before it was closed, or that somebody rewrote it from some line on: pin the hash of the last
line elsewhere (a run folder does so in ``run.json``).

A chain whose lines look otherwise, because a document pins them, is a `LineFormat` of its package; writing,
locking, durability, continuing and walking are the same for all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn, Self, cast

from ripieno.canonical import canonical_json, content_hash, parse_canonical, refuse_deep_nesting
from ripieno.errors import InputError, IntegrityError, RipienoError, StorageError
from ripieno.files import open_regular, sync_directory

__all__ = [
    "CANONICAL_LINES",
    "GENESIS",
    "MAX_LINE_BYTES",
    "ChainBroken",
    "ChainReport",
    "ChainWriter",
    "Entry",
    "FsyncPolicy",
    "LineFormat",
    "is_being_written",
    "require_torn",
    "verify_chain",
    "walk_chain",
]

FsyncPolicy = Literal["always", "batch", "never"]

GENESIS = "0" * 64
"""What line 0 names as its predecessor unless the owner binds the chain to something."""
BATCH_LINES = 32
"""With the policy ``batch``, lines between two calls of fsync."""
MAX_LINE_BYTES = 16 * 2**20
"""Longest line, so that a reader needs bounded memory, unless a format says otherwise."""


@dataclass(frozen=True)
class Entry:
    """One line of a chain.

    Attributes:
        sequence: line number, from 0.
        payload: what was recorded.
        hash: SHA-256 that the next line names as its predecessor.
        closing: whether this is the closing record.
    """

    sequence: int
    payload: Mapping[str, Any]
    hash: str
    closing: bool = False


class ChainBroken(IntegrityError):  # noqa: N818 - it names what was found
    """A line of a chain does not hold.

    Attributes:
        line: number of the first bad line, from 1, as editors count.
        start: offset of its first byte.
        end: offset after its last byte.
        reason: what is wrong with it.
    """

    def __init__(self, line: int, start: int, end: int, reason: str) -> None:
        super().__init__(f"line {line} (bytes {start} to {end}): {reason}")
        self.line, self.start, self.end, self.reason = line, start, end, reason


@dataclass(frozen=True)
class ChainReport:
    """What a whole chain amounts to.

    Attributes:
        entries: number of lines that hold, the closing record included.
        head: hash of the last one (the genesis hash of an empty chain).
        closing: content of the closing record, or ``None`` when the chain is still open.
        size: bytes in the file.
        torn_bytes: bytes after the last whole line: a write that was interrupted. They are no evidence.
    """

    entries: int
    head: str
    closing: Mapping[str, Any] | None
    size: int
    torn_bytes: int


class LineFormat(ABC):
    """How the records of a chain lie in its file.

    The writer and the walk know nothing else about lines. A line need not be text: a format that frames its
    records otherwise overrides `read`.

    Attributes:
        preamble: bytes that every file of the format begins with.
        max_line_bytes: longest line that is written or read.
    """

    preamble: bytes = b""
    max_line_bytes: int = MAX_LINE_BYTES

    def read(self, stream: BinaryIO) -> bytes:
        """Take the bytes of the next line, or what there is of it; nothing at the end of the file.

        Never takes more than ``max_line_bytes + 1`` bytes.
        """
        return stream.readline(self.max_line_bytes + 1)

    @abstractmethod
    def encode(self, payload: Mapping[str, Any], previous: str, sequence: int, *, closing: bool) -> tuple[bytes, str]:
        """Give the bytes of one line, its end included, and its hash.

        Raises:
            InputError: the format cannot say the payload.
        """

    @abstractmethod
    def check(self, line: bytes, previous: str | None, sequence: int) -> Entry | None:
        """Check one line; ``None`` stands for the half line of a write that was interrupted.

        Args:
            line: what `read` gave.
            previous: what the line must name as its predecessor; ``None`` takes what it names.
            sequence: its number, from 0.

        Raises:
            InputError: it is no line of this format.
            IntegrityError: it is one and does not hold.
        """


class _CanonicalLines(LineFormat):
    """The lines that the head of this module describes."""

    def encode(self, payload: Mapping[str, Any], previous: str, sequence: int, *, closing: bool) -> tuple[bytes, str]:
        if closing:
            body = {"closing": dict(payload), "previous": previous, "sequence": sequence}
            digest = content_hash(body)
            return canonical_json({**body, "hash": digest}) + b"\n", digest
        text = canonical_json({"payload": dict(payload), "previous": previous, "sequence": sequence})
        digest = hashlib.sha256(text).hexdigest()
        # `hash` sorts before the other members, so that it goes to the front of their text.
        return b'{"hash":"%b",%b\n' % (digest.encode(), text[1:]), digest

    def check(self, line: bytes, previous: str | None, sequence: int) -> Entry | None:
        if not line.endswith(b"\n"):
            require_torn(line, ('{"hash":"', '{"closing":{'))
            return None
        value = parse_canonical(line[:-1])
        keys = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
        member = "closing" if "closing" in keys else "payload"
        if keys != {"hash", member, "previous", "sequence"} or not isinstance(value[member], dict):
            raise IntegrityError("not a record of a chain")
        if type(value["sequence"]) is not int or value["sequence"] != sequence:
            raise IntegrityError(f"sequence is {value['sequence']!r:.40}, expected {sequence}")
        if previous is not None and value["previous"] != previous:
            raise IntegrityError(f"previous is {value['previous']!r:.80}, expected {previous}")
        digest = content_hash({key: item for key, item in value.items() if key != "hash"})
        if value["hash"] != digest:
            raise IntegrityError(f"hash is {value['hash']!r:.80}, the content gives {digest}")
        return Entry(sequence, value[member], digest, closing=member == "closing")


CANONICAL_LINES: LineFormat = _CanonicalLines()
"""The format of every chain whose owner names no other."""


class ChainWriter:
    """Write a chain; each line is handed to the operating system before `append` returns.

    A line that was acknowledged survives the death of this process; with ``fsync="always"`` also that of the
    machine, with ``"batch"`` all but the last 31 lines do, with ``"never"`` the operating system decides.
    """

    def __init__(
        self,
        path: Path | str,
        fsync: FsyncPolicy = "batch",
        *,
        genesis: str = GENESIS,
        line_format: LineFormat = CANONICAL_LINES,
    ) -> None:
        """Create the file, which must not exist.

        Raises:
            InputError: unknown policy.
            FileExistsError: the file exists.
            StorageError: the file system refused what a file of the format begins with.
        """
        self._begin(path, fsync, os.O_CREAT | os.O_EXCL, line_format)
        # Replaced as one object, so that an interrupt sees the state before a line or after it.
        self._end = _End(sequence=0, head=genesis, offset=0)
        try:
            sync_directory(self.path.parent)
            self._write_preamble()
        except BaseException:
            self.abandon()
            raise

    @classmethod
    def resume(
        cls,
        path: Path | str,
        fsync: FsyncPolicy = "batch",
        *,
        genesis: str = GENESIS,
        line_format: LineFormat = CANONICAL_LINES,
        visit: Callable[[Entry], None] | None = None,
    ) -> Self:
        """Verify an open chain and continue behind its last whole line; half a line is overwritten.

        Args:
            path: the chain.
            fsync: when lines are made durable.
            genesis: what line 0 names as its predecessor.
            line_format: how its lines look.
            visit: called with every entry that holds, in order.

        Raises:
            IntegrityError: the chain does not hold.
            RipienoError: it is closed.
            InputError: unknown policy, or another writer has the chain open.
            OSError: it cannot be opened.
        """
        writer = cls.__new__(cls)
        writer._begin(path, fsync, 0, line_format)
        try:
            report = verify_chain(path, genesis=genesis, line_format=line_format, visit=visit)
            writer._end = _End(report.entries, report.head, report.size - report.torn_bytes, report.closing)
            writer._require_open()
            writer._write_preamble()
        except BaseException:
            writer.abandon()
            raise
        return writer

    def _begin(self, path: Path | str, fsync: FsyncPolicy, flags: int, line_format: LineFormat) -> None:
        if fsync not in ("always", "batch", "never"):
            raise InputError(f"fsync must be 'always', 'batch' or 'never', got {fsync!r}")
        self.path = Path(path)
        self._format = line_format
        self._fsync: FsyncPolicy = fsync
        self._unsynced = 0
        self._process = os.getpid()
        flags |= os.O_WRONLY | os.O_NOFOLLOW | os.O_APPEND
        self._descriptor: int | None = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.abandon()
            raise InputError(f"{path} is open in another writer") from error

    @property
    def sequence(self) -> int:
        """Number of the next line, which is how many lines there are."""
        return self._end.sequence

    @property
    def head(self) -> str:
        """Hash of the last line."""
        return self._end.head

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return self._end.offset

    @property
    def is_open(self) -> bool:
        """Whether this writer still holds the file."""
        return self._descriptor is not None

    @property
    def closing(self) -> Mapping[str, Any] | None:
        """Content of the closing record, or ``None`` while the chain is open."""
        return self._end.closing

    def append(self, payload: Mapping[str, Any]) -> Entry:
        """Add one line.

        Raises:
            InputError: JSON cannot say the payload, or the line would be too long; nothing was written.
            StorageError: the file system refused the line; the chain is as before.
            RipienoError: the chain is closed.
        """
        return self._write(payload, closing=False)

    def close(self, payload: Mapping[str, Any] | None = None) -> Entry:
        """Add the closing record, make everything durable and let go of the file.

        Raises:
            RipienoError: as `append`.
        """
        entry = self._write(payload or {}, closing=True)
        self.abandon()
        return entry

    def abandon(self) -> None:
        """Let go of the file; without a closing record the chain stays open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def sync(self) -> None:
        """Make every line durable.

        Raises:
            StorageError: the file system refused.
        """
        try:
            os.fsync(self._require_open())
        except OSError as error:
            raise StorageError(f"cannot make {self.path} durable: {error.strerror}") from error
        self._unsynced = 0

    def _write(self, payload: Mapping[str, Any], *, closing: bool) -> Entry:
        descriptor = self._require_open()
        end = self._end
        line, digest = self._format.encode(payload, end.head, end.sequence, closing=closing)
        if len(line) > self._format.max_line_bytes:
            limit = self._format.max_line_bytes
            raise InputError(f"a line of {self.path.name} holds at most {limit} bytes, got {len(line)}")
        try:
            self._put(descriptor, line)
            self._unsynced += 1
            is_batch_full = self._fsync == "batch" and self._unsynced >= BATCH_LINES
            if closing or self._fsync == "always" or is_batch_full:
                os.fsync(descriptor)
                self._unsynced = 0
        except OSError as error:
            self._fail(descriptor, error)
        entry = Entry(end.sequence, payload, digest, closing=closing)
        self._end = _End(end.sequence + 1, digest, end.offset + len(line), payload if closing else None)
        return entry

    def _write_preamble(self) -> None:
        """Begin the file as the format asks, unless it does so already."""
        descriptor = self._require_open()
        if self._end.offset or not self._format.preamble:
            return
        try:
            self._put(descriptor, self._format.preamble)
        except OSError as error:
            self._fail(descriptor, error)
        self._end = replace(self._end, offset=len(self._format.preamble))

    def _put(self, descriptor: int, data: bytes) -> None:
        """Put bytes behind the last line."""
        # An append that failed or was interrupted half-way was never acknowledged: drop what it left.
        if os.fstat(descriptor).st_size != self._end.offset:
            os.ftruncate(descriptor, self._end.offset)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def _fail(self, descriptor: int, error: OSError) -> NoReturn:
        with suppress(OSError):  # if this fails as well, a verifier still sees that it is half a line
            os.ftruncate(descriptor, self._end.offset)
        raise StorageError(f"cannot write to {self.path}: {error.strerror}") from error

    def _require_open(self) -> int:
        if self._descriptor is None or self._end.closing is not None:
            raise RipienoError(f"{self.path} is closed; nothing can be added")
        if os.getpid() != self._process:  # a fork shares the lock, and would write where its parent writes
            raise RipienoError(f"{self.path} is written by the process that opened it")
        return self._descriptor


def is_being_written(path: Path | str) -> bool:
    """Tell whether a writer, of this process or another, has the chain open.

    Raises:
        IntegrityError: the path is no regular file.
        OSError: it cannot be read.
    """
    with open_regular(path) as stream:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@dataclass(frozen=True)
class _End:
    sequence: int
    head: str
    offset: int
    closing: Mapping[str, Any] | None = None


def verify_chain(
    path: Path | str,
    *,
    genesis: str = GENESIS,
    line_format: LineFormat = CANONICAL_LINES,
    visit: Callable[[Entry], None] | None = None,
) -> ChainReport:
    """Check every line of a chain, in memory that does not grow with its length.

    Args:
        path: the chain.
        genesis: what line 0 must name as its predecessor.
        line_format: how its lines look.
        visit: called with every entry that holds, in order.

    Raises:
        ChainBroken: names the first line that does not hold.
        IntegrityError: the path is no regular file.
        OSError: it cannot be read.
    """
    walk = walk_chain(path, genesis=genesis, line_format=line_format)
    while True:
        try:
            entry = next(walk)
        except StopIteration as stop:
            return stop.value
        if visit is not None:
            visit(entry)


def walk_chain(
    path: Path | str, *, genesis: str | None = GENESIS, line_format: LineFormat = CANONICAL_LINES
) -> Generator[Entry, None, ChainReport]:
    """Give the entries of a chain one by one, each checked; the generator returns the `ChainReport`.

    Args:
        path: the chain.
        genesis: what line 0 must name as its predecessor; ``None`` takes what it names.
        line_format: how its lines look.

    Raises:
        ChainBroken: as `verify_chain`.
    """
    sequence, head, offset, torn = 0, genesis, 0, 0
    closing: Mapping[str, Any] | None = None
    with open_regular(path) as raw, io.BufferedReader(raw, 2**17) as stream:
        start = stream.read(len(line_format.preamble))
        if start != line_format.preamble:
            if not line_format.preamble.startswith(start):
                raise ChainBroken(1, 0, len(start), f"the file does not begin with {line_format.preamble!r}")
            return ChainReport(0, head or GENESIS, None, len(start), len(start))
        offset = len(start)
        while line := line_format.read(stream):
            end = offset + len(line)
            try:
                entry = _check_line(line_format, line, head, sequence, is_closed=closing is not None)
            except (InputError, IntegrityError) as error:
                raise ChainBroken(sequence + 1, offset, end, str(error)) from error
            if entry is None:
                torn = len(line)
                break
            yield entry
            sequence, head, offset = sequence + 1, entry.hash, end
            closing = entry.payload if entry.closing else None
    return ChainReport(sequence, head or GENESIS, closing, offset + torn, torn)


def _check_line(
    line_format: LineFormat, line: bytes, previous: str | None, sequence: int, *, is_closed: bool
) -> Entry | None:
    if is_closed:
        raise IntegrityError("nothing may follow the closing record")
    if len(line) > line_format.max_line_bytes:
        raise IntegrityError(f"longer than {line_format.max_line_bytes} bytes")
    return line_format.check(line, previous, sequence)


def require_torn(fragment: bytes, starts: Sequence[str]) -> None:
    """Tell half a line of JSON from a changed one: it starts like a line and does not go on after its end.

    Zero bytes at the end are what some file systems leave after a power failure.

    Args:
        fragment: bytes after the last line feed.
        starts: how lines of the format begin.

    Raises:
        InputError: it is nested too deep.
        IntegrityError: no interrupted write can have left it.
    """
    text = fragment.rstrip(b"\0").decode(errors="replace")
    if not any(text.startswith(start) or start.startswith(text) for start in starts):
        raise IntegrityError("neither a line nor the beginning of one")
    refuse_deep_nesting(text)
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return
    if end < len(text):
        raise IntegrityError("bytes follow the record")
