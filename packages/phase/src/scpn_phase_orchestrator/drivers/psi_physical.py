"""The drive phase of a physical oscillation."""

from __future__ import annotations

from math import sin

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, real_array, real_scalar
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = ["PhysicalDriver"]


class PhysicalDriver:
    """A drive phase that swings: ``Ψ(t) = A sin(2π f t)``.

    Args:
        frequency: f in Hz, positive.
        amplitude: A in rad, not negative.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, frequency: float, amplitude: float = 1.0) -> None:
        self.frequency = real_scalar("frequency", frequency, above=0.0)
        self.amplitude = real_scalar("amplitude", amplitude, minimum=0.0)

    def compute(self, t: float) -> float:
        """Give Ψ in rad at time ``t`` in s."""
        return self.amplitude * sin(TWO_PI * self.frequency * t)

    def compute_batch(self, t: object) -> FloatArray:
        """Give Ψ in rad at all times ``t`` in s, ``(T,)``."""
        return self.amplitude * np.sin(TWO_PI * self.frequency * real_array("t", t, (None,)))
