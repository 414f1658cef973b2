"""Writers that run in child processes; each acknowledges every step as soon as the call has returned."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import ripieno
from ripieno.errors import InputError, RipienoError, StorageError
from ripieno.run import RunWriter
from ripieno.verify import VerifyStatus, verify

Acknowledge = Callable[[str], object]

WRITING_CODE = tuple(str(Path(ripieno.__file__).with_name(f"{name}.py")) for name in ("run", "chain", "files"))


def start(folder: Path) -> RunWriter:
    return RunWriter(folder, system="test", kind="child", config={})


def fail() -> None:
    raise ValueError("broken")


# To be killed


def write_long_run(acknowledge: Acknowledge, folder: Path) -> None:
    with start(folder) as run:
        acknowledge("created")
        for step in range(40):
            run.event("step", step=step, reward=1.0)
            acknowledge(f"event {step}")
            if step % 8 == 0:
                run.artifact(f"files/{step}.bin", bytes([step]) * 5000)
                acknowledge(f"artifact {step}")
        run.finish()
        acknowledge("finished")


def write_short_run(acknowledge: Acknowledge, folder: Path) -> None:
    with start(folder) as run:
        acknowledge("created")
        for step in range(2):
            run.event("step", step=step)
            acknowledge(f"event {step}")
        run.artifact("files/0.bin", bytes(5000))
        acknowledge("artifact 0")
        run.finish()
        acknowledge("finished")


def at_line(number: int, act: Callable[[], object]) -> tuple[Any, list[int]]:
    """Give a trace function that acts before the given executed line of writing code, and its counter."""
    count = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in WRITING_CODE:
            return None
        if event == "line":
            count[0] += 1
            if count[0] == number:
                act()
        return trace

    return trace, count


def write_traced(acknowledge: Acknowledge, folder: Path, trace: Any) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        write_short_run(acknowledge, folder)
    finally:
        sys.settrace(before)


def write_and_die_at(acknowledge: Acknowledge, folder: Path, line: int) -> None:
    os.chdir(folder.parent)  # outside of a repository git answers at once
    trace, _ = at_line(line, lambda: os.kill(os.getpid(), signal.SIGKILL))
    write_traced(acknowledge, folder, trace)


# On a full disk


def limit_files(n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def refused(act: Callable[[], object], kind: type[RipienoError] = StorageError) -> RipienoError:
    try:
        act()
    except kind as error:
        return error
    raise AssertionError("the file system took everything")


def write_until_full(acknowledge: Acknowledge, folder: Path, limit: int) -> None:
    limit_files(limit)
    try:
        with start(folder) as run:
            for step in range(20):
                run.event("step", step=step)
                acknowledge(str(step))
            run.artifact("a.bin", bytes(6500))
            acknowledge("artifact")
            run.finish()
            acknowledge("finished")
    except RipienoError as error:
        acknowledge(f"{type(error).__name__}: {error}")


def write_one_event_too_many(acknowledge: Acknowledge, folder: Path) -> None:
    run = start(folder)
    limit_files((folder / "events.jsonl").stat().st_size + 10)
    error = refused(lambda: run.event("step"))
    acknowledge(str(error))
    acknowledge(type(error.__cause__).__name__)


def write_with_a_pause_without_space(acknowledge: Acknowledge, folder: Path) -> None:
    with start(folder) as run:
        run.event("before")
        limit_files(100)
        refused(lambda: run.event("lost"))
        refused(lambda: run.artifact("a", bytes(1000)))
        refused(lambda: run.artifact("a", Path(__file__)))
        refused(run.finish)
        limit_files(10**6)
        run.artifact("a", bytes(1000))
        run.event("after")
        run.finish(summary={"x": 1})
    acknowledge("finished")


def finish_twice(acknowledge: Acknowledge, folder: Path) -> None:
    run = start(folder)
    limit_files((folder / "events.jsonl").stat().st_size + 600)  # enough for a closing record, not for run.json
    acknowledge(str(refused(lambda: run.finish(summary={"x": 1}))))
    assert verify(folder).status is VerifyStatus.INTERRUPTED
    limit_files(10**6)
    run.finish()


def fail_without_space(acknowledge: Acknowledge, folder: Path) -> None:
    try:
        with start(folder):
            limit_files(100)
            fail()
    except ValueError as error:
        acknowledge(str(error))
        acknowledge(error.__notes__[0])


def start_without_space(acknowledge: Acknowledge, folder: Path) -> None:
    limit_files(100)
    acknowledge(str(refused(lambda: start(folder), InputError)))


# Several processes


def race(acknowledge: Acknowledge, folder: Path, barrier: Any) -> None:
    barrier.wait()
    try:
        run = start(folder)
    except InputError as error:
        acknowledge("lost" if "exists already" in str(error) else str(error))
        return
    run.event("mine", pid=os.getpid())
    run.finish()
    acknowledge(f"won {os.getpid()}")


def write_artifacts(acknowledge: Acknowledge, folder: Path, n_artifacts: int) -> None:
    with start(folder) as run:
        acknowledge("created")
        for number in range(n_artifacts):
            run.artifact(f"many/{number}.txt", str(number))
        run.finish()
        acknowledge("finished")


def write_from_a_fork(acknowledge: Acknowledge, folder: Path) -> None:
    with start(folder) as run:
        child = os.fork()
        if child == 0:
            message = str(refused(lambda: run.event("from the child"), RipienoError))
            try:
                with run:
                    fail()
            except ValueError:
                acknowledge(message)
            os._exit(0)
        os.waitpid(child, 0)
        run.event("from the parent")
        run.finish()


def write_from_a_fork_while_a_thread_writes(acknowledge: Acknowledge, folder: Path) -> None:
    with start(folder) as run:
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                run.event("from the thread")

        thread = threading.Thread(target=write)
        thread.start()
        ends: set[int] = set()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(5)
                refused(lambda: run.event("from the child"), RipienoError)
                os._exit(0)
            ends.add(os.waitpid(child, 0)[1])
            if ends != {0}:
                break
        stop.set()
        thread.join()
        run.finish()
    acknowledge("refused" if ends == {0} else f"ended with {ends}")
