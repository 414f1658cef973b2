"""What a run says: one JSON object per line."""

from __future__ import annotations

import fcntl
import importlib
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Protocol, Self, cast, get_args

from concerto.training.logging._identity import IDENTITY, PROVENANCE, RESERVED, RunContext, refuse_names, whole_number
from concerto.training.logging._wandb import UnfailingSink, WandbSink
from ripieno.errors import InputError, StorageError
from ripieno.files import write_all

LogNamespace = Literal["train", "eval", "safety", "hardware", "rollout"]
"""What a scalar is about."""

_LOG_NAMESPACES: frozenset[str] = frozenset(get_args(LogNamespace))

Event = dict[str, Any]
_Processor = Callable[[Any, str, Event], Event]


class RunLogger(Protocol):
    """Logger of one run, a `structlog.BoundLogger` that can be closed; also a context manager.

    Every method but the last four writes one event: its name, and its fields as keywords.
    """

    def debug(self, event: str, **fields: object) -> object: ...

    def info(self, event: str, **fields: object) -> object: ...

    def warning(self, event: str, **fields: object) -> object: ...

    def error(self, event: str, **fields: object) -> object: ...

    def bind(self, **new_values: object) -> Self:
        """Give a logger of the same run with more fields on every line."""
        ...

    def close(self) -> None:
        """Close the log and the W&B run, for all loggers bound from this one; may be called again."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def bind_run_logger(
    ctx: RunContext, *, jsonl_path: Path, wandb_sink: WandbSink | None = None, resume: bool = False
) -> RunLogger:
    """Open the log of a run and give the logger that writes to it; nothing goes to stdout.

    Every event is one line: a JSON object with sorted keys, written before the call returns. It holds ``event``,
    ``level``, the fields of the context and the keywords of the call. NumPy scalars are numbers, arrays and tensors are
    lists, NaN and infinities are null, anything else that JSON cannot say is its ``str``. Every event also goes to the
    sink, if there is one; a sink that fails is left alone from then on, and the log is the same with and without it.

    Args:
        ctx: the run.
        jsonl_path: the log; its folder is made. While it is open no other process can open it.
        wandb_sink: takes a copy of every event; closed with the logger.
        resume: append to an existing log, after a newline if its last line is torn. Otherwise an existing log is
            kept under the name ``<stem>.previous-<k>.jsonl.old``, with a `UserWarning`.

    Returns:
        A `structlog.BoundLogger` with ``close()``; also a context manager.

    Raises:
        ImportError: structlog is not installed; the message says how to install it.
        InputError: the log cannot be opened, or another process is writing it.
        StorageError: (from the logger) a line could not be written; the lines before it are whole.

    Examples:
        >>> with bind_run_logger(context, jsonl_path=Path("logs/run.jsonl")) as logger:  # doctest: +SKIP
        ...     log_scalars(logger, step=1024, namespace="train", policy_loss=0.3)
    """
    structlog = _require_structlog()
    log = _RunLog(Path(jsonl_path), resume=resume, sink=wandb_sink, when_written=structlog.DropEvent)
    processors: list[_Processor] = [structlog.processors.add_log_level, log.forward, log.write]
    if log.sink is None:
        processors.remove(log.forward)
    else:
        log.sink.set_config(ctx.fields())
    return cast("RunLogger", _logger_class()(log, processors, ctx.fields()))


def log_scalars(logger: RunLogger, *, step: int, namespace: LogNamespace, **scalars: float | None) -> None:
    """Write an event ``scalar``: ``step``, ``metric_namespace``, ``wall_time`` and every scalar as a field.

    Raises:
        InputError: (a ValueError) the namespace is none of `LogNamespace`, or a scalar has the name of a field that
            every line has.
    """
    if namespace not in _LOG_NAMESPACES:
        raise InputError(f"namespace must be one of {sorted(_LOG_NAMESPACES)}, got {namespace!r}")
    refuse_names(scalars, _taken_names(logger), what="scalar")
    logger.info("scalar", step=step, metric_namespace=namespace, wall_time=wall_time(), **scalars)


def log_eval(logger: RunLogger, *, step: int, condition: str, **results: float | int | None) -> None:
    """Write an event ``eval`` of namespace ``eval``: what the policy of this step reached.

    Args:
        logger: of the run.
        step: frames trained so far.
        condition: what was evaluated, e.g. ``as-hetero``.
        **results: ``success_rate``, ``mean_episode_length``, ``mean_episode_reward``, ``n_terminated``,
            ``n_truncated``.

    Raises:
        InputError: (a ValueError) a result has the name of a field that every line has.
    """
    refuse_names(results, _taken_names(logger), what="result")
    logger.info("eval", step=step, condition=condition, metric_namespace="eval", wall_time=wall_time(), **results)


def wall_time() -> str:
    """Give the time in UTC as ISO 8601 with microseconds, e.g. ``2026-05-22T15:54:48.752123+00:00``."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def json_line(fields: Mapping[str, object]) -> bytes:
    r"""Write fields as one line of JSON with sorted keys; see `bind_run_logger` for what JSON cannot say.

    Examples:
        >>> json_line({"reward": float("nan"), "at": (1, 2)})
        b'{"at": [1, 2], "reward": null}\n'
    """
    return json.dumps(_plain(fields), sort_keys=True, allow_nan=False).encode() + b"\n"


