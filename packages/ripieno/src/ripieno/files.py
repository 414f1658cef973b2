"""Files that are written once and whole, read without following links, and listed with their hashes."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from ripieno.errors import InputError, IntegrityError

__all__ = [
    "FileRecord",
    "create_only",
    "inventory",
    "list_tree",
    "open_regular",
    "require_private_root",
    "sha256_file",
    "sync_directory",
    "write_atomic",
]

CHUNK_BYTES = 2**20
PAGE_BYTES = 2**12
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, order=True)
class FileRecord:
    """One file below a root: POSIX path relative to the root, size in bytes, SHA-256 (lowercase hex)."""

    path: str
    size: int
    sha256: str


def open_regular(path: Path | str) -> io.FileIO:
    """Open a regular file for reading; never follows a link in the last place and never waits on a FIFO.

    Returns:
        An unbuffered stream, to be used in a ``with`` block.

    Raises:
        IntegrityError: the path is a link, a directory or a special file.
        OSError: it cannot be opened.
    """
    # The entry is looked at before and after opening: opening a device can already do something.
    _require_regular(os.lstat(path), path)
    stream = io.FileIO(os.open(path, _READ), "rb")
    try:
        _require_regular(os.fstat(stream.fileno()), path)
    except BaseException:
        stream.close()
        raise
    return stream


def sha256_file(path: Path | str) -> str:
    """Give the lowercase hex SHA-256 of a regular file, read in chunks.

    Raises:
        IntegrityError: the path is a link, a directory or a special file.
        OSError: it cannot be read.
    """
    _require_regular(os.lstat(path), path)
    return _sha256_of_seen(path)


def _sha256_of_seen(path: Path | str) -> str:
    """Hash what was a regular file a moment ago, up to its end, wherever that is by now."""
    descriptor = os.open(path, _READ)
    try:
        status = os.fstat(descriptor)
        _require_regular(status, path)
        at_once = min(status.st_size + PAGE_BYTES, CHUNK_BYTES)
        digest = hashlib.sha256()
        while data := os.read(descriptor, at_once):
            digest.update(data)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _require_regular(status: os.stat_result, path: Path | str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise IntegrityError(f"{path} is not a regular file")


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_only(path: Path | str, data: bytes, *, durable: bool = True) -> None:
    """Write a file that must not exist yet, mode 0600.

    Args:
        path: the file; its directory must exist.
        data: its content.
        durable: force file and directory to disk before the call returns; without, a power failure can lose both.

    Raises:
        FileExistsError: something (a dangling link too) has that name.
        OSError: the write failed; the file was removed again.
    """
    path = Path(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        with io.FileIO(descriptor, "wb") as stream:
            write_all(stream, data)
            if durable:
                os.fsync(descriptor)
        if durable:
            sync_directory(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_all(stream: io.FileIO, data: bytes) -> None:
    """Write all bytes to an unbuffered stream, which may take them in parts."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def write_atomic(path: Path | str, data: bytes, *, temporary_name: str | None = None) -> None:
    """Replace a file as a whole: a reader, or a crash at any moment, sees the old bytes or the new ones.

    Args:
        path: the file, which need not exist.
        data: its new content.
        temporary_name: name of the temporary file in the same directory; a random one by default.

    Raises:
        OSError: the write failed and the old file is untouched, or the new one is in place and only its name may
            not outlive a power failure.
    """
    path = Path(path)
    temporary = path.with_name(temporary_name or f".{path.name}.{secrets.token_hex(8)}.tmp")
    create_only(temporary, data)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def require_private_root(path: Path | str) -> Path:
    """Check that nobody else can read or change what lies below a directory.

    Raises:
        InputError: not absolute, not a directory, a link on the way, another owner, or group or others
            have any permission.
    """
    path = Path(path)
    if not path.is_absolute() or ".." in path.parts:
        raise InputError(f"{path} must be an absolute path without '..'")
    for step in (*reversed(path.parents), path):
        try:
            status = step.lstat()
        except OSError as error:
            raise InputError(f"{path} must be an existing directory: {error.strerror} at {step}") from error
        if not stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path} must be a directory without links on the way, {step} is something else")
    status = path.lstat()
    if status.st_uid != os.getuid():
        raise InputError(f"{path} must belong to you (user {os.getuid()}), it belongs to user {status.st_uid}")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise InputError(f"{path} must be closed to group and others (mode 700), its mode is {mode:o}")
    return path


def list_tree(root: Path | str) -> Iterator[tuple[str, os.stat_result]]:
    """Give every entry below a directory, links not followed, as sorted relative POSIX path and status.

    Raises:
        OSError: a directory cannot be read.
    """
    prefix = _prefix(root)
    pending = [""]
    while pending:
        directory = pending.pop()
        with os.scandir(prefix + directory if directory else root) as entries:
            names = sorted([entry.name for entry in entries])
        folders: list[str] = []
        within = f"{directory}/" if directory else ""
        for name in names:
            relative = within + name
            try:
                status = os.lstat(prefix + relative)
            except FileNotFoundError:
                continue  # gone since the names were read
            if stat.S_ISDIR(status.st_mode):
                folders.append(relative)
            yield relative, status
        pending.extend(reversed(folders))


def _prefix(root: Path | str) -> str:
    """Give what stands before a relative path: text, because a `Path` for every entry takes longer than reading it."""
    name = str(Path(root))
    return "" if name == "." else f"{name.rstrip('/')}/"


def inventory(root: Path | str) -> tuple[FileRecord, ...]:
    """List every file below a directory with size and hash, sorted by path.

    Raises:
        InputError: the root is no directory.
        IntegrityError: a link or a special file lies below it.
        OSError: something cannot be read.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root} must be an existing directory")
    prefix = _prefix(root)
    records: list[FileRecord] = []
    for relative, status in list_tree(root):
        if stat.S_ISREG(status.st_mode):
            records.append(FileRecord(relative, status.st_size, _sha256_of_listed(prefix + relative)))
        elif not stat.S_ISDIR(status.st_mode):
            raise IntegrityError(f"{root / relative} is a link or a special file; only plain files count")
    return tuple(sorted(records, key=attrgetter("path")))


def _sha256_of_listed(path: str) -> str:
    try:
        return _sha256_of_seen(path)
    except OSError:
        return sha256_file(path)  # which says whether it has become something else
