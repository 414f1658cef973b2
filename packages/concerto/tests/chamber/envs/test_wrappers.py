"""The wrappers that vary one thing each: documented numbers, spaces that tell the truth, nothing changed in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from chamber.envs import (
    ChamberEnvCompatibilityError,
    CommShapingWrapper,
    MPECooperativePushEnv,
    PartnerIdAnnotationWrapper,
    PerAgentActionRepeatWrapper,
    Stage0StateSynthesizer,
    TextureFilterObsWrapper,
)
from chamber.errors import ActionError


class ScriptedEnv(gym.Env[Any, Any]):
    """Gives the observation it was made with and remembers the actions it received."""

    def __init__(self, observation: Any, observation_space: spaces.Space[Any], uids: tuple[str, ...] = ("a", "b")):
        self.observation = observation
        self.observation_space = observation_space
        self.action_space = spaces.Dict({uid: spaces.Box(-9.0, 9.0, (1,), np.float32) for uid in uids})
        self.received: list[dict[str, Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.observation, {}

    def step(self, action: dict[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.received.append({uid: np.array(value) for uid, value in action.items()})
        return self.observation, 1.5, False, False, {}


class CountingChannel:
    """Numbers its packets and remembers what it was asked."""

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.encoded: list[object] = []

    def reset(self, *, seed: int | None = None) -> None:
        self.seeds.append(seed)
        self.encoded.clear()

    def encode(self, state: object, /) -> Mapping[str, Any]:
        self.encoded.append(state)
        return {"schema_version": 1, "pose": {"a": {"xyz": (0.0, 0.0, 0.0)}}, "number": len(self.encoded)}


class FakeTensor:
    """The part of a tensor on a device that the wrappers rely on; turning it into an array fails."""

    def __init__(self, values: list[float]) -> None:
        self.values = values
        self.shape = (len(values),)

    def __array__(self, *_: object) -> np.ndarray:
        raise TypeError("this tensor lives on a device")

    def new_zeros(self, shape: tuple[int, ...]) -> FakeTensor:
        return FakeTensor([0.0] * shape[0])

    def clone(self) -> FakeTensor:
        return FakeTensor(list(self.values))


BOX_ENV = ScriptedEnv(np.zeros(2, np.float32), spaces.Box(-1.0, 1.0, (2,)))


def channel_space(**channels: spaces.Space[Any]) -> spaces.Dict:
    return spaces.Dict({"agent": spaces.Dict({"a": spaces.Dict(channels), "b": spaces.Dict(channels)})})


def floats(*shape: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


class TestComm:
    def test_a_space_that_is_no_dict_is_refused_by_name_and_type(self):
        with pytest.raises(ChamberEnvCompatibilityError, match=r"CommShapingWrapper.*Box.*ADR-001"):
            CommShapingWrapper(BOX_ENV, CountingChannel())

    def test_every_observation_carries_one_fresh_packet_and_lies_in_the_declared_space(self):
        channel = CountingChannel()
        env = CommShapingWrapper(MPECooperativePushEnv(), channel)
        obs, _ = env.reset(seed=5)
        assert channel.seeds == [5]
        assert obs["comm"]["number"] == 1
        assert env.observation_space.contains(obs)
        obs, *_ = env.step({"ego": [0.0, 0.0], "partner": [0.0, 0.0]})
        assert obs["comm"]["number"] == 2
        assert env.observation_space["comm"] == spaces.Dict({})

    def test_an_inner_packet_is_encoded_and_replaced_and_the_inner_observation_stays(self):
        inner = {"agent": {}, "comm": "older"}
        space = spaces.Dict({"agent": spaces.Dict({}), "comm": spaces.Text(9)})
        channel = CountingChannel()
        obs, reward, *_ = CommShapingWrapper(ScriptedEnv(inner, space), channel).step({})
        assert channel.encoded[0] is inner
        assert obs["comm"]["number"] == 1
        assert inner["comm"] == "older"
        assert reward == 1.5


class TestPartnerId:
    def test_a_space_that_is_no_dict_is_refused_by_name_and_type(self):
        with pytest.raises(ChamberEnvCompatibilityError, match=r"PartnerIdAnnotationWrapper.*Box"):
            PartnerIdAnnotationWrapper(BOX_ENV, partner_id="0" * 16)

    def test_existing_meta_is_kept_and_the_inner_observation_is_not_changed(self):
        inner = {"agent": {}, "meta": {"run": 1}}
        env = PartnerIdAnnotationWrapper(ScriptedEnv(inner, spaces.Dict({"agent": spaces.Dict({})})), partner_id="x")
        obs, _ = env.reset()
        assert obs["meta"] == {"run": 1, "partner_id": "x"}
        assert inner["meta"] == {"run": 1}

    def test_meta_that_is_no_dict_is_replaced(self):
        env = PartnerIdAnnotationWrapper(ScriptedEnv({"meta": 7}, spaces.Dict({})), partner_id="x")
        assert env.reset()[0]["meta"] == {"partner_id": "x"}

    def test_a_new_id_shows_at_the_next_observation(self):
        env = PartnerIdAnnotationWrapper(MPECooperativePushEnv(), partner_id="73250184e1abaccc")
        obs, _ = env.reset(seed=0)
        assert obs["meta"]["partner_id"] == env.partner_id == "73250184e1abaccc"
        assert env.observation_space.contains(obs)
        env.set_partner_id("another")
        obs, *_ = env.step({"ego": [0.0, 0.0], "partner": [0.0, 0.0]})
        assert obs["meta"]["partner_id"] == "another"


class TestActionRepeat:
    def test_an_action_holds_for_its_count_and_the_first_of_an_episode_passes(self):
        inner = ScriptedEnv({}, spaces.Dict({}))
        env = PerAgentActionRepeatWrapper(inner, {"a": 3})
        for value in (1, 2, 3, 4, 5):
            env.step({"a": value, "b": value})
        assert [int(action["a"]) for action in inner.received] == [1, 1, 1, 4, 4]
        assert [int(action["b"]) for action in inner.received] == [1, 2, 3, 4, 5]
        env.reset()
        env.step({"a": 9, "b": 9})
        assert int(inner.received[-1]["a"]) == 9

    @pytest.mark.parametrize("count", [0, -1, 1.5])
    def test_a_count_below_one_or_between_two_steps_is_refused(self, count: int):
        with pytest.raises(ValueError, match=rf"action_repeat\['a'\] must be ≥ 1, got {count}"):
            PerAgentActionRepeatWrapper(ScriptedEnv({}, spaces.Dict({})), {"a": count})

    def test_unknown_uids_are_refused_at_construction_and_at_a_step(self):
        inner = ScriptedEnv({}, spaces.Dict({}))
        with pytest.raises(ValueError, match="ghost"):
            PerAgentActionRepeatWrapper(inner, {"ghost": 2})
        with pytest.raises(ValueError, match="ghost"):
            PerAgentActionRepeatWrapper(inner, {}).step({"ghost": 1})
        assert inner.received == []

    def test_an_action_space_that_is_no_dict_is_refused(self):
        inner = ScriptedEnv({}, spaces.Dict({}))
        inner.action_space = spaces.Discrete(2)  # type: ignore[assignment]
        with pytest.raises(ChamberEnvCompatibilityError, match="PerAgentActionRepeatWrapper"):
            PerAgentActionRepeatWrapper(inner, {})

    def test_changing_a_submitted_array_later_does_not_change_the_held_action(self):
        inner = ScriptedEnv({}, spaces.Dict({}))
        env = PerAgentActionRepeatWrapper(inner, {"a": 2})
        command = np.ones(1)
        env.step({"a": command, "b": 0})
        command[:] = 99.0
        env.step({"a": command, "b": 0})
        assert float(inner.received[1]["a"][0]) == 1.0

    def test_a_uid_may_be_left_out_while_its_action_holds(self):
        inner = ScriptedEnv({}, spaces.Dict({}))
        env = PerAgentActionRepeatWrapper(inner, {"a": 2})
        env.step({"a": 7, "b": 1})
        env.step({"b": 2})
        assert int(inner.received[1]["a"]) == 7
        env.step({"b": 3})
        assert "a" not in inner.received[2]

    @pytest.mark.parametrize(
        ("value", "said"), [([np.nan], "finite"), ([1.0, 2.0], r"shape \(1,\), got \(2,\)"), (["1"], "numbers")]
    )
    def test_an_action_that_would_be_ignored_must_still_be_one(self, value: Any, said: str):
        inner = ScriptedEnv({}, spaces.Dict({}))
        env = PerAgentActionRepeatWrapper(inner, {"a": 3})
        env.step({"a": [1.0], "b": [1.0]})
        for _ in range(5):
            with pytest.raises(ActionError, match=f"action of 'a' must .*{said}"):
                env.step({"a": value, "b": [2.0]})
        for number in (2.0, 3.0, 4.0):
            env.step({"a": np.array([number]), "b": [number]})
        assert [float(action["a"][0]) for action in inner.received] == [1.0, 1.0, 1.0, 4.0]


class TestTextureFilter:
    def test_channels_that_are_not_kept_become_zeros_of_the_same_shape_and_type(self):
        untouched = {"x": np.ones(2, np.float32), "y": np.ones((2, 3), np.uint8)}
        obs = {"agent": {"a": {"x": np.ones(2, np.float32), "y": np.ones((2, 3), np.uint8)}, "b": untouched}}
        env = TextureFilterObsWrapper(ScriptedEnv(obs, channel_space(x=floats(2), y=floats(2, 3))), {"a": ["x"]})
        filtered = env.observation(obs)
        assert filtered["agent"]["a"]["x"] is obs["agent"]["a"]["x"]
        assert filtered["agent"]["a"]["y"].dtype == np.uint8
        np.testing.assert_array_equal(filtered["agent"]["a"]["y"], np.zeros((2, 3)))
        assert filtered["agent"]["b"] is untouched
        assert obs["agent"]["a"]["y"].all(), "the inner observation was changed"

    def test_an_observation_without_robots_is_returned_as_it_is(self):
        env = TextureFilterObsWrapper(ScriptedEnv({}, spaces.Dict({})), {"a": ["x"]})
        obs = {"extra": 1}
        assert env.observation(obs) is obs

    def test_a_tensor_is_blanked_on_its_own_device(self):
        env = TextureFilterObsWrapper(ScriptedEnv({}, spaces.Dict({})), {"a": []})
        blank = env.observation({"agent": {"a": {"x": FakeTensor([1.0, 2.0])}}})["agent"]["a"]["x"]
        assert isinstance(blank, FakeTensor)
        assert blank.values == [0.0, 0.0]

    @pytest.mark.parametrize(("keep", "name"), [({"a": ["z"]}, "'z'"), ({"c": ["x"]}, "'c'")])
    def test_a_name_that_the_space_does_not_have_gives_a_warning(self, keep: dict[str, list[str]], name: str):
        with pytest.warns(UserWarning, match=name):
            TextureFilterObsWrapper(ScriptedEnv({}, channel_space(x=floats(2))), keep)


class TestStateSynthesizer:
    SPACE = channel_space(qvel=floats(3), qpos=floats(1, 2), rgb=spaces.Box(0, 255, (4, 4, 3), np.uint8))

    def test_state_is_the_vector_channels_in_alphabetical_order(self):
        robot = {
            "qvel": np.array([3.0, 4.0, 5.0]),
            "qpos": np.array([[1.0, 2.0]]),
            "rgb": np.zeros((4, 4, 3), np.uint8),
        }
        obs = {"agent": {"a": robot, "b": robot}}
        env = Stage0StateSynthesizer(ScriptedEnv(obs, self.SPACE, uids=("a",)))
        assert list(env.observation_space["agent"].spaces) == ["a"]
        assert env.observation_space["agent"]["a"]["state"].shape == (5,)
        state = env.observation(obs)["agent"]["a"]["state"]
        assert state.dtype == np.float32
        np.testing.assert_array_equal(state, [1.0, 2.0, 3.0, 4.0, 5.0])
        assert "state" not in robot

    def test_a_robot_with_images_only_is_refused(self):
        space = channel_space(rgb=spaces.Box(0, 255, (4, 4, 3), np.uint8))
        with pytest.raises(ChamberEnvCompatibilityError, match="'a'"):
            Stage0StateSynthesizer(ScriptedEnv({}, space))

    def test_a_robot_that_has_a_state_passes_through(self):
        env = Stage0StateSynthesizer(MPECooperativePushEnv())
        obs, _ = env.reset(seed=0)
        assert env.observation_space == env.unwrapped.observation_space
        assert obs["agent"]["ego"]["state"].shape == (10,)

    def test_missing_channels_give_a_shorter_state_down_to_an_empty_one(self):
        env = Stage0StateSynthesizer(ScriptedEnv({}, self.SPACE, uids=("a",)))
        assert env.observation({"agent": {"a": {}}})["agent"]["a"]["state"].shape == (0,)
        assert env.observation({"agent": {"a": 1}})["agent"]["a"] == 1

    @pytest.mark.parametrize("space", [floats(2), spaces.Dict({"agent": floats(2)}), spaces.Dict({})])
    def test_spaces_that_are_no_dicts_are_refused(self, space: spaces.Space[Any]):
        with pytest.raises(TypeError, match="must be a gymnasium"):
            Stage0StateSynthesizer(ScriptedEnv({}, space))


def test_wrappers_compose_around_the_task():
    env: Any = MPECooperativePushEnv()
    env = PerAgentActionRepeatWrapper(env, {"partner": 2})
    env = TextureFilterObsWrapper(env, {"partner": []})
    env = PartnerIdAnnotationWrapper(env, partner_id="0123456789abcdef")
    env = CommShapingWrapper(env, CountingChannel())
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert not obs["agent"]["partner"]["state"].any()
    assert obs["agent"]["ego"]["state"].any()
