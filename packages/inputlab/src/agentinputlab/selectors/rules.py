"""A selector that compares measures of the visible state with thresholds, first match wins."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentinputlab.contracts._checks import Record, entries, exact_fields, finite, frozen, put, text
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.selectors.features import FEATURES, FEATURES_ID, visible_features

__all__ = ["COMPARISONS", "Rule", "RuleSelector", "Selection"]

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"at_least": operator.ge, "at_most": operator.le, "equal": operator.eq}
)
"""How a measure can be compared with a number."""


@dataclass(frozen=True, slots=True)
class Rule(Record):
    """One rule.

    Attributes:
        name: what it is called in a selection.
        when: measure to ``{comparison: number}``; all must hold, and there is at least one.
        release_id: the release to run then.
        reason: why, for the reader.
    """

    name: str
    when: Mapping[str, Mapping[str, float]]
    release_id: str
    reason: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "release_id"):
            text(getattr(self, field), f"Rule.{field}")
        text(self.reason, "Rule.reason", blank=True)
        when = frozen(self.when, "Rule.when")
        if not when:
            raise ValidationError(f"Rule.when of {self.name} must compare at least one measure")
        for measure, comparisons in when.items():
            if measure not in FEATURES:
                raise ValidationError(f"Rule.when of {self.name} has the unknown measure {measure!r:.80}")
            where = f"Rule.when of {self.name}, {measure}"
            for number in exact_fields(comparisons, where, allowed=COMPARISONS).values():
                finite(number, where)
            if not comparisons:
                raise ValidationError(f"{where} must have at least one of {', '.join(COMPARISONS)}")
        put(self, when=when)

    def holds(self, features: Mapping[str, float]) -> bool:
        """Tell whether every comparison holds."""
        return all(
            COMPARISONS[comparison](features[measure], number)
            for measure, comparisons in self.when.items()
            for comparison, number in comparisons.items()
        )


@dataclass(frozen=True, slots=True)
class Selection(Record):
    """What a selector chose, by which rule, from which measures."""

    release_id: str
    rule: str
    selector_id: str
    selector_hash: str
    features: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Give the selection as JSON values."""
        return to_jsonable(self)


@dataclass(frozen=True, slots=True)
class RuleSelector(Record):
    """Rules in order, and the release for states on which none holds.

    Attributes:
        selector_id: its name.
        revision: which version of it.
        rules: the rules; the first that holds decides.
        default_release_id: the release when none holds.
        features_id: the set of measures it was written for.
    """

    selector_id: str
    revision: str
    rules: tuple[Rule, ...]
    default_release_id: str = "baseline.no_op"
    features_id: str = FEATURES_ID

    def __post_init__(self) -> None:
        for field in ("selector_id", "revision", "default_release_id"):
            text(getattr(self, field), f"RuleSelector.{field}")
        if self.features_id != FEATURES_ID:
            raise ValidationError(f"RuleSelector.features_id must be {FEATURES_ID}, got {self.features_id!r:.80}")
        rules = entries(self.rules, "RuleSelector.rules", Rule)
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            raise ValidationError("RuleSelector.rules must have different names")
        put(self, rules=rules)

    @classmethod
    def from_dict(cls, value: object) -> RuleSelector:
        """Give the selector that a mapping, such as `as_dict`, describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        names = tuple(cls.__slots__)
        mapping = dict(exact_fields(value, "selector", allowed=names, required=names))
        rows: tuple[object, ...] = entries(mapping["rules"], "selector.rules", object)
        fields = tuple(Rule.__slots__)
        mapping["rules"] = tuple(Rule(**exact_fields(r, "rule", allowed=fields, required=fields[:-1])) for r in rows)
        return cls(**mapping)

    def as_dict(self) -> dict[str, Any]:
        """Give the selector as JSON values."""
        return to_jsonable(self)

    @property
    def selector_hash(self) -> str:
        """The content hash of `as_dict`."""
        return content_hash(self)

    def select(self, state: FrozenAgentState) -> Selection:
        """Choose the release for a state."""
        features = visible_features(state)
        chosen = next((rule for rule in self.rules if rule.holds(features)), None)
        return Selection(
            release_id=self.default_release_id if chosen is None else chosen.release_id,
            rule="default" if chosen is None else chosen.name,
            selector_id=self.selector_id,
            selector_hash=self.selector_hash,
            features=features,
        )
