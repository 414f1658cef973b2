"""The lines of an audit log, as a format of `ripieno.chain`.

A line is a JSON object with sorted keys and the separators ``", "`` and ``": "``. It holds the record, some metadata
and ``_hash``. With H the SHA-256 of compact sorted JSON:

    _payload_hash   H of the record
    _previous_hash  ``_hash`` of the line before, 64 zeros for the first
    _hash           SHA-256 of ``_previous_hash`` followed by the compact sorted JSON of record and metadata

All JSON is ASCII; numbers are written as Python writes them.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, cast

import orjson

from ripieno.canonical import ASCII, canonical_json, strict_loads
from ripieno.chain import Entry, LineFormat, require_torn
from ripieno.errors import InputError, IntegrityError
from scpn_phase_orchestrator.runtime.audit_signing import (
    SIGNATURE_ALGORITHM,
    AuditSigner,
    is_signed_by,
    key_id_for_secret,
)

__all__ = [
    "MAX_ORDER_PARAMETER",
    "MAX_RECORD_BYTES",
    "SIGNED",
    "UNSIGNED",
    "AuditLines",
    "Encoded",
    "RecordKind",
    "check_record",
    "compact_json",
    "is_event_name",
    "is_reserved",
    "parse_record",
    "record_kind",
]

SIGNED = "hmac-signed"
UNSIGNED = "unsigned-development"
SCHEMA_VERSION = 1
STREAM_ID = "spo-audit-jsonl"
MAX_RECORD_BYTES = 64 * 2**20
"""Longest line: a dense matrix of about 1,800 oscillators."""
MAX_NAME_CHARACTERS = 128
MAX_ORDER_PARAMETER = 1.0 + 1e-9
"""Largest R of a layer: a mean of cosines can be a little above 1."""

_HASHES = ("_hash", "_signature", "_payload_hash", "_previous_hash")
_UNSIGNED_KEYS = {"_audit_mode", "_hash", "_payload_hash", "_previous_hash"}
_SIGNED_KEYS = _UNSIGNED_KEYS | {
    "_audit_schema_version",
    "_audit_sequence",
    "_audit_stream_id",
    "_audit_timestamp_unix_ns",
    "_signature",
}
_ESCAPED_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"')
_PLAIN_TEXT = re.compile(r"[ !#-\[\]-~]*")  # what JSON writes as it is
_PLAIN_KEY = re.compile(r"[a-z][A-Za-z0-9_]*")


class Encoded(bytes):
    """A value of a record that is JSON already, in the compact form."""

    __slots__ = ()


class RecordKind(StrEnum):
    """What a record is."""

    HEADER = "header"
    STEP = "step"
    EVENT = "event"
    CLOSING = "closing"
    OTHER = "other"


def record_kind(record: Mapping[str, Any]) -> RecordKind:
    """Tell what a record is; an event stays one whatever its data are called.

    Examples:
        >>> record_kind({"event": "regime_transition", "step": 3, "ts": 0.0}).value
        'event'
    """
    if record.get("header") is True:
        return RecordKind.HEADER
    if "event" in record:
        return RecordKind.EVENT
    if isinstance(record.get("closing"), dict):
        return RecordKind.CLOSING
    if "step" in record and "regime" in record:
        return RecordKind.STEP
    return RecordKind.OTHER


def is_reserved(key: str) -> bool:
    """Tell whether a key belongs to the log and not to what is logged."""
    return key.startswith("_") or key in ("header", "event", "closing")


def is_event_name(name: object) -> bool:
    """Tell whether an event may be called so: printable, at most 128 characters, and not the name of another kind."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        return False
    return name not in (RecordKind.HEADER, RecordKind.STEP, RecordKind.CLOSING)


def compact_json(value: object) -> bytes:
    """Write a JSON value compactly, sorted, in ASCII: the text that every hash of an audit log covers.

    Raises:
        InputError: JSON cannot say it.
    """
    text = canonical_json(value)
    return text if text.isascii() and b"\x7f" not in text else ASCII.dumps(value)


def _encoded(value: object) -> bytes:
    """Write one value of a record; what a record mostly holds is written without a call of a JSON library."""
    kind = type(value)
    if kind is Encoded:
        return cast("Encoded", value)
    if kind is float:
        if not math.isfinite(cast("float", value)):
            raise InputError(f"JSON has finite numbers only, got {value!r}")
        return repr(value).encode()
    if kind is int:
        return b"%d" % cast("int", value)
    if kind is str and _PLAIN_TEXT.fullmatch(cast("str", value)):
        return b'"%b"' % cast("str", value).encode()
    return compact_json(value)


