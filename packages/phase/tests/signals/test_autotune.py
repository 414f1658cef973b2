"""Proposals: equations from smooth phases, and valid specs from series, logs and graphs."""

import json

import numpy as np
import pytest

from scpn_phase_orchestrator.autotune import bind_event_log, bind_graph, bind_time_series, discover_phase_equations
from scpn_phase_orchestrator.autotune.fitted import propose_from_fit
from scpn_phase_orchestrator.binding.loader import parse_binding_spec
from scpn_phase_orchestrator.binding.validator import validate_binding_spec
from scpn_phase_orchestrator.coupling.inference import fit_phase_coupling
from scpn_phase_orchestrator.exceptions import BindingError, ExtractorError

OMEGAS = np.array([5.0, 6.1, 12.0])
COUPLING = np.array([[0.0, 0.8, 0.0], [0.0, 0.0, 0.0], [0.0, 0.6, 0.0]])


def spec_of(proposal):
    spec = parse_binding_spec(proposal.to_yaml(), source="proposal")
    assert validate_binding_spec(spec) == []
    assert proposal.to_yaml().startswith("#")
    assert proposal.to_record()["execution_permitted"] is False
    json.dumps(proposal.to_record(), allow_nan=False)
    return spec


def test_equations_of_smooth_phases_are_found_sparse_and_exact(network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.02, noise=0.0, seed=1, substeps=20)
    first, second, third = discover_phase_equations(phases, 0.02, names=["a", "b", "c"])
    assert first.terms == {"b": pytest.approx(0.8, abs=0.01)}
    assert second.terms == {}
    assert third.terms == {"b": pytest.approx(0.6, abs=0.01)}
    assert [e.omega for e in (first, second, third)] == pytest.approx(OMEGAS, abs=0.01)
    assert all(e.accepted for e in (first, third))
    assert first.text().startswith("dθ[a]/dt = 5")
    assert "sin(θ[b] - θ[a])" in first.text()


def test_equations_below_the_gates_are_not_accepted_and_say_why(network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.02, noise=0.5, seed=1)
    assert all("R² below 0.9" in e.text() for e in discover_phase_equations(phases, 0.02))
    few = discover_phase_equations(phases[:10], 0.02)
    assert "8 samples for 3 terms, 5 per term needed" in few[0].reason
    assert discover_phase_equations(phases, 0.02, min_r_squared=0.0)[0].accepted


def test_threshold_removes_small_terms(network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.02, noise=0.0, seed=1, substeps=20)
    assert all(e.terms == {} for e in discover_phase_equations(phases, 0.02, threshold=2.0))


@pytest.mark.parametrize(
    ("arguments", "failure", "message"),
    [
        ({"threshold": -1.0}, ValueError, "threshold"),
        ({"min_r_squared": 1.5}, ValueError, "min_r_squared"),
        ({"min_samples_per_parameter": np.nan}, ValueError, "min_samples_per_parameter"),
        ({"phases": np.zeros(4)}, ValueError, "n_samples, n_oscillators"),
        ({"phases": np.full((9, 2), np.nan)}, ExtractorError, "three neighbouring samples"),
    ],
)
def test_sindy_arguments_out_of_range_are_refused(arguments, failure, message):
    with pytest.raises(failure, match=message):
        discover_phase_equations(**({"phases": np.zeros((9, 2)), "sample_period_s": 0.1} | arguments))


def series_file(tmp_path, network, noise=0.0):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.02, noise=noise, seed=1, substeps=10)
    path = tmp_path / "plant.csv"
    np.savetxt(path, np.cos(phases), delimiter=",", header="a,b,c", comments="")
    return path


def test_a_time_series_becomes_a_valid_spec_with_layers_by_frequency(tmp_path, network):
    proposal = bind_time_series(series_file(tmp_path, network), "plant", sample_rate=50.0)
    spec = spec_of(proposal)
    assert [layer.oscillator_ids for layer in spec.layers] == [["a", "b"], ["c"]]
    assert spec.get_omegas() == pytest.approx(OMEGAS, rel=0.05)
    assert spec.sample_period_s * max(OMEGAS) < 0.2
    assert [e.target for e in proposal.equations] == ["a", "b", "c"]
    assert len(proposal.evidence["sha256"]) == 64


def test_a_series_without_phase_is_a_binding_error(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "1\n" * 100)
    with pytest.raises(BindingError, match="is constant"):
        bind_time_series(path, "x", sample_rate=1.0)


def test_an_event_log_becomes_one_oscillator_per_source(tmp_path):
    events = [{"source": "fast", "time": 0.1 * k} for k in range(30)]
    events += [{"id": "slow", "timestamp": f"1970-01-01T00:00:{k:02d}Z"} for k in range(20)]
    events += [{"source": "once", "t": 3.0}]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"events": events}))
    proposal = bind_event_log(path, "calls")
    spec = spec_of(proposal)
    assert [layer.oscillator_ids for layer in spec.layers] == [["slow"], ["fast"]]
    assert spec.get_omegas() == pytest.approx([2 * np.pi, 20 * np.pi])
    assert spec.oscillator_families["measured"].channel == "I"
    assert any("once has fewer than two different times" in c for c in proposal.comments)


