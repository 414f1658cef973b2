"""The safety stack between a team and the planar task: it watches who touches whom, or also decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chamber.cell.contacts import closest_approach, find_contacts, step_distances
from chamber.cell.planar_stack import planar_stack
from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv
from chamber.rollout.team import Team

if TYPE_CHECKING:
    from concerto.safety.stack import SafetyStack

__all__ = ["PlanarTeam", "planar_stack"]


@dataclass(frozen=True, slots=True)
class PlanarTeam(Team):
    """A team of the planar task whose ego acts through the safety stack, or is only watched.

    Contacts and their fault are decided from the positions by the judge of the cells, `chamber.cell.contacts`, which
    shares no number with the stack.

    Attributes:
        env: the environment, without wrappers.
        stack: decides what the ego does; None only watches.
    """

    env: MPECooperativePushEnv
    stack: SafetyStack | None
    _path: list[NDArray[np.float64]] = field(default_factory=list[NDArray[np.float64]])
    _changed: list[bool] = field(default_factory=list[bool])

    def reset(self, *, seed: int) -> None:
        """Begin an episode."""
        Team.reset(self, seed=seed)
        self._path.clear()
        self._changed.clear()
        if self.stack is not None:
            self.stack.reset(seed=seed)

    def act(self, obs: Mapping[str, Any]) -> Any:
        """Give the action of every robot; the ego's is the stack's answer when there is one."""
        actions = Team.act(self, obs)
        self._path.append(self._positions())
        if self.stack is None:
            return actions
        ego = self.env.agent_uids[0]
        wanted = np.asarray(actions[ego], dtype=np.float64)
        answer = self.stack.step(wanted, self.env.build_agent_snapshots())
        action = self.env.executable_action(ego, answer.action)
        self._changed.append(not np.array_equal(action, wanted))
        return {**actions, ego: action}

    def telling_step(self) -> int | None:
        """Give the control step in which the robots came nearest."""
        return int(np.argmin(step_distances(*self._paths()))) if self._path else None

    def measures(self) -> dict[str, float | int]:
        """Give the smallest gap between the discs, the contacts, and how often the stack changed a command."""
        ego, partner = self._paths()
        touching = 2.0 * self.env.robot_radius
        contacts = find_contacts(ego, partner, safety_distance_m=touching)
        return {
            "smallest_gap_m": closest_approach(ego, partner).distance_m - touching,
            "contacts": len(contacts),
            "contacts_at_fault": sum(contact.at_fault for contact in contacts),
            **({} if self.stack is None else {"interventions": sum(self._changed)}),
        }

    def _positions(self) -> NDArray[np.float64]:
        return np.stack([self.env.position(uid) for uid in self.env.agent_uids])

    def _paths(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions of ego and partner from the start until now, shape ``(n_steps + 1, 2)`` each."""
        path = np.stack([*self._path, self._positions()])
        return path[:, 0], path[:, 1]
