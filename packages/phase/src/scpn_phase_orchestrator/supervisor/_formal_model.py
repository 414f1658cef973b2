"""What every formal export stands on: safe identifiers, and readings abstracted to regions.

A net or a rule looks at a reading only through comparisons with constants. Between two neighbouring constants all
values are alike, so a reading becomes a small integer without losing anything:

    0                 no value
    1                 below the first constant
    2                 the first constant itself
    3                 between the first and the second
    ...
    2 n + 1           above the last

Checkers of finite models (PRISM, TLC) can then enumerate what no real number would let them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor._rule_metrics import metric_reader
from scpn_phase_orchestrator.supervisor.petri_net import Marking, PetriNet, Transition
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyCondition, PolicyRule
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK

__all__ = [
    "FormalCondition",
    "FormalNet",
    "FormalPolicy",
    "FormalRule",
    "FormalTransition",
    "Names",
    "Reading",
    "check_module_name",
    "formal_net",
    "formal_policy",
    "quoted",
]

MAX_NAME = 48
_MODULE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_RESERVED = frozenset(
    """
    A bool clock const ctmc C dtmc double E endinit endinvariant endmodule endobservables endrewards endsystem F false
    filter formula func G global I init int invariant label max mdp min module nondeterministic observable observables
    of P Pmax Pmin pomdp popta probabilistic prob pta R rate rewards Rmax Rmin S stochastic system true U W X
    ASSUME ASSUMPTION AXIOM BOOLEAN CASE CHOOSE CONSTANT CONSTANTS DOMAIN ELSE ENABLED EXCEPT EXTENDS FALSE IF IN
    INSTANCE LAMBDA LET LOCAL MODULE OTHER PROPOSITION STRING SUBSET THEN THEOREM TRUE UNCHANGED UNION VARIABLE
    VARIABLES WITH Integers phase regime overflow vars Init Next Spec Observe Idle Decide Regime TypeOK
    """.split()  # noqa: SIM905 - a list of 90 quoted words is no easier to read
)
_OWN_PREFIXES = (
    "p_", "t_", "m_", "r_", "collision_", "enabled_", "earlier_", "fits_", "holds_", "fires_", "fired_", "wait_",
    "count_", "reading_", "rule_",
)  # fmt: skip
_UNIT_METRICS = frozenset({"stability_proxy", "pac_max", "subcritical_fraction"})
_COUNT_METRICS = frozenset(
    {"mean_amplitude", "amplitude_spread", "mean_amplitude_layer", "boundary_violation_count", "imprint_mean"}
)
_ORDER_PARAMETER = re.compile(r"R(_.*)?", re.ASCII)


def check_module_name(name: str) -> str:
    """Give a name that PRISM and TLA+ both take for a module.

    Raises:
        PolicyError: it is none.
    """
    if not _MODULE_NAME.fullmatch(name) or name in _RESERVED or name.lower().startswith(_OWN_PREFIXES):
        raise PolicyError(
            f"module name must match {_MODULE_NAME.pattern}, be no keyword and not begin like a name of the export "
            f"({', '.join(_OWN_PREFIXES)}), got {name!r:.80}"
        )
    return name


def quoted(text: str) -> str:
    """Write any text for a comment: on one line, in ASCII, with quotes."""
    return json.dumps(text)


class Names:
    """Gives every named thing an identifier that all three languages take; different things get different ones."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def give(self, prefix: str, text: str) -> str:
        """Give the identifier ``<prefix>_<text>``, other characters replaced by ``_``, numbered when taken."""
        stem = f"{prefix}_{re.sub(r'[^A-Za-z0-9_]', '_', text)[:MAX_NAME]}"
        name, number = stem, 1
        while name in self._used:
            number += 1
            name = f"{stem}_{number}"
        self._used.add(name)
        return name


def _bounds(metric: str) -> tuple[float, float]:
    if metric in _UNIT_METRICS or _ORDER_PARAMETER.fullmatch(metric):
        return 0.0, 1.0
    return (0.0, math.inf) if metric in _COUNT_METRICS else (-math.inf, math.inf)


