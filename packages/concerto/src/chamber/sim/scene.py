"""What is in a scene, said without any simulator: robots, bodies, holds, cameras, and who may touch whom.

A task describes its scene with these records; a `chamber.sim.backend.RigBackend` builds it. Lengths are in metres,
masses in kilograms, angles in radians, quaternions ``(w, x, y, z)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "IDENTITY_QUATERNION",
    "BodySpec",
    "CameraSpec",
    "ContactRule",
    "GeomSpec",
    "LinkRef",
    "Motion",
    "PinSpec",
    "Quaternion",
    "RobotSpec",
    "SceneSpec",
    "Shape",
    "Vector3",
    "WeldSpec",
    "arm_group",
    "finger_group",
]

Vector3 = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

IDENTITY_QUATERNION: Quaternion = (1.0, 0.0, 0.0, 0.0)
_ORIGIN: Vector3 = (0.0, 0.0, 0.0)


class Shape(StrEnum):
    """Primitive shapes, with what ``GeomSpec.size`` means for each."""

    BOX = "box"
    """Three half edges."""
    SPHERE = "sphere"
    """Radius."""
    CYLINDER = "cylinder"
    """Radius and half length along local z."""
    CAPSULE = "capsule"
    """Radius and half length of the straight part along local z."""


_NUMBERS_OF_SHAPE = {Shape.BOX: 3, Shape.SPHERE: 1, Shape.CYLINDER: 2, Shape.CAPSULE: 2}


class Motion(StrEnum):
    """How a body moves."""

    FREE = "free"
    """Under gravity and contact, six degrees of freedom."""
    FIXED = "fixed"
    """Never."""
    KINEMATIC = "kinematic"
    """Only when it is placed; it pushes and is not pushed."""
    ATTACHED = "attached"
    """With the link that it is fixed to; it is part of that robot and, like every robot, has no weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeomSpec:
    """One primitive of a body.

    Attributes:
        name: unique within the body.
        shape: what it is.
        size: see `Shape`.
        position, quaternion: pose in the frame of the body.
        mass: kg; None takes ``density`` times the volume.
        density: kg/m^3.
        group: contact group; None never touches anything.
        friction: sliding friction coefficient where no `ContactRule` says otherwise.
        rgba: colour in pictures, components in [0, 1].
    """

    name: str
    shape: Shape
    size: tuple[float, ...]
    position: Vector3 = _ORIGIN
    quaternion: Quaternion = IDENTITY_QUATERNION
    mass: float | None = None
    density: float = 1000.0
    group: str | None = None
    friction: float = 0.3
    rgba: tuple[float, float, float, float] = (0.7, 0.7, 0.7, 1.0)

    def __post_init__(self) -> None:
        if len(self.size) != _NUMBERS_OF_SHAPE[self.shape] or not all(_is_positive(value) for value in self.size):
            needed = _NUMBERS_OF_SHAPE[self.shape]
            raise ValueError(f"size of {self.shape} {self.name!r} must be {needed} numbers > 0, got {self.size}")
        _require_finite(f"geom {self.name!r}", position=self.position, quaternion=self.quaternion, rgba=self.rgba)
        _require_finite(f"geom {self.name!r}", mass=self.mass, density=self.density, friction=self.friction)


