"""What a verification says of file modes: they keep others out while a run is written, and are no evidence.

Archives, `git clone` and copies to another file system give every file other modes and change no byte of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ripieno._verdict import Check
from workers.official_arenas._evidence import DIRECTORY_MODE, FILE_MODE

__all__ = ["is_file_or_directory", "mode_problem", "mode_warnings", "modes_row"]

_WARNING = "warning: "


def is_file_or_directory(status: os.stat_result) -> bool:
    """Tell whether it is what evidence consists of, and no link or special file."""
    return stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def mode_problem(name: str, status: os.stat_result) -> str:
    """Say which mode a file or directory has in place of the one that it was written with; empty when it has that."""
    mode = stat.S_IMODE(status.st_mode)
    expected = DIRECTORY_MODE if stat.S_ISDIR(status.st_mode) else FILE_MODE
    return "" if mode == expected else f"{name} has mode {mode:o}, not {expected:o}"


def modes_row(root: Path, problems: Sequence[str]) -> Check:
    """Give the row of a report: it holds whatever the modes are, and names the first that is another one.

    Args:
        root: what is verified.
        problems: what `mode_problem` said.
    """
    if not problems:
        return Check("modes", ok=True, detail="only the owner can read or change it")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Check(
        "modes",
        ok=True,
        detail=f"{_WARNING}{problems[0]}{more}; a mode is no evidence. To close it to others: chmod -R go= {root}",
    )


def mode_warnings(rows: Sequence[Check]) -> list[str]:
    """Give the warnings among the rows of a report."""
    return [row.detail for row in rows if row.name == "modes" and row.detail.startswith(_WARNING)]
