"""Motion and forces against closed forms."""

import math

import numpy as np
import pytest

from chamber.sim.mujoco_backend import MujocoBackend
from chamber.sim.scene import (
    BodySpec,
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

GRAVITY = 9.81
ARM = RobotSpec(uid="arm", model="panda_partner")
BASE = LinkRef("arm", "panda_link0")  # never moves: its frame is the world's
HAND = LinkRef("arm", "panda_hand")


def box(name, half_sizes, *, motion=Motion.FREE, mass=1.0, group=None, friction=0.3, **pose):
    geom = GeomSpec(name="box", shape=Shape.BOX, size=half_sizes, mass=mass, group=group, friction=friction)
    return BodySpec(name=name, geoms=(geom,), motion=motion, **pose)


def ground(height, *, group="ground", **pose):
    """A thick plate whose upper face is at a height, or that is turned about the centre of this face."""
    return box("ground", (2.0, 2.0, 0.5), motion=Motion.FIXED, group=group, position=(0.0, 0.0, height - 0.5), **pose)


def build(*bodies, robots=(ARM,), **parts):
    return MujocoBackend(SceneSpec(robots=robots, bodies=bodies, **parts), num_envs=1)


def advance(rig, seconds):
    for _ in range(round(seconds / rig.scene.control_timestep)):
        rig.advance()


def test_a_free_body_falls_as_galilei_says():
    rig = build(box("stone", (0.02, 0.02, 0.02), position=(1.0, 0.0, 5.0)), robots=())
    advance(rig, 0.5)
    substeps, dt = 250, 0.002
    assert rig.body_pose("stone")[0, 2] == pytest.approx(
        5.0 - GRAVITY * dt**2 * substeps * (substeps + 1) / 2, abs=1e-9
    )
    assert rig.body_velocity("stone")[0] == pytest.approx([0, 0, -GRAVITY * 0.5, 0, 0, 0], abs=1e-9)


def test_a_robot_and_what_is_attached_to_it_have_no_weight():
    tool = box("tool", (0.05, 0.05, 0.05), motion=Motion.ATTACHED, attached_to=HAND, position=(0.0, 0.2, 0.1))
    rig = build(tool)
    ready = rig.qpos("arm")
    advance(rig, 2.0)
    assert np.abs(rig.qpos("arm") - ready).max() < 1e-9


@pytest.mark.parametrize("stiffness", [None, 2e4])
def test_a_bar_on_two_pins_rests_with_half_its_weight_on_each(stiffness):
    pins = tuple(
        PinSpec(
            name=name,
            link=BASE,
            link_offset=(1.0 + x, 0.0, 1.0),
            body="bar",
            body_offset=(x, 0.0, 0.0),
            stiffness=stiffness,
            damping=2e3,
        )
        for name, x in (("left", -0.115), ("right", 0.115))
    )
    rig = build(box("bar", (0.115, 0.0125, 0.0125), mass=0.4, position=(1.0, 0.0, 1.0)), pins=pins)
    advance(rig, 3.0)
    for name in ("left", "right"):
        assert rig.pin_force(name)[0] == pytest.approx([0.0, 0.0, 0.4 * GRAVITY / 2], abs=1e-4)


def test_pins_share_a_load_by_the_lever_rule():
    pins = tuple(
        PinSpec(name=name, link=BASE, link_offset=(1.0 + x, 0.0, 1.0), body="bar", body_offset=(x, 0.0, 0.0))
        for name, x in (("near", -0.1), ("far", 0.3))
    )
    rig = build(box("bar", (0.3, 0.01, 0.01), mass=2.0, position=(1.0, 0.0, 1.0)), pins=pins)
    advance(rig, 2.0)
    assert rig.pin_force("near")[0, 2] == pytest.approx(2.0 * GRAVITY * 0.3 / 0.4, rel=1e-4)
    assert rig.pin_force("far")[0, 2] == pytest.approx(2.0 * GRAVITY * 0.1 / 0.4, rel=1e-4)


def test_a_pinned_body_swings_with_the_period_of_its_pendulum():
    arm_length, half = 0.5, 0.01
    pin = PinSpec(name="pivot", link=BASE, link_offset=(1.0, 0.0, 1.0), body="bob", body_offset=(0.0, 0.0, arm_length))
    rig = build(box("bob", (half, half, half), position=(1.0, 0.0, 0.5)), pins=(pin,), control_timestep=0.002)
    angle = 0.05
    start = [1.0 - arm_length * math.sin(angle), 0.0, 1.0 - arm_length * math.cos(angle)]
    turn = [math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0]
    rig.reset({"arm": rig.qpos("arm")}, {"bob": np.array([[*start, *turn]])})
    inertia = arm_length**2 + (2 * half) ** 2 / 6
    period = 2 * math.pi * math.sqrt(inertia / (GRAVITY * arm_length)) * (1 + angle**2 / 16)
    sideways = []
    for _ in range(round(1.25 * period / 0.002)):
        rig.advance()
        sideways.append(rig.body_pose("bob")[0, 0])
    back = int(np.argmin(sideways)) + 1
    assert back * 0.002 == pytest.approx(period, rel=0.01)


@pytest.mark.parametrize("stiffness", [200.0, 2e3, 2e4, 2e5])
def test_a_spring_is_stretched_by_force_over_stiffness(stiffness):
    rig = build(box("load", (0.05, 0.05, 0.05), position=(1.0, 0.0, 1.0)), pins=(spring(stiffness, 0.1 * stiffness),))
    advance(rig, 2.0)
    assert 1.0 - rig.body_pose("load")[0, 2] == pytest.approx(GRAVITY / stiffness, rel=2e-3)
    assert rig.pin_force("spring")[0] == pytest.approx([0.0, 0.0, GRAVITY], abs=1e-4)


def test_a_load_on_a_spring_swings_and_decays_as_the_linear_law_says():
    mass, stiffness, damping, amplitude = 1.0, 200.0, 4.0, 0.05
    pin = spring(stiffness, damping)
    rig = build(box("load", (0.05, 0.05, 0.05), position=(1.0, 0.0, 1.0)), pins=(pin,), control_timestep=0.002)
    rest = 1.0 - mass * GRAVITY / stiffness
    rig.reset({"arm": rig.qpos("arm")}, {"load": np.array([[1.0, 0.0, rest + amplitude, 1.0, 0.0, 0.0, 0.0]])})
    decay = damping / (2 * mass)
    frequency = math.sqrt(stiffness / mass - decay**2)
    worst = 0.0
    for step in range(1, 501):
        rig.advance()
        t = 0.002 * step
        expected = (
            amplitude * math.exp(-decay * t) * (math.cos(frequency * t) + decay / frequency * math.sin(frequency * t))
        )
        worst = max(worst, abs(rig.body_pose("load")[0, 2] - rest - expected))
    assert worst < 0.1 * amplitude


def test_a_spring_starts_with_the_stretch_of_the_given_pose():
    rig = build(box("load", (0.05, 0.05, 0.05), position=(1.0, 0.0, 1.0)), pins=(spring(500.0, 5.0),))
    at_rest = np.array([[1.0, 0.0, 1.0 - GRAVITY / 500.0, 1.0, 0.0, 0.0, 0.0]])
    rig.reset({"arm": rig.qpos("arm")}, {"load": at_rest})
    assert rig.pin_force("spring")[0] == pytest.approx([0.0, 0.0, GRAVITY], rel=0.01)
    advance(rig, 1.0)
    assert rig.body_pose("load")[0] == pytest.approx(at_rest[0], abs=1e-4)


@pytest.mark.parametrize("stiffness", [2e3, 2e4, 2e5])
def test_a_spring_never_pulls_harder_than_its_limit(stiffness):
    limit = 5.0
    pin = spring(stiffness, 0.1 * stiffness, force_limit=limit)
    rig = build(box("load", (0.05, 0.05, 0.05), position=(1.0, 0.0, 1.0)), pins=(pin,), control_timestep=0.002)
    forces = []
    for _ in range(250):
        rig.advance()
        forces.append(rig.pin_force("spring")[0, 2])
    assert np.mean(forces) == pytest.approx(limit, rel=0.02)
    assert 1.0 - rig.body_pose("load")[0, 2] == pytest.approx((GRAVITY - limit) * 0.5**2 / 2, rel=0.02)


def spring(stiffness, damping, **limits):
    return PinSpec(
        name="spring",
        link=BASE,
        link_offset=(1.0, 0.0, 1.0),
        body="load",
        body_offset=(0.0, 0.0, 0.0),
        stiffness=stiffness,
        damping=damping,
        **limits,
    )


@pytest.mark.parametrize("stiffness", [None, 500.0])
def test_a_kinematic_body_draws_what_is_pinned_to_it(stiffness):
    """The anchor pulls the hand down by 2 cm; the arm gives way to the pin's force as its drives say."""
    hand = build().link_pose("arm", "panda_hand")[0, :3]
    pin = PinSpec(
        name="hold",
        link=HAND,
        link_offset=(0.0, 0.0, 0.0),
        body="anchor",
        body_offset=(0.0, 0.0, 0.0),
        stiffness=stiffness,
        damping=50.0,
    )
    rig = build(box("anchor", (0.01, 0.01, 0.01), motion=Motion.KINEMATIC, position=tuple(hand)), pins=(pin,))
    assert rig.pin_force("hold")[0] == pytest.approx(np.zeros(3), abs=1e-3)
    rig.set_body_pose("anchor", np.array([[hand[0], hand[1], hand[2] - 0.02, 1.0, 0.0, 0.0, 0.0]]))
    advance(rig, 3.0)
    sunk = hand[2] - rig.link_pose("arm", "panda_hand")[0, 2]
    force = rig.pin_force("hold")[0, 2]
    if stiffness is None:
        assert sunk == pytest.approx(0.02, abs=1e-3)
        assert force > 1.0
    else:
        assert 0.0 < sunk < 0.02
        assert force == pytest.approx(stiffness * (0.02 - sunk), rel=0.01)


@pytest.mark.parametrize("grip", ["of the geoms", "of the rule"])
@pytest.mark.parametrize(("slope", "slides"), [(0.4, False), (0.7, True)])
def test_a_box_slides_down_exactly_the_slopes_that_are_steeper_than_its_friction(slope, slides, grip):
    friction = 0.5
    angle = math.atan(slope)
    turn = (math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0)
    normal = np.array([math.sin(angle), 0.0, math.cos(angle)])
    of_geoms = friction if grip == "of the geoms" else 0.05
    rule = ContactRule("ground", "box", friction=None if grip == "of the geoms" else friction)
    plate = GeomSpec(
        name="plate",
        shape=Shape.BOX,
        size=(5.0, 1.0, 0.5),
        position=(0.0, 0.0, -0.5),
        group="ground",
        friction=of_geoms,
    )
    plate = BodySpec(name="ground", geoms=(plate,), motion=Motion.FIXED, quaternion=turn)
    start = 0.02 * normal
    load = box("box", (0.05, 0.05, 0.02), group="box", friction=of_geoms, position=tuple(start), quaternion=turn)
    rig = build(plate, load, robots=(), contacts=(rule,), control_timestep=0.002)
    forces = []
    for _ in range(500):
        rig.advance()
        forces.append(rig.pair_force("box", "ground")[0])
    moved = np.linalg.norm(rig.body_pose("box")[0, :3] - start)
    expected = 0.5 * GRAVITY * (math.sin(angle) - friction * math.cos(angle)) if slides else 0.0
    assert moved == pytest.approx(expected, rel=0.05, abs=0.01)
    # A box that slides fast rattles; its mean force is that of one that does not.
    assert np.mean(forces, axis=0) @ normal == pytest.approx(GRAVITY * math.cos(angle), rel=0.1)


@pytest.mark.parametrize(("friction", "slides"), [(0.3, True), (1.0, False)])
def test_links_have_the_friction_of_their_robot(friction, slides):
    """A bar of 1 kg lies across the shoulders of two bases, and a spring draws it backwards with 5 N."""
    robots = tuple(
        RobotSpec(uid=uid, model="panda_partner", base_position=(0.0, y, 0.0), friction=friction)
        for uid, y in (("arm", 0.0), ("other", 0.5))
    )
    shoulder_height = 0.135
    bar = box("bar", (0.03, 0.4, 0.01), group="bar", friction=0.01, position=(-0.11, 0.25, shoulder_height + 0.01))
    pull = PinSpec(
        name="pull",
        link=BASE,
        link_offset=(-1.11, 0.25, shoulder_height + 0.01),
        body="bar",
        body_offset=(0.0, 0.0, 0.0),
        stiffness=5.0,
        damping=0.1,
    )
    rules = tuple(ContactRule("bar", arm_group(robot.uid)) for robot in robots)
    rig = build(bar, robots=robots, pins=(pull,), contacts=rules)
    advance(rig, 0.2)
    assert (rig.body_pose("bar")[0, 0] < -0.13) == slides


def test_contact_forces_carry_a_weight_and_are_opposite_for_the_two():
    rig = build(
        ground(0.0),
        box("load", (0.05, 0.05, 0.05), mass=2.0, group="load", position=(0.5, 0.0, 0.05)),
        robots=(),
        contacts=(ContactRule("ground", "load"),),
    )
    advance(rig, 1.0)
    assert rig.pair_force("load", "ground")[0] == pytest.approx([0.0, 0.0, 2.0 * GRAVITY], abs=1e-3)
    assert rig.pair_force("ground", "load")[0] == pytest.approx([0.0, 0.0, -2.0 * GRAVITY], abs=1e-3)
    assert 0.0 < rig.penetration("load", "ground")[0] < 1e-4


def test_penetration_is_the_depth_of_the_overlap_at_once_after_placing():
    rig = build(
        box("load", (0.05, 0.05, 0.05), group="load", position=(0.0, 0.0, 1.0)),
        box("ram", (0.05, 0.05, 0.05), motion=Motion.KINEMATIC, group="ram", position=(1.0, 0.0, 1.0)),
        robots=(),
        contacts=(ContactRule("load", "ram"),),
    )
    assert rig.penetration("load", "ram")[0] == 0.0
    rig.set_body_pose("ram", np.array([[0.097, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]]))
    assert rig.penetration("ram", "load")[0] == pytest.approx(0.003, abs=1e-9)
    assert rig.body_pose("ram")[0, 0] == 0.097
    assert rig.pair_force("load", "ram")[0, 0] < 0.0


def test_a_kinematic_body_pushes_and_is_not_pushed():
    rig = build(
        ground(0.0),
        box("load", (0.05, 0.05, 0.05), mass=5.0, group="load", position=(0.0, 0.0, 0.05)),
        box("ram", (0.05, 0.05, 0.05), motion=Motion.KINEMATIC, group="ram", position=(-0.11, 0.0, 0.06)),
        robots=(),
        contacts=(ContactRule("ground", "load"), ContactRule("load", "ram")),
    )
    for step in range(20):
        pose = np.array([[-0.11 + 0.005 * step, 0.0, 0.06, 1.0, 0.0, 0.0, 0.0]])
        rig.set_body_pose("ram", pose)
        rig.advance()
        assert (rig.body_pose("ram") == pose).all()
    assert rig.body_pose("load")[0, 0] > 0.08


@pytest.mark.parametrize("shape", [Shape.BOX, Shape.SPHERE])  # which of two geoms is the first depends on their shapes
def test_fingers_that_hold_something_carry_its_weight(shape):
    ready = build()
    hold = ready.link_pose("arm", "panda_hand_tcp")[0, :3]
    fingers = finger_group("arm")
    size = (0.02, 0.02, 0.02) if shape is Shape.BOX else (0.02,)
    geom = GeomSpec(name="thing", shape=shape, size=size, mass=0.064, group="cube")
    thing = BodySpec(name="thing", geoms=(geom,), motion=Motion.FREE, position=tuple(hold))
    rig = build(thing, contacts=(ContactRule("cube", fingers),))
    close = np.zeros((1, 8))
    close[0, 7] = -1.0
    for _ in range(40):
        rig.apply("arm", close)
        rig.advance()
    weight = np.array([0.0, 0.0, 0.064 * GRAVITY])
    left = rig.link_pair_force("arm", "panda_leftfinger", "cube")[0]
    right = rig.link_pair_force("arm", "panda_rightfinger", "cube")[0]
    assert rig.pair_force("cube", fingers)[0] == pytest.approx(weight, abs=0.02)
    assert left + right == pytest.approx(-weight, abs=0.02)
    assert np.linalg.norm(left) > 1.0
    assert (rig.link_pair_force("arm", "panda_leftfinger", fingers) == 0.0).all()
    assert (rig.net_force("arm", "panda_leftfinger")[0] == left).all()
    assert (rig.net_force("arm", "panda_hand") == 0.0).all()


def test_the_wrench_at_a_link_carries_what_hangs_on_it():
    offset = np.array([0.0, 0.3, 0.1])
    tool = box("tool", (0.05, 0.05, 0.05), mass=1.5, motion=Motion.ATTACHED, attached_to=HAND, position=tuple(offset))
    empty, loaded = build(), build(tool)
    weight = np.array([0.0, 0.0, 1.5 * GRAVITY])
    assert loaded.carried_mass("arm", "panda_hand") == pytest.approx(empty.carried_mass("arm", "panda_hand") + 1.5)
    lever = loaded.body_pose("tool")[0, :3] - loaded.link_pose("arm", "panda_hand")[0, :3]
    difference = loaded.link_wrench("arm", "panda_hand")[0] - empty.link_wrench("arm", "panda_hand")[0]
    assert difference[:3] == pytest.approx(weight, abs=1e-6)
    assert difference[3:] == pytest.approx(np.cross(lever, weight), abs=1e-6)
    carried = empty.carried_mass("arm", "panda_hand") * GRAVITY
    assert empty.link_wrench("arm", "panda_hand")[0, :3] == pytest.approx([0.0, 0.0, carried], abs=1e-6)


def test_the_wrench_at_a_link_carries_what_is_pinned_to_it():
    hand = build().link_pose("arm", "panda_hand")[0, :3]
    pin = PinSpec(name="hold", link=HAND, link_offset=(0.0, 0.0, 0.0), body="load", body_offset=(0.0, 0.0, 0.05))
    empty = build()
    rig = build(box("load", (0.02, 0.02, 0.02), position=(hand[0], hand[1], hand[2] - 0.05)), pins=(pin,))
    for _ in range(60):
        rig.advance()
        empty.advance()
    added = rig.link_wrench("arm", "panda_hand")[0, :3] - empty.link_wrench("arm", "panda_hand")[0, :3]
    assert added[2] == pytest.approx(GRAVITY, abs=0.05)
    assert added == pytest.approx(rig.pin_force("hold")[0], abs=0.05)


def test_a_welded_body_keeps_its_pose_in_the_hand_while_the_arm_moves():
    in_hand = np.array([0.02, 0.0, 0.12])
    ready = build()
    hand = ready.link_pose("arm", "panda_hand")[0]
    start = hand.copy()
    start[:3] += rotation(hand[3:]) @ in_hand
    weld = WeldSpec(name="grip", link=HAND, body="load", position=tuple(in_hand))
    rig = build(box("load", (0.02, 0.02, 0.02), mass=0.2), welds=(weld,))
    rig.reset({"arm": rig.qpos("arm")}, {"load": start[None]})
    action = np.zeros((1, 8))
    action[0, [0, 3, 5]] = 0.5
    for _ in range(20):
        rig.apply("arm", action)
        rig.advance()
    hand, load = rig.link_pose("arm", "panda_hand")[0], rig.body_pose("load")[0]
    assert np.linalg.norm(hand[:3] - start[:3]) > 0.1
    assert rotation(hand[3:]).T @ (load[:3] - hand[:3]) == pytest.approx(in_hand, abs=1e-3)
    assert abs(hand[3:] @ load[3:]) == pytest.approx(1.0, abs=1e-5)


def test_body_velocity_is_the_rate_of_its_pose():
    pin = PinSpec(name="hold", link=BASE, link_offset=(1.0, 0.0, 1.0), body="load", body_offset=(0.3, 0.1, 0.0))
    load = box("load", (0.1, 0.05, 0.02), position=(0.7, -0.1, 1.0))
    rig = build(load, pins=(pin,), control_timestep=0.002)
    for _ in range(150):
        rig.advance()
    before = rig.body_pose("load")[0]
    rig.advance()
    after, velocity = rig.body_pose("load")[0], rig.body_velocity("load")[0]
    turned = rotation(after[3:]) @ rotation(before[3:]).T
    turning = np.array([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]]) / 2
    assert np.linalg.norm(velocity[:3]) > 0.3
    assert (after[:3] - before[:3]) / 0.002 == pytest.approx(velocity[:3], abs=1e-9)
    assert turning / 0.002 == pytest.approx(velocity[3:], abs=1e-3)


