"""Saves a checkpoint again and again, each time with another fault; run as a script.

Every attempt is a fork of this process in its own folder, and has one fault at one file operation: the process is
killed before it, after it or in the middle of a write; the disk is full; a write takes only half of what it is given.
A save where there is no earlier checkpoint is killed only.
The answer on stdout is a JSON list of the attempts. What they left behind is for the tests to judge.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from concerto.training.checkpoints import CheckpointError, CheckpointMetadata, save_checkpoint

URI = "local://artifacts/policy.pt"
OPERATIONS = ("open", "close", "write", "fsync", "mkdir", "unlink", "rename", "replace")
CHANGES = frozenset({"os.mkdir", "os.rmdir", "os.link", "os.remove", "os.rename", "os.symlink", "os.truncate"})
"""Audit events of operations that change a file system, whoever makes them."""
KILLS = ("killed before", "killed after")
SAVED, REFUSED = 0, 3


def state(step: int) -> dict[str, Any]:
    """A state of more than one block, different in every byte range from that of another step."""
    return {
        "actor": {"weight": torch.full((300_000,), float(step)), "bias": torch.arange(7) + step},
        "resume": {"format": 1, "step": step, "note": None},
    }


def metadata(step: int) -> CheckpointMetadata:
    return CheckpointMetadata("0123456789abcdef", 7, step, "unknown", "e3b0", "")


def save(root: Path, step: int) -> None:
    save_checkpoint(state_dict=state(step), uri=URI, metadata=metadata(step), artifacts_root=root)


class Fault:
    """Counts the file operations of this process and does something at one of them."""

    def __init__(self, at: int = -1, kind: str = "") -> None:
        self.trace: list[str] = []
        self.bypassed: list[str] = []
        self._at, self._kind, self._is_inside = at, kind, False

    def install(self) -> None:
        for name in OPERATIONS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        sys.addaudithook(self._audit)

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            kind = self._kind if len(self.trace) == self._at else ""
            self.trace.append(name)
            if kind == "killed before":
                die()
            if kind == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if kind in {"torn", "short"}:
                args = (args[0], bytes(args[1])[: len(args[1]) // 2])
            self._is_inside = True
            try:
                # Against SIGKILL a sync makes no difference, and it is what costs time.
                return None if name == "fsync" else original(*args, **options)
            finally:
                self._is_inside = False
                if kind in {"killed after", "torn"}:
                    die()

        return operation

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in CHANGES or writes) and not self._is_inside:
            self.bypassed.append(f"{event} {arguments[0]!r}")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_fork(work: Callable[[], None]) -> int:
    """Do something in a fork and give its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = SAVED
        except CheckpointError as error:
            print(error, file=sys.stderr)
            code = REFUSED
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def traced(folder: Path) -> list[str]:
    """The operations of a save over an earlier checkpoint, found in a fork that has no fault."""
    read_end, write_end = os.pipe()
    raw_write = os.write

    def work() -> None:
        fault = Fault()
        fault.install()
        save(folder, 2)
        assert fault.bypassed == [], "something changed the file system past the counted operations"
        raw_write(write_end, json.dumps(fault.trace).encode())

    save(folder, 1)
    assert in_fork(work) == SAVED
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        return json.load(stream)


def main(root: Path) -> list[dict[str, Any]]:
    trace = traced(root / "traced")
    results: list[dict[str, Any]] = []

    def attempt(kind: str, where: object, work: Callable[[Path], None], *, operation: str, has_earlier: bool) -> None:
        name = f"{kind} {where} {operation}, {'earlier' if has_earlier else 'nothing'} before"
        if has_earlier:
            save(root / name, 1)
        code = in_fork(lambda: work(root / name))
        results.append({"name": name, "kind": kind, "operation": operation, "has_earlier": has_earlier, "code": code})

    for index, operation in enumerate(trace):
        for kind in (*KILLS, "torn", "full", "short") if operation == "write" else (*KILLS, "full"):

            def faulty(folder: Path, index: int = index, kind: str = kind) -> None:
                Fault(index, kind).install()
                save(folder, 2)

            attempt(kind, index, faulty, operation=operation, has_earlier=True)
            if kind in KILLS:
                attempt(kind, index, faulty, operation=operation, has_earlier=False)
    for limit in (0, 1000, 2**20, 1_200_000):  # refused by the kernel, the last one within the last write

        def limited(folder: Path, limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            save(folder, 2)

        attempt("full", f"at {limit} bytes", limited, operation="write", has_earlier=True)
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(Path(sys.argv[1]))))
