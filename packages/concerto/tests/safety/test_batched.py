"""`BatchedSafetyFilter` gives every environment the scalar filter's answer, and brakes where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from concerto.safety.api import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    SafetyMode,
    SafetyState,
    make_pair_keys,
)
from concerto.safety.batched import BatchedSafetyFilter
from concerto.safety.cbf_qp import ExpCBFQP
from concerto.safety.errors import ConcertoSafetyInfeasible

B1 = Bounds(1.0, 1.0, 10.0, 0.0, 50.0)
BOUNDS = Bounds(1.0, 1.5, 10.0, 0.0, 50.0)
DT = 0.1


def random_batch(seed, n_envs, n_agents, dim, mode):
    """Draw crowded states: some pass through, most are projected, some have no safe action."""
    rng = np.random.default_rng(seed)
    is_ego_only = mode is SafetyMode.EGO_ONLY
    n_pairs = n_agents - 1 if is_ego_only else n_agents * (n_agents - 1) // 2
    spread = 0.7 * math.sqrt(n_agents)
    return {
        "nominal_actions": rng.uniform(-1.3, 1.3, (n_envs, dim) if is_ego_only else (n_envs, n_agents, dim)),
        "positions": rng.uniform(-spread, spread, (n_envs, n_agents, dim)),
        "velocities": rng.uniform(-0.7, 0.7, (n_envs, n_agents, dim)),
        "radii": rng.uniform(0.05, 0.25, (n_envs, n_agents)),
        "lambda_": rng.uniform(-0.5, 1.0, (n_envs, n_pairs)),
        "partner_accelerations": rng.uniform(-0.5, 0.5, (n_envs, n_agents - 1, dim)) if is_ego_only else 0.0,
    }


def run_batched(batch, mode, *, bounds=BOUNDS, fraction=1.0, overlap_depth=False, parallel=False, **keywords):
    qp = BatchedSafetyFilter(
        mode=mode, partner_braking_fraction=fraction, overlap_depth=overlap_depth, parallel=parallel
    )
    return qp.filter(**batch, bounds=bounds, **keywords)


def scalar_answers(batch, mode, *, fraction=1.0, overlap_depth=False):
    """Filter every environment alone; an environment without answer gives None."""
    n_envs, n_agents, dim = batch["positions"].shape
    uids = [f"agent{k}" for k in range(n_agents)]
    qp = ExpCBFQP(
        control_models={uid: DoubleIntegratorControlModel(uid, dim) for uid in uids},
        mode=mode,
        partner_braking_fraction=fraction,
        overlap_depth=overlap_depth,
    )
    keys = [key for key in make_pair_keys(uids) if mode is not SafetyMode.EGO_ONLY or key[0] == uids[0]]
    for env in range(n_envs):
        snapshots = {
            uid: AgentSnapshot(batch["positions"][env, k], batch["velocities"][env, k], batch["radii"][env, k])
            for k, uid in enumerate(uids)
        }
        state = SafetyState(dict(zip(keys, batch["lambda_"][env].tolist(), strict=True)))
        try:
            if mode is SafetyMode.EGO_ONLY:
                forecast = {
                    uid: AgentSnapshot(
                        snapshots[uid].position,
                        snapshots[uid].velocity + DT * batch["partner_accelerations"][env, k],
                        snapshots[uid].radius,
                    )
                    for k, uid in enumerate(uids[1:])
                }
                yield qp.filter(
                    batch["nominal_actions"][env],
                    {"agent_states": snapshots},
                    state,
                    BOUNDS,
                    ego_uid=uids[0],
                    partner_predicted_states=forecast,
                    dt=DT,
                )
            else:
                proposed = {uid: batch["nominal_actions"][env, k] for k, uid in enumerate(uids)}
                actions, info = qp.filter(proposed, {"agent_states": snapshots}, state, BOUNDS)
                yield np.stack([actions[uid] for uid in uids]), info
        except ConcertoSafetyInfeasible:
            yield None


CASES = [
    (SafetyMode.EGO_ONLY, 1, 2, 1.0),
    (SafetyMode.EGO_ONLY, 2, 2, 1.0),
    (SafetyMode.EGO_ONLY, 2, 3, 0.0),
    (SafetyMode.EGO_ONLY, 6, 2, 0.3),
    (SafetyMode.EGO_ONLY, 6, 3, 1.0),
    (SafetyMode.CENTRALIZED, 2, 2, 1.0),
    (SafetyMode.CENTRALIZED, 3, 3, 1.0),
    (SafetyMode.CENTRALIZED, 6, 2, 1.0),
]


@pytest.mark.parametrize("overlap_depth", [False, True])
@pytest.mark.parametrize(("mode", "n_agents", "dim", "fraction"), CASES)
def test_every_environment_gets_the_scalar_answer(mode, n_agents, dim, fraction, overlap_depth):
    batch = random_batch(n_agents * 10 + dim, 1000, n_agents, dim, mode)
    settings = {"fraction": fraction, "overlap_depth": overlap_depth}
    result = run_batched(batch, mode, **settings)
    seen = set()
    for env, expected in enumerate(scalar_answers(batch, mode, **settings)):
        assert result.is_braking[env] == (expected is None)
        if expected is None:
            seen.add("braking")
            continue
        action, info = expected
        np.testing.assert_allclose(result.actions[env], action, atol=1e-9)
        np.testing.assert_array_equal(result.constraint_violation[env], info["constraint_violation"])
        is_unchanged = action.tobytes() == batch["nominal_actions"][env].tobytes()
        assert result.is_pass_through[env] == is_unchanged
        seen.add("pass through" if is_unchanged else "projected")
    assert seen >= ({"pass through", "projected"} if n_agents == 1 else {"projected", "braking"})


def test_the_documented_case_near():
    batch = {
        "nominal_actions": [[1.0, 0.0]] * 3,
        "positions": [[[0.0, 0.0], [1.0, 0.0]]] * 3,
        "velocities": [[[1.0, 0.0], [0.0, 0.0]]] * 3,
        "radii": 0.25,
        "lambda_": [[0.0], [-0.5], [0.5]],
    }
    result = run_batched(batch, SafetyMode.EGO_ONLY, bounds=B1)
    np.testing.assert_allclose(result.actions, [[0.65685425, 0], [0.15685425, 0], [1, 0]], atol=1e-8)
    assert result.is_pass_through.tolist() == [False, False, True]
    assert not result.is_braking.any()
    both = {**batch, "nominal_actions": [[[1.0, 0.0], [-1.0, 0.0]]] * 3, "lambda_": 0.0}
    result = run_batched(both, SafetyMode.CENTRALIZED, bounds=B1)
    np.testing.assert_allclose(result.actions[1], [[0.32842712, 0], [-0.32842712, 0]], atol=1e-8)


@pytest.mark.parametrize("mode", [SafetyMode.EGO_ONLY, SafetyMode.CENTRALIZED])
@pytest.mark.parametrize("n_agents", [2, 5])
def test_threads_and_neighbours_change_nothing(mode, n_agents):
    batch = random_batch(5, 9000, n_agents, 2, mode)
    serial = run_batched(batch, mode)
    threaded = run_batched(batch, mode, parallel=True)
    part = run_batched({k: v[700:710] if isinstance(v, np.ndarray) else v for k, v in batch.items()}, mode)
    assert serial.actions.tobytes() == threaded.actions.tobytes()
    assert serial.is_braking.tobytes() == threaded.is_braking.tobytes()
    assert serial.actions[700:710].tobytes() == part.actions.tobytes()


@pytest.mark.parametrize("mode", [SafetyMode.EGO_ONLY, SafetyMode.CENTRALIZED])
def test_an_environment_without_answer_brakes_within_its_limits_and_not_beyond_rest(mode):
    batch = random_batch(11, 4000, 4, 3, mode)
    dt = 0.5
    result = run_batched(batch, mode, dt=dt)
    assert result.is_braking.sum() > 20
    deciding = slice(0, 1) if mode is SafetyMode.EGO_ONLY else slice(None)
    velocities = batch["velocities"][result.is_braking, deciding]
    actions = result.actions[result.is_braking].reshape(velocities.shape)
    speed = np.linalg.norm(velocities, axis=-1)
    strength = np.linalg.norm(actions, axis=-1)
    np.testing.assert_allclose(actions * speed[..., None], -velocities * strength[..., None], atol=1e-12)
    limit = np.minimum(BOUNDS.cartesian_accel_capacity, speed / np.abs(velocities).max(axis=-1))
    np.testing.assert_allclose(strength, np.minimum(limit, speed / dt), rtol=1e-12)
    assert (np.abs(actions) <= 1.0 + 1e-15).all()


def test_at_rest_there_is_nothing_to_brake():
    result = run_batched(
        {
            "nominal_actions": [[1.0, 0.0]],
            "positions": [[[0.0, 0.0], [0.0, 0.0]]],
            "velocities": [[[0.0, 0.0], [0.0, 0.0]]],
            "radii": 0.25,
        },
        SafetyMode.EGO_ONLY,
    )
    assert result.is_braking.tolist() == [True]
    assert result.actions.tolist() == [[0.0, 0.0]]


def test_numbers_that_overflow_brake():
    batch = random_batch(1, 3, 2, 2, SafetyMode.EGO_ONLY)
    batch["velocities"][1] = [[1e200, 0.0], [-1e200, 0.0]]
    result = run_batched(batch, SafetyMode.EGO_ONLY)
    assert result.is_braking[1]
    assert np.isfinite(result.actions).all()


def test_an_empty_batch_is_answered():
    result = run_batched(random_batch(1, 0, 3, 2, SafetyMode.CENTRALIZED), SafetyMode.CENTRALIZED)
    assert result.actions.shape == (0, 3, 2)
    assert result.constraint_violation.shape == (0, 3)


def test_agents_may_have_their_own_capacities():
    batch = random_batch(2, 200, 3, 2, SafetyMode.CENTRALIZED)
    same = run_batched(batch, SafetyMode.CENTRALIZED, capacities=[1.5, 1.5, 1.5])
    assert same.actions.tobytes() == run_batched(batch, SafetyMode.CENTRALIZED).actions.tobytes()
    weaker = run_batched(batch, SafetyMode.CENTRALIZED, capacities=[1.5, 1.5, 0.1])
    assert (weaker.constraint_violation >= same.constraint_violation).all()
    is_of_the_weak_one = weaker.constraint_violation > same.constraint_violation
    assert is_of_the_weak_one.any(axis=0).tolist() == [False, True, True]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    "name", ["nominal_actions", "positions", "velocities", "radii", "lambda_", "partner_accelerations"]
)
def test_a_number_that_is_not_finite_is_refused_with_argument_and_place(name, value):
    batch = random_batch(3, 6000, 3, 2, SafetyMode.EGO_ONLY)
    batch[name][17].flat[1] = value
    for parallel in (False, True):
        with pytest.raises(ValueError, match=rf"{name} must be finite.*\[17, "):
            run_batched(batch, SafetyMode.EGO_ONLY, parallel=parallel)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"radii": -0.1}, r"radii must be finite and >= 0.*-0\.1"),
        ({"positions": np.zeros((4, 3, 4))}, r"positions.*\(4, 3, 4\)"),
        ({"velocities": np.zeros((4, 2, 2))}, r"velocities.*\(4, 3, 2\).*\(4, 2, 2\)"),
        ({"nominal_actions": np.zeros((4, 3, 2))}, r"nominal_actions.*\(4, 2\)"),
        ({"lambda_": np.zeros((4, 3))}, r"lambda_.*\(4, 2\).*\(4, 3\)"),
        ({"radii": "wide"}, "radii"),
        ({"capacities": [1.0, 1.0, 0.0]}, "capacities"),
        ({"bounds": Bounds(0.0, 1.0, 1.0, 0.0, 1.0)}, "action_linf_component"),
        ({"bounds": Bounds(1.0, math.nan, 1.0, 0.0, 1.0)}, "cartesian_accel_capacity"),
        ({"dt": 0.0}, "dt"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(change, match):
    arguments = {**random_batch(3, 4, 3, 2, SafetyMode.EGO_ONLY), "bounds": BOUNDS, **change}
    with pytest.raises(ValueError, match=match):
        BatchedSafetyFilter().filter(**arguments)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"mode": SafetyMode.SHARED_CONTROL}, "SHARED_CONTROL"),
        ({"cbf_gamma": -1.0}, "cbf_gamma"),
        ({"partner_braking_fraction": 2.0}, "partner_braking_fraction"),
    ],
)
def test_settings_out_of_range_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        BatchedSafetyFilter(**settings)
