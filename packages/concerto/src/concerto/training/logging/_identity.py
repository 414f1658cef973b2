"""What a run is: named after what decides it."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any

from ripieno.errors import InputError

GIT_SHA_UNKNOWN = "unknown"
"""Stands for the launch commit where there is no repository, no commit or no git."""

IDENTITY = ("run_id", "seed", "git_sha", "pyproject_hash", "run_kind")
PROVENANCE = ("git_dirty", "lock_file_sha256")
RESERVED = frozenset({*IDENTITY, *PROVENANCE, "event", "level", "step", "metric_namespace", "wall_time"})
"""Fields that every line, or every event with a time, has."""

_LOCK_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "constraints.txt")
_GIT_TIMEOUT_S = 5.0


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
        refuse_names(self.extra, RESERVED, what="extra")

    def fields(self) -> dict[str, Any]:
        """Give what every line of the log holds; what is not known is left out."""
        identity: dict[str, Any] = {name: getattr(self, name) for name in IDENTITY}
        provenance = {name: getattr(self, name) for name in PROVENANCE if getattr(self, name) is not None}
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
    whole_seed = whole_number(seed)
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


def whole_number(value: object) -> int | None:
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


def refuse_names(fields: Mapping[str, object], taken: frozenset[str], *, what: str) -> None:
    collisions = sorted(taken & fields.keys())
    if collisions:
        raise InputError(f"no {what} may be named {', '.join(collisions)}: every line of the log has such a field")
