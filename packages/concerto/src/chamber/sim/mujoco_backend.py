"""`MujocoBackend`: scenes in MuJoCo, any number of copies of one model, stepped by threads."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NoReturn

import numpy as np

from chamber.errors import ChamberEnvCompatibilityError, SimulationDivergedError
from chamber.sim._extremes import extremes
from chamber.sim._mujoco_bindings import MjData, mujoco
from chamber.sim._mujoco_forces import Contact, GeomMask, contacts_of, deepest_overlap, link_wrench, sum_of_forces
from chamber.sim._mujoco_model import BodyAddress, LinkAddress, compile_scene
from chamber.sim._mujoco_names import named
from chamber.sim._mujoco_rendering import SceneRenderer
from chamber.sim.backend import FloatArray, IndexArray, Picture
from chamber.sim.scene import Motion, SceneSpec

__all__ = ["MujocoBackend"]

MOST_COPIES = 4096
"""No backend holds more copies: each takes 17 MB of addresses and, once it has moved, one or two of memory."""

_WARNINGS = (
    "singular inertia",
    "no memory for contacts",
    "no memory for constraints",
    "bad position",
    "bad velocity",
    "bad acceleration",
    "bad control",
)
"""What the counters of `mujoco.mjtWarning` mean, in their order."""

_NO_WARNINGS = bytes(4 * len(_WARNINGS))

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class MujocoBackend:
    """A scene in MuJoCo; see `chamber.sim.backend.RigBackend` for what each method gives.

    All copies share one model; each has a state of its own. What is read always belongs to the present state: after
    every change positions, velocities, contacts and forces are computed once more; only an action that was applied
    counts from the next step on. A copy that has become unstable stays so until it is reset or restored.

    Args:
        scene: what to build.
        num_envs: number of copies, 1 to `MOST_COPIES`.

    Raises:
        ValueError: ``num_envs`` is out of range.
        KeyError: the scene names a robot model, link or body that is not there.
        ChamberEnvCompatibilityError: MuJoCo refuses the scene, a contact rule cannot be kept, or the memory does not
            suffice.
    """

    def __init__(self, scene: SceneSpec, *, num_envs: int) -> None:
        num_envs = operator.index(num_envs)
        if num_envs < 1:
            raise ValueError(f"num_envs must be >= 1, got {num_envs}")
        if num_envs > MOST_COPIES:
            raise ValueError(f"num_envs must be <= {MOST_COPIES}, got {num_envs}")
        self._scene = scene
        self._num_envs = num_envs
        self._all = list(range(num_envs))
        self._compiled = compile_scene(scene)
        self._model = model = self._compiled.model
        self._geoms_of_group = {
            group: (self._compiled.geom_groups == place).tolist()
            for place, group in enumerate(self._compiled.masks.groups)
        }
        self._geoms_of_body: list[GeomMask] = (np.arange(model.nbody)[:, None] == model.geom_bodyid).tolist()
        self._all_geoms: GeomMask = [True] * model.ngeom
        self._placeable = {
            body.name: self._compiled.bodies[body.name]
            for body in scene.bodies
            if body.motion in {Motion.FREE, Motion.KINEMATIC}
        }
        try:
            self._datas = [mujoco.MjData(model) for _ in range(num_envs)]
        except mujoco.FatalError as error:
            raise ChamberEnvCompatibilityError(f"no memory for {num_envs} copies of this scene: {error}") from error
        # Views into the memory of each copy, which never moves: every attribute of `MjData` would make a new one.
        self._warning_counts = [data.warning.number for data in self._datas]
        self._controls = [data.ctrl for data in self._datas]
        self._contacts: list[list[Contact] | None] = [None] * num_envs  # read when they are first asked for
        self._results = [(data.qpos, data.qvel, data.xpos, data.xquat, data.site_xpos) for data in self._datas]
        self._qpos = np.zeros((num_envs, model.nq))
        self._qvel = np.zeros((num_envs, model.nv))
        self._xpos = np.zeros((num_envs, model.nbody, 3))
        self._xquat = np.zeros((num_envs, model.nbody, 4))
        self._site_xpos = np.zeros((num_envs, model.nsite, 3))
        self._renderer = SceneRenderer(model, scene.cameras)
        self._n_helpers = min(num_envs, _usable_cores()) - 1
        self._helpers = ThreadPoolExecutor(self._n_helpers, "mujoco") if self._n_helpers else None
        self.reset(
            {uid: np.tile(robot.model.ready_qpos, (num_envs, 1)) for uid, robot in self._compiled.robots.items()}, {}
        )

    @property
    def name(self) -> str:
        """Name and version of the simulator, for records."""
        return f"mujoco {mujoco.__version__}"

    @property
    def scene(self) -> SceneSpec:
        """What was built."""
        return self._scene

    @property
    def num_envs(self) -> int:
        """Number of copies."""
        return self._num_envs

    # --- moving ---------------------------------------------------------------------------------------------

    def reset(
        self,
        joint_positions: Mapping[str, FloatArray],
        body_poses: Mapping[str, FloatArray],
        *,
        env_idx: Sequence[int] | IndexArray | None = None,
    ) -> None:
        """Put copies into exactly the given state, at rest, with actuators that hold it.

        Raises:
            KeyError: a name is not that of a robot, or of a free or kinematic body.
            ValueError: a robot is missing, a shape is wrong or a value is not finite; nothing was changed then.
        """
        envs = self._all if env_idx is None else self._chosen(env_idx)
        robots = self._compiled.robots
        for uid in joint_positions:
            named("robot", robots, uid)
        missing = [uid for uid in robots if uid not in joint_positions]
        if missing:
            raise ValueError(f"joint_positions must have every robot, {missing[0]!r} is missing")
        joints = {
            uid: _checked(f"joint_positions[{uid!r}]", positions, (len(envs), robots[uid].model.n_joints))
            for uid, positions in joint_positions.items()
        }
        for name in body_poses:
            named("free or kinematic body", self._placeable, name)
        poses = {name: _checked_poses(f"body_poses[{name!r}]", pose, len(envs)) for name, pose in body_poses.items()}
        for place, env in enumerate(envs):
            data = self._datas[env]
            mujoco.mj_resetData(self._model, data)
            for uid, positions in joints.items():
                data.qpos[robots[uid].qpos] = positions[place]
            for name, pose in poses.items():
                self._place(data, self._placeable[name], pose[place])
            self._hold_still(data)
            self._refresh(env)

    def apply(self, uid: str, action: FloatArray) -> None:
        """Set the targets of a robot for the coming control step from actions, shape ``(num_envs, action_dim)``.

        Raises:
            ValueError: the shape is wrong or a value is not finite; nothing was changed then.
        """
        robot = named("robot", self._compiled.robots, uid)
        action, (least, most) = _measured(f"action of {uid!r}", action, (self._num_envs, robot.model.action_dim))
        if least < -1.0 or most > 1.0:
            action = np.minimum(np.maximum(action, -1.0), 1.0)
        targets = robot.model.action_map.targets(action, self._qpos[:, robot.qpos])
        for controls, target in zip(self._controls, targets, strict=True):
            controls[robot.ctrl] = target

    def advance(self, env_idx: Sequence[int] | IndexArray | None = None) -> None:
        """Simulate one control step of the given copies (all when None).

        Raises:
            SimulationDivergedError: copies became unstable; all others were simulated.
        """
        envs = self._all if env_idx is None else self._chosen(env_idx)
        waiting = iter(envs)  # shared by all threads: whoever is free takes the next copy
        helping: list[Future[None]] = []
        if self._helpers is not None:
            n_helpers = min(self._n_helpers, len(envs) - 1)
            helping = [self._helpers.submit(self._simulate, waiting) for _ in range(n_helpers)]
        self._simulate(waiting)
        for helper in helping:
            helper.result()
        diverged = [env for env in envs if self._warning_counts[env].tobytes() != _NO_WARNINGS]
        if diverged:
            raise SimulationDivergedError(self._what_happened(diverged))

    def _simulate(self, waiting: Iterator[int]) -> None:
        model, more_substeps = self._model, self._scene.substeps - 1
        for env in waiting:
            data = self._datas[env]
            mujoco.mj_step2(model, data)  # what belongs to positions and velocities was computed by the last refresh
            if more_substeps:
                mujoco.mj_step(model, data, more_substeps)
            mujoco.mj_checkPos(model, data)  # after the last substep; it was done on the way for the others
            mujoco.mj_checkVel(model, data)
            self._refresh(env)

    # --- reading --------------------------------------------------------------------------------------------

    def qpos(self, uid: str) -> FloatArray:
        """Give joint positions in the model's order, shape ``(num_envs, n_joints)``."""
        return self._qpos[:, named("robot", self._compiled.robots, uid).qpos].copy()

    def qvel(self, uid: str) -> FloatArray:
        """Give joint velocities in the model's order, shape ``(num_envs, n_joints)``."""
        return self._qvel[:, named("robot", self._compiled.robots, uid).qvel].copy()

    def link_pose(self, uid: str, link: str) -> FloatArray:
        """Give the pose of a link frame, shape ``(num_envs, 7)``."""
        address = self._link(uid, link)
        pose = self._pose(address.body)
        if address.site is not None:
            pose[:, :3] = self._site_xpos[:, address.site]
            if address.turn is not None:
                pose[:, 3:] = _times(pose[:, 3:], address.turn)
        return pose

    def body_pose(self, name: str) -> FloatArray:
        """Give the pose of a body, shape ``(num_envs, 7)``."""
        return self._pose(named("body", self._compiled.bodies, name).body)

    def body_velocity(self, name: str) -> FloatArray:
        """Give the linear and angular velocity of a body at its origin, world axes, shape ``(num_envs, 6)``.

        A kinematic body is placed and has no velocity.
        """
        body = named("body", self._compiled.bodies, name).body
        velocities = np.empty((self._num_envs, 6))
        for data, velocity in zip(self._datas, velocities, strict=True):
            mujoco.mj_objectVelocity(self._model, data, int(mujoco.mjtObj.mjOBJ_XBODY), body, velocity, 0)
        return velocities[:, [3, 4, 5, 0, 1, 2]]

    def set_body_pose(self, name: str, pose: FloatArray) -> None:
        """Place a kinematic body, shape ``(num_envs, 7)``; contacts are found anew, nothing moves.

        Raises:
            ValueError: the body is not kinematic, a shape is wrong or a value not finite; nothing was changed then.
        """
        address = named("body", self._compiled.bodies, name)
        if address.mocap is None:
            raise ValueError(f"body {name!r} must be kinematic to be placed; give the pose of a free body to reset()")
        for env, row in enumerate(_checked_poses(f"pose of {name!r}", pose, self._num_envs)):
            self._place(self._datas[env], address, row)
            self._refresh(env)

    def pin_force(self, pin: str) -> FloatArray:
        """Give the force that a pin puts on its body, N, world axes, shape ``(num_envs, 3)``."""
        rows = named("pin", self._compiled.pins, pin).rows
        return np.array([data.efc_force[rows] for data in self._datas])

    def pair_force(self, first: str, second: str) -> FloatArray:
        """Give the sum of the contact forces of group ``second`` on group ``first``, N, shape ``(num_envs, 3)``."""
        return self._contact_forces(on=self._group(first), of=self._group(second))

    def link_pair_force(self, uid: str, link: str, group: str) -> FloatArray:
        """Give the sum of the contact forces of a group on one link, N, world axes, shape ``(num_envs, 3)``."""
        return self._contact_forces(on=self._geoms_of_body[self._link_body(uid, link)], of=self._group(group))

    def net_force(self, uid: str, link: str) -> FloatArray:
        """Give the sum of all contact forces on one link, N, world axes, shape ``(num_envs, 3)``."""
        return self._contact_forces(on=self._geoms_of_body[self._link_body(uid, link)], of=self._all_geoms)

    def penetration(self, first: str, second: str) -> FloatArray:
        """Give the deepest overlap of two groups in contact, m, >= 0, shape ``(num_envs,)``."""
        one, other = self._group(first), self._group(second)
        return np.array([deepest_overlap(self._contacts_in(env), one, other) for env in self._all])

    def link_wrench(self, uid: str, link: str) -> FloatArray:
        """Give force and torque of the parent on a link, at the link's origin, world axes, shape ``(num_envs, 6)``.

        Weight that gravity compensation carries is in it, because compensation is an applied force.
        """
        body = self._link_body(uid, link)
        return np.array([link_wrench(self._model, data, body) for data in self._datas])

    def carried_mass(self, uid: str, link: str) -> float:
        """Give the mass of a link and of all that is fixed or jointed to it further out, kg."""
        return float(self._model.body_subtreemass[self._link_body(uid, link)])

    # --- switching, saving, pictures ------------------------------------------------------------------------

    def set_collision_groups(self, first: str, second: str, *, enabled: bool) -> None:
        """Let two groups of a `ContactRule` touch or pass through each other from now on, in all copies.

        Raises:
            KeyError: there is no rule for these two.
        """
        self._compiled.switch.switch(first, second, enabled=enabled)
        for env in range(self._num_envs):
            self._refresh(env)

    def save_state(self, env: int) -> FloatArray:
        """Give everything that determines the future of one copy.

        Switched contact rules are not in it, because all copies share them.
        """
        state = np.empty(mujoco.mj_stateSize(self._model, _STATE))
        mujoco.mj_getState(self._model, self._datas[self._copy(env)], state, _STATE)
        return state

    def restore_state(self, env: int, state: FloatArray) -> None:
        """Put back what `save_state` gave, bit for bit.

        Raises:
            ValueError: it is no state of this scene; nothing was changed then.
        """
        state = _checked("state", state, (mujoco.mj_stateSize(self._model, _STATE),))
        data = self._datas[self._copy(env)]
        mujoco.mj_resetData(self._model, data)
        mujoco.mj_setState(self._model, data, state, _STATE)
        self._refresh(env)

    def render(self, camera: str, *, env: int = 0) -> Picture:
        """Give what a camera sees in one copy.

        Raises:
            ChamberEnvCompatibilityError: there is no off-screen rendering on this machine; the message says what to
                install.
        """
        return self._renderer.render(camera, self._datas[self._copy(env)])

    def close(self) -> None:
        """Free what was allocated; calling it twice does no harm."""
        self._renderer.close()
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None

    # --- private --------------------------------------------------------------------------------------------

    def __reduce__(self) -> NoReturn:
        """Refuse `copy.deepcopy` and `pickle`: a copy of the views would no longer look into the simulation."""
        raise TypeError(
            "a simulation cannot be copied or pickled; build another one with the same arguments, and put it into this "
            "state with save_state and restore_state"
        )

    def _refresh(self, env: int) -> None:
        """Compute all that follows from the state of a copy."""
        self._contacts[env] = None
        mujoco.mj_forward(self._model, self._datas[env])
        self._qpos[env], self._qvel[env], self._xpos[env], self._xquat[env], self._site_xpos[env] = self._results[env]

    def _place(self, data: MjData, body: BodyAddress, pose: FloatArray) -> None:
        if body.qpos is not None:
            data.qpos[body.qpos] = pose
        else:
            data.mocap_pos[body.mocap] = pose[:3]
            data.mocap_quat[body.mocap] = pose[3:]

    def _hold_still(self, data: MjData) -> None:
        """Stretch springs to the points that they hold, and let actuators ask for the positions that there are."""
        springs = [pin for pin in self._compiled.pins.values() if pin.coupler is not None]
        if springs:
            mujoco.mj_kinematics(self._model, data)
        for spring in springs:
            gap = data.site_xpos[spring.link_site] - data.site_xpos[spring.body_site]
            data.qpos[spring.coupler] = gap @ data.xmat[spring.body].reshape(3, 3)
        mujoco.mj_fwdPosition(self._model, data)
        data.ctrl[:] = self._compiled.hold_gains * data.actuator_length

    def _pose(self, body: int) -> FloatArray:
        pose = np.empty((self._num_envs, 7))
        pose[:, :3] = self._xpos[:, body]
        pose[:, 3:] = self._xquat[:, body]
        return pose

    def _contact_forces(self, *, on: GeomMask, of: GeomMask) -> FloatArray:
        return np.array([sum_of_forces(self._contacts_in(env), on, of) for env in self._all])

    def _contacts_in(self, env: int) -> list[Contact]:
        contacts = self._contacts[env]
        if contacts is None:
            contacts = self._contacts[env] = contacts_of(self._datas[env])
        return contacts

    def _group(self, name: str) -> GeomMask:
        return named("contact group", self._geoms_of_group, name)

    def _link(self, uid: str, link: str) -> LinkAddress:
        return named(f"link of {uid!r}", named("robot", self._compiled.robots, uid).links, link)

    def _link_body(self, uid: str, link: str) -> int:
        """Give the body of a link, for what a mere frame does not have: contacts, mass and a parent that holds it."""
        address = self._link(uid, link)
        if address.site is not None:
            links = self._compiled.robots[uid].links
            bodies = ", ".join(name for name, where in links.items() if where.site is None)
            raise KeyError(f"link {link!r} of {uid!r} is a frame without a body; links with one are: {bodies}")
        return address.body

    def _copy(self, env: int) -> int:
        env = operator.index(env)
        if not 0 <= env < self._num_envs:
            raise ValueError(f"env must be a copy from 0 to {self._num_envs - 1}, got {env}")
        return env

    def _chosen(self, env_idx: Sequence[int] | IndexArray) -> list[int]:
        envs = [self._copy(env) for env in env_idx]
        if len(set(envs)) != len(envs):
            raise ValueError(f"env_idx must name every copy once at most, got {envs}")
        return envs

    def _what_happened(self, diverged: Sequence[int]) -> str:
        reasons = [
            f"copy {env} at {self._datas[env].time:.3f} s ("
            + ", ".join(_WARNINGS[kind] for kind in np.flatnonzero(self._warning_counts[env]))
            + ")"
            for env in diverged
        ]
        return f"the simulation became unstable in {'; '.join(reasons)}; reset these copies before going on"


def _times(quaternions: FloatArray, other: FloatArray) -> FloatArray:
    """Give Hamilton products; by components, because a matrix product may round differently for one and many."""
    w, x, y, z = other
    columns = quaternions.T[:, :, None]
    rows = np.array([[w, x, y, z], [-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])
    return columns[0] * rows[0] + columns[1] * rows[1] + columns[2] * rows[2] + columns[3] * rows[3]


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked(what: str, values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return _measured(what, values, shape)[0]


def _measured(what: str, values: FloatArray, shape: tuple[int, ...]) -> tuple[FloatArray, tuple[float, float]]:
    """Give checked values, and the least and the largest of them."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"{what} must have shape {shape}, got {values.shape}")
    span = extremes(values)
    if span is None:
        raise ValueError(f"{what} must be finite, got {values.tolist()}")
    return values, span


def _checked_poses(what: str, poses: FloatArray, n: int) -> FloatArray:
    poses = _checked(what, poses, (n, 7)).copy()
    lengths = np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    if not (lengths > 1e-6).all():
        raise ValueError(f"{what} must have quaternions that are not zero, got {poses[:, 3:].tolist()}")
    poses[:, 3:] /= lengths
    return poses
