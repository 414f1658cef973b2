"""What a training run is, and what it says: its identity, and one JSON object per line in its log.

`compute_run_metadata` names the run after what decides it. `bind_run_logger` opens the log. `log_scalars` and
`log_eval` write the two events whose form readers rely on. The log is the record; Weights & Biases is a copy of it that
can fail at any time without the run noticing.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import logging
import math
import os
import subprocess
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from io import FileIO
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Protocol, Self, cast, get_args

from ripieno.errors import InputError, StorageError
from ripieno.files import write_all

__all__ = [
    "GIT_SHA_UNKNOWN",
    "LogNamespace",
    "RunContext",
    "RunLogger",
    "WandbSettings",
    "WandbSink",
    "bind_run_logger",
    "compute_run_metadata",
    "json_line",
    "log_eval",
    "log_scalars",
    "make_wandb_run_sink",
    "set_aside",
    "wall_time",
]

GIT_SHA_UNKNOWN = "unknown"
"""Stands for the launch commit where there is no repository, no commit or no git."""

LogNamespace = Literal["train", "eval", "safety", "hardware", "rollout"]
"""What a scalar is about."""

_LOG_NAMESPACES: frozenset[str] = frozenset(get_args(LogNamespace))

_IDENTITY = ("run_id", "seed", "git_sha", "pyproject_hash", "run_kind")
_PROVENANCE = ("git_dirty", "lock_file_sha256")
_RESERVED = frozenset({*_IDENTITY, *_PROVENANCE, "event", "level", "step", "metric_namespace", "wall_time"})
_LOCK_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "constraints.txt")
_MODES_WITHOUT_KEY = ("offline", "dryrun", "disabled")
_GIT_TIMEOUT_S = 5.0
_LOGGER = logging.getLogger(__name__)

Event = dict[str, Any]
_Processor = Callable[[Any, str, Event], Event]


class RunLogger(Protocol):
    """Logger of one run, a `structlog.BoundLogger` that can be closed; also a context manager.

    Every method but the last four writes one event: its name, and its fields as keywords.
    """

    def debug(self, event: str, **fields: object) -> object: ...  # noqa: D102

    def info(self, event: str, **fields: object) -> object: ...  # noqa: D102

    def warning(self, event: str, **fields: object) -> object: ...  # noqa: D102

    def error(self, event: str, **fields: object) -> object: ...  # noqa: D102

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


class WandbSink(Protocol):
    """Where a copy of every event goes."""

    def log(self, data: Mapping[str, object], *, step: int | None = None) -> None:
        """Take the fields of one event."""
        ...

    def set_config(self, config: Mapping[str, object]) -> None:
        """Take what the run is."""
        ...

    def add_tags(self, tags: Iterable[str]) -> None:
        """Add labels such as ``stage:1`` or ``condition:as-hetero``; those that are there already change nothing."""
        ...

    def close(self) -> None:
        """End the copy."""
        ...


class WandbSettings(Protocol):
    """What `make_wandb_run_sink` reads from the configuration."""

    @property
    def enabled(self) -> bool:
        """Whether a copy is wanted at all."""
        ...

    @property
    def project(self) -> str:
        """Project of the copy."""
        ...


# --- what a run is ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunContext:
    """The identity of one run; its fields are on every line of its log.

    Attributes:
        run_id: 16 hex digits; stem of the log, name of the checkpoints, id and name of the W&B run.
        seed: root seed.
        git_sha: commit at launch, or `GIT_SHA_UNKNOWN`.
        pyproject_hash: SHA-256 of ``pyproject.toml``, of no bytes where there is none.
        run_kind: free label, the algorithm for a training run.
        extra: more fields for every line.
        safety_telemetry: the final summary of the safety stack, for callers in this process.
        git_dirty: whether tracked files differed from the commit at launch; None where that is unknown.
        lock_file_sha256: SHA-256 of the file that pins the dependencies; None where there is none.

    Raises:
        InputError: ``extra`` has the name of a field that every line or every event has already.
    """

    run_id: str
    seed: int
    git_sha: str
    pyproject_hash: str
    run_kind: str
    extra: dict[str, str] = field(default_factory=dict[str, str])
    safety_telemetry: dict[str, object] | None = None
    git_dirty: bool | None = None
    lock_file_sha256: str | None = None

    def __post_init__(self) -> None:
        _refuse_names(self.extra, _RESERVED, what="extra")

    def fields(self) -> Event:
        """Give what every line of the log holds; what is not known is left out."""
        identity: Event = {name: getattr(self, name) for name in _IDENTITY}
        provenance = {name: getattr(self, name) for name in _PROVENANCE if getattr(self, name) is not None}
        return {**identity, **provenance, **self.extra}


def compute_run_metadata(
    *,
    seed: int,
    run_kind: str,
    repo_root: Path,
    extra: Mapping[str, str] | None = None,
    config_fingerprint: str | None = None,
) -> RunContext:
    """Name a run after what decides it.

    ``run_id`` is the start of the SHA-256 of ``repr((seed, git_sha, pyproject_hash, run_kind[, config_fingerprint]))``.
    Commit and dirty flag are looked up once per process and root: all cells of a long launch carry the launch commit,
    even if HEAD moves meanwhile. The dirty flag and the hash of the lock file are recorded but are not part of the id.

    Args:
        seed: root seed.
        run_kind: free label.
        repo_root: folder with ``pyproject.toml``, in a git repository or not.
        extra: more fields for every line of the log.
        config_fingerprint: hash of the configuration; without it two configurations share an id.

    Raises:
        InputError: the seed is no whole number, or ``extra`` has the name of another field.
    """
    # A NumPy integer has another `repr`, and would give the run another name.
    whole_seed = _whole_number(seed)
    if whole_seed is None:
        raise InputError(f"seed must be a whole number, got {seed!r}")
    root = repo_root.resolve()
    git_sha, git_dirty = _launch_commit(str(root))
    pyproject_hash = _file_sha256(root / "pyproject.toml") or hashlib.sha256().hexdigest()
    identity = (whole_seed, git_sha, pyproject_hash, run_kind)
    named = identity if config_fingerprint is None else (*identity, config_fingerprint)
    return RunContext(
        run_id=hashlib.sha256(repr(named).encode()).hexdigest()[:16],
        seed=whole_seed,
        git_sha=git_sha,
        pyproject_hash=pyproject_hash,
        run_kind=run_kind,
        extra=dict(extra or {}),
        git_dirty=git_dirty,
        lock_file_sha256=next(filter(None, (_file_sha256(root / name) for name in _LOCK_FILES)), None),
    )


def _whole_number(value: object) -> int | None:
    """Give Python's and NumPy's integers as `int`; None for booleans and everything else."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value)


