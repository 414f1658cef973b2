"""A quiet console: what an arena prints may hold simulated user text."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

__all__ = ["quiet_console"]


@contextmanager
def quiet_console() -> Generator[None]:
    """Send everything that this process writes to its console to nowhere, logging handlers and libraries included."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
    finally:
        sys.stdout.flush()  # a handler that kept the original stream: its text must go to nowhere, too
        sys.stderr.flush()
        for number, descriptor in enumerate(saved, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
