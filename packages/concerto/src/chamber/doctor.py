"""What ``ripieno doctor`` says about Concerto and Chamber on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import metadata
from importlib.util import find_spec

import numpy as np

from ripieno.doctor import CheckResult

__all__ = ["checks"]

INSTALL = 'Run: pip install "ripieno-concerto[chamber]"'
INSTALL_TRAIN = 'Run: pip install "ripieno-concerto[train]"'


def checks() -> Iterator[CheckResult]:
    """Give rows for Gymnasium, MuJoCo, rendering and training, one per solver, and one for the safety stack."""
    yield _gymnasium()
    yield _mujoco()
    yield _rendering()
    yield _training()
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


def _mujoco() -> CheckResult:
    """Two arms and a bar are built and moved by one control step."""
    return _tried("tasks with arms (MuJoCo)", _two_arms_move, remedy=INSTALL)


def _rendering() -> CheckResult:
    """The same arms are rendered; tasks that observe no pictures do without."""
    remedy = "Run: apt-get install libegl1 libgl1-mesa-dri (Debian); only pictures need it."
    return _tried("pictures (EGL)", _two_arms_are_seen, remedy=remedy)


def _training() -> CheckResult:
    """What training imports is there; nothing of it is loaded, because PyTorch takes seconds."""
    needed = {"torch": "torch", "hydra": "hydra-core", "omegaconf": "omegaconf", "structlog": "structlog"}
    missing = [package for module, package in needed.items() if find_spec(module) is None]
    return CheckResult(
        "training (PyTorch)",
        ok=not missing,
        detail=f"not installed: {', '.join(missing)}" if missing else f"torch {metadata.version('torch')}",
        remedy=INSTALL_TRAIN,
        required=False,
    )


def _tried(name: str, trial: Callable[[], str], *, remedy: str) -> CheckResult:
    """Give what a trial of an optional feature says, or why it failed."""
    from chamber.errors import ChamberEnvCompatibilityError

    try:
        return CheckResult(name, ok=True, detail=trial(), remedy=remedy, required=False)
    except (ChamberEnvCompatibilityError, ImportError, OSError) as error:
        return CheckResult(name, ok=False, detail=str(error), remedy=remedy, required=False)


def _two_arms_move() -> str:
    from chamber import tasks

    with closing(tasks.make("cocarry")) as env:
        env.reset(seed=0)
        env.step({uid: np.zeros(space.shape) for uid, space in env.action_space.spaces.items()})
    return f"mujoco {metadata.version('mujoco')} moves two arms"


def _two_arms_are_seen() -> str:
    from chamber import tasks

    with closing(tasks.make("cocarry", render_mode="rgb_array")) as env:
        env.reset(seed=0)
        height, width, _ = env.render().shape
    return f"renders a picture of {width} x {height}"


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