def set_aside(path: Path) -> Path:
    """Rename a file that a new one is to replace, to a name no reader of ``*.jsonl`` finds, and give that name."""
    number = 1
    while True:
        kept = path.with_name(f"{path.stem}.previous-{number}{path.suffix}.old")
        if not os.path.lexists(kept):
            return path.rename(kept)
        number += 1


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays, tensors
        return _plain(cast("Any", value).tolist())
    return str(value)


def _taken_names(logger: RunLogger) -> frozenset[str]:
    return RESERVED | {"condition"} | getattr(logger, "_context", {}).keys()


class _RunLog:
    """The open log: the last processor of its loggers, which share it, and what they wrap."""

    def __init__(self, path: Path, *, resume: bool, sink: WandbSink | None, when_written: type[BaseException]) -> None:
        self._path = path
        self._when_written = when_written
        self.sink = None if sink is None else UnfailingSink(sink)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = _open_log(path, resume=resume)
        except OSError as error:
            raise InputError(f"cannot open the log {path}: {error.strerror}") from error
        self._size = os.fstat(self._stream.fileno()).st_size

    def forward(self, logger: object, method: str, event: Event) -> Event:
        """Give the sink what is not in its configuration already; the event goes on unchanged."""
        if self.sink is not None and not self._stream.closed:
            payload = {name: value for name, value in event.items() if name not in {*IDENTITY, *PROVENANCE}}
            self.sink.log(payload, step=whole_number(event.get("step")))
        return event

    def write(self, logger: object, method: str, event: Event) -> NoReturn:
        """Append one line, whole or not at all."""
        if self._stream.closed:
            raise ValueError(f"the log {self._path} is closed, and the event {event.get('event')!r} came after that")
        line = json_line(event)
        try:
            write_all(self._stream, line)
        except OSError as error:
            with suppress(OSError):
                self._stream.truncate(self._size)  # no torn line: what was written before stays readable
            raise StorageError(f"cannot write to the log {self._path}: {error.strerror}") from error
        self._size += len(line)
        raise self._when_written  # nothing is left for a logger below to print

    def close(self) -> None:
        if self._stream.closed:
            return
        self._stream.close()
        if self.sink is not None:
            self.sink.close()


def _open_log(path: Path, *, resume: bool) -> FileIO:
    """Open an empty log, or with ``resume`` one that ends with a whole line."""
    stream = _open_locked(path)
    size = os.fstat(stream.fileno()).st_size
    if size == 0:
        return stream
    if resume:
        if os.pread(stream.fileno(), 1, size - 1) != b"\n":
            write_all(stream, b"\n")
        return stream
    with stream:
        kept = set_aside(path)
    warnings.warn(
        f"{path} is the log of an earlier run of the same id; it is kept as {kept.name}", UserWarning, stacklevel=4
    )
    return _open_locked(path)


def _open_locked(path: Path) -> FileIO:
    """Open a file for appending, for this process alone.

    Raises:
        InputError: another one has it open.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    stream = FileIO(descriptor, "a+")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_in_use = not _still_named(path, descriptor)
    except BlockingIOError:
        is_in_use = True
    except OSError:
        is_in_use = False  # a file system without locks
    if is_in_use:
        stream.close()
        raise InputError(f"the log {path} is being written: this run is already running")
    return stream


def _still_named(path: Path, descriptor: int) -> bool:
    """Whether the open file was not set aside by another process between opening and locking."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _require_structlog() -> Any:
    try:
        return importlib.import_module("structlog")
    except ImportError as error:
        raise ImportError(
            "structlog is not installed, and the log of a training run needs it; install it with: "
            "pip install 'ripieno-concerto[train]'"
        ) from error


@cache
def _logger_class() -> Any:
    """Make the class of `RunLogger`, whose base is there only when structlog is."""
    base: Any = _require_structlog().BoundLogger

    class JsonlRunLogger(base):
        """Logger of one run; all loggers bound from it share one open log."""

        def close(self) -> None:
            self._logger.close()

        def __enter__(self) -> Self:
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> None:
            self.close()

    return JsonlRunLogger
