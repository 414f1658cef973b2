"""The audit event stream: the records of a log as protobuf envelopes, written and followed while a run is going on.

The file format is described in ``audit/audit.proto``.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from ripieno.canonical import strict_loads
from ripieno.chain import GENESIS, ChainReport, ChainWriter, Entry, FsyncPolicy, LineFormat, walk_chain
from ripieno.errors import InputError, IntegrityError, RipienoError
from ripieno.files import open_regular
from scpn_phase_orchestrator.runtime._audit_envelope import (
    MAGIC,
    MAX_ENVELOPE_BYTES,
    envelope_class,
    frame,
    read_frame,
    require_torn_frame,
    split_frame,
)
from scpn_phase_orchestrator.runtime._audit_lines import MAX_RECORD_BYTES, SIGNED, UNSIGNED, Encoded, compact_json
from scpn_phase_orchestrator.runtime.audit_signing import (
    SIGNATURE_ALGORITHM,
    AuditSigner,
    audit_signer,
    audit_verification_keys,
    is_signed_by,
)

__all__ = [
    "CLOSING_EVENT",
    "AuditStreamEvent",
    "EnvelopeFrames",
    "EventStreamWriter",
    "StreamChecker",
    "iter_event_stream",
    "read_event_stream",
    "scan_event_stream",
    "stream_integrity",
    "tail_event_stream",
    "verify_event_stream_integrity",
]

CLOSING_EVENT = "closing"
"""Type of the event that ends a stream."""
SCHEMA_VERSION = 1
SOURCE = "spo"
MAX_LABEL_CHARACTERS = 128


@dataclass(frozen=True)
class AuditStreamEvent:
    """One event, checked when it is made: everything in it that can be checked without its neighbours and keys.

    Raises:
        ValueError: names the field that does not hold.
    """

    schema_version: int
    stream_id: str
    sequence: int
    event_type: str
    recorded_at_unix_ns: int
    source: str
    previous_hash: str
    payload_json: str
    payload_sha256: str
    event_hash: str
    signature_algorithm: str
    signature_key_id: str
    signature: str
    audit_mode: str
    payload: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in ("schema_version", "sequence", "recorded_at_unix_ns"):
            value = getattr(self, name)
            if type(value) is not int or not 0 < value < 2**63:
                raise ValueError(f"{name} must be a positive integer, got {value!r:.40}")
        for name in ("stream_id", "event_type", "source"):
            _require_label(name, getattr(self, name))
        for name in ("previous_hash", "payload_sha256", "event_hash"):
            _require_hex(name, getattr(self, name), 64)
        if compact_json(self.payload).decode() != self.payload_json:
            raise ValueError("payload_json is not the canonical JSON of the payload")
        if hashlib.sha256(self.payload_json.encode()).hexdigest() != self.payload_sha256:
            raise ValueError("payload_sha256 does not fit payload_json")
        if self.audit_mode == SIGNED:
            if self.signature_algorithm != SIGNATURE_ALGORITHM:
                raise ValueError(f"signature_algorithm must be {SIGNATURE_ALGORITHM}, got {self.signature_algorithm!r}")
            _require_hex("signature_key_id", self.signature_key_id, 16)
            _require_hex("signature", self.signature, 64)
        elif self.audit_mode == UNSIGNED:
            if self.signature_algorithm or self.signature_key_id or self.signature:
                raise ValueError("an unsigned event must have no signature")
        else:
            raise ValueError(f"audit_mode must be {SIGNED!r} or {UNSIGNED!r}, got {self.audit_mode!r:.40}")

    def covered(self) -> dict[str, object]:
        """Give what ``event_hash`` covers."""
        return {
            "event_type": self.event_type,
            "payload_sha256": self.payload_sha256,
            "previous_hash": self.previous_hash,
            "recorded_at_unix_ns": self.recorded_at_unix_ns,
            "schema_version": self.schema_version,
            "sequence": self.sequence,
            "source": self.source,
            "stream_id": self.stream_id,
        }

    def signed_material(self, key_id: str) -> bytes:
        """Give what a signature by a key covers."""
        return compact_json({**self.covered(), "audit_mode": SIGNED, "event_hash": self.event_hash, "key_id": key_id})


def _require_label(name: str, value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_LABEL_CHARACTERS or not value.isprintable():
        raise ValueError(
            f"{name} must be 1 to {MAX_LABEL_CHARACTERS} characters without control characters, got {value!r:.200}"
        )


def _require_hex(name: str, value: object, digits: int) -> None:
    if not isinstance(value, str) or len(value) != digits or value.strip("0123456789abcdef"):
        raise ValueError(f"{name} must be {digits} lowercase hex digits, got {value!r:.80}")


# --- envelopes ----------------------------------------------------------------------------------------------


def _to_envelope(event: AuditStreamEvent) -> bytes:
    message = envelope_class()(
        **{
            name: getattr(event, name)
            for name in AuditStreamEvent.__dataclass_fields__
            if name not in ("recorded_at_unix_ns", "payload")
        }
    )
    message.recorded_at.FromNanoseconds(event.recorded_at_unix_ns)
    return cast("bytes", message.SerializeToString(deterministic=True))


def _from_envelope(envelope: bytes) -> AuditStreamEvent:
    """Read an envelope, which must hold an event and nothing else.

    Raises:
        ValueError: it does not.
    """
    from google.protobuf.message import DecodeError

    try:
        message = envelope_class().FromString(envelope)
    except DecodeError as error:
        raise ValueError(f"not an audit envelope: {error}") from error
    payload = strict_loads(message.payload_json, max_bytes=MAX_RECORD_BYTES)
    if not isinstance(payload, dict):
        raise ValueError(f"payload_json must be a JSON object, got {type(payload).__name__}")  # noqa: TRY004 - documented
    stamp = message.recorded_at
    event = AuditStreamEvent(
        **{
            name: getattr(message, name)
            for name in AuditStreamEvent.__dataclass_fields__
            if name not in ("recorded_at_unix_ns", "payload")
        },
        recorded_at_unix_ns=stamp.seconds * 10**9 + stamp.nanos,
        payload=cast("dict[str, Any]", payload),
    )
    # Unknown fields, fields in another order or written twice would say something that no hash covers.
    if _to_envelope(event) != envelope:
        raise ValueError("the envelope is not written as envelopes are")
    return event


class EnvelopeFrames(LineFormat):
    """Framed envelopes as a format of `ripieno.chain`; the payload of an entry is ``{"event": AuditStreamEvent}``.

    Args:
        stream_id: name of the stream that is written.
        signer: signs what is written; unsigned without.
        keys: secrets by key id. With any, an event that is read must be signed by one of them.
    """

    preamble = MAGIC
    max_line_bytes = MAX_ENVELOPE_BYTES + 16

    def __init__(
        self,
        *,
        stream_id: str = "spo-audit",
        signer: AuditSigner | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self._stream_id = stream_id
        self._signer = signer
        self._keys = dict(keys or {})

    def read(self, stream: BinaryIO) -> bytes:
        """Take one frame."""
        return read_frame(stream)

    def encode(self, payload: Mapping[str, Any], previous: str, sequence: int, *, closing: bool) -> tuple[bytes, str]:
        """Give the frame of ``{"event_type", "payload_json"}``."""
        text = cast("bytes", payload["payload_json"])
        event = _UncheckedEvent(
            schema_version=SCHEMA_VERSION,
            stream_id=self._stream_id,
            sequence=sequence + 1,
            event_type=payload["event_type"],
            recorded_at_unix_ns=time.time_ns(),
            source=SOURCE,
            previous_hash=previous,
            payload_json=text.decode(),
            payload_sha256=hashlib.sha256(text).hexdigest(),
            event_hash="",
            signature_algorithm="",
            signature_key_id="",
            signature="",
            audit_mode=UNSIGNED,
            payload={},
        )
        event = replace(event, event_hash=hashlib.sha256(compact_json(event.covered())).hexdigest())
        if self._signer is not None:
            event = replace(
                event,
                audit_mode=SIGNED,
                signature_algorithm=SIGNATURE_ALGORITHM,
                signature_key_id=self._signer.key_id,
                signature=self._signer.sign(event.signed_material(self._signer.key_id)),
            )
        return frame(_to_envelope(event)), event.event_hash

    def check(self, line: bytes, previous: str | None, sequence: int) -> Entry | None:
        """Check one frame, its place, hashes and signature."""
        if require_torn_frame(line):
            return None
        try:
            event = _from_envelope(split_frame(line))
        except ValueError as error:
            raise IntegrityError(str(error)) from error
        problem = _problem_of(event, previous, sequence + 1, self._keys)
        if problem:
            raise IntegrityError(problem)
        return Entry(sequence, {"event": event}, event.event_hash, closing=event.event_type == CLOSING_EVENT)


class _UncheckedEvent(AuditStreamEvent):
    """An event that is being written: it is made of parts that hold."""

    def __post_init__(self) -> None:
        """Check nothing."""


def _problem_of(event: AuditStreamEvent, previous: str | None, sequence: int, keys: Mapping[str, str]) -> str:
    """Say what does not hold about an event at its place; nothing when all holds."""
    payload_sha256 = hashlib.sha256(event.payload_json.encode()).hexdigest()
    event_hash = hashlib.sha256(compact_json(event.covered())).hexdigest()
    if event.sequence != sequence:
        return f"sequence is {event.sequence}, expected {sequence}"
    if previous is not None and event.previous_hash != previous:
        return f"previous_hash is {event.previous_hash}, the event before has {previous}"
    if event.payload_sha256 != payload_sha256:
        return f"payload_sha256 is {event.payload_sha256}, the content gives {payload_sha256}"
    if event.event_hash != event_hash:
        return f"event_hash is {event.event_hash}, the content gives {event_hash}"
    return _signature_problem_of(event, keys) if keys else ""


def _signature_problem_of(event: AuditStreamEvent, keys: Mapping[str, str]) -> str:
    secret = keys.get(event.signature_key_id)
    if event.audit_mode != SIGNED:
        return "the event is not signed, but a key is configured"
    if secret is None:
        return f"signed with the key {event.signature_key_id}, which is not configured"
    if not is_signed_by(secret, event.signed_material(event.signature_key_id), event.signature):
        return f"the signature by the key {event.signature_key_id} does not fit"
    return ""


# --- writing ------------------------------------------------------------------------------------------------


class EventStreamWriter:
    """Write an event stream; each event is handed to the operating system before `write` returns.

    A new file gets the magic bytes; an existing one, which must hold and must not have been ended, is continued.
    ``SPO_AUDIT_KEY`` signs the events.

    Args:
        path: the stream.
        stream_id: its name, in every event.
        fsync: when events are made durable, as in `ripieno.chain.ChainWriter`.

    Raises:
        ValueError: a bad name or key, or a stream that is ended or open in another writer.
        IntegrityError: the existing stream does not hold.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path | str, *, stream_id: str = "spo-audit", fsync: FsyncPolicy = "batch") -> None:
        _require_label("stream_id", stream_id)
        keys = audit_verification_keys()
        frames = EnvelopeFrames(stream_id=stream_id, signer=audit_signer(), keys=keys)

        def same_stream(entry: Entry) -> None:
            event: AuditStreamEvent = entry.payload["event"]
            if entry.closing:
                raise InputError(f"{path} was ended; start another stream")
            if event.stream_id != stream_id:
                raise InputError(f"{path} is the stream {event.stream_id!r}, not {stream_id!r}")
            if event.audit_mode == SIGNED and not keys:
                raise InputError(f"{path} is signed; set SPO_AUDIT_KEY to continue it")

        try:
            self._chain = ChainWriter(path, fsync, line_format=frames)
        except FileExistsError:
            self._chain = ChainWriter.resume(path, fsync, line_format=frames, visit=same_stream)

    @property
    def path(self) -> Path:
        """The file."""
        return self._chain.path

    @property
    def sequence(self) -> int:
        """Number of events in the stream."""
        return self._chain.sequence

    def write(self, payload: Mapping[str, Any], *, event_type: str | None = None) -> None:
        """Add one event.

        Args:
            payload: JSON-safe.
            event_type: its type; without, ``header``, the name in ``event``, ``step`` or ``record`` by the payload.

        Raises:
            ValueError: a bad type, or a payload that JSON cannot say; nothing was written.
            StorageError: the file system refused; the stream is as before.
        """
        kind = _event_type_of(payload) if event_type is None else event_type
        if kind == CLOSING_EVENT:
            raise InputError(f"the type {CLOSING_EVENT!r} is the one that ends a stream; see `end`")
        _require_label("event_type", kind)
        self._chain.append({"event_type": kind, "payload_json": compact_json(payload)})

    def write_encoded(self, kind: str, payload: Encoded) -> None:
        """Add one event whose payload is compact sorted ASCII JSON already."""
        self._chain.append({"event_type": kind, "payload_json": payload})

    def flush(self) -> None:
        """Make every event durable."""
        self._chain.sync()

    def end(self, outcome: Mapping[str, Any]) -> None:
        """Write the closing event, after which nothing can follow, and let go of the file.

        Args:
            outcome: how it ended: ``status`` (complete or failed) and whatever else is worth keeping.

        Raises:
            ValueError: JSON cannot say it.
            StorageError: the file system refused; the stream is as before.
        """
        payload = {"closing": {**outcome, "events": self._chain.sequence}}
        self._chain.close({"event_type": CLOSING_EVENT, "payload_json": compact_json(payload)})

    def close(self) -> None:
        """Let go of the file; the stream can be continued."""
        self._chain.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _event_type_of(payload: Mapping[str, Any]) -> str:
    if payload.get("header") is True:
        return "header"
    if "event" in payload:
        return str(payload["event"])
    return "step" if "step" in payload else "record"