@dataclass(frozen=True)
class Reading:
    """A metric as a checker sees it.

    Attributes:
        metric: its name, for people.
        identifier: its name in the export.
        thresholds: the constants it is compared with, ascending.
        bounds: least and largest value it can have.
        may_be_absent: whether there may be no value.
    """

    metric: str
    identifier: str
    thresholds: tuple[float, ...]
    bounds: tuple[float, float]
    may_be_absent: bool

    @property
    def regions(self) -> tuple[int, ...]:
        """The regions that can occur."""
        low, high = self.bounds
        edges = (-math.inf, *self.thresholds, math.inf)
        found = [0] if self.may_be_absent else []
        for index in range(len(self.thresholds) + 1):
            below, above = edges[index], edges[index + 1]
            if max(below, low) < min(above, high):
                found.append(2 * index + 1)
            if index < len(self.thresholds) and low <= above <= high:
                found.append(2 * index + 2)
        return tuple(found)

    def region_of(self, value: float | None) -> int:
        """Give the region of a value."""
        if value is None:
            return 0
        below = sum(threshold < value for threshold in self.thresholds)
        return 2 * below + (2 if value in self.thresholds else 1)

    def comparisons(self, op: str, threshold: float) -> tuple[tuple[str, int], ...]:
        """Give comparisons of the region, all of which must hold, that say ``metric op threshold``."""
        region = 2 * self.thresholds.index(threshold) + 2
        if op == "==":
            return (("=", region),)
        if op in (">", ">="):
            return ((op, region),)
        return ((">=", 1), (op, region))


@dataclass
class _ReadingTable:
    """Collects which constants each metric is compared with."""

    may_be_absent: bool
    thresholds: dict[str, set[float]] = field(default_factory=dict[str, set[float]])

    def add(self, metric: str, threshold: float) -> None:
        self.thresholds.setdefault(metric, set()).add(float(threshold) + 0.0)

    def readings(self, names: Names) -> dict[str, Reading]:
        return {
            metric: Reading(metric, names.give("m", metric), tuple(sorted(values)), _bounds(metric), self.may_be_absent)
            for metric, values in self.thresholds.items()
        }


# --- nets -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FormalTransition:
    """A transition with arcs added up per place.

    Attributes:
        identifier: its name in the export.
        transition: the transition itself.
        needs: identifier of a place and tokens it must hold.
        changes: identifier of a place and how its tokens change; no zeros.
        guard: reading, comparison and constant, if there is a guard.
    """

    identifier: str
    transition: Transition
    needs: tuple[tuple[str, int], ...]
    changes: tuple[tuple[str, int], ...]
    guard: tuple[Reading, str, float] | None


@dataclass(frozen=True)
class FormalNet:
    """A net ready for export.

    Attributes:
        places: identifier by name.
        initial: first tokens by identifier.
        transitions: in the order in which they are tried.
        readings: what guards look at.
        max_tokens: most tokens that a place may hold in the model.
        regimes: rank of the regime by identifier of the place that stands for it.
    """

    places: Mapping[str, str]
    initial: Mapping[str, int]
    transitions: tuple[FormalTransition, ...]
    readings: tuple[Reading, ...]
    max_tokens: int
    regimes: Mapping[str, int]


def formal_net(
    net: PetriNet, marking: Marking, place_ranks: Mapping[str, int], max_tokens: int | None = None
) -> FormalNet:
    """Make a net ready for export.

    Args:
        net: the net.
        marking: its first marking.
        place_ranks: rank of the regime by place.
        max_tokens: most tokens of a place in the model; by default the number of tokens at the start or the largest
            weight of an arc, whichever is more.

    Raises:
        PolicyError: the bound is below 1, or the first marking breaks it.
    """
    weights = [arc.weight for one in net.transitions for arc in (*one.inputs, *one.outputs)]
    bound = max([1, sum(marking.tokens.values()), *weights]) if max_tokens is None else max_tokens
    if type(bound) is not int or bound < 1:
        raise PolicyError(f"max_tokens must be an integer >= 1, got {bound!r}")
    names = Names()
    places = {place.name: names.give("p", place.name) for place in net.places}
    for place, count in marking.tokens.items():
        if place not in places:
            raise PolicyError(f"the initial marking names the unknown place '{place}'")
        if count > bound:
            raise PolicyError(f"place '{place}' starts with {count} tokens, max_tokens is {bound}")
    table = _ReadingTable(may_be_absent=True)
    for one in net.transitions:
        if one.guard is not None:
            table.add(one.guard.metric, one.guard.threshold)
    readings = table.readings(names)
    return FormalNet(
        places=places,
        initial={identifier: marking[name] for name, identifier in places.items()},
        transitions=tuple(_formal_transition(one, places, readings, names) for one in net.transitions),
        readings=tuple(readings.values()),
        max_tokens=bound,
        regimes={places[place]: rank for place, rank in place_ranks.items() if place in places},
    )


def _formal_transition(
    one: Transition, places: Mapping[str, str], readings: Mapping[str, Reading], names: Names
) -> FormalTransition:
    needs: dict[str, int] = {}
    for arc in one.inputs:
        needs[places[arc.place]] = needs.get(places[arc.place], 0) + arc.weight
    changes = {place: -need for place, need in needs.items()}
    for arc in one.outputs:
        changes[places[arc.place]] = changes.get(places[arc.place], 0) + arc.weight
    guard = one.guard
    return FormalTransition(
        identifier=names.give("t", one.name),
        transition=one,
        needs=tuple(needs.items()),
        changes=tuple((place, change) for place, change in changes.items() if change),
        guard=None if guard is None else (readings[guard.metric], guard.op, guard.threshold + 0.0),
    )


