"""When rules fire."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.policy_rules import (
    METRICS,
    PolicyAction,
    PolicyCondition,
    PolicyEngine,
    PolicyRule,
)
from scpn_phase_orchestrator.supervisor.regimes import Regime
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState

StateOf = Callable[..., UPDEState]
ALWAYS = PolicyCondition("stability_proxy", ">=", 0.0)
NEVER = PolicyCondition("stability_proxy", "<", 0.0)
BOOST = PolicyAction("K", "global", 0.1, 5.0)


def rule(name: str = "r", *conditions: PolicyCondition, **changes: Any) -> PolicyRule:
    fields: dict[str, Any] = {"regimes": [Regime.NOMINAL], "actions": [BOOST]}
    return PolicyRule(name, **{"conditions": conditions or (ALWAYS,), **fields, **changes})


def fires(condition: PolicyCondition, state: UPDEState, good: tuple[int, ...] = (), bad: tuple[int, ...] = ()) -> bool:
    return bool(PolicyEngine([rule("r", condition)]).evaluate(Regime.NOMINAL, state, good, bad))


def test_a_firing_rule_proposes_its_actions_with_its_name(state_of: StateOf):
    calm = PolicyAction("zeta", "layer_1", -0.2, 2.0)
    engine = PolicyEngine([rule("calm the storm", actions=[BOOST, calm])])
    assert engine.evaluate(Regime.NOMINAL, state_of(0.5), [0], []) == [
        ControlAction("K", "global", 0.1, 5.0, "policy rule: calm the storm"),
        ControlAction("zeta", "layer_1", -0.2, 2.0, "policy rule: calm the storm"),
    ]


def test_a_rule_fires_in_its_regimes_only(state_of: StateOf):
    engine = PolicyEngine([rule(regimes=[Regime.DEGRADED, Regime.RECOVERY])])
    fired = [regime for regime in Regime if engine.evaluate(regime, state_of(0.5), [], [])]
    assert fired == [Regime.DEGRADED, Regime.RECOVERY]


def test_all_matching_rules_fire_in_the_order_given(state_of: StateOf):
    engine = PolicyEngine([rule("z"), rule("a", NEVER), rule("m"), rule("b")])
    assert [one.name for one in engine.fire(Regime.NOMINAL, state_of(0.5), [], [])] == ["z", "m", "b"]
    assert engine.fire_counts == {"z": 1, "a": 0, "m": 1, "b": 1}


@pytest.mark.parametrize(
    ("conditions", "logic", "is_fired"),
    [
        ((ALWAYS, ALWAYS), "AND", True),
        ((ALWAYS, NEVER), "AND", False),
        ((NEVER, ALWAYS), "AND", False),
        ((NEVER, NEVER), "OR", False),
        ((NEVER, ALWAYS), "OR", True),
        ((ALWAYS, NEVER), "OR", True),
    ],
)
def test_and_wants_all_conditions_and_or_wants_one(
    conditions: tuple[PolicyCondition, ...], logic: Any, is_fired: bool, state_of: StateOf
):
    engine = PolicyEngine([rule("r", *conditions, logic=logic)])
    assert bool(engine.evaluate(Regime.NOMINAL, state_of(0.5), [], [])) is is_fired


@given(truths=st.lists(st.booleans(), min_size=1, max_size=8), is_or=st.booleans())
def test_logic_is_that_of_any_and_all(truths: list[bool], is_or: bool):
    layer = LayerState(R=0.5, psi=0.0)
    state = UPDEState(layers=(layer,), cross_layer_alignment=np.zeros((1, 1)), stability_proxy=0.5, regime_id="nominal")
    conditions = [ALWAYS if truth else NEVER for truth in truths]
    engine = PolicyEngine([rule("r", *conditions, logic="OR" if is_or else "AND")])
    assert bool(engine.fire(Regime.NOMINAL, state, [], [])) is (any(truths) if is_or else all(truths))


def test_acceptance_12_a_good_layer_that_is_not_there_never_fires(state_of: StateOf):
    for op in (">", ">=", "<", "<=", "=="):
        assert not fires(PolicyCondition("R_good", op, 0.5, 2), state_of(0.5, 0.5, 0.5), good=(0,))


@pytest.mark.parametrize(
    "condition",
    [
        PolicyCondition("R", ">=", 0.0, 7),
        PolicyCondition("R", ">=", 0.0),
        PolicyCondition("amplitude_spread", ">=", 0.0),
        PolicyCondition("mean_amplitude_layer", ">=", 0.0, 2),
        PolicyCondition("R_bad", ">=", 0.0, 0),
        PolicyCondition("R_bad", ">=", 0.0),
        PolicyCondition("no_such_metric", ">=", 0.0, 0),
    ],
)
def test_a_metric_without_a_value_never_fires(condition: PolicyCondition, state_of: StateOf):
    assert not fires(condition, state_of(0.5, 0.6), good=(0,))


def test_a_good_layer_that_the_state_does_not_have_never_fires(state_of: StateOf):
    assert not fires(PolicyCondition("R_good", ">=", 0.0, 0), state_of(0.5), good=(4,))


def test_every_metric_is_read_from_its_place():
    layers = (
        LayerState(R=0.1, psi=0.0, mean_amplitude=0.2, amplitude_spread=0.3),
        LayerState(R=0.4, psi=0.0, mean_amplitude=0.5, amplitude_spread=0.6),
    )
    state = UPDEState(
        layers=layers,
        cross_layer_alignment=np.zeros((2, 2)),
        stability_proxy=0.25,
        regime_id="nominal",
        mean_amplitude=0.7,
        pac_max=0.8,
        subcritical_fraction=0.9,
        boundary_violation_count=3,
        imprint_mean=1.1,
    )
    values = {
        ("stability_proxy", None): 0.25,
        ("R", 1): 0.4,
        ("R_good", 0): 0.4,
        ("R_bad", 0): 0.1,
        ("pac_max", None): 0.8,
        ("mean_amplitude", None): 0.7,
        ("subcritical_fraction", None): 0.9,
        ("amplitude_spread", 0): 0.3,
        ("mean_amplitude_layer", 1): 0.5,
        ("boundary_violation_count", None): 3.0,
        ("imprint_mean", None): 1.1,
    }
    assert {metric for metric, _ in values} == METRICS
    for (metric, layer), value in values.items():
        assert fires(PolicyCondition(metric, "==", value, layer), state, good=(1,), bad=(0,)), metric


def test_without_a_layer_r_good_and_r_bad_are_means_over_their_lists(state_of: StateOf):
    state = state_of(0.25, 0.5, 0.75)
    assert fires(PolicyCondition("R_good", "==", 0.5), state, good=(0, 2))
    assert fires(PolicyCondition("R_bad", "==", 0.625), state, bad=(1, 2))
    assert not fires(PolicyCondition("R_bad", ">=", 0.0), state, bad=(1, 9))


def test_declared_indices_are_resolved_when_they_are_known(state_of: StateOf):
    rules = [
        rule("good", PolicyCondition("R_good", "==", 0.75, 0)),
        rule("layer", PolicyCondition("R", "==", 0.25, 10)),
        rule("no such layer", PolicyCondition("R", ">=", 0.0, 0)),
    ]
    engine = PolicyEngine(rules, layer_indices=[10, 20])
    assert [one.name for one in engine.fire(Regime.NOMINAL, state_of(0.25, 0.75), [20], [])] == ["good", "layer"]
    assert engine.fire(Regime.NOMINAL, state_of(0.25, 0.75), [0], [])[0].name == "layer"


def test_a_rule_rests_for_its_cooldown_on_the_clock_that_the_caller_advances(state_of: StateOf):
    engine = PolicyEngine([rule(cooldown_s=1.0)])
    fired: list[int] = []
    for tick in range(25):
        if engine.evaluate(Regime.NOMINAL, state_of(0.5), [], []):
            fired.append(tick)
        engine.advance_clock(0.1)
    assert fired == [0, 10, 20]


def test_without_an_advancing_clock_a_cooldown_never_ends(state_of: StateOf):
    engine = PolicyEngine([rule(cooldown_s=1.0)])
    assert [len(engine.evaluate(Regime.NOMINAL, state_of(0.5), [], [])) for _ in range(5)] == [1, 0, 0, 0, 0]
    assert engine.clock_s == 0.0


def test_a_rule_that_does_not_match_does_not_use_up_its_cooldown(state_of: StateOf):
    engine = PolicyEngine([rule("r", PolicyCondition("stability_proxy", ">", 0.5), cooldown_s=1.0)])
    assert not engine.evaluate(Regime.NOMINAL, state_of(0.1), [], [])
    assert engine.evaluate(Regime.NOMINAL, state_of(0.9), [], [])


def test_max_fires_ends_a_rule_and_zero_never_does(state_of: StateOf):
    engine = PolicyEngine([rule("twice", max_fires=2), rule("for ever")])
    for _ in range(5):
        engine.evaluate(Regime.NOMINAL, state_of(0.5), [], [])
    assert engine.fire_counts == {"twice": 2, "for ever": 5}


def test_the_clock_does_not_drift():
    engine = PolicyEngine([])
    for _ in range(100_000):
        engine.advance_clock(0.1)
    assert engine.clock_s == pytest.approx(10_000.0, rel=1e-15)


@given(dt=st.sampled_from([0.1, 0.05, 0.01, 1 / 3, 0.25, 0.7]), every=st.integers(1, 20))
def test_a_cooldown_of_k_ticks_fires_every_k_ticks(dt: float, every: int):
    state = UPDEState(layers=(), cross_layer_alignment=np.zeros((0, 0)), stability_proxy=0.5, regime_id="nominal")
    engine = PolicyEngine([rule(cooldown_s=every * dt)])
    fired: list[int] = []
    for tick in range(4 * every + 1):
        if engine.fire(Regime.NOMINAL, state, [], []):
            fired.append(tick)
        engine.advance_clock(dt)
    assert fired == [0, every, 2 * every, 3 * every, 4 * every]


@pytest.mark.parametrize("dt", [-0.1, float("nan"), float("inf"), True])
def test_a_clock_that_would_not_advance_is_refused(dt: float):
    with pytest.raises(ValueError, match="dt must be a finite number >= 0"):
        PolicyEngine([]).advance_clock(dt)


def test_two_rules_of_one_name_and_too_many_rules_are_refused():
    with pytest.raises(PolicyError, match="rule 'r' is given twice"):
        PolicyEngine([rule(), rule()])
    with pytest.raises(PolicyError, match="rules must be at most 1000, got 1001"):
        PolicyEngine(rule(f"r{i}") for i in range(1001))
    with pytest.raises(PolicyError, match="layer_indices must differ"):
        PolicyEngine([], layer_indices=[1, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolicyCondition("R", "!=", 0.5, 0), "op must be one of"),
        (lambda: PolicyCondition("R", ">", float("nan"), 0), "threshold must be a finite number"),
        (lambda: PolicyCondition("R", ">", True, 0), "threshold must be a finite number"),
        (lambda: PolicyCondition("R", ">", 0.5, -1), "layer must be an integer >= 0"),
        (lambda: PolicyCondition("R", ">", 0.5, True), "layer must be an integer >= 0"),
        (lambda: PolicyAction("gain", "global", 0.1, 1.0), "knob must be one of"),
        (lambda: PolicyAction("K", "layer_x", 0.1, 1.0), "scope must be 'global' or 'layer_<index>'"),
        (lambda: PolicyAction("K", "global\n", 0.1, 1.0), "scope must be 'global' or 'layer_<index>'"),
        (lambda: PolicyAction("K", "global", float("inf"), 1.0), "value must be a finite number"),
        (lambda: PolicyAction("K", "global", 0.1, -1.0), "ttl_s must be a finite number >= 0"),
        (lambda: rule(regimes=[]), "regimes must be 1 to 32, got 0"),
        (lambda: rule(conditions=[]), "conditions must be 1 to 32, got 0"),
        (lambda: rule("r", *[ALWAYS] * 33), "conditions must be 1 to 32, got 33"),
        (lambda: rule(actions=[BOOST] * 33), "actions must be 1 to 32, got 33"),
        (lambda: rule(logic="XOR"), "logic must be AND or OR"),
        (lambda: rule(cooldown_s=-1.0), "cooldown_s must be a finite number >= 0"),
        (lambda: rule(cooldown_s=float("nan")), "cooldown_s must be a finite number >= 0"),
        (lambda: rule(max_fires=-1), "max_fires must be an integer >= 0"),
        (lambda: rule(max_fires=1.0), "max_fires must be an integer >= 0"),
    ],
)
def test_a_part_outside_its_range_is_refused(make: Callable[[], object], message: str):
    with pytest.raises(PolicyError, match=message):
        make()