# --- reading ------------------------------------------------------------------------------------------------


def read_event_stream(path: Path | str) -> list[AuditStreamEvent]:
    """Read a whole stream; the closing event, which is none of the run's, is left out.

    Raises:
        ValueError: no stream, a cut or malformed frame, or an event that does not hold in itself; names the event.
        OSError: it cannot be read.
    """
    return list(scan_event_stream(path))


def iter_event_stream(
    path: Path | str, *, from_start: bool = False, poll_interval_s: float = 0.2
) -> Iterator[AuditStreamEvent]:
    """Follow a stream: give every event as soon as it is written, until the closing event.

    Args:
        path: an existing stream.
        from_start: begin with the first event, not with the next one.
        poll_interval_s: seconds between two looks at the file.

    Raises:
        ValueError: as `read_event_stream`, an interval that is not positive, or a file that was cut or replaced.
    """
    if isinstance(poll_interval_s, bool) or not 0 < poll_interval_s < float("inf"):
        raise ValueError(f"poll_interval_s must be positive and finite, got {poll_interval_s!r}")
    return _follow(Path(path), from_start=from_start, poll_interval_s=poll_interval_s)


def tail_event_stream(
    path: Path | str, *, max_events: int, from_start: bool = False, poll_interval_s: float = 0.2
) -> list[AuditStreamEvent]:
    """Follow a stream until so many events were seen, or it ends.

    Raises:
        ValueError: as `iter_event_stream`, or ``max_events`` is no positive integer.
    """
    if type(max_events) is not int or max_events < 1:
        raise ValueError(f"max_events must be a positive integer, got {max_events!r}")
    return list(islice(iter_event_stream(path, from_start=from_start, poll_interval_s=poll_interval_s), max_events))


