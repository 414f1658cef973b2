"""TLA+ modules of nets and rules, finite, so that TLC can enumerate them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scpn_phase_orchestrator.supervisor._formal_model import (
    FormalCondition,
    FormalNet,
    FormalPolicy,
    FormalRule,
    Reading,
    check_module_name,
    quoted,
)

__all__ = ["net_as_tla", "policy_as_tla"]


def _all(parts: Iterable[str]) -> str:
    return " /\\ ".join(parts) or "TRUE"


def _any(parts: Iterable[str]) -> str:
    return " \\/ ".join(parts) or "FALSE"


def _compared(reading: Reading, op: str, threshold: float) -> str:
    return _all(f"{reading.identifier} {sign} {region}" for sign, region in reading.comparisons(op, threshold))


def _conjunction(name: str, parts: Sequence[str]) -> list[str]:
    return [f"{name} ==", *(f"  /\\ {part}" for part in parts), ""]


def _unchanged(variables: Sequence[str]) -> list[str]:
    return [f"UNCHANGED <<{', '.join(variables)}>>"] if variables else []


def _regions(reading: Reading) -> str:
    return "{" + ", ".join(str(region) for region in reading.regions) + "}"


def _begin(module_name: str, title: str, variables: Sequence[str], readings: Sequence[Reading]) -> list[str]:
    lines = [f"---- MODULE {check_module_name(module_name)} ----", "EXTENDS Integers", "", f"\\* {title}"]
    lines.append("\\* Exported for review. Readings are abstracted exactly to the regions between their constants.")
    for reading in readings:
        constants = ", ".join(repr(threshold) for threshold in reading.thresholds)
        absent = ", 0: no value" if reading.may_be_absent else ""
        lines.append(f"\\* {reading.identifier}: {quoted(reading.metric)}, regions between {constants}{absent}")
    names = ", ".join(variables)
    return [*lines, "", f"VARIABLES {names}", f"vars == <<{names}>>", ""]


def _end(actions: Sequence[str]) -> list[str]:
    return [f"Next == {_any(actions)}", "", "Spec == Init /\\ [][Next]_vars", ""]


_LINE = "===="


def net_as_tla(net: FormalNet, module_name: str) -> str:
    """Write a net; see `net_as_prism` for its meaning. `NoOverflow` is the invariant that the bound is large enough.

    Raises:
        PolicyError: the module name is none.
    """
    places = list(net.places.values())
    readings = [reading.identifier for reading in net.readings]
    variables = ["phase", "overflow", *places, *readings]
    lines = _begin(
        module_name, "Petri net: at most one transition fires per tick, the first enabled one", variables, net.readings
    )
    lines += [f"\\* {identifier}: place {quoted(name)}" for name, identifier in net.places.items()]
    lines += [f"MaxTokens == {net.max_tokens}", ""]
    types = ["phase \\in 0..1", "overflow \\in BOOLEAN", *(f"{place} \\in 0..MaxTokens" for place in places)]
    lines += _conjunction("TypeOK", [*types, *(f"{one.identifier} \\in {_regions(one)}" for one in net.readings)])
    start = ["phase = 0", "overflow = FALSE", *(f"{place} = {net.initial[place]}" for place in places)]
    lines += _conjunction("Init", [*start, *(f"{one.identifier} = {one.regions[0]}" for one in net.readings)])
    earlier = "FALSE"
    for one in net.transitions:
        guard = one.transition.guard
        shown = "" if guard is None else f", guard {guard.metric} {guard.op} {guard.threshold!r}"
        enabled = _all(
            [
                *(f"{place} >= {need}" for place, need in one.needs),
                "TRUE" if one.guard is None else f"({_compared(*one.guard)})",
            ]
        )
        fits = _all(f"{place} + {change} <= MaxTokens" for place, change in one.changes if change > 0)
        lines += [
            f"\\* transition {quoted(one.transition.name)}{shown}",
            f"Enabled_{one.identifier} == {enabled}",
            f"Earlier_{one.identifier} == {earlier}",
            f"Fits_{one.identifier} == {fits}",
            "",
        ]
        earlier = f"Earlier_{one.identifier} \\/ Enabled_{one.identifier}"
    lines += [f"SomeEnabled == {earlier}", ""]
    observed = [f"{one.identifier}' \\in {_regions(one)}" for one in net.readings]
    lines += _conjunction("Observe", ["phase = 0", "phase' = 1", *observed, *_unchanged(["overflow", *places])])
    actions = ["Observe"]
    for one in net.transitions:
        chosen = ["phase = 1", f"Enabled_{one.identifier}", f"~(Earlier_{one.identifier})"]
        changed = {place for place, _ in one.changes}
        still = ["overflow", *(place for place in places if place not in changed), *readings]
        moves = [f"{place}' = {place} {'+' if change > 0 else '-'} {abs(change)}" for place, change in one.changes]
        lines += _conjunction(
            f"Fire_{one.identifier}", [*chosen, f"Fits_{one.identifier}", "phase' = 0", *moves, *_unchanged(still)]
        )
        lines += _conjunction(
            f"Full_{one.identifier}",
            [*chosen, f"~(Fits_{one.identifier})", "phase' = 0", "overflow' = TRUE", *_unchanged([*places, *readings])],
        )
        actions += [f"Fire_{one.identifier}", f"Full_{one.identifier}"]
    lines += _conjunction(
        "Idle", ["phase = 1", "~SomeEnabled", "phase' = 0", *_unchanged(["overflow", *places, *readings])]
    )
    lines += _end([*actions, "Idle"])
    lines += [f"Regime == {_regime(net)}", "", "NoOverflow == ~overflow", "", _LINE]
    return "\n".join(lines) + "\n"


def _regime(net: FormalNet) -> str:
    expression = "0"
    for rank in sorted(set(net.regimes.values())):
        marked = _any(f"{place} > 0" for place, place_rank in net.regimes.items() if place_rank == rank)
        expression = f"IF {marked} THEN {rank} ELSE {expression}"
    return expression


def _condition(condition: FormalCondition) -> str:
    if condition.reading is None:
        return "FALSE"
    return f"({_compared(condition.reading, condition.condition.op, condition.threshold)})"


def _rule_variables(rule: FormalRule) -> list[str]:
    name = rule.identifier
    waits = [f"wait_{name}"] if rule.wait_ticks else []
    return [f"fired_{name}", *waits, *([f"count_{name}"] if rule.rule.max_fires else [])]


def _rule_types(rule: FormalRule) -> list[str]:
    name = rule.identifier
    types = [f"fired_{name} \\in BOOLEAN"]
    types += [f"wait_{name} \\in 0..{rule.wait_ticks}"] if rule.wait_ticks else []
    return types + ([f"count_{name} \\in 0..{rule.rule.max_fires}"] if rule.rule.max_fires else [])


def _rule_moves(rule: FormalRule) -> list[str]:
    name = rule.identifier
    moves = [f"fired_{name}' = Fires_{name}"]
    if rule.wait_ticks:
        rest = f"IF wait_{name} > 0 THEN wait_{name} - 1 ELSE 0"
        moves.append(f"wait_{name}' = IF Fires_{name} THEN {rule.wait_ticks} ELSE {rest}")
    if rule.rule.max_fires:
        moves.append(f"count_{name}' = IF Fires_{name} THEN count_{name} + 1 ELSE count_{name}")
    return moves


def policy_as_tla(policy: FormalPolicy, module_name: str) -> str:
    """Write rules; see `policy_as_prism` for their meaning. `Overlap` and the collisions are state predicates.

    Raises:
        PolicyError: the module name is none.
    """
    readings = [reading.identifier for reading in policy.readings]
    of_rules = [variable for rule in policy.rules for variable in _rule_variables(rule)]
    lines = _begin(
        module_name,
        "Policy rules: every rule that may fire does, once per tick",
        ["phase", "regime", *readings, *of_rules],
        policy.readings,
    )
    types = [
        "phase \\in 0..1",
        "regime \\in 0..3",
        *(f"{one.identifier} \\in {_regions(one)}" for one in policy.readings),
    ]
    lines += _conjunction("TypeOK", [*types, *(part for rule in policy.rules for part in _rule_types(rule))])
    start = ["phase = 0", "regime = 0", *(f"{one.identifier} = {one.regions[0]}" for one in policy.readings)]
    start += [f"{variable} = {'FALSE' if variable.startswith('fired_') else 0}" for variable in of_rules]
    lines += _conjunction("Init", start)
    for rule in policy.rules:
        joined = f" {rule.rule.logic} ".join(condition.text() for condition in rule.conditions)
        parts = [_condition(condition) for condition in rule.conditions]
        holds = _all(parts) if rule.rule.logic == "AND" else _any(parts)
        may = [f"({_any(f'regime = {rank}' for rank in rule.regime_ranks)})", f"Holds_{rule.identifier}"]
        may += [f"wait_{rule.identifier} = 0"] if rule.wait_ticks else []
        may += [f"count_{rule.identifier} < {rule.rule.max_fires}"] if rule.rule.max_fires else []
        lines += [
            f"\\* rule {quoted(rule.rule.name)}: {quoted(joined)}",
            f"Holds_{rule.identifier} == {holds}",
            f"Fires_{rule.identifier} == {_all(may)}",
            "",
        ]
    observed = ["phase = 0", "phase' = 1", "regime' \\in 0..3"]
    observed += [f"{one.identifier}' \\in {_regions(one)}" for one in policy.readings]
    lines += _conjunction("Observe", [*observed, *_unchanged(of_rules)])
    moves = [move for rule in policy.rules for move in _rule_moves(rule)]
    lines += _conjunction("Decide", ["phase = 1", "phase' = 0", *moves, *_unchanged(["regime", *readings])])
    lines += _end(["Observe", "Decide"])
    fired = " + ".join(f"(IF fired_{rule.identifier} THEN 1 ELSE 0)" for rule in policy.rules)
    lines += [f"Overlap == ({fired}) >= 2", ""]
    for target, counts in policy.targets.items():
        total = " + ".join(f"(IF fired_{rule} THEN {count} ELSE 0)" for rule, count in counts.items())
        lines += [f"{target} == ({total}) >= 2", ""]
    return "\n".join([*lines, _LINE]) + "\n"
