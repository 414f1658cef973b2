"""Ensembles have the bits of single runs, whatever the batch, the block and the threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine
from scpn_phase_orchestrator.upde.ensemble import EnsembleEngine


def ensemble(n, n_runs, seed):
    rng = np.random.default_rng(seed)
    knm = rng.normal(size=(n, n))
    np.fill_diagonal(knm, 0.0)
    return {
        "phases": rng.uniform(0.0, 6.0, (n_runs, n)),
        "omegas": rng.normal(size=(n_runs, n)),
        "knm": knm,
        "zeta": rng.uniform(size=(n_runs, n)),
        "psi": rng.normal(size=(n_runs, n)),
        "alpha": rng.uniform(-3.0, 3.0, (n, n)),
    }


def one_by_one(inputs, n_steps, method, *, dt=0.05, **options):
    n_runs, n = inputs["phases"].shape
    return np.array(
        [
            UPDEEngine(n, dt, method, **options).run(
                inputs["phases"][run],
                inputs["omegas"][run],
                inputs["knm"] if inputs["knm"].ndim == 2 else inputs["knm"][run],
                inputs["zeta"][run],
                inputs["psi"][run],
                inputs["alpha"] if inputs["alpha"].ndim == 2 else inputs["alpha"][run],
                n_steps,
            )
            for run in range(n_runs)
        ]
    )


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 21),
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["euler", "rk4", "rk45"]),
    st.booleans(),
)
def test_every_run_has_the_bits_it_has_alone(n, n_runs, seed, method, lags):
    inputs = ensemble(n, n_runs, seed)
    inputs["alpha"] = inputs["alpha"] * lags
    result = EnsembleEngine(n, n_runs, 0.05, method).run(**inputs, n_steps=3)
    np.testing.assert_array_equal(result, one_by_one(inputs, 3, method))


@pytest.mark.parametrize("method", ["euler", "rk45"])
@pytest.mark.parametrize("own_lags", [False, True])
def test_runs_with_couplings_of_their_own(method, own_lags):
    inputs = ensemble(7, 5, 1)
    scales = np.linspace(0.1, 2.0, 5)[:, None, None]
    inputs["knm"] = inputs["knm"] * scales
    inputs["alpha"] = inputs["alpha"] * scales if own_lags else inputs["alpha"]
    expected = one_by_one(inputs, 4, method)
    np.testing.assert_array_equal(EnsembleEngine(7, 5, 0.05, method).run(**inputs, n_steps=4), expected)
    prepared = [
        PreparedCoupling.from_matrices(inputs["knm"][run], inputs["alpha"][run] if own_lags else inputs["alpha"])
        for run in range(5)
    ]
    given_prepared = {**inputs, "knm": prepared, "alpha": None}
    np.testing.assert_array_equal(EnsembleEngine(7, 5, 0.05, method).run(**given_prepared, n_steps=4), expected)


@pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_do_not_change_a_bit(method, threads):
    inputs = ensemble(9, 70, 2)
    expected = EnsembleEngine(9, 70, 0.05, method).run(**inputs, n_steps=3)
    np.testing.assert_array_equal(
        EnsembleEngine(9, 70, 0.05, method, threads=threads).run(**inputs, n_steps=3), expected
    )


def test_step_and_run_give_the_same_bits_and_count_time():
    inputs = ensemble(6, 20, 3)
    whole, stepping = EnsembleEngine(6, 20, 0.25), EnsembleEngine(6, 20, 0.25)
    prepared = PreparedCoupling.from_matrices(inputs["knm"], inputs["alpha"])
    phases = inputs["phases"]
    for _ in range(4):
        phases = stepping.step(phases, inputs["omegas"], prepared, inputs["zeta"], inputs["psi"])
    np.testing.assert_array_equal(whole.run(**inputs, n_steps=4), phases)
    assert whole.time == stepping.time == 1.0
    copy = whole.run(**inputs, n_steps=0)
    np.testing.assert_array_equal(copy, inputs["phases"])
    assert copy is not inputs["phases"]


def test_shared_values_are_spread_over_runs_and_oscillators():
    inputs = ensemble(6, 4, 4)
    per_run = {**inputs, "omegas": inputs["omegas"][0], "zeta": np.arange(4) / 10, "psi": np.arange(4.0)}
    full = {
        **inputs,
        "omegas": np.tile(inputs["omegas"][0], (4, 1)),
        "zeta": np.repeat(per_run["zeta"], 6).reshape(4, 6),
        "psi": np.repeat(per_run["psi"], 6).reshape(4, 6),
    }
    expected = EnsembleEngine(6, 4, 0.1).step(**full)
    np.testing.assert_array_equal(EnsembleEngine(6, 4, 0.1).step(**per_run), expected)
    scalars = EnsembleEngine(6, 4, 0.1).step(**{**inputs, "zeta": 0.3, "psi": 50.0})
    np.testing.assert_array_equal(
        scalars, EnsembleEngine(6, 4, 0.1).step(**{**inputs, "zeta": np.full(4, 0.3), "psi": np.full((4, 6), 50.0)})
    )


def test_narrow_storage_has_the_bits_of_narrow_single_runs():
    inputs = ensemble(10, 18, 5)
    result = EnsembleEngine(10, 18, 0.05, dtype=np.float32).run(**inputs, n_steps=3)
    np.testing.assert_array_equal(result, one_by_one(inputs, 3, "euler", dtype=np.float32))


@pytest.mark.parametrize("method", ["euler", "rk45"])
@pytest.mark.parametrize("threads", [1, 2])
def test_divergence_names_run_step_and_norm(method, threads):
    inputs = ensemble(3, 40, 6)
    inputs["omegas"][37, 1] = 1e300
    engine = EnsembleEngine(3, 40, 0.1, method, threads=threads)
    with pytest.raises(EngineError, match=rf"run 37: {method} at step 0 .*diverged: the norm max \|phase\| .* rad"):
        engine.run(**inputs, n_steps=2)
    assert engine.time == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phases": np.zeros(3)}, r"phases must have shape \(4, 3\), got \(3,\)"),
        ({"phases": np.full((4, 3), np.nan)}, "phases must contain only finite values"),
        ({"omegas": np.zeros(4)}, r"omegas must have shape \(4, 3\) or \(3,\), got \(4,\)"),
        ({"knm": np.zeros((2, 3, 3))}, r"knm must have shape \(3, 3\) or \(4, 3, 3\), got \(2, 3, 3\)"),
        ({"knm": np.eye(3)}, "knm must have a zero diagonal"),
        ({"alpha": np.zeros(3)}, r"alpha must have shape \(3, 3\) or \(4, 3, 3\), got \(3,\)"),
        ({"zeta": np.zeros(3)}, r"zeta must be one number or have shape \(4,\) or \(4, 3\), got \(3,\)"),
        ({"psi": "0"}, "psi must hold real numbers"),
        ({"n_steps": -1}, "n_steps must be an integer >= 0, got -1"),
        ({"knm": PreparedCoupling.from_matrices(np.zeros((3, 3)))}, "alpha must be None with a PreparedCoupling"),
        (
            {"knm": PreparedCoupling.from_matrices(np.zeros((2, 2))), "alpha": None},
            "knm must couple 3 oscillators, got a PreparedCoupling of 2",
        ),
        (
            {"knm": [PreparedCoupling.from_matrices(np.zeros((3, 3)))], "alpha": None},
            "knm must hold 4 couplings, got 1 of 1",
        ),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        EnsembleEngine(3, 4, 0.1).run(**{**ensemble(3, 4, 0), **changes})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_runs": 0}, "n_runs must be an integer >= 1, got 0"),
        ({"threads": True}, "threads must be an integer >= 1, got True"),
        ({"method": "heun"}, "Unknown method 'heun'; expected one of euler, rk4, rk45"),
        ({"dt": 0.0}, "dt must be a positive finite number, got 0.0"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        EnsembleEngine(**{"n_oscillators": 3, "n_runs": 4, "dt": 0.1, **arguments})
