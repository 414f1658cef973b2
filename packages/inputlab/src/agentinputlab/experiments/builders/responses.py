"""The two envelopes between host and worker: building the one, reading the other strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentinputlab.benchmarks.paired_replay import (
    AtomicArmResult,
    AtomicPairResult,
    AtomicReplayReceipt,
    AtomicReplayRequest,
)
from agentinputlab.contracts._checks import entries, exact_fields, frozen
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.protocols import REQUEST_PROTOCOL, RESPONSE_PROTOCOL
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from ripieno.canonical import strict_loads
from ripieno.errors import RipienoError

__all__ = ["MAX_RESPONSE_BYTES", "build_envelope", "parse_response"]

SCHEMA_VERSION = 1
"""The version of both envelopes."""
MAX_RESPONSE_BYTES = 16 * 2**20
"""Longest answer that is read."""
_REQUIRED = ("schema_version", "protocol", "request_hash", "receipt", "arms")
_ALLOWED = (*_REQUIRED, "measurements")


def build_envelope(request: AtomicReplayRequest, worker_parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Give the envelope of a request, with the hash over everything else in it."""
    envelope: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "protocol": REQUEST_PROTOCOL,
        "atomic_request": request.as_dict(),
        "worker_parameters": to_jsonable(worker_parameters),
    }
    return {**envelope, "request_hash": content_hash(envelope)}


def parse_response(data: bytes, request_hash: str, *, max_bytes: int = MAX_RESPONSE_BYTES) -> AtomicPairResult:
    """Read a worker's answer.

    Args:
        data: what it wrote: one JSON object of ``schema_version, protocol, request_hash, receipt, arms`` and,
            optionally, ``measurements``. Each arm has exactly ``role, arm_id, metrics, trace_hash, usage``.
        request_hash: hash of the envelope that it has to be the answer to.
        max_bytes: longest accepted answer.

    Raises:
        ValidationError: no strict JSON, another request, or a field that is unknown, missing or wrong.
    """
    try:
        value = strict_loads(data, max_bytes=max_bytes)
    except RipienoError as error:
        # The parser's text can quote the answer, which may hold anything.
        raise ValidationError("the worker's answer is not strict JSON of allowed length") from error
    mapping = exact_fields(value, "answer", allowed=_ALLOWED, required=_REQUIRED)
    if type(mapping["schema_version"]) is not int or mapping["schema_version"] != SCHEMA_VERSION:
        raise ValidationError(f"answer.schema_version must be {SCHEMA_VERSION}")
    if mapping["protocol"] != RESPONSE_PROTOCOL:
        raise ValidationError(f"answer.protocol must be {RESPONSE_PROTOCOL}")
    if mapping["request_hash"] != request_hash:
        raise ValidationError("answer.request_hash is of another request")
    rows: tuple[object, ...] = entries(mapping["arms"], "answer.arms", object)
    return AtomicPairResult(
        receipt=AtomicReplayReceipt.from_dict(mapping["receipt"]),
        arms=tuple(AtomicArmResult.from_dict(row) for row in rows),
        measurements=frozen(mapping.get("measurements", {}), "answer.measurements"),
    )
