"""Backends of the quadratic program: they agree, they are silent, and they say why they fail."""

from __future__ import annotations

import numpy as np
import pytest

from concerto.safety.errors import ConcertoSafetyInfeasible, SolveStatus
from concerto.safety.solvers import SUPPORTED_SOLVERS, DAQPSolver, OSQPSolver, QPSolver, make_solver

NAMES = ("clarabel", "osqp", "daqp")
BOX = np.vstack((np.eye(2), -np.eye(2)))


def random_program(rng, n=4, m=9):
    root = rng.normal(size=(n, n))
    rows = rng.normal(size=(m, n))
    interior = rng.normal(size=n)
    return root @ root.T + np.eye(n), 3.0 * rng.normal(size=n), rows, rows @ interior + rng.uniform(0.1, 1.0, m)


def test_names():
    assert SUPPORTED_SOLVERS == ("clarabel", "osqp")
    for name in NAMES:
        solver = make_solver(name)
        assert solver.name == name
        assert isinstance(solver, QPSolver)
    with pytest.raises(ValueError, match="'magic'"):
        make_solver("magic")


@pytest.mark.parametrize("name", NAMES)
def test_the_small_box_program_has_its_optimum(name):
    x, elapsed_ms = make_solver(name).solve(np.eye(2), np.array([0.1, -0.2]), BOX, np.ones(4))
    np.testing.assert_allclose(x, [-0.1, 0.2], atol=1e-8)
    assert elapsed_ms > 0


def test_all_backends_agree_on_random_programs():
    rng = np.random.default_rng(7)
    solvers = [make_solver(name) for name in NAMES]
    for _ in range(200):
        program = random_program(rng)
        clarabel, osqp, daqp = (solver.solve(*program)[0] for solver in solvers)
        np.testing.assert_allclose(osqp, daqp, atol=1e-6)
        # An interior point stops short of weakly active rows: compare its cost, not its point.
        costs = [0.5 * x @ program[0] @ x + program[1] @ x for x in (clarabel, daqp)]
        assert costs[0] == pytest.approx(costs[1], abs=1e-6)
        assert (program[2] @ clarabel <= program[3] + 1e-7).all()


@pytest.mark.parametrize("name", NAMES)
def test_programs_without_rows_or_with_rows_switched_off_are_solved(name):
    solver = make_solver(name)
    x, _ = solver.solve(np.eye(2), np.array([1.0, 2.0]), np.zeros((0, 2)), np.zeros(0))
    np.testing.assert_allclose(x, [-1.0, -2.0], atol=1e-7)
    x, _ = solver.solve(np.eye(2), np.array([1.0, 2.0]), np.eye(2), np.array([np.inf, -3.0]))
    np.testing.assert_allclose(x, [-1.0, -3.0], atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "rows", [[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]], ids=["opposite rows", "a row without components"]
)
def test_a_program_without_answer_says_so(name, rows):
    with pytest.raises(ConcertoSafetyInfeasible, match=rf"{name}.*\(2, 2\).*\(2, 2\)") as caught:
        make_solver(name).solve(np.eye(2), np.zeros(2), np.array(rows), np.array([-1.0, -1.0]))
    assert caught.value.status is SolveStatus.INFEASIBLE
    assert isinstance(caught.value, RuntimeError)


def test_a_backend_that_runs_out_of_iterations_does_not_claim_infeasibility():
    rows = np.array([[1e7, 5e6], [-1e-7, -2e-7]])
    program = np.diag([1e-7, 1e-3]), np.array([-1e3, 1e6]), rows, np.array([1e7, 1e-7])
    x, _ = make_solver("daqp").solve(*program)
    assert (rows @ x <= program[3] * (1 + 1e-6)).all()
    with pytest.raises(ConcertoSafetyInfeasible) as caught:
        make_solver("osqp").solve(*program)
    assert caught.value.status is SolveStatus.ITERATION_LIMIT


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("field", "position"), [("P", 0), ("q", 1), ("A", 2), ("b", 3)])
def test_nan_never_disables_a_row(name, field, position):
    program = [np.eye(2), np.zeros(2), np.eye(2), np.ones(2)]
    program[position] = program[position].copy()
    program[position].flat[0] = np.nan
    with pytest.raises(ValueError, match=field):
        make_solver(name).solve(*program)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_that_do_not_fit_are_refused(name):
    solver = make_solver(name)
    with pytest.raises(ValueError, match=r"P must have shape"):
        solver.solve(np.eye(3), np.zeros(2), np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match=r"A must have shape"):
        solver.solve(np.eye(2), np.zeros(2), np.eye(2), np.ones(3))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_printed(name, capfd):
    solver = make_solver(name)
    for b in (np.ones(4), np.full(4, 0.05)):
        solver.solve(np.eye(2), np.array([0.1, -0.2]), BOX, b)
    with pytest.raises(ConcertoSafetyInfeasible):
        solver.solve(np.eye(2), np.zeros(2), BOX, -np.ones(4))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_reset_makes_osqp_forget_its_warm_start():
    # Two rows that all but agree: polishing cannot settle the last digits, so the starting point shows in them.
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.3, 1.0]])
    programs = [
        (np.diag([1.0, 2.0]), np.array([-1.0, q]), rows, np.array([0.5, 0.5 + 1e-9, 9.0]))
        for q in np.linspace(-0.4, 0.2, 13)
    ]
    solver = OSQPSolver()
    answers = []
    for program in programs:
        cold, warm = (solver.solve(*program)[0].tobytes() for _ in range(2))
        solver.reset()
        answers.append((cold, warm, solver.solve(*program)[0].tobytes()))
        solver.reset()
    assert any(cold != warm for cold, warm, _ in answers)
    assert all(cold == after_reset for cold, _, after_reset in answers)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_badly_scaled_rows_are_answered(scale):
    rows = np.array([[scale, 0.0], [1.0 / scale, 1.0 / scale]])
    right = np.array([0.5 * scale, 0.8 / scale])
    solver = DAQPSolver()
    for x, _ in (
        solver.project(np.ones(2), rows, right, -np.ones(2), np.ones(2)),
        solver.solve(np.eye(2), -np.ones(2), rows, right),
    ):
        np.testing.assert_allclose(x, [0.4, 0.4], atol=1e-8)


def test_a_heavy_slack_weight_is_answered():
    # min x^2 + 1e10 s^2 with x - s <= -1: the shape of a softened row that broke fast solvers before.
    x, _ = DAQPSolver().solve(
        np.diag([1.0, 1e10]), np.zeros(2), np.array([[1.0, -1.0], [0.0, -1.0]]), np.array([-1.0, 0])
    )
    np.testing.assert_allclose(x, [-1.0 / (1.0 + 1e-10), 1e-10 / (1.0 + 1e-10)], rtol=1e-9, atol=1e-15)
