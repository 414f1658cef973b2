"""From a scene to a MuJoCo model: robots, bodies, holds and cameras, with the addresses of all that is read later.

Elements of a robot are called ``uid/name``, those of the scene ``/name``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim._mujoco_bindings import MjData, MjModel, MjsBody, MjsGeom, MjSpec, mujoco
from chamber.sim._mujoco_contacts import ContactSwitch, GroupMasks, is_plain
from chamber.sim._mujoco_looks import (
    HIDDEN_GROUP,
    MARKER_GROUP,
    add_surroundings,
    camera_quaternion,
    mounted_camera_quaternion,
)
from chamber.sim._mujoco_names import named
from chamber.sim.backend import FloatArray
from chamber.sim.robots import RobotModel, robot_model
from chamber.sim.scene import (
    IDENTITY_QUATERNION,
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

__all__ = ["BodyAddress", "CompiledScene", "LinkAddress", "PinAddress", "RobotAddress", "compile_scene"]

Indices = NDArray[np.int64]
Columns = slice | Indices

_GEOM_TYPES = {
    Shape.BOX: mujoco.mjtGeom.mjGEOM_BOX,
    Shape.SPHERE: mujoco.mjtGeom.mjGEOM_SPHERE,
    Shape.CYLINDER: mujoco.mjtGeom.mjGEOM_CYLINDER,
    Shape.CAPSULE: mujoco.mjtGeom.mjGEOM_CAPSULE,
}

_CONTACT_IMPEDANCE = (0.95, 0.99, 0.001, 0.5, 2.0)
_CONTACT_DIMENSIONS = 4  # normal, two of sliding, one of spinning

_COUPLER_MASS = 1e-2
"""kg, of the end of a spring, which has none in theory."""

_COUPLER_IMPEDANCE = 0.9999
"""So rigid is the tie between the end of a spring and the link that the spring alone gives way."""


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """Where a link frame is: a body, or a site on that body with its orientation there, None where they agree."""

    body: int
    site: int | None
    turn: FloatArray | None


@dataclass(frozen=True, slots=True)
class RobotAddress:
    """Where the numbers of a robot are: columns of positions, velocities and controls in its order, and links."""

    model: RobotModel
    qpos: Columns
    qvel: Columns
    ctrl: Columns
    links: Mapping[str, LinkAddress]


@dataclass(frozen=True, slots=True)
class BodyAddress:
    """Where the numbers of a body are; ``qpos`` of a free one, ``mocap`` of a kinematic one."""

    body: int
    qpos: slice | None
    mocap: int | None


@dataclass(frozen=True, slots=True)
class PinAddress:
    """Where a pin is.

    Attributes:
        rows: its constraint forces, world axes, on the body.
        body_site, link_site: the two points that it holds together.
        coupler: joint positions of a spring, along the axes of the body; None for a rigid pin.
    """

    rows: slice
    body: int
    body_site: int
    link_site: int
    coupler: slice | None


@dataclass(frozen=True, slots=True)
class CompiledScene:
    """A model and the addresses in it.

    Attributes:
        model: shared by all copies.
        robots, bodies, pins: by name.
        masks: the contact groups.
        geom_groups: index in ``masks.groups`` of the group of each geom, shape ``(ngeom,)``.
        switch: turns contact rules on and off.
        hold_gains: control that holds an actuator's length, per unit of length, shape ``(nu,)``.
    """

    model: MjModel
    robots: Mapping[str, RobotAddress]
    bodies: Mapping[str, BodyAddress]
    pins: Mapping[str, PinAddress]
    masks: GroupMasks
    geom_groups: Indices
    switch: ContactSwitch
    hold_gains: FloatArray


def compile_scene(scene: SceneSpec) -> CompiledScene:
    """Build a scene.

    Raises:
        KeyError: a robot model, a link or a body that something is fixed to is not there.
        ChamberEnvCompatibilityError: MuJoCo refuses the scene, or a contact rule cannot be kept.
    """
    builder = _Builder(scene)
    try:
        model = builder.spec.compile()
    except ValueError as error:
        raise ChamberEnvCompatibilityError(f"MuJoCo refuses the scene: {error}") from error
    return builder.addresses(model)


class _Builder:
    """Writes a scene into an `mujoco.MjSpec` and finds its parts again in the compiled model."""

    def __init__(self, scene: SceneSpec) -> None:
        self._scene = scene
        self._masks = GroupMasks.of(scene)
        self._models = {robot.uid: robot_model(robot.model) for robot in scene.robots}
        self._group_of_geom: dict[str, str] = {}
        self._body_of_geom: dict[str, str] = {}
        self._robot_of_geom: dict[str, str] = {}
        self._pairs: dict[ContactRule, list[str]] = {}
        self.spec = self._new_spec()
        for robot in scene.robots:
            self._add_robot(robot)
        for body in scene.bodies:
            self._add_body(body)
        self._add_contact_exceptions()
        for pin in scene.pins:
            self._add_pin(pin)
        for weld in scene.welds:
            self._add_weld(weld)
        for camera in scene.cameras:
            self._add_camera(camera)
        add_surroundings(self.spec)

    # --- writing --------------------------------------------------------------------------------------------

    def _new_spec(self) -> MjSpec:
        spec = mujoco.MjSpec()
        option = spec.option
        option.timestep = self._scene.physics_timestep
        option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        if any(pin.stiffness is not None for pin in self._scene.pins):
            # The only integrator whose constraint forces know of implicit damping: with the others the light end of a
            # spring with much damping explodes.
            option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
        option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        option.impratio = 10.0
        # A bad state is an error here; MuJoCo would start the copy afresh without a word.
        option.disableflags = int(option.disableflags) | int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        # Clipping planes are given in metres, not in sizes of the scene.
        spec.stat.extent = 1.0
        return spec

    @property
    def _hold_solref(self) -> list[float]:
        return [2.0 * self._scene.physics_timestep, 1.0]

    def _add_robot(self, robot: RobotSpec) -> None:
        child = mujoco.MjSpec.from_string(self._models[robot.uid].mjcf_text())
        for place, geom in enumerate(child.geoms):
            group = {"arm": arm_group(robot.uid), "finger": finger_group(robot.uid)}.get(geom.classname.name)
            geom.name = geom.name or f"geom{place}"
            self._set_contact(geom, group)
            if group is not None:
                self._note_geom(
                    f"{robot.uid}/{geom.name}", group, body=f"{robot.uid}/{geom.parent.name}", uid=robot.uid
                )
            if group == arm_group(robot.uid):
                geom.friction = [robot.friction, *geom.friction[1:]]
        half_yaw = robot.base_yaw / 2.0
        frame = self.spec.worldbody.add_frame(
            pos=robot.base_position, quat=[math.cos(half_yaw), 0.0, 0.0, math.sin(half_yaw)]
        )
        self.spec.attach(child, prefix=f"{robot.uid}/", frame=frame)

    def _add_body(self, body: BodySpec) -> None:
        parent, position, quaternion = self.spec.worldbody, _vector(body.position), _vector(body.quaternion)
        uid = None
        if body.attached_to is not None:
            uid = body.attached_to.uid
            parent, position, quaternion = self._on_link(body.attached_to, position, quaternion)
        element = parent.add_body(name=f"/{body.name}", pos=position, quat=quaternion)
        element.mocap = body.motion is Motion.KINEMATIC
        if body.motion is Motion.ATTACHED:
            element.gravcomp = 1.0
        if body.motion is Motion.FREE:
            element.add_freejoint(name=f"/{body.name}")
        if body.mass is not None and body.diagonal_inertia is not None:
            element.explicitinertial = True
            element.mass = body.mass
            element.inertia = body.diagonal_inertia
        for geom in body.geoms:
            self._add_geom(element, geom, uid=uid, is_marker=body.is_marker)

    def _add_geom(self, body: MjsBody, geom: GeomSpec, *, uid: str | None, is_marker: bool) -> None:
        element = body.add_geom(
            name=f"{body.name}/{geom.name}",
            type=_GEOM_TYPES[geom.shape],
            size=[*geom.size, *([0.0] * (3 - len(geom.size)))],
            pos=geom.position,
            quat=geom.quaternion,
            density=geom.density,
            rgba=geom.rgba,
            group=MARKER_GROUP if is_marker else 0,
        )
        if geom.mass is not None:
            element.mass = geom.mass
        element.friction = [geom.friction, *element.friction[1:]]
        self._set_contact(element, geom.group)
        if geom.group is not None:
            self._note_geom(element.name, geom.group, body=body.name, uid=uid)

    def _set_contact(self, geom: MjsGeom, group: str | None) -> None:
        geom.contype = 0 if group is None else self._masks.bits().get(group, 0)
        geom.conaffinity = 0 if group is None else self._masks.conaffinity(group, self._masks.rules)
        geom.condim = _CONTACT_DIMENSIONS
        geom.solref = self._hold_solref
        geom.solimp = _CONTACT_IMPEDANCE

    def _note_geom(self, name: str, group: str, *, body: str, uid: str | None) -> None:
        self._group_of_geom[name] = group
        self._body_of_geom[name] = body
        if uid is not None:
            self._robot_of_geom[name] = uid

    def _add_contact_exceptions(self) -> None:
        """Add explicit pairs for rules with parameters, and exclude that parts of one robot touch."""
        excluded: set[frozenset[str]] = set()
        for place, rule in enumerate(self._masks.rules):
            self._pairs[rule] = []
            for first, second in self._geoms_of_rule(rule):
                bodies = frozenset({self._body_of_geom[first], self._body_of_geom[second]})
                if len(bodies) == 1:
                    continue
                uid = self._robot_of_geom.get(first)
                if uid is not None and uid == self._robot_of_geom.get(second):
                    if bodies not in excluded:
                        excluded.add(bodies)
                        name, other = sorted(bodies)
                        self.spec.add_exclude(bodyname1=name, bodyname2=other)
                elif not is_plain(rule):
                    self._add_pair(rule, first, second, name=f"/{place}/{len(self._pairs[rule])}")

    def _geoms_of_rule(self, rule: ContactRule) -> list[tuple[str, str]]:
        of_first = [name for name, group in self._group_of_geom.items() if group == rule.first]
        of_second = [name for name, group in self._group_of_geom.items() if group == rule.second]
        if rule.first == rule.second:
            return [(first, second) for place, first in enumerate(of_first) for second in of_first[place + 1 :]]
        return [(first, second) for first in of_first for second in of_second]

    def _add_pair(self, rule: ContactRule, first: str, second: str, *, name: str) -> None:
        sliding, spinning, rolling = np.maximum(self.spec.geom(first).friction, self.spec.geom(second).friction)
        if rule.friction is not None:
            sliding = rule.friction
        solref, impedance = self._hold_solref, _CONTACT_IMPEDANCE
        if rule.time_constant is not None:
            solref = [rule.time_constant, 1.0]
        if rule.impedance is not None:
            impedance = (*rule.impedance, *_CONTACT_IMPEDANCE[2:])
        self.spec.add_pair(
            name=name,
            geomname1=first,
            geomname2=second,
            condim=_CONTACT_DIMENSIONS,
            friction=[sliding, sliding, spinning, rolling, rolling],
            solref=solref,
            solimp=impedance,
        )
        self._pairs[rule].append(name)

    def _add_pin(self, pin: PinSpec) -> None:
        body, offset = self._body(pin.body, what=f"pin {pin.name!r}"), pin.body_offset
        if pin.stiffness is not None:
            body, offset = self._add_coupler(pin, body), (0.0, 0.0, 0.0)
        body.add_site(name=f"/{pin.name}/body", pos=offset, group=HIDDEN_GROUP)
        link, position, quaternion = self._on_link(pin.link, _vector(pin.link_offset), _vector(IDENTITY_QUATERNION))
        link.add_site(name=f"/{pin.name}/link", pos=position, quat=quaternion, group=HIDDEN_GROUP)
        hold = self._add_hold(pin.name, mujoco.mjtEq.mjEQ_CONNECT)
        if pin.stiffness is not None:
            hold.solimp[:2] = _COUPLER_IMPEDANCE

    def _add_coupler(self, pin: PinSpec, body: MjsBody) -> MjsBody:
        """Add the end of a spring: a next to massless body on three sliders, each with a PD law whose force is limited.

        A soft constraint would not do, because a constraint's force has no limit.
        """
        coupler = body.add_body(name=f"/{pin.name}", pos=pin.body_offset, mass=_COUPLER_MASS, gravcomp=1.0)
        coupler.explicitinertial = True
        coupler.inertia = [_COUPLER_MASS * 1e-4] * 3
        for name, axis in zip("xyz", np.eye(3), strict=True):
            joint = coupler.add_joint(name=f"/{pin.name}/{name}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
            law = self.spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            law.set_to_position(kp=pin.stiffness, kv=pin.damping)
            if math.isfinite(pin.force_limit):
                law.forcerange = [-pin.force_limit, pin.force_limit]
        return coupler

    def _add_weld(self, weld: WeldSpec) -> None:
        self._body(weld.body, what=f"weld {weld.name!r}").add_site(name=f"/{weld.name}/body", group=HIDDEN_GROUP)
        link, position, quaternion = self._on_link(weld.link, _vector(weld.position), _vector(weld.quaternion))
        link.add_site(name=f"/{weld.name}/link", pos=position, quat=quaternion, group=HIDDEN_GROUP)
        torque_scale = 1.0
        self._add_hold(weld.name, mujoco.mjtEq.mjEQ_WELD).data[10] = torque_scale

    def _add_hold(self, name: str, kind: Any) -> Any:
        return self.spec.add_equality(
            name=f"/{name}",
            type=kind,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1=f"/{name}/body",
            name2=f"/{name}/link",
            solref=self._hold_solref,
        )

    def _add_camera(self, camera: CameraSpec) -> None:
        parent, position = self.spec.worldbody, _vector(camera.position)
        if camera.target is not None:
            facing = camera_quaternion(camera.position, camera.target)
        else:
            facing = mounted_camera_quaternion(camera.quaternion)
        if camera.mount is not None:
            parent, position, facing = self._on_link(camera.mount, position, facing)
        parent.add_camera(name=f"/{camera.name}", pos=position, quat=facing, fovy=math.degrees(camera.field_of_view))

    def _body(self, name: str, *, what: str) -> MjsBody:
        known = {body.name: body for body in self._scene.bodies}
        if name not in known:
            raise KeyError(f"{what} names no body of the scene with {name!r}; there are: {', '.join(known) or 'none'}")
        return self.spec.body(f"/{name}")

    def _on_link(
        self, link: LinkRef, position: FloatArray, quaternion: FloatArray
    ) -> tuple[MjsBody, FloatArray, FloatArray]:
        """Give the body that carries a link frame, and a pose in that frame as a pose in the body's."""
        named("robot", self._models, link.uid)
        body = self.spec.body(f"{link.uid}/{link.link}")
        if body is not None:
            return body, position, quaternion
        site = self.spec.site(f"{link.uid}/{link.link}")
        if site is None:
            known = ", ".join(self._models[link.uid].link_names)
            raise KeyError(f"robot {link.uid!r} has no link {link.link!r}; there are: {known}")
        composed_position, composed_quaternion = np.empty(3), np.empty(4)
        mujoco.mju_mulPose(
            composed_position, composed_quaternion, np.array(site.pos), np.array(site.quat), position, quaternion
        )
        return site.parent, composed_position, composed_quaternion

    # --- finding again --------------------------------------------------------------------------------------

    def addresses(self, model: MjModel) -> CompiledScene:
        """Find every part of the scene in the model that was made from it."""
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        model.body("//floor").pos[2] = _lowest_point(model, data, self._scene)
        geom_groups = np.array(
            [self._masks.index(self._group_of_geom.get(model.geom(geom).name)) for geom in range(model.ngeom)]
        )
        pair_ids = {
            rule: np.array([model.pair(name).id for name in names], dtype=np.int64)
            for rule, names in self._pairs.items()
        }
        is_position = model.actuator_biasprm[:, 1] != 0.0
        hold_gains = np.zeros(model.nu)
        hold_gains[is_position] = -model.actuator_biasprm[is_position, 1] / model.actuator_gainprm[is_position, 0]
        for pin in self._scene.pins:
            if pin.stiffness is not None:
                hold_gains[[model.actuator(f"/{pin.name}/{axis}").id for axis in "xyz"]] = 0.0
        return CompiledScene(
            model=model,
            robots={robot.uid: self._robot_address(model, robot.uid) for robot in self._scene.robots},
            bodies={body.name: _body_address(model, body) for body in self._scene.bodies},
            pins={pin.name: _pin_address(model, data, pin) for pin in self._scene.pins},
            masks=self._masks,
            geom_groups=geom_groups,
            switch=ContactSwitch(model, masks=self._masks, geom_groups=geom_groups, pair_ids=pair_ids),
            hold_gains=hold_gains,
        )

    def _robot_address(self, model: MjModel, uid: str) -> RobotAddress:
        robot = self._models[uid]
        joints = [model.joint(f"{uid}/{name}") for name in robot.joint_names]
        return RobotAddress(
            model=robot,
            qpos=_columns([int(joint.qposadr[0]) for joint in joints]),
            qvel=_columns([int(joint.dofadr[0]) for joint in joints]),
            ctrl=_columns([model.actuator(f"{uid}/{name}").id for name in robot.actuator_names]),
            links={name: _link_address(model, f"{uid}/{name}") for name in robot.link_names},
        )


