"""Phase of a sequence of discrete states."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator._arrays import FloatArray, positive_number, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState, finite_series

__all__ = ["SymbolicExtractor"]


class SymbolicExtractor(PhaseExtractor):
    """Phase of a sequence of states (channel S), one phase state per symbol.

    ``ring``: ``theta = 2π s / N``; steps are counted the short way round the ring. ``graph``: ``theta = 2π`` times
    the share of the walk that is done, ``cumulative |Δs| / total``; a walk that never moves has phase 0.
    ``quality``: 0.5 for the first symbol, 0.2 for no move, 1.0 for a step of one, else
    ``max(0.1, 1 - (step - 1) / N)``. ``omega`` is the phase gained by the last step, in rad/s, 0 for the first symbol.

    Args:
        n_states: number of states N, at least 2.
        node_id: the oscillator.
        mode: ``ring`` or ``graph``.

    Raises:
        ValueError: a setting is outside its range.

    Examples:
        >>> states = SymbolicExtractor(4, node_id="valve").extract([0, 1, 1, 3], 1.0)
        >>> [round(state.theta / TWO_PI, 2) for state in states], [state.quality for state in states]
        ([0.0, 0.25, 0.25, 0.75], [0.5, 1.0, 0.2, 0.75])
    """

    def __init__(self, n_states: int, node_id: str = "sym", mode: Literal["ring", "graph"] = "ring") -> None:
        if mode not in ("ring", "graph"):
            raise ValueError(f"mode must be 'ring' or 'graph', got {mode!r:.80}")
        self.n_states = whole_number("n_states", n_states, minimum=2)
        self.node_id = node_id
        self.mode = mode

    def extract(self, signal: ArrayLike, sample_rate: float) -> list[PhaseState]:
        """Give one state per symbol; symbols are integers in [0, N)."""
        rate = positive_number("sample_rate", sample_rate)
        symbols = self.checked_symbols(signal)
        theta = self.phases(symbols)
        quality = self.qualities(symbols)
        turn = np.diff(theta, prepend=theta[:1])
        if self.mode == "ring":
            turn = (turn + np.pi) % TWO_PI - np.pi
        return [
            PhaseState(float(angle % TWO_PI), float(gained * rate), 1.0, float(good), "S", self.node_id)
            for angle, gained, good in zip(theta, turn, quality, strict=True)
        ]

    def checked_symbols(self, signal: ArrayLike) -> NDArray[np.int64]:
        """Give the symbols as integers.

        Raises:
            ExtractorError: a symbol is no integer in [0, N).
        """
        values = finite_series(signal, "symbols")
        wrong = np.flatnonzero((values != np.floor(values)) | (values < 0) | (values >= self.n_states))
        if wrong.size:
            position = int(wrong[0])
            raise ExtractorError(
                f"symbols must be integers in [0, {self.n_states}), got {values[position]:g} at position {position}"
            )
        return values.astype(np.int64)

    def phases(self, symbols: NDArray[np.int64]) -> FloatArray:
        """Phase of every symbol in rad; ``graph`` ends at 2π."""
        if self.mode == "ring":
            return TWO_PI * symbols / self.n_states
        walked = np.cumsum(np.abs(np.diff(symbols, prepend=symbols[:1])))
        total = int(walked[-1]) if walked.size else 0
        return TWO_PI * walked / total if total else np.zeros(symbols.size)

    def qualities(self, symbols: NDArray[np.int64]) -> FloatArray:
        """Quality of every symbol by the size of the step that led to it."""
        step = np.abs(np.diff(symbols, prepend=symbols[:1]))
        if self.mode == "ring":
            step = np.minimum(step, self.n_states - step)
        quality = np.where(step == 0, 0.2, np.maximum(0.1, 1.0 - (step - 1) / self.n_states))
        quality[:1] = 0.5
        return quality
