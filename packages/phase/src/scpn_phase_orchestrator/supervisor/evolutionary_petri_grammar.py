"""Bounded mutations of a Petri net, listed for review: a new arc, another guard weight, another token bound.

Every candidate changes one thing of the *given* net; nothing is selected and nothing is applied. Give an evaluator to
get a ranked shortlist. Hashes are the SHA-256 of compact sorted ASCII JSON of a record without its own hash
(top-level ``candidate_hash`` and ``plan_hash``); that of a candidate is taken while its ``candidate_id`` is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.supervisor._grammar_review import REVIEW_FLAGS, RankedCandidate, rank_candidates
from scpn_phase_orchestrator.supervisor._petri_description import (
    Direction,
    NetArc,
    NetDescription,
    NetPlace,
    NetTransition,
    read_net,
)
from scpn_phase_orchestrator.supervisor._review_fields import integer, positive_number

__all__ = [
    "EvolutionaryPetriMutationPlan",
    "NetArc",
    "NetDescription",
    "NetPlace",
    "NetTransition",
    "PetriMutationCandidate",
    "read_net",
    "run_offline_evolutionary_petri_mutation_grammar",
]

SCHEMA_NAME = "evolutionary_petri_mutation_grammar"
SCHEMA_VERSION = "0.1.0"
CLAIM_BOUNDARY = "offline_petri_mutation_review_only"
DEFAULT_METRIC = "safety_margin"
"""Metric that a transition without a guard gets, from weight 0."""

MutationType = Literal["add_arc", "guard_weight", "token_bound"]
_TYPES: tuple[MutationType, ...] = ("add_arc", "guard_weight", "token_bound")
EMPTY_NET = "net_missing_places_or_transitions"


@dataclass(frozen=True)
class PetriMutationCandidate:
    """One change of the net.

    Attributes:
        candidate_id: ``g001-c001`` and so on: generation and place, from 1.
        generation: from 1.
        mutation_index: number of the candidate in the plan, from 0.
        mutation_type: ``add_arc``, ``guard_weight`` or ``token_bound``.
        status: ``accepted`` or ``blocked``.
        blocked_reason: why it was blocked; empty otherwise.
        target: name of what changes: a place, or a transition.
        mutation_delta: the change: of a weight, of a bound, or the weight of the new arc.
        before: the part of the net that changes.
        after: the same part with the change; equal to `before` when there is nothing to change.
        candidate_hash: hash of this record.
    """

    candidate_id: str
    generation: int
    mutation_index: int
    mutation_type: MutationType
    status: Literal["accepted", "blocked"]
    blocked_reason: str
    target: str
    mutation_delta: float
    before: dict[str, Any]
    after: dict[str, Any]
    candidate_hash: str = ""

    def to_audit_record(self) -> dict[str, Any]:
        """Give the candidate as JSON values."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class EvolutionaryPetriMutationPlan:
    """Every candidate of a grammar run.

    Attributes:
        source_net: the given net.
        source_net_hash: hash of it.
        generation_count: number of generations.
        candidates_per_generation: candidates in each.
        mutation_step: relative size of a change.
        max_arc_weight: largest weight of a new arc.
        max_token_bound: largest bound of a place.
        candidates: in order.
        accepted_count: number of accepted candidates.
        blocked_count: number of the others.
        best_candidate_id: the accepted one with the smallest change (the first of equals); empty without any.
        plan_hash: hash of the record without it; the shortlist is not part of it.
        shortlist: the best candidates of an evaluator; empty without one.
    """

    source_net: NetDescription
    source_net_hash: str
    generation_count: int
    candidates_per_generation: int
    mutation_step: float
    max_arc_weight: int
    max_token_bound: int
    candidates: tuple[PetriMutationCandidate, ...]
    accepted_count: int
    blocked_count: int
    best_candidate_id: str
    plan_hash: str = ""
    shortlist: tuple[RankedCandidate, ...] = ()

    def to_audit_record(self) -> dict[str, Any]:
        """Give the plan as JSON values, without the shortlist."""
        return {
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "claim_boundary": CLAIM_BOUNDARY,
            **{key: value for key, value in self.__dict__.items() if key != "shortlist"},
            **REVIEW_FLAGS,
            "source_net": self.source_net.to_audit_record(),
            "candidates": [candidate.to_audit_record() for candidate in self.candidates],
        }


@dataclass(frozen=True)
class _Change:
    target: str
    delta: float
    before: dict[str, Any]
    after: dict[str, Any]
    blocked_reason: str = ""


@dataclass(frozen=True)
class _Limits:
    step: float
    max_arc_weight: int
    max_token_bound: int


def _record_hash(record: dict[str, Any]) -> str:
    return ASCII.hash({key: value for key, value in record.items() if key not in ("candidate_hash", "plan_hash")})


def _free_arc(net: NetDescription, wanted: NetArc) -> NetArc | None:
    """Give the wanted arc, or the first free one of a fixed walk that starts from its names."""
    taken = {arc.key for arc in net.arcs}
    if wanted.key not in taken:
        return wanted
    n_places, n_transitions = len(net.places), len(net.transitions)
    directions: tuple[Direction, ...] = (wanted.direction, "input", "output")
    for base in range(2 * n_places * n_transitions):
        probe = NetArc(
            place=net.places[(base + len(wanted.place)) % n_places].name,
            transition=net.transitions[(2 * base + len(wanted.transition)) % n_transitions].name,
            direction=directions[base % 3],
            weight=wanted.weight,
        )
        if probe.key not in taken:
            return probe
    return None


