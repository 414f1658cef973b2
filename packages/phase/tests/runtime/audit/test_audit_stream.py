"""The event stream: its format, its writer, its attack list, and following it."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from audit_runs import compact, drive, judged, records_of

from ripieno.verify import VerifyStatus
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime._audit_envelope import ENVELOPE_FIELDS, MAGIC, envelope_class, frame
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.audit_signing import key_id_for_secret
from scpn_phase_orchestrator.runtime.audit_stream import (
    AuditStreamEvent,
    EventStreamWriter,
    iter_event_stream,
    read_event_stream,
    stream_integrity,
    tail_event_stream,
    verify_event_stream_integrity,
)
from scpn_phase_orchestrator.runtime.stl_audit_chain import (
    STL_EVENT_TYPE,
    StlAuditResult,
    read_stl_results,
    write_stl_result,
)


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A log of a small run, sent to a stream that was closed with it."""
    with AuditLogger(tmp_path / "log", event_stream=tmp_path / "stream") as log:
        drive(log, 3)
    return tmp_path / "stream"


def frames(path: Path) -> list[bytes]:
    data, found = path.read_bytes()[len(MAGIC) :], []
    while data:
        length, place, shift = 0, 0, 0
        while True:
            length |= (data[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if data[place - 1] < 0x80:
                break
        found.append(data[: place + length])
        data = data[place + length :]
    return found


def test_the_message_is_the_one_of_the_schema() -> None:
    text = files("scpn_phase_orchestrator.audit").joinpath("audit.proto").read_text()
    found = re.findall(r"^  ([\w.]+) (\w+) = (\d+);$", text, re.MULTILINE)
    assert [(name, kind) for kind, name, _ in found] == list(ENVELOPE_FIELDS)
    assert [int(number) for _, _, number in found] == list(range(1, 15))
    descriptor = envelope_class().DESCRIPTOR
    assert descriptor.full_name == "spo.audit.AuditEnvelope"
    assert [field.name for field in descriptor.fields] == [name for name, _ in ENVELOPE_FIELDS]


def test_an_event_has_15_fields() -> None:
    assert len(fields(AuditStreamEvent)) == 15


@pytest.mark.parametrize("key", [None, "secret"])
def test_every_event_is_what_the_documentation_says(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("SPO_AUDIT_KEY", key)
    with AuditLogger(tmp_path / "log", event_stream=tmp_path / "stream") as log:
        drive(log, 3)
    records = records_of(tmp_path / "log")
    previous = "0" * 64
    for number, (data, record) in enumerate(zip(frames(tmp_path / "stream")[:-1], records[:-1], strict=True), start=1):
        message = envelope_class().FromString(data[2 if len(data) < 2**14 else 3 :])
        covered = {
            "event_type": message.event_type,
            "payload_sha256": hashlib.sha256(message.payload_json.encode()).hexdigest(),
            "previous_hash": previous,
            "recorded_at_unix_ns": message.recorded_at.ToNanoseconds(),
            "schema_version": 1,
            "sequence": number,
            "source": "spo",
            "stream_id": "spo-audit",
        }
        assert message.payload_json == compact(record)
        previous = hashlib.sha256(compact(covered).encode()).hexdigest()
        assert message.event_hash == previous
        if key is not None:
            key_id = key_id_for_secret(key)
            material = {**covered, "audit_mode": "hmac-signed", "event_hash": previous, "key_id": key_id}
            assert message.signature == hmac.new(key.encode(), compact(material).encode(), "sha256").hexdigest()
            assert (message.signature_algorithm, message.signature_key_id) == ("HMAC-SHA256", key_id)
        else:
            assert (message.audit_mode, message.signature) == ("unsigned-development", "")


def test_a_stream_reads_back_the_records_without_the_closing_one(stream: Path) -> None:
    events = read_event_stream(stream)
    assert [event.event_type for event in events] == ["header", *["step"] * 3, *["regime_transition"] * 2]
    assert [event.payload for event in events] == records_of(stream.with_name("log"))[:-1]
    assert verify_event_stream_integrity(events) == (True, 6)
    assert stream_integrity(stream) == (True, 6)
    assert judged(stream).status is VerifyStatus.COMPLETE


def test_the_logger_says_whether_the_stream_holds(tmp_path: Path) -> None:
    log = AuditLogger(tmp_path / "log", event_stream=tmp_path / "stream")
    drive(log, 3)
    found = log.verify_event_stream_integrity()
    assert found is not None
    assert found.to_audit_record() == {
        "event_stream_path": str(tmp_path / "stream"), "ok": True, "verified_events": 6,
    }  # fmt: skip
    assert log.event_stream_integrity == found
    log.close()
    assert AuditLogger(tmp_path / "plain").verify_event_stream_integrity() is None


def test_closing_the_logger_checks_the_stream(tmp_path: Path) -> None:
    log = AuditLogger(tmp_path / "log", event_stream=tmp_path / "stream")
    drive(log, 3)
    data = (tmp_path / "stream").read_bytes()
    (tmp_path / "stream").write_bytes(data.replace(b"nominal", b"nominax", 1))
    log.close()
    assert log.event_stream_integrity is not None
    assert (log.event_stream_integrity.ok, log.event_stream_integrity.verified_events) == (False, 1)


def test_a_writer_of_the_caller_stays_open(tmp_path: Path) -> None:
    with EventStreamWriter(tmp_path / "stream", stream_id="mine") as writer:
        for name in ("a", "b"):
            with AuditLogger(tmp_path / name, event_stream=writer) as log:
                log.log_event("note")
        writer.write({"x": 1})
    events = read_event_stream(tmp_path / "stream")
    assert [event.event_type for event in events] == ["note", "note", "record"]
    assert {event.stream_id for event in events} == {"mine"}


def test_types_are_inferred_as_documented(tmp_path: Path) -> None:
    payloads: list[dict[str, Any]] = [{"header": True}, {"event": "alarm", "step": 1}, {"step": 1}, {"header": 1}, {}]
    with EventStreamWriter(tmp_path / "stream") as writer:
        for payload in payloads:
            writer.write(payload)
        writer.write({}, event_type="own")
    found = [event.event_type for event in read_event_stream(tmp_path / "stream")]
    assert found == ["header", "alarm", "step", "record", "record", "own"]


def test_a_stream_is_continued(tmp_path: Path) -> None:
    for number in range(3):
        with EventStreamWriter(tmp_path / "stream") as writer:
            writer.write({"n": number})
    events = read_event_stream(tmp_path / "stream")
    assert [event.sequence for event in events] == [1, 2, 3]
    assert verify_event_stream_integrity(events) == (True, 3)
    assert judged(tmp_path / "stream").status is VerifyStatus.INTERRUPTED


def test_a_new_stream_begins_with_the_magic_bytes(tmp_path: Path) -> None:
    EventStreamWriter(tmp_path / "stream").close()
    assert (tmp_path / "stream").read_bytes() == b"SPOA1\n"
    assert read_event_stream(tmp_path / "stream") == []


@pytest.mark.parametrize("length", range(6))
def test_a_stream_that_died_at_birth_is_continued(length: int, tmp_path: Path) -> None:
    (tmp_path / "stream").write_bytes(MAGIC[:length])
    with EventStreamWriter(tmp_path / "stream") as writer:
        writer.write({"n": 1})
    assert len(read_event_stream(tmp_path / "stream")) == 1


def test_half_an_event_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with EventStreamWriter(path) as writer:
        writer.write({"n": 1})
        writer.write({"n": 2})
    whole = path.read_bytes()
    start = len(MAGIC) + len(frames(path)[0])
    for length in range(start + 1, len(whole)):
        path.write_bytes(whole[:length])
        assert judged(path).status is VerifyStatus.INTERRUPTED, length
    path.write_bytes(whole[:-5])
    with EventStreamWriter(path) as writer:
        writer.write({"n": 3})
    assert [event.payload["n"] for event in read_event_stream(path)] == [1, 3]


def test_a_closing_event_that_counts_other_events_is_refused(tmp_path: Path) -> None:
    for closing in ({"events": 5, "status": "complete"}, {"events": 1, "status": "perfect"}, {}, 3):
        path = tmp_path / str(closing)
        writer = EventStreamWriter(path)
        writer.write({"n": 1})
        writer._chain.close({"event_type": "closing", "payload_json": compact({"closing": closing}).encode()})
        report = judged(path)
        assert report.status is VerifyStatus.TAMPERED
        assert report.first_problem.startswith("event 2: the closing event")


@pytest.mark.parametrize(
    ("event_type", "changes", "problem"),
    [
        ("step", {"stability": 0.5}, "event 1: the record of the log in it does not hold"),
        ("header", {}, "event 1 has the type 'header', its record 'step'"),
    ],
)
def test_an_event_that_is_another_than_its_record_is_refused(
    event_type: str, changes: dict[str, Any], problem: str, stream: Path, tmp_path: Path
) -> None:
    record = records_of(stream.with_name("log"))[1]
    with EventStreamWriter(tmp_path / "forged") as writer:
        writer.write({**record, **changes}, event_type=event_type)
    assert judged(tmp_path / "forged").first_problem.startswith(problem)


def test_a_length_that_no_writer_can_have_begun_is_no_interruption(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    path.write_bytes(MAGIC + b"\xff" * 8 + b"\x3f")
    assert judged(path).status is VerifyStatus.TAMPERED


def test_the_closing_event_names_the_end_of_the_log(stream: Path) -> None:
    message = envelope_class().FromString(frames(stream)[-1][2:])
    head = records_of(stream.with_name("log"))[-1]["_hash"]
    assert json.loads(message.payload_json) == {"closing": {"events": 6, "log_head": head, "status": "complete"}}


def test_an_ended_stream_is_not_continued(stream: Path) -> None:
    with pytest.raises(ValueError, match="was ended"):
        EventStreamWriter(stream)
    with pytest.raises(AuditError, match="was ended"):
        AuditLogger(stream.with_name("other"), event_stream=stream)


def test_another_stream_is_not_continued(tmp_path: Path) -> None:
    with EventStreamWriter(tmp_path / "stream", stream_id="a") as writer:
        writer.write({})
    with pytest.raises(ValueError, match="is the stream 'a', not 'b'"):
        EventStreamWriter(tmp_path / "stream", stream_id="b")


def test_two_writers_never_share_a_stream(tmp_path: Path) -> None:
    with EventStreamWriter(tmp_path / "stream"), pytest.raises(ValueError, match="another writer"):
        EventStreamWriter(tmp_path / "stream")


@pytest.mark.parametrize("stream_id", ["", "a\n", "x" * 129])
def test_a_stream_needs_a_name(stream_id: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stream_id"):
        EventStreamWriter(tmp_path / "stream", stream_id=stream_id)


@pytest.mark.parametrize("event_type", ["", "closing", "a\x1b[0m", "x" * 129])
def test_a_bad_event_type_is_refused(event_type: str, tmp_path: Path) -> None:
    with EventStreamWriter(tmp_path / "stream") as writer:
        with pytest.raises(ValueError, match="type"):
            writer.write({}, event_type=event_type)
        with pytest.raises(ValueError, match="finite"):
            writer.write({"x": float("nan")})
    assert read_event_stream(tmp_path / "stream") == []


# --- attacks ----------------------------------------------------------------------------------------------------


def test_every_flipped_byte_is_found(stream: Path) -> None:
    whole = stream.read_bytes()
    for place in range(len(MAGIC), len(whole), 7):
        stream.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert judged(stream).status is not VerifyStatus.COMPLETE, place
        assert not stream_integrity(stream)[0], place


def test_every_flipped_byte_of_an_event_inside_a_closed_stream_is_tampering(stream: Path) -> None:
    whole, first = stream.read_bytes(), frames(stream)[0]
    for place in range(len(MAGIC), len(MAGIC) + len(first)):
        mask = 0x80 if place % 2 else 1
        stream.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        assert judged(stream).status is VerifyStatus.TAMPERED, place


def test_a_flipped_byte_of_a_payload_is_refused_when_the_event_is_made(stream: Path) -> None:
    stream.write_bytes(stream.read_bytes().replace(b'"nominal"', b'"nominax"', 1))
    with pytest.raises(ValueError, match="event 2: payload_sha256"):
        read_event_stream(stream)


@pytest.mark.parametrize(
    ("name", "attack", "number"),
    [
        ("removed event", lambda x: [*x[:1], *x[2:]], 2),
        ("swapped events", lambda x: [x[0], x[2], x[1], *x[3:]], 2),
        ("doubled event", lambda x: [*x[:2], x[1], *x[2:]], 3),
        ("event after the closing one", lambda x: [*x, x[0]], 8),
        ("half an event after the closing one", lambda x: [*x, x[0][:30]], 8),
        ("closing event in front", lambda x: [x[0], x[6], *x[1:6]], 2),
        ("garbage", lambda x: [*x[:3], b"\x05hello", *x[3:]], 4),
        ("empty envelope", lambda x: [*x[:3], b"\x00", *x[3:]], 4),
        ("length in more bytes than it needs", lambda x: [b"\x80\x00", *x], 1),
        ("endless length", lambda x: [b"\xff" * 12, *x], 1),
        ("unknown field", lambda x: [frame(x[0][2:] + b"\x7a\x01x"), *x[1:]], 1),
        ("field twice", lambda x: [frame(x[0][2:] + b"\x08\x01"), *x[1:]], 1),
        ("length that swallows the next event", lambda x: [frame(x[0][2:] + x[1]), *x[2:]], 1),
    ],
)
def test_an_edited_stream_is_refused_at_the_event(name: str, attack: Any, number: int, stream: Path) -> None:
    stream.write_bytes(MAGIC + b"".join(attack(frames(stream))))
    report = judged(stream)
    assert report.status is VerifyStatus.TAMPERED, name
    assert report.first_problem.startswith(f"event {number} "), report.first_problem


def test_a_removed_closing_event_is_an_interruption(stream: Path) -> None:
    stream.write_bytes(MAGIC + b"".join(frames(stream)[:-1]))
    assert judged(stream).status is VerifyStatus.INTERRUPTED


def test_an_event_with_another_hash_fails_in_its_place(stream: Path) -> None:
    events = read_event_stream(stream)
    assert verify_event_stream_integrity([*events[:2], replace(events[2], source="me"), *events[3:]]) == (False, 2)
    assert verify_event_stream_integrity(events[1:]) == (False, 0)


def test_a_signed_stream_with_the_wrong_key_verifies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    with EventStreamWriter(tmp_path / "stream") as writer:
        writer.write({"n": 1})
    events = read_event_stream(tmp_path / "stream")
    assert verify_event_stream_integrity(events) == (True, 1)
    monkeypatch.setenv("SPO_AUDIT_KEY", "other")
    assert verify_event_stream_integrity(events) == (False, 0)
    assert stream_integrity(tmp_path / "stream") == (False, 0)
    monkeypatch.delenv("SPO_AUDIT_KEY")
    monkeypatch.setenv("SPO_AUDIT_KEYRING", '{"deadbeefdeadbeef": "x"}')
    assert verify_event_stream_integrity(events) == (False, 0)
    monkeypatch.setenv("SPO_AUDIT_KEYRING", json.dumps({key_id_for_secret("secret"): "secret"}))
    assert verify_event_stream_integrity(events) == (True, 1)


def test_an_unsigned_stream_fails_under_a_key(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = read_event_stream(stream)
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    assert verify_event_stream_integrity(events) == (False, 0)
    assert judged(stream).status is VerifyStatus.TAMPERED


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not an SPO audit event stream"),
        (b"SPOA2\n", "not an SPO audit event stream"),
        (MAGIC + b"\x80", "truncated varint"),
        (MAGIC + b"\xff" * 10, "varint > 63 bits"),
        (MAGIC + b"\x05abc", "truncated envelope"),
        (MAGIC + b"\xff\xff\xff\xff\x7f", "at most"),
        (MAGIC + b"\x03\xff\xff\xff", "not an audit envelope"),
    ],
)
def test_what_is_no_stream_is_refused_as_documented(data: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "stream").write_bytes(data)
    with pytest.raises(ValueError, match=problem):
        read_event_stream(tmp_path / "stream")


GOOD = {
    "schema_version": 1, "stream_id": "s", "sequence": 1, "event_type": "t", "recorded_at_unix_ns": 1, "source": "spo",
    "previous_hash": "0" * 64, "payload_json": "{}", "payload_sha256": hashlib.sha256(b"{}").hexdigest(),
    "event_hash": "a" * 64, "signature_algorithm": "", "signature_key_id": "", "signature": "",
    "audit_mode": "unsigned-development", "payload": {},
}  # fmt: skip
SIGNED = {
    "audit_mode": "hmac-signed", "signature_algorithm": "HMAC-SHA256", "signature_key_id": "a" * 16,
    "signature": "b" * 64,
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, SIGNED])
def test_an_event_that_holds_is_made(changes: dict[str, Any]) -> None:
    assert AuditStreamEvent(**{**GOOD, **changes}).sequence == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 0}, {"schema_version": True}, {"sequence": 0}, {"sequence": 1.0}, {"sequence": 2**63},
        {"recorded_at_unix_ns": 0}, {"stream_id": ""}, {"event_type": "a\n"}, {"source": "x" * 129}, {"source": 3},
        {"previous_hash": "0" * 63}, {"previous_hash": "G" * 64}, {"payload_sha256": "A" * 64}, {"event_hash": ""},
        {"payload_json": "{ }"}, {"payload": {"a": 1}}, {"payload_sha256": "0" * 64}, {"audit_mode": "none"},
        {"signature": "b" * 64}, {"signature_key_id": "a" * 16}, {"signature_algorithm": "HMAC-SHA256"},
        {**SIGNED, "signature": "b" * 63}, {**SIGNED, "signature_key_id": ""}, {**SIGNED, "signature_algorithm": "MD5"},
    ],
)  # fmt: skip
def test_an_event_that_does_not_hold_is_never_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        AuditStreamEvent(**{**GOOD, **changes})


