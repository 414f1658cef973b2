"""What a set of phase states is worth together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator.oscillators.base import PhaseState

__all__ = ["PhaseQualityScorer"]


class PhaseQualityScorer:
    """Summarises the qualities of many oscillators and says when they are not worth acting on.

    Args:
        minimum: states below this quality count nothing.
        collapse: with a score below this the whole reading has collapsed.

    Raises:
        ValueError: a threshold is outside [0, 1].
    """

    def __init__(self, *, minimum: float = 0.3, collapse: float = 0.1) -> None:
        for name, value in (("minimum", minimum), ("collapse", collapse)):
            if isinstance(value, bool) or not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be a number in [0, 1], got {value!r:.80}")
        self.minimum = float(minimum)
        self.collapse = float(collapse)

    def score(self, phase_states: Sequence[PhaseState]) -> float:
        """Mean quality weighted by amplitude; the plain mean when no state has an amplitude, 0.0 without states."""
        if not phase_states:
            return 0.0
        quality = np.array([state.quality for state in phase_states])
        amplitude = np.array([max(state.amplitude, 0.0) for state in phase_states])
        largest = float(amplitude.max())
        if largest == 0.0:
            return float(quality.mean())
        weights = amplitude / largest  # no sum of amplitudes can overflow
        return float(np.sum(quality * weights) / np.sum(weights))

    def weights(self, phase_states: Sequence[PhaseState]) -> NDArray[np.float64]:
        """Weight of every state: its quality, or 0.0 below ``minimum``; shape ``(n_states,)``."""
        quality = np.array([state.quality for state in phase_states], dtype=np.float64)
        return np.where(quality >= self.minimum, quality, 0.0)

    def is_collapsed(self, phase_states: Sequence[PhaseState]) -> bool:
        """Tell whether the score lies below ``collapse``; no states at all are collapsed."""
        return self.score(phase_states) < self.collapse or not phase_states
