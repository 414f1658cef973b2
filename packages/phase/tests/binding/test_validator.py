"""What makes a spec valid, as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scpn_phase_orchestrator.binding import (
    ActuatorMapping,
    BindingSpec,
    ChannelSpec,
    CouplingSpec,
    DriverSpec,
    HierarchyLayer,
    IntegrationSpec,
    ObjectivePartition,
    OscillatorFamily,
    ProtocolNetSpec,
    ProtocolTransitionSpec,
    load_binding_spec,
    parse_binding_spec,
    validate_binding_spec,
    validate_binding_spec_security,
)


def _spec(**changes: Any) -> BindingSpec:
    values: dict[str, Any] = {
        "name": "code",
        "version": "0.1.0",
        "safety_tier": "research",
        "sample_period_s": 0.01,
        "control_period_s": 0.1,
        "layers": [HierarchyLayer("a", 0, ["x", "y"])],
        "oscillator_families": {},
        "coupling": CouplingSpec(0.4, 0.2, {}),
        "drivers": DriverSpec(),
        "objectives": ObjectivePartition([0], []),
    }
    return BindingSpec(**{**values, **changes})


def test_four_faults_give_four_messages_in_the_order_of_the_parts() -> None:
    messages = validate_binding_spec(_spec(version="1", control_period_s=0.001, layers=[]))
    assert messages == [
        "version must be three numbers such as 0.1.0, got '1'",
        "control_period_s must be >= sample_period_s 0.01, got 0.001",
        "layers must hold at least one layer",
        "objectives.good_layers names layer 0, which does not exist (declared indices: none)",
    ]


def test_a_spec_made_in_code_is_valid_without_lines() -> None:
    assert validate_binding_spec(_spec()) == []
    assert validate_binding_spec(_spec(name="")) == ["name must not be empty"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coupling": CouplingSpec(-1.0, 0.2)}, "coupling.base_strength must be >= 0, got -1.0"),
        ({"coupling": CouplingSpec(True, 0.2)}, "expected number in coupling.base_strength, got bool (true)"),
        ({"coupling": CouplingSpec(float("inf"), 0.2)}, "coupling.base_strength must be finite, got inf"),
        ({"coupling": CouplingSpec(10**400, 0.2)}, "coupling.base_strength must be finite, got 1"),
        ({"coupling": None}, "expected mapping in coupling, got null"),
        ({"drivers": DriverSpec({"zeta": -1.0})}, "drivers.physical.zeta must be >= 0"),
        ({"drivers": DriverSpec(extra={"P": {}})}, "unknown key 'P' in drivers; write 'physical'"),
        ({"boundaries": None}, "expected list in boundaries, got null"),
        ({"boundaries": ["R"]}, "expected mapping in boundaries[], got str ('R')"),
        ({"layers": [HierarchyLayer("a", "0", ["x"])]}, "expected integer in layers[].index, got str ('0')"),
        ({"layers": [HierarchyLayer("a", 0, [])]}, "no oscillators defined in layers"),
        ({"objectives": ObjectivePartition([], [])}, "objectives must name at least one good or bad layer"),
        ({"oscillator_families": {3: OscillatorFamily("P", "hilbert")}}, "expected string in oscillator_families.3"),
        ({"actuators": [ActuatorMapping("a", "Q", "global", (0, 1))]}, "actuators[].knob must be one of K"),
        ({"integration": "rk4"}, "expected mapping in integration, got str ('rk4')"),
    ],
    ids=str,
)
def test_specs_made_in_code_meet_the_same_table(changes: dict[str, Any], message: str) -> None:
    assert [one for one in validate_binding_spec(_spec(**changes)) if message in one] != []


def test_a_wrong_value_does_not_hide_contradictions_but_a_wrong_type_does() -> None:
    assert len(validate_binding_spec(_spec(safety_tier="none", version="1"))) == 2
    assert len(validate_binding_spec(_spec(safety_tier=None, version="1"))) == 1


def test_a_missing_key_of_a_part_made_in_code_is_named() -> None:
    net = ProtocolNetSpec(["p"], {"p": 1}, {"p": "NOMINAL"}, [ProtocolTransitionSpec("t", [{"weight": 1}], [])])
    message = (
        "missing required key 'place' in protocol_net.transitions[].inputs[] [protocol_net.transitions[0].inputs[0]]"
    )
    assert validate_binding_spec(_spec(protocol_net=net)) == [message]


def test_a_required_channel_needs_evidence() -> None:
    channels = {"S": ChannelSpec("symbols")}
    message = "channels.S is required and needs an oscillator family or driver settings"
    assert validate_binding_spec(_spec(channels=channels)) == [message]
    assert validate_binding_spec(_spec(channels=channels, drivers=DriverSpec({}, {}, {"zeta": 0.1}))) == []
    assert validate_binding_spec(_spec(channels={"S": ChannelSpec("symbols", required=False)})) == []


def test_channels_that_derive_from_each_other_are_refused() -> None:
    def derived(source: str) -> ChannelSpec:
        return ChannelSpec("r", False, replay_semantics="derived", derived_from=[source], derive_rule="copy")

    channels = {"A": derived("B"), "B": derived("A"), "C": derived("A"), "D": derived("P")}
    assert validate_binding_spec(_spec(channels=channels)) == [
        "channels.A is derived from itself through other channels",
        "channels.B is derived from itself through other channels",
    ]


def test_equal_actuators_do_not_conflict_and_other_scopes_do_not_either() -> None:
    gain = ActuatorMapping("gain", "K", "global", (0.0, 2.0))
    assert validate_binding_spec(_spec(actuators=[gain, replace(gain, name="again")])) == []
    assert validate_binding_spec(_spec(actuators=[gain, replace(gain, scope="layer_0", limits=(0.0, 1.0))])) == []
    for other in (
        replace(gain, limits=(0.0, 1.0)),
        replace(gain, rate_limit_per_step=0.1),
        replace(gain, semantics="increment"),
    ):
        assert len(validate_binding_spec(_spec(actuators=[gain, other]))) == 1


def test_a_named_rule_file_must_exist_beside_the_spec(full_text: str, tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(full_text + "policy: rules.yaml\n", encoding="utf-8")
    line = full_text.count("\n") + 1
    assert validate_binding_spec(load_binding_spec(file)) == [
        f"policy names 'rules.yaml', but {tmp_path} holds no such file (line {line})"
    ]
    (tmp_path / "rules.yaml").write_text("rules: []\n")
    assert validate_binding_spec(load_binding_spec(file)) == []
    assert validate_binding_spec(parse_binding_spec(full_text + "policy: rules.yaml\n")) == []


@pytest.mark.parametrize("name", ["/etc/rules.yaml", "a/b.yaml", "..", "", "rules.txt", "a\\b.yaml"])
def test_a_rule_file_is_only_ever_beside_the_spec(name: str) -> None:
    assert "must be the name of a .yaml file beside the spec" in validate_binding_spec(_spec(policy=name))[0]


def test_the_security_check_walks_every_string_and_names_its_line(full_text: str) -> None:
    assert validate_binding_spec_security(parse_binding_spec(full_text)) == []
    broken = full_text.replace("note: free", "note: [1, {deep: __import__('os')}]").replace(
        "note: recorded", "'eval(x)': 1"
    )
    findings = validate_binding_spec_security(parse_binding_spec(broken))
    lines = [broken.count("\n", 0, broken.index(text)) + 1 for text in ("__import__", "eval(")]
    assert findings == [
        f"drivers.physical.note[1].deep holds the executable marker '__import__' (line {lines[0]})",
        f"value_alignment.eval(x) holds the executable marker 'eval(' (line {lines[1]})",
    ]


@pytest.mark.parametrize("marker", ["!!python", "subprocess", "lambda ", "os.system", "setattr(", "pickle.loads"])
def test_every_marker_is_found(marker: str) -> None:
    assert len(validate_binding_spec_security(_spec(value_alignment={"note": f"a {marker}b"}))) == 1


def test_periods_without_a_countable_ratio_and_endless_substeps_are_refused() -> None:
    spec = _spec(sample_period_s=5e-324, integration=IntegrationSpec(substeps=10**18))
    assert validate_binding_spec(spec) == [
        "control_period_s 0.1 is no countable number of periods of 5e-324",
        "integration.substeps must be at most 1000000, got 1000000000000000000",
    ]
