"""Frequencies and coupling of known networks: accuracy, coverage, family-wise error, and honest warnings."""

import numpy as np
import pytest

from ripieno.statistics import wilson_interval
from scpn_phase_orchestrator.coupling.inference import fit_phase_coupling
from scpn_phase_orchestrator.exceptions import ExtractorError

OMEGAS = np.array([5.0, 6.1, 7.3, 4.2])
COUPLING = np.zeros((4, 4))
COUPLING[0, 1], COUPLING[2, 0], COUPLING[1, 3] = 0.4, 0.3, -0.25
LAG = 0.5


def truth_of(fit, matrix=COUPLING):
    index = {name: k for k, name in enumerate(fit.names)}
    return np.array([matrix[index[e.receiver], index[e.source]] for e in fit.edges])


def test_a_noisy_network_is_recovered(network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.05, noise=0.3, seed=1)
    fit = fit_phase_coupling(phases, 0.05, names=["a", "b", "c", "d"])
    found = {(e.source, e.receiver): e.strength for e in fit.edges if e.distinguishable}
    assert set(found) == {("b", "a"), ("a", "c"), ("d", "b")}
    assert np.allclose(fit.matrix(), COUPLING, atol=0.15)
    assert np.count_nonzero(fit.matrix(distinguishable_only=True)) == 3
    assert [f.omega for f in fit.frequencies] == pytest.approx(OMEGAS, abs=0.1)
    assert fit.noise == pytest.approx([0.09] * 4, rel=0.4)
    assert fit.warnings == ()


def test_wrapping_and_whole_turns_make_no_difference_to_unwrapped_input(network):
    phases = network(OMEGAS, COUPLING, n_samples=1500, period=0.05, noise=0.3, seed=1)
    shifted = fit_phase_coupling(phases + 2 * np.pi * np.array([3, -4, 0, 7]), 0.05)
    assert np.allclose(shifted.matrix(), fit_phase_coupling(phases, 0.05).matrix())


def test_noiseless_phases_give_the_exact_network(network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.02, noise=0.0, seed=2, substeps=20)
    assert np.allclose(fit_phase_coupling(phases, 0.02).matrix(), COUPLING, atol=5e-3)


def test_lags_are_recovered_and_one_beyond_the_limit_is_said(network):
    phases = network(OMEGAS, COUPLING, n_samples=6000, period=0.05, noise=0.2, seed=3, lag=LAG)
    fit = fit_phase_coupling(phases, 0.05, max_lag=1.0)
    found = [e for e in fit.edges if e.distinguishable]
    assert len(found) == 3
    assert [e.lag for e in found] == pytest.approx([LAG] * 3, abs=0.15)
    assert all(e.lag_low < e.lag < e.lag_high for e in found)
    assert [e.strength for e in found] == pytest.approx(truth_of(fit)[truth_of(fit) != 0.0], abs=0.06)
    assert any("lies beyond --max-lag" in w for w in fit_phase_coupling(phases, 0.05, max_lag=0.2).warnings)


def test_gaps_cost_precision_but_not_correctness(network):
    phases = network(OMEGAS, COUPLING, n_samples=4000, period=0.05, noise=0.3, seed=4)
    phases[1000:1300, 2] = np.nan
    phases[1300:, 2] += 2 * np.pi * 5
    phases[2000, 0] = np.nan
    fit = fit_phase_coupling(phases, 0.05)
    assert fit.n_samples == 4000 - 301
    assert np.allclose(fit.matrix(), COUPLING, atol=0.15)


def test_same_seed_same_numbers_and_another_seed_moves_only_the_intervals(network):
    phases = network(OMEGAS, COUPLING, n_samples=1500, period=0.05, noise=0.3, seed=5)
    first, again, other = (fit_phase_coupling(phases, 0.05, seed=s) for s in (1, 1, 2))
    assert first == again
    assert np.array_equal(first.matrix(), other.matrix())
    assert first.edges[0].low != other.edges[0].low


def test_synchronous_oscillators_are_not_identifiable_and_said_so(network):
    strong = np.array([[0.0, 5.0], [5.0, 0.0]])
    phases = network([5.0, 5.2], strong, n_samples=3000, period=0.05, noise=0.0, seed=6)
    fit = fit_phase_coupling(phases[1000:], 0.05)  # without the transient, which would tell
    assert any("nearly synchronous: o1 and o2 (1.000)" in w for w in fit.warnings)
    assert any("not identifiable from these data: o2 -> o1, o1 -> o2" in w for w in fit.warnings)
    assert not any(e.distinguishable for e in fit.edges)
    assert not any(e.identifiable for e in fit.edges)


def test_short_records_are_refused_or_called_rough(network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.05, noise=0.3, seed=7)
    with pytest.raises(ExtractorError, match="4 unknowns per oscillator need at least 24: record longer"):
        fit_phase_coupling(phases[:20], 0.05)
    slow = np.cumsum(np.random.default_rng(0).normal(0.02, 0.1, size=(400, 3)), axis=0)
    slow = np.apply_along_axis(lambda x: np.convolve(x, np.ones(40) / 40, mode="valid"), 0, slow)
    assert any("independent blocks only" in w for w in fit_phase_coupling(slow, 0.05).warnings)


