"""What a spec resolves to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scpn_phase_orchestrator.binding import (
    BindingSpec,
    format_resolved_binding_config,
    load_binding_spec,
    parse_binding_spec,
    resolved_binding_config,
)


@pytest.fixture
def spec(full_path: Path) -> BindingSpec:
    return load_binding_spec(full_path)


def test_the_control_interval_is_the_ratio_of_the_periods(spec: BindingSpec) -> None:
    summary = resolved_binding_config(spec)
    assert summary["control_interval_steps"] == 10
    assert summary["engine_mode"] == "stuart_landau"
    spec.amplitude = None
    assert resolved_binding_config(spec)["engine_mode"] == "kuramoto"


@pytest.mark.parametrize(
    ("sample", "control", "steps"), [(0.01, 0.05, 5), (0.01, 0.025, 2), (0.01, 0.035, 4), (1.0, 1.0, 1)]
)
def test_halves_are_rounded_to_the_even_number(sample: float, control: float, steps: int, spec: BindingSpec) -> None:
    spec.sample_period_s, spec.control_period_s = sample, control
    assert resolved_binding_config(spec)["control_interval_steps"] == steps


def test_the_summary_is_json_safe_and_holds_no_driver_values(spec: BindingSpec) -> None:
    summary = resolved_binding_config(spec)
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert "free" not in text
    assert summary["channels"]["P"]["driver_keys"] == ["amplitude", "frequency", "note", "zeta"]


def test_actuators_and_boundaries_are_listed_by_name_in_whatever_order_they_stand(spec: BindingSpec) -> None:
    before = resolved_binding_config(spec)
    assert [actuator["name"] for actuator in before["actuators"]] == ["gain", "lag"]
    spec.actuators.reverse()
    spec.boundaries.reverse()
    spec.layers.reverse()
    assert resolved_binding_config(spec) == before


def test_counts_follow_the_layers(spec: BindingSpec) -> None:
    summary = resolved_binding_config(spec)
    assert (summary["layer_count"], summary["oscillator_count"], summary["unassigned_layer_count"]) == (2, 5, 0)
    assert [layer["index"] for layer in summary["layers"]] == [0, 4]
    channel = summary["channels"]["P"]
    assert (channel["families"], channel["extractors"], channel["layer_count"]) == (["vibration"], ["hilbert"], 1)
    assert (channel["oscillator_count"], channel["driver_configured"], channel["declared"]) == (3, True, False)
    assert channel["role"] is None
    assert summary["channels"]["Residual"]["derived_from"] == ["P", "I"]
    assert summary["families"]["calls"]["resolved_extractor_type"] == "event"
    assert summary["features"] == dict.fromkeys(["amplitude", "geometry_prior", "imprint_model", "protocol_net"], True)


def test_the_order_in_the_file_does_not_change_the_summary(full_text: str, spec: BindingSpec) -> None:
    first, second = full_text.index("  - name: pumps"), full_text.index("  - name: demand")
    end = full_text.index("oscillator_families:")
    swapped = full_text[:first] + full_text[second:end] + full_text[first:second] + full_text[end:]
    assert resolved_binding_config(parse_binding_spec(swapped)) == resolved_binding_config(spec)


def test_the_text_of_the_acceptance_spec(s1_path: Path) -> None:
    assert format_resolved_binding_config(resolved_binding_config(load_binding_spec(s1_path))) == [
        "Resolved configuration:",
        "  domain: s1 v0.1.0 (research)",
        "  timing: sample=0.01s control=0.05s interval=5 steps",
        "  structure: layers=2 oscillators=5 channels=I, P, S",
        "  engine: kuramoto features=none",
        "  channel I: families=storm extractors=event driver_keys=none layers=1 oscillators=2",
        "  channel P: families=feeder extractors=hilbert driver_keys=psi,zeta layers=1 oscillators=3",
        "  channel S: families=none extractors=none driver_keys=none layers=0 oscillators=0",
        (
            "  channel_algebra: required=none optional=none derived=none visible=I,P coupling_participants=I,P "
            "delayed=none uncertain=none"
        ),
    ]


def test_the_text_tells_of_declared_channels_groups_and_what_is_missing(spec: BindingSpec) -> None:
    spec.channels["S"] = spec.channels["Weather"]
    spec.layers.append(spec.layers[0].__class__("loose", 5, ["l1"]))
    lines = format_resolved_binding_config(resolved_binding_config(spec))
    for line in (
        "  engine: stuart_landau features=amplitude,geometry_prior,imprint_model,protocol_net",
        "    metadata: role=residual replay=derived supervisor=True derived_from=P,I",
        "    metadata: role=exogenous driver replay=external supervisor=True",
        "  channel_groups: plant=[P,I]",
        "  cross_channel_couplings: 1",
        "    missing_required_channels: S",
        "  note: 1 layer(s) have no explicit oscillator family binding",
    ):
        assert line in lines
