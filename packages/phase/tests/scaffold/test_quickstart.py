"""The bundled record holds, and every way to falsify it is found."""

import hashlib
import shutil

import pytest

from ripieno.signing import detached_signature, generate_key
from ripieno.verify import VerifyStatus, verify
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime._audit_check import check_log
from scpn_phase_orchestrator.scaffold.quickstart import EVIDENCE, check_record, run_pack


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch):
    for name in ("SPO_AUDIT_KEY", "SPO_AUDIT_KEYRING", "SPO_AUDIT_ENV", "SPO_AUDIT_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def record(tmp_path):
    return shutil.copytree(EVIDENCE, tmp_path / "evidence")


def outcome(stages):
    return [(stage.title, stage.is_ok) for stage in stages]


def test_a_pack_goes_through_four_stages():
    stages = list(run_pack("power_grid", steps=40, seed=42))
    assert outcome(stages) == [
        ("validate", True), ("run", True), ("check the audit chain", True), ("report", True),
    ]  # fmt: skip
    assert "39 transitions re-executed bit for bit" in stages[2].detail
    assert stages[3].lines[0] == "Steps: 40  Layers: 5"


def test_the_bundled_record_is_complete_and_signed():
    stages = list(check_record(EVIDENCE, reexecute=False))
    assert outcome(stages) == [
        ("hash chain", True), ("closing record", True), ("signature", True), ("report", True),
    ]  # fmt: skip
    assert stages[2].detail.startswith("ML-DSA-65 signature over the head holds, key ")
    assert verify(EVIDENCE / "run.jsonl").status is VerifyStatus.COMPLETE


def test_the_auditor_executes_every_step_and_finds_a_flipped_bit():
    before = hashlib.sha256((EVIDENCE / "run.jsonl").read_bytes()).hexdigest()
    stages = list(check_record(EVIDENCE, reexecute=True))
    assert outcome(stages) == [
        ("hash chain and closing record", True), ("signature", True), ("re-execution", True), ("tampering", True),
    ]  # fmt: skip
    assert stages[2].detail.startswith("119 transitions executed again: ")
    assert stages[3].record["found"].startswith("line ")
    assert hashlib.sha256((EVIDENCE / "run.jsonl").read_bytes()).hexdigest() == before


@pytest.mark.parametrize("reexecute", [False, True])
@pytest.mark.parametrize("position", [0, 50_000, -2])
def test_a_flipped_bit_in_the_record_ends_the_check(record, reexecute, position):
    data = bytearray((record / "run.jsonl").read_bytes())
    data[position] ^= 1
    (record / "run.jsonl").write_bytes(data)
    (stage,) = check_record(record, reexecute=reexecute)
    assert not stage.is_ok
    assert "line " in stage.detail


def test_a_cut_tail_fails_closing_record_and_signature(record):
    lines = (record / "run.jsonl").read_bytes().splitlines(keepends=True)
    (record / "run.jsonl").write_bytes(b"".join(lines[:-1]))
    assert outcome(check_record(record, reexecute=False)) == [
        ("hash chain", True), ("closing record", False), ("signature", False), ("report", True),
    ]  # fmt: skip
    assert outcome(check_record(record, reexecute=True))[:2] == [
        ("hash chain and closing record", False), ("signature", False),
    ]  # fmt: skip


def test_a_signature_by_another_key_is_no_signature(record):
    head = check_log(record / "run.jsonl").head
    (record / "run.jsonl.sig").write_bytes(detached_signature(generate_key(), head))
    stages = list(check_record(record, reexecute=False))
    assert outcome(stages)[2] == ("signature", False)
    assert "the trusted one is" in stages[2].detail


def test_a_damaged_signature_is_no_signature(record):
    data = bytearray((record / "run.jsonl.sig").read_bytes())
    data[len(data) // 2] ^= 1
    (record / "run.jsonl.sig").write_bytes(data)
    assert outcome(check_record(record, reexecute=False))[2] == ("signature", False)


def test_keys_for_hmac_are_refused_before_they_make_the_record_look_wrong(monkeypatch):
    monkeypatch.setenv("SPO_AUDIT_KEY", "secret")
    with pytest.raises(AuditError, match="unset them for this command"):
        next(check_record(EVIDENCE, reexecute=False))
