"""Generic paired worker: JSON request on stdin, JSON response on stdout, nothing kept.

Start it as a file or with ``python -m workers.official_arenas.driver``. The durable worker with a ledger is
`workers.official_arenas.retail_driver`; it uses the same validators.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # started as a file: make `workers` importable
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canonical import strict_loads
from ripieno.errors import InputError
from workers.official_arenas._console import NOT_WRITTEN, quiet_console, say
from workers.official_arenas._replay_inventory import ReplayInventory, read_replay_inventory
from workers.official_arenas._requests import (
    ROOT_FIELDS,
    envelope,
    validate_arm_binding,
    validate_atomic_request,
    validate_dependency_binding,
    validate_parameters,
    validate_shared_budget_usage,
)
from workers.official_arenas._trace_measurement import intervention_failure, safe_trace_measurement
from workers.official_arenas.protocol import (
    REQUEST_PROTOCOL,
    RESPONSE_PROTOCOL,
    USAGE_FIELDS,
    WORKER_PROTOCOL,
    OfficialArenaError,
    OfficialArenaProvider,
    content_hash,
    intervention_usage,
    merge_usage,
    resolve_shared_budget_config,
    trace_hashes,
)
from workers.official_arenas.providers import resolve_provider

__all__ = ["REQUEST_PROTOCOL", "RESPONSE_PROTOCOL", "WORKER_PROTOCOL", "main", "run"]

MAX_REQUEST_BYTES = 64 * 2**20
"""Longest request that is read from stdin."""

_ROOT_FIELDS = ROOT_FIELDS
_USAGE_FIELDS = USAGE_FIELDS


def _parameters(value: object) -> dict[str, Any]:
    """Give the checked worker parameters (the ``worker_parameters`` of an envelope)."""
    return validate_parameters(value)


def _atomic_request(value: object, *, hash_of: Callable[[object], str] = content_hash) -> dict[str, Any]:
    """Give the checked request (the ``atomic_request`` of an envelope); its payloads are bound to arm and seed."""
    return validate_atomic_request(value, hash_of=hash_of)


def _inventory(parameters: Mapping[str, Any], *, environment: Mapping[str, str] | None = None) -> ReplayInventory:
    """Give ``(identity, records by checkpoint id)`` of the bound replay inventory, read once."""
    return read_replay_inventory(parameters, environment=environment)


def _provider(parameters: Mapping[str, Any]) -> OfficialArenaProvider:
    """Give a new provider of the entry point that the parameters name; only accepted arenas are imported."""
    return resolve_provider(parameters["provider_entrypoint"])


def _validate_dependency_binding(
    config: Mapping[str, Any], record: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, str]:
    """Give the provider's locks: equal to the replay record's, contained in the request's."""
    return validate_dependency_binding(config, record, request)


