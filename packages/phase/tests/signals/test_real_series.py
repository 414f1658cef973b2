"""Public recordings: known facts come out, and what is wrong with the recordings is reported."""

import csv

import numpy as np
import pytest
from scipy.signal import find_peaks

from scpn_phase_orchestrator.signals import SampleState, extract_phase_series, read_signals

BEATS_PER_MINUTE = 60.0


def only(path, **options):
    (series,), _ = extract_phase_series(read_signals(path, **options))
    return series


def kinds(series):
    return {finding.kind: finding for finding in series.findings}


def counted_rate(signal, rate, *, height):
    """Beats per second between the first and the last peak that rises above a level; no filter, no phase."""
    peaks, _ = find_peaks(signal, height=height, distance=int(0.35 * rate))
    return (peaks.size - 1) / ((peaks[-1] - peaks[0]) / rate)


def test_solar_cycle_lasts_eleven_years_and_varies_as_the_records_say(sunspots):
    series = only(sunspots)
    assert series.time_unit == "year"
    assert 1.0 / series.mean_frequency == pytest.approx(11.0, abs=0.3)
    # Lengths of single cycles, from maximum to maximum (whole turns of the phase).
    usable = np.flatnonzero(series.usable)
    turns = series.unwrapped[usable] / (2 * np.pi)
    maxima = np.interp(np.arange(np.ceil(turns[0]), turns[-1]), turns, series.times[usable])
    lengths = np.diff(maxima)
    assert lengths.size >= 22
    assert 8.5 < lengths.min() < 10.0
    assert 11.5 < lengths.max() < 17.0
    assert 0.8 < lengths.std() < 2.0
    # Known maxima of the record, each within two years of a whole turn.
    for year in (1778, 1816, 1870, 1907, 1937, 1957, 1968, 1979):
        assert np.min(np.abs(maxima - year)) < 3.0, year


def test_carbon_dioxide_has_one_cycle_a_year_that_peaks_in_may(co2):
    series = only(co2)
    assert series.time_unit == "year"
    assert series.mean_frequency == pytest.approx(1.0, abs=0.005)
    calendar = 1958.0 + 87.0 / 365.25 + series.times
    at_peak = calendar[1:][(np.diff(np.floor(series.unwrapped / (2 * np.pi))) == 1) & series.usable[1:]] % 1.0
    assert at_peak.size > 35
    assert np.median(at_peak) == pytest.approx(135 / 365, abs=0.06)


def test_missing_weeks_of_carbon_dioxide_are_all_accounted_for(co2):
    with co2.open(encoding="utf-8") as file:
        missing = [k for k, row in enumerate(csv.DictReader(file)) if row["co2"] == ""]
    found = kinds(only(co2))
    said = [k for kind in ("missing_bridged", "missing_cut") for a, b in found[kind].ranges for k in range(a, b)]
    assert sorted(said) == missing
    assert max(b - a for a, b in found["missing_cut"].ranges) == 18


def test_heart_rate_of_the_first_recording_equals_the_counted_one(pulse):
    series = only(pulse[0], sample_rate=100.0)
    counted = counted_rate(np.loadtxt(pulse[0]), 100.0, height=700)
    assert counted * BEATS_PER_MINUTE == pytest.approx(58.9, abs=0.5)
    assert series.mean_frequency == pytest.approx(counted, rel=0.01)
    assert series.mean_quality > 0.85


def test_dropout_of_the_second_recording_is_cut_and_its_rate_survives(pulse):
    table = read_signals(pulse[1], time_column="timer", time_unit="ms")
    assert table.sample_rate == pytest.approx(116.99, abs=0.01)
    (series,), _ = extract_phase_series(table)
    ((first, after),) = kinds(series)["stuck_cut"].ranges
    assert (table.values[first:after, 0] == 0.0).all()
    assert (after - first) / table.sample_rate == pytest.approx(7.1, abs=0.1)
    clean = slice(int(90 * table.sample_rate), int(120 * table.sample_rate))
    counted = counted_rate(table.values[clean, 0], table.sample_rate, height=545)
    assert 55 < counted * BEATS_PER_MINUTE < 70
    advance = (series.unwrapped[clean][-1] - series.unwrapped[clean][0]) / (2 * np.pi)
    assert advance / 30.0 == pytest.approx(counted, rel=0.01)


def test_coarse_clock_and_clipping_of_the_third_recording_are_said(pulse):
    table = read_signals(pulse[2])
    notes = " ".join(table.notes)
    assert "24775 row(s) share the time of the row before" in notes
    assert "irregular sampling" in notes
    (series,), _ = extract_phase_series(table)
    assert (series.state == SampleState.CLIPPED).any()
    calm = slice(0, int(60 * table.sample_rate))
    counted = counted_rate(table.values[calm, 0], table.sample_rate, height=700)
    advance = (series.unwrapped[calm][-1] - series.unwrapped[calm][0]) / (2 * np.pi)
    assert 80 < counted * BEATS_PER_MINUTE < 130
    assert advance / 60.0 == pytest.approx(counted, rel=0.05)
