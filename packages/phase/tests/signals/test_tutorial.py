"""The tutorial and the example do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
TUTORIAL = ROOT / "docs/tutorials/phases-from-your-data.md"


def run(command, folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def test_every_block_of_the_tutorial_runs_and_prints_what_it_shows(tmp_path):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks].count("text") >= 3
    output = ""
    for kind, block in blocks:
        if kind == "text":
            shown = " ".join(output.split())
            for line in block.splitlines():
                assert " ".join(line.split()) in shown, line
        else:
            command = [sys.executable, "-c", block] if kind == "python" else ["bash", "-euc", block]
            output = run(command, tmp_path)
    assert (tmp_path / "phases.png").stat().st_size > 10_000


def test_the_tutorial_states_the_rules_that_hold():
    from scpn_phase_orchestrator.signals import extraction, repair, timebase

    text = TUTORIAL.read_text(encoding="utf-8")
    assert repair.BRIDGED_PERIODS == 1 / 4
    assert "at most T / 4 in a row" in text
    assert f"shorter than {repair.SHORTEST_SEGMENT_PERIODS:g} T" in text
    assert f"(and {repair.STUCK_SAMPLES} samples)" in text
    assert f"({extraction.EDGE_RINGS} over the bandwidth)" in text
    assert f"more than {timebase.GAP_STEPS} periods" in text


def test_the_example_prints_known_facts_and_draws(tmp_path):
    pytest.importorskip("matplotlib")
    output = run([sys.executable, str(ROOT / "examples/phase_real_series.py"), str(tmp_path)], tmp_path)
    assert "sunspots: one cycle lasts 10.9 year" in output or "sunspots: one cycle lasts 11" in output
    assert re.search(r"co2: one cycle lasts (1|0\.99\d|1\.00\d) year", output)
    assert "does not move for a period or longer" in output
    assert "clipped at the limit" in output
    assert len(list(tmp_path.glob("*.png"))) == 5
