"""Shaping wrappers: the term they add, what they read, and what they refuse."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from chamber.envs import make_stage1_pickplace_env
from chamber.envs.cocarry import COCARRY_REWARD_TRANSPORT_PBRS_COEFF, make_cocarry_env
from chamber.envs.cocarry_shaping import CoCarryTransportPBRSWrapper
from chamber.envs.stage1_shaping import Stage1SettleShapingWrapper

GAMMA = 0.99


class Tensor:
    """The part of a tensor that shaping needs; arithmetic with plain arrays is refused, as tensors on a device do."""

    def __init__(self, values: Any, *, dtype: Any = np.float32, device: str = "far") -> None:
        self.values = np.asarray(values, dtype=dtype)
        self.dtype, self.device, self.shape = dtype, device, self.values.shape

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return Tensor(self.values, dtype=self.dtype, device="cpu")

    def numpy(self) -> np.ndarray:
        assert self.device == "cpu"
        return self.values

    def new_tensor(self, values: Any) -> Tensor:
        return Tensor(values, dtype=self.dtype, device=self.device)

    def __add__(self, other: object) -> Tensor:
        assert isinstance(other, Tensor)
        assert other.device == self.device
        return Tensor(self.values + other.values, dtype=self.dtype, device=self.device)


class Walk(gym.Env[Any, Any]):
    """A task whose state follows a script: one entry per step."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(2)
    ego_uid = "ego"

    def __init__(
        self, states: list[Any], *, reward: Any = 0.0, terminated: Any = False, truncated: Any = False
    ) -> None:
        self.states = states
        self.now = 0
        self.outcome = (reward, terminated, truncated)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.now += 1
        return 0, *self.outcome, {"step": self.now}

    def privileged_transport_distance(self) -> Any:
        return self.states[self.now]

    def privileged_settle_state(self) -> Any:
        return self.states[self.now]


def transport(states: list[Any], *, coeff: float = 1.0, **outcome: Any) -> Any:
    return CoCarryTransportPBRSWrapper(Walk(states, **outcome), coeff=coeff, gamma=GAMMA).step(0)


def settling(speed: float, *, distance: float = 0.0, finger: float = 9.0) -> dict[str, np.ndarray]:
    qvel = np.array([[0.1, -speed, 0.0, 0.0, 0.0, 0.0, 0.0, finger, finger]])
    return {"ego_qvel": qvel, "cube_pos": np.array([[distance, 0.0, 0.1]]), "goal_pos": np.array([[0.0, 0.0, 0.1]])}


def settle(env: Any, **changes: Any) -> Stage1SettleShapingWrapper:
    return Stage1SettleShapingWrapper(
        env, **{"alpha": 0.5, "qvel_cap": 1.0, "gamma": GAMMA, "ego_uid": "ego", **changes}
    )


class TestTransport:
    def test_documented_terms(self):
        assert transport([[0.30], [0.20]])[1] == pytest.approx(0.102)
        assert transport([[0.30], [0.20]], terminated=True)[1] == pytest.approx(0.30)

    def test_a_cut_episode_keeps_its_final_potential(self):
        assert transport([[0.30], [0.20]], truncated=True)[1] == pytest.approx(0.102)

    def test_everything_but_the_reward_passes(self):
        assert transport([[0.3], [0.3]], reward=1.0, truncated=True)[2:] == (False, True, {"step": 1})

    @given(
        distances=st.lists(st.floats(0.0, 2.0), min_size=2, max_size=12),
        coeff=st.floats(0.1, 10.0),
        gamma=st.floats(0.0, 1.0),
    )
    def test_the_discounted_sum_depends_on_the_first_state_alone(
        self, distances: list[float], coeff: float, gamma: float
    ):
        env = Walk([[distance] for distance in distances])
        shaped = CoCarryTransportPBRSWrapper(env, coeff=coeff, gamma=gamma)
        total = 0.0
        for step in range(len(distances) - 1):
            env.outcome = (0.0, step == len(distances) - 2, False)
            total += gamma**step * shaped.step(0)[1]
        assert total == pytest.approx(coeff * distances[0], abs=1e-9)

    def test_copies_are_shaped_each_for_itself(self):
        reward = np.array([1.0, 2.0, 3.0], dtype=np.float32)
        shaped = transport(
            [np.array([0.3, 0.3, 0.3]), np.array([0.2, 0.2, 0.3])], reward=reward, terminated=np.array([0, 1, 0], bool)
        )[1]
        assert shaped.dtype == np.float32
        np.testing.assert_allclose(shaped, [1.102, 2.3, 3.003], atol=1e-6)
        np.testing.assert_array_equal(reward, [1.0, 2.0, 3.0])

    def test_tensors_stay_tensors_of_their_type_and_device(self):
        shaped = transport(
            [Tensor([0.3, 0.3]), Tensor([0.2, 0.2])],
            reward=Tensor([1.0, 2.0], dtype=np.float16),
            terminated=Tensor([False, True], dtype=bool),
        )[1]
        assert isinstance(shaped, Tensor)
        assert (shaped.dtype, shaped.device) == (np.float16, "far")
        np.testing.assert_allclose(shaped.values, [1.102, 2.3], atol=2e-3)

    @pytest.mark.parametrize("reward", [1.0, 1, np.float32(1.0)])
    def test_numbers_stay_numbers(self, reward: Any):
        shaped = transport([[0.30], [0.20]], reward=reward)[1]
        assert type(shaped) is float
        assert shaped == pytest.approx(1.102)

    @pytest.mark.parametrize("coeff", [0.0, -1.0, np.nan, np.inf])
    def test_a_bad_coefficient_is_refused(self, coeff: float):
        with pytest.raises(ValueError, match="coeff must be finite and > 0"):
            transport([[0.3]], coeff=coeff)

    @pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan])
    def test_a_bad_discount_is_refused(self, gamma: float):
        with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\]"):
            CoCarryTransportPBRSWrapper(Walk([]), coeff=1.0, gamma=gamma)

    def test_an_environment_that_hides_its_distance_is_refused(self):
        class Closed(Walk):
            privileged_transport_distance = None  # type: ignore[assignment]

        with pytest.raises(TypeError, match="privileged_transport_distance"):
            CoCarryTransportPBRSWrapper(Closed([]), coeff=1.0, gamma=GAMMA)

    def test_it_reaches_through_wrappers_and_shows_what_is_inside(self):
        env = Walk([[0.30], [0.20]])
        shaped = CoCarryTransportPBRSWrapper(gym.Wrapper(gym.Wrapper(env)), coeff=2.0, gamma=GAMMA)
        assert shaped.ego_uid == "ego"
        assert shaped.step(0)[1] == pytest.approx(0.204)


