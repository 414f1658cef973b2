"""Clients of workers that run a whole release: a program of one line in and one line out, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from agentinputlab.contracts._checks import text
from agentinputlab.contracts.errors import ExternalDependencyError, ValidationError
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.contracts.worker import WorkerRequest, WorkerResponse
from agentinputlab.integrations.external_workers._lines import JsonLineProgram
from agentinputlab.integrations.external_workers._supervisors import OutputLimits
from agentinputlab.observability.resources import ResourceLimits

__all__ = ["FunctionWorkerClient", "JsonLineWorkerClient"]


class JsonLineWorkerClient:
    """Asks a program that reads one JSON line and answers with one; it is started anew for every request.

    Args:
        argv: program and arguments; no shell reads them.
        timeout_seconds: time after which it is killed with its children.
        max_request_bytes: longest request.
        max_response_bytes: longest answer.
        max_stderr_bytes: most bytes on standard error, which is not shown to anybody.
        environment: variables added to the few that every worker gets.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float = 300.0,
        max_request_bytes: int = 8 * 2**20,
        max_response_bytes: int = 8 * 2**20,
        max_stderr_bytes: int = 2**20,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._program = JsonLineProgram(
            argv=cast("tuple[str, ...]", argv),
            limits=ResourceLimits(wall_timeout_seconds=timeout_seconds),
            max_request_bytes=max_request_bytes,
            output_limits=OutputLimits(max_response_bytes, max_stderr_bytes),
            environment=dict(environment or {}),
        )

    def call(self, request: WorkerRequest) -> WorkerResponse:
        """Give the answer to one request, which may be an error; exactly one attempt is made.

        Raises:
            ValidationError: the request is too long.
            ExternalDependencyError: the program cannot be started, broke a bound, failed, or its answer is not one to
                this request.
        """
        answer, _ = self._program.ask(to_jsonable(request))
        try:
            response = WorkerResponse.from_dict(answer)
        except ValidationError as error:
            # The reason may quote the answer; it is the cause, for whoever looks at the traceback.
            raise ExternalDependencyError("the worker's answer has not the fields of a response") from error
        return _answer_to(request, response)

    def fingerprint(self) -> str:
        """Give the content hash of command line and names of variables."""
        return content_hash({"client": "json-line", **self._program.identity})


class FunctionWorkerClient:
    """Asks a function in this process.

    Args:
        function: gives the answer to a request.
        implementation_id: name of the function, part of its identity.
        revision: version of it, likewise.
    """

    def __init__(
        self, function: Callable[[WorkerRequest], WorkerResponse], *, implementation_id: str, revision: str
    ) -> None:
        if not callable(function):
            raise ValidationError(f"function must be callable, got {type(function).__name__}")
        self._function = function
        self._identity = {
            "implementation_id": text(implementation_id, "implementation_id"),
            "revision": text(revision, "revision"),
        }

    def call(self, request: WorkerRequest) -> WorkerResponse:
        """Give the function's answer to one request.

        Raises:
            ExternalDependencyError: the answer is not one to this request.
            Exception: whatever the function raises.
        """
        response = self._function(request)
        if not isinstance(cast("object", response), WorkerResponse):
            raise ExternalDependencyError(f"the worker must give a WorkerResponse, got {type(response).__name__}")
        return _answer_to(request, response)

    def fingerprint(self) -> str:
        """Give the content hash of the implementation's id and revision."""
        return content_hash({"client": "function", **self._identity})


def _answer_to(request: WorkerRequest, response: WorkerResponse) -> WorkerResponse:
    if response.request_id != request.request_id:
        raise ExternalDependencyError(f"the worker answered another request than {request.request_id!r:.80}")
    return response
