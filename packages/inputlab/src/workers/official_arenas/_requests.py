"""Validators of what a paired worker is asked to do: parameters, the atomic request, locks, arms, usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from workers.official_arenas.protocol import (
    REQUEST_PROTOCOL,
    WORKER_PROTOCOL,
    OfficialArenaError,
    checkpoint_identity_hash,
    content_hash,
    is_sha256,
    materialized_state,
    merge_usage,
    require_materialized_budget,
    shared_budget,
    validate_dependency_hashes,
)

__all__ = [
    "ARM_FIELDS",
    "PARAMETER_FIELDS",
    "REQUEST_FIELDS",
    "ROOT_FIELDS",
    "envelope",
    "validate_arm_binding",
    "validate_atomic_request",
    "validate_dependency_binding",
    "validate_parameters",
    "validate_shared_budget_totals",
    "validate_shared_budget_usage",
]

ROOT_FIELDS = frozenset({"schema_version", "protocol", "atomic_request", "worker_parameters", "request_hash"})
PARAMETER_FIELDS = frozenset(
    {
        "schema_version",
        "protocol",
        "provider_entrypoint",
        "provider_config",
        "replay_inventory_environment",
        "replay_inventory_sha256_environment",
        "expected_replay_inventory_sha256",
        "bridge_id",
        "bridge_revision",
        "scorer_id",
        "scorer_revision",
    }
)
REQUEST_FIELDS = frozenset(
    {
        "benchmark_id",
        "checkpoint_id",
        "source_revision",
        "origin_state_hash",
        "replay_identity",
        "seed",
        "locked_dependency_hashes",
        "arms",
    }
)
ARM_FIELDS = frozenset({"role", "arm_id", "payload"})
_ROLES = frozenset({"baseline", "treatment"})

# Cap of an execution budget -> field of the usage row that it limits.
_CAPS = (
    ("max_model_calls", "model_calls"),
    ("max_retrieval_calls", "retrieval_calls"),
    ("max_tool_calls", "tool_calls"),
    ("max_output_tokens", "output_tokens"),
    ("max_context_tokens", "input_tokens"),
)


def _object(value: object, fields: frozenset[str], what: str) -> Mapping[str, Any]:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise OfficialArenaError(f"{what} must be an object")
    mapping = cast("Mapping[str, Any]", value)
    if frozenset(mapping) != fields:
        missing = sorted(fields - set(mapping))
        # A surplus name is the sender's text, so it is counted and not shown.
        raise OfficialArenaError(f"{what} fields differ: missing {missing}, {len(set(mapping) - fields)} unknown")
    return mapping


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise OfficialArenaError(f"{what} must be non-blank text")
    return value


def _sha256(value: object, what: str) -> str:
    if not is_sha256(value):
        raise OfficialArenaError(f"{what} must be 64 lowercase hex digits")
    return cast("str", value)


def envelope(value: object) -> tuple[Mapping[str, Any], str]:
    """Give the envelope of a request and its hash, both checked.

    Raises:
        OfficialArenaError: other fields, schema or protocol, or the hash is not that of the other four fields.
    """
    root = _object(value, ROOT_FIELDS, "Atomic envelope")
    if type(root["schema_version"]) is not int or root["schema_version"] != 1:
        raise OfficialArenaError("Atomic envelope schema_version must be 1")
    if root["protocol"] != REQUEST_PROTOCOL:
        raise OfficialArenaError(f"Atomic envelope protocol must be {REQUEST_PROTOCOL}")
    try:
        expected = content_hash({name: item for name, item in root.items() if name != "request_hash"})
    except (TypeError, ValueError) as error:
        raise OfficialArenaError("Atomic envelope is not a JSON value") from error
    if root["request_hash"] != expected:
        raise OfficialArenaError("Atomic envelope request_hash differs from its content")
    return root, expected


def validate_parameters(value: object) -> dict[str, Any]:
    """Give a checked copy of the worker parameters.

    Raises:
        OfficialArenaError: other fields, or a field of the wrong kind; the message names it.
    """
    parameters = _object(value, PARAMETER_FIELDS, "Worker parameters")
    if type(parameters["schema_version"]) is not int or parameters["schema_version"] != 1:
        raise OfficialArenaError("Worker parameters schema_version must be 1")
    if parameters["protocol"] != WORKER_PROTOCOL:
        raise OfficialArenaError(f"Worker parameters protocol must be {WORKER_PROTOCOL}")
    for name in (
        "provider_entrypoint",
        "replay_inventory_environment",
        "replay_inventory_sha256_environment",
        "bridge_id",
        "bridge_revision",
        "scorer_id",
        "scorer_revision",
    ):
        _text(parameters[name], f"Worker parameters {name}")
    _sha256(parameters["expected_replay_inventory_sha256"], "Worker parameters expected_replay_inventory_sha256")
    if parameters["replay_inventory_environment"] == parameters["replay_inventory_sha256_environment"]:
        raise OfficialArenaError("Worker parameters name one environment variable for both path and digest")
    if not isinstance(parameters["provider_config"], Mapping):
        raise OfficialArenaError("Worker parameters provider_config must be an object")
    return dict(parameters)


def validate_atomic_request(value: object, *, hash_of: Callable[[object], str] = content_hash) -> dict[str, Any]:
    """Give a checked copy of the atomic request: one origin, two arms.

    Args:
        value: atomic request.
        hash_of: gives the content hash of a part of it; a faster one fits where more is known of the request.

    Raises:
        OfficialArenaError: other fields, a field of the wrong kind, arms other than one baseline and one
            treatment with distinct ids, or a payload bound to another arm, seed or checkpoint.
    """
    request = _object(value, REQUEST_FIELDS, "Atomic request")
    for name in ("benchmark_id", "checkpoint_id", "source_revision"):
        _text(request[name], f"Atomic request {name}")
    for name in ("origin_state_hash", "replay_identity"):
        _sha256(request[name], f"Atomic request {name}")
    if type(request["seed"]) is not int or request["seed"] < 0:
        raise OfficialArenaError("Atomic request seed must be a non-negative integer")
    locks = validate_dependency_hashes(request["locked_dependency_hashes"], name="Atomic request locks")
    arms = request["arms"]
    if not isinstance(arms, list | tuple) or len(cast("list[object]", arms)) != 2:
        raise OfficialArenaError("Atomic request must have two arms")
    identity_hash = checkpoint_identity_hash(request, hash_of=hash_of)
    checked = [_arm(arm, request["seed"], identity_hash, hash_of) for arm in cast("list[object]", arms)]
    if frozenset(arm["role"] for arm in checked) != _ROLES:
        raise OfficialArenaError("Atomic request arms must be one baseline and one treatment")
    if checked[0]["arm_id"] == checked[1]["arm_id"]:
        raise OfficialArenaError("Atomic request arms must have distinct arm_id")
    return {**request, "locked_dependency_hashes": locks, "arms": checked}


def _arm(value: object, seed: int, identity_hash: str, hash_of: Callable[[object], str]) -> dict[str, Any]:
    arm = _object(value, ARM_FIELDS, "Atomic arm")
    if not isinstance(arm["role"], str) or arm["role"] not in _ROLES:
        raise OfficialArenaError("Atomic arm role must be baseline or treatment")
    _text(arm["arm_id"], "Atomic arm arm_id")
    if type(arm["payload"]) is not dict and not isinstance(arm["payload"], Mapping):
        raise OfficialArenaError("Atomic arm payload must be an object")
    payload = cast("Mapping[str, Any]", arm["payload"])
    materialized_state(payload, hash_of=hash_of)
    if payload.get("arm_id") != arm["arm_id"]:
        raise OfficialArenaError("Payload arm_id differs from its arm")
    if type(payload.get("seed")) is not int or payload["seed"] != seed:
        raise OfficialArenaError("Payload seed differs from the request")
    if payload.get("checkpoint_identity_hash") != identity_hash:
        raise OfficialArenaError("Payload checkpoint_identity_hash differs from the request")
    return {**arm, "payload": dict(payload)}


def validate_arm_binding(record: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Check that both payloads start from what was captured, and for the model slot that captured it.

    Args:
        record: replay record; what an older inventory does not say (``visible_state_hash``, ``model_slot``) binds
            nothing.
        request: checked atomic request.

    Raises:
        OfficialArenaError: a payload says another ``visible_state_hash`` or ``model_slot``.
    """
    for name in ("visible_state_hash", "model_slot"):
        captured = record.get(name)
        if captured is not None and any(arm["payload"].get(name) != captured for arm in request["arms"]):
            raise OfficialArenaError(f"Payload {name} differs from the captured checkpoint")


