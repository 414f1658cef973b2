"""Extractors against signals whose phase is known."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators import (
    InformationalExtractor,
    PhaseQualityScorer,
    PhaseState,
    PhysicalExtractor,
    SymbolicExtractor,
    WaveletExtractor,
    ZeroCrossingExtractor,
    build_extractor,
    extract_initial_phases,
)

RATE = 100.0
TIME = np.arange(1000) / RATE


def distance(a, b):
    return abs((a - b + np.pi) % (2 * np.pi) - np.pi)


def angle_and_length(phases):
    mean = np.exp(1j * np.asarray(phases)).mean()
    return abs(mean), np.angle(mean) % (2 * np.pi)


@pytest.mark.parametrize("phase", [0.0, 1.0, 2.5, 4.0, 6.0])
@pytest.mark.parametrize("extractor", [WaveletExtractor("a"), ZeroCrossingExtractor("a")], ids=["wavelet", "crossing"])
def test_phase_at_the_end_of_the_record_is_the_cosine_argument(extractor, phase):
    (state,) = extractor.extract(3.0 * np.cos(2 * np.pi * 2.03 * TIME + phase) + 7.0, RATE)
    assert distance(state.theta, 2 * np.pi * 2.03 * TIME[-1] + phase) < 0.1
    assert state.omega == pytest.approx(2 * np.pi * 2.03, rel=0.01)
    assert state.amplitude == pytest.approx(3.0, rel=0.08)
    assert state.quality > 0.9


@pytest.mark.parametrize("phase", [0.0, 1.0, 2.5, 4.0, 6.0])
def test_hilbert_phase_is_the_cosine_argument_where_the_cut_ends(phase):
    signal = 3.0 * np.cos(2 * np.pi * 2.03 * TIME + phase)
    (state,) = PhysicalExtractor("a", band=(1.0, 4.0), edge_trim=100).extract(signal, RATE)
    assert distance(state.theta, 2 * np.pi * 2.03 * TIME[-101] + phase) < 0.05
    assert state.omega == pytest.approx(2 * np.pi * 2.03, rel=0.002)
    assert state.amplitude == pytest.approx(3.0, rel=0.01)


def test_hilbert_on_whole_periods_is_exact_and_follows_the_documented_formulas():
    signal = 2.0 * np.cos(2 * np.pi * 2.0 * TIME)
    (state,) = PhysicalExtractor("a").extract(signal, RATE)
    assert distance(state.theta, 2 * np.pi * 2.0 * TIME[-1]) < 1e-9
    assert state == PhaseState(state.theta, pytest.approx(4 * np.pi), pytest.approx(2.0), pytest.approx(1.0), "P", "a")


def test_default_cut_after_filtering_is_three_times_order_plus_one():
    signal = np.cos(2 * np.pi * 2.03 * TIME)
    by_default = PhysicalExtractor("a", band=(1.0, 4.0), filter_order=3).extract(signal, RATE)
    assert by_default == PhysicalExtractor("a", band=(1.0, 4.0), filter_order=3, edge_trim=12).extract(signal, RATE)


def test_band_far_below_the_sample_rate_stays_finite():
    slow = np.cos(2 * np.pi * 0.02 * TIME * 10)
    (state,) = PhysicalExtractor("a", band=(0.1, 0.4)).extract(slow, RATE)
    assert np.isfinite(state.theta)
    assert state.omega == pytest.approx(2 * np.pi * 0.2, rel=0.1)


def test_noise_lowers_quality():
    rng = np.random.default_rng(1)
    clean = np.cos(2 * np.pi * 2.0 * TIME)
    noisy = clean + rng.normal(0.0, 1.0, TIME.size)
    for extractor in (PhysicalExtractor("a"), ZeroCrossingExtractor("a")):
        assert extractor.extract(noisy, RATE)[0].quality < extractor.extract(clean, RATE)[0].quality - 0.2


def test_hysteresis_ignores_ripple_at_the_crossing():
    ripple = 0.2 * np.sin(2 * np.pi * 20.0 * TIME)
    (state,) = ZeroCrossingExtractor("a").extract(np.cos(2 * np.pi * 1.0 * TIME + 0.3) + ripple, RATE)
    assert state.omega == pytest.approx(2 * np.pi, rel=0.02)


@pytest.mark.parametrize(
    ("extractor", "signal", "message"),
    [
        (PhysicalExtractor("a"), np.ones(50), "constant"),
        (WaveletExtractor("a"), np.ones(50), "constant"),
        (ZeroCrossingExtractor("a"), np.ones(50), "constant"),
        (PhysicalExtractor("a"), [0.0, np.nan, 1.0], "position 1"),
        (PhysicalExtractor("a"), [0.0, np.inf], "got inf at position 1"),
        (PhysicalExtractor("a"), np.zeros((3, 3)), r"shape \(3, 3\)"),
        (PhysicalExtractor("a"), [True, False], "real numbers, got bool"),
        (PhysicalExtractor("a"), [1j, 2j], "real numbers, got complex"),
        (PhysicalExtractor("a"), ["x", "y"], "real numbers"),
        (PhysicalExtractor("a"), [], "at least 2 values, got 0"),
        (PhysicalExtractor("a", band=(1.0, 50.0)), np.sin(TIME), "below the Nyquist frequency 50 Hz"),
        (PhysicalExtractor("a", band=(1.0, 2.0)), np.sin(TIME[:27]), "longer than 27 samples"),
        (PhysicalExtractor("a", edge_trim=600), np.sin(TIME), "leaves 0"),
        (WaveletExtractor("a"), np.sin(TIME[:7]), "at least 8"),
        (WaveletExtractor("a", band=(0.01, 0.02)), np.sin(TIME), "must overlap 0.3"),
        (ZeroCrossingExtractor("a"), [0.0, 0.0, 0.0, 1.0], "two are needed"),
        (InformationalExtractor("a"), [1.0, 0.5], "must ascend, got 0.5 after 1 at position 1"),
        (SymbolicExtractor(3), [0, 3], r"integers in \[0, 3\), got 3 at position 1"),
        (SymbolicExtractor(3), [0.5], "got 0.5"),
        (SymbolicExtractor(3), [-1], "got -1"),
    ],
)
def test_unusable_signals_are_refused_with_the_reason(extractor, signal, message):
    with pytest.raises(ExtractorError, match=message):
        extractor.extract(signal, RATE)


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf, True, "10", 1j])
@pytest.mark.parametrize("extractor", [PhysicalExtractor("a"), WaveletExtractor("a"), ZeroCrossingExtractor("a")])
def test_sample_rate_is_a_positive_number(extractor, rate):
    with pytest.raises(ValueError, match="sample_rate must be a positive finite number"):
        extractor.extract(np.sin(TIME), rate)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PhysicalExtractor("a", band=(2.0, 1.0)), "band must rise"),
        (lambda: PhysicalExtractor("a", band=(1.0,)), "two frequencies"),
        (lambda: PhysicalExtractor("a", band=(True, 2.0)), r"band\[0\]"),
        (lambda: PhysicalExtractor("a", filter_order=0), "filter_order"),
        (lambda: PhysicalExtractor("a", edge_trim=-1), "edge_trim"),
        (lambda: ZeroCrossingExtractor("a", hysteresis=0.0), "hysteresis"),
        (lambda: SymbolicExtractor(1), "n_states must be an integer >= 2, got 1"),
        (lambda: SymbolicExtractor(True), "n_states"),
        (lambda: SymbolicExtractor(3, mode="tree"), "mode must be"),
        (lambda: build_extractor("hilbrt", node_id="a"), "extractor_type must be one of"),
        (lambda: build_extractor("hilbert", node_id="a", config={"bnd": [1, 2]}), "did you mean 'band'"),
        (lambda: build_extractor("event", node_id="a", config={"band": [1, 2]}), "valid: none"),
        (lambda: PhaseQualityScorer(minimum=2.0), "minimum"),
    ],
)
def test_settings_out_of_range_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_events_follow_the_documented_formulas():
    (state,) = InformationalExtractor("a").extract([1.0, 1.5, 2.0, 3.0], 1.0)
    cv = np.std([0.5, 0.5, 1.0]) / np.mean([0.5, 0.5, 1.0])
    assert state.omega == pytest.approx(4 * np.pi)
    assert distance(state.theta, 0.0) < 1e-9
    assert state.quality == pytest.approx(1 / (1 + cv))


@pytest.mark.parametrize("times", [[], [3.0], [3.0, 3.0]])
def test_fewer_than_two_distinct_events_give_zeros(times):
    assert InformationalExtractor("a").extract(times, 1.0) == [PhaseState(0.0, 0.0, 0.0, 0.0, "I", "a")]


def test_simultaneous_events_count_once():
    single = InformationalExtractor("a").extract([0.0, 1.0, 2.5], 1.0)
    assert InformationalExtractor("a").extract([0.0, 1.0, 1.0, 2.5], 1.0) == single


def test_ring_phases_and_qualities():
    states = SymbolicExtractor(5, "v").extract([0, 1, 1, 3, 0, 4], 2.0)
    assert [s.theta for s in states] == pytest.approx([2 * np.pi * k / 5 for k in (0, 1, 1, 3, 0, 4)])
    assert [s.quality for s in states] == pytest.approx([0.5, 1.0, 0.2, 0.8, 0.8, 1.0])
    assert [s.omega for s in states] == pytest.approx([2 * 2 * np.pi * k / 5 for k in (0, 1, 0, 2, 2, -1)])


def test_graph_phase_is_the_share_of_the_walk_that_is_done():
    states = SymbolicExtractor(10, "v", "graph").extract([2, 5, 5, 4], 1.0)
    assert [s.theta for s in states] == pytest.approx([0.0, 1.5 * np.pi, 1.5 * np.pi, 0.0])
    assert [s.quality for s in states] == pytest.approx([0.5, 0.8, 0.2, 1.0])
    assert [s.theta for s in SymbolicExtractor(10, "v", "graph").extract([3, 3], 1.0)] == [0.0, 0.0]


@given(st.lists(st.integers(0, 6), max_size=30), st.sampled_from(["ring", "graph"]))
def test_symbolic_states_stay_in_their_ranges(symbols, mode):
    for state in SymbolicExtractor(7, "v", mode).extract(np.array(symbols, dtype=int), 1.0):
        assert 0.0 <= state.theta < 2 * np.pi
        assert 0.1 <= state.quality <= 1.0


@given(st.floats(0.5, 20.0), st.floats(0.0, 6.28), st.floats(-1e6, 1e6))
def test_wavelet_and_crossings_agree_on_the_frequency_whatever_the_offset(frequency, phase, offset):
    signal = np.cos(2 * np.pi * frequency * TIME + phase) + offset
    for extractor in (WaveletExtractor("a"), ZeroCrossingExtractor("a")):
        (state,) = extractor.extract(signal, RATE)
        assert state.omega == pytest.approx(2 * np.pi * frequency, rel=0.08)
        assert 0.0 <= state.theta < 2 * np.pi


def test_scores_weigh_by_amplitude_and_tell_a_collapse():
    states = [PhaseState(0, 0, 3.0, 0.9, "P", "a"), PhaseState(0, 0, 1.0, 0.1, "P", "b")]
    scorer = PhaseQualityScorer()
    assert scorer.score(states) == pytest.approx(0.7)
    assert scorer.weights(states).tolist() == [0.9, 0.0]
    assert not scorer.is_collapsed(states)
    assert scorer.is_collapsed([])
    assert scorer.is_collapsed([PhaseState(0, 0, 1.0, 0.05, "P", "a")])
    assert scorer.score([PhaseState(0, 0, 0.0, 0.4, "P", "a")]) == pytest.approx(0.4)
    assert PhysicalExtractor("a").quality_score(states) == pytest.approx(0.5)
    assert PhysicalExtractor("a").quality_score([]) == 0.0


@dataclass
class Family:
    channel: str
    extractor_type: str
    config: dict = field(default_factory=dict)


@dataclass
class Layer:
    oscillator_ids: list
    family: str | None = None


@dataclass
class Spec:
    layers: list
    oscillator_families: dict


def test_initial_phases_of_s1_are_the_documented_ones():
    families = {"feeder": Family("P", "hilbert"), "storm": Family("I", "event")}
    spec = Spec([Layer(["f1", "f2", "f3"], "feeder"), Layer(["s1", "s2"], "storm")], families)
    phases = extract_initial_phases(spec, [1.0, 1.2, 0.8, 3.0, -2.0])
    assert angle_and_length(phases[:3]) == pytest.approx((0.499, 5.0624), abs=5e-5)
    assert angle_and_length(phases[3:]) == pytest.approx((0.9385, 0.6478), abs=5e-5)
    assert angle_and_length(phases)[0] == pytest.approx(0.4057, abs=5e-5)


def test_initial_phases_of_symbols_lie_on_the_ring_and_custom_channels_follow_their_extractor():
    families = {"a": Family("S", "ring", {"n_states": 3}), "b": Family("weather", "event"), "c": Family("W", "wavelet")}
    spec = Spec([Layer(["x"] * 8, "a"), Layer(["y"], "b"), Layer(["z"], "c")], families)
    phases = extract_initial_phases(spec, np.full(10, 2.0), seed=3)
    assert set(np.round(phases[:8] / (2 * np.pi / 3), 9)) <= {0.0, 1.0, 2.0}
    assert np.array_equal(phases, extract_initial_phases(spec, np.full(10, 2.0), seed=3))
    assert not np.array_equal(phases, extract_initial_phases(spec, np.full(10, 2.0), seed=4))
    assert ((phases >= 0.0) & (phases < 2 * np.pi)).all()


def test_layers_without_a_family_take_the_sorted_families_in_turn():
    families = {"b": Family("I", "event"), "a": Family("P", "hilbert")}
    free = extract_initial_phases(Spec([Layer(["x", "y"])], families), [1.0, 1.0])
    named = extract_initial_phases(Spec([Layer(["x"], "a"), Layer(["y"], "b")], families), [1.0, 1.0])
    assert np.array_equal(free, named)
    no_family = extract_initial_phases(Spec([Layer(["x"])], {}), [1.0])
    assert no_family[0] == named[0]


def test_initial_phases_need_one_frequency_per_oscillator():
    with pytest.raises(ValueError, match=r"shape \(1,\) as the spec, got \(2,\)"):
        extract_initial_phases(Spec([Layer(["x"])], {}), [1.0, 2.0])


def test_the_wavelet_phase_is_that_of_the_last_sample():
    rate, frequency = 20.0, 2.0  # one sample is 0.63 rad
    times = np.arange(400) / rate
    (state,) = WaveletExtractor("a").extract(np.cos(2 * np.pi * frequency * times), rate)
    error = np.angle(np.exp(1j * (state.theta - 2 * np.pi * frequency * times[-1])))
    assert abs(error) < 0.1
