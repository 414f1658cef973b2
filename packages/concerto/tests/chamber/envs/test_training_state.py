"""A saved environment goes on exactly, here and elsewhere; what is not its own state is refused."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chamber.benchmarks.stage0_smoke import Stage0SmokeEnv
from chamber.envs._forwarding import AttributeForwarding
from chamber.envs.action_repeat import PerAgentActionRepeatWrapper
from chamber.envs.cocarry import make_cocarry_env
from chamber.envs.cocarry_blind_mask import CoCarryEgoBlindMask
from chamber.envs.cocarry_obs import with_cocarry_states
from chamber.envs.cocarry_shaping import CoCarryTransportPBRSWrapper
from chamber.envs.coinsert import make_coinsert_env
from chamber.envs.stage1_pickplace import Stage1PickPlaceEnv, make_stage1_pickplace_env
from chamber.envs.stage1_shaping import Stage1SettleShapingWrapper
from chamber.envs.stage1_vector import Stage1AutoResetWrapper
from concerto.training._resuming import layer_that_cannot_save, observation_sha256, to_arrays, to_tensors
from concerto.training.protocols import ResumableEnv
from ripieno.errors import InputError

BESIDE_FETCH = "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent"
BESIDE_PANDA = "stage1_pickplace_panda_only_mappo_shared_param"


def pick_and_place(*, condition_id: str = BESIDE_FETCH, length: int = 5, copies: int = 3, seed: int = 4) -> Any:
    """As a training run has it: short episodes that begin anew by themselves, with shaping."""
    env: Any = make_stage1_pickplace_env(
        condition_id=condition_id, episode_length=length, num_envs=copies, root_seed=seed
    )
    shaped = Stage1SettleShapingWrapper(
        env.env if copies > 1 else env, alpha=0.5, qvel_cap=0.7, gamma=0.8, ego_uid="panda_wristcam"
    )
    return Stage1AutoResetWrapper(shaped) if copies > 1 else shaped


def co_carry(*, copies: int = 1, seed: int = 4) -> Any:
    env = with_cocarry_states(make_cocarry_env(num_envs=copies, root_seed=seed, dwell_steps=9, drive_stiffness=2e4))
    return CoCarryTransportPBRSWrapper(CoCarryEgoBlindMask(env), coeff=1.0, gamma=0.9)


def co_insert(*, copies: int = 1) -> Any:
    return make_coinsert_env(num_envs=copies, root_seed=4, start_offset_m=0.005)


def stage_0() -> Any:
    return Stage0SmokeEnv(
        episode_length=9, root_seed=4, num_envs=2, render_mode=None, render_backend="none", backend="auto"
    )


TASKS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "pick_and_place": (pick_and_place, ("_force_torque_noise", "goal", "elapsed_steps")),
    "co_carry": (co_carry, ("_max_tilt_deg", "_max_stress", "_steps_met")),
    "co_insert": (co_insert, ("_peak_insert_force", "_peak_couple_wrench", "_max_penetration", "_ticks_met")),
    "stage_0": (stage_0, ("elapsed_steps",)),
}
"""How a task is made, and what it counts or keeps from step to step."""


def actions(env: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Random actions, some beyond the bounds."""
    return {
        uid: rng.uniform(-1.2, 1.2, space.shape).astype(np.float32) for uid, space in env.action_space.spaces.items()
    }


def traces(env: Any, moves: list[dict[str, Any]]) -> list[str]:
    """Digests of observation, reward, flags and info of every step."""
    return [observation_sha256(env.step(move)) for move in moves]


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """The state as a resumed run reads it from a checkpoint."""
    buffer = io.BytesIO()
    torch.save(to_tensors(state), buffer)
    buffer.seek(0)
    return to_arrays(torch.load(buffer, weights_only=True))


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Any, Any]]:
    """Two equal environments for pick-and-place."""
    envs = pick_and_place(), pick_and_place()
    yield envs
    for env in envs:
        env.close()


# --- going on -----------------------------------------------------------------------------------------------


