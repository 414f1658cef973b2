"""Who runs a program outside: this machine directly, or a container that has nothing but its input."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from uuid import uuid4

from agentinputlab.contracts._checks import text, whole
from agentinputlab.contracts.errors import ExternalDependencyError, ValidationError
from agentinputlab.integrations.external_workers._bounded import (
    BoundedResult,
    checked_argv,
    minimal_environment,
    run_bounded_process,
)
from agentinputlab.observability.resources import ResourceLimits, ResourceReceipt

__all__ = ["DockerSupervisor", "LocalSubprocessSupervisor", "OutputLimits", "Supervisor"]

_PINNED_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}")
_DOCKER_NAMES = ("DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "HOME")
_CLEAN_UP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Most bytes that a program may write to standard output and to standard error."""

    stdout_bytes: int = 8 * 2**20
    stderr_bytes: int = 2**20

    def __post_init__(self) -> None:
        whole(self.stdout_bytes, "OutputLimits.stdout_bytes")
        whole(self.stderr_bytes, "OutputLimits.stderr_bytes")


@runtime_checkable
class Supervisor(Protocol):
    """Runs a program once within limits."""

    @property
    def supervisor_id(self) -> str:
        """What it is; part of the identity of whatever it runs."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        limits: ResourceLimits,
        output_limits: OutputLimits,
        environment: Mapping[str, str],
    ) -> tuple[BoundedResult, ResourceReceipt]:
        """Give what the program did and what it took."""
        ...


@dataclass(frozen=True, slots=True)
class LocalSubprocessSupervisor:
    """Runs a program on this machine with the rights of this user.

    It bounds time, output and address space. Limits it cannot keep (processors, processes) are refused, not ignored.
    """

    @property
    def supervisor_id(self) -> str:
        """What it is."""
        return "local-subprocess"

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        limits: ResourceLimits,
        output_limits: OutputLimits,
        environment: Mapping[str, str],
    ) -> tuple[BoundedResult, ResourceReceipt]:
        """Give what the program did and what it took.

        Args:
            argv: program and arguments; no shell reads them.
            stdin: what it reads.
            limits: what it may take.
            output_limits: what it may write.
            environment: variables added to `minimal_environment`.

        Raises:
            ValidationError: a limit cannot be kept here.
            ExternalDependencyError: the program cannot be started.
        """
        for name in ("cpus", "pids_limit"):
            if getattr(limits, name) is not None:
                raise ValidationError(f"ResourceLimits.{name} cannot be kept by local-subprocess; use DockerSupervisor")
        result = run_bounded_process(
            argv,
            stdin=stdin,
            timeout_seconds=limits.wall_timeout_seconds,
            environment=minimal_environment(environment),
            max_stdout_bytes=output_limits.stdout_bytes,
            max_stderr_bytes=output_limits.stderr_bytes,
            memory_bytes=limits.memory_bytes,
        )
        receipt = ResourceReceipt(
            supervisor=self.supervisor_id,
            limits=limits,
            exit_code=result.exit_code,
            wall_seconds=result.wall_seconds,
            cpu_seconds=result.cpu_seconds,
            peak_memory_bytes=result.peak_memory_bytes,
            timed_out=result.exceeded == "time",
        )
        return result, receipt


@dataclass(frozen=True, slots=True)
class DockerSupervisor:
    """Runs a program in a fresh container: no network, read-only root, no capabilities, nobody's rights.

    Attributes:
        image: the image, pinned as ``name@sha256:<64 hex digits>``.
        user: user and group inside.
        read_only_mounts: directory on this machine to where it appears inside; never writable.
        docker: name or path of the Docker program.
    """

    image: str
    user: str = "65534:65534"
    read_only_mounts: Mapping[str, str] = field(default_factory=dict[str, str])
    docker: str = "docker"

    def __post_init__(self) -> None:
        text(self.docker, "DockerSupervisor.docker")
        if not _PINNED_IMAGE.fullmatch(text(self.image, "DockerSupervisor.image")):
            raise ValidationError(
                f"DockerSupervisor.image must be pinned as name@sha256:<64 hex digits>, got {self.image!r:.120}"
            )
        if not re.fullmatch(r"[0-9]+:[0-9]+", self.user) or self.user.split(":")[0].strip("0") == "":
            raise ValidationError(f"DockerSupervisor.user must be uid:gid and not root, got {self.user!r:.80}")
        for source, target in self.read_only_mounts.items():
            for side in (source, target):
                if not side.startswith("/") or "," in side or ".." in side.split("/"):
                    raise ValidationError(
                        f"DockerSupervisor.read_only_mounts must map absolute paths without ',' and '..', got {side!r}"
                    )

    @property
    def supervisor_id(self) -> str:
        """What it is, with the image."""
        return f"docker:{self.image}"

    def command(
        self, argv: Sequence[str], *, limits: ResourceLimits, environment: Mapping[str, str], container: str
    ) -> tuple[str, ...]:
        """Give the command line that runs ``argv`` in a container; values of variables are not in it.

        Args:
            argv: program and arguments inside.
            limits: what it may take.
            environment: variables that pass to the inside, by name.
            container: name of the container.
        """
        words = [self.docker, "run", "--rm", "--interactive", "--name", container, "--pull", "never"]
        words += ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        words += ["--user", self.user, "--tmpfs", "/tmp:rw,noexec,nosuid,size=64m"]  # noqa: S108 - inside
        if limits.memory_bytes is not None:
            words += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
        if limits.cpus is not None:
            words += ["--cpus", f"{limits.cpus:g}"]
        if limits.pids_limit is not None:
            words += ["--pids-limit", str(limits.pids_limit)]
        for source, target in sorted(self.read_only_mounts.items()):
            words += ["--mount", f"type=bind,source={source},target={target},readonly"]
        for name in ("PYTHONIOENCODING", *sorted(environment)):
            words += ["--env", name]
        return (*words, self.image, *checked_argv(argv))

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        limits: ResourceLimits,
        output_limits: OutputLimits,
        environment: Mapping[str, str],
    ) -> tuple[BoundedResult, ResourceReceipt]:
        """Give what the program did and what it took; processor time and memory inside are not known here.

        Args:
            argv: program and arguments inside the container.
            stdin: what it reads.
            limits: what it may take.
            output_limits: what it may write.
            environment: variables that it gets.

        Raises:
            ExternalDependencyError: Docker is not installed here, or a container that had to be killed is still there.
        """
        if shutil.which(self.docker) is None:
            raise ExternalDependencyError(
                f"{self.docker} is not installed here; install Docker, or use LocalSubprocessSupervisor"
            )
        container = f"agentinputlab-{uuid4().hex}"
        own = {name: os.environ[name] for name in _DOCKER_NAMES if name in os.environ}
        ended = False
        try:
            result = run_bounded_process(
                self.command(argv, limits=limits, environment=environment, container=container),
                stdin=stdin,
                timeout_seconds=limits.wall_timeout_seconds,
                environment=minimal_environment({**own, **environment}),
                max_stdout_bytes=output_limits.stdout_bytes,
                max_stderr_bytes=output_limits.stderr_bytes,
            )
            ended = result.exceeded is None
        finally:
            if not ended:  # the client is dead, the container is not
                self._remove(container, own)
        receipt = ResourceReceipt(
            supervisor=self.supervisor_id,
            limits=limits,
            exit_code=result.exit_code,
            wall_seconds=result.wall_seconds,
            timed_out=result.exceeded == "time",
        )
        return result, receipt

    def _remove(self, container: str, own: Mapping[str, str]) -> None:
        removed = run_bounded_process(
            (self.docker, "rm", "--force", container),
            timeout_seconds=_CLEAN_UP_SECONDS,
            environment=minimal_environment(own),
        )
        if removed.exit_code != 0:
            raise ExternalDependencyError(f"container {container} may still run: docker rm --force did not succeed")
