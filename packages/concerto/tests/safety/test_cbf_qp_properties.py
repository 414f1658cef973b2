"""Theory of the filter as properties: derivative of the barrier, optimality, symmetry, frames, monotonicity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from concerto.safety.api import AgentSnapshot, Bounds, DoubleIntegratorControlModel, SafetyState, make_lambda_dict
from concerto.safety.cbf_qp import ExpCBFQP, pair_h_value
from concerto.safety.errors import ConcertoSafetyInfeasible
from concerto.safety.solvers import ClarabelSolver

BOUNDS = Bounds(1.0, 1.5, 10.0, 0.0, 50.0)
UIDS = ("ego", "p1", "p2", "p3")


class RecordingSolver:
    """A second solver for the same program: remembers the program and answers it with Clarabel."""

    def solve(self, P, q, A, b, *, warm_start=True):
        self.program = P, q, A, b
        return ClarabelSolver().solve(P, q, A, b)


@st.composite
def scenes(draw, n_agents=None, dim=None):
    """Snapshots of up to four robots, drawn through one seed so that shrinking stays cheap."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = dim or draw(st.sampled_from((2, 3)))
    n_agents = n_agents or draw(st.integers(2, 4))
    return {
        uid: AgentSnapshot(rng.uniform(-1.2, 1.2, dim), rng.uniform(-0.8, 0.8, dim), rng.uniform(0.05, 0.3))
        for uid in UIDS[:n_agents]
    }


def run_ego(scene, nominal, *, lambda_=0.0, solver=None, fraction=1.0, dt=0.1, forecast=None):
    dim = len(nominal)
    qp = ExpCBFQP.ego_only(
        control_models={uid: DoubleIntegratorControlModel(uid, dim) for uid in scene},
        solver=solver,
        partner_braking_fraction=fraction,
    )
    action, _ = qp.filter(
        nominal,
        {"agent_states": scene},
        SafetyState(make_lambda_dict(scene, fill=lambda_, ego_uid="ego")),
        BOUNDS,
        ego_uid="ego",
        partner_predicted_states=forecast or {uid: snap for uid, snap in scene.items() if uid != "ego"},
        dt=dt,
    )
    return action


def run_joint(scene, actions, *, lambda_=0.0, solver=None):
    dim = len(next(iter(actions.values())))
    qp = ExpCBFQP.centralized(
        control_models={uid: DoubleIntegratorControlModel(uid, dim) for uid in scene}, solver=solver
    )
    return qp.filter(actions, {"agent_states": scene}, SafetyState(make_lambda_dict(scene, fill=lambda_)), BOUNDS)[0]


def answer_or_none(run, *arguments, **keywords):
    try:
        return run(*arguments, **keywords)
    except ConcertoSafetyInfeasible:
        return None


def nominal_for(scene, seed):
    return np.random.default_rng(seed).uniform(-1.3, 1.3, len(scene["ego"].position))


def gap(scene):
    ego, partner = scene["ego"], scene["p1"]
    return np.linalg.norm(ego.position - partner.position) - ego.radius - partner.radius


# ------------------------------------------------------------------------------------------------------ the barrier


@given(scenes(n_agents=2), st.integers(0, 2**16))
def test_case_13_the_row_without_gamma_and_lambda_is_the_derivative_of_the_barrier(scene, seed):
    assume(gap(scene) > 0.05)
    rng = np.random.default_rng(seed)
    accelerations = {uid: rng.uniform(-1, 1, len(scene["ego"].position)) for uid in scene}

    def h_after(t):
        moved = [
            AgentSnapshot(
                s.position + s.velocity * t + 0.5 * accelerations[u] * t**2, s.velocity + accelerations[u] * t, s.radius
            )
            for u, s in scene.items()
        ]
        return pair_h_value(*moved, alpha_pair=3.0)

    step = 1e-5
    numeric = (h_after(step) - h_after(-step)) / (2 * step)
    right, normal = measured_row(scene)
    h = pair_h_value(scene["ego"], scene["p1"], alpha_pair=3.0)
    # The measured right-hand side holds gamma h as well.
    analytic = right - 5.0 * h + normal @ (accelerations["ego"] - accelerations["p1"])
    assert numeric == pytest.approx(analytic, abs=1e-6 * max(1.0, abs(analytic)) + 1e-6)