def goes_on_here_and_elsewhere(pair: tuple[Any, Any], seed: int, n_before: int, n_after: int, n_elsewhere: int) -> None:
    """Step, save, step more, load, step the same: here, and in another environment that was somewhere else."""
    env, other = pair
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    traces(env, [actions(env, rng) for _ in range(n_before)])
    obs = env.step(actions(env, rng))[0]
    state = env.save_training_state()
    moves = [actions(env, rng) for _ in range(n_after)]
    expected = traces(env, moves)
    other.reset(seed=seed + 1)
    traces(other, [actions(other, rng) for _ in range(n_elsewhere)])
    for resumed in (env, other):
        loaded = resumed.load_training_state(through_a_file(state))
        assert observation_sha256(loaded) == observation_sha256(obs)
        assert observation_sha256(resumed.save_training_state()) == observation_sha256(state)
        assert traces(resumed, moves) == expected


@settings(max_examples=3)
@given(seed=st.integers(0, 2**31), n_before=st.integers(0, 5), n_after=st.integers(1, 5))
def test_a_loaded_environment_takes_the_same_steps_here_and_elsewhere(pair, seed, n_before, n_after):
    goes_on_here_and_elsewhere(pair, seed, n_before, n_after, n_elsewhere=seed % 2)


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 2**31), n_before=st.integers(0, 30), n_after=st.integers(1, 20))
def test_a_loaded_environment_takes_the_same_many_steps_here_and_elsewhere(pair, seed, n_before, n_after):
    goes_on_here_and_elsewhere(pair, seed, n_before, n_after, n_elsewhere=seed % 4)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_goes_on_in_a_fresh_environment_with_all_that_it_keeps(task):
    make, kept = TASKS[task]
    env, fresh = make(), make()
    rng = np.random.default_rng(2)
    env.reset(seed=7)
    traces(env, [actions(env, rng) for _ in range(2)])
    inner = env.unwrapped
    for place, name in enumerate(kept):  # random actions bring few successes about; episodes have few steps
        array = getattr(inner, name)
        array[...] = (array + 1.5 * (place + 1)).astype(array.dtype)
    state = env.save_training_state()
    obs = fresh.load_training_state(through_a_file(state))
    assert observation_sha256(obs) == observation_sha256(env.load_training_state(state))
    arrays = {name: value for name, value in vars(inner).items() if isinstance(value, np.ndarray)}
    assert set(kept) <= arrays.keys()
    for name, array in arrays.items():
        assert getattr(fresh.unwrapped, name).tobytes() == array.tobytes(), name
    moves = [actions(env, rng) for _ in range(3)]
    assert traces(fresh, moves) == traces(env, moves)
    assert observation_sha256(fresh.reset()) == observation_sha256(env.reset())  # the streams go on


def test_shaping_and_the_ends_of_episodes_are_among_what_goes_on(pair):
    env, other = pair
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    inner = env.unwrapped
    moved = inner.save_training_state()
    moved["goal"] = inner.rig.body_pose("cube")[:, :3]  # the cube is placed, so that the arm's speed counts
    for resumed in pair:
        resumed.load_training_state(through_a_file(moved))
    env.step(actions(env, rng))
    state = env.save_training_state()
    other.load_training_state(through_a_file(state))
    potential = env.get_wrapper_attr("potential")()
    assert (potential < 0.0).all()
    np.testing.assert_array_equal(other.get_wrapper_attr("potential")(), potential)
    moves = [actions(env, rng) for _ in range(6)]
    steps = [env.step(move) for move in moves]
    assert any("final_observation" in step[4] for step in steps)
    assert [observation_sha256(step) for step in steps] == traces(other, moves)