def _validate_arm_binding(record: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Check that both payloads start from the captured visible state, for the slot that captured it."""
    validate_arm_binding(record, request)


def _validate_shared_budget_usage(
    config: Mapping[str, Any], payload: Mapping[str, Any], usage: Mapping[str, Any]
) -> None:
    """Check the usage of intervention and arm together against the arm's budget; a cap of 0 means none."""
    validate_shared_budget_usage(config, payload, usage)


def _safe_trace_measurement(trace: object) -> dict[str, Any]:
    """Give the public structure of a trace: counts and positions, no text."""
    return safe_trace_measurement(trace)


def _intervention_failure(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give the public part of a failed intervention, or None."""
    return intervention_failure(payload)


def run(value: object, *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Play both arms of a request, in its order, and give the response.

    Args:
        value: request envelope.
        environment: where the inventory and a shared budget are looked up; ``os.environ`` by default.

    Returns:
        The response: ``schema_version, protocol, request_hash, receipt, arms, measurements``. Arm rows have exactly
        ``role, arm_id, metrics, trace_hash, usage``; ``measurements`` holds, by role, ``trace_measurement``,
        ``normalized_trace_hash`` and ``intervention_failure``.

    Raises:
        OfficialArenaError: the request, the inventory, the provider or an arm was refused.
    """
    variables = os.environ if environment is None else environment
    root, request_hash = envelope(value)
    parameters = _parameters(root["worker_parameters"])
    request = _atomic_request(root["atomic_request"])
    record = _replay_record(parameters, request, variables)
    config = resolve_shared_budget_config(parameters["provider_config"], environment=variables)
    _validate_dependency_binding(config, record, request)
    _validate_arm_binding(record, request)
    provider = _checked_provider(parameters, request, config)
    rows: list[dict[str, Any]] = []
    receipts: list[dict[str, Any]] = []
    measurements: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agentinputlab-arena-") as directory:
        for arm in request["arms"]:
            work_dir = Path(directory) / arm["role"]
            work_dir.mkdir(mode=0o700)
            result = provider.run_arm(
                config,
                replay_record=record,
                arm_payload=arm["payload"],
                seed=request["seed"],
                role=arm["role"],
                work_dir=work_dir,
                durable=False,
            )
            if any(row["runtime_instance_id"] == result.runtime_instance_id for row in receipts):
                raise OfficialArenaError("Paired arms reused one runtime")
            usage = merge_usage(intervention_usage(arm["payload"]), result.usage)
            trace_hash, normalized_hash = trace_hashes(result.trace)
            _validate_shared_budget_usage(config, arm["payload"], usage)
            rows.append(
                {
                    "role": arm["role"],
                    "arm_id": arm["arm_id"],
                    "metrics": dict(result.metrics),
                    "trace_hash": trace_hash,
                    "usage": usage,
                }
            )
            receipts.append(_arm_receipt(arm, request, result.runtime_instance_id))
            measurements[arm["role"]] = {
                "trace_measurement": _safe_trace_measurement(result.trace),
                "normalized_trace_hash": normalized_hash,
                "intervention_failure": _intervention_failure(arm["payload"]),
            }
    if set(rows[0]["metrics"]) != set(rows[1]["metrics"]):
        raise OfficialArenaError("Paired arms have different metrics")
    return {
        "schema_version": 1,
        "protocol": RESPONSE_PROTOCOL,
        "request_hash": request_hash,
        "receipt": {
            **{name: item for name, item in request.items() if name != "arms"},
            **{name: parameters[name] for name in ("bridge_id", "bridge_revision", "scorer_id", "scorer_revision")},
            "arms": receipts,
        },
        "arms": rows,
        "measurements": measurements,
    }


def _replay_record(
    parameters: Mapping[str, Any], request: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    identity, records = _inventory(parameters, environment=environment)
    if identity != {name: request[name] for name in identity}:
        raise OfficialArenaError("Replay inventory is of another benchmark or revision than the request")
    record = records.get(request["checkpoint_id"])
    if record is None:
        raise OfficialArenaError("Replay inventory does not hold the requested checkpoint")
    if any(record[name] != request[name] for name in ("origin_state_hash", "replay_identity")):
        raise OfficialArenaError("Replay record differs from the protected origin of the request")
    return record


def _checked_provider(
    parameters: Mapping[str, Any], request: Mapping[str, Any], config: Mapping[str, Any]
) -> OfficialArenaProvider:
    provider = _provider(parameters)
    expected = {name: request[name] for name in ("benchmark_id", "source_revision")}
    expected.update({name: parameters[name] for name in ("scorer_id", "scorer_revision")})
    if any(getattr(provider, name) != item for name, item in expected.items()):
        raise OfficialArenaError("Provider identity or scorer differs from the request")
    if provider.doctor(config):
        raise OfficialArenaError("Provider preflight did not pass")
    return provider


def _arm_receipt(arm: Mapping[str, Any], request: Mapping[str, Any], runtime_instance_id: str) -> dict[str, Any]:
    origin = ("origin_state_hash", "replay_identity", "seed", "locked_dependency_hashes")
    return {
        "role": arm["role"],
        "arm_id": arm["arm_id"],
        **{name: request[name] for name in origin},
        "runtime_instance_id": runtime_instance_id,
        "completed": True,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one request from stdin on stdout, or ``--doctor``; exit code 2 when it was refused."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given == ["--doctor"]:
            return _answer({"protocol": WORKER_PROTOCOL, "ready": True})
        if given:
            raise OfficialArenaError("Usage: driver [--doctor]; without it, a request on stdin")  # noqa: TRY301 - one exit
        data = sys.stdin.buffer.read(MAX_REQUEST_BYTES + 1)
        request = strict_loads(data, max_bytes=MAX_REQUEST_BYTES)
        with quiet_console():
            response = run(request)
    except OfficialArenaError as error:
        return _refuse(error, str(error))
    except InputError as error:
        return _refuse(error, "Request is not strict JSON (UTF-8, no duplicate keys, bounded size and depth)")
    except Exception as error:  # noqa: BLE001 - the door of the process: the text of a foreign error may hold anything
        return _refuse(error, "Arena attempt failed; its error text is not shown")
    return _answer(response)


def _answer(value: Mapping[str, Any]) -> int:
    if say(sys.stdout, value):
        return 0
    say(sys.stderr, {"error": "OSError", "message": NOT_WRITTEN})
    return 2


def _refuse(error: Exception, message: str) -> int:
    say(sys.stderr, {"error": type(error).__name__, "message": message})
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
