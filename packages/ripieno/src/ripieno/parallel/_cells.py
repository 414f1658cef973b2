"""The loop over cells, the same for every engine: start, wait, retry, record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, Literal, TypeVar, get_args

from ripieno.errors import InputError
from ripieno.parallel._engine import Engine, SerialEngine, available_cores
from ripieno.parallel._ledger import CellLedger
from ripieno.parallel._outcome import Attempt, CellOutcome, CellStatus
from ripieno.parallel._progress import progress_bar

__all__ = ["Executor", "run_cells"]

Cell = TypeVar("Cell")
Value = TypeVar("Value")
Executor = Literal["serial", "processes", "ray"]


def run_cells(
    fn: Callable[[Cell], Value],
    cells: Sequence[Cell],
    *,
    executor: Executor = "serial",
    workers: int | None = None,
    resume: Path | str | None = None,
    retries: int = 0,
    progress: bool | None = None,
    labels: Sequence[str] | None = None,
    address: str | None = None,
    until: Callable[[CellOutcome[Value]], bool] | None = None,
) -> list[CellOutcome[Value]]:
    """Call a function once for every cell and give the outcomes in the order of the cells.

    Args:
        fn: called with one cell. For ``processes`` it must be importable by name; its arguments and values travel
            pickled.
        cells: the inputs. With ``resume`` they and the values must be plain data (what JSON can say, and NumPy).
        executor: ``serial`` runs here, ``processes`` on spawned processes, ``ray`` on a Ray cluster
            (``pip install 'ripieno[cluster]'``). Workers share the cores between their BLAS and Numba threads.
        workers: attempts at a time; by default all cores (of the cluster, for ``ray``).
        resume: ledger file; made when it does not exist. A later call with the same function and cells skips the
            cells that have a value and tries the others again.
        retries: further attempts at a cell that raised or whose worker died.
        progress: show a bar on standard error; None shows it on a terminal.
        labels: what people call the cells; by default ``cell 0``, ``cell 1``, and so on.
        address: Ray cluster; by default that of ``RAY_ADDRESS``, else a local Ray is started and ended.
        until: told of every outcome as it ends now; once it gives True, no further cell is started, and those that
            are under way are waited for.

    Returns:
        One outcome per cell, or per cell that has ended when ``until`` stopped the others. A cell that raised or
        whose worker died has an error, the others are not affected. Ctrl-C (or any other exception from outside the
        cells) ends all workers and leaves the ledger resumable.

    Raises:
        InputError: an argument does not fit, or the ledger belongs to other work; nothing was run.
        IntegrityError: the ledger was changed.
        ImportError: ``ray`` is asked for and not installed.

    Examples:
        >>> [outcome.value for outcome in run_cells(abs, [-1, 2, -3])]
        [1, 2, 3]
    """
    _check(executor, workers, retries, len(cells), labels)
    names = list(labels) if labels is not None else [f"cell {index}" for index in range(len(cells))]
    ledger = CellLedger(Path(resume), fn, cells, names) if resume is not None else None
    outcomes: dict[int, CellOutcome[Any]] = dict(ledger.finished) if ledger else {}
    unfinished = [index for index in range(len(cells)) if index not in outcomes]
    if unfinished:
        with closing(_engine(fn, cells, executor, workers, len(unfinished), address)) as engine:
            _run(engine, unfinished, retries, names, ledger, outcomes, progress=progress, until=until)
    return [outcomes[index] for index in range(len(cells)) if index in outcomes]


def _run(
    engine: Engine,
    unfinished: Sequence[int],
    retries: int,
    labels: Sequence[str],
    ledger: CellLedger | None,
    outcomes: dict[int, CellOutcome[Any]],
    *,
    progress: bool | None,
    until: Callable[[CellOutcome[Any]], bool] | None,
) -> None:
    """Run the unfinished cells and add their outcomes to the others."""
    if ledger:
        ledger.open()
    try:
        with progress_bar(len(labels), done=len(outcomes), shown=progress) as advance:
            stopping = Event()
            for ended in _ends(engine, unfinished, retries, labels, stopping):
                outcome = _recorded(ledger, ended)
                outcomes[outcome.index] = outcome
                advance(outcome)
                if until is not None and until(outcome):
                    stopping.set()
    finally:
        if ledger:
            ledger.close(complete=len(outcomes) == len(labels) and all(o.ok for o in outcomes.values()))


def _check(executor: str, workers: int | None, retries: int, n_cells: int, labels: Sequence[str] | None) -> None:
    if executor not in get_args(Executor):
        raise InputError(f"executor must be one of {', '.join(get_args(Executor))}, got {executor!r}")
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if executor == "serial" and workers not in (None, 1):
        raise InputError(f"executor 'serial' has one worker, got workers={workers}")
    if retries < 0:
        raise InputError(f"retries must not be negative, got {retries}")
    if labels is not None and len(labels) != n_cells:
        raise InputError(f"there must be one label per cell: {n_cells} cells, {len(labels)} labels")


def _engine(
    fn: Callable[[Any], object],
    cells: Sequence[object],
    executor: Executor,
    workers: int | None,
    n_unfinished: int,
    address: str | None,
) -> Engine:
    if executor == "serial":
        return SerialEngine(fn, cells)
    if executor == "processes":
        from ripieno.parallel._processes import ProcessEngine

        return ProcessEngine(fn, cells, min(workers or available_cores(), n_unfinished))
    from ripieno.parallel._ray import RayEngine

    return RayEngine(fn, cells, workers, address)


def _ends(
    engine: Engine, unfinished: Iterable[int], retries: int, labels: Sequence[str], stopping: Event
) -> Iterator[CellOutcome[Any]]:
    """Run the unfinished cells and give the outcome of each as it ends; once ``stopping`` is set nothing is started."""
    waiting = deque(unfinished)
    under_way = 0
    earlier: dict[int, list[Attempt]] = {}
    while under_way or (waiting and not stopping.is_set()):
        while waiting and under_way < engine.slots and not stopping.is_set():
            engine.start(waiting.popleft())
            under_way += 1
        last = engine.wait()
        under_way -= 1
        attempts = earlier.setdefault(last.index, [])
        attempts.append(last)
        if last.status is not CellStatus.OK and len(attempts) <= retries and not stopping.is_set():
            waiting.append(last.index)  # behind the others: what was wrong may pass
            continue
        yield CellOutcome(
            index=last.index,
            label=labels[last.index],
            status=last.status,
            value=last.value,
            error=last.error,
            attempts=len(attempts),
            seconds=sum(attempt.seconds for attempt in attempts),
            traceback=last.traceback,
        )


def _recorded(ledger: CellLedger | None, outcome: CellOutcome[Any]) -> CellOutcome[Any]:
    """Write the outcome to the ledger; a value that cannot be written makes the cell a failed one."""
    if ledger is None:
        return outcome
    try:
        value = ledger.normalised(outcome.value)
        if value is not outcome.value:
            outcome = replace(outcome, value=value)
        ledger.record(outcome)
    except InputError as error:  # of no type that can be recorded, or too long for a line
        outcome = replace(outcome, status=CellStatus.FAILED, value=None, error=f"the value cannot be recorded: {error}")
        ledger.record(outcome)
    return outcome
