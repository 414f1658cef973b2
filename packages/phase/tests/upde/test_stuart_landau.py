"""The Stuart-Landau engine: documented steps, equality of its two doors, refusals and divergence."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde.engine import UPDEEngine
from scpn_phase_orchestrator.upde.stuart_landau import PreparedAmplitudeCoupling, StuartLandauEngine

METHODS = ("euler", "rk4", "rk45")
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])
ZERO = np.zeros((2, 2))


def network(n, seed=0, lag=0.4):
    rng = np.random.default_rng(seed)
    knm, knm_r = rng.uniform(-0.5, 1.0, (2, n, n))
    np.fill_diagonal(knm, 0.0)
    np.fill_diagonal(knm_r, 0.0)
    state = np.concatenate([rng.uniform(0, 2 * np.pi, n), rng.uniform(0.2, 1.5, n)])
    omegas, mu = rng.normal(0, 1, n), rng.uniform(-0.5, 1.5, n)
    return state, omegas, mu, knm, knm_r, rng.uniform(-lag, lag, (n, n))


def field(state, omegas, mu, knm, knm_r, alpha, zeta=0.0, psi=0.0, epsilon=1.0):
    """The documented equations, term by term."""
    n = len(omegas)
    theta, r = state[:n], state[n:]
    angle = theta[None, :] - theta[:, None] - alpha
    d_theta = omegas + (knm * np.sin(angle)).sum(axis=1) + zeta * np.sin(psi - theta)
    d_r = (mu - r**2) * r + epsilon * (knm_r * np.maximum(r, 0.0)[None, :] * np.cos(angle)).sum(axis=1)
    return np.concatenate([d_theta, d_r])


@pytest.mark.parametrize(("angle", "expected"), [(np.pi / 3, [1.00015, 0.50405]), (np.pi / 2, [1.0, 0.50375])])
def test_amplitudes_after_one_step_are_the_documented_ones(angle, expected):
    engine = StuartLandauEngine(2, 0.01)
    state = engine.step([0.0, angle, 1.0, 0.5], [0, 0], [1, 1], ZERO, 0.2 * PAIR, 0.0, 0.0, ZERO, epsilon=0.3)
    np.testing.assert_allclose(state[2:], expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(state[:2], [0.0, angle], rtol=0, atol=1e-15)


def test_phases_after_one_step_are_the_documented_ones():
    for method in ("euler", "rk4"):
        engine = StuartLandauEngine(2, 0.01, method)
        state = engine.step([0, np.pi / 2, 1, 1], [1, 2], [1, 1], 0.5 * PAIR, ZERO, 0.0, 0.0, ZERO)
        np.testing.assert_allclose(state[:2], [0.015, 1.5857963267948965], rtol=0, atol=1e-15)
    lagged = StuartLandauEngine(2, 0.01).step(
        [0, np.pi / 2, 1, 1], [1, 2], [1, 1], 0.5 * PAIR, ZERO, 0.2, 0.3, np.full((2, 2), 0.1)
    )
    np.testing.assert_allclose(lagged[:2], [0.015566061239712808, 1.5839106329902553], rtol=0, atol=1e-15)


@given(st.integers(1, 9), st.integers(0, 1000), st.sampled_from([0.0, 0.4]))
def test_euler_step_is_the_documented_field(n, seed, lag):
    state, omegas, mu, knm, knm_r, alpha = network(n, seed, lag)
    moved = StuartLandauEngine(n, 0.01).step(state, omegas, mu, knm, knm_r, 0.3, 0.7, alpha, 0.6)
    expected = state + 0.01 * field(state, omegas, mu, knm, knm_r, alpha, 0.3, 0.7, 0.6)
    expected[:n] %= 2 * np.pi
    np.testing.assert_allclose(moved, np.concatenate([expected[:n], np.maximum(expected[n:], 0)]), atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lag", [0.0, 0.4])
def test_phases_move_as_in_the_kuramoto_engine(method, lag):
    state, omegas, mu, knm, knm_r, alpha = network(7, 3, lag)
    moved = StuartLandauEngine(7, 0.01, method).step(state, omegas, mu, knm, knm_r, 0.3, 0.7, alpha)
    phases = UPDEEngine(7, 0.01, method).step(state[:7], omegas, knm, 0.3, 0.7, alpha)
    np.testing.assert_allclose(moved[:7], phases, atol=1e-12 if method != "rk45" else 1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "drive", [(0.0, 0.0), (0.3, 0.7), (np.linspace(0, 1, 6), np.linspace(0, 5, 6)), (0.3, np.ones(6))]
)
def test_step_and_advance_give_the_same_bits(method, drive):
    state, omegas, mu, knm, knm_r, alpha = network(6)
    prepared = PreparedAmplitudeCoupling.from_matrices(knm, knm_r, alpha)
    stepping, advancing = (StuartLandauEngine(6, 0.02, method, substeps=2) for _ in range(2))
    stepped = advanced = state
    for _ in range(20):
        stepped = stepping.step(stepped, omegas, mu, knm, knm_r, *drive, alpha, 0.5)
        advanced = advancing.advance(advanced, omegas, mu, prepared, *drive, 0.5)
        assert stepped.tobytes() == advanced.tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_a_step_depends_on_its_arguments_alone(method):
    state, omegas, mu, knm, knm_r, alpha = network(5)
    used = StuartLandauEngine(5, 0.1, method)
    for _ in range(7):
        used.step(5 * state, 30 * omegas, mu, knm, knm_r, 0.3, 0.7, alpha)
    fresh = StuartLandauEngine(5, 0.1, method)
    arguments = (state, omegas, mu, knm, knm_r, 0.3, 0.7, alpha)
    assert used.step(*arguments).tobytes() == fresh.step(*arguments).tobytes()


def test_threads_may_share_an_engine():
    engine = StuartLandauEngine(12, 0.01, "rk4")
    problems = [network(12, seed) for seed in range(40)]

    def run(problem):
        state, omegas, mu, knm, knm_r, alpha = problem
        for _ in range(20):
            state = engine.step(state, omegas, mu, knm, knm_r, 0.1, 0.2, alpha)
        return state.tobytes()

    alone = [run(problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, problems)) == alone


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_substeps_are_steps_of_the_part(method):
    state, omegas, mu, knm, knm_r, alpha = network(6)
    whole = StuartLandauEngine(6, 0.1, method, substeps=5).step(state, omegas, mu, knm, knm_r, 0.1, 0.2, alpha)
    part = StuartLandauEngine(6, 0.1 / 5, method)
    for _ in range(5):
        state = part.step(state, omegas, mu, knm, knm_r, 0.1, 0.2, alpha)
    np.testing.assert_allclose(whole, state, rtol=1e-13)
    assert part.last_dt == 0.1 / 5


def test_rk45_lands_on_dt_however_many_internal_steps_it_needs():
    omegas, mu = np.array([1.0, -2.0]), np.ones(2)
    for dt in (1e-3, 0.37, 5.0):
        engine = StuartLandauEngine(2, dt, "rk45", atol=1e-9, rtol=1e-9)
        state = engine.step([0.1, 0.2, 0.5, 2.0], omegas, mu, ZERO, ZERO, 0.0, 0.0, ZERO)
        np.testing.assert_allclose(state[:2], (np.array([0.1, 0.2]) + omegas * dt) % (2 * np.pi), atol=1e-9)
        assert 0.0 < engine.last_dt <= dt


@pytest.mark.parametrize("method", METHODS)
def test_state_stays_wrapped_and_not_negative_and_the_input_stays_as_it_is(method):
    state, omegas, mu, knm, knm_r, alpha = network(8, 4)
    before = state.copy()
    engine = StuartLandauEngine(8, 0.05, method)
    moved = state
    for _ in range(200):
        moved = engine.step(moved, omegas, mu - 1.0, knm, -3.0 * np.abs(knm_r), 0.1, 0.2, alpha)
        assert ((moved[:8] >= 0) & (moved[:8] < 2 * np.pi)).all()
        assert (moved[8:] >= 0).all()
    assert (state == before).all()


def test_silent_oscillators_stay_silent_without_coupling():
    state = StuartLandauEngine(2, 0.1).step([0.0, 1.0, 0.0, 0.0], [1, 1], [1, 1], ZERO, ZERO, 0, 0, ZERO)
    assert state[2:].tolist() == [0.0, 0.0]


def test_epsilon_zero_switches_the_amplitude_coupling_off():
    state, omegas, mu, knm, knm_r, alpha = network(4)
    engine = StuartLandauEngine(4, 0.1)
    with_matrix = engine.step(state, omegas, mu, knm, knm_r, 0, 0, alpha, epsilon=0.0)
    without = engine.step(state, omegas, mu, knm, np.zeros((4, 4)), 0, 0, alpha, epsilon=1.0)
    np.testing.assert_array_equal(with_matrix, without)


def test_order_parameter_weighs_phases_by_amplitude():
    engine = StuartLandauEngine(2, 0.1)
    order, angle = engine.compute_order_parameter([0.0, np.pi, 1.0, 3.0])
    assert (order, angle) == (pytest.approx(1.0), pytest.approx(np.pi))
    assert engine.compute_mean_amplitude([0.0, np.pi, 1.0, 3.0]) == 2.0


@pytest.mark.parametrize("method", METHODS)
def test_divergence_names_step_and_size(method):
    engine = StuartLandauEngine(1, 1.0, method)
    zero = np.zeros((1, 1))
    state = engine.step([0.0, 0.5], [1.0], [0.0], zero, zero, 0, 0, zero)
    with pytest.raises(EngineError, match=r"diverged at step 2: largest phase or amplitude (1e\+12|infinite)"):
        engine.step(state, [1e12], [0.0], zero, zero, 0, 0, zero)


def test_exploding_amplitude_is_divergence():
    engine = StuartLandauEngine(2, 0.1, "rk4")
    with pytest.raises(EngineError, match="diverged at step 1"):
        engine.step([0, 0, 1, 1], [1, 1], [1e200, 1], ZERO, ZERO, 0, 0, ZERO)


def test_rk45_says_when_its_tolerance_is_out_of_reach():
    engine = StuartLandauEngine(1, 1.0, "rk45", atol=1e-300, rtol=0.0)
    zero = np.zeros((1, 1))
    with pytest.raises(EngineError, match="could not meet its tolerance at step 1"):
        engine.step([0.3, 0.5], [1.0], [1.0], zero, zero, 1.0, 0.2, zero)


GOOD = {
    "state": [0.0, 1.0, 1.0, 1.0],
    "omegas": [1.0, 1.0],
    "mu": [1.0, 1.0],
    "knm": ZERO,
    "knm_r": ZERO,
    "zeta": 0.0,
    "psi": 0.0,
    "alpha": ZERO,
    "epsilon": 1.0,
}


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("state", [0.0, 1.0, 1.0], r"state must have shape \(4,\), got \(3,\)"),
        ("state", [0.0, np.nan, 1.0, 1.0], "state must contain only finite"),
        ("state", [0.0, 1.0, -1.0, 1.0], "amplitudes of at least 0, got -1"),
        ("omegas", [1.0], "omegas must have shape"),
        ("omegas", [True, 1.0], "omegas must hold real numbers, got a bool"),
        ("mu", [1j, 1.0], "mu must hold real numbers"),
        ("knm", np.eye(2), "knm must have a zero diagonal"),
        ("knm", np.zeros((3, 3)), "knm must have shape|knm_r must have shape"),
        ("knm", np.zeros((2, 3)), r"knm must have shape \(n, n\) with n >= 1, got \(2, 3\)"),
        ("knm", [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], r"knm must have shape \(n, n\) with n >= 1, got \(2, 3\)"),
        ("knm_r", np.eye(2), "knm_r must have a zero diagonal"),
        ("knm_r", np.full((2, 2), np.inf), "knm_r must contain only finite"),
        ("alpha", np.zeros(2), "alpha must have shape"),
        ("zeta", True, "zeta must be a finite real scalar"),
        ("zeta", [0.1], r"zeta must have shape \(2,\)"),
        ("psi", np.nan, "psi must be a finite"),
        ("epsilon", -0.1, "epsilon must be at least 0"),
    ],
)
def test_bad_arguments_are_named(name, value, named):
    with pytest.raises(ValueError, match=named):
        StuartLandauEngine(2, 0.1).step(**{**GOOD, name: value})


def test_matrices_of_another_size_are_refused():
    three = np.zeros((3, 3))
    with pytest.raises(ValueError, match=r"knm must have shape \(2, 2\)"):
        StuartLandauEngine(2, 0.1).step(**{**GOOD, "knm": three, "knm_r": three, "alpha": three})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n": 0, "dt": 0.1}, "n must be an integer >= 1"),
        ({"n": 2, "dt": 0.0}, "dt must be a positive finite number"),
        ({"n": 2, "dt": np.inf}, "dt must be a positive finite"),
        ({"n": 2, "dt": 0.1, "method": "heun"}, "Unknown method 'heun'; expected one of euler, rk4, rk45"),
        ({"n": 2, "dt": 0.1, "atol": 0.0}, "atol"),
        ({"n": 2, "dt": 0.1, "rtol": -1.0}, "rtol"),
        ({"n": 2, "dt": 0.1, "substeps": 0}, "substeps must be an integer >= 1"),
    ],
)
def test_bad_settings_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        StuartLandauEngine(**arguments)
