"""How much memory does a process take that makes one co-carry environment and plays an episode with both controllers?

Run `python benchmarks/arm_memory.py`; it writes `results/arm_memory.json` and `results/arm_memory.md`. Every figure is
from a fresh process. Several copies load the compiler, one does not; the difference of the columns is what it takes.
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

LIMIT_MB = 150
RUNS = 3
STAGES = Path(__file__).parent / "_arm_memory_stages.py"


def measured(n_copies: int, *, cache: str | None = None) -> dict[str, Any]:
    """What a fresh process tells; ``cache`` is an empty folder for compiled code, None where it always is."""
    environment = dict(os.environ) if cache is None else {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, str(STAGES), str(n_copies)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def worst(runs: list[dict[str, Any]], stage: int, figure: str) -> float:
    return round(max(run["stages"][stage][figure] for run in runs), 1)


def compiling() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as empty:
        return measured(2, cache=empty)


def main() -> None:
    measured(2)  # fills the cache where it is not
    alone = [measured(1) for _ in range(RUNS)]
    cached = [measured(2) for _ in range(RUNS)]
    compiled = [compiling() for _ in range(RUNS)]
    rows: list[dict[str, object]] = [
        {
            "after": stage["stage"],
            "one copy (MB)": worst(alone, place, "rss"),
            "of it no file": worst(alone, place, "own"),
            "two copies, compiled before (MB)": worst(cached, place, "rss"),
            "two copies, compiled now (MB)": worst(compiled, place, "rss"),
        }
        for place, stage in enumerate(alone[0]["stages"])
    ]
    played = next(row for row in rows if str(row["after"]).endswith("steps"))
    write_results(
        "arm_memory",
        title="Memory of one environment with two arms",
        method=(
            f"Resident memory (`Rss` of `/proc/self/smaps_rollup`) of fresh processes that make co-carry and play it "
            f"with both reference controllers, after each stage; the largest of {RUNS} runs. Limit: {LIMIT_MB} MB for "
            f"one copy after its steps, libraries and interpreter included; it is {played['one copy (MB)']}. 'No file' "
            "is what is not mapped from libraries, which processes share. One copy is computed in plain Python, and "
            "loads no compiler; two copies load Numba, and with it LLVM and SciPy, and their code from Numba's cache "
            "or, the first time ever, from its compiler. The last stage adds ten environments in the process of one "
            "copy, and an environment of 100 copies in the others."
        ),
        columns=list(rows[0]),
        rows=rows,
        loaded={"one copy": alone[0]["loaded"], "two copies": cached[0]["loaded"]},
        mujoco=alone[0]["simulator"],
        limits={"one_copy_mb": LIMIT_MB},
    )


if __name__ == "__main__":
    main()
