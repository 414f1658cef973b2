"""What makes a command answer sooner: no collection of garbage while hundreds of modules load and none is made."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["quick_start"]


@contextmanager
def quick_start() -> Generator[None]:
    """Load modules and compiled kernels in the block without collecting garbage, and leave it uncollected at the end.

    A run of a small spec takes a third less time on the processor: half of that is spent on collections while Numba
    loads, the other half on the last one when the interpreter ends, which would look for garbage in what is about to
    vanish. Between the two, garbage is collected as ever.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        atexit.unregister(gc.freeze)
        atexit.register(gc.freeze)