def _add_arc(net: NetDescription, generation: int, place: int, index: int, limits: _Limits) -> _Change:
    wanted = NetArc(
        place=net.places[(generation + 2 * place) % len(net.places)].name,
        transition=net.transitions[index % len(net.transitions)].name,
        direction="input" if (generation + place) % 2 == 0 else "output",
        weight=1 + index % limits.max_arc_weight,
    )
    arc = _free_arc(net, wanted)
    if arc is None:
        record = {"arc": next(item.to_audit_record() for item in net.arcs if item.key == wanted.key)}
        return _Change(wanted.transition, float(wanted.weight), record, record, "add_arc_no_available_target")
    return _Change(arc.transition, float(arc.weight), {"arc": None}, {"arc": arc.to_audit_record()})


def _guard_weight(net: NetDescription, generation: int, place: int, index: int, limits: _Limits) -> _Change:
    transition = net.transitions[index % len(net.transitions)]
    guards = transition.guard_weights or ((DEFAULT_METRIC, 0.0),)
    chosen = index % len(guards)
    metric, weight = guards[chosen]
    sign = -1.0 if (generation + place) % 2 else 1.0
    share = (index % limits.max_arc_weight + 1) / limits.max_arc_weight
    delta = sign * min(limits.step, 1.0) * share
    changed = replace(transition, guard_weights=(*guards[:chosen], (metric, weight + delta), *guards[chosen + 1 :]))
    return _Change(transition.name, delta, transition.to_audit_record(), changed.to_audit_record())


def _token_bound(net: NetDescription, generation: int, place: int, index: int, limits: _Limits) -> _Change:
    chosen = net.places[index % len(net.places)]
    change = max(1, round(limits.step * limits.max_token_bound))
    bound = max(0, chosen.token_bound + (change if (generation + place) % 2 == 0 else -change))
    reason = "token_bound_exceeds_policy_max" if bound > limits.max_token_bound else ""
    changed = replace(chosen, token_bound=bound)
    delta = float(bound - chosen.token_bound)
    return _Change(chosen.name, delta, chosen.to_audit_record(), changed.to_audit_record(), reason)


_MUTATIONS: dict[MutationType, Callable[[NetDescription, int, int, int, _Limits], _Change]] = {
    "add_arc": _add_arc,
    "guard_weight": _guard_weight,
    "token_bound": _token_bound,
}


def _candidate(net: NetDescription, generation: int, place: int, index: int, limits: _Limits) -> PetriMutationCandidate:
    mutation_type = _TYPES[((generation % 3) * 2 + place % 3) % 3]
    if net.places and net.transitions:
        change = _MUTATIONS[mutation_type](net, generation, place, index, limits)
    else:
        change = _Change("", 0.0, {}, {}, EMPTY_NET)
    unnamed = PetriMutationCandidate(
        candidate_id="",
        generation=generation + 1,
        mutation_index=index,
        mutation_type=mutation_type,
        status="blocked" if change.blocked_reason else "accepted",
        blocked_reason=change.blocked_reason,
        target=change.target,
        mutation_delta=change.delta,
        before=change.before,
        after=change.after,
    )
    return replace(
        unnamed,
        candidate_id=f"g{generation + 1:03d}-c{place + 1:03d}",
        candidate_hash=_record_hash(unnamed.to_audit_record()),
    )


def run_offline_evolutionary_petri_mutation_grammar(
    net: object,
    *,
    generation_count: int = 2,
    candidates_per_generation: int = 6,
    mutation_step: float = 0.1,
    max_arc_weight: int = 4,
    max_token_bound: int = 128,
    evaluator: Callable[[PetriMutationCandidate], float] | None = None,
    shortlist_size: int = 5,
) -> EvolutionaryPetriMutationPlan:
    """List bounded mutations of a net.

    Args:
        net: in one of the forms of `read_net`.
        generation_count: at least 1.
        candidates_per_generation: at least 1.
        mutation_step: relative size of a change, above 0.
        max_arc_weight: largest weight of a new arc, at least 1.
        max_token_bound: largest bound that a candidate may have, at least 1.
        evaluator: scores an accepted candidate, higher is better; without one there is no shortlist.
        shortlist_size: longest shortlist.

    Raises:
        ValidationError: a malformed net, or a number that is not allowed.
    """
    description = read_net(net)
    integer(generation_count, "generation_count", minimum=1)
    integer(candidates_per_generation, "candidates_per_generation", minimum=1)
    limits = _Limits(
        step=positive_number(mutation_step, "mutation_step"),
        max_arc_weight=integer(max_arc_weight, "max_arc_weight", minimum=1),
        max_token_bound=integer(max_token_bound, "max_token_bound", minimum=1),
    )
    candidates = tuple(
        _candidate(description, generation, place, generation * candidates_per_generation + place, limits)
        for generation in range(generation_count)
        for place in range(candidates_per_generation)
    )
    accepted = [candidate for candidate in candidates if candidate.status == "accepted"]
    best = min(accepted, key=lambda candidate: abs(candidate.mutation_delta), default=None)
    plan = EvolutionaryPetriMutationPlan(
        source_net=description,
        source_net_hash=ASCII.hash(description.to_audit_record()),
        generation_count=generation_count,
        candidates_per_generation=candidates_per_generation,
        mutation_step=limits.step,
        max_arc_weight=max_arc_weight,
        max_token_bound=max_token_bound,
        candidates=candidates,
        accepted_count=len(accepted),
        blocked_count=len(candidates) - len(accepted),
        best_candidate_id="" if best is None else best.candidate_id,
        shortlist=rank_candidates(candidates, evaluator, limit=shortlist_size) if evaluator is not None else (),
    )
    return replace(plan, plan_hash=_record_hash(plan.to_audit_record()))
