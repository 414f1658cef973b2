"""What rules would have done in a recorded run."""

import json
from typing import Any

import pytest

from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.policy_diagnostics import RuleCollision, RuleOverlap, dry_run_policy_rules
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyAction, PolicyCondition, PolicyRule
from scpn_phase_orchestrator.supervisor.regimes import Regime


def rule(name: str, metric: str, op: str, threshold: float, layer: int | None = None, **changes: Any) -> PolicyRule:
    fields: dict[str, Any] = {"regimes": list(Regime), "actions": [PolicyAction("K", "global", 0.1, 1.0)], **changes}
    return PolicyRule(name, conditions=[PolicyCondition(metric, op, threshold, layer)], **fields)


def step(number: int, *coherences: float, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "ts": 1.0e9,
        "step": number,
        "regime": "nominal",
        "stability": sum(coherences) / len(coherences),
        "layers": [{"R": coherence, "psi": 0.0} for coherence in coherences],
        "actions": [],
    }
    return {**record, **changes}


RUN = [
    {"header": True, "n_oscillators": 4, "dt": 0.01},
    step(0, 0.2, 0.9),
    step(1, 0.4, 0.8),
    {"event": "regime_transition", "step": 1, "detail": "nominal->degraded"},
    step(2, 0.9, 0.1, regime="degraded"),
]


def test_a_rule_sees_the_regime_that_was_decided_in_its_step():
    rules = [rule("late", "R", ">=", 0.0, 0, regimes=[Regime.CRITICAL])]
    records = [step(0, 0.5, regime_decided="critical"), step(1, 0.5, regime="critical", regime_decided="nominal")]
    records.append(step(2, 0.5, regime="critical"))
    assert dry_run_policy_rules(rules, records[:2], [0], []).fire_counts == {"late": 1}
    assert dry_run_policy_rules(rules, records[1:], [0], []).fire_counts == {"late": 1}


def test_firings_actions_overlaps_and_collisions_are_counted():
    rules = [
        rule("low good", "R_good", "<", 0.5, 0),
        rule("high bad", "R_bad", ">", 0.85, 0, actions=[PolicyAction("K", "global", -0.2, 1.0)]),
        rule("drive", "stability_proxy", ">", 0.4, actions=[PolicyAction("zeta", "layer_1", 0.1, 1.0)]),
        rule("never", "R", ">", 0.95, 0),
    ]
    report = dry_run_policy_rules(rules, RUN, [0], [1])
    assert report.steps == 3
    assert report.fire_counts == {"low good": 2, "high bad": 1, "drive": 3, "never": 0}
    assert report.action_counts == {"K/global": 3, "zeta/layer_1": 3}
    assert report.unreachable_rules == ("never",)
    assert report.overlapping_steps == (
        RuleOverlap(0, ("low good", "high bad", "drive")),
        RuleOverlap(1, ("low good", "drive")),
    )
    assert report.colliding_steps == (RuleCollision(0, "K", "global", ("low good", "high bad"), (0.1, -0.2)),)
    assert report.unavailable_metrics == ()


def test_the_regime_after_the_decision_is_used_where_it_is_recorded():
    rules = [rule("degraded only", "stability_proxy", ">=", 0.0, regimes=[Regime.DEGRADED])]
    assert dry_run_policy_rules(rules, RUN, [], []).fire_counts == {"degraded only": 1}
    decided = [step(0, 0.5, regime_decided="degraded"), step(1, 0.5, regime="degraded", regime_decided="nominal")]
    assert dry_run_policy_rules(rules, decided, [], []).fire_counts == {"degraded only": 1}


def test_every_record_is_one_second_of_the_clock():
    rules = [rule("rests", "stability_proxy", ">=", 0.0, cooldown_s=2.0)]
    report = dry_run_policy_rules(rules, [step(i, 0.5) for i in range(7)], [], [])
    assert report.fire_counts == {"rests": 4}


def test_a_metric_that_was_not_recorded_fires_nothing_and_is_reported():
    rules = [rule("quiet", "mean_amplitude", "<", 0.5), rule("odd", "no_such_metric", "<", 0.5)]
    report = dry_run_policy_rules(rules, RUN, [0], [1])
    assert report.fire_counts == {"quiet": 0, "odd": 0}
    assert report.unavailable_metrics == ("mean_amplitude", "no_such_metric")
    recorded = dry_run_policy_rules(rules, [step(0, 0.5, mean_amplitude=0.1)], [0], [1])
    assert recorded.fire_counts == {"quiet": 1, "odd": 0}
    assert recorded.unavailable_metrics == ("no_such_metric",)


def test_declared_layer_indices_are_resolved():
    rules = [rule("bad", "R_bad", "==", 0.9, 0), rule("layer", "R", "==", 0.2, 5)]
    report = dry_run_policy_rules(rules, [step(0, 0.2, 0.9)], [5], [9], layer_indices=[5, 9])
    assert report.fire_counts == {"bad": 1, "layer": 1}
    assert report.unavailable_metrics == ()


def test_an_empty_run_leaves_every_rule_unreachable():
    report = dry_run_policy_rules([rule("r", "R", ">", 0.5, 0)], [], [0], [])
    assert (report.steps, report.unreachable_rules, report.unavailable_metrics) == (0, ("r",), ("R",))


def test_the_record_is_json_and_says_that_nothing_was_actuated():
    rules = [rule("a", "stability_proxy", ">", 0.4), rule("b", "stability_proxy", ">", 0.4)]
    record = dry_run_policy_rules(rules, RUN[:2], [0], [1]).to_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == {
        "steps": 1,
        "fire_counts": {"a": 1, "b": 1},
        "action_counts": {"K/global": 2},
        "unreachable_rules": [],
        "overlapping_steps": [{"step": 0, "rules": ["a", "b"]}],
        "colliding_steps": [
            {"step": 0, "knob": "K", "scope": "global", "rules": ["a", "b"], "values": [0.1, 0.1]},
        ],
        "unavailable_metrics": [],
        "non_actuating": True,
    }


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (step(0, 0.5, regime="fine"), "step 0: regime must be one of .*, got 'fine'"),
        (step(0, 0.5, regime=None), "step 0: regime must be one of"),
        (step(4, 0.5, stability="high"), "step 4: stability must be a finite number"),
        (step(4, 0.5, stability=float("nan")), "step 4: stability must be a finite number"),
        (step(4, 0.5, pac_max=True), "step 4: pac_max must be a finite number"),
        (step(4, 0.5, layers="none"), "step 4: layers must be a list"),
        (step(4, 0.5, layers=[0.5]), "step 4: each of layers must be a mapping with 'R'"),
        (step(4, 0.5, layers=[{"R": None}]), "step 4: R of a layer must be a finite number"),
        (step(4, 0.5, layers=[{"R": float("inf")}]), "step 4: R must be a finite number"),
        (step(-1, 0.5), "step of record 0 must be an integer >= 0"),
        (step(0, 0.5, step="0"), "step of record 0 must be an integer >= 0"),
    ],
)
def test_a_malformed_record_is_refused_with_its_step(record: dict[str, Any], message: str):
    with pytest.raises(PolicyError, match=message):
        dry_run_policy_rules([rule("r", "R", ">", 0.5, 0)], [record], [0], [])