@cache
def _launch_commit(root: str) -> tuple[str, bool | None]:
    sha = _git(root, "rev-parse", "HEAD")
    if not sha:
        return GIT_SHA_UNKNOWN, None
    changes = _git(root, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    return sha, None if changes is None else bool(changes)


def _git(root: str, *arguments: str) -> str | None:
    command = ["git", "-C", root, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell
            command, capture_output=True, text=True, errors="replace", timeout=_GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _file_sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}, which names the run: {error.strerror}") from error


# --- what a run says ----------------------------------------------------------------------------------------


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
    _refuse_names(scalars, _taken_names(logger), what="scalar")
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
    _refuse_names(results, _taken_names(logger), what="result")
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
    return _RESERVED | {"condition"} | getattr(logger, "_context", {}).keys()


def _refuse_names(fields: Mapping[str, object], taken: frozenset[str], *, what: str) -> None:
    collisions = sorted(taken & fields.keys())
    if collisions:
        raise InputError(f"no {what} may be named {', '.join(collisions)}: every line of the log has such a field")


class _RunLog:
    """The open log: the last processor of its loggers, which share it, and what they wrap."""

    def __init__(self, path: Path, *, resume: bool, sink: WandbSink | None, when_written: type[BaseException]) -> None:
        self._path = path
        self._when_written = when_written
        self.sink = None if sink is None else _UnfailingSink(sink)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = _open_log(path, resume=resume)
        except OSError as error:
            raise InputError(f"cannot open the log {path}: {error.strerror}") from error
        self._size = os.fstat(self._stream.fileno()).st_size

    def forward(self, logger: object, method: str, event: Event) -> Event:
        """Give the sink what is not in its configuration already; the event goes on unchanged."""
        if self.sink is not None and not self._stream.closed:
            payload = {name: value for name, value in event.items() if name not in {*_IDENTITY, *_PROVENANCE}}
            self.sink.log(payload, step=_whole_number(event.get("step")))
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


# --- the copy in Weights & Biases ---------------------------------------------------------------------------


def make_wandb_run_sink(
    cfg: WandbSettings,
    ctx: RunContext,
    *,
    tags: Sequence[str] = (),
    config_extras: Mapping[str, object] | None = None,
    resume: bool = False,
) -> WandbSink | None:
    """Start the copy of a run in Weights & Biases; never raises.

    Args:
        cfg: whether, and into which project. The mode comes from ``WANDB_MODE``; ``offline`` and ``disabled`` need no
            ``WANDB_API_KEY``.
        ctx: the run.
        tags: labels; none is invented.
        config_extras: more to record about the run; wins over the fields of ``ctx``.
        resume: go on with a copy of this id, where there is one; otherwise a second one is refused by W&B.

    Returns:
        None when no copy is wanted, or, with one `UserWarning`, when there can be none.
    """
    if not cfg.enabled:
        return None
    mode = os.environ.get("WANDB_MODE", "online")
    if mode not in _MODES_WITHOUT_KEY and not os.environ.get("WANDB_API_KEY"):
        return _without_wandb("WANDB_API_KEY is not set (WANDB_MODE=offline needs none)")
    try:
        run = importlib.import_module("wandb").init(
            id=ctx.run_id,
            name=ctx.run_id,
            project=cfg.project,
            tags=tuple(tags) or None,
            config={**ctx.fields(), **(config_extras or {})},
            resume="allow" if resume else "never",
            reinit=True,  # several cells per process
        )
    except ImportError as error:
        return _without_wandb(f"wandb cannot be imported ({_short(error)}); pip install 'ripieno-concerto[wandb]'")
    except Exception as error:  # noqa: BLE001 - whatever W&B raises, the run goes on without it
        return _without_wandb(f"wandb.init failed ({_short(error)})")
    return _WandbRunSink(run)


def _without_wandb(reason: str) -> None:
    warnings.warn(f"no copy in Weights & Biases, the JSONL log goes on: {reason}", UserWarning, stacklevel=3)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


class _WandbRunSink:
    """The sink of one W&B run."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, data: Mapping[str, object], *, step: int | None = None) -> None:
        self._run.log(dict(data), step=step)

    def set_config(self, config: Mapping[str, object]) -> None:
        self._run.config.update(dict(config))

    def add_tags(self, tags: Iterable[str]) -> None:
        self._run.tags = tuple(dict.fromkeys((*(self._run.tags or ()), *tags)))

    def close(self) -> None:
        try:
            self._run.finish()
        except Exception as error:  # noqa: BLE001 - the log is complete, whatever W&B says
            _LOGGER.warning("Weights & Biases could not end its copy of the run: %s", _short(error))


class _UnfailingSink:
    """Passes everything on to a sink until the sink fails to take an event; the run never notices."""

    def __init__(self, sink: WandbSink) -> None:
        self._sink = sink
        self._takes_events = True

    def log(self, data: Mapping[str, object], *, step: int | None) -> None:
        if self._takes_events:
            self._takes_events = self._try("take an event", lambda: self._sink.log(data, step=step))

    def set_config(self, config: Mapping[str, object]) -> None:
        self._try("take the configuration", lambda: self._sink.set_config(config))

    def close(self) -> None:
        self._try("end its copy", self._sink.close)

    @staticmethod
    def _try(what: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the log is the record; a copy may fail in any way it likes
            _LOGGER.warning("Weights & Biases could not %s, the JSONL log goes on: %s", what, _short(error))
            return False
        return True
