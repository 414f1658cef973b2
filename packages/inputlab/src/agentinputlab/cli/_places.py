"""Where a command may write: never into a run that is there, through a link to nowhere, or below a file."""

from __future__ import annotations

import os
from pathlib import Path

from ripieno.errors import InputError

__all__ = ["require_place_outside_runs", "run_around"]

_LEDGERS = ("pair-start.json", "dispositions.json")
"""A folder with one of these is the ledger of a pair, or an inventory."""
_RUNS = ("run.json", "campaign.json", "plan.json", "events.jsonl", "command.json")
"""A folder with two of these is a run or a campaign."""


def run_around(place: Path) -> Path | None:
    """Give the innermost run that a folder is, or lies in; None when there is none.

    Args:
        place: a folder that need not exist.
    """
    place = place.resolve()
    return next((folder for folder in (place, *place.parents) if _is_run(folder)), None)


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _LEDGERS) or sum((folder / name).is_file() for name in _RUNS) > 1


def require_place_outside_runs(place: Path, *, within: bool = False) -> None:
    """Refuse a place where something new must not be written; nothing is written to find out.

    Args:
        place: the file or folder that is to be made; it may exist, which is for the caller to judge.
        within: whether files are to be put into the folder ``place``, so that it must itself be no run.

    Raises:
        InputError: it lies in a run, whose verification would fail afterwards; a link on the way leads nowhere; a
            parent is no folder, or cannot be written to.
    """
    for step in (place, *place.parents):
        if step.is_symlink() and not step.exists():
            raise InputError(f"{place}: {step} is a link that leads nowhere; name another place")
    parent = next(step for step in place.absolute().parents if step.exists())
    if not parent.is_dir():
        raise InputError(f"{place}: {parent} is no folder; name another place")
    run = run_around(place if within else place.absolute().parent)
    if run is not None:
        raise InputError(
            f"{place} lies in the run {run}, which would no longer verify with something new in it; name another place"
        )
    if not place.exists() and not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{place}: the folder {parent} cannot be written to; name another place")
