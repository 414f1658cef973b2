"""The statistics agree with their documented numbers, with the plain NumPy loop, and with independent code."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.errors import InputError
from ripieno.randomness import derive_substream
from ripieno.statistics import (
    BootstrapCI,
    bca_cluster_bootstrap,
    cluster_bootstrap,
    iqm,
    mean,
    optimality_gap,
    paired_cluster_bootstrap,
    performance_profile_area,
    probability_of_improvement,
    wilson_interval,
)

SUMMARY_STREAM = "evaluation.bundle_bootstrap"
PAIRED_STREAM = "evaluation.admission.a3_paired_bootstrap"


@dataclass(frozen=True)
class Pair:
    seed: int
    difference: float


def generator(name: str = SUMMARY_STREAM, root_seed: int = 0) -> np.random.Generator:
    return derive_substream(name, root_seed=root_seed).default_rng()


def graded() -> dict[int, list[float]]:
    return {s: [((7 * s + 3 * e) % 10) / 10 for e in range(8)] for s in range(5)}


def binary() -> dict[int, list[float]]:
    return {s: [float((s + e) % 3 != 0) for e in range(20)] for s in range(5)}


def plain_iqm(values: Sequence[float]) -> float:
    ordered = sorted(values)
    k = len(ordered) // 4
    kept = ordered[k : len(ordered) - k]
    return math.fsum(kept) / len(kept) if kept else math.nan


def plain_replicate(values: Mapping[int, Sequence[float]], rng: np.random.Generator) -> list[float]:
    """One replicate drawn exactly as documented, with NumPy's own calls."""
    clusters = list(values.values())
    pooled: list[float] = []
    for cluster in rng.integers(0, len(clusters), size=len(clusters)):
        episodes = clusters[cluster]
        if len(episodes):
            pooled.extend(episodes[e] for e in rng.integers(0, len(episodes), size=len(episodes)))
    return pooled


def plain_interval(estimates: Sequence[float]) -> tuple[float, float]:
    finite = [x for x in estimates if math.isfinite(x)]
    if not finite:
        return math.nan, math.nan
    return float(np.percentile(finite, 2.5)), float(np.percentile(finite, 97.5))


def plain_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def pooled(values: Mapping[int, Sequence[float]]) -> list[float]:
    return [x for episodes in values.values() for x in episodes]


# Acceptance cases: exact documented numbers


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3, 4, 5], 3.0),
        ([0, 0, 1, 1], 0.5),
        ([0] * 3 + [1] * 7, 5 / 6),
        ([0, 0, 1], 1 / 3),
        ([5], 5.0),
        ([0] * 3 + [1] * 57, 1.0),
        ([0] * 40 + [1] * 60, 0.7),
    ],
)
def test_iqm_of_documented_samples(values: list[float], expected: float) -> None:
    assert iqm(values) == pytest.approx(expected, abs=1e-15)


def test_iqm_and_mean_of_nothing_are_nan() -> None:
    assert math.isnan(iqm([]))
    assert math.isnan(mean([]))


def test_named_stream_gives_documented_draws() -> None:
    assert generator().integers(0, 5, size=5).tolist() == [0, 1, 3, 1, 0]


@pytest.mark.parametrize(
    ("values", "root_seed", "low", "high"),
    [
        (graded(), 0, 0.315, 0.58),
        (dict(reversed(graded().items())), 0, 0.32, None),
        (graded(), 7, 0.31, 0.59),
    ],
    ids=["seed order", "reverse order", "other root seed"],
)
def test_graded_outcomes_give_documented_interval(values, root_seed, low, high) -> None:
    ci = cluster_bootstrap(values, n_resamples=2000, rng=generator(root_seed=root_seed))
    assert (ci.iqm, ci.mean) == pytest.approx((0.45, 0.45), abs=1e-12)
    assert ci.ci_low == pytest.approx(low, abs=1e-12)
    if high is not None:
        assert ci.ci_high == pytest.approx(high, abs=1e-12)
    assert ci.n_resamples == 2000


def test_first_graded_replicate_has_documented_iqm() -> None:
    ci = cluster_bootstrap(graded(), n_resamples=1, rng=generator())
    assert (ci.ci_low, ci.ci_high) == pytest.approx((0.4, 0.4), abs=1e-12)


def test_binary_outcomes_give_documented_interval() -> None:
    ci = cluster_bootstrap(binary(), n_resamples=2000, rng=generator())
    assert (ci.iqm, ci.mean, ci.ci_low, ci.ci_high) == pytest.approx((0.84, 0.67, 0.66, 1.0), abs=1e-12)


