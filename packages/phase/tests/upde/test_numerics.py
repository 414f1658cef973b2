"""Stability bound and integration settings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.upde.numerics import IntegrationConfig, check_stability, largest_advance


def test_documented_stability_verdicts():
    assert check_stability(0.01, 100, 200) is True
    assert check_stability(0.02, 100, 100) is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0, 1.0), "dt must be a positive finite number, got 0.0"),
        ((True, 1.0, 1.0), "dt must be a positive finite number, got True"),
        ((0.1, -1.0, 1.0), "max_omega must be at least 0, got -1"),
        ((0.1, 1.0, float("inf")), "max_coupling must be a finite real scalar, got inf"),
        ((0.1, 1.0, 1j), "max_coupling must be a finite real scalar, got 1j"),
    ],
)
def test_stability_names_the_bad_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_stability(*arguments)


def test_largest_advance_adds_the_strongest_pulls():
    knm = [[0.0, -2.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]
    assert largest_advance(0.1, [1.0, -4.0, 0.0], knm, [0.0, 0.5, -0.25]) == pytest.approx(0.1 * (4.0 + 3.0 + 0.5))
    assert largest_advance(0.1, [1.0, -4.0, 0.0], knm, substeps=2) == pytest.approx(0.05 * 7.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_no_phase_moves_faster_than_the_bound(seed, n):
    rng = np.random.default_rng(seed)
    knm, alpha = rng.normal(size=(2, n, n))
    np.fill_diagonal(knm, 0.0)
    phases, omegas, zeta, psi = rng.normal(scale=3.0, size=(4, n))
    pull = (knm * np.sin(phases[None, :] - phases[:, None] - alpha)).sum(axis=1)
    rate = np.abs(omegas + pull + zeta * np.sin(psi - phases)).max()
    assert rate * 0.01 <= largest_advance(0.01, omegas, knm, zeta) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"omegas": [[1.0]]}, r"omegas must have shape \(n,\)"),
        ({"omegas": []}, "number of omegas must be an integer >= 1, got 0"),
        ({"knm": np.zeros((2, 3))}, r"knm must have shape \(2, 2\), got \(2, 3\)"),
        ({"zeta": [1.0, 2.0, 3.0]}, r"zeta must have shape \(2,\), got \(3,\)"),
        ({"omegas": [1.0, float("nan")]}, "omegas must contain only finite values"),
        ({"omegas": [True, False]}, "omegas must hold real numbers, got a bool"),
        ({"substeps": 0}, "substeps must be an integer >= 1, got 0"),
    ],
)
def test_largest_advance_names_the_bad_argument(changes, message):
    arguments = {"dt": 0.1, "omegas": [1.0, 2.0], "knm": np.zeros((2, 2)), "zeta": 0.0, **changes}
    with pytest.raises(ValueError, match=message):
        largest_advance(**arguments)


def test_config_adds_parts_until_none_exceeds_max_dt():
    assert IntegrationConfig(0.01).effective_substeps == 1
    assert IntegrationConfig(0.1).effective_substeps == 10
    assert IntegrationConfig(0.1, substeps=16).effective_substeps == 16
    assert IntegrationConfig(0.025, max_dt=0.01).effective_substeps == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": -0.1}, "dt must be a positive finite number, got -0.1"),
        ({"dt": 0.1, "substeps": 1.5}, "substeps must be an integer >= 1, got 1.5"),
        ({"dt": 0.1, "substeps": True}, "substeps must be an integer >= 1, got True"),
        ({"dt": 0.1, "method": "heun"}, "Unknown method 'heun'; expected one of euler, rk4, rk45"),
        ({"dt": 0.1, "max_dt": 0.0}, "max_dt must be a positive finite number, got 0.0"),
        ({"dt": 0.1, "atol": float("nan")}, "atol must be a positive finite number, got nan"),
        ({"dt": 0.1, "rtol": None}, "rtol must be a positive finite number, got None"),
    ],
)
def test_config_names_the_bad_field(arguments, message):
    with pytest.raises(ValueError, match=message):
        IntegrationConfig(**arguments)
