"""The rules of co-carry without any simulator: constants, conditions, tilt, success, stress penalty, coupling.

Two arms hold the ends of one rigid bar by ball joints and carry it level to a goal. One arm cannot keep the free end
up, so success is joint; the stress limit refuses arms that fight each other through the bar.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.envs._cocarry_kernels import excess_penalties, tilts_deg
from chamber.envs._panda_poses import PANDA_READY_QPOS, PANDA_RETRACTED_QPOS

__all__ = [
    "COCARRY_BAR_CROSS_SECTION_M",
    "COCARRY_BAR_LENGTH_M",
    "COCARRY_BAR_MASS_KG",
    "COCARRY_BASE_X_M",
    "COCARRY_DEFAULT_EPISODE_LENGTH",
    "COCARRY_DRIVE_DAMPING_RATIO",
    "COCARRY_DRIVE_FORCE_LIMIT_UNBOUNDED",
    "COCARRY_DRIVE_LINEAR_DAMPING",
    "COCARRY_DRIVE_LINEAR_STIFFNESS",
    "COCARRY_GOAL_CENTROID_XYZ",
    "COCARRY_GOAL_JITTER_HALF_M",
    "COCARRY_GOAL_THRESH_M",
    "COCARRY_GRIP_OFFSET_Z_M",
    "COCARRY_READY_QPOS",
    "COCARRY_RETRACTED_QPOS",
    "COCARRY_REWARD_LEVEL_COEFF",
    "COCARRY_REWARD_LEVEL_TANH_SCALE",
    "COCARRY_REWARD_NORMALIZER",
    "COCARRY_REWARD_SETTLE_COEFF",
    "COCARRY_REWARD_STRESS_COEFF",
    "COCARRY_REWARD_STRESS_TANH_SCALE_N",
    "COCARRY_REWARD_STRESS_THRESHOLD_N",
    "COCARRY_REWARD_SUCCESS_BONUS",
    "COCARRY_REWARD_TANH_SCALE",
    "COCARRY_REWARD_TRANSPORT_COEFF",
    "COCARRY_REWARD_TRANSPORT_PBRS_COEFF",
    "COCARRY_SETTLE_WINDOW_STEPS",
    "COCARRY_STATIC_QVEL_THRESH",
    "COCARRY_STRESS_MAX_PROXY_N",
    "COCARRY_TILT_MAX_DEG",
    "COCARRY_XARM6_BASE_X_M",
    "COCARRY_XARM6_READY_QPOS",
    "CoCarryCondition",
    "Coupling",
    "cocarry_conditions",
    "cocarry_coupling",
    "cocarry_excess_stress_penalty",
    "cocarry_matched_controller_specs",
    "cocarry_xarm6_controller_spec",
    "evaluate_cocarry_success",
    "resolve_cocarry_condition",
    "tilt_deg_from_quaternion",
]

FloatArray = NDArray[np.float64]

COCARRY_BASE_X_M = 0.50
"""Distance of both bases from the middle: the ego's at -x, the partner's at +x, turned by half a turn."""
COCARRY_BAR_LENGTH_M = 0.23
COCARRY_BAR_CROSS_SECTION_M = 0.025
COCARRY_BAR_MASS_KG = 0.4
COCARRY_GRIP_OFFSET_Z_M = 0.1034
"""From the frame of the Panda hand to the point between its finger tips."""
COCARRY_DRIVE_LINEAR_STIFFNESS = 2e4
"""N/m."""
COCARRY_DRIVE_LINEAR_DAMPING = 2e3
"""N s/m."""
COCARRY_DRIVE_DAMPING_RATIO = 0.1
"""Damping over stiffness, s, of a coupling whose damping is not given."""
COCARRY_DRIVE_FORCE_LIMIT_UNBOUNDED = 3.4028234663852886e38
"""N; the largest single-precision number."""

COCARRY_GOAL_CENTROID_XYZ = (0.0, 0.12, 0.28)
COCARRY_GOAL_JITTER_HALF_M = 0.02
COCARRY_GOAL_THRESH_M = 0.10
COCARRY_TILT_MAX_DEG = 15.0
COCARRY_STRESS_MAX_PROXY_N = 130.0
"""Documented limit; it measured the collision in which the first version began, see `chamber.envs.cocarry`."""
COCARRY_STATIC_QVEL_THRESH = 0.2
"""rad/s."""
COCARRY_SETTLE_WINDOW_STEPS = 15
"""Control steps at the start of an episode that do not count."""
COCARRY_DEFAULT_EPISODE_LENGTH = 320
"""16 s at 20 Hz."""

COCARRY_REWARD_TRANSPORT_COEFF = 1.0
COCARRY_REWARD_LEVEL_COEFF = 1.0
COCARRY_REWARD_SETTLE_COEFF = 1.0
COCARRY_REWARD_TANH_SCALE = 5.0
COCARRY_REWARD_LEVEL_TANH_SCALE = 5.0
COCARRY_REWARD_STRESS_COEFF = 1.0
COCARRY_REWARD_STRESS_THRESHOLD_N = 110.0
COCARRY_REWARD_STRESS_TANH_SCALE_N = 20.0
COCARRY_REWARD_SUCCESS_BONUS = 5.0
COCARRY_REWARD_NORMALIZER = 5.0
COCARRY_REWARD_TRANSPORT_PBRS_COEFF = 1.0

COCARRY_READY_QPOS = PANDA_READY_QPOS
"""Where a Panda starts, rad and m."""
COCARRY_RETRACTED_QPOS = PANDA_RETRACTED_QPOS
"""Where the partner without a hold stands in the single-arm control, rad and m."""
COCARRY_XARM6_BASE_X_M = 0.35
COCARRY_XARM6_READY_QPOS = (0.0, -0.084, -0.8, 0.0, 0.692, *(0.0,) * 7)

_EGO_UID = "panda_wristcam"
_PARTNER_UID = "panda_partner"
_XARM6_UID = "xarm6_robotiq"


class CoCarryCondition(NamedTuple):
    """Who carries.

    Attributes:
        condition_id: preregistered name.
        agent_uids: ego, partner.
        single_arm: the partner stands aside and does not hold the bar.
    """

    condition_id: str
    agent_uids: tuple[str, str]
    single_arm: bool


_CONDITIONS = {
    condition.condition_id: condition
    for condition in (
        CoCarryCondition("cocarry_matched_panda_pair", (_EGO_UID, _PARTNER_UID), single_arm=False),
        CoCarryCondition("cocarry_single_arm_positive_control", (_EGO_UID, _PARTNER_UID), single_arm=True),
        CoCarryCondition("cocarry_xarm6_partner", (_EGO_UID, _XARM6_UID), single_arm=False),
    )
}


class Coupling(NamedTuple):
    """How an arm holds its end of the bar.

    Attributes:
        stiffness: N/m.
        damping: N s/m.
        force_limit: N.
    """

    stiffness: float
    damping: float
    force_limit: float


def cocarry_conditions() -> tuple[CoCarryCondition, ...]:
    """Give all conditions, matched pair first."""
    return tuple(_CONDITIONS.values())


def resolve_cocarry_condition(condition_id: str) -> CoCarryCondition:
    """Give the condition of that name.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if condition_id not in _CONDITIONS:
        raise ValueError(
            f"unknown co-carry condition_id {condition_id!r}; valid: {sorted(_CONDITIONS)}. The names are "
            "preregistered: issue a new preregistration tag rather than renaming them in code (ADR-007 §Discipline)"
        )
    return _CONDITIONS[condition_id]