def test_aliasing_is_suspected_near_half_a_turn_per_sample(network):
    phases = network([50.0, 5.0], np.zeros((2, 2)), n_samples=2000, period=0.05, noise=0.3, seed=8)
    assert any("aliasing suspected: o1 advances 0.40 turns" in w for w in fit_phase_coupling(phases, 0.05).warnings)


@pytest.mark.parametrize(
    ("arguments", "failure", "message"),
    [
        ({"phases": np.zeros((100, 1))}, ExtractorError, "n_oscillators >= 2"),
        ({"phases": np.full((100, 2), np.nan)}, ExtractorError, "no stretch of two samples"),
        ({"phases": np.full((100, 2), np.inf)}, ExtractorError, "infinity"),
        ({"sample_period_s": 0.0}, ValueError, "sample_period_s"),
        ({"max_lag": 2.0}, ValueError, "max_lag must be in"),
        ({"max_lag": True}, ValueError, "max_lag"),
        ({"n_bootstrap": 99}, ValueError, "n_bootstrap must be an integer >= 100"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"names": ["a", "a"]}, ValueError, "2 different names"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, failure, message):
    with pytest.raises(failure, match=message):
        fit_phase_coupling(**({"phases": np.zeros((100, 2)), "sample_period_s": 0.1} | arguments))


def test_a_constant_velocity_needs_no_noise_to_be_fitted():
    phases = np.outer(np.arange(2000) * 0.05, [3.0, 4.0])
    fit = fit_phase_coupling(phases, 0.05)
    assert [f.omega for f in fit.frequencies] == pytest.approx([3.0, 4.0])
    assert fit.matrix() == pytest.approx(np.zeros((2, 2)), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("measurement", [0.0, 0.1], ids=["clean", "measured with noise"])
def test_intervals_cover_the_truth_at_the_stated_rate_and_zeros_are_not_reported(network, measurement):
    """95 % intervals over 150 recordings; a family-wise level of 5 %. Measurement noise may only make them wider."""
    covered, total, false_alarms, recordings, missed = 0, 0, 0, 150, 0
    for seed in range(recordings):
        phases = network(OMEGAS, COUPLING, n_samples=2500, period=0.05, noise=0.3, seed=seed, substeps=2)
        phases = phases + measurement * np.random.default_rng(10_000 + seed).normal(size=phases.shape)
        fit = fit_phase_coupling(phases, 0.05, seed=seed)
        truth = truth_of(fit)
        inside = [edge.low <= value <= edge.high for edge, value in zip(fit.edges, truth, strict=True)]
        inside += [f.low <= omega <= f.high for f, omega in zip(fit.frequencies, OMEGAS, strict=True)]
        covered, total = covered + sum(inside), total + len(inside)
        false_alarms += any(e.distinguishable for e, value in zip(fit.edges, truth, strict=True) if value == 0.0)
        missed += sum(not e.distinguishable for e, value in zip(fit.edges, truth, strict=True) if value != 0.0)
    assert covered / total > 0.935
    if measurement == 0.0:
        assert covered / total < 0.965
    assert wilson_interval(false_alarms, recordings).low < 0.05
    assert missed / (3 * recordings) < 0.02


@pytest.mark.slow
def test_an_uncoupled_network_gives_no_coupling_in_95_of_100_recordings(network):
    false_alarms, recordings = 0, 200
    for seed in range(recordings):
        phases = network([5.0, 5.6, 6.4, 7.1, 4.3], np.zeros((5, 5)), n_samples=1500, period=0.05, noise=0.4, seed=seed)
        false_alarms += any(e.distinguishable for e in fit_phase_coupling(phases, 0.05, seed=seed).edges)
    assert wilson_interval(false_alarms, recordings).low < 0.05


def test_a_drifting_frequency_is_said(network):
    phases = network(OMEGAS, COUPLING, n_samples=2000, period=0.05, noise=0.3, seed=1)
    time = np.arange(2000) * 0.05
    phases[:, 2] += 0.5 * 0.05 * time**2
    warnings = fit_phase_coupling(phases, 0.05).warnings
    assert [w[:34] for w in warnings if w.startswith("drifting")] == ["drifting: the frequency of o3 chan"]


def test_phase_differences_that_hardly_move_are_said_to_be_slow(network):
    independent = np.zeros((3, 3))
    for seed in range(3):
        short = network(np.full(3, 5.0), independent, n_samples=1200, period=0.05, noise=0.3, seed=seed)
        assert any(w.startswith("slow: the phase difference of") for w in fit_phase_coupling(short, 0.05).warnings)
    locked = network(np.array([5.0, 5.1, 5.2]), 1.0 - np.eye(3), n_samples=2000, period=0.05, noise=0.4, seed=0)
    assert not any(w.startswith("slow") for w in fit_phase_coupling(locked, 0.05).warnings)


def test_phases_too_large_to_have_an_angle_are_refused():
    with pytest.raises(ExtractorError, match=r"at most 1e\+12 rad"):
        fit_phase_coupling(np.random.default_rng(0).uniform(0, 1e300, (500, 2)), 0.05)
