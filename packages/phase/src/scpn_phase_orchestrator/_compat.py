"""What every module may rely on without importing an optional package."""

from importlib.util import find_spec
from math import tau

__all__ = ["HAS_RUST", "TWO_PI"]

TWO_PI = tau
"""One turn, in radians."""

HAS_RUST = find_spec("spo_kernel") is not None
"""Whether the compiled extension can be located. It is neither imported nor chosen here."""
