"""PRISM models (Markov decision processes without probabilities) of nets and rules."""

from __future__ import annotations

from collections.abc import Iterable

from scpn_phase_orchestrator.supervisor._formal_model import (
    FormalCondition,
    FormalNet,
    FormalPolicy,
    FormalRule,
    FormalTransition,
    Reading,
    check_module_name,
    quoted,
)
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK

__all__ = ["net_as_prism", "policy_as_prism"]


def _all(parts: Iterable[str]) -> str:
    return " & ".join(parts) or "true"


def _any(parts: Iterable[str]) -> str:
    return " | ".join(parts) or "false"


def _compared(reading: Reading, op: str, threshold: float) -> str:
    return _all(f"{reading.identifier}{sign}{region}" for sign, region in reading.comparisons(op, threshold))


def _update(parts: Iterable[tuple[str, str]]) -> str:
    return " & ".join(f"({variable}'={value})" for variable, value in parts)


def _reading_module(reading: Reading) -> list[str]:
    regions = reading.regions
    constants = ", ".join(repr(threshold) for threshold in reading.thresholds)
    return [
        f"// {quoted(reading.metric)}: regions between {constants}"
        + (", 0: no value" if reading.may_be_absent else ""),
        f"module reading_{reading.identifier}",
        f"  {reading.identifier} : [{regions[0]}..{regions[-1]}] init {regions[0]};",
        *(f"  [observe] true -> ({reading.identifier}'={region});" for region in regions),
        "endmodule",
        "",
    ]


def _header(title: str) -> list[str]:
    return [
        f"// {title}",
        "// Exported for review. Readings are abstracted exactly to the regions between the constants they meet.",
        "mdp",
        "",
    ]


def _guard(one: FormalTransition) -> str:
    return "true" if one.guard is None else _compared(*one.guard)


def net_as_prism(net: FormalNet, module_name: str) -> str:
    """Write a net: in every tick readings change at will, then the first enabled transition fires.

    A transition that would break the bound of a place does not fire; the label ``overflow`` says that one had to, so
    that the bound is too small.

    Raises:
        PolicyError: the module name is none.
    """
    name = check_module_name(module_name)
    lines = _header("Petri net: at most one transition fires per tick, the first enabled one")
    lines += [f"const int MAX_TOKENS = {net.max_tokens};", ""]
    earlier = "false"
    for one in net.transitions:
        identifier = one.identifier
        guard = one.transition.guard
        if guard is not None:
            lines.append(
                f"// transition {quoted(one.transition.name)}, guard {guard.metric} {guard.op} {guard.threshold!r}"
            )
        else:
            lines.append(f"// transition {quoted(one.transition.name)}")
        enabled = _all([*(f"{place}>={need}" for place, need in one.needs), f"({_guard(one)})"])
        fits = _all(f"{place}+{change}<=MAX_TOKENS" for place, change in one.changes if change > 0)
        lines += [
            f"formula enabled_{identifier} = {enabled};",
            f"formula earlier_{identifier} = {earlier};",
            f"formula fits_{identifier} = {fits};",
        ]
        earlier = f"earlier_{identifier} | enabled_{identifier}"
    lines += [f"formula some_enabled = {earlier};", "", f"module {name}"]
    lines += ["  phase : [0..1] init 0; // 0: readings change, 1: the net moves", "  overflow : bool init false;"]
    for place, identifier in net.places.items():
        lines.append(f"  {identifier} : [0..MAX_TOKENS] init {net.initial[identifier]}; // place {quoted(place)}")
    lines += ["", "  [observe] phase=0 -> (phase'=1);"]
    for one in net.transitions:
        identifier = one.identifier
        chosen = f"phase=1 & enabled_{identifier} & !earlier_{identifier}"
        moves = [("phase", "0"), *((place, f"{place}{change:+d}") for place, change in one.changes)]
        lines.append(f"  [{identifier}] {chosen} & fits_{identifier} -> {_update(moves)};")
        lines.append(f"  [full] {chosen} & !fits_{identifier} -> (phase'=0) & (overflow'=true);")
    lines += ["  [idle] phase=1 & !some_enabled -> (phase'=0);", "endmodule", ""]
    for reading in net.readings:
        lines += _reading_module(reading)
    lines += _regime_lines(net)
    return "\n".join(lines) + "\n"


