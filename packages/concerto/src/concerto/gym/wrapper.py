"""The safety stack around one environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from concerto.gym._closing import require_open
from concerto.gym._guard import EgoGuard, ForecastFunction, ego_box, partner_id_of, replace_ego_action
from concerto.gym._hooks import control_timestep_of, find_hook
from concerto.gym.cost import CostFunction, contact_or_violation_cost
from concerto.gym.outcome import SafetyOutcome
from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds

__all__ = ["SafetyWrapper"]

AnyEnv = gym.Env[Any, Any]


class SafetyWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Filters the ego's action with the safety stack before the environment sees it.

    The action space is the environment's own: any Box of floats for the ego, or a Dict of action spaces by uid of
    which only the ego's is changed. ``step`` returns the usual five values. ``info["safety"]`` says what was wanted,
    what was done and why (see `SafetyOutcome.to_info`), ``info["cost"]`` what it cost; a ``cost`` of the environment
    itself moves to ``info["environment_cost"]``.

    What the stack must know comes from methods of the environment, or from callables of the same names given here,
    which get the environment and win over its methods:

    - ``build_control_models() -> {uid: AgentControlModel}``, read once;
    - ``build_bounds() -> Bounds``, read once;
    - ``build_agent_snapshots() -> {uid: AgentSnapshot}``, read exactly once after every ``reset`` and ``step``;
    - ``control_timestep``, the length of a step in seconds; 0.02 with a warning when nobody tells.

    The partner's identity, when it changes, restarts the conformal slack; it is read from
    ``observation["meta"]["partner_id"]``.

    Args:
        env: the environment.
        ego_uid: the robot whose action is filtered.
        build_control_models: see above.
        build_bounds: see above.
        build_agent_snapshots: see above.
        control_timestep: see above, s.
        predict_partners: forecast of the partners, from all snapshots and the length of a step; by default the
            stack's own, at constant velocity.
        cost: gives ``info["cost"]``; None leaves it alone.
        **stack_options: further keyword arguments of `SafetyStack`.

    Raises:
        TypeError: the ego's action space is no Box of floats, or ``stack_options`` has an unknown name.
        ValueError: a hook is missing, or what it says does not fit the action space.
    """

    def __init__(
        self,
        env: AnyEnv,
        *,
        ego_uid: str = "ego",
        build_control_models: Callable[[AnyEnv], Mapping[str, AgentControlModel]] | None = None,
        build_bounds: Callable[[AnyEnv], Bounds] | None = None,
        build_agent_snapshots: Callable[[AnyEnv], Mapping[str, AgentSnapshot]] | None = None,
        control_timestep: float | None = None,
        predict_partners: ForecastFunction | None = None,
        cost: CostFunction | None = contact_or_violation_cost,
        **stack_options: Any,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            ego_uid=ego_uid,
            build_control_models=build_control_models,
            build_bounds=build_bounds,
            build_agent_snapshots=build_agent_snapshots,
            control_timestep=control_timestep,
            predict_partners=predict_partners,
            cost=cost,
            **stack_options,
        )
        gym.Wrapper.__init__(self, env)
        self._ego_uid = ego_uid
        self._read_snapshots = find_hook(env, "build_agent_snapshots", build_agent_snapshots)
        self._cost = cost
        self._guard = EgoGuard(
            ego_box(env.action_space, ego_uid),
            ego_uid=ego_uid,
            control_models=find_hook(env, "build_control_models", build_control_models)(),
            bounds=find_hook(env, "build_bounds", build_bounds)(),
            dt=control_timestep_of(env, control_timestep),
            predict_partners=predict_partners,
            stack_options=stack_options,
        )
        self._partner_id: str | None = None
        self._last_outcome: SafetyOutcome | None = None
        self._is_closed = False

    @property
    def last_outcome(self) -> SafetyOutcome | None:
        """The last step with all its details, wall-clock times included; None before the first one."""
        return self._last_outcome

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and begin an episode of the safety stack.

        Raises:
            ClosedEnvironmentError: it was closed.
        """
        require_open(self, "reset", is_closed=self._is_closed)
        observation, info = self.env.reset(seed=seed, options=options)
        self._guard.reset(self._read_snapshots(), seed=seed)
        self._observe(observation)
        self._last_outcome = None
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Filter the ego's action, step the environment, and judge where that led.

        Raises:
            ResetNeeded: there was no reset yet.
            ClosedEnvironmentError: it was closed.
            ValueError: the ego's action is missing, has the wrong shape or is not finite; nothing has changed then.
        """
        require_open(self, "step", is_closed=self._is_closed)
        applied = self._guard.filter(self._ego_action(action), partner_id=self._partner_id)
        observation, reward, terminated, truncated, info = self.env.step(
            replace_ego_action(self.env.action_space, action, self._ego_uid, applied)
        )
        self._last_outcome = self._guard.judge(self._read_snapshots())
        self._observe(observation)
        return observation, reward, terminated, truncated, self._with_safety(info, self._last_outcome)

    def close(self) -> None:
        """Close the environment for good; calling it twice does no harm."""
        self._is_closed = True
        super().close()

    def _ego_action(self, action: Any) -> Any:
        if not isinstance(self.env.action_space, gym.spaces.Dict):
            return action
        if not isinstance(action, Mapping) or self._ego_uid not in action:
            raise ValueError(f"the action must be a mapping with a value for {self._ego_uid!r}, got {action!r}")
        return action[self._ego_uid]

    def _observe(self, observation: Any) -> None:
        partner_id = partner_id_of(observation)
        self._partner_id = None if partner_id is None else str(partner_id)

    def _with_safety(self, info: dict[str, Any], outcome: SafetyOutcome) -> dict[str, Any]:
        result = {**info, "safety": outcome.to_info(self._ego_uid)}
        if self._cost is not None:
            if "cost" in info:
                result["environment_cost"] = info["cost"]
            result["cost"] = float(self._cost(outcome))
        return result
