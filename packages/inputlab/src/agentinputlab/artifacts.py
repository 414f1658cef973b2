"""Files that a method was made from, read only when their bytes are the pinned ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from agentinputlab.contracts._checks import digest
from agentinputlab.contracts.errors import ArtifactError
from ripieno.canonical import strict_loads
from ripieno.errors import InputError, IntegrityError
from ripieno.files import create_only, open_regular

__all__ = ["MAX_ARTIFACT_BYTES", "ArtifactStore", "read_pinned", "read_pinned_json", "read_pinned_text"]

MAX_ARTIFACT_BYTES = 64 * 2**20
"""Largest artifact that is read."""


def read_pinned(path: Path | str, sha256: str, *, max_bytes: int = MAX_ARTIFACT_BYTES) -> bytes:
    """Give the bytes of a regular file that has the given SHA-256; what was hashed is what is returned.

    Args:
        path: the file; a link is refused.
        sha256: 64 lowercase hex digits.
        max_bytes: largest file.

    Raises:
        ValidationError: ``sha256`` is none.
        ArtifactError: the file is absent, no regular file, too large, or has other bytes.
    """
    digest(sha256, "sha256")
    try:
        with open_regular(path) as stream:
            data = _read(stream.read, max_bytes)
    except (OSError, IntegrityError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArtifactError(f"artifact {path} cannot be read: {reason}") from error
    if len(data) > max_bytes:
        raise ArtifactError(f"artifact {path} is larger than {max_bytes} bytes")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ArtifactError(f"artifact {path} has SHA-256 {found}, pinned is {sha256}")
    return data


def read_pinned_text(path: Path | str, sha256: str, *, max_bytes: int = MAX_ARTIFACT_BYTES) -> str:
    """Give the UTF-8 text of a pinned file.

    Raises:
        ValidationError: as `read_pinned`.
        ArtifactError: as `read_pinned`, or the bytes are no UTF-8.
    """
    try:
        return read_pinned(path, sha256, max_bytes=max_bytes).decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(f"artifact {path} is not UTF-8 at byte {error.start}") from error


def read_pinned_json(path: Path | str, sha256: str, *, max_bytes: int = MAX_ARTIFACT_BYTES) -> Any:
    """Give the value of a pinned JSON file: unique keys, finite numbers, nothing after the value.

    Raises:
        ValidationError: as `read_pinned`.
        ArtifactError: as `read_pinned`, or the bytes are no such JSON.
    """
    data = read_pinned(path, sha256, max_bytes=max_bytes)
    try:
        return strict_loads(data, max_bytes=max_bytes)
    except InputError as error:
        raise ArtifactError(f"artifact {path} is not strict JSON: {error}") from error


class ArtifactStore:
    """A directory whose files are named by the SHA-256 of their bytes.

    Args:
        root: existing directory.

    Raises:
        ArtifactError: there is no such directory.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise ArtifactError(f"artifact store {root} must be an existing directory")

    def put(self, data: bytes) -> str:
        """Store bytes and give their SHA-256; bytes that are there already are checked and left alone.

        Raises:
            ArtifactError: the file of that name holds other bytes.
            OSError: it cannot be written.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            create_only(self.root / sha256, data)
        except FileExistsError:
            self.get(sha256, max_bytes=len(data))
        return sha256

    def get(self, sha256: str, *, max_bytes: int = MAX_ARTIFACT_BYTES) -> bytes:
        """Give the bytes of a SHA-256.

        Raises:
            ValidationError: ``sha256`` is none.
            ArtifactError: as `read_pinned`.
        """
        return read_pinned(self.root / digest(sha256, "sha256"), sha256, max_bytes=max_bytes)


def _read(read: Any, max_bytes: int) -> bytes:
    """Read one byte more than allowed at most, in as many parts as it takes."""
    data = bytearray()
    while len(data) <= max_bytes:
        part = read(min(2**20, max_bytes + 1 - len(data)))
        if not part:
            break
        data += part
    return bytes(data)
