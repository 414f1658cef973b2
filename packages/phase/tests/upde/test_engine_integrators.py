"""Order and accuracy of the integrators, against closed forms and SciPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine

N = 6
DURATION = 1.0


def problem():
    rng = np.random.default_rng(5)
    knm = rng.normal(size=(N, N))
    np.fill_diagonal(knm, 0.0)
    return rng.uniform(0.0, 6.0, N), rng.normal(size=N), knm, 0.4, 0.7, rng.uniform(-1.0, 1.0, (N, N))


def reference(phases, omegas, knm, zeta, psi, alpha, duration=DURATION):
    def velocity(_, theta):
        pull = (knm * np.sin(theta[None, :] - theta[:, None] - alpha)).sum(axis=1)
        return omegas + pull + zeta * np.sin(psi - theta)

    return solve_ivp(velocity, (0.0, duration), phases, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]


def circle_distance(first, second):
    return np.abs(np.angle(np.exp(1j * (first - second)))).max()


@pytest.mark.parametrize(
    ("method", "order", "steps"),
    [("euler", 1, (1024, 2048, 4096)), ("rk4", 4, (64, 128, 256)), ("rk45", 5, (64, 128, 256))],
)
@pytest.mark.parametrize("as_substeps", [False, True])
def test_error_falls_with_the_order_of_the_method(method, order, steps, as_substeps):
    # A driven pair: the sixth-order terms of rk45, large in wider networks, stay below those of fifth order here.
    duration = 4.0
    knm, alpha = np.array([[0.0, 0.7], [-0.9, 0.0]]), np.array([[0.0, 0.6], [-0.4, 0.0]])
    inputs = ([1.0, 4.0], [3.5, 2.8], knm, 2.0, 0.7, alpha)
    exact = reference(*inputs, duration=duration)
    errors = []
    for count in steps:
        dt, substeps, n_steps = (duration, count, 1) if as_substeps else (duration / count, 1, count)
        # A tolerance that accepts everything makes rk45 take its steps as they are.
        engine = UPDEEngine(2, dt, method, atol=1e9, substeps=substeps)
        errors.append(circle_distance(engine.run(*inputs, n_steps=n_steps), exact))
    slopes = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (np.abs(slopes - order) < 0.35).all(), (slopes, errors)


def test_adaptive_steps_agree_with_scipy_to_1e_10():
    inputs = problem()
    engine = UPDEEngine(N, 0.25, "rk45", atol=1e-13, rtol=1e-13)
    assert circle_distance(engine.run(*inputs, n_steps=4), reference(*inputs)) < 1e-10


@pytest.mark.parametrize("dt", [0.1, 1.0, 3.0])
def test_rk45_lands_exactly_on_the_end_of_the_step(dt):
    # Without coupling the advance is omega t to rounding, whatever the internal steps are.
    zeros = np.zeros((2, 2))
    engine = UPDEEngine(2, dt, "rk45", atol=1e-10, rtol=1e-10)
    result = engine.step([0.0, 0.0], [1.0, 0.3], zeros, alpha=zeros)
    assert circle_distance(result, np.array([dt, 0.3 * dt])) < 1e-14
    assert engine.time == dt
    driven = problem()
    engine = UPDEEngine(N, dt, "rk45", atol=1e-12, rtol=1e-12)
    assert circle_distance(engine.step(*driven), reference(*driven, duration=dt)) < 1e-9
    assert 0.0 < engine.last_dt <= dt


def test_a_tighter_tolerance_shortens_the_internal_steps():
    inputs = problem()
    shortest = []
    for tolerance in (1e-3, 1e-8):
        engine = UPDEEngine(N, 2.0, "rk45", atol=tolerance, rtol=tolerance)
        engine.step(*inputs)
        shortest.append(engine.last_dt)
    assert shortest[1] < shortest[0] <= 2.0


@pytest.mark.parametrize(("method", "tolerance"), [("euler", 2e-3), ("rk4", 1e-10), ("rk45", 1e-9)])
@pytest.mark.parametrize("detuning", [0.0, 0.3, 0.9])
def test_difference_of_two_oscillators_follows_the_closed_form(method, tolerance, detuning):
    # phi' = detuning - 2 K sin(phi); with detuning < 2 K it settles at asin(detuning / 2 K), and
    # tan(phi / 2) obeys a Riccati equation with the solution below (Adler 1946).
    strength, start, duration = 0.5, 2.0, 3.0
    rate = np.sqrt((2 * strength) ** 2 - detuning**2)
    if detuning == 0.0:
        expected = 2 * np.arctan(np.tan(start / 2) * np.exp(-2 * strength * duration))
    else:
        low, high = ((2 * strength - sign * rate) / detuning for sign in (1, -1))
        ratio = (np.tan(start / 2) - low) / (np.tan(start / 2) - high) * np.exp(-rate * duration)
        expected = 2 * np.arctan((low - high * ratio) / (1 - ratio))
    knm = strength * (1 - np.eye(2))
    engine = UPDEEngine(2, 0.005, method, atol=1e-12, rtol=1e-12)
    result = engine.run([0.0, start], [1.0, 1.0 + detuning], knm, alpha=np.zeros((2, 2)), n_steps=600)
    assert circle_distance(result[1] - result[0], expected) < tolerance


def test_mean_phase_is_conserved_by_symmetric_coupling():
    rng = np.random.default_rng(6)
    knm = rng.normal(size=(8, 8))
    knm += knm.T
    np.fill_diagonal(knm, 0.0)
    phases = rng.uniform(0.0, 6.0, 8)
    result = UPDEEngine(8, 0.01, "rk4").run(phases, np.zeros(8), PreparedCoupling.from_matrices(knm), n_steps=50)
    drift = np.angle(np.exp(1j * (result - phases)))
    assert abs(np.angle(np.exp(1j * drift.sum()))) < 1e-12
