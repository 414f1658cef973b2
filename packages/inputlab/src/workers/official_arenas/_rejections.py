"""Which check refused: for the owner of a ledger, in a private file, because the console never says it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import evidence_bytes, open_private_root

__all__ = ["REJECTION_NAME", "REJECTION_PROTOCOL", "note_rejection"]

REJECTION_PROTOCOL = "retail-rejection.v1"
REJECTION_NAME = "rejection.json"
"""The last refusal; a note, no evidence, so the next one replaces it."""


def note_rejection(folders: list[Path], error: BaseException, *, command: str) -> Path | None:
    """Write ``rejection.json`` into the first of the folders that is private.

    Args:
        folders: where the note may go, best first.
        error: what was raised.
        command: which command refused.

    Returns:
        The file; None when no folder is private or the disk refused.
    """
    note = evidence_bytes(_note(error, command))
    for folder in folders:
        try:
            with open_private_root(folder, message="not private") as directory:
                directory.replace(REJECTION_NAME, note)
                return directory.path / REJECTION_NAME
        except OfficialArenaError:
            continue  # the next folder may do
    return None


def _note(error: BaseException, command: str) -> dict[str, Any]:
    """The text of our own errors names the check; that of a foreign error may hold anything, so only its hash."""
    cause = error.__cause__
    text = str(error)
    return {
        "protocol": REJECTION_PROTOCOL,
        "command": command,
        "error": type(error).__name__,
        "check": text if isinstance(error, OfficialArenaError) else None,
        "exception_sha256": hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest(),
        "cause": None if cause is None else type(cause).__name__,
    }
