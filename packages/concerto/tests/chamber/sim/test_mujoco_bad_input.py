"""What is wrong is named, with what would be right, before anything changes."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim import make_backend
from chamber.sim.mujoco_backend import MujocoBackend
from chamber.sim.scene import (
    SMALLEST_NEAR,
    BodySpec,
    CameraSpec,
    ContactRule,
    GeomSpec,
    LinkRef,
    Motion,
    PinSpec,
    RobotSpec,
    SceneSpec,
    Shape,
    WeldSpec,
)

HAND = LinkRef("arm", "panda_hand")


def ball(name, *, motion=Motion.FREE, group=None, **options):
    geom = GeomSpec(name="ball", shape=Shape.SPHERE, size=(0.05,), group=group)
    return BodySpec(name=name, geoms=(geom,), motion=motion, position=(1.0, 0.0, 1.0), **options)


SCENE = SceneSpec(
    robots=(RobotSpec(uid="arm", model="panda_partner"),),
    bodies=(
        ball("stone", group="stone"),
        ball("ram", motion=Motion.KINEMATIC, group="ram"),
        ball("post", motion=Motion.FIXED),
    ),
    cameras=(CameraSpec(name="eye", width=8, height=8, field_of_view=1.0, position=(1, 1, 1), target=(0, 0, 0)),),
    contacts=(ContactRule("stone", "ram"),),
)


@pytest.fixture(scope="module")
def rig():
    return MujocoBackend(SCENE, num_envs=2)


POSE = np.tile([0.5, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], (2, 1))
JOINTS = np.zeros((2, 9))


def spoiled(array, value):
    array = array.copy()
    array.flat[-1] = value
    return array


@pytest.mark.parametrize(
    ("joints", "poses", "options", "message"),
    [
        ({}, {}, {}, "joint_positions must have every robot, 'arm' is missing"),
        ({"arm": JOINTS, "leg": JOINTS}, {}, {}, "no robot 'leg'; there are: arm"),
        ({"arm": JOINTS[:1]}, {}, {}, r"joint_positions\['arm'\] must have shape \(2, 9\), got \(1, 9\)"),
        ({"arm": JOINTS[:, :7]}, {}, {}, r"must have shape \(2, 9\), got \(2, 7\)"),
        ({"arm": JOINTS}, {}, {"env_idx": [0]}, r"must have shape \(1, 9\), got \(2, 9\)"),
        ({"arm": spoiled(JOINTS, np.nan)}, {}, {}, r"joint_positions\['arm'\] must be finite"),
        ({"arm": spoiled(JOINTS, -np.inf)}, {}, {}, "must be finite"),
        ({"arm": spoiled(np.full_like(JOINTS, np.inf), -np.inf)}, {}, {}, "must be finite"),
        ({"arm": JOINTS}, {"stone": POSE[:, :6]}, {}, r"body_poses\['stone'\] must have shape \(2, 7\), got \(2, 6\)"),
        ({"arm": JOINTS}, {"stone": spoiled(POSE, np.nan)}, {}, r"body_poses\['stone'\] must be finite"),
        ({"arm": JOINTS}, {"stone": 0.0 * POSE}, {}, "must have quaternions that are not zero"),
        ({"arm": JOINTS}, {"rock": POSE}, {}, "no free or kinematic body 'rock'; there are: stone, ram"),
        ({"arm": JOINTS}, {"post": POSE}, {}, "no free or kinematic body 'post'; there are: stone, ram"),
        ({"arm": JOINTS}, {}, {"env_idx": [0, 2]}, "env must be a copy from 0 to 1, got 2"),
        ({"arm": JOINTS}, {}, {"env_idx": [-1, 0]}, "env must be a copy from 0 to 1, got -1"),
        ({"arm": JOINTS}, {}, {"env_idx": [1, 1]}, r"env_idx must name every copy once at most, got \[1, 1\]"),
    ],
)
def test_a_refused_reset_changes_nothing(rig, joints, poses, options, message):
    before = [rig.save_state(env).tobytes() for env in range(2)]
    with pytest.raises((ValueError, KeyError), match=message):
        rig.reset(joints, {"ram": POSE[: len(options.get("env_idx", POSE))], **poses}, **options)
    assert [rig.save_state(env).tobytes() for env in range(2)] == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rig: rig.apply("leg", JOINTS), "no robot 'leg'; there are: arm"),
        (lambda rig: rig.apply("arm", np.zeros((2, 7))), r"action of 'arm' must have shape \(2, 8\), got \(2, 7\)"),
        (lambda rig: rig.apply("arm", np.zeros(8)), r"must have shape \(2, 8\), got \(8,\)"),
        (lambda rig: rig.apply("arm", np.full((2, 8), np.nan)), "action of 'arm' must be finite"),
        (lambda rig: rig.advance([2]), "env must be a copy from 0 to 1, got 2"),
        (lambda rig: rig.qpos("leg"), "no robot 'leg'; there are: arm"),
        (lambda rig: rig.qvel("leg"), "no robot 'leg'; there are: arm"),
        (lambda rig: rig.link_pose("leg", "panda_hand"), "no robot 'leg'; there are: arm"),
        (lambda rig: rig.link_pose("arm", "hand"), "no link of 'arm' 'hand'; there are: panda_link0, .*panda_hand_tcp"),
        (lambda rig: rig.body_pose("rock"), "no body 'rock'; there are: stone, ram, post"),
        (lambda rig: rig.body_velocity("rock"), "no body 'rock'; there are: stone, ram, post"),
        (lambda rig: rig.set_body_pose("rock", POSE), "no body 'rock'; there are: stone, ram, post"),
        (lambda rig: rig.set_body_pose("stone", POSE), "body 'stone' must be kinematic to be placed"),
        (lambda rig: rig.set_body_pose("ram", POSE[:1]), r"pose of 'ram' must have shape \(2, 7\), got \(1, 7\)"),
        (lambda rig: rig.set_body_pose("ram", spoiled(POSE, np.inf)), "pose of 'ram' must be finite"),
        (lambda rig: rig.pin_force("hold"), "no pin 'hold'; there are: none"),
        (lambda rig: rig.pair_force("stone", "rock"), "no contact group 'rock'; there are: arm.arm, .*stone"),
        (lambda rig: rig.penetration("rock", "stone"), "no contact group 'rock'"),
        (lambda rig: rig.link_pair_force("arm", "panda_hand", "rock"), "no contact group 'rock'"),
        (lambda rig: rig.link_pair_force("arm", "hand", "stone"), "no link of 'arm' 'hand'"),
        (lambda rig: rig.net_force("arm", "panda_hand_tcp"), "'panda_hand_tcp' of 'arm' is a frame without a body"),
        (lambda rig: rig.link_wrench("arm", "panda_hand_tcp"), "links with one are: panda_link0, .*panda_hand"),
        (lambda rig: rig.carried_mass("arm", "hand"), "no link of 'arm' 'hand'"),
        (lambda rig: rig.set_collision_groups("stone", "arm.arm", enabled=False), r"there are: \('stone', 'ram'\)"),
        (lambda rig: rig.save_state(2), "env must be a copy from 0 to 1, got 2"),
        (lambda rig: rig.restore_state(0, np.zeros(3)), "state must have shape"),
        (lambda rig: rig.restore_state(0, np.full_like(rig.save_state(0), np.nan)), "state must be finite"),
        (lambda rig: rig.render("ear"), "no camera 'ear'; there are: eye"),
        (lambda rig: rig.render("eye", env=7), "env must be a copy from 0 to 1, got 7"),
    ],
)
def test_calls_with_wrong_input_name_it_and_change_nothing(rig, call, message):
    before = [rig.save_state(env).tobytes() for env in range(2)]
    with pytest.raises((ValueError, KeyError), match=message):
        call(rig)
    assert [rig.save_state(env).tobytes() for env in range(2)] == before


def scene(**parts):
    robots = (RobotSpec(uid="arm", model="panda_partner"),)
    return SceneSpec(**{"robots": robots, "bodies": (ball("stone"),), **parts})


def pin(link=HAND, body="stone"):
    return PinSpec(name="hold", link=link, link_offset=(0.0, 0.0, 0.0), body=body, body_offset=(0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"robots": (RobotSpec(uid="arm", model="octopus"),)}, "octopus.*panda_partner"),
        ({"pins": (pin(body="rock"),)}, "pin 'hold' names no body of the scene with 'rock'; there are: stone"),
        ({"pins": (pin(LinkRef("leg", "foot")),)}, "no robot 'leg'; there are: arm"),
        (
            {"pins": (pin(LinkRef("arm", "foot")),)},
            "robot 'arm' has no link 'foot'; there are: panda_link0, .*panda_hand",
        ),
        ({"welds": (WeldSpec(name="grip", link=HAND, body="rock"),)}, "weld 'grip' names no body .* 'rock'"),
        ({"bodies": (ball("tool", motion=Motion.ATTACHED, attached_to=LinkRef("arm", "foot")),)}, "no link 'foot'"),
        (
            {"cameras": (CameraSpec(name="c", width=8, height=8, field_of_view=1.0, mount=LinkRef("arm", "foot")),)},
            "no link 'foot'",
        ),
        ({"cameras": (CameraSpec(name="c", width=8, height=8, field_of_view=1.0, target=(0, 0, 0)),)}, "on its target"),
    ],
)
def test_scenes_that_name_what_is_not_there_are_refused(parts, message):
    with pytest.raises((ValueError, KeyError), match=message):
        MujocoBackend(scene(**parts), num_envs=1)


def test_a_scene_that_mujoco_refuses_is_a_compatibility_error():
    speck = GeomSpec(name="speck", shape=Shape.SPHERE, size=(1e-9,))
    body = BodySpec(name="speck", geoms=(speck,), motion=Motion.FREE)
    with pytest.raises(ChamberEnvCompatibilityError, match=r"MuJoCo refuses the scene: .*mass"):
        MujocoBackend(scene(bodies=(body,)), num_envs=1)


def test_a_pin_must_hold_something_that_can_move():
    still = BodySpec(name="stone", geoms=ball("stone").geoms, motion=Motion.FIXED)
    with pytest.raises(ChamberEnvCompatibilityError, match="pin 'hold' holds two things that never move"):
        MujocoBackend(scene(bodies=(still,), pins=(pin(LinkRef("arm", "panda_link0")),)), num_envs=1)


def test_there_must_be_a_copy():
    with pytest.raises(ValueError, match="num_envs must be >= 1, got 0"):
        make_backend(SCENE, num_envs=0)


def test_an_absurd_number_of_copies_is_refused_before_anything_is_allocated():
    with pytest.raises(ValueError, match="num_envs must be <= 4096, got 1000000000"):
        MujocoBackend(SCENE, num_envs=10**9)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_simulation_is_not_copied_into_one_that_does_something_else(rig, take):
    with pytest.raises(TypeError, match="build another one"):
        take(rig)


@pytest.mark.egl
def test_a_picture_of_the_nearest_plane_that_is_allowed_is_drawn():
    near = dataclasses.replace(SCENE.cameras[0], near=SMALLEST_NEAR)
    rig = MujocoBackend(dataclasses.replace(SCENE, cameras=(near,)), num_envs=1)
    assert np.isfinite(rig.render("eye").depth).all()
    rig.close()
