"""Reads rule files: strictly, with the place of every fault."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scpn_phase_orchestrator.binding._descriptors import (
    INVALID,
    Descriptor,
    Field,
    Integer,
    Listing,
    Nullable,
    Number,
    Record,
    Report,
    Text,
    nearest,
)
from scpn_phase_orchestrator.binding._document import DocumentError, Node, Scalar, parse_json, parse_yaml
from scpn_phase_orchestrator.binding._file import document_text
from scpn_phase_orchestrator.binding.types import SCOPE_PATTERN, VALID_KNOBS, VALID_SEVERITIES
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor._rule_findings import unreadable_metric
from scpn_phase_orchestrator.supervisor._rule_model import (
    MAX_RULES,
    PolicyAction,
    PolicyCondition,
    PolicyDocument,
    PolicyRule,
    StlMonitor,
)
from scpn_phase_orchestrator.supervisor.petri_net import COMPARISONS
from scpn_phase_orchestrator.supervisor.regimes import Regime

__all__ = ["PolicyFileError", "load_policy_document", "load_policy_rules", "parse_policy_document"]

_LOGGER = logging.getLogger(__name__)

_SHOWN_VIOLATIONS = 10


class PolicyFileError(PolicyError):
    """A rule file with faults.

    Attributes:
        source: name of the file.
        faults: one text per fault, with its path and line.
    """

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        more = len(faults) - _SHOWN_VIOLATIONS
        shown = "; ".join(faults[:_SHOWN_VIOLATIONS]) + (f"; and {more} more" if more > 0 else "")
        super().__init__(f"invalid policy rules: {source}: {shown}")

    def __reduce__(self) -> tuple[type[PolicyFileError], tuple[str, tuple[str, ...]]]:
        return (type(self), (self.source, self.faults))


def load_policy_rules(path: str | Path) -> list[PolicyRule]:
    """Read the rules of a file; a file without any gives an empty list.

    Raises:
        PolicyError: as `load_policy_document`.
    """
    return list(load_policy_document(path).rules)


def load_policy_document(path: str | Path, *, layer_indices: Mapping[str, int] | None = None) -> PolicyDocument:
    """Read a rule file (``.yaml``, ``.yml`` or ``.json``).

    Conditions that can never hold (an unknown metric, a missing layer) are logged at level ``info``;
    `dead_conditions` names them, and those that can never hold beside a certain spec.

    Args:
        path: the file.
        layer_indices: index of each layer of the spec by name, for better messages.

    Raises:
        PolicyError: the file cannot be read or is not a rule file; the message begins with ``invalid policy rules:``
            and names file, line and path of each fault.
    """
    file = Path(path)
    try:
        text = document_text(file, "rule file")
    except DocumentError as error:
        raise _refusal(str(file), error) from error
    return parse_policy_document(
        text, source=str(file), is_json=file.suffix.lower() == ".json", layer_indices=layer_indices
    )


def parse_policy_document(
    text: str, *, source: str = "policy", is_json: bool = False, layer_indices: Mapping[str, int] | None = None
) -> PolicyDocument:
    """Read a rule file from its text.

    Args:
        text: YAML, or JSON.
        source: what messages call the text.
        is_json: whether the text is JSON.
        layer_indices: as for `load_policy_document`.

    Raises:
        PolicyError: as `load_policy_document`.
    """
    if not is_json and all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return PolicyDocument()
    try:
        root = parse_json(text) if is_json else parse_yaml(text)
    except DocumentError as error:
        raise _refusal(source, error) from error
    report = Report(layer_indices)
    document = _DOCUMENT.read(root, (), report)
    if report.violations:
        raise PolicyFileError(source, [str(violation) for violation in report.violations])
    for rule in document.rules:
        for condition in rule.conditions:
            why = unreadable_metric(condition)
            if why is not None:
                _LOGGER.info("%s: a condition of rule '%s' never holds: %s", source, rule.name, why)
    return replace(document, source=source, lines=dict(report.lines))


def _refusal(source: str, error: DocumentError) -> PolicyFileError:
    return PolicyFileError(f"{source}, line {error.line}" if error.line else source, [str(error)])


@dataclass(frozen=True)
class _Word:
    """One of some words in any case, as the object it stands for."""

    meanings: dict[str, Any]
    expected: str = "string"

    def read(self, node: Node, path: tuple[str | int, ...], report: Report) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, str):
            return report.wrong_type(self.expected, node, path)
        if value.upper() in self.meanings:
            return self.meanings[value.upper()]
        near = nearest(value, self.meanings)
        hint = f"; did you mean '{near}'?" if near else ""
        return report.wrong_value(f"must be one of {', '.join(self.meanings)}", node, path, hint)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": [*self.meanings, *(word.lower() for word in self.meanings)]}


def _rule(
    name: str,
    regime: list[Regime],
    condition: PolicyCondition | None = None,
    conditions: list[PolicyCondition] | None = None,
    action: PolicyAction | None = None,
    actions: list[PolicyAction] | None = None,
    **rest: Any,
) -> PolicyRule:
    return PolicyRule(
        name,
        regime,
        _one_or_many("condition", condition, conditions),
        _one_or_many("action", action, actions),
        **rest,
    )


def _one_or_many(name: str, one: Any, many: list[Any] | None) -> list[Any]:
    if (one is None) == (many is None):
        raise PolicyError(f"give either '{name}' or '{name}s'")
    return [one] if many is None else many


@dataclass(frozen=True)
class _Rules:
    """The list of rules: bounded, and no two of one name."""

    inner: Listing
    expected: str = "list"

    def read(self, node: Node, path: tuple[str | int, ...], report: Report) -> Any:
        count = len(node.items) if not isinstance(node, Scalar) else 0
        if count > MAX_RULES:
            return report.add(path, node.line, f"rules must be at most {MAX_RULES}, got {count}")
        rules = self.inner.read(node, path, report)
        if rules is INVALID:
            return INVALID
        first: dict[str, int] = {}
        for index, rule in enumerate(rules):
            if first.setdefault(rule.name, index) != index:
                line = report.lines.get(f"rules[{index}]", 0)
                report.add(
                    (*path, index), line, f"rule name '{rule.name}' is already that of rules[{first[rule.name]}]"
                )
        return rules

    def json_schema(self) -> dict[str, Any]:
        return {**self.inner.json_schema(), "maxItems": MAX_RULES}


def _document(rules: list[PolicyRule] | None = None, stl_monitors: list[StlMonitor] | None = None) -> PolicyDocument:
    return PolicyDocument(tuple(rules or ()), tuple(stl_monitors or ()))


_NAME = Text(pattern=r"\S", pattern_help="a name that is not blank")
_CONDITION = Record(
    (
        Field("metric", Text(), "Name of the metric."),
        Field(
            "layer",
            Nullable(Integer(minimum=0, is_layer=True)),
            "Which layer, for metrics that have one per layer.",
            None,
        ),
        Field("op", Text(choices=frozenset(COMPARISONS)), "The comparison."),
        Field("threshold", Number(), "What the metric is compared with."),
    ),
    PolicyCondition,
)
_ACTION = Record(
    (
        Field("knob", Text(choices=VALID_KNOBS), "The knob to turn."),
        Field(
            "scope",
            Text(pattern=SCOPE_PATTERN, pattern_help="'global' or 'layer_<index>'", is_scope=True),
            "Where it acts.",
        ),
        Field("value", Number(), "By how much."),
        Field("ttl_s", Number(minimum=0.0), "How long it acts, in seconds."),
    ),
    PolicyAction,
)
_REGIMES: Descriptor = Listing(_Word(dict(Regime.__members__)), min_items=1)
_RULE = Record(
    (
        Field("name", _NAME, "What the actions of the rule are justified with."),
        Field("regime", _REGIMES, "The regimes in which the rule may fire."),
        Field("condition", _CONDITION, "The only condition.", None),
        Field("conditions", Listing(_CONDITION, min_items=1), "Several conditions.", None),
        Field("logic", _Word({"AND": "AND", "OR": "OR"}), "Whether all conditions must hold or one of them.", "AND"),
        Field("action", _ACTION, "The only action.", None),
        Field("actions", Listing(_ACTION, min_items=1), "Several actions.", None),
        Field("cooldown_s", Number(minimum=0.0), "Least time between two firings, in seconds.", 0.0),
        Field("max_fires", Integer(minimum=0), "How often the rule fires at most; 0 sets no limit.", 0),
    ),
    _rule,
)
_STL_MONITOR = Record(
    (
        Field("name", _NAME, "Name of the monitor."),
        Field("spec", _NAME, "The formula."),
        Field("severity", Text(choices=VALID_SEVERITIES), "Weight of a violation.", "soft"),
    ),
    StlMonitor,
)
_DOCUMENT = Record(
    (
        Field("rules", Nullable(_Rules(Listing(_RULE))), "The rules, in the order in which they fire.", None),
        Field("stl_monitors", Nullable(Listing(_STL_MONITOR)), "Formulas to be watched.", None),
    ),
    _document,
)
