"""The drive phase of a repeated sequence of symbols."""

from __future__ import annotations

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, real_array, whole_number

__all__ = ["SymbolicDriver"]


class SymbolicDriver:
    """A drive phase that steps through a sequence for ever: ``Ψ(step) = sequence[step mod len]``.

    Args:
        sequence: phases in rad, at least one.

    Raises:
        ValueError: an empty sequence, or phases that are not real and finite.
    """

    def __init__(self, sequence: object) -> None:
        self._phases = real_array("sequence", sequence, (None,)).copy()
        if not len(self._phases):
            raise ValueError("sequence must hold at least one phase")
        self.sequence = tuple(self._phases.tolist())

    def compute(self, step: int) -> float:
        """Give Ψ in rad at a step.

        Raises:
            ValueError: a step that is no integer, or negative.
        """
        return self.sequence[whole_number("step", step) % len(self.sequence)]

    def compute_batch(self, steps: object) -> FloatArray:
        """Give Ψ in rad at all steps, ``(T,)``.

        Raises:
            ValueError: steps that are not integers, or negative.
        """
        positions = np.asarray(steps)
        if positions.ndim != 1 or (positions.dtype.kind not in "iu" and positions.size):
            raise ValueError(f"steps must be integers of shape (T,), got {positions.dtype} of {positions.shape}")
        if positions.size and positions.min() < 0:
            raise ValueError(f"steps must be at least 0, got {positions.min()}")
        return self._phases[positions.astype(np.int64) % len(self._phases)]
