"""A program that answers one JSON request, bound to the bytes it is made of."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentinputlab.contracts._checks import Record, digest, finite, put, text, texts, whole
from agentinputlab.contracts.errors import ArtifactError, ExternalDependencyError, ValidationError
from agentinputlab.contracts.serialization import canonical_json
from agentinputlab.experiments.builders.responses import MAX_RESPONSE_BYTES
from agentinputlab.integrations.external_workers import BoundedResult, minimal_environment, run_bounded_process
from ripieno.errors import RipienoError
from ripieno.files import sha256_file

__all__ = ["GitCheckout", "ProcessWorker", "ProcessWorkerError"]

MAX_STDERR_BYTES = 2**18
"""Most bytes of a worker's standard error that are read."""
_REVISION = re.compile(r"[0-9a-f]{40}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ERROR_TYPE = re.compile(r"[A-Za-z_]\w{0,79}", re.ASCII)


class ProcessWorkerError(ExternalDependencyError):
    """A worker did not answer. Its own words are kept off the message, because they may hold anything.

    Attributes:
        exit_code: its exit code, negative for a signal.
        exceeded: the bound it broke (``time``, ``stdout``, ``stderr``), or None.
        error_type: the error it named on standard error, or an empty string.
        stderr: what it wrote there, at most 256 KiB.
    """

    def __init__(self, message: str, *, exit_code: int, exceeded: str | None, error_type: str, stderr: bytes) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.exceeded = exceeded
        self.error_type = error_type
        self.stderr = stderr


@dataclass(frozen=True, slots=True)
class GitCheckout(Record):
    """A checkout that a worker runs from, bound to a commit and its tree, without local changes."""

    path: Path
    revision: str
    tree: str

    def __post_init__(self) -> None:
        put(self, path=Path(self.path))
        for name in ("revision", "tree"):
            if not _REVISION.fullmatch(text(getattr(self, name), f"checkout.{name}")):
                raise ValidationError(f"checkout.{name} must be 40 lowercase hex digits")

    @classmethod
    def bind(cls, path: Path | str) -> GitCheckout:
        """Bind a checkout as it is now.

        Raises:
            ArtifactError: it is no checkout, or has local changes.
        """
        revision, tree = _head(Path(path))
        return cls(Path(path), revision, tree)

    def verify(self) -> None:
        """Check that the checkout is at its revision and tree and has no local changes.

        Raises:
            ArtifactError: it is not.
        """
        if _head(self.path) != (self.revision, self.tree):
            raise ArtifactError(f"checkout {self.path} is not at revision {self.revision}")


@dataclass(frozen=True, slots=True)
class ProcessWorker(Record):
    """A worker program: an executable (such as Python) with an entry point (a script), both bound to their bytes.

    Attributes:
        executable: the program; a link, as in virtual environments, is followed for the hash.
        executable_sha256: SHA-256 of its bytes.
        entrypoint: the script it runs.
        entrypoint_sha256: SHA-256 of its bytes.
        arguments: further arguments.
        environment: variables set for it.
        passthrough_environment: names of variables of this process that it gets too; each must be set.
        checkout: checkout that holds the entry point, or None.
        timeout_seconds: longest time for one request.
    """

    executable: Path
    executable_sha256: str
    entrypoint: Path
    entrypoint_sha256: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    passthrough_environment: tuple[str, ...] = ()
    checkout: GitCheckout | None = None
    timeout_seconds: float = 3600.0

    def __post_init__(self) -> None:
        put(self, executable=Path(self.executable), entrypoint=Path(self.entrypoint))
        for name in ("executable", "entrypoint"):
            path: Path = getattr(self, name)
            if not path.is_absolute():
                raise ValidationError(f"worker.{name} must be an absolute path, got {str(path)!r:.200}")
            digest(getattr(self, f"{name}_sha256"), f"worker.{name}_sha256")
        names = texts(self.passthrough_environment, "worker.passthrough_environment")
        for name in (*self.environment, *names):
            if not _VARIABLE.fullmatch(name):
                raise ValidationError(f"worker environment has {name!r:.80}, which is no name of a variable")
        for name, value in self.environment.items():
            text(value, f"worker.environment[{name!r}]", blank=True)
        if twice := sorted(set(self.environment) & set(names)):
            raise ValidationError(f"worker sets and passes through {', '.join(twice)}; choose one")
        if finite(self.timeout_seconds, "worker.timeout_seconds") <= 0:
            raise ValidationError(f"worker.timeout_seconds must be positive, got {self.timeout_seconds!r}")
        if self.checkout is not None and not self.entrypoint.is_relative_to(self.checkout.path):
            raise ValidationError("worker.entrypoint must lie in worker.checkout")
        put(
            self,
            arguments=texts(self.arguments, "worker.arguments"),
            environment=dict(self.environment),
            passthrough_environment=names,
        )

    @classmethod
    def bind(cls, executable: Path | str, entrypoint: Path | str, **settings: Any) -> ProcessWorker:
        """Bind a worker to the bytes that its files have now.

        Args:
            executable: the program.
            entrypoint: the script.
            settings: the other fields.

        Raises:
            ArtifactError: a file is absent or no regular file.
        """
        return cls(
            Path(executable), _hash(Path(executable).resolve()), Path(entrypoint), _hash(Path(entrypoint)), **settings
        )

    def identity(self) -> dict[str, Any]:
        """Give what names this worker on any machine: hashes and settings, no paths and no values of variables."""
        return {
            "executable_sha256": self.executable_sha256,
            "entrypoint_sha256": self.entrypoint_sha256,
            "arguments": list(self.arguments),
            "environment_names": sorted({*self.environment, *self.passthrough_environment}),
            "checkout_revision": None if self.checkout is None else self.checkout.revision,
            "checkout_tree": None if self.checkout is None else self.checkout.tree,
        }

    def verify(self) -> None:
        """Check that executable, entry point and checkout are the bound ones.

        Raises:
            ArtifactError: something is absent, a link, or has other bytes.
        """
        for name, path in (("executable", self.executable.resolve()), ("entrypoint", self.entrypoint)):
            if _hash(path) != getattr(self, f"{name}_sha256"):
                raise ArtifactError(f"worker {name} {path} has other bytes than it was bound to")
        if self.checkout is not None:
            self.checkout.verify()

    def ask(self, request: Mapping[str, Any], *, max_bytes: int = MAX_RESPONSE_BYTES) -> bytes:
        """Start the worker once with a JSON request on standard input and give what it wrote.

        The worker is checked before it starts and after it ended. It runs without a shell, in a session of its own,
        and nothing of it is left afterwards.

        Raises:
            ArtifactError: the worker is not the bound one.
            ValidationError: a variable to pass through is not set.
            ProcessWorkerError: it could not be started, took too long, wrote too much, or failed.
        """
        whole(max_bytes, "max_bytes", minimum=1)
        missing = [name for name in self.passthrough_environment if name not in os.environ]
        if missing:
            raise ValidationError(f"the worker needs the variable {missing[0]}, which is not set")
        passed = {name: os.environ[name] for name in self.passthrough_environment}
        self.verify()
        result = run_bounded_process(
            (str(self.executable), str(self.entrypoint), *self.arguments),
            stdin=canonical_json(request).encode(),
            timeout_seconds=self.timeout_seconds,
            environment=minimal_environment({**self.environment, **passed}),
            max_stdout_bytes=max_bytes,
            max_stderr_bytes=MAX_STDERR_BYTES,
        )
        self.verify()
        if result.exceeded is not None or result.exit_code != 0:
            raise _failure(result, self.timeout_seconds)
        return result.stdout


def _failure(result: BoundedResult, timeout_seconds: float) -> ProcessWorkerError:
    error_type = _error_type(result.stderr)
    if result.exceeded == "time":
        message = f"the worker took longer than {timeout_seconds:g} s and was killed"
    elif result.exceeded is not None:
        message = f"the worker wrote too much to {result.exceeded} and was killed"
    else:
        named = f" ({error_type})" if error_type else ""
        message = f"the worker ended with exit code {result.exit_code}{named}; its own words are in `stderr`"
    return ProcessWorkerError(
        message,
        exit_code=result.exit_code,
        exceeded=result.exceeded,
        error_type=error_type,
        stderr=result.stderr,
    )


def _error_type(stderr: bytes) -> str:
    """The name of the error in a line ``{"error": ..., "message": ...}``, if there is one that is a name."""
    for line in reversed(stderr.splitlines()):
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        name: Any = value.get("error") if isinstance(value, dict) else None
        if isinstance(name, str) and _ERROR_TYPE.fullmatch(name):
            return name
    return ""


def _hash(path: Path) -> str:
    try:
        return sha256_file(path)
    except (OSError, RipienoError) as error:
        raise ArtifactError(f"{path} is absent or no regular file") from error


def _head(path: Path) -> tuple[str, str]:
    """Revision and tree of a checkout without local changes."""
    revision, tree = _git(path, "rev-parse", "HEAD", "HEAD^{tree}").split()
    if _git(path, "status", "--porcelain", "--untracked-files=no"):
        raise ArtifactError(f"checkout {path} has local changes")
    return revision, tree


def _git(path: Path, *arguments: str) -> str:
    try:
        result = run_bounded_process(("git", "-C", str(path), *arguments), timeout_seconds=60)
    except ExternalDependencyError as error:
        raise ArtifactError(f"checkout {path} cannot be checked: git is not installed") from error
    if result.exit_code != 0 or result.exceeded is not None:
        raise ArtifactError(f"{path} is no git checkout with a commit")
    return result.stdout.decode("utf-8", "replace")
