"""The drive phase of a cadence."""

from __future__ import annotations

from scpn_phase_orchestrator._arrays import FloatArray, real_array, real_scalar
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = ["InformationalDriver"]


class InformationalDriver:
    """A drive phase that turns steadily: ``Ψ(t) = 2π c t mod 2π``.

    Args:
        cadence_hz: c in Hz, positive.

    Raises:
        ValueError: a cadence out of range.
    """

    def __init__(self, cadence_hz: float) -> None:
        self.cadence_hz = real_scalar("cadence_hz", cadence_hz, above=0.0)

    def compute(self, t: float) -> float:
        """Give Ψ in rad on [0, 2π) at time ``t`` in s."""
        return (TWO_PI * self.cadence_hz * t) % TWO_PI

    def compute_batch(self, t: object) -> FloatArray:
        """Give Ψ in rad on [0, 2π) at all times ``t`` in s, ``(T,)``."""
        return (TWO_PI * self.cadence_hz * real_array("t", t, (None,))) % TWO_PI