def _spaced(compact: bytes) -> bytes:
    """Turn compact JSON into the same JSON with the separators of a stored line."""
    # Without escapes every quotation mark begins or ends a string, so that strings are the odd parts.
    parts = compact.split(b'"') if b"\\" not in compact else _ESCAPED_STRING.split(compact)
    # Between the strings there are only structure and numbers; one pass over all of that together.
    between = b"\0".join(parts[::2]).replace(b",", b", ").replace(b":", b": ")
    parts[::2] = between.split(b"\0")
    return b'"'.join(parts)


def _members(items: Iterable[tuple[str, object]]) -> list[bytes]:
    return [b"%b:%b" % (_key(key), _encoded(value)) for key, value in items]


@lru_cache(1024)
def _key(key: str) -> bytes:
    return b'"%b"' % key.encode() if _PLAIN_KEY.fullmatch(key) else compact_json(key)


class AuditLines(LineFormat):
    """The line format of audit logs.

    Args:
        signer: signs what is written; unsigned without.
        keys: secrets by key id. With any, a line that is read must be signed by one of them.

    Attributes:
        is_signing: whether there is a signer.
        last_stored: compact JSON of the record that was encoded last, metadata and hash included.
    """

    max_line_bytes = MAX_RECORD_BYTES

    def __init__(self, *, signer: AuditSigner | None = None, keys: Mapping[str, str] | None = None) -> None:
        self.is_signing = signer is not None
        self._signer = signer
        self._keys = dict(keys or {})
        self.last_stored = b""

    def encode(self, payload: Mapping[str, Any], previous: str, sequence: int, *, closing: bool) -> tuple[bytes, str]:
        """Give a line; the record is written as JSON once, and everything else is made of that text."""
        keys = sorted(payload)
        before = _members((key, payload[key]) for key in keys if key < "_")
        after = _members((key, payload[key]) for key in keys if key > "_")
        payload_hash = hashlib.sha256(b"{%b}" % b",".join(before + after)).hexdigest()
        hashes = b'"_payload_hash":"%b","_previous_hash":"%b"' % (payload_hash.encode(), previous.encode())
        if self._signer is None:
            mode, signature = b'"_audit_mode":"%b"' % UNSIGNED.encode(), []
        else:
            now = time.time_ns()
            value = self._signer.sign(_material(self._signer.key_id, payload_hash, previous, sequence + 1, now))
            mode = (
                f'"_audit_mode":"{SIGNED}","_audit_schema_version":{SCHEMA_VERSION},"_audit_sequence":{sequence + 1},'
                f'"_audit_stream_id":"{STREAM_ID}","_audit_timestamp_unix_ns":{now}'
            ).encode()
            text = f'{{"algorithm":"{SIGNATURE_ALGORITHM}","key_id":"{self._signer.key_id}","value":"{value}"}}'
            signature = [b'"_signature":%b' % text.encode()]
        clean = b",".join([*before, mode, hashes, *signature, *after])
        digest = hashlib.sha256(b"%b{%b}" % (previous.encode(), clean)).hexdigest()
        stored = b",".join([*before, mode, b'"_hash":"%b"' % digest.encode(), hashes, *signature, *after])
        self.last_stored = b"{%b}" % stored
        return _spaced(self.last_stored) + b"\n", digest

    def check(self, line: bytes, previous: str | None, sequence: int) -> Entry | None:
        """Check text, hashes, place and signature of a line."""
        if not line.endswith(b"\n"):
            require_torn(line, ('{"',))
            return None
        record = parse_record(line[:-1])
        digest = check_record(record, previous, sequence, self._keys)
        return Entry(sequence, record, digest, closing=record_kind(record) is RecordKind.CLOSING)


def _material(key_id: str, payload_hash: str, previous: str, sequence: int, timestamp_unix_ns: int) -> bytes:
    """Give the bytes that a signature covers."""
    return (
        f'{{"audit_mode":"{SIGNED}","metadata":{{"algorithm":"{SIGNATURE_ALGORITHM}","key_id":"{key_id}"}},'
        f'"payload_hash":"{payload_hash}","previous_event_hash":"{previous}","schema_version":{SCHEMA_VERSION},'
        f'"sequence":{sequence},"stream_id":"{STREAM_ID}","timestamp_unix_ns":{timestamp_unix_ns}}}'
    ).encode()


