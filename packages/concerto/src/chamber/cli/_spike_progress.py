"""What a training run shows while it runs, and how it is asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from concerto.training.protocols import TrainingProgress

__all__ = ["StopRequest", "training_bar"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Turns the first Ctrl-C, or SIGTERM, into a wish that the training loop asks for; the second one ends at once.

    A context manager. Outside the main thread, where signals do not arrive, it does nothing.

    Attributes:
        signal_number: the signal that asked; None as long as nobody did.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._has_answered = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Say whether the run should stop; the first yes is also said to the user."""
        if self.signal_number is None:
            return False
        if not self._has_answered:
            self._has_answered = True
            click.echo("chamber-spike: stopping: saving a checkpoint; Ctrl-C again ends at once", err=True)
        return True

    @property
    def exit_code(self) -> int:
        """What a shell calls the end by this signal."""
        return 128 + (self.signal_number or signal.SIGINT)

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        self._restore()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._restore()
        self.signal_number = number  # nothing else here: the signal may have come in the middle of a print

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


@contextmanager
def training_bar(total_frames: int) -> Generator[Callable[[TrainingProgress], None]]:
    """Give a function that hears how far a run is; a bar on stderr when that is a terminal, else silence."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} frames"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[reward]}"),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total_frames, rate="", reward="", left="")

        def show(now: TrainingProgress) -> None:
            reward = now.mean_reward_last_10
            bar.update(
                task,
                completed=now.frames,
                rate=f"{now.frames_per_second:,.0f} frames/s",
                reward="" if reward is None else f"reward {reward:.2f}",
                left=_time_left(now),
            )

        yield show


def _time_left(now: TrainingProgress) -> str:
    if now.frames_per_second <= 0.0:
        return ""
    seconds = round((now.total_frames - now.frames) / now.frames_per_second)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:d}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes:d}:{seconds:02d} left"
