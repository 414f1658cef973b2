"""Rule files: what is read, and how each fault is told."""

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.policy_rules import (
    PolicyAction,
    PolicyCondition,
    PolicyRule,
    StlMonitor,
    load_policy_document,
    load_policy_rules,
    parse_policy_document,
)
from scpn_phase_orchestrator.supervisor.regimes import Regime

FULL = """
rules:
  - name: boost
    regime: [NOMINAL, degraded]
    condition: {metric: R_good, layer: 0, op: "<", threshold: 0.7}
    action: {knob: K, scope: global, value: 0.1, ttl_s: 5}
  - name: calm
    regime: [Critical]
    conditions:
      - {metric: R_bad, layer: 1, op: ">=", threshold: 1}
      - {metric: stability_proxy, op: "==", threshold: 0.5}
    logic: or
    actions:
      - {knob: zeta, scope: layer_3, value: -0.2, ttl_s: 0.0}
      - {knob: Psi, scope: global, value: 1.5, ttl_s: 2.5}
    cooldown_s: 2
    max_fires: 3
stl_monitors:
  - {name: floor, spec: "always (R > 0.3)", severity: hard}
  - {name: hint, spec: "eventually (R > 0.9)"}
"""


def entry(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": "r",
        "regime": ["NOMINAL"],
        "condition": {"metric": "stability_proxy", "op": ">", "threshold": 0.5},
        "action": {"knob": "K", "scope": "global", "value": 0.1, "ttl_s": 1.0},
        **changes,
    }
    return {key: value for key, value in fields.items() if value is not ...}


def refusal(rules: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_policy_document(json.dumps({"rules": rules}), is_json=True)
    return str(caught.value)


def test_a_full_file_is_read(tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text(FULL)
    document = load_policy_document(path)
    assert document.rules == (
        PolicyRule(
            "boost",
            (Regime.NOMINAL, Regime.DEGRADED),
            (PolicyCondition("R_good", "<", 0.7, 0),),
            (PolicyAction("K", "global", 0.1, 5.0),),
        ),
        PolicyRule(
            "calm",
            (Regime.CRITICAL,),
            (PolicyCondition("R_bad", ">=", 1.0, 1), PolicyCondition("stability_proxy", "==", 0.5)),
            (PolicyAction("zeta", "layer_3", -0.2, 0.0), PolicyAction("Psi", "global", 1.5, 2.5)),
            "OR",
            2.0,
            3,
        ),
    )
    assert document.stl_monitors == (
        StlMonitor("floor", "always (R > 0.3)", "hard"),
        StlMonitor("hint", "eventually (R > 0.9)", "soft"),
    )
    assert load_policy_rules(str(path)) == list(document.rules)


def test_a_byte_order_mark_is_passed_over_as_in_a_spec(tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text(FULL, encoding="utf-8-sig")
    assert len(load_policy_rules(path)) == 2


def test_json_is_read_too(tmp_path: Path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"rules": [entry()]}))
    assert load_policy_rules(path)[0].name == "r"


@pytest.mark.parametrize("text", ["", "# nothing yet\n\n", "rules: []", "rules:\n  # none\n", "stl_monitors: []", "{}"])
def test_a_file_without_rules_gives_none(text: str, tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    assert load_policy_rules(path) == []


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"name": ...}, ["missing required key 'name' in rules[]", "[rules[0]]"]),
        ({"name": 3}, ["expected string in rules[].name, got int (3)"]),
        ({"name": "  "}, ["rules[].name must be a name that is not blank"]),
        ({"regime": ...}, ["missing required key 'regime'"]),
        ({"regime": []}, ["rules[].regime must have at least 1 element"]),
        ({"regime": "NOMINAL"}, ["expected list in rules[].regime"]),
        ({"regime": ["nominall"]}, ["got 'nominall'; did you mean 'NOMINAL'?", "[rules[0].regime[0]]"]),
        ({"regime": [1]}, ["expected string in rules[].regime[]"]),
        ({"condition": ...}, ["give either 'condition' or 'conditions'"]),
        ({"conditions": [entry()["condition"]]}, ["give either 'condition' or 'conditions'"]),
        ({"condition": ..., "conditions": []}, ["rules[].conditions must have at least 1 element"]),
        ({"condition": ..., "conditions": [entry()["condition"]] * 33}, ["conditions must be 1 to 32, got 33"]),
        ({"action": ...}, ["give either 'action' or 'actions'"]),
        ({"action": ..., "actions": [entry()["action"]] * 33}, ["actions must be 1 to 32, got 33"]),
        ({"condition": {"metric": "R", "op": ">"}}, ["missing required key 'threshold' in rules[].condition"]),
        ({"condition": {**entry()["condition"], "op": "!="}}, ["rules[].condition.op must be one of"]),
        ({"condition": {**entry()["condition"], "threshold": True}}, ["expected number", "threshold", "got bool"]),
        ({"condition": {**entry()["condition"], "threshold": "0.5"}}, ["remove the quotes"]),
        ({"condition": {**entry()["condition"], "layer": -1}}, ["rules[].condition.layer must be >= 0"]),
        ({"condition": {**entry()["condition"], "layer": 0.5}}, ["expected integer", "condition.layer"]),
        (
            {"condition": {**entry()["condition"], "treshold": 1}},
            ["unknown key 'treshold'", "did you mean 'threshold'?"],
        ),
        ({"action": {**entry()["action"], "knob": "k"}}, ["rules[].action.knob must be one of", "did you mean 'K'?"]),
        ({"action": {**entry()["action"], "scope": "layer"}}, ["must be 'global' or 'layer_<index>'"]),
        ({"action": {**entry()["action"], "ttl_s": -1}}, ["rules[].action.ttl_s must be >= 0"]),
        ({"action": {"knob": "K", "scope": "global", "value": 0.1}}, ["missing required key 'ttl_s'"]),
        ({"logic": "XOR"}, ["rules[].logic must be one of AND, OR"]),
        ({"cooldown_s": -1}, ["rules[].cooldown_s must be >= 0"]),
        ({"max_fires": 1.5}, ["expected integer in rules[].max_fires"]),
        ({"cooldown": 3}, ["unknown key 'cooldown' in rules[]", "did you mean 'cooldown_s'?"]),
    ],
)
def test_every_fault_of_a_rule_is_named_with_its_place(changes: dict[str, Any], messages: list[str]):
    text = refusal([entry(**changes)])
    assert text.startswith("invalid policy rules: ")
    for message in messages:
        assert message in text


