"""Bounded mutations of policy rules written as text, listed for review.

One rule a line, ``#`` starts a comment::

    rule calm: if R < 0.4 and stability_proxy >= 0.2 then set K += 0.95

Every numeric constant is an *axis*: the thresholds of a rule in order, then the value of its action, rule by rule. A
candidate moves one axis. The list is an enumeration, nothing is selected; give an evaluator to get a ranked shortlist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ripieno.canonical import CANONICAL
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._grammar_review import REVIEW_FLAGS, RankedCandidate, rank_candidates
from scpn_phase_orchestrator.supervisor._review_fields import finite_number, integer, positive_number

__all__ = [
    "PolicyCondition",
    "PolicyMutationCandidate",
    "PolicyMutationPlan",
    "PolicyMutationSearchReport",
    "PolicyRuleText",
    "format_policy_dsl",
    "parse_policy_dsl",
    "run_offline_evolutionary_policy_dsl_search",
]

SCHEMA_NAME = "policy_dsl_evolution"
SCHEMA_VERSION = "0.1.0"

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RULE = re.compile(rf"rule\s+({_NAME})\s*:\s*if\s+(.+?)\s+then\s+set\s+(.+)", re.IGNORECASE)
_CONDITION = re.compile(rf"({_NAME})\s*(>=|<=|==|!=|>|<)\s*({_NUMBER})")
_ACTION = re.compile(rf"({_NAME})\s*(\+=|-=|=)\s*({_NUMBER})")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)


@dataclass(frozen=True)
class PolicyCondition:
    """A comparison of a metric with a threshold."""

    metric: str
    operator: str
    threshold: float


@dataclass(frozen=True)
class PolicyRuleText:
    """One rule: all conditions hold, then the target is set.

    Attributes:
        name: unique within a policy.
        conditions: at least one.
        target: what the action sets.
        operator: ``=``, ``+=`` or ``-=``.
        value: operand of the action.
    """

    name: str
    conditions: tuple[PolicyCondition, ...]
    target: str
    operator: str
    value: float


@dataclass(frozen=True)
class PolicyMutationPlan:
    """Which constant a candidate moves.

    Attributes:
        rule_name: the rule.
        component: ``condition`` or ``action``.
        component_index: place of the condition in its rule; 0 for the action.
        operator: of the condition or action.
        original_value: before.
        mutated_value: after.
        mutation_delta: what was added.
    """

    rule_name: str
    component: Literal["condition", "action"]
    component_index: int
    operator: str
    original_value: float
    mutated_value: float
    mutation_delta: float


@dataclass(frozen=True)
class PolicyMutationCandidate:
    """One mutated policy.

    Attributes:
        candidate_id: ``g01-c001`` and so on: generation and place, from 1.
        generation: from 1.
        mutation_index: number of the candidate in the report, from 0.
        status: ``accepted``, or ``rejected`` when the constant left [0, 1].
        blocked_reasons: why it was rejected.
        policy_dsl: the whole mutated policy.
        plan: which constant was moved.
        candidate_hash: hash of this record with this field empty.
    """

    candidate_id: str
    generation: int
    mutation_index: int
    status: Literal["accepted", "rejected"]
    blocked_reasons: tuple[str, ...]
    policy_dsl: str
    plan: PolicyMutationPlan
    candidate_hash: str = ""

    def to_audit_record(self) -> dict[str, Any]:
        """Give the candidate as JSON values."""
        return {**asdict(self), "blocked_reasons": list(self.blocked_reasons)}


@dataclass(frozen=True)
class PolicyMutationSearchReport:
    """Every candidate of a search.

    Attributes:
        source_policy_dsl: what was given.
        source_policy_hash: hash of ``{"source_policy_dsl": ...}``.
        generation_count: number of generations.
        population_size: candidates per generation.
        mutation_step: smallest change of a constant.
        candidates: in order.
        accepted_count: number of accepted candidates.
        rejected_count: number of the others.
        report_hash: hash of the record with this field empty; the shortlist is not part of it.
        shortlist: the best candidates of an evaluator; empty without one.
    """

    source_policy_dsl: str
    source_policy_hash: str
    generation_count: int
    population_size: int
    mutation_step: float
    candidates: tuple[PolicyMutationCandidate, ...]
    accepted_count: int
    rejected_count: int
    report_hash: str = ""
    shortlist: tuple[RankedCandidate, ...] = ()

    def to_audit_record(self) -> dict[str, Any]:
        """Give the report as JSON values, without the shortlist."""
        return {
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            **{key: value for key, value in self.__dict__.items() if key != "shortlist"},
            **REVIEW_FLAGS,
            "candidates": [candidate.to_audit_record() for candidate in self.candidates],
        }


def _parse_rule(line: str) -> PolicyRuleText:
    match = _RULE.fullmatch(line)
    if match is None:
        raise ValidationError(f"Malformed rule line: {line}")
    name, conditions_text, action_text = match.groups()
    conditions: list[PolicyCondition] = []
    for text in _AND.split(conditions_text):
        condition = _CONDITION.fullmatch(text.strip())
        if condition is None:
            raise ValidationError(f"Malformed condition: {text.strip()}")
        threshold = finite_number(float(condition[3]), f"threshold of rule {name}")
        conditions.append(PolicyCondition(condition[1], condition[2], threshold))
    action = _ACTION.fullmatch(action_text.strip())
    if action is None:
        raise ValidationError(f"Malformed action: {action_text.strip()}")
    value = finite_number(float(action[3]), f"action value of rule {name}")
    return PolicyRuleText(name, tuple(conditions), action[1], action[2], value)


def parse_policy_dsl(policy_dsl: str) -> tuple[PolicyRuleText, ...]:
    """Read the rules of a policy text.

    Raises:
        ValidationError: no rule, a malformed line, condition or action (the message shows it), or a name twice.

    Examples:
        >>> parse_policy_dsl("rule drive: if pac_max > 0.9 then set zeta = 0.1")[0].target
        'zeta'
    """
    if not isinstance(policy_dsl, str) or not policy_dsl.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError("policy_dsl must be a non-empty string")
    lines = [line.split("#", 1)[0].strip() for line in policy_dsl.splitlines()]
    rules = tuple(_parse_rule(line) for line in lines if line)
    if not rules:
        raise ValidationError("policy_dsl must hold at least one rule, it has only comments")
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise ValidationError(f"Duplicate rule name: {rule.name}")
        seen.add(rule.name)
    return rules


def format_policy_dsl(rules: tuple[PolicyRuleText, ...]) -> str:
    """Write rules as text, one a line, numbers with up to 12 significant digits."""
    return "\n".join(_format_rule(rule) for rule in rules)


def _format_rule(rule: PolicyRuleText) -> str:
    conditions = " and ".join(f"{item.metric} {item.operator} {item.threshold:.12g}" for item in rule.conditions)
    return f"rule {rule.name}: if {conditions} then set {rule.target} {rule.operator} {rule.value:.12g}"


def _axes(rules: tuple[PolicyRuleText, ...]) -> list[tuple[int, int | None]]:
    """Give every constant as rule index and condition index (``None``: the action)."""
    axes: list[tuple[int, int | None]] = []
    for index, rule in enumerate(rules):
        axes += [(index, condition) for condition in range(len(rule.conditions))]
        axes.append((index, None))
    return axes


def _mutate(
    rules: tuple[PolicyRuleText, ...], axis: tuple[int, int | None], delta: float
) -> tuple[str, PolicyMutationPlan]:
    rule_index, condition_index = axis
    rule = rules[rule_index]
    if condition_index is None:
        original, operator = rule.value, rule.operator
        mutated_rule = replace(rule, value=original + delta)
    else:
        condition = rule.conditions[condition_index]
        original, operator = condition.threshold, condition.operator
        conditions = list(rule.conditions)
        conditions[condition_index] = replace(condition, threshold=original + delta)
        mutated_rule = replace(rule, conditions=tuple(conditions))
    plan = PolicyMutationPlan(
        rule_name=rule.name,
        component="action" if condition_index is None else "condition",
        component_index=condition_index or 0,
        operator=operator,
        original_value=original,
        mutated_value=original + delta,
        mutation_delta=delta,
    )
    return format_policy_dsl((*rules[:rule_index], mutated_rule, *rules[rule_index + 1 :])), plan


def _candidate(
    rules: tuple[PolicyRuleText, ...],
    axis: tuple[int, int | None],
    delta: float,
    *,
    generation: int,
    place: int,
    index: int,
) -> PolicyMutationCandidate:
    text, plan = _mutate(rules, axis, delta)
    reason = "action_value_outside_0_to_1" if axis[1] is None else "condition_threshold_outside_0_to_1"
    outside = not 0.0 <= plan.mutated_value <= 1.0
    candidate = PolicyMutationCandidate(
        candidate_id=f"g{generation + 1:02d}-c{place + 1:03d}",
        generation=generation + 1,
        mutation_index=index,
        status="rejected" if outside else "accepted",
        blocked_reasons=(reason,) if outside else (),
        policy_dsl=text,
        plan=plan,
    )
    return replace(candidate, candidate_hash=CANONICAL.hash(candidate.to_audit_record()))


def run_offline_evolutionary_policy_dsl_search(
    policy_dsl: str,
    *,
    generation_count: int = 2,
    population_size: int = 6,
    mutation_step: float = 0.05,
    evaluator: Callable[[PolicyMutationCandidate], float] | None = None,
    shortlist_size: int = 5,
) -> PolicyMutationSearchReport:
    r"""List bounded mutations of a policy.

    Candidate :math:`l` of generation :math:`g` (both from 0) of :math:`G` generations of :math:`P` moves axis
    :math:`c = (gP + l) \bmod A` of :math:`A` by
    :math:`\pm\text{step}\,(1 + c/A)(1 + g/G)`, upwards when :math:`g + l` is even.

    Args:
        policy_dsl: the rules.
        generation_count: :math:`G`, at least 1.
        population_size: :math:`P`, at least 1.
        mutation_step: above 0.
        evaluator: scores an accepted candidate, higher is better; without one there is no shortlist.
        shortlist_size: longest shortlist.

    Raises:
        ValidationError: a malformed policy, or a number that is not allowed.
    """
    rules = parse_policy_dsl(policy_dsl)
    integer(generation_count, "generation_count", minimum=1)
    integer(population_size, "population_size", minimum=1)
    step = positive_number(mutation_step, "mutation_step")
    axes = _axes(rules)
    candidates: list[PolicyMutationCandidate] = []
    for generation in range(generation_count):
        for place in range(population_size):
            cursor = (generation * population_size + place) % len(axes)
            sign = 1.0 if (generation + place) % 2 == 0 else -1.0
            delta = sign * step * (1.0 + cursor / len(axes)) * (1.0 + generation / generation_count)
            candidates.append(
                _candidate(rules, axes[cursor], delta, generation=generation, place=place, index=len(candidates))
            )
    accepted = sum(candidate.status == "accepted" for candidate in candidates)
    report = PolicyMutationSearchReport(
        source_policy_dsl=policy_dsl,
        source_policy_hash=CANONICAL.hash({"source_policy_dsl": policy_dsl}),
        generation_count=generation_count,
        population_size=population_size,
        mutation_step=step,
        candidates=tuple(candidates),
        accepted_count=accepted,
        rejected_count=len(candidates) - accepted,
        shortlist=rank_candidates(candidates, evaluator, limit=shortlist_size) if evaluator is not None else (),
    )
    return replace(report, report_hash=CANONICAL.hash(report.to_audit_record()))
