"""From judged episodes to the numbers of the report: groups, paired differences, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chamber.cell.config import Cell, Condition, DecisionRule, ReportedNumber
from chamber.cell.outcome import EpisodeOutcome
from ripieno.errors import InputError
from ripieno.randomness import derive_substream
from ripieno.statistics import BootstrapCI, cluster_bootstrap

__all__ = ["Group", "PairedComparison", "Verdict", "compare_pairs", "group", "select", "verdicts"]

N_RESAMPLES = 2000
_SUBSTREAM = "chamber.cell.paired_bootstrap"


@dataclass(frozen=True)
class Group:
    """Totals over some episodes of one condition.

    Attributes:
        n_episodes: number of episodes.
        contacts_at_fault: contacts that are the ego's fault.
        contacts_not_at_fault: contacts that are not.
        episodes_with_contact_at_fault: episodes with at least one of the former.
        episodes_with_contact: episodes with any contact.
        mean_reward: mean over episodes of the mean reward per step, metres.
        n_successes: episodes that end with both landmarks covered.
        closest_distance_m: smallest distance of the centres in any episode.
    """

    n_episodes: int
    contacts_at_fault: int
    contacts_not_at_fault: int
    episodes_with_contact_at_fault: int
    episodes_with_contact: int
    mean_reward: float
    n_successes: int
    closest_distance_m: float

    @property
    def success_rate(self) -> float:
        """Share of episodes that end with both landmarks covered."""
        return self.n_successes / self.n_episodes

    def number(self, which: ReportedNumber) -> float:
        """Give the number that a decision rule asks for."""
        return float(getattr(self, which.value))


@dataclass(frozen=True)
class Verdict:
    """A decision rule, and what the run says about it."""

    rule: DecisionRule
    value: float

    @property
    def holds(self) -> bool:
        """Whether the claim holds."""
        return self.rule.holds(self.value)


@dataclass(frozen=True)
class PairedComparison:
    """Mean reward with the stack minus without it, over pairs with the same start state and partner.

    Attributes:
        partner: label of the partner, or ``None`` for all.
        without_stack: mean reward per step without the stack, metres.
        with_stack: the same with the stack.
        difference: bootstrap of the paired differences; start states are the clusters.
    """

    partner: str | None
    without_stack: float
    with_stack: float
    difference: BootstrapCI


def select(
    outcomes: Iterable[EpisodeOutcome], condition: Condition, partner: str | None = None
) -> list[EpisodeOutcome]:
    """Give the episodes of one condition, of one partner or of all, in their order."""
    return [
        outcome
        for outcome in outcomes
        if outcome.trace.condition is condition and partner in (None, outcome.trace.partner)
    ]


def group(outcomes: Iterable[EpisodeOutcome], condition: Condition, partner: str | None = None) -> Group:
    """Total the episodes of one condition, of one partner or of all.

    Raises:
        InputError: there are none, as in a run that was interrupted.
    """
    chosen = select(outcomes, condition, partner)
    if not chosen:
        raise InputError(f"there is no episode {condition.words} beside {partner or 'any partner'}")
    return Group(
        n_episodes=len(chosen),
        contacts_at_fault=sum(outcome.n_at_fault for outcome in chosen),
        contacts_not_at_fault=sum(outcome.n_not_at_fault for outcome in chosen),
        episodes_with_contact_at_fault=sum(outcome.n_at_fault > 0 for outcome in chosen),
        episodes_with_contact=sum(len(outcome.contacts) > 0 for outcome in chosen),
        mean_reward=sum(outcome.mean_reward for outcome in chosen) / len(chosen),
        n_successes=sum(outcome.success for outcome in chosen),
        closest_distance_m=min(outcome.closest.distance_m for outcome in chosen),
    )


def verdicts(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> tuple[Verdict, ...]:
    """Apply every decision rule of the cell."""
    return tuple(
        Verdict(rule, group(outcomes, rule.condition, rule.partner).number(rule.number)) for rule in cell.decision_rules
    )


def compare_pairs(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> tuple[PairedComparison, ...]:
    """Compare the two conditions per partner and over all partners; nothing when only one was run.

    All partners share the start states, so their episodes are not independent: a start state is one cluster of the
    bootstrap. The draws come from the stream ``chamber.cell.paired_bootstrap.<partner>`` of the root seed.
    """
    if set(cell.conditions) != set(Condition):
        return ()
    return tuple(_compare(cell, outcomes, partner) for partner in [*(entry.label for entry in cell.partners), None])


def _compare(cell: Cell, outcomes: Sequence[EpisodeOutcome], partner: str | None) -> PairedComparison:
    without = select(outcomes, Condition.WITHOUT_STACK, partner)
    with_stack = {_pair_key(outcome): outcome for outcome in select(outcomes, Condition.WITH_STACK, partner)}
    differences: dict[int, list[float]] = {}
    for outcome in without:
        change = with_stack[_pair_key(outcome)].mean_reward - outcome.mean_reward
        differences.setdefault(outcome.trace.initial_state_seed, []).append(change)
    stream = derive_substream(f"{_SUBSTREAM}.{partner or 'all'}", root_seed=cell.root_seed)
    return PairedComparison(
        partner=partner,
        without_stack=group(outcomes, Condition.WITHOUT_STACK, partner).mean_reward,
        with_stack=group(outcomes, Condition.WITH_STACK, partner).mean_reward,
        difference=cluster_bootstrap(differences, n_resamples=N_RESAMPLES, rng=stream.default_rng()),
    )


def _pair_key(outcome: EpisodeOutcome) -> tuple[str, int]:
    return outcome.trace.partner, outcome.trace.initial_state_seed
