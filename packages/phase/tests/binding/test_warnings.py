"""What is legal but unwise."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import (
    binding_warnings,
    load_binding_spec,
    parse_binding_spec,
    validate_binding_spec,
)
from scpn_phase_orchestrator.binding._advice import stability_bound
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder

# The full spec names parts that do nothing on purpose: these are what is said about it untouched.
_OF_THE_FULL_SPEC = (
    "coupling.templates are not used",
    "cross_channel_couplings describe the channels",
    "value_alignment is recorded",
)


def _warnings(text: str, *replacements: tuple[str, str]) -> list[str]:
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new, 1)
    spec = parse_binding_spec(text)
    assert validate_binding_spec(spec) == []
    return [one for one in binding_warnings(spec) if not one.startswith(_OF_THE_FULL_SPEC)]


def test_the_full_spec_is_only_told_of_parts_without_effect(full_text: str) -> None:
    assert _warnings(full_text) == []
    assert len(binding_warnings(parse_binding_spec(full_text))) == len(_OF_THE_FULL_SPEC)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "control_period_s: 0.1",
            "control_period_s: 0.025",
            "control_period_s is 2.5 sample periods; decisions are taken every 2",
        ),
        (
            "sample_period_s: 0.01\ncontrol_period_s: 0.1",
            "sample_period_s: 1\ncontrol_period_s: 10",
            "must stay below pi",
        ),
        ("good_target: 0.9", "good_target: 0.5", "good_target 0.5 is reached by chance: 3 unrelated oscillators"),
        ("bad_ceiling: 0.4", "bad_ceiling: 0.99", "bad_ceiling 0.99 calls a bad layer apart"),
        ("name: demand", "name: pumps", "layers[1].name 'pumps' is also the name of a layer before it"),
        ("template: open", "template: shut", "template 'shut' is not among coupling.templates"),
        (
            "informational: {}",
            "informational: {cadence_hz: 1}",
            "cadence_hz has no effect: drivers.physical.frequency already",
        ),
        (
            "informational: {}",
            "informational: {sequence: [1]}",
            "drivers.informational.sequence has no effect; it belongs in",
        ),
        (
            "informational: {}",
            "informational: {psi: 1}",
            "drivers.informational.psi has no effect: drivers.physical.frequency",
        ),
        ("zeta: 0.05,", "", "drivers.physical.frequency has no effect: no driver has a zeta above 0"),
        ("strategy: objectives", "strategy: mean_coherence", "raises the coupling of all layers when the mean is low"),
        ("bad_layers: [4]", "bad_layers: [4, 0]", "objectives: layer 0 is both good and bad"),
        ("bad_layers: [4]", "bad_layers: [4, 4]", "objectives.bad_layers names layer 4 more than once"),
        ("variable: R_0", "variable: R_4", "variable 'R_4' is not observed, so the boundary never acts; did you mean"),
        ("variable: R_0", "variable: temperature", "observed are R, R_0, R_1, mean_amplitude, pac_max, subcritical"),
        ("lower: 0.2", "lower: null", "has neither lower nor upper and never acts"),
        ('"R_0 > 0.7"', '"R_7 > 0.7"', "'R_7' is not observed, so it never fires"),
        ("{starting: 1}", "{starting: 0}", "protocol_net.initial marks no place"),
        (
            "knob: alpha, scope: layer_4",
            "knob: Psi, scope: global",
            "'lag' is never used: neither the strategy objectives",
        ),
        ("knob: alpha, scope: layer_4", "knob: alpha, scope: layer_0", "nor a rule sets alpha in layer_0"),
        ("rate_limit_per_step: 0.1", "rate_limit_per_step: 0", "'gain' cannot move"),
        ("limits: [0.5, 2.0]", "limits: [0.5, 0.9]", "exclude the value 1 that K has without any action"),
        ("limits: [0.0, 1.0]", "limits: [0.5, 1.0]", "exclude the value 0 that alpha has without any action"),
        (
            "knob: alpha, scope: layer_4, limits: [0.0,",
            "knob: zeta, scope: layer_4, limits: [0.1,",
            "exclude the value 0.05",
        ),
        ("modulates: [K, mu]", "modulates: [Q]", "'Q' has no effect; known are K, alpha, mu"),
        (
            "amplitude: {mu: 1.0, epsilon: 0.2, amp_coupling_strength: 0.1}\n",
            "",
            "'mu' has no effect without amplitude",
        ),
        (
            "constraint_type: symmetric_non_negative",
            "constraint_type: ring",
            "'ring' has no effect; known are symmetric",
        ),
        ("params: {}", "params: {a: 1}", "geometry_prior.params have no effect"),
    ],
    ids=lambda text: text[:40].replace("\n", "|"),
)
def test_unwise_parts_are_named(old: str, new: str, message: str, full_text: str) -> None:
    assert any(message in one for one in _warnings(full_text, (old, new)))


def test_warnings_carry_lines(full_text: str) -> None:
    line = full_text.count("\n", 0, full_text.index("rate_limit_per_step")) - 3
    assert _warnings(full_text, ("rate_limit_per_step: 0.1", "rate_limit_per_step: 0"))[0].endswith(f"(line {line})")


def test_an_empty_layer_is_named(s1_path: Path) -> None:
    text = s1_path.read_text().replace("[s1, s2], omegas: [3.0, -2.0]", "[]")
    assert any("layers[1] 'storms' has no oscillators; its R is always 0" in one for one in _warnings(text))


def test_a_lone_oscillator_in_a_good_layer_is_named(full_text: str) -> None:
    templates = full_text[full_text.index("  templates:") : full_text.index("drivers:")]
    objectives = ("good_layers: [0]\n  bad_layers: [4]", "good_layers: [4]\n  bad_layers: [0]")
    warnings = _warnings(full_text, (templates, ""), objectives, ("[d1, d2]", "[d1]"))
    assert any("good_layers: layer 4 has one oscillator, so it is coherent whatever happens" in one for one in warnings)


def test_a_lone_oscillator_in_a_bad_layer_is_named(s1_path: Path) -> None:
    text = s1_path.read_text().replace("[s1, s2], omegas: [3.0, -2.0]", "[s1]")
    assert any(
        "bad_layers: layer 1 has one oscillator, so it can never lose coherence" in one for one in _warnings(text)
    )


def test_rules_beside_the_spec_use_actuators(full_text: str, tmp_path: Path) -> None:
    text = full_text.replace("knob: alpha, scope: layer_4", "knob: Psi, scope: global")
    file = tmp_path / "spec.yaml"
    file.write_text(text, encoding="utf-8")
    never_used = "'lag' is never used"
    assert any(never_used in one for one in binding_warnings(load_binding_spec(file)))
    rules = tmp_path / "policy.yaml"
    rules.write_text("rules:\n  - {name: a, actions: [{knob: Psi, scope: global, value: 0, ttl_s: 1}]}\n")
    assert not any(never_used in one for one in binding_warnings(load_binding_spec(file)))
    rules.write_text("rules: [")  # unreadable: nothing can be said about its knobs
    assert not any(never_used in one for one in binding_warnings(load_binding_spec(file)))


@pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
def test_the_stability_bound_is_that_of_the_built_matrix(method: str, s1_path: Path) -> None:
    text = s1_path.read_text()
    for dt, is_stable in ((0.5, True), (0.8, False)):
        spec = parse_binding_spec(
            text.replace("sample_period_s: 0.01", f"sample_period_s: {dt}").replace(
                "control_period_s: 0.05", "control_period_s: 8"
            )
            + f"integration: {{method: {method}}}\n"
        )
        knm = CouplingBuilder().build(5, 0.6, 0.25).knm
        bound = dt * (3.0 + float(np.abs(knm).sum(axis=1).max()) + 0.1)
        assert stability_bound(spec) == pytest.approx(bound, rel=1e-12)
        assert (bound < math.pi) is is_stable
        warned = any("too long for a stable step" in one for one in binding_warnings(spec))
        assert warned is (not is_stable and method != "rk45")


def test_substeps_shorten_the_step(s1_path: Path) -> None:
    spec = parse_binding_spec(s1_path.read_text() + "integration: {substeps: 4}\n")
    assert stability_bound(spec) == pytest.approx(stability_bound(load_binding_spec(s1_path)) / 4)


@pytest.mark.parametrize(("limits", "is_told"), [("[0.0, 0.0]", True), ("[0.0, 0.3]", False)])
def test_a_drive_phase_counts_when_an_actuator_may_raise_the_drive(limits: str, is_told: bool, full_text: str) -> None:
    damper = f"actuators:\n  - {{name: damper, knob: zeta, scope: global, limits: {limits}}}\n"
    found = _warnings(full_text, ("zeta: 0.05,", ""), ("actuators:\n", damper))
    assert any("no driver has a zeta above 0" in one for one in found) is is_told
