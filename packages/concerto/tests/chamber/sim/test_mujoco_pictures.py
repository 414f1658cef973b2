"""Cameras show what is there, where it is, and how far away."""

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chamber.sim.mujoco_backend import MujocoBackend
from chamber.sim.scene import BodySpec, CameraSpec, GeomSpec, LinkRef, Motion, RobotSpec, SceneSpec, Shape

pytestmark = pytest.mark.egl

HALF = 0.1
FIELD_OF_VIEW = 1.0
FRONT = CameraSpec(
    name="front", width=160, height=120, field_of_view=FIELD_OF_VIEW, position=(2.0, 0.0, 0.5), target=(0.0, 0.0, 0.5)
)


def red_box(position, **options):
    geom = GeomSpec(name="box", shape=Shape.BOX, size=(HALF, HALF, HALF), rgba=(0.9, 0.05, 0.05, 1.0))
    return BodySpec(name="box", geoms=(geom,), motion=Motion.KINEMATIC, position=position, **options)


def rig_with(*cameras, bodies=(), robots=(), num_envs=1):
    return MujocoBackend(SceneSpec(robots=robots, bodies=bodies, cameras=cameras), num_envs=num_envs)


def is_red(rgb):
    red, green, blue = (rgb[..., channel].astype(int) for channel in range(3))
    return (red > 80) & (red > 3 * green) & (red > 3 * blue)


def is_green(rgb):
    red, green, blue = (rgb[..., channel].astype(int) for channel in range(3))
    return (green > 60) & (green > 2 * red) & (green > 2 * blue)


def centre(mask):
    rows, columns = np.nonzero(mask)
    return columns.mean() + 0.5, rows.mean() + 0.5


@pytest.mark.parametrize("y", [-0.4, 0.0, 0.3])
@pytest.mark.parametrize("z", [0.3, 0.5, 0.7])
def test_a_red_box_is_where_it_should_be(pictured, y, z):
    pictured.set_body_pose("box", np.array([[0.0, y, z, 1.0, 0.0, 0.0, 0.0]]))
    picture = pictured.render("front")
    assert picture.rgb.shape == (120, 160, 3)
    assert picture.rgb.dtype == np.uint8
    assert picture.depth.shape == (120, 160)
    assert picture.depth.dtype == np.float32
    pixels_per_metre = 60 / math.tan(FIELD_OF_VIEW / 2) / (2.0 - HALF)  # on the face of the box
    column, row = centre(is_red(picture.rgb))
    # Seen from +x towards -x with z up, +y is on the right. Sides of the box shift its centre by a pixel or two.
    assert column == pytest.approx(80 + y * pixels_per_metre, abs=2.5)
    assert row == pytest.approx(60 - (z - 0.5) * pixels_per_metre, abs=2.5)
    assert np.median(picture.depth[is_red(picture.rgb)]) == pytest.approx(2.0 - HALF, rel=0.01)


@pytest.fixture(scope="module")
def pictured():
    rig = rig_with(FRONT, bodies=(red_box((0.0, 0.0, 0.5)),))
    yield rig
    rig.close()


def test_depth_is_the_distance_along_the_viewing_axis_to_one_percent(pictured):
    for x in (-3.0, 0.0, 1.0, 1.7):
        pictured.set_body_pose("box", np.array([[x, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]]))
        depth = pictured.render("front").depth
        assert depth[60, 80] == pytest.approx(2.0 - x - HALF, rel=0.01)
    half_width = int(0.5 * HALF * 60 / math.tan(FIELD_OF_VIEW / 2) / (0.3 - HALF))
    face = depth[60 - half_width : 60 + half_width, 80 - half_width : 80 + half_width]
    assert face == pytest.approx(np.full_like(face, 0.3 - HALF), rel=0.01)


def test_the_floor_lies_under_the_lowest_thing_that_stands_still():
    plinth = BodySpec(
        name="plinth",
        geoms=(GeomSpec(name="box", shape=Shape.BOX, size=(0.3, 0.2, 0.5)),),
        motion=Motion.FIXED,
        position=(1.0, 0.0, -0.5),
    )
    down = CameraSpec(
        name="down", width=32, height=32, field_of_view=0.3, position=(0.0, 0.0, 2.0), target=(0.0, 0.0, 0.0)
    )
    for bodies, height in (((), 0.0), ((plinth,), -1.0)):
        rig = rig_with(down, bodies=bodies)
        assert rig.render("down").depth[16, 16] == pytest.approx(2.0 - height, rel=0.01)
        rig.close()


