"""The transition to synchrony against theory, and what the search does at its edges."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde.bifurcation import (
    BifurcationDiagram,
    BifurcationPoint,
    _crossing,
    find_critical_coupling,
    trace_sync_transition,
)


def lorentzian(count, width=0.5):
    """Frequencies at the quantiles of a Lorentzian of half width ``width``."""
    return width * np.tan(np.pi * ((np.arange(count) + 0.5) / count - 0.5))


def test_lorentzian_population_follows_the_mean_field_curve():
    """R = √(1 − Kc/K) above Kc = 2γ (Kuramoto 1975)."""
    diagram = trace_sync_transition(
        lorentzian(1000), K_range=(1.5, 3.0), n_points=4, dt=0.05, n_transient=1000, n_measure=200
    )
    np.testing.assert_allclose(diagram.R_values, np.sqrt(1 - 1 / diagram.K_values), atol=0.01)
    assert all(point.stable for point in diagram.points)


def test_uniform_template_equals_the_dense_matrix_it_stands_for():
    omegas = np.random.default_rng(1).normal(size=30)
    arguments = {"K_range": (0.0, 3.0), "n_points": 4, "n_transient": 300, "n_measure": 100}
    uniform = trace_sync_transition(omegas, **arguments)
    dense = trace_sync_transition(omegas, (1 - np.eye(30)) / 30, **arguments)
    np.testing.assert_allclose(dense.R_values, uniform.R_values, atol=1e-9)


def test_lag_raises_the_coupling_that_is_needed():
    omegas = lorentzian(60, 0.1)
    arguments = {"dt": 0.05, "n_transient": 800, "n_measure": 200, "onset": 0.6}
    free = find_critical_coupling(omegas, **arguments)
    lagged = find_critical_coupling(omegas, alpha=np.full((60, 60), 1.0), **arguments)
    assert lagged > 1.3 * free


def test_gaussian_population_turns_at_the_kuramoto_coupling():
    """Kc = 2/(π g(0)) = 2 √(2/π) σ for a Gaussian."""
    omegas = norm.ppf((np.arange(400) + 0.5) / 400)
    critical = find_critical_coupling(omegas, dt=0.1, n_transient=1000, n_measure=300, onset=0.2)
    assert critical == pytest.approx(2 * math.sqrt(2 / math.pi), rel=0.05)


def test_two_oscillators_lock_at_half_their_distance_of_frequencies():
    """φ' = Δω − 2(K/2) sin φ locks at K = Δω; below it R averages well under 0.9."""
    critical = find_critical_coupling([0.0, 1.0], n_transient=20_000, n_measure=10_000, onset=0.71, tol=0.01)
    assert critical == pytest.approx(1.0, abs=0.02)


def test_population_without_onset_gives_nan():
    apart = np.linspace(-300, 300, 400)
    assert math.isnan(find_critical_coupling(apart, dt=0.001, n_transient=200, n_measure=100, onset=0.5))
    diagram = trace_sync_transition(apart, n_points=2, dt=0.001, n_transient=200, n_measure=100, onset=0.5)
    assert math.isnan(diagram.K_critical)


def test_population_in_order_without_coupling_starts_at_zero():
    assert find_critical_coupling([1.0], n_transient=1, n_measure=1) == 0.0
    assert trace_sync_transition([1.0], n_points=2, n_transient=1, n_measure=1).K_critical == 0.0


def test_crossing_is_interpolated_between_the_points_around_it():
    orders = [(0.0, 0.02), (1.0, 0.05), (2.0, 0.25), (3.0, 0.05), (4.0, 0.9)]
    points = [BifurcationPoint(strength, order, stable=True) for strength, order in orders]
    assert _crossing(points, 0.1) == pytest.approx(1.25)
    assert BifurcationDiagram(tuple(points), 1.25).R_values.tolist() == [order for _, order in orders]


def test_states_that_still_move_are_not_stable():
    beating = trace_sync_transition([0.0, 3.0], K_range=(0.1, 0.2), n_points=2, n_transient=0, n_measure=500)
    assert not any(point.stable for point in beating.points)


def test_same_seed_gives_the_same_bits_and_another_seed_another_start():
    omegas = np.random.default_rng(1).normal(size=20)
    arguments = {"K_range": (0.1, 0.5), "n_points": 2, "n_transient": 5, "n_measure": 5}
    first, again = (trace_sync_transition(omegas, **arguments) for _ in range(2))
    assert first == again
    assert trace_sync_transition(omegas, **arguments, seed=7).points != first.points


def test_values_that_are_not_finite_name_the_strength():
    with pytest.raises(EngineError, match="coupling strength 1e\\+308"):
        trace_sync_transition([0.0, 1e308], K_range=(1e308, 1.5e308), n_points=2, dt=1e10, n_transient=1, n_measure=2)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"omegas": []}, "number of omegas must be an integer >= 1"),
        ({"knm_template": np.eye(2)}, "zero diagonal"),
        ({"knm_template": np.zeros((3, 3))}, "knm_template must have shape"),
        ({"alpha": np.zeros(2)}, "alpha must have shape"),
        ({"K_range": (2.0, 1.0)}, "K_range must ascend"),
        ({"K_range": (0.0, 1.0, 2.0)}, "K_range must hold two"),
        ({"K_range": (0.0, True)}, r"K_range\[1\] must be a finite"),
        ({"n_points": 1}, "n_points must be an integer >= 2"),
        ({"n_measure": 0}, "n_measure must be an integer >= 1"),
        ({"dt": -1.0}, "dt must be a positive finite number"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"onset": 1.0}, "onset must be less than 1"),
    ],
)
def test_bad_arguments_are_named(changed, named):
    with pytest.raises(ValueError, match=named):
        trace_sync_transition(**{"omegas": [1.0, 2.0], **changed})


def test_search_needs_a_positive_tolerance():
    with pytest.raises(ValueError, match="tol must be a positive finite number"):
        find_critical_coupling([1.0, 2.0], tol=0.0)
