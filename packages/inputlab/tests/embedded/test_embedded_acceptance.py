"""Acceptance case 25: the whole way through the public command, twice, in two folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TASKS = [str(number) for number in range(16, 24)]
BASELINE = [1, 1, 1, 1, 0, 0, 0, 0]
PLANNED = [1, 1, 1, 0, 1, 1, 1, 0]


def run(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Play the test split and give the result of every arm."""
    command = [
        sys.executable,
        "-m",
        "agentinputlab",
        "retail",
        "run",
        "--arena",
        "embedded",
        "--no-fsync",
        "--treatment",
    ]
    done = subprocess.run(
        [*command, "plan.plan_and_solve.ps_prompt", "--out", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for outcome in folder.glob("pairs/*/*/*/arm-outcome.json"):
        request = json.loads((outcome.parents[1] / "request.json").read_bytes())["atomic_request"]
        result = json.loads(outcome.read_bytes())["result"]
        results[request["checkpoint_id"], outcome.parent.name] = result
    return results


def test_planning_gives_the_pinned_vectors_and_equal_traces_in_two_ledgers(tmp_path: Path) -> None:
    first, second = run(tmp_path / "one"), run(tmp_path / "two")
    assert [first[task, "baseline"]["metrics"]["terminal_success"] for task in TASKS] == BASELINE
    assert [first[task, "treatment"]["metrics"]["terminal_success"] for task in TASKS] == PLANNED
    assert {key: row["trace_hash"] for key, row in first.items()} == {
        key: row["trace_hash"] for key, row in second.items()
    }
    assert len(first) == 16
