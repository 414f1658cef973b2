"""How many steps per second do the phase engines make, and how near is that to what the processor allows?

Run `python benchmarks/phase_engine_speed.py`; it writes `results/phase_engine_speed.json` and `.md`. Random dense
coupling unless a row says otherwise; one process; processor time of the calling thread, so that neighbours on the
machine count little. The floor of a step is the larger of its fused multiply-adds at the best rate measured here and
the reading of its matrices at the speed measured for that size (when they do not fit beside the core), plus its sines
at their measured speed.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable

import numpy as np
from _common import pin_to_one_core, write_results

from ripieno.randomness import derive_substream
from scpn_phase_orchestrator.upde._kernels_batch import RUNS_PER_TILE, batch_products, pack_receivers
from scpn_phase_orchestrator.upde._kernels_elementary import sines, stays_below
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine
from scpn_phase_orchestrator.upde.ensemble import EnsembleEngine
from scpn_phase_orchestrator.upde.sparse import PreparedSparseCoupling, SparseUPDEEngine
from scpn_phase_orchestrator.upde.uniform import UniformUPDEEngine

DT, REPEATS, SECONDS_PER_REPEAT = 0.01, 15, 0.06
NEAR_CACHE_BYTES = 2**20  # a matrix up to this size stays beside the core, where reading it hides behind arithmetic
LIMITS = {
    (16, False): 1_000_000, (64, False): 500_000, (64, True): 400_000, (256, False): 50_000, (256, True): 30_000,
    (1024, False): 5_000, (1024, True): 3_000, (4096, False): 130, (4096, True): 55,
}  # fmt: skip

Row = dict[str, object]


def random_state(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = derive_substream(f"benchmark.phase_engine_speed.state.{n}", root_seed=0).default_rng()
    return rng.uniform(0.0, 2 * np.pi, n), rng.normal(size=n)


@functools.lru_cache(maxsize=1)
def random_matrices(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = derive_substream(f"benchmark.phase_engine_speed.coupling.{n}", root_seed=0).default_rng()
    knm = rng.uniform(0.0, 1.0 / n, (n, n))
    np.fill_diagonal(knm, 0.0)
    return knm, rng.uniform(-0.5, 0.5, (n, n))


def seconds_per_call(call: Callable[[], object], clock: Callable[[], int] = time.thread_time_ns) -> np.ndarray:
    """Seconds of one call, from several stretches of calls."""
    call()
    started = clock()
    call()
    count = max(1, int(SECONDS_PER_REPEAT * 1e9 / max(1, clock() - started)))
    stretches = np.empty(REPEATS)
    for k in range(REPEATS):
        started = clock()
        for _ in range(count):
            call()
        stretches[k] = (clock() - started) / count / 1e9
    return stretches


@functools.cache
def best_multiply_adds_per_second() -> float:
    """Of the tile kernel on matrices that stay in the nearest cache: the processor's peak, to a few percent."""
    n, runs = 256, RUNS_PER_TILE
    matrix = pack_receivers(np.ones((n, n)))
    vectors = np.zeros((4, n, runs))
    return 2 * n * n * runs / seconds_per_call(lambda: batch_products(matrix, matrix[:0], *vectors)).min()


