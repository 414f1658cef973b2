"""The arm filter: documented answers, optimality of every answer, and slack that means what it says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.safety.geometry import Sphere, pair_distance
from concerto.safety.oscbf import (
    DEFAULT_CBF_ALPHA,
    DEFAULT_SLACK_PENALTY,
    DEFAULT_W_JOINT,
    DEFAULT_W_OPERATIONAL,
    OSCBF,
    OSCBFConstraints,
    collision_constraint_row,
    joint_limit_constraint_row,
)
from concerto.safety.solvers import ClarabelSolver, OSQPSolver
from ripieno.randomness import derive_substream

seeds = st.integers(0, 2**32 - 1)
penalties = st.floats(-6.0, 8.0).map(lambda exponent: 10.0**exponent)
NO_TASK = {"nu_nom": np.zeros(6), "jacobian": np.zeros((6, 1))}


def rows(*pairs: tuple[list[float], float]) -> OSCBFConstraints:
    return OSCBFConstraints(a=np.array([row for row, _ in pairs]), b=np.array([rhs for _, rhs in pairs]))


class Problem:
    """A random arm in a random bind."""

    def __init__(self, seed: int, *, n: int = 7, m: int = 14, k: int = 6) -> None:
        rng = derive_substream("test.safety.oscbf", root_seed=seed).default_rng()
        self.inputs = {
            "q_dot_nom": rng.normal(size=n),
            "nu_nom": rng.normal(size=k),
            "jacobian": rng.normal(size=(k, n)),
            "constraints": OSCBFConstraints(a=rng.normal(size=(m, n)), b=rng.normal(size=m) * rng.uniform(0.0, 2.0)),
        }

    def make_degenerate(self) -> None:
        """Let rows repeat each other, contradict each other, and ask for nothing."""
        a = self.inputs["constraints"].a
        a[1], a[2], a[3] = a[0], -a[0], 0.0

    def relaxation(self, q_dot):
        """Slack that the rows need at these joint velocities."""
        return np.maximum(self.inputs["constraints"].a @ q_dot - self.inputs["constraints"].b, 0.0)

    def tracking_cost(self, q_dot, *, weight_joint: float, weight_operational: float) -> float:
        joint_error = q_dot - self.inputs["q_dot_nom"]
        task_error = self.inputs["jacobian"] @ q_dot - self.inputs["nu_nom"]
        return weight_joint**2 * joint_error @ joint_error + weight_operational**2 * task_error @ task_error

    def tracking_gradient(self, q_dot, *, weight_joint: float, weight_operational: float):
        task_error = self.inputs["jacobian"] @ q_dot - self.inputs["nu_nom"]
        return 2.0 * (
            weight_joint**2 * (q_dot - self.inputs["q_dot_nom"])
            + weight_operational**2 * self.inputs["jacobian"].T @ task_error
        )


# --- documented answers -------------------------------------------------------------------------------------


def test_documented_defaults() -> None:
    assert (DEFAULT_CBF_ALPHA, DEFAULT_SLACK_PENALTY, DEFAULT_W_JOINT, DEFAULT_W_OPERATIONAL) == (5.0, 100.0, 1.0, 1.0)


def test_one_joint_above_its_limit_keeps_a_hundred_and_first_of_slack() -> None:
    result = OSCBF(n_joints=1).solve(q_dot_nom=np.array([2.0]), constraints=rows(([1.0], 1.0)), **NO_TASK)
    np.testing.assert_allclose(result.q_dot, [1.00990099], atol=1e-8)
    np.testing.assert_allclose(result.slack, [1 / 101], atol=1e-12)
    assert result.active_rows == (0,)
    assert result.solver_status == "optimal"


def test_two_rows_that_contradict_each_other_share_the_slack() -> None:
    constraints = rows(([1.0], -1.0), ([-1.0], -1.0))
    result = OSCBF(n_joints=1).solve(q_dot_nom=np.zeros(1), constraints=constraints, **NO_TASK)
    np.testing.assert_allclose(result.q_dot, [0.0], atol=1e-12)
    np.testing.assert_allclose(result.slack, [1.0, 1.0], atol=1e-12)
    assert result.max_slack == pytest.approx(1.0)
    assert result.slack_l2 == pytest.approx(1.41421356)
    assert result.active_rows == (0, 1)


def test_joint_and_task_term_compromise() -> None:
    jacobian = np.zeros((6, 2))
    jacobian[0] = 1.0
    result = OSCBF(n_joints=2).solve(
        q_dot_nom=np.zeros(2),
        nu_nom=np.array([1.0, 0, 0, 0, 0, 0]),
        jacobian=jacobian,
        constraints=rows(([1.0, 0.0], 10.0)),
    )
    np.testing.assert_allclose(result.q_dot, [1 / 3, 1 / 3], atol=1e-12)
    assert result.active_rows == ()


def test_collision_row_of_two_spheres() -> None:
    jacobian = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    row, rhs = collision_constraint_row(
        n_joints=2,
        sphere_a_center=np.array([0.0, 0.0, 0.5]),
        sphere_b_center=np.zeros(3),
        sphere_a_radius=0.1,
        sphere_b_radius=0.1,
        sphere_a_jacobian=jacobian,
    )
    np.testing.assert_allclose(row, [-1.0, -2.0])
    assert rhs == pytest.approx(1.5)


def test_collision_row_of_coincident_centres_asks_for_nothing_and_shows_as_slack() -> None:
    spheres = {
        "n_joints": 2,
        "sphere_a_center": np.ones(3),
        "sphere_b_center": np.ones(3),
        "sphere_a_radius": 0.1,
        "sphere_b_radius": 0.2,
        "sphere_a_jacobian": np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]),
    }
    row, rhs = collision_constraint_row(**spheres)
    np.testing.assert_array_equal(row, [0.0, 0.0])
    assert rhs == -1.0
    assert collision_constraint_row(**spheres, lambda_ij=0.25)[1] == -0.75

    nearly = {**spheres, "sphere_b_center": np.array([1.0, 1.0, 1.0 + 9e-10])}
    assert collision_constraint_row(**nearly)[1] == -1.0
    apart = {**spheres, "sphere_b_center": np.array([1.0, 1.0, 1.0 + 2e-9])}
    assert collision_constraint_row(**apart)[1] == pytest.approx(-1.5)

    row, rhs = collision_constraint_row(**spheres, coincident="separate", lambda_ij=0.25)
    np.testing.assert_array_equal(row, [-1.0, -2.0])
    assert rhs == pytest.approx(5.0 * -0.3 + 0.25)


def test_joint_limit_rows() -> None:
    row, rhs = joint_limit_constraint_row(n_joints=3, joint_index=1, upper=2.0)
    np.testing.assert_array_equal(row, [0.0, 1.0, 0.0])
    assert rhs == 2.0
    row, rhs = joint_limit_constraint_row(n_joints=3, joint_index=2, lower=-0.5)
    np.testing.assert_array_equal(row, [0.0, 0.0, -1.0])
    assert rhs == 0.5


def test_an_arm_without_rows_has_no_slack() -> None:
    result = OSCBF(n_joints=1).solve(q_dot_nom=np.array([2.0]), constraints=rows_of_none(1), **NO_TASK)
    np.testing.assert_allclose(result.q_dot, [2.0])
    assert (result.slack.shape, result.active_rows, result.max_slack, result.slack_l2) == ((0,), (), 0.0, 0.0)


def rows_of_none(n: int) -> OSCBFConstraints:
    return OSCBFConstraints(a=np.zeros((0, n)), b=np.zeros(0))


# --- optimality ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_degenerate", [False, True])
@given(seeds, penalties, st.floats(0.01, 10.0), st.floats(0.0, 10.0), st.integers(4, 20))
def test_every_answer_satisfies_the_optimality_conditions(
    is_degenerate, seed, penalty, weight_joint, weight_operational, m
) -> None:
    problem = Problem(seed, m=m)
    if is_degenerate:
        problem.make_degenerate()
    weights = {"weight_joint": weight_joint, "weight_operational": weight_operational}
    result = OSCBF(n_joints=7, slack_penalty=penalty, **weights).solve(**problem.inputs)
    constraints = problem.inputs["constraints"]

    scale = 1.0 + np.abs(constraints.a @ result.q_dot).max()
    np.testing.assert_allclose(result.slack, problem.relaxation(result.q_dot), atol=1e-8 * scale)
    multipliers = 2.0 * penalty * result.slack
    pull = constraints.a.T @ multipliers
    gradient = problem.tracking_gradient(result.q_dot, **weights)
    nominal_gradient = problem.tracking_gradient(np.zeros(7), **weights)
    size = 1.0 + np.abs(nominal_gradient).max() + (np.abs(constraints.a.T) @ multipliers).max()
    np.testing.assert_allclose(gradient + pull, 0.0, atol=1e-7 * size)


@pytest.mark.parametrize("is_degenerate", [False, True])
@pytest.mark.parametrize("slack", ["quadratic", "exact"])
@given(seed=seeds, penalty=penalties, m=st.integers(4, 14))
def test_no_other_solver_finds_a_better_answer(is_degenerate, slack, seed, penalty, m) -> None:
    problem = Problem(seed, m=m)
    if is_degenerate:
        problem.make_degenerate()
    weights = {"weight_joint": 1.0, "weight_operational": 1.0}

    def cost(q_dot) -> float:
        relaxation = problem.relaxation(q_dot)
        price = relaxation @ relaxation + (relaxation.sum() if slack == "exact" else 0.0)
        return problem.tracking_cost(q_dot, **weights) + penalty * price

    ours = cost(OSCBF(n_joints=7, slack_penalty=penalty, slack=slack).solve(**problem.inputs).q_dot)
    try:
        second = OSCBF(n_joints=7, slack_penalty=penalty, slack=slack, solver=ClarabelSolver())
        theirs = cost(second.solve(**problem.inputs).q_dot)
    except ConcertoSafetyInfeasible:
        theirs = math.inf  # it may give up on the scaling; ours may not
    assert ours <= theirs + 1e-6 * (1.0 + abs(theirs))


@pytest.mark.parametrize("solver", [ClarabelSolver(), OSQPSolver()], ids=["clarabel", "osqp"])
@pytest.mark.parametrize("slack", ["quadratic", "exact"])
@pytest.mark.parametrize("seed", range(5))
def test_solvers_agree_on_the_joint_velocities(solver, slack, seed) -> None:
    problem = Problem(seed)
    ours = OSCBF(n_joints=7, slack=slack).solve(**problem.inputs)
    theirs = OSCBF(n_joints=7, slack=slack, solver=solver).solve(**problem.inputs)
    np.testing.assert_allclose(ours.q_dot, theirs.q_dot, atol=1e-5)
    # Rows with neither slack nor multiplier are where an interior-point method is least exact.
    np.testing.assert_allclose(ours.slack, theirs.slack, atol=1e-4)


@given(seed=seeds)
def test_the_order_of_the_rows_does_not_matter(seed) -> None:
    problem = Problem(seed)
    constraints = problem.inputs["constraints"]
    order = derive_substream("test.safety.oscbf.order", root_seed=seed).default_rng().permutation(14)
    straight = OSCBF(n_joints=7).solve(**problem.inputs)
    shuffled = OSCBF(n_joints=7).solve(
        **{**problem.inputs, "constraints": OSCBFConstraints(a=constraints.a[order], b=constraints.b[order])}
    )
    np.testing.assert_allclose(shuffled.q_dot, straight.q_dot, atol=1e-8)
    np.testing.assert_allclose(shuffled.slack, straight.slack[order], atol=1e-8)


def test_one_filter_answers_alike_whatever_it_solved_before() -> None:
    fresh, used = OSCBF(n_joints=7), OSCBF(n_joints=7)
    for seed in range(20):
        problem = Problem(seed, m=seed % 4)
        expected = OSCBF(n_joints=7).solve(**problem.inputs)
        result = used.solve(**problem.inputs)
        assert result.q_dot.tobytes() == expected.q_dot.tobytes()
        assert result.slack.tobytes() == expected.slack.tobytes()
    problem = Problem(0)
    first = fresh.solve(**problem.inputs)
    kept = first.q_dot.copy()
    fresh.solve(**Problem(1).inputs)
    np.testing.assert_array_equal(first.q_dot, kept)


def test_when_daqp_gives_up_the_arm_still_gets_its_answer(monkeypatch) -> None:
    """DAQP was seen to cycle (exit flag -2) on degenerate rows at a huge price; here it does so on purpose."""
    monkeypatch.setattr("daqp.solve", lambda *_, **__: (np.full(2, np.nan), np.nan, -2, {}))
    result = OSCBF(n_joints=1).solve(q_dot_nom=np.array([2.0]), constraints=rows(([1.0], 1.0)), **NO_TASK)
    np.testing.assert_allclose(result.q_dot, [1.00990099], atol=1e-6)
    np.testing.assert_allclose(result.slack, [1 / 101], atol=1e-6)


def test_a_singular_hessian_is_solved_too() -> None:
    jacobian = np.zeros((6, 2))
    jacobian[0] = 1.0
    result = OSCBF(n_joints=2, weight_joint=0.0).solve(
        q_dot_nom=np.zeros(2),
        nu_nom=np.array([1.0, 0, 0, 0, 0, 0]),
        jacobian=jacobian,
        constraints=rows(([1.0, 0.0], 0.1)),
    )
    assert result.q_dot.sum() == pytest.approx(1.0, abs=1e-5)
    assert result.q_dot[0] <= 0.1 + 1e-6


# --- collision barrier --------------------------------------------------------------------------------------


@given(seed=seeds)
def test_collision_row_is_the_finite_difference_of_the_gap(seed) -> None:
    rng = derive_substream("test.safety.oscbf.row", root_seed=seed).default_rng()
    center_a, center_b = rng.normal(size=3), rng.normal(size=3) + 3.0
    jacobian_a, jacobian_b, q_dot = rng.normal(size=(3, 7)), rng.normal(size=(3, 7)), rng.normal(size=7)
    row, rhs = collision_constraint_row(
        n_joints=7,
        sphere_a_center=center_a,
        sphere_b_center=center_b,
        sphere_a_radius=0.2,
        sphere_b_radius=0.3,
        sphere_a_jacobian=jacobian_a,
        sphere_b_jacobian=jacobian_b,
        cbf_alpha=2.0,
        lambda_ij=0.5,
    )

    def gap(t: float) -> float:
        moved_a = Sphere(center_a + t * jacobian_a @ q_dot, 0.2)
        moved_b = Sphere(center_b + t * jacobian_b @ q_dot, 0.3)
        return pair_distance(moved_a, moved_b)

    step = 1e-6
    gap_rate = (gap(step) - gap(-step)) / (2.0 * step)
    assert -row @ q_dot == pytest.approx(gap_rate, abs=1e-6)
    assert rhs == pytest.approx(2.0 * gap(0.0) + 0.5)


def test_an_arm_driven_at_an_obstacle_stops_in_front_of_it() -> None:
    arm, link = OSCBF(n_joints=1, slack="exact"), 1.0  # one prismatic joint along x; the obstacle sits at x = 1
    position = 0.0
    for _ in range(2000):
        row, rhs = collision_constraint_row(
            n_joints=1,
            sphere_a_center=np.array([position, 0.0, 0.0]),
            sphere_b_center=np.array([1.0, 0.0, 0.0]),
            sphere_a_radius=0.1,
            sphere_b_radius=0.1,
            sphere_a_jacobian=np.array([[link], [0.0], [0.0]]),
        )
        result = arm.solve(q_dot_nom=np.array([1.0]), constraints=rows((row.tolist(), rhs)), **NO_TASK)
        position += 0.01 * float(result.q_dot[0])
        assert position <= 0.8 + 1e-9
    assert position == pytest.approx(0.8, abs=1e-6)


# --- options ------------------------------------------------------------------------------------------------


def test_exact_slack_is_zero_for_a_row_that_can_hold() -> None:
    result = OSCBF(n_joints=1, slack="exact").solve(
        q_dot_nom=np.array([2.0]), constraints=rows(([1.0], 1.0)), **NO_TASK
    )
    np.testing.assert_allclose(result.q_dot, [1.0], atol=1e-9)
    assert result.active_rows == ()
    assert result.max_slack <= 1e-9


def test_exact_slack_relaxes_only_what_must_give() -> None:
    constraints = rows(([1.0], -1.0), ([-1.0], -1.0), ([1.0], 5.0))
    result = OSCBF(n_joints=1, slack="exact").solve(q_dot_nom=np.zeros(1), constraints=constraints, **NO_TASK)
    np.testing.assert_allclose(result.slack, [1.0, 1.0, 0.0], atol=1e-9)
    assert result.active_rows == (0, 1)


def test_a_multiplier_threshold_tells_contact_from_contradiction() -> None:
    arm = OSCBF(n_joints=1, active_multiplier=50.0)
    held = arm.solve(q_dot_nom=np.array([2.0]), constraints=rows(([1.0], 1.0)), **NO_TASK)
    assert held.active_rows == ()
    assert held.max_slack == pytest.approx(1 / 101)  # the multiplier is 200/101 = 1.98
    for threshold, active in ((1.97, (0,)), (1.99, ())):
        arm_at_threshold = OSCBF(n_joints=1, active_multiplier=threshold)
        result = arm_at_threshold.solve(q_dot_nom=np.array([2.0]), constraints=rows(([1.0], 1.0)), **NO_TASK)
        assert result.active_rows == active
    torn = arm.solve(q_dot_nom=np.zeros(1), constraints=rows(([1.0], -1.0), ([-1.0], -1.0)), **NO_TASK)
    assert torn.active_rows == (0, 1)


@given(seed=seeds)
def test_projected_joint_term_never_pulls_against_the_task(seed) -> None:
    problem = Problem(seed, m=0)
    projected = OSCBF(n_joints=7, weight_joint=5.0, null_space_objective=True).solve(**problem.inputs)
    plain = OSCBF(n_joints=7, weight_joint=5.0).solve(**problem.inputs)
    jacobian, twist = problem.inputs["jacobian"], problem.inputs["nu_nom"]
    if np.linalg.cond(jacobian) > 100.0:
        return
    np.testing.assert_allclose(jacobian @ projected.q_dot, twist, atol=1e-6)
    assert np.abs(jacobian @ plain.q_dot - twist).max() > 1e-6


@given(seed=seeds)
def test_projection_changes_nothing_when_the_targets_agree(seed) -> None:
    problem = Problem(seed, m=0)
    inputs = {**problem.inputs, "nu_nom": problem.inputs["jacobian"] @ problem.inputs["q_dot_nom"]}
    if np.linalg.cond(inputs["jacobian"]) > 100.0:
        return
    result = OSCBF(n_joints=7, null_space_objective=True).solve(**inputs)
    np.testing.assert_allclose(result.q_dot, inputs["q_dot_nom"], atol=1e-6)


@given(seed=seeds)
def test_dynamically_consistent_projection_gives_the_published_pseudo_inverse(seed) -> None:
    rng = derive_substream("test.safety.oscbf.mass", root_seed=seed).default_rng()
    problem = Problem(seed, m=0, k=3)
    factor = rng.normal(size=(7, 7))
    mass_matrix = factor @ factor.T + np.eye(7)
    jacobian, twist = problem.inputs["jacobian"], problem.inputs["nu_nom"]
    inverse = np.linalg.inv(mass_matrix)
    pseudo_inverse = inverse @ jacobian.T @ np.linalg.inv(jacobian @ inverse @ jacobian.T)
    projection = np.eye(7) - pseudo_inverse @ jacobian
    lever = np.linalg.svd(jacobian @ np.linalg.inv(np.linalg.cholesky(mass_matrix)).T, compute_uv=False)
    if lever[-1] < 0.01 * lever[0]:
        return
    result = OSCBF(n_joints=7, null_space_objective=True).solve(**problem.inputs, mass_matrix=mass_matrix)
    np.testing.assert_allclose(jacobian @ result.q_dot, twist, atol=1e-6)
    np.testing.assert_allclose(projection @ (result.q_dot - problem.inputs["q_dot_nom"]), 0.0, atol=1e-5)


class NegativeSlackSolver:
    """A sloppy solver: right joint velocity, slack a little below zero."""

    def solve(self, P, q, A, b, *, warm_start=True):
        return np.array([1.0, -1e-3]), 0.0


def test_negative_slack_of_a_solver_is_clipped_with_a_warning() -> None:
    arm = OSCBF(n_joints=1, solver=NegativeSlackSolver())
    with pytest.warns(UserWarning, match=r"-0\.001"):
        result = arm.solve(q_dot_nom=np.array([1.0]), constraints=rows(([1.0], 1.0)), **NO_TASK)
    np.testing.assert_array_equal(result.slack, [0.0])


class RecordingSolver(ClarabelSolver):
    """Clarabel that keeps what it was asked."""

    def solve(self, P, q, A, b, *, warm_start=True):
        self.asked = P.copy(), q.copy(), A.copy(), b.copy()
        return super().solve(P, q, A, b, warm_start=warm_start)


def test_another_solver_gets_the_documented_program() -> None:
    solver = RecordingSolver()
    arm = OSCBF(n_joints=1, weight_joint=2.0, weight_operational=3.0, slack_penalty=7.0, solver=solver)
    jacobian = np.array([[2.0]])
    arm.solve(q_dot_nom=np.array([5.0]), nu_nom=np.array([1.0]), jacobian=jacobian, constraints=rows(([4.0], 6.0)))
    P, q, A, b = solver.asked
    np.testing.assert_array_equal(P, [[2 * (4 + 9 * 4), 0], [0, 14]])
    np.testing.assert_array_equal(q, [-2 * (4 * 5 + 9 * 2 * 1), 0])
    np.testing.assert_array_equal(A, [[4, -1], [0, -1]])
    np.testing.assert_array_equal(b, [6, 0])


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"n_joints": 0},
        {"weight_joint": -1.0},
        {"weight_joint": math.nan},
        {"weight_operational": math.inf},
        {"weight_joint": 0.0, "weight_operational": 0.0},
        {"slack_penalty": 0.0},
        {"slack_penalty": math.nan},
        {"slack": "linear"},
        {"active_multiplier": 0.0},
        {"active_multiplier": 1.0, "slack": "exact"},
    ],
)
def test_settings_out_of_range_are_named(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        OSCBF(**{"n_joints": 2, **settings})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["q_dot_nom", "nu_nom", "jacobian", "constraints.a", "constraints.b"])
def test_non_finite_input_names_its_field(field, bad) -> None:
    inputs = Problem(0).inputs
    if field == "constraints.a":
        inputs["constraints"].a[3, 2] = bad
    elif field == "constraints.b":
        inputs["constraints"].b[3] = bad
    else:
        inputs[field].flat[3] = bad
    with pytest.raises(ValueError, match=f"{field} must be finite"):
        OSCBF(n_joints=7).solve(**inputs)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("q_dot_nom", np.zeros(6)),
        ("nu_nom", np.zeros((6, 1))),
        ("jacobian", np.zeros((5, 7))),
        ("jacobian", np.zeros((6, 6))),
        ("constraints", OSCBFConstraints(a=np.zeros((2, 6)), b=np.zeros(2))),
    ],
)
def test_wrong_shapes_are_named(field, value) -> None:
    with pytest.raises(ValueError, match=f"{field}.* must have shape"):
        OSCBF(n_joints=7).solve(**{**Problem(0).inputs, field: value})


@pytest.mark.parametrize(
    ("a", "b"), [(np.zeros(2), np.zeros(2)), (np.zeros((2, 2)), np.zeros((2, 1))), (np.zeros((2, 2)), np.zeros(3))]
)
def test_rows_of_the_wrong_shape_are_refused(a, b) -> None:
    with pytest.raises(ValueError, match="must"):
        OSCBFConstraints(a=a, b=b)


@pytest.mark.parametrize(
    "arguments",
    [
        {"joint_index": -1, "upper": 1.0},
        {"joint_index": 3, "upper": 1.0},
        {"joint_index": 0},
        {"joint_index": 0, "upper": 1.0, "lower": -1.0},
        {"joint_index": 0, "upper": math.nan},
        {"joint_index": 0, "lower": -math.inf},
    ],
)
def test_joint_limit_rows_need_one_joint_and_one_finite_bound(arguments) -> None:
    with pytest.raises(ValueError, match="must"):
        joint_limit_constraint_row(n_joints=3, **arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sphere_a_center", np.array([math.nan, 0.0, 0.0])),
        ("sphere_b_center", np.zeros(2)),
        ("sphere_a_radius", -0.1),
        ("sphere_b_radius", math.inf),
        ("sphere_a_jacobian", np.zeros((3, 6))),
        ("sphere_b_jacobian", np.full((3, 7), math.nan)),
        ("cbf_alpha", -1.0),
        ("lambda_ij", math.nan),
        ("coincident", "ignore"),
    ],
)
def test_collision_rows_refuse_what_they_cannot_use(field, value) -> None:
    arguments = {
        "n_joints": 7,
        "sphere_a_center": np.zeros(3),
        "sphere_b_center": np.ones(3),
        "sphere_a_radius": 0.1,
        "sphere_b_radius": 0.1,
        "sphere_a_jacobian": np.zeros((3, 7)),
    }
    with pytest.raises(ValueError, match=f"{field} must"):
        collision_constraint_row(**{**arguments, field: value})


@pytest.mark.parametrize("mass_matrix", [-np.eye(7), np.full((7, 7), math.nan), np.eye(6)])
def test_a_mass_matrix_must_be_positive_definite(mass_matrix) -> None:
    with pytest.raises(ValueError, match="mass_matrix must"):
        OSCBF(n_joints=7, null_space_objective=True).solve(**Problem(0).inputs, mass_matrix=mass_matrix)