ELSEWHERE = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import torch
from concerto.training._resuming import to_arrays
from test_training_state import actions, np, {maker}, traces
env = {maker}({options})
env.load_training_state(to_arrays(torch.load({path!r}, weights_only=True)))
rng = np.random.default_rng(5)
print(*traces(env, [actions(env, rng) for _ in range(12)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("maker", "options"),
    [
        (pick_and_place, {"copies": 4}),
        (pick_and_place, {"copies": 2, "condition_id": BESIDE_PANDA}),
        (co_carry, {"copies": 2}),
        (co_insert, {"copies": 2}),
    ],
)
def test_every_task_goes_on_in_another_process(maker, options, tmp_path):
    env = maker(**options)
    rng = np.random.default_rng(1)
    env.reset(seed=3)
    traces(env, [actions(env, rng) for _ in range(17)])
    torch.save(to_tensors(env.save_training_state()), tmp_path / "state.pt")
    program = ELSEWHERE.format(
        folder=str(Path(__file__).parent),
        maker=maker.__name__,
        options=", ".join(f"{name}={value!r}" for name, value in options.items()),
        path=str(tmp_path / "state.pt"),
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rng = np.random.default_rng(5)
    assert done.stdout.split() == traces(env, [actions(env, rng) for _ in range(12)])


# --- refusals -----------------------------------------------------------------------------------------------


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {key: value for key, value in state.items() if key != name}


def with_(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {**state, name: change(state[name])}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_("task", lambda _: "env.cocarry"), "task 'env.cocarry', this one has 'env.stage1_pickplace'"),
        (with_("condition_id", lambda _: BESIDE_PANDA), f"condition_id '{BESIDE_PANDA}', this one has"),
        (with_("num_envs", lambda n: n + 1), "num_envs 4, this one has 3"),
        (with_("root_seed", lambda _: 5), "root_seed 5, this one has 4"),
        (with_("episode_length", lambda _: 6), "episode_length 6, this one has 5"),
        (with_("simulator", lambda _: "mujoco 2"), "simulator 'mujoco 2', this one has 'mujoco "),
        (without("rig"), "has no field 'rig'"),
        (without("memory.force_torque_noise"), "has no field 'memory.force_torque_noise'"),
        (without("streams.force_torque"), "has no field 'streams.force_torque'"),
        (with_("rig", lambda rig: rig[:2]), "field 'rig' .* must be float64 of shape"),
        (with_("rig", lambda rig: rig * np.nan), "field 'rig' .* must be finite"),
        (with_("goal", lambda goal: goal.astype(np.float32)), "field 'goal' .* got float32"),
        (with_("elapsed_steps", lambda steps: steps.astype(float)), "field 'elapsed_steps' .* must be int32"),
        (with_("streams.start", lambda _: "[1, 2, 3]"), "field 'streams.start' .* holds no random streams"),
        (with_("streams.start", lambda _: None), "field 'streams.start' .* holds no random streams"),
        (with_("streams.start", lambda _: "[]"), r"field 'streams.start' .* must hold 3 random streams, got 0"),
    ],
)
def test_a_state_of_something_else_is_refused_by_its_field_and_changes_nothing(pair, spoil, message):
    env, _ = pair
    env.reset(seed=1)
    state = env.save_training_state()
    before = observation_sha256(state)
    with pytest.raises(InputError, match=message):
        env.load_training_state(spoil(state))
    assert observation_sha256(env.save_training_state()) == before


def test_the_state_of_another_task_is_refused(pair):
    other = make_cocarry_env(num_envs=1)
    other.reset(seed=0)
    with pytest.raises(InputError, match=r"task 'env.cocarry', this one has 'env.stage1_pickplace'"):
        pair[0].load_training_state(through_a_file(other.save_training_state()))


def test_there_is_nothing_to_save_before_a_reset():
    env = Stage1PickPlaceEnv(condition_id=BESIDE_PANDA)
    with pytest.raises(gym.error.ResetNeeded, match="before save_training_state"):
        env.save_training_state()


# --- who can be saved ---------------------------------------------------------------------------------------


class Remembering(AttributeForwarding, gym.Wrapper[Any, Any, Any, Any]):
    """Has a memory of its own and cannot save it."""

    n_steps = 0


class Walk(gym.Env[Any, Any]):
    """Cannot be saved."""

    observation_space = action_space = gym.spaces.Discrete(2)


def test_an_environment_can_be_saved_when_all_its_layers_can(pair):
    env = pair[0]
    assert isinstance(env, ResumableEnv)
    assert layer_that_cannot_save(env) is None
    layers = [
        Remembering(env),
        PerAgentActionRepeatWrapper(env, {"panda_wristcam": 2}),
        gym.wrappers.TimeLimit(env, 10),
        Walk(),
    ]
    for layer in layers:
        assert not isinstance(layer, ResumableEnv)
        assert layer_that_cannot_save(layer) is layer
        assert layer_that_cannot_save(Stage1AutoResetWrapper(layer)) is layer
