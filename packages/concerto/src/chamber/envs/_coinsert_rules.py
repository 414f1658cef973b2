"""The rules of co-insert without any simulator: published constants, conditions, geometry, success, gates.

One arm holds a peg, the other a blind socket in mid-air; the peg has to go in. Neither can do it alone: without the
holder the socket falls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chamber.partners.coinsert_impedance import COINSERT_CHAMFER_M
from chamber.partners.interface import _FORBIDDEN_ATTRS

__all__ = [
    "COINSERT_AXIS_ALIGN_TOL_DEG",
    "COINSERT_BASE_X_M",
    "COINSERT_CHAMFER_M",
    "COINSERT_CLEARANCE_SET_M",
    "COINSERT_CONTROL_HZ",
    "COINSERT_CONTROL_MODE",
    "COINSERT_COUPLE_FORCE_MAX_N",
    "COINSERT_C_MIN_FLOOR",
    "COINSERT_C_MIN_MARGIN",
    "COINSERT_DEFAULT_EPISODE_LENGTH",
    "COINSERT_DELTA_MIN",
    "COINSERT_DEPTH_EPS_M",
    "COINSERT_DEPTH_TARGET_M",
    "COINSERT_EPISODE_LENGTH_MAX",
    "COINSERT_EPISODE_LENGTH_MIN",
    "COINSERT_GATE0_BASE_FAILURE_MAX",
    "COINSERT_INSERT_FORCE_MAX_N",
    "COINSERT_N_BOOT",
    "COINSERT_PEG_DIAMETER_M",
    "COINSERT_PEG_HALF_LENGTH_M",
    "COINSERT_PEG_SOCKET_FRICTION",
    "COINSERT_PROBE_PEG_HALF_LENGTH_M",
    "COINSERT_PROBE_SOCKET_XYZ",
    "COINSERT_RECEPTACLE_MASS_KG",
    "COINSERT_REFERENCE_SUCCESS_MIN",
    "COINSERT_RESIDUAL_RMAX_FRAC",
    "COINSERT_REWARD_ALIGN_COEFF",
    "COINSERT_REWARD_DEPTH_COEFF",
    "COINSERT_REWARD_FORCE_COEFF",
    "COINSERT_REWARD_FORCE_SOFT_N",
    "COINSERT_REWARD_NORMALIZER",
    "COINSERT_REWARD_SEAT_BONUS",
    "COINSERT_REWARD_SUCCESS_BONUS",
    "COINSERT_REWARD_TANH_SCALE",
    "COINSERT_SETTLE_VEL_THRESH",
    "COINSERT_SETTLE_WINDOW_STEPS",
    "COINSERT_SOCKET_DEPTH_M",
    "COINSERT_SOCKET_OUTER_HALF_M",
    "COINSERT_STATIC_QVEL_THRESH",
    "CoInsertCondition",
    "InsertionGeometry",
    "coinsert_capability_gate_floor",
    "coinsert_conditions",
    "coinsert_matched_controller_specs",
    "coinsert_realism_compliance_line",
    "coinsert_reward",
    "coinsert_socket_inner_half_width",
    "evaluate_coinsert_success",
    "insertion_geometry",
    "resolve_coinsert_condition",
]

FloatArray = NDArray[np.float64]

COINSERT_BASE_X_M = 0.50
"""Distance of both bases from the middle: the ego's at -x, the partner's at +x, turned by half a turn."""

COINSERT_PEG_DIAMETER_M = 0.016
COINSERT_PEG_HALF_LENGTH_M = 0.040
COINSERT_PROBE_PEG_HALF_LENGTH_M = 0.020
"""Of the square peg of the fidelity probe."""
COINSERT_CLEARANCE_SET_M = (1e-3, 5e-4, 2e-4)
"""Diametral clearances that are studied."""
COINSERT_DEPTH_TARGET_M = 0.040
COINSERT_RECEPTACLE_MASS_KG = 0.5
COINSERT_PEG_SOCKET_FRICTION = 0.5
COINSERT_SOCKET_OUTER_HALF_M = 0.030
COINSERT_SOCKET_DEPTH_M = 0.050
COINSERT_PROBE_SOCKET_XYZ = (0.0, 0.0, 0.30)
"""Where the fidelity probe holds the mouth of its socket."""

COINSERT_CONTROL_HZ = 20
COINSERT_CONTROL_MODE = "pd_joint_delta_pos"
COINSERT_EPISODE_LENGTH_MIN = 250
COINSERT_EPISODE_LENGTH_MAX = 320
COINSERT_DEFAULT_EPISODE_LENGTH = 320

COINSERT_DEPTH_EPS_M = 0.002
"""How far from the target depth a peg counts as seated."""
COINSERT_AXIS_ALIGN_TOL_DEG = 5.0
COINSERT_STATIC_QVEL_THRESH = 0.2
"""rad/s; of the fastest joint, as in co-carry."""
COINSERT_SETTLE_WINDOW_STEPS = 15
"""Control steps at the start of an episode whose forces do not count."""
COINSERT_SETTLE_VEL_THRESH = 0.05
"""m/s."""
COINSERT_INSERT_FORCE_MAX_N: float | None = None
"""Documented limit of the contact force; not fixed there, see `chamber.envs._coinsert_limits`."""
COINSERT_COUPLE_FORCE_MAX_N: float | None = None
"""Documented limit of the force in the holder's wrist; not fixed there, see `chamber.envs._coinsert_limits`."""

