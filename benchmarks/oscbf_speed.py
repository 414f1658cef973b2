"""How long does the arm filter take per control step, and how near is that to its floor?

Run `python benchmarks/oscbf_speed.py`; it writes `results/oscbf_speed.json` and `results/oscbf_speed.md`.
Every figure is the wall time of one Python call on one core. The floor is the bare call of the compiled
solver (DAQP) on the same program: no filter in Python on top of that solver can be faster.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import daqp
import numpy as np

from concerto.safety.oscbf import OSCBF, OSCBFConstraints, joint_limit_constraint_row
from concerto.safety.solvers import ClarabelSolver, OSQPSolver
from ripieno._environment import machine
from ripieno.canonical import INDENTED_LINE
from ripieno.files import write_atomic
from ripieno.randomness import derive_substream

N_JOINTS, N_ROWS = 7, 14
N_PROBLEMS = 200
LIMIT_US = 30.0
RESULTS = Path(__file__).parent / "results"

Problem = dict[str, object]


def random_problems(name: str, constraints_of: Callable[[np.random.Generator], OSCBFConstraints]) -> list[Problem]:
    rng = derive_substream(f"benchmark.oscbf_speed.{name}", root_seed=0).default_rng()
    return [
        {
            "q_dot_nom": rng.normal(size=N_JOINTS),
            "nu_nom": rng.normal(size=6),
            "jacobian": rng.normal(size=(6, N_JOINTS)),
            "constraints": constraints_of(rng),
        }
        for _ in range(N_PROBLEMS)
    ]


def dense_rows(rng: np.random.Generator) -> OSCBFConstraints:
    """Rows like those of collision barriers: every joint takes part, and about half of the rows pull."""
    return OSCBFConstraints(a=rng.normal(size=(N_ROWS, N_JOINTS)), b=0.3 * rng.normal(size=N_ROWS))


def velocity_limits(_: np.random.Generator) -> OSCBFConstraints:
    """An upper and a lower limit for every joint; few of them pull."""
    rows = [
        joint_limit_constraint_row(n_joints=N_JOINTS, joint_index=k, **bound)
        for k in range(N_JOINTS)
        for bound in ({"upper": 2.0}, {"lower": -2.0})
    ]
    return OSCBFConstraints(a=np.array([row for row, _ in rows]), b=np.array([rhs for _, rhs in rows]))


def microseconds(call: Callable[[int], object], n_calls: int) -> dict[str, float]:
    """Median and 5 % to 95 % range of single calls, after a warm-up over all problems."""
    for k in range(N_PROBLEMS):
        call(k)
    times = np.empty(n_calls)
    for k in range(n_calls):
        started = time.perf_counter_ns()
        call(k % N_PROBLEMS)
        times[k] = time.perf_counter_ns() - started
    low, median, high = np.percentile(times, [5, 50, 95]) / 1e3
    return {"p05_us": round(low, 2), "median_us": round(median, 2), "p95_us": round(high, 2)}


def solver_alone(problems: list[Problem]) -> Callable[[int], object]:
    """The bare solver call on the programs that the filter assembles."""
    arm = OSCBF(n_joints=N_JOINTS)
    programs = []
    for problem in problems:
        arm.solve(**problem)
        assembled = arm._problem
        arrays = (assembled.P, assembled.q, assembled.needed_G, assembled.needed_h, assembled.lower, assembled.sense)
        programs.append([array.copy() for array in arrays])
    return lambda k: daqp.solve(*programs[k], primal_tol=1e-10, dual_tol=1e-12, zero_tol=1e-14, sing_tol=1e-16)


def filter_calls(arm: OSCBF, problems: list[Problem]) -> Callable[[int], object]:
    return lambda k: arm.solve(**problems[k])


def measure() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    problem_sets = {
        "14 dense rows": random_problems("dense", dense_rows),
        "14 velocity limits": random_problems("limits", velocity_limits),
    }
    for name, problems in problem_sets.items():
        floor = microseconds(solver_alone(problems), 20_000)
        rows.append({"problem": name, "what": "floor: the solver call alone", **floor})
        filters = {
            "OSCBF (default)": (OSCBF(n_joints=N_JOINTS), 20_000),
            "OSCBF, exact slack": (OSCBF(n_joints=N_JOINTS, slack="exact"), 20_000),
            "OSCBF, null-space objective": (OSCBF(n_joints=N_JOINTS, null_space_objective=True), 20_000),
            "OSCBF on Clarabel": (OSCBF(n_joints=N_JOINTS, solver=ClarabelSolver()), 2_000),
            "OSCBF on OSQP": (OSCBF(n_joints=N_JOINTS, solver=OSQPSolver()), 2_000),
        }
        for label, (arm, n_calls) in filters.items():
            result = microseconds(filter_calls(arm, problems), n_calls)
            share = round(floor["median_us"] / result["median_us"], 2)
            rows.append({"problem": name, "what": label, **result, "floor_share": share})
    return rows


def markdown(report: dict[str, object], rows: list[dict[str, object]]) -> str:
    where = report["machine"]
    method = (
        f"{N_JOINTS} joints, {N_ROWS} rows, task of 6 dimensions, {N_PROBLEMS} random problems each. Wall time of one "
        f"Python call on one core, microseconds. Limit: {LIMIT_US:g}. Floor: the bare solver call on the same program; "
        "the share says which part of the time is the floor."
    )
    setting = (
        f"Machine: {where['cpu_model']}, {where['cpu_count']} cores (shared with other work, load {where['load']}), "
        f"Python {where['python']}, NumPy {where['numpy']}. Command: `python benchmarks/oscbf_speed.py`."
    )
    lines = [
        "# Speed of the arm filter",
        "",
        method,
        "",
        setting,
        "",
        "| Problem | What | Median | 5 % | 95 % | Share of the floor |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines.extend(
        f"| {row['problem']} | {row['what']} | {row['median_us']} | {row['p05_us']} | {row['p95_us']} "
        f"| {row.get('floor_share', '')} |"
        for row in rows
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = measure()
    host = machine()
    report: dict[str, object] = {
        "benchmark": "oscbf_speed",
        "limit_us": LIMIT_US,
        "machine": {
            "cpu_model": host["cpu_model"],
            "cpu_count": host["cpu_count"],
            "load": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    write_atomic(RESULTS / "oscbf_speed.json", INDENTED_LINE.dumps(report))
    write_atomic(RESULTS / "oscbf_speed.md", markdown(report, rows).encode())
    print((RESULTS / "oscbf_speed.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
