"""Whether the files of one pair say the same thing: start, request, traces, outcomes, response, terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ripieno._verdict import Check, VerifyStatus
from ripieno.receipts import SEAL
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import is_leftover, parse_json, sha256_bytes
from workers.official_arenas._pair_ledger import (
    FAILED_UNSCORED,
    OUTCOME,
    PAIR_START,
    PAIRED_SCORED,
    REQUEST,
    RESPONSE,
    ROLES,
    SCORED_TERMINAL,
    TERMINAL,
    TERMINAL_PROTOCOL,
    TRACE,
    is_terminal_file,
)
from workers.official_arenas._trace_measurement import intervention_failure, safe_trace_measurement
from workers.official_arenas._written import RequestReading, Written, read_request, written_object
from workers.official_arenas.protocol import content_hash, intervention_usage, trace_hashes

__all__ = ["ROLE_NAMES", "CellResult", "check_cell"]

ROLE_NAMES = frozenset(ROLES)


@dataclass
class CellResult:
    """What was found.

    Attributes:
        status: complete, failed or interrupted, if all rows hold.
        rows: what was looked at.
        nonces: of the runtimes that played the arms.
        hashes: relative path -> SHA-256 of every file.
        values: relative path -> what a file says, for those that were read as JSON objects.
    """

    status: VerifyStatus = VerifyStatus.INTERRUPTED
    rows: list[Check] = field(default_factory=list[Check])
    nonces: list[str] = field(default_factory=list[str])
    hashes: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


def check_cell(
    contents: Mapping[str, bytes], *, cell_id: str | None, request: RequestReading | None = None
) -> CellResult:
    """Check the files of a cell against each other.

    Args:
        contents: relative path -> bytes.
        cell_id: name of its directory; None when it was renamed and says nothing.
        request: what was read elsewhere; where the cell holds the very same bytes, they are not read again.
    """
    result = CellResult(hashes={path: sha256_bytes(data) for path, data in contents.items()})
    try:
        detail = _check(contents, cell_id, result, request)
    except _DifferenceError as problem:
        result.rows.append(Check(problem.place, ok=False, detail=problem.detail))
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # sealed well, and nothing that we write
        result.rows.append(Check("pair", ok=False, detail=f"is malformed: {type(error).__name__}"))
    else:
        result.rows.append(Check("pair", ok=True, detail=detail))
    return result


class _DifferenceError(Exception):
    def __init__(self, place: str, detail: str) -> None:
        super().__init__(detail)
        self.place = place
        self.detail = detail


def _check(
    contents: Mapping[str, bytes], cell_id: str | None, result: CellResult, request: RequestReading | None
) -> str:
    kept = {path for path in contents if not is_leftover(path.rsplit("/", 1)[-1])}
    if PAIR_START not in contents:
        if kept:
            raise _DifferenceError(PAIR_START, "is missing")
        return "the slot was taken and nothing was started"
    start = _written(contents, PAIR_START, result).value
    if cell_id is not None and content_hash(start.get("cell_identity")) != cell_id:
        raise _DifferenceError(PAIR_START, f"is of another pair than {cell_id}")
    if TERMINAL in contents:
        _check_terminal(contents, start, result)
    envelope: Mapping[str, Any] | None = None
    if REQUEST in contents:
        envelope = _check_request(contents[REQUEST], start, request)
    elif any("/" in path for path in kept) or RESPONSE in contents:
        raise _DifferenceError(REQUEST, "is missing")
    outcomes = {role: _outcome(contents, role, result) for role in ROLES if f"{role}/{OUTCOME}" in contents}
    response_sha256 = None
    if envelope is not None:
        _check_arms(envelope, outcomes)
        if RESPONSE in contents:
            response_sha256 = _check_response(contents, start, outcomes, envelope, result)
    if TERMINAL not in contents:
        return f"started and never ended; {len(outcomes)} of 2 arms have an outcome"
    return _check_end(outcomes, response_sha256, result)


def _written(contents: Mapping[str, bytes], path: str, result: CellResult, *, sealed: bool = False) -> Written:
    """Give an object whose every byte is as it was written."""
    try:
        written = written_object(contents[path], without=SEAL if sealed else None)
    except (OfficialArenaError, ValueError) as error:
        raise _DifferenceError(path, "was changed") from error
    if sealed and written.value.get(SEAL) != written.content_hash:
        raise _DifferenceError(path, "was changed")
    result.values[path] = written.value
    return written


def _check_terminal(contents: Mapping[str, bytes], start: Mapping[str, Any], result: CellResult) -> None:
    """The seal, and every file that it lists, and no other."""
    terminal = _written(contents, TERMINAL, result, sealed=True).value
    if terminal.get("protocol") != TERMINAL_PROTOCOL or not isinstance(terminal.get("files"), dict):
        raise _DifferenceError(TERMINAL, "is of another protocol")
    listed = cast("dict[str, str]", terminal["files"])
    found = {path: digest for path, digest in result.hashes.items() if not is_terminal_file(path)}
    for path in sorted({*listed, *found}):
        if path not in found:
            raise _DifferenceError(path, "is missing")
        if path not in listed:
            raise _DifferenceError(path, "was added")
        if listed[path] != found[path]:
            raise _DifferenceError(path, "was changed")
    for path, data in contents.items():
        if is_terminal_file(path) and data != contents[TERMINAL]:
            raise _DifferenceError(path, "was added")
    for name in ("request_hash", "scope_sha256"):
        if terminal.get(name) != start.get(name):
            raise _DifferenceError(TERMINAL, f"has another {name} than {PAIR_START}")


def _check_request(data: bytes, start: Mapping[str, Any], known: RequestReading | None) -> dict[str, Any]:
    try:
        request = known if known is not None and known.data == data else read_request(data)
    except ValueError as error:
        raise _DifferenceError(REQUEST, "was changed") from error
    if request.written is None:
        raise _DifferenceError(REQUEST, "was changed")
    envelope = request.written.value
    given = envelope.get("request_hash")
    if given != request.written.content_hash:
        raise _DifferenceError(REQUEST, "was changed: it does not have its request_hash")
    if given != start.get("request_hash"):
        raise _DifferenceError(REQUEST, f"has another request_hash than {PAIR_START}")
    try:
        identity = request.identity
    except (OfficialArenaError, KeyError, TypeError) as error:
        raise _DifferenceError(REQUEST, "is no request") from error
    if identity != start.get("cell_identity"):
        raise _DifferenceError(REQUEST, "is of another pair")
    return envelope


def _outcome(contents: Mapping[str, bytes], role: str, result: CellResult) -> dict[str, Any]:
    """Give the sealed outcome of an arm; a scored one must follow from its trace."""
    path, trace_path = f"{role}/{OUTCOME}", f"{role}/{TRACE}"
    outcome = _written(contents, path, result, sealed=True).value
    nonce = outcome.get("runtime_nonce")
    if isinstance(nonce, str):
        if nonce in result.nonces:
            raise _DifferenceError(path, "holds the runtime of the other arm")
        result.nonces.append(nonce)
    if outcome.get("status") != SCORED_TERMINAL:
        return outcome
    if trace_path not in contents:
        raise _DifferenceError(trace_path, "is missing")
    try:
        trace = parse_json(contents[trace_path])
    except OfficialArenaError as error:
        raise _DifferenceError(trace_path, "was changed") from error
    row = outcome.get("result", {})
    hashes = (row.get("trace_hash"), outcome.get("normalized_trace_hash"))
    if row.get("role") != role or hashes != trace_hashes(trace):
        raise _DifferenceError(path, "is of another trace")
    measured = safe_trace_measurement(trace)
    said = outcome.get("trace_measurement", {})
    if said.get("protocol") == measured["protocol"] and said != measured:
        raise _DifferenceError(path, "says of its trace what the trace does not")
    return outcome


def _check_arms(envelope: Mapping[str, Any], outcomes: Mapping[str, Mapping[str, Any]]) -> None:
    """A scored arm is that of the request, and used at least what its intervention had used."""
    arms = {arm["role"]: arm for arm in envelope["atomic_request"]["arms"]}
    for role, outcome in outcomes.items():
        if outcome.get("status") != SCORED_TERMINAL:
            continue
        row, path = outcome["result"], f"{role}/{OUTCOME}"
        if row["arm_id"] != arms[role]["arm_id"]:
            raise _DifferenceError(path, "is of another arm than was asked for")
        used = intervention_usage(arms[role]["payload"])
        if any(row["usage"][name] < amount for name, amount in used.items()):
            raise _DifferenceError(path, "used less than its intervention alone")
        if outcome["intervention_failure"] != intervention_failure(arms[role]["payload"]):
            raise _DifferenceError(path, "says of its intervention what the request does not")


def _check_receipt(receipt: Mapping[str, Any], envelope: Mapping[str, Any]) -> None:
    """What was played is what was asked: origin, seed, locks, scorer, and one runtime for each arm."""
    request, parameters = envelope["atomic_request"], envelope["worker_parameters"]
    locks = ("bridge_id", "bridge_revision", "scorer_id", "scorer_revision")
    asked = {name: item for name, item in request.items() if name != "arms"}
    asked |= {name: parameters[name] for name in locks}
    origin = ("origin_state_hash", "replay_identity", "seed", "locked_dependency_hashes")
    arms = [
        {"role": arm["role"], "arm_id": arm["arm_id"], **{name: request[name] for name in origin}, "completed": True}
        for arm in sorted(request["arms"], key=lambda arm: arm["role"])
    ]
    rows = [{name: item for name, item in row.items() if name != "runtime_instance_id"} for row in receipt["arms"]]
    if {name: item for name, item in receipt.items() if name != "arms"} != asked or rows != arms:
        raise _DifferenceError(RESPONSE, "has the receipt of another request")
    if len({row["runtime_instance_id"] for row in receipt["arms"]}) != len(arms):
        raise _DifferenceError(RESPONSE, "says that both arms ran in one runtime")


def _check_response(
    contents: Mapping[str, bytes],
    start: Mapping[str, Any],
    outcomes: Mapping[str, Mapping[str, Any]],
    envelope: Mapping[str, Any],
    result: CellResult,
) -> str:
    """Give the content hash of the response, which the terminal names."""
    written = _written(contents, RESPONSE, result)
    response = written.value
    if response.get("request_hash") != start.get("request_hash"):
        raise _DifferenceError(RESPONSE, f"has another request_hash than {PAIR_START}")
    if response.get("arms") != [outcomes[role].get("result") for role in ROLES if role in outcomes]:
        raise _DifferenceError(RESPONSE, "does not say what the outcomes of the arms say")
    _check_receipt(response["receipt"], envelope)
    return written.content_hash


def _check_end(outcomes: Mapping[str, Mapping[str, Any]], response_sha256: str | None, result: CellResult) -> str:
    terminal = result.values[TERMINAL]
    for role in ROLES:
        if role not in outcomes:
            raise _DifferenceError(f"{role}/{OUTCOME}", "is missing")
    failed = [role for role in ROLES if outcomes[role].get("status") != SCORED_TERMINAL]
    expected = FAILED_UNSCORED if failed else PAIRED_SCORED
    if terminal.get("failed_roles") != failed or terminal.get("status") != expected:
        raise _DifferenceError(TERMINAL, "does not say what the outcomes of the arms say")
    if terminal.get("response_sha256") != response_sha256 or (response_sha256 is None) is not bool(failed):
        raise _DifferenceError(TERMINAL, f"is of another {RESPONSE}")
    result.status = VerifyStatus.FAILED if failed else VerifyStatus.COMPLETE
    files = len(terminal["files"])
    return f"scored; {files} files" if not failed else f"failed in {', '.join(failed)}, recorded; {files} files"
