"""A state is what it was set to, in every bit: after a reset, in a batch, and when it is put back."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chamber.errors import SimulationDivergedError
from chamber.sim.backend import RigBackend
from chamber.sim.mujoco_backend import MujocoBackend, _times
from chamber.sim.robots import robot_model, robot_names
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
    arm_group,
    finger_group,
)
from ripieno.randomness import derive_substream

UIDS = ("ego", "partner")
READY = np.array(robot_model("panda_partner").ready_qpos)
MOVING_PARTS = ("bar", "cube", "ram")


def scene(*, stiffness=None, force_limit=float("inf")):
    """Two arms that hold a bar, a cube on a table that arms may touch, and a kinematic ram beside it."""

    def box(name, half_sizes, motion, position):
        geom = GeomSpec(name="box", shape=Shape.BOX, size=half_sizes, mass=0.4, group=name)
        return BodySpec(name=name, geoms=(geom,), motion=motion, position=position)

    pins = tuple(
        PinSpec(
            name=f"{uid}_hold",
            link=LinkRef(uid, "panda_hand"),
            link_offset=(0.0, 0.0, 0.1034),
            body="bar",
            body_offset=(x, 0.0, 0.0),
            stiffness=stiffness,
            damping=200.0,
            force_limit=force_limit,
        )
        for uid, x in zip(UIDS, (0.115, -0.115), strict=True)
    )
    return SceneSpec(
        robots=(
            RobotSpec(uid="ego", model="panda_wristcam", base_position=(-0.5, 0.0, 0.0)),
            RobotSpec(uid="partner", model="panda_partner", base_position=(0.5, 0.0, 0.0), base_yaw=np.pi),
        ),
        bodies=(
            box("table", (0.6, 0.6, 0.1), Motion.FIXED, (0.0, 0.0, -0.1)),
            box("bar", (0.115, 0.0125, 0.0125), Motion.FREE, (0.0, 0.0, 0.17)),
            box("cube", (0.02, 0.02, 0.02), Motion.FREE, (0.0, 0.2, 0.02)),
            box("ram", (0.02, 0.02, 0.02), Motion.KINEMATIC, (0.1, 0.2, 0.03)),
        ),
        pins=pins,
        contacts=(
            ContactRule("cube", "table"),
            ContactRule("cube", "ram", friction=0.8),
            *(ContactRule("table", group(uid)) for uid in UIDS for group in (arm_group, finger_group)),
        ),
    )


def start(seed):
    rng = derive_substream(f"test.mujoco_state.{seed}").default_rng()
    joints = {uid: (READY + rng.uniform(-0.02, 0.02, 9))[None] for uid in UIDS}
    poses = {
        "bar": np.array([[*rng.uniform(-0.01, 0.01, 2), 0.17, 1.0, 0.0, 0.0, 0.0]]),
        "cube": np.array([[*rng.uniform(0.1, 0.3, 2), 0.02, 1.0, 0.0, 0.0, 0.0]]),
        "ram": np.array([[*rng.uniform(0.1, 0.3, 2), 0.03, 1.0, 0.0, 0.0, 0.0]]),
    }
    return joints, poses


def actions(seed, n_steps):
    rng = derive_substream(f"test.mujoco_state.actions.{seed}").default_rng()
    return rng.uniform(-1.0, 1.0, (n_steps, len(UIDS), 8))


def play(rig, commands, copies=(0,)):
    """Step with the commands of each copy, shape (n_steps, 2, 8), and give all there is to read after every step."""
    return [observe(rig)] + [step(rig, [command[k] for command in commands], copies) for k in range(len(commands[0]))]


def step(rig, commands, copies):
    for place, uid in enumerate(UIDS):
        action = np.zeros((rig.num_envs, 8))
        for copy, command in zip(copies, commands, strict=True):
            action[copy] = command[place]
        rig.apply(uid, action)
    rig.advance()
    return observe(rig)


def observe(rig: RigBackend):
    """Read everything, one row per copy."""
    parts = [reading(uid) for reading in (rig.qpos, rig.qvel) for uid in UIDS]
    parts += [rig.link_pose(uid, link) for uid in UIDS for link in ("panda_hand", "panda_hand_tcp")]
    parts += [reading(name) for reading in (rig.body_pose, rig.body_velocity) for name in MOVING_PARTS]
    parts += [rig.pin_force(f"{uid}_hold") for uid in UIDS]
    parts += [rig.link_wrench(uid, "panda_hand") for uid in UIDS]
    parts += [rig.pair_force("cube", other) for other in ("table", "ram")]
    parts += [rig.net_force(uid, "panda_leftfinger") for uid in UIDS]
    parts += [rig.penetration("cube", "ram")[:, None]]
    parts += [np.array([rig.save_state(env) for env in range(rig.num_envs)])]
    return np.concatenate(parts, axis=1)


def same_bits(one, other):
    return len(one) == len(other) and all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


KINDS = [{}, {"stiffness": 2000.0}, {"stiffness": 2e4, "force_limit": 20.0}]


@pytest.mark.parametrize("kind", KINDS, ids=["rigid", "spring", "limited spring"])
def test_an_episode_is_the_same_in_every_bit_after_other_episodes_and_in_a_fresh_build(kind):
    fresh = MujocoBackend(scene(**kind), num_envs=1)
    fresh.reset(*start(5))
    expected = play(fresh, [actions(5, 8)])
    used = MujocoBackend(scene(**kind), num_envs=1)
    for other in (1, 2):
        used.reset(*start(other))
        play(used, [actions(other, 5)])
    used.set_body_pose("ram", np.array([[0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0]]))
    used.reset(*start(5))
    assert same_bits(play(used, [actions(5, 8)]), expected)


@pytest.mark.parametrize("kind", KINDS, ids=["rigid", "spring", "limited spring"])
def test_a_control_step_is_the_steps_of_the_simulator_in_every_bit(kind):
    rig = MujocoBackend(scene(**kind), num_envs=1)
    rig.reset(*start(4))
    data, everything = mujoco.MjData(rig._model), int(mujoco.mjtState.mjSTATE_INTEGRATION)
    for command in actions(4, 10):
        for place, uid in enumerate(UIDS):
            rig.apply(uid, command[place : place + 1])
        mujoco.mj_setState(rig._model, data, rig.save_state(0), everything)
        mujoco.mj_step(rig._model, data, rig.scene.substeps)
        rig.advance()
        expected = np.empty_like(rig.save_state(0))
        mujoco.mj_getState(rig._model, data, expected, everything)
        assert same_bits([rig.save_state(0)], [expected])


def test_bodies_that_a_reset_does_not_name_go_back_to_the_scene():
    rig = MujocoBackend(scene(), num_envs=1)
    fresh = observe(rig)
    rig.reset(*start(3))
    play(rig, [actions(3, 3)])
    rig.reset(dict.fromkeys(UIDS, READY[None]), {})
    assert same_bits([observe(rig)], [fresh])


@pytest.mark.parametrize("kind", KINDS[:2], ids=["rigid", "spring"])
def test_a_copy_among_others_moves_as_if_it_were_alone(kind):
    seeds = (3, 0, 7, 4, 11)
    together = MujocoBackend(scene(**kind), num_envs=len(seeds))
    starts = [start(seed) for seed in seeds]
    together.reset(
        {uid: np.concatenate([joints[uid] for joints, _ in starts]) for uid in UIDS},
        {name: np.concatenate([poses[name] for _, poses in starts]) for name in MOVING_PARTS},
    )
    traces = play(together, [actions(seed, 5) for seed in seeds], copies=range(len(seeds)))
    for copy, seed in enumerate(seeds):
        alone = MujocoBackend(scene(**kind), num_envs=1)
        alone.reset(*start(seed))
        expected = play(alone, [actions(seed, 5)])
        assert same_bits([step[copy : copy + 1] for step in traces], expected)
    together.close()


def test_copies_can_be_reset_and_stepped_by_themselves():
    rig = MujocoBackend(scene(), num_envs=3)
    zero = np.zeros((3, 8))
    rig.apply("ego", zero)
    rig.advance()
    before = observe(rig)
    joints, poses = start(9)
    rig.reset(joints, poses, env_idx=[1])
    after = observe(rig)
    assert same_bits([after[[0, 2]]], [before[[0, 2]]])
    alone = MujocoBackend(scene(), num_envs=1)
    alone.reset(joints, poses)
    assert same_bits([after[1:2]], [observe(alone)])
    rig.advance(env_idx=np.array([2, 1]))
    last = observe(rig)
    assert same_bits([last[:1]], [before[:1]])
    assert not same_bits([last[2:]], [before[2:]])
    alone.advance()
    assert same_bits([last[1:2]], [observe(alone)])


@pytest.mark.parametrize("kind", KINDS, ids=["rigid", "spring", "limited spring"])
def test_a_state_that_is_put_back_has_the_same_future_in_every_bit(kind):
    rig = MujocoBackend(scene(**kind), num_envs=2)
    play(rig, [actions(1, 3)])
    state, seen = rig.save_state(0), observe(rig)[0]
    future = [trace[0] for trace in play(rig, [actions(2, 4)])]
    play(rig, [actions(3, 2)])
    for env in (0, 1):
        rig.restore_state(env, state)
        assert same_bits([observe(rig)[env]], [seen])
        assert same_bits([trace[env] for trace in play(rig, [actions(2, 4)], copies=[env])], future)


@pytest.fixture(scope="module")
def rig():
    return MujocoBackend(scene(), num_envs=1)


@settings(max_examples=25, deadline=None)
@given(
    joints=st.lists(st.floats(-1.5, 1.5), min_size=18, max_size=18),
    pose=st.lists(st.floats(-1.0, 1.0), min_size=7, max_size=7),
)
def test_a_reset_state_is_exactly_the_given_one_and_at_rest(rig, joints, pose):
    given_joints = {uid: np.array([joints[9 * place : 9 * place + 9]]) for place, uid in enumerate(UIDS)}
    quaternion = np.array([pose[3] + 2.0, *pose[4:]])
    cube = np.array([[*pose[:3], *(quaternion / np.linalg.norm(quaternion))]])
    rig.reset(given_joints, {"cube": cube, "ram": cube})
    for uid in UIDS:
        assert (rig.qpos(uid) == given_joints[uid]).all()
        assert (rig.qvel(uid) == 0.0).all()
    assert rig.body_pose("cube")[0] == pytest.approx(cube[0], abs=1e-15)
    assert rig.body_pose("ram")[0] == pytest.approx(cube[0], abs=1e-15)
    assert (rig.body_velocity("cube") == 0.0).all()


def test_an_action_moves_its_own_robot_and_no_more_than_a_full_one():
    free_arms = SceneSpec(robots=scene().robots)
    rigs = [MujocoBackend(free_arms, num_envs=1) for _ in range(2)]
    ready = rigs[0].qpos("ego")
    for rig, size in zip(rigs, (1.0, 7.0), strict=True):
        rig.apply("partner", np.full((1, 8), size))
        rig.advance()
    assert rigs[0].qpos("ego") == pytest.approx(ready, abs=1e-9)
    assert (rigs[0].qpos("partner")[0, :7] > READY[:7] + 0.02).all()
    assert rigs[0].save_state(0).tobytes() == rigs[1].save_state(0).tobytes()


@pytest.mark.parametrize("name", robot_names())
def test_every_link_frame_is_where_mujoco_has_it(name):
    model = mujoco.MjModel.from_xml_string(robot_model(name).mjcf_text())
    data = mujoco.MjData(model)
    rig = MujocoBackend(SceneSpec(robots=(RobotSpec(uid="it", model=name),)), num_envs=3)
    joints = np.array(robot_model(name).ready_qpos) + 0.01
    for joint, value in zip(robot_model(name).joint_names, joints, strict=True):
        data.joint(joint).qpos[0] = value
    mujoco.mj_kinematics(model, data)
    rig.reset({"it": np.tile(joints, (3, 1))}, {})
    bodies = {model.body(index).name for index in range(model.nbody)}
    for link in robot_model(name).link_names:
        frame = data.body(link) if link in bodies else data.site(link)
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, frame.xmat)
        for pose in rig.link_pose("it", link):
            assert pose[:3] == pytest.approx(frame.xpos, abs=1e-9)
            assert abs(pose[3:] @ quaternion) == pytest.approx(1.0, abs=1e-9)


def test_quaternion_products_are_those_of_mujoco():
    rng = derive_substream("test.mujoco_state.quaternions").default_rng()
    quaternions, other, expected = rng.normal(size=(5, 4)), rng.normal(size=4), np.empty(4)
    for quaternion, product in zip(quaternions, _times(quaternions, other), strict=True):
        mujoco.mju_mulQuat(expected, quaternion, other)
        assert product == pytest.approx(expected, abs=1e-14)


def test_actuators_hold_what_a_reset_gives():
    rig = MujocoBackend(SceneSpec(robots=(RobotSpec(uid="ego", model="panda_partner"),)), num_envs=1)
    joints = READY.copy()
    joints[[1, 3, 7, 8]] = 0.3, -1.2, 0.013, 0.013
    rig.reset({"ego": joints[None]}, {})
    for _ in range(10):
        rig.advance()
    assert rig.qpos("ego")[0] == pytest.approx(joints, abs=1e-9)


def test_a_copy_that_becomes_unstable_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rig = MujocoBackend(scene(), num_envs=3)
    alone = MujocoBackend(scene(), num_envs=1)
    far_from_the_hands = {"bar": np.array([[1e9, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])}
    rig.reset(dict.fromkeys(UIDS, READY[None]), far_from_the_hands, env_idx=[1])
    with pytest.raises(SimulationDivergedError, match=r"unstable in copy 1 at .* reset these copies"):
        rig.advance()
    with pytest.raises(SimulationDivergedError, match="copy 1"):
        rig.advance()
    assert np.isnan(rig.body_pose("bar")[1]).all()  # left as it is, for whoever looks for the reason
    for _ in range(2):
        alone.advance()
    assert same_bits([observe(rig)[[0]], observe(rig)[[2]]], [observe(alone)] * 2)
    rig.reset(dict.fromkeys(UIDS, READY[None]), {}, env_idx=[1])
    rig.advance()
    assert list(tmp_path.iterdir()) == []


def test_it_is_a_rig_backend_that_says_what_it_is_and_can_be_closed_twice():
    rig = MujocoBackend(scene(), num_envs=2)
    assert isinstance(rig, RigBackend)
    assert rig.name.startswith("mujoco ")
    assert rig.num_envs == 2
    assert rig.scene == scene()
    rig.close()
    rig.close()
