"""`make_co_carry_guard`: arm safety for the ego of co-carry, where two arms hold one bar and reach across each other.

The hands, wrists and forearms of the two arms are together by design and are not watched, nor is the ego's elbow above
the partner's wrist. What is watched is everything else: above all the partner's elbow, which hangs over the ego's
wrist.

In co-carry the arms pass through each other (their contacts are filtered), so a collision shows as a negative
distance of the spheres and not as a force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chamber.arm_safety.arm_model import arm_of_scene
from chamber.arm_safety.safety import ArmSafety, ArmState
from chamber.envs._cocarry_rules import COCARRY_BAR_MASS_KG
from chamber.sim import RigBackend

__all__ = [
    "CO_CARRY_PARTNER_MAX_SPEEDS_MS",
    "CO_CARRY_TRACKING_ERROR_M",
    "CO_CARRY_UNWATCHED",
    "arm_states",
    "make_co_carry_guard",
]

_OUTER_LINKS = ("panda_link5", "panda_link6", "panda_link7", "panda_hand")

CO_CARRY_UNWATCHED: tuple[tuple[str, str], ...] = (
    *((mine, other) for mine in _OUTER_LINKS for other in _OUTER_LINKS),
    ("panda_link4", "panda_link6"),
    ("panda_link4", "panda_link7"),
)
"""Links of ego and partner that the task brings together."""

CO_CARRY_PARTNER_MAX_SPEEDS_MS: Mapping[str, float] = {
    **dict.fromkeys((f"panda_link{i}" for i in range(5)), 0.3),
    **dict.fromkeys(_OUTER_LINKS, 0.45),
}
"""Declared speed of the partner by link, m/s: what the reference and `cocarry_erratic` reach, with a tenth on top."""

CO_CARRY_TRACKING_ERROR_M = 0.016
"""Distance from the predicted path that is allowed for, m: the bar joins both arms, and the partner pulls. The largest
error found beside the reference is 5 mm, beside `cocarry_erratic` with the guard at work 13 mm. It is for an ego that
carries: one that jerks the bar with random actions of full size was off by 32 mm, and dragged the partner along faster
than declared; then nothing is guaranteed."""

_WEIGHT_OPERATIONAL = 10.0  # the hand stays with the bar, the elbow gives way


class _CoCarry(Protocol):
    """What the guard needs to know of the environment."""

    rig: RigBackend

    @property
    def ego_uid(self) -> str: ...

    @property
    def partner_uid(self) -> str: ...


def make_co_carry_guard(env: _CoCarry) -> ArmSafety:
    """Give the filter of the ego of a co-carry environment with two Pandas.

    The ego carries half of the bar, as a mass at its tool centre point.

    Args:
        env: the environment, without wrappers (``env.unwrapped``).

    Raises:
        ValueError: one of the arms is no Panda.

    Example:
        >>> guard = make_co_carry_guard(env.unwrapped)  # doctest: +SKIP
        >>> answer = guard.step(action[ego], *arm_states(env.unwrapped))  # doctest: +SKIP
        >>> obs, *_ = env.step({ego: answer.action, partner: other})  # doctest: +SKIP
    """
    scene = env.rig.scene
    ego = arm_of_scene(scene, env.ego_uid, payload_kg=COCARRY_BAR_MASS_KG / 2.0)
    partner = arm_of_scene(scene, env.partner_uid)
    for role, arm in (("ego", ego), ("partner", partner)):
        if set(arm.sphere_links) != set(CO_CARRY_PARTNER_MAX_SPEEDS_MS):
            raise ValueError(f"the guard is for two Pandas, but the {role} is {arm.uid!r}")
    return ArmSafety(
        ego=ego,
        partner=partner,
        partner_max_speed=CO_CARRY_PARTNER_MAX_SPEEDS_MS,
        tracking_error_m=CO_CARRY_TRACKING_ERROR_M,
        weight_operational=_WEIGHT_OPERATIONAL,
        unwatched=CO_CARRY_UNWATCHED,
    )


def arm_states(env: _CoCarry, *, copy: int = 0) -> tuple[ArmState, ArmState]:
    """Give what is measured of ego and partner, in float64.

    Args:
        env: the environment, without wrappers.
        copy: which of its copies.
    """
    ego, partner = (
        ArmState(env.rig.qpos(uid)[copy], env.rig.qvel(uid)[copy]) for uid in (env.ego_uid, env.partner_uid)
    )
    return ego, partner
