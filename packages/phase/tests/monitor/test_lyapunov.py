"""Lyapunov exponents with known values, their sum, and the guard."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.monitor.lyapunov import LyapunovGuard, lyapunov_spectrum


def all_to_all(n, strength):
    return strength / n * (1.0 - np.eye(n))


def mean_divergence(theta, omegas, knm, alpha, zeta, psi, duration):
    """Average trace of the Jacobian along the path, by SciPy's DOP853."""
    n = len(theta)

    def field(_, state):
        angle = state[None, :n] - state[:n, None] - alpha
        velocity = omegas + (knm * np.sin(angle)).sum(axis=1) + zeta * np.sin(psi - state[:n])
        trace = -(knm * np.cos(angle)).sum() - (zeta * np.cos(psi - state[:n])).sum()
        return np.append(velocity, trace)

    solution = solve_ivp(field, (0, duration), np.append(theta, 0.0), method="DOP853", rtol=1e-11, atol=1e-12)
    return solution.y[n, -1] / duration


def test_uncoupled_oscillators_have_zero_exponents():
    zero = np.zeros((4, 4))
    assert lyapunov_spectrum([0.1, 0.2, 0.3, 0.4], [1, -2, 3, 0.5], zero, zero).tolist() == [0.0] * 4


@pytest.mark.parametrize("omega", [0.0, 1.0, -1.7])
def test_a_locked_driven_oscillator_contracts_at_its_known_rate(omega):
    """At the fixed point sin(θ − Ψ) = ω/ζ the derivative is −ζ cos(θ − Ψ) = −√(ζ² − ω²)."""
    zero = np.zeros((1, 1))
    exponents = lyapunov_spectrum([0.4], [omega], zero, zero, zeta=2.0, psi=0.3, n_transient=5000)
    assert exponents[0] == pytest.approx(-np.sqrt(4.0 - omega**2), rel=1e-8)


def test_a_drifting_driven_oscillator_is_neutral():
    """Over whole rotations the logarithm of the velocity, and with it the growth, returns to where it was."""
    zero = np.zeros((1, 1))
    period = 2 * np.pi / np.sqrt(3.0**2 - 1.0)
    exponents = lyapunov_spectrum([0.0], [3.0], zero, zero, dt=period / 500, n_steps=500 * 20, zeta=1.0, psi=0.0)
    assert exponents[0] == pytest.approx(0.0, abs=1e-8)


def test_identical_oscillators_in_synchrony_contract_at_the_coupling_strength():
    """At full synchrony the Jacobian is K/N times the Laplacian of the complete graph: 0, and −K (N − 1 times)."""
    exponents = lyapunov_spectrum(np.full(6, 1.0), np.full(6, 2.0), all_to_all(6, 1.5), None, n_transient=2000)
    assert exponents[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(exponents[1:], -1.5, rtol=1e-8)


def test_two_locked_oscillators_contract_at_their_closed_form():
    """φ' = Δω − 2K sin φ has the rate −√(4K² − Δω²) at its fixed point."""
    knm = np.array([[0.0, 0.8], [0.8, 0.0]])
    exponents = lyapunov_spectrum([0.0, 0.2], [1.0, 2.0], knm, None, n_transient=4000)
    np.testing.assert_allclose(exponents, [0.0, -np.sqrt(4 * 0.64 - 1.0)], atol=1e-8)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_exponents_add_up_to_the_mean_divergence_of_the_flow(seed, n):
    rng = np.random.default_rng(seed)
    knm = rng.uniform(-1, 1, (n, n))
    np.fill_diagonal(knm, 0.0)
    alpha, zeta, psi = rng.uniform(-1, 1, (n, n)), rng.uniform(0, 1, n), rng.uniform(0, 6, n)
    theta, omegas = rng.uniform(0, 6, n), rng.normal(0, 1, n)
    exponents = lyapunov_spectrum(theta, omegas, knm, alpha, 0.01, 305, 10, zeta, psi)
    assert exponents.sum() == pytest.approx(mean_divergence(theta, omegas, knm, alpha, zeta, psi, 3.05), abs=1e-7)
    assert (np.diff(exponents) <= 0).all()


def test_exponents_at_once_carry_the_turning_of_the_tangent_vectors():
    knm = np.array([[0.0, 0.8], [0.8, 0.0]])
    fixed_point = np.arcsin(1.0 / 1.6)
    at_once = lyapunov_spectrum([0.0, fixed_point], [1.0, 2.0], knm, None)
    assert at_once[0] == pytest.approx(-np.log(np.sqrt(2)) / 10.0, abs=1e-6)
    settled = lyapunov_spectrum([0.0, fixed_point], [1.0, 2.0], knm, None, n_transient=3000)
    assert settled[0] == pytest.approx(0.0, abs=1e-12)


def test_the_interval_between_orthonormalisations_does_not_matter():
    rng = np.random.default_rng(2)
    knm = rng.uniform(0, 1, (5, 5))
    np.fill_diagonal(knm, 0.0)
    theta, omegas = rng.uniform(0, 6, 5), rng.normal(0, 1, 5)
    spectra = [lyapunov_spectrum(theta, omegas, knm, None, qr_interval=interval) for interval in (1, 7, 50)]
    np.testing.assert_allclose(spectra[1], spectra[0], atol=1e-9)
    np.testing.assert_allclose(spectra[2], spectra[0], atol=1e-9)


def test_phase_chaos_of_few_oscillators_is_seen():
    """Four or more oscillators below full locking can be chaotic (Popovych, Maistrenko and Tass 2005)."""
    omegas = np.linspace(-1, 1, 20)
    start = np.random.default_rng(1).uniform(0, 2 * np.pi, 20)
    exponents = lyapunov_spectrum(start, omegas, all_to_all(20, 1.2), None, 0.02, 20_000, n_transient=5000)
    assert exponents[0] > 0.05
    assert np.abs(exponents).min() < 0.01


def test_diverging_flow_names_its_step():
    with pytest.raises(EngineError, match="diverged at step 0"):
        lyapunov_spectrum([0.0], [1e308], [[0.0]], None, dt=1e10)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"phases_init": []}, "number of phases must be an integer >= 1"),
        ({"phases_init": [np.nan, 0.0]}, "phases_init must contain only finite"),
        ({"omegas": [1.0]}, "omegas must have shape"),
        ({"knm": np.eye(2)}, "zero diagonal"),
        ({"alpha": np.zeros(2)}, "alpha must have shape"),
        ({"dt": 0.0}, "dt must be a positive finite number"),
        ({"n_steps": 0}, "n_steps must be an integer >= 1"),
        ({"qr_interval": 0}, "qr_interval must be an integer >= 1"),
        ({"zeta": True}, "zeta must be a finite"),
        ({"psi": [1.0]}, "psi must have shape"),
        ({"n_transient": -1}, "n_transient must be an integer >= 0"),
    ],
)
def test_bad_arguments_are_named(changed, named):
    good = {"phases_init": [0.0, 1.0], "omegas": [1.0, 2.0], "knm": np.zeros((2, 2)), "alpha": None}
    with pytest.raises(ValueError, match=named):
        lyapunov_spectrum(**{**good, **changed})