# --- rules ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FormalCondition:
    """A condition of a rule; one without a reading is always false.

    Attributes:
        condition: as declared.
        reading: what it looks at, or ``None``.
    """

    condition: PolicyCondition
    reading: Reading | None

    @property
    def threshold(self) -> float:
        """The constant, with one zero only."""
        return float(self.condition.threshold) + 0.0

    def text(self) -> str:
        """Write the condition for a comment."""
        layer = "" if self.condition.layer is None else f"[{self.condition.layer}]"
        return f"{self.condition.metric}{layer} {self.condition.op} {self.condition.threshold!r}"


@dataclass(frozen=True)
class FormalRule:
    """A rule ready for export.

    Attributes:
        identifier: its name in the export.
        rule: as declared.
        conditions: in order.
        wait_ticks: decisions that must pass after a firing before the next one may fire.
    """

    identifier: str
    rule: PolicyRule
    conditions: tuple[FormalCondition, ...]
    wait_ticks: int

    @property
    def regime_ranks(self) -> tuple[int, ...]:
        """Ranks of the regimes in which the rule may fire, ascending."""
        return tuple(sorted({REGIME_RANK[regime] for regime in self.rule.regimes}))


@dataclass(frozen=True)
class FormalPolicy:
    """Rules ready for export.

    Attributes:
        rules: in the order in which they are evaluated.
        readings: what conditions look at.
        targets: identifier of a knob and scope that several actions may turn at once, with the rules and how many of
            their actions turn it.
    """

    rules: tuple[FormalRule, ...]
    readings: tuple[Reading, ...]
    targets: Mapping[str, Mapping[str, int]]


def _reading_key(
    condition: PolicyCondition, layers: Sequence[int], good: Sequence[int], bad: Sequence[int]
) -> str | None:
    """Name what a condition looks at, so that two names for one quantity become one reading."""
    metric, layer = condition.metric, condition.layer
    positions = {index: place for place, index in enumerate(layers)}
    if metric_reader(metric, layer, positions) is None:
        return None
    if metric in ("R_good", "R_bad"):
        listed = [index for index in (good if metric == "R_good" else bad) if index in positions]
        if layer is None:
            return metric if listed else None
        return f"R_{listed[layer]}" if layer < len(listed) else None
    return (
        metric
        if layer is None or metric not in ("R", "amplitude_spread", "mean_amplitude_layer")
        else f"{metric}_{layer}"
    )


def formal_policy(
    rules: Iterable[PolicyRule],
    *,
    layer_indices: Sequence[int],
    good_layers: Sequence[int],
    bad_layers: Sequence[int],
    control_period_s: float,
) -> FormalPolicy:
    """Make rules ready for export.

    Args:
        rules: in the order in which they are evaluated.
        layer_indices: declared index of every layer.
        good_layers: declared indices of the good ones.
        bad_layers: declared indices of the bad ones.
        control_period_s: seconds between two decisions.

    Raises:
        PolicyError: there is no rule.
    """
    declared = tuple(rules)
    if not declared:
        raise PolicyError("there are no rules to export")
    names, table = Names(), _ReadingTable(may_be_absent=False)
    keys: dict[PolicyCondition, str | None] = {}
    for rule in declared:
        for condition in rule.conditions:
            keys[condition] = _reading_key(condition, layer_indices, good_layers, bad_layers)
            key = keys[condition]
            if key is not None:
                table.add(key, condition.threshold)
    readings = table.readings(names)
    formal = tuple(
        FormalRule(
            identifier=names.give("r", rule.name),
            rule=rule,
            conditions=tuple(
                FormalCondition(condition, None if (key := keys[condition]) is None else readings[key])
                for condition in rule.conditions
            ),
            wait_ticks=max(0, math.ceil(rule.cooldown_s / control_period_s - 1e-9) - 1),
        )
        for rule in declared
    )
    return FormalPolicy(formal, tuple(readings.values()), _targets(formal, names))


def _targets(rules: tuple[FormalRule, ...], names: Names) -> dict[str, dict[str, int]]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for rule in rules:
        for action in rule.rule.actions:
            target = counts.setdefault((action.knob, action.scope), {})
            target[rule.identifier] = target.get(rule.identifier, 0) + 1
    return {
        names.give("collision", f"{knob}_{scope}"): target
        for (knob, scope), target in counts.items()
        if sum(target.values()) > 1
    }
