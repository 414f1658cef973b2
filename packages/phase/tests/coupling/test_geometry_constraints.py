"""Projections onto coupling matrices with a property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scpn_phase_orchestrator.coupling.geometry_constraints import (
    NonNegativeConstraint,
    SymmetryConstraint,
    constraints_from_type,
    project_knm,
    validate_knm,
)

BOTH = (SymmetryConstraint(), NonNegativeConstraint())
matrices = st.integers(1, 6).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.floats(-10, 10)))


def test_projection_symmetrises_then_cuts_then_clears_the_diagonal():
    knm = np.array([[5.0, 3.0, -4.0], [1.0, 5.0, 2.0], [2.0, 2.0, 5.0]])
    assert project_knm(knm, BOTH).tolist() == [[0.0, 2.0, 0.0], [2.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    assert project_knm(knm, BOTH[::-1])[0, 2] == 1.0


@given(matrices)
def test_projection_is_idempotent_and_meets_its_constraints(knm):
    before = knm.copy()
    projected = project_knm(knm, BOTH)
    assert (knm == before).all()
    assert all(constraint.is_met(projected, atol=0.0) for constraint in BOTH)
    assert (project_knm(projected, BOTH) == projected).all()
    assert validate_knm(projected, BOTH) is projected


@given(matrices, matrices)
def test_projection_is_the_nearest_matrix_with_the_property(knm, other):
    if knm.shape != other.shape:
        return
    for constraint in BOTH:
        candidate = constraint.project(other)
        assert np.linalg.norm(constraint.project(knm) - knm) <= np.linalg.norm(candidate - knm) + 1e-9


def test_projection_without_constraints_clears_the_diagonal_of_a_copy():
    knm = np.ones((2, 2))
    assert project_knm(knm, ()).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert knm[0, 0] == 1.0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("symmetric", ["symmetric"]),
        ("Non_Negative", ["non_negative"]),
        ("nonneg", ["non_negative"]),
        ("SYMMETRIC_NON_NEGATIVE", ["symmetric", "non_negative"]),
        ("nonneg_symmetric", ["symmetric", "non_negative"]),
    ],
)
def test_constraint_type_of_a_spec_is_read_in_any_case(text, names):
    assert [constraint.name for constraint in constraints_from_type(text)] == names


def test_unknown_constraint_type_is_refused():
    with pytest.raises(ValueError, match="'hyperbolic'"):
        constraints_from_type("hyperbolic")


@pytest.mark.parametrize(
    ("matrix", "named"),
    [
        ([[0.0, 1.0]], r"knm must have shape \(n, n\)"),
        ([[0.0, np.nan], [0.0, 0.0]], "finite"),
        ([[0.0, 1.0], [1.0, 0.5]], "zero diagonal"),
        ([[0.0, 1.0], [2.0, 0.0]], "must be symmetric"),
        ([[0.0, -1.0], [-1.0, 0.0]], "must be non-negative"),
    ],
)
def test_validation_names_what_does_not_hold(matrix, named):
    with pytest.raises(ValueError, match=named):
        validate_knm(matrix, BOTH)


def test_projection_leaves_an_array_of_another_class_as_it_is():
    class Labelled(np.ndarray):
        pass

    knm = np.ones((2, 2)).view(Labelled)
    assert project_knm(knm, ()).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert knm.tolist() == [[1.0, 1.0], [1.0, 1.0]]
