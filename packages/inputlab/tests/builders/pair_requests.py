"""A fixture pair as a host would ask for it; shared by the tests beside it."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import workers.official_arenas.driver as driver_module
from agentinputlab import InputPatch, InterventionContext, PatchOp, PatchOperation
from agentinputlab.benchmarks.paired_replay import AtomicReplayRequest
from agentinputlab.contracts import REPLAY_INVENTORY_PROTOCOL, ExecutionTrace, FrozenAgentState, ProfileKind
from agentinputlab.experiments.builders import ProcessWorker, WorkerBinding
from agentinputlab.selectors import NoOpIntervention
from workers.official_arenas.capture_records import capture_rows
from workers.official_arenas.protocol import EXECUTABLE_PAYLOAD_PROTOCOL, checkpoint_identity_hash
from workers.official_arenas.providers.fixture import FixtureProvider

CONFIG = {"fixture": True, "locked_dependency_hashes": {"official_runtime": "1" * 64}}
PATH_VARIABLE = "FIXTURE_REPLAYS"
SHA256_VARIABLE = "FIXTURE_REPLAYS_SHA256"
DRIVER = Path(driver_module.__file__)


def longer_query(state: FrozenAgentState) -> InputPatch:
    """A treatment that appends to the query: 13 characters become 20."""
    return InputPatch(
        "test",
        "test.longer",
        state.state_hash,
        (PatchOperation(PatchOp.APPEND_QUERY, "12345"),),
        ExecutionTrace("test", "test.longer"),
        "test",
        ProfileKind.CONTROLLED_ADAPTER,
    )


def payload(row: dict[str, Any], arm_id: str, patch: InputPatch) -> dict[str, Any]:
    state = FrozenAgentState.from_dict(row["visible_state"])
    output = patch.apply(state)
    return {
        "schema_version": 1,
        "protocol": EXECUTABLE_PAYLOAD_PROTOCOL,
        "arm_id": arm_id,
        "release_id": patch.release_id,
        "family": "reformulate",
        "profile_kind": patch.profile_kind.value,
        "model_slot": "none",
        "seed": 17,
        "checkpoint_identity_hash": checkpoint_identity_hash(row),
        "visible_state_hash": row["visible_state_hash"],
        "pre_action": True,
        "arm_parameters": {},
        "intervention_execution": {
            "status": "success",
            "input_state_hash": state.state_hash,
            "output_state_hash": output.state_hash,
            "patch": patch.as_dict(),
            "patch_hash": patch.patch_hash,
            "materialized_state": output.canonical_dict(),
            "runtime_product_sha256": "c" * 64,
            "intervention_builder_sha256": "d" * 64,
            "usage": {},
            "duration_ms": 0,
            "intent_check": None,
            "failure": None,
        },
    }


def fixture_request(root: Path) -> tuple[AtomicReplayRequest, WorkerBinding, dict[str, str]]:
    """The request, the binding of the worker and the variables it needs; the inventory lies in `root`."""
    provider = FixtureProvider()
    visible, protected, _ = capture_rows(provider, CONFIG, split="train", output_root=root)
    row = visible[0]
    inventory = {
        "schema_version": 1,
        "protocol": REPLAY_INVENTORY_PROTOCOL,
        "benchmark_id": provider.benchmark_id,
        "source_revision": provider.source_revision,
        "record_count": 1,
        "records": protected,
    }
    path = root / "replays.json"
    path.write_text(json.dumps(inventory))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    state = FrozenAgentState.from_dict(row["visible_state"])
    baseline = NoOpIntervention().propose(state, InterventionContext())
    names = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity")
    request = AtomicReplayRequest.from_dict(
        {
            **{name: row[name] for name in (*names, "locked_dependency_hashes")},
            "seed": 17,
            "arms": [
                {"role": "treatment", "arm_id": "t", "payload": payload(row, "t", longer_query(state))},
                {"role": "baseline", "arm_id": "b", "payload": payload(row, "b", baseline)},
            ],
        }
    )
    binding = WorkerBinding(
        provider_entrypoint="workers.official_arenas.providers.fixture:factory",
        provider_config=CONFIG,
        replay_inventory_environment=PATH_VARIABLE,
        replay_inventory_sha256_environment=SHA256_VARIABLE,
        expected_replay_inventory_sha256=sha256,
        scorer_id=provider.scorer_id,
        scorer_revision=provider.scorer_revision,
    )
    return request, binding, {PATH_VARIABLE: str(path), SHA256_VARIABLE: sha256}


def python_worker(entrypoint: Path, **settings: Any) -> ProcessWorker:
    return ProcessWorker.bind(sys.executable, entrypoint, **{"timeout_seconds": 60, **settings})
