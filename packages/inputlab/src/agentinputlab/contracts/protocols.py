"""The names of every document format and envelope, in one place that imports nothing."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATOMIC_EXTERNAL_PAIR_CONTRACT",
    "ATOMIC_PROCESS_BRIDGE_ID",
    "CAPTURE_SCOPE_PROTOCOL",
    "CHECKPOINT_INVENTORY_PROTOCOL",
    "EXECUTABLE_PAYLOAD_PROTOCOL",
    "EXECUTION_SCOPE_PROTOCOL",
    "METHOD_WORKER_PROTOCOL",
    "PAIR_TERMINAL_PROTOCOL",
    "REGISTRY_ID",
    "REPLAY_INVENTORY_PROTOCOL",
    "REQUEST_PROTOCOL",
    "RESPONSE_PROTOCOL",
    "SERVER_PROTOCOL",
    "TRACE_MEASUREMENT_PROTOCOL",
    "TRACE_MEASUREMENT_RULE",
    "WORKER_PROTOCOL",
]

CHECKPOINT_INVENTORY_PROTOCOL: Final = "agentinputlab.external-checkpoint-inventory.v1"
"""Checkpoints that interventions may see."""
REPLAY_INVENTORY_PROTOCOL: Final = "agentinputlab.official-arena-replay-inventory.v1"
"""Protected records from which a worker restores the origin of a pair."""
EXECUTABLE_PAYLOAD_PROTOCOL: Final = "agentinputlab.executable-release-payload.v1"
"""What an arm of a pair has to play."""
REQUEST_PROTOCOL: Final = "agentinputlab.atomic-process-request.v1"
"""Envelope from host to paired worker."""
RESPONSE_PROTOCOL: Final = "agentinputlab.atomic-process-response.v1"
"""Envelope from paired worker to host."""
WORKER_PROTOCOL: Final = "agentinputlab.official-arena-worker.v1"
"""Parameters of a paired worker, and what its ``--doctor`` answers."""
METHOD_WORKER_PROTOCOL: Final = "agentinputlab.method-worker.v1"
"""Requests to an external worker that runs one method."""
TRACE_MEASUREMENT_PROTOCOL: Final = "agentinputlab.safe-trajectory-structure.v2"
"""Counts over a trajectory, free of its text."""
TRACE_MEASUREMENT_RULE: Final = "conservative-read-prefix-v1"
"""How a trajectory's first irreversible call is told from reads."""
ATOMIC_EXTERNAL_PAIR_CONTRACT: Final = "agentinputlab.atomic_external_pair.v1"
"""The contract between host and bridge."""
ATOMIC_PROCESS_BRIDGE_ID: Final = "agentinputlab.atomic-process-bridge.v1"
"""The bridge that starts a worker process."""
CAPTURE_SCOPE_PROTOCOL: Final = "agentinputlab.retail-capture-scope.v1"
"""What an operator allows a capture to do."""
EXECUTION_SCOPE_PROTOCOL: Final = "agentinputlab.retail-execution-scope.v1"
"""What an operator allows a paired driver to do."""
PAIR_TERMINAL_PROTOCOL: Final = "retail-pair-terminal.v1"
"""The last receipt of a pair."""
SERVER_PROTOCOL: Final = "agentinputlab.v1"
"""What the loopback server answers under ``/v1/health``."""
REGISTRY_ID: Final = "agentinputlab.algorithms.v1"
"""The registry of methods."""
