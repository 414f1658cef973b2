"""Write the example data of Phase: a signed audit log with its public key, and a synthetic recording.

    .venv/bin/python scripts/make_phase_examples.py

The private key lives in memory only, for the one signature; whoever runs this makes another key and another log (the
records hold the time of writing). The recording is the same on every run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import serialization
from numpy.typing import NDArray

from ripieno.files import write_atomic
from ripieno.randomness import derive_substream
from ripieno.signing import detached_signature, generate_key
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.runtime._audit_check import check_log
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.scaffold.quickstart import EVIDENCE, LOG, PUBLIC_KEY, SIGNATURE

RATE_HZ = 20.0
DURATION_S = 60.0
HEART_HZ, BREATH_HZ = 1.2, 0.25
FINGER_DELAY_S = 0.15
"""A pulse wave reaches the finger later than the chest."""


def write_evidence(folder: Path) -> None:
    """Run the smallest pack for 120 steps and sign the head of its log."""
    path = resolve_spec_path("minimal_domain")
    log = folder / LOG
    log.unlink(missing_ok=True)
    with AuditLogger(log, create_only=True) as logger:
        simulate(load_binding_spec(path), steps=120, seed=42, audit_logger=logger, binding_spec_path=path)
    key = generate_key()
    write_atomic(folder / SIGNATURE, detached_signature(key, check_log(log).head))
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_atomic(folder / PUBLIC_KEY, pem)


def write_heartbeat(path: Path) -> None:
    """A pulse at chest and finger that breathing speeds up and slows down, and the breathing itself."""
    rng = derive_substream("phase.examples.heartbeat").default_rng()
    time_s = np.arange(int(RATE_HZ * DURATION_S)) / RATE_HZ
    columns = {
        "chest": _pulse(time_s),
        "finger": _pulse(time_s - FINGER_DELAY_S),
        "breath": np.sin(2.0 * np.pi * BREATH_HZ * time_s),
    }
    rows = ["time_s,chest,finger,breath"]
    noisy = np.column_stack([column + rng.normal(0.0, 0.05, len(time_s)) for column in columns.values()])
    rows += [
        f"{moment:.2f}," + ",".join(f"{value:.3f}" for value in row) for moment, row in zip(time_s, noisy, strict=True)
    ]
    write_atomic(path, ("\n".join(rows) + "\n").encode())


def _pulse(time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    phase = 2.0 * np.pi * HEART_HZ * time_s + 0.3 * np.sin(2.0 * np.pi * BREATH_HZ * time_s)
    return np.cos(phase) + 0.35 * np.cos(2.0 * phase - 0.8)


if __name__ == "__main__":
    write_evidence(EVIDENCE)
    write_heartbeat(EVIDENCE.parent / "heartbeat.csv")
    for path in EVIDENCE.parent.rglob("*.*"):
        path.chmod(0o644)
