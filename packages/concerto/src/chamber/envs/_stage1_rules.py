"""Stage-1 pick-place without a simulator: its numbers, its conditions, and who is controlled how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concerto.safety.api import (
    AgentControlModel,
    AgentSnapshot,
    DoubleIntegratorControlModel,
    JacobianControlModel,
)

__all__ = [
    "CUBE_HALF_SIZE_M",
    "CUBE_SPAWN_CENTRE_XY_M",
    "CUBE_SPAWN_HALF_WIDTH_M",
    "DEFAULT_EPISODE_LENGTH",
    "EGO_UID",
    "FETCH_CARTESIAN_ACCEL_CAPACITY_MS2",
    "FETCH_SAFETY_RADIUS_M",
    "FETCH_UID",
    "GOAL_THRESHOLD_M",
    "MAX_GOAL_HEIGHT_M",
    "MINIMUM_SAFETY_RADIUS_BY_UID",
    "PANDA_CARTESIAN_ACCEL_CAPACITY_MS2",
    "PANDA_PARTNER_UID",
    "PANDA_SAFETY_RADIUS_M",
    "STATIC_JOINT_SPEED_RAD_S",
    "SYNTHESISED_FT_NOISE_SIGMA_N",
    "ConditionConfig",
    "build_control_models_for_condition",
    "resolve_condition",
    "validate_safety_radii",
]

DEFAULT_EPISODE_LENGTH = 100
"""Control steps of an episode, 5 s."""

SYNTHESISED_FT_NOISE_SIGMA_N = 0.5
"""Standard deviation of the force-torque noise per component, N; wrist sensors have 0.5 to 1.5 N."""

PANDA_CARTESIAN_ACCEL_CAPACITY_MS2 = 10.0
"""Cartesian acceleration that a Panda has in every direction, m/s^2."""

FETCH_CARTESIAN_ACCEL_CAPACITY_MS2 = 1.5
"""Acceleration of the Fetch's base along its heading, m/s^2."""

PANDA_SAFETY_RADIUS_M = 0.10
"""Radius of the sphere around the tool centre point of a Panda, m."""

FETCH_SAFETY_RADIUS_M = 0.35
"""Radius of the sphere around the base of the Fetch, m."""

MINIMUM_SAFETY_RADIUS_BY_UID: Mapping[str, float] = {"panda_wristcam": 0.08, "panda_partner": 0.08, "fetch": 0.30}
"""Smallest spheres that still cover what they stand for, m."""

CUBE_HALF_SIZE_M = 0.02
"""Half edge of the cube."""

GOAL_THRESHOLD_M = 0.025
"""Distance between the centres of cube and goal at which the cube counts as placed."""

CUBE_SPAWN_HALF_WIDTH_M = 0.05
"""Half width of the square in which cube and goal start."""

CUBE_SPAWN_CENTRE_XY_M = (0.0, 0.0)
"""Centre of that square."""

MAX_GOAL_HEIGHT_M = 0.3
"""Largest height of the goal above the centre of a cube that lies on the table."""

STATIC_JOINT_SPEED_RAD_S = 0.2
"""Largest joint speed of an arm that counts as standing still."""

EGO_UID = "panda_wristcam"
PANDA_PARTNER_UID = "panda_partner"
FETCH_UID = "fetch"

_FETCH_PLANAR_ACTION_DIM = 2


class ConditionConfig(NamedTuple):
    """One pre-registered condition.

    Attributes:
        condition_id: its locked name.
        agent_uids: ego and partner.
        obs_mode: what an observation holds.
        is_om_condition: it varies the observation modality; otherwise the action space.
        ft_synthesis_enabled: the force-torque signal, ``obs["extra"]["force_torque"]``, is meant to be read.
    """

    condition_id: str
    agent_uids: tuple[str, str]
    obs_mode: str
    is_om_condition: bool
    ft_synthesis_enabled: bool


_WITH_PICTURES = "rgb+depth+state_dict"
_PANDAS = (EGO_UID, PANDA_PARTNER_UID)
_PANDA_AND_FETCH = (EGO_UID, FETCH_UID)

_CONDITIONS = {
    config.condition_id: config
    for config in (
        ConditionConfig("stage1_pickplace_panda_only_mappo_shared_param", _PANDAS, "state_dict", False, False),
        ConditionConfig(
            "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent", _PANDA_AND_FETCH, "state_dict", False, False
        ),
        ConditionConfig("stage1_pickplace_vision_only", _PANDA_AND_FETCH, _WITH_PICTURES, True, False),
        ConditionConfig(
            "stage1_pickplace_vision_plus_force_torque_plus_proprio", _PANDA_AND_FETCH, _WITH_PICTURES, True, True
        ),
    )
}


def resolve_condition(condition_id: str) -> ConditionConfig:
    """Give the condition of a pre-registered name.

    Raises:
        ValueError: the name is not one of the four; the message lists them.
    """
    if condition_id not in _CONDITIONS:
        raise ValueError(
            f"unknown Stage-1 condition_id {condition_id!r}; valid: {', '.join(sorted(_CONDITIONS))}. The names are "
            "locked by the pre-registration: re-issue it under a new tag rather than rename ids in code "
            "(ADR-007 §Discipline)"
        )
    return _CONDITIONS[condition_id]


def build_control_models_for_condition(
    condition_id: str,
    *,
    jacobian_fn: Callable[[AgentSnapshot], NDArray[np.float64]] | None = None,
    fetch_action_dim: int | None = None,
    panda_action_dim: int = 8,
) -> dict[str, AgentControlModel]:
    """Give how the robots of a condition are moved by their actions, ego first; needs no simulator.

    The Pandas get one Jacobian and no meaning of their actions (``scale`` 1); the environment's own
    ``build_control_models`` has both.

    Args:
        condition_id: see `resolve_condition`.
        jacobian_fn: snapshot to Jacobian, shape ``(3, panda_action_dim)``; without it the Pandas' models raise
            ``NotImplementedError`` when they are used.
        fetch_action_dim: components of an action of the Fetch; None is 2.
        panda_action_dim: components of an action of a Panda.

    Raises:
        ValueError: the condition is unknown.
    """
    models: dict[str, AgentControlModel] = {}
    for uid in resolve_condition(condition_id).agent_uids:
        if uid == FETCH_UID:
            action_dim = _FETCH_PLANAR_ACTION_DIM if fetch_action_dim is None else fetch_action_dim
            models[uid] = DoubleIntegratorControlModel(uid=uid, action_dim=action_dim)
        else:
            models[uid] = JacobianControlModel(
                uid=uid,
                action_dim=panda_action_dim,
                position_dim=3,
                jacobian_fn=jacobian_fn,
                max_cartesian_accel_value=PANDA_CARTESIAN_ACCEL_CAPACITY_MS2,
            )
    return models


def validate_safety_radii(
    radii: Mapping[str, float], *, minimums: Mapping[str, float] = MINIMUM_SAFETY_RADIUS_BY_UID
) -> None:
    """Refuse spheres that are too small to cover their robot; robots without a minimum pass.

    Raises:
        ValueError: a radius is below its minimum; the message names uid, value and minimum.
    """
    for uid, radius in radii.items():
        minimum = minimums.get(uid)
        if minimum is not None and not radius >= minimum:
            raise ValueError(f"safety radius of {uid!r} must be >= {minimum} m, got {radius}")
