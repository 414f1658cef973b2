"""The page on the audit log is enough to check a log and a stream without our code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ripieno.verify import VerifyStatus, verify
from scpn_phase_orchestrator.api import load_binding_spec
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.runtime import _array_references, _audit_lines, audit_logger
from scpn_phase_orchestrator.runtime._array_references import REFERENCED_ARRAYS, array_reference
from scpn_phase_orchestrator.runtime._audit_envelope import ENVELOPE_FIELDS
from scpn_phase_orchestrator.runtime._audit_lines import record_kind
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.simulation import simulate

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/reference/phase-audit-log.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
KEY = {"SPO_AUDIT_KEY": "a key of the test"}
HARD = {"text": '\u00e9 \u2028 \U0001f600 " \\ \x7f\x00\n', "numbers": [1e-5, 1e16, -0.0, 5e-324, 2**60], "step": 3}


def write(folder: Path) -> None:
    """Log a run that uses every part of a spec, and an event that is hard to write."""
    spec = load_binding_spec(ROOT / "examples/binding_spec_complete.yaml")
    with AuditLogger(folder / "run.jsonl", event_stream=folder / "run.spoa") as log:
        simulate(spec, steps=40, audit_logger=log)
        log.log_event("hard", HARD)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write(folder)
    return folder


def by_the_page(path: Path, key: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the page's program without any installed package."""
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(path)]
    environment = {**{name: value for name, value in os.environ.items() if name not in KEY}, **(key or {})}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def records(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "run.jsonl").read_text("utf-8").splitlines()]


def members(heading: str) -> list[str]:
    """The names in the first columns of the tables of a section."""
    (text,) = (part for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE) if part.startswith(heading))
    return [name for row in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize("name", ["run.jsonl", "run.spoa"])
def test_the_program_of_the_page_gives_status_and_digest(run: Path, name: str) -> None:
    done = by_the_page(run / name)
    assert (done.stdout, done.stderr) == (f"complete {verify(run / name).digest}\n", "")


@pytest.mark.parametrize("name", ["run.jsonl", "run.spoa"])
def test_the_program_of_the_page_checks_signatures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    monkeypatch.setenv("SPO_AUDIT_KEY", KEY["SPO_AUDIT_KEY"])
    write(tmp_path)
    digest = verify(tmp_path / name).digest
    assert by_the_page(tmp_path / name, KEY).stdout == f"complete {digest}\n"
    assert by_the_page(tmp_path / name).stdout == f"complete {digest}\n"
    assert by_the_page(tmp_path / name, {"SPO_AUDIT_KEY": "another"}).returncode == 1
    assert by_the_page(run / name, KEY).returncode == 1, "an unsigned log does not pass where a key is known"


@pytest.mark.parametrize("name", ["run.jsonl", "run.spoa"])
def test_the_program_of_the_page_refuses_what_the_verifier_refuses(
    run: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPO_AUDIT_KEY", raising=False)
    data = (run / name).read_bytes()
    changed = tmp_path / name
    monkeypatch.setattr(sys, "argv", ["", str(changed)])
    program = compile(PROGRAM, "page", "exec")
    for place in range(0, len(data), len(data) // 60 + 1):
        changed.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        report = verify(changed) if place else None
        if report is not None and report.status is VerifyStatus.INTERRUPTED:
            continue  # the flipped bit made half a record of the last one
        assert report is None or not report.ok
        with pytest.raises((AssertionError, ValueError, KeyError, IndexError, AttributeError)):
            exec(program, {"__name__": "page"})


def test_a_log_without_its_end_is_interrupted(run: Path, tmp_path: Path) -> None:
    lines = (run / "run.jsonl").read_bytes().splitlines(keepends=True)
    for end in (b"", lines[-1][:100]):
        (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:-1]) + end)
        done = by_the_page(tmp_path / "cut.jsonl")
        assert done.stdout == f"interrupted {json.loads(lines[-2])['_hash']}\n"
        assert verify(tmp_path / "cut.jsonl").status is VerifyStatus.INTERRUPTED


def test_the_tables_of_the_page_name_every_member(run: Path) -> None:
    written = {"Header": "header", "Step": "step", "Closing record": "closing"}
    sources = "".join(Path(module.__file__).read_text("utf-8") for module in (audit_logger, _array_references))
    for heading, kind in written.items():
        found = {
            name.removesuffix("_ref") if name.removesuffix("_ref") in REFERENCED_ARRAYS else name
            for record in records(run)
            if record_kind(record) == kind
            for name in (record["closing"] if kind == "closing" else record)
            if not name.startswith("_")
        }
        named = set(members(heading))
        assert found <= named, heading
        assert {name for name in named if f'"{name}"' not in sources} == set(), heading
    assert set(members("The chain")) == _audit_lines._SIGNED_KEYS
    assert members("Modulation") == list(Modulation.__dataclass_fields__)
    rows = re.findall(r"^\| (\d+) `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    expected = [(str(i), name, kind.rpartition(".")[2]) for i, (name, kind) in enumerate(ENVELOPE_FIELDS, 1)]
    assert rows == expected


def test_arrays_are_named_as_the_page_says(run: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(PROGRAM.split("def check_log")[0], namespace)
    for array in (np.zeros((5, 5)), np.arange(3.0), np.array([[1e-300]])):
        assert namespace["reference"](array.tolist()) == array_reference(array)
