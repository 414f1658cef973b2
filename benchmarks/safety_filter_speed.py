"""How long does one call of the safety filter take, alone and in a batch, and how near is that to its floor?

Run `python benchmarks/safety_filter_speed.py`; it writes `results/safety_filter_speed.json` and `.md`. Scalar figures
are the wall time of one Python call on one core, with rows that act and with rows that do not. Their floor is the
compiled part alone: one call from Python that builds and checks the rows from packed arrays, and one that projects.
Batched figures are filter steps per second; their floor is one pass over the same input and output arrays.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable

import numpy as np
from _common import pin_to_one_core, timed, write_results

from concerto.safety._assembly import PASS_THROUGH, assemble, pack_states
from concerto.safety.api import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    SafetyMode,
    SafetyState,
    make_lambda_dict,
)
from concerto.safety.batched import BatchedSafetyFilter
from concerto.safety.cbf_qp import DEFAULT_CBF_GAMMA, ExpCBFQP
from concerto.safety.errors import ConcertoSafetyInfeasible
from ripieno.randomness import derive_substream

BOUNDS = Bounds(1.0, 1.0, 10.0, 0.0, 50.0)
N_STATES, CALLS, DT = 200, 20_000, 0.05
N_BATCHES = 15

Call = Callable[[int], object]


def team(rng: np.random.Generator, n_agents: int, spacing: float) -> dict[str, AgentSnapshot]:
    """Place robots on a jittered grid, the ego (first) in the middle, all in slow motion."""
    side = int(np.ceil(np.sqrt(n_agents)))
    cells = np.array(list(itertools.product(range(side), repeat=2)), dtype=np.float64) - (side - 1) / 2
    order = np.argsort(np.linalg.norm(cells, axis=1), kind="stable")[:n_agents]
    positions = spacing * (cells[order] + rng.uniform(-0.1, 0.1, (n_agents, 2)))
    return {f"agent{k:02d}": AgentSnapshot(positions[k], rng.uniform(-0.3, 0.3, 2), 0.2) for k in range(n_agents)}


def ego_call(qp: ExpCBFQP, snapshots: dict[str, AgentSnapshot], nominal: np.ndarray) -> Callable[[], np.ndarray]:
    obs, state = {"agent_states": snapshots}, SafetyState(make_lambda_dict(snapshots, ego_uid="agent00"))
    forecast = {uid: snap for uid, snap in snapshots.items() if uid != "agent00"}
    return lambda: qp.filter(nominal, obs, state, BOUNDS, ego_uid="agent00", partner_predicted_states=forecast, dt=DT)[
        0
    ]


def joint_call(qp: ExpCBFQP, snapshots: dict[str, AgentSnapshot], nominal: np.ndarray) -> Callable[[], np.ndarray]:
    obs, state = {"agent_states": snapshots}, SafetyState(make_lambda_dict(snapshots))
    actions = {uid: nominal[2 * k : 2 * k + 2] for k, uid in enumerate(snapshots)}
    return lambda: np.concatenate(list(qp.filter(actions, obs, state, BOUNDS)[0].values()))


def drawn_calls(mode: SafetyMode, n_agents: int, *, acts: bool) -> tuple[ExpCBFQP, list[tuple[object, ...]]]:
    """Draw states in which the rows act, or in which the nominal action passes; infeasible ones are left out."""
    rng = derive_substream(f"benchmark.safety_filter_speed.{mode.value}.{n_agents}", root_seed=0).default_rng()
    uids = [f"agent{k:02d}" for k in range(n_agents)]
    qp = ExpCBFQP(control_models={uid: DoubleIntegratorControlModel(uid, 2) for uid in uids}, mode=mode)
    is_ego_only = mode is SafetyMode.EGO_ONLY
    make = ego_call if is_ego_only else joint_call
    found: list[tuple[object, ...]] = []
    while len(found) < N_STATES:
        snapshots = team(rng, n_agents, 0.62 if acts else 4.0)
        nominal = rng.uniform(-1.0, 1.0, 2 if is_ego_only else 2 * n_agents)
        call = make(qp, snapshots, nominal)
        try:
            is_changed = not np.array_equal(call(), nominal)
        except ConcertoSafetyInfeasible:
            continue
        if is_changed == acts:
            found.append((call, snapshots, nominal))
    return qp, found


def floor_call(qp: ExpCBFQP, snapshots: dict[str, AgentSnapshot], nominal: np.ndarray) -> Callable[[], object]:
    """The compiled calls of one filter call, on arrays that are packed already."""
    problem = qp._team
    states = list(snapshots.values())
    packed, radii = pack_states(problem.uids, states, states[problem.n_deciding :])
    jacobians, drifts = problem.affine_maps(states, 2)
    lower, upper = problem.box(BOUNDS.action_linf_component)
    slacks = np.zeros(len(problem.keys))
    arguments = (
        packed, radii, problem.capacities(BOUNDS), jacobians, drifts, problem.slots, problem.action_dims,
        problem.pairs, slacks, DEFAULT_CBF_GAMMA, False, DT, nominal, lower, upper,
    )  # fmt: skip

    def run() -> object:
        verdict, _, rows, right = assemble(*arguments)
        return None if verdict == PASS_THROUGH else qp._solver.project(nominal, rows, right, lower, upper)

    return run


def cycling(calls: list[Callable[[], object]]) -> Call:
    return lambda k: calls[k % len(calls)]()


def scalar_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for mode, n_agents, limit in (
        (SafetyMode.EGO_ONLY, 2, 20.0),
        (SafetyMode.EGO_ONLY, 20, 60.0),
        (SafetyMode.CENTRALIZED, 10, 150.0),
    ):
        for acts in (False, True):
            qp, found = drawn_calls(mode, n_agents, acts=acts)
            whole = timed(cycling([call for call, _, _ in found]), calls=CALLS)
            floor = timed(cycling([floor_call(qp, snaps, nominal) for _, snaps, nominal in found]), calls=CALLS)
            rows.append(
                {
                    "filter": f"{mode.name}, {n_agents} robots",
                    "rows": "act" if acts else "do not act",
                    "median": f"{whole['median']} us",
                    "quartiles": f"{whole['quartile_1']} to {whole['quartile_3']}",
                    "limit": f"<= {limit:g} us",
                    "floor": f"{floor['median']} us",
                    "share of the floor": round(floor["median"] / whole["median"], 2),
                }
            )
    return rows


def infeasible_rows() -> list[dict[str, object]]:
    """How long "no safe action" takes, exception included."""
    coincident = AgentSnapshot(np.zeros(2), np.zeros(2), 0.2)
    rows: list[dict[str, object]] = []
    for n_agents in (2, 20):
        uids = [f"agent{k:02d}" for k in range(n_agents)]
        qp = ExpCBFQP.ego_only(control_models={uid: DoubleIntegratorControlModel(uid, 2) for uid in uids})
        call = ego_call(qp, dict.fromkeys(uids, coincident), np.zeros(2))

        def refused(_: int, call: Callable[[], object] = call) -> None:
            try:
                call()
            except ConcertoSafetyInfeasible:
                return
            raise AssertionError("this state must be infeasible")

        result = timed(refused, calls=CALLS)
        rows.append(
            {
                "filter": f"EGO_ONLY, {n_agents} robots",
                "rows": "have no answer",
                "median": f"{result['median']} us",
                "quartiles": f"{result['quartile_1']} to {result['quartile_3']}",
            }
        )
    return rows


def batch_of(mode: SafetyMode, n_envs: int, n_agents: int) -> dict[str, np.ndarray]:
    rng = derive_substream(f"benchmark.safety_filter_speed.batch.{n_agents}", root_seed=0).default_rng()
    shape = (n_envs, n_agents, 2)
    spread = 0.7 * np.sqrt(n_agents)
    return {
        "nominal_actions": rng.uniform(-1.0, 1.0, shape[::2] if mode is SafetyMode.EGO_ONLY else shape),
        "positions": rng.uniform(-spread, spread, shape),
        "velocities": rng.uniform(-0.5, 0.5, shape),
        "radii": np.full((n_envs, n_agents), 0.1),
        "lambda_": np.zeros((n_envs, n_agents - 1 if mode is SafetyMode.EGO_ONLY else n_agents * (n_agents - 1) // 2)),
    }


def batched_rows(*, parallel: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for mode, n_envs, n_agents in (
        (SafetyMode.EGO_ONLY, 200_000, 2),
        (SafetyMode.CENTRALIZED, 200_000, 2),
        (SafetyMode.EGO_ONLY, 50_000, 20),
        (SafetyMode.CENTRALIZED, 5_000, 10),
    ):
        batch = batch_of(mode, n_envs, n_agents)
        batched = BatchedSafetyFilter(mode=mode, parallel=parallel)
        result = batched.filter(**batch, bounds=BOUNDS)
        seconds = measured(lambda batched=batched, batch=batch: batched.filter(**batch, bounds=BOUNDS))
        copies = {name: np.empty_like(array) for name, array in batch.items()}

        def one_pass(batch: dict[str, np.ndarray] = batch, copies: dict[str, np.ndarray] = copies) -> None:
            for name, array in batch.items():
                np.copyto(copies[name], array)

        rates = n_envs / seconds
        rows.append(
            {
                "filter": f"{mode.name}, {n_agents} robots, {n_envs:,} environments",
                "rows": f"{result.is_pass_through.mean():.0%} pass, {result.is_braking.mean():.1%} brake",
                "median": f"{np.median(rates) / 1e6:.3g} M steps/s",
                "quartiles": " to ".join(f"{rate / 1e6:.3g}" for rate in np.percentile(rates, [25, 75])),
                "limit": ">= 1 M steps/s on two cores" if n_agents == 2 else "",
                "floor": f"{n_envs / np.median(measured(one_pass)) / 1e6:.3g} M steps/s",
                "cores": len(os.sched_getaffinity(0)) if parallel else 1,
            }
        )
    return rows


def measured(call: Callable[[], object]) -> np.ndarray:
    """Seconds of each of several calls."""
    seconds = np.empty(N_BATCHES)
    for k in range(N_BATCHES):
        started = time.perf_counter()
        call()
        seconds[k] = time.perf_counter() - started
    return seconds


def main() -> None:
    batched = batched_rows(parallel=True)
    pin_to_one_core()
    rows = [*scalar_rows(), *infeasible_rows(), *batched, *batched_rows(parallel=False)]
    write_results(
        "safety_filter_speed",
        title="Speed of the safety filter",
        method="Scalar calls: wall time of one `ExpCBFQP.filter` call from Python on one core, default solver, planar "
        f"double integrators, {N_STATES} random states each, {CALLS:,} calls; floor: the compiled part of the same "
        "call on packed arrays, the rest is reading snapshots and building the answer. Batches: "
        f"`BatchedSafetyFilter.filter`, {N_BATCHES} calls; floor: copying the input arrays once, no mathematics.",
        columns=["filter", "rows", "cores", "median", "quartiles", "limit", "floor", "share of the floor"],
        rows=[{"cores": 1, **row} for row in rows],
    )


if __name__ == "__main__":
    main()
