"""How long does the arm filter take per control step, and how near is that to its floor?

Run `python benchmarks/oscbf_speed.py`; it writes `results/oscbf_speed.json` and `results/oscbf_speed.md`.
Every figure is the wall time of one Python call on one core. The floor is the bare call of the compiled
solver (DAQP) on the same program: no filter in Python on top of that solver can be faster.
"""

from __future__ import annotations

from collections.abc import Callable

import daqp
import numpy as np
from _common import pin_to_one_core, timed, write_results

from concerto.safety.oscbf import OSCBF, OSCBFConstraints, joint_limit_constraint_row
from concerto.safety.solvers import ClarabelSolver, OSQPSolver
from ripieno.randomness import derive_substream

N_JOINTS, N_ROWS = 7, 14
N_PROBLEMS = 200
LIMIT_US = 30.0

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


def solver_alone(problems: list[Problem]) -> Callable[[int], object]:
    """The bare solver call on the programs that the filter assembles."""
    arm = OSCBF(n_joints=N_JOINTS)
    programs = []
    for problem in problems:
        arm.solve(**problem)
        assembled = arm._problem
        arrays = (assembled.P, assembled.q, assembled.needed_G, assembled.needed_h, assembled.lower, assembled.sense)
        programs.append([array.copy() for array in arrays])
    return lambda k: daqp.solve(
        *programs[k % N_PROBLEMS], primal_tol=1e-10, dual_tol=1e-12, zero_tol=1e-14, sing_tol=1e-16
    )


def filter_calls(arm: OSCBF, problems: list[Problem]) -> Callable[[int], object]:
    return lambda k: arm.solve(**problems[k % N_PROBLEMS])


def measure() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    problem_sets = {
        "14 dense rows": random_problems("dense", dense_rows),
        "14 velocity limits": random_problems("limits", velocity_limits),
    }
    for name, problems in problem_sets.items():
        floor = timed(solver_alone(problems), calls=20_000)
        rows.append({"problem": name, "what": "floor: the solver call alone", **floor})
        filters = {
            "OSCBF (default)": (OSCBF(n_joints=N_JOINTS), 20_000),
            "OSCBF, exact slack": (OSCBF(n_joints=N_JOINTS, slack="exact"), 20_000),
            "OSCBF, null-space objective": (OSCBF(n_joints=N_JOINTS, null_space_objective=True), 20_000),
            "OSCBF on Clarabel": (OSCBF(n_joints=N_JOINTS, solver=ClarabelSolver()), 2_000),
            "OSCBF on OSQP": (OSCBF(n_joints=N_JOINTS, solver=OSQPSolver()), 2_000),
        }
        for label, (arm, n_calls) in filters.items():
            result = timed(filter_calls(arm, problems), calls=n_calls)
            share = round(floor["median"] / result["median"], 2)
            rows.append({"problem": name, "what": label, **result, "share of the floor": share})
    return rows


def main() -> None:
    pin_to_one_core()
    write_results(
        "oscbf_speed",
        title="Speed of the arm filter",
        method=f"{N_JOINTS} joints, {N_ROWS} rows, task of 6 dimensions, {N_PROBLEMS} random problems each. Wall time "
        f"of one Python call on one core, microseconds. Limit: {LIMIT_US:g}. Floor: the bare solver call on the same "
        "program; the share says which part of the time is the floor.",
        columns=["problem", "what", "median", "quartile_1", "quartile_3", "share of the floor"],
        rows=measure(),
        limit_us=LIMIT_US,
    )


if __name__ == "__main__":
    main()
