"""Compiled kernels of the cluster bootstrap.

A replicate of pooled episodes is never built as a list. All replicates draw from one pool, so the pool's
distinct values are sorted once and a replicate is only a count per distinct value; its quantiles and means
are one pass over these counts. For 0/1 outcomes that pass has two steps.

Numba draws from the caller's NumPy generator itself, with NumPy's own bounded-integer algorithm (Lemire's
multiplication with rejection), so the numbers and the final state of the generator are those of the plain loop.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["iqm_of_counts", "jackknife_iqm_and_mean", "replicate_iqm_and_mean", "replicate_superiority"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@njit(cache=True)
def iqm_of_counts(distinct: FloatArray, counts: IntArray, size: int) -> float:
    """Mean of the middle half of ``size`` values given as counts of sorted distinct values; NaN when empty."""
    if size == 0:
        return np.nan
    first, end = size // 4, size - size // 4  # the sorted positions that stay: [first, end)
    below = 0
    total = 0.0
    for i in range(distinct.shape[0]):
        upto = below + counts[i]
        total += max(0, min(upto, end) - max(below, first)) * distinct[i]
        below = upto
    return total / (end - first)


@njit(cache=True)
def _mean_of_counts(distinct: FloatArray, counts: IntArray, size: int) -> float:
    if size == 0:
        return np.nan
    total = 0.0
    for i in range(distinct.shape[0]):
        total += counts[i] * distinct[i]
    return total / size


@njit(cache=True)
def _draw_counts(rng: np.random.Generator, starts: IntArray, ranks: IntArray, counts: IntArray) -> int:
    """Draw one replicate into ``counts`` and return its size: clusters first, then episodes of each drawn one."""
    counts[:] = 0
    drawn = 0
    n_clusters = starts.shape[0] - 1
    for cluster in rng.integers(0, n_clusters, n_clusters):
        start = starts[cluster]
        size = int(starts[cluster + 1] - start)
        if size == 1:
            counts[ranks[start]] += 1  # NumPy draws nothing where there is no choice
        elif size > 0:
            for episode in rng.integers(0, size, size):
                counts[ranks[start + episode]] += 1
        drawn += size
    return drawn


@njit(cache=True)
def replicate_iqm_and_mean(
    rng: np.random.Generator, starts: IntArray, ranks: IntArray, distinct: FloatArray, n_resamples: int
) -> FloatArray:
    """Draw ``n_resamples`` replicates; row 0 holds their IQMs and row 1 their means, NaN for an empty one."""
    replicates = np.empty((2, n_resamples))
    counts = np.zeros(distinct.shape[0], np.int64)
    for b in range(n_resamples):
        size = _draw_counts(rng, starts, ranks, counts)
        replicates[0, b] = iqm_of_counts(distinct, counts, size)
        replicates[1, b] = _mean_of_counts(distinct, counts, size)
    return replicates


@njit(cache=True)
def jackknife_iqm_and_mean(starts: IntArray, ranks: IntArray, distinct: FloatArray) -> FloatArray:
    """Leave each cluster out once; row 0 holds the IQMs of the rest and row 1 the means."""
    n_clusters = starts.shape[0] - 1
    left_out = np.empty((2, n_clusters))
    counts = np.zeros(distinct.shape[0], np.int64)
    for rank in ranks:
        counts[rank] += 1
    for cluster in range(n_clusters):
        start, end = starts[cluster], starts[cluster + 1]
        for rank in ranks[start:end]:
            counts[rank] -= 1
        size = ranks.shape[0] - (end - start)
        left_out[0, cluster] = iqm_of_counts(distinct, counts, size)
        left_out[1, cluster] = _mean_of_counts(distinct, counts, size)
        for rank in ranks[start:end]:
            counts[rank] += 1
    return left_out


@njit(cache=True)
def superiority_of_counts(counts_x: IntArray, counts_y: IntArray, n_x: int, n_y: int) -> float:
    """P(X > Y) + P(X = Y) / 2 for two samples counted over the same sorted distinct values; NaN when empty."""
    if n_x == 0 or n_y == 0:
        return np.nan
    wins = 0.0
    below = 0
    for i in range(counts_x.shape[0]):
        wins += counts_x[i] * (below + 0.5 * counts_y[i])
        below += counts_y[i]
    return wins / n_x / n_y


@njit(cache=True)
def replicate_superiority(
    rng: np.random.Generator,
    starts_x: IntArray,
    ranks_x: IntArray,
    starts_y: IntArray,
    ranks_y: IntArray,
    n_distinct: int,
    n_resamples: int,
) -> FloatArray:
    """P(X > Y) + P(X = Y) / 2 of ``n_resamples`` replicates; each draws its X before its Y."""
    replicates = np.empty(n_resamples)
    counts_x = np.zeros(n_distinct, np.int64)
    counts_y = np.zeros(n_distinct, np.int64)
    for b in range(n_resamples):
        n_x = _draw_counts(rng, starts_x, ranks_x, counts_x)
        n_y = _draw_counts(rng, starts_y, ranks_y, counts_y)
        replicates[b] = superiority_of_counts(counts_x, counts_y, n_x, n_y)
    return replicates
