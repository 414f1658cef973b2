"""Names from the time when tasks ran on SAPIEN, kept so that old imports say what became of them.

The simulator is MuJoCo now (`chamber.sim`). It loads no robot description through SAPIEN, and robots are keyed by their
bare uids by construction.
"""

from __future__ import annotations

from typing import Any, NoReturn

from chamber.envs.errors import ChamberEnvCompatibilityError

__all__ = ["load_agent_with_bare_uids", "patch_sapien_urdf_no_visual_material"]


def patch_sapien_urdf_no_visual_material() -> None:
    """Do nothing: no robot is loaded through SAPIEN here, so there is no material to strip. May be called any time."""


def load_agent_with_bare_uids(
    env: Any,
    options: Any,
    *,
    initial_agent_poses: Any = None,
    build_separate: bool = False,
) -> NoReturn:
    """Refuse: only an environment of ManiSkill has what this loaded, and there is none here.

    Raises:
        ChamberEnvCompatibilityError: always; the message says what to use instead.
    """
    raise ChamberEnvCompatibilityError(
        f"load_agent_with_bare_uids() needs a ManiSkill environment, got {type(env).__name__}: the simulator is "
        "MuJoCo, and the robots of a chamber.sim.scene.SceneSpec have bare uids by construction (ADR-001 §Risks)"
    )
