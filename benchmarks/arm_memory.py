"""How much memory does a process take that makes one environment of a task and plays an episode with its references?

Run `python benchmarks/arm_memory.py`; it writes `results/arm_memory.json` and `results/arm_memory.md`. Every figure is
from a fresh process. One copy may load no compiler, or the benchmark fails; several copies of most tasks load one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _common import write_results

from chamber.rollout.references import reference, reference_tasks
from chamber.tasks import get

LIMIT_MB = 150
RUNS = 3
COPIES = 4
STAGES = Path(__file__).parent / "_arm_memory_stages.py"
PICTURES = "stage1_pickplace_om"
SINGLE = ("stage0_smoke",)
"""Tasks on MuJoCo that have one copy only."""


def measured(task_id: str, condition: str | None, n_copies: int) -> dict[str, Any]:
    """What a fresh process tells."""
    command = [sys.executable, str(STAGES), task_id, condition or "-", str(n_copies)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def peak_of_command(*words: str) -> int:
    """Largest resident memory of a call of ``chamber``, MB."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", "from chamber.cli.main import main; main()", *words],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"chamber {' '.join(words)} ended with {process.returncode}")
    return round(usage.ru_maxrss / 1024)


def row_of(task_id: str, condition: str | None) -> dict[str, Any]:
    runs = [measured(task_id, condition, 1) for _ in range(RUNS)]
    if any({"numba", "llvmlite", "scipy"} & set(run["loaded"]) for run in runs):
        raise RuntimeError(f"{task_id} loads a compiler for one copy: {runs[0]['loaded']}")

    def worst(stage: str, figure: str = "rss") -> int:
        return round(max(run["stages"][stage][figure] for run in runs))

    chosen = () if condition is None else ("--condition", condition)
    several = "" if task_id in SINGLE else round(measured(task_id, condition, COPIES)["peak"])
    return {
        "task": task_id,
        "condition": (condition or "").removeprefix(f"{task_id}_").removeprefix("stage1_pickplace_"),
        "imports": worst("imports"),
        "made": worst("made"),
        "played": worst("played"),
        "of it no file": worst("played", "own"),
        "peak": round(max(run["peak"] for run in runs)),
        f"{COPIES} copies": several,
        "`chamber run`, no pictures": peak_of_command("run", task_id, *chosen, "--no-pictures", "--out", "run"),
        "`chamber run`": peak_of_command("run", task_id, *chosen, "--out", "run"),
        "`chamber render`": peak_of_command("render", task_id, *chosen, "--out", "end.png"),
    }


def main() -> None:
    arms = [task_id for task_id in reference_tasks() if get(task_id).sim_backend == "mujoco"]
    conditions = [(task_id, name) for task_id in arms for name in reference(task_id).conditions or (None,)]
    for task_id, condition in conditions:
        if task_id not in SINGLE:
            measured(task_id, condition, COPIES)  # fills the cache of compiled code where it is not
    rows = [row_of(task_id, condition) for task_id, condition in conditions]
    most = max(row["peak"] for row in rows if row["task"] != PICTURES)
    drawing = max(row["peak"] for row in rows if row["task"] == PICTURES)
    write_results(
        "arm_memory",
        title="Memory of one environment with arms",
        method=(
            "Resident memory of fresh processes, MB, libraries and interpreter included, that make one environment and "
            f"play an episode with the reference team; the largest of {RUNS} runs, by stage, and the peak. Limit: "
            f"{LIMIT_MB} MB for one copy; the most is {most}. Beside the limit are the conditions that observe "
            f"pictures, at most {drawing}: some 100 MB more are OpenGL, here Mesa's software renderer with LLVM. 'No "
            f"file' is what is not mapped from libraries, which processes share. One copy is computed in plain Python, "
            f"and loads no compiler; {COPIES} copies, moved at random, load Numba where they are scored compiled, and "
            "with it LLVM and SciPy, and their code from Numba's cache. The last columns are peaks of whole commands, "
            "one episode each; what a run records and the page it writes are in them, and in the last two the pictures "
            "for people, with edges smoothed and shadows."
        ),
        columns=list(rows[0]),
        rows=rows,
        limits={"one_copy_mb": LIMIT_MB},
    )


if __name__ == "__main__":
    main()
