"""Statistics of clustered evaluation runs: point estimates, and intervals that respect the clusters.

Episodes that share a seed share a policy or a scene, so they are not independent. Every interval here resamples
whole clusters first and episodes inside each drawn cluster second. All randomness comes from the generator that
the caller passes in, and the order of the draws is part of the interface: stored intervals can be recomputed.

The order of the clusters is the mapping's own and changes the numbers, so callers sort their clusters by seed.

References:
    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
    Efron, "Better Bootstrap Confidence Intervals", JASA 82 (1987), 171-185.
    Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927), 209-212.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ripieno.errors import InputError

__all__ = [
    "BootstrapCI",
    "Interval",
    "PairedDifference",
    "ProbabilityOfImprovement",
    "bca_cluster_bootstrap",
    "cluster_bootstrap",
    "iqm",
    "mean",
    "optimality_gap",
    "paired_cluster_bootstrap",
    "performance_profile_area",
    "probability_of_improvement",
    "wilson_interval",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LOWER_PERCENT, UPPER_PERCENT = 2.5, 97.5
"""The percentiles of a two-sided 95 % interval."""

PROFILE_POINTS = 51
"""Equally spaced thresholds on [0, 1] at which the performance profile is evaluated."""

_STANDARD_NORMAL = NormalDist()


@dataclass(frozen=True)
class BootstrapCI:
    """IQM and mean of the pooled data with their 95 % bootstrap intervals.

    The point estimates are those of the original data, not averages over replicates. On 0/1 outcomes the IQM hides up
    to a quarter of failures (45 successes of 60 give 1.0): read the mean and its interval next to it.

    Attributes:
        iqm: interquartile mean of the pooled values; NaN when there are none.
        mean: arithmetic mean of the pooled values; NaN when there are none.
        ci_low: lower bound of the interval of the IQM.
        ci_high: upper bound of the interval of the IQM.
        n_resamples: replicates drawn.
        mean_ci_low: lower bound of the interval of the mean.
        mean_ci_high: upper bound of the interval of the mean.
    """

    iqm: float
    mean: float
    ci_low: float
    ci_high: float
    n_resamples: int
    mean_ci_low: float
    mean_ci_high: float


@dataclass(frozen=True)
class ProbabilityOfImprovement:
    """P(X > Y) + P(X = Y) / 2 with its 95 % percentile interval; 0.5 means no difference.

    Attributes:
        probability: estimate on the original data; NaN when a side is empty.
        ci_low: lower bound.
        ci_high: upper bound.
        n_resamples: replicates drawn.
    """

    probability: float
    ci_low: float
    ci_high: float
    n_resamples: int


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


class PairedDifference(Protocol):
    """What one matched pair of episodes brings to a paired interval."""

    @property
    def seed(self) -> int:
        """The cluster of the pair."""
        ...

    @property
    def difference(self) -> float:
        """First condition minus second condition."""
        ...


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: the mean of the sorted values without the lowest and the highest ``floor(n / 4)``.

    Args:
        values: any number of values; all axes are pooled.

    Returns:
        The mean of what stays, or NaN when there are no values.

    Raises:
        InputError: a value is not finite.

    Examples:
        >>> iqm([0, 0, 0, 1, 1, 1, 1, 1, 1, 1])
        0.8333333333333334
    """
    pooled = np.sort(_finite(values, "values"))
    trimmed = pooled.size // 4
    return mean(pooled[trimmed : pooled.size - trimmed])


def mean(values: ArrayLike) -> float:
    """Arithmetic mean of all values, or NaN when there are none.

    Raises:
        InputError: a value is not finite.
    """
    pooled = _finite(values, "values")
    return float(pooled.mean()) if pooled.size else math.nan


