"""What the last bit of a result depends on, besides the inputs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from ripieno._environment import machine
from ripieno.canonical import content_hash

__all__ = ["platform_identity"]


@cache
def platform_identity() -> str:
    """Name compiler, array library and processor: on equal ones the same backend gives the same bits."""
    known = machine()
    processor = content_hash([known["cpu_model"], known["cpu_features"]])[:12]
    return f"numba {version('numba')}, numpy {version('numpy')}, {known['architecture']}, processor {processor}"