@dataclass(frozen=True, slots=True)
class LinkRef:
    """A link of a robot."""

    uid: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySpec:
    """A rigid body made of primitives.

    Attributes:
        name: unique in the scene.
        geoms: its primitives.
        motion: how it moves.
        position, quaternion: pose in the world when the scene is built, or in the frame of ``attached_to``.
        attached_to: the link it is fixed to; exactly for `Motion.ATTACHED`.
        mass: kg; None takes it from the geoms. With it, ``diagonal_inertia`` (kg m^2, about the body's origin, which is
            then the centre of mass) must be given too.
        diagonal_inertia: see ``mass``.
        is_marker: it is drawn for people only; cameras that are sensors do not see it.
    """

    name: str
    geoms: tuple[GeomSpec, ...]
    motion: Motion
    position: Vector3 = _ORIGIN
    quaternion: Quaternion = IDENTITY_QUATERNION
    attached_to: LinkRef | None = None
    mass: float | None = None
    diagonal_inertia: Vector3 | None = None
    is_marker: bool = False

    def __post_init__(self) -> None:
        if (self.motion is Motion.ATTACHED) != (self.attached_to is not None):
            raise ValueError(f"attached_to of body {self.name!r} must be given exactly for an attached body")
        if (self.mass is None) != (self.diagonal_inertia is None):
            raise ValueError(f"body {self.name!r} needs mass and diagonal_inertia together")
        _require_finite(f"body {self.name!r}", position=self.position, quaternion=self.quaternion)
        _require_finite(f"body {self.name!r}", mass=self.mass, diagonal_inertia=self.diagonal_inertia)
        _require_unique(f"geom of body {self.name!r}", (geom.name for geom in self.geoms))


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotSpec:
    """A robot of the scene.

    Attributes:
        uid: its name in observations and actions.
        model: key of `chamber.sim.robots.robot_model`.
        base_position: of its base frame, world.
        base_yaw: of its base frame about world z.
        friction: sliding friction of its links; its fingers have their own.
    """

    uid: str
    model: str
    base_position: Vector3 = _ORIGIN
    base_yaw: float = 0.0
    friction: float = 0.3

    def __post_init__(self) -> None:
        _require_finite(
            f"robot {self.uid!r}", base_position=self.base_position, base_yaw=self.base_yaw, friction=self.friction
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSpec:
    """A ball joint that holds a point of a body at a point of a link.

    Attributes:
        name: unique among pins and welds.
        link, link_offset: the point on the robot, in the frame of the link.
        body, body_offset: the point on the body, in the frame of the body.
        stiffness: None is a rigid hold; else a spring in N/m per world axis.
        damping: N s/m, of a spring.
        force_limit: largest force of a spring per axis, N.
    """

    name: str
    link: LinkRef
    link_offset: Vector3
    body: str
    body_offset: Vector3
    stiffness: float | None = None
    damping: float = 0.0
    force_limit: float = math.inf

    def __post_init__(self) -> None:
        if self.stiffness is not None and not _is_positive(self.stiffness):
            raise ValueError(f"stiffness of pin {self.name!r} must be finite and > 0, got {self.stiffness}")
        if not (math.isfinite(self.damping) and self.damping >= 0.0):
            raise ValueError(f"damping of pin {self.name!r} must be finite and >= 0, got {self.damping}")
        if not self.force_limit > 0.0:
            raise ValueError(f"force_limit of pin {self.name!r} must be > 0, got {self.force_limit}")
        _require_finite(f"pin {self.name!r}", link_offset=self.link_offset, body_offset=self.body_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeldSpec:
    """A rigid hold of a free body in the hand of a robot, at a fixed pose in the frame of the link."""

    name: str
    link: LinkRef
    body: str
    position: Vector3 = _ORIGIN
    quaternion: Quaternion = IDENTITY_QUATERNION

    def __post_init__(self) -> None:
        _require_finite(f"weld {self.name!r}", position=self.position, quaternion=self.quaternion)


MOST_PIXELS = 8192
"""Of a side of a picture; drivers refuse frame buffers that are much larger."""

SMALLEST_NEAR = 1e-4
"""Nearest plane of a camera, m; MuJoCo ends the process for planes that are much nearer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraSpec:
    """A camera.

    Attributes:
        name: key of its pictures.
        width, height: pixels, at most `MOST_PIXELS` each.
        field_of_view: vertical, rad.
        near, far: clipping planes, m, ``near`` at least `SMALLEST_NEAR`.
        position: of the eye; world, or in the frame of ``mount``.
        target: point it looks at, world, with world z up; exactly when it has no ``mount``.
        mount: link it is fixed to; it then looks along the x axis of the camera frame, z up.
        quaternion: orientation of that frame in the frame of ``mount``.
        is_sensor: its pictures are observations; other cameras are for people.
    """

    name: str
    width: int
    height: int
    field_of_view: float
    near: float = 0.01
    far: float = 100.0
    position: Vector3 = _ORIGIN
    target: Vector3 | None = None
    mount: LinkRef | None = None
    quaternion: Quaternion = IDENTITY_QUATERNION
    is_sensor: bool = False

    def __post_init__(self) -> None:
        if (self.target is None) == (self.mount is None):
            raise ValueError(f"camera {self.name!r} needs either a target or a mount")
        if not 0.0 < self.field_of_view < math.pi:
            raise ValueError(f"field_of_view of camera {self.name!r} must be in (0, pi), got {self.field_of_view}")
        if self.width < 1 or self.height < 1:
            raise ValueError(f"camera {self.name!r} must be at least 1 x 1, got {self.width} x {self.height}")
        if max(self.width, self.height) > MOST_PIXELS:
            raise ValueError(
                f"camera {self.name!r} must be at most {MOST_PIXELS} pixels wide and high, "
                f"got {self.width} x {self.height}"
            )
        if not SMALLEST_NEAR <= self.near < self.far < math.inf:
            raise ValueError(
                f"camera {self.name!r} must have {SMALLEST_NEAR} <= near < far, finite, got {self.near} and {self.far}"
            )
        _require_finite(f"camera {self.name!r}", position=self.position, quaternion=self.quaternion)
        _require_finite(f"camera {self.name!r}", target=self.target)


@dataclass(frozen=True, slots=True)
class ContactRule:
    """Two contact groups that may touch each other. Pairs without a rule pass through each other.

    Attributes:
        first, second: names of groups; see `arm_group` and `finger_group` for those of robots.
        friction: sliding friction of the pair; None takes the larger one of the two geoms.
        time_constant: how fast an overlap is pushed out again, s, critically damped; None leaves it to the backend.
        impedance: how rigid a contact is where it begins and 1 mm deep, each in (0, 1); None leaves it to the backend.
    """

    first: str
    second: str
    friction: float | None = None
    time_constant: float | None = None
    impedance: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        pair = f"of contact between {self.first!r} and {self.second!r}"
        _require_finite(f"contact between {self.first!r} and {self.second!r}", friction=self.friction)
        if self.time_constant is not None and not _is_positive(self.time_constant):
            raise ValueError(f"time_constant {pair} must be finite and > 0, got {self.time_constant}")
        if self.impedance is not None and not all(0.0 < value < 1.0 for value in self.impedance):
            raise ValueError(f"impedance {pair} must be two numbers in (0, 1), got {self.impedance}")


def arm_group(uid: str) -> str:
    """Give the contact group of the links of a robot, without its fingers."""
    return f"{uid}.arm"


def finger_group(uid: str) -> str:
    """Give the contact group of the fingers of a robot."""
    return f"{uid}.fingers"


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneSpec:
    """Everything a backend needs to build a scene.

    Attributes:
        robots, bodies, pins, welds, cameras: what there is.
        contacts: who may touch whom.
        physics_timestep: s.
        control_timestep: s, a whole number of physics steps.
    """

    robots: tuple[RobotSpec, ...]
    bodies: tuple[BodySpec, ...] = ()
    pins: tuple[PinSpec, ...] = ()
    welds: tuple[WeldSpec, ...] = ()
    cameras: tuple[CameraSpec, ...] = ()
    contacts: tuple[ContactRule, ...] = ()
    physics_timestep: float = 0.002
    control_timestep: float = 0.05
    substeps: int = field(init=False)

    def __post_init__(self) -> None:
        _require_unique("robot", (robot.uid for robot in self.robots))
        _require_unique("body", (body.name for body in self.bodies))
        _require_unique("hold", (hold.name for hold in (*self.pins, *self.welds)))
        _require_unique("camera", (camera.name for camera in self.cameras))
        for name in ("physics_timestep", "control_timestep"):
            if not _is_positive(getattr(self, name)):
                raise ValueError(f"{name} must be finite and > 0, got {getattr(self, name)}")
        substeps = round(self.control_timestep / self.physics_timestep)
        if substeps < 1 or not math.isclose(substeps * self.physics_timestep, self.control_timestep, rel_tol=1e-9):
            raise ValueError(
                f"control_timestep {self.control_timestep} must be a whole number of physics steps of "
                f"{self.physics_timestep}"
            )
        object.__setattr__(self, "substeps", substeps)


def _require_finite(what: str, **values: float | tuple[float, ...] | None) -> None:
    for name, value in values.items():
        numbers = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"{name} of {what} must be finite, got {value}")


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0.0


def _require_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} {name!r} is there twice")
        seen.add(name)
