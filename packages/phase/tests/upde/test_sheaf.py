"""Oscillators with several phases: the documented equation, and networks it contains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.upde.engine import UPDEEngine
from scpn_phase_orchestrator.upde.sheaf import SheafUPDEEngine


def field(phases, omegas, maps, zeta, psi):
    """The documented equation, term by term."""
    n, d = phases.shape
    velocity = omegas.copy()
    for i in range(n):
        for a in range(d):
            velocity[i, a] += zeta * np.sin(psi[a] - phases[i, a])
            for j in range(n):
                for k in range(d):
                    velocity[i, a] += maps[i, j, a, k] * np.sin(phases[j, k] - phases[i, a])
    return velocity


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 1000))
def test_euler_step_is_the_documented_equation(n, d, seed):
    rng = np.random.default_rng(seed)
    phases, omegas = rng.uniform(0, 6, (n, d)), rng.normal(size=(n, d))
    maps, psi = rng.uniform(-1, 1, (n, n, d, d)), rng.uniform(0, 6, d)
    moved = SheafUPDEEngine(n, d, 0.01).step(phases, omegas, maps, 0.4, psi)
    expected = (phases + 0.01 * field(phases, omegas, maps, 0.4, psi)) % (2 * np.pi)
    np.testing.assert_allclose(moved, expected, atol=1e-13)


@pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
def test_diagonal_maps_are_separate_networks(method):
    rng = np.random.default_rng(1)
    phases, omegas = rng.uniform(0, 6, (5, 2)), rng.normal(size=(5, 2))
    knm = rng.uniform(0, 1, (2, 5, 5))
    maps = np.zeros((5, 5, 2, 2))
    for component in range(2):
        np.fill_diagonal(knm[component], 0.0)
        maps[:, :, component, component] = knm[component]
    moved = SheafUPDEEngine(5, 2, 0.05, method, 1e-10, 1e-10).run(phases, omegas, maps, 0.2, 1.0, n_steps=4)
    for component in range(2):
        alone = UPDEEngine(5, 0.05, method, 1e-10, 1e-10).run(
            phases[:, component], omegas[:, component], knm[component], 0.2, 1.0, np.zeros((5, 5)), n_steps=4
        )
        np.testing.assert_allclose(moved[:, component], alone, atol=1e-8)


def test_run_repeats_steps_to_the_last_bit():
    rng = np.random.default_rng(2)
    phases, omegas, maps = rng.uniform(0, 6, (3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 3, 2, 2))
    engine = SheafUPDEEngine(3, 2, 0.05, "rk4")
    together = engine.run(phases, omegas, maps, n_steps=5)
    stepped = phases
    for _ in range(5):
        stepped = engine.step(stepped, omegas, maps)
    assert together.tobytes() == stepped.tobytes()
    assert engine.run(phases, omegas, maps, n_steps=0).tobytes() == phases.tobytes()
    assert engine.dt == engine.last_dt == 0.05


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: SheafUPDEEngine(0, 2, 0.1), "n must be an integer >= 1"),
        (lambda: SheafUPDEEngine(2, 0, 0.1), "d must be an integer >= 1"),
        (lambda: SheafUPDEEngine(2, 2, 0.1, "heun"), "heun"),
        (lambda: SheafUPDEEngine(1, 2, 0.1).step([[0.0]], [[0.0, 0.0]], np.zeros((1, 1, 2, 2))), "phases must have"),
        (lambda: SheafUPDEEngine(1, 1, 0.1).step([[0.0]], [[0.0]], np.zeros((1, 1))), "restriction_maps must have"),
        (lambda: SheafUPDEEngine(1, 1, 0.1).step([[0.0]], [[0.0]], [[[[np.nan]]]]), "restriction_maps must contain"),
        (lambda: SheafUPDEEngine(1, 1, 0.1).step([[0.0]], [[0.0]], [[[[0.0]]]], True), "zeta"),
        (
            lambda: SheafUPDEEngine(1, 1, 0.1).step([[0.0]], [[0.0]], [[[[0.0]]]], 0.1, [0.0, 1.0]),
            "psi must have shape",
        ),
    ],
)
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
