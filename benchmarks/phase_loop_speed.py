"""How long a supervised step of Phase takes, with and without an audit log, and how soon ``spo run`` answers."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from _common import pin_to_one_core, timed, write_results

from scpn_phase_orchestrator.binding.types import (
    ActuatorMapping,
    AmplitudeSpec,
    BindingSpec,
    BoundaryDef,
    CouplingSpec,
    DriverSpec,
    HierarchyLayer,
    ImprintSpec,
    ObjectivePartition,
    SupervisorSpec,
)
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.simulation import log_header, log_step
from scpn_phase_orchestrator.runtime.step_core import StepCore

CALLS = 5_000
STARTS = 10
AMPLITUDE = AmplitudeSpec(mu=1.0, epsilon=0.3, amp_coupling_strength=0.2)
IMPRINT = ImprintSpec(decay_rate=0.1, saturation=2.0, modulates=["K"])


def spec(n_layers: int, n: int) -> BindingSpec:
    """A supervised spec with a gain per layer, a global drive and a boundary; a decision every ten steps."""
    size = n // n_layers
    layers = [
        HierarchyLayer(
            f"layer {k}", k, [f"o{k}_{i}" for i in range(size)], [1 + 0.3 * k + 0.1 * i for i in range(size)]
        )
        for k in range(n_layers)
    ]
    return BindingSpec(
        name="benchmark",
        version="0.1.0",
        safety_tier="research",
        sample_period_s=0.01,
        control_period_s=0.1,
        layers=layers,
        oscillator_families={},
        coupling=CouplingSpec(0.3, 0.3),
        drivers=DriverSpec(physical={"zeta": 0.1, "frequency": 1.0}),
        objectives=ObjectivePartition([0, 1], [2]),
        boundaries=[BoundaryDef("floor", "R", 0.1, None, "hard")],
        actuators=[
            *(ActuatorMapping(f"gain {k}", "K", f"layer_{k}", (0.0, 3.0), 0.2) for k in range(n_layers)),
            ActuatorMapping("drive", "zeta", "global", (0.0, 1.0)),
        ],
        supervisor=SupervisorSpec(strategy="objectives"),
    )


def step_row(name: str, one: BindingSpec, *, is_audited: bool, limit: str) -> dict[str, object]:
    """Time single steps of one spec."""
    core = StepCore(one)
    if not is_audited:
        times = timed(lambda _: core.step(), calls=CALLS)
        size = ""
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.jsonl"
            with AuditLogger(path) as log:
                log_header(log, core)
                times = timed(lambda _: log_step(log, core, core.step()), calls=CALLS)
            size = str(int(np.median([len(line) for line in path.read_bytes().splitlines()])))
    return {
        "what": name,
        "audited": "yes" if is_audited else "no",
        "median": f"{times['median']:.0f} us",
        "quartiles": f"{times['quartile_1']:.0f} to {times['quartile_3']:.0f} us",
        "record (bytes)": size,
        "limit": limit,
    }


def start_rows(name: str, *arguments: str, limit_s: float) -> list[dict[str, object]]:
    """Time whole processes, caches warm: by the clock, and as time on a processor."""
    command = [sys.executable, "-c", "from scpn_phase_orchestrator.runtime.cli import main; main()", *arguments]
    wall: list[float] = []
    processor: list[float] = []
    for start in range(STARTS + 1):
        began, used = time.perf_counter(), _children_s()
        subprocess.run(command, check=True, capture_output=True)
        if start:
            wall.append(time.perf_counter() - began)
            processor.append(_children_s() - used)
    return [_start_row(f"process: {name}", wall, f"{limit_s:.2f} s"), _start_row(f"processor: {name}", processor, "")]


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _start_row(what: str, seconds: list[float], limit: str) -> dict[str, object]:
    low, median, high = np.percentile(seconds, [25, 50, 75])
    return {
        "what": what,
        "audited": "no",
        "median": f"{median:.2f} s",
        "quartiles": f"{low:.2f} to {high:.2f} s",
        "record (bytes)": "",
        "limit": limit,
    }


def main() -> None:
    """Measure and write the table."""
    starts = [
        *start_rows("spo --help", "--help", limit_s=0.3),
        *start_rows("spo run power_grid", "run", "power_grid", limit_s=1.0),
    ]
    pin_to_one_core()
    small, large = spec(4, 12), spec(8, 64)
    cases = [
        ("12 oscillators in 4 layers", small, ("100 us", "")),
        ("12 oscillators, amplitudes", replace(small, amplitude=AMPLITUDE), ("100 us", "")),
        (
            "12 oscillators, amplitudes, imprint",
            replace(small, amplitude=AMPLITUDE, imprint_model=IMPRINT),
            ("100 us", ""),
        ),
        ("64 oscillators in 8 layers", large, ("", "300 us")),
        ("64 oscillators, amplitudes", replace(large, amplitude=AMPLITUDE), ("", "")),
        ("64 oscillators, amplitudes, imprint", replace(large, amplitude=AMPLITUDE, imprint_model=IMPRINT), ("", "")),
    ]
    rows = [
        step_row(name, one, is_audited=is_audited, limit=limits[is_audited])
        for name, one, limits in cases
        for is_audited in (False, True)
    ]
    write_results(
        "phase_loop_speed",
        title="Speed of the supervised loop of Phase",
        method=(
            f"One core. Median and quartiles of {CALLS} single steps after 200 to warm up, supervised by `objectives`, "
            "a decision every ten steps; audited steps include the hash-chained record, whose median size is given. "
            f"The last rows are whole processes on all cores, {STARTS} starts with warm caches: by the clock, which "
            "other load lengthens, and on a processor."
        ),
        columns=["what", "audited", "median", "quartiles", "record (bytes)", "limit"],
        rows=[*rows, *starts],
    )


if __name__ == "__main__":
    main()