def test_a_body_has_the_mass_and_inertia_that_it_is_given():
    shell = GeomSpec(name="shell", shape=Shape.BOX, size=(0.1, 0.1, 0.1), position=(0.3, 0.0, 0.0))
    tool = BodySpec(
        name="tool",
        geoms=(shell,),
        motion=Motion.ATTACHED,
        attached_to=HAND,
        mass=0.5,
        diagonal_inertia=(5e-4, 5e-4, 5e-4),
    )
    rig, empty = build(tool), build()
    assert rig.carried_mass("arm", "panda_hand") - empty.carried_mass("arm", "panda_hand") == pytest.approx(0.5)
    wrench = rig.link_wrench("arm", "panda_hand")[0] - empty.link_wrench("arm", "panda_hand")[0]
    assert wrench == pytest.approx([0.0, 0.0, 0.5 * GRAVITY, 0.0, 0.0, 0.0], abs=1e-6)


def test_a_robot_stands_where_and_how_the_scene_says():
    turned = RobotSpec(uid="arm", model="panda_partner", base_position=(0.5, 0.2, 0.1), base_yaw=math.pi / 2)
    tcp, expected = build().link_pose("arm", "panda_hand_tcp")[0, :3], build(robots=(turned,))
    assert expected.link_pose("arm", "panda_hand_tcp")[0, :3] == pytest.approx(
        [0.5 - tcp[1], 0.2 + tcp[0], 0.1 + tcp[2]], abs=1e-9
    )


def rotation(quaternion):
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
