"""Order parameters and phase locking: documented values, ranges, symmetries, and the forms of the step loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.upde.order_params import (
    LayerIndex,
    amplitude_summary,
    compute_layer_coherence,
    compute_order_parameter,
    compute_plv,
    cross_layer_plv,
    debiased_squared_order_parameter,
    layer_amplitudes,
    layer_order_parameters,
    objective_order_parameter,
)

phase_lists = st.lists(st.floats(-50, 50), min_size=1, max_size=30)
layer_sizes = st.lists(st.integers(0, 6), min_size=1, max_size=6)


def test_two_phases_a_quarter_apart_give_the_documented_values():
    order, mean_phase = compute_order_parameter([0.0, np.pi / 2])
    assert order == 0.7071067811865476
    assert mean_phase == 0.7853981633974483


def test_equal_series_lock_fully():
    assert compute_plv([0.3, 2.0, 5.0], [0.3, 2.0, 5.0]) == 1.0


def test_series_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="same length, got 2 and 3"):
        compute_plv([0.0, 1.0], [0.0, 1.0, 2.0])


def test_nothing_has_no_order():
    assert compute_order_parameter([]) == (0.0, 0.0)
    assert compute_plv([], []) == 0.0
    assert compute_layer_coherence([1.0, 2.0], []) == 0.0


@given(phase_lists)
def test_order_parameter_is_the_mean_unit_vector(phases):
    vector = np.exp(1j * np.array(phases)).mean()
    order, mean_phase = compute_order_parameter(phases)
    assert 0.0 <= order <= 1.0
    assert 0.0 <= mean_phase < 2 * np.pi
    assert abs(order * np.exp(1j * mean_phase) - vector) < 1e-12


@given(phase_lists, st.floats(-10, 10))
def test_turning_everybody_keeps_the_order(phases, angle):
    turned = np.array(phases) + angle
    assert compute_order_parameter(turned)[0] == pytest.approx(compute_order_parameter(phases)[0], abs=1e-12)
    assert compute_plv(phases, turned) == pytest.approx(1.0, abs=1e-12)


def test_mean_phase_stays_below_a_full_turn():
    assert compute_order_parameter([-1e-20])[1] == 0.0


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=20))
def test_phase_locking_is_symmetric_and_in_range(pairs):
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    value = compute_plv(first, second)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(abs(np.exp(1j * (first - second)).mean()), abs=1e-12)
    assert value == pytest.approx(compute_plv(second, first), abs=1e-12)


def test_layer_coherence_takes_a_mask_or_positions():
    phases = [0.0, np.pi / 2, np.pi]
    assert compute_layer_coherence(phases, [True, True, False]) == 0.7071067811865476
    assert compute_layer_coherence(phases, [0, 1]) == 0.7071067811865476
    assert compute_layer_coherence(phases, [-3, 1]) == 0.7071067811865476


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ([True, False], r"mask must have shape \(3,\)"),
        ([0, 3], "positions of 3 phases"),
        ([0, -4], "positions of 3 phases"),
        ([0, 0], "must not repeat"),
        ([2, -1], "must not repeat"),
        ([0.5], "mask or positions"),
        ([[0]], "mask or positions"),
    ],
)
def test_bad_members_are_refused(members, named):
    with pytest.raises(ValueError, match=named):
        compute_layer_coherence([0.0, 1.0, 2.0], members)


@given(phase_lists.filter(lambda phases: len(phases) > 1))
def test_debiased_order_is_the_mean_cosine_over_pairs(phases):
    theta = np.array(phases)
    cosines = np.cos(theta[:, None] - theta[None, :])
    expected = cosines[~np.eye(len(theta), dtype=bool)].mean()
    assert debiased_squared_order_parameter(phases) == pytest.approx(expected, abs=1e-10)


def test_debiased_order_of_random_phases_averages_to_zero_whatever_their_number():
    rng = np.random.default_rng(7)
    for count in (2, 5, 50):
        values = [debiased_squared_order_parameter(rng.uniform(0, 2 * np.pi, count)) for _ in range(4000)]
        assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(len(values))


def test_debiased_order_needs_two_phases():
    with pytest.raises(ValueError, match="at least 2 values"):
        debiased_squared_order_parameter([1.0])


@pytest.mark.parametrize(
    ("phases", "named"),
    [
        ([[0.0]], r"phases must have shape \(n,\)"),
        ([np.nan], "only finite"),
        ([np.inf], "only finite"),
        ([True], "got a bool"),
        (np.array([True]), "dtype bool"),
        ([1j], "complex128"),
        (["a"], "real numbers"),
        (1.0, r"shape \(n,\)"),
        (None, "real numbers"),
    ],
)
def test_bad_phases_are_refused(phases, named):
    with pytest.raises(ValueError, match=named):
        compute_order_parameter(phases)


@given(layer_sizes, st.randoms(use_true_random=False))
def test_layer_metrics_equal_the_checked_functions_to_the_last_bit(sizes, random):
    index = LayerIndex.from_sizes(sizes)
    phases = np.array([random.uniform(0, 2 * np.pi) for _ in range(sum(sizes))])
    orders, mean_phases = layer_order_parameters(phases, index)
    blocks = np.split(phases, index.starts[1:-1])
    for layer, block in enumerate(blocks):
        assert (orders[layer], mean_phases[layer]) == compute_order_parameter(block)


@given(layer_sizes, st.randoms(use_true_random=False))
def test_cross_layer_locking_compares_the_first_common_oscillators(sizes, random):
    index = LayerIndex.from_sizes(sizes)
    phases = np.array([random.uniform(0, 2 * np.pi) for _ in range(sum(sizes))])
    values = cross_layer_plv(phases, index)
    blocks = np.split(phases, index.starts[1:-1])
    assert (values == values.T).all()
    assert not np.diagonal(values).any()
    for i, first in enumerate(blocks):
        for j, second in enumerate(blocks):
            common = min(len(first), len(second))
            if i != j:
                assert values[i, j] == pytest.approx(compute_plv(first[:common], second[:common]), abs=1e-12)


def test_objective_order_joins_layers():
    index = LayerIndex.from_sizes([2, 0, 3])
    phases = np.array([0.1, 0.4, 1.0, 2.0, 3.0])
    joined = objective_order_parameter(phases, index, np.array([0, 2]))
    assert joined == compute_order_parameter(phases)[0]
    assert objective_order_parameter(phases, index, np.array([1])) == 0.0
    assert objective_order_parameter(phases, index, np.array([], dtype=np.int64)) == 0.0


def test_layer_index_describes_its_blocks():
    index = LayerIndex.from_sizes([2, 0, 3])
    assert index.layer_count == 3
    assert index.oscillator_count == 5
    assert index.layer_of().tolist() == [0, 0, 2, 2, 2]
    with pytest.raises(ValueError, match=r"sizes\[1\] must be an integer >= 0"):
        LayerIndex.from_sizes([1, -1])
    with pytest.raises(ValueError, match="read-only"):
        index.starts[0] = 1


def test_layer_amplitudes_are_mean_and_relative_spread():
    index = LayerIndex.from_sizes([3, 0, 2])
    amplitudes = np.array([1.0, 2.0, 3.0, 0.0, 0.0])
    means, spreads = layer_amplitudes(amplitudes, index)
    assert means.tolist() == [2.0, 0.0, 0.0]
    assert spreads.tolist() == pytest.approx([np.std([1, 2, 3]) / 2, 0.0, 0.0])


def test_amplitude_summary_counts_the_silent():
    mean, silent = amplitude_summary(np.array([0.05, 0.1, 0.45]))
    assert mean == pytest.approx(0.2)
    assert silent == pytest.approx(1 / 3)
    assert amplitude_summary(np.array([])) == (0.0, 0.0)
