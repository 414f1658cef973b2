"""What ``ripieno doctor`` says about Concerto and Chamber on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

import numpy as np

from ripieno.doctor import CheckResult

__all__ = ["checks"]

INSTALL = 'Run: pip install "ripieno-concerto[chamber]"'


def checks() -> Iterator[CheckResult]:
    """Give one row for Gymnasium, one for every solver, and one for the compiled safety stack."""
    yield _gymnasium()
    yield from _solvers()
    yield _stack()


def _gymnasium() -> CheckResult:
    installed = find_spec("gymnasium") is not None
    return CheckResult(
        "environments (Gymnasium)",
        ok=installed,
        detail=f"gymnasium {metadata.version('gymnasium')}" if installed else "not installed; chamber.envs needs it",
        remedy=INSTALL,
        required=False,
    )


def _solvers() -> Iterator[CheckResult]:
    """Every solver answers one small program: the point of the box |x| <= 1 nearest to (2, 0)."""
    from concerto.safety.solvers import ClarabelSolver, DAQPSolver, OSQPSolver

    box = np.vstack([np.eye(2), -np.eye(2)])
    for solver in (DAQPSolver, ClarabelSolver, OSQPSolver):
        try:
            answer, _ = solver().solve(2.0 * np.eye(2), np.array([-4.0, 0.0]), box, np.ones(4))
            ok = bool(np.allclose(answer, [1.0, 0.0], atol=1e-6))
            detail = "solves a small program" if ok else f"gives {answer.tolist()} for a program whose answer is [1, 0]"
        except (ImportError, RuntimeError) as error:
            ok, detail = False, f"{type(error).__name__}: {error}"
        yield CheckResult(f"solver {solver.name}", ok, detail, "Run: pip install --force-reinstall ripieno-concerto")


def _stack() -> CheckResult:
    """The stack brakes before a wall it is about to hit; the first call ever compiles it."""
    name = "safety stack (Numba)"
    remedy = "Set NUMBA_CACHE_DIR to a folder that you can write to."
    try:
        from concerto.safety.api import AgentSnapshot, Bounds, DoubleIntegratorControlModel
        from concerto.safety.stack import SafetyStack
    except (ImportError, RuntimeError) as error:
        return CheckResult(name, ok=False, detail=f"{type(error).__name__}: {error}", remedy=remedy)
    stack = SafetyStack(
        ego_uid="ego",
        control_models={"ego": DoubleIntegratorControlModel("ego", 2)},
        bounds=Bounds(1.0, 1.0, 10.0, 0.0, 50.0),
        dt=0.05,
    )
    states = {
        "ego": AgentSnapshot(np.zeros(2), np.array([1.0, 0.0]), 0.25),
        "box": AgentSnapshot(np.array([1.0, 0.0]), np.zeros(2), 0.25),
    }
    action = stack.step(np.array([1.0, 0.0]), states).action
    ok = bool(action[0] < 0.0)
    return CheckResult(name, ok, "brakes when it must" if ok else f"does not brake, answers {action.tolist()}", remedy)
