"""The counting loop of phase transfer entropy, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["pairwise_transfer_entropy"]


@njit(cache=True)
def _entropy(counts: NDArray[np.int64], total: int) -> float:
    """Shannon entropy in nats of a histogram with ``total`` entries."""
    weighted = 0.0
    for count in counts:
        if count > 0:
            weighted += count * np.log(count)
    return np.log(total) - weighted / total


@njit(cache=True)
def pairwise_transfer_entropy(symbols: NDArray[np.int64], n_bins: int, delay: int) -> NDArray[np.float64]:
    """Transfer entropy i -> j of binned series, in nats; symbols ``(n, T)`` in [0, n_bins), result ``(n, n)``."""
    n_series, n_times = symbols.shape
    total = n_times - delay
    scores = np.zeros((n_series, n_series))
    for target in range(n_series):
        own_past = np.zeros(n_bins, dtype=np.int64)
        own_step = np.zeros(n_bins * n_bins, dtype=np.int64)
        for t in range(total):
            past, present = symbols[target, t], symbols[target, t + delay]
            own_past[past] += 1
            own_step[past * n_bins + present] += 1
        own_rate = _entropy(own_step, total) - _entropy(own_past, total)
        for source in range(n_series):
            if source == target:
                continue
            both_past = np.zeros(n_bins * n_bins, dtype=np.int64)
            both_step = np.zeros(n_bins * n_bins * n_bins, dtype=np.int64)
            for t in range(total):
                pair = symbols[target, t] * n_bins + symbols[source, t]
                both_past[pair] += 1
                both_step[pair * n_bins + symbols[target, t + delay]] += 1
            scores[source, target] = own_rate - (_entropy(both_step, total) - _entropy(both_past, total))
    return scores
