"""The Stage-0 rig: three embodiments, their rates, channels and messages, and what training sees of it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from chamber.benchmarks.stage0_smoke import (
    STAGE0_ACTION_RATES_HZ,
    STAGE0_KEPT_CHANNELS,
    Stage0SmokeEnv,
    action_repeats,
    make_stage0_env,
    require_known_channels,
)
from chamber.benchmarks.stage0_smoke_adapter import _Stage0TrainingAdapter, make_stage0_training_env
from chamber.comm import FixedFormatCommChannel
from chamber.envs import ChamberEnvCompatibilityError
from chamber.envs._sapien_compat import load_agent_with_bare_uids, patch_sapien_urdf_no_visual_material
from chamber.errors import ActionError
from chamber.sim.robots import robot_model

UIDS = ("panda_wristcam", "fetch", "allegro_hand_right")
WIDTHS = {"panda_wristcam": 8, "fetch": 13, "allegro_hand_right": 16}
STATES = {"panda_wristcam": 18, "fetch": 30, "allegro_hand_right": 67}


def idle() -> dict[str, np.ndarray]:
    return {uid: np.zeros(width, dtype=np.float32) for uid, width in WIDTHS.items()}


def waving(tick: int) -> dict[str, np.ndarray]:
    return {uid: (0.5 * np.sin(0.1 * tick + np.arange(width))).astype(np.float32) for uid, width in WIDTHS.items()}


def flattened(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flattened(value[key])]
    return [np.asarray(value, dtype=np.float64)] if not isinstance(value, str | type(None)) else []


def is_same(first: Any, second: Any) -> bool:
    ones, others = flattened(first), flattened(second)
    return len(ones) == len(others) and all(
        one.shape == other.shape and one.tobytes() == other.tobytes() for one, other in zip(ones, others, strict=True)
    )


@pytest.fixture(scope="module")
def rig() -> Any:
    env = make_stage0_env()
    yield env
    env.close()


# --- the rig --------------------------------------------------------------------------------------------------


def test_the_rig_has_the_measured_spaces(rig: Any) -> None:
    obs, info = rig.reset(seed=0)
    assert {uid: space.shape for uid, space in rig.action_space.spaces.items()} == {
        uid: (width,) for uid, width in WIDTHS.items()
    }
    assert {uid: channels["state"].shape for uid, channels in obs["agent"].items()} == {
        uid: (size,) for uid, size in STATES.items()
    }
    hand = obs["agent"]["allegro_hand_right"]
    shapes = {name: hand[name].shape for name in ("palm_pose", "qpos", "qvel", "tip_poses")}
    assert shapes == {"palm_pose": (1, 7), "qpos": (1, 16), "qvel": (1, 16), "tip_poses": (1, 28)}
    assert set(obs["comm"]) == {"schema_version", "pose", "task_state", "aoi", "learned_overlay"}
    assert rig.observation_space.contains(obs)
    assert info["backend"].startswith("mujoco")


def test_a_state_is_the_channels_of_its_robot_in_alphabetical_order(rig: Any) -> None:
    obs, _ = rig.reset(seed=0)
    for channels in obs["agent"].values():
        names = sorted(set(channels) - {"state"})
        assert np.array_equal(channels["state"], np.concatenate([channels[name].ravel() for name in names]))


def test_the_wrappers_lie_in_their_documented_order(rig: Any) -> None:
    names, env = [], rig
    while isinstance(env, gym.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    assert names == [
        "Stage0StateSynthesizer",
        "CommShapingWrapper",
        "TextureFilterObsWrapper",
        "PerAgentActionRepeatWrapper",
    ]
    assert isinstance(env, Stage0SmokeEnv)
    assert env.control_freq == pytest.approx(100.0)


def test_reward_is_zero_and_only_the_length_ends_an_episode() -> None:
    env = make_stage0_env(episode_length=3)
    env.reset(seed=0)
    ends = [env.step(idle())[1:4] for _ in range(3)]
    assert ends == [(0.0, False, False), (0.0, False, False), (0.0, False, True)]
    env.close()


def test_robots_that_are_told_nothing_stand_still(rig: Any) -> None:
    before = rig.reset(seed=0)[0]
    for _ in range(50):
        after = rig.step(idle())[0]
    start = {uid: rig.unwrapped.privileged_observation()["agent"][uid]["qpos"] for uid in UIDS}
    for uid in ("panda_wristcam", "fetch"):
        moved = np.abs(start[uid] - before["agent"][uid]["qpos"])[:, : 7 if uid == "panda_wristcam" else 13]
        assert moved.max() < 1e-3
    assert np.abs(after["agent"]["allegro_hand_right"]["qvel"]).max() < 1e-2


def test_every_robot_moves_when_it_is_told_to(rig: Any) -> None:
    before = rig.reset(seed=0)[0]["agent"]
    for tick in range(30):
        rig.step(waving(tick))
    after = rig.unwrapped.privileged_observation()["agent"]
    assert all(np.abs(after[uid]["qpos"] - before[uid]["qpos"]).max() > 0.05 for uid in UIDS)


def test_a_refused_action_is_forgotten(rig: Any) -> None:
    """What follows a refusal is what would have followed without it, while a robot holds and while it does not."""
    bad = {uid: np.full(width, np.nan) for uid, width in WIDTHS.items()}
    rig.reset(seed=0)
    expected = [rig.step(waving(tick)) for tick in range(12)]
    rig.reset(seed=0)
    for tick in range(12):
        for uid in UIDS:
            with pytest.raises(ActionError, match=f"action of '{uid}' must be finite"):
                rig.step({**waving(tick), uid: bad[uid]})
        assert is_same(rig.step(waving(tick))[0], expected[tick][0])


@pytest.mark.parametrize("action", [None, 3])
def test_what_is_no_action_is_refused_as_such_and_a_closed_rig_says_that_it_is_closed(action: Any) -> None:
    env: Any = make_stage0_env()
    env.reset(seed=0)
    with pytest.raises(ActionError, match="takes a mapping from uid to action"):
        env.step(action)
    env.close()
    with pytest.raises(gym.error.ClosedEnvironmentError):
        env.step(action)


def test_robots_do_not_disturb_each_other(rig: Any) -> None:
    rig.reset(seed=0)
    for tick in range(20):
        rig.step({**idle(), "fetch": waving(tick)["fetch"]})
    alone = rig.unwrapped.privileged_observation()["agent"]["fetch"]
    rig.reset(seed=0)
    for tick in range(20):
        rig.step(waving(tick))
    assert is_same(alone, rig.unwrapped.privileged_observation()["agent"]["fetch"])


def test_episodes_start_near_the_ready_poses_and_within_limits(rig: Any) -> None:
    starts = [rig.reset(seed=seed)[0]["agent"] for seed in range(10)]
    for uid in UIDS:
        model = robot_model(uid)
        qpos = np.array([start[uid]["qpos"][0] for start in starts])
        aside = np.abs(qpos - model.ready_qpos)
        assert aside.max() <= 0.02 + 1e-6
        assert aside[:, model.body_joints].max(axis=0).min() > 0.0
        assert (qpos >= model.joint_lower - 1e-6).all()
        assert (qpos <= model.joint_upper + 1e-6).all()


# --- rates ----------------------------------------------------------------------------------------------------


def test_actions_hold_for_five_ten_and_two_ticks() -> None:
    assert action_repeats(100.0, STAGE0_ACTION_RATES_HZ) == {
        "panda_wristcam": 5,
        "fetch": 10,
        "allegro_hand_right": 2,
    }


def test_a_rate_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ValueError, match="the rate of 'a', 30 Hz, must be a whole fraction of 100 Hz"):
        action_repeats(100.0, {"a": 30.0})
    with pytest.raises(ValueError, match="200 Hz"):
        action_repeats(100.0, {"a": 200.0})


def test_a_robot_hears_a_new_action_only_when_its_period_is_over(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: dict[str, list[float]] = {uid: [] for uid in UIDS}
    task = rig.unwrapped
    step = Stage0SmokeEnv.step

    def recorded(self: Stage0SmokeEnv, action: Any) -> Any:
        for uid, value in action.items():
            applied[uid].append(round(float(value[0]), 3))
        return step(self, action)

    monkeypatch.setattr(Stage0SmokeEnv, "step", recorded)
    rig.reset(seed=0)
    for tick in range(20):
        rig.step({uid: np.full(width, 0.01 * tick, dtype=np.float32) for uid, width in WIDTHS.items()})
    assert task.elapsed_steps[0] == 20
    for uid, repeat in (("panda_wristcam", 5), ("fetch", 10), ("allegro_hand_right", 2)):
        assert applied[uid] == [round(0.01 * (tick - tick % repeat), 3) for tick in range(20)]


# --- channels -------------------------------------------------------------------------------------------------


def test_robots_see_what_they_keep_and_zeros_for_the_rest(rig: Any) -> None:
    rig.reset(seed=0)
    for tick in range(10):
        obs = rig.step(waving(tick))[0]
    unfiltered = rig.unwrapped.privileged_observation()["agent"]
    for uid in UIDS:
        for name, value in unfiltered[uid].items():
            assert np.abs(value).max() > 1e-3
            shown = obs["agent"][uid][name]
            assert np.array_equal(shown, value if name in STAGE0_KEPT_CHANNELS[uid] else np.zeros_like(value))


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"fetch": frozenset({"joint_pos"})}, r"\['joint_pos'\] of 'fetch', which is not observed.*\['qpos', 'qvel'\]"),
        ({"spot": frozenset({"qpos"})}, r"'spot', which is not observed; there are the robots \['allegro_hand_right'"),
    ],
)
def test_kept_channels_that_do_not_exist_are_refused(rig: Any, kept: Any, message: str) -> None:
    with pytest.raises(ChamberEnvCompatibilityError, match=message):
        require_known_channels(rig.unwrapped.observation_space, kept)
    require_known_channels(rig.unwrapped.observation_space, STAGE0_KEPT_CHANNELS)


def test_the_rig_checks_its_own_kept_channels_when_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"fetch": frozenset({"joint_pos"})}
    monkeypatch.setattr("chamber.benchmarks.stage0_smoke.STAGE0_KEPT_CHANNELS", wrong)
    with pytest.raises(ChamberEnvCompatibilityError, match="joint_pos"):
        make_stage0_env()


# --- messages -------------------------------------------------------------------------------------------------


def test_a_message_tells_where_every_tool_was_when_it_was_sent(rig: Any) -> None:
    obs, _ = rig.reset(seed=1)
    sent = [rig.unwrapped.privileged_observation()["extra"]]
    packets = [obs["comm"]]
    for tick in range(40):
        packets.append(rig.step(waving(tick))[0]["comm"])
        sent.append(rig.unwrapped.privileged_observation()["extra"])
    ages = set()
    for tick, packet in enumerate(packets):
        for uid, pose in packet["pose"].items():
            age = int(packet["aoi"][uid])
            ages.add(age)
            told = np.array([*pose["xyz"], *pose["quat_wxyz"]])
            assert told == pytest.approx(sent[tick - age][f"{uid}_tcp_pose"][0], abs=1e-6)
    assert set(packets[-1]["pose"]) == set(UIDS)
    assert ages == {0, 1}  # 5 ms on a tick of 10 ms, with jitter
    FixedFormatCommChannel().decode(packets[-1])


def test_one_tick_of_the_link_is_one_tick_of_the_rig(rig: Any) -> None:
    [comm] = [env for env in wrappers(rig) if type(env).__name__ == "CommShapingWrapper"]
    assert comm._channel.tick_period_ms == pytest.approx(1000.0 * rig.unwrapped.control_timestep)
    assert comm._channel.profile.latency_mean_ms == 5.0


def wrappers(env: Any) -> list[Any]:
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(env)
        env = env.env
    return found


# --- repeatability --------------------------------------------------------------------------------------------


def play(env: Any, seed: int | None, ticks: int = 25) -> list[Any]:
    return [env.reset(seed=seed)[0], *(env.step(waving(tick))[0] for tick in range(ticks))]


def test_a_seed_gives_the_same_episode_whatever_came_before() -> None:
    env, fresh = make_stage0_env(), make_stage0_env()
    first = play(env, 3)
    play(env, 4)
    play(env, None)
    again = play(env, 3)
    anew = play(fresh, 3)
    for one, other in ((first, again), (first, anew)):
        assert all(is_same(a, b) for a, b in zip(one, other, strict=True))
    env.close()
    fresh.close()


def test_seeds_and_unseeded_episodes_differ_in_what_the_link_does() -> None:
    env = make_stage0_env()

    def ages(seed: int | None) -> list[Any]:
        return [obs["comm"]["aoi"].get("fetch") for obs in play(env, seed)]

    assert ages(3) != ages(4)
    assert ages(None) != ages(None)
    env.close()


# --- training -------------------------------------------------------------------------------------------------


def test_the_training_rig_lets_some_robots_act_and_the_others_rest() -> None:
    env = make_stage0_training_env(agent_uids=("panda_wristcam", "fetch"), episode_length=4, root_seed=2)
    assert set(env.action_space.spaces) == {"panda_wristcam", "fetch"}
    obs, _ = env.reset(seed=0)
    assert obs["agent"]["panda_wristcam"]["state"].shape == (18,)
    assert "comm" in obs
    assert env.observation_space.contains(obs)
    hand = obs["agent"]["allegro_hand_right"]["qpos"]
    outcomes = []
    for _ in range(4):
        obs, *outcome = env.step(env.action_space.sample())
        outcomes.append(tuple(outcome[:3]))
    assert outcomes == [(0.0, False, False)] * 3 + [(0.0, False, True)]
    assert [type(value) for value in outcomes[0]] == [float, bool, bool]
    assert np.abs(obs["agent"]["allegro_hand_right"]["qpos"] - hand).max() < 1e-3
    env.reset()
    assert env.step(env.action_space.sample())[3] is False
    assert env.get_wrapper_attr("root_seed") == 2
    env.close()


def test_the_training_rig_needs_all_who_act() -> None:
    env = make_stage0_training_env(agent_uids=("panda_wristcam", "fetch"))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"step\(\) action missing uid 'fetch'; got keys \['panda_wristcam'\]"):
        env.step({"panda_wristcam": np.zeros(8)})
    assert env.unwrapped.elapsed_steps[0] == 0  # type: ignore[attr-defined]
    env.close()


@pytest.mark.parametrize(
    ("uids", "message"),
    [(("panda_wristcam", "ur5"), r"agent_uids must be among \[.*\], got \['ur5'\]"), ((), "at least one robot")],
)
def test_the_training_rig_knows_its_robots(uids: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_stage0_training_env(agent_uids=uids)


class TinyEnv(gym.Env[Any, Any]):
    """Two robots with three vector channels and a picture each; it remembers what it was told."""

    def __init__(self, *, with_vectors: bool = True, with_state: bool = False) -> None:
        channels: dict[str, Any] = {"rgb": spaces.Box(0, 255, (4, 4, 3), np.uint8)}
        if with_vectors:
            channels |= {"b": spaces.Box(-1, 1, (2,)), "a": spaces.Box(-1, 1, (1, 3)), "c": spaces.Box(-1, 1, (2, 2))}
        if with_state:
            channels["state"] = spaces.Box(-1, 1, (5,))
        self._with_state = with_state
        self.observation_space = spaces.Dict(
            {"agent": spaces.Dict({uid: spaces.Dict(channels) for uid in ("x", "y")}), "comm": spaces.Dict({})}
        )
        self.action_space = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.Box(-1, 1, (3,))})
        self.told: list[Any] = []
        self.seeds: list[int | None] = []

    def _observation(self) -> Any:
        channels = {"rgb": np.zeros((4, 4, 3), np.uint8), "b": np.array([1.0, 2.0]), "a": np.array([[3.0, 4.0, 5.0]])}
        if self._with_state:
            channels["state"] = np.arange(5.0)
        return {"agent": {uid: dict(channels) for uid in ("x", "y")}, "comm": {"pose": {}}}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self.told.append(action)
        truncated = np.array([len(self.told) == 2])
        return self._observation(), np.array([0.25]), np.array([False]), truncated, {}


def test_the_adapter_makes_states_fills_in_zeros_and_gives_plain_numbers() -> None:
    inner = TinyEnv()
    env = _Stage0TrainingAdapter(inner, agent_uids=("x",), episode_length=10)
    obs, _ = env.reset(seed=7)
    assert obs["agent"]["x"]["state"].tolist() == [3.0, 4.0, 5.0, 1.0, 2.0]
    assert obs["comm"] == {"pose": {}}
    first = env.step({"x": np.ones(2)})
    second = env.step({"x": np.ones(2), "y": np.full(3, 0.5)})
    assert first[1:4] == (0.25, False, False)
    assert second[1:4] == (0.25, False, True)
    assert type(first[1]) is float
    assert {uid: value.tolist() for uid, value in inner.told[0].items()} == {"x": [1.0, 1.0], "y": [0.0, 0.0, 0.0]}
    assert inner.told[1]["y"].tolist() == [0.5, 0.5, 0.5]
    assert inner.seeds == [7]


def test_the_adapter_keeps_a_state_that_is_there() -> None:
    env = _Stage0TrainingAdapter(TinyEnv(with_state=True), agent_uids=("x",), episode_length=10)
    assert env.reset()[0]["agent"]["x"]["state"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_the_adapter_needs_something_to_make_a_state_of() -> None:
    with pytest.raises(ChamberEnvCompatibilityError, match="no Box channel"):
        _Stage0TrainingAdapter(TinyEnv(with_vectors=False), agent_uids=("x",), episode_length=10)


def with_actions(space: spaces.Space[Any]) -> TinyEnv:
    env = TinyEnv()
    env.action_space = space
    return env


@pytest.mark.parametrize(
    ("env", "arguments", "error", "message"),
    [
        (TinyEnv(), {"agent_uids": ()}, ValueError, "at least one robot"),
        (TinyEnv(), {"agent_uids": ("z",)}, ValueError, r"unknown uid 'z'; known: \['x', 'y'\]"),
        (TinyEnv(), {"agent_uids": ("x",), "episode_length": 0}, ValueError, "episode_length must be >= 1"),
        (with_actions(spaces.Box(-1, 1, (2,))), {"agent_uids": ("x",)}, TypeError, "must be a gymnasium.spaces.Dict"),
        (
            with_actions(spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.Discrete(2)})),
            {"agent_uids": ("x",)},
            TypeError,
            "the action space of 'y' must be a Box, got Discrete",
        ),
    ],
)
def test_the_adapter_refuses_what_it_cannot_adapt(
    env: TinyEnv, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        _Stage0TrainingAdapter(env, **{"episode_length": 10, **arguments})


# --- pictures, imports and names of old -----------------------------------------------------------------------


@pytest.mark.egl
def test_a_picture_shows_the_robots_before_the_horizon() -> None:
    env = make_stage0_env(render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    assert picture.shape == (480, 640, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 200
    env.close()


def test_the_variable_switches_rendering_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_RENDER_BACKEND", "none")
    env = make_stage0_env(render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(ChamberEnvCompatibilityError, match="CHAMBER_RENDER_BACKEND"):
        env.render()
    env.close()
    monkeypatch.setenv("CHAMBER_RENDER_BACKEND", "vulkan")
    with pytest.raises(ValueError, match="CHAMBER_RENDER_BACKEND must be one of"):
        make_stage0_env()


@pytest.mark.parametrize(
    "module",
    [
        "chamber.benchmarks.stage0_smoke",
        "chamber.benchmarks.stage0_smoke_adapter",
        "chamber.envs.coinsert",
        "chamber.envs._sapien_compat",
    ],
)
def test_modules_load_without_a_simulator_and_only_building_needs_one(module: str) -> None:
    code = (
        "import sys\n"
        "for name in ('mujoco', 'mani_skill', 'sapien', 'torch'): sys.modules[name] = None\n"
        f"import {module}\n"
        "from chamber.benchmarks.stage0_smoke import make_stage0_env\n"
        "from chamber.envs.errors import ChamberEnvCompatibilityError\n"
        "try: make_stage0_env()\n"
        "except ChamberEnvCompatibilityError as error: assert 'pip install' in str(error)\n"
        "else: raise SystemExit('built without a simulator')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_names_of_the_former_simulator_say_what_became_of_them() -> None:
    importlib.import_module("chamber.envs._sapien_compat")
    assert [patch_sapien_urdf_no_visual_material() for _ in range(2)] == [None, None]
    with pytest.raises(ChamberEnvCompatibilityError, match=r"got dict: the simulator is MuJoCo.*bare uids by constr"):
        load_agent_with_bare_uids({}, {}, initial_agent_poses=None, build_separate=True)
