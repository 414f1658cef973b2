"""At which coupling do 10,000 oscillators fall into step? A curve, beside what theory says of infinitely many.

Oscillators with normally distributed natural frequencies (standard deviation 1 rad/s) and uniform coupling K are run
for many K and seeds, each on its own. Their order parameter R leaves the level of chance near the critical coupling
``K_c = 2 / (pi g(0)) = sqrt(8 / pi) = 1.596`` (Kuramoto 1975). Above it, theory asks R to satisfy
``1 = K * integral of cos(x)^2 g(K R sin(x)) dx`` over a half turn (Strogatz 2000, equation 4.5).

    .venv/bin/python examples/phase_critical_coupling.py
    .venv/bin/python examples/phase_critical_coupling.py --executor processes --out critical

``OUT/cells.jsonl`` keeps what is done: a run that was stopped goes on when it is started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import brentq

from ripieno.parallel import run_cells
from ripieno.randomness import derive_substream
from ripieno.report import FIGURE_STYLE, PALETTE
from scpn_phase_orchestrator.upde.order_params import compute_order_parameter
from scpn_phase_orchestrator.upde.uniform import UniformUPDEEngine

CRITICAL_COUPLING = float(np.sqrt(8.0 / np.pi))
DT = 0.05
SETTLING_S = 60.0
MEASURED_S = 20.0
SAMPLE_S = 0.5


def order_of_network(cell: Mapping[str, Any]) -> float:
    """Give the mean order parameter of one network after it has settled."""
    n = cell["oscillators"]
    rng = derive_substream("examples.phase_critical_coupling", root_seed=cell["seed"]).default_rng()
    phases, frequencies = rng.uniform(0.0, 2.0 * np.pi, n), rng.normal(size=n)
    engine = UniformUPDEEngine(n, dt=DT, method="rk4")
    phases = engine.run(phases, frequencies, cell["coupling"], n_steps=round(SETTLING_S / DT))
    orders: list[float] = []
    for _ in range(round(MEASURED_S / SAMPLE_S)):
        phases = engine.run(phases, frequencies, cell["coupling"], n_steps=round(SAMPLE_S / DT))
        orders.append(compute_order_parameter(phases)[0])
    return float(np.mean(orders))


def order_of_theory(coupling: float) -> float:
    """Give R of infinitely many oscillators; 0 up to the critical coupling."""
    if coupling <= CRITICAL_COUPLING:
        return 0.0
    angles = np.linspace(-np.pi / 2, np.pi / 2, 4001)

    def excess(order: float) -> float:
        density = np.exp(-0.5 * (coupling * order * np.sin(angles)) ** 2) / np.sqrt(2.0 * np.pi)
        return float(coupling * np.trapezoid(np.cos(angles) ** 2 * density, angles) - 1.0)

    return float(brentq(excess, 1e-6, 1.0))


def draw(couplings: NDArray[np.float64], orders: NDArray[np.float64], oscillators: int) -> Figure:
    """Draw the orders, shape ``(couplings, seeds)``, beside theory."""
    with mpl.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(7.2, 4.0), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        fine = np.linspace(couplings[0], couplings[-1], 400)
        axis.plot(fine, [order_of_theory(k) for k in fine], color=PALETTE[1], label="theory, infinitely many")
        axis.plot(couplings, orders, "o", color=PALETTE[0], markersize=3, alpha=0.5)
        axis.plot(couplings, orders.mean(axis=1), color=PALETTE[0], lw=1, label=f"{oscillators:,} oscillators")
        axis.axvline(CRITICAL_COUPLING, color="0.5", lw=1, ls=":")
        axis.annotate(
            "critical coupling 1.596", (CRITICAL_COUPLING, 0.92), (-6, 0), textcoords="offset points", ha="right"
        )
        axis.axhline(1.0 / np.sqrt(oscillators), color="0.7", lw=1, ls="--", label="level of chance")
        axis.set(xlabel="coupling K in rad/s", ylabel="order parameter R", ylim=(0.0, 1.0))
        axis.legend(loc="center left")
        return figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the curve, print it, and write the figure."""
    parser = argparse.ArgumentParser(description="Critical coupling of a large network.")
    parser.add_argument("--oscillators", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=21, help="values of K from 0.8 to 2.8")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--executor", choices=["serial", "processes", "ray"], default="serial")
    parser.add_argument("--out", type=Path, default=Path("critical_coupling"))
    options = parser.parse_args(arguments)
    couplings = np.linspace(0.8, 2.8, options.points)
    cells = [
        {"coupling": float(coupling), "seed": seed, "oscillators": options.oscillators}
        for coupling in couplings
        for seed in range(options.seeds)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    outcomes = run_cells(order_of_network, cells, executor=options.executor, resume=options.out / "cells.jsonl")
    orders = np.array([outcome.value for outcome in outcomes], dtype=np.float64).reshape(len(couplings), -1)
    print("     K   R (mean)   R (theory)")
    for coupling, order in zip(couplings, orders.mean(axis=1), strict=True):
        print(f"{coupling:6.2f}   {order:8.4f}   {order_of_theory(coupling):10.4f}")
    figure = draw(couplings, orders, options.oscillators)
    figure.savefig(options.out / "critical_coupling.png", dpi=130)
    figure.savefig(options.out / "critical_coupling.svg")
    print(f"Wrote {options.out / 'critical_coupling.png'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
