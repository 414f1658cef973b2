"""Exactly the pairs of a contact rule touch."""

import numpy as np
import pytest

from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim.mujoco_backend import MujocoBackend
from chamber.sim.scene import (
    BodySpec,
    ContactRule,
    GeomSpec,
    LinkRef,
    Motion,
    RobotSpec,
    SceneSpec,
    Shape,
    arm_group,
    finger_group,
)


def block(name, position, *, group, motion=Motion.FREE, half=0.05, **options):
    geom = GeomSpec(name="box", shape=Shape.BOX, size=(half, half, half), group=group)
    return BodySpec(name=name, geoms=(geom,), motion=motion, position=position, **options)


def plate(name, *, group):
    geom = GeomSpec(name="plate", shape=Shape.BOX, size=(1.0, 1.0, 0.05), position=(0.0, 0.0, -0.05), group=group)
    return BodySpec(name=name, geoms=(geom,), motion=Motion.FIXED)


def heights_after(rig, names, steps=20):
    for _ in range(steps):
        rig.advance()
    return [rig.body_pose(name)[0, 2] for name in names]


@pytest.mark.parametrize("friction", [None, 0.7])
def test_only_groups_of_a_rule_touch(friction):
    blocks = [block(group, (0.3 * place, 0.0, 0.1), group=group) for place, group in enumerate("abc")]
    ghost = block("ghost", (-0.3, 0.0, 0.1), group=None)
    scene = SceneSpec(
        robots=(),
        bodies=(plate("ground", group="ground"), *blocks, ghost),
        contacts=(ContactRule("ground", "a", friction=friction), ContactRule("c", "ground", friction=friction)),
    )
    a, b, c, through = heights_after(MujocoBackend(scene, num_envs=1), ["a", "b", "c", "ghost"])
    assert [a, c] == pytest.approx([0.05, 0.05], abs=1e-3)
    assert [b, through] == pytest.approx([-4.9, -4.9], abs=0.2)


@pytest.mark.parametrize("tilt", [0.2, 0.02, -0.02, 0.0])
@pytest.mark.parametrize("friction", [None, 0.5])
def test_penetration_is_that_of_the_deepest_point(friction, tilt):
    depth, half = 0.004, 0.05
    scene = SceneSpec(
        robots=(),
        bodies=(plate("ground", group="ground"), block("block", (0.3, 0.0, 1.0), group="block", half=half)),
        contacts=(ContactRule("block", "ground", friction=friction),),
    )
    rig = MujocoBackend(scene, num_envs=1)
    assert rig.penetration("block", "ground")[0] == 0.0
    height = half * (np.cos(tilt) + np.sin(abs(tilt))) - depth
    rig.reset({}, {"block": np.array([[0.3, 0.0, height, np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0]])})
    assert rig.penetration("block", "ground")[0] == pytest.approx(depth, abs=1e-4)
    assert rig.pair_force("block", "ground")[0, 2] > 1.0


@pytest.mark.parametrize("friction", [None, 0.5])
def test_two_that_cannot_move_put_no_force_on_each_other(friction):
    scene = SceneSpec(
        robots=(),
        bodies=(
            plate("ground", group="ground"),
            block("ram", (0.0, 0.0, 0.04), group="ram", motion=Motion.KINEMATIC),
            block("block", (0.5, 0.0, 0.049), group="block"),
        ),
        contacts=(ContactRule("ram", "ground", friction=friction), ContactRule("block", "ground")),
    )
    rig = MujocoBackend(scene, num_envs=1)
    assert (rig.pair_force("ram", "ground") == 0.0).all()
    assert rig.pair_force("block", "ground")[0, 2] > 1.0


def test_a_group_may_touch_itself_when_a_rule_says_so():
    def stack(*rules):
        return SceneSpec(
            robots=(),
            bodies=(
                plate("ground", group="ground"),
                block("lower", (0.0, 0.0, 0.05), group="block"),
                block("upper", (0.0, 0.0, 0.15), group="block"),
            ),
            contacts=(ContactRule("ground", "block"), *rules),
        )

    for rule in (ContactRule("block", "block"), ContactRule("block", "block", friction=0.5)):
        assert heights_after(MujocoBackend(stack(rule), num_envs=1), ["upper"]) == pytest.approx([0.15], abs=1e-3)
    assert heights_after(MujocoBackend(stack(), num_envs=1), ["upper"]) == pytest.approx([0.05], abs=1e-3)


def crossed_arms(*rules):
    """Two arms whose hands are at the same place."""
    robots = (
        RobotSpec(uid="one", model="panda_partner", base_position=(-0.615, 0.0, 0.0)),
        RobotSpec(uid="two", model="panda_partner", base_position=(0.615, 0.0, 0.0), base_yaw=np.pi),
    )
    return SceneSpec(robots=robots, contacts=rules)


def test_arms_pass_through_each_other_without_a_rule():
    rig = MujocoBackend(crossed_arms(), num_envs=1)
    ready = {uid: rig.qpos(uid) for uid in ("one", "two")}
    rig.advance()
    for uid, joints in ready.items():
        assert rig.qpos(uid) == pytest.approx(joints, abs=1e-9)


