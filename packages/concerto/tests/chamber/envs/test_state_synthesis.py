"""State vectors from lists of fields, on observations written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chamber.envs._state_synthesis import StateField, StateSynthesizer, pose_field

JOINTS = StateField(("agent", "a", "qpos"))
GOAL = StateField(("extra", "goal_pos"), size=3)


class Tensor:
    """What a tensor of a learning library has: no ``__array__`` before ``detach`` and ``cpu``."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Any:
        return self._values


def box(*shape: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def space(*, qpos: Any = None, goal: Any = None) -> spaces.Dict:
    return spaces.Dict(
        {
            "agent": spaces.Dict({"a": spaces.Dict({"qpos": qpos or box(1, 2)}), "b": box(4)}),
            "extra": spaces.Dict({"goal_pos": goal or box(1, 3)}),
        }
    )


def observation(qpos: Any, goal: Any) -> dict[str, Any]:
    return {"agent": {"a": {"qpos": qpos}, "b": "untouched"}, "extra": {"goal_pos": goal}}


def synthesizer(**options: Any) -> StateSynthesizer:
    return StateSynthesizer(space(), {"a": [JOINTS, GOAL]}, owner="Owner", **options)


def test_a_state_is_its_fields_in_order_and_nothing_else_changes() -> None:
    obs = observation(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]]))
    result = synthesizer()(obs)
    state = result["agent"]["a"]["state"]
    assert state.dtype == np.float32
    np.testing.assert_array_equal(state, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert result["agent"]["a"]["qpos"] is obs["agent"]["a"]["qpos"]
    assert result["agent"]["b"] == "untouched"
    assert "state" not in obs["agent"]["a"]


@pytest.mark.parametrize("kind", [np.asarray, list, Tensor])
def test_leaves_may_be_arrays_lists_or_tensors_with_or_without_a_batch_axis(kind: Any) -> None:
    obs = observation(kind([1.0, 2.0]), kind([[3.0, 4.0, 5.0]]))
    np.testing.assert_array_equal(synthesizer()(obs)["agent"]["a"]["state"], [1.0, 2.0, 3.0, 4.0, 5.0])


def test_several_copies_give_one_row_each_and_the_space_says_so() -> None:
    wide = StateSynthesizer(space(qpos=box(4, 2), goal=box(4, 3)), {"a": [JOINTS, GOAL]}, owner="Owner")
    assert wide.observation_space["agent"]["a"]["state"].shape == (4, 5)
    state = wide(observation(np.arange(8.0).reshape(4, 2), np.zeros((4, 3))))["agent"]["a"]["state"]
    assert state.shape == (4, 5)
    np.testing.assert_array_equal(state[3, :2], [6.0, 7.0])


def test_an_adapted_field_has_the_width_that_its_function_gives() -> None:
    doubled = StateField(("agent", "a", "qpos"), adapt=lambda rows: np.concatenate([rows, -rows], axis=1))
    made = StateSynthesizer(space(), {"a": [doubled, GOAL]}, owner="Owner")
    assert made.observation_space["agent"]["a"]["state"].shape == (7,)
    state = made(observation(np.array([[1.0, 2.0]]), np.zeros((1, 3))))["agent"]["a"]["state"]
    np.testing.assert_array_equal(state[:4], [1.0, 2.0, -1.0, -2.0])


def test_bounds_are_kept_only_when_asked_for() -> None:
    narrow = space(qpos=spaces.Box(-1.0, 2.0, (1, 2), np.float32))
    kept = StateSynthesizer(narrow, {"a": [JOINTS]}, owner="Owner", keeps_bounds=True)
    assert kept.observation_space["agent"]["a"]["state"] == spaces.Box(-1.0, 2.0, (2,), np.float32)
    free = StateSynthesizer(narrow, {"a": [JOINTS]}, owner="Owner")
    assert free.observation_space["agent"]["a"]["state"] == box(2)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (box(2), "observation space"),
        (spaces.Dict({"extra": spaces.Dict({"goal_pos": box(3)})}), "agent"),
        (spaces.Dict({"agent": spaces.Dict({"b": box(2)})}), "agent.a"),
        (space(qpos=spaces.Discrete(3)), "agent.a.qpos"),
        (space(qpos=box(1, 2, 2)), "agent.a.qpos"),
        (space(goal=box(1, 4)), "extra.goal_pos"),
        (spaces.Dict({"agent": spaces.Dict({"a": spaces.Dict({"qpos": box(2)})})}), "extra"),
        (
            spaces.Dict({"agent": spaces.Dict({"a": spaces.Dict({"qpos": box(2)})}), "extra": spaces.Dict({})}),
            "extra.goal_pos",
        ),
    ],
)
def test_a_space_that_cannot_give_the_state_is_refused_by_the_name_of_what_is_wrong(bad: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^Owner: (the )?{name} must"):
        StateSynthesizer(bad, {"a": [JOINTS, GOAL]}, owner="Owner")


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ({"agent": {}}, r"agent\.a must be a dict, got NoneType"),
        ({"agent": {"a": {"qpos": np.zeros((1, 2))}}}, r"no extra\.goal_pos"),
        (observation(None, np.zeros((1, 3))), r"no agent\.a\.qpos"),
        (observation(np.zeros((1, 1, 2)), np.zeros((1, 3))), r"agent\.a\.qpos=\(1, 1, 2\), extra\.goal_pos=\(1, 3\)"),
        (observation(np.zeros((2, 2)), np.zeros((1, 3))), r"agent\.a\.qpos=\(2, 2\), extra\.goal_pos=\(1, 3\)"),
        (observation(np.zeros((1, 5)), np.zeros((1, 3))), r"agent\.a\.qpos=\(1, 5\)"),
        (observation(np.zeros(()), np.zeros((1, 3))), r"agent\.a\.qpos=\(\)"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused_with_its_shapes(obs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        synthesizer()(obs)


def test_without_a_dict_of_robots_the_observation_comes_back_as_it_is() -> None:
    obs = {"agent": np.zeros(3)}
    assert synthesizer()(obs) is obs


def test_what_is_missing_is_left_out_only_when_asked_for() -> None:
    lenient = synthesizer(skips_missing=True)
    obs = {"agent": {"a": {"qpos": np.array([1.0, 2.0])}}}
    np.testing.assert_array_equal(lenient(obs)["agent"]["a"]["state"], [1.0, 2.0])
    assert lenient({"agent": {"a": {}}})["agent"]["a"]["state"].shape == (0,)
    assert lenient({"agent": {"a": 1}})["agent"]["a"] == 1


finite = st.floats(-1.0, 1.0, width=32)


@given(hnp.arrays(np.float32, (3, 7), elements=finite), st.sampled_from([(1, 0, 0, 0), (0, 0.6, 0.8, 0)]))
def test_both_signs_of_a_quaternion_give_one_state_and_the_same_rotation(pose: Any, near: Any) -> None:
    adapt = pose_field("extra", "pose", near=near).adapt
    assert adapt is not None
    flipped = pose * np.array([1, 1, 1, -1, -1, -1, -1], np.float32)
    once, again = adapt(pose), adapt(flipped)
    side = pose[:, 3:] @ np.array(near, np.float32)
    decided = (side != 0.0) | (pose[:, 3] != 0.0)
    np.testing.assert_array_equal(once[decided], again[decided])
    assert (once[:, 3:] @ np.array(near, np.float32) >= 0.0).all()
    np.testing.assert_array_equal(np.abs(once), np.abs(pose))
    np.testing.assert_array_equal(once[:, :3], pose[:, :3])


def test_near_the_usual_orientation_a_state_does_not_jump() -> None:
    """A hand that points down has w near 0: by the sign of w alone neighbouring poses would be far apart."""
    adapt = pose_field("extra", "pose", near=(0.0, 1.0, 0.0, 0.0)).adapt
    assert adapt is not None
    tilts = np.linspace(-0.2, 0.2, 41)
    poses = np.zeros((41, 7), np.float32)
    poses[:, 3], poses[:, 4] = np.sin(tilts / 2), np.cos(tilts / 2)
    assert np.abs(np.diff(adapt(poses), axis=0)).max() < 0.01
    by_w = pose_field("extra", "pose").adapt
    assert by_w is not None
    assert np.abs(np.diff(by_w(poses), axis=0)).max() > 1.0
