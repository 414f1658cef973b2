"""Formal exports: run by small readers of each language and compared with what they were exported from."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec, ProtocolNetSpec, ProtocolTransitionSpec
from scpn_phase_orchestrator.monitor.stl import Formula, format_stl, robustness
from scpn_phase_orchestrator.supervisor._formal_model import Names, Reading, formal_net, formal_policy
from scpn_phase_orchestrator.supervisor._formal_prism import net_as_prism, policy_as_prism
from scpn_phase_orchestrator.supervisor._formal_smt import monitors_as_smt, policy_as_smt, smt_real
from scpn_phase_orchestrator.supervisor._formal_tla import net_as_tla, policy_as_tla
from scpn_phase_orchestrator.supervisor.formal_export import (
    EXPORT_KINDS,
    checker_readiness,
    export_formal,
    formal_export_package,
)
from scpn_phase_orchestrator.supervisor.petri_net import Arc, Guard, Marking, PetriNet, Place, Transition
from scpn_phase_orchestrator.supervisor.policy_rules import (
    PolicyAction,
    PolicyCondition,
    PolicyDocument,
    PolicyEngine,
    PolicyRule,
    StlMonitor,
)
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK, Regime
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState

from ._checkers import PrismModel, SmtScript, TlaModule
from .test_stl import formulas, traces

OPERATORS = (">", ">=", "<", "<=", "==")
awkward = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(
    ["a b", "a_b", "a-b", 'x"\n]endmodule', "module", "R", "ä", "*)", "\\* x", "; (exit)"]
)
constants = st.sampled_from([0.25, 0.5, 0.75, -1.0])


@st.composite
def nets(draw: st.DrawFn) -> tuple[PetriNet, Marking]:
    names = draw(st.lists(awkward, min_size=1, max_size=3, unique=True))
    arcs = st.lists(st.builds(Arc, st.sampled_from(names), st.integers(1, 2)), max_size=2)
    guards = st.none() | st.builds(Guard, st.sampled_from(["R_0", "load"]), st.sampled_from(OPERATORS), constants)
    titles = draw(st.lists(awkward, max_size=3, unique=True))
    transitions = [Transition(title, draw(arcs), draw(arcs), draw(guards)) for title in titles]
    marking = Marking(draw(st.dictionaries(st.sampled_from(names), st.integers(0, 2))))
    return PetriNet([Place(name) for name in names], transitions), marking


readings = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "R_0": st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.6, 0.75, 0.9, 1.0]),
            "load": st.sampled_from([-2.0, -1.0, 0.0, 0.25, 0.4, 0.5, 0.75, 3.0]),
        },
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@given(nets(), readings)
def test_the_prism_net_moves_as_the_net_does(case: tuple[PetriNet, Marking], ticks: list[dict[str, float]]) -> None:
    net, marking = case
    formal = formal_net(net, marking, {}, max_tokens=3)
    model = PrismModel(net_as_prism(formal, "spo_petri"))
    state = model.start()
    identifiers = {one.transition.name: one.identifier for one in formal.transitions}
    for ctx in ticks:
        choice = {reading.identifier: reading.region_of(ctx.get(reading.metric)) for reading in formal.readings}
        state = model.act("observe", state, choice)
        expected, fired = net.step(marking, ctx)
        action = "idle" if fired is None else identifiers[fired.name]
        if fired is not None and max(expected.tokens.values(), default=0) > 3:
            action, expected = "full", marking
        assert model.enabled(state) == {action}
        state = model.act(action, state)
        marking = expected
        assert {name: state[identifier] for name, identifier in formal.places.items()} == {
            name: marking[name] for name in formal.places
        }
        assert state["overflow"] == (action == "full" or state["overflow"])


@settings(max_examples=60)
@given(nets(), readings)
def test_the_tla_net_moves_as_the_net_does(case: tuple[PetriNet, Marking], ticks: list[dict[str, float]]) -> None:
    net, marking = case
    formal = formal_net(net, marking, {}, max_tokens=3)
    module = TlaModule(net_as_tla(formal, "spo_petri"))
    for action in module.operators["Next"][0].split(" \\/ "):
        assert module.moves(action) == set(module.variables)
    for ctx in ticks:
        state: dict[str, Any] = {identifier: marking[name] for name, identifier in formal.places.items()}
        state |= {reading.identifier: reading.region_of(ctx.get(reading.metric)) for reading in formal.readings}
        chosen = [
            one.transition.name
            for one in formal.transitions
            if module.value(f"Enabled_{one.identifier} /\\ ~(Earlier_{one.identifier})", state)
        ]
        _, fired = net.step(marking, ctx)
        assert chosen == ([] if fired is None else [fired.name])
        assert module.value("SomeEnabled", state) == (fired is not None)


@settings(max_examples=60)
@given(nets())
def test_every_transition_and_guard_is_in_the_export(case: tuple[PetriNet, Marking]) -> None:
    net, marking = case
    formal = formal_net(net, marking, {}, max_tokens=3)
    prism, tla = net_as_prism(formal, "m"), net_as_tla(formal, "m")
    assert len(re.findall(r"^  \[t_", prism, re.MULTILINE)) == len(net.transitions)
    assert len(re.findall(r"^Fire_t_", tla, re.MULTILINE)) == len(net.transitions)
    for transition in net.transitions:
        if transition.guard is not None:
            shown = f"guard {transition.guard.metric} {transition.guard.op} {transition.guard.threshold!r}"
            assert shown in prism
            assert shown in tla


@given(st.lists(awkward, max_size=20))
def test_different_things_get_different_plain_identifiers(texts: list[str]) -> None:
    names = Names()
    given_names = [names.give("p", text) for text in texts]
    assert len(set(given_names)) == len(texts)
    assert all(re.fullmatch(r"p_[A-Za-z0-9_]+", name) for name in given_names)


@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=4, unique=True), st.sampled_from(OPERATORS), st.floats(-3, 3),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip
def test_regions_lose_nothing(thresholds: list[float], op: str, value: float, which: int, at_threshold: bool) -> None:
    ordered = tuple(sorted({threshold + 0.0 for threshold in thresholds}))
    threshold = ordered[which % len(ordered)]
    reading = Reading("x", "m_x", ordered, (-float("inf"), float("inf")), may_be_absent=True)
    probe = threshold if at_threshold else value
    region = reading.region_of(probe)
    compare = {
        "=": lambda a, b: a == b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    }  # fmt: skip
    abstract = all(compare[sign](region, limit) for sign, limit in reading.comparisons(op, threshold))
    assert abstract == Guard("x", op, threshold).evaluate({"x": probe})
    assert region in reading.regions
    assert not all(compare[sign](0, limit) for sign, limit in reading.comparisons(op, threshold))


def test_regions_outside_the_range_of_an_order_parameter_do_not_occur() -> None:
    reading = Reading("R_0", "m", (0.0, 0.5, 1.0, 1.5), (0.0, 1.0), may_be_absent=False)
    assert reading.regions == (2, 3, 4, 5, 6)


@pytest.mark.parametrize("name", ["", "1a", "a b", "module", "MODULE", "p_a", "Integers", "x" * 65, "a\nb"])
def test_a_module_name_that_a_language_would_refuse_is_refused(name: str) -> None:
    net = formal_net(PetriNet([Place("a")], []), Marking(), {})
    for write in (net_as_prism, net_as_tla):
        with pytest.raises(ValueError, match="module name must match"):
            write(net, name)


def test_a_bound_below_the_start_is_refused() -> None:
    with pytest.raises(ValueError, match="place 'a' starts with 5 tokens, max_tokens is 4"):
        formal_net(PetriNet([Place("a")], []), Marking({"a": 5}), {}, max_tokens=4)
    with pytest.raises(ValueError, match="max_tokens must be an integer >= 1"):
        formal_net(PetriNet([Place("a")], []), Marking(), {}, max_tokens=0)


# --- rules ----------------------------------------------------------------------------------------------------

LAYERS, GOOD, BAD = [3, 7], [7], [3]


@st.composite
def rule_sets(draw: st.DrawFn) -> list[PolicyRule]:
    conditions = st.one_of(
        st.builds(PolicyCondition, st.sampled_from(["stability_proxy", "pac_max", "nothing"]),
                  st.sampled_from(OPERATORS), st.sampled_from([0.25, 0.5, 0.75])),
        st.builds(PolicyCondition, st.sampled_from(["R", "R_good", "R_bad"]), st.sampled_from(OPERATORS),
                  st.sampled_from([0.25, 0.5, 0.75]), st.sampled_from([0, 1, 3, 7])),
        st.builds(PolicyCondition, st.sampled_from(["R", "R_good"]), st.sampled_from(OPERATORS), st.just(0.5)),
    )  # fmt: skip
    actions = st.builds(PolicyAction, st.sampled_from(["K", "zeta"]), st.sampled_from(["global", "layer_3"]),
                        st.just(0.1), st.just(1.0))  # fmt: skip
    titles = draw(st.lists(awkward, min_size=1, max_size=3, unique=True))
    return [
        PolicyRule(
            title,
            draw(st.lists(st.sampled_from(list(Regime)), min_size=1, max_size=4, unique=True)),
            draw(st.lists(conditions, min_size=1, max_size=3)),
            draw(st.lists(actions, min_size=1, max_size=2)),
            draw(st.sampled_from(["AND", "OR"])),
            draw(st.sampled_from([0.0, 0.2, 0.3, 0.5])),
            draw(st.sampled_from([0, 1, 2])),
        )
        for title in titles
    ]


levels = st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0])
decisions = st.lists(st.tuples(st.sampled_from(list(Regime)), levels, levels, levels), min_size=1, max_size=8)


def exported(rules: list[PolicyRule]) -> Any:
    return formal_policy(rules, layer_indices=LAYERS, good_layers=GOOD, bad_layers=BAD, control_period_s=0.1)


def observed(r_3: float, r_7: float, pac: float) -> tuple[UPDEState, dict[str, float]]:
    layers = [LayerState(R=r_3, psi=0.0), LayerState(R=r_7, psi=0.0)]
    stability = (r_3 + r_7) / 2
    state = UPDEState(layers, [], stability, "nominal", pac_max=pac)  # type: ignore[arg-type]
    return state, {"R_3": r_3, "R_7": r_7, "R_good": r_7, "pac_max": pac, "stability_proxy": stability}


@settings(max_examples=60)
@given(rule_sets(), decisions)
def test_the_exported_rules_fire_as_the_rules_do(rules: list[PolicyRule], ticks: Sequence[Any]) -> None:
    policy = exported(rules)
    model = PrismModel(policy_as_prism(policy, "rules"))
    module = TlaModule(policy_as_tla(policy, "rules"))
    for action in ("Observe", "Decide"):
        assert module.moves(action) == set(module.variables)
    engine = PolicyEngine(rules, layer_indices=LAYERS)
    state = model.start()
    for regime, r_3, r_7, pac in ticks:
        upde, values = observed(r_3, r_7, pac)
        choice = {reading.identifier: reading.region_of(values[reading.metric]) for reading in policy.readings}
        state = model.act("observe", state, {**choice, "regime": REGIME_RANK[regime]})
        by_tla = {rule.identifier for rule in policy.rules if module.value(f"Fires_{rule.identifier}", state)}
        state = model.act("decide", state)
        fired = {rule.name for rule in engine.fire(regime, upde, GOOD, BAD)}
        engine.advance_clock(0.1)
        assert {rule.rule.name for rule in policy.rules if state[f"fired_{rule.identifier}"]} == fired
        assert {rule.rule.name for rule in policy.rules if rule.identifier in by_tla} == fired
        assert model.value(model.labels["overlap"], state) == (len(fired) > 1)


@settings(max_examples=60)
@given(rule_sets(), decisions)
def test_the_smt_rules_fire_as_the_rules_do(rules: list[PolicyRule], ticks: Sequence[Any]) -> None:
    free = [PolicyRule(rule.name, rule.regimes, rule.conditions, rule.actions, rule.logic) for rule in rules]
    policy = exported(free)
    script = SmtScript(policy_as_smt(policy))
    engine = PolicyEngine(free, layer_indices=LAYERS)
    for regime, r_3, r_7, pac in ticks:
        upde, values = observed(r_3, r_7, pac)
        model: dict[str, Any] = {f"regime_{other.value}": other is regime for other in Regime}
        model |= {reading.identifier: values[reading.metric] for reading in policy.readings}
        assert all(script.value(assertion, model) for assertion in script.assertions)
        fired = {rule.name for rule in engine.fire(regime, upde, GOOD, BAD)}
        found = {rule.rule.name for rule in policy.rules if script.value(f"fires_{rule.identifier}", model)}
        assert found == fired
    assert len([label for label in script.questions if label.startswith("can fire")]) == len(rules)


def test_two_rules_that_turn_one_knob_are_asked_about() -> None:
    condition = PolicyCondition("stability_proxy", "<", 0.5)
    action = PolicyAction("K", "global", 0.1, 1.0)
    rules = [PolicyRule(name, [Regime.NOMINAL], [condition], [action]) for name in ("up", "down")]
    policy = exported(rules)
    assert "collision_K_global: r_up with r_down" in SmtScript(policy_as_smt(policy)).questions
    assert "collision_K_global" in PrismModel(policy_as_prism(policy, "m")).labels
    assert "collision_K_global" in TlaModule(policy_as_tla(policy, "m")).operators


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1.0"), (-0.5, "(- 0.5)"), (1e-7, "0.0000001"), (1e22, "1" + "0" * 22 + ".0")]
)
def test_reals_are_written_without_exponents(value: float, text: str) -> None:
    assert smt_real(value) == text


# --- monitors -------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(formulas, traces)
def test_an_unrolled_monitor_is_true_where_the_formula_holds(formula: Formula, trace: dict[str, list[float]]) -> None:
    script = SmtScript(monitors_as_smt([StlMonitor("m", format_stl(formula))]))
    names = {name: re.sub(r"_\d+$", "", name) for name in script.constants}
    length = 1 + max(int(name.rsplit("_", 1)[1]) for name in script.constants)
    metrics = {"x_x": "x", "x_y_1": "y_1"}
    extended = {metric: [values[i % len(values)] for i in range(length)] for metric, values in trace.items()}
    model = {name: extended[metrics[names[name]]][int(name.rsplit("_", 1)[1])] for name in script.constants}
    value = robustness(formula, extended)
    if value > 0:
        assert script.value("stl_m", model)
    if value < 0:
        assert not script.value("stl_m", model)


def test_monitors_are_asked_whether_they_can_hold_and_fail() -> None:
    script = SmtScript(monitors_as_smt([StlMonitor("floor", "always[0:3] R_0 > 0.3", "hard")]))
    assert set(script.questions) == {"can hold: stl_floor", "can fail: stl_floor"}


def test_a_malformed_monitor_is_refused_with_its_name() -> None:
    with pytest.raises(ValueError, match="STL monitor 'floor': malformed STL formula"):
        monitors_as_smt([StlMonitor("floor", "R_0 >")])
    with pytest.raises(ValueError, match="there are no STL monitors"):
        monitors_as_smt([])


@pytest.mark.parametrize("spec", ["always[0:99999999] x > 1", "always[0:400] eventually[0:400] x > 1"])
def test_a_monitor_that_unrolls_to_too_much_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="unroll to more than 50000 parts"):
        monitors_as_smt([StlMonitor("m", spec)])


# --- package --------------------------------------------------------------------------------------------------


@pytest.fixture
def spec(s1_path: Path) -> BindingSpec:
    spec = load_binding_spec(s1_path)
    spec.protocol_net = ProtocolNetSpec(
        places=["starting", "steady"],
        initial={"starting": 1},
        place_regime={"starting": "DEGRADED", "steady": "NOMINAL"},
        transitions=[ProtocolTransitionSpec("settle", [{"place": "starting"}], [{"place": "steady"}], "R_0 > 0.7")],
    )
    return spec


DOCUMENT = PolicyDocument(
    rules=(
        PolicyRule(
            "boost", [Regime.DEGRADED], [PolicyCondition("R", "<", 0.5, 0)], [PolicyAction("K", "global", 0.1, 5.0)]
        ),
    ),
    stl_monitors=(StlMonitor("floor", "always[0:5] R_0 > 0.2"),),
)


def test_the_package_holds_everything_with_hashes(spec: BindingSpec) -> None:
    package = formal_export_package(spec, DOCUMENT, readiness=checker_readiness())
    assert [artifact["kind"] for artifact in package["artifacts"]] == list(EXPORT_KINDS)
    hashed = {key: value for key, value in package.items() if key not in ("package_hash", "checker_readiness")}
    assert package["package_hash"] == ASCII.hash(hashed)
    assert package["package_hash"] == formal_export_package(spec, DOCUMENT)["package_hash"]
    json.dumps(package, allow_nan=False)


def test_the_regime_of_the_prism_net_follows_its_places(spec: BindingSpec) -> None:
    model = PrismModel(export_formal("protocol", spec).text)
    state = model.start()
    assert model.value(model.labels["degraded"], state)
    state = model.act("observe", state, {"m_R_0": 3})
    state = model.act("t_settle", state)
    assert model.value(model.labels["nominal"], state)


def test_a_package_says_what_it_could_not_export(spec: BindingSpec) -> None:
    package = formal_export_package(spec)
    assert [artifact["kind"] for artifact in package["artifacts"]] == ["protocol", "protocol-tla"]
    assert set(package["unavailable"]) == {"policy", "policy-tla", "policy-smt", "stl"}
    spec.protocol_net = None
    with pytest.raises(ValueError, match="nothing to export"):
        formal_export_package(spec)


def test_readiness_is_about_executable_files(tmp_path: Path) -> None:
    prism, broken = tmp_path / "prism", tmp_path / "z3"
    prism.write_text("#!/bin/sh\n")
    prism.chmod(0o755)
    broken.write_text("no program")
    found = {checker.executable: checker.available for checker in checker_readiness({"prism": prism, "z3": broken})}
    assert found["prism"] is True
    assert found["z3"] is False
    with pytest.raises(ValueError, match=r"unknown checkers \['spin'\]"):
        checker_readiness({"spin": prism})
