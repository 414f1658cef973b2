"""What each partner does with what it sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.envs import MPECooperativePushEnv
from chamber.envs.mpe_cooperative_push import DT
from chamber.partners import FrozenPartner, PartnerSpec, load_partner

coordinate = st.floats(-2.0, 2.0)
points = st.tuples(coordinate, coordinate)


def partner(key: str, **extra: str) -> FrozenPartner:
    return load_partner(PartnerSpec(key, 0, None, None, extra))


class Tensor:
    """What a partner needs of a tensor that lives on a device."""

    def __init__(self, values: object) -> None:
        self._values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self._values


class TestHeuristic:
    def test_documented_actions(self):
        heuristic = partner("scripted_heuristic", target_xy="0.5,-3", action_dim="4")
        nothing = heuristic.act({})
        assert nothing.dtype == np.float32
        np.testing.assert_allclose(nothing, [0.5, -1.0, 0.0, 0.0], atol=1e-6)
        batch = heuristic.act({"agent": {"": {"state": np.array([[0.0, 0.0], [1.0, 1.0]])}}})
        assert batch.shape == (2, 4)
        np.testing.assert_allclose(batch[1], [-0.5, -1.0, 0.0, 0.0], atol=1e-6)
        heard = {"comm": {"pose": {"": {"xyz": (0.2, 0.0, 0.0)}}}, "agent": {"": {"state": np.array([9.0, 9.0])}}}
        np.testing.assert_allclose(heuristic.act(heard), [0.3, -1.0, 0.0, 0.0], atol=1e-6)

    @pytest.mark.parametrize("state", [np.array([0.2, 0.1]), np.array([[0.2, 0.1, 7.0]]), Tensor([0.2, 0.1])])
    def test_own_state_is_read_as_array_single_row_or_tensor(self, state: object):
        heuristic = partner("scripted_heuristic", uid="fetch", target_xy="0.5,0.5")
        action = heuristic.act({"agent": {"fetch": {"state": state}}})
        np.testing.assert_allclose(action, [0.3, 0.4], atol=1e-6)

    def test_a_batch_of_tensors_is_answered_row_by_row(self):
        action = partner("scripted_heuristic").act({"agent": {"": {"state": Tensor(np.full((3, 5), 0.25))}}})
        np.testing.assert_allclose(action, np.full((3, 2), -0.25))

    def test_a_position_that_is_an_array_is_heard(self):
        action = partner("scripted_heuristic").act({"comm": {"pose": {"": {"xyz": np.array([0.5, -0.5, 0.0])}}}})
        np.testing.assert_allclose(action, [-0.5, 0.5])

    def test_missing_positions_are_counted_until_reset(self):
        heuristic = partner("scripted_heuristic")
        heuristic.act({})
        heuristic.act({"agent": {"": {"state": np.zeros(4)}}})
        assert heuristic.n_missing_positions == 1  # type: ignore[attr-defined]
        heuristic.reset(seed=4)
        assert heuristic.n_missing_positions == 0  # type: ignore[attr-defined]

    @pytest.mark.parametrize("target", ["1", "1,2,3", "a,b", "nan,0", "inf,0", ""])
    def test_a_bad_target_is_refused(self, target: str):
        with pytest.raises(ValueError, match="target_xy must be exactly 2"):
            partner("scripted_heuristic", target_xy=target)

    @pytest.mark.parametrize("dim", ["1", "0", "-2", "2.5", "x"])
    def test_a_bad_action_dimension_is_refused(self, dim: str):
        with pytest.raises(ValueError, match=r"action_dim must be a positive int ≥ 2; got "):
            partner("scripted_heuristic", action_dim=dim)


class TestAblation:
    def test_it_gives_zeros(self):
        action = partner("partner_ablated_zero", action_dim="5").act({"agent": 3})
        assert action.dtype == np.float32
        np.testing.assert_array_equal(action, np.zeros(5))

    @pytest.mark.parametrize("extra", [{}, *({"action_dim": bad} for bad in ("0", "-2", "1.5", "x"))])
    def test_a_bad_action_dimension_is_refused(self, extra: dict[str, str]):
        with pytest.raises(ValueError, match="action_dim must be a positive int; got "):
            partner("partner_ablated_zero", **extra)


def view(landmarks: list[tuple[float, float]], other: tuple[float, float]) -> dict[str, object]:
    state = np.concatenate([np.zeros(4), np.ravel(landmarks), other])
    return {"agent": {"partner": {"state": state}}}


class TestPushPartners:
    @given(first=points, second=points, other=points)
    def test_commands_stay_in_the_box_and_point_straight_at_the_goal(
        self, first: tuple[float, float], second: tuple[float, float], other: tuple[float, float]
    ):
        command = partner("push_pursuer").act(view([first, second], other)).astype(np.float64)
        assert np.abs(command).max() <= 1.0
        cross = command[0] * other[1] - command[1] * other[0]
        assert abs(cross) <= 1e-6
        assert command @ np.array(other) >= -1e-6

    def test_a_near_goal_is_reached_in_one_step(self):
        command = partner("push_pursuer").act(view([(1.0, 0.0), (0.0, 1.0)], (0.03, -0.04)))
        np.testing.assert_allclose(command * DT, [0.03, -0.04], atol=1e-8)

    def test_the_cooperative_one_takes_the_landmark_farther_from_the_ego(self):
        near_first = view([(1.0, 0.0), (-1.0, 0.0)], (0.9, 0.0))
        np.testing.assert_allclose(partner("push_cooperative").act(near_first), [-1.0, 0.0])
        near_second = view([(1.0, 0.0), (-1.0, 0.0)], (-0.9, 0.0))
        np.testing.assert_allclose(partner("push_cooperative").act(near_second), [1.0, 0.0])

    @given(other=points)
    def test_the_stubborn_one_does_not_care_where_the_ego_is(self, other: tuple[float, float]):
        seen = view([(1.0, 0.0), (0.0, -1.0)], other)
        np.testing.assert_allclose(partner("push_stubborn").act(seen), [1.0, 0.0])
        np.testing.assert_allclose(partner("push_stubborn", landmark="1").act(seen), [0.0, -1.0])

    @pytest.mark.parametrize("key", ["push_cooperative", "push_pursuer", "push_stubborn"])
    def test_speed_limit_is_kept(self, key: str):
        command = partner(key, speed_limit="0.25").act(view([(1.0, 1.0), (1.0, -1.0)], (1.0, 0.5)))
        assert np.abs(command).max() == pytest.approx(0.25)

    @pytest.mark.parametrize(
        ("extra", "name"),
        [
            ({"lndmark": "1"}, "unknown parameter 'lndmark'"),
            ({"landmark": "2"}, "landmark"),
            ({"dt": "0"}, "dt"),
            ({"speed_limit": "nan"}, "speed_limit"),
        ],
    )
    def test_bad_parameters_are_refused_by_name(self, extra: dict[str, str], name: str):
        with pytest.raises(ValueError, match=name):
            partner("push_stubborn", **extra)

    def test_an_observation_without_its_state_is_refused(self):
        with pytest.raises(ValueError, match="'partner'"):
            partner("push_pursuer").act({"agent": {"ego": {"state": np.zeros(10)}}})

    @pytest.mark.parametrize("key", ["push_cooperative", "push_pursuer", "push_stubborn"])
    def test_equal_observations_give_equal_actions_with_no_memory(self, key: str):
        env = MPECooperativePushEnv()
        first, second = partner(key), partner(key)
        obs, _ = env.reset(seed=2)
        for _ in range(20):
            action = first.act(obs)
            assert action.dtype == np.float32
            np.testing.assert_array_equal(action, partner(key).act(obs))
            obs, *_ = env.step({"ego": [0.3, -0.2], "partner": action})
        first.reset(seed=1)
        np.testing.assert_array_equal(first.act(obs), second.act(obs))
