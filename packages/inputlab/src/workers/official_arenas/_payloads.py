"""Requests for the paired driver: an intervention runs once on a visible checkpoint, and two arms are described.

Nothing here writes a file. Everything that needs the toolkit is imported where it is used, because the driver loads
this module and must start fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from workers.official_arenas._drafts import draft_config
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import parse_object, read_regular, sha256_bytes
from workers.official_arenas._first_capture import SEED
from workers.official_arenas._replay_inventory import parse_replay_inventory
from workers.official_arenas.protocol import (
    CHECKPOINT_INVENTORY_PROTOCOL,
    EXECUTABLE_PAYLOAD_PROTOCOL,
    REQUEST_PROTOCOL,
    WORKER_PROTOCOL,
    OfficialArenaProvider,
    checkpoint_identity_hash,
    content_hash,
)
from workers.official_arenas.providers import provider_entrypoint, resolve_provider

if TYPE_CHECKING:
    from agentinputlab.contracts.lifecycle import Intervention, InterventionContext
    from agentinputlab.contracts.patch import InputPatch
    from agentinputlab.contracts.state import FrozenAgentState
    from agentinputlab.observability import RunMonitor

__all__ = [
    "REPLAYS_ENV",
    "REPLAYS_SHA256_ENV",
    "Arm",
    "build_envelope",
    "build_payload",
    "build_payloads",
    "build_request",
]

REPLAYS_ENV = "AILAB_RETAIL_REPLAY_INVENTORY"
"""Environment variable that a built request names for the path of its replay inventory."""
REPLAYS_SHA256_ENV = "AILAB_RETAIL_REPLAY_INVENTORY_SHA256"
"""Environment variable that a built request names for the digest of its replay inventory."""
BRIDGE_ID = "agentinputlab.retail-driver"
BRIDGE_REVISION = "1"
_IDENTITY = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity")


@dataclass(frozen=True, slots=True)
class Arm:
    """What one side of a pair is made of.

    Attributes:
        arm_id: its name.
        intervention: what to run.
        parameters: JSON values that it was configured with; part of the identity of the pair.
        context: everything executable that the intervention may use; nothing by default.
    """

    arm_id: str
    intervention: Intervention
    parameters: Mapping[str, Any]
    context: InterventionContext | None = None


def build_payload(
    checkpoint: Mapping[str, Any],
    *,
    arm_id: str,
    intervention: Intervention,
    arm_parameters: Mapping[str, Any],
    model_slot: str,
    context: InterventionContext | None = None,
) -> dict[str, Any]:
    """Run an intervention once on a checkpoint and describe the arm that plays the result.

    An intervention that fails gives a payload that says so and keeps the unchanged state: its arm still runs, and
    the failure stays in the denominator.

    Args:
        checkpoint: row of a checkpoint inventory.
        arm_id: name of the arm.
        intervention: what to run.
        arm_parameters: JSON values that the arm was configured with; part of the identity of the pair.
        model_slot: name of the model under test.
        context: everything executable that the intervention may use; nothing by default.

    Raises:
        OfficialArenaError: the checkpoint's visible state does not have the hash that it says.
    """
    (payload,) = build_payloads(checkpoint, [Arm(arm_id, intervention, arm_parameters, context)], model_slot=model_slot)
    return payload


def build_payloads(checkpoint: Mapping[str, Any], arms: Iterable[Arm], *, model_slot: str) -> list[dict[str, Any]]:
    """Describe arms that start from the same checkpoint, which is read once; each as `build_payload`.

    The interventions run in the order of the arms, on one state. An intervention of ours, which leaves its input
    alone, comes before one of others.

    Args:
        checkpoint: row of a checkpoint inventory.
        arms: what to run, and for whom.
        model_slot: name of the model under test.

    Raises:
        OfficialArenaError: as `build_payload`.
    """
    from agentinputlab.contracts.state import FrozenAgentState

    state = FrozenAgentState.from_dict(checkpoint["visible_state"])
    if state.state_hash != checkpoint["visible_state_hash"]:
        raise OfficialArenaError("Checkpoint visible_state differs from its visible_state_hash")
    identity = checkpoint_identity_hash(checkpoint)
    return [_payload(arm, state, identity, model_slot) for arm in arms]


def _payload(arm: Arm, state: FrozenAgentState, identity: str, model_slot: str) -> dict[str, Any]:
    from agentinputlab.contracts.lifecycle import InterventionContext
    from agentinputlab.observability import RunMonitor

    intervention = arm.intervention
    execution = _execution(intervention, state, arm.context or InterventionContext(seed=SEED), RunMonitor())
    kind: Any = getattr(intervention, "profile_kind", "controlled_adapter")
    return {
        "schema_version": 1,
        "protocol": EXECUTABLE_PAYLOAD_PROTOCOL,
        "arm_id": arm.arm_id,
        "release_id": intervention.release_id,
        "family": str(intervention.family),
        "profile_kind": str(kind),
        "model_slot": model_slot,
        "seed": SEED,
        "checkpoint_identity_hash": identity,
        "visible_state_hash": state.state_hash,
        "pre_action": True,
        "arm_parameters": dict(arm.parameters),
        "intervention_execution": {
            **execution,
            "input_state_hash": state.state_hash,
            "intervention_builder_sha256": _builder_sha256(),
        },
    }


@cache
def _builder_sha256() -> str:
    """Give the hash of this module's file, once: what runs is what was loaded."""
    return sha256_bytes(read_regular(Path(__file__).resolve()))


