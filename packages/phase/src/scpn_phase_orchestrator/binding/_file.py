"""The text of a spec or rule file, read with bounds: a device or a FIFO in its place neither hangs nor fills a run."""

from __future__ import annotations

import stat
from pathlib import Path

from scpn_phase_orchestrator.binding._document import MAX_BYTES, DocumentError

__all__ = ["document_text"]


def document_text(file: Path, what: str) -> str:
    """Give the text of a regular UTF-8 file; a byte-order mark at its start is passed over.

    Args:
        file: a path, links are followed.
        what: what messages call such a file.

    Raises:
        DocumentError: it cannot be read, is no regular file, has more than `MAX_BYTES` bytes, or is not UTF-8 (names
            the line).
    """
    data = b""
    try:
        # Looked at before it is opened: opening a FIFO would wait for a writer.
        is_regular = stat.S_ISREG(file.stat().st_mode)
        if is_regular:
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise DocumentError(f"cannot read {what}: {reason}") from error
    if not is_regular:
        raise DocumentError("not a regular file")
    if len(data) > MAX_BYTES:
        raise DocumentError(f"too long: at most {MAX_BYTES} bytes are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"not UTF-8: byte {error.start} is wrong", line) from error
