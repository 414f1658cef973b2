"""The scene of Stage-1 pick-place: two robots at a table, a cube, a marker at the goal, and cameras."""

from __future__ import annotations

import math
from collections.abc import Mapping

from chamber.envs._stage1_rules import (
    CUBE_HALF_SIZE_M,
    EGO_UID,
    FETCH_UID,
    GOAL_THRESHOLD_M,
    PANDA_PARTNER_UID,
    ConditionConfig,
)
from chamber.envs._table import FLOOR, FLOOR_Z_M, TABLE, table_body
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
    Vector3,
    arm_group,
    finger_group,
)

__all__ = ["AGENT_BASE_POSE_XYZ", "AGENT_BASE_YAW", "CUBE", "GOAL_MARKER", "pickplace_scene"]

CUBE = "cube"
"""Name of the cube and of its contact group."""

GOAL_MARKER = "goal"

AGENT_BASE_POSE_XYZ: Mapping[str, Vector3] = {
    EGO_UID: (-0.615, 0.0, 0.0),
    PANDA_PARTNER_UID: (0.615, 0.0, 0.0),
    FETCH_UID: (1.2, 0.0, FLOOR_Z_M),
}
"""Where the bases are, m. The Fetch stands on the floor, clear of the table, and drives nearer when it wants to."""

AGENT_BASE_YAW: Mapping[str, float] = {EGO_UID: 0.0, PANDA_PARTNER_UID: math.pi, FETCH_UID: math.pi}
"""Partners face the ego, rad."""

_ROBOT_FRICTION = 0.3
_FINGER_FRICTION = 2.0
_OBJECT_FRICTION = 0.3
_FINGER_ON_OBJECT = (_FINGER_FRICTION + _OBJECT_FRICTION) / 2.0
_SENSOR_PIXELS = 128


def pickplace_scene(condition: ConditionConfig) -> SceneSpec:
    """Describe the scene of a condition."""
    return SceneSpec(
        robots=tuple(
            RobotSpec(
                uid=uid,
                model=uid,
                base_position=AGENT_BASE_POSE_XYZ[uid],
                base_yaw=AGENT_BASE_YAW[uid],
                friction=_ROBOT_FRICTION,
            )
            for uid in condition.agent_uids
        ),
        bodies=(table_body(), *_stands(condition), _cube(), _goal_marker()),
        cameras=(_render_camera(), *(_sensor_cameras() if condition.is_om_condition else ())),
        contacts=_contacts(*condition.agent_uids),
    )


def _contacts(ego: str, partner: str) -> tuple[ContactRule, ...]:
    """Who touches whom.

    The friction of a finger on something else is the mean of the two, as in the physics that the task was made with;
    elsewhere both are equal, and between robots it hardly matters.
    """
    arms, fingers = (arm_group(ego), arm_group(partner)), (finger_group(ego), finger_group(partner))
    things = (CUBE, TABLE)
    return (
        ContactRule(CUBE, TABLE),
        ContactRule(CUBE, FLOOR),
        *(ContactRule(arm, thing) for arm in arms for thing in things),
        *(ContactRule(finger, thing, friction=_FINGER_ON_OBJECT) for finger in fingers for thing in things),
        ContactRule(*arms),
        ContactRule(*fingers),
        ContactRule(arms[0], fingers[1]),
        ContactRule(fingers[0], arms[1]),
    )


def _cube() -> BodySpec:
    half = CUBE_HALF_SIZE_M
    return BodySpec(
        name=CUBE,
        motion=Motion.FREE,
        position=(0.0, 0.0, half),
        geoms=(
            GeomSpec(
                name="box",
                shape=Shape.BOX,
                size=(half, half, half),
                density=1000.0,
                group=CUBE,
                friction=_OBJECT_FRICTION,
                rgba=(0.85, 0.10, 0.10, 1.0),
            ),
        ),
    )


def _goal_marker() -> BodySpec:
    return BodySpec(
        name=GOAL_MARKER,
        motion=Motion.KINEMATIC,
        is_marker=True,
        geoms=(GeomSpec(name="ball", shape=Shape.SPHERE, size=(GOAL_THRESHOLD_M,), rgba=(0.10, 0.80, 0.25, 0.5)),),
    )


def _stands(condition: ConditionConfig) -> tuple[BodySpec, ...]:
    """A stand under the second Panda, whose base is beside the table; it is there to be seen only."""
    if PANDA_PARTNER_UID not in condition.agent_uids:
        return ()
    x, y, z = AGENT_BASE_POSE_XYZ[PANDA_PARTNER_UID]
    half_height = (z - FLOOR_Z_M) / 2.0
    column = GeomSpec(name="column", shape=Shape.BOX, size=(0.10, 0.10, half_height), rgba=(0.35, 0.37, 0.40, 1.0))
    return (BodySpec(name="stand", motion=Motion.FIXED, position=(x, y, z - half_height), geoms=(column,)),)


def _render_camera() -> CameraSpec:
    return CameraSpec(
        name=RENDER_CAMERA, width=640, height=480, field_of_view=1.0, position=(0.7, 0.7, 0.6), target=(0.0, 0.0, 0.1)
    )


def _sensor_cameras() -> tuple[CameraSpec, ...]:
    def on_link(name: str, uid: str, link: str, field_of_view: float) -> CameraSpec:
        return CameraSpec(
            name=name,
            width=_SENSOR_PIXELS,
            height=_SENSOR_PIXELS,
            field_of_view=field_of_view,
            mount=LinkRef(uid, link),
            is_sensor=True,
        )

    workspace = CameraSpec(
        name="workspace",
        width=_SENSOR_PIXELS,
        height=_SENSOR_PIXELS,
        field_of_view=1.0,
        position=(0.3, 0.6, 0.5),
        target=(0.0, 0.0, 0.12),
        is_sensor=True,
    )
    return (
        on_link("panda_wristcam-0-hand_camera", EGO_UID, "camera_link", math.pi / 2.0),
        on_link("fetch-1-fetch_head", FETCH_UID, "head_camera_link", 2.0),
        on_link("fetch-1-fetch_hand", FETCH_UID, "gripper_link", 2.0),
        workspace,
    )
