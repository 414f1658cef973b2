"""Kills the process at a chosen file operation: before it, after it, or, for a write, in the middle of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Moment = Literal["before", "after", "torn"]

OPERATIONS = (
    "open",
    "close",
    "read",
    "write",
    "fsync",
    "mkdir",
    "rmdir",
    "link",
    "unlink",
    "rename",
    "scandir",
    "stat",
    "lstat",
    "fstat",
)
CHANGES = frozenset({"os.mkdir", "os.rmdir", "os.link", "os.remove", "os.rename", "os.symlink", "os.truncate"})
"""Audit events of operations that change a file system, whoever makes them."""


@dataclass
class KillShim:
    """Counts file operations of this process and kills it at one of them.

    ``fsync`` is counted and left out: against SIGKILL it makes no difference, and it is what costs time.
    """

    kill_at: int = -1
    moment: Moment = "before"
    trace: list[str] = field(default_factory=list)
    bypassed: list[str] = field(default_factory=list)
    _inside: bool = False

    def install(self) -> None:
        for name in OPERATIONS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        sys.addaudithook(self._audit)

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            index = len(self.trace)
            self.trace.append(name)
            if index == self.kill_at and self.moment == "before":
                die()
            if index == self.kill_at and self.moment == "torn":
                original(args[0], bytes(args[1])[: len(args[1]) // 2])
                die()
            self._inside = True
            try:
                return None if name == "fsync" else original(*args, **options)
            finally:
                self._inside = False
                if index == self.kill_at:
                    die()

        return operation

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Everything that changes the file system must have come through a counted operation."""
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        is_the_model = "calls.txt" in repr(arguments[:1])  # its calls are counted outside of any ledger
        is_nowhere = event == "open" and str(arguments[0]) == os.devnull  # where a quiet console writes
        if (event in CHANGES or writes) and not (self._inside or is_the_model or is_nowhere):
            self.bypassed.append(f"{event} {arguments[0]!r}")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], None]) -> int:
    """Do something in a fork of this process and give its wait status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]
