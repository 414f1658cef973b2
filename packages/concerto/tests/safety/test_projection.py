"""Compiled projections against closed forms, DAQP and Clarabel, on ordinary and on unpleasant problems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concerto.safety._active_set import float_scratch_shape, int_scratch_length, project_onto_rows
from concerto.safety._projection import (
    INFEASIBLE,
    NUMERICAL_FAILURE,
    OPTIMAL,
    kkt_residual,
    largest_violation,
    nominal_is_feasible,
    project_onto_row,
    unit_rows,
)
from concerto.safety.errors import ConcertoSafetyInfeasible, SolveStatus
from concerto.safety.solvers import ClarabelSolver, DAQPSolver

SEEDS = st.integers(0, 2**32 - 1)


def project(nominal, rows, right, lower, upper):
    """Run the active-set kernel; give status, answer and optimality error."""
    n, n_rows = len(nominal), len(right)
    out, multipliers = np.empty(n), np.empty(n_rows + 2 * n)
    status = project_onto_rows(
        nominal, rows, right, lower, upper, out, multipliers, np.empty(n_rows),
        np.empty(float_scratch_shape(n)), np.empty(int_scratch_length(n, n_rows), dtype=np.int64),
    )  # fmt: skip
    return status, out, kkt_residual(nominal, out, multipliers, rows, right, lower, upper)


def project_one(nominal, row, right, lower, upper):
    out = np.empty(len(nominal))
    return project_onto_row(nominal, row, right, lower, upper, out), out


def daqp_answer(problem):
    try:
        return DAQPSolver().project(*problem)[0]
    except ConcertoSafetyInfeasible as failure:
        if failure.status is not SolveStatus.INFEASIBLE:
            raise
        return None


def random_problem(seed, *, feasible=False, n=None, n_rows=None):
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(1, 9))
    n_rows = int(rng.integers(1, 13)) if n_rows is None else n_rows
    rows = rng.normal(size=(n_rows, n))
    right = rows @ rng.uniform(-0.9, 0.9, n) + rng.uniform(0.01, 0.5, n_rows) if feasible else rng.normal(size=n_rows)
    return 2.0 * rng.normal(size=n), rows, right, -np.ones(n), np.ones(n)


def check(problem, *, atol=1e-9):
    """Compare the kernel with DAQP and demand the optimality conditions."""
    expected = daqp_answer(problem)
    status, answer, error = project(*problem)
    assert (status == INFEASIBLE) == (expected is None)
    if expected is not None:
        assert status == OPTIMAL
        assert error < 1e-9
        np.testing.assert_allclose(answer, expected, atol=atol)


# --------------------------------------------------------------------------------------------------- several rows


@settings(max_examples=400)
@given(SEEDS)
def test_random_problems_are_answered_as_daqp_answers_them(seed):
    check(random_problem(seed))


@settings(max_examples=200)
@given(SEEDS)
def test_feasible_problems_are_answered_as_clarabel_answers_them(seed):
    nominal, rows, right, lower, upper = random_problem(seed, feasible=True)
    status, answer, error = project(nominal, rows, right, lower, upper)
    assert status == OPTIMAL
    assert error < 1e-9
    box = np.eye(len(nominal))
    second, _ = ClarabelSolver().solve(
        box, -nominal, np.vstack((rows, box, -box)), np.concatenate((right, upper, -lower))
    )
    assert np.sum((answer - nominal) ** 2) <= np.sum((second - nominal) ** 2) + 1e-6
    np.testing.assert_allclose(answer, second, atol=1e-3)


@settings(max_examples=100)
@given(SEEDS)
def test_a_row_that_occurs_twice_changes_nothing(seed):
    nominal, rows, right, lower, upper = random_problem(seed, feasible=True)
    once = project(nominal, rows, right, lower, upper)
    twice = project(nominal, np.vstack((rows, 2.0 * rows)), np.concatenate((right, 2.0 * right)), lower, upper)
    assert once[0] == twice[0] == OPTIMAL
    np.testing.assert_allclose(once[1], twice[1], atol=1e-9)


@settings(max_examples=100)
@given(SEEDS, st.sampled_from((1e-4, 1e-6, 1e-8)))
def test_nearly_parallel_rows_are_answered_within_their_conditioning(seed, angle):
    nominal, rows, right, lower, upper = random_problem(seed, feasible=True)
    rng = np.random.default_rng(seed)
    tilted = rows + angle * rng.normal(size=rows.shape)
    problem = nominal, np.vstack((rows, tilted)), np.concatenate((right, right)), lower, upper
    status, answer, _ = project(*problem)
    expected = daqp_answer(problem)
    assert (status == INFEASIBLE) == (expected is None)
    if status == OPTIMAL:
        assert largest_violation(answer, problem[1], problem[2], lower, upper) < 1e-9
        # Both answers are optimal to rounding; where rows are nearly parallel the cost says so, the point may not.
        assert np.sum((answer - nominal) ** 2) == pytest.approx(np.sum((expected - nominal) ** 2), abs=1e-6)


@pytest.mark.parametrize("angle", [1e-3, 1e-5, 1e-7])
def test_the_corner_of_two_nearly_parallel_rows_is_found(angle):
    corner = np.array([0.5, -0.5])
    rows = np.array([[1.0, 0.0], [1.0, angle]])
    # The nominal point lies far out in the thin cone of the two normals: both rows are active.
    nominal = corner + 0.4 * rows[0] + (0.3 / angle) * rows[1]
    status, answer, _ = project(nominal, rows, rows @ corner, -np.ones(2), np.ones(2))
    assert status == OPTIMAL
    np.testing.assert_allclose(answer, corner, atol=1e-10 / angle)


@settings(max_examples=100)
@given(SEEDS)
def test_degenerate_corners_are_answered(seed):
    # All rows and the box meet in one corner, which is where the nominal point wants to go.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    rows = np.abs(rng.normal(size=(3 * n, n)))
    problem = np.full(n, 5.0), rows, rows @ np.ones(n), -np.ones(n), np.ones(n)
    status, answer, error = project(*problem)
    assert status == OPTIMAL
    assert error < 1e-9
    np.testing.assert_allclose(answer, np.ones(n), atol=1e-9)


@settings(max_examples=100)
@given(SEEDS, st.floats(-6, 6), st.floats(-6, 6))
def test_scaling_of_rows_does_not_matter(seed, first, second):
    nominal, rows, right, lower, upper = random_problem(seed, feasible=True)
    scales = 10.0 ** np.linspace(first, second, len(right))
    plain = project(nominal, rows, right, lower, upper)
    scaled = project(nominal, rows * scales[:, None], right * scales, lower, upper)
    assert plain[0] == scaled[0] == OPTIMAL
    np.testing.assert_allclose(plain[1], scaled[1], atol=1e-8)
    np.testing.assert_allclose(
        DAQPSolver().project(nominal, rows * scales[:, None], right * scales, lower, upper)[0], plain[1], atol=1e-8
    )


@settings(max_examples=100)
@given(SEEDS)
def test_contradicting_rows_are_infeasible(seed):
    nominal, rows, _, lower, upper = random_problem(seed, n_rows=3)
    rows[1] = -rows[0]
    right = np.array([-0.01, -0.01, 10.0])
    assert project(nominal, rows, right, lower, upper)[0] == INFEASIBLE
    assert daqp_answer((nominal, rows, right, lower, upper)) is None


@settings(max_examples=100)
@given(SEEDS)
def test_rows_that_leave_the_box_nowhere_to_go_are_infeasible(seed):
    nominal, rows, _, lower, upper = random_problem(seed, n_rows=4)
    reach = np.abs(rows).sum(axis=1)
    right = np.full(4, 100.0)
    right[2] = -reach[2] - 1e-6
    assert project(nominal, rows, right, lower, upper)[0] == INFEASIBLE
    right[2] = -reach[2] + 1e-6
    assert project(nominal, rows, right, lower, upper)[0] == OPTIMAL


def test_rows_without_components_are_met_or_not():
    problem = np.array([0.5, 2.0]), np.zeros((2, 2)), np.array([0.0, 1.0]), -np.ones(2), np.ones(2)
    status, answer, _ = project(*problem)
    assert status == OPTIMAL
    assert answer.tolist() == [0.5, 1.0]
    problem[2][0] = -1e-3
    assert project(*problem)[0] == INFEASIBLE


@pytest.mark.parametrize("where", ["rows", "right"])
def test_nan_is_a_numerical_failure(where):
    rows, right = np.eye(2), np.zeros(2)
    (rows if where == "rows" else right).flat[0] = math.nan
    assert project(np.ones(2), rows, right, -np.ones(2), np.ones(2))[0] == NUMERICAL_FAILURE
    assert project_one(np.ones(2), rows[0], right[0], -np.ones(2), np.ones(2))[0] == NUMERICAL_FAILURE


def test_the_optimality_check_can_fail():
    nominal, rows, right = np.array([1.0, 0.0]), np.array([[1.0, 0.0]]), np.array([0.25])
    lower, upper = -np.ones(2), np.ones(2)
    good = np.array([0.75, 0, 0, 0, 0])
    assert kkt_residual(nominal, np.array([0.25, 0.0]), good, rows, right, lower, upper) == 0.0
    for point, multipliers in (
        ([0.35, 0.0], good),  # violates the row
        ([0.25, 0.1], good),  # not stationary
        ([0.15, 0.0], [0.85, 0, 0, 0, 0]),  # multiplier of a row that is not active
        ([0.25, 0.0], [0.75, 0, 0, -0.1, -0.1]),  # negative multipliers
    ):
        error = kkt_residual(nominal, np.array(point), np.array(multipliers), rows, right, lower, upper)
        assert error >= 0.05


# -------------------------------------------------------------------------------------------------------- one row


@settings(max_examples=400)
@given(SEEDS)
def test_one_row_is_answered_exactly(seed):
    nominal, rows, right, lower, upper = random_problem(seed, n_rows=1)
    status, answer = project_one(nominal, rows[0], right[0], lower, upper)
    expected = project(nominal, rows, right, lower, upper)
    assert status == expected[0]
    if status == OPTIMAL:
        np.testing.assert_allclose(answer, expected[1], atol=1e-12)
        assert rows[0] @ answer <= right[0] + 1e-13 * (1.0 + np.abs(rows).sum())
        assert (np.abs(answer) <= 1.0).all()


@settings(max_examples=200)
@given(SEEDS)
def test_components_that_leave_and_enter_the_box_are_followed(seed):
    # A nominal point far outside: components enter the box and leave it on the other side along the way.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    nominal, row = 4.0 * rng.normal(size=n), 10.0 ** rng.uniform(-2, 2, n) * rng.choice([-1.0, 1.0], n)
    right = float(row @ rng.uniform(-1, 1, n))
    status, answer = project_one(nominal, row, right, -np.ones(n), np.ones(n))
    expected = project(nominal, row[None], np.array([right]), -np.ones(n), np.ones(n))
    assert status == expected[0] == OPTIMAL
    np.testing.assert_allclose(answer, expected[1], atol=1e-8)


def test_one_row_in_numbers():
    lower, upper = -np.ones(2), np.ones(2)
    assert project_one(np.array([1.0, 0.0]), np.array([1.0, 0.0]), 0.25, lower, upper)[1].tolist() == [0.25, 0.0]
    assert project_one(np.array([0.5 + 1e-9, 0.0]), np.array([1.0, 0.0]), 0.5, lower, upper)[1].tolist() == [0.5, 0.0]
    assert project_one(np.array([1.0, 1.0]), np.array([1.0, 1.0]), 0.0, lower, upper)[1].tolist() == [0.0, 0.0]
    # The first component stops at its limit, the second one does the rest.
    assert project_one(np.array([-0.9, 1.0]), np.array([1.0, 1.0]), -1.5, lower, upper)[1].tolist() == [-1.0, -0.5]
    status, answer = project_one(np.zeros(2), np.array([1.0, 1.0]), -2.1, lower, upper)
    assert status == INFEASIBLE
    assert answer.tolist() == [-1.0, -1.0]
    assert project_one(np.array([3.0, 0.0]), np.zeros(2), 0.0, lower, upper)[1].tolist() == [1.0, 0.0]
    assert project_one(np.zeros(2), np.zeros(2), -1.0, lower, upper)[0] == INFEASIBLE


# -------------------------------------------------------------------------------------------------------- helpers


def test_feasibility_has_no_tolerance():
    rows, right, lower, upper = np.array([[1.0, 0.0]]), np.array([0.5]), -np.ones(2), np.ones(2)
    assert nominal_is_feasible(np.array([0.5, 1.0]), rows, right, lower, upper)
    assert not nominal_is_feasible(np.array([np.nextafter(0.5, 1), 1.0]), rows, right, lower, upper)
    assert not nominal_is_feasible(np.array([0.5, np.nextafter(1.0, 2)]), rows, right, lower, upper)
    assert not nominal_is_feasible(np.array([math.nan, 0.0]), rows, right, lower, upper)


def test_violation_is_measured_along_unit_rows():
    rows, right = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([0.0, 0.0])
    point = np.array([1.0, 0.5])
    assert largest_violation(point, rows, right, -np.ones(2), np.ones(2)) == pytest.approx(1.0)
    assert largest_violation(np.array([-1.5, 0.0]), rows, right, -np.ones(2), np.ones(2)) == pytest.approx(0.5)
    assert largest_violation(np.zeros(2), rows, np.array([0.0, -1.0]), -np.ones(2), np.ones(2)) == math.inf


def test_unit_rows_keep_what_they_say():
    rows, right = unit_rows(np.array([[3e-9, 4e-9], [0.0, 0.0]]), np.array([1e-8, 1.0]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]])
    np.testing.assert_allclose(right, [2.0, 1.0])