def tilt_deg_from_quaternion(quaternion: ArrayLike) -> FloatArray:
    """Give the angle between a body's x axis and the horizontal plane, in [0, 90] degrees.

    With x the body's x axis in the world, ``tilt = asin(|x_z| / |x|)``; the quaternion need not be normalised.

    Args:
        quaternion: ``(w, x, y, z)``, shape ``(..., 4)``.

    Returns:
        Shape ``(...)``.
    """
    quaternions = np.asarray(quaternion, dtype=np.float64)
    return tilts_deg(quaternions.reshape(-1, 4)).reshape(quaternions.shape[:-1])


def evaluate_cocarry_success(
    *,
    centroid_to_goal_dist: ArrayLike,
    max_tilt_deg: ArrayLike,
    max_stress_proxy: ArrayLike,
    both_static: ArrayLike,
    goal_thresh: float = COCARRY_GOAL_THRESH_M,
    tilt_max_deg: float = COCARRY_TILT_MAX_DEG,
    stress_max: float = COCARRY_STRESS_MAX_PROXY_N,
) -> NDArray[np.bool_]:
    """Say where the bar is at the goal, was always level and unstressed, and the arms rest.

    Args:
        centroid_to_goal_dist: m; at most ``goal_thresh``.
        max_tilt_deg: largest tilt since the settle window; below ``tilt_max_deg``.
        max_stress_proxy: largest stress since the settle window, N; below ``stress_max``.
        both_static: no holding arm moves.
        goal_thresh: m.
        tilt_max_deg: degrees.
        stress_max: N.

    Returns:
        The arguments' common broadcast shape.
    """
    placed = np.asarray(centroid_to_goal_dist) <= goal_thresh
    level = np.asarray(max_tilt_deg) < tilt_max_deg
    unstressed = np.asarray(max_stress_proxy) < stress_max
    return np.asarray(placed & level & unstressed & np.asarray(both_static, dtype=bool))


