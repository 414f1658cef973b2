"""Evidence on disk: directories held open, files that appear whole or not at all, bytes that are read once.

A path can come to mean another place between two uses of it, so a ledger is reached through the descriptor of its
directory. A file gets its name only after all of its bytes are written (and, where asked, forced to disk): a name
that exists never stands for half a file. What a crash leaves is a hidden ``.<name>.<16 hex>.partial``, which
nothing ever reads.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import orjson

from ripieno.canonical import (
    INDENTED_UNICODE_LINE,
    canonical_json,
    plain_json,
    refuse_deep_nesting,
    strict_loads,
)
from ripieno.errors import InputError
from ripieno.receipts import SEAL, seal
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._reading import WRITTEN, written_value

__all__ = [
    "DIRECTORY_MODE",
    "FILE_MODE",
    "MAX_EVIDENCE_BYTES",
    "Directory",
    "EvidenceStorageError",
    "canonical_and_evidence_bytes",
    "evidence_bytes",
    "is_leftover",
    "is_plain",
    "open_private_root",
    "parse_json",
    "parse_object",
    "partial_name",
    "plain_evidence_bytes",
    "plain_hash",
    "read_regular",
    "read_tree",
    "reject_duplicate_keys",
    "sealed_evidence_bytes",
    "sha256_bytes",
]

MAX_EVIDENCE_BYTES = 64 * 2**20
"""Longest file or message that is read."""
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class EvidenceStorageError(OfficialArenaError):
    """The file system refused a write (full, read-only, broken); what was acknowledged before still holds."""


def sha256_bytes(data: bytes) -> str:
    """Give the lowercase hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def evidence_bytes(value: object) -> bytes:
    """Give the bytes of a receipt: sorted keys, indented by two, UTF-8 unescaped, a line feed at the end.

    Raises:
        InputError: the value holds something that JSON cannot say.
    """
    return INDENTED_UNICODE_LINE.dumps(value)


# Which values are plain, `ripieno.canonical.plain_json` says; so is every part of one.

_PLAIN = orjson.OPT_SORT_KEYS


def is_plain(value: object, canonical: bytes) -> bool:
    """Tell whether a value is plain, given its canonical text: equal texts have equal numbers, strings and keys."""
    try:
        return orjson.dumps(value, option=_PLAIN) == canonical
    except orjson.JSONEncodeError:
        return False


def plain_hash(value: object) -> str:
    """Give the content hash of a plain value, or of a part of one."""
    return hashlib.sha256(orjson.dumps(value, option=_PLAIN)).hexdigest()


def plain_evidence_bytes(value: object) -> bytes:
    """Give the `evidence_bytes` of a plain value, or of an object whose members are plain."""
    return orjson.dumps(value, option=WRITTEN)


def canonical_and_evidence_bytes(value: object) -> tuple[bytes, bytes]:
    """Give the canonical text, whose SHA-256 is the content hash, and the `evidence_bytes` of a value.

    Raises:
        InputError: the value holds something that JSON cannot say.
    """
    plain = plain_json(value)
    if plain is None:
        return canonical_json(value), evidence_bytes(value)
    return plain, plain_evidence_bytes(value)


def sealed_evidence_bytes(value: Mapping[str, Any]) -> bytes:
    """Give the `evidence_bytes` of the sealed value, see `ripieno.receipts.seal`.

    Raises:
        InputError: the value is sealed already, or holds something that JSON cannot say.
    """
    if SEAL in value:
        return evidence_bytes(seal(value))  # which says what is wrong
    content = dict(value)
    plain = plain_json(content)
    if plain is None:
        return evidence_bytes({**content, SEAL: sha256_bytes(canonical_json(content))})
    return plain_evidence_bytes({**content, SEAL: sha256_bytes(plain)})


def is_leftover(name: str) -> bool:
    """Tell whether a file or directory name is what an interrupted write leaves."""
    return _LEFTOVER.fullmatch(name) is not None


def partial_name(name: str) -> str:
    """Give a fresh hidden name beside a final one."""
    return f".{name}.{os.urandom(8).hex()}.partial"