def test_a_camera_on_a_link_looks_along_its_x_axis_with_z_up_and_moves_with_it():
    mounted = CameraSpec(
        name="eye",
        width=96,
        height=96,
        field_of_view=1.2,
        position=(0.1, 0.5, 0.4),
        mount=LinkRef("arm", "panda_link0"),
        is_sensor=True,
    )
    robot = RobotSpec(uid="arm", model="panda_partner", base_yaw=math.pi / 2)
    rig = rig_with(mounted, bodies=(red_box((-0.5, 1.1, 0.4)),), robots=(robot,))
    column, row = centre(is_red(rig.render("eye").rgb))
    assert (column, row) == pytest.approx((48, 48), abs=1.0)
    assert rig.render("eye").depth[48, 48] == pytest.approx(1.0 - HALF, rel=0.01)
    rig.set_body_pose("box", np.array([[-0.3, 1.1, 0.6, 1.0, 0.0, 0.0, 0.0]]))
    column, row = centre(is_red(rig.render("eye").rgb))
    assert column > 60  # world +x is on the right of somebody who looks along +y
    assert row < 36
    rig.close()


def test_a_camera_in_the_hand_follows_the_arm():
    mounted = CameraSpec(
        name="eye", width=48, height=48, field_of_view=1.0, mount=LinkRef("arm", "camera_link"), is_sensor=True
    )
    rig = rig_with(mounted, robots=(RobotSpec(uid="arm", model="panda_wristcam"),))
    height = rig.link_pose("arm", "camera_link")[0, 2]
    seen_before = rig.render("eye").depth[24, 24]
    for _ in range(10):
        rig.apply("arm", np.array([[0.0, -0.5, 0.0, 0.0, 0.0, -0.5, 0.0, 0.0]]))
        rig.advance()
    raised = rig.link_pose("arm", "camera_link")[0, 2] - height
    assert raised > 0.05
    assert rig.render("eye").depth[24, 24] - seen_before == pytest.approx(raised, abs=0.03)
    rig.close()


def test_markers_are_seen_by_people_and_not_by_sensors():
    ball = GeomSpec(name="ball", shape=Shape.SPHERE, size=(0.2,), rgba=(0.1, 0.9, 0.1, 1.0))
    marker = BodySpec(name="goal", geoms=(ball,), motion=Motion.KINEMATIC, position=(0.0, 0.0, 0.5), is_marker=True)
    for_people, sensor = (
        CameraSpec(
            name=name,
            width=64,
            height=64,
            field_of_view=FIELD_OF_VIEW,
            position=(2.0, 0.0, 0.5),
            target=(0.0, 0.0, 0.5),
            is_sensor=is_sensor,
        )
        for name, is_sensor in (("people", False), ("sensor", True))
    )
    rig = rig_with(for_people, sensor, bodies=(marker,))
    assert is_green(rig.render("people").rgb).sum() > 100
    assert not is_green(rig.render("sensor").rgb).any()
    assert is_green(rig.render("people").rgb).sum() > 100
    rig.close()


def test_every_copy_has_its_own_picture_and_every_camera_its_own_size():
    wide = CameraSpec(
        name="wide", width=200, height=50, field_of_view=0.6, position=(0.0, -3.0, 0.5), target=(0.0, 0.0, 0.5)
    )
    rig = rig_with(FRONT, wide, bodies=(red_box((0.0, 0.0, 0.5)),), num_envs=2)
    rig.set_body_pose("box", np.array([[0.0, -0.4, 0.5, 1.0, 0.0, 0.0, 0.0], [0.0, 0.4, 0.5, 1.0, 0.0, 0.0, 0.0]]))
    left, right = (centre(is_red(rig.render("front", env=env).rgb))[0] for env in (0, 1))
    assert left < 60
    assert right > 100
    assert rig.render("wide", env=1).rgb.shape == (50, 200, 3)
    rig.close()
    rig.close()


