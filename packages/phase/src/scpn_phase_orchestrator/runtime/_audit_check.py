"""What an audit log amounts to, read once from its first byte to its last in memory that does not grow with it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ripieno._verdict import VerifyStatus
from ripieno.chain import GENESIS, ChainBroken, ChainReport, Entry, verify_chain
from ripieno.errors import IntegrityError
from scpn_phase_orchestrator.runtime._audit_lines import (
    MAX_ORDER_PARAMETER,
    SIGNED,
    AuditLines,
    RecordKind,
    compact_json,
    record_kind,
)
from scpn_phase_orchestrator.runtime.audit_signing import audit_verification_keys

__all__ = ["LogCheck", "check_closing", "check_log"]


@dataclass(frozen=True)
class LogCheck:
    """The result of `check_log`.

    Attributes:
        status: complete, failed, interrupted or tampered.
        records: lines that hold, from the first on, without the closing record.
        counts: how many of them there are of each kind.
        head: hash of the last line that holds; the thing to pin.
        signatures: how many lines are signed.
        are_signatures_checked: whether a key was configured, so that every signature was checked.
        torn_bytes: bytes after the last whole line: a write that was interrupted.
        problem: what does not hold, naming the line; empty when all holds.
    """

    status: VerifyStatus
    records: int
    counts: Mapping[RecordKind, int]
    head: str
    signatures: int
    are_signatures_checked: bool
    torn_bytes: int
    problem: str = ""


def check_log(path: Path | str, visit: Callable[[Entry], None] | None = None) -> LogCheck:
    """Check every line of an audit log, and the closing record.

    Args:
        path: the log.
        visit: called with every entry that holds, in order, the closing record too.

    Raises:
        ValueError: the keys in the environment are unusable.
        IntegrityError: the path is no regular file.
        OSError: it cannot be read.
    """
    keys = audit_verification_keys()
    counts: Counter[RecordKind] = Counter()
    signatures = 0
    head = GENESIS

    def take(entry: Entry) -> None:
        nonlocal signatures, head
        if record_kind(entry.payload) is RecordKind.STEP:
            _check_step(entry.payload, entry.sequence + 1)
        elif record_kind(entry.payload) is RecordKind.HEADER:
            _check_header(entry.payload, entry.sequence + 1)
        head = entry.hash
        signatures += entry.payload["_audit_mode"] == SIGNED
        if signatures not in (0, entry.sequence + 1):  # no writer continues the log of one with a key without it
            raise _ContentError(f"line {entry.sequence + 1}: signed and unsigned records in one log")
        if not entry.closing:
            counts[record_kind(entry.payload)] += 1
        if visit is not None:
            visit(entry)

    chain: ChainReport | None = None
    status, problem = VerifyStatus.INTERRUPTED, ""
    try:
        chain = verify_chain(path, line_format=AuditLines(keys=keys), visit=take)
        if chain.closing is not None:
            status = check_closing(chain.closing, counts, chain.entries)
    except (ChainBroken, _ContentError) as error:
        status, problem = VerifyStatus.TAMPERED, str(error)
    torn = 0 if chain is None else chain.torn_bytes
    return LogCheck(status, counts.total(), counts, head, signatures, bool(keys), torn, problem)


class _ContentError(IntegrityError):
    """A line holds by its hashes, but says what no log can say."""


def _check_step(record: Mapping[str, Any], line: int) -> None:
    """Check that a step record has the documented fields, so that readers need not."""
    actions, layers = record.get("actions"), record.get("layers")
    is_step = (
        type(record["step"]) is int
        and _is_number(record["step"])
        and isinstance(record["regime"], str)
        and isinstance(record.get("regime_decided", ""), str)
        and _is_number(record.get("stability"))
        and isinstance(layers, list)
        and all(_has(layer, numbers=("R", "psi")) for layer in cast("list[object]", layers))
        and isinstance(actions, list)
        and all(
            _has(action, numbers=("value", "ttl_s"), texts=("knob", "scope", "justification"))
            for action in cast("list[object]", actions)
        )
    )
    if not is_step:
        raise _ContentError(f"line {line}: a step record must have step, regime, stability, layers and actions")
    for layer in cast("list[dict[str, float]]", layers):
        if not 0.0 <= layer["R"] <= MAX_ORDER_PARAMETER:
            raise _ContentError(f"line {line}: R of a layer must be between 0 and 1, got {layer['R']:.6g}")


def _check_header(record: Mapping[str, Any], line: int) -> None:
    """Check that the name of the spec in a header is that of the spec in it."""
    config, reference = record.get("binding_config"), record.get("binding_summary_ref")
    if config is None and reference is None:
        return
    if reference != hashlib.sha256(compact_json(config)).hexdigest():
        raise _ContentError(f"line {line}: binding_summary_ref is not the hash of binding_config")


def _has(value: object, numbers: tuple[str, ...], texts: tuple[str, ...] = ()) -> bool:
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, object]", value)
    return all(_is_number(fields.get(name)) for name in numbers) and all(isinstance(fields.get(n), str) for n in texts)


def _is_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def check_closing(record: Mapping[str, Any], counts: Mapping[RecordKind, int], line: int) -> VerifyStatus:
    """Compare the closing record with what was counted and give the status that it tells.

    Raises:
        IntegrityError: it does not fit.
    """
    closing: Mapping[str, Any] = record["closing"]
    expected = {
        "records": sum(counts.values()),
        "steps": counts.get(RecordKind.STEP, 0),
        "events": counts.get(RecordKind.EVENT, 0),
    }
    for name, count in expected.items():
        if type(closing.get(name)) is not int or closing[name] != count:
            raise _ContentError(
                f"line {line}: the closing record counts {closing.get(name)!r:.40} {name}, found {count}"
            )
    if closing.get("status") not in ("complete", "failed"):
        raise _ContentError(f"line {line}: the closing record has the status {closing.get('status')!r:.40}")
    return VerifyStatus(closing["status"])
