"""The scene of co-carry: two arms, a table, a bar, the holds, a marker at the goal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber.envs._cocarry_rules import (
    COCARRY_BAR_CROSS_SECTION_M,
    COCARRY_BAR_LENGTH_M,
    COCARRY_BAR_MASS_KG,
    COCARRY_BASE_X_M,
    CoCarryCondition,
    Coupling,
)
from chamber.envs._table import TABLE, table_body
from chamber.envs.rig_task import RENDER_CAMERA
from chamber.sim.robots import robot_model
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
    arm_group,
    finger_group,
)

__all__ = ["BAR", "COLLISIONS", "GOAL_MARKER", "BarHold", "bar_holds", "cocarry_scene", "level_bar_pose"]

BAR = "bar"
GOAL_MARKER = "goal"

COLLISIONS = ("filtered", "legacy")
"""Whether arms and bar pass through each other, or touch as in the first version of the task."""

_BAR_ON_TABLE_FRICTION = 1.0
"""A bar that one arm drops hits the table and then swings in a cone, whose width shows what the blow took: with this
coefficient it tilts 75 to 78 degrees, as in the physics that the task was made with; with 0.3 it keeps 66 to 73."""
_HALF_LENGTH = COCARRY_BAR_LENGTH_M / 2
_HALF_THICKNESS = COCARRY_BAR_CROSS_SECTION_M / 2


@dataclass(frozen=True, slots=True)
class BarHold:
    """One hand at one end of the bar.

    Attributes:
        uid: robot.
        pin: name of the ball joint.
        link, link_offset: the point of the hand, in the frame of the link.
        end: the point of the bar, in its frame.
    """

    uid: str
    pin: str
    link: str
    link_offset: tuple[float, float, float]
    end: tuple[float, float, float]


def bar_holds(condition: CoCarryCondition) -> tuple[BarHold, ...]:
    """Give who holds which end: the ego the one at +x, the partner the one at -x."""
    holding = condition.agent_uids[: 1 if condition.single_arm else 2]
    return tuple(
        BarHold(
            uid=uid,
            pin=f"{uid}_hold",
            link=robot_model(uid).hold_link,
            link_offset=robot_model(uid).hold_offset,
            end=(side * _HALF_LENGTH, 0.0, 0.0),
        )
        for uid, side in zip(holding, (1.0, -1.0), strict=False)
    )


def cocarry_scene(
    condition: CoCarryCondition,
    *,
    holds: tuple[BarHold, ...],
    spring: Coupling | None,
    partner_base_x: float,
    collision: str,
) -> SceneSpec:
    """Describe the scene of a condition.

    Args:
        condition: who carries.
        holds: from `bar_holds`.
        spring: how the arms hold the bar; None is a rigid ball joint, a stiffness of zero no hold at all.
        partner_base_x: where the partner stands, m.
        collision: one of `COLLISIONS`.

    Raises:
        ValueError: ``collision`` is unknown.
    """
    if collision not in COLLISIONS:
        raise ValueError(f"collision must be one of {', '.join(COLLISIONS)}, got {collision!r}")
    ego, partner = condition.agent_uids
    return SceneSpec(
        robots=(
            RobotSpec(uid=ego, model=ego, base_position=(-COCARRY_BASE_X_M, 0.0, 0.0)),
            RobotSpec(uid=partner, model=partner, base_position=(partner_base_x, 0.0, 0.0), base_yaw=math.pi),
        ),
        bodies=(table_body(), _bar(), _goal_marker()),
        pins=() if spring is not None and spring.stiffness == 0.0 else tuple(_pin(hold, spring) for hold in holds),
        cameras=(
            CameraSpec(
                name=RENDER_CAMERA,
                width=640,
                height=480,
                field_of_view=1.0,
                position=(0.0, 1.0, 0.7),
                target=(0.0, 0.0, 0.25),
            ),
        ),
        contacts=_contacts(ego, partner, collision),
    )


def level_bar_pose(centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the pose of a level bar along the world's x axis, shape ``(7,)``."""
    return np.array([*centre, 1.0, 0.0, 0.0, 0.0])


def _pin(hold: BarHold, spring: Coupling | None) -> PinSpec:
    link = LinkRef(hold.uid, hold.link)
    if spring is None:
        return PinSpec(name=hold.pin, link=link, link_offset=hold.link_offset, body=BAR, body_offset=hold.end)
    return PinSpec(
        name=hold.pin,
        link=link,
        link_offset=hold.link_offset,
        body=BAR,
        body_offset=hold.end,
        stiffness=spring.stiffness,
        damping=spring.damping,
        force_limit=spring.force_limit,
    )


def _contacts(ego: str, partner: str, collision: str) -> tuple[ContactRule, ...]:
    robots = [group(uid) for uid in (ego, partner) for group in (arm_group, finger_group)]
    with_table = (
        ContactRule(TABLE, BAR, friction=_BAR_ON_TABLE_FRICTION),
        *(ContactRule(TABLE, group) for group in robots),
    )
    if collision == "filtered":
        return with_table
    between_arms = tuple(
        ContactRule(first(ego), second(partner))
        for first in (arm_group, finger_group)
        for second in (arm_group, finger_group)
    )
    return (*with_table, *between_arms, *(ContactRule(BAR, group) for group in robots))


def _bar() -> BodySpec:
    return BodySpec(
        name=BAR,
        motion=Motion.FREE,
        position=(0.0, 0.0, 0.17),
        geoms=(
            GeomSpec(
                name="box",
                shape=Shape.BOX,
                size=(_HALF_LENGTH, _HALF_THICKNESS, _HALF_THICKNESS),
                mass=COCARRY_BAR_MASS_KG,
                group=BAR,
                rgba=(0.98, 0.80, 0.12, 1.0),
            ),
        ),
    )


def _goal_marker() -> BodySpec:
    return BodySpec(
        name=GOAL_MARKER,
        motion=Motion.KINEMATIC,
        is_marker=True,
        geoms=(GeomSpec(name="ball", shape=Shape.SPHERE, size=(0.035,), rgba=(0.10, 0.70, 0.25, 0.35)),),
    )
