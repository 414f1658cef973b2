"""Every way to break a document gives the dotted path, the line and what was expected."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scpn_phase_orchestrator.binding import BindingLoadError, parse_binding_spec, validate_binding_spec


class Break(NamedTuple):
    """Text of the full spec, what replaces it, and what must be said about it; `below` counts lines from there."""

    old: str
    new: str
    path: str
    message: str
    below: int = 0


STRUCTURE = [
    # Types
    Break("name: full", "name: 7", "name", "expected string in name, got int (7); quote it"),
    Break("name: full", "name: yes", "name", "expected string in name, got bool (true); quote it"),
    Break("name: full", "name:", "name", "expected string in name, got null"),
    Break("name: full", "name: [full]", "name", "expected string in name, got list"),
    Break('version: "1.2.3"', "version: 1.2", "version", "expected string in version, got float (1.2); quote it"),
    Break("sample_period_s: 0.01", "sample_period_s: fast", "sample_period_s", "expected number in sample_period_s"),
    Break("sample_period_s: 0.01", 'sample_period_s: "0.01"', "sample_period_s", "remove the quotes"),
    Break("base_strength: 0.4", "base_strength: true", "coupling.base_strength", "coupling.base_strength, got bool"),
    Break("base_strength: 0.4", "base_strength: abc", "coupling.base_strength", "coupling.base_strength, got str"),
    Break("index: 0", "index: 0.5", "layers[0].index", "expected integer in layers[].index, got float (0.5)"),
    Break("index: 0", "index: true", "layers[0].index", "expected integer in layers[].index, got bool (true)"),
    Break("[p1, p2, p3]", "p1", "layers[0].oscillator_ids", "expected list in layers[].oscillator_ids, got str"),
    Break("[p1, p2, p3]", "[p1, 2, p3]", "layers[0].oscillator_ids[1]", "expected string in layers[].oscillator_ids[]"),
    Break("[6.1, 6.3, 6.2]", "[6.1, x, 6.2]", "layers[0].omegas[1]", "expected number in layers[].omegas[], got str"),
    Break("[6.1, 6.3, 6.2]", "{a: 1}", "layers[0].omegas", "expected list in layers[].omegas, got mapping"),
    Break("good_layers: [0]", "good_layers: [x]", "objectives.good_layers[0]", "expected integer in objectives"),
    Break("bad_layers: [4]", "bad_layers: [true]", "objectives.bad_layers[0]", "got bool (true)"),
    Break("bad_layers: [4]", "bad_layers: 4", "objectives.bad_layers", "expected list in objectives.bad_layers"),
    Break("[[0, 1, 0, 0, 0], ", "[[0, one, 0, 0, 0], ", "coupling.templates.open[0][1]", "expected number in"),
    Break("open: [[0, 1, 0, 0, 0], ", "open: [7, ", "coupling.templates.open[0]", "expected list in"),
    Break("required: false", "required: 0", "channels.Residual.required", "expected boolean in channels.Residual"),
    Break(
        "limits: [0.5, 2.0]", "limits: [0.5, b]", "actuators[0].limits[1]", "expected number in actuators[].limits[]"
    ),
    Break(
        "inputs: [{place: starting}]",
        "inputs: [starting]",
        "protocol_net.transitions[0].inputs[0]",
        "write {place: NAME}",
    ),
    Break(
        "{starting: 1}", "{starting: 1.5}", "protocol_net.initial.starting", "expected integer in protocol_net.initial"
    ),
    Break("drivers:\n", "drivers: fast\nvalue:\n", "drivers", "expected mapping in drivers, got str ('fast')"),
    Break(
        "informational: {}",
        "informational:",
        "drivers.informational",
        "expected mapping in drivers.informational, got null",
    ),
    Break("zeta: 0.05", "zeta: strong", "drivers.physical.zeta", "expected number in drivers.physical.zeta"),
    Break("confidence: 0.8", "confidence: high", "drivers.Weather.confidence", "expected number in drivers.Weather"),
    Break("informational: {}", "informational: {psi: []}", "drivers.informational.psi", "expected number"),
    Break("symbolic: {}", "symbolic: {sequence: 1}", "drivers.symbolic.sequence", "expected list in"),
    Break("config: {band: [0.5, 3.0]}", "config: 3", "oscillator_families.vibration.config", "expected mapping in"),
    # Missing and unknown keys
    Break("name: full\n", "", "spec", "missing required key 'name' in spec"),
    Break("sample_period_s: 0.01\n", "", "spec", "missing required key 'sample_period_s' in spec", below=-4),
    Break("  - name: pumps\n    index: 0", "  - index: 0", "layers[0]", "missing required key 'name' in layers[]"),
    Break("  decay_alpha: 0.2\n", "", "coupling", "missing required key 'decay_alpha' in coupling", below=-1),
    Break("good_layers: [0]\n  ", "", "objectives", "missing required key 'good_layers' in objectives"),
    Break("role: exogenous driver\n    ", "", "channels.Weather", "missing required key 'role' in channels.Weather"),
    Break("control_period_s", "control_periods_s", "control_periods_s", "did you mean 'control_period_s'?"),
    Break("validation_tier", "Validation_Tier", "Validation_Tier", "did you mean 'validation_tier'?"),
    Break("name: full", "name: full\ntitle: Full", "title", "unknown key 'title' in spec", below=1),
    Break("    omegas:", "    omega:", "layers[0].omega", "unknown key 'omega' in layers[]; did you mean 'omegas'?"),
    Break(
        "base_strength: 0.4", "base_strength: 0.4\n  decay: 1", "coupling.decay", "did you mean 'decay_alpha'?", below=1
    ),
    Break(
        "substeps: 2", "steps: 2", "integration.steps", "unknown key 'steps' in integration; did you mean 'substeps'?"
    ),
    Break("knob: K", "knob: K\n    ttl: 3", "actuators[0].ttl", "unknown key 'ttl' in actuators[]", below=1),
    Break("symbolic: {}", "S: {}", "drivers.S", "unknown key 'S' in drivers; write 'symbolic'"),
    Break("  Weather:\n    confidence", "  0x: {}\n  Weather:\n    confidence", "drivers.0x", "must be a channel id"),
    Break("  Weather:\n    role", "  Weather 1:\n    role", "channels.Weather 1", "must be a channel id"),
    Break(
        "imprint_model:",
        "imprint: {decay_rate: 1, saturation: 1, modulates: []}\nimprint_model:",
        "spec",
        "give one of them",
    ),
    # Choices and ranges
    Break("safety_tier: research", "safety_tier: reserch", "safety_tier", "did you mean 'research'?"),
    Break(
        "validation_tier: partial", "validation_tier: none", "validation_tier", "must be one of externally_validated"
    ),
    Break(
        "extractor_type: physical",
        "extractor_type: fft",
        "oscillator_families.vibration.extractor_type",
        "must be one of",
    ),
    Break("channel: P,", "channel: 9,", "oscillator_families.vibration.channel", "expected string"),
    Break("channel: P,", "channel: P!,", "oscillator_families.vibration.channel", "must be a channel id"),
    Break("sample_period_s: 0.01", "sample_period_s: 0", "sample_period_s", "sample_period_s must be > 0, got 0"),
    Break("base_strength: 0.4", "base_strength: -0.4", "coupling.base_strength", "must be >= 0, got -0.4"),
    Break("strength: 0.2, mode", "strength: -1, mode", "cross_channel_couplings[0].strength", "must be >= 0, got -1"),
    Break("mode: directed", "mode: both", "cross_channel_couplings[0].mode", "must be one of bidirectional"),
    Break("zeta: 0.05", "zeta: -0.05", "drivers.physical.zeta", "must be >= 0, got -0.05"),
    Break("frequency: 1.0", "frequency: 0", "drivers.physical.frequency", "must be > 0, got 0"),
    Break("symbolic: {}", "symbolic: {sequence: []}", "drivers.symbolic.sequence", "must have at least 1 element(s)"),
    Break("severity: hard", "severity: fatal", "boundaries[0].severity", "must be one of hard, soft"),
    Break(
        "lower: 0.2\n    upper: null", "lower: 2\n    upper: 1", "boundaries[0]", "must be below upper 1.0", below=-2
    ),
    Break("knob: K", "knob: k", "actuators[0].knob", "did you mean 'K'?"),
    Break("scope: global", "scope: layer_x", "actuators[0].scope", "'global' or 'layer_<index>'"),
    Break("scope: global", "scope: layer_04", "actuators[0].scope", "'global' or 'layer_<index>'"),
    Break("limits: [0.5, 2.0]", "limits: [2.0, 0.5]", "actuators[0]", "limits must be ordered", below=-3),
    Break("limits: [0.5, 2.0]", "limits: [0.5]", "actuators[0].limits", "must have exactly 2 element(s)"),
    Break("rate_limit_per_step: 0.1", "rate_limit_per_step: -1", "actuators[0].rate_limit_per_step", "must be >= 0"),
    Break("semantics: value", "semantics: absolute", "actuators[0].semantics", "must be one of increment, value"),
    Break("decay_rate: 0.02", "decay_rate: -1", "imprint_model.decay_rate", "must be >= 0"),
    Break("saturation: 2.0", "saturation: 0", "imprint_model.saturation", "must be > 0"),
    Break("epsilon: 0.2", "epsilon: -0.2", "amplitude.epsilon", "must be >= 0"),
    Break("weight: 1}", "weight: 0}", "protocol_net.transitions[0].outputs[0].weight", "must be >= 1, got 0"),
    Break("index: 4", "index: -4", "layers[1].index", "must be >= 0, got -4"),
    Break("method: rk4", "method: heun", "integration.method", "must be one of euler, rk4, rk45"),
    Break("substeps: 2", "substeps: 0", "integration.substeps", "must be >= 1, got 0"),
    Break("strategy: objectives", "strategy: auto", "supervisor.strategy", "must be one of mean_coherence, objectives"),
    Break("good_target: 0.9", "good_target: 1.5", "supervisor.good_target", "must be <= 1, got 1.5"),
    Break("bad_ceiling: 0.4", "bad_ceiling: 1", "supervisor.bad_ceiling", "must be < 1, got 1"),
    Break(
        "replay_semantics: external", "replay_semantics: live", "channels.Weather.replay_semantics", "must be one of"
    ),
    # Text that two readers could understand differently
    Break("name: full", "name: full\nname: again", "spec", "duplicate key 'name' (first given in line 2)", below=1),
    Break("{starting: 1}", "{starting: 1, starting: 2}", "spec", "duplicate key 'starting'"),
    Break("index: 0", "index: 010", "spec", "010 is read differently by YAML 1.1 and 1.2"),
    Break("index: 0", "index: 1:30", "spec", "1:30 is read differently by YAML 1.1 and 1.2"),
    Break("base_strength: 0.4", "base_strength: .inf", "spec", "numbers must be finite, got .inf"),
    Break("base_strength: 0.4", "base_strength: 1e999", "spec", "numbers must be finite, got 1e999"),
    Break("base_strength: 0.4", "base_strength: -.NaN", "coupling.base_strength", "expected number in coupling"),
    Break("base_strength: 0.4", "base_strength: .nan", "spec", "numbers must be finite, got .nan"),
    Break("index: 0", "index: 99999999999999999999", "spec", "does not fit into 64 bits"),
    Break("name: full", "name: !!python/name:os.system x", "spec", "tag !!python/name:os.system is not allowed"),
    Break("name: full", "name: !mine x", "spec", "tag !mine is not allowed"),
    Break("amplitude: {mu", "amplitude: !!python/dict {mu", "spec", "tag !!python/dict is not allowed"),
    Break("index: 0", "index: !!int zero", "spec", "'zero' is not what its tag !!int says"),
    Break("name: full", 'name: "\\e[31mred"', "spec", "character '\\x1b' is not allowed in text"),
    Break("name: full", "name: fu\x00ll", "spec", "character '\\x00' is not allowed in text"),
    Break("name: full", "? [a, b]\n: full", "spec", "unhashable key"),
    Break("name: full", "1: full", "spec", "key 1 is not text; quote it"),
    Break("value_alignment: {note: recorded}", "value_alignment: *nothing", "spec", "alias *nothing names no anchor"),
    Break("value_alignment: {note: recorded}", "value_alignment: &a {b: *a}", "spec", "alias *a contains itself"),
    Break("value_alignment: {note: recorded}", "value_alignment: {<<: 3}", "spec", "the merge key << takes a mapping"),
    Break("name: full", "name: full\n---\nname: second", "spec", "more than one YAML document", below=1),
    Break("[p1, p2, p3]", "[p1, p2, p3", "spec", "not YAML", below=1),
    Break("name: full", "name: full\n\tindent: x", "spec", "not YAML", below=1),
]

CONSISTENCY = [
    Break("name: full", 'name: " "', "name", "name must not be empty"),
    Break('"1.2.3"', '"1.2"', "version", "version must be three numbers such as 0.1.0, got '1.2'"),
    Break("control_period_s: 0.1", "control_period_s: 0.001", "", "control_period_s must be >= sample_period_s 0.01"),
    Break("index: 4", "index: 0", "", "layers[1].index 0 is taken by a layer before it"),
    Break("[d1, d2]", "[d1, p2]", "", "layers[1].oscillator_ids: duplicate oscillator id 'p2'"),
    Break("[d1, d2]", "[d1, d1]", "", "layers[1].oscillator_ids: duplicate oscillator id 'd1'"),
    Break("[6.1, 6.3, 6.2]", "[6.1]", "", "layers[0].omegas must have one number per oscillator: 3, got 1"),
    Break(
        "family: vibration",
        "family: vibrations",
        "",
        "is not defined in oscillator_families; did you mean 'vibration'?",
    ),
    Break("[[0, 1, 0, 0, 0], ", "[[0, 1, 0, 0], ", "", "coupling.templates.open must be 5 rows of 5 numbers"),
    Break("[[0, 1, 0, 0, 0], ", "[[2, 1, 0, 0, 0], ", "", "coupling.templates.open must have a zero diagonal"),
    Break("    channel: Weather", "    channel: Wether", "", "must be declared under channels"),
    Break(
        "  Weather:\n    confidence", "  Wind:\n    confidence", "", "channel 'Wind' must be declared under channels"
    ),
    Break("[P, I], derive_rule", "[P, Residual], derive_rule", "", "must not name the channel itself"),
    Break("[P, I], derive_rule", "[P, Weathr], derive_rule", "", "unknown channel 'Weathr'; did you mean 'Weather'?"),
    Break(", derive_rule: P - I", "", "", "channels.Residual is derived and needs a derive_rule"),
    Break(
        "replay_semantics: derived", "replay_semantics: phase", "", "replay_semantics must be 'derived', got 'phase'"
    ),
    Break(
        "replay_semantics: external",
        "replay_semantics: derived",
        "",
        "has replay_semantics 'derived' but no derived_from",
    ),
    Break("units: m/s", "derive_rule: x", "", "channels.Weather has a derive_rule but no derived_from"),
    Break("channels: [P, I]", "channels: []", "", "channel_groups.plant.channels must not be empty"),
    Break("channels: [P, I]", "channels: [P, J]", "", "channel_groups.plant.channels names unknown channel 'J'"),
    Break("source: P,", "source: Q,", "", "cross_channel_couplings[0].source names unknown channel 'Q'"),
    Break("target: I,", "target: P,", "", "must join two different channels, got 'P' twice"),
    Break("good_layers: [0]", "good_layers: [2]", "", "names layer 2, which does not exist (declared indices: 0, 4)"),
    Break("scope: layer_4", "scope: layer_1", "", "scopes of this spec: global, layer_0, layer_4"),
    Break(
        "knob: alpha, scope: layer_4", "knob: K, scope: global", "", "conflicting value bounds for actuator knob 'K'"
    ),
    Break("semantics: value", "semantics: increment", "", "the strategy 'objectives' bounds resulting values"),
    Break("places: [starting, steady]", "places: []", "", "protocol_net.places must not be empty"),
    Break("places: [starting, steady]", "places: [starting, steady, steady]", "", "'steady' is there twice"),
    Break("{starting: DEGRADED, steady: nominal}", "{}", "", "protocol_net.place_regime must give the regime"),
    Break("steady: nominal}", "steady: calm}", "", "must be one of CRITICAL, DEGRADED, NOMINAL, RECOVERY, got 'calm'"),
    Break("{starting: 1}", "{start: 1}", "", "names unknown place 'start'; did you mean 'starting'?"),
    Break("{place: steady, weight: 1}", "{place: stedy}", "", "unknown place 'stedy'; did you mean 'steady'?"),
    Break('"R_0 > 0.7"', '"R_0 >"', "", "guard must be 'metric op number'"),
    Break('"R_0 > 0.7"', '"R_0 > nan"', "", "guard must be 'metric op number'"),
    Break("supervisor: {", "policy: ../rules.yaml\nsupervisor: {", "", "policy must be the name of a .yaml file"),
]


def _break(text: str, case: Break) -> tuple[str, int]:
    """The broken text and the line where it was broken."""
    assert text.count(case.old) >= 1, f"{case.old!r} is not in the full spec"
    start = text.index(case.old)
    broken = text[:start] + case.new + text[start + len(case.old) :]
    return broken, text.count("\n", 0, start) + 1 + case.below


def _name(case: Break) -> str:
    return f"{case.old} -> {case.new}".replace("\n", "|").replace("\x00", "NUL")[:60]


def test_the_tables_hold_enough_cases() -> None:
    assert len(STRUCTURE) >= 60


@pytest.mark.parametrize("case", STRUCTURE, ids=_name)
def test_the_loader_names_path_line_and_expectation(case: Break, full_text: str) -> None:
    broken, line = _break(full_text, case)
    with pytest.raises(BindingLoadError) as caught:
        parse_binding_spec(broken, source="broken.yaml")
    found = [(one.path, one.line) for one in caught.value.violations if case.message in one.message]
    assert found == [(case.path, line)], str(caught.value)
    assert str(caught.value).startswith("broken.yaml: ")


@pytest.mark.parametrize("case", CONSISTENCY, ids=_name)
def test_the_validator_names_line_and_expectation(case: Break, full_text: str) -> None:
    broken, line = _break(full_text, case)
    spec = parse_binding_spec(broken)
    found = [message for message in validate_binding_spec(spec) if case.message in message]
    assert len(found) == 1, validate_binding_spec(spec)
    assert found[0].endswith(f"(line {line})")


def test_all_structural_errors_are_reported_at_once_in_the_order_of_their_lines(full_text: str) -> None:
    broken = full_text.replace("name: full", "nam: full").replace("index: 4", "index: four")
    broken = broken.replace("base_strength: 0.4", "base_strength: -1").replace("knob: K\n", "knob: Q\n")
    with pytest.raises(BindingLoadError) as caught:
        parse_binding_spec(broken)
    lines = [one.line for one in caught.value.violations]
    assert lines == sorted(lines)
    assert [one.path for one in caught.value.violations] == [
        "spec",
        "nam",
        "layers[1].index",
        "coupling.base_strength",
        "actuators[0].knob",
    ]
    assert str(caught.value).startswith("spec: 5 errors:\n")
    assert str(caught.value).count("\n") == 5
