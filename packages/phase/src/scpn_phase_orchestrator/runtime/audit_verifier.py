"""What ``ripieno verify`` knows about Phase: audit logs and event streams. Importing it loads no numeric library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ripieno.chain import GENESIS, ChainReport, Entry, verify_chain
from ripieno.errors import InputError, IntegrityError
from ripieno.files import open_regular
from ripieno.verify import Check, VerifyOptions, VerifyReport, VerifyStatus
from scpn_phase_orchestrator.runtime._audit_check import LogCheck, check_log
from scpn_phase_orchestrator.runtime._audit_envelope import MAGIC
from scpn_phase_orchestrator.runtime._audit_lines import SIGNED, RecordKind, check_record, record_kind
from scpn_phase_orchestrator.runtime.audit_signing import audit_verification_keys
from scpn_phase_orchestrator.runtime.audit_stream import AuditStreamEvent, EnvelopeFrames

if TYPE_CHECKING:
    from scpn_phase_orchestrator.runtime.replay import ReplayReport

__all__ = ["AUDIT_VERIFIER", "AuditVerifier"]

MARKS = (b'"_audit_mode"', b'"_payload_hash"', b'"_previous_hash"')
"""What every record holds, so that damage to one of them does not hide the log."""
MAX_FIRST_BYTES = 2**20


@dataclass(frozen=True)
class AuditVerifier:
    """Verifies audit logs and audit event streams.

    Attributes:
        reexecutes: also execute every step of a log again; loads the engines.
    """

    reexecutes: bool = False

    @property
    def name(self) -> str:
        """Name of the format."""
        return "phase audit log"

    def recognises(self, path: Path) -> bool:
        """Tell whether a file begins as a log or a stream does."""
        try:
            with open_regular(path) as stream:
                start = stream.read(MAX_FIRST_BYTES)
        except PermissionError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except (OSError, IntegrityError):
            return False
        return start.startswith(MAGIC) or any(mark in start for mark in MARKS)

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        """Check every line or event, the closing record, and signatures when a key is in the environment.

        Raises:
            InputError: the keys in the environment are unusable, or the reader lacks a permission.
        """
        try:
            with open_regular(path) as stream:
                is_stream = stream.read(len(MAGIC)) == MAGIC
            if is_stream:
                return _report_on_stream(path, _check_stream(path))
            if not self.reexecutes:
                return _report_on_log(path, check_log(path), None)
            from scpn_phase_orchestrator.runtime.replay import ReplayEngine

            replay = ReplayEngine(path).verify()
        except PermissionError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise InputError(str(error)) from error
        return _report_on_log(path, replay.check, replay)


AUDIT_VERIFIER = AuditVerifier()
"""The entry point of the group ``ripieno.verifiers``."""


def _report_on_log(path: Path, check: LogCheck, replay: ReplayReport | None) -> VerifyReport:
    counts = check.counts
    detail = (
        f"{check.records} records ({counts.get(RecordKind.STEP, 0)} steps, {counts.get(RecordKind.EVENT, 0)} events)"
    )
    rows = [
        Check("hash chain", ok=not check.problem, detail=check.problem or detail),
        *_common_rows(check, is_closed=check.status in (VerifyStatus.COMPLETE, VerifyStatus.FAILED)),
    ]
    problem, status = check.problem, check.status
    if replay is not None and not problem:
        exact = "bit for bit" if replay.is_bit_identical else "within the tolerance of another backend or machine"
        confirmed = f"{replay.transitions} transitions confirmed, {exact}" if replay.transitions else "none to compare"
        passed = sum(report.overridden + report.unexecuted for report in replay.determinism)
        detail = replay.problem or (f"{confirmed}; {passed} not compared" if passed else confirmed)
        rows.append(Check("re-execution", ok=replay.ok, detail=detail))
        problem, status = replay.problem, status if replay.ok else VerifyStatus.TAMPERED
    return VerifyReport(str(path), AUDIT_VERIFIER.name, status, check.head, tuple(rows), problem)


def _common_rows(check: LogCheck, *, is_closed: bool) -> list[Check]:
    if check.problem:
        return []
    torn = f"; half a record of {check.torn_bytes} bytes left out" if check.torn_bytes else ""
    end = "closed" if is_closed else f"not closed: interrupted, or still going{torn}"
    if not check.signatures:
        signatures = "not signed; pin the digest elsewhere and give it with --expect"
    elif check.are_signatures_checked:
        signatures = f"{check.signatures} signatures checked"
    else:
        signatures = f"{check.signatures} signatures not checked: set SPO_AUDIT_KEY or SPO_AUDIT_KEYRING"
    return [Check("closing record", ok=True, detail=end), Check("signatures", ok=True, detail=signatures)]


def _check_stream(path: Path) -> LogCheck:
    """Check every event of a stream, and the counts in its closing event."""
    keys = audit_verification_keys()
    counts = dict.fromkeys(RecordKind, 0)
    signatures, n_events, head = 0, 0, GENESIS

    def take(entry: Entry) -> None:
        nonlocal signatures, n_events, head
        event: AuditStreamEvent = entry.payload["event"]
        head = entry.hash
        signatures += event.audit_mode == SIGNED
        if signatures not in (0, event.sequence):
            raise IntegrityError(f"event {event.sequence}: signed and unsigned events in one stream")
        if not entry.closing:
            n_events += 1
            counts[record_kind(event.payload)] += 1
            _check_record_of_log(event)

    chain: ChainReport | None = None
    status, problem = VerifyStatus.INTERRUPTED, ""
    try:
        chain = verify_chain(path, line_format=EnvelopeFrames(keys=keys), visit=take)
        if chain.closing is not None:
            status = _stream_status(chain.closing["event"], n_events)
    except IntegrityError as error:
        status, problem = VerifyStatus.TAMPERED, str(error).replace("line ", "event ", 1)
    torn = 0 if chain is None else chain.torn_bytes
    return LogCheck(status, n_events, counts, head, signatures, bool(keys), torn, problem)


def _check_record_of_log(event: AuditStreamEvent) -> None:
    """Check that the record of a log in an event holds in itself and has the type that the event says.

    Raises:
        IntegrityError: it is another one.
    """
    record = event.payload
    if "_payload_hash" not in record:
        return
    sequence = record.get("_audit_sequence", 1)
    try:
        check_record(record, None, sequence - 1 if type(sequence) is int else 0, {})
    except IntegrityError as error:
        raise IntegrityError(f"event {event.sequence}: the record of the log in it does not hold: {error}") from error
    kind = record_kind(record)
    expected = record["event"] if kind is RecordKind.EVENT else kind.value
    if kind is not RecordKind.OTHER and event.event_type != expected:
        raise IntegrityError(f"event {event.sequence} has the type {event.event_type!r}, its record {expected!r:.80}")


def _stream_status(event: AuditStreamEvent, n_events: int) -> VerifyStatus:
    """Give the status that a closing event tells.

    Raises:
        IntegrityError: it is not the one of the stream.
    """
    closing = event.payload.get("closing")
    fields = cast("dict[str, object]", closing) if isinstance(closing, dict) else {}
    if type(fields.get("events")) is not int or fields["events"] != n_events:
        found = fields.get("events")
        raise IntegrityError(f"event {event.sequence}: the closing event counts {found!r:.40} events, not {n_events}")
    if fields.get("status") not in ("complete", "failed"):
        raise IntegrityError(f"event {event.sequence}: the closing event has the status {fields.get('status')!r:.40}")
    return VerifyStatus(cast("str", fields["status"]))


def _report_on_stream(path: Path, check: LogCheck) -> VerifyReport:
    is_closed = check.status in (VerifyStatus.COMPLETE, VerifyStatus.FAILED)
    rows = [
        Check("event chain", ok=not check.problem, detail=check.problem or f"{check.records} events"),
        *_common_rows(check, is_closed=is_closed),
    ]
    return VerifyReport(str(path), "phase audit stream", check.status, check.head, tuple(rows), check.problem)
