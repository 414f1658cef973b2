"""Keys: where they come from, what they are called, and when they are required."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit_runs import drive, judged, rechain, records_of, replayed

from ripieno.verify import VerifyStatus
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.audit_signing import (
    SIGNATURE_ALGORITHM,
    AuditSigner,
    audit_signer,
    audit_verification_keys,
    key_id_for_secret,
)
from scpn_phase_orchestrator.runtime.audit_stream import EnvelopeFrames, EventStreamWriter, read_event_stream


def test_key_id_is_the_documented_one() -> None:
    assert key_id_for_secret("test-key") == "62af8704764faf8e"
    assert SIGNATURE_ALGORITHM == "HMAC-SHA256"


def test_a_signer_does_not_show_its_secret() -> None:
    assert "test-key" not in repr(AuditSigner("test-key"))


def test_without_variables_there_is_no_key() -> None:
    assert audit_signer() is None
    assert audit_verification_keys() == {}


def test_an_empty_key_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "")
    with pytest.raises(ValueError, match="SPO_AUDIT_KEY must not be empty"):
        audit_signer()
    with pytest.raises(AuditError, match="SPO_AUDIT_KEY must not be empty"):
        AuditLogger(tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_the_keyring_adds_verification_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "new")
    monkeypatch.setenv("SPO_AUDIT_KEYRING", json.dumps({key_id_for_secret("old"): "old"}))
    assert audit_verification_keys() == {key_id_for_secret("new"): "new", key_id_for_secret("old"): "old"}


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{}", "[]", "3", "not json", '{"deadbeefdeadbeef": "x"}', '{"deadbeefdeadbeef": ""}',
        '{"deadbeefdeadbeef": 3}', '{"a": NaN}', '{"62af8704764faf8e": "test-key", "62af8704764faf8e": "test-key"}',
    ],
)  # fmt: skip
def test_an_unusable_keyring_is_an_error_and_verifies_nothing(
    text: str, monkeypatch: pytest.MonkeyPatch, closed_log: Path
) -> None:
    replay = replayed(closed_log)
    monkeypatch.setenv("SPO_AUDIT_KEYRING", text)
    with pytest.raises(ValueError, match="SPO_AUDIT_KEYRING"):
        audit_verification_keys()
    assert replay.verify_integrity(replay.load()) == (False, 0)
    with pytest.raises(ValueError, match="SPO_AUDIT_KEYRING"):
        replay.verify()


def test_a_log_that_two_keys_signed_is_verified_with_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "log"
    monkeypatch.setenv("SPO_AUDIT_KEY", "old")
    first = AuditLogger(path)
    drive(first, 3)
    first.abandon()
    monkeypatch.setenv("SPO_AUDIT_KEY", "new")
    with pytest.raises(AuditError, match="line 1"):
        AuditLogger(path)
    monkeypatch.setenv("SPO_AUDIT_KEYRING", json.dumps({key_id_for_secret("old"): "old"}))
    with AuditLogger(path) as second:
        drive(second, 3)
    records = records_of(path)
    assert [record["_audit_sequence"] for record in records] == list(range(1, len(records) + 1))
    assert {record["_signature"]["key_id"] for record in records} == {key_id_for_secret(s) for s in ("old", "new")}
    report = judged(path)
    assert report.status is VerifyStatus.COMPLETE
    assert report.checks[-1].detail == f"{len(records)} signatures checked"


def test_an_unsigned_log_is_not_continued_with_a_key(open_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    with pytest.raises(AuditError, match=r"line 1 .*not signed"):
        AuditLogger(open_log)


def test_a_signed_log_is_not_continued_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    log = AuditLogger(tmp_path / "log")
    drive(log, 1)
    log.abandon()
    monkeypatch.delenv("SPO_AUDIT_KEY")
    with pytest.raises(AuditError, match=r"line 1 .*signed; set SPO_AUDIT_KEY"):
        AuditLogger(tmp_path / "log")


def test_without_keys_a_signed_log_verifies_and_says_that_signatures_were_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    with AuditLogger(tmp_path / "log") as log:
        drive(log, 1)
    monkeypatch.delenv("SPO_AUDIT_KEY")
    report = judged(tmp_path / "log")
    assert report.status is VerifyStatus.COMPLETE
    assert "not checked" in report.checks[-1].detail


@pytest.mark.parametrize("name", ["SPO_AUDIT_ENV", "SPO_AUDIT_PROFILE", "SPO_ENV", "SPO_PROFILE"])
def test_production_needs_a_key(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(name, "production")
    with pytest.raises(AuditError, match="SPO_AUDIT_KEY"):
        AuditLogger(tmp_path / "log")
    assert not (tmp_path / "log").exists()
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    AuditLogger(tmp_path / "log").close()
    assert records_of(tmp_path / "log")[0]["_audit_mode"] == "hmac-signed"


def test_signed_and_unsigned_records_in_one_log_are_refused_without_a_key_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    with AuditLogger(tmp_path / "log") as log:
        drive(log, 3)
    monkeypatch.delenv("SPO_AUDIT_KEY")
    records = records_of(tmp_path / "log")
    for record in records[3:]:
        for name in [name for name in record if name.startswith("_")]:
            del record[name]
        record["_audit_mode"] = "unsigned-development"
    (tmp_path / "log").write_bytes(rechain(records))
    report = judged(tmp_path / "log")
    assert report.status is VerifyStatus.TAMPERED
    assert report.first_problem == "line 4: signed and unsigned records in one log"


def test_signed_and_unsigned_events_in_one_stream_are_refused_without_a_key_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "stream"
    with EventStreamWriter(path) as writer:
        writer.write({"n": 1})
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    first = read_event_stream(path)[0]
    frames = EnvelopeFrames(signer=audit_signer())
    data, _ = frames.encode({"event_type": "record", "payload_json": b"{}"}, first.event_hash, 1, closing=False)
    monkeypatch.delenv("SPO_AUDIT_KEY")
    path.write_bytes(path.read_bytes() + data)
    assert judged(path).first_problem == "event 2: signed and unsigned events in one stream"
