"""What one attempt at a cell gives, and what the caller gets to see of all of them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

__all__ = ["Attempt", "CellOutcome", "CellStatus", "attempt"]

Cell = TypeVar("Cell")
Value = TypeVar("Value")


class CellStatus(StrEnum):
    """How a cell ended."""

    OK = "ok"
    """The function returned a value."""
    FAILED = "failed"
    """The function raised in its last attempt, or its value could not be carried home."""
    DIED = "died"
    """The worker ended in the last attempt (killed, out of memory, ``os._exit``)."""


@dataclass(frozen=True)
class CellOutcome(Generic[Value]):
    """The end of one cell.

    Attributes:
        index: position in the input.
        label: how people call the cell.
        status: how it ended.
        value: what the function returned; None unless the status is ``ok``.
        error: one line that says what went wrong, empty when nothing did.
        attempts: how often the function was started.
        seconds: time spent in all attempts together.
        traceback: the traceback of the last attempt when the function raised, else empty.
        from_ledger: the value was read from the ledger; the function was not run now.
    """

    index: int
    label: str
    status: CellStatus
    value: Value | None
    error: str
    attempts: int
    seconds: float
    traceback: str = ""
    from_ledger: bool = False

    @property
    def ok(self) -> bool:
        """Whether the function returned a value."""
        return self.status is CellStatus.OK


@dataclass(frozen=True)
class Attempt:
    """One attempt at the cell with this index."""

    index: int
    status: CellStatus
    value: object
    error: str
    seconds: float
    traceback: str = ""


def attempt(function: Callable[[], object], index: int) -> Attempt:
    """Call a function and turn whatever it raises into an attempt; Ctrl-C and exits pass through."""
    started = time.perf_counter()
    try:
        value = function()
    except Exception as error:  # noqa: BLE001 - a cell may raise anything, and that is its outcome
        return Attempt(
            index,
            CellStatus.FAILED,
            None,
            " ".join("".join(traceback.format_exception_only(error)).split()),
            time.perf_counter() - started,
            "".join(traceback.format_exception(error)),
        )
    return Attempt(index, CellStatus.OK, value, "", time.perf_counter() - started)
