"""A progress bar for runs that take longer than a moment."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["StepProgress"]

PATIENCE_S = 2.0
"""Time after which a bar appears."""
_STRIDE = 64


class StepProgress:
    """Counts steps, and shows a bar on standard error once a run takes longer than `PATIENCE_S` on a terminal."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        """Start the clock.

        Args:
            total: number of steps.
            is_quiet: never show a bar.
        """
        self.done = 0
        self._total = total
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def __call__(self, _outcome: object) -> None:
        """Count one step."""
        self.done += 1
        if self._is_shown and self.done % _STRIDE == 0:
            self._update()

    def _update(self) -> None:
        if self._bar is None:
            if self.elapsed_s < PATIENCE_S:
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total)
        if self._task is not None:
            self._bar.update(self._task, completed=self.done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
