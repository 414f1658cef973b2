"""What an episode amounts to: contacts, distances, reward, success."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from chamber.cell.config import Cell
from chamber.cell.contacts import Approach, Contact, closest_approach, find_contacts
from chamber.cell.trace import WALL_STOP, EpisodeTrace

__all__ = ["EpisodeOutcome", "EpisodeResult", "judge"]

OVERRIDES = ("braking", "fallback", WALL_STOP)
"""Sources of an action that did not come from the quadratic program."""


class EpisodeResult(BaseModel):
    """One row of the episode table that Chamber's evaluation reads.

    Attributes:
        seed: root seed of the run.
        episode_idx: number within partner and condition.
        initial_state_seed: start state; pairs the conditions.
        success: both landmarks are covered when the episode ends.
        constraint_violation_peak: deepest overlap of the two discs, metres; 0 without contact.
        fallback_fired: steps whose action did not come from the quadratic program.
        force_peak: largest contact force; this task has none.
        metadata: condition, partner, and the numbers of this task.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    episode_idx: Annotated[int, Field(ge=0)]
    initial_state_seed: int
    success: bool
    constraint_violation_peak: Annotated[float, Field(ge=0.0)] = 0.0
    fallback_fired: Annotated[int, Field(ge=0)] = 0
    force_peak: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class EpisodeOutcome:
    """A trace, judged.

    Attributes:
        trace: what happened.
        contacts: every contact, with whose fault it is.
        closest: where the robots came nearest.
        mean_reward: mean reward per step, metres; 0 is best.
        success: both landmarks are covered when the episode ends.
        steps_by_source: number of steps for every source of the applied command; empty without the stack.
        safety_distance_m: distance of the centres at which the discs touch.
        policy: nominal policy of the ego.
    """

    trace: EpisodeTrace
    contacts: tuple[Contact, ...]
    closest: Approach
    mean_reward: float
    success: bool
    steps_by_source: Mapping[str, int]
    safety_distance_m: float
    policy: str

    @property
    def n_at_fault(self) -> int:
        """Contacts that are the ego's fault."""
        return sum(contact.at_fault for contact in self.contacts)

    @property
    def n_not_at_fault(self) -> int:
        """Contacts that are not."""
        return len(self.contacts) - self.n_at_fault

    def result(self) -> EpisodeResult:
        """Give the row for the episode table."""
        trace = self.trace
        return EpisodeResult(
            seed=trace.root_seed,
            episode_idx=trace.episode_idx,
            initial_state_seed=trace.initial_state_seed,
            success=self.success,
            constraint_violation_peak=max(0.0, self.safety_distance_m - self.closest.distance_m),
            fallback_fired=sum(self.steps_by_source.get(source, 0) for source in OVERRIDES),
            metadata={
                "condition": trace.condition.value,
                "partner": trace.partner,
                "policy": self.policy,
                "n_steps": trace.n_steps,
                "final_reward": float(trace.rewards[-1]),
                "mean_reward": self.mean_reward,
                "closest_distance_m": self.closest.distance_m,
                "contacts_at_fault": self.n_at_fault,
                "contacts_not_at_fault": self.n_not_at_fault,
            },
        )


def judge(cell: Cell, trace: EpisodeTrace) -> EpisodeOutcome:
    """Judge one episode from its recorded positions and rewards alone."""
    ego, partner = trace.ego_positions_m, trace.partner_positions_m
    robots = np.stack([ego[-1], partner[-1]])
    gaps = np.linalg.norm(robots[:, None, :] - trace.landmarks_m[None, :, :], axis=2)
    return EpisodeOutcome(
        trace=trace,
        contacts=find_contacts(ego, partner, safety_distance_m=cell.task.safety_distance_m),
        closest=closest_approach(ego, partner),
        mean_reward=float(trace.rewards.mean()),
        success=bool((gaps.min(axis=0) <= cell.task.cover_radius_m).all()),
        steps_by_source=dict(Counter(trace.sources)),
        safety_distance_m=cell.task.safety_distance_m,
        policy=cell.ego.policy.value,
    )
