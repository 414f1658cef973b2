"""The simulator boundary: scenes as data, robots as models, and one protocol that a simulator implements.

Importing this package needs no simulator; `make_backend` does.
"""

from __future__ import annotations

from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim.backend import FloatArray, Picture, RigBackend
from chamber.sim.scene import SceneSpec

__all__ = ["BACKENDS", "FloatArray", "Picture", "RigBackend", "SceneSpec", "make_backend"]

BACKENDS = ("auto", "mujoco")
"""Names of simulators; ``"auto"`` is MuJoCo."""


def make_backend(scene: SceneSpec, *, num_envs: int = 1, backend: str = "auto") -> RigBackend:
    """Build a scene.

    Args:
        scene: what to build.
        num_envs: number of copies that are stepped together, >= 1.
        backend: one of `BACKENDS`.

    Raises:
        ValueError: the backend is unknown or ``num_envs`` is out of range.
        ChamberEnvCompatibilityError: the simulator is not installed, or refuses the scene.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    try:
        from chamber.sim.mujoco_backend import MujocoBackend
    except ImportError as error:
        raise ChamberEnvCompatibilityError(
            'MuJoCo is not installed; install it with: pip install "ripieno-concerto[chamber]" (ADR-001 §Risks)'
        ) from error
    return MujocoBackend(scene, num_envs=num_envs)
