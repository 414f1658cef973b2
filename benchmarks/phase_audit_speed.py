"""How many step records per second does the audit log take, and how long is one?"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import pin_to_one_core, timed, write_results

from ripieno.chain import FsyncPolicy
from ripieno.randomness import derive_substream
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState

SETTINGS: tuple[tuple[str, tuple[FsyncPolicy, bool, bool]], ...] = (
    ("fsync never", ("never", False, False)),
    ("fsync every 32 records (default)", ("batch", False, False)),
    ("fsync every record", ("always", False, False)),
    ("default, signed", ("batch", True, False)),
    ("default, with an event stream", ("batch", False, True)),
)
SIZES = ((12, 3), (64, 8), (256, 16))
N_RECORDS = 2_000
LIMIT_US = 120.0


def measure(
    folder: Path, n: int, n_layers: int, label: str, setting: tuple[FsyncPolicy, bool, bool]
) -> dict[str, object]:
    fsync, is_signed, has_stream = setting
    random = derive_substream("benchmark.phase_audit").default_rng()
    phases = random.uniform(0.0, 2.0 * np.pi, (N_RECORDS, n))
    layers = [LayerState(float(r), float(psi)) for r, psi in random.uniform(0.0, 1.0, (n_layers, 2))]
    state = UPDEState(layers, np.zeros((n_layers, n_layers)), float(random.random()), "nominal")
    modulation = Modulation(global_gain=1.1025, layer_gains=tuple(random.uniform(0.9, 1.1, n_layers).tolist()))
    knm, alpha, omegas = random.random((n, n)), np.zeros((n, n)), random.normal(size=n)
    np.fill_diagonal(knm, 0.0)
    if is_signed:
        os.environ["SPO_AUDIT_KEY"] = "benchmark"
    try:
        path = folder / f"{n} {label}"
        log = AuditLogger(path, event_stream=folder / f"{n} {label}.spoa" if has_stream else None, fsync=fsync)
        log.log_header(n_oscillators=n, dt=0.01)

        def record(step: int) -> None:
            log.log_step(
                step, state, [], phases=phases[step], omegas=omegas, knm=knm, alpha=alpha, zeta=0.1, psi_drive=0.5,
                modulation=modulation, regime_decided="nominal",
            )  # fmt: skip

        times = timed(record, calls=N_RECORDS, warm_up=20)
        started = time.perf_counter()
        for step in range(N_RECORDS):
            record(step)
        rate = N_RECORDS / (time.perf_counter() - started)
        log.abandon()
        size = len(path.read_bytes().splitlines(keepends=True)[-1])
        started = time.perf_counter()
        report = ReplayEngine(path).verify(reexecute=False)
        verified = report.check.records / (time.perf_counter() - started)
        if not report.ok:
            raise SystemExit(report.problem)
    finally:
        os.environ.pop("SPO_AUDIT_KEY", None)
    return {
        "oscillators": n,
        "layers": n_layers,
        "what": label,
        **times,
        "records/s": round(rate),
        "bytes/record": size,
        "verified records/s": round(verified),
        **({"limit (us)": LIMIT_US, "limit (bytes)": 3000} if (n, is_signed, fsync) == (64, False, "batch") else {}),
    }


def main() -> None:
    pin_to_one_core()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(Path(folder), n, n_layers, label, setting) for n, n_layers in SIZES for label, setting in SETTINGS
        ]
    write_results(
        "phase_audit_speed",
        title="Speed of the audit log of Phase",
        method=f"{N_RECORDS:,} step records with phases, a modulation of every layer and matrices by reference, on one "
        "core; microseconds per record (median and quartiles of single calls, records per second of a loop over all).",
        columns=[
            "oscillators", "layers", "what", "median", "quartile_1", "quartile_3", "limit (us)", "records/s",
            "bytes/record", "limit (bytes)", "verified records/s",
        ],
        rows=rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
