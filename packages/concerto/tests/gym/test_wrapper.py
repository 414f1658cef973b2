"""`SafetyWrapper`: what the environment gets, what ``info`` says, and what is refused before anything happens."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from concerto.gym import (
    SafetyOutcome,
    SafetyWrapper,
    contact_cost,
    contact_or_violation_cost,
    violation_cost,
)
from concerto.safety import AgentSnapshot, Bounds, DoubleIntegratorControlModel, PartnerMotionBound
from concerto.testing import BrakingLimit, DeclaredMotion, RecordedPartner, Recording, judge_contacts

MakeEnv = Callable[..., Any]
PARTNER = PartnerMotionBound(max_acceleration=1.0)


def wrap(env: Any, **options: Any) -> SafetyWrapper:
    return SafetyWrapper(env, partner_motion=PARTNER, **options)


def towards_the_partner(env: Any, dtype: Any = np.float32) -> Any:
    base = env.unwrapped
    gap = base.positions[1] - base.positions[0]
    return (gap / np.linalg.norm(gap)).astype(dtype)


def drive_at_the_partner(env: Any, *, seed: int, n_steps: int) -> list[dict[str, Any]]:
    env.reset(seed=seed)
    return [env.step(towards_the_partner(env))[4] for _ in range(n_steps)]


# ------------------------------------------------------------------------------------------------ Gymnasium's rules


@pytest.fixture
def registered(make_env: MakeEnv) -> Any:
    gym.register("TwoIntegrators-v0", make_env)
    yield "TwoIntegrators-v0"
    del gym.registry["TwoIntegrators-v0"]


@pytest.mark.parametrize("uid_actions", [False, True])
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
def test_passes_the_environment_checker_of_gymnasium(registered: str, uid_actions: bool) -> None:
    env = gym.make(registered, uid_actions=uid_actions, disable_env_checker=True)
    check_env(wrap(env))


def test_the_spec_rebuilds_the_wrapper_with_its_settings(registered: str) -> None:
    env = wrap(gym.make(registered), cost=violation_cost, tau_brake=0.25)
    assert env.spec is not None
    again = gym.make(env.spec)
    assert isinstance(again, SafetyWrapper)
    first, second = (drive_at_the_partner(each, seed=3, n_steps=20) for each in (env, again))
    assert [info["cost"] for info in first] == [info["cost"] for info in second]


def test_spaces_and_the_five_values_are_those_of_the_environment(make_env: MakeEnv) -> None:
    inner = make_env()
    env = wrap(inner)
    assert env.action_space is inner.action_space
    assert env.observation_space is inner.observation_space
    observation, info = env.reset(seed=1)
    assert (observation in env.observation_space, info) == (True, {})
    result = env.step(env.action_space.sample())
    assert len(result) == 5
    assert set(result[4]) == {"safety", "cost"}


@pytest.mark.parametrize("seed", [0, 11])
def test_equal_seeds_give_equal_infos_to_the_last_bit(make_env: MakeEnv, seed: int) -> None:
    env = wrap(make_env())
    first = drive_at_the_partner(env, seed=seed, n_steps=30)
    second = drive_at_the_partner(env, seed=seed, n_steps=30)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_equal(one, other)


# ------------------------------------------------------------------------------------------------ what it does


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), uid_actions=st.booleans(), dtype=st.sampled_from([np.float32, np.float64]))
def test_actions_that_need_no_filter_give_the_trajectory_of_the_bare_environment(
    make_env: MakeEnv, seed: int, uid_actions: bool, dtype: Any
) -> None:
    bare, inner = (make_env(distance=40.0, uid_actions=uid_actions, dtype=dtype) for _ in range(2))
    env = wrap(inner)
    np.testing.assert_array_equal(env.reset(seed=seed)[0], bare.reset(seed=seed)[0])
    env.action_space.seed(seed)
    done = False
    while not done:
        action = env.action_space.sample()
        *wrapped_result, info = env.step(action)
        *bare_result, _ = bare.step(action)
        np.testing.assert_equal(wrapped_result, bare_result)
        assert (info["safety"]["source"], info["cost"]) == ("pass_through", 0.0)
        done = wrapped_result[3]


def test_an_ego_that_drives_at_its_partner_is_held_off(make_env: MakeEnv) -> None:
    env = wrap(make_env(n_steps=120))
    infos = drive_at_the_partner(env, seed=5, n_steps=120)
    sources = {info["safety"]["source"] for info in infos}
    assert "pass_through" in sources
    assert sources - {"pass_through"}
    bare = make_env(n_steps=120)
    bare.reset(seed=5)
    for _ in range(120):
        bare.step(towards_the_partner(bare))
    unfiltered = np.linalg.norm(bare.velocities[0])
    assert np.linalg.norm(env.unwrapped.velocities[0]) < 0.5 * unfiltered  # type: ignore[attr-defined]


def record(env: Any, rng: np.random.Generator, *, seed: int, n_steps: int) -> Recording:
    """Play one episode of random pushes, most of them towards the partner."""
    base: Any = env.unwrapped
    env.reset(seed=seed)
    positions, velocities, accelerations = [base.positions], [base.velocities], []
    push = np.zeros(2)
    for step in range(n_steps):
        if step % 8 == 0:
            push = rng.uniform(-1.0, 1.0, 2)
        env.step(np.clip(push + towards_the_partner(env), -1.0, 1.0).astype(np.float32))
        positions.append(base.positions)
        velocities.append(base.velocities)
        accelerations.append(base.accelerations[0])
    place, speed = np.array(positions), np.array(velocities)
    return Recording(
        control_period=base.control_timestep,
        times=base.control_timestep * np.arange(n_steps + 1),
        ego_positions=place[:, 0],
        ego_velocities=speed[:, 0],
        ego_accelerations=np.array(accelerations),
        ego_radius=0.2,
        braking_limit=BrakingLimit(acceleration=1.0, component=1.0),
        partners={"human": RecordedPartner(place[:, 1], speed[:, 1], 0.2, DeclaredMotion(max_acceleration=1.0))},
    )


def test_no_contact_in_random_episodes_is_the_egos_fault(make_env: MakeEnv) -> None:
    env = wrap(make_env(n_steps=80))
    rng = np.random.default_rng(17)
    contacts = [contact for seed in range(60) for contact in judge_contacts(record(env, rng, seed=seed, n_steps=80))]
    assert contacts, "the episodes must be hard enough for a contact that is the partner's doing"
    assert [contact for contact in contacts if contact.verdict == "at_fault"] == []


def test_the_same_episodes_without_the_wrapper_have_contacts_at_fault(make_env: MakeEnv) -> None:
    rng = np.random.default_rng(17)
    bare: Any = gym.Wrapper(make_env(n_steps=80))
    contacts = [contact for seed in range(60) for contact in judge_contacts(record(bare, rng, seed=seed, n_steps=80))]
    assert any(contact.verdict == "at_fault" for contact in contacts)


def test_only_the_egos_part_of_a_dict_action_is_changed(make_env: MakeEnv) -> None:
    inner = make_env(uid_actions=True, distance=0.41)
    env = wrap(inner)
    env.reset(seed=2)
    action = {"ego": towards_the_partner(env), "human": np.array([0.25, -0.5], np.float32)}
    before = {uid: part.copy() for uid, part in action.items()}
    safety = env.step(action)[4]["safety"]
    received = inner.received[-1]
    assert received["human"] is action["human"]
    assert safety["source"] != "pass_through"
    np.testing.assert_array_equal(received["ego"], safety["applied_action"])
    assert received["ego"].dtype == np.float32
    np.testing.assert_equal(action, before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_info_tells_what_was_wanted_done_and_why(make_env: MakeEnv, dtype: Any) -> None:
    inner = make_env(distance=0.41, dtype=dtype)
    env = wrap(inner)
    env.reset(seed=4)
    wanted = towards_the_partner(env, dtype)
    info = env.step(wanted)[4]
    safety = info["safety"]
    np.testing.assert_array_equal(safety["nominal_action"], wanted.astype(np.float64))
    assert safety["applied_action"].dtype == dtype
    np.testing.assert_array_equal(safety["applied_action"], inner.received[-1])
    assert (safety["intervened"], safety["source"] in {"qp", "braking", "fallback"}) == (True, True)
    for key in ("barrier_values", "lambda", "next_barrier_values", "next_clearances_m"):
        assert set(safety[key]) == {"human"}
    gap = np.linalg.norm(inner.positions[1] - inner.positions[0]) - 0.4
    assert safety["next_clearances_m"]["human"] == pytest.approx(gap, abs=1e-12)
    assert env.last_outcome is not None
    assert env.last_outcome.step.solve_ms >= 0.0


def test_a_nominal_action_outside_the_box_is_reported_as_an_intervention(make_env: MakeEnv) -> None:
    env = wrap(make_env(distance=40.0))
    env.reset(seed=0)
    safety = env.step(np.array([3.0, 0.0], np.float32))[4]["safety"]
    assert safety["nominal_action"].tolist() == [3.0, 0.0]
    assert safety["applied_action"].tolist() == [1.0, 0.0]
    assert safety["source"] == "qp"


def test_boxes_of_any_shape_are_filtered(make_env: MakeEnv) -> None:
    class Matrix(gym.ActionWrapper[Any, Any, Any]):
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            self.action_space = gym.spaces.Box(-1.0, 1.0, (1, 2), np.float32)

        def action(self, action: Any) -> Any:
            return action[0]

    env = wrap(Matrix(make_env(distance=0.41)))
    env.reset(seed=4)
    safety = env.step(towards_the_partner(env)[None, :])[4]["safety"]
    assert safety["applied_action"].shape == (1, 2)
    assert safety["intervened"]


# ------------------------------------------------------------------------------------------------ cost


def outcome(*, clearance: float, barrier: float) -> SafetyOutcome:
    return SafetyOutcome(
        step=None,  # type: ignore[arg-type] - the cost functions judge where the step led, not the decision
        applied_action=np.zeros(2),
        clearances={"a": 1.0, "b": clearance},
        barrier_values={"a": 0.5, "b": barrier},
    )


@pytest.mark.parametrize(
    ("clearance", "barrier", "contact", "violation", "either"),
    [
        (0.1, 0.2, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (-0.01, 0.2, 1.0, 0.0, 1.0),
        (0.1, -0.3, 0.0, 0.3, 1.0),
        (-0.1, -2.0, 1.0, 2.0, 1.0),
    ],
)
def test_cost_functions(clearance: float, barrier: float, contact: float, violation: float, either: float) -> None:
    judged = outcome(clearance=clearance, barrier=barrier)
    assert (contact_cost(judged), violation_cost(judged), contact_or_violation_cost(judged)) == (
        contact,
        violation,
        either,
    )


def test_cost_counts_the_state_the_step_led_to(make_env: MakeEnv) -> None:
    inner = make_env(distance=0.42, uid_actions=True)
    env = wrap(inner, cost=contact_cost)
    env.reset(seed=0)
    ram = {"ego": np.zeros(2, np.float32), "human": -5.0 * towards_the_partner(env)}
    costs = [env.step(ram)[4]["cost"] for _ in range(3)]
    assert costs == [1.0, 1.0, 1.0]


def test_cost_can_be_chosen_or_left_alone(make_env: MakeEnv) -> None:
    class Costly(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            *rest, info = super().step(action)
            return *rest, {**info, "cost": 7.0}

    zero = np.zeros(2, np.float32)

    def first_info(**options: Any) -> dict[str, Any]:
        env = wrap(Costly(make_env()), **options)
        env.reset(seed=0)
        return env.step(zero)[4]

    assert first_info(cost=None)["cost"] == 7.0
    counted = first_info(cost=lambda judged: judged.clearances["human"])
    assert counted["cost"] == pytest.approx(1.6, abs=0.02)
    assert counted["environment_cost"] == 7.0


# ------------------------------------------------------------------------------------------------ hooks


class Hidden(gym.Wrapper[Any, Any, Any, Any]):
    """Hides the hooks of the environment, as one that knows nothing of safety does."""

    def has_wrapper_attr(self, name: str) -> bool:
        hooks = {"build_control_models", "build_bounds", "build_agent_snapshots", "control_timestep"}
        return name not in hooks and super().has_wrapper_attr(name)


def hooks_of(inner: Any) -> dict[str, Callable[[Any], Any]]:
    return {
        "build_control_models": lambda _: inner.build_control_models(),
        "build_bounds": lambda _: inner.build_bounds(),
        "build_agent_snapshots": lambda _: inner.build_agent_snapshots(),
    }


def test_callables_do_what_methods_of_the_environment_do(make_env: MakeEnv) -> None:
    inner = make_env()
    given_hooks = wrap(Hidden(inner), control_timestep=0.1, **hooks_of(inner))
    own_hooks = wrap(gym.wrappers.TimeLimit(make_env(), 1000))
    for one, other in zip(
        drive_at_the_partner(given_hooks, seed=9, n_steps=25),
        drive_at_the_partner(own_hooks, seed=9, n_steps=25),
        strict=True,
    ):
        np.testing.assert_equal(one, other)


@pytest.mark.parametrize("missing", ["build_control_models", "build_bounds", "build_agent_snapshots"])
def test_a_missing_hook_is_named_with_both_ways_to_give_it(make_env: MakeEnv, missing: str) -> None:
    inner = make_env()
    hooks = {name: hook for name, hook in hooks_of(inner).items() if name != missing}
    with pytest.raises(
        ValueError, match=rf"has no method {missing}\(\): add it to the environment, or give {missing}="
    ):
        wrap(Hidden(inner), control_timestep=0.1, **hooks).reset()


def test_a_control_timestep_nobody_tells_is_assumed_with_a_warning(make_env: MakeEnv) -> None:
    inner = make_env()
    with pytest.warns(UserWarning, match=r"has no control_timestep: 0\.02 s is assumed"):
        env = wrap(Hidden(inner), **hooks_of(inner))
    assert env._guard.stack.dt == 0.02


@pytest.mark.parametrize("value", [0.0, -0.1, math.nan, math.inf, "soon"])
def test_a_control_timestep_that_is_no_time_is_refused(make_env: MakeEnv, value: Any) -> None:
    with pytest.raises(ValueError, match="control_timestep must be finite and > 0"):
        wrap(make_env(), control_timestep=value)


def test_snapshots_are_read_once_per_state(make_env: MakeEnv) -> None:
    inner = make_env()
    reads: list[int] = []

    def snapshots(env: Any) -> Any:
        reads.append(inner.n_done)
        return inner.build_agent_snapshots()

    env = wrap(inner, build_agent_snapshots=snapshots)
    drive_at_the_partner(env, seed=0, n_steps=4)
    assert reads == [0, 1, 2, 3, 4]


def test_snapshots_of_lists_are_as_good_as_arrays(make_env: MakeEnv) -> None:
    inner = make_env()

    def snapshots(_: Any) -> Any:
        return {
            uid: AgentSnapshot(snapshot.position.tolist(), snapshot.velocity.tolist(), snapshot.radius)
            for uid, snapshot in inner.build_agent_snapshots().items()
        }

    lists = drive_at_the_partner(wrap(inner, build_agent_snapshots=snapshots), seed=0, n_steps=4)
    arrays = drive_at_the_partner(wrap(make_env()), seed=0, n_steps=4)
    assert [info["safety"]["next_clearances_m"] for info in lists] == [
        info["safety"]["next_clearances_m"] for info in arrays
    ]


def test_the_forecast_reaches_the_filter(make_env: MakeEnv) -> None:
    def forecast_a_charge(states: Any, dt: float) -> Any:
        towards_ego = states["ego"].position - states["human"].position
        velocity = states["human"].velocity + dt * towards_ego / np.linalg.norm(towards_ego)
        return {"human": AgentSnapshot(states["human"].position, velocity, states["human"].radius)}

    gentle, wary = (
        np.sum([np.abs(info["safety"]["filtered_action"]) for info in drive_at_the_partner(env, seed=6, n_steps=14)])
        for env in (wrap(make_env()), wrap(make_env(), predict_partners=forecast_a_charge))
    )
    assert wary < gentle


# ------------------------------------------------------------------------------------------------ partner identity


class Annotated(gym.ObservationWrapper[Any, Any, Any]):
    """Puts a partner id into the observation that changes with the episode."""

    names = iter(("anna", "bert", "bert", "carl"))
    partner_id = "nobody"

    def reset(self, **keywords: Any) -> Any:
        self.partner_id = next(self.names)
        return super().reset(**keywords)

    def observation(self, observation: Any) -> Any:
        return {"state": observation, "meta": {"partner_id": self.partner_id}}


def test_a_new_partner_restarts_the_slack_and_a_known_one_keeps_it(make_env: MakeEnv) -> None:
    env = wrap(Annotated(make_env()))
    first_slacks, last_slacks = [], []
    for _ in range(4):
        env.reset()
        infos = [env.step(np.zeros(2, np.float32))[4]["safety"]["lambda"]["human"] for _ in range(10)]
        first_slacks.append(infos[0])
        last_slacks.append(infos[-1])
    assert last_slacks[0] != 0.0
    assert first_slacks == [0.0, 0.0, last_slacks[1], 0.0]


def test_a_seed_restarts_the_slack(make_env: MakeEnv) -> None:
    env = wrap(make_env())
    drive_at_the_partner(env, seed=1, n_steps=10)
    env.reset()
    assert env.step(np.zeros(2, np.float32))[4]["safety"]["lambda"]["human"] != 0.0
    env.reset(seed=1)
    assert env.step(np.zeros(2, np.float32))[4]["safety"]["lambda"]["human"] == 0.0


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "action",
    [np.array([np.nan, 0.0], np.float32), np.array([np.inf, 0.0], np.float32), np.zeros(3, np.float32)],
    ids=["nan", "inf", "shape"],
)
@pytest.mark.parametrize("uid_actions", [False, True])
def test_a_bad_action_is_refused_before_the_environment_moves(
    make_env: MakeEnv, action: Any, uid_actions: bool
) -> None:
    inner = make_env(uid_actions=uid_actions)
    env = wrap(inner)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        env.step({"ego": action, "human": np.zeros(2, np.float32)} if uid_actions else action)
    assert inner.received == []


def test_a_dict_action_without_the_ego_is_refused(make_env: MakeEnv) -> None:
    inner = make_env(uid_actions=True)
    env = wrap(inner)
    env.reset(seed=0)
    for action in ({"human": np.zeros(2, np.float32)}, np.zeros(2, np.float32)):
        with pytest.raises(ValueError, match="must be a mapping with a value for 'ego'"):
            env.step(action)
    assert inner.received == []


def test_a_step_before_the_first_reset_is_refused(make_env: MakeEnv) -> None:
    with pytest.raises(ResetNeeded, match=r"reset\(\) before step\(\)"):
        wrap(make_env()).step(np.zeros(2, np.float32))


def test_an_environment_that_diverges_is_not_called_safe(make_env: MakeEnv) -> None:
    inner = make_env()
    env = wrap(inner)
    env.reset(seed=0)
    inner.velocities[0] = np.nan
    with pytest.raises(ValueError, match="the distance to 'human' is nan: the environment diverged"):
        env.step(np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        (gym.spaces.Discrete(3), TypeError, "must be a Box of floats"),
        (gym.spaces.Box(0, 5, (2,), np.int64), TypeError, "must be a Box of floats"),
        (gym.spaces.Dict({"human": gym.spaces.Box(-1, 1, (2,))}), ValueError, "must be a key of the action space"),
        (gym.spaces.Box(-1, 1, (3,)), ValueError, r"has shape \(3,\), its control model has action_dim 2"),
        (gym.spaces.Box(0, 1, (2,)), ValueError, r"must hold every action within \+/- 1 .* would be clipped"),
    ],
)
def test_an_action_space_that_does_not_fit_is_refused(
    make_env: MakeEnv, space: Any, error: type[Exception], message: str
) -> None:
    inner = make_env()
    inner.action_space = space
    with pytest.raises(error, match=message):
        wrap(inner)


def test_an_ego_without_a_control_model_is_refused(make_env: MakeEnv) -> None:
    with pytest.raises(ValueError, match="ego_uid must have a control model, got 'me'"):
        wrap(make_env(), ego_uid="me")


def test_an_unknown_option_is_refused_by_name(make_env: MakeEnv) -> None:
    with pytest.raises(TypeError, match="gama"):
        SafetyWrapper(make_env(), gama=2.0)


def test_bounds_and_models_come_from_the_hooks(make_env: MakeEnv) -> None:
    env = wrap(
        make_env(distance=40.0),
        build_bounds=lambda _: Bounds(0.5, 0.5, 10.0, 0.0, 50.0),
        build_control_models=lambda _: {"ego": DoubleIntegratorControlModel("ego", 2)},
    )
    env.reset(seed=0)
    assert env.step(np.ones(2, np.float32))[4]["safety"]["applied_action"].tolist() == [0.5, 0.5]


def test_a_closed_wrapper_refuses_to_go_on_even_where_its_environment_would(make_env: MakeEnv):
    env = SafetyWrapper(make_env())
    env.reset(seed=0)
    env.step(np.zeros(2, np.float32))
    env.close()
    env.close()
    for call in (lambda: env.step(np.zeros(2, np.float32)), env.reset):
        with pytest.raises(ClosedEnvironmentError, match=r"SafetyWrapper<TwoIntegratorsEnv instance>.* was closed"):
            call()
    assert len(env.unwrapped.received) == 1
