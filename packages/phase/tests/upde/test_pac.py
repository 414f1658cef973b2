"""The modulation index: documented cases, range, and the form for all oscillators at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.upde.pac import modulation_index, modulation_indices, pac_gate, pac_matrix

EQUISPACED = np.arange(20) * 2 * np.pi / 20
LOWER_HALF = (np.arange(20) < 10).astype(float)


def test_amplitude_on_half_a_circle_gives_the_documented_index():
    assert modulation_index(EQUISPACED, LOWER_HALF) == 0.23981246656813146


def test_no_amplitude_has_no_index():
    assert modulation_index(EQUISPACED, np.zeros(20)) == 0.0
    assert modulation_index([], []) == 0.0


def test_flat_amplitude_over_all_bins_gives_zero():
    phases = (np.arange(36) + 0.5) * 2 * np.pi / 36
    assert modulation_index(phases, np.full(36, 0.7)) == pytest.approx(0.0, abs=1e-15)


def test_amplitude_in_one_bin_gives_one():
    phases = (np.arange(18) + 0.5) * 2 * np.pi / 18
    amplitudes = np.zeros(18)
    amplitudes[4] = 3.0
    assert modulation_index(phases, amplitudes) == pytest.approx(1.0, abs=1e-15)


def test_two_bins_of_equal_amplitude_have_the_closed_form():
    phases = (np.arange(6) + 0.5) * 2 * np.pi / 6
    assert modulation_index(phases, [1, 1, 0, 0, 0, 0], n_bins=6) == pytest.approx(np.log(3) / np.log(6), rel=1e-14)


def test_bins_hold_means_not_sums():
    once = modulation_index([0.1, 2.0], [1.0, 0.5], n_bins=4)
    assert modulation_index([0.1, 0.1, 0.1, 2.0], [1.0, 1.0, 1.0, 0.5], n_bins=4) == pytest.approx(once, rel=1e-14)


@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(0, 10)), min_size=1, max_size=40), st.integers(2, 30))
def test_index_agrees_with_its_formula(samples, n_bins):
    theta, amp = (np.array(side) for side in zip(*samples, strict=True))
    slots = np.minimum((theta / (2 * np.pi) % 1.0 * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(slots, minlength=n_bins)
    means = np.bincount(slots, weights=amp, minlength=n_bins) / np.maximum(counts, 1)
    expected = 0.0
    if means.sum() > 0:
        share = means[means > 0] / means.sum()
        share = share[share > 0]
        expected = (share * np.log(share * n_bins)).sum() / np.log(n_bins)
    value = modulation_index(theta, amp, n_bins)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(expected, abs=1e-12)


def test_scaling_the_amplitude_keeps_the_index():
    rng = np.random.default_rng(3)
    theta, amp = rng.uniform(0, 7, 50), rng.uniform(0, 1, 50)
    assert modulation_index(theta, 5 * amp) == pytest.approx(modulation_index(theta, amp), rel=1e-12)


@pytest.mark.parametrize("start", [0, 1, 7, 19])
def test_all_columns_of_a_ring_equal_single_calls_to_the_last_bit(start):
    rng = np.random.default_rng(5)
    phases, amplitudes = rng.uniform(0, 2 * np.pi, (20, 12)), rng.uniform(0, 2, (20, 12))
    together = modulation_indices(phases, amplitudes, start=start)
    order = (np.arange(20) + start) % 20
    for column in range(12):
        assert together[column] == modulation_index(phases[order, column], amplitudes[order, column])


def test_matrix_holds_every_pair_to_the_last_bit():
    rng = np.random.default_rng(6)
    phases, amplitudes = rng.uniform(-5, 20, (30, 3)), rng.uniform(0, 2, (30, 2))
    values = pac_matrix(phases, amplitudes)
    assert values.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            assert values[i, j] == modulation_index(phases[:, i], amplitudes[:, j])


def test_gate_opens_at_its_threshold():
    assert pac_gate(0.3)
    assert not pac_gate(0.29)
    assert pac_gate(0.29, threshold=0.2)
    with pytest.raises(ValueError, match="value must be between 0 and 1"):
        pac_gate(1.5)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: modulation_index([0.0], [1.0, 2.0]), r"amp must have shape \(1,\)"),
        (lambda: modulation_index([0.0], [-1.0]), "amp must not be negative"),
        (lambda: modulation_index([np.nan], [1.0]), "theta must contain only finite"),
        (lambda: modulation_index([0.0], [1.0], n_bins=1), "n_bins must be an integer >= 2"),
        (lambda: modulation_index([0.0], [1.0], n_bins=True), "n_bins must be an integer"),
        (lambda: pac_matrix([[0.0]], [[1.0], [2.0]]), "amplitudes must have shape"),
        (lambda: pac_matrix([0.0], [[1.0]]), "phases must have shape"),
    ],
)
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