def test_rules_are_limited_and_named_apart():
    assert "rules must be at most 1000, got 1001" in refusal([entry(name=f"r{i}") for i in range(1001)])
    assert "rule name 'r' is already that of rules[0]" in refusal([entry(), entry()])
    assert "expected list in rules, got str" in refusal("boost")
    assert "expected list in rules, got mapping" in refusal({"boost": entry()})


def test_many_faults_are_told_at_once_and_counted():
    text = refusal([entry(name=f"r{i}", max_fires=-1) for i in range(15)])
    assert "[rules[9].max_fires]" in text
    assert text.endswith("; and 5 more")


def write(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy_document(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("rules:\n  - name: a\n    name: b\n", 3, "duplicate key 'name'"),
        ("rules: []\nrule: []\n", 2, "unknown key 'rule' in spec; did you mean 'rules'?"),
        ("- a\n- b\n", 1, "expected mapping in spec, got list"),
        ("rules: [\n", 2, "not YAML"),
        ("a: &x [1]\nrules: *y\n", 2, "alias *y names no anchor"),
        ("rules:\n  - !!python/object:os.system {}\n", 2, "tag !!python/object:os.system is not allowed"),
        ("rules:\n  - {name: a, cooldown_s: .nan}\n", 2, "numbers must be finite"),
        ("rules: []\n---\nrules: []\n", 2, "more than one YAML document"),
        ("stl_monitors:\n  - {name: a, spec: b, severity: harsh}\n", 2, "severity must be one of hard, soft"),
    ],
)
def test_the_file_and_the_line_are_named(text: str, line: int, message: str, tmp_path: Path):
    path = tmp_path / "policy.yaml"
    told = write(path, text)
    assert told.startswith(f"invalid policy rules: {path}")
    assert f"line {line}" in told
    assert message in told


@pytest.mark.parametrize("depth", [60, 5000])
def test_nesting_that_would_exhaust_a_parser_is_refused(depth: int, tmp_path: Path):
    assert re.search("nest(ed|ing)", write(tmp_path / "deep.yaml", "rules: " + "[" * depth + "]" * depth))


def test_an_alias_bomb_is_refused(tmp_path: Path):
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))
    assert "aliases expanded" in write(tmp_path / "bomb.yaml", f"a0: &a0 [x]\n{levels}\nrules: *a11\n")


def test_what_is_no_text_file_is_refused(tmp_path: Path):
    with pytest.raises(PolicyError, match=r"invalid policy rules: .*missing.yaml: cannot read rule file: No such file"):
        load_policy_rules(tmp_path / "missing.yaml")
    with pytest.raises(PolicyError, match="not a regular file"):
        load_policy_rules(tmp_path)
    os.mkfifo(tmp_path / "pipe.yaml")
    for endless in (tmp_path / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(PolicyError, match="not a regular file"):
            load_policy_rules(endless)
    binary = tmp_path / "policy.yaml"
    binary.write_bytes(b"rules: \xff")
    with pytest.raises(PolicyError, match=r"policy.yaml, line 1: not UTF-8: byte 7 is wrong"):
        load_policy_rules(binary)
    binary.write_bytes(b"#" * (10 * 2**20 + 1))
    with pytest.raises(PolicyError, match="at most 10485760 bytes are read"):
        load_policy_rules(binary)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ({"metric": "R_god", "layer": 0}, "metric 'R_god' does not exist (did you mean 'R_good'?)"),
        ({"metric": "R"}, "metric 'R' needs a layer"),
    ],
)
def test_a_condition_that_can_never_hold_is_read_with_a_note(
    condition: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
):
    text = json.dumps({"rules": [entry(condition={**condition, "op": ">", "threshold": 0})]})
    with caplog.at_level(logging.INFO, "scpn_phase_orchestrator"):
        assert len(parse_policy_document(text, source="mine.json", is_json=True).rules) == 1
    assert f"mine.json: a condition of rule 'r' never holds: {why}" in caplog.text
