"""The safety stack of the planar task's ego, as sessions and cells assemble it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv

if TYPE_CHECKING:
    from concerto.safety.stack import SafetyStack
    from concerto.safety.stopping import PartnerMotionBound

__all__ = ["planar_stack"]


def planar_stack(
    env: MPECooperativePushEnv, *, partner_motion: PartnerMotionBound | None = None, **options: Any
) -> SafetyStack:
    """Build the safety stack of an environment's ego; partners are black boxes, which never brake for it.

    Args:
        env: the environment, without wrappers.
        partner_motion: their worst motion; None for what the environment declares.
        **options: further keyword arguments of `concerto.safety.stack.SafetyStack`.
    """
    from concerto.safety.stack import SafetyStack

    return SafetyStack(
        ego_uid=env.agent_uids[0],
        control_models=env.build_control_models(),
        bounds=env.build_bounds(),
        dt=env.control_timestep,
        partner_motion=env.build_partner_motion() if partner_motion is None else partner_motion,
        partner_braking_fraction=0.0,
        **options,
    )
