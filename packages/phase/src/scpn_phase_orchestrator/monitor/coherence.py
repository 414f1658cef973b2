"""How firmly a layer holds together, told apart from what chance alone gives a few oscillators.

The order parameter R of n unrelated phases is not 0: its square has the mean 1/n, so two independent oscillators
show R = 0.64 on average. `lock_level` removes that share, which makes small layers comparable with large ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray

__all__ = ["PLAIN_MEMORIES", "CoherenceWindow", "lock_level", "longest_beat_s"]

PLAIN_MEMORIES = 2.5
"""Length of the plain mean beside the exponential one, in memories."""


def lock_level(mean_squared_r: FloatArray, sizes: NDArray[np.int64]) -> FloatArray:
    """Give the coherence of layers beyond chance, from 0 (as unrelated phases) to 1 (one phase).

    ``sqrt(max(0, (n <R^2> - 1) / (n - 1)))``: the root of the debiased squared order parameter, averaged over time.
    It is 0 as well when phases keep apart (anti-phase, splay), and 1 for a single oscillator, which is always
    coherent with itself.

    Args:
        mean_squared_r: time means of R squared, shape ``(L,)``.
        sizes: oscillators per layer, shape ``(L,)``, each at least 1.

    Returns:
        Shape ``(L,)``.
    """
    others = np.maximum(sizes - 1, 1)
    debiased = np.where(sizes > 1, (sizes * mean_squared_r - 1.0) / others, 1.0)
    return np.sqrt(np.clip(debiased, 0.0, 1.0))


def longest_beat_s(omegas: Sequence[float]) -> float:
    """Give the longest beat between neighbouring frequencies of a layer, in seconds.

    Free oscillators meet once a beat; over less than one, their order says nothing about whether they are locked.

    Args:
        omegas: natural frequencies in rad/s.

    Returns:
        ``2 pi`` over the smallest difference, those of rounding (1e-12 of the largest frequency) aside; 0 where all
        are equal.

    Examples:
        >>> round(longest_beat_s([3.0, 1.0, 2.5]), 2)
        12.57
    """
    frequencies = np.sort(np.asarray(omegas, dtype=np.float64))
    gaps = np.diff(frequencies)
    gaps = gaps[gaps > 1e-12 * np.abs(frequencies).max(initial=0.0)]
    return 2.0 * np.pi / float(gaps.min()) if gaps.size else 0.0


class CoherenceWindow:
    """Exponentially weighted means of R and R squared of every layer.

    The first readings are averaged plainly until the memory is full, so that the means never lean on the
    arbitrary value that they would otherwise start from.
    """

    def __init__(self, sizes: Sequence[int], memory_steps: float) -> None:
        """Start empty.

        Args:
            sizes: oscillators per layer.
            memory_steps: number of readings over which the weight of one falls to 1/e, at least 1.
        """
        self._sizes = np.asarray(sizes, dtype=np.int64)
        self._floor = 1.0 / max(1.0, memory_steps)
        self._count = 0
        self._mean = np.zeros(len(self._sizes))
        self._square = np.zeros(len(self._sizes))
        self._recent = np.zeros((max(1, round(PLAIN_MEMORIES * memory_steps)), len(self._sizes)))
        self._recent_sum = np.zeros(len(self._sizes))

    def update(self, layer_r: FloatArray) -> None:
        """Take one reading, shape ``(L,)``."""
        self._count += 1
        weight = max(self._floor, 1.0 / self._count)
        self._mean = self._mean + weight * (layer_r - self._mean)  # new arrays: readers keep theirs
        square = layer_r * layer_r
        self._square = self._square + weight * (square - self._square)
        row = self._recent[(self._count - 1) % len(self._recent)]
        self._recent_sum += square - row
        row[:] = square

    @property
    def mean_r(self) -> FloatArray:
        """Mean order parameter of every layer, shape ``(L,)``."""
        return self._mean

    @property
    def plain_lock(self) -> FloatArray:
        """Lock level of every layer over the last `PLAIN_MEMORIES` memories, all weighted alike, shape ``(L,)``.

        A layer that lets go for a moment and locks again still shows here what a verdict over that time will see.
        """
        return lock_level(self._recent_sum / max(1, min(self._count, len(self._recent))), self._sizes)

    @property
    def lock(self) -> FloatArray:
        """Lock level of every layer, shape ``(L,)``."""
        return lock_level(self._square, self._sizes)
