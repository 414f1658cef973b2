"""The protobuf message of the audit event stream and how it is framed in a file."""

from __future__ import annotations

from functools import cache
from typing import Any, BinaryIO

from ripieno.errors import IntegrityError

__all__ = [
    "ENVELOPE_FIELDS",
    "MAGIC",
    "MAX_ENVELOPE_BYTES",
    "envelope_class",
    "frame",
    "read_frame",
    "require_torn_frame",
    "split_frame",
]

MAGIC = b"SPOA1\n"
"""What every stream begins with."""
MAX_ENVELOPE_BYTES = 72 * 2**20
"""Longest envelope that is written or read."""
MAX_VARINT_BYTES = 9  # 63 bits

ENVELOPE_FIELDS: tuple[tuple[str, str], ...] = (
    ("schema_version", "uint32"),
    ("stream_id", "string"),
    ("sequence", "uint64"),
    ("event_type", "string"),
    ("recorded_at", "google.protobuf.Timestamp"),
    ("source", "string"),
    ("previous_hash", "string"),
    ("payload_json", "string"),
    ("payload_sha256", "string"),
    ("event_hash", "string"),
    ("signature_algorithm", "string"),
    ("signature_key_id", "string"),
    ("signature", "string"),
    ("audit_mode", "string"),
)
"""Name and type of the fields 1, 2, ... of ``spo.audit.AuditEnvelope``, as in ``audit/audit.proto``."""


@cache
def envelope_class() -> Any:
    """Give the message class, built from `ENVELOPE_FIELDS` so that no compiler of schemas is needed."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="spo/audit/audit.proto",
        package="spo.audit",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    message = file.message_type.add(name="AuditEnvelope")
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {"uint32": kinds.TYPE_UINT32, "uint64": kinds.TYPE_UINT64, "string": kinds.TYPE_STRING}
    for number, (name, kind) in enumerate(ENVELOPE_FIELDS, start=1):
        field = message.field.add(name=name, number=number, label=kinds.LABEL_OPTIONAL)
        if kind in types:
            field.type = types[kind]
        else:
            field.type, field.type_name = kinds.TYPE_MESSAGE, f".{kind}"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("spo.audit.AuditEnvelope"))


def frame(envelope: bytes) -> bytes:
    """Put the length in front of an envelope."""
    length, prefix = len(envelope), bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + envelope


def read_frame(stream: BinaryIO) -> bytes:
    """Take the bytes of the next frame, or what there is of it; nothing at the end."""
    prefix = b""
    while len(prefix) < MAX_VARINT_BYTES + 1:
        byte = stream.read(1)
        prefix += byte
        if not byte or byte[0] < 0x80:
            break
    try:
        length, _ = _length_of(prefix)
    except ValueError:
        return prefix
    return prefix + stream.read(min(length, MAX_ENVELOPE_BYTES + 1))


def split_frame(data: bytes) -> bytes:
    """Give the envelope in a frame.

    Raises:
        ValueError: the frame is cut, too long, or its length is written with more bytes than it needs.
    """
    length, start = _length_of(data)
    if length > MAX_ENVELOPE_BYTES:
        raise ValueError(f"envelope of {length} bytes, at most {MAX_ENVELOPE_BYTES} are read")
    envelope = data[start:]
    if len(envelope) < length:
        raise ValueError(f"truncated envelope: {len(envelope)} of {length} bytes")
    if frame(envelope) != data:
        raise ValueError("the length of the envelope is not written in its shortest form")
    return envelope


def _length_of(data: bytes) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[: MAX_VARINT_BYTES + 1]):
        if place == MAX_VARINT_BYTES:
            raise ValueError("varint > 63 bits")
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, place + 1
    raise ValueError("truncated varint")


def require_torn_frame(data: bytes) -> bool:
    """Tell whether a frame was cut by an interrupted write; every field starts once, in order, and the last is cut.

    Returns:
        False when the frame is whole.

    Raises:
        IntegrityError: it is cut, but not what an interrupted write leaves.
    """
    try:
        length, start = _length_of(data)
    except ValueError as error:
        if len(data) > MAX_VARINT_BYTES:
            raise IntegrityError(str(error)) from error
        return True
    if len(data) - start >= length:
        return False
    if length > MAX_ENVELOPE_BYTES:
        raise IntegrityError(f"envelope of {length} bytes, at most {MAX_ENVELOPE_BYTES} are written")
    fields = data[start:].rstrip(b"\0")
    position, last = 0, 0
    while position < len(fields):
        number, kind = fields[position] >> 3, fields[position] & 7
        if not last < number <= len(ENVELOPE_FIELDS) or kind not in (0, 2):
            raise IntegrityError("neither an envelope nor the beginning of one")
        last = number
        try:
            value, size = _length_of(fields[position + 1 :])
        except ValueError:
            break
        position += 1 + size + (value if kind == 2 else 0)
    return True
