"""The way from an intervention to the worker that runs its method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

from agentinputlab.contracts._checks import is_digest, text
from agentinputlab.contracts.errors import AlgorithmOutputError, ExternalDependencyError, ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.serialization import content_hash
from agentinputlab.integrations.external_workers._lines import JsonLineProgram
from agentinputlab.integrations.external_workers._requests import MethodWorkerRequest, MethodWorkerResponse
from agentinputlab.integrations.external_workers._supervisors import (
    LocalSubprocessSupervisor,
    OutputLimits,
    Supervisor,
)
from agentinputlab.observability.resources import ResourceLimits

__all__ = [
    "ALGORITHM_FAILURE_CODES",
    "JsonLineSubprocessWorker",
    "MethodWorker",
    "call_worker",
    "resolve_worker",
    "worker_fingerprint",
]

ALGORITHM_FAILURE_CODES = frozenset(
    {
        "BACKEND_OUTPUT_INVALID",
        "INVALID_JSON",
        "MODEL_RESPONSE_INVALID",
        "PATTERN_SELECTION_OUTSIDE_LIBRARY",
        "QUERY_PARSE_FAILURE",
        "TEXT_INVALID",
        "UPSTREAM_OUTPUT_INVALID",
    }
)
"""Failures of the method itself, which count as its output; all others are failures of what it runs on."""


@runtime_checkable
class MethodWorker(Protocol):
    """Runs one method outside. In its place a driver with ``handle(mapping) -> mapping`` will do."""

    def call(self, request: MethodWorkerRequest) -> MethodWorkerResponse:
        """Give the answer to one request; exactly one attempt is made."""
        ...

    def fingerprint(self) -> str:
        """Give an identity that changes whenever answers may change."""
        ...


class JsonLineSubprocessWorker:
    """A method worker that is a program: it reads one JSON line and answers with one, and is started anew each time.

    Args:
        argv: program and arguments; no shell reads them.
        revision: version of the program, part of its identity.
        timeout_seconds: time after which it is killed with its children.
        max_request_bytes: longest request.
        max_response_bytes: longest answer.
        max_stderr_bytes: most bytes on standard error, which is not shown to anybody.
        environment: variables added to ``LANG LC_ALL PATH SYSTEMROOT TEMP TMP TMPDIR WINDIR`` and PYTHONIOENCODING.
        limits: memory, processors, processes; its time limit is replaced by ``timeout_seconds``.
        supervisor: who runs it; this machine by default.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        revision: str,
        timeout_seconds: float = 300.0,
        max_request_bytes: int = 8 * 2**20,
        max_response_bytes: int = 8 * 2**20,
        max_stderr_bytes: int = 2**20,
        environment: Mapping[str, str] | None = None,
        limits: ResourceLimits | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self.revision = text(revision, "revision")
        self._program = JsonLineProgram(
            argv=cast("tuple[str, ...]", argv),
            limits=replace(limits or ResourceLimits(), wall_timeout_seconds=timeout_seconds),
            max_request_bytes=max_request_bytes,
            output_limits=OutputLimits(max_response_bytes, max_stderr_bytes),
            environment=dict(environment or {}),
            supervisor=supervisor or LocalSubprocessSupervisor(),
        )

    def call(self, request: MethodWorkerRequest) -> MethodWorkerResponse:
        """Give the answer to one request; exactly one attempt is made.

        Raises:
            ValidationError: the request is too long.
            ExternalDependencyError: the program cannot be started, broke a bound, failed, or its answer is no response.
        """
        answer, receipt = self._program.ask(request.as_dict())
        return replace(_response(answer), resource_receipt=receipt)

    def fingerprint(self) -> str:
        """Give the content hash of command line, revision, names of variables and supervisor."""
        return content_hash({"worker": "json-line-subprocess", "revision": self.revision, **self._program.identity})


def resolve_worker(context: InterventionContext, *, release_id: str, method_id: str = "") -> Any:
    """Give the worker of a context for a release.

    Args:
        context: its ``external_runtime`` is one worker, or a mapping of release or method ids to workers.
        release_id: the release.
        method_id: its method, looked up when the release has no worker of its own.

    Raises:
        ExternalDependencyError: there is none.
    """
    runtime = context.external_runtime
    if isinstance(runtime, Mapping):
        workers = cast("Mapping[str, Any]", runtime)
        runtime = workers.get(release_id, workers.get(method_id))
    if runtime is None:
        raise ExternalDependencyError(
            f"{release_id} runs in an external worker: give InterventionContext(external_runtime=...)"
        )
    if not (callable(getattr(runtime, "call", None)) or callable(getattr(runtime, "handle", None))):
        raise ExternalDependencyError(
            f"the external runtime for {release_id} must have call(request) or handle(mapping), "
            f"got {type(runtime).__name__}"
        )
    return runtime


def worker_fingerprint(worker: Any) -> str:
    """Give the identity of a worker as a SHA-256.

    Raises:
        ExternalDependencyError: it does not say who it is.
    """
    make = getattr(worker, "fingerprint", None)
    identity = make() if callable(make) else None
    if not isinstance(identity, str | Mapping) or not identity:
        raise ExternalDependencyError(f"{type(worker).__name__} must give text or a mapping as its fingerprint()")
    return identity if isinstance(identity, str) and is_digest(identity) else content_hash(identity)


def call_worker(context: InterventionContext, request: MethodWorkerRequest) -> MethodWorkerResponse:
    """Give the good answer of a context's worker to one request; exactly one attempt is made.

    Inside a run the call is on the budget: the minimum reservation before, what the worker reports after.

    Raises:
        AlgorithmOutputError: the method failed (`ALGORITHM_FAILURE_CODES`).
        ExternalDependencyError: there is no worker, it failed otherwise, or its answer is not one to this request.
        BudgetExceededError: the call does not fit, or used more than is allowed.
    """
    worker = resolve_worker(context, release_id=request.release_id, method_id=request.method_id)
    if callable(getattr(worker, "call", None)):
        response = worker.call(request)
    else:
        response = _response(worker.handle(request.as_dict()))
    if not isinstance(response, MethodWorkerResponse):
        raise ExternalDependencyError(f"the worker must give a MethodWorkerResponse, got {type(response).__name__}")
    if response.request_id != request.request_id:
        raise ExternalDependencyError(f"the worker answered another request than {request.request_id}")
    if response.protocol_version != request.protocol_version:
        raise ExternalDependencyError(f"the worker speaks another protocol than {request.protocol_version}")
    if response.status == "error":
        kind = AlgorithmOutputError if response.failure_code in ALGORITHM_FAILURE_CODES else ExternalDependencyError
        # The worker's own message may quote what users wrote; its code is for everybody.
        raise kind(f"{request.release_id} failed in its worker: {response.failure_code:.80}")
    return response


def _response(answer: object) -> MethodWorkerResponse:
    try:
        return MethodWorkerResponse.from_dict(answer)
    except ValidationError as error:
        # The reason may quote the answer; it is the cause, for whoever looks at the traceback.
        raise ExternalDependencyError("the worker's answer has not the fields of a response") from error