def cluster_bootstrap(
    values: Mapping[int, Sequence[float]], *, n_resamples: int, rng: np.random.Generator
) -> BootstrapCI:
    """Give percentile intervals of the IQM and of the mean from a two-level bootstrap.

    With K clusters of sizes n_c, every replicate calls ``rng.integers(0, K, size=K)`` and then, for each drawn cluster
    in draw order, ``rng.integers(0, n_c, size=n_c)`` unless that cluster is empty. The generator ends in the state that
    these calls leave. The intervals are the 2.5 and 97.5 percentiles (linear interpolation) over the replicates
    that are not empty.

    Args:
        values: outcomes of the episodes of each cluster; the mapping's order is the order of the clusters.
        n_resamples: number of replicates.
        rng: the generator to draw from; it advances.

    Returns:
        Estimates and intervals; all NaN when there are no values.

    Raises:
        InputError: ``n_resamples`` is not positive or a value is not finite; nothing has been drawn then.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> ci = cluster_bootstrap({0: [1, 0, 1, 1], 1: [1, 1, 0, 1]}, n_resamples=1000, rng=rng)
        >>> ci.iqm, ci.mean, ci.mean_ci_low, ci.mean_ci_high
        (1.0, 0.75, 0.5, 1.0)
    """
    estimate, replicates, _ = _estimate_and_replicates(values, n_resamples, rng)
    of_iqm, of_mean = (_percentiles(row, LOWER_PERCENT, UPPER_PERCENT) for row in replicates)
    return _with_intervals(estimate, of_iqm, of_mean)


def bca_cluster_bootstrap(
    values: Mapping[int, Sequence[float]], *, n_resamples: int, rng: np.random.Generator
) -> BootstrapCI:
    """Like :func:`cluster_bootstrap`, with bias-corrected and accelerated (BCa) intervals from the same draws.

    Percentile intervals of skewed statistics on a handful of clusters cover too little; BCa corrects their ends with
    the median bias z0 of the replicates (ties count half) and the acceleration a, from leaving one cluster out:

        a = sum(d^3) / (6 sum(d^2)^(3/2)),   d = mean of the leave-one-out estimates - each of them
        end = Phi(z0 + (z0 + z) / (1 - a (z0 + z))),   z = Phi^-1(0.025), Phi^-1(0.975)

    A bound is NaN where the correction does not exist: fewer than two non-empty clusters, or all replicates on one side
    of the estimate. Arguments and errors are those of :func:`cluster_bootstrap`; the equations are Efron's (1987).
    """
    estimate, replicates, left_out = _estimate_and_replicates(values, n_resamples, rng)
    of_iqm = _bca_interval(estimate.iqm, replicates[0], left_out[0])
    of_mean = _bca_interval(estimate.mean, replicates[1], left_out[1])
    return _with_intervals(estimate, of_iqm, of_mean)


def paired_cluster_bootstrap(
    pairs: Iterable[PairedDifference], *, n_resamples: int, rng: np.random.Generator
) -> BootstrapCI:
    """Bootstrap the differences of matched pairs, clustered by seed in the order in which seeds first appear.

    The estimate is the IQM (and the mean) of the differences. The IQM of differences is not the difference of the two
    IQMs; the mean of differences is the difference of the two means.

    Args:
        pairs: anything with ``seed`` and ``difference``; an iterator is consumed once.
        n_resamples: number of replicates.
        rng: the generator to draw from; it advances as in :func:`cluster_bootstrap`.

    Raises:
        InputError: as in :func:`cluster_bootstrap`.
    """
    differences: dict[int, list[float]] = {}
    for pair in pairs:
        differences.setdefault(pair.seed, []).append(pair.difference)
    return cluster_bootstrap(differences, n_resamples=n_resamples, rng=rng)


