"""What a spec says about its channels, and what the supervisor sees of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.binding.channel_algebra import build_channel_algebra_report
from scpn_phase_orchestrator.binding.channel_runtime import ChannelRuntimeExecutor
from scpn_phase_orchestrator.binding.types import (
    BindingSpec,
    ChannelGroupSpec,
    ChannelSpec,
    CouplingSpec,
    CrossChannelCouplingSpec,
    DriverSpec,
    HierarchyLayer,
    ObjectivePartition,
    OscillatorFamily,
)
from scpn_phase_orchestrator.upde.metrics import LayerState

FAMILIES = {
    "plain": OscillatorFamily("P", "hilbert"),
    "late": OscillatorFamily("Tide", "hilbert"),
    "vague": OscillatorFamily("Wind", "hilbert"),
    "both": OscillatorFamily("Rumour", "event"),
}
CHANNELS = {
    "Tide": ChannelSpec("delayed measurement"),
    "Wind": ChannelSpec("forecast", metric_semantics="Probabilistic wind phase"),
    "Rumour": ChannelSpec("lagged and uncertain report"),
}


def spec(*families: str | None, extra: dict[str, dict[str, Any]] | None = None, **fields: Any) -> BindingSpec:
    layers = [HierarchyLayer(f"layer {i}", 10 + i, [f"o{i}"], family=family) for i, family in enumerate(families)]
    return BindingSpec(
        name="s",
        version="0.1.0",
        safety_tier="research",
        sample_period_s=0.01,
        control_period_s=0.1,
        layers=layers,
        oscillator_families=fields.pop("oscillator_families", FAMILIES),
        coupling=CouplingSpec(0.1, 0.1),
        drivers=fields.pop("drivers", DriverSpec(extra=extra)),
        objectives=ObjectivePartition([10], []),
        channels=fields.pop("channels", CHANNELS),
        **fields,
    )


def at(coherence: float, psi: float = 0.0) -> LayerState:
    return LayerState(R=coherence, psi=psi, mean_amplitude=2.0, amplitude_spread=0.5)


def test_a_plain_channel_shows_the_raw_layers_themselves():
    executor = ChannelRuntimeExecutor.from_spec(spec("plain", None))
    layers = (at(0.1), at(0.2))
    execution = executor.execute(layers)
    assert execution.is_raw
    assert execution.layers == layers
    assert [evidence.channel for evidence in execution.evidence] == ["P", "P"]
    assert {evidence.evidence_source for evidence in execution.evidence} == {"current_tick"}


def test_a_delayed_channel_shows_the_tick_before_and_the_current_one_in_the_first_tick():
    executor = ChannelRuntimeExecutor.from_spec(spec("plain", "late"))
    first = executor.execute([at(0.1), at(0.2, psi=1.0)])
    assert [layer.R for layer in first.layers] == [0.1, 0.2]
    assert first.is_raw
    assert first.evidence[1].evidence_source == "current_tick_prime"
    second = executor.execute([at(0.3), at(0.4, psi=2.0)])
    assert [layer.R for layer in second.layers] == [0.3, 0.2]
    assert not second.is_raw
    assert second.evidence[0].evidence_source == "current_tick"
    held = second.evidence[1]
    assert (held.evidence_source, held.raw_R, held.executed_R) == ("held_previous_tick", 0.4, 0.2)
    assert (held.raw_psi, held.executed_psi, held.layer_index, held.channel) == (2.0, 1.0, 11, "Tide")
    third = executor.execute([at(0.5), at(0.6)])
    assert third.layers[1].R == 0.4


def test_what_is_held_is_the_raw_layer_not_the_executed_one():
    executor = ChannelRuntimeExecutor.from_spec(spec("both", extra={"Rumour": {"confidence": 0.5}}))
    assert [executor.execute([at(coherence)]).layers[0].R for coherence in (0.8, 0.4, 0.2)] == [0.4, 0.4, 0.2]


def test_an_uncertain_channel_weights_its_order_parameter_and_nothing_else():
    executor = ChannelRuntimeExecutor.from_spec(spec("vague", extra={"Wind": {"confidence_weight": 0.25}}))
    execution = executor.execute([at(0.8, psi=1.5)])
    assert execution.layers == (LayerState(R=0.2, psi=1.5, mean_amplitude=2.0, amplitude_spread=0.5),)
    evidence = execution.evidence[0]
    assert (evidence.raw_R, evidence.executed_R, evidence.confidence_weight) == (0.8, 0.2, 0.25)
    assert evidence.evidence_source == "current_tick"


@pytest.mark.parametrize(
    ("config", "confidence"),
    [
        ({}, 1.0),
        ({"confidence": 0.5}, 0.5),
        ({"confidence_weight": 0.25, "confidence": 0.5}, 0.25),
        ({"confidence": 7}, 1.0),
        ({"confidence": -0.1}, 0.0),
    ],
)
def test_confidence_is_clipped_to_one(config: dict[str, Any], confidence: float):
    executor = ChannelRuntimeExecutor.from_spec(spec("vague", extra={"Wind": config}))
    execution = executor.execute([at(0.8)])
    assert 0.8 * confidence == execution.layers[0].R
    assert execution.is_raw is (confidence == 1.0)
    assert execution.evidence[0].confidence_weight == confidence


def test_the_confidence_of_a_certain_channel_is_not_looked_at():
    executor = ChannelRuntimeExecutor.from_spec(spec("plain", drivers=DriverSpec(physical={"confidence": 0.1})))
    assert executor.execute([at(0.8)]).layers[0].R == 0.8


@pytest.mark.parametrize("confidence", [float("nan"), float("inf"), True, "high", None])
def test_a_confidence_that_is_no_finite_number_is_refused(confidence: Any):
    with pytest.raises(ValueError, match="confidence of channel 'Wind' must be a finite number"):
        ChannelRuntimeExecutor.from_spec(spec("vague", extra={"Wind": {"confidence": confidence}}))


@pytest.mark.parametrize("layers", [[], [at(0.1)], [at(0.1)] * 3])
def test_another_number_of_layers_is_refused(layers: list[LayerState]):
    executor = ChannelRuntimeExecutor.from_spec(spec("plain", "late"))
    with pytest.raises(ValueError, match="layers must hold 2 states, one per layer"):
        executor.execute(layers)


def test_a_reset_executor_starts_with_a_first_tick():
    executor = ChannelRuntimeExecutor.from_spec(spec("late"))
    executor.execute([at(0.1)])
    executor.reset()
    execution = executor.execute([at(0.5)])
    assert execution.layers[0].R == 0.5
    assert execution.evidence[0].evidence_source == "current_tick_prime"


def test_the_audit_record_is_json_with_evidence_and_special_layers():
    executor = ChannelRuntimeExecutor.from_spec(spec("plain", "late", "both", extra={"Rumour": {"confidence": 0.5}}))
    executor.execute([at(0.1), at(0.2), at(0.3)])
    record = executor.execute([at(0.4), at(0.5), at(0.6)]).to_audit_record()
    assert json.loads(json.dumps(record)) == record
    assert record["delayed_layers"] == [11, 12]
    assert record["uncertain_layers"] == [12]
    assert record["layers"][2] == {
        "layer_index": 12,
        "channel": "Rumour",
        "raw_R": 0.6,
        "executed_R": 0.15,
        "raw_psi": 0.0,
        "executed_psi": 0.0,
        "delay_policy": "hold_previous_tick",
        "uncertainty_policy": "confidence_weighted",
        "evidence_source": "held_previous_tick",
        "confidence_weight": 0.5,
    }


@given(run=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20), confidence=st.floats(-1, 2))
def test_delay_and_confidence_of_whole_runs(run: list[tuple[float, float]], confidence: float):
    executor = ChannelRuntimeExecutor.from_spec(spec("late", "vague", extra={"Wind": {"confidence": confidence}}))
    for tick, (late, vague) in enumerate(run):
        raw = [at(late), at(vague)]
        execution = executor.execute(raw)
        assert run[max(tick - 1, 0)][0] == execution.layers[0].R
        assert vague * min(max(confidence, 0.0), 1.0) == execution.layers[1].R
        assert [evidence.raw_R for evidence in execution.evidence] == [late, vague]
        assert execution.is_raw is (execution.layers == tuple(raw))


def test_channels_are_sorted_by_what_holds_for_them():
    channels = {
        **CHANNELS,
        "Residual": ChannelSpec(
            "difference", replay_semantics="derived", derived_from=["P", "Tide"], derive_rule="P - Tide"
        ),
        "Feed": ChannelSpec("market feed", required=False, replay_semantics="external", supervisor_visibility=False),
        "Lost": ChannelSpec("sensor", coupling_participation=False),
    }
    report = build_channel_algebra_report(
        spec(
            "plain",
            channels=channels,
            drivers=DriverSpec(symbolic={"sequence": [0.0]}, extra={"Feed": {}}),
            channel_groups={"sky": ChannelGroupSpec(["Wind", "Tide"], required=False, description="weather")},
            cross_channel_couplings=[
                CrossChannelCouplingSpec("Wind", "P", 0.2, "directed"),
                CrossChannelCouplingSpec("P", "Tide", 0.1),
            ],
        )
    )
    assert report.channels == ("Feed", "I", "Lost", "P", "Residual", "Rumour", "S", "Tide", "Wind")
    assert report.declared == ("Feed", "Lost", "Residual", "Rumour", "Tide", "Wind")
    assert report.required == ("Lost", "Residual", "Rumour", "Tide", "Wind")
    assert report.optional == ("Feed",)
    assert report.derived == ("Residual",)
    assert report.delayed == ("Feed", "Rumour", "Tide")
    assert report.uncertain == ("Rumour", "Wind")
    assert report.runtime_evidence == ("P", "Rumour", "S", "Tide", "Wind")
    assert report.missing_required == ("Lost",)
    assert report.supervisor_visible == ("Lost", "P", "Residual", "Rumour", "S", "Tide", "Wind")
    assert report.coupling_participants == ("Feed", "P", "Residual", "Rumour", "S", "Tide", "Wind")
    assert report.replay_semantics["Feed"] == "external"
    assert report.replay_semantics["P"] == "phase"
    assert report.policies["Rumour"] == {
        "evidence_required": True,
        "delay_policy": "hold_previous_tick",
        "uncertainty_policy": "confidence_weighted",
        "missing_policy": "refuse",
    }
    assert report.policies["Residual"]["missing_policy"] == "derive"
    assert report.policies["Residual"]["evidence_required"] is False
    assert report.policies["I"] == {
        "evidence_required": False,
        "delay_policy": "current_tick",
        "uncertainty_policy": "unweighted",
        "missing_policy": "skip",
    }
    assert report.groups == {"sky": {"channels": ("Tide", "Wind"), "required": False, "description": "weather"}}
    assert report.group_membership == {"Tide": ("sky",), "Wind": ("sky",)}
    assert [(edge["source"], edge["target"], edge["mode"]) for edge in report.edges] == [
        ("P", "Tide", "bidirectional"),
        ("Wind", "P", "directed"),
    ]
    record = report.to_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.parametrize(
    ("channel", "is_delayed", "is_uncertain"),
    [
        (ChannelSpec("Delayed feed"), True, False),
        (ChannelSpec("sensor", metric_semantics="lagged by one tick"), True, False),
        (ChannelSpec("sensor", metric_semantics="time DELAY"), True, False),
        (ChannelSpec("sensor", replay_semantics="external"), True, False),
        (ChannelSpec("uncertain"), False, True),
        (ChannelSpec("sensor", metric_semantics="phase with confidence"), False, True),
        (ChannelSpec("sensor", metric_semantics="model uncertainty"), False, True),
        (ChannelSpec("sensor"), False, False),
    ],
)
def test_words_make_a_channel_delayed_or_uncertain(channel: ChannelSpec, is_delayed: bool, is_uncertain: bool):
    report = build_channel_algebra_report(spec("plain", channels={"X": channel}))
    assert ("X" in report.delayed, "X" in report.uncertain) == (is_delayed, is_uncertain)
