"""The bridge that plays a pair in a worker process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentinputlab.benchmarks.paired_replay import AtomicPairResult, AtomicReplayRequest
from agentinputlab.contracts._checks import Record, digest, frozen, put, text
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.protocols import ATOMIC_PROCESS_BRIDGE_ID, WORKER_PROTOCOL
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.experiments.builders.process_worker import ProcessWorker
from agentinputlab.experiments.builders.responses import build_envelope, parse_response

__all__ = ["AtomicProcessBridge", "AtomicProcessBridgeBuilder", "WorkerBinding"]

SCHEMA_VERSION = 1
"""The version of worker parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBinding(Record):
    """What a paired worker is told beside the request.

    Attributes:
        provider_entrypoint: the arena, ``module:attribute``; the worker accepts those of its own table only.
        provider_config: its settings, JSON values.
        replay_inventory_environment: variable that holds the path of the replay inventory.
        replay_inventory_sha256_environment: variable that holds its SHA-256.
        expected_replay_inventory_sha256: the SHA-256 it must have.
        scorer_id: the scorer.
        scorer_revision: which version of it.
    """

    provider_entrypoint: str
    provider_config: Mapping[str, Any]
    replay_inventory_environment: str
    replay_inventory_sha256_environment: str
    expected_replay_inventory_sha256: str
    scorer_id: str
    scorer_revision: str

    def __post_init__(self) -> None:
        for name in (
            "provider_entrypoint",
            "replay_inventory_environment",
            "replay_inventory_sha256_environment",
            "scorer_id",
            "scorer_revision",
        ):
            text(getattr(self, name), f"binding.{name}")
        digest(self.expected_replay_inventory_sha256, "binding.expected_replay_inventory_sha256")
        put(self, provider_config=frozen(self.provider_config, "binding.provider_config"))


@dataclass(frozen=True, slots=True)
class AtomicProcessBridge(Record):
    """A bridge to one worker; `AtomicProcessBridgeBuilder` makes it.

    Attributes:
        worker: the program.
        binding: what it is told beside the request.
    """

    worker: ProcessWorker
    binding: WorkerBinding

    @property
    def bridge_id(self) -> str:
        """``agentinputlab.atomic-process-bridge.v1``."""
        return ATOMIC_PROCESS_BRIDGE_ID

    @property
    def bridge_revision(self) -> str:
        """Content hash of what names the worker on any machine."""
        return content_hash({"bridge_id": self.bridge_id, "worker": self.worker.identity()})

    @property
    def scorer_id(self) -> str:
        """The scorer that receipts must name."""
        return self.binding.scorer_id

    @property
    def scorer_revision(self) -> str:
        """Its version."""
        return self.binding.scorer_revision

    def worker_parameters(self) -> dict[str, Any]:
        """Give the ``worker_parameters`` of an envelope."""
        return {
            "schema_version": SCHEMA_VERSION,
            "protocol": WORKER_PROTOCOL,
            **to_jsonable(self.binding),
            "bridge_id": self.bridge_id,
            "bridge_revision": self.bridge_revision,
        }

    def execute(self, request: AtomicReplayRequest) -> AtomicPairResult:
        """Start the worker once and read its answer; nothing is repeated.

        Raises:
            ArtifactError: the worker is not the bound one.
            ProcessWorkerError: it took too long, wrote too much, or failed.
            ValidationError: its answer is not what the protocol says.
        """
        envelope = build_envelope(request, self.worker_parameters())
        return parse_response(self.worker.ask(envelope), envelope["request_hash"])


@dataclass(frozen=True, slots=True)
class AtomicProcessBridgeBuilder(Record):
    """Checks a worker and builds the bridge to it.

    Attributes:
        worker: the program.
        binding: what it is told beside the request.
    """

    worker: ProcessWorker
    binding: WorkerBinding

    def __post_init__(self) -> None:
        known = {*self.worker.environment, *self.worker.passthrough_environment}
        for name in ("replay_inventory_environment", "replay_inventory_sha256_environment"):
            variable = getattr(self.binding, name)
            if variable not in known:
                raise ValidationError(f"binding.{name} is {variable}, which the worker neither sets nor passes through")

    def build(self) -> AtomicProcessBridge:
        """Give the bridge.

        Raises:
            ArtifactError: executable, entry point or checkout is not the bound one.
        """
        self.worker.verify()
        return AtomicProcessBridge(self.worker, self.binding)
