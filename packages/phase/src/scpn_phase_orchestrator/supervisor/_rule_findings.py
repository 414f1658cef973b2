"""Conditions of rules that can never hold, and actions without a layer, on their own or beside a certain spec."""

from __future__ import annotations

from scpn_phase_orchestrator.binding._descriptors import nearest
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.supervisor._rule_metrics import METRICS, needs_layer
from scpn_phase_orchestrator.supervisor._rule_model import PolicyCondition, PolicyDocument

__all__ = ["dead_conditions", "unknown_scopes", "unreadable_metric"]

_SHARES = frozenset({"R", "R_good", "R_bad", "stability_proxy", "subcritical_fraction"})
"""Metrics that lie in [0, 1]."""
_NEEDS_AMPLITUDES = frozenset(
    {"mean_amplitude", "pac_max", "subcritical_fraction", "amplitude_spread", "mean_amplitude_layer"}
)


def unreadable_metric(condition: PolicyCondition) -> str | None:
    """Why the metric of a condition has no value in any spec; None when it can have one."""
    if condition.metric not in METRICS:
        near = nearest(condition.metric, METRICS)
        return f"metric '{condition.metric}' does not exist" + (f" (did you mean '{near}'?)" if near else "")
    if needs_layer(condition.metric) and condition.layer is None:
        return f"metric '{condition.metric}' needs a layer"
    return None


def dead_conditions(document: PolicyDocument, spec: BindingSpec) -> list[str]:
    """Say which conditions of a rule file can never hold beside a spec.

    Returns:
        One sentence each, with the file, the rule, and the line where the document knows it.
    """
    findings: list[str] = []
    for position, rule in enumerate(document.rules):
        for number, condition in enumerate(rule.conditions):
            why = unreadable_metric(condition) or _no_such_layer(condition, spec) or _out_of_range(condition, spec)
            if why is not None:
                place = _place(document, position, "condition", number)
                findings.append(f"{place[0]}a condition of rule '{rule.name}' never holds: {why}{place[1]}")
    return findings


def unknown_scopes(document: PolicyDocument, spec: BindingSpec) -> list[str]:
    """Say which actions of a rule file name a layer that a spec does not have; such rules are refused by a run.

    Returns:
        As `dead_conditions`.
    """
    scopes = {"global", *(f"layer_{layer.index}" for layer in spec.layers)}
    findings: list[str] = []
    for position, rule in enumerate(document.rules):
        for number, action in enumerate(rule.actions):
            if action.scope not in scopes:
                place = _place(document, position, "action", number)
                findings.append(
                    f"{place[0]}rule '{rule.name}' acts on scope '{action.scope}', which is no layer "
                    f"({_declared(spec)}){place[1]}"
                )
    return findings


def _no_such_layer(condition: PolicyCondition, spec: BindingSpec) -> str | None:
    metric, layer = condition.metric, condition.layer
    if needs_layer(metric):
        known = layer in {one.index for one in spec.layers}
        return None if known else f"layer {layer} of metric '{metric}' does not exist ({_declared(spec)})"
    if metric not in {"R_good", "R_bad"}:
        return None
    side = metric.removeprefix("R_")
    count = len(spec.objectives.good_layers if side == "good" else spec.objectives.bad_layers)
    if count == 0:
        return f"metric '{metric}' has no value: no layer is {side}"
    if layer is not None and layer >= count:
        return (
            f"layer {layer} of metric '{metric}' does not exist: it is the position among the {side} layers, "
            f"0 to {count - 1}"
        )
    return None


def _out_of_range(condition: PolicyCondition, spec: BindingSpec) -> str | None:
    low, high = 0.0, float("inf")
    why = ""
    if condition.metric in _NEEDS_AMPLITUDES and spec.amplitude is None:
        high, why = 0.0, " without a block 'amplitude'"
    elif condition.metric == "imprint_mean" and spec.imprint_model is None:
        high, why = 0.0, " without a block 'imprint_model'"
    elif condition.metric in _SHARES:
        high = 1.0
    can_hold = {
        ">": high > condition.threshold,
        ">=": high >= condition.threshold,
        "<": low < condition.threshold,
        "<=": low <= condition.threshold,
        "==": low <= condition.threshold <= high,
    }
    if can_hold[condition.op] or (not why and condition.metric not in _SHARES):
        return None
    span = f"is always {low:g}" if high == low else f"lies between {low:g} and {high:g}"
    return f"metric '{condition.metric}' {span}{why}, never {condition.op} {condition.threshold:g}"


def _declared(spec: BindingSpec) -> str:
    return f"declared indices: {', '.join(str(layer.index) for layer in spec.layers)}"


def _place(document: PolicyDocument, position: int, part: str, number: int) -> tuple[str, str]:
    """File and line of a part, as the begin and the end of a sentence; a single part stands under a singular key."""
    paths = (f"rules[{position}].{part}s[{number}]", f"rules[{position}].{part}", f"rules[{position}]")
    line = next((document.lines[path] for path in paths if path in document.lines), 0)
    return (f"{document.source}: " if document.source else "", f" (line {line})" if line else "")
