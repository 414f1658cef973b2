"""Phase transfer entropy against its definition, and on a pair whose direction is known."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.coupling.inference import estimate_coupling, phase_transfer_entropy


def reference(phases, n_bins, delay=1):
    """Transfer entropy from joint counts, as the sum of p(j', j, i) log of the ratio of conditionals."""
    symbols = np.floor((phases % (2 * np.pi)) / (2 * np.pi) * n_bins).astype(int)
    n, length = symbols.shape
    scores = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            triples = Counter(zip(symbols[j, delay:], symbols[j, :-delay], symbols[i, :-delay], strict=True))
            pairs, steps, own = Counter(), Counter(), Counter()
            for (after, before, source), count in triples.items():
                pairs[before, source] += count
                steps[after, before] += count
                own[before] += count
            total = length - delay
            scores[i, j] = sum(
                count / total * np.log(count * own[before] / (pairs[before, source] * steps[after, before]))
                for (after, before, source), count in triples.items()
            )
    return scores


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 3))
def test_compiled_scores_equal_the_definition(seed, n_bins, delay):
    phases = np.random.default_rng(seed).uniform(-10, 10, size=(3, 60))
    scores = phase_transfer_entropy(phases, n_bins=n_bins, delay=delay)
    assert np.allclose(scores, reference(phases, n_bins, delay), atol=1e-12)
    assert (scores >= -1e-12).all()
    assert (np.diag(scores) == 0.0).all()


def test_the_driver_is_the_row_and_the_driven_the_column(network):
    coupling = np.array([[0.0, 0.0], [1.5, 0.0]])  # row = receiver: the first drives the second
    phases = network([5.0, 6.5], coupling, n_samples=20_000, period=0.1, noise=0.6, seed=1).T
    scores = phase_transfer_entropy(phases)
    assert scores[0, 1] > 3 * scores[1, 0]
    estimate = estimate_coupling(phases)
    assert estimate.coupling.tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_thresholds_and_scale():
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, size=(4, 400))
    scores = phase_transfer_entropy(phases)
    everything = estimate_coupling(phases, threshold_quantile=0.0, normalisation="none")
    assert np.allclose(everything.coupling, scores)
    quarter = estimate_coupling(phases)
    assert np.count_nonzero(quarter.coupling) == 3
    assert quarter.coupling.max() == 1.0
    assert quarter.threshold == pytest.approx(np.quantile(scores[scores > 0], 0.75))
    level = float(np.sort(scores[scores > 0])[-2])
    assert np.count_nonzero(estimate_coupling(phases, threshold_absolute=level).coupling) == 2
    assert np.count_nonzero(estimate_coupling(phases, threshold_absolute=1e3).coupling) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"phases": np.zeros(5)}, "n_oscillators >= 2"),
        ({"phases": np.zeros((1, 50))}, "n_oscillators >= 2"),
        ({"phases": np.zeros((2, 2))}, "more than 2 samples"),
        ({"phases": np.full((2, 9), np.nan)}, "finite, got nan at oscillator 0, sample 0"),
        ({"phases": np.zeros((2, 9), dtype=bool)}, "real numbers, got bool"),
        ({"phases": np.zeros((2, 9), dtype=complex)}, "real numbers"),
        ({"n_bins": 1}, "n_bins must be an integer from 2 to 64"),
        ({"n_bins": True}, "n_bins"),
        ({"threshold_quantile": 1.5}, "threshold_quantile"),
        ({"threshold_absolute": -1.0}, "threshold_absolute"),
        ({"normalisation": "sum"}, "normalisation"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate_coupling(**({"phases": np.zeros((2, 20))} | arguments))


def test_scores_that_short_series_show_without_influence_are_said_to_be_chance():
    rng = np.random.default_rng(0)
    warnings = estimate_coupling(rng.uniform(0, 2 * np.pi, (3, 500))).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith("2 of 2 kept scores may be chance: 500 samples in 8 bins")
    swapped = estimate_coupling(rng.uniform(0, 2 * np.pi, (500, 3))).warnings
    assert swapped[0] == "500 oscillators with 3 samples each: are rows and columns swapped?"


def test_a_clear_influence_carries_no_warning():
    rng = np.random.default_rng(0)
    source = rng.uniform(0, 2 * np.pi, 5000)
    follower = np.roll(source, 1) + 0.1 * rng.normal(size=5000)
    estimate = estimate_coupling(np.array([source, follower]))
    assert np.count_nonzero(estimate.coupling) == 1
    assert estimate.warnings == ()
    assert estimate.to_record()["warnings"] == []


def test_phases_too_large_to_have_an_angle_are_refused():
    with pytest.raises(ValueError, match=r"at most 1e\+12 rad"):
        phase_transfer_entropy(np.full((2, 20), 1e300))