def test_a_graph_becomes_one_oscillator_per_node_and_its_weights_a_template(tmp_path):
    graph = {
        "nodes": ["a", {"id": "b", "omega": 2.0}, "c", "lonely"],
        "edges": [{"source": "a", "target": "b", "weight": 0.5}, {"source": "b", "target": "c"}],
        "directed": True,
    }
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph))
    spec = spec_of(bind_graph(path, "grid"))
    assert [layer.oscillator_ids for layer in spec.layers] == [["a", "b", "c"], ["lonely"]]
    assert spec.get_omegas() == [1.0, 2.0, 1.0, 1.0]
    matrix = np.array(spec.coupling.templates["graph"])
    assert matrix[1, 0] == 0.5
    assert matrix[2, 1] == 1.0
    assert np.count_nonzero(matrix) == 2


@pytest.mark.parametrize(
    ("bind", "text", "message"),
    [
        (bind_event_log, "[]", "events must be a non-empty array"),
        (bind_event_log, '{"events": 3}', "events must be a non-empty array"),
        (bind_event_log, "[3]", r"events\[0\] must be an object"),
        (bind_event_log, '[{"time": 1}]', r"events\[0\]: one of source"),
        (bind_event_log, '[{"source": "a", "time": true}]', "time must be a finite number, .* got True"),
        (bind_event_log, '[{"source": "a", "time": "noon"}]', "seconds or an ISO date"),
        (bind_event_log, '[{"source": 4, "time": 1}]', "source must be a non-empty text"),
        (bind_event_log, '[{"source": "a", "time": 1}]', "no source has two events"),
        (bind_event_log, '[{"source": "a", "source": "b", "time": 1}]', "x.json"),
        (bind_event_log, "\x00", "x.json"),
        (bind_graph, "[]", "must be an object with"),
        (bind_graph, '{"nodes": []}', "nodes must be a non-empty array"),
        (bind_graph, '{"nodes": ["a", "a"], "edges": []}', "appears twice"),
        (bind_graph, '{"nodes": ["a"], "edges": [{"source": "a", "target": "z"}]}', "unknown node 'z'"),
        (bind_graph, '{"nodes": ["a"], "edges": [{"source": "a", "target": "a"}]}', "two different nodes"),
        (bind_graph, '{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b", "weight": NaN}]}', "x.json"),
        (bind_graph, '{"nodes": ["a", "b"], "edges": [{"source": "a"}]}', "one of target is required"),
        (bind_graph, '{"nodes": ["a"], "edges": [], "directed": 1}', "directed must be true or false"),
        (bind_graph, '{"nodes": ["a"]}', "edges must be an array"),
        (bind_graph, '{"nodes": ["a"], "edges": [{"source": [1], "target": "a"}]}', r"unknown node \[1\]"),
        (bind_graph, '{"nodes": ["a"], "edges": [{"source": {}, "target": "a"}]}', r"unknown node \{\}"),
        (
            bind_graph,
            '{"nodes": [{"id": "a", "omega": 1' + 400 * "0" + '}], "edges": []}',
            "omega must be a finite number",
        ),
        (
            bind_graph,
            '{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b", "weight": 1e308}]}',
            "weight must be a finite number, at most",
        ),
        (bind_event_log, '[{"source": "a", "time": 1' + 400 * "0" + "}]", "time must be a finite number"),
        (bind_event_log, '[{"source": "a", "t": 0}, {"source": "a", "t": 1e308}]', "time must be a finite number"),
        (
            bind_event_log,
            '[{"source": "a", "t": 0}, {"source": "a", "t": 1e-320}, {"source": "a", "t": 1}]',
            "two events of 'a' are only .* s apart",
        ),
    ],
)
def test_malformed_logs_and_graphs_are_refused_with_the_place(tmp_path, bind, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BindingError, match=message):
        bind(path, "x")


def test_a_fit_becomes_a_valid_spec_that_keeps_the_matrix(tmp_path, network):
    phases = network(OMEGAS, COUPLING, n_samples=3000, period=0.05, noise=0.3, seed=2)
    fit = fit_phase_coupling(phases, 0.05, names=["c3", "c1", "c2"])
    source = tmp_path / "odd name!.csv"
    source.write_text("x")
    spec = spec_of(propose_from_fit(fit, source))
    assert spec.name == "odd_name_"
    order = [identifier for layer in spec.layers for identifier in layer.oscillator_ids]
    position = [fit.names.index(identifier) for identifier in order]
    fitted = fit.matrix(distinguishable_only=True)
    assert np.array(spec.coupling.templates["fitted"]) == pytest.approx(fitted[np.ix_(position, position)])
    assert np.count_nonzero(fitted) == 2


def test_a_fit_without_coupling_proposes_none(tmp_path, network):
    phases = network(OMEGAS, 0 * COUPLING, n_samples=2000, period=0.05, noise=0.3, seed=3)
    source = tmp_path / "x.csv"
    source.write_text("x")
    spec = spec_of(propose_from_fit(fit_phase_coupling(phases, 0.05), source))
    assert spec.coupling.base_strength == 0.0
    assert spec.coupling.templates == {}


def test_comments_of_a_proposal_hold_no_characters_that_steer_a_terminal(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"source": "a\u202e\u001b[31m", "t": 0}] + [{"source": "b", "t": t} for t in range(3)]))
    assert r"# Left out: a\u202e\x1b[31m has fewer than two different times." in bind_event_log(path, "x").to_yaml()