def parse_record(text: bytes) -> dict[str, Any]:
    """Read the JSON object of one line, which must be written exactly as the log writes it.

    Raises:
        InputError: not JSON, or JSON that two readers could understand differently.
        IntegrityError: no object, or written otherwise; names the first differing byte.
    """
    value: Any = None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        pass  # the strict parser says what is wrong
    else:
        # Equal bytes mean that nothing was lost on the way: no duplicate key, no other spelling.
        if isinstance(value, dict) and _spaced(compact_json(value)) == text:
            return cast("dict[str, Any]", value)
    value = strict_loads(text, max_bytes=MAX_RECORD_BYTES)
    if not isinstance(value, dict):
        raise IntegrityError(f"a record is a JSON object, got {type(value).__name__}")
    expected = _spaced(compact_json(value))
    if expected != text:
        pairs = enumerate(zip(expected, text, strict=False))
        byte = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(text)))
        raise IntegrityError(f"not written as records are: byte {byte} differs")
    return cast("dict[str, Any]", value)


def check_record(record: Mapping[str, Any], previous: str | None, sequence: int, keys: Mapping[str, str]) -> str:
    """Check the hashes, the place and the signature of a record and give its hash.

    Args:
        record: as stored.
        previous: hash of the record before; ``None`` takes what it names.
        sequence: its number, from 0.
        keys: secrets by key id; with any, a signature is required.

    Raises:
        IntegrityError: says what does not hold.
    """
    for name in ("_hash", "_previous_hash", "_payload_hash"):
        if not isinstance(record.get(name), str):
            raise IntegrityError(f"the record has no {name}")
    if previous is not None and record["_previous_hash"] != previous:
        raise IntegrityError(f"_previous_hash is {record['_previous_hash']!r:.80}, the record before has {previous}")
    payload = {key: value for key, value in record.items() if key not in _HASHES and not key.startswith("_audit_")}
    digest = hashlib.sha256(compact_json(payload)).hexdigest()
    if record["_payload_hash"] != digest:
        raise IntegrityError(f"_payload_hash is {record['_payload_hash']!r:.80}, the content gives {digest}")
    clean = {key: value for key, value in record.items() if key != "_hash"}
    digest = hashlib.sha256(record["_previous_hash"].encode() + compact_json(clean)).hexdigest()
    if record["_hash"] != digest:
        raise IntegrityError(f"_hash is {record['_hash']!r:.80}, the content gives {digest}")
    _check_metadata(record, sequence)
    if keys:
        _check_signature(record, keys)
    return digest


def _check_metadata(record: Mapping[str, Any], sequence: int) -> None:
    mode = record.get("_audit_mode")
    if mode not in (SIGNED, UNSIGNED):
        raise IntegrityError(f"_audit_mode is {mode!r:.40}, expected {SIGNED!r} or {UNSIGNED!r}")
    found = {key for key in record if key.startswith("_")}
    unexpected = found ^ (_SIGNED_KEYS if mode == SIGNED else _UNSIGNED_KEYS)
    if unexpected:
        raise IntegrityError(f"the metadata of a record that is {mode} cannot have, or lack, {min(unexpected)!r:.60}")
    if mode == SIGNED and (type(record["_audit_sequence"]) is not int or record["_audit_sequence"] != sequence + 1):
        raise IntegrityError(f"_audit_sequence is {record['_audit_sequence']!r:.40}, expected {sequence + 1}")


def _check_signature(record: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    if record["_audit_mode"] != SIGNED:
        raise IntegrityError("the record is not signed, but a key is configured")
    signature, timestamp = record["_signature"], record["_audit_timestamp_unix_ns"]
    fixed = (record["_audit_schema_version"], record["_audit_stream_id"])
    if fixed != (SCHEMA_VERSION, STREAM_ID) or type(timestamp) is not int or not isinstance(signature, dict):
        raise IntegrityError("the metadata of the signature is not what a signed record has")
    fields = cast("dict[str, object]", signature)
    key_id, value = fields.get("key_id"), fields.get("value")
    if fields.keys() != {"algorithm", "key_id", "value"} or fields["algorithm"] != SIGNATURE_ALGORITHM:
        raise IntegrityError(f"the signature is not one of {SIGNATURE_ALGORITHM}")
    if not isinstance(key_id, str) or key_id not in keys:
        raise IntegrityError(f"signed with the key {key_id!r:.40}, which is not configured")
    sequence = record["_audit_sequence"]
    material = _material(key_id, record["_payload_hash"], record["_previous_hash"], sequence, timestamp)
    if key_id_for_secret(keys[key_id]) != key_id or not isinstance(value, str):
        raise IntegrityError("the signature does not name its key")
    if not is_signed_by(keys[key_id], material, value):
        raise IntegrityError(f"the signature by the key {key_id} does not fit")