# --- following --------------------------------------------------------------------------------------------------


def test_a_stream_is_followed_to_its_end_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    log = AuditLogger(tmp_path / "log", event_stream=path)
    seen: list[int] = []
    started = threading.Event()

    def follow() -> None:
        for event in iter_event_stream(path, from_start=True, poll_interval_s=0.001):
            seen.append(event.sequence)
            started.set()

    follower = threading.Thread(target=follow)
    follower.start()
    log.log_event("first")
    assert started.wait(30)
    drive(log, 20)
    log.close()
    follower.join(30)
    assert not follower.is_alive()
    assert seen == list(range(1, 25))


def test_following_begins_with_the_next_event_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    writer = EventStreamWriter(path)
    writer.write({"n": 1})
    followed = iter_event_stream(path, poll_interval_s=0.001)
    found: list[AuditStreamEvent] = []
    follower = threading.Thread(target=lambda: found.append(next(followed)))
    follower.start()
    while not found:  # written until the follower, who may have looked later, has seen one
        writer.write({"n": 2})
        follower.join(0.01)
    writer.close()
    assert found[0].payload == {"n": 2}
    assert len(tail_event_stream(path, max_events=2, from_start=True)) == 2


def test_following_an_ended_stream_ends(stream: Path) -> None:
    assert list(iter_event_stream(stream)) == []
    assert len(list(iter_event_stream(stream, from_start=True))) == 6


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(len(MAGIC) + 10)