def _columns(places: list[int]) -> Columns:
    """Give a slice where the places are neighbours: no other index is as fast."""
    if places and places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return np.array(places, dtype=np.int64)


def _vector(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)


def _link_address(model: MjModel, name: str) -> LinkAddress:
    body = mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_BODY), name)
    if body >= 0:
        return LinkAddress(body, None, None)
    site = mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_SITE), name)
    turn = model.site_quat[site].copy()
    return LinkAddress(int(model.site_bodyid[site]), site, None if (turn == IDENTITY_QUATERNION).all() else turn)


def _body_address(model: MjModel, body: BodySpec) -> BodyAddress:
    body_id = model.body(f"/{body.name}").id
    qpos = None
    if body.motion is Motion.FREE:
        start = int(model.joint(f"/{body.name}").qposadr[0])
        qpos = slice(start, start + 7)
    mocap = int(model.body_mocapid[body_id]) if body.motion is Motion.KINEMATIC else None
    return BodyAddress(body_id, qpos, mocap)


def _pin_address(model: MjModel, data: MjData, pin: PinSpec) -> PinAddress:
    coupler = None
    if pin.stiffness is not None:
        start = int(model.joint(f"/{pin.name}/x").qposadr[0])
        coupler = slice(start, start + 3)
    return PinAddress(
        rows=_rows_of_pin(model, data, pin.name),
        body=model.body(f"/{pin.body}").id,
        body_site=model.site(f"/{pin.name}/body").id,
        link_site=model.site(f"/{pin.name}/link").id,
        coupler=coupler,
    )


def _rows_of_pin(model: MjModel, data: MjData, name: str) -> slice:
    """Give the three constraint rows of a pin; those of equalities come first, always all, in their order."""
    is_equality = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    rows = np.flatnonzero(is_equality & (data.efc_id == model.equality(f"/{name}").id))
    if len(rows) == 0:
        raise ChamberEnvCompatibilityError(f"pin {name!r} holds two things that never move")
    return slice(int(rows[0]), int(rows[0]) + 3)


def _lowest_point(model: MjModel, data: MjData, scene: SceneSpec) -> float:
    """Give the height of the lowest thing that stands still."""
    heights = [0.0, *(robot.base_position[2] for robot in scene.robots)]
    for body in scene.bodies:
        if body.motion is Motion.FIXED:
            geoms = np.flatnonzero(model.geom_bodyid == model.body(f"/{body.name}").id)
            half_heights = np.abs(data.geom_xmat[geoms, 6:]) * model.geom_aabb[geoms, 3:]
            heights += (data.geom_xpos[geoms, 2] - half_heights.sum(axis=1)).tolist()
    return min(heights)
