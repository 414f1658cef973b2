"""What a set of rules would have done in a recorded run; nothing is actuated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor._rule_metrics import metric_reader
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyEngine, PolicyRule
from scpn_phase_orchestrator.supervisor.regimes import Regime

__all__ = ["PolicyDryRunReport", "RuleCollision", "RuleOverlap", "dry_run_policy_rules"]


@dataclass(frozen=True)
class RuleOverlap:
    """A step in which more than one rule fired."""

    step: int
    rules: tuple[str, ...]


@dataclass(frozen=True)
class RuleCollision:
    """A step in which more than one action, of these rules and with these values, turned one knob of one scope."""

    step: int
    knob: str
    scope: str
    rules: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class PolicyDryRunReport:
    """What the rules would have done.

    Attributes:
        steps: number of step records.
        fire_counts: firings by rule.
        action_counts: proposed actions by knob and scope, as ``<knob>/<scope>``.
        unreachable_rules: rules that never fired.
        overlapping_steps: steps in which several rules fired.
        colliding_steps: steps in which several actions turned the same knob.
        unavailable_metrics: metrics of conditions for which no record had a value; such conditions were false.
    """

    steps: int
    fire_counts: Mapping[str, int]
    action_counts: Mapping[str, int]
    unreachable_rules: tuple[str, ...]
    overlapping_steps: tuple[RuleOverlap, ...]
    colliding_steps: tuple[RuleCollision, ...]
    unavailable_metrics: tuple[str, ...]

    def to_record(self) -> dict[str, Any]:
        """Give the report as a JSON-safe dict, with `non_actuating` true."""
        return {
            "steps": self.steps,
            "fire_counts": dict(self.fire_counts),
            "action_counts": dict(self.action_counts),
            "unreachable_rules": list(self.unreachable_rules),
            "overlapping_steps": [{**asdict(one), "rules": list(one.rules)} for one in self.overlapping_steps],
            "colliding_steps": [
                {**asdict(one), "rules": list(one.rules), "values": list(one.values)} for one in self.colliding_steps
            ],
            "unavailable_metrics": list(self.unavailable_metrics),
            "non_actuating": True,
        }


def dry_run_policy_rules(
    rules: Iterable[PolicyRule],
    records: Iterable[Mapping[str, Any]],
    good_layers: Sequence[int],
    bad_layers: Sequence[int],
    *,
    layer_indices: Sequence[int] | None = None,
) -> PolicyDryRunReport:
    """Replay rules over the records of an audit log.

    Every step record counts as one control tick and one second of the rules' clock. Its regime is `regime_decided`
    where the record has it, else `regime`. Metrics that a record does not hold make their conditions false.

    Args:
        rules: the rules.
        records: records in order; those without `layers` (header, events) are passed over.
        good_layers: layers that should be coherent.
        bad_layers: layers that should not.
        layer_indices: as for `PolicyEngine`.

    Raises:
        PolicyError: a malformed rule set or step record; the message names the step.
    """
    engine = PolicyEngine(rules, layer_indices=layer_indices)
    positions = None if layer_indices is None else {index: place for place, index in enumerate(layer_indices)}
    good = [index if positions is None else positions.get(index, -1) for index in good_layers]
    bad = [index if positions is None else positions.get(index, -1) for index in bad_layers]
    unread = {
        (condition.metric, condition.layer): metric_reader(condition.metric, condition.layer, positions)
        for rule in engine.rules
        for condition in rule.conditions
    }
    action_counts: dict[str, int] = {}
    overlaps: list[RuleOverlap] = []
    collisions: list[RuleCollision] = []
    steps = 0
    for record in records:
        if "layers" not in record:
            continue
        step, regime, state = _read(record, steps)
        for key, reader in list(unread.items()):
            if reader is not None and reader(state, good, bad) is not None:
                del unread[key]
        fired = engine.fire(regime, state, good_layers, bad_layers)
        engine.advance_clock(1.0)
        steps += 1
        if not fired:
            continue
        for rule in fired:
            for action in rule.actions:
                target = f"{action.knob}/{action.scope}"
                action_counts[target] = action_counts.get(target, 0) + 1
        if len(fired) > 1:
            overlaps.append(RuleOverlap(step, tuple(rule.name for rule in fired)))
        collisions.extend(_collisions(step, fired))
    fire_counts = engine.fire_counts
    return PolicyDryRunReport(
        steps=steps,
        fire_counts=fire_counts,
        action_counts=dict(sorted(action_counts.items())),
        unreachable_rules=tuple(name for name, count in fire_counts.items() if not count),
        overlapping_steps=tuple(overlaps),
        colliding_steps=tuple(collisions),
        unavailable_metrics=tuple(sorted({metric for metric, _ in unread})),
    )


@dataclass(frozen=True)
class _RecordedLayer:
    R: float
    mean_amplitude: float | None
    amplitude_spread: float | None


@dataclass(frozen=True)
class _RecordedState:
    layers: tuple[_RecordedLayer, ...]
    stability_proxy: float | None
    mean_amplitude: float | None
    pac_max: float | None
    subcritical_fraction: float | None
    boundary_violation_count: float | None
    imprint_mean: float | None


@dataclass
class _Target:
    rules: list[str] = field(default_factory=list[str])
    values: list[float] = field(default_factory=list[float])


def _collisions(step: int, fired: Sequence[PolicyRule]) -> list[RuleCollision]:
    targets: dict[tuple[str, str], _Target] = {}
    for rule in fired:
        for action in rule.actions:
            target = targets.setdefault((action.knob, action.scope), _Target())
            target.rules.append(rule.name)
            target.values.append(action.value)
    return [
        RuleCollision(step, knob, scope, tuple(target.rules), tuple(target.values))
        for (knob, scope), target in targets.items()
        if len(target.rules) > 1
    ]


def _read(record: Mapping[str, Any], position: int) -> tuple[int, Regime, _RecordedState]:
    step = record.get("step", position)
    if type(step) is not int or step < 0:
        raise PolicyError(f"step of record {position} must be an integer >= 0, got {step!r}")
    name = record.get("regime_decided", record.get("regime"))
    if not isinstance(name, str) or name.upper() not in Regime.__members__:
        raise PolicyError(f"step {step}: regime must be one of {', '.join(Regime.__members__)}, got {name!r}")
    layers: object = record["layers"]
    if not isinstance(layers, list | tuple):
        raise PolicyError(f"step {step}: layers must be a list, got {type(layers).__name__}")
    state = _RecordedState(
        layers=tuple(_layer(layer, step) for layer in cast("Sequence[object]", layers)),
        stability_proxy=_number(record, "stability", step),
        mean_amplitude=_number(record, "mean_amplitude", step),
        pac_max=_number(record, "pac_max", step),
        subcritical_fraction=_number(record, "subcritical_fraction", step),
        boundary_violation_count=_number(record, "boundary_violation_count", step),
        imprint_mean=_number(record, "imprint_mean", step),
    )
    return step, Regime[name.upper()], state


def _layer(layer: object, step: int) -> _RecordedLayer:
    if not isinstance(layer, Mapping) or "R" not in layer:
        raise PolicyError(f"step {step}: each of layers must be a mapping with 'R', got {layer!r}")
    entry = cast("Mapping[str, Any]", layer)
    coherence = _number(entry, "R", step)
    if coherence is None:
        raise PolicyError(f"step {step}: R of a layer must be a finite number, got null")
    return _RecordedLayer(coherence, _number(entry, "mean_amplitude", step), _number(entry, "amplitude_spread", step))


def _number(record: Mapping[str, Any], key: str, step: int) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PolicyError(f"step {step}: {key} must be a finite number, got {value!r}")
    return float(value)