def scan_event_stream(path: Path | str) -> Iterator[AuditStreamEvent]:
    """Give the events of a stream one by one, as `read_event_stream` does together."""
    with open_regular(path) as raw, io.BufferedReader(raw, 2**17) as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path} is not an SPO audit event stream")
        number, is_ended = 0, False
        while data := read_frame(stream):
            number += 1
            if is_ended:
                raise ValueError(f"event {number} follows the closing event")
            event = _event_in(data, number)
            if event.event_type == CLOSING_EVENT:
                is_ended = True
            else:
                yield event


def _event_in(data: bytes, number: int) -> AuditStreamEvent:
    try:
        return _from_envelope(split_frame(data))
    except ValueError as error:
        raise ValueError(f"event {number}: {error}") from error


def _follow(path: Path, *, from_start: bool, poll_interval_s: float) -> Iterator[AuditStreamEvent]:
    with open_regular(path) as raw, io.BufferedReader(raw, 2**17) as stream:
        while (start := stream.read(len(MAGIC))) != MAGIC:
            if not MAGIC.startswith(start):
                raise ValueError(f"{path} is not an SPO audit event stream")
            _wait(path, stream, 0, b"", poll_interval_s)
        number, passed, is_new, behind = 0, b"", from_start, MAGIC
        while True:
            position = stream.tell()
            data = read_frame(stream)
            if not require_torn_frame(data):
                number, behind = number + 1, data
                if not is_new:
                    passed = data
                    continue
                event = _event_in(data, number)
                if event.event_type == CLOSING_EVENT:
                    return
                yield event
                continue
            if passed and _event_in(passed, number).event_type == CLOSING_EVENT:
                return
            passed, is_new = b"", True
            _wait(path, stream, position - len(behind), behind, poll_interval_s)