def probability_of_improvement(
    values: Mapping[int, Sequence[float]],
    baseline: Mapping[int, Sequence[float]],
    *,
    n_resamples: int,
    rng: np.random.Generator,
) -> ProbabilityOfImprovement:
    """Chance that an episode of ``values`` beats one of ``baseline``, ties counting half (Mann-Whitney U / (n m)).

    Each replicate resamples ``values`` and then ``baseline``, both with the draws of :func:`cluster_bootstrap`.

    Args:
        values: outcomes by cluster; higher is better.
        baseline: outcomes by cluster of what it is compared with.
        n_resamples: number of replicates.
        rng: the generator to draw from; it advances.

    Returns:
        The estimate and its 95 % percentile interval; NaN when a side has no values.

    Raises:
        InputError: ``n_resamples`` is not positive or a value is not finite.
    """
    from ripieno._resampling import replicate_superiority, superiority_of_counts

    _check_resampling(n_resamples, rng)
    pool_x, starts_x = _pool(values)
    pool_y, starts_y = _pool(baseline)
    if pool_x.size == 0 or pool_y.size == 0:
        return ProbabilityOfImprovement(math.nan, math.nan, math.nan, n_resamples)
    distinct, ranks = np.unique(np.concatenate([pool_x, pool_y]), return_inverse=True)
    ranks_x, ranks_y = ranks[: pool_x.size], ranks[pool_x.size :]
    estimate = superiority_of_counts(
        np.bincount(ranks_x, minlength=distinct.size),
        np.bincount(ranks_y, minlength=distinct.size),
        pool_x.size,
        pool_y.size,
    )
    replicates = replicate_superiority(rng, starts_x, ranks_x, starts_y, ranks_y, distinct.size, n_resamples)
    interval = _percentiles(replicates, LOWER_PERCENT, UPPER_PERCENT)
    return ProbabilityOfImprovement(float(estimate), interval.low, interval.high, n_resamples)