class TestSettle:
    def test_documented_term(self):
        env = Walk([settling(2.0), settling(0.4)])
        assert settle(env).step(0)[1] == pytest.approx(0.302)

    def test_fingers_do_not_count_and_no_speed_counts_before_the_cube_is_placed(self):
        still = settle(Walk([settling(0.0), settling(0.0)]))
        assert still.potential() == pytest.approx(-0.05)
        away = settle(Walk([settling(2.0, distance=0.0251)]))
        assert away.potential() == 0.0
        near = settle(Walk([settling(2.0, distance=0.0249)]))
        assert near.potential() == -0.5

    def test_copies_and_tensors(self):
        both = {name: np.vstack([settling(2.0)[name], settling(0.4, distance=1.0)[name]]) for name in settling(0.0)}
        env = Walk([{name: Tensor(value, dtype=np.float64) for name, value in both.items()}])
        np.testing.assert_allclose(settle(env).potential(), [-0.5, 0.0])

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"alpha": 0.0}, "alpha must be finite and > 0"),
            ({"qvel_cap": -1.0}, "qvel_cap"),
            ({"gamma": 2.0}, "gamma"),
            ({"ego_uid": "other"}, "ego_uid is 'other', but the ego of the environment is 'ego'"),
        ],
    )
    def test_bad_arguments_are_refused(self, changes: dict[str, Any], message: str):
        with pytest.raises(ValueError, match=message):
            settle(Walk([]), **changes)

    def test_another_idea_of_placed_is_refused(self):
        env = Walk([])
        env._goal_thresh = 0.025 + 1e-10  # type: ignore[attr-defined]
        settle(gym.Wrapper(env))
        env._goal_thresh = 0.026  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match=r"_goal_thresh is 0\.026"):
            settle(gym.Wrapper(env))

    def test_an_environment_that_hides_its_state_is_refused(self):
        class Closed(Walk):
            privileged_settle_state = None  # type: ignore[assignment]

        with pytest.raises(TypeError, match="privileged_settle_state"):
            settle(Closed([]))

    def test_a_state_without_numbers_is_refused(self):
        env = Walk([{**settling(0.0), "cube_pos": "here"}])
        with pytest.raises(TypeError, match=r"privileged_settle_state.*str"):
            settle(env).potential()


class TestOnTheRig:
    def test_co_carry_is_shaped_by_how_far_the_bar_is_from_its_goal_now(self):
        env = make_cocarry_env(num_envs=2, limits="documented")
        plain = make_cocarry_env(num_envs=2, limits="documented")
        shaped = CoCarryTransportPBRSWrapper(env, coeff=COCARRY_REWARD_TRANSPORT_PBRS_COEFF, gamma=GAMMA)
        shaped.reset(seed=0)
        plain.reset(seed=0)
        rng = np.random.default_rng(1)
        for _ in range(5):
            action = {uid: rng.uniform(-1.0, 1.0, (2, 8)) for uid in env.agent_uids}
            before = env.privileged_transport_distance()
            _, reward, *_ = shaped.step(action)
            _, unshaped, *_ = plain.step(action)
            expected = before - GAMMA * env.privileged_transport_distance()
            np.testing.assert_allclose(reward - unshaped, expected, atol=1e-12)
            assert np.abs(expected).min() > 0.0

    def test_pick_place_is_shaped_through_its_wrappers(self):
        env = make_stage1_pickplace_env(condition_id="stage1_pickplace_panda_only_mappo_shared_param")
        shaped = Stage1SettleShapingWrapper(env, alpha=0.5, qvel_cap=1.0, gamma=GAMMA, ego_uid="panda_wristcam")
        shaped.reset(seed=0)
        action = {uid: np.ones(8) for uid in shaped.agent_uids}
        reward = shaped.step(action)[1]
        assert type(reward) is float
        assert shaped.potential() == 0.0
        with pytest.raises(ValueError, match="ego_uid"):
            Stage1SettleShapingWrapper(env, alpha=0.5, qvel_cap=1.0, gamma=GAMMA, ego_uid="panda_partner")
