"""How activity leaves an imprint, how it fades, and what it changes."""

from __future__ import annotations

from math import exp, pi

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, real_array, real_scalar
from scpn_phase_orchestrator.imprint.state import ImprintState

__all__ = ["MAX_LAG_OFFSET", "ImprintModel"]

MAX_LAG_OFFSET = pi / 2
"""Largest lag, in rad, that a difference of imprints adds. Beyond a quarter turn, attraction would become repulsion."""


class ImprintModel:
    """Leaky accumulation with a ceiling: ``m' = clip(m e^{−λ dt} + exposure·dt, 0, saturation)``.

    Under a constant exposure ``e`` and for small steps, ``m`` settles at ``min(e/λ, saturation)``.

    Args:
        decay_rate: λ in 1/s, not negative.
        saturation: ceiling of the imprint, positive.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, decay_rate: float, saturation: float) -> None:
        self.decay_rate = real_scalar("decay_rate", decay_rate, minimum=0.0)
        self.saturation = real_scalar("saturation", saturation, above=0.0)

    def update(self, state: ImprintState, exposure: object, dt: float) -> ImprintState:
        """Count the activity of one time span.

        Args:
            state: the imprint before.
            exposure: ``(n,)`` activity per second, such as the order parameter of each oscillator's layer.
            dt: length of the span in s, not negative.

        Raises:
            ValueError: an exposure of another shape or not finite, or a negative span.
        """
        span = real_scalar("dt", dt, minimum=0.0)
        activity = real_array("exposure", exposure, state.m_k.shape)
        grown = state.m_k * exp(-self.decay_rate * span) + activity * span
        return ImprintState(
            m_k=np.minimum(np.maximum(grown, 0.0), self.saturation), last_update=state.last_update + span
        )

    @staticmethod
    def modulate_coupling(knm: FloatArray, state: ImprintState) -> FloatArray:
        """Strengthen what an imprinted oscillator receives: ``K_ij (1 + m_i)``."""
        return knm * (1.0 + state.m_k)[:, None]

    @staticmethod
    def modulate_lag(alpha: FloatArray, state: ImprintState) -> FloatArray:
        """Shift the lag by the difference of imprints: ``α_ij + clip(m_i − m_j, ±π/2)``."""
        difference = state.m_k[:, None] - state.m_k
        return alpha + np.minimum(np.maximum(difference, -MAX_LAG_OFFSET), MAX_LAG_OFFSET)

    @staticmethod
    def modulate_mu(mu: FloatArray, state: ImprintState) -> FloatArray:
        """Raise the growth rate of an imprinted oscillator: ``μ_i (1 + m_i)``."""
        return mu * (1.0 + state.m_k)
