"""Pick-place conditions that observe pictures, and the pictures for people; needs off-screen rendering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chamber.agents.pickplace_ego_scripted import ScriptedPickPlaceEgo
from chamber.envs.errors import ChamberEnvCompatibilityError
from chamber.envs.stage1_pickplace import Stage1PickPlaceEnv, make_stage1_pickplace_env

EGO = "panda_wristcam"
VISION_ONLY = "stage1_pickplace_vision_only"
VISION_AND_FORCE = "stage1_pickplace_vision_plus_force_torque_plus_proprio"
CAMERAS = ("panda_wristcam-0-hand_camera", "fetch-1-fetch_head", "fetch-1-fetch_hand", "workspace")


def build(condition: str, **options: Any) -> Any:
    try:
        return make_stage1_pickplace_env(condition_id=condition, render_mode="rgb_array", **options)
    except ChamberEnvCompatibilityError as error:
        if "off-screen rendering" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def vision_only() -> Any:
    made = build(VISION_ONLY)
    yield made
    made.close()


@pytest.fixture(scope="module")
def vision_and_force() -> Any:
    made = build(VISION_AND_FORCE)
    yield made
    made.close()


def still(env: Any) -> dict[str, Any]:
    return {uid: np.zeros(space.shape) for uid, space in env.action_space.spaces.items()}


def test_four_cameras_give_colour_and_metric_depth(vision_and_force: Any) -> None:
    obs, _ = vision_and_force.reset(seed=0)
    assert vision_and_force.observation_space.contains(obs)
    assert tuple(sorted(obs["sensor_data"])) == tuple(sorted(CAMERAS))
    for picture in obs["sensor_data"].values():
        assert picture["rgb"].shape == (1, 128, 128, 3)
        assert picture["rgb"].dtype == np.uint8
        assert picture["depth"].shape == (1, 128, 128, 1)
        assert picture["rgb"].std() > 10.0
        assert (picture["depth"] > 0.0).all()


def test_depth_is_the_distance_along_the_view(vision_and_force: Any) -> None:
    """The wrist camera looks straight down on the table at the start of an episode."""
    obs, _ = vision_and_force.reset(seed=0)
    height = vision_and_force.unwrapped.rig.link_pose(EGO, "camera_link")[0, 2]
    depth = obs["sensor_data"]["panda_wristcam-0-hand_camera"]["depth"][0, :, :, 0]
    assert np.median(depth[:16]) == pytest.approx(height, abs=0.003)  # a strip that only the table is in


def test_the_cube_is_seen_by_the_hand_and_by_the_workspace_camera(vision_and_force: Any) -> None:
    obs, _ = vision_and_force.reset(seed=1)
    for camera in ("panda_wristcam-0-hand_camera", "workspace"):
        red, green, blue = obs["sensor_data"][camera]["rgb"][0].astype(int).transpose(2, 0, 1)
        assert ((red > 100) & (green < 60) & (blue < 60)).sum() > 20, camera


def test_the_goal_is_drawn_for_people_and_hidden_from_sensors(vision_and_force: Any) -> None:
    vision_and_force.reset(seed=0)
    rig = vision_and_force.unwrapped.rig
    cameras = ("render_camera", "workspace", "panda_wristcam-0-hand_camera")
    before = {camera: rig.render(camera).rgb.copy() for camera in cameras}
    rig.set_body_pose("goal", np.array([[0.0, 0.05, 0.06, 1.0, 0.0, 0.0, 0.0]]))
    changed = {camera: (rig.render(camera).rgb != before[camera]).any() for camera in cameras}
    assert changed == {"render_camera": True, "workspace": False, "panda_wristcam-0-hand_camera": False}


def test_equal_seeds_give_equal_pictures(vision_and_force: Any) -> None:
    first, _ = vision_and_force.reset(seed=4)
    vision_and_force.reset(seed=5)
    second, _ = vision_and_force.reset(seed=4)
    for camera in CAMERAS:
        np.testing.assert_array_equal(first["sensor_data"][camera]["rgb"], second["sensor_data"][camera]["rgb"])


def test_vision_only_blanks_all_but_pictures_hand_and_goal(vision_only: Any, vision_and_force: Any) -> None:
    blind, _ = vision_only.reset(seed=2)
    seeing, _ = vision_and_force.reset(seed=2)
    for uid in (EGO, "fetch"):
        for name in ("qpos", "qvel"):
            assert not blind["agent"][uid][name].any()
            assert seeing["agent"][uid][name].shape == blind["agent"][uid][name].shape
    for name, value in blind["extra"].items():
        assert value.any() == (name in {"tcp_pose", "goal_pos"}), name
    assert seeing["extra"]["force_torque"].any()
    assert seeing["extra"]["cube_pose"].any()
    np.testing.assert_array_equal(blind["sensor_data"]["workspace"]["rgb"], seeing["sensor_data"]["workspace"]["rgb"])
    assert vision_only.observation_space.contains(blind)
    assert vision_only.observation_space == vision_and_force.observation_space


def test_a_reference_solves_vision_only_from_the_privileged_observation(vision_only: Any) -> None:
    vision_only.reset(seed=0)
    task, ego = vision_only.unwrapped, ScriptedPickPlaceEgo()
    for _ in range(60):
        action = still(vision_only)
        action[EGO] = ego.act(task.privileged_observation())
        _, _, terminated, _, _ = vision_only.step(action)
        if terminated:
            return
    pytest.fail("not placed within 60 steps")


def test_copies_give_a_picture_each() -> None:
    several = build(VISION_AND_FORCE, num_envs=2)
    obs, _ = several.reset(seed=0)
    for picture in obs["sensor_data"].values():
        assert picture["rgb"].shape == (2, 128, 128, 3)
    assert (obs["sensor_data"]["workspace"]["rgb"][0] != obs["sensor_data"]["workspace"]["rgb"][1]).any()
    assert several.render().shape == (2, 480, 640, 3)
    several.close()


def test_the_picture_for_people_shows_the_task_and_an_unknown_camera_is_refused(vision_only: Any) -> None:
    vision_only.reset(seed=0)
    picture = vision_only.render()
    assert picture.shape == (480, 640, 3)
    red, green, blue = picture.astype(int).transpose(2, 0, 1)
    assert ((red > 100) & (green < 60) & (blue < 60)).sum() > 100
    with pytest.raises(KeyError, match="render_camera"):
        vision_only.unwrapped.picture("no such camera")


def test_the_state_based_task_has_no_sensors() -> None:
    made = Stage1PickPlaceEnv(condition_id="stage1_pickplace_panda_only_mappo_shared_param", render_backend="none")
    assert "sensor_data" not in made.reset(seed=0)[0]
    made.close()