def wilson_interval(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a success rate from independent trials.

    Args:
        successes: between 0 and ``trials``.
        trials: at least 1.
        confidence: two-sided coverage, between 0 and 1.

    Raises:
        InputError: a number is outside its range.

    Examples:
        >>> low, high = wilson_interval(19, 20)
        >>> round(low, 4), round(high, 4)
        (0.7639, 0.9911)
    """
    if trials < 1:
        raise InputError(f"trials must be at least 1, got {trials}")
    if not 0 <= successes <= trials:
        raise InputError(f"successes must be between 0 and trials={trials}, got {successes}")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must be between 0 and 1, got {confidence}")
    z = _STANDARD_NORMAL.inv_cdf((1.0 + confidence) / 2.0)
    rate = successes / trials
    shrink = 1.0 + z**2 / trials
    centre = (rate + z**2 / (2.0 * trials)) / shrink
    half_width = z / shrink * math.sqrt(rate * (1.0 - rate) / trials + z**2 / (4.0 * trials**2))
    # At the ends the bound is exactly 0 or 1; rounding must not say otherwise.
    low = 0.0 if successes == 0 else centre - half_width
    high = 1.0 if successes == trials else centre + half_width
    return Interval(low, high)


def optimality_gap(values: ArrayLike, *, threshold: float = 1.0) -> float:
    """Mean amount by which values stay below ``threshold``; values above it count as 0. NaN when there are none.

    Raises:
        InputError: a value or the threshold is not finite.
    """
    if not math.isfinite(threshold):
        raise InputError(f"threshold must be finite, got {threshold}")
    return mean(np.maximum(threshold - _finite(values, "values"), 0.0))


def performance_profile_area(values: ArrayLike) -> float:
    """Trapezoid area under the share of values strictly above tau, for 51 equally spaced tau in [0, 1].

    For 0/1 outcomes it is 0.99 times the success share: at tau = 1 nothing is strictly above. NaN when there are none.

    Raises:
        InputError: a value is not finite.
    """
    pooled = np.sort(_finite(values, "values"))
    if pooled.size == 0:
        return math.nan
    thresholds = np.linspace(0.0, 1.0, PROFILE_POINTS)
    share_above = 1.0 - np.searchsorted(pooled, thresholds, side="right") / pooled.size
    return float(np.trapezoid(share_above, thresholds))


def _finite(values: ArrayLike, name: str) -> FloatArray:
    pooled = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(pooled)
    if not finite.all():
        position = int(np.argmin(finite))
        raise InputError(f"{name} must be finite, got {pooled[position]} at position {position}")
    return pooled


def _check_resampling(n_resamples: int, rng: object) -> None:
    if isinstance(n_resamples, bool) or not hasattr(n_resamples, "__index__"):
        raise InputError(f"n_resamples must be an integer, got {n_resamples!r:.80}")
    if n_resamples <= 0:
        raise InputError(f"n_resamples must be positive, got {n_resamples}")
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, got {type(rng).__name__}")


def _pool(values: Mapping[int, Sequence[float]]) -> tuple[FloatArray, IntArray]:
    """Concatenate the clusters; cluster c of the pool is ``[starts[c], starts[c + 1])``."""
    clusters = [_finite(episodes, f"values of cluster {cluster}") for cluster, episodes in values.items()]
    starts = np.cumsum([0, *(cluster.size for cluster in clusters)], dtype=np.int64)
    return np.concatenate([np.empty(0), *clusters]), starts


def _estimate_and_replicates(
    values: Mapping[int, Sequence[float]], n_resamples: int, rng: np.random.Generator
) -> tuple[BootstrapCI, FloatArray, FloatArray]:
    """Point estimates without intervals; IQMs and means of the replicates, and of leaving one cluster out."""
    from ripieno._resampling import jackknife_iqm_and_mean, replicate_iqm_and_mean

    _check_resampling(n_resamples, rng)
    pool, starts = _pool(values)
    nan = math.nan
    estimate = BootstrapCI(iqm(pool), mean(pool), nan, nan, n_resamples, nan, nan)
    if starts.size == 1:  # no cluster at all: nothing is drawn
        return estimate, np.empty((2, 0)), np.empty((2, 0))
    distinct, ranks = np.unique(pool, return_inverse=True)
    replicates = replicate_iqm_and_mean(rng, starts, ranks, distinct, n_resamples)
    occupied = np.diff(starts) > 0
    return estimate, replicates, jackknife_iqm_and_mean(starts, ranks, distinct)[:, occupied]


def _with_intervals(estimate: BootstrapCI, of_iqm: Interval, of_mean: Interval) -> BootstrapCI:
    return replace(
        estimate,
        ci_low=of_iqm.low,
        ci_high=of_iqm.high,
        mean_ci_low=of_mean.low,
        mean_ci_high=of_mean.high,
    )


def _percentiles(replicates: FloatArray, low: float, high: float) -> Interval:
    finite = replicates[np.isfinite(replicates)]
    if finite.size == 0:
        return Interval(math.nan, math.nan)
    low_value, high_value = np.percentile(finite, [low, high])
    return Interval(float(low_value), float(high_value))


def _bca_interval(estimate: float, replicates: FloatArray, left_out: FloatArray) -> Interval:
    finite = replicates[np.isfinite(replicates)]
    if finite.size == 0 or left_out.size < 2:
        return Interval(math.nan, math.nan)
    # Replicates that differ from the estimate by rounding alone are ties.
    above = finite - estimate
    tied = np.abs(above) <= 1e-12 * max(1.0, abs(estimate))
    share_below = (np.count_nonzero((above < 0) & ~tied) + 0.5 * np.count_nonzero(tied)) / finite.size
    if not 0.0 < share_below < 1.0:
        return Interval(math.nan, math.nan)
    bias = _STANDARD_NORMAL.inv_cdf(share_below)
    deviations = left_out.mean() - left_out
    spread = float(np.sum(deviations**2))
    acceleration = float(np.sum(deviations**3)) / (6.0 * spread**1.5) if spread > 0.0 else 0.0

    def corrected(percent: float) -> float:
        shifted = bias + _STANDARD_NORMAL.inv_cdf(percent / 100.0)
        stretch = 1.0 - acceleration * shifted
        return 100.0 * _STANDARD_NORMAL.cdf(bias + shifted / stretch) if stretch > 0.0 else math.nan

    low, high = corrected(LOWER_PERCENT), corrected(UPPER_PERCENT)
    if math.isnan(low) or math.isnan(high):
        return Interval(math.nan, math.nan)
    return _percentiles(finite, low, high)