COINSERT_DELTA_MIN = 0.20
COINSERT_C_MIN_FLOOR = 0.75
COINSERT_C_MIN_MARGIN = 0.25
COINSERT_GATE0_BASE_FAILURE_MAX = 0.5
COINSERT_REFERENCE_SUCCESS_MIN = 0.9
COINSERT_N_BOOT = 10_000
COINSERT_RESIDUAL_RMAX_FRAC = 0.05

COINSERT_REWARD_ALIGN_COEFF = 1.0
COINSERT_REWARD_DEPTH_COEFF = 1.0
COINSERT_REWARD_SEAT_BONUS = 3.0
COINSERT_REWARD_SUCCESS_BONUS = 5.0
COINSERT_REWARD_FORCE_COEFF = 1.0
COINSERT_REWARD_FORCE_SOFT_N = 80.0
"""Force in the holder's wrist from which on it costs reward, and the scale on which it does, N."""
COINSERT_REWARD_TANH_SCALE = 50.0
"""1/m, of the lateral offset."""
COINSERT_REWARD_NORMALIZER = 5.0

_EGO_UID = "panda_wristcam"
_PARTNER_UID = "panda_partner"


class CoInsertCondition(NamedTuple):
    """Who holds what.

    Attributes:
        condition_id: preregistered name.
        agent_uids: the inserter (ego), the holder.
        single_inserter: the holder stands aside and the socket is free.
    """

    condition_id: str
    agent_uids: tuple[str, str]
    single_inserter: bool


_CONDITIONS = {
    condition.condition_id: condition
    for condition in (
        CoInsertCondition("coinsert_matched_reference", (_EGO_UID, _PARTNER_UID), single_inserter=False),
        CoInsertCondition("coinsert_single_inserter_positive_control", (_EGO_UID, _PARTNER_UID), single_inserter=True),
    )
}


def coinsert_conditions() -> dict[str, CoInsertCondition]:
    """Give every condition by its id."""
    return dict(_CONDITIONS)


