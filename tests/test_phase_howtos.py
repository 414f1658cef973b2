"""The how-to pages of Phase do what they say: every block runs, in order, with the exit code and output shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ripieno._verdict import VerifyStatus
from scpn_phase_orchestrator.binding import _advice
from scpn_phase_orchestrator.runtime._reexecution import PHASE_TOLERANCE, R_TOLERANCE

HOW_TO = Path(__file__).parent.parent / "docs/how-to"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["write-a-pack.md", "check-an-audit-log.md"])
def test_every_block_of_the_page_runs_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    page = (HOW_TO / name).read_text(encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPO_")}
    environment |= {"PATH": PATH, "COLUMNS": "100"}
    output, count = "", 0
    for kind, block in re.findall(r"^```(bash|python|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if kind == "text":
            shown = " ".join(output.split())
            for line in block.splitlines():
                assert " ".join(line.split()) in shown, line
            continue
        command = [sys.executable, "-c", block] if kind == "python" else ["bash", "-euc", block]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        expected = re.findall(r"# exit code (\d)$", block, re.MULTILINE)
        assert done.returncode == int(expected[0] if expected else 0), (block, done.stdout)
        output, count = done.stdout, count + 1
    assert count >= 8


def test_the_warnings_of_the_page_are_those_of_the_program() -> None:
    page = (HOW_TO / "write-a-pack.md").read_text(encoding="utf-8")
    section = page.split("## What the warnings mean")[1].split("\n## ")[0]
    source = re.sub(r'"\s*\n?\s*f?"', "", Path(_advice.__file__).read_text(encoding="utf-8"))
    warnings = re.findall(r"^\| `([^`]*)` \|", section, re.MULTILINE)
    assert len(warnings) > 10
    for warning in warnings:
        start = warning.split(" no driver")[0]
        assert start in source or start.replace("it", "it {wish}") in source, warning


def test_the_statuses_and_tolerances_of_the_page_are_those_of_the_program() -> None:
    page = (HOW_TO / "check-an-audit-log.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == ["complete", "failed", "interrupted", "tampered"]
    assert {status.value for status in VerifyStatus} >= {"complete", "failed", "interrupted", "tampered"}
    assert f"phases have to agree within {PHASE_TOLERANCE:.0e} rad".replace("e-0", "e-") in page
    assert f"{R_TOLERANCE:.0e}" in page
