"""What past activity has left behind in each oscillator."""

from __future__ import annotations

from dataclasses import dataclass

from scpn_phase_orchestrator._arrays import FloatArray

__all__ = ["ImprintState"]


@dataclass(frozen=True, slots=True, eq=False)
class ImprintState:
    """The imprint of every oscillator.

    Attributes:
        m_k: ``(n,)``, not negative and at most the saturation of the model.
        last_update: time up to which activity is counted, in s.
    """

    m_k: FloatArray
    last_update: float
