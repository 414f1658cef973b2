"""What the tests of the audit log share: a small run, and ways to look at and to change a log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ripieno.verify import VerifyOptions, VerifyReport
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.audit_verifier import AuditVerifier
from scpn_phase_orchestrator.runtime.replay import ReplayEngine
from scpn_phase_orchestrator.upde.engine import ACTIVE_BACKEND, UPDEEngine
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState
from scpn_phase_orchestrator.upde.order_params import LayerIndex, layer_order_parameters

SIZES = [3, 2]
ACTION = ControlAction("K", "global", 0.05, 10.0, 'degraded: boost, "global" coupling')


def state_of(phases: np.ndarray, sizes: list[int], regime: str = "nominal") -> UPDEState:
    r, psi = layer_order_parameters(phases, LayerIndex.from_sizes(sizes))
    layers = [LayerState(float(one), float(other)) for one, other in zip(r, psi, strict=True)]
    return UPDEState(layers, np.zeros((len(sizes), len(sizes))), float(r.mean()), regime)


def drive(
    log: AuditLogger,
    steps: int = 6,
    *,
    method: str = "euler",
    substeps: int = 1,
    sizes: list[int] = SIZES,
    change: Callable[[int, dict[str, Any]], None] = lambda *_: None,
    events: int = 2,
    acknowledge: Callable[[int], object] = lambda _: None,
) -> np.ndarray:
    """Write header, steps and events of a run; ``change(step, inputs)`` plays the hook and the knobs."""
    n = sum(sizes)
    log.log_header(
        n_oscillators=n, dt=0.01, seed=7, method=method, substeps=substeps, backend=ACTIVE_BACKEND, layer_sizes=sizes
    )
    coupling = CouplingBuilder().build(n, 0.6, 0.25)
    engine = UPDEEngine(n, 0.01, method, substeps=substeps)
    layer_of = LayerIndex.from_sizes(sizes).layer_of()
    inputs: dict[str, Any] = {
        "phases": np.random.default_rng(7).uniform(0.0, 2.0 * np.pi, n),
        "omegas": np.linspace(-2.0, 3.0, n),
        "coupling": coupling,
        "zeta": 0.1,
        "psi": 0.5,
        "modulation": Modulation(),
        "overridden": False,
    }
    for step in range(steps):
        inputs["overridden"] = False
        change(step, inputs)
        base, modulation, before = inputs["coupling"], inputs["modulation"], inputs["phases"]
        effective = modulation.apply(base, layer_of)
        inputs["phases"] = engine.step(
            before, inputs["omegas"], effective.knm, inputs["zeta"], inputs["psi"], effective.alpha
        )
        log.log_step(
            step,
            state_of(inputs["phases"], sizes),
            [ACTION] if step == 2 else [],
            phases=before,
            omegas=inputs["omegas"],
            knm=base.knm,
            alpha=base.alpha,
            zeta=inputs["zeta"],
            psi_drive=inputs["psi"],
            modulation=None if modulation.is_identity else modulation,
            regime_decided="nominal",
            phases_overridden=inputs["overridden"],
        )
        acknowledge(step)
    for number in range(events):
        log.log_event("regime_transition", {"step": number, "detail": 'nominal->degraded, \\ "ü"'})
    return inputs["phases"]


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(path)]


def compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def stored(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, sort_keys=True) + "\n").encode()


def rechain(records: list[dict[str, Any]]) -> bytes:
    """Write changed records with hashes that fit: what an attacker without a key can do."""
    previous, text = "0" * 64, b""
    for record in records:
        payload = {key: value for key, value in record.items() if not key.startswith("_")}
        kept = {key: value for key, value in record.items() if key.startswith("_audit") or key == "_signature"}
        clean = {**payload, **kept, "_payload_hash": sha256(compact(payload)), "_previous_hash": previous}
        previous = sha256(previous + compact(clean))
        text += stored({**clean, "_hash": previous})
    return text


def judged(path: Path, *, reexecute: bool = False) -> VerifyReport:
    return AuditVerifier(reexecute).verify(path, VerifyOptions())


def replayed(path: Path) -> ReplayEngine:
    engine = ReplayEngine(path)
    engine.load()
    return engine
