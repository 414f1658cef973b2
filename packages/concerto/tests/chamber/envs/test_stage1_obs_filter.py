"""The wrappers that make states for learners and blank what vision-only must not see, on written observations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from chamber.envs.stage1_obs_filter import Stage1ASStateSynthesizer, Stage1OMChannelFilter

EGO = "panda_wristcam"
HOMOGENEOUS = "stage1_pickplace_panda_only_mappo_shared_param"
HETEROGENEOUS = "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent"
VISION_ONLY = "stage1_pickplace_vision_only"
VISION_AND_FORCE = "stage1_pickplace_vision_plus_force_torque_plus_proprio"
PARTNERS = {HOMOGENEOUS: ("panda_partner", 9), HETEROGENEOUS: ("fetch", 15)}
EXTRAS = {"cube_pose": 7, "goal_pos": 3, "tcp_pose": 7, "cube_to_tcp_pos": 3, "force_torque": 6}


class WrittenEnv(gym.Env[Any, Any]):
    """Gives positive numbers of its own for everything, in a space made from them."""

    def __init__(self, condition_id: str | None = HOMOGENEOUS, *, copies: int = 1) -> None:
        self.condition_id = condition_id
        partner, joints = PARTNERS.get(condition_id or "", ("fetch", 15))
        self.rng = np.random.default_rng(0)

        def numbers(size: int) -> Any:
            return self.rng.uniform(0.1, 1.0, (copies, size)).astype(np.float32)

        self.observation: dict[str, Any] = {
            "agent": {
                EGO: {"qpos": numbers(9), "qvel": numbers(9)},
                partner: {"qpos": numbers(joints), "qvel": numbers(joints)},
            },
            "extra": {name: numbers(size) for name, size in EXTRAS.items()},
            "sensor_data": {"camera": {"rgb": np.ones((1, 4, 4, 3), np.uint8)}},
            "sensor_param": {"camera": {"fov": np.ones(1, np.float32)}},
        }
        self.observation_space = space_of(self.observation)
        self.action_space = spaces.Dict({})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation, 0.0, False, False, {}

    def a_method_of_the_task(self) -> str:
        return "reached"


def space_of(value: Any) -> spaces.Space[Any]:
    if isinstance(value, dict):
        return spaces.Dict({name: space_of(part) for name, part in value.items()})
    return spaces.Box(-np.inf, np.inf, value.shape, np.float32) if value.dtype == np.float32 else spaces.Discrete(2)


def without(env: WrittenEnv, *path: str) -> WrittenEnv:
    """The same environment, one entry of whose space is gone."""
    parent: Any = env.observation_space
    for key in path[:-1]:
        parent = parent[key]
    del parent.spaces[path[-1]]
    return env


class TestStateSynthesizer:
    @pytest.mark.parametrize(
        ("condition", "ego_size", "partner_size"), [(HOMOGENEOUS, 53, 18), (HETEROGENEOUS, 65, 30)]
    )
    def test_states_have_the_documented_sizes(self, condition: str, ego_size: int, partner_size: int) -> None:
        env = Stage1ASStateSynthesizer(WrittenEnv(condition))
        obs, _ = env.reset()
        partner, _ = PARTNERS[condition]
        for uid, size in ((EGO, ego_size), (partner, partner_size)):
            assert env.observation_space["agent"][uid]["state"] == spaces.Box(-np.inf, np.inf, (size,), np.float32)
            assert env.observation_space["agent"][uid]["state"].contains(obs["agent"][uid]["state"])

    def test_several_copies_have_a_row_each(self) -> None:
        env = Stage1ASStateSynthesizer(WrittenEnv(HETEROGENEOUS, copies=4))
        obs, _ = env.reset()
        assert env.observation_space["agent"][EGO]["state"].shape == (4, 65)
        assert obs["agent"][EGO]["state"].shape == (4, 65)

    def test_the_ego_state_has_its_parts_at_their_places(self) -> None:
        inner = WrittenEnv(HOMOGENEOUS)
        obs, _ = Stage1ASStateSynthesizer(inner).reset()
        state, agents, extra = obs["agent"][EGO]["state"], inner.observation["agent"], inner.observation["extra"]
        for start, stop, part in (
            (0, 9, agents[EGO]["qpos"]),
            (9, 18, agents[EGO]["qvel"]),
            (18, 27, agents["panda_partner"]["qpos"]),
            (27, 36, agents["panda_partner"]["qvel"]),
            (36, 43, extra["cube_pose"]),
            (43, 46, extra["goal_pos"]),
            (46, 53, extra["tcp_pose"]),
        ):
            np.testing.assert_array_equal(state[start:stop], part[0])
        partner_state = obs["agent"]["panda_partner"]["state"]
        np.testing.assert_array_equal(partner_state, state[18:36])
        assert obs["agent"][EGO]["qpos"] is agents[EGO]["qpos"]

    def test_the_sign_of_a_quaternion_does_not_reach_the_state(self) -> None:
        inner = WrittenEnv(HOMOGENEOUS)
        env = Stage1ASStateSynthesizer(inner)
        before = env.reset()[0]["agent"][EGO]["state"]
        for pose in ("cube_pose", "tcp_pose"):
            inner.observation["extra"][pose][:, 3:] *= -1.0
        np.testing.assert_array_equal(env.reset()[0]["agent"][EGO]["state"], before)

    @pytest.mark.parametrize("condition", [VISION_ONLY, VISION_AND_FORCE, "another task", None])
    def test_other_conditions_get_their_observation_back_untouched(self, condition: str | None) -> None:
        inner = WrittenEnv(condition)
        env = Stage1ASStateSynthesizer(inner)
        assert env.observation_space == inner.observation_space
        assert env.reset()[0] is inner.observation

    @pytest.mark.parametrize(
        "path",
        [
            ("agent",),
            ("agent", EGO),
            ("agent", "panda_partner"),
            ("agent", EGO, "qvel"),
            ("agent", "panda_partner", "qpos"),
            ("extra",),
            ("extra", "cube_pose"),
            ("extra", "goal_pos"),
            ("extra", "tcp_pose"),
        ],
    )
    def test_a_space_without_a_part_of_the_state_is_refused_by_its_name(self, path: tuple[str, ...]) -> None:
        with pytest.raises(TypeError, match=r"\.".join(path)):
            Stage1ASStateSynthesizer(without(WrittenEnv(), *path))

    def test_a_pose_of_six_numbers_is_refused_at_construction(self) -> None:
        inner = WrittenEnv()
        inner.observation_space["extra"].spaces["cube_pose"] = spaces.Box(-1.0, 1.0, (1, 6), np.float32)
        with pytest.raises(TypeError, match=r"extra\.cube_pose must have trailing dimension 7"):
            Stage1ASStateSynthesizer(inner)

    @pytest.mark.parametrize("path", [("extra",), ("agent", "panda_partner", "qvel"), ("extra", "goal_pos")])
    def test_an_observation_without_a_part_of_the_state_is_refused(self, path: tuple[str, ...]) -> None:
        inner = WrittenEnv()
        env = Stage1ASStateSynthesizer(inner)
        parent = inner.observation
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = None
        with pytest.raises(TypeError, match=r"\.".join(path)):
            env.reset()

    def test_fields_of_different_copies_are_refused_with_their_shapes(self) -> None:
        inner = WrittenEnv()
        env = Stage1ASStateSynthesizer(inner)
        inner.observation["extra"]["goal_pos"] = np.zeros((2, 3), np.float32)
        with pytest.raises(TypeError, match=r"extra\.cube_pose=\(1, 7\), extra\.goal_pos=\(2, 3\)"):
            env.reset()

    def test_an_observation_whose_robots_are_no_dict_comes_back_as_it_is(self) -> None:
        env = Stage1ASStateSynthesizer(WrittenEnv())
        obs = {"agent": 1}
        assert env.observation(obs) is obs


class FakeTensor:
    """Zeros know their device; an array made of it would not."""

    def __init__(self, values: Any, device: str) -> None:
        self.values, self.device, self.shape = np.asarray(values), device, np.shape(values)

    def new_zeros(self, shape: Any) -> FakeTensor:
        return FakeTensor(np.zeros(shape, self.values.dtype), self.device)


class TestChannelFilter:
    def test_vision_only_sees_pictures_the_hand_and_the_goal_and_nothing_else(self) -> None:
        inner = WrittenEnv(VISION_ONLY)
        env = Stage1OMChannelFilter(inner)
        obs, _ = env.reset()
        for uid in (EGO, "fetch"):
            for name, value in obs["agent"][uid].items():
                original = inner.observation["agent"][uid][name]
                assert not value.any()
                assert value.shape == original.shape
                assert value.dtype == original.dtype
                assert original.all()
        for name in ("cube_pose", "cube_to_tcp_pos", "force_torque"):
            assert not obs["extra"][name].any()
        for name in ("tcp_pose", "goal_pos"):
            assert obs["extra"][name] is inner.observation["extra"][name]
        assert obs["sensor_data"] is inner.observation["sensor_data"]
        assert obs["sensor_param"] is inner.observation["sensor_param"]
        assert env.observation_space == inner.observation_space

    def test_tensors_stay_tensors_on_their_device_and_what_has_no_shape_stays(self) -> None:
        env = Stage1OMChannelFilter(WrittenEnv(VISION_ONLY))
        obs = {"agent": {EGO: {"qpos": FakeTensor([[1.0, 2.0]], "gpu"), "note": 3}}}
        filtered = env.observation(obs)["agent"][EGO]
        assert isinstance(filtered["qpos"], FakeTensor)
        assert filtered["qpos"].device == "gpu"
        assert not filtered["qpos"].values.any()
        assert filtered["note"] == 3

    @pytest.mark.parametrize("condition", [HOMOGENEOUS, HETEROGENEOUS, VISION_AND_FORCE, None])
    def test_other_conditions_get_their_observation_back_untouched(self, condition: str | None) -> None:
        inner = WrittenEnv(condition)
        env = Stage1OMChannelFilter(inner)
        assert env.condition_id == condition
        assert env.reset()[0] is inner.observation


@pytest.mark.parametrize("wrapper", [Stage1ASStateSynthesizer, Stage1OMChannelFilter])
class TestBoth:
    def test_a_space_that_is_no_dict_is_refused(self, wrapper: Any) -> None:
        inner = WrittenEnv()
        inner.observation_space = spaces.Box(-1.0, 1.0, (2,))
        with pytest.raises(TypeError, match=f"{wrapper.__name__}: the observation space"):
            wrapper(inner)

    def test_unknown_attributes_are_those_of_the_task_also_through_a_wrapper(self, wrapper: Any) -> None:
        env = wrapper(gym.wrappers.RecordEpisodeStatistics(WrittenEnv()))
        assert env.a_method_of_the_task() == "reached"
        assert env.condition_id == HOMOGENEOUS
        with pytest.raises(AttributeError):
            _ = env.nobody_has_this

    def test_the_condition_is_read_once_at_construction(self, wrapper: Any) -> None:
        inner = WrittenEnv(HOMOGENEOUS)
        env = wrapper(inner)
        before = env.reset()[0]
        inner.condition_id = VISION_ONLY
        after = env.reset()[0]
        assert ("state" in after["agent"][EGO]) == ("state" in before["agent"][EGO])
        assert after["agent"][EGO]["qpos"].any()
