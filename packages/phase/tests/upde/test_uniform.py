"""The mean-field engine against the dense one, and its checks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde.engine import UPDEEngine
from scpn_phase_orchestrator.upde.uniform import UniformUPDEEngine


def circle_distance(first, second):
    return np.abs(np.angle(np.exp(1j * (first - second)))).max()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 700),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["euler", "rk4"]),
    st.floats(-3, 3),
    st.sampled_from([0.0, 0.4, -2.0]),
)
def test_uniform_equals_dense(n, seed, method, strength, lag):
    rng = np.random.default_rng(seed)
    phases, omegas, zeta, psi = rng.uniform(0.0, 6.0, n), rng.normal(size=n), rng.uniform(size=n), rng.normal(size=n)
    knm = np.full((n, n), strength / n)
    np.fill_diagonal(knm, 0.0)
    dense = UPDEEngine(n, 0.02, method).run(phases, omegas, knm, zeta, psi, np.full((n, n), lag), n_steps=3)
    uniform = UniformUPDEEngine(n, 0.02, method).run(phases, omegas, strength, zeta, psi, lag, n_steps=3)
    assert circle_distance(uniform, dense) < 1e-12


def test_step_advance_and_run_give_the_same_bits():
    rng = np.random.default_rng(1)
    phases, omegas = rng.uniform(0.0, 6.0, 100), rng.normal(size=100)
    by_run = UniformUPDEEngine(100, 0.05).run(phases, omegas, 1.5, 0.3, 1.0, 0.2, n_steps=5)
    stepping, advancing = UniformUPDEEngine(100, 0.05), UniformUPDEEngine(100, 0.05)
    by_step = by_advance = phases
    for _ in range(5):
        by_step = stepping.step(by_step, omegas, 1.5, 0.3, 1.0, 0.2)
        by_advance = advancing.advance(by_advance, omegas, advancing.prepare(1.5, 0.2), 0.3, 1.0)
    np.testing.assert_array_equal(by_step, by_run)
    np.testing.assert_array_equal(by_advance, by_run)


def test_strong_coupling_synchronises_and_weak_does_not():
    # Lorentzian frequencies of half-width gamma lock above K_c = 2 gamma, to R = sqrt(1 - K_c / K) (Kuramoto 1975).
    n, gamma = 4000, 0.05
    omegas = gamma * np.tan(np.pi * ((np.arange(n) + 0.5) / n - 0.5))
    start = np.random.default_rng(2).uniform(0.0, 2 * np.pi, n)
    orders = {}
    for strength in (0.05, 0.4):
        final = UniformUPDEEngine(n, 0.1).run(start, omegas, strength, n_steps=1500)
        orders[strength] = abs(np.exp(1j * final).mean())
    assert orders[0.05] < 0.1
    assert orders[0.4] == pytest.approx(np.sqrt(1 - 0.1 / 0.4), abs=0.03)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strength": np.nan}, "strength must be a finite real scalar, got nan"),
        ({"strength": True}, "strength must be a finite real scalar, got True"),
        ({"strength": [[0.0]]}, "strength must be a finite real scalar"),
        ({"alpha": 1j}, "alpha must be a finite real scalar, got 1j"),
        ({"omegas": None}, "omegas is required"),
        ({"phases": [0.0, 1.0, 2.0]}, r"phases must have shape \(2,\), got \(3,\)"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    good = {"phases": [0.0, 1.0], "omegas": [1.0, 1.0], "strength": 1.0}
    with pytest.raises(ValueError, match=message):
        UniformUPDEEngine(2, 0.01).step(**{**good, **changes})


def test_divergence_names_step_and_norm():
    with pytest.raises(EngineError, match=r"euler at step 0 .* the norm max \|phase\| before wrapping is 1e\+299 rad"):
        UniformUPDEEngine(1, 0.1).step([0.0], [1e300], 0.0)
