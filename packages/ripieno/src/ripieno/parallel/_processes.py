"""The engine of worker processes: a worker that dies costs its own cell and nothing else.

``concurrent.futures`` gives up its whole pool when one worker dies and cannot say which task killed it. Here
each worker has its own pipe and one cell at a time, so both are known.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection, get_context, parent_process
from multiprocessing.context import SpawnProcess
from typing import Any

from ripieno.errors import InputError
from ripieno.parallel._engine import thread_limits
from ripieno.parallel._outcome import Attempt, CellStatus, attempt

__all__ = ["ProcessEngine"]

DEATH_CHECK_S = 0.5
"""How often silent workers are looked at."""

_PICKLE_ERRORS = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: connection.Connection
    index: int = -1
    started: float = 0.0


class ProcessEngine:
    """Attempts on ``slots`` spawned processes that stay alive between cells.

    Raises:
        InputError: the function or a cell cannot be sent to another process.
    """

    def __init__(self, function: Callable[[Any], object], cells: Sequence[object], slots: int) -> None:
        self.slots = slots
        self._function = _pickled(function, "the function of the cells cannot be sent to a worker process")
        self._cells = [
            _pickled(cell, f"cell {index} cannot be sent to a worker process") for index, cell in enumerate(cells)
        ]
        self._busy: list[_Worker] = []
        self._idle: list[_Worker] = []

    def start(self, index: int) -> None:
        """Send the cell to an idle worker, or to a new one."""
        worker = self._idle.pop() if self._idle else self._spawn()
        worker.index, worker.started = index, time.perf_counter()
        self._busy.append(worker)
        with suppress(BrokenPipeError, ConnectionResetError):  # it died while idle; `wait` reports that
            worker.pipe.send((index, self._cells[index]))

    def wait(self) -> Attempt:
        """Wait for the first answer or death of a busy worker."""
        worker = self._first_to_answer_or_die()
        self._busy.remove(worker)
        if not worker.pipe.poll():
            return self._bury(worker)
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):  # it died before or in the middle of its answer
            return self._bury(worker)
        self._idle.append(worker)
        if answer.status is not CellStatus.OK:
            return answer
        carried_home = attempt(partial(pickle.loads, answer.value), answer.index)
        return replace(carried_home, seconds=answer.seconds)

    def _first_to_answer_or_die(self) -> _Worker:
        while True:
            ready = connection.wait([worker.pipe for worker in self._busy], DEATH_CHECK_S)
            for worker in self._busy:
                # A process that a dead worker has forked keeps its pipe open: silence is no sign of life.
                if worker.pipe in ready or worker.process.exitcode is not None:
                    return worker

    def close(self) -> None:
        """Kill every worker with whatever it started, and wait for it to be gone."""
        workers = [*self._busy, *self._idle]
        self._busy, self._idle = [], []
        for worker in workers:
            _kill(worker.process)
        for worker in workers:
            worker.process.join()
            worker.pipe.close()

    def _spawn(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._function), daemon=True)
        with _child_environment(thread_limits(self.slots)), _interrupts_held_back():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    @staticmethod
    def _bury(worker: _Worker) -> Attempt:
        worker.process.join()
        worker.pipe.close()
        _kill(worker.process)  # what it started may outlive it
        code = worker.process.exitcode or 0
        reason = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        seconds = time.perf_counter() - worker.started
        return Attempt(worker.index, CellStatus.DIED, None, f"the worker process {reason}", seconds)


def _serve(pipe: connection.Connection, function: bytes) -> None:
    """Answer cells until the other side is gone."""
    os.setsid()  # Ctrl-C is for the parent, which then ends this process and whatever it started
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            index, cell = pipe.recv()
        except EOFError:
            return
        pipe.send(attempt(partial(_call, function, cell), index))


def _end_with_parent() -> None:
    """End this process and what it started when the parent is gone without having said so."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)


def _call(function: bytes, cell: bytes) -> bytes:
    """Unpickle, call, pickle: a failure of any of the three is the cell's own error."""
    value = pickle.loads(function)(pickle.loads(cell))  # noqa: S301 - from our own parent process
    return _pickled(value, "the value cannot be pickled")


def _pickled(value: object, refusal: str) -> bytes:
    try:
        return pickle.dumps(value)
    except _PICKLE_ERRORS as error:
        raise InputError(f"{refusal}: {error}") from error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _kill(process: SpawnProcess) -> None:
    process.kill()
    if process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):  # it never led a group, or nothing is left of it
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _child_environment(variables: dict[str, str]) -> Generator[None, None, None]:
    """Set environment variables for children started inside; BLAS reads them before any of our code runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_held_back() -> Generator[None, None, None]:
    """Start children with SIGINT blocked, so that Ctrl-C during their start-up prints no traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
