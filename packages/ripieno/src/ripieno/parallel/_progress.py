"""A progress bar on standard error, when somebody is there to see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ripieno.parallel._outcome import CellOutcome

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    total: int, *, done: int, shown: bool | None
) -> Generator[Callable[[CellOutcome[object]], None], None, None]:
    """Give a function to call with every outcome.

    Args:
        total: number of cells.
        done: how many of them were finished before.
        shown: None shows the bar when standard error is a terminal.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        failed = 0

        def advance(outcome: CellOutcome[object]) -> None:
            nonlocal failed
            failed += not outcome.ok
            bar.update(task, advance=1, description=f"[red]{failed} failed[/red]" if failed else "")

        yield advance
