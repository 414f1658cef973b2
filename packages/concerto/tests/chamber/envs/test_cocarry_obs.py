"""The state vectors of co-carry and the mask of a blind ego, on observations written out here."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from chamber.envs.cocarry_blind_mask import (
    COCARRY_BLIND_MASK_START,
    COCARRY_BLIND_MASK_STOP,
    CoCarryEgoBlindMask,
    mask_ego_state,
)
from chamber.envs.cocarry_obs import CoCarryEgoStateSynthesizer, adapt_partner_joints

EGO, PARTNER = "panda_wristcam", "panda_partner"


class WrittenEnv(gym.Env[Any, Any]):
    """Gives the observation it was made with; everything of one robot's field is a number of its own."""

    ego_uid, partner_uid = EGO, PARTNER

    def __init__(self, *, copies: int = 1, partner_joints: int = 9) -> None:
        def numbers(start: int, size: int) -> Any:
            return np.arange(start, start + copies * size, dtype=np.float32).reshape(copies, size)

        self.observation: dict[str, Any] = {
            "agent": {
                EGO: {"qpos": numbers(100, 9), "qvel": numbers(200, 9)},
                PARTNER: {"qpos": numbers(1, partner_joints), "qvel": numbers(400, partner_joints)},
            },
            "extra": {"bar_pose": numbers(500, 7), "goal_pos": numbers(600, 3), "bar_tilt_deg": numbers(700, 1)},
        }
        self.observation_space = _space_of(self.observation)
        self.action_space = spaces.Dict({uid: spaces.Box(-1.0, 1.0, (8,)) for uid in (EGO, PARTNER)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.observation, {}

    def step(self, action: dict[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation, 0.0, False, False, {}


def _space_of(value: Any) -> spaces.Space[Any]:
    if isinstance(value, dict):
        return spaces.Dict({name: _space_of(part) for name, part in value.items()})
    return spaces.Box(-np.inf, np.inf, value.shape, np.float32)


def test_the_ego_state_is_both_robots_the_bar_and_the_goal_in_this_order() -> None:
    env = CoCarryEgoStateSynthesizer(WrittenEnv())
    obs, _ = env.reset()
    state = obs["agent"][EGO]["state"]
    assert state.dtype == np.float32
    assert state.shape == env.observation_space["agent"][EGO]["state"].shape == (46,)
    for at, first in ((0, 100), (9, 200), (18, 1), (27, 400), (36, 500), (43, 600)):
        assert state[at] == first
    assert state[45] == 602


def test_the_partner_state_is_its_own_joints() -> None:
    env = CoCarryEgoStateSynthesizer(WrittenEnv())
    obs, _ = env.reset()
    assert obs["agent"][PARTNER]["state"].tolist() == [*range(1, 10), *range(400, 409)]
    assert env.observation_space["agent"][PARTNER]["state"].shape == (18,)
    assert env.observation_space.contains(obs)


def test_raw_leaves_pass_by_reference_and_the_inner_observation_keeps_its_keys() -> None:
    inner = WrittenEnv()
    obs, _ = CoCarryEgoStateSynthesizer(inner).reset()
    assert obs["agent"][PARTNER]["qpos"] is inner.observation["agent"][PARTNER]["qpos"]
    assert obs["extra"] is inner.observation["extra"]
    assert "state" not in inner.observation["agent"][EGO]


def test_copies_keep_their_axis() -> None:
    env = CoCarryEgoStateSynthesizer(WrittenEnv(copies=4))
    obs, _ = env.reset()
    assert obs["agent"][EGO]["state"].shape == env.observation_space["agent"][EGO]["state"].shape == (4, 46)
    assert obs["agent"][EGO]["state"][:, 43].tolist() == [600, 603, 606, 609]


def test_six_joints_and_their_gripper_fit_the_places_of_a_panda() -> None:
    env = CoCarryEgoStateSynthesizer(WrittenEnv(partner_joints=12), partner_arm_dof=6)
    obs, _ = env.reset()
    assert obs["agent"][EGO]["state"][18:27].tolist() == [1, 2, 3, 4, 5, 6, 0, 7, 8]
    assert obs["agent"][PARTNER]["state"].shape == (18,)
    assert obs["agent"][PARTNER]["qpos"].shape == (1, 12)


@given(st.integers(0, 12), st.integers(1, 15))
def test_adapted_joints_are_nine_and_in_order(arm_dof: int, n_joints: int) -> None:
    joints = np.arange(1, n_joints + 1, dtype=np.float32)[None]
    adapted = adapt_partner_joints(joints, arm_dof=arm_dof)
    assert adapted.shape == (1, 9)
    kept = adapted[adapted != 0.0]
    assert np.all(np.diff(kept) > 0)
    if (arm_dof, n_joints) == (7, 9):
        assert np.array_equal(adapted, joints)


def test_one_orientation_of_the_bar_is_one_state() -> None:
    inner = WrittenEnv()
    env = CoCarryEgoStateSynthesizer(inner)
    pose = np.array([[0.1, 0.2, 0.3, 0.8, 0.0, 0.6, 0.0]], dtype=np.float32)
    inner.observation["extra"]["bar_pose"] = pose
    one = env.reset()[0]["agent"][EGO]["state"]
    inner.observation["extra"]["bar_pose"] = np.concatenate([pose[:, :3], -pose[:, 3:]], axis=1)
    other = env.reset()[0]["agent"][EGO]["state"]
    assert np.array_equal(one, other)
    assert one[39] > 0


@pytest.mark.parametrize(("field", "size"), [("bar_pose", 6), ("goal_pos", 2)])
def test_a_field_of_another_size_is_refused_by_name_at_construction(field: str, size: int) -> None:
    inner = WrittenEnv()
    inner.observation_space["extra"].spaces[field] = spaces.Box(-1.0, 1.0, (1, size))
    with pytest.raises(TypeError, match=field):
        CoCarryEgoStateSynthesizer(inner)


def test_a_missing_field_is_refused_by_name() -> None:
    inner = WrittenEnv()
    env = CoCarryEgoStateSynthesizer(inner)
    del inner.observation["extra"]["bar_pose"]
    with pytest.raises(TypeError, match=r"extra\.bar_pose"):
        env.reset()
    del inner.observation_space["agent"].spaces[PARTNER]
    with pytest.raises(TypeError, match=PARTNER):
        CoCarryEgoStateSynthesizer(inner)


def test_a_negative_number_of_joints_is_refused() -> None:
    with pytest.raises(ValueError, match="partner_arm_dof"):
        CoCarryEgoStateSynthesizer(WrittenEnv(), partner_arm_dof=-1)


def test_attributes_of_the_task_are_reached_through_the_wrappers() -> None:
    env = CoCarryEgoBlindMask(CoCarryEgoStateSynthesizer(WrittenEnv()))
    assert env.partner_uid == PARTNER


def test_the_blind_mask_takes_the_partner_and_the_bar() -> None:
    ones = np.ones(46)
    masked = mask_ego_state(ones)
    assert masked.dtype == np.float32
    assert masked.sum() == 21
    assert np.flatnonzero(masked == 0).tolist() == list(range(COCARRY_BLIND_MASK_START, COCARRY_BLIND_MASK_STOP))
    assert ones.sum() == 46
    assert mask_ego_state(np.ones((3, 46))).sum(axis=1).tolist() == [21.0] * 3


def test_only_the_state_of_the_ego_is_masked() -> None:
    inner = CoCarryEgoStateSynthesizer(WrittenEnv())
    seen, _ = inner.reset()
    blind, _ = CoCarryEgoBlindMask(inner).reset()
    assert np.array_equal(blind["agent"][EGO]["state"], mask_ego_state(seen["agent"][EGO]["state"]))
    assert np.array_equal(blind["agent"][PARTNER]["state"], seen["agent"][PARTNER]["state"])
    assert np.array_equal(blind["agent"][PARTNER]["qpos"], seen["agent"][PARTNER]["qpos"])
    assert np.array_equal(blind["extra"]["bar_pose"], seen["extra"]["bar_pose"])
    assert CoCarryEgoBlindMask(inner).observation_space == inner.observation_space


def test_the_mask_needs_a_state_that_is_long_enough() -> None:
    inner = WrittenEnv()
    with pytest.raises(TypeError, match="state"):
        CoCarryEgoBlindMask(inner)
    inner.observation_space["agent"][EGO].spaces["state"] = spaces.Box(-1.0, 1.0, (42,))
    with pytest.raises(TypeError, match="43"):
        CoCarryEgoBlindMask(inner)
    inner.observation_space["agent"][EGO].spaces["state"] = spaces.Box(-1.0, 1.0, (43,))
    with pytest.raises(TypeError, match="state"):
        CoCarryEgoBlindMask(inner).reset()