def _execution(
    intervention: Intervention, state: FrozenAgentState, context: InterventionContext, monitor: RunMonitor
) -> dict[str, Any]:
    from agentinputlab.contracts.serialization import to_jsonable
    from agentinputlab.runner import InterventionRunner

    try:
        record, output = InterventionRunner(monitor=monitor).run_applied(intervention, state, context)
    except Exception as error:  # noqa: BLE001 - whatever stopped the intervention is its outcome, and it is counted
        return _failed_execution(error, state, monitor)
    materialized = output.canonical_dict()
    patch, patch_hash = _json_and_hash(record.patch)
    return {
        "status": str(record.status),
        "output_state_hash": output.state_hash,
        "patch": patch,
        "patch_hash": patch_hash,
        "materialized_state": materialized,
        "runtime_product_sha256": content_hash({"patch_hash": patch_hash, "state": materialized}),
        "usage": record.usage.as_dict(),
        "duration_ms": record.duration_ms,
        "intent_check": to_jsonable(record.intent_check),
        "failure": None,
    }


def _json_and_hash(patch: InputPatch) -> tuple[dict[str, Any], str]:
    from agentinputlab.contracts.patch import InputPatch

    if type(patch) is InputPatch:
        return patch.json_and_hash()
    return patch.as_dict(), patch.patch_hash  # another class may say both in its own way


def _failed_execution(error: Exception, state: FrozenAgentState, monitor: RunMonitor) -> dict[str, Any]:
    from agentinputlab.contracts.errors import AgentInputLabError
    from agentinputlab.observability import ResourceUsage

    runs = monitor.list_snapshots()
    last = runs[-1] if runs else None
    materialized = state.canonical_dict()
    return {
        "status": "failed",
        "output_state_hash": state.state_hash,
        "patch": None,
        "patch_hash": None,
        "materialized_state": materialized,
        "runtime_product_sha256": content_hash({"patch_hash": None, "state": materialized}),
        "usage": (ResourceUsage() if last is None else last.usage).as_dict(),
        "duration_ms": 0.0 if last is None else last.duration_ms,
        "intent_check": None,
        "failure": {
            "scope": "algorithm",
            "category": "typed" if isinstance(error, AgentInputLabError) else "unexpected",
            "exception_type": type(error).__name__,
            "message": str(error),
            "monitor_run_id": None if last is None else last.run_id,
        },
    }


