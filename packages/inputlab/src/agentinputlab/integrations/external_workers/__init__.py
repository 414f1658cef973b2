"""Workers outside this process that run one method each, and the bounds they run in.

An intervention makes a `MethodWorkerRequest` and gives it to `call_worker`; the operator puts a worker, such as a
`JsonLineSubprocessWorker`, into the context. A supervisor decides where the program runs.
"""

from agentinputlab.integrations.external_workers._bounded import (
    BoundedResult,
    minimal_environment,
    run_bounded_process,
)
from agentinputlab.integrations.external_workers._client import (
    ALGORITHM_FAILURE_CODES,
    JsonLineSubprocessWorker,
    MethodWorker,
    call_worker,
    resolve_worker,
    worker_fingerprint,
)
from agentinputlab.integrations.external_workers._requests import MethodWorkerRequest, MethodWorkerResponse
from agentinputlab.integrations.external_workers._supervisors import (
    DockerSupervisor,
    LocalSubprocessSupervisor,
    OutputLimits,
    Supervisor,
)

__all__ = [
    "ALGORITHM_FAILURE_CODES",
    "BoundedResult",
    "DockerSupervisor",
    "JsonLineSubprocessWorker",
    "LocalSubprocessSupervisor",
    "MethodWorker",
    "MethodWorkerRequest",
    "MethodWorkerResponse",
    "OutputLimits",
    "Supervisor",
    "call_worker",
    "minimal_environment",
    "resolve_worker",
    "run_bounded_process",
    "worker_fingerprint",
]
