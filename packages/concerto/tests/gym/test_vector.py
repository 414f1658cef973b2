"""`SafetyVectorWrapper`: the same decisions and infos as wrapped sub-environments, in every autoreset mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from concerto.gym import SafetyVectorWrapper, SafetyWrapper
from concerto.safety import AgentSnapshot, PartnerMotionBound

MakeEnv = Callable[..., Any]
N_ENVS = 3
PARTNER = PartnerMotionBound(max_acceleration=1.0)


def vectorise(make: Callable[[], Any], mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> SyncVectorEnv:
    return SyncVectorEnv([make] * N_ENVS, autoreset_mode=mode)


def wrap(env: Any, **options: Any) -> SafetyVectorWrapper:
    return SafetyVectorWrapper(env, partner_motion=PARTNER, **options)


def pushes(n_steps: int) -> Any:
    return np.random.default_rng(3).uniform(-1.0, 1.0, (n_steps, N_ENVS, 2)).astype(np.float32)


@pytest.mark.parametrize("uid_actions", [False, True])
def test_is_the_same_as_wrapping_every_sub_environment(make_env: MakeEnv, uid_actions: bool) -> None:
    def make() -> Any:
        return make_env(distance=0.42, n_steps=9, uid_actions=uid_actions)

    inside = vectorise(lambda: SafetyWrapper(make(), partner_motion=PARTNER))
    outside = wrap(vectorise(make))
    np.testing.assert_equal(outside.reset(seed=5), inside.reset(seed=5))
    sources: set[str] = set()
    for ego in pushes(40):
        actions = {"ego": ego, "human": 0.5 * ego[::-1]} if uid_actions else ego
        one, other = outside.step(actions), inside.step(actions)
        np.testing.assert_equal(one, other)
        sources |= set(one[4].get("safety", {}).get("source", [])) - {None}
    assert "pass_through" in sources
    assert sources - {"pass_through"}


def test_infos_are_arrays_with_masks(make_env: MakeEnv) -> None:
    env = wrap(vectorise(lambda: make_env(distance=0.7)))
    env.reset(seed=0)
    infos = env.step(pushes(1)[0])[4]
    safety = infos["safety"]
    assert safety["applied_action"].shape == (N_ENVS, 2)
    assert safety["applied_action"].dtype == np.float32
    assert safety["lambda"]["human"].shape == (N_ENVS,)
    assert infos["cost"].dtype == np.float64
    for mask in (infos["_safety"], infos["_cost"], safety["_source"], safety["lambda"]["_human"]):
        assert mask.tolist() == [True] * N_ENVS


def test_a_sub_environment_that_is_reset_instead_of_stepped_has_no_entry(make_env: MakeEnv) -> None:
    lengths = iter((2, 4, 100))
    env = wrap(SyncVectorEnv([lambda: make_env(n_steps=next(lengths))] * N_ENVS))
    env.reset(seed=0)
    masks = [env.step(ego)[4]["_cost"].tolist() for ego in pushes(6)]
    assert masks == [[True] * 3, [True] * 3, [False, True, True], [True] * 3, [True, False, True], [False, True, True]]


def test_disabled_autoreset_resets_the_masked_stacks_only(make_env: MakeEnv) -> None:
    env = wrap(vectorise(lambda: make_env(distance=0.7, n_steps=12), AutoresetMode.DISABLED))
    env.reset(seed=0)
    for ego in pushes(6):
        slacks = env.step(ego)[4]["safety"]["lambda"]["human"]
    assert (slacks != 0.0).all()
    mask = np.array([False, True, False])
    env.reset(seed=8, options={"reset_mask": mask})
    after = env.step(pushes(1)[0])[4]["safety"]["lambda"]["human"]
    assert (after == 0.0).tolist() == mask.tolist()


def test_same_step_autoreset_hides_last_states_and_is_refused(make_env: MakeEnv) -> None:
    with pytest.raises(ValueError, match="wrap the sub-environments with SafetyWrapper"):
        wrap(vectorise(make_env, AutoresetMode.SAME_STEP))


def test_wrapped_sub_environments_keep_the_last_cost_in_same_step_mode(make_env: MakeEnv) -> None:
    env = vectorise(
        lambda: SafetyWrapper(make_env(n_steps=2), partner_motion=PARTNER, cost=lambda _: 5.0),
        AutoresetMode.SAME_STEP,
    )
    env.reset(seed=0)
    env.step(pushes(1)[0])
    infos = env.step(pushes(1)[0])[4]
    assert infos["final_info"]["cost"].tolist() == [5.0] * N_ENVS
    assert infos["final_info"]["safety"]["_source"].tolist() == [True] * N_ENVS


def test_every_sub_environment_has_a_stack_of_its_own(make_env: MakeEnv) -> None:
    distances = iter((0.41, 40.0, 40.0))
    env = wrap(SyncVectorEnv([lambda: make_env(distance=next(distances))] * N_ENVS))
    env.reset(seed=0)
    base: Any = env.unwrapped
    towards = np.stack([e.positions[1] / np.linalg.norm(e.positions[1]) for e in base.envs]).astype(np.float32)
    assert env.step(towards)[4]["safety"]["intervened"].tolist() == [True, False, False]


def test_actions_keep_their_precision_until_they_are_applied(make_env: MakeEnv) -> None:
    env = wrap(vectorise(lambda: make_env(distance=40.0)))
    env.reset(seed=0)
    wanted = pushes(1)[0].astype(np.float64) + 1e-12
    safety = env.step(wanted)[4]["safety"]
    np.testing.assert_array_equal(safety["nominal_action"], wanted)
    np.testing.assert_array_equal(safety["applied_action"], wanted.astype(np.float32))


def test_seeds_may_be_one_per_sub_environment(make_env: MakeEnv) -> None:
    env = wrap(vectorise(make_env))
    by_list, _ = env.reset(seed=[4, 5, 6])
    by_number, _ = env.reset(seed=4)
    np.testing.assert_array_equal(by_list, by_number)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_action_in_one_sub_environment_is_refused_before_any_moves(make_env: MakeEnv, bad: float) -> None:
    env = wrap(vectorise(make_env))
    env.reset(seed=0)
    actions = pushes(1)[0]
    actions[2, 0] = bad
    before = [guard.stack.state for guard in env._guards]
    with pytest.raises(ValueError, match="the action of 'ego' in sub-environment 2 is not finite"):
        env.step(actions)
    base: Any = env.unwrapped
    assert [inner.received for inner in base.envs] == [[], [], []]
    assert [guard.stack.state for guard in env._guards] == before


def test_actions_of_a_wrong_shape_or_without_the_ego_are_refused(make_env: MakeEnv) -> None:
    env = wrap(vectorise(make_env))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"must have shape \(3, 2\), got \(2,\)"):
        env.step(np.zeros(2, np.float32))
    keyed = wrap(vectorise(lambda: make_env(uid_actions=True)))
    keyed.reset(seed=0)
    with pytest.raises(ValueError, match="must be a mapping with a value for 'ego'"):
        keyed.step({"human": np.zeros((3, 2), np.float32)})


def test_a_step_before_the_first_reset_is_refused(make_env: MakeEnv) -> None:
    with pytest.raises(ResetNeeded):
        wrap(vectorise(make_env)).step(pushes(1)[0])


class Bare(gym.Env[Any, Any]):
    """An environment without hooks."""

    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, False, {"cost": 3.0}


def given_hooks(make_env: MakeEnv) -> dict[str, Any]:
    example = make_env(distance=40.0)
    example.reset(seed=0)
    return {
        "build_control_models": lambda env: [example.build_control_models()] * env.num_envs,
        "build_bounds": lambda env: [example.build_bounds()] * env.num_envs,
        "build_agent_snapshots": lambda env: [example.build_agent_snapshots()] * env.num_envs,
        "control_timestep": 0.1,
    }


def test_callables_serve_environments_without_hooks(make_env: MakeEnv) -> None:
    env = wrap(vectorise(Bare), **given_hooks(make_env))
    env.reset(seed=0)
    infos = env.step(pushes(1)[0])[4]
    assert infos["cost"].tolist() == [0.0] * N_ENVS
    assert infos["environment_cost"].tolist() == [3.0] * N_ENVS
    assert infos["_environment_cost"].tolist() == [True] * N_ENVS


@pytest.mark.parametrize(
    "missing", ["build_control_models", "build_bounds", "control_timestep", "build_agent_snapshots"]
)
def test_a_missing_hook_is_named(make_env: MakeEnv, missing: str) -> None:
    hooks = {name: hook for name, hook in given_hooks(make_env).items() if name != missing}
    with pytest.raises(ValueError, match=f"have no {missing}: add it to them, or give {missing}="):
        wrap(vectorise(Bare), **hooks).reset()


def test_one_result_per_sub_environment_is_required(make_env: MakeEnv) -> None:
    hooks = given_hooks(make_env)
    hooks["build_bounds"] = lambda _: [make_env().build_bounds()]
    with pytest.raises(ValueError, match="build_bounds must give 3 results, one per sub-environment, got 1"):
        wrap(vectorise(Bare), **hooks)


def test_partner_ids_restart_the_slack_of_their_sub_environment_only(make_env: MakeEnv) -> None:
    ids = ["anna", "bert", None]
    env = wrap(vectorise(lambda: make_env(distance=0.7)), partner_ids=lambda _: ids)
    env.reset(seed=0)
    for ego in pushes(5):
        env.step(ego)
    ids[0] = "carl"
    env.step(pushes(1)[0])
    slacks = env.step(pushes(1)[0])[4]["safety"]["lambda"]["human"]
    assert (slacks == 0.0).tolist() == [True, False, False]


def test_an_asynchronous_vector_environment_is_the_same(make_env: MakeEnv) -> None:
    asynchronous = wrap(AsyncVectorEnv([lambda: make_env(distance=0.7, n_steps=6)] * 2, context="fork"))
    synchronous = wrap(SyncVectorEnv([lambda: make_env(distance=0.7, n_steps=6)] * 2))
    try:
        np.testing.assert_equal(asynchronous.reset(seed=5), synchronous.reset(seed=5))
        for ego in pushes(10)[:, :2]:
            np.testing.assert_equal(asynchronous.step(ego), synchronous.step(ego))
    finally:
        asynchronous.close()


def test_the_forecast_reaches_every_stack(make_env: MakeEnv) -> None:
    asked: list[float] = []

    def forecast(states: Any, dt: float) -> Any:
        asked.append(dt)
        human = states["human"]
        return {"human": AgentSnapshot(human.position + dt * human.velocity, human.velocity, human.radius)}

    env = wrap(vectorise(make_env), predict_partners=forecast)
    env.reset(seed=0)
    env.step(pushes(1)[0])
    assert asked == [0.1] * N_ENVS


def test_a_closed_vector_wrapper_refuses_to_go_on_even_where_its_environments_would(make_env: MakeEnv):
    envs = SafetyVectorWrapper(SyncVectorEnv([make_env] * 2))
    envs.reset(seed=0)
    envs.step(np.zeros((2, 2), np.float32))
    envs.close()
    envs.close()
    for call in (lambda: envs.step(np.zeros((2, 2), np.float32)), envs.reset):
        with pytest.raises(ClosedEnvironmentError, match=r"SafetyVectorWrapper.* was closed"):
            call()
