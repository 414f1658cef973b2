"""A written pack is valid, quiet, and gives its supervisor something to do."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.binding import (
    binding_warnings,
    load_binding_spec,
    parse_binding_spec,
    validate_binding_spec,
    validate_binding_spec_security,
)
from scpn_phase_orchestrator.binding._advice import stability_bound
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.runtime.compare import Effect, compare
from scpn_phase_orchestrator.runtime.simulation import load_rules_beside
from scpn_phase_orchestrator.scaffold.folder import create_folder
from scpn_phase_orchestrator.scaffold.new_pack import DEFAULT_LAYERS, LayerPlan, new_pack, parse_layer
from scpn_phase_orchestrator.supervisor.verdict import Outcome

PLANS = [
    "together:4:good apart:4:bad",
    "pair:2:good",
    "many:30:good",
    "one:2:good two:3:good three:5:good",
    "storm:2:bad",
    "storm:5:bad gust:4:bad",
    "pumps:2:good valves:12:bad",
    "pumps:8:good valves:2:bad",
    "a:3:good b:4:bad c:5:good d:2:bad",
    "crowd:40:bad pair:2:good",
]


def plan(text):
    return [parse_layer(part) for part in text.split()]


@pytest.mark.parametrize("text", PLANS)
def test_supervised_ends_better_than_open_loop_from_every_seed(text, tmp_path):
    create_folder(tmp_path / "pack", new_pack("pack", plan(text)))
    path = tmp_path / "pack" / "binding_spec.yaml"
    spec = load_binding_spec(path)
    assert binding_warnings(spec) == []
    comparison = compare(spec, steps=1000, seeds=(42, 43, 44), binding_spec_path=path)
    assert [pair.effect for pair in comparison.pairs] == [Effect.BETTER] * 3
    assert {pair.verdicts[1].outcome for pair in comparison.pairs} == {Outcome.ACHIEVED}


def test_the_defaults_are_what_the_command_says():
    assert plan(PLANS[0]) == list(DEFAULT_LAYERS)


@pytest.mark.parametrize("text", PLANS)
def test_rules_are_read_and_set_a_knob_that_has_an_actuator(text, tmp_path):
    create_folder(tmp_path / "pack", new_pack("pack", plan(text)))
    path = tmp_path / "pack" / "binding_spec.yaml"
    spec = load_binding_spec(path)
    (rule,) = load_rules_beside(spec, path)
    actuated = {(actuator.knob, actuator.scope) for actuator in spec.actuators}
    assert {(action.knob, action.scope) for action in rule.actions} <= actuated


names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
plans = st.lists(
    st.builds(LayerPlan, names, st.integers(2, 60), st.sampled_from(["good", "bad"])),
    min_size=1,
    max_size=8,
    unique_by=lambda layer: layer.name,
)


@settings(max_examples=40, deadline=None)
@given(name=names, layers=plans)
def test_any_names_and_sizes_give_a_valid_stable_spec_that_says_what_was_asked(name, layers):
    files = new_pack(name, layers)
    spec = parse_binding_spec(files["binding_spec.yaml"])
    assert validate_binding_spec(spec) + validate_binding_spec_security(spec) + binding_warnings(spec) == []
    assert spec.name == name
    assert [(layer.name, len(layer.oscillator_ids)) for layer in spec.layers] == [
        (layer.name, layer.count) for layer in layers
    ]
    assert spec.objectives.good_layers == [k for k, layer in enumerate(layers) if layer.is_good]
    assert spec.objectives.bad_layers == [k for k, layer in enumerate(layers) if not layer.is_good]
    ids = [identifier for layer in spec.layers for identifier in layer.oscillator_ids]
    assert len(set(ids)) == len(ids)
    for actuator in spec.actuators:
        assert actuator.resolved_semantics == "value"
    own = {actuator.scope for actuator in spec.actuators if actuator.knob == "K"}
    assert {f"layer_{index}" for index in spec.objectives.bad_layers} <= own
    strongest = 2.5 * 2.0 * 2.0
    assert strongest * stability_bound(spec) < math.pi


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pumps", "must be NAME:COUNT:good|bad"),
        ("pumps:3", "must be NAME:COUNT:good|bad"),
        ("pumps:3:good:4", "must be NAME:COUNT:good|bad"),
        (":3:good", r"must match \[a-zA-Z0-9_-\]\+"),
        ("pu mps:3:good", r"must match \[a-zA-Z0-9_-\]\+"),
        ("pumps:1:good", "whole number from 2"),
        ("pumps:0:bad", "whole number from 2"),
        ("pumps:-3:good", "whole number from 2"),
        ("pumps:3.0:good", "whole number from 2"),
        ("pumps:²:good", "whole number from 2"),
        ("pumps:1001:good", "whole number from 2"),
        ("pumps:99999999999999999999:good", "whole number from 2"),
        ("pumps:3:ugly", "must end with good"),
        ("pumps:3:GOOD", "must end with good"),
    ],
)
def test_a_malformed_layer_is_refused_with_its_text(text, reason):
    with pytest.raises(BindingError, match=reason) as caught:
        parse_layer(text)
    assert repr(text) in str(caught.value)


def test_repeated_missing_or_too_many_layers_are_refused():
    with pytest.raises(BindingError, match="'a' is given twice"):
        new_pack("pack", plan("a:2:good a:3:bad"))
    with pytest.raises(BindingError, match="at least one layer"):
        new_pack("pack", [])
    with pytest.raises(BindingError, match="1000 oscillators together"):
        new_pack("pack", plan("a:600:good b:600:bad"))


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "ä", "a\n", "x" * 101])
def test_a_name_that_may_not_stand_in_a_path_is_refused(name):
    with pytest.raises(BindingError, match="name must match"):
        new_pack(name)
