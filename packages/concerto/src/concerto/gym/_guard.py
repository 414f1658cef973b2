"""The safety stack of one environment and what it remembers between two steps; shared by both wrappers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from concerto.gym.outcome import SafetyOutcome, by_partner
from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds
from concerto.safety.stack import SafetyStack, StackStep

__all__ = ["EgoGuard", "ForecastFunction", "ego_box", "partner_id_of", "replace_ego_action"]

ForecastFunction = Callable[[Mapping[str, AgentSnapshot], float], Mapping[str, AgentSnapshot]]
"""Gives every partner's snapshot after one control step, from all snapshots now and the length of the step, s."""


def ego_box(action_space: spaces.Space[Any], ego_uid: str) -> spaces.Box:
    """Give the ego's part of an action space: the space itself, or the member of a Dict space.

    Raises:
        TypeError: it is no Box of floats.
        ValueError: a Dict space has no member for the ego.
    """
    space = action_space
    if isinstance(space, spaces.Dict):
        if ego_uid not in space.spaces:
            raise ValueError(f"ego_uid must be a key of the action space {sorted(space.spaces)}, got {ego_uid!r}")
        space = space.spaces[ego_uid]
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise TypeError(f"the action space of {ego_uid!r} must be a Box of floats, got {space}")
    return space


def replace_ego_action(action_space: spaces.Space[Any], action: Any, ego_uid: str, ego_action: NDArray[Any]) -> Any:
    """Give the action with the ego's part replaced; the argument stays as it is."""
    return {**action, ego_uid: ego_action} if isinstance(action_space, spaces.Dict) else ego_action


def partner_id_of(observation: object) -> object:
    """Give ``observation["meta"]["partner_id"]``, or None where there is no such entry."""
    meta = observation.get("meta") if isinstance(observation, Mapping) else None
    return meta.get("partner_id") if isinstance(meta, Mapping) else None


@dataclass(frozen=True)
class _Decision:
    step: StackStep
    applied_action: NDArray[Any]


class EgoGuard:
    """Filters the ego's actions in one environment and judges where they led.

    Args:
        box: the ego's action space.
        ego_uid: the ego.
        control_models: control model of every robot.
        bounds: limits of a control step.
        dt: length of a control step, s.
        predict_partners: forecast; None for the stack's own.
        stack_options: further keyword arguments of `SafetyStack`.

    Raises:
        ValueError: the ego has no control model, its model and its box disagree about the length of an action, or
            the box does not hold every action that the bounds allow.
    """

    def __init__(
        self,
        box: spaces.Box,
        *,
        ego_uid: str,
        control_models: Mapping[str, AgentControlModel],
        bounds: Bounds,
        dt: float,
        predict_partners: ForecastFunction | None,
        stack_options: Mapping[str, Any],
    ) -> None:
        _require_matching_box(box, ego_uid, control_models, bounds)
        self.stack = SafetyStack(ego_uid=ego_uid, control_models=control_models, bounds=bounds, dt=dt, **stack_options)
        self._box = box
        self._ego_uid = ego_uid
        self._dt = dt
        self._predict_partners = predict_partners
        self._snapshots: dict[str, AgentSnapshot] | None = None
        self._decision: _Decision | None = None

    def reset(self, snapshots: Mapping[str, AgentSnapshot], *, seed: int | None) -> None:
        """Begin an episode in the given state.

        Like Gymnasium's random streams, the conformal slack goes on without a seed and starts anew with one, so that
        episodes with equal seeds are equal.
        """
        if seed is None:
            self.stack.start_episode()
        else:
            self.stack.reset(seed=seed)
        self._snapshots = dict(snapshots)
        self._decision = None

    def filter(self, nominal_action: ArrayLike, *, partner_id: str | None) -> NDArray[Any]:
        """Give the action that the environment may have, in the shape and dtype of the ego's box.

        Raises:
            ResetNeeded: there was no reset yet.
            ValueError: the action has the wrong shape, or a number is not finite.
        """
        if self._snapshots is None:
            raise ResetNeeded("call reset() before step(): the safety filter needs to know where the robots are")
        nominal = np.asarray(nominal_action, dtype=np.float64)
        if nominal.shape != self._box.shape:
            raise ValueError(f"the action of {self._ego_uid!r} must have shape {self._box.shape}, got {nominal.shape}")
        forecast = None
        if self._predict_partners is not None:
            forecast = self._predict_partners(self._snapshots, self._dt)
        step = self.stack.step(
            nominal.ravel(), self._snapshots, partner_predicted_states=forecast, partner_id=partner_id
        )
        applied = step.action.reshape(self._box.shape).astype(self._box.dtype)
        self._decision = _Decision(step, applied)
        return applied.copy()

    def judge(self, snapshots: Mapping[str, AgentSnapshot]) -> SafetyOutcome:
        """Say where the last action led, and keep the new state for the next one.

        Raises:
            ValueError: the ego is missing from the snapshots, or a distance is not a number.
        """
        if self._decision is None:
            raise ResetNeeded("call step() after reset(): there is no action to judge")
        if self._ego_uid not in snapshots:
            raise ValueError(f"agent snapshots must contain {self._ego_uid!r}, got {sorted(snapshots)}")
        self._snapshots = dict(snapshots)
        partners = sorted(set(snapshots) - {self._ego_uid})
        return SafetyOutcome(
            step=self._decision.step,
            applied_action=self._decision.applied_action,
            clearances={uid: _clearance(snapshots[self._ego_uid], snapshots[uid], uid) for uid in partners},
            barrier_values=by_partner(self.stack.barrier_values(snapshots), self._ego_uid),
        )


def _require_matching_box(
    box: spaces.Box, ego_uid: str, control_models: Mapping[str, AgentControlModel], bounds: Bounds
) -> None:
    if ego_uid not in control_models:
        raise ValueError(f"ego_uid must have a control model, got {ego_uid!r} and models for {sorted(control_models)}")
    action_dim = control_models[ego_uid].action_dim
    if math.prod(box.shape) != action_dim:
        raise ValueError(
            f"the action space of {ego_uid!r} has shape {box.shape}, its control model has action_dim {action_dim}"
        )
    limit = np.asarray(bounds.action_linf_component, dtype=box.dtype)
    if (box.high < limit).any() or (box.low > -limit).any():
        raise ValueError(
            f"the action space of {ego_uid!r} must hold every action within +/- {bounds.action_linf_component:g} "
            f"(bounds.action_linf_component), got {box}: what the filter asks for would be clipped"
        )


def _clearance(ego: AgentSnapshot, partner: AgentSnapshot, partner_uid: str) -> float:
    distance = float(np.linalg.norm(np.subtract(ego.position, partner.position))) - ego.radius - partner.radius
    if not math.isfinite(distance):
        raise ValueError(f"after the step the distance to {partner_uid!r} is {distance}: the environment diverged")
    return distance
