"""Where cells run: the contract of an engine, and the engine that runs them right here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from ripieno.parallel._outcome import Attempt, attempt

__all__ = ["Engine", "SerialEngine", "available_cores", "thread_limits"]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Engine(Protocol):
    """Runs attempts; at most ``slots`` at a time are started and not yet waited for."""

    @property
    def slots(self) -> int:
        """How many attempts may be under way."""
        ...

    def start(self, index: int) -> None:
        """Start an attempt at a cell."""
        ...

    def wait(self) -> Attempt:
        """Wait until an attempt ends."""
        ...

    def close(self) -> None:
        """End everything this engine started, running attempts included."""
        ...


class SerialEngine:
    """One attempt at a time, in this process."""

    slots = 1

    def __init__(self, function: Callable[[Any], object], cells: Sequence[object]) -> None:
        self._function = function
        self._cells = cells
        self._started = -1

    def start(self, index: int) -> None:
        """Note the cell; it runs when it is waited for."""
        self._started = index

    def wait(self) -> Attempt:
        """Run the cell."""
        return attempt(partial(self._function, self._cells[self._started]), self._started)

    def close(self) -> None:
        """Nothing to end."""


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(workers: int) -> dict[str, str]:
    """Environment that shares the cores between workers, so that their BLAS and Numba threads do not fight."""
    threads = str(max(1, available_cores() // workers))
    return dict.fromkeys(_THREAD_VARIABLES, threads)
