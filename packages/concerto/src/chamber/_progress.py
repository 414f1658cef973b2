"""A progress bar for work that takes longer than a look."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(total: int) -> Generator[Callable[[int, str], None]]:
    """Give a function that takes the amount done and words; a bar on stderr when that is a terminal, else silence."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("preparing", total=total)
        yield lambda done, words: bar.update(task, completed=done, description=words)
