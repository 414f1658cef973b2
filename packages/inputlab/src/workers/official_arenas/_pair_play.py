"""Playing one pair: both arms in their order, every trace kept before it is judged, every failure an outcome."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentinputlab.backends.answered import noting_answers
from workers.official_arenas import _pair_ledger
from workers.official_arenas import driver as shared
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import (
    Directory,
    canonical_and_evidence_bytes,
    evidence_bytes,
    sealed_evidence_bytes,
    sha256_bytes,
)
from workers.official_arenas._first_capture import SEED
from workers.official_arenas._pair_ledger import PairBinding, RetailAttemptUnavailable
from workers.official_arenas._requests import validate_shared_budget_totals
from workers.official_arenas.protocol import (
    RESPONSE_PROTOCOL,
    OfficialArenaProvider,
    ProviderArmResult,
    trace_hashes,
    usage_with_intervention,
)

__all__ = ["Pair", "arms_by_role", "play"]

_MOVED = "Retail ledger root was moved during the attempt"


@dataclass(frozen=True, slots=True)
class Pair:
    """A request after every check.

    Attributes:
        envelope: the whole request, as it was given.
        parameters: its worker parameters.
        request: its atomic request.
        record: replay record of its checkpoint.
        config: provider config with the shared budget.
        provider: the arena.
        binding: what its ledger is bound to.
        cell_id: name of its ledger directory.
        bytes_of: gives the evidence bytes of the envelope and of objects that are made of its parts.
    """

    envelope: Mapping[str, Any]
    parameters: Mapping[str, Any]
    request: Mapping[str, Any]
    record: Mapping[str, Any]
    config: Mapping[str, Any]
    provider: OfficialArenaProvider
    binding: PairBinding
    cell_id: str
    bytes_of: Callable[[object], bytes]


def arms_by_role(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the arms of a request in the order in which they are played: baseline, treatment."""
    return sorted(request["arms"], key=lambda arm: arm["role"])


def play(pair: Pair, cell: Directory) -> dict[str, Any]:
    """Play both arms in their order, whatever becomes of the first, and close the cell.

    Raises:
        RetailAttemptUnavailable: an arm failed, which is recorded, or the ledger was moved away.
        EvidenceStorageError: the disk refused; the attempt stays interrupted.
    """
    outcomes: dict[str, Mapping[str, Any]] = {}
    receipts: list[dict[str, Any]] = []
    for arm in arms_by_role(pair.request):
        with cell.make_directory(arm["role"]) as folder:
            outcome, runtime = _outcome(pair, arm, folder, cell, receipts=receipts, outcomes=outcomes)
            folder.create(
                _pair_ledger.OUTCOME, sealed_evidence_bytes({**outcome, "runtime_nonce": secrets.token_hex(32)})
            )
        outcomes[arm["role"]] = outcome
        if runtime is not None:
            receipts.append(runtime)
    failed = [role for role, outcome in outcomes.items() if outcome["status"] != _pair_ledger.SCORED_TERMINAL]
    response = None if failed else _response(pair, receipts, [outcomes[role]["result"] for role in outcomes])
    _pair_ledger.close_cell(cell, pair.binding, failed_roles=failed, response=response)
    if response is None:
        raise RetailAttemptUnavailable("Retail arm failure retained; both arms have dispositions, no retry")
    return response


def _outcome(
    pair: Pair,
    arm: Mapping[str, Any],
    folder: Directory,
    cell: Directory,
    *,
    receipts: Sequence[Mapping[str, Any]],
    outcomes: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    try:
        result = _arm_result(pair, arm, folder)
        # The trace is kept before anything judges it, so that evidence survives an audit that fails.
        canonical_trace, trace = canonical_and_evidence_bytes(result.trace)
        folder.create(_pair_ledger.TRACE, trace)
        if any(row["runtime_instance_id"] == result.runtime_instance_id for row in receipts):
            raise OfficialArenaError("Retail paired arms reused one native runtime")  # noqa: TRY301 - an arm's outcome
        hashes = trace_hashes(result.trace, canonical_trace)
        return _scored(pair, arm, result, hashes, outcomes), _receipt_row(pair, arm, result)
    except Exception as error:
        if not (cell.is_in_place() and folder.is_in_place()):
            raise RetailAttemptUnavailable(_MOVED) from error
        return _failed(error), None


def _arm_result(pair: Pair, arm: Mapping[str, Any], folder: Directory) -> ProviderArmResult:
    """Play an arm; the provider gets a path, so the path must lead to the open directory before and after."""
    if not folder.is_in_place():
        raise OfficialArenaError(_MOVED)
    with noting_answers() as answered:
        try:
            result = pair.provider.run_arm(
                pair.config,
                replay_record=pair.record,
                arm_payload=arm["payload"],
                seed=SEED,
                role=arm["role"],
                work_dir=folder.path,
                durable=folder.durable,
            )
        finally:  # who answered is known of an arm that failed, too
            if answered:
                folder.create(_pair_ledger.ANSWERED_BY, evidence_bytes(answered.record()))
    if not folder.is_in_place():
        raise OfficialArenaError(_MOVED)
    return result


def _scored(
    pair: Pair,
    arm: Mapping[str, Any],
    result: ProviderArmResult,
    hashes: tuple[str, str],
    outcomes: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    usage = usage_with_intervention(arm["payload"], result.usage)
    validate_shared_budget_totals(pair.config, arm["payload"], usage)
    metrics = dict(result.metrics)
    if any(set(other["result"]["metrics"]) != set(metrics) for other in outcomes.values() if "result" in other):
        raise OfficialArenaError("Retail paired arms have different metrics")
    return {
        "status": _pair_ledger.SCORED_TERMINAL,
        "result": {
            "role": arm["role"],
            "arm_id": arm["arm_id"],
            "metrics": metrics,
            "trace_hash": hashes[0],
            "usage": usage,
        },
        "trace_measurement": shared._safe_trace_measurement(result.trace),  # pyright: ignore[reportPrivateUsage] - documented
        "normalized_trace_hash": hashes[1],
        "intervention_failure": shared._intervention_failure(arm["payload"]),  # pyright: ignore[reportPrivateUsage] - documented
    }


def _failed(error: Exception) -> dict[str, Any]:
    return {
        "status": _pair_ledger.FAILED_UNSCORED,
        "exception_type": type(error).__name__,
        "exception_sha256": sha256_bytes(str(error).encode("utf-8", "backslashreplace")),
        "retry_permitted": False,
        "paper_endpoint": None,
    }


def _receipt_row(pair: Pair, arm: Mapping[str, Any], result: ProviderArmResult) -> dict[str, Any]:
    origin = ("origin_state_hash", "replay_identity", "seed", "locked_dependency_hashes")
    return {
        "role": arm["role"],
        "arm_id": arm["arm_id"],
        **{name: pair.request[name] for name in origin},
        "runtime_instance_id": result.runtime_instance_id,
        "completed": True,
    }


def _response(pair: Pair, receipts: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    locks = ("bridge_id", "bridge_revision", "scorer_id", "scorer_revision")
    return {
        "schema_version": 1,
        "protocol": RESPONSE_PROTOCOL,
        "request_hash": pair.binding.request_hash,
        "receipt": {
            **{name: item for name, item in pair.request.items() if name != "arms"},
            **{name: pair.parameters[name] for name in locks},
            "arms": receipts,
        },
        "arms": rows,
    }
