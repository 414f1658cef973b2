"""Robots as small MJCF models of our own, from published tables, with all that a backend and a task ask about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from chamber.sim.robots.allegro import allegro_hand_right
from chamber.sim.robots.fetch import fetch
from chamber.sim.robots.model import ActionMap, FloatArray, JointIndex, LinkCapsule, LinkInertial, RobotModel
from chamber.sim.robots.panda import panda_partner, panda_wristcam
from chamber.sim.robots.xarm6 import xarm6_robotiq

__all__ = [
    "ActionMap",
    "FloatArray",
    "JointIndex",
    "LinkCapsule",
    "LinkInertial",
    "RobotModel",
    "robot_model",
    "robot_names",
]

_ROBOTS: dict[str, Callable[[], RobotModel]] = {
    "allegro_hand_right": allegro_hand_right,
    "fetch": fetch,
    "panda_partner": panda_partner,
    "panda_wristcam": panda_wristcam,
    "xarm6_robotiq": xarm6_robotiq,
}


def robot_names() -> tuple[str, ...]:
    """Give the names that `robot_model` knows, sorted."""
    return tuple(sorted(_ROBOTS))


@cache
def robot_model(name: str) -> RobotModel:
    """Give a robot.

    Raises:
        KeyError: there is no such robot; the message lists those there are.
    """
    if name not in _ROBOTS:
        raise KeyError(f"there is no robot {name!r}; there are {', '.join(robot_names())}")
    return _ROBOTS[name]()