def test_a_picture_does_not_depend_on_what_was_drawn_before():
    high = CameraSpec(
        name="high", width=64, height=64, field_of_view=1.0, position=(0.0, 3.0, 4.0), target=(0.0, 0.0, 0.0)
    )
    bodies = (red_box((0.0, 0.0, 0.5)),)
    used, fresh = rig_with(FRONT, high, bodies=bodies), rig_with(FRONT, high, bodies=bodies)
    for name in ("high", "front", "high"):
        used.render(name)
    seen, expected = used.render("front"), fresh.render("front")
    assert (seen.rgb == expected.rgb).all()
    assert (seen.depth == expected.depth).all()
    used.close()
    fresh.close()


def test_depth_ends_at_the_far_plane_and_nothing_is_seen_before_the_near_plane():
    near = CameraSpec(
        name="near",
        width=32,
        height=32,
        field_of_view=0.5,
        near=1.0,
        far=1.5,
        position=(2.0, 0.0, 0.5),
        target=(0.0, 0.0, 0.5),
    )
    rig = rig_with(near, FRONT, bodies=(red_box((0.8, 0.0, 0.5)),))
    assert rig.render("near").depth[16, 16] == pytest.approx(1.1, rel=0.01)
    rig.set_body_pose("box", np.array([[0.2, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]]))
    assert is_red(rig.render("near").rgb).any()
    assert (rig.render("near").depth == 1.5).all()
    rig.set_body_pose("box", np.array([[1.3, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]]))
    assert not is_red(rig.render("near").rgb).any()
    assert (rig.render("near").depth == 1.5).all()
    assert is_red(rig.render("front").rgb).any()
    rig.close()


@pytest.mark.parametrize("is_sensor", [True, False])
def test_the_sky_is_bright_and_as_far_away_as_a_camera_can_see(is_sensor):
    up = CameraSpec(
        name="up",
        width=16,
        height=16,
        field_of_view=0.5,
        far=5.0,
        position=(0.0, 0.0, 1.0),
        target=(1.0, 0.0, 3.0),
        is_sensor=is_sensor,
    )
    rig = rig_with(up)
    picture = rig.render("up")
    assert (picture.depth == 5.0).all()
    assert picture.rgb.min() > 100
    rig.close()


def test_drawing_changes_nothing_that_moves(pictured):
    before = pictured.save_state(0)
    pictured.render("front")
    assert (pictured.save_state(0) == before).all()


SCRIPT = """
from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim import make_backend
from chamber.sim.scene import CameraSpec, RobotSpec, SceneSpec

camera = CameraSpec(name="eye", width=9, height=8, field_of_view=1.0, position=(1.0, 0.0, 1.0), target=(0.0, 0.0, 0.0))
rig = make_backend(SceneSpec(robots=(RobotSpec(uid="arm", model="panda_partner"),), cameras=(camera,)))
rig.advance()
assert rig.qpos("arm").shape == (1, 9)
try:
    print("drawn", rig.render("eye").rgb.shape)
except ChamberEnvCompatibilityError as error:
    print(error)
"""


def output_of(script, folder, **environment):
    settings = {name: value for name, value in os.environ.items() if name not in {"MUJOCO_GL", "PYOPENGL_PLATFORM"}}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**settings, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


@pytest.mark.parametrize(
    "environment",
    [
        {"__EGL_VENDOR_LIBRARY_DIRS": "/nowhere"},  # no driver
        {"PYOPENGL_PLATFORM": "glx"},  # no EGL
        {"MUJOCO_GL": "disable"},  # no rendering by choice
        {"MUJOCO_GL": "nonsense"},  # which MuJoCo refuses to be imported with
    ],
    ids=str,
)
def test_without_rendering_states_still_run_and_the_error_says_what_to_install(environment, tmp_path):
    output = output_of(SCRIPT, tmp_path, **environment)
    assert "there is no off-screen rendering on this machine" in output
    assert "apt-get install libegl1 libgl1-mesa-dri" in output


@pytest.mark.parametrize("script", [SCRIPT, "import mujoco" + SCRIPT], ids=["alone", "after MuJoCo"])
def test_no_screen_and_no_setting_is_needed(script, tmp_path):
    assert output_of(script, tmp_path) == "drawn (8, 9, 3)\n"


def test_a_picture_may_be_taken_by_one_thread_and_the_next_by_another():
    rig = rig_with(FRONT, bodies=(red_box((0.0, 0.0, 0.5)),))
    with ThreadPoolExecutor(1) as other:
        there = other.submit(rig.render, "front").result().rgb
        here = rig.render("front").rgb
        assert np.array_equal(here, there)
        assert np.array_equal(other.submit(rig.render, "front").result().rgb, there)
        rig.close()