class TestGuard:
    pair = np.array([[0.0, 0.5], [0.5, 0.0]])

    def test_potential_has_its_closed_form(self):
        state = LyapunovGuard().evaluate([0.0, 1.0], self.pair)
        assert pytest.approx(-0.5 * np.cos(1.0) / 2) == state.V
        assert state.dV_dt == 0.0
        assert state.max_phase_diff == pytest.approx(1.0)
        assert state.in_basin

    def test_potential_falls_along_the_flow_of_equal_oscillators(self):
        from scpn_phase_orchestrator.upde.engine import UPDEEngine

        rng = np.random.default_rng(4)
        knm = rng.uniform(0, 1, (8, 8))
        knm = np.triu(knm, 1) + np.triu(knm, 1).T
        phases = rng.uniform(0, 2 * np.pi, 8)
        guard, engine = LyapunovGuard(), UPDEEngine(8, 0.01, "rk4")
        changes = []
        for _ in range(300):
            changes.append(guard.evaluate(phases, knm).dV_dt)
            phases = engine.step(phases, np.zeros(8), knm, alpha=np.zeros((8, 8)))
        assert max(changes) <= 1e-12
        assert min(changes) < -1e-4

    def test_distance_is_measured_on_the_circle(self):
        state = LyapunovGuard().evaluate([0.1, 2 * np.pi - 0.1], self.pair)
        assert state.max_phase_diff == pytest.approx(0.2)

    def test_pairs_without_coupling_do_not_count(self):
        knm = np.zeros((3, 3))
        knm[0, 1] = 0.5
        state = LyapunovGuard().evaluate([0.0, 0.3, np.pi], knm)
        assert state.max_phase_diff == pytest.approx(0.3)
        assert LyapunovGuard().evaluate([0.0, np.pi], np.zeros((2, 2))).in_basin

    def test_basin_ends_at_the_threshold(self):
        assert not LyapunovGuard().evaluate([0.0, np.pi / 2], self.pair).in_basin
        assert LyapunovGuard(2.0).evaluate([0.0, np.pi / 2], self.pair).in_basin

    def test_change_is_since_the_last_call_until_reset(self):
        guard = LyapunovGuard()
        first, second = guard.evaluate([0.0, 1.0], self.pair), guard.evaluate([0.0, 0.5], self.pair)
        assert second.dV_dt == second.V - first.V
        guard.reset()
        assert guard.evaluate([0.0, 0.2], self.pair).dV_dt == 0.0

    @pytest.mark.parametrize("threshold", [0.0, -1.0, 4.0, np.nan, True])
    def test_bad_threshold_is_refused(self, threshold):
        with pytest.raises(ValueError, match="basin_threshold"):
            LyapunovGuard(threshold)