def test_paired_outcomes_give_documented_interval_from_an_iterator() -> None:
    first = binary()
    second = {s: [float((2 * s + e) % 4 == 0) for e in range(20)] for s in range(5)}
    pairs = (Pair(s, a - b) for s in first for a, b in zip(first[s], second[s], strict=True))
    ci = paired_cluster_bootstrap(pairs, n_resamples=2000, rng=generator(PAIRED_STREAM))
    assert (ci.iqm, ci.mean, ci.ci_low, ci.ci_high) == pytest.approx((0.52, 0.42, 0.32, 0.72), abs=1e-12)
    assert iqm(pooled(first)) - iqm(pooled(second)) == pytest.approx(0.84, abs=1e-12)
    assert ci.mean == pytest.approx(mean(pooled(first)) - mean(pooled(second)), abs=1e-12)


@pytest.mark.parametrize("values", [{}, {0: []}, {0: [], 1: []}])
@pytest.mark.parametrize("bootstrap", [cluster_bootstrap, bca_cluster_bootstrap])
def test_no_values_give_nan_everywhere(bootstrap, values: dict[int, list[float]]) -> None:
    ci = bootstrap(values, n_resamples=10, rng=generator())
    statistics = (ci.iqm, ci.mean, ci.ci_low, ci.ci_high, ci.mean_ci_low, ci.mean_ci_high)
    assert all(math.isnan(x) for x in statistics)
    assert ci.n_resamples == 10


def test_gap_and_profile_area_of_documented_samples() -> None:
    assert optimality_gap([0.5, 1.0, 1.2]) == pytest.approx(1 / 6, abs=1e-15)
    assert performance_profile_area([1, 1, 0, 1]) == pytest.approx(0.7425, abs=1e-12)
    assert performance_profile_area([0.5, 0.25]) == pytest.approx(0.37, abs=1e-12)
    assert math.isnan(optimality_gap([]))
    assert math.isnan(performance_profile_area([]))


# The plain NumPy loop

outcomes = st.one_of(
    st.sampled_from([0.0, 1.0]), st.floats(-1e3, 1e3, allow_subnormal=False), st.sampled_from([0.1, 0.2, 0.3])
)
cluster_mappings = st.lists(st.lists(outcomes, max_size=9), min_size=1, max_size=6).map(
    lambda clusters: dict(enumerate(clusters))
)
bit_generators = st.sampled_from(
    [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
)


def two_equal_generators(bit_generator, seed: int, odd: bool) -> list[np.random.Generator]:
    generators = [np.random.Generator(bit_generator(seed)) for _ in range(2)]
    for rng in generators:
        if odd:  # leaves half of a 64-bit draw waiting in the bit generator
            rng.integers(0, 5)
    return generators


@settings(max_examples=150, deadline=None)
@given(cluster_mappings, bit_generators, st.integers(0, 2**32), st.booleans(), st.integers(1, 12))
def test_replicates_and_final_state_are_those_of_the_plain_loop(
    values, bit_generator, seed: int, odd: bool, n_resamples: int
) -> None:
    rng, plain = two_equal_generators(bit_generator, seed, odd)
    ci = cluster_bootstrap(values, n_resamples=n_resamples, rng=rng)
    replicates = [plain_replicate(values, plain) for _ in range(n_resamples)]
    assert (ci.ci_low, ci.ci_high) == pytest.approx(
        plain_interval([plain_iqm(r) for r in replicates]), rel=1e-9, abs=1e-9, nan_ok=True
    )
    assert (ci.mean_ci_low, ci.mean_ci_high) == pytest.approx(
        plain_interval([plain_mean(r) for r in replicates]), rel=1e-9, abs=1e-9, nan_ok=True
    )
    assert (ci.iqm, ci.mean) == pytest.approx(
        (plain_iqm(pooled(values)), plain_mean(pooled(values))), rel=1e-9, abs=1e-9, nan_ok=True
    )
    assert repr(rng.bit_generator.state) == repr(plain.bit_generator.state)
    assert rng.random() == plain.random()


@pytest.mark.parametrize("odd", [False, True])
def test_rejected_draws_are_repeated_as_numpy_repeats_them(odd: bool) -> None:
    # A range that leaves 2**32 mod n large is rejected about once in 4,300 draws: some 230 times here.
    size = next(n for n in range(1_000_000, 900_000, -1) if 2**32 % n > 0.95 * n)
    values = {0: np.arange(size) % 7 / 7}
    rng, plain = two_equal_generators(np.random.PCG64, 11, odd)
    state_without_rejection = np.random.PCG64(11)
    ci = cluster_bootstrap(values, n_resamples=1, rng=rng)
    drawn = values[0][plain.integers(0, size, size=size)]
    assert ci.mean_ci_low == pytest.approx(drawn.mean(), rel=1e-12)
    assert repr(rng.bit_generator.state) == repr(plain.bit_generator.state)
    state_without_rejection.advance((size + odd) // 2)
    assert rng.bit_generator.state["state"] != state_without_rejection.state["state"]


def test_single_cluster_and_single_episodes_draw_nothing_for_them() -> None:
    rng, plain = two_equal_generators(np.random.PCG64, 5, False)
    cluster_bootstrap({3: [0.25]}, n_resamples=50, rng=rng)
    assert rng.bit_generator.state == plain.bit_generator.state


def test_paired_clusters_follow_the_first_appearance_of_their_seeds() -> None:
    pairs = [Pair(9, 0.5), Pair(2, -1.0), Pair(9, 0.25), Pair(2, 1.0), Pair(4, 0.0)]
    grouped = {9: [0.5, 0.25], 2: [-1.0, 1.0], 4: [0.0]}
    assert paired_cluster_bootstrap(pairs, n_resamples=200, rng=generator()) == cluster_bootstrap(
        grouped, n_resamples=200, rng=generator()
    )


# Independent references


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_iqm_is_the_quarter_trimmed_mean(values: list[float]) -> None:
    assert iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), rel=1e-12, abs=1e-9)


