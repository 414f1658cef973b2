"""Pictures of the planar task: everything is where the task says, in the colours that the words name."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from chamber.envs import MPECooperativePushEnv
from chamber.envs._planar_picture import PICTURE_SHAPE, PlanarScene, draw_scene

pytest.importorskip("PIL")

EGO, PARTNER, LANDMARK, CONTACT = (47, 126, 194), (210, 105, 30), (31, 146, 112), (201, 68, 93)
HEADER = PICTURE_SHAPE[0] - PICTURE_SHAPE[1]
SCALE = PICTURE_SHAPE[1] / 2.3
"""Pixels per metre: the square and one and a half radii around it fill the width."""
ASIDE = {"ego": np.array([-1.0, 0.5]), "partner": np.array([1.0, -0.5])}


def scene(ego: tuple[float, float], partner: tuple[float, float], **changes: object) -> PlanarScene:
    settings: dict[str, object] = {
        "uids": ("ego", "partner"),
        "paths": np.array([[ego, partner]]),
        "landmarks": np.array([[0.5, 0.75], [-0.75, -0.5]]),
        "radius": 0.1,
        "half_side": 1.0,
        "time_s": 0.0,
    }
    return PlanarScene(**{**settings, **changes})  # type: ignore[arg-type]


def pixels_of(frame: NDArray[np.uint8], colour: tuple[int, int, int]) -> NDArray[np.float64]:
    """Where a colour is below the header, in metres of the plane, shape ``(n, 2)``."""
    rows, columns = np.nonzero((frame[HEADER:] == colour).all(axis=2))
    side = PICTURE_SHAPE[1]
    return np.stack([(columns + 0.5 - side / 2) / SCALE, (side / 2 - rows - 0.5) / SCALE], axis=1)


def test_robots_and_landmarks_are_where_the_task_has_them():
    frame = draw_scene(scene((-0.25, 0.25), (0.3, -0.6)))
    assert frame.shape == PICTURE_SHAPE
    assert frame.dtype == np.uint8
    for colour, centre in ((EGO, (-0.25, 0.25)), (PARTNER, (0.3, -0.6))):
        disc = pixels_of(frame, colour)
        np.testing.assert_allclose(disc.mean(axis=0), centre, atol=0.01)
        reach = np.linalg.norm(disc - centre, axis=1).max()
        assert 0.08 < reach < 0.105, "the disc has the robot's radius, its edge included"
    stars = pixels_of(frame, LANDMARK)
    np.testing.assert_allclose(stars[stars[:, 0] > 0].mean(axis=0), (0.5, 0.75), atol=0.02)
    np.testing.assert_allclose(stars[stars[:, 0] < 0].mean(axis=0), (-0.75, -0.5), atol=0.02)


def test_equal_scenes_give_equal_pictures_and_a_larger_robot_a_larger_disc():
    first, second = (draw_scene(scene((0.0, 0.0), (0.5, 0.5))) for _ in range(2))
    assert np.array_equal(first, second)
    large = draw_scene(scene((0.0, 0.0), (0.6, 0.6), radius=0.2))
    n_small, n_large = (len(np.argwhere((frame == EGO).all(axis=2))) for frame in (first, large))
    assert n_large > 2.5 * n_small


@pytest.mark.parametrize(("partner", "is_contact"), [((0.19, 0.0), True), ((0.21, 0.0), False)])
def test_robots_that_overlap_have_a_red_edge(partner: tuple[float, float], is_contact: bool):
    overlapping = scene((0.0, 0.0), partner)
    assert overlapping.is_contact is is_contact
    assert (len(pixels_of(draw_scene(overlapping), CONTACT)) > 100) is is_contact


def test_the_way_that_a_robot_came_is_drawn():
    path = np.array([[[-0.8, 0.8], [0.8, 0.2]], [[0.0, 0.8], [0.8, 0.2]]])
    moved = draw_scene(scene((0.0, 0.0), (0.0, 0.0), paths=path))
    row = HEADER + round(PICTURE_SHAPE[1] / 2 - 0.8 * SCALE)
    column = round(PICTURE_SHAPE[1] / 2 - 0.4 * SCALE)
    red, _, blue = (int(value) for value in moved[row, column])
    assert blue > red + 50, "a blue line between start and disc"


def test_long_names_stay_inside_the_picture():
    frame = draw_scene(scene((0.0, 0.0), (0.5, 0.5), uids=("a" * 60, "b" * 60)))
    assert (frame[:HEADER, -20:] == 255).all()


def test_an_environment_shows_any_step_of_the_running_episode():
    env = MPECooperativePushEnv(render_mode="rgb_array", episode_length=3)
    env.reset(seed=0)
    shown = [env.render()]
    for _ in range(3):
        env.step(ASIDE)
        shown.append(env.render())
    assert len({frame.tobytes() for frame in shown if frame is not None}) == 4
    for step, frame in enumerate(shown):
        assert np.array_equal(env.picture(step=step), frame)
    ego = pixels_of(shown[-1], EGO)  # type: ignore[arg-type]
    np.testing.assert_allclose(ego.mean(axis=0), env.position("ego"), atol=0.02)
    env.reset(seed=0)
    assert np.array_equal(env.picture(), shown[0]), "the way of the last episode is forgotten"
    with pytest.raises(ValueError, match=r"step must be in 0\.\.0, got 1"):
        env.picture(step=1)


def test_without_a_render_mode_only_the_present_can_be_drawn():
    env, drawn = MPECooperativePushEnv(), MPECooperativePushEnv(render_mode="rgb_array")
    for each in (env, drawn):
        each.reset(seed=0)
        each.step(ASIDE)
    assert env.picture(step=1).shape == drawn.picture(step=1).shape
    with pytest.raises(ValueError, match="only the present step 1 can be drawn, got 0"):
        env.picture(step=0)


def test_a_robot_that_the_ego_hides_keeps_its_edge():
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    env._positions = (env._positions[0], env._positions[0])
    assert len(pixels_of(env.picture(), PARTNER)) > 100


def test_pictures_change_nothing_that_happens():
    plain, drawn = MPECooperativePushEnv(), MPECooperativePushEnv(render_mode="rgb_array")
    for env in (plain, drawn):
        env.reset(seed=4)
    for _ in range(5):
        drawn.render()
        one, other = plain.step(ASIDE), drawn.step(ASIDE)
        assert one[1:] == other[1:]
        assert np.array_equal(one[0]["agent"]["ego"]["state"], other[0]["agent"]["ego"]["state"])


def test_without_a_render_mode_there_is_no_picture_unless_it_is_asked_for():
    env = MPECooperativePushEnv()
    env.reset(seed=0)
    assert env.render() is None
    assert env.picture().shape == PICTURE_SHAPE
    with pytest.raises(ValueError, match="camera must be 'render_camera', got 'ceiling'"):
        env.picture("ceiling")
    with pytest.raises(ValueError, match="render_mode must be 'rgb_array' or None, got 'human'"):
        MPECooperativePushEnv(render_mode="human")
