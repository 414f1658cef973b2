"""Files that are bound by a hash: read once, so that the bytes that were hashed are the bytes that are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from ripieno.canonical import MAX_DEPTH
from ripieno.errors import InputError
from ripieno.files import open_regular

__all__ = ["WRITTEN", "read_bound_bytes", "written_value"]

WRITTEN = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
"""How orjson writes a receipt: sorted keys, indented by two, a line feed at the end."""
_TOO_DEEP = b"\n" + b"  " * MAX_DEPTH
"""What a line begins with below as many levels as JSON may have; no line of ours holds a line feed elsewhere."""


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


def written_value(data: bytes, *, max_bytes: int) -> Any:
    """Give the value of a text that is byte for byte as receipts are written, or None: then the strict parser decides.

    Equal bytes mean that nothing was lost on the way: no key came twice, no number or string was spelt otherwise.
    """
    if len(data) > max_bytes or data[-1:] != b"\n" or _TOO_DEEP in data:
        return None
    try:
        value = orjson.loads(data)
        return value if orjson.dumps(value, option=WRITTEN) == data else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
