"""The console of a worker: one line of JSON, and silence while an arena works, which may print simulated user text."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from workers.official_arenas._errors import OfficialArenaError

__all__ = ["NOT_WRITTEN", "quiet_console", "say"]

NOT_WRITTEN = "The answer could not be written to stdout"


def say(stream: TextIO | None, value: Mapping[str, Any]) -> bool:
    """Write a line of JSON as UTF-8, whatever the locale of the host says.

    Returns:
        Whether all of it was written; a console that is closed, full or gone takes nothing.
    """
    line = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    data = line.encode(errors="backslashreplace")  # the \udcXX of a path that is not UTF-8 is JSON's own escape
    if stream is None:  # closed before this process began
        return False
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.flush()
    except (OSError, ValueError):
        _forget(stream)
        return False
    return True


def _forget(stream: TextIO) -> None:
    """Let the interpreter's last flush go to nowhere: it would fail again and print a traceback."""
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
    except (OSError, ValueError):
        return  # it has no descriptor: nothing will be flushed to it


@contextmanager
def quiet_console() -> Generator[None]:
    """Send everything that this process writes to its console to nowhere, logging handlers and libraries included.

    Raises:
        OfficialArenaError: the console cannot be silenced (no descriptor is free); nothing was run.
    """
    given = sys.stdout, sys.stderr
    for stream in given:
        stream.flush()
    saved: list[int] = []
    try:
        try:
            for number in (1, 2):
                saved.append(os.dup(number))  # noqa: PERF401 - what was opened before one fails is closed below
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - without `Path` faster, once per pair
        except OSError as error:
            raise OfficialArenaError("Console could not be silenced; nothing was run") from error
        with nowhere:
            try:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
                sys.stdout = sys.stderr = nowhere
                yield
            finally:
                sys.stdout, sys.stderr = given
                for stream in given:  # a handler that kept the original stream: its text must go to nowhere, too
                    stream.flush()
                for number, descriptor in enumerate(saved, start=1):
                    os.dup2(descriptor, number)
    finally:
        for descriptor in saved:
            os.close(descriptor)
