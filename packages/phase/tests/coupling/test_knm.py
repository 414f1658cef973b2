"""Coupling matrices: the documented numbers, the fixed 16-layer matrix, templates and handshake files."""

import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.coupling.knm import (
    SCPN_CALIBRATION_ANCHORS,
    SCPN_LAYER_NAMES,
    SCPN_LAYER_TIMESCALES,
    CouplingBuilder,
    CouplingState,
)


def test_build_gives_the_documented_strengths():
    state = CouplingBuilder().build(3, 0.45, 0.3)
    assert state.knm[0, 1] == 0.333368199306773
    assert state.knm[0, 2] == pytest.approx(0.45 * math.exp(-0.6), rel=1e-15)
    assert not np.diagonal(state.knm).any()
    assert not state.alpha.any()
    assert state.active_template == "default"
    assert state.knm_r is None


@given(st.integers(1, 20), st.floats(0, 10), st.floats(0, 3))
def test_built_coupling_is_symmetric_and_falls_with_distance(n, strength, decay):
    knm = CouplingBuilder().build(n, strength, decay).knm
    assert (knm == knm.T).all()
    assert not np.diagonal(knm).any()
    assert (knm >= 0).all()
    assert (knm <= strength).all()
    assert (np.diff(knm[0, 1:]) <= 0).all()


def test_amplitude_coupling_has_its_own_strength_and_decay():
    state = CouplingBuilder().build_with_amplitude(4, 0.5, 0.2, 0.3, 0.7)
    assert state.knm_r is not None
    assert state.knm_r[0, 3] == pytest.approx(0.3 * np.exp(-2.1), rel=1e-15)
    assert not np.diagonal(state.knm_r).any()
    assert state.knm[0, 3] == pytest.approx(0.5 * np.exp(-0.6), rel=1e-15)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 0.1, 0.1), "n must be an integer >= 1"),
        ((True, 0.1, 0.1), "n must be an integer"),
        ((2.0, 0.1, 0.1), "n must be an integer"),
        ((2, -0.1, 0.1), "base_strength must be at least 0"),
        ((2, True, 0.1), "base_strength must be a finite real scalar, got True"),
        ((2, 0.1, float("nan")), "decay_alpha must be a finite"),
        ((2, 0.1j, 0.1), "base_strength must be a finite"),
    ],
)
def test_build_names_the_argument_it_refuses(arguments, named):
    with pytest.raises(ValueError, match=named):
        CouplingBuilder().build(*arguments)


def test_state_cannot_be_reassigned():
    state = CouplingBuilder().build(2, 0.1, 0.1)
    with pytest.raises(FrozenInstanceError):
        state.active_template = "other"  # type: ignore[misc]


class TestPhysicsMatrix:
    knm = CouplingBuilder().build_scpn_physics().knm

    def test_neighbours_take_the_documented_anchors(self):
        for (first, second), strength in SCPN_CALIBRATION_ANCHORS.items():
            assert self.knm[first - 1, second - 1] == strength
        assert [*SCPN_CALIBRATION_ANCHORS.values()] == [0.302, 0.201, 0.252, 0.154]

    def test_neighbours_beyond_the_anchors_follow_their_time_scales(self):
        for layer in range(5, 15):
            ratio = SCPN_LAYER_TIMESCALES[layer] / SCPN_LAYER_TIMESCALES[layer + 1]
            expected = np.clip(0.45 / (1 + 0.05 * abs(np.log(ratio))), 0.1, 0.5)
            assert self.knm[layer - 1, layer] == pytest.approx(expected, rel=1e-14)

    def test_layer_16_is_coupled_to_its_neighbour_by_a_fifth(self):
        assert self.knm[14, 15] == 0.2

    def test_distance_two_is_the_geometric_mean_damped_by_the_gap_of_rates(self):
        rates = [2 * np.pi / SCPN_LAYER_TIMESCALES[layer] for layer in range(1, 17)]
        for n in range(14):
            gap = abs(rates[n] - rates[n + 2]) / ((rates[n] + rates[n + 2]) / 2)
            expected = np.sqrt(self.knm[n, n + 1] * self.knm[n + 1, n + 2]) / (1 + 0.1 * gap)
            expected = max(np.clip(expected, 0.01, 0.4), 0.15 if n == 4 else 0.0)
            assert self.knm[n, n + 2] == pytest.approx(expected, rel=1e-14)

    def test_far_layers_decay_exponentially_within_bounds(self):
        assert self.knm[0, 3] == pytest.approx(0.45 * np.exp(-0.9), rel=1e-14)
        assert self.knm[1, 15] == pytest.approx(0.45 * np.exp(-0.3 * 14), rel=1e-14)
        strong = CouplingBuilder().build_scpn_physics(k_base=5.0, alpha_decay=0.0).knm
        assert strong[0, 3] == 0.2
        weak = CouplingBuilder().build_scpn_physics(k_base=1e-6, alpha_decay=3.0).knm
        assert weak[1, 15] == 0.001

    def test_two_documented_links_have_a_floor(self):
        weak = CouplingBuilder().build_scpn_physics(k_base=1e-6, alpha_decay=3.0).knm
        assert weak[0, 15] == 0.05
        assert weak[4, 6] == 0.15
        assert self.knm[0, 15] >= 0.05
        assert self.knm[4, 6] >= 0.15

    def test_matrix_is_symmetric_with_zero_diagonal(self):
        assert self.knm.shape == (16, 16)
        assert (self.knm == self.knm.T).all()
        assert not np.diagonal(self.knm).any()

    def test_every_layer_has_a_name_and_a_positive_time_scale(self):
        assert [*SCPN_LAYER_NAMES] == [*SCPN_LAYER_TIMESCALES] == list(range(1, 17))
        assert len(set(SCPN_LAYER_NAMES.values())) == 16
        assert all(timescale > 0 for timescale in SCPN_LAYER_TIMESCALES.values())

    def test_scale_must_be_positive(self):
        with pytest.raises(ValueError, match="k_base must be greater than 0"):
            CouplingBuilder().build_scpn_physics(k_base=0.0)