def cocarry_excess_stress_penalty(
    stress: Any,
    *,
    coeff: float = COCARRY_REWARD_STRESS_COEFF,
    threshold: float = COCARRY_REWARD_STRESS_THRESHOLD_N,
    scale: float = COCARRY_REWARD_STRESS_TANH_SCALE_N,
) -> Any:
    """Give ``coeff * tanh(max(stress - threshold, 0) / scale)``: nothing below the threshold, at most ``coeff`` above.

    Args:
        stress: N; numbers, an array, or a tensor.
        coeff: largest penalty.
        threshold: stress that costs nothing, N.
        scale: excess that costs about three quarters of ``coeff``, N.

    Returns:
        A tensor for a tensor, else an array of the shape of ``stress``.
    """
    if hasattr(stress, "detach"):
        return coeff * ((stress - threshold).clamp(min=0.0) / scale).tanh()
    stresses = np.asarray(stress, dtype=np.float64)
    return excess_penalties(stresses.reshape(-1), coeff, threshold, scale).reshape(stresses.shape)


def cocarry_coupling(
    drive_stiffness: float | None = None, drive_damping: float | None = None, drive_force_limit: float | None = None
) -> Coupling:
    """Give stiffness, damping and force limit of a hold, with the defaults filled in.

    Args:
        drive_stiffness: N/m; None is 2e4, 0 lets the arms go.
        drive_damping: N s/m; None is a tenth of the stiffness, times one second.
        drive_force_limit: N; None is no limit.

    Raises:
        ValueError: a value is negative or not finite, or the limit is not positive.
    """
    stiffness = COCARRY_DRIVE_LINEAR_STIFFNESS if drive_stiffness is None else float(drive_stiffness)
    damping = COCARRY_DRIVE_DAMPING_RATIO * stiffness if drive_damping is None else float(drive_damping)
    limit = COCARRY_DRIVE_FORCE_LIMIT_UNBOUNDED if drive_force_limit is None else float(drive_force_limit)
    if not (math.isfinite(stiffness) and stiffness >= 0.0):
        raise ValueError(f"drive_stiffness must be finite and >= 0, got {stiffness}")
    if not (math.isfinite(damping) and damping >= 0.0):
        raise ValueError(f"drive_damping must be finite and >= 0, got {damping}")
    if not limit > 0.0:
        raise ValueError(f"drive_force_limit must be > 0, got {limit}")
    return Coupling(stiffness, damping, limit)


def cocarry_matched_controller_specs() -> dict[str, dict[str, str]]:
    """Give the ``extra`` of the scripted controller of each arm of the matched pair: where it stands, what it holds."""
    return {
        _EGO_UID: _controller_spec(_EGO_UID, -COCARRY_BASE_X_M, yaw_deg=0, end_sign=1),
        _PARTNER_UID: _controller_spec(_PARTNER_UID, COCARRY_BASE_X_M, yaw_deg=180, end_sign=-1),
    }


def cocarry_xarm6_controller_spec() -> dict[str, str]:
    """Give the ``extra`` of the scripted controller of the xArm6 partner."""
    return _controller_spec(_XARM6_UID, COCARRY_XARM6_BASE_X_M, yaw_deg=180, end_sign=-1)


def _controller_spec(uid: str, base_x: float, *, yaw_deg: int, end_sign: int) -> dict[str, str]:
    return {
        "uid": uid,
        "base_xyz": f"{base_x},0.0,0.0",
        "base_yaw_deg": str(yaw_deg),
        "end_sign": str(end_sign),
        "bar_half_len": str(COCARRY_BAR_LENGTH_M / 2),
    }