def measured_row(scene):
    """Read R and n of the only row from the program that a solver is given."""
    solver = RecordingSolver()
    answer_or_none(run_ego, scene, np.full(len(scene["ego"].position), 50.0), solver=solver)
    _, _, rows, right = solver.program
    return right[0], -rows[0]


@given(scenes(n_agents=2), st.floats(0.1, 10.0))
def test_the_barrier_does_not_care_who_is_first(scene, alpha):
    ego, partner = scene.values()
    assert pair_h_value(ego, partner, alpha_pair=alpha) == pair_h_value(partner, ego, alpha_pair=alpha)


@given(scenes(n_agents=2), st.floats(0.1, 10.0), st.floats(0.1, 10.0))
def test_more_braking_makes_the_barrier_no_smaller(scene, one, other):
    low, high = sorted((one, other))
    ego, partner = scene.values()
    assert pair_h_value(ego, partner, alpha_pair=low) <= pair_h_value(ego, partner, alpha_pair=high)


# ------------------------------------------------------------------------------------------------------- optimality


@settings(max_examples=200)
@given(scenes(), st.integers(0, 2**16), st.floats(-1, 2))
def test_every_ego_answer_is_the_one_of_a_second_solver(scene, seed, lambda_):
    compare_with_second_solver(run_ego, scene, nominal_for(scene, seed), lambda_)


@settings(max_examples=150)
@given(scenes(), st.integers(0, 2**16), st.floats(-1, 2))
def test_every_joint_answer_is_the_one_of_a_second_solver(scene, seed, lambda_):
    rng = np.random.default_rng(seed)
    actions = {uid: rng.uniform(-1.3, 1.3, len(snap.position)) for uid, snap in scene.items()}
    compare_with_second_solver(run_joint, scene, actions, lambda_)


def compare_with_second_solver(run, scene, nominal, lambda_):
    """Both must agree on feasibility; the exact answer must satisfy all rows and cost no more than the second one."""
    solver = RecordingSolver()
    exact = answer_or_none(run, scene, nominal, lambda_=lambda_)
    second = answer_or_none(run, scene, nominal, lambda_=lambda_, solver=solver)
    assert (exact is None) == (second is None)
    if exact is None:
        return

    def stacked(value):
        return np.concatenate([value[uid] for uid in sorted(value)]) if isinstance(value, dict) else value

    exact, second, wanted = stacked(exact), stacked(second), stacked(nominal)
    assert (np.abs(exact) <= BOUNDS.action_linf_component).all()
    if hasattr(solver, "program"):
        _, _, rows, right = solver.program
        assert (rows @ exact <= right + 1e-9 * np.maximum(1.0, np.abs(right))).all()
        # Strong convexity: two feasible points with costs this near are this near to the optimum.
        cost, second_cost = np.sum((exact - wanted) ** 2), np.sum((second - wanted) ** 2)
        assert cost <= second_cost + 1e-6
        np.testing.assert_allclose(exact, second, atol=1e-3)
    else:
        assert exact.tobytes() == second.tobytes() == wanted.tobytes()


@given(scenes(), st.integers(0, 2**16))
def test_filtering_a_filtered_action_changes_nothing(scene, seed):
    action = answer_or_none(run_ego, scene, nominal_for(scene, seed))
    assume(action is not None)
    np.testing.assert_allclose(run_ego(scene, action), action, atol=1e-9)


# --------------------------------------------------------------------------------------------------------- symmetry