def _wait(path: Path, stream: BinaryIO, position: int, behind: bytes, seconds: float) -> None:
    """Give the writer of half an event time, and go back to where it began: behind the bytes at this position.

    Raises:
        ValueError: the file is no longer the one that is followed, or what was read is not there any more.
    """
    time.sleep(seconds)
    try:
        is_there = os.path.samestat(os.fstat(stream.fileno()), path.lstat())
    except FileNotFoundError:
        is_there = False
    if not is_there:
        raise ValueError(f"{path} was replaced or removed while it was followed")
    # Read anew from the file: the buffer of the stream may hold what was there before.
    if os.pread(stream.fileno(), len(behind), position) != behind:
        raise ValueError(f"{path} was cut or rewritten while it was followed")
    stream.seek(position + len(behind))


def stream_integrity(path: Path | str) -> tuple[bool, int]:
    """Check a stream as `verify_event_stream_integrity` does, in memory that does not grow with it.

    Half an event at the end, or one that does not hold in itself, is a failure too.
    """
    verified = 0
    try:
        walk = walk_chain(path, line_format=EnvelopeFrames(keys=audit_verification_keys()))
        while True:
            verified += not next(walk).closing
    except StopIteration as stop:
        report: ChainReport = stop.value
        return report.torn_bytes == 0, verified
    except (RipienoError, OSError, ValueError):
        return False, verified


