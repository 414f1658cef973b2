"""A captured fixture checkpoint, and requests about it that a test can bend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentinputlab.contracts import FrozenAgentState
from workers.official_arenas.capture_records import _records
from workers.official_arenas.protocol import (
    EXECUTABLE_PAYLOAD_PROTOCOL,
    REPLAY_INVENTORY_PROTOCOL,
    REQUEST_PROTOCOL,
    WORKER_PROTOCOL,
    checkpoint_identity_hash,
    content_hash,
)
from workers.official_arenas.providers.fixture import FixtureProvider

CONFIG = {"fixture": True, "locked_dependency_hashes": {"official_runtime": "1" * 64}}


def payload_of(row: dict[str, Any], state: dict[str, Any], *, role: str, seed: int = 17, **execution: Any) -> Any:
    """Payload of an arm that starts from ``state``."""
    return {
        "schema_version": 1,
        "protocol": EXECUTABLE_PAYLOAD_PROTOCOL,
        "arm_id": f"arm-{role}",
        "release_id": "baseline.no_op",
        "family": "no_op",
        "profile_kind": "controlled_adapter",
        "model_slot": "fixture-slot",
        "seed": seed,
        "checkpoint_identity_hash": checkpoint_identity_hash(row),
        "visible_state_hash": row["visible_state_hash"],
        "pre_action": {},
        "arm_parameters": {},
        "intervention_execution": {
            "status": "success",
            "input_state_hash": row["visible_state_hash"],
            "output_state_hash": content_hash(state),
            "patch": {},
            "patch_hash": content_hash({}),
            "materialized_state": state,
            "runtime_product_sha256": "0" * 64,
            "intervention_builder_sha256": "0" * 64,
            "usage": {"model_calls": 0},
            "duration_ms": 1,
            "intent_check": None,
            "failure": None,
            **execution,
        },
    }


def sealed_envelope(atomic_request: Any, worker_parameters: Any, **changes: Any) -> dict[str, Any]:
    """Envelope with a right hash."""
    root = {
        "schema_version": 1,
        "protocol": REQUEST_PROTOCOL,
        "atomic_request": atomic_request,
        "worker_parameters": worker_parameters,
        **changes,
    }
    return {**root, "request_hash": content_hash(root)}


@dataclass
class Pair:
    """A fixture pair: its parts, and the environment in which a worker finds its inventory."""

    row: dict[str, Any]
    record: dict[str, Any]
    request: dict[str, Any]
    parameters: dict[str, Any]
    environment: dict[str, str]
    inventory_path: Path

    def envelope(self) -> dict[str, Any]:
        return sealed_envelope(self.request, self.parameters)

    def bind_inventory(self, data: bytes) -> None:
        """Write other inventory bytes and bind everything to them."""
        self.inventory_path.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        self.environment["FIXTURE_REPLAYS_SHA256"] = digest
        self.parameters["expected_replay_inventory_sha256"] = digest


def inventory_of(records: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Replay inventory of the fixture arena."""
    return {
        "schema_version": 1,
        "protocol": REPLAY_INVENTORY_PROTOCOL,
        "benchmark_id": "fixture.common_support",
        "source_revision": "0" * 40,
        "record_count": len(records),
        "records": records,
        **changes,
    }


@pytest.fixture
def fixture_config() -> dict[str, Any]:
    return json.loads(json.dumps(CONFIG))


@pytest.fixture
def make_payload() -> Callable[..., Any]:
    return payload_of


@pytest.fixture
def make_inventory() -> Callable[..., dict[str, Any]]:
    return inventory_of


@pytest.fixture
def make_envelope() -> Callable[..., dict[str, Any]]:
    return sealed_envelope


@pytest.fixture
def make_pair(tmp_path: Path) -> Callable[..., Pair]:
    """A pair whose arms start from two queries; ``budget`` changes caps of both materialized states."""

    def make(baseline: str = "short queries", treatment: str = "a somewhat longer qu", **budget: Any) -> Pair:
        visible, protected, _ = _records(FixtureProvider(), CONFIG, split="test", output_root=tmp_path)
        row, record = visible[0], protected[0]

        def arm(role: str, query: str) -> dict[str, Any]:
            state = FrozenAgentState(query=query, task_id="fixture-1").canonical_dict()
            state["budget"].update(budget)
            return {"role": role, "arm_id": f"arm-{role}", "payload": payload_of(row, state, role=role)}

        names = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity")
        request = {
            **{name: row[name] for name in names},
            "seed": 17,
            "locked_dependency_hashes": {**CONFIG["locked_dependency_hashes"], "host": "2" * 64},
            "arms": [arm("baseline", baseline), arm("treatment", treatment)],
        }
        parameters = {
            "schema_version": 1,
            "protocol": WORKER_PROTOCOL,
            "provider_entrypoint": "workers.official_arenas.providers.fixture:factory",
            "provider_config": json.loads(json.dumps(CONFIG)),
            "replay_inventory_environment": "FIXTURE_REPLAYS",
            "replay_inventory_sha256_environment": "FIXTURE_REPLAYS_SHA256",
            "expected_replay_inventory_sha256": "",
            "bridge_id": "agentinputlab.atomic-process-bridge.v1",
            "bridge_revision": "c" * 64,
            "scorer_id": "fixture.official_scorer",
            "scorer_revision": "b" * 64,
        }
        path = tmp_path / "replays.json"
        pair = Pair(row, record, request, parameters, {"FIXTURE_REPLAYS": str(path)}, path)
        pair.bind_inventory(json.dumps(inventory_of([record])).encode())
        return pair

    return make
