"""Files that are bound by a hash: read once, so that the bytes that were hashed are the bytes that are used."""

from __future__ import annotations

from pathlib import Path

from ripieno.errors import InputError
from ripieno.files import open_regular

__all__ = ["read_bound_bytes"]


def read_bound_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Read a regular file whole, links refused.

    Raises:
        InputError: it is longer than allowed.
        IntegrityError: it is a link, a directory or a special file.
        OSError: it cannot be read.
    """
    with open_regular(path) as stream:
        data = bytearray()
        while chunk := stream.read(min(2**20, max_bytes + 1 - len(data))):
            data += chunk
            if len(data) > max_bytes:
                raise InputError(f"{path} is longer than {max_bytes} bytes")
    return bytes(data)
