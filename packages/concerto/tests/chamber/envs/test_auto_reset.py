"""Copies that are done begin anew, and attributes are seen through wrappers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from chamber.envs._forwarding import AttributeForwarding, find_attribute
from chamber.envs.cocarry import make_cocarry_env
from chamber.envs.stage1_vector import Stage1AutoResetWrapper


class Tensor:
    """The part of a tensor that carries indices: its own kind of zeros, turned to integers and filled."""

    def __init__(self, values: Any, *, device: str = "far") -> None:
        self.values, self.device = np.asarray(values), device

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.values

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.zeros(shape, dtype=self.values.dtype), device=self.device)

    def int(self) -> Tensor:
        return Tensor(self.values.astype(np.int32), device=self.device)

    def __setitem__(self, place: int, value: int) -> None:
        self.values[place] = value


class Copies(gym.Env[Any, Any]):
    """Steps give observation "before", resets give "after" and remember what they were asked."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(2)

    def __init__(self, *, terminated: Any, truncated: Any, leaf: Any = None) -> None:
        self.flags = (terminated, truncated)
        self.leaf = leaf
        self.asked: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.asked.append((seed, options))
        return {"when": "after", "nested": {"leaf": self.leaf}}, {"from": "reset"}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        return {"when": "before", "nested": {"leaf": self.leaf}}, np.array([1.0, 2.0]), *self.flags, {"from": "step"}


class TestAutoReset:
    def test_only_copies_that_are_done_are_reset(self):
        flags = np.array([False, True]), np.array([False, False])
        env = Copies(terminated=flags[0], truncated=flags[1])
        obs, reward, terminated, truncated, info = Stage1AutoResetWrapper(env).step(0)
        assert obs["when"] == "after"
        assert info["from"] == "step"
        assert info["final_observation"]["when"] == "before"
        np.testing.assert_array_equal(reward, [1.0, 2.0])
        assert terminated is flags[0]
        assert truncated is flags[1]
        ((seed, options),) = env.asked
        assert seed is None
        assert list(options) == ["env_idx"]
        np.testing.assert_array_equal(options["env_idx"], [1])
        assert options["env_idx"].dtype == np.int32

    def test_an_end_of_either_kind_counts(self):
        env = Copies(terminated=np.array([True, False, False]), truncated=np.array([False, False, True]))
        Stage1AutoResetWrapper(env).step(0)
        np.testing.assert_array_equal(env.asked[0][1]["env_idx"], [0, 2])

    def test_nothing_happens_while_nobody_is_done(self):
        env = Copies(terminated=np.array([False, False]), truncated=np.array([False, False]))
        obs, _, _, _, info = Stage1AutoResetWrapper(env).step(0)
        assert env.asked == []
        assert obs["when"] == "before"
        assert info == {"from": "step"}

    def test_a_single_environment_is_its_only_copy(self):
        env = Copies(terminated=False, truncated=True)
        Stage1AutoResetWrapper(env).step(0)
        np.testing.assert_array_equal(env.asked[0][1]["env_idx"], [0])

    @pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
    def test_observations_with_a_tensor_get_indices_on_its_device(self, dtype: Any):
        done = np.zeros(300, dtype=bool)
        done[[3, 299]] = True
        env = Copies(
            terminated=Tensor(done),
            truncated=Tensor(np.zeros(300, dtype=bool)),
            leaf=Tensor(np.zeros(300, dtype=dtype)),
        )
        Stage1AutoResetWrapper(env).step(0)
        indices = env.asked[0][1]["env_idx"]
        assert isinstance(indices, Tensor)
        assert indices.device == "far"
        assert indices.values.dtype == np.int32
        np.testing.assert_array_equal(indices.values, [3, 299])

    def test_a_rig_of_copies_goes_on_where_single_environments_do(self):
        n, horizon = 3, 4
        alone = [make_cocarry_env(episode_length=horizon, root_seed=1, limits="documented") for _ in range(n)]
        together = Stage1AutoResetWrapper(
            make_cocarry_env(episode_length=horizon, root_seed=1, num_envs=n, limits="documented")
        )
        obs, _ = together.reset(seed=5)
        for place, env in enumerate(alone):
            env.reset(seed=5 + place)
        together.unwrapped.reset(seed=[11], options={"env_idx": [1]})  # so that copies do not end together
        alone[1].reset(seed=11)
        for env, done_steps in zip(alone, (2, 0, 1), strict=True):
            env.elapsed_steps[:] = done_steps
        together.unwrapped.elapsed_steps[:] = [2, 0, 1]
        rng = np.random.default_rng(0)
        n_resets = 0
        for _ in range(10):
            action = {uid: rng.uniform(-1, 1, (n, 8)) for uid in together.agent_uids}
            obs, _, _, truncated, info = together.step(action)
            for place, env in enumerate(alone):
                expected, _, _, is_cut, _ = env.step({uid: value[place] for uid, value in action.items()})
                assert truncated[place] == is_cut
                if is_cut:
                    final = info["final_observation"]["extra"]["bar_pose"][place]
                    assert final.tobytes() == expected["extra"]["bar_pose"][0].tobytes()
                    expected, _ = env.reset()
                    n_resets += 1
                for name, value in expected["extra"].items():
                    assert obs["extra"][name][place].tobytes() == value[0].tobytes(), (name, place)
        assert n_resets == 7


class Inner(gym.Env[Any, Any]):
    _private = 3

    def __init__(self) -> None:
        self.nothing = None

    def __deepcopy__(self, memo: dict[int, Any]) -> str:
        return "a copy of the inner one"


class Forwarding(AttributeForwarding, gym.Wrapper[Any, Any, Any, Any]):
    own = "wrapper"


class TestForwarding:
    def test_unknown_attributes_are_those_of_the_inner_environment_through_any_wrapper(self):
        wrapped = Forwarding(gym.Wrapper(Inner()))
        assert (wrapped.own, wrapped._private, wrapped.nothing) == ("wrapper", 3, None)
        with pytest.raises(AttributeError, match="nobody"):
            wrapped.nobody  # noqa: B018

    def test_env_itself_and_names_of_protocols_are_not_forwarded(self):
        with pytest.raises(AttributeError, match="'Forwarding' object has no attribute 'env'"):
            Forwarding.__new__(Forwarding).env  # noqa: B018
        wrapped = Forwarding(Inner())
        with pytest.raises(AttributeError, match="__deepcopy__"):
            wrapped.__deepcopy__  # noqa: B018
        assert type(copy.copy(wrapped)) is Forwarding
        assert pickle.loads(pickle.dumps(Forwarding(gym.Wrapper(gym.Env())))).own == "wrapper"

    def test_find_attribute_gives_none_for_what_nobody_has(self):
        env = gym.Wrapper(Inner())
        assert find_attribute(env, "_private") == 3
        assert find_attribute(env, "nothing") is None
        assert find_attribute(env, "nobody") is None
        assert find_attribute(3, "nobody") is None
        assert find_attribute(3, "real") == 3
