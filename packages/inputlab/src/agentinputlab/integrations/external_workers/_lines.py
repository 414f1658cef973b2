"""One JSON line to a program, one JSON line back, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentinputlab.contracts._checks import text, whole
from agentinputlab.contracts.errors import ExternalDependencyError, ValidationError
from agentinputlab.contracts.serialization import canonical_json
from agentinputlab.integrations.external_workers._bounded import BoundedResult, checked_argv
from agentinputlab.integrations.external_workers._supervisors import (
    LocalSubprocessSupervisor,
    OutputLimits,
    Supervisor,
)
from agentinputlab.observability.resources import ResourceLimits, ResourceReceipt
from ripieno.canonical import strict_loads
from ripieno.errors import InputError

__all__ = ["JsonLineProgram"]

_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class JsonLineProgram:
    """A program that reads one JSON line and answers with one.

    No text of the program reaches an error: what it writes may quote what users wrote.

    Attributes:
        argv: program and arguments; no shell reads them.
        limits: what it may take.
        max_request_bytes: longest line to it.
        output_limits: most bytes from it.
        environment: variables added to the minimal ones.
        supervisor: who runs it.
    """

    argv: tuple[str, ...]
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    max_request_bytes: int = 8 * 2**20
    output_limits: OutputLimits = field(default_factory=OutputLimits)
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    supervisor: Supervisor = field(default_factory=LocalSubprocessSupervisor)

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", checked_argv(cast("Sequence[str]", self.argv)))
        whole(self.max_request_bytes, "max_request_bytes", minimum=1)
        for name, value in self.environment.items():
            if not text(name, "a name in environment").replace("_", "").isalnum():
                raise ValidationError(f"environment has the name {name!r:.80}, which is not one of a variable")
            if "\0" in text(value, f"environment[{name!r}]", blank=True):
                raise ValidationError(f"environment[{name!r}] must not hold NUL")

    @property
    def identity(self) -> dict[str, Any]:
        """What is started and by whom; of variables only the names."""
        return {
            "argv": list(self.argv),
            "environment_names": sorted(self.environment),
            "supervisor": self.supervisor.supervisor_id,
        }

    def ask(self, request: Mapping[str, Any]) -> tuple[Mapping[str, Any], ResourceReceipt]:
        """Give the answer to a request and what the program took.

        Raises:
            ValidationError: the request is too long.
            ExternalDependencyError: the program cannot be started, broke a bound, failed, or answered with anything
                but exactly one line that is a JSON object.
        """
        line = canonical_json(request).encode() + b"\n"
        if len(line) > self.max_request_bytes:
            raise ValidationError(f"the request is {len(line)} bytes long, at most {self.max_request_bytes} are sent")
        result, receipt = self.supervisor.run(
            self.argv,
            stdin=line,
            limits=self.limits,
            output_limits=self.output_limits,
            environment=self.environment,
        )
        return _one_object(result, self._name, self.limits, self.output_limits), receipt

    @property
    def _name(self) -> str:
        return f"worker {Path(self.argv[0]).name}"


def _one_object(
    result: BoundedResult, name: str, limits: ResourceLimits, output_limits: OutputLimits
) -> Mapping[str, Any]:
    if result.exceeded == "time":
        raise ExternalDependencyError(f"{name} did not answer within {limits.wall_timeout_seconds:g} s and was killed")
    if result.exceeded is not None:
        most = getattr(output_limits, f"{result.exceeded}_bytes")
        raise ExternalDependencyError(f"{name} wrote more than {most} bytes to {result.exceeded} and was killed")
    if result.exit_code != 0:
        raise ExternalDependencyError(f"{name} ended with exit code {result.exit_code}")
    body, newline, rest = result.stdout.partition(b"\n")
    if not newline or rest or not body.strip():
        raise ExternalDependencyError(f"{name} must write exactly one line, got {_lines(result.stdout)}")
    try:
        value = strict_loads(body, max_bytes=output_limits.stdout_bytes, max_depth=_MAX_DEPTH)
    except InputError as error:
        # The reason may quote the line, so only its kind is told.
        raise ExternalDependencyError(f"{name} answered {len(body)} bytes that are not strict JSON") from error
    if not isinstance(value, dict):
        raise ExternalDependencyError(f"{name} must answer with an object, got {type(value).__name__}")
    return cast("dict[str, Any]", value)


def _lines(data: bytes) -> str:
    return f"{len(data)} bytes with {data.count(bytes([10]))} line ends"