def validate_dependency_binding(
    config: Mapping[str, Any], record: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, str]:
    """Give the provider's locks, equal to those of the replay record and contained in those of the request.

    Raises:
        OfficialArenaError: no locks, or they differ.
    """
    locks = validate_dependency_hashes(config.get("locked_dependency_hashes"), name="Provider locks")
    protected = record.get("protected")
    replayed = cast("Mapping[str, Any]", protected) if isinstance(protected, Mapping) else {}
    if validate_dependency_hashes(replayed.get("locked_dependency_hashes"), name="Replay locks") != locks:
        raise OfficialArenaError("Provider locks differ from the replay record")
    requested = request["locked_dependency_hashes"]
    if any(requested.get(name) != digest for name, digest in locks.items()):
        raise OfficialArenaError("Provider locks are not part of the locks of the request")
    return locks


def validate_shared_budget_usage(
    config: Mapping[str, Any], payload: Mapping[str, Any], usage: Mapping[str, Any]
) -> None:
    """Check what an arm used, the intervention included, against the budget of its materialized state.

    A cap of 0 means none allowed, a cap of None no limit.

    Args:
        config: resolved provider config; its shared budget, if any, must be that of the arm.
        payload: payload of the arm.
        usage: usage of intervention and arm together.

    Raises:
        OfficialArenaError: a cap is not a non-negative integer, or was exceeded; the message names it.
    """
    budget = require_materialized_budget(payload, shared_budget(config))
    _require_within(budget, merge_usage(usage))


def validate_shared_budget_totals(
    config: Mapping[str, Any], payload: Mapping[str, Any], totals: Mapping[str, Any]
) -> None:
    """Do what `validate_shared_budget_usage` does with what `merge_usage` gave, which needs no second look."""
    _require_within(require_materialized_budget(payload, shared_budget(config)), totals)


def _require_within(budget: Mapping[str, Any], used: Mapping[str, Any]) -> None:
    for cap_name, field in _CAPS:
        cap = budget.get(cap_name)
        if cap is None and cap_name == "max_context_tokens":
            continue
        if type(cap) is not int or cap < 0:
            raise OfficialArenaError(f"Arm budget {cap_name} must be a non-negative integer")
        if used[field] > cap:
            raise OfficialArenaError(f"Arm used {used[field]} {field}, its {cap_name} is {cap}")
    cost_cap = budget.get("max_cost_usd")
    if cost_cap is None:
        return
    if used["unpriced_model_calls"]:
        raise OfficialArenaError("Arm has a cost cap and unpriced model calls")
    if used["cost_usd"] + used["compute_cost_usd"] > cost_cap:
        raise OfficialArenaError("Arm cost exceeds max_cost_usd")
