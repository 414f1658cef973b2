"""Functions that cells of the tests run; worker processes import this module by name."""

import ctypes
import enum
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def square(cell: float) -> float:
    return cell * cell


def describe(cell: dict[str, object]) -> dict[str, object]:
    return {"name": cell["name"], "pair": (1, 2.0), "array": np.arange(3) / 2, "nothing": None}


def plain_value(cell: int) -> object:
    """Give a value that is recorded as it is, and ones that look like it and are not."""
    word = enum.StrEnum("Word", {"RED": "red"}).RED
    return [None, True, False, "", "scored", "fähig", "\x00\n", word, np.True_, np.str_("text"), 3, 1.0, "\ud800"][cell]


def raise_on_three(cell: int) -> int:
    if cell == 3:
        raise ValueError(f"cell {cell} is not to my taste")
    return cell


def raise_what_utf8_cannot_say(cell: int) -> None:
    raise ValueError("\udcff" * 50_000)


def text_of_length(cell: int) -> str:
    return "x" * cell


def misbehave(cell: str) -> str:
    """End the worker in the way the cell names, or return."""
    match cell:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "sys.exit":
            sys.exit(3)
        case "real-time signal":
            os.kill(os.getpid(), signal.SIGRTMIN + 6)
        case "kill, with a child" if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill, with a child":
            os.setsid()  # out of reach, with the pipe of the worker open
            time.sleep(60)
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "raise":
            raise RuntimeError("as asked")
        case "raise lines":
            raise RuntimeError("one\n  two\n")
        case "unpicklable":
            return lambda: None  # type: ignore[return-value] - the point of the case
    return cell


def fail_until(cell: dict[str, object]) -> int:
    """Count attempts in a file; succeed from attempt ``cell["attempts"]`` on, else raise or die."""
    counter = Path(str(cell["counter"]))
    attempt = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(attempt))
    if attempt < int(str(cell["attempts"])):
        if cell["how"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("not yet")
    return attempt


def fail_once_stopped(cell: dict[str, str]) -> None:
    """Without a folder succeed at once; else count the attempt, wait until somebody stopped, and raise."""
    if "folder" not in cell:
        return
    folder = Path(cell["folder"])
    (folder / f"attempt-{len(list(folder.glob('attempt-*')))}").touch()
    while not (folder / "stopped").exists():
        time.sleep(0.01)
    raise OSError("not yet")


def note_and_fail_when_told(cell: dict[str, str]) -> str:
    """Leave one line per call in a log; fail while the file ``cell["trouble"]`` exists."""
    with Path(cell["log"]).open("a") as log:
        log.write(cell["name"] + "\n")
    if "trouble" in cell and Path(cell["trouble"]).exists():
        raise RuntimeError("trouble")
    return cell["name"].upper()


def thread_limits(_: int) -> list[str]:
    return [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")]


def process_id(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def sleep_with_a_child(cell: dict[str, str]) -> None:
    """Start a child, write both process ids into the folder, and sleep until killed."""
    if cell["name"] == "quick":
        return
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pending = Path(cell["folder"]) / f"{cell['name']}.pending"
    pending.write_text(f"{os.getpid()} {child.pid}")
    pending.rename(pending.with_suffix(".pids"))
    time.sleep(600)