@functools.cache
def reading_bytes_per_second(n_bytes: int) -> float:
    values = np.full(max(2**14, n_bytes // 8), 0.5)
    return values.nbytes / seconds_per_call(lambda: stays_below(values, 1.0)).min()


@functools.cache
def seconds_per_sine() -> float:
    n = 4096
    angles = np.linspace(0.0, 6.0, n)
    out = np.empty((2, n))
    return seconds_per_call(lambda: sines(angles, *out)).min() / n


def floor_of_a_derivative(n: int, multiply_adds: float, n_bytes: int) -> float:
    arithmetic = multiply_adds / best_multiply_adds_per_second()
    reading = n_bytes / reading_bytes_per_second(n_bytes) if n_bytes > NEAR_CACHE_BYTES else 0.0
    return max(arithmetic, reading) + n * seconds_per_sine()


def row_of(name: str, seconds: np.ndarray, steps: int, limit: float | str, floor: float | None = None) -> Row:
    rates = steps / seconds
    row: Row = {
        "case": name,
        "steps/s (median)": f"{np.median(rates):,.0f}",
        "quartiles": " to ".join(f"{rate:,.0f}" for rate in np.percentile(rates, [25, 75])),
        "limit": f"{limit:,.0f}" if isinstance(limit, (int, float)) else limit,
    }
    if floor is not None:
        row["floor"] = f"{1 / floor:,.0f}"
        row["share of the floor"] = round(float(np.median(rates)) * floor, 2)
    return row


def dense_row(n: int, *, lags: bool, method: str = "euler", dtype: type = np.float64) -> Row:
    knm, alpha = random_matrices(n)
    prepared = PreparedCoupling.from_matrices(knm, alpha if lags else None, dtype=dtype)
    phases, omegas = random_state(n)
    engine = UPDEEngine(n, DT, method, threads=1)
    steps = max(1, int(2e7 / n**2))
    seconds = seconds_per_call(lambda: engine.run(phases, omegas, prepared, 0.1, 0.2, n_steps=steps))
    limit = LIMITS.get((n, lags), 0) * (0.25 if method == "rk4" else 1)
    matrices = prepared.coupling.cosine_part.nbytes + prepared.coupling.sine_part.nbytes
    floor = floor_of_a_derivative(n, (4 if lags else 2) * n * n, matrices) * (4 if method == "rk4" else 1)
    name = f"{method}, N = {n:,}{', lags' if lags else ''}{', float32 matrices' if dtype is np.float32 else ''}"
    target: float | str = limit or ""
    if dtype is np.float32:
        target = "near twice float64" if matrices > NEAR_CACHE_BYTES else ""
    return row_of(name, seconds, steps, target, floor)


def call_rows() -> list[Row]:
    """One step from Python, checked and unchecked."""
    n = 64
    phases, omegas = random_state(n)
    knm, alpha = random_matrices(n)
    engine, prepared = UPDEEngine(n, DT), PreparedCoupling.from_matrices(knm, alpha)
    other = knm * 0.5
    rows: list[Row] = []
    for name, call, limit in (
        ("one `step()` call, N = 64, lags", lambda: engine.step(phases, omegas, knm, 0.1, 0.2, alpha), "<= 12 us"),
        ("one `advance()` call, N = 64, lags", lambda: engine.advance(phases, omegas, prepared, 0.1, 0.2), ""),
        (
            "two `step()` calls with matrices that changed, N = 64, lags",
            lambda: (
                engine.step(phases, omegas, knm, 0.1, 0.2, alpha),
                engine.step(phases, omegas, other, 0.1, 0.2, alpha),
            ),
            "",
        ),
    ):
        micros = seconds_per_call(call) * 1e6
        rows.append(
            {
                "case": name,
                "steps/s (median)": f"{np.median(micros):.2f} us a call",
                "quartiles": " to ".join(f"{value:.2f}" for value in np.percentile(micros, [25, 75])),
                "limit": limit,
            }
        )
    return rows


def sparse_row(n: int, limit: float) -> Row:
    rng = derive_substream(f"benchmark.phase_engine_speed.sparse.{n}", root_seed=0).default_rng()
    degree = 8
    columns = (np.arange(n)[:, None] + rng.integers(1, n, (n, degree))) % n
    prepared = PreparedSparseCoupling.from_rows(
        np.arange(n + 1) * degree, columns.reshape(-1), rng.uniform(0.0, 0.1, n * degree)
    )
    phases, omegas = random_state(n)
    engine = SparseUPDEEngine(n, DT)
    steps = max(1, 400_000 // n)
    seconds = seconds_per_call(lambda: engine.run(phases, omegas, prepared, zeta=0.1, psi=0.2, n_steps=steps))
    floor = floor_of_a_derivative(n, 2 * n * degree, n * degree * 12)
    return row_of(f"sparse, {degree} neighbours, N = {n:,}", seconds, steps, limit, floor)


def uniform_row(n: int, limit: float) -> Row:
    phases, omegas = random_state(n)
    engine = UniformUPDEEngine(n, DT)
    seconds = seconds_per_call(lambda: engine.run(phases, omegas, 1.0, 0.1, 0.2, n_steps=2))
    floor = floor_of_a_derivative(n, 4 * n, n * 64)
    return row_of(f"uniform, N = {n:,}", seconds, 2, limit, floor)


def ensemble_row(threads: int, clock: Callable[[], int]) -> Row:
    n, n_runs, steps = 256, 256, 10
    prepared = PreparedCoupling.from_matrices(random_matrices(n)[0])
    phases = random_state(n * n_runs)[0].reshape(n_runs, n)
    omegas = random_state(n)[1]
    engine = EnsembleEngine(n, n_runs, DT, threads=threads)
    seconds = seconds_per_call(lambda: engine.run(phases, omegas, prepared, 0.1, 0.2, n_steps=steps), clock)
    arithmetic = 2 * n * n / best_multiply_adds_per_second() + n * seconds_per_sine()
    name = f"{n_runs} runs, N = {n}, {threads} thread{'s' if threads > 1 else ''} (run-steps)"
    return row_of(name, seconds, steps * n_runs, 8 * LIMITS[n, False], arithmetic / threads)


def threaded_row(threads: int) -> Row:
    n, steps = 4096, 4
    prepared = PreparedCoupling.from_matrices(random_matrices(n)[0])
    phases, omegas = random_state(n)
    engine = UPDEEngine(n, DT, threads=threads)
    seconds = seconds_per_call(
        lambda: engine.run(phases, omegas, prepared, 0.1, 0.2, n_steps=steps), time.perf_counter_ns
    )
    return row_of(f"euler, N = {n:,}, {threads} threads, wall time", seconds, steps, "")


def main() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    wide = [threaded_row(cores), ensemble_row(cores, time.perf_counter_ns)] if cores > 1 else []
    pin_to_one_core()
    rows: list[Row] = []
    for n in (16, 64, 256, 1024, 4096):
        for lags in (False, True):
            rows += [
                dense_row(n, lags=lags),
                dense_row(n, lags=lags, dtype=np.float32),
                dense_row(n, lags=lags, method="rk4"),
            ]
    rows += call_rows()
    rows += [sparse_row(4096, 5_000), sparse_row(100_000, 150), uniform_row(1_000_000, 10)]
    rows += [ensemble_row(1, time.thread_time_ns), *wide]
    write_results(
        "phase_engine_speed",
        title="Speed of the phase engines",
        method=f"`run`, {REPEATS} stretches of about {SECONDS_PER_REPEAT} s each, drive on, one thread pinned to one "
        "core and its processor time, unless the row says otherwise. Floor: the larger of 2 N^2 fused multiply-adds "
        "per derivative (4 N^2 with lags) at "
        f"{best_multiply_adds_per_second() / 1e9:.1f} thousand million a second and, from N = 1,024, one reading of "
        f"the matrices (at {reading_bytes_per_second(8 * 4096**2) / 1e9:.0f} GB/s from memory, faster from caches), "
        "plus N sines at "
        f"{seconds_per_sine() * 1e9:.2f} ns.",
        columns=["case", "steps/s (median)", "quartiles", "limit", "floor", "share of the floor"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
