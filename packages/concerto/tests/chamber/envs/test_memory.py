"""What a process with one environment takes: no compiler, and little memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chamber.rollout.references import reference, reference_tasks

LIMIT_MB = 150

PICTURES = "stage1_pickplace_om"
"""Its observations are pictures: what draws them, on most machines a driver of 100 MB, is beside the limit."""

PROGRAM = """
import json, sys
from pathlib import Path
from chamber import tasks
from chamber.rollout.references import reference

task_id, condition, most_steps = json.loads(sys.argv[1])
env = tasks.make(task_id, **({} if condition is None else {"condition_id": condition}))
team = reference(task_id).build(env, condition)
team.reset(seed=0)
obs, _ = env.reset(seed=0)
is_over, n_steps = False, 0
while not is_over and n_steps < most_steps:
    obs, _, terminated, truncated, _ = env.step(team.act(obs))
    is_over, n_steps = terminated or truncated, n_steps + 1
status, peak = Path("/proc/self/status"), None
if status.exists():
    peak = int(dict(line.split(":", 1) for line in status.read_text().splitlines())["VmHWM"].split()[0]) / 1024
compilers = sorted({"numba", "llvmlite", "scipy", "torch"} & set(sys.modules))
print(json.dumps({"peak_mb": peak, "compilers": compilers, "is_over": is_over, "won": terminated}))
"""


@pytest.mark.parametrize(
    ("task_id", "condition"),
    [
        pytest.param(task_id, condition, marks=[pytest.mark.egl] if task_id == PICTURES else [])
        for task_id in reference_tasks()
        for condition in reference(task_id).conditions or (None,)
    ],
)
def test_a_process_that_plays_one_copy_loads_no_compiler_and_fits_in_150_mb(task_id: str, condition: str | None):
    draws = task_id == PICTURES
    program = [sys.executable, "-c", PROGRAM, json.dumps([task_id, condition, 3 if draws else 1000])]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["compilers"] == []
    if draws:
        return
    assert told["is_over"]
    assert told["won"] == (condition in reference(task_id).solvable or task_id == "handover_place")
    if told["peak_mb"] is not None:
        assert told["peak_mb"] < LIMIT_MB
