"""How the safety layer of a run is wired, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from concerto.safety.api import Bounds, EgoOnlySafetyFilter, SafetyState
from concerto.training._safety_drivers.filter_driver import FilterDriver
from concerto.training._safety_drivers.reading import SnapshotBuilder
from concerto.training.protocols import EnvLike, SafetyDriver
from ripieno.errors import InputError

if TYPE_CHECKING:
    from concerto.safety.emergency import EmergencyController
    from concerto.training.config import EgoAHTConfig

__all__ = ["SafetyBuilder", "make_safety_driver"]

SafetyBuilder = Callable[[Any], SafetyDriver]
"""Makes the safety driver for the environment that is stepped."""


def make_safety_driver(
    cfg: EgoAHTConfig,
    env: EnvLike,
    *,
    safety_filter: EgoOnlySafetyFilter | None,
    state: SafetyState | None,
    bounds: Bounds | None,
    snapshot_builder: SnapshotBuilder | None,
    dt: float | None,
    emergency_controllers: Mapping[str, EmergencyController] | None,
    safety_builder: SafetyBuilder | None,
) -> SafetyDriver | None:
    """Check how the safety layer of a run is wired, and make its driver; None with safety off.

    Raises:
        InputError: (a ValueError) in this order: some but not all of the five parts, several environments with safety
            on, safety on without parts, parts with safety off, parts and a builder at once, or a driver that reads
            another environment.
    """
    parts = {
        "safety_filter": safety_filter,
        "safety_state": state,
        "safety_bounds": bounds,
        "safety_snapshot_builder": snapshot_builder,
        "safety_dt": dt,
    }
    missing = [name for name, part in parts.items() if part is None]
    has_parts = len(missing) < len(parts)
    if missing and has_parts:
        raise InputError(f"the safety layer needs all of {', '.join(parts)}; missing: {', '.join(missing)}")
    if cfg.safety.enabled and cfg.env.num_envs > 1:
        raise InputError(
            f"safety.enabled needs one environment, got env.num_envs={cfg.env.num_envs}: "
            "the safety layer is not vectorised"
        )
    if cfg.safety.enabled and not has_parts and safety_builder is None:
        raise InputError(f"safety.enabled is true, but there is no safety layer: give safety_builder, or {[*parts]}")
    if not cfg.safety.enabled and (has_parts or safety_builder is not None):
        raise InputError("a safety layer is given, but safety.enabled is false: it would not be used")
    if has_parts and safety_builder is not None:
        raise InputError("give safety_builder or the parts of a safety layer, not both")
    if safety_builder is not None:
        driver = safety_builder(env)
    elif safety_filter is None or state is None or bounds is None or snapshot_builder is None or dt is None:
        return None
    else:
        ego_uid, partner_uid = cfg.env.agent_uids
        driver = FilterDriver(
            safety_filter=safety_filter,
            state=state,
            bounds=bounds,
            snapshot_builder=snapshot_builder,
            dt=dt,
            ego_uid=ego_uid,
            partner_uid=partner_uid,
            partner_id=cfg.partner.class_name,
            cbf_gamma=cfg.safety.cbf_gamma,
            tau_brake=cfg.safety.tau_brake,
            lambda_bound=cfg.safety.clamp_floor_ratio * bounds.cartesian_accel_capacity,
            emergency_controllers=emergency_controllers,
        )
    driver.bind(env)
    return driver
