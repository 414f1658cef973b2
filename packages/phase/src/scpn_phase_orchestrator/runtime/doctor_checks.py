"""What ``ripieno doctor`` says about Phase on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from ripieno.doctor import CheckResult

__all__ = ["checks"]


def checks() -> Iterator[CheckResult]:
    """Give one row each for the compiled engine, the packs, and Parquet files."""
    yield _engine()
    yield _packs()
    yield _parquet()


def _engine() -> CheckResult:
    """Two coupled oscillators move towards each other; the first call ever compiles the engine."""
    name = "phase engine (Numba)"
    remedy = "Set NUMBA_CACHE_DIR to a folder that you can write to."
    try:
        import numpy as np

        from scpn_phase_orchestrator.upde.engine import UPDEEngine
    except (ImportError, RuntimeError) as error:
        return CheckResult(name, ok=False, detail=f"{type(error).__name__}: {error}", remedy=remedy)
    coupling = np.array([[0.0, 0.5], [0.5, 0.0]])
    phases = UPDEEngine(2, 0.01).step(np.array([0.0, 1.0]), np.zeros(2), coupling, alpha=np.zeros((2, 2)))
    ok = bool(0.0 < phases[0] < phases[1] < 1.0)
    return CheckResult(name, ok, "couples two oscillators" if ok else f"gives {phases.tolist()}", remedy)


def _packs() -> CheckResult:
    from scpn_phase_orchestrator.domainpacks import pack_names

    count = len(pack_names())
    return CheckResult(
        "domain packs", ok=count > 0, detail=f"{count} packs", remedy="Run: pip install --force-reinstall ripieno-phase"
    )


def _parquet() -> CheckResult:
    installed = find_spec("pyarrow") is not None
    return CheckResult(
        "Parquet files (pyarrow)",
        ok=installed,
        detail=f"pyarrow {metadata.version('pyarrow')}"
        if installed
        else "not installed; 'spo extract' reads CSV and WAV",
        remedy='Run: pip install "ripieno-phase[parquet]"',
        required=False,
    )
