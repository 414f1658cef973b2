"""Logs of small runs, driven by the real engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # test modules share helpers by name

from audit_runs import drive

from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger

VARIABLES = ("KEY", "KEYRING", "ENV", "PROFILE")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no production mode unless a test says so."""
    for name in (*(f"SPO_AUDIT_{name}" for name in VARIABLES), "SPO_ENV", "SPO_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def closed_log(tmp_path: Path) -> Path:
    """Header, six steps with an action, two events, closing record."""
    path = tmp_path / "run.jsonl"
    with AuditLogger(path) as log:
        drive(log)
    return path


@pytest.fixture
def open_log(tmp_path: Path) -> Path:
    """The same of a process that died before the end."""
    path = tmp_path / "run.jsonl"
    log = AuditLogger(path)
    drive(log)
    log.abandon()
    return path
