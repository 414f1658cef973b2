"""The dense engine: documented numbers, the formula, equality of its ways in, time, bad input, divergence."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde import engine as engine_module
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine, upde_run, upde_run_omega_schedule

METHODS = ("euler", "rk4", "rk45")
TWO = np.array([[0.0, 0.5], [0.5, 0.0]])


def network(n, seed=0, *, lags=True):
    """Random phases, frequencies, coupling (both signs), lags, and drive vectors."""
    rng = np.random.default_rng(seed)
    knm = rng.normal(size=(n, n))
    np.fill_diagonal(knm, 0.0)
    alpha = rng.uniform(-4.0, 4.0, (n, n)) if lags else np.zeros((n, n))
    return {
        "phases": rng.uniform(0.0, 2 * np.pi, n),
        "omegas": rng.normal(size=n),
        "knm": knm,
        "zeta": rng.uniform(0.0, 1.0, n),
        "psi": rng.uniform(-7.0, 7.0, n),
        "alpha": alpha,
    }


def direct_velocity(phases, omegas, knm, zeta, psi, alpha):
    pull = (knm * np.sin(phases[None, :] - phases[:, None] - alpha)).sum(axis=1)
    return omegas + pull + zeta * np.sin(psi - phases)


def circle_distance(first, second):
    return np.abs(np.angle(np.exp(1j * (np.asarray(first) - np.asarray(second))))).max()


@pytest.mark.parametrize("method", METHODS)
def test_two_oscillators_advance_as_documented(method):
    result = UPDEEngine(2, 0.01, method).step([0.0, np.pi / 2], [1.0, 2.0], TWO, alpha=np.zeros((2, 2)))
    np.testing.assert_allclose(result, [0.015, 1.5857963267948965], rtol=0, atol=1e-4 if method == "rk45" else 1e-15)


def test_two_oscillators_with_lag_and_drive_advance_as_documented():
    result = UPDEEngine(2, 0.01).step([0.0, np.pi / 2], [1.0, 2.0], TWO, 0.2, 0.3, np.full((2, 2), 0.1))
    np.testing.assert_allclose(result, [0.015566061239712808, 1.5839106329902553], rtol=0, atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_split_form_equals_the_double_loop(n, seed, lags):
    inputs = network(n, seed, lags=lags)
    dt = 0.5
    expected = np.mod(inputs["phases"] + dt * direct_velocity(**inputs), 2 * np.pi)
    assert circle_distance(UPDEEngine(n, dt).step(**inputs), expected) < 1e-12


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 20), st.integers(0, 2**32 - 1), st.sampled_from(["euler", "rk4"]))
def test_a_common_shift_of_all_phases_only_shifts_the_result(n, seed, method):
    inputs = {**network(n, seed), "zeta": 0.0}
    shifted = {**inputs, "phases": inputs["phases"] + 1.25}
    result = UPDEEngine(n, 0.01, method).run(**inputs, n_steps=5)
    assert circle_distance(UPDEEngine(n, 0.01, method).run(**shifted, n_steps=5), result + 1.25) < 1e-12


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 20), st.integers(0, 2**32 - 1), st.sampled_from(METHODS))
def test_renaming_the_oscillators_only_renames_the_result(n, seed, method):
    inputs = network(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    renamed = {name: value[np.ix_(order, order)] if value.ndim == 2 else value[order] for name, value in inputs.items()}
    result = UPDEEngine(n, 0.01, method).run(**inputs, n_steps=3)
    assert circle_distance(UPDEEngine(n, 0.01, method).run(**renamed, n_steps=3), result[order]) < 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lags", [False, True])
@pytest.mark.parametrize("substeps", [1, 3])
def test_step_advance_and_run_give_the_same_bits(method, lags, substeps):
    inputs = {**network(13, lags=lags), "zeta": 0.3, "psi": 1.0}
    by_run = UPDEEngine(13, 0.05, method, substeps=substeps).run(**inputs, n_steps=7)
    by_function = upde_run(dt=0.05, n_steps=7, method=method, n_substeps=substeps, **inputs)
    prepared = PreparedCoupling.from_matrices(inputs["knm"], inputs["alpha"])
    stepping, advancing = (UPDEEngine(13, 0.05, method, substeps=substeps) for _ in range(2))
    by_step = by_advance = inputs["phases"]
    for _ in range(7):
        by_step = stepping.step(by_step, *(inputs[name] for name in ("omegas", "knm", "zeta", "psi", "alpha")))
        by_advance = advancing.advance(by_advance, inputs["omegas"], prepared, inputs["zeta"], inputs["psi"])
    for other in (by_function, by_step, by_advance):
        np.testing.assert_array_equal(other, by_run)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_depends_on_its_inputs_alone(method):
    inputs = network(9)
    used = UPDEEngine(9, 0.5, method)
    used.run(**network(9, seed=1), n_steps=20)
    np.testing.assert_array_equal(used.step(**inputs), UPDEEngine(9, 0.5, method).step(**inputs))


def test_drive_vectors_and_numbers_give_the_same_bits():
    inputs = network(9)
    inputs.update(zeta=0.25, psi=0.75)
    by_vector = {**inputs, "zeta": np.full(9, 0.25), "psi": np.full(9, 0.75)}
    expected = UPDEEngine(9, 0.01).step(**inputs)
    np.testing.assert_array_equal(UPDEEngine(9, 0.01).step(**by_vector), expected)
    np.testing.assert_array_equal(UPDEEngine(9, 0.01).step(**{**by_vector, "psi": 0.75}), expected)
    prepared = PreparedCoupling.from_matrices(inputs["knm"], inputs["alpha"])
    advanced = UPDEEngine(9, 0.01).advance(
        inputs["phases"], inputs["omegas"], prepared, by_vector["zeta"], by_vector["psi"]
    )
    np.testing.assert_array_equal(advanced, expected)


def test_a_matrix_changed_in_place_is_seen_by_the_next_step():
    inputs = {**network(6), "zeta": 0.0, "psi": 0.0}
    engine = UPDEEngine(6, 0.01)
    engine.step(**inputs)
    for name in ("knm", "alpha"):
        inputs[name][0, 1] += 0.5
        np.testing.assert_array_equal(engine.step(**inputs), UPDEEngine(6, 0.01).step(**inputs))
    inputs["knm"][2, 2] = 1.0
    with pytest.raises(ValueError, match="zero diagonal"):
        engine.step(**inputs)


def test_arrays_of_the_caller_stay_as_they_are():
    inputs = network(6)
    before = {name: value.copy() for name, value in inputs.items()}
    for value in inputs.values():
        value.flags.writeable = False
    result = UPDEEngine(6, 0.01).run(**inputs, n_steps=3)
    for name, value in inputs.items():
        np.testing.assert_array_equal(value, before[name])
    assert result.flags.owndata


def test_lists_integers_and_strided_arrays_are_accepted():
    knm = np.zeros((4, 4))
    knm[::2, ::2] = TWO
    expected = UPDEEngine(2, 0.01).step(np.array([0.0, 1.0]), np.array([1.0, 2.0]), TWO, alpha=np.zeros((2, 2)))
    result = UPDEEngine(2, 0.01).step([0, 1], (1, 2), knm[::2, ::2], 0, 0, [[0, 0], [0, 0]])
    np.testing.assert_array_equal(result, expected)


def test_very_large_angles_are_folded_before_use():
    turns = 2.0**40
    inputs = network(5)
    far = {name: np.array(inputs[name]) for name in inputs}
    far["phases"] = np.mod(inputs["phases"] + turns, 2 * np.pi)
    result = UPDEEngine(5, 0.01).step(**{**inputs, "phases": inputs["phases"] + turns})
    assert circle_distance(result, UPDEEngine(5, 0.01).step(**far)) < 1e-3  # 2^40 leaves 12 bits behind the point
    far = {**inputs, "alpha": np.full((5, 5), 2.0**32), "psi": 2.0**32}
    near = {**inputs, "alpha": np.full((5, 5), np.mod(2.0**32, 2 * np.pi)), "psi": np.mod(2.0**32, 2 * np.pi)}
    np.testing.assert_array_equal(UPDEEngine(5, 0.01).step(**far), UPDEEngine(5, 0.01).step(**near))


def test_phases_are_wrapped_after_each_step_and_zero_steps_copy():
    engine = UPDEEngine(2, 0.01)
    phases = np.array([7.0, -1.0])
    copy = engine.run(phases, [0.0, 0.0], TWO, alpha=np.zeros((2, 2)), n_steps=0)
    np.testing.assert_array_equal(copy, phases)
    assert copy is not phases
    assert engine.time == 0.0
    result = engine.step(phases, [0.0, 0.0], np.zeros((2, 2)), alpha=np.zeros((2, 2)))
    np.testing.assert_allclose(result, np.mod(phases, 2 * np.pi), rtol=0, atol=1e-15)


def test_time_and_own_frequencies():
    engine = UPDEEngine(2, 0.25, omega=lambda t: [t, 2 * t], t0=1.0)
    zeros = np.zeros((2, 2))
    np.testing.assert_array_equal(engine.omega_current, [1.0, 2.0])
    result = engine.run([0.0, 0.0], knm=zeros, alpha=zeros, n_steps=2)
    np.testing.assert_allclose(result, [0.25 * (1.0 + 1.25), 0.25 * 2 * (1.0 + 1.25)])
    assert engine.time == 1.5
    assert engine.last_dt == 0.25
    np.testing.assert_array_equal(engine.omega_current, [1.5, 3.0])
    fixed = UPDEEngine(2, 0.25, omega=[1.0, 2.0])
    np.testing.assert_allclose(fixed.step([0.0, 0.0], knm=zeros, alpha=zeros), [0.25, 0.5])
    np.testing.assert_array_equal(fixed.omega_current, [1.0, 2.0])
    assert UPDEEngine(2, 0.25, substeps=2).omega_current is None


@pytest.mark.parametrize("method", METHODS)
def test_a_schedule_of_frequencies_equals_single_steps(method):
    inputs = {**network(5), "zeta": 0.1, "psi": 0.2}
    schedule = np.random.default_rng(3).normal(size=(4, 5))
    coupling = {name: inputs[name] for name in ("knm", "alpha", "zeta", "psi")}
    phases, engine = inputs["phases"], UPDEEngine(5, 0.05, method)
    for row in schedule:
        phases = engine.step(phases, row, **coupling)
    whole = upde_run_omega_schedule(inputs["phases"], schedule, **coupling, dt=0.05, n_steps=4, method=method)
    np.testing.assert_array_equal(whole, phases)
    with pytest.raises(ValueError, match=r"omega_schedule must have shape \(3, 5\), got \(4, 5\)"):
        upde_run_omega_schedule(inputs["phases"], schedule, **coupling, dt=0.05, n_steps=3)


@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_change_a_bit(method):
    inputs = network(50)
    expected = UPDEEngine(50, 0.02, method, threads=1).run(**inputs, n_steps=3)
    for threads in (2, 3, 9):
        np.testing.assert_array_equal(UPDEEngine(50, 0.02, method, threads=threads).run(**inputs, n_steps=3), expected)


def test_threads_are_one_for_small_networks_and_probed_for_large_ones():
    assert UPDEEngine(1999, 0.01).threads == 1
    large = UPDEEngine(2000, 0.01)
    assert large.threads is None
    knm = np.full((2000, 2000), 1e-3)
    np.fill_diagonal(knm, 0.0)
    prepared = PreparedCoupling.from_matrices(knm)
    phases = np.linspace(0.0, 6.0, 2000)
    probed = large.run(phases, np.zeros(2000), prepared, n_steps=20)
    assert large.threads >= 1
    np.testing.assert_array_equal(
        UPDEEngine(2000, 0.01, threads=1).run(phases, np.zeros(2000), prepared, n_steps=20), probed
    )


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_narrow_storage_rounds_the_coupling_only(method):
    inputs = {**network(33), "zeta": 0.1, "psi": 0.2}
    narrow = PreparedCoupling.from_matrices(inputs["knm"], inputs["alpha"], dtype=np.float32)
    assert narrow.dtype == np.float32
    rounded = {
        **inputs,
        "knm": np.hypot(narrow.cosine_part, narrow.sine_part, dtype=np.float64),
        "alpha": np.arctan2(narrow.sine_part, narrow.cosine_part, dtype=np.float64),
    }
    result = UPDEEngine(33, 0.01, method, dtype=np.float32).run(**inputs, n_steps=10)
    assert circle_distance(result, UPDEEngine(33, 0.01, method).run(**rounded, n_steps=10)) < 1e-13
    assert 1e-12 < circle_distance(result, UPDEEngine(33, 0.01, method).run(**inputs, n_steps=10)) < 1e-6


def test_prepared_coupling_shows_its_parts():
    inputs = network(5)
    prepared = PreparedCoupling.from_matrices(inputs["knm"], inputs["alpha"])
    np.testing.assert_allclose(prepared.cosine_part, inputs["knm"] * np.cos(inputs["alpha"]), atol=1e-15)
    np.testing.assert_allclose(prepared.sine_part, inputs["knm"] * np.sin(inputs["alpha"]), atol=1e-15)
    assert prepared.has_lags
    plain = PreparedCoupling.from_matrices(inputs["knm"], np.zeros((5, 5)))
    assert not plain.has_lags
    np.testing.assert_array_equal(plain.cosine_part, inputs["knm"])
    np.testing.assert_array_equal(plain.sine_part, np.zeros((5, 5)))


def test_concurrent_calls_of_one_engine_do_not_disturb_each_other():
    inputs = network(40)
    engine, expected = UPDEEngine(40, 0.01), UPDEEngine(40, 0.01).run(**inputs, n_steps=200)
    results = [None] * 4

    def work(k):
        results[k] = engine.run(**inputs, n_steps=200)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_the_backend_is_named_and_available():
    assert engine_module.ACTIVE_BACKEND in engine_module.AVAILABLE_BACKENDS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phases": [0.0]}, r"phases must have shape \(2,\), got \(1,\)"),
        ({"phases": [0.0, np.nan]}, "phases must contain only finite values"),
        ({"phases": [True, False]}, "phases must hold real numbers, got a bool"),
        ({"phases": [1j, 0.0]}, "phases must hold real numbers, got dtype complex128"),
        ({"phases": ["0", "1"]}, "phases must hold real numbers, got dtype <U1"),
        ({"omegas": [[1.0, 2.0]]}, r"omegas must have shape \(2,\), got \(1, 2\)"),
        ({"omegas": [1.0, np.inf]}, "omegas must contain only finite values"),
        ({"omegas": None}, "omegas is required"),
        ({"knm": None}, "knm is required"),
        ({"alpha": None}, "alpha is required"),
        ({"knm": np.zeros((2, 3))}, r"knm must have shape \(2, 2\), got \(2, 3\)"),
        ({"knm": np.eye(2)}, r"knm must have a zero diagonal, got 1 at \[0, 0\]"),
        ({"knm": [[0.0, np.nan], [0.0, 0.0]]}, "knm must contain only finite values"),
        ({"knm": TWO.astype(bool)}, "knm must hold real numbers, got dtype bool"),
        ({"knm": TWO.astype(complex)}, "knm must hold real numbers, got dtype complex128"),
        ({"alpha": np.zeros(2)}, r"alpha must have shape \(2, 2\), got \(2,\)"),
        ({"alpha": [[0.0, np.inf], [0.0, 0.0]]}, "alpha must contain only finite values"),
        ({"zeta": True}, "zeta must be a finite real scalar, got True"),
        ({"zeta": np.nan}, "zeta must be a finite real scalar, got nan"),
        ({"zeta": [0.1]}, r"zeta must have shape \(2,\), got \(1,\)"),
        ({"psi": 1j}, "psi must be a finite real scalar, got 1j"),
        ({"psi": "0"}, "psi must be a finite real scalar, got '0'"),
        ({"psi": [0.0, np.inf]}, "psi must contain only finite values"),
        ({"n_steps": -1}, "n_steps must be an integer >= 0, got -1"),
        ({"n_steps": 1.0}, "n_steps must be an integer >= 0, got 1.0"),
        ({"n_steps": True}, "n_steps must be an integer >= 0, got True"),
        ({"knm": PreparedCoupling.from_matrices(TWO)}, "alpha must be None with a PreparedCoupling"),
        (
            {"knm": PreparedCoupling.from_matrices(np.zeros((3, 3))), "alpha": None},
            "knm must couple 2 oscillators, got a PreparedCoupling of 3",
        ),
    ],
)
def test_bad_arguments_are_named_also_after_a_good_call(changes, message):
    good = {"phases": np.zeros(2), "omegas": np.ones(2), "knm": TWO, "alpha": np.zeros((2, 2))}
    engine = UPDEEngine(2, 0.01)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            engine.run(**{**good, **changes})
        engine.step(**good)


@pytest.mark.parametrize("name", ["phases", "omegas", "knm", "alpha", "zeta", "psi"])
def test_a_step_refuses_what_became_bad_between_two_calls(name):
    inputs = {**network(4), "zeta": 0.5, "psi": 0.5}
    engine = UPDEEngine(4, 0.01)
    engine.step(**inputs)
    if isinstance(inputs[name], float):
        inputs[name] = float("nan")
    else:
        inputs[name].reshape(-1)[1] = np.nan
    with pytest.raises(ValueError, match=name):
        engine.step(**inputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_oscillators": 0}, "n_oscillators must be an integer >= 1, got 0"),
        ({"n_oscillators": 2.0}, "n_oscillators must be an integer >= 1, got 2.0"),
        ({"dt": 0.0}, "dt must be a positive finite number, got 0.0"),
        ({"dt": float("inf")}, "dt must be a positive finite number, got inf"),
        ({"dt": True}, "dt must be a positive finite number, got True"),
        ({"method": "heun"}, "Unknown method 'heun'; expected one of euler, rk4, rk45"),
        ({"method": None}, "Unknown method None; expected one of euler, rk4, rk45"),
        ({"atol": -1.0}, "atol must be a positive finite number, got -1.0"),
        ({"rtol": 0}, "rtol must be a positive finite number, got 0"),
        ({"substeps": 0}, "substeps must be an integer >= 1, got 0"),
        ({"threads": 0}, "threads must be an integer >= 1, got 0"),
        ({"dtype": np.int64}, "dtype must be float64 or float32, got int64"),
        ({"omega": [1.0]}, r"omega must have shape \(2,\), got \(1,\)"),
        ({"t0": float("nan")}, "t0 must be a finite real scalar, got nan"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        UPDEEngine(**{"n_oscillators": 2, "dt": 0.01, **arguments})


def test_frequencies_of_a_function_are_checked():
    engine = UPDEEngine(2, 0.01, omega=lambda t: [t])
    with pytest.raises(ValueError, match=r"omega\(t\) must have shape \(2,\), got \(1,\)"):
        engine.step(np.zeros(2), knm=TWO, alpha=np.zeros((2, 2)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e13, 1e300, 1.7e308])
def test_divergence_names_step_and_norm(method, size):
    engine = UPDEEngine(3, 0.01, method, threads=1)
    knm = np.zeros((3, 3))
    engine.run(np.zeros(3), np.ones(3), knm, alpha=np.zeros((3, 3)), n_steps=4)
    schedule = [1.0, 1.0, size, 1.0]
    fast = UPDEEngine(3, 0.01, method, omega=lambda t: np.full(3, schedule[round(t / 0.01)]))
    with pytest.raises(EngineError, match=rf"{method} at step 2 .* diverged: the norm max \|phase\| .* is .* rad"):
        fast.run(np.zeros(3), knm=knm, alpha=np.zeros((3, 3)), n_steps=4)
    with pytest.raises(EngineError, match=f"{method} at step 4 .* diverged"):
        engine.step(np.zeros(3), np.full(3, size), knm, alpha=np.zeros((3, 3)))


def test_overflowing_coupling_is_divergence_not_a_number():
    huge = 1.7e308 * (1 - np.eye(4))
    with pytest.raises(EngineError, match=r"step 0 .* diverged: the norm max \|phase\| before wrapping is (nan|inf)"):
        UPDEEngine(4, 0.01).step(np.arange(4.0), np.zeros(4), huge, alpha=np.zeros((4, 4)))


def test_a_failed_step_leaves_time_and_engine_usable():
    engine = UPDEEngine(2, 0.01)
    zeros = np.zeros((2, 2))
    with pytest.raises(EngineError):
        engine.step([0.0, 0.0], [1e300, 0.0], zeros, alpha=zeros)
    assert engine.time == 0.0
    np.testing.assert_allclose(engine.step([0.0, 0.0], [1.0, 2.0], zeros, alpha=zeros), [0.01, 0.02])


def test_an_unreachable_tolerance_is_refused_with_advice():
    stiff = {**network(3), "knm": 1e7 * (1 - np.eye(3)), "zeta": 0.0, "psi": 0.0}
    with pytest.raises(EngineError, match=r"rk45 at step 0 .* needs more than \d+ internal steps"):
        UPDEEngine(3, 1.0, "rk45", 1e-14, 1e-14).step(**stiff)


def test_a_run_samples_frequencies_where_as_many_steps_do():
    zeros = np.zeros((2, 2))
    engines = [UPDEEngine(2, 0.1, omega=lambda t: [1e6 * t, np.sin(1e6 * t)], t0=0.3) for _ in range(2)]
    phases = np.zeros(2)
    for _ in range(50):
        phases = engines[0].step(phases, knm=zeros, alpha=zeros)
    np.testing.assert_array_equal(engines[1].run(np.zeros(2), knm=zeros, alpha=zeros, n_steps=50), phases)
    assert engines[0].time == engines[1].time == 0.3 + 50 * 0.1


@pytest.mark.parametrize("name", ["phases", "omegas"])
def test_a_bool_among_numbers_is_no_number(name):
    good = {"phases": [0.0, 1.0], "omegas": [1.0, 2.0], "knm": TWO, "alpha": np.zeros((2, 2))}
    with pytest.raises(ValueError, match=f"{name} must hold real numbers, got a bool"):
        UPDEEngine(2, 0.01).step(**{**good, name: [1.0, True]})