@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.5, 0.999))
def test_wilson_interval_equals_the_reference(successes: int, trials: int, confidence: float) -> None:
    successes = min(successes, trials)
    reference = scipy.stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    interval = wilson_interval(successes, trials, confidence=confidence)
    assert interval == pytest.approx((reference.low, reference.high), abs=1e-12)
    assert 0.0 <= interval.low <= successes / trials <= interval.high <= 1.0


@pytest.mark.parametrize("statistic", ["mean", "iqm"])
def test_bca_interval_equals_the_reference_on_the_same_replicates(statistic: str) -> None:
    # One episode per cluster makes a replicate an ordinary bootstrap sample, and the draws are the reference's own.
    sample = np.random.default_rng(3).exponential(size=14)
    functions = {"mean": np.mean, "iqm": lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis=axis)}
    ours, theirs = two_equal_generators(np.random.PCG64, 21, False)
    ci = bca_cluster_bootstrap({i: [x] for i, x in enumerate(sample)}, n_resamples=4000, rng=ours)
    reference = scipy.stats.bootstrap(
        (sample,), functions[statistic], n_resamples=4000, method="BCa", rng=theirs
    ).confidence_interval
    bounds = {"mean": (ci.mean_ci_low, ci.mean_ci_high), "iqm": (ci.ci_low, ci.ci_high)}
    assert bounds[statistic] == pytest.approx((reference.low, reference.high), abs=1e-9)


def test_bca_uses_the_draws_of_the_percentile_interval_and_moves_its_ends_on_skewed_data() -> None:
    skewed = {s: (np.random.default_rng(s).exponential(size=20) ** 2).tolist() for s in range(5)}
    rngs = two_equal_generators(np.random.PCG64, 8, True)
    percentile = cluster_bootstrap(skewed, n_resamples=2000, rng=rngs[0])
    corrected = bca_cluster_bootstrap(skewed, n_resamples=2000, rng=rngs[1])
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state
    assert (corrected.iqm, corrected.mean) == (percentile.iqm, percentile.mean)
    assert corrected.mean_ci_low > percentile.mean_ci_low
    assert corrected.mean_ci_high > percentile.mean_ci_high


def test_bca_of_constant_values_is_a_point_and_of_one_cluster_is_undefined() -> None:
    constant = bca_cluster_bootstrap({0: [0.3] * 4, 1: [0.3] * 4}, n_resamples=100, rng=generator())
    assert (constant.ci_low, constant.ci_high) == pytest.approx((0.3, 0.3), abs=1e-15)
    single = bca_cluster_bootstrap({0: [0.0, 1.0, 1.0], 1: []}, n_resamples=100, rng=generator())
    assert math.isnan(single.ci_low)
    assert math.isnan(single.mean_ci_high)


