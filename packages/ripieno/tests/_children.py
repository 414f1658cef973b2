"""Child processes that may be killed, forked from a small server: forking a test process with threads can hang."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

Acknowledge = Callable[[str], object]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["_writers", "pytest"])


class Child:
    """A process that runs ``action(acknowledge, *arguments)``; what it acknowledges reaches us at once."""

    def __init__(self, action: Callable[..., None], *arguments: Any) -> None:
        self._reader, writer = CONTEXT.Pipe(duplex=False)
        self.process: ForkServerProcess = CONTEXT.Process(target=_run, args=(writer, action, *arguments))
        self.process.start()
        writer.close()

    def wait_for_first_word(self) -> None:
        """Wait until something was acknowledged."""
        self._reader.poll(None)

    def acknowledged(self) -> list[str]:
        """Wait for the end and give everything that was acknowledged."""
        with os.fdopen(os.dup(self._reader.fileno()), "rb") as stream:
            lines = stream.read().decode().split("\n")[:-1]
        self._reader.close()
        self.process.join()
        return lines


def _run(writer: Connection, action: Callable[..., None], *arguments: Any) -> None:
    action(lambda text: os.write(writer.fileno(), f"{text}\n".encode()), *arguments)


def run_in_child(action: Callable[..., None], *arguments: Any) -> list[str]:
    """Run an action that must succeed and give what it acknowledged."""
    child = Child(action, *arguments)
    lines = child.acknowledged()
    assert child.process.exitcode == 0
    return lines
