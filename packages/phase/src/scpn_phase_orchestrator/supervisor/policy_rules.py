"""Rules: in which regime and under which conditions which actions are proposed.

A rule file (`load_policy_rules`) holds a list of rules; `PolicyEngine` evaluates them once per control tick, and its
clock, on which cooldowns run, stands still unless its owner advances it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor._rule_file import (
    PolicyFileError,
    load_policy_document,
    load_policy_rules,
    parse_policy_document,
)
from scpn_phase_orchestrator.supervisor._rule_findings import dead_conditions, unknown_scopes
from scpn_phase_orchestrator.supervisor._rule_metrics import METRICS, MetricReader, RuleState, metric_reader
from scpn_phase_orchestrator.supervisor._rule_model import (
    MAX_PARTS,
    MAX_RULES,
    PolicyAction,
    PolicyCondition,
    PolicyDocument,
    PolicyRule,
    StlMonitor,
)
from scpn_phase_orchestrator.supervisor.petri_net import COMPARISONS
from scpn_phase_orchestrator.supervisor.regimes import Regime

__all__ = [
    "MAX_PARTS",
    "MAX_RULES",
    "METRICS",
    "PolicyAction",
    "PolicyCondition",
    "PolicyDocument",
    "PolicyEngine",
    "PolicyFileError",
    "PolicyRule",
    "StlMonitor",
    "dead_conditions",
    "load_policy_document",
    "load_policy_rules",
    "parse_policy_document",
    "unknown_scopes",
]

_CLOCK_ROUNDING = 1e-12
"""Share of the clock by which a cooldown may end early, so that ten ticks of 0.1 s end one of 1 s."""


@dataclass(slots=True)
class _ArmedRule:
    """A rule made ready for evaluation, and what it has done so far."""

    rule: PolicyRule
    conditions: list[tuple[MetricReader, str, float]]
    fires: int = 0
    last_fire_s: float = -math.inf

    def may_fire(self, now_s: float) -> bool:
        rule = self.rule
        if rule.max_fires and self.fires >= rule.max_fires:
            return False
        return not rule.cooldown_s or now_s - self.last_fire_s >= rule.cooldown_s - _CLOCK_ROUNDING * now_s

    def holds(self, state: RuleState, good: Sequence[int], bad: Sequence[int]) -> bool:
        is_or = self.rule.logic == "OR"
        for read, op, threshold in self.conditions:
            value = read(state, good, bad)
            if (value is not None and COMPARISONS[op](value, threshold)) is is_or:
                return is_or
        return not is_or


class PolicyEngine:
    """Evaluates rules and remembers when and how often each has fired.

    All rules whose regime, conditions, cooldown and number of firings allow it fire, in the order given. The clock of
    the cooldowns starts at 0 and moves only through `advance_clock`; a control loop calls it once per tick with the
    control period.

    Args:
        rules: the rules.
        layer_indices: declared index of each layer of the state. Then `layer` of a condition and the lists of good and
            bad layers are declared indices; without it they are positions.

    Raises:
        PolicyError: two rules of one name, more than 1000 rules, or `layer_indices` repeats an index.
    """

    def __init__(self, rules: Iterable[PolicyRule], *, layer_indices: Sequence[int] | None = None) -> None:
        self._rules = tuple(rules)
        if len(self._rules) > MAX_RULES:
            raise PolicyError(f"rules must be at most {MAX_RULES}, got {len(self._rules)}")
        self._position_of: Mapping[int, int] | None = None
        if layer_indices is not None:
            self._position_of = {index: position for position, index in enumerate(layer_indices)}
            if len(self._position_of) != len(layer_indices):
                raise PolicyError(f"layer_indices must differ from each other, got {list(layer_indices)}")
        self._armed: list[_ArmedRule] = []
        names: set[str] = set()
        for rule in self._rules:
            if rule.name in names:
                raise PolicyError(f"rule '{rule.name}' is given twice")
            names.add(rule.name)
            self._armed.append(_ArmedRule(rule, [self._compiled(condition) for condition in rule.conditions]))
        self._by_regime = {
            regime: tuple(armed for armed in self._armed if regime in armed.rule.regimes) for regime in Regime
        }
        self._clock_s = 0.0
        self._clock_rest_s = 0.0

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The rules, in the order of evaluation."""
        return self._rules

    @property
    def clock_s(self) -> float:
        """Seconds that the clock was advanced by."""
        return self._clock_s

    @property
    def fire_counts(self) -> dict[str, int]:
        """How often each rule has fired, by name."""
        return {armed.rule.name: armed.fires for armed in self._armed}

    def advance_clock(self, dt: float) -> None:
        """Move the clock on.

        Args:
            dt: seconds, at least 0.

        Raises:
            ValueError: `dt` is negative, not finite or no number.
        """
        if isinstance(dt, bool) or not 0.0 <= dt < math.inf:
            raise ValueError(f"dt must be a finite number >= 0, got {dt!r}")
        # Compensated (Kahan) summation: a million ticks of 0.1 s must not drift against a cooldown.
        step = dt - self._clock_rest_s
        moved = self._clock_s + step
        self._clock_rest_s = (moved - self._clock_s) - step
        self._clock_s = moved

    def evaluate(
        self, regime: Regime, state: RuleState, good_layers: Sequence[int], bad_layers: Sequence[int]
    ) -> list[ControlAction]:
        """Fire what may fire and give the proposed actions.

        Args:
            regime: the regime in force.
            state: an `UPDEState`.
            good_layers: layers that should be coherent.
            bad_layers: layers that should not.

        Returns:
            Actions justified with ``policy rule: <name>``.
        """
        return [
            ControlAction(action.knob, action.scope, action.value, action.ttl_s, f"policy rule: {rule.name}")
            for rule in self.fire(regime, state, good_layers, bad_layers)
            for action in rule.actions
        ]

    def fire(
        self, regime: Regime, state: RuleState, good_layers: Sequence[int], bad_layers: Sequence[int]
    ) -> list[PolicyRule]:
        """Fire what may fire, as `evaluate` does, and give the rules themselves."""
        candidates = self._by_regime[regime]
        if not candidates:
            return []
        if self._position_of is not None:
            good_layers = [self._position_of.get(index, -1) for index in good_layers]
            bad_layers = [self._position_of.get(index, -1) for index in bad_layers]
        fired: list[PolicyRule] = []
        for armed in candidates:
            if armed.may_fire(self._clock_s) and armed.holds(state, good_layers, bad_layers):
                armed.fires += 1
                armed.last_fire_s = self._clock_s
                fired.append(armed.rule)
        return fired

    def _compiled(self, condition: PolicyCondition) -> tuple[MetricReader, str, float]:
        reader = metric_reader(condition.metric, condition.layer, self._position_of)
        return (reader or _no_value, condition.op, condition.threshold)


def _no_value(state: RuleState, good: Sequence[int], bad: Sequence[int]) -> None:
    return None
