"""Pack folders that appear whole or not at all, and the names they may have."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from ripieno.files import create_only, sync_directory
from scpn_phase_orchestrator.exceptions import BindingError

__all__ = ["check_name", "create_folder"]

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
MAX_NAME = 100
"""Longest accepted name."""


def check_name(name: str, what: str = "name") -> str:
    """Give a name back that may stand in a path and in a spec: letters, digits, ``_`` and ``-``.

    Raises:
        BindingError: anything else.

    Examples:
        >>> check_name("my_pack")
        'my_pack'
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise BindingError(
            f"{what} must match [a-zA-Z0-9_-]+ and have at most {MAX_NAME} characters, got {name!r:.120}"
        )
    return name


def create_folder(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Create a folder with text files; a failure, even a power failure, leaves no part of it under its name.

    Args:
        folder: must not exist; its parents are made.
        files: text by file name.

    Returns:
        The files.

    Raises:
        BindingError: something of that name exists, or it cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists() or folder.is_symlink():
            raise BindingError(f"{folder} exists already; nothing is overwritten")
        draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.tmp")
        draft.mkdir()
        try:
            for name, text in files.items():
                create_only(draft / name, text.encode("utf-8"))
            # A folder with content, a file or a link under the name makes the system refuse.
            draft.rename(folder)
        except BaseException:
            for name in files:
                (draft / name).unlink(missing_ok=True)
            draft.rmdir()
            raise
        sync_directory(folder.parent)
    except (OSError, ValueError) as error:
        if isinstance(error, BindingError):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise BindingError(f"cannot create {folder}: {reason}") from error
    return tuple(folder / name for name in files)
