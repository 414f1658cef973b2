"""The MuJoCo bindings, which have no types; import them from here, so that they render without a screen."""

from __future__ import annotations

import logging
import os
from typing import Any, TypeAlias

# MuJoCo chooses how it renders when it is imported. Where EGL is missing, only rendering fails.
_wanted = os.environ.setdefault("MUJOCO_GL", "egl")

try:
    import mujoco as _untyped
except Exception as error:  # whatever the library of that name says
    if isinstance(error, ModuleNotFoundError) and error.name == "mujoco":
        raise ImportError(
            'MuJoCo is not installed; install it with: pip install "ripieno-concerto[chamber]"'
        ) from error
    # It is there, but cannot draw as MUJOCO_GL wants: states need no pictures, and who asks for one is told.
    os.environ["MUJOCO_GL"] = "disabled"
    try:
        import mujoco as _untyped
    finally:
        os.environ["MUJOCO_GL"] = _wanted

__all__ = ["MjData", "MjModel", "MjSpec", "MjsBody", "MjsGeom", "mujoco"]

MjData: TypeAlias = Any
MjModel: TypeAlias = Any
MjSpec: TypeAlias = Any
MjsBody: TypeAlias = Any
MjsGeom: TypeAlias = Any

mujoco: Any = _untyped

if mujoco.get_mju_user_warning() is None:
    # By default MuJoCo writes warnings to a file in the working directory; the backend raises what they mean.
    mujoco.set_mju_user_warning(logging.getLogger(__name__).debug)
