"""Decides once whether pictures can be made: from the argument, else the environment variable, else yes."""

from __future__ import annotations

import os
from typing import Literal

__all__ = ["RENDER_BACKENDS", "resolve_render_backend"]

RENDER_BACKENDS = ("auto", "cpu", "egl", "gpu", "none")
"""Accepted names. All but ``"none"`` mean off-screen rendering through EGL, on whatever device EGL finds."""

_VARIABLE = "CHAMBER_RENDER_BACKEND"


def resolve_render_backend(value: str | None) -> Literal["egl", "none"]:
    """Give ``"egl"`` or ``"none"``.

    Args:
        value: one of `RENDER_BACKENDS`; None reads ``CHAMBER_RENDER_BACKEND``, and when that is unset means ``"auto"``.

    Raises:
        ValueError: any other name; the message says where it came from.
    """
    source = "render_backend" if value is not None else _VARIABLE
    chosen = value if value is not None else os.environ.get(_VARIABLE) or "auto"
    if chosen not in RENDER_BACKENDS:
        raise ValueError(f"{source} must be one of {', '.join(RENDER_BACKENDS)}, got {chosen!r}")
    return "none" if chosen == "none" else "egl"
