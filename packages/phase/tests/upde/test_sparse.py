"""The sparse engine against the dense one, and its checks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine
from scpn_phase_orchestrator.upde.sparse import PreparedSparseCoupling, SparseUPDEEngine


def network(n, seed, density=0.3):
    rng = np.random.default_rng(seed)
    knm = rng.normal(size=(n, n)) * (rng.random((n, n)) < density)
    np.fill_diagonal(knm, 0.0)
    return rng.uniform(0.0, 6.0, n), rng.normal(size=n), knm, rng.uniform(-3.0, 3.0, (n, n))


def compressed(knm, alpha):
    rows, columns = np.nonzero(knm)
    return np.searchsorted(rows, np.arange(len(knm) + 1)), columns, knm[rows, columns], alpha[rows, columns]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 30),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["euler", "rk4", "rk45"]),
    st.booleans(),
    st.floats(0, 1),
)
def test_sparse_has_the_bits_of_dense(n, seed, method, lags, density):
    phases, omegas, knm, alpha = network(n, seed, density)
    alpha = alpha * lags
    pointers, columns, strengths, edge_lags = compressed(knm, alpha)
    dense = UPDEEngine(n, 0.02, method).run(phases, omegas, knm, 0.2, 0.5, alpha, n_steps=4)
    sparse = SparseUPDEEngine(n, 0.02, method).run(
        phases, omegas, pointers, columns, strengths, 0.2, 0.5, edge_lags, n_steps=4
    )
    np.testing.assert_array_equal(sparse, dense)


def test_columns_may_come_in_any_order_and_edges_may_repeat():
    phases, omegas, knm, alpha = network(12, 1)
    pointers, columns, strengths, lags = compressed(knm, alpha)
    expected = SparseUPDEEngine(12, 0.1).step(phases, omegas, pointers, columns, strengths, alpha_values=lags)
    order = np.concatenate([np.arange(first, last)[::-1] for first, last in itertools.pairwise(pointers)])
    shuffled = SparseUPDEEngine(12, 0.1).step(
        phases, omegas, pointers, columns[order], strengths[order], alpha_values=lags[order]
    )
    np.testing.assert_array_equal(shuffled, expected)
    halves = SparseUPDEEngine(12, 0.1).step(
        phases,
        omegas,
        2 * pointers,
        np.repeat(columns, 2),
        np.repeat(strengths / 2, 2),
        alpha_values=np.repeat(lags, 2),
    )
    np.testing.assert_allclose(halves, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
def test_step_advance_and_run_give_the_same_bits(method):
    phases, omegas, knm, alpha = network(10, 2)
    prepared = PreparedSparseCoupling.from_matrices(knm, alpha)
    by_run = SparseUPDEEngine(10, 0.05, method).run(phases, omegas, prepared, zeta=0.3, psi=1.0, n_steps=5)
    stepping, advancing = SparseUPDEEngine(10, 0.05, method), SparseUPDEEngine(10, 0.05, method)
    by_step = by_advance = phases
    for _ in range(5):
        by_step = stepping.step(by_step, omegas, *compressed(knm, alpha)[:3], 0.3, 1.0, compressed(knm, alpha)[3])
        by_advance = advancing.advance(by_advance, omegas, prepared, 0.3, 1.0)
    np.testing.assert_array_equal(by_step, by_run)
    np.testing.assert_array_equal(by_advance, by_run)


def test_narrow_storage_has_the_bits_of_narrow_dense_storage():
    phases, omegas, knm, alpha = network(20, 3)
    for lags in (alpha, None):
        sparse = PreparedSparseCoupling.from_matrices(knm, lags, dtype=np.float32)
        dense = PreparedCoupling.from_matrices(knm, lags, dtype=np.float32)
        assert sparse.coupling.cosine_part.dtype == np.float32
        np.testing.assert_array_equal(
            SparseUPDEEngine(20, 0.1).step(phases, omegas, sparse), UPDEEngine(20, 0.1).step(phases, omegas, dense)
        )


def test_a_network_without_edges_turns_freely():
    engine = SparseUPDEEngine(2, 0.5)
    np.testing.assert_allclose(engine.step([0.0, 1.0], [1.0, 2.0], [0, 0, 0], [], []), [0.5, 2.0])
    assert PreparedSparseCoupling.from_rows([0, 0, 0], [], []).n_edges == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row_ptr": None}, "row_ptr is required"),
        ({"col_indices": None}, "col_indices is required"),
        ({"knm_values": None}, "knm_values is required"),
        ({"row_ptr": [0, 1]}, r"row_ptr must rise from 0 to 2 edges, got 0 to 1"),
        ({"row_ptr": [0, 2, 1]}, "row_ptr must rise"),
        ({"row_ptr": [0, 3, 2]}, "row_ptr must rise"),
        ({"row_ptr": [1, 1, 2]}, "row_ptr must rise"),
        ({"row_ptr": [0]}, r"row_ptr must have shape \(n \+ 1,\)"),
        ({"row_ptr": [0, 1, 1, 2]}, r"row_ptr must have shape \(3,\), got \(4,\)"),
        ({"row_ptr": [0.0, 1.0, 2.0]}, "row_ptr must be a list of whole numbers"),
        ({"row_ptr": [False, True, True]}, "row_ptr must be a list of whole numbers"),
        ({"col_indices": [1, 2]}, r"col_indices must lie in 0\.\.1, got 1 to 2"),
        ({"col_indices": [-1, 0]}, "col_indices must lie in"),
        ({"col_indices": [0, 0]}, "knm_values must hold no self-coupling, got 0.5 at 0"),
        ({"knm_values": [0.5]}, r"knm_values must have shape \(2,\), got \(1,\)"),
        ({"knm_values": [0.5, np.nan]}, "knm_values must contain only finite values"),
        ({"alpha_values": [0.1]}, r"alpha_values must have shape \(2,\), got \(1,\)"),
        ({"alpha_values": [0.1, 1j]}, "alpha_values must hold real numbers"),
        ({"phases": [0.0]}, r"phases must have shape \(2,\)"),
        ({"row_ptr": PreparedSparseCoupling.from_matrices(np.zeros((2, 2)))}, "comes without col_indices"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    good = {
        "phases": [0.0, 1.0],
        "omegas": [1.0, 1.0],
        "row_ptr": [0, 1, 2],
        "col_indices": [1, 0],
        "knm_values": [0.5, 0.5],
    }
    SparseUPDEEngine(2, 0.01).step(**good)
    with pytest.raises(ValueError, match=message):
        SparseUPDEEngine(2, 0.01).step(**{**good, **changes})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"knm": np.zeros((2, 3))}, r"knm must have shape \(n, n\)"),
        ({"knm": np.zeros((2, 2)), "alpha": np.zeros(2)}, r"alpha must have shape \(2, 2\)"),
        ({"knm": np.eye(2)}, "knm must have a zero diagonal"),
        ({"knm": np.zeros((2, 2)), "dtype": np.int32}, "dtype must be float64 or float32, got int32"),
    ],
)
def test_bad_matrices_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        PreparedSparseCoupling.from_matrices(**arguments)


def test_divergence_names_step_and_norm():
    with pytest.raises(EngineError, match=r"euler at step 0 .* the norm max \|phase\| before wrapping is 1e\+299 rad"):
        SparseUPDEEngine(1, 0.1).step([0.0], [1e300], [0, 0], [], [])