@given(scenes(), st.integers(0, 2**16), st.randoms(use_true_random=False))
def test_names_and_order_of_the_partners_do_not_matter(scene, seed, random):
    partners = [uid for uid in scene if uid != "ego"]
    renamed = dict(zip(partners, random.sample(["zz", "a", "m", "q"], len(partners)), strict=True))
    items = [(renamed.get(uid, uid), snap) for uid, snap in scene.items()]
    random.shuffle(items)
    nominal = nominal_for(scene, seed)
    one = answer_or_none(run_ego, scene, nominal)
    other = answer_or_none(run_ego, dict(items), nominal)
    assert (one is None) == (other is None)
    if one is not None:
        np.testing.assert_allclose(one, other, atol=1e-9)


@given(scenes(), st.integers(0, 2**16))
def test_exchanging_two_robots_exchanges_their_actions(scene, seed):
    rng = np.random.default_rng(seed)
    actions = {uid: rng.uniform(-1.3, 1.3, len(snap.position)) for uid, snap in scene.items()}
    swap = {"ego": "p1", "p1": "ego"}
    one = answer_or_none(run_joint, scene, actions)
    other = answer_or_none(
        run_joint,
        {swap.get(uid, uid): snap for uid, snap in scene.items()},
        {swap.get(uid, uid): action for uid, action in actions.items()},
    )
    assert (one is None) == (other is None)
    for uid in one or ():
        np.testing.assert_allclose(one[uid], other[swap.get(uid, uid)], atol=1e-9)


def moved(scene, rotation, shift):
    return {
        uid: AgentSnapshot(rotation @ snap.position + shift, rotation @ snap.velocity, snap.radius)
        for uid, snap in scene.items()
    }


@given(scenes(dim=2), st.integers(0, 2**16), st.sampled_from((0, 1, 2, 3)), st.booleans())
def test_turning_the_world_by_right_angles_or_mirroring_it_turns_the_answer(scene, seed, turns, mirror):
    # The box is a square: only its own symmetries leave it in place.
    rotation = np.linalg.matrix_power(np.array([[0.0, -1.0], [1.0, 0.0]]), turns) @ np.diag(
        [1.0, -1.0 if mirror else 1.0]
    )
    shift = np.array([2.0, -3.0])
    nominal = nominal_for(scene, seed)
    one = answer_or_none(run_ego, scene, nominal)
    other = answer_or_none(run_ego, moved(scene, rotation, shift), rotation @ nominal)
    assert (one is None) == (other is None)
    if one is not None:
        np.testing.assert_allclose(rotation @ one, other, atol=1e-8)


@given(scenes(dim=3, n_agents=2), st.integers(0, 2**16))
def test_any_rotation_turns_the_answer_while_the_box_is_not_touched(scene, seed):
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    nominal = 0.3 * nominal_for(scene, seed)
    one = answer_or_none(run_ego, scene, nominal)
    other = answer_or_none(run_ego, moved(scene, rotation, rng.normal(size=3)), rotation @ nominal)
    assume(one is not None and other is not None)
    assume(max(np.abs(one).max(), np.abs(other).max()) < 1.0)
    np.testing.assert_allclose(rotation @ one, other, atol=1e-7)


# ----------------------------------------------------------------------------------------------------- monotonicity


@given(scenes(), st.integers(0, 2**16), st.floats(-2, 2), st.floats(-2, 2))
def test_a_larger_lambda_never_moves_the_action_further_from_the_wanted_one(scene, seed, one, other):
    low, high = sorted((one, other))
    nominal = nominal_for(scene, seed)
    tight = answer_or_none(run_ego, scene, nominal, lambda_=low)
    loose = answer_or_none(run_ego, scene, nominal, lambda_=high)
    if tight is None:
        return
    assert loose is not None
    assert np.linalg.norm(loose - nominal) <= np.linalg.norm(tight - nominal) + 1e-9


@given(scenes(), st.integers(0, 2**16))
def test_the_same_call_gives_the_same_bytes(scene, seed):
    nominal = nominal_for(scene, seed)
    one, other = (answer_or_none(run_ego, scene, nominal) for _ in range(2))
    assert (one is None and other is None) or one.tobytes() == other.tobytes()