def resolve_coinsert_condition(condition_id: str) -> CoInsertCondition:
    """Give the condition of that id.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if condition_id not in _CONDITIONS:
        raise ValueError(f"condition_id must be one of {sorted(_CONDITIONS)}, got {condition_id!r}")
    return _CONDITIONS[condition_id]


def coinsert_matched_controller_specs() -> dict[str, dict[str, str]]:
    """Give, per uid, the ``PartnerSpec.extra`` with which the scripted inserter and holder find their place."""
    return {
        _EGO_UID: {"uid": _EGO_UID, "base_xyz": f"{-COINSERT_BASE_X_M},0.0,0.0", "base_yaw_deg": "0"},
        _PARTNER_UID: {"uid": _PARTNER_UID, "base_xyz": f"{COINSERT_BASE_X_M},0.0,0.0", "base_yaw_deg": "180"},
    }


class InsertionGeometry(NamedTuple):
    """Where a peg is, seen from a socket; each of shape ``(n,)``.

    Attributes:
        depth_m: how far the tip is below the plane of the mouth; negative above it.
        axis_align_deg: angle between the peg and the bore.
        lateral_offset_m: distance of the tip from the axis of the bore.
    """

    depth_m: FloatArray
    axis_align_deg: FloatArray
    lateral_offset_m: FloatArray


def insertion_geometry(
    peg_pose: FloatArray, receptacle_pose: FloatArray, *, peg_half_length_m: float = COINSERT_PEG_HALF_LENGTH_M
) -> InsertionGeometry:
    """Give depth, alignment and offset of pegs in sockets.

    With the peg's axis p (its local +z), its tip ``t = centre + half length * p``, the mouth m and the socket's axis n
    (its local +z, out of the mouth): depth ``-(t - m).n``, offset ``|(t - m) + depth * n|``, and the angle between p
    and -n as ``2 atan2(|p + n|, |p - n|)``, which is exact for small angles (Kahan 2006, "How futile are mindless
    assessments of roundoff in floating-point computation?").

    Args:
        peg_pose: shape ``(n, 7)``, centre of the peg.
        receptacle_pose: shape ``(n, 7)``, middle of the mouth.
        peg_half_length_m: from the centre to the tip.
    """
    peg_axis, bore_axis = _local_z(peg_pose), _local_z(receptacle_pose)
    from_mouth = peg_pose[:, :3] + peg_half_length_m * peg_axis - receptacle_pose[:, :3]
    depth = -(from_mouth * bore_axis).sum(axis=1)
    offset = from_mouth + depth[:, None] * bore_axis
    angle = 2.0 * np.arctan2(_norms(peg_axis + bore_axis), _norms(peg_axis - bore_axis))
    return InsertionGeometry(depth_m=depth, axis_align_deg=np.degrees(angle), lateral_offset_m=_norms(offset))


def coinsert_socket_inner_half_width(clearance_m: float, *, peg_diameter_m: float = COINSERT_PEG_DIAMETER_M) -> float:
    """Give the radius of the circle inscribed in the bore, m: half the peg's diameter plus half the clearance."""
    return peg_diameter_m / 2 + clearance_m / 2


def coinsert_capability_gate_floor(
    reference_success: float, *, floor: float = COINSERT_C_MIN_FLOOR, margin: float = COINSERT_C_MIN_MARGIN
) -> float:
    """Give the success rate that a capable holder must reach: the reference's minus a margin, but at least a floor."""
    return max(floor, reference_success - margin)


def evaluate_coinsert_success(
    *,
    seated_depth_m: ArrayLike,
    axis_align_deg: ArrayLike,
    peak_insert_force_n: ArrayLike,
    peak_couple_wrench_n: ArrayLike,
    both_static: ArrayLike,
    settled: ArrayLike,
    f_insert_max: float,
    f_couple_max: float,
    depth_target_m: float = COINSERT_DEPTH_TARGET_M,
    depth_eps_m: float = COINSERT_DEPTH_EPS_M,
    axis_align_tol_deg: float = COINSERT_AXIS_ALIGN_TOL_DEG,
) -> Any:
    """Say where a peg is in: deep and straight enough, never pressed too hard, everybody at rest; all broadcast.

    Args:
        seated_depth_m: how far the tip is below the mouth.
        axis_align_deg: angle between peg and bore.
        peak_insert_force_n: largest contact force so far.
        peak_couple_wrench_n: largest force in the holder's wrist so far.
        both_static: whether the arms are at rest.
        settled: whether the socket is at rest and the start is over.
        f_insert_max: limit of the contact force, N; a peak at its limit is allowed.
        f_couple_max: limit of the force in the wrist, N; a peak at its limit is allowed.
        depth_target_m: depth of a peg that is all the way in.
        depth_eps_m: how much less is enough.
        axis_align_tol_deg: limit of the angle; a peg at its limit is allowed.
    """
    is_seated = (np.asarray(seated_depth_m) >= depth_target_m - depth_eps_m) & (
        np.asarray(axis_align_deg) <= axis_align_tol_deg
    )
    is_within_force = (np.asarray(peak_insert_force_n) <= f_insert_max) & (
        np.asarray(peak_couple_wrench_n) <= f_couple_max
    )
    return is_seated & is_within_force & np.asarray(both_static, dtype=bool) & np.asarray(settled, dtype=bool)


def coinsert_reward(
    *,
    lateral_offset_m: FloatArray,
    seated_depth_m: FloatArray,
    seated: NDArray[np.bool_],
    peak_couple_wrench_n: FloatArray,
    success: NDArray[np.bool_],
) -> FloatArray:
    """Give the dense reward, normalised so that success is 1, shape ``(n,)``.

    ``(1 - tanh(50 lateral)) + clip(depth / 0.04, 0, 1) + 3 [seated] - tanh(max(peak - 80 N, 0) / 80 N)``, 5 for a
    success, all divided by 5.
    """
    excess = np.maximum(peak_couple_wrench_n - COINSERT_REWARD_FORCE_SOFT_N, 0.0)
    reward = (
        COINSERT_REWARD_ALIGN_COEFF * (1.0 - np.tanh(COINSERT_REWARD_TANH_SCALE * lateral_offset_m))
        + COINSERT_REWARD_DEPTH_COEFF * np.clip(seated_depth_m / COINSERT_DEPTH_TARGET_M, 0.0, 1.0)
        + COINSERT_REWARD_SEAT_BONUS * seated
        - COINSERT_REWARD_FORCE_COEFF * np.tanh(excess / COINSERT_REWARD_FORCE_SOFT_N)
    )
    return np.where(success, COINSERT_REWARD_SUCCESS_BONUS, reward) / COINSERT_REWARD_NORMALIZER


def coinsert_realism_compliance_line(
    *,
    partner_uid: str,
    partner_class: str,
    frozen_assert_passed: bool,
    forbidden_imports_absent: bool,
    condition_id: str,
) -> str:
    """Give the line that a run logs about its partner: who it is, and that nobody can train it or look into it.

    Raises:
        ValueError: one of the two checks did not pass; a run must not claim it then.
    """
    for name, passed in (
        ("frozen_assert_passed", frozen_assert_passed),
        ("forbidden_imports_absent", forbidden_imports_absent),
    ):
        if not passed:
            raise ValueError(
                f"{name} must be True, got {passed!r}: partner {partner_uid!r} is no black box (ADR-009 §Consequences)"
            )
    return (
        f"realism_compliance condition_id={condition_id} partner_uid={partner_uid} partner_class={partner_class} "
        "frozen_assert_passed=true forbidden_imports_absent=true "
        f"shielded_attrs=[{','.join(sorted(_FORBIDDEN_ATTRS))}] adr=ADR-009§Consequences,proposed-ADR-018§1"
    )


def _norms(vectors: FloatArray) -> FloatArray:
    return np.sqrt((vectors * vectors).sum(axis=1))


def _local_z(pose: FloatArray) -> FloatArray:
    """The z axes of frames, in the world, shape ``(n, 3)``."""
    w, x, y, z = pose[:, 3], pose[:, 4], pose[:, 5], pose[:, 6]
    return np.stack([2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)], axis=1)
