"""The scenes of co-insert: two arms on pedestals, a peg on one hand, a socket on the other; and the fidelity probe.

There is no table between the arms: on one, a socket that nobody holds could be used as well as one that is held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from chamber.envs._coinsert_rules import (
    COINSERT_BASE_X_M,
    COINSERT_PEG_DIAMETER_M,
    COINSERT_PEG_HALF_LENGTH_M,
    COINSERT_PROBE_PEG_HALF_LENGTH_M,
    COINSERT_PROBE_SOCKET_XYZ,
    COINSERT_RECEPTACLE_MASS_KG,
    COINSERT_SOCKET_DEPTH_M,
    COINSERT_SOCKET_OUTER_HALF_M,
    CoInsertCondition,
    coinsert_socket_inner_half_width,
)
from chamber.envs._table import FLOOR_Z_M
from chamber.envs.rig_task import RENDER_CAMERA
from chamber.sim.scene import (
    BodySpec,
    CameraSpec,
    ContactRule,
    GeomSpec,
    LinkRef,
    Motion,
    RobotSpec,
    SceneSpec,
    Shape,
    WeldSpec,
    arm_group,
    finger_group,
)

__all__ = [
    "CLOSE_CAMERA",
    "HOLD_LINK",
    "N_BORE_FACETS",
    "PEG",
    "SOCKET",
    "SOCKET_BUILD_XYZ",
    "bore_geoms",
    "coinsert_scene",
    "probe_bore_geoms",
    "probe_peg_start_xyz",
]

PEG = "peg"
SOCKET = "coinsert_socket"
"""Names of the bodies and of their contact groups."""

_STANDS = "stands"

CLOSE_CAMERA = "close_camera"
"""Looks at peg and socket from the side on which the socket is cut open in pictures."""

HOLD_LINK = "panda_hand"
"""What carries peg and socket."""

N_BORE_FACETS = 12

SOCKET_BUILD_XYZ = (0.0116574, 0.0000105, 0.2706114)
"""Where the mouth of the socket is when both arms are ready, m; a free socket starts there."""

_PEG_IN_HAND_XYZ = (0.0, 0.0, 0.1034)
_SOCKET_IN_HAND_XYZ = (-0.0832, 0.2341, 0.1554)
_SOCKET_IN_HAND_QUATERNION = (0.0, math.cos(0.25), math.sin(0.25), 0.0)  # roll pi, then yaw 0.5: the mouth looks up
_SOCKET_INERTIA = (5e-4, 5e-4, 5e-4)

_PEDESTAL_HALF_WIDTH_M = 0.12
_GROUND_HALF_SIZE_M = (3.0, 3.0, 0.01)
_FLOOR_HALF_THICKNESS_M = 0.005
_FACET_OVERLAP_M = 0.002
_PROBE_PEG_GAP_M = 0.013
_PROBE_PEG_DENSITY = 8000.0

_PHYSICS_TIMESTEP_S = 0.001
_CONTROL_TIMESTEP_S = 0.05
_CONTACT_TIME_CONSTANT_S = 2.0 * _PHYSICS_TIMESTEP_S  # the stiffest that integrates stably
_CONTACT_IMPEDANCE = (0.95, 0.99)

_ROD_RADIUS_M = 0.006
_ROD_FROM_GRIP = (-0.0392, 0.2453, 0.0520)
_ROD_TO_WALL = (0.0, 0.0295, -0.0450)
"""Ends of the rod by which the holder seems to hold the socket, in the frame of the socket, m."""

_PEG_RGBA = (0.93, 0.45, 0.10, 1.0)
_WALL_RGBA = (0.30, 0.47, 0.68, 1.0)
_CUT_AWAY_RGBA = (0.30, 0.47, 0.68, 0.0)
_FLOOR_RGBA = (0.22, 0.34, 0.50, 1.0)
_ROD_RGBA = (0.35, 0.37, 0.40, 1.0)
_PEDESTAL_RGBA = (0.32, 0.34, 0.37, 1.0)
_UNSEEN_RGBA = (0.0, 0.0, 0.0, 0.0)
_CUT_OPEN_TOWARDS = 1.5 * math.pi
_CUT_OPEN_HALF_ANGLE = math.radians(75.0)


@dataclass(frozen=True, slots=True)
class _Workpieces:
    """Peg and socket with what holds them."""

    peg: BodySpec
    socket: BodySpec
    welds: tuple[WeldSpec, ...] = ()


def bore_geoms(clearance_m: float) -> tuple[GeomSpec, ...]:
    """Give a round blind socket as a floor and 12 flat walls around a regular bore, mouth at the origin, open to +z.

    A circle of half the peg's diameter plus half the clearance touches every wall. Walls are as thick as the outer half
    width leaves them, and a little wider than their sector, so that there are no gaps at the corners.

    Args:
        clearance_m: diametral.
    """
    inner = coinsert_socket_inner_half_width(clearance_m)
    thickness = COINSERT_SOCKET_OUTER_HALF_M - inner
    half_width = (inner + thickness) * math.tan(math.pi / N_BORE_FACETS) + _FACET_OVERLAP_M
    return (_floor(), *(_facet(place, inner, thickness, half_width) for place in range(N_BORE_FACETS)))


def probe_bore_geoms(clearance_m: float) -> tuple[GeomSpec, ...]:
    """Give a square blind socket as a floor and 4 walls, mouth at the origin, open to +z."""
    inner = coinsert_socket_inner_half_width(clearance_m)
    half_thickness = (COINSERT_SOCKET_OUTER_HALF_M - inner) / 2
    out, outer, half_depth = inner + half_thickness, COINSERT_SOCKET_OUTER_HALF_M, COINSERT_SOCKET_DEPTH_M / 2
    walls = (
        ("wall_px", (half_thickness, outer, half_depth), (out, 0.0), _WALL_RGBA),
        ("wall_nx", (half_thickness, outer, half_depth), (-out, 0.0), _WALL_RGBA),
        ("wall_py", (outer, half_thickness, half_depth), (0.0, out), _CUT_AWAY_RGBA),
        ("wall_ny", (outer, half_thickness, half_depth), (0.0, -out), _WALL_RGBA),
    )
    return (
        _floor(),
        *(
            GeomSpec(name=name, shape=Shape.BOX, size=size, position=(*centre, -half_depth), group=SOCKET, rgba=colour)
            for name, size, centre, colour in walls
        ),
    )


def probe_peg_start_xyz() -> tuple[float, float, float]:
    """Give where the peg of the probe starts: upright over the mouth."""
    x, y, z = COINSERT_PROBE_SOCKET_XYZ
    return (x, y, z + _PROBE_PEG_GAP_M + COINSERT_PROBE_PEG_HALF_LENGTH_M)


def coinsert_scene(
    condition: CoInsertCondition, *, clearance_m: float, friction: float, fidelity_probe: bool
) -> SceneSpec:
    """Describe the scene of a condition.

    Peg and socket touch each other, the pedestals and the floor. Arms touch these and each other, and the ego's the
    socket. Fingers and workpieces pass through each other, because a hand cannot let go of its workpiece here, and
    finger pads would meet the rim of the socket before the peg is in.

    Args:
        condition: who holds what.
        clearance_m: diametral.
        friction: between peg and socket.
        fidelity_probe: whether a square peg that is moved by hand replaces the one of the ego, over a socket that is
            held in mid-air.
    """
    ego, partner = condition.agent_uids
    if fidelity_probe:
        workpieces = _probe_workpieces(partner, clearance_m)
    else:
        workpieces = _Workpieces(peg=_peg(ego), socket=_socket(condition, clearance_m))
    return SceneSpec(
        robots=(
            RobotSpec(uid=ego, model=ego, base_position=(-COINSERT_BASE_X_M, 0.0, 0.0)),
            RobotSpec(uid=partner, model=partner, base_position=(COINSERT_BASE_X_M, 0.0, 0.0), base_yaw=math.pi),
        ),
        bodies=(_stands(), workpieces.peg, workpieces.socket),
        welds=workpieces.welds,
        cameras=_cameras(),
        contacts=(
            ContactRule(
                PEG,
                SOCKET,
                friction=friction,
                time_constant=_CONTACT_TIME_CONSTANT_S,
                impedance=_CONTACT_IMPEDANCE,
            ),
            *(ContactRule(_STANDS, group) for group in (PEG, SOCKET)),
            *(ContactRule(_STANDS, group(uid)) for uid in (ego, partner) for group in (arm_group, finger_group)),
            ContactRule(arm_group(ego), arm_group(partner)),
            ContactRule(arm_group(ego), SOCKET),
        ),
        physics_timestep=_PHYSICS_TIMESTEP_S,
        control_timestep=_CONTROL_TIMESTEP_S,
    )


def _cameras() -> tuple[CameraSpec, ...]:
    return (
        CameraSpec(
            name=RENDER_CAMERA,
            width=640,
            height=480,
            field_of_view=0.8,
            position=(0.15, 1.25, 0.72),
            target=(0.02, -0.05, 0.32),
        ),
        CameraSpec(
            name=CLOSE_CAMERA,
            width=640,
            height=480,
            field_of_view=0.6,
            position=(0.06, 0.34, 0.36),
            target=(SOCKET_BUILD_XYZ[0], 0.0, 0.275),
        ),
    )


def _stands() -> BodySpec:
    """Two pedestals with their tops at z = 0, and the floor, which is felt only: pictures have one of their own."""
    half_height = -FLOOR_Z_M / 2
    pedestals = (
        GeomSpec(
            name=f"pedestal_{side}",
            shape=Shape.BOX,
            size=(_PEDESTAL_HALF_WIDTH_M, _PEDESTAL_HALF_WIDTH_M, half_height),
            position=(x, 0.0, -half_height),
            group=_STANDS,
            rgba=_PEDESTAL_RGBA,
        )
        for side, x in (("ego", -COINSERT_BASE_X_M), ("partner", COINSERT_BASE_X_M))
    )
    ground = GeomSpec(
        name="ground",
        shape=Shape.BOX,
        size=_GROUND_HALF_SIZE_M,
        position=(0.0, 0.0, FLOOR_Z_M - _GROUND_HALF_SIZE_M[2]),
        group=_STANDS,
        rgba=_UNSEEN_RGBA,
    )
    return BodySpec(name=_STANDS, motion=Motion.FIXED, geoms=(*pedestals, ground))


def _peg(ego: str) -> BodySpec:
    return BodySpec(
        name=PEG,
        motion=Motion.ATTACHED,
        attached_to=LinkRef(ego, HOLD_LINK),
        position=_PEG_IN_HAND_XYZ,
        geoms=(
            GeomSpec(
                name="cylinder",
                shape=Shape.CYLINDER,
                size=(COINSERT_PEG_DIAMETER_M / 2, COINSERT_PEG_HALF_LENGTH_M),
                group=PEG,
                rgba=_PEG_RGBA,
            ),
        ),
    )


def _socket(condition: CoInsertCondition, clearance_m: float) -> BodySpec:
    geoms = bore_geoms(clearance_m)
    if condition.single_inserter:
        return BodySpec(
            name=SOCKET,
            motion=Motion.FREE,
            position=SOCKET_BUILD_XYZ,
            geoms=geoms,
            mass=COINSERT_RECEPTACLE_MASS_KG,
            diagonal_inertia=_SOCKET_INERTIA,
        )
    return BodySpec(
        name=SOCKET,
        motion=Motion.ATTACHED,
        attached_to=LinkRef(condition.agent_uids[1], HOLD_LINK),
        position=_SOCKET_IN_HAND_XYZ,
        quaternion=_SOCKET_IN_HAND_QUATERNION,
        geoms=(*geoms, _rod()),
        mass=COINSERT_RECEPTACLE_MASS_KG,
        diagonal_inertia=_SOCKET_INERTIA,
    )


def _probe_workpieces(partner: str, clearance_m: float) -> _Workpieces:
    half_edge = COINSERT_PEG_DIAMETER_M / 2
    x, y, z = COINSERT_PROBE_SOCKET_XYZ
    return _Workpieces(
        peg=BodySpec(
            name=PEG,
            motion=Motion.KINEMATIC,
            position=probe_peg_start_xyz(),
            quaternion=(0.0, 1.0, 0.0, 0.0),
            geoms=(
                GeomSpec(
                    name="box",
                    shape=Shape.BOX,
                    size=(half_edge, half_edge, COINSERT_PROBE_PEG_HALF_LENGTH_M),
                    density=_PROBE_PEG_DENSITY,
                    group=PEG,
                    rgba=_PEG_RGBA,
                ),
            ),
        ),
        socket=BodySpec(
            name=SOCKET,
            motion=Motion.FREE,
            position=COINSERT_PROBE_SOCKET_XYZ,
            geoms=probe_bore_geoms(clearance_m),
            mass=COINSERT_RECEPTACLE_MASS_KG,
            diagonal_inertia=_SOCKET_INERTIA,
        ),
        # The partner's base never moves; it is turned by half a turn about z.
        welds=(
            WeldSpec(
                name="probe_hold",
                link=LinkRef(partner, "panda_link0"),
                body=SOCKET,
                position=(COINSERT_BASE_X_M - x, -y, z),
                quaternion=(0.0, 0.0, 0.0, 1.0),
            ),
        ),
    )


def _rod() -> GeomSpec:
    """What people see between hand and socket; it touches nothing."""
    x, y, z = (end - start for start, end in zip(_ROD_TO_WALL, _ROD_FROM_GRIP, strict=True))
    length, aside = math.hypot(x, y, z), math.hypot(x, y)
    half_turn = math.atan2(aside, z) / 2  # from local z to the rod, about (-y, x, 0)
    return GeomSpec(
        name="rod",
        shape=Shape.CAPSULE,
        size=(_ROD_RADIUS_M, length / 2),
        position=(_ROD_TO_WALL[0] + x / 2, _ROD_TO_WALL[1] + y / 2, _ROD_TO_WALL[2] + z / 2),
        quaternion=(
            math.cos(half_turn),
            -y / aside * math.sin(half_turn),
            x / aside * math.sin(half_turn),
            0.0,
        ),
        rgba=_ROD_RGBA,
    )


def _floor() -> GeomSpec:
    outer = COINSERT_SOCKET_OUTER_HALF_M
    return GeomSpec(
        name="floor",
        shape=Shape.BOX,
        size=(outer, outer, _FLOOR_HALF_THICKNESS_M),
        position=(0.0, 0.0, -COINSERT_SOCKET_DEPTH_M - _FLOOR_HALF_THICKNESS_M),
        group=SOCKET,
        rgba=_FLOOR_RGBA,
    )


def _facet(place: int, inner: float, thickness: float, half_width: float) -> GeomSpec:
    angle = 2.0 * math.pi * place / N_BORE_FACETS
    out = inner + thickness / 2
    from_cut = abs(math.remainder(angle - _CUT_OPEN_TOWARDS, 2.0 * math.pi))
    return GeomSpec(
        name=f"wall_{place:02d}",
        shape=Shape.BOX,
        size=(thickness / 2, half_width, COINSERT_SOCKET_DEPTH_M / 2),
        position=(out * math.cos(angle), out * math.sin(angle), -COINSERT_SOCKET_DEPTH_M / 2),
        quaternion=(math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)),
        group=SOCKET,
        rgba=_CUT_AWAY_RGBA if from_cut < _CUT_OPEN_HALF_ANGLE else _WALL_RGBA,
    )