# --- directories --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that stays the same one, whatever happens to its path.

    Attributes:
        place: how it was reached, as text.
        descriptor: the open directory.
        durable: force every file and entry to disk before a call returns.
    """

    place: str
    descriptor: int
    durable: bool = True

    @property
    def path(self) -> Path:
        """How it was reached; for messages and for providers, which get paths."""
        return Path(self.place)

    @classmethod
    def open(cls, path: Path, *, durable: bool = True) -> Directory:
        """Open an existing directory; a link in the last place is refused.

        Raises:
            OSError: it is not there, or no directory.
        """
        return cls(str(path), os.open(path, _OPEN_DIRECTORY), durable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    def is_in_place(self) -> bool:
        """Tell whether the path still leads to this directory."""
        here = os.fstat(self.descriptor)
        try:
            there = os.lstat(self.place)
        except OSError:
            return False
        return here.st_ino == there.st_ino and here.st_dev == there.st_dev

    def sync(self) -> None:
        """Make the entries durable, when asked for.

        Raises:
            EvidenceStorageError: the disk refused.
        """
        if not self.durable:
            return
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            raise _refused(self.path.name, error) from error

    def has(self, name: str) -> bool:
        """Tell whether something, a dangling link too, has a name."""
        try:
            os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, *, max_bytes: int = MAX_EVIDENCE_BYTES) -> bytes:
        """Read a regular file whole.

        Raises:
            OfficialArenaError: it is a link or special file, or longer than allowed.
            OSError: it is not there or cannot be read.
        """
        return read_regular(name, directory=self.descriptor, max_bytes=max_bytes)

    def make_directory(self, name: str) -> Directory:
        """Make a directory with mode 0700 and open it; making it is atomic, so that of many callers one succeeds.

        Raises:
            FileExistsError: something has that name.
            EvidenceStorageError: the file system refused.
        """
        try:
            os.mkdir(name, DIRECTORY_MODE, dir_fd=self.descriptor)
        except FileExistsError:
            raise
        except OSError as error:
            raise _refused(name, error) from error
        self.sync()
        try:
            return self.open_directory(name)
        except OSError as error:
            raise _refused(name, error) from error

    def open_directory(self, name: str) -> Directory:
        """Open a directory below this one, links refused.

        Raises:
            OSError: it is not there, or no directory.
        """
        descriptor = os.open(name, _OPEN_DIRECTORY, dir_fd=self.descriptor)
        return Directory(f"{self.place}/{name}", descriptor, self.durable)

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet, mode 0600; its name appears after its last byte.

        Raises:
            FileExistsError: something (a dangling link too) has that name.
            EvidenceStorageError: the file system refused. Nothing has that name, unless the whole file was there
                and only making its name durable failed.
        """
        partial = partial_name(name)
        try:
            self._write(partial, data)
            os.link(
                partial, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False
            )  # unlike a rename, it fails when the name is taken
        except FileExistsError:
            self._remove(partial)
            raise
        except OSError as error:
            self._remove(partial)
            raise _refused(name, error) from error
        self._remove(partial)
        self.sync()

    def publish_directory(self, partial: str, name: str) -> None:
        """Give a finished directory its final name, at once.

        Raises:
            FileExistsError: something that is no empty directory has that name.
            EvidenceStorageError: the file system refused.
        """
        try:
            os.rename(partial, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            self.sync()
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise FileExistsError(error.errno, "the name is taken", name) from error
            raise _refused(name, error) from error

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory, if it is one."""
        with suppress(OSError):
            os.rmdir(name, dir_fd=self.descriptor)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file that may replace another, as a whole; for notes that are no evidence.

        Raises:
            EvidenceStorageError: the file system refused; the old file is untouched.
        """
        partial = partial_name(name)
        try:
            self._write(partial, data)
            os.rename(partial, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            self.sync()
        except OSError as error:
            self._remove(partial)
            raise _refused(name, error) from error

    def _write(self, name: str, data: bytes) -> None:
        descriptor = os.open(name, _CREATE, FILE_MODE, dir_fd=self.descriptor)
        try:
            written = os.write(descriptor, data)
            while written < len(data):  # the system may take it in parts
                written += os.write(descriptor, memoryview(data)[written:])
            if self.durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remove(self, name: str) -> None:
        try:  # noqa: SIM105 - a third of the time of `suppress`, for every file
            os.unlink(name, dir_fd=self.descriptor)
        except OSError:
            pass  # a leftover is harmless, and a full or broken disk has its own error


def _refused(name: str, error: OSError) -> EvidenceStorageError:
    return EvidenceStorageError(
        f"Retail evidence {name} could not be written: {error.strerror or type(error).__name__}"
    )


def open_private_root(path: Path, *, message: str, durable: bool = True) -> Directory:
    """Open a directory that nobody else can read or change; every step of the way is opened, none is a link.

    Args:
        path: absolute, without ``..``.
        message: text of the refusal.
        durable: see `Directory`.

    Raises:
        OfficialArenaError: relative, absent, a link on the way, another owner, or group or others have a permission.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise OfficialArenaError(message)
    descriptor = -1
    try:
        descriptor = os.open(path.anchor, _STEP)
        for index, part in enumerate(path.parts[1:], start=2):
            flags = _OPEN_DIRECTORY if index == len(path.parts) else _STEP
            step = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = step
        status = os.fstat(descriptor)
    except (OSError, ValueError) as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise OfficialArenaError(message) from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(descriptor)
        raise OfficialArenaError(message)
    return Directory(str(path), descriptor, durable)


# --- reading ------------------------------------------------------------------------------------------------


def read_regular(path: Path | str, *, directory: int | None = None, max_bytes: int = MAX_EVIDENCE_BYTES) -> bytes:
    """Read a regular file whole, once; never follows a link and never waits on a FIFO.

    Raises:
        OfficialArenaError: it is a link, a directory or a special file, or longer than allowed.
        OSError: it is not there or cannot be read.
    """
    # The entry is looked at before opening too: opening a device can already do something.
    if not stat.S_ISREG(os.stat(path, dir_fd=directory, follow_symlinks=False).st_mode):
        raise OfficialArenaError("Retail bound file is absent or symlinked")
    return _read_looked_at(path, directory=directory, max_bytes=max_bytes)


def _read_looked_at(path: Path | str, *, directory: int | None, max_bytes: int = MAX_EVIDENCE_BYTES) -> bytes:
    """Read a file whose entry was just seen to be a regular file; what was opened is looked at again."""
    descriptor = os.open(path, _READ, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OfficialArenaError("Retail bound file is absent or symlinked")
        size = status.st_size
        if size > max_bytes:
            raise OfficialArenaError(f"Retail bound file is longer than {max_bytes} bytes")
        data = os.read(descriptor, size + 1)
        if len(data) != size:  # it grew, or came in parts
            while len(data) <= max_bytes and (more := os.read(descriptor, 2**20)):
                data += more
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise OfficialArenaError(f"Retail bound file is longer than {max_bytes} bytes")
    return data


def read_tree(directory: Directory) -> dict[str, bytes]:
    """Give relative path -> bytes of every file below a directory, each read once, sorted by path.

    Raises:
        OfficialArenaError: a link or a special file lies below it.
        OSError: something cannot be read.
    """
    found: dict[str, bytes] = {}
    _read_into(found, directory.descriptor, "")
    return dict(sorted(found.items()))


def _read_into(found: dict[str, bytes], descriptor: int, prefix: str) -> None:
    with os.scandir(descriptor) as entries:
        listed = list(entries)
    for entry in listed:
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            below = os.open(name, _OPEN_DIRECTORY, dir_fd=descriptor)
            try:
                _read_into(found, below, f"{prefix}{name}/")
            finally:
                os.close(below)
            continue
        if entry.is_symlink():
            raise OfficialArenaError("Retail attempt contains a symlink")
        try:
            # Listing a directory says what a regular file is, too; anything else is looked at and refused there.
            read = _read_looked_at if entry.is_file(follow_symlinks=False) else read_regular
            found[prefix + name] = read(name, directory=descriptor)
        except FileNotFoundError:
            if not is_leftover(name):  # a write that goes on while this one reads
                raise


def reject_duplicate_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Give the object of parsed JSON members.

    Raises:
        OfficialArenaError: a key comes twice.
    """
    value = dict(pairs)
    if len(value) != len(pairs):
        raise OfficialArenaError("Retail JSON has duplicate fields")
    return value


def parse_json(data: bytes) -> Any:
    """Read one JSON value that no two readers could understand differently.

    Raises:
        OfficialArenaError: a key comes twice; bad UTF-8, NaN, trailing bytes, too long, too deep, or not JSON.
    """
    written = written_value(data, max_bytes=MAX_EVIDENCE_BYTES)
    if written is not None:
        return written
    try:
        return strict_loads(data, max_bytes=MAX_EVIDENCE_BYTES)
    except InputError as error:
        _name_duplicate_keys(data)
        raise OfficialArenaError("Retail bound file is invalid JSON") from error


def _name_duplicate_keys(data: bytes) -> None:
    if len(data) > MAX_EVIDENCE_BYTES:
        return
    with suppress(ValueError):  # broken in another way, too
        text = data.decode()
        refuse_deep_nesting(text)
        json.loads(text, object_pairs_hook=reject_duplicate_keys)


def parse_object(data: bytes) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        OfficialArenaError: as `parse_json`, or it is no object.
    """
    value = parse_json(data)
    if not isinstance(value, Mapping):
        raise OfficialArenaError("Retail bound file must be an object")
    return cast("dict[str, Any]", value)
