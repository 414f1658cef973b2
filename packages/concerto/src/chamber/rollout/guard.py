"""Safety between a team and its environment: it watches how near the robots come, or also keeps them apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from chamber.rollout.team import Team
from ripieno.errors import InputError

if TYPE_CHECKING:
    from chamber.arm_safety import ArmSafety

__all__ = ["Guard", "GuardedTeam", "guarded"]


class Guard(StrEnum):
    """What stands between the ego's controller and its robot."""

    OFF = "off"
    """Nothing."""
    WATCH = "watch"
    """The distance between the robots is measured; every action passes."""
    ON = "on"
    """The safety filter decides: the wanted action when it is safe, else the nearest safe one, else holding still."""


@dataclass(frozen=True, slots=True)
class GuardedTeam(Team):
    """A team whose ego acts through arm safety, or is only watched by it.

    Attributes:
        env: the environment, without wrappers.
        safety: the filter.
        decides: whether its answer is applied.
    """

    env: Any
    safety: ArmSafety
    decides: bool
    _gaps_m: list[float] = field(default_factory=list[float])
    _sources: Counter[str] = field(default_factory=Counter[str])

    def reset(self, *, seed: int) -> None:
        """Begin an episode."""
        Team.reset(self, seed=seed)
        self._gaps_m.clear()
        self._sources.clear()

    def act(self, obs: Mapping[str, Any]) -> Any:
        """Give the action of every robot; the ego's is the safe one when the filter decides."""
        from chamber.arm_safety import arm_states

        actions = Team.act(self, obs)
        ego, partner = arm_states(self.env)
        if not self.decides:
            self._gaps_m.append(self.safety.gap(ego, partner)[0])
            return actions
        uid = self.env.ego_uid
        answer = self.safety.step(np.asarray(actions[uid], dtype=np.float64), ego, partner)
        self._gaps_m.append(answer.gap_m)
        self._sources[answer.source.value] += 1
        return {**actions, uid: answer.action}

    def telling_step(self) -> int | None:
        """Give the control step before which the arms were nearest."""
        return int(np.argmin(self._gaps_m)) if self._gaps_m else None

    def measures(self) -> dict[str, float | int]:
        """Give the smallest distance of watched links, and how often the filter changed an action."""
        from chamber.arm_safety import arm_states

        last, _ = self.safety.gap(*arm_states(self.env))
        interventions = self._sources.total() - self._sources["pass_through"]
        return {
            "smallest_gap_m": min([*self._gaps_m, last], default=math.inf),
            **({"interventions": interventions} if self.decides else {}),
        }


def guarded(team: Team, env: Any, guard: Guard) -> Team:
    """Put a guard between a team and its environment.

    Raises:
        InputError: there is no guard for this environment.
    """
    if guard is Guard.OFF:
        return team
    from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv

    task = env.unwrapped
    if isinstance(task, MPECooperativePushEnv):
        from chamber.rollout.planar_guard import PlanarTeam, planar_stack

        return PlanarTeam(team.seats, env=task, stack=planar_stack(task) if guard is Guard.ON else None)
    return _guarded_arms(team, task, guard)


def _guarded_arms(team: Team, task: Any, guard: Guard) -> Team:
    from chamber.arm_safety import make_co_carry_guard
    from chamber.envs.cocarry import CoCarryEnv

    if not isinstance(task, CoCarryEnv):
        raise InputError(
            f"a guard is there for the planar task and for co-carry between two Pandas, not for {type(task).__name__}"
        )
    try:
        safety = make_co_carry_guard(task)
    except ValueError as error:
        raise InputError(str(error)) from error
    return GuardedTeam(team.seats, env=task, safety=safety, decides=guard is Guard.ON)