class TestTemplates:
    state = CouplingBuilder().build_with_amplitude(2, 0.5, 0.1, 0.2, 0.1)

    def test_template_replaces_strengths_and_keeps_lag_and_amplitude_coupling(self):
        lagged = CouplingState(self.state.knm, np.full((2, 2), 0.3), "default", self.state.knm_r)
        switched = CouplingBuilder().switch_template(lagged, "night", {"night": [[0.0, 0.1], [0.2, 0.0]]})
        assert switched.knm.tolist() == [[0.0, 0.1], [0.2, 0.0]]
        assert switched.alpha is lagged.alpha
        assert switched.knm_r is lagged.knm_r
        assert switched.active_template == "night"

    def test_template_is_copied(self):
        template = np.array([[0.0, 0.1], [0.2, 0.0]])
        switched = CouplingBuilder().switch_template(self.state, "night", {"night": template})
        template[0, 1] = 9.0
        assert switched.knm[0, 1] == 0.1

    def test_unknown_template_names_the_known_ones(self):
        with pytest.raises(KeyError, match="no coupling template named 'day'; known: dusk, night"):
            CouplingBuilder().switch_template(self.state, "day", {"night": [], "dusk": []})

    @pytest.mark.parametrize(
        ("matrix", "named"),
        [
            ([[0.0]], r"must have shape \(2, 2\), got \(1, 1\)"),
            ([[0.0, float("inf")], [0.0, 0.0]], "only finite"),
            ([[0.1, 0.0], [0.0, 0.0]], "zero diagonal"),
            ([[0.0, True], [0.0, 0.0]], "got a bool"),
            ([[0.0, 1j], [0.0, 0.0]], "complex128"),
            ([[0.0, 1.0], [0.0]], "array of real numbers"),
        ],
    )
    def test_bad_template_is_refused(self, matrix, named):
        with pytest.raises(ValueError, match=named):
            CouplingBuilder().switch_template(self.state, "night", {"night": matrix})


class TestHandshakes:
    state = CouplingBuilder().build(3, 0.0, 0.0)

    def apply(self, tmp_path, text):
        path = tmp_path / "handshakes.json"
        path.write_text(text)
        return CouplingBuilder().apply_handshakes(self.state, path)

    def entry(self, source, target, strength):
        return {"from_layer": source, "to_layer": target, "coupling_strength": strength}

    def test_positive_strength_holds_in_both_directions(self, tmp_path):
        knm = self.apply(tmp_path, json.dumps({"matrix": [self.entry(1, 3, 0.4)]})).knm
        assert knm[0, 2] == knm[2, 0] == 0.4
        assert np.count_nonzero(knm) == 2

    def test_negative_strength_acts_on_the_receiver_alone(self, tmp_path):
        knm = self.apply(tmp_path, json.dumps({"matrix": [self.entry(1, 3, -0.4)]})).knm
        assert knm[2, 0] == -0.4
        assert np.count_nonzero(knm) == 1

    def test_later_entries_win_and_the_state_before_stays(self, tmp_path):
        entries = [self.entry(1, 2, 0.4), self.entry(2, 1, 0.1)]
        knm = self.apply(tmp_path, json.dumps({"matrix": entries})).knm
        assert knm[0, 1] == knm[1, 0] == 0.1
        assert not self.state.knm.any()

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("[1]", "object with a list 'matrix'"),
            ('{"matrix": 1}', "object with a list 'matrix'"),
            ('{"matrix": [1]}', "list 'matrix' of objects"),
            ('{"matrix": [], "matrix": []}', "no handshake file"),
            ('{"matrix": [{"from_layer": 1, "to_layer": 2, "coupling_strength": NaN}]}', "no handshake file"),
            ("{", "no handshake file"),
            ('{"matrix": [{"from_layer": 1}]}', r"matrix\[0\] lacks coupling_strength, to_layer"),
            (
                '{"matrix": [{"from_layer": 0, "to_layer": 2, "coupling_strength": 1}]}',
                r"matrix\[0\].from_layer must be an integer from 1 to 3, got 0",
            ),
            (
                '{"matrix": [{"from_layer": 1, "to_layer": 4, "coupling_strength": 1}]}',
                r"matrix\[0\].to_layer must be an integer from 1 to 3, got 4",
            ),
            ('{"matrix": [{"from_layer": 2, "to_layer": 2, "coupling_strength": 1}]}', "two different layers"),
            (
                '{"matrix": [{"from_layer": true, "to_layer": 2, "coupling_strength": 1}]}',
                "from_layer must be an integer",
            ),
            ('{"matrix": [{"from_layer": 1, "to_layer": 2, "coupling_strength": "1"}]}', "coupling_strength must be a"),
            (
                '{"matrix": [{"from_layer": 1, "to_layer": 2, "coupling_strength": 1' + "0" * 400 + "}]}",
                "coupling_strength must be a|no handshake file",
            ),
        ],
    )
    def test_bad_file_is_refused_with_its_place(self, tmp_path, text, named):
        with pytest.raises(ValueError, match=named):
            self.apply(tmp_path, text)

    def test_missing_file_is_an_os_error(self, tmp_path):
        with pytest.raises(OSError, match="absent"):
            CouplingBuilder().apply_handshakes(self.state, tmp_path / "absent.json")