def test_arms_touch_each_other_with_a_rule_and_never_themselves():
    rig = MujocoBackend(crossed_arms(ContactRule(arm_group("one"), arm_group("two"))), num_envs=1)
    assert rig.penetration(arm_group("one"), arm_group("two"))[0] > 0.01
    assert np.linalg.norm(rig.pair_force(arm_group("one"), arm_group("two"))) > 1.0
    folded = rig.qpos("one")
    folded[0, [1, 3]] = -1.7, -3.0
    rig.reset({"one": folded, "two": folded}, {})
    assert rig.penetration(arm_group("one"), arm_group("one"))[0] == 0.0
    rig.advance()
    assert rig.qpos("one") == pytest.approx(folded, abs=1e-9)


def test_what_is_attached_touches_other_robots_but_not_its_own():
    def tool(uid):
        geom = GeomSpec(name="ball", shape=Shape.SPHERE, size=(0.15,), group="tool")
        hand = LinkRef(uid, "panda_hand")
        return BodySpec(name=f"tool of {uid}", geoms=(geom,), motion=Motion.ATTACHED, attached_to=hand)

    groups = [group(uid) for uid in ("one", "two") for group in (arm_group, finger_group)]
    for options in ({}, {"friction": 0.5}):
        rules = [ContactRule("tool", group, **options) for group in groups]
        base = crossed_arms(*rules, ContactRule("tool", "tool", **options))
        scene = SceneSpec(robots=base.robots, bodies=(tool("one"), tool("two")), contacts=base.contacts)
        together = MujocoBackend(scene, num_envs=1)
        assert together.penetration("tool", "tool")[0] > 0.1
        assert together.penetration("tool", finger_group("two"))[0] > 0.01
        assert np.linalg.norm(together.net_force("two", "panda_leftfinger")) > 1.0
        apart = {"one": together.qpos("one"), "two": together.qpos("two")}
        apart["two"][0, 0] = np.pi / 2
        together.reset(apart, {})
        for group in groups:
            assert together.penetration("tool", group)[0] == 0.0
        assert (together.net_force("one", "panda_leftfinger") == 0.0).all()


@pytest.mark.parametrize("options", [{}, {"friction": 0.4}, {"time_constant": 0.01}, {"impedance": (0.9, 0.95)}])
def test_a_rule_can_be_switched_off_and_on_again(options):
    scene = SceneSpec(
        robots=(),
        bodies=(
            plate("ground", group="ground"),
            block("block", (0.0, 0.0, 0.05), group="block"),
            block("other", (0.4, 0.0, 0.05), group="other"),
        ),
        contacts=(ContactRule("ground", "block", **options), ContactRule("ground", "other")),
    )
    rig = MujocoBackend(scene, num_envs=2)
    rig.advance()
    assert (rig.pair_force("block", "ground")[:, 2] > 1.0).all()
    rig.set_collision_groups("block", "ground", enabled=False)
    assert (rig.pair_force("block", "ground") == 0.0).all()
    assert (rig.penetration("block", "ground") == 0.0).all()
    for _ in range(10):
        rig.advance()
    assert (rig.body_pose("block")[:, 2] < -1.0).all()
    assert rig.body_pose("other")[:, 2] == pytest.approx([0.05] * 2, abs=1e-3)
    rig.reset({}, {})
    rig.set_collision_groups("ground", "block", enabled=True)
    for _ in range(10):
        rig.advance()
    assert rig.body_pose("block")[:, 2] == pytest.approx([0.05] * 2, abs=1e-3)


def test_a_softer_rule_lets_things_sink_in_deeper():
    def depth(**options):
        scene = SceneSpec(
            robots=(),
            bodies=(plate("ground", group="ground"), block("block", (0.0, 0.0, 0.05), group="block", half=0.05)),
            contacts=(ContactRule("ground", "block", **options),),
        )
        rig = MujocoBackend(scene, num_envs=1)
        for _ in range(20):
            rig.advance()
        return rig.penetration("ground", "block")[0]

    assert depth(time_constant=0.02) > 3.0 * depth(time_constant=0.004)
    assert depth(impedance=(0.5, 0.6)) > 2.0 * depth(impedance=(0.95, 0.99))


def many_groups(n, **options):
    blocks = tuple(block(f"b{k}", (0.2 * k, 0.0, 0.5), group=f"group {k}") for k in range(n))
    rules = tuple(ContactRule(f"group {k}", f"group {k + 1}", **options) for k in range(n - 1))
    return SceneSpec(robots=(), bodies=blocks, contacts=rules)


def test_there_may_be_31_groups_with_plain_rules_and_more_with_parameters():
    MujocoBackend(many_groups(31), num_envs=1)
    MujocoBackend(many_groups(40, friction=0.3), num_envs=1)
    with pytest.raises(ChamberEnvCompatibilityError, match=r"at most 31 contact groups .* got 32"):
        MujocoBackend(many_groups(32), num_envs=1)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([ContactRule("block", "gruond")], "names no group of the scene with 'gruond'; there are: block, .*ground"),
        ([ContactRule(arm_group("one"), finger_group("one"))], "would let 'one' touch itself"),
        ([ContactRule(arm_group("one"), arm_group("one"))], "would let 'one' touch itself"),
        ([ContactRule("block", "ground"), ContactRule("ground", "block")], "is there twice"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(rules, message):
    scene = SceneSpec(
        robots=(RobotSpec(uid="one", model="panda_partner"),),
        bodies=(plate("ground", group="ground"), block("block", (0.0, 0.0, 1.0), group="block")),
        contacts=tuple(rules),
    )
    with pytest.raises(ChamberEnvCompatibilityError, match=message):
        MujocoBackend(scene, num_envs=1)