@settings(max_examples=60, deadline=None)
@given(cluster_mappings, cluster_mappings, st.integers(0, 2**32), st.integers(1, 8))
def test_probability_of_improvement_is_the_mann_whitney_share_and_draws_x_before_y(
    x, y, seed: int, n_resamples: int
) -> None:
    rng, plain = two_equal_generators(np.random.PCG64, seed, False)
    result = probability_of_improvement(x, y, n_resamples=n_resamples, rng=rng)

    def superiority(a: list[float], b: list[float]) -> float:
        if not a or not b:
            return math.nan
        return scipy.stats.mannwhitneyu(a, b).statistic / len(a) / len(b)

    assert result.probability == pytest.approx(superiority(pooled(x), pooled(y)), abs=1e-12, nan_ok=True)
    if not math.isnan(result.probability):
        replicates = [superiority(plain_replicate(x, plain), plain_replicate(y, plain)) for _ in range(n_resamples)]
        assert (result.ci_low, result.ci_high) == pytest.approx(plain_interval(replicates), abs=1e-12, nan_ok=True)
    assert rng.bit_generator.state == plain.bit_generator.state


def test_probability_of_improvement_counts_ties_half_and_swaps_to_its_complement() -> None:
    x, y = {0: [1.0, 1.0, 0.0]}, {0: [1.0, 0.0, 0.0]}
    there = probability_of_improvement(x, y, n_resamples=10, rng=generator()).probability
    back = probability_of_improvement(y, x, n_resamples=10, rng=generator()).probability
    assert there == pytest.approx((4 + 0.5 * 4) / 9, abs=1e-15)
    assert there + back == pytest.approx(1.0, abs=1e-15)


@settings(max_examples=40, deadline=None)
@given(cluster_mappings, st.floats(-100, 100), st.floats(0.01, 100))
def test_shifting_and_scaling_outcomes_shifts_and_scales_the_interval(values, shift: float, scale: float) -> None:
    ci = cluster_bootstrap(values, n_resamples=50, rng=generator())
    moved = {k: [shift + scale * x for x in v] for k, v in values.items()}
    other = cluster_bootstrap(moved, n_resamples=50, rng=generator())
    for field in ("iqm", "mean", "ci_low", "ci_high", "mean_ci_low", "mean_ci_high"):
        assert getattr(other, field) == pytest.approx(
            shift + scale * getattr(ci, field), rel=1e-9, abs=1e-6, nan_ok=True
        )


# Refusals: one clear message, and the generator has not moved


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("bootstrap", [cluster_bootstrap, bca_cluster_bootstrap])
def test_non_finite_outcome_is_refused_before_drawing(bootstrap, bad: float) -> None:
    rng = generator()
    with pytest.raises(InputError, match=r"values of cluster 7 must be finite, got .* at position 1"):
        bootstrap({2: [1.0], 7: [0.0, bad]}, n_resamples=10, rng=rng)
    assert rng.bit_generator.state == generator().bit_generator.state


@pytest.mark.parametrize("n_resamples", [1.5, True, "3", None])
def test_a_number_of_resamples_that_is_no_integer_is_refused(n_resamples: object) -> None:
    with pytest.raises(InputError, match="n_resamples must be an integer, got"):
        cluster_bootstrap(binary(), n_resamples=n_resamples, rng=generator())  # type: ignore[arg-type]


@pytest.mark.parametrize("n_resamples", [0, -3])
def test_resample_count_must_be_positive(n_resamples: int) -> None:
    with pytest.raises(ValueError, match=f"n_resamples must be positive, got {n_resamples}"):
        cluster_bootstrap(binary(), n_resamples=n_resamples, rng=generator())
    with pytest.raises(ValueError, match="n_resamples must be positive"):
        paired_cluster_bootstrap([], n_resamples=n_resamples, rng=generator())
    with pytest.raises(ValueError, match="n_resamples must be positive"):
        probability_of_improvement(binary(), binary(), n_resamples=n_resamples, rng=generator())


def test_legacy_random_state_is_refused() -> None:
    with pytest.raises(InputError, match=r"numpy\.random\.Generator, got RandomState"):
        cluster_bootstrap(binary(), n_resamples=10, rng=np.random.RandomState(0))


@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "message"),
    [(0, 0, 0.95, "trials"), (-1, 3, 0.95, "successes"), (4, 3, 0.95, "successes"), (1, 3, 1.0, "confidence")],
)
def test_impossible_counts_are_refused(successes: int, trials: int, confidence: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wilson_interval(successes, trials, confidence=confidence)


@pytest.mark.parametrize("function", [iqm, mean, optimality_gap, performance_profile_area])
def test_non_finite_values_are_refused(function) -> None:
    with pytest.raises(InputError, match="values must be finite, got nan at position 1"):
        function([1.0, math.nan])


def test_documented_fields_come_first() -> None:
    assert list(BootstrapCI.__dataclass_fields__)[:5] == ["iqm", "mean", "ci_low", "ci_high", "n_resamples"]
