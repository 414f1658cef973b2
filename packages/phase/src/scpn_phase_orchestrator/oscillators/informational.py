"""Phase of a train of events from their times."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState, finite_series

__all__ = ["InformationalExtractor", "distinct_events"]


def distinct_events(times: ArrayLike) -> FloatArray:
    """Give event times in seconds with simultaneous ones merged.

    Raises:
        ExtractorError: a time is not finite, or earlier than the one before it.
    """
    stamps = finite_series(times, "event times")
    backwards = np.flatnonzero(np.diff(stamps) < 0.0)
    if backwards.size:
        position = int(backwards[0]) + 1
        raise ExtractorError(
            f"event times must ascend, got {stamps[position]:.9g} after {stamps[position - 1]:.9g} "
            f"at position {position}"
        )
    return np.unique(stamps)


class InformationalExtractor(PhaseExtractor):
    """Phase of an event train (channel I): one event is one turn.

    With intervals d and rates f = 1 / d: ``theta = 2π median(f) (last - first) mod 2π``, ``omega = 2π median(f)``,
    ``quality = 1 / (1 + std(d) / mean(d))``, ``amplitude`` 1. Fewer than two distinct times give zeros.

    Args:
        node_id: the oscillator.

    Examples:
        >>> (state,) = InformationalExtractor("calls").extract([0.0, 0.5, 1.0, 1.25], 1.0)
        >>> round(state.omega / TWO_PI, 6), round(state.theta / TWO_PI, 6)
        (2.0, 0.5)
    """

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id

    def extract(self, signal: ArrayLike, sample_rate: float) -> list[PhaseState]:
        """Give one state from ascending event times in seconds; ``sample_rate`` has no meaning here."""
        stamps = distinct_events(signal)
        if stamps.size < 2:
            return [PhaseState(0.0, 0.0, 0.0, 0.0, "I", self.node_id)]
        intervals = np.diff(stamps)
        frequency = float(np.median(1.0 / intervals))
        variation = float(intervals.std() / intervals.mean())
        return [
            PhaseState(
                theta=float((TWO_PI * frequency * (stamps[-1] - stamps[0])) % TWO_PI),
                omega=TWO_PI * frequency,
                amplitude=1.0,
                quality=1.0 / (1.0 + variation),
                channel="I",
                node_id=self.node_id,
            )
        ]