def verify_event_stream_integrity(events: Iterable[AuditStreamEvent]) -> tuple[bool, int]:
    """Check sequence, links, hashes and, when a key is configured, signatures.

    Returns:
        Whether all hold, and how many hold from the first on. ``(False, 0)`` when the keyring is unusable.
    """
    try:
        checker = StreamChecker()
    except ValueError:
        return False, 0
    return all(not checker.take(event) for event in events), checker.verified


class StreamChecker:
    """Checks events one after the other, in memory that does not grow.

    Args:
        from_start: whether the first event is the first of the stream; otherwise it is taken at its word for what was
            before it.

    Attributes:
        verified: events that hold, from the first on.

    Raises:
        ValueError: the keys in the environment are unusable.
    """

    def __init__(self, *, from_start: bool = True) -> None:
        self._keys = audit_verification_keys()
        self._sequence = 1 if from_start else 0
        self._previous: str | None = GENESIS if from_start else None
        self.verified = 0

    def take(self, event: AuditStreamEvent) -> str:
        """Say what does not hold about the next event; nothing when all holds."""
        problem = _problem_of(event, self._previous, self._sequence or event.sequence, self._keys)
        if not problem:
            self._previous, self._sequence = event.event_hash, event.sequence + 1
            self.verified += 1
        return problem