def _rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(MAGIC + b"\0" * (path.stat().st_size - len(MAGIC)))


def _replace(path: Path) -> None:
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


@pytest.mark.parametrize("attack", [_cut, _rewrite, _replace, Path.unlink])
def test_a_stream_that_is_cut_rewritten_or_replaced_is_not_followed_any_more(attack: Any, tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with EventStreamWriter(path) as writer:
        writer.write({"n": 1})
        followed = iter_event_stream(path, from_start=True, poll_interval_s=0.001)
        assert next(followed).payload == {"n": 1}
        attack(path)
        with pytest.raises(ValueError, match="while it was followed"):
            next(followed)


@pytest.mark.parametrize("interval", [0, -1.0, float("nan"), float("inf"), True])
def test_the_interval_must_be_positive(interval: float, stream: Path) -> None:
    with pytest.raises(ValueError, match="poll_interval_s"):
        iter_event_stream(stream, poll_interval_s=interval)


@pytest.mark.parametrize("max_events", [0, -1, True, 1.5])
def test_the_number_of_events_must_be_positive(max_events: Any, stream: Path) -> None:
    with pytest.raises(ValueError, match="max_events"):
        tail_event_stream(stream, max_events=max_events)


# --- STL results ------------------------------------------------------------------------------------------------


def test_stl_results_are_events_of_the_stream(tmp_path: Path) -> None:
    results = [StlAuditResult("G (R > 0.3)", 0.25, True, "native"), StlAuditResult("F (R > 1)", -1.0, False, "native")]
    with EventStreamWriter(tmp_path / "stream") as writer:
        writer.write({"step": 1})
        for result in results:
            write_stl_result(writer, result)
    events = read_event_stream(tmp_path / "stream")
    assert events[1].event_type == STL_EVENT_TYPE == "stl.trace_result"
    assert events[1].payload == {"spec": "G (R > 0.3)", "robustness": 0.25, "satisfied": True, "backend": "native"}
    assert read_stl_results(events) == results


@pytest.mark.parametrize("robustness", [float("inf"), float("-inf"), float("nan"), True, "1"])
def test_an_stl_result_must_be_finite(robustness: Any) -> None:
    with pytest.raises(ValueError, match="robustness"):
        StlAuditResult("G (R > 0.3)", robustness, True, "native")


@pytest.mark.parametrize(
    "payload",
    [
        {"spec": "x", "robustness": 1.0, "satisfied": True},
        {"spec": "x", "robustness": 1.0, "satisfied": True, "backend": "b", "more": 1},
        {"spec": "", "robustness": 1.0, "satisfied": True, "backend": "b"},
        {"spec": "x", "robustness": 1.0, "satisfied": 1, "backend": "b"},
    ],
)
def test_an_stl_payload_has_exactly_four_fields(payload: dict[str, Any], tmp_path: Path) -> None:
    with EventStreamWriter(tmp_path / "stream") as writer:
        writer.write(payload, event_type=STL_EVENT_TYPE)
    with pytest.raises(ValueError, match="event 1"):
        read_stl_results(read_event_stream(tmp_path / "stream"))
