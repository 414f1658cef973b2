"""Scenes as data: what cannot be meant is refused when it is written down."""

import dataclasses
import math

import pytest

from chamber.sim.scene import (
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
    arm_group,
    finger_group,
)

HAND = LinkRef("arm", "hand")
ORIGIN = (0.0, 0.0, 0.0)


def geom(name="geom", shape=Shape.SPHERE, size=(0.1,), **options):
    return GeomSpec(name=name, shape=shape, size=size, **options)


def body(name="body", motion=Motion.FREE, **options):
    return BodySpec(name=name, **{"geoms": (geom(),), "motion": motion, **options})


def pin(name="pin", **options):
    return PinSpec(name=name, link=HAND, link_offset=ORIGIN, body="body", body_offset=ORIGIN, **options)


def camera(name="camera", **options):
    return CameraSpec(name=name, **{"width": 8, "height": 8, "field_of_view": 1.0, "target": ORIGIN, **options})


def robot(uid="arm"):
    return RobotSpec(uid=uid, model="panda_partner")


@pytest.mark.parametrize(("shape", "size"), list(zip(Shape, [(1, 2, 3), (1,), (1, 2), (1, 2)], strict=True)))
def test_every_shape_takes_its_own_number_of_positive_sizes(shape, size):
    assert geom(shape=shape, size=size).size == size
    for wrong in ((*size, 1.0), size[:-1], (*size[:-1], 0.0), (*size[:-1], math.nan), (*size[:-1], math.inf)):
        with pytest.raises(ValueError, match=rf"size of {shape} 'geom' must be {len(size)} numbers > 0, got"):
            geom(shape=shape, size=wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: body(motion=Motion.ATTACHED), "attached_to of body 'body' must be given exactly for an attached body"),
        (lambda: body(attached_to=HAND), "attached_to of body 'body' must be given exactly for an attached body"),
        (lambda: body(mass=1.0), "body 'body' needs mass and diagonal_inertia together"),
        (lambda: body(diagonal_inertia=(1.0, 1.0, 1.0)), "body 'body' needs mass and diagonal_inertia together"),
        (lambda: body(geoms=(geom("a"), geom("a"))), "geom of body 'body' 'a' is there twice"),
        (lambda: pin(stiffness=0.0), "stiffness of pin 'pin' must be finite and > 0, got 0.0"),
        (lambda: pin(stiffness=math.inf), "stiffness of pin 'pin' must be finite and > 0, got inf"),
        (lambda: pin(damping=-1.0), "damping of pin 'pin' must be finite and >= 0, got -1.0"),
        (lambda: pin(damping=math.nan), "damping of pin 'pin' must be finite and >= 0, got nan"),
        (lambda: pin(force_limit=0.0), "force_limit of pin 'pin' must be > 0, got 0.0"),
        (lambda: pin(force_limit=math.nan), "force_limit of pin 'pin' must be > 0, got nan"),
        (lambda: camera(mount=HAND), "camera 'camera' needs either a target or a mount"),
        (lambda: camera(target=None), "camera 'camera' needs either a target or a mount"),
        (lambda: camera(field_of_view=0.0), r"field_of_view of camera 'camera' must be in \(0, pi\), got 0.0"),
        (lambda: camera(field_of_view=math.pi), r"field_of_view of camera 'camera' must be in \(0, pi\)"),
        (lambda: camera(width=0), "camera 'camera' must be at least 1 x 1, got 0 x 8"),
        (lambda: ContactRule("a", "b", time_constant=0.0), "time_constant of contact between 'a' and 'b' must be"),
        (
            lambda: ContactRule("a", "b", impedance=(0.5, 1.0)),
            r"impedance of contact .* must be two numbers in \(0, 1\)",
        ),
        (lambda: SceneSpec(robots=(robot(), robot())), "robot 'arm' is there twice"),
        (lambda: SceneSpec(robots=(), bodies=(body(), body())), "body 'body' is there twice"),
        (lambda: SceneSpec(robots=(), cameras=(camera(), camera())), "camera 'camera' is there twice"),
        (
            lambda: SceneSpec(robots=(), pins=(pin("hold"),), welds=(WeldSpec(name="hold", link=HAND, body="body"),)),
            "hold 'hold' is there twice",
        ),
        (lambda: SceneSpec(robots=(), physics_timestep=0.0), "physics_timestep must be finite and > 0, got 0.0"),
        (lambda: SceneSpec(robots=(), control_timestep=math.nan), "control_timestep must be finite and > 0, got nan"),
        (
            lambda: SceneSpec(robots=(), physics_timestep=0.003),
            "control_timestep 0.05 must be a whole number of physics",
        ),
        (lambda: SceneSpec(robots=(), physics_timestep=0.2), "control_timestep 0.05 must be a whole number of physics"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_scene_knows_how_many_physics_steps_a_control_step_has():
    assert SceneSpec(robots=()).substeps == 25
    assert SceneSpec(robots=(), physics_timestep=0.001).substeps == 50
    assert SceneSpec(robots=(), control_timestep=0.002).substeps == 1


def test_groups_of_a_robot_are_named_after_it():
    assert arm_group("ego") == "ego.arm"
    assert finger_group("ego") == "ego.fingers"
    assert arm_group("ego") != arm_group("partner")


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda value: RobotSpec(uid="arm", model="panda_partner", base_position=(value, 0.0, 0.0)), "base_position"),
        (lambda value: RobotSpec(uid="arm", model="panda_partner", base_yaw=value), "base_yaw"),
        (lambda value: RobotSpec(uid="arm", model="panda_partner", friction=value), "friction"),
        (lambda value: geom(position=(0.0, value, 0.0)), "position"),
        (lambda value: geom(mass=value), "mass"),
        (lambda value: geom(density=value), "density"),
        (lambda value: geom(friction=value), "friction"),
        (lambda value: geom(rgba=(0.0, 0.0, 0.0, value)), "rgba"),
        (lambda value: body(position=(0.0, 0.0, value)), "position"),
        (lambda value: body(quaternion=(value, 0.0, 0.0, 0.0)), "quaternion"),
        (lambda value: body(mass=value, diagonal_inertia=(1.0, 1.0, 1.0)), "mass"),
        (lambda value: body(mass=1.0, diagonal_inertia=(1.0, value, 1.0)), "diagonal_inertia"),
        (lambda value: dataclasses.replace(pin(), link_offset=(value, 0.0, 0.0)), "link_offset"),
        (lambda value: dataclasses.replace(pin(), body_offset=(value, 0.0, 0.0)), "body_offset"),
        (lambda value: WeldSpec(name="weld", link=HAND, body="b", position=(value, 0.0, 0.0)), "position"),
        (lambda value: ContactRule("one", "other", friction=value), "friction"),
        (lambda value: camera(position=(value, 0.0, 0.0)), "position"),
        (lambda value: camera(target=(value, 0.0, 0.0)), "target"),
    ],
)  # fmt: skip
def test_a_number_that_is_not_finite_is_refused_where_it_is_written(make, name, value):
    with pytest.raises(ValueError, match=rf"^{name} of .* must be finite, got"):
        make(value)


@pytest.mark.parametrize(
    ("near", "far"),
    [(0.0, 1.0), (-1.0, 1.0), (1e-9, 1.0), (5.0, 1.0), (0.1, math.inf), (math.nan, 1.0), (0.1, math.nan)],
)
def test_clipping_planes_that_would_end_the_process_are_refused(near, far):
    with pytest.raises(ValueError, match=r"camera 'camera' must have 0\.0001 <= near < far, finite"):
        camera(near=near, far=far)


def test_a_picture_larger_than_drivers_take_is_refused():
    with pytest.raises(ValueError, match="at most 8192 pixels wide and high, got 8193 x 8"):
        camera(width=8193)
