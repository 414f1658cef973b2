"""Phase series of known signals: accuracy, repairs, edges; nothing is dropped silently."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator._arrays import true_ranges
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals import SampleState, SignalTable, extract_phase_series
from scpn_phase_orchestrator.signals.export import phase_matrix, write_series
from scpn_phase_orchestrator.signals.files import read_signals
from scpn_phase_orchestrator.signals.spectrum import dominant_rhythm

RATE = 50.0
TIME = np.arange(3000) / RATE
TRUTH = 2 * np.pi * (1.3 * TIME + 0.3 * np.sin(2 * np.pi * 0.05 * TIME))


def table(*columns, rate=RATE):
    names = tuple(f"c{k}" for k in range(len(columns)))
    return SignalTable("t", names, np.column_stack(columns).astype(float), rate, 0.0, "s")


def one(values, **options):
    (series,), refused = extract_phase_series(table(values), **options)
    assert refused == ()
    return series


def kinds(series):
    return {finding.kind: finding for finding in series.findings}


def error(series, truth=TRUTH):
    usable = series.usable & ~np.isnan(series.unwrapped)
    return np.abs(np.angle(np.exp(1j * (series.unwrapped - truth))))[usable]


@pytest.mark.parametrize("method", ["hilbert", "wavelet", "zero-crossing"])
def test_phase_of_a_drifting_rhythm_follows_the_truth(method):
    series = one(3.0 * np.cos(TRUTH) + 0.05 * np.random.default_rng(0).normal(size=TIME.size), method=method)
    assert np.quantile(error(series), 0.95) < {"hilbert": 0.05, "wavelet": 0.25, "zero-crossing": 0.2}[method]
    assert series.mean_frequency == pytest.approx(1.3, rel=0.02)
    assert np.nanmedian(series.amplitude) == pytest.approx(3.0, rel=0.1)
    assert series.mean_quality > 0.9
    assert np.allclose(np.exp(1j * series.wrapped), np.exp(1j * series.unwrapped), equal_nan=True)


def test_instantaneous_frequency_follows_the_truth():
    series = one(np.cos(TRUTH))
    truth = 1.3 + 0.3 * 2 * np.pi * 0.05 * np.cos(2 * np.pi * 0.05 * TIME)
    assert np.max(np.abs(series.frequency - truth)[series.usable]) < 0.1


def test_default_band_lies_around_the_dominant_frequency_and_an_own_band_wins():
    mixture = np.cos(TRUTH) + 0.4 * np.cos(2 * np.pi * 9.0 * TIME)
    low, high = one(mixture).band
    assert low < 1.3 < high < 9.0
    assert one(mixture, band=(8.0, 10.0)).mean_frequency == pytest.approx(9.0, rel=0.01)


def test_short_gaps_are_bridged_and_long_ones_cut_with_their_ranges():
    signal = np.cos(TRUTH)
    signal[[500, 501, 502]] = np.nan
    signal[1500:1600] = np.nan
    series = one(signal)
    found = kinds(series)
    assert found["missing_bridged"].ranges == ((500, 503),)
    assert found["missing_cut"].ranges == ((1500, 1600),)
    assert (series.state[500:503] == SampleState.BRIDGED).all()
    assert (series.state[1500:1600] == SampleState.GAP).all()
    assert np.isnan(series.unwrapped[1500:1600]).all()
    assert not np.isnan(np.delete(series.unwrapped, np.s_[1500:1600])).any()
    assert (series.quality[1500:1600] == 0.0).all()
    assert np.quantile(error(series), 0.99) < 0.1


def test_missing_ends_are_cut():
    signal = np.cos(TRUTH)
    signal[:20] = signal[-7:] = np.nan
    assert kinds(one(signal))["missing_cut"].ranges == ((0, 20), (2993, 3000))


def test_a_short_stretch_between_gaps_is_cut():
    signal = np.cos(TRUTH)
    signal[1000:1060] = signal[1120:1200] = np.nan
    assert kinds(one(signal))["short_segment_cut"].ranges == ((1060, 1120),)


def test_a_stuck_sensor_is_cut_and_a_square_wave_is_not():
    signal = np.cos(TRUTH)
    signal[800:900] = signal[800]
    found = kinds(one(signal))
    assert found["stuck_cut"].count == 1
    assert abs(found["stuck_cut"].ranges[0][0] - 800) <= 1
    assert "stuck_cut" not in kinds(one(np.sign(np.cos(2 * np.pi * 0.25 * TIME + 0.1)), method="zero-crossing"))


def test_clipping_is_marked_and_a_clean_quantised_sine_is_not():
    clipped = np.clip(np.cos(TRUTH), -2.0, 0.6)
    series = one(clipped)
    assert (series.state == SampleState.CLIPPED).sum() == pytest.approx(np.sum(clipped == 0.6), abs=30)
    assert series.mean_quality < one(np.cos(TRUTH)).mean_quality
    assert "clipped" not in kinds(one(np.round(100 * np.cos(TRUTH))))


def test_edges_are_marked_for_as_long_as_the_filter_rings():
    series = one(np.cos(TRUTH))
    low, high = series.band
    reach = int(np.ceil(1.5 * np.ceil(RATE / (high - low))))
    assert true_ranges(series.state == SampleState.EDGE) == [(0, reach), (3000 - reach, 3000)]
    assert "edge" in kinds(series)


def test_constant_and_empty_channels_are_refused_by_name_while_others_go_on():
    good, constant, empty = np.cos(TRUTH), np.ones(3000), np.full(3000, np.nan)
    series, refused = extract_phase_series(table(good, constant, empty))
    assert [s.name for s in series] == ["c0"]
    assert [(f.kind, f.text.split(":")[0]) for f in refused] == [
        ("constant", "channel 'c1'"),
        ("unusable", "channel 'c2'"),
    ]
    with pytest.raises(ExtractorError, match="no channel has a phase: channel 'c0': is constant"):
        extract_phase_series(table(constant))


def test_noise_is_called_unclear_and_a_rhythm_is_not():
    noise = np.random.default_rng(3).normal(size=3000)
    assert "unclear_rhythm" in kinds(one(noise))
    assert "unclear_rhythm" not in kinds(one(np.cos(TRUTH) + 0.5 * noise))


def test_a_rhythm_near_nyquist_is_called_aliased():
    series = one(np.cos(2 * np.pi * 21.0 * TIME), band=(18.0, 24.5))
    assert "turns 0.42 of a circle per sample" in kinds(series)["aliasing"].text


def test_detrend_keeps_a_ramp_out_of_the_crossings():
    ramp = np.cos(TRUTH) + 0.5 * TIME
    assert one(ramp, method="zero-crossing", detrend=True).mean_frequency == pytest.approx(1.3, rel=0.02)
    assert one(ramp).mean_frequency == pytest.approx(1.3, rel=0.02)


def test_event_times_advance_one_turn_per_event():
    events = np.cumsum(np.full(50, 0.4))
    other = np.concatenate([np.cumsum(np.full(30, 0.5)), np.full(20, np.nan)])
    series, refused = extract_phase_series(table(events, other), method="event")
    assert refused == ()
    first, second = series
    assert first.unwrapped.size == second.unwrapped.size
    assert first.mean_frequency == pytest.approx(2.5)
    assert second.mean_frequency == pytest.approx(2.0)
    at_events = np.interp(events[1:-1], first.times, first.unwrapped)
    assert np.allclose(at_events, 2 * np.pi * np.arange(1, 49), atol=1e-6)
    assert kinds(second)["missing_cut"].count == 2


def test_event_marks_use_the_axis_of_the_table():
    marks = np.zeros(3000)
    marks[::25] = 1.0
    series = one(marks, method="event")
    assert series.sample_rate == RATE
    assert series.mean_frequency == pytest.approx(2.0)
    with pytest.raises(ExtractorError, match="must ascend"):
        extract_phase_series(table(np.array([1.0, 3.0, 2.0])), method="event")


def test_symbols_go_round_the_ring_the_short_way():
    symbols = np.tile([0.0, 1.0, 2.0, 3.0], 10)
    symbols[20] = np.nan
    series = one(symbols, method="symbolic")
    assert series.mean_frequency == pytest.approx(RATE / 4)
    assert series.unwrapped[19] == pytest.approx(19 * np.pi / 2)
    assert kinds(series)["missing_cut"].ranges == ((20, 21),)
    with pytest.raises(ExtractorError, match="channel 'c0': symbols must be integers"):
        extract_phase_series(table(np.array([0.0, 0.5, 1.0])), method="symbolic")


@pytest.mark.parametrize(
    ("options", "failure", "message"),
    [
        ({"method": "magic"}, ValueError, "method must be one of"),
        ({"band": (1.0, 25.0)}, ExtractorError, "below the Nyquist frequency 25"),
        ({"band": (2.0, 1.0)}, ValueError, "band must rise"),
        ({"band": (1.0, 2.0), "method": "event"}, ValueError, "no meaning"),
    ],
)
def test_impossible_settings_are_refused(options, failure, message):
    with pytest.raises(failure, match=message):
        extract_phase_series(table(np.cos(TRUTH)), **options)


def test_too_short_records_are_refused():
    for length in (1, 2, 10, 15):
        with pytest.raises(ExtractorError):
            extract_phase_series(table(np.cos(TRUTH[:length])))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["hilbert", "wavelet", "zero-crossing"]))
def test_any_damage_is_accounted_for(seed, method):
    rng = np.random.default_rng(seed)
    signal = np.cos(TRUTH[:1200]) * rng.uniform(1e-6, 1e6) + rng.normal() * 10
    for _ in range(rng.integers(0, 6)):
        start = rng.integers(0, 1200)
        signal[start : start + rng.integers(1, 120)] = np.nan
    missing = np.isnan(signal)
    try:
        (series,), _ = extract_phase_series(table(signal), method=method)
    except ExtractorError:
        return
    said = np.zeros(1200, dtype=bool)
    for finding in series.findings:
        if finding.kind.startswith("missing"):
            for first, after in finding.ranges:
                said[first:after] = True
    assert np.array_equal(said, missing)
    assert np.isnan(series.unwrapped[series.state == SampleState.GAP]).all()
    assert np.isfinite(series.unwrapped[series.state != SampleState.GAP]).all()
    assert ((series.quality >= 0.0) & (series.quality <= 1.0)).all()


def test_a_spiky_pulse_has_its_fundamental_not_a_harmonic():
    beats = np.exp(-0.5 * ((TIME * 1.2 % 1.0 - 0.5) / 0.06) ** 2)
    assert dominant_rhythm(beats + 0.01 * np.random.default_rng(0).normal(size=3000), RATE).frequency == pytest.approx(
        1.2, rel=0.03
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_written_series_come_back_as_the_same_usable_phases(tmp_path, suffix):
    signal = np.cos(TRUTH)
    signal[1500:1600] = np.nan
    series, _ = extract_phase_series(table(signal, np.cos(0.9 * TRUTH)))
    path = tmp_path / f"p{suffix}"
    write_series(series, path)
    matrix = phase_matrix(read_signals(path))
    assert matrix.names == ("c0", "c1")
    assert matrix.origin == "phases"
    assert matrix.sample_period_s == pytest.approx(1.0 / RATE)
    expected = np.column_stack([np.where(s.usable & (s.quality > 0.0), s.unwrapped, np.nan) for s in series])
    assert np.array_equal(matrix.phases, expected, equal_nan=True)
    with pytest.raises(ExtractorError, match="must end in"):
        write_series(series, tmp_path / "p.xls")


def test_wrapped_phase_columns_are_unwrapped():
    wrapped = SignalTable(
        "t", ("theta_a", "phase_b"), np.column_stack([TRUTH, 0.9 * TRUTH]) % (2 * np.pi), RATE, 0, "s"
    )
    matrix = phase_matrix(wrapped)
    assert matrix.origin == "phases"
    assert np.allclose(np.diff(matrix.phases[:, 0]), np.diff(TRUTH))
    assert phase_matrix(wrapped, origin="signals").origin == "signals"


@pytest.mark.parametrize("duty", [0.06, 0.1, 0.15, 0.3])
@pytest.mark.parametrize("frequency", [0.7, 1.2, 2.3])
def test_short_pulses_have_the_rhythm_of_the_pulses_and_not_of_a_harmonic(duty, frequency):
    pulses = ((TIME * frequency) % 1.0 < duty) + 0.02 * np.random.default_rng(0).normal(size=TIME.size)
    assert one(pulses).mean_frequency == pytest.approx(frequency, rel=0.02)


def test_a_rhythm_too_slow_for_the_record_is_said():
    for cycles in (1.2, 1.5, 2.0):
        assert "too_short" in kinds(one(np.sin(2 * np.pi * cycles * np.arange(3000) / 3000)))
    assert "too_short" not in kinds(one(np.sin(2 * np.pi * 2.0 * TIME)))


def test_a_rhythm_that_leaves_its_band_is_said():
    assert "out_of_band" in kinds(one(np.sin(2 * np.pi * np.where(TIME < 30, 2.0, 4.0) * TIME)))
    assert "out_of_band" in kinds(one(np.sin(2 * np.pi * (TIME + 0.05 * TIME**2))))
    assert "out_of_band" not in kinds(one(np.sin(2 * np.pi * (2.0 * TIME + 0.002 * TIME**2))))
