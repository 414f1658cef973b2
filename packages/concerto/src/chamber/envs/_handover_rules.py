"""When a handed-over part is seated: the rules of the handover task, without the environment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FailureMode",
    "PlacementOutcome",
    "applied_translation",
    "evaluate_handover_place_success",
    "resolve_placement",
]

FailureMode = Literal["none", "budget_mediated", "intrinsic"]


@dataclass(frozen=True, slots=True)
class PlacementOutcome:
    """What came of one placement.

    Attributes:
        success: all three residuals are below their limits.
        residual_lateral_m: what is left of the lateral offset.
        residual_angular_deg: what is left of the grasp-pose error.
        seating_force_proxy_n: force that the two residuals cost when the part is pressed in.
        regrasp_requested: the ego asked for a re-grasp.
        regrasp_executed: there was time for it.
        regrasp_budget_blocked: there was none.
        beyond_reacquire: the error is larger than even a re-grasp corrects.
        failure_mode: ``"budget_mediated"`` if a re-grasp would have led to success, ``"intrinsic"`` if nothing would.
        binding_conjunct: which limits were broken, out of ``lateral|angular|force``, or ``"none"``.
    """

    success: bool
    residual_lateral_m: float
    residual_angular_deg: float
    seating_force_proxy_n: float
    regrasp_requested: bool
    regrasp_executed: bool
    regrasp_budget_blocked: bool
    beyond_reacquire: bool
    failure_mode: FailureMode
    binding_conjunct: str


def evaluate_handover_place_success(
    residual_lateral_m: float,
    residual_angular_deg: float,
    seating_force_proxy_n: float,
    *,
    lateral_window_m: float,
    angular_window_deg: float,
    seating_force_limit_n: float,
) -> bool:
    """Say whether a part is seated: every residual is strictly below its limit."""
    return bool(
        residual_lateral_m < lateral_window_m
        and residual_angular_deg < angular_window_deg
        and seating_force_proxy_n < seating_force_limit_n
    )


def applied_translation(translation_m: ArrayLike, range_m: float) -> NDArray[np.float64]:
    """Give the translation that is carried out: the one asked for, shortened to length ``range_m``; shape ``(2,)``."""
    asked = np.asarray(translation_m, dtype=np.float64)
    length = float(np.linalg.norm(asked))
    return asked * (range_m / length) if length > range_m else asked


def resolve_placement(
    *,
    lateral_offset_m: ArrayLike,
    grasp_pose_error_deg: float,
    timing_skew_s: float,
    ego_translation_m: ArrayLike,
    ego_reorient_deg: float,
    ego_regrasp_requested: bool,
    regrasp_budget_s: float,
    regrasp_duration_s: float,
    translation_range_m: float,
    wrist_correction_deg: float,
    reacquire_range_deg: float,
    contact_stiffness_n_per_m: float,
    angular_stiffness_n_per_deg: float,
    lateral_window_m: float,
    angular_window_deg: float,
    seating_force_limit_n: float,
    follow_reorientation: bool = False,
) -> PlacementOutcome:
    """Say what comes of placing a part that was handed over with an offset o, an error e and a delay s.

    With the translation t after `applied_translation`, the wrist range w, the re-acquire range R, the budget b, the
    duration d of a re-grasp and the stiffnesses k and c:

    * lateral residual ``|o + t|``;
    * a requested re-grasp is executed when ``d <= b - max(0, s)``;
    * angular residual ``max(0, |e| - R)`` after a re-grasp, else ``max(0, |e| - w)``: the wrist corrects all it can.
      With ``follow_reorientation`` it turns by the commanded angle r instead, and leaves ``|e + clip(r, -w, w)|``;
    * force ``k * lateral + c * angular``.

    Args:
        lateral_offset_m: o, shape ``(2,)``.
        grasp_pose_error_deg: e.
        timing_skew_s: s; being early gains nothing.
        ego_translation_m: translation that the ego asks for, shape ``(2,)``.
        ego_reorient_deg: r; it matters with ``follow_reorientation`` only.
        ego_regrasp_requested: whether the ego asks for a re-grasp.
        regrasp_budget_s: b; may be negative (no time at all) or infinite.
        regrasp_duration_s: d.
        translation_range_m: longest translation.
        wrist_correction_deg: w.
        reacquire_range_deg: R.
        contact_stiffness_n_per_m: k.
        angular_stiffness_n_per_deg: c.
        lateral_window_m: limit of the lateral residual.
        angular_window_deg: limit of the angular residual.
        seating_force_limit_n: limit of the force.
        follow_reorientation: take the ego at its word about the wrist.

    Raises:
        ValueError: a vector has another shape, or something is not a number.
    """
    offset, asked = _pair("lateral_offset_m", lateral_offset_m), _pair("ego_translation_m", ego_translation_m)
    _require_numbers(
        grasp_pose_error_deg=grasp_pose_error_deg,
        timing_skew_s=timing_skew_s,
        ego_reorient_deg=ego_reorient_deg,
        regrasp_budget_s=regrasp_budget_s,
        regrasp_duration_s=regrasp_duration_s,
        translation_range_m=translation_range_m,
        wrist_correction_deg=wrist_correction_deg,
        reacquire_range_deg=reacquire_range_deg,
        contact_stiffness_n_per_m=contact_stiffness_n_per_m,
        angular_stiffness_n_per_deg=angular_stiffness_n_per_deg,
        lateral_window_m=lateral_window_m,
        angular_window_deg=angular_window_deg,
        seating_force_limit_n=seating_force_limit_n,
    )

    lateral = float(np.linalg.norm(offset + applied_translation(asked, translation_range_m)))
    is_executed = bool(ego_regrasp_requested and regrasp_duration_s <= regrasp_budget_s - max(0.0, timing_skew_s))
    after_regrasp = max(0.0, abs(grasp_pose_error_deg) - reacquire_range_deg)
    if is_executed:
        angular = after_regrasp
    elif follow_reorientation:
        angular = abs(grasp_pose_error_deg + min(max(ego_reorient_deg, -wrist_correction_deg), wrist_correction_deg))
    else:
        angular = max(0.0, abs(grasp_pose_error_deg) - wrist_correction_deg)

    def force_of(angular_deg: float) -> float:
        return contact_stiffness_n_per_m * lateral + angular_stiffness_n_per_deg * angular_deg

    def is_seated(angular_deg: float) -> bool:
        return evaluate_handover_place_success(
            lateral,
            angular_deg,
            force_of(angular_deg),
            lateral_window_m=lateral_window_m,
            angular_window_deg=angular_window_deg,
            seating_force_limit_n=seating_force_limit_n,
        )

    force, success = force_of(angular), is_seated(angular)
    failure_mode: FailureMode = "none"
    if not success:
        failure_mode = "budget_mediated" if is_seated(after_regrasp) else "intrinsic"
    limits = (
        ("lateral", lateral, lateral_window_m),
        ("angular", angular, angular_window_deg),
        ("force", force, seating_force_limit_n),
    )
    return PlacementOutcome(
        success=success,
        residual_lateral_m=lateral,
        residual_angular_deg=float(angular),
        seating_force_proxy_n=float(force),
        regrasp_requested=bool(ego_regrasp_requested),
        regrasp_executed=is_executed,
        regrasp_budget_blocked=bool(ego_regrasp_requested) and not is_executed,
        beyond_reacquire=bool(abs(grasp_pose_error_deg) > reacquire_range_deg),
        failure_mode=failure_mode,
        binding_conjunct="|".join(name for name, value, limit in limits if value >= limit) or "none",
    )


def _require_numbers(**values: float) -> None:
    for name, value in values.items():
        if math.isnan(value):
            raise ValueError(f"{name} must be a number, got {value}")


def _pair(name: str, value: ArrayLike) -> NDArray[np.float64]:
    pair = np.asarray(value, dtype=np.float64)
    if pair.shape != (2,) or not np.isfinite(pair).all():
        raise ValueError(f"{name} must be two finite numbers, got {pair.tolist()}")
    return pair
