"""The how-to page of local models: its commands are accepted, and its bounds and endings are the program's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from workers.official_arenas._trace_measurement import safe_trace_measurement

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "measure-a-local-model.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("agentinputlab retail run")]


def test_the_cost_is_shown_and_nothing_is_started(tmp_path: Path) -> None:
    lines = commands()
    assert len(lines) == 2
    for line in lines:
        done = subprocess.run(
            [sys.executable, "-m", *line.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Nothing was started" in done.stderr
        if line == lines[0]:
            for bound in re.findall(r"^\| (?:model calls|tokens \w+) \| ([\d,]+) \|$", PAGE, re.MULTILINE):
                assert bound in done.stderr, bound
    assert not list(tmp_path.iterdir())


def test_endings_of_the_page_are_known_to_the_program() -> None:
    endings = re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)
    assert len(endings) == 5
    for ending in endings:
        assert safe_trace_measurement({"messages": [], "termination": ending})["termination"] == ending
