"""Bridges to paired workers that run as processes of their own.

`ProcessWorker` says which program, bound to its bytes; `AtomicProcessBridgeBuilder` checks it and builds the bridge;
`agentinputlab.benchmarks.paired_replay.AtomicExternalReplayRunner` runs pairs through it.
"""

from agentinputlab.contracts.protocols import ATOMIC_PROCESS_BRIDGE_ID, CHECKPOINT_INVENTORY_PROTOCOL
from agentinputlab.experiments.builders.atomic_process_bridge import (
    AtomicProcessBridge,
    AtomicProcessBridgeBuilder,
    WorkerBinding,
)
from agentinputlab.experiments.builders.process_worker import GitCheckout, ProcessWorker, ProcessWorkerError
from agentinputlab.experiments.builders.responses import build_envelope, parse_response

__all__ = [
    "ATOMIC_PROCESS_BRIDGE_ID",
    "CHECKPOINT_INVENTORY_PROTOCOL",
    "AtomicProcessBridge",
    "AtomicProcessBridgeBuilder",
    "GitCheckout",
    "ProcessWorker",
    "ProcessWorkerError",
    "WorkerBinding",
    "build_envelope",
    "parse_response",
]