def build_envelope(
    provider: OfficialArenaProvider,
    config: Mapping[str, Any],
    checkpoint: Mapping[str, Any],
    *,
    baseline_payload: Mapping[str, Any],
    treatment_payload: Mapping[str, Any],
    expected_replay_inventory_sha256: str,
    bridge_id: str = BRIDGE_ID,
    bridge_revision: str = BRIDGE_REVISION,
    replay_inventory_environment: str = REPLAYS_ENV,
    replay_inventory_sha256_environment: str = REPLAYS_SHA256_ENV,
    entrypoint: str | None = None,
) -> dict[str, Any]:
    """Give the request for one pair, as the driver reads it from stdin.

    Args:
        provider: the arena.
        config: its config.
        checkpoint: row of a checkpoint inventory.
        baseline_payload: from `build_payload`.
        treatment_payload: from `build_payload`.
        expected_replay_inventory_sha256: digest of the replay inventory that holds the checkpoint.
        bridge_id: who asks.
        bridge_revision: its revision.
        replay_inventory_environment: variable in which the driver finds the path of the inventory.
        replay_inventory_sha256_environment: variable in which it finds the digest.
        entrypoint: of the arena; by default that of the installed arena with the provider's benchmark id.

    Raises:
        OfficialArenaError: the arena is not installed, or the checkpoint names locks per model slot without this one.
    """
    arms = (("baseline", baseline_payload), ("treatment", treatment_payload))
    request = {
        **{name: checkpoint[name] for name in _IDENTITY},
        "seed": SEED,
        "locked_dependency_hashes": _locks(checkpoint, str(baseline_payload["model_slot"])),
        "arms": [{"role": role, "arm_id": payload["arm_id"], "payload": dict(payload)} for role, payload in arms],
    }
    parameters = {
        "schema_version": 1,
        "protocol": WORKER_PROTOCOL,
        "provider_entrypoint": entrypoint or provider_entrypoint(provider.benchmark_id),
        "provider_config": dict(config),
        "replay_inventory_environment": replay_inventory_environment,
        "replay_inventory_sha256_environment": replay_inventory_sha256_environment,
        "expected_replay_inventory_sha256": expected_replay_inventory_sha256,
        "bridge_id": bridge_id,
        "bridge_revision": bridge_revision,
        "scorer_id": provider.scorer_id,
        "scorer_revision": provider.scorer_revision,
    }
    root = {
        "schema_version": 1,
        "protocol": REQUEST_PROTOCOL,
        "atomic_request": request,
        "worker_parameters": parameters,
    }
    return {**root, "request_hash": content_hash(root)}


def _locks(checkpoint: Mapping[str, Any], model_slot: str) -> dict[str, str]:
    if "locked_dependency_hashes" in checkpoint:
        return dict(checkpoint["locked_dependency_hashes"])
    locks = cast("Mapping[str, Mapping[str, str]]", checkpoint["locked_dependency_hashes_by_model_slot"])
    if model_slot not in locks:
        raise OfficialArenaError("Checkpoint has no locks for this model slot")
    return dict(locks[model_slot])


def build_request(
    checkpoints: Path,
    replays: Path,
    *,
    checkpoint_id: str,
    treatment: str,
    entrypoint: str,
    config_path: Path | None = None,
    model_slot: str | None = None,
) -> dict[str, Any]:
    """Run a registered release on a captured checkpoint and give the request that compares it with no change.

    Args:
        checkpoints: ``checkpoints.json`` of a snapshot.
        replays: ``replays.json`` of the same snapshot.
        checkpoint_id: which checkpoint.
        treatment: release id; it runs with its default parameters and without a model.
        entrypoint: of the arena.
        config_path: its config; by default the arena's own, for the captured split and number of tasks.
        model_slot: name of the model under test; by default the one that the inventory was captured for.

    Raises:
        OfficialArenaError: an inventory is malformed, does not hold the checkpoint, or they contradict each other.
        AgentInputLabError: there is no such release, or it cannot run here.
    """
    from agentinputlab.api import create_intervention
    from agentinputlab.selectors import NoOpIntervention

    inventory = _read_object(checkpoints)
    rows = inventory.get("checkpoints")
    if inventory.get("protocol") != CHECKPOINT_INVENTORY_PROTOCOL or not isinstance(rows, list):
        raise OfficialArenaError("Checkpoint inventory is of another protocol")
    found = [row for row in cast("list[Any]", rows) if row.get("checkpoint_id") == checkpoint_id]
    replay_bytes = _read(replays)
    record = parse_replay_inventory(replay_bytes)[1].get(checkpoint_id)
    if len(found) != 1 or record is None or record["replay_identity"] != found[0].get("replay_identity"):
        raise OfficialArenaError("Checkpoint is not in both inventories")
    checkpoint = cast("dict[str, Any]", found[0])
    provider = resolve_provider(entrypoint)
    slot = model_slot or str(record.get("model_slot", "scripted"))
    unchanged = cast("Intervention", NoOpIntervention())
    baseline = build_payload(checkpoint, arm_id="baseline", intervention=unchanged, arm_parameters={}, model_slot=slot)
    changed = build_payload(
        checkpoint, arm_id="treatment", intervention=create_intervention(treatment), arm_parameters={}, model_slot=slot
    )
    return build_envelope(
        provider,
        draft_config(provider, config_path, split=checkpoint["split"], limit=len(cast("list[Any]", rows))),
        checkpoint,
        baseline_payload=baseline,
        treatment_payload=changed,
        expected_replay_inventory_sha256=sha256_bytes(replay_bytes),
        entrypoint=entrypoint,
    )


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise OfficialArenaError("Retail bound file is absent or symlinked") from error


def _read_object(path: Path) -> dict[str, Any]:
    return parse_object(_read(path))
