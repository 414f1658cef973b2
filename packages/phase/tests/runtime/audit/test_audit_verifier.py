"""``ripieno verify`` knows audit logs and streams, and says of them what it says of run folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from audit_runs import judged

from ripieno.errors import InputError
from ripieno.verify import VerifyOptions, VerifyStatus, verify
from scpn_phase_orchestrator.runtime.audit_verifier import AUDIT_VERIFIER


def test_a_log_is_found_through_the_entry_point(closed_log: Path) -> None:
    report = verify(closed_log)
    assert (report.format, report.status) == ("phase audit log", VerifyStatus.COMPLETE)
    assert report.checks[0].detail == "9 records (6 steps, 2 events)"
    assert verify(closed_log, expect=report.digest).ok
    assert verify(closed_log, expect="0" * 64).status is VerifyStatus.TAMPERED


def test_an_open_log_is_interrupted(open_log: Path) -> None:
    report = verify(open_log)
    assert report.status is VerifyStatus.INTERRUPTED
    assert "not closed" in report.checks[1].detail


def test_a_damaged_log_is_still_recognised(closed_log: Path) -> None:
    data = bytearray(closed_log.read_bytes())
    for place in range(0, len(data), 97):
        data[place] ^= 1
    closed_log.write_bytes(bytes(data))
    assert verify(closed_log).status is VerifyStatus.TAMPERED


@pytest.mark.parametrize("content", [b"", b'{"a": 1}\n', b"\x00" * 100, b"SPOA"])
def test_other_files_are_left_to_others(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert not AUDIT_VERIFIER.recognises(tmp_path / "file")
    assert not AUDIT_VERIFIER.recognises(tmp_path)
    assert verify(tmp_path / "file").status is VerifyStatus.NOT_A_RUN


def test_execution_is_a_further_row(closed_log: Path) -> None:
    rows = judged(closed_log, reexecute=True).checks
    assert rows[-1].name == "re-execution"
    assert rows[-1].detail == "5 transitions confirmed, bit for bit"


def test_unusable_keys_are_no_verdict(closed_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEYRING", "{}")
    with pytest.raises(InputError, match="SPO_AUDIT_KEYRING"):
        AUDIT_VERIFIER.verify(closed_log, VerifyOptions())


def test_importing_the_verifier_loads_no_numeric_library() -> None:
    code = (
        "import sys, scpn_phase_orchestrator.runtime.audit_verifier;"
        "print([name for name in ('numpy', 'numba', 'scipy', 'yaml', 'google.protobuf') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
