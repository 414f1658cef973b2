"""Loops over the copies of an environment: plain Python on lists for one copy, compiled on arrays for several.

For one copy a loop is over in a few microseconds, and for that a process need not carry a compiler of more than 100 MB;
Numba is loaded when several copies first need it. Both forms come from one source and have the same last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["compiled"]

Loop = Callable[..., Any]


@cache
def compiled(loop: Loop, *parts: Loop) -> Loop:
    """Give a loop compiled; ``parts`` are the functions that it calls."""
    from numba import njit

    for part in parts:
        _make_callable(part)
    return njit(cache=True, error_model="numpy")(loop)


@cache
def _make_callable(part: Loop) -> None:
    from numba.extending import register_jitable

    register_jitable(error_model="numpy")(part)
