"""One program, run once, within bounds: input, time, bytes of output, and nothing of it left running."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from agentinputlab.contracts._checks import finite, whole
from agentinputlab.contracts.errors import ExternalDependencyError, ValidationError

__all__ = ["ENVIRONMENT_NAMES", "BoundedResult", "checked_argv", "minimal_environment", "run_bounded_process"]

ENVIRONMENT_NAMES = ("LANG", "LC_ALL", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "WINDIR")
"""What a program outside sees of this process's environment, unless the caller adds to it."""
_CHUNK_BYTES = 65536
_POLL_SECONDS = 0.05
_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class BoundedResult:
    """What a program did.

    Attributes:
        exit_code: its exit code, negative for a signal.
        stdout: what it wrote, at most the allowed bytes.
        stderr: likewise.
        wall_seconds: from start to end.
        cpu_seconds: processor time of it and of the children it waited for.
        peak_memory_bytes: largest resident memory of one of them.
        exceeded: which bound it broke and was killed for: ``time``, ``stdout`` or ``stderr``; None for none.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    exceeded: str | None = None


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Give a command line as separate words, which no shell will read.

    Raises:
        ValidationError: it is a string, empty, or holds something else than strings without NUL.
    """
    given = cast("object", argv)
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise ValidationError(f"argv must be a sequence of words, not one command line, got {type(argv).__name__}")
    for index, word in enumerate(cast("Sequence[object]", argv)):
        if not isinstance(word, str) or "\0" in word:
            raise ValidationError(f"argv[{index}] must be a string without NUL, got {type(word).__name__}")
    if not argv or not argv[0]:
        raise ValidationError("argv must begin with the name of a program")
    return tuple(argv)


def minimal_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the few variables that a program outside needs, and those of ``extra``; no key of ours leaks into it."""
    kept = {name: os.environ[name] for name in ENVIRONMENT_NAMES if name in os.environ}
    return {**kept, "PYTHONIOENCODING": "utf-8", **(extra or {})}


def run_bounded_process(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout_seconds: float = 300.0,
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
    max_stdout_bytes: int = 8 * _MEBIBYTE,
    max_stderr_bytes: int = _MEBIBYTE,
    memory_bytes: int | None = None,
) -> BoundedResult:
    """Run a program to its end, or to the first bound it breaks. Its whole process group is gone afterwards.

    The program runs without a shell, in a session of its own. A child that it leaves behind is killed with it.

    Args:
        argv: program and arguments.
        stdin: what it reads; it may stop reading early.
        timeout_seconds: longest time.
        environment: its whole environment; `minimal_environment` by default.
        working_directory: where it runs; here by default.
        max_stdout_bytes: most bytes it may write to standard output.
        max_stderr_bytes: likewise to standard error.
        memory_bytes: address space of each of its processes; no limit by default.

    Raises:
        ValidationError: an argument is wrong.
        ExternalDependencyError: the program cannot be started.
    """
    words = checked_argv(argv)
    if finite(timeout_seconds, "timeout_seconds") <= 0:
        raise ValidationError(f"timeout_seconds must be positive, got {timeout_seconds!r}")
    whole(max_stdout_bytes, "max_stdout_bytes")
    whole(max_stderr_bytes, "max_stderr_bytes")
    if memory_bytes is not None:
        whole(memory_bytes, "memory_bytes", minimum=1)
    started = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603 - words from the operator, no shell
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=minimal_environment() if environment is None else dict(environment),
            cwd=working_directory,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise ExternalDependencyError(f"{Path(words[0]).name} cannot be started: {error.strerror}") from error
    conversation = _Conversation(process, stdin, {"stdout": max_stdout_bytes, "stderr": max_stderr_bytes})
    try:
        if memory_bytes is not None:
            _limit_memory(process.pid, memory_bytes)
        conversation.run(started + timeout_seconds)
    finally:
        exit_code, cpu_seconds, peak_memory_bytes = _end(process)
    return BoundedResult(
        exit_code=exit_code,
        stdout=bytes(conversation.received["stdout"]),
        stderr=bytes(conversation.received["stderr"]),
        wall_seconds=time.monotonic() - started,
        cpu_seconds=cpu_seconds,
        peak_memory_bytes=peak_memory_bytes,
        exceeded=conversation.exceeded,
    )


class _Conversation:
    """Writes what a program reads and reads what it writes, without waiting on any one of its pipes."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limits: Mapping[str, int]) -> None:
        self._process = process
        self._unsent = memoryview(stdin)
        self._limits = limits
        self.received = {name: bytearray() for name in limits}
        self.exceeded: str | None = None

    def run(self, deadline: float) -> None:
        assert self._process.stdin is not None  # noqa: S101 - all three are pipes
        assert self._process.stdout is not None  # noqa: S101 - as above
        assert self._process.stderr is not None  # noqa: S101 - as above
        pipes: dict[str, IO[bytes]] = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        with selectors.DefaultSelector() as selector, _end_signal(self._process.pid) as end:
            if end is not None:
                selector.register(end, selectors.EVENT_READ, "end")
            for name, pipe in pipes.items():
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            os.set_blocking(self._process.stdin.fileno(), False)
            selector.register(self._process.stdin, selectors.EVENT_WRITE, "stdin")
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    self.exceeded = "time"
                    return
                # A program that has ended may have left a child that holds its pipes: look before waiting, so that
                # what it wrote before its end is still read.
                ended = _has_ended(self._process.pid)
                ready = [key for key, _ in selector.select(0 if ended else min(left, _POLL_SECONDS))]
                for key in ready:
                    if key.data != "end":
                        self._serve(selector, key)
                    if self.exceeded is not None:
                        return
                if ended and not any(key.data in self.received for key in ready):
                    return

    def _serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        pipe = cast("IO[bytes]", key.fileobj)  # only pipes of the program are served
        if key.data == "stdin":
            if not self._send(pipe.fileno()):
                selector.unregister(pipe)
                pipe.close()
            return
        chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        if not chunk:
            selector.unregister(pipe)
            return
        received = self.received[key.data]
        room = self._limits[key.data] - len(received)
        received += chunk[:room]
        if len(chunk) > room:
            self.exceeded = key.data

    def _send(self, descriptor: int) -> bool:
        """Send a part; tell whether there is more to send to somebody who still reads."""
        if self._unsent:
            try:
                self._unsent = self._unsent[os.write(descriptor, self._unsent[:_CHUNK_BYTES]) :]
            except BrokenPipeError:  # it need not read all of it
                return False
        return bool(self._unsent)


@contextmanager
def _end_signal(pid: int) -> Generator[int | None]:
    """Give a descriptor that becomes readable when a child ends; None where the system has no such thing."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _limit_memory(pid: int, memory_bytes: int) -> None:
    import resource

    try:
        resource.prlimit(pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except ProcessLookupError:  # it has ended already
        return


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended, without taking its exit code: until then its id belongs to nobody else."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> tuple[int, float, int]:
    """Kill what is left of the process group; give exit code, processor seconds and peak memory of the program."""
    # The program is not waited for yet, so the id of its group cannot have passed to somebody else.
    os.killpg(process.pid, signal.SIGKILL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return process.returncode, used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss
