"""What every benchmark shares: one core, one clock, one way to describe the machine and to write results."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ripieno._environment import machine
from ripieno.canonical import INDENTED_LINE
from ripieno.files import write_atomic

RESULTS = Path(__file__).parent / "results"


def pin_to_one_core() -> None:
    """Keep this process on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def host(*packages: str) -> dict[str, object]:
    """Describe the machine, its load now, and the versions that matter."""
    known = machine()
    return {
        "cpu_model": known["cpu_model"],
        "cpu_count": known["cpu_count"],
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "numba", *packages)},
    }


def timed(call: Callable[[int], object], *, calls: int, warm_up: int = 200, unit: float = 1e3) -> dict[str, float]:
    """Median and quartiles of single calls ``call(k)``; ``unit`` is nanoseconds per reported unit."""
    for k in range(warm_up):
        call(k)
    times = np.empty(calls)
    for k in range(calls):
        started = time.perf_counter_ns()
        call(k)
        times[k] = time.perf_counter_ns() - started
    low, median, high = np.percentile(times, [25, 50, 75]) / unit
    return {"median": round(median, 2), "quartile_1": round(low, 2), "quartile_3": round(high, 2)}


def write_results(
    name: str, *, title: str, method: str, columns: Sequence[str], rows: Sequence[dict[str, object]], **extra: object
) -> None:
    """Write ``results/NAME.json`` and ``results/NAME.md`` and print the table; ``columns`` are keys of the rows."""
    report = {"benchmark": name, "machine": host(), **extra, "rows": list(rows)}
    where = report["machine"]
    setting = (
        f"Machine: {where['cpu_model']}, {where['cpu_count']} cores, load {where['load']} at the end, Python "
        f"{where['python']}, NumPy {where['numpy']}, Numba {where['numba']}. "
        f"Command: `.venv/bin/python benchmarks/{name}.py`."
    )
    lines = [
        f"# {title}",
        "",
        method,
        "",
        setting,
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows),
    ]
    RESULTS.mkdir(exist_ok=True)
    write_atomic(RESULTS / f"{name}.json", INDENTED_LINE.dumps(report))
    write_atomic(RESULTS / f"{name}.md", ("\n".join(lines) + "\n").encode())
    print("\n".join(lines))