def _regime_lines(net: FormalNet) -> list[str]:
    expression = "0"
    for rank in sorted(set(net.regimes.values())):
        marked = _any(f"{place}>0" for place, place_rank in net.regimes.items() if place_rank == rank)
        expression = f"(({marked}) ? {rank} : {expression})"
    labels = [f'label "{regime.value}" = regime={rank};' for regime, rank in REGIME_RANK.items()]
    return [f"formula regime = {expression};", *labels, 'label "overflow" = overflow;']


def _condition(condition: FormalCondition) -> str:
    if condition.reading is None:
        return "false"
    return f"({_compared(condition.reading, condition.condition.op, condition.threshold)})"


def _rule_module(rule: FormalRule) -> list[str]:
    name, limit = rule.identifier, rule.rule.max_fires
    declared = [f"  fired_{name} : bool init false;"]
    fires, rests = [(f"fired_{name}", "true")], [(f"fired_{name}", "false")]
    if rule.wait_ticks:
        declared.append(f"  wait_{name} : [0..{rule.wait_ticks}] init 0;")
        fires.append((f"wait_{name}", str(rule.wait_ticks)))
        rests.append((f"wait_{name}", f"max(0, wait_{name}-1)"))
    if limit:
        declared.append(f"  count_{name} : [0..{limit}] init 0;")
        fires.append((f"count_{name}", f"count_{name}+1"))
    return [
        f"module rule_{name}",
        *declared,
        f"  [decide] fires_{name} -> {_update(fires)};",
        f"  [decide] !fires_{name} -> {_update(rests)};",
        "endmodule",
        "",
    ]


def policy_as_prism(policy: FormalPolicy, module_name: str) -> str:
    """Write rules: in every tick regime and readings change at will, then every rule that may fire does.

    The labels ``fired_<rule>``, ``overlap`` and ``collision_<knob>_<scope>`` name what a reviewer asks for.

    Raises:
        PolicyError: the module name is none.
    """
    name = check_module_name(module_name)
    lines = _header("Policy rules: every rule that may fire does, once per tick")
    for rule in policy.rules:
        joined = f" {rule.rule.logic} ".join(condition.text() for condition in rule.conditions)
        parts = [_condition(condition) for condition in rule.conditions]
        holds = _all(parts) if rule.rule.logic == "AND" else _any(parts)
        may = [f"({_any(f'regime={rank}' for rank in rule.regime_ranks)})", f"holds_{rule.identifier}"]
        may += [f"wait_{rule.identifier}=0"] if rule.wait_ticks else []
        may += [f"count_{rule.identifier}<{rule.rule.max_fires}"] if rule.rule.max_fires else []
        lines += [
            f"// rule {quoted(rule.rule.name)}: {quoted(joined)}",
            f"formula holds_{rule.identifier} = {holds};",
            f"formula fires_{rule.identifier} = {_all(may)};",
        ]
    lines += ["", f"module {name}", "  phase : [0..1] init 0; // 0: regime and readings change, 1: the rules decide"]
    lines += ["  regime : [0..3] init 0; // 0 nominal, 1 degraded, 2 recovery, 3 critical"]
    lines += [f"  [observe] phase=0 -> (phase'=1) & (regime'={rank});" for rank in sorted(REGIME_RANK.values())]
    lines += ["  [decide] phase=1 -> (phase'=0);", "endmodule", ""]
    for reading in policy.readings:
        lines += _reading_module(reading)
    for rule in policy.rules:
        lines += _rule_module(rule)
    lines += [f'label "fired_{rule.identifier}" = fired_{rule.identifier};' for rule in policy.rules]
    fired = " + ".join(f"(fired_{rule.identifier} ? 1 : 0)" for rule in policy.rules)
    lines.append(f'label "overlap" = ({fired})>=2;')
    for target, counts in policy.targets.items():
        total = " + ".join(f"(fired_{rule} ? {count} : 0)" for rule, count in counts.items())
        lines.append(f'label "{target}" = ({total})>=2;')
    return "\n".join(lines) + "\n"
