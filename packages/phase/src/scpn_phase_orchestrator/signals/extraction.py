"""Phase series from the channels of a table, by the method of choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray, true_ranges
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators.informational import distinct_events
from scpn_phase_orchestrator.oscillators.physical import analytic_signal, band_pass, checked_band, edge_samples
from scpn_phase_orchestrator.oscillators.symbolic import SymbolicExtractor
from scpn_phase_orchestrator.oscillators.wavelet import strongest_ridge
from scpn_phase_orchestrator.oscillators.zero_crossing import schmitt_crossings
from scpn_phase_orchestrator.signals.phase_series import Finding, PhaseSeries, SampleState
from scpn_phase_orchestrator.signals.repair import Repaired, repair
from scpn_phase_orchestrator.signals.spectrum import band_around, band_with_sidebands, without_trend
from scpn_phase_orchestrator.signals.table import SignalTable

__all__ = ["METHODS", "extract_phase_series"]

METHODS = ("hilbert", "wavelet", "zero-crossing", "event", "symbolic")
"""How a phase can be read."""
FILTER_ORDER = 3
"""Order of the Butterworth band-pass, forwards and backwards: steeper rings longer, flatter lets harmonics through."""
EDGE_RINGS = 1.5
"""Marked at either end, in inverse bandwidths: from there on the phase of a clean rhythm is good to 0.1 rad."""
LOW_EDGE = 3.0
"""A band counts as no wider than so many times its lower end, where filters ring longest."""
EVENT_SAMPLES_PER_TURN = 20
"""Samples per median interval of the fastest event train, when no rate is given."""
MUCH_OUTSIDE = 0.1
"""Share of the good samples outside the band from which that is said."""
NARROW_BEATS = 2.0
"""A given band that keeps fewer beats than this to either side of a rhythm is called narrow."""
FASTEST_ADVANCE = 0.75 * np.pi
"""A phase that advances by more per sample is close to aliasing."""


@dataclass
class _Reading:
    """What a method gives for one stretch: arrays of its length; NaN where it has no phase."""

    unwrapped: FloatArray
    amplitude: FloatArray
    edge: int


def extract_phase_series(
    table: SignalTable,
    *,
    method: str = "hilbert",
    band: tuple[float, float] | None = None,
    detrend: bool = False,
) -> tuple[tuple[PhaseSeries, ...], tuple[Finding, ...]]:
    """Give the phase of every channel at every sample.

    ``hilbert``: band-pass (by default around the dominant frequency, `band_around`, and for several channels wide
    enough for the sidebands that coupling makes, `band_with_sidebands`), then the angle of the analytic signal.
    ``wavelet``: the angle along the strongest Morlet wavelet in the band, too smooth for couplings to be fitted.
    ``zero-crossing``: π per crossing of the mean, linear in between. ``event``: 2π per event, linear in between; a
    channel of zeros and ones marks events at its ones, any other channel lists event times in time units.
    ``symbolic``: integers from 0; a full round of the states is 2π, steps go the short way. Missing and stuck values
    are handled as `signals.repair` says.

    Quality of a sample, for signals: ``min(1, amplitude / its median)``, 0 where the instantaneous frequency leaves the
    band (or is not positive), halved for edges, clipped and bridged samples. Events: ``1 / (1 + |ln(interval / median
    interval)|)``. Symbols: as `SymbolicExtractor`.

    Args:
        table: the signals.
        method: one of `METHODS`.
        band: pass band in turns per time unit, for ``hilbert`` and ``wavelet``.
        detrend: subtract a straight line from every stretch first.

    Returns:
        The series of the usable channels in order, and one finding for every channel that has no phase.

    Raises:
        ExtractorError: no channel is usable, or the band reaches the Nyquist frequency.
        ValueError: unknown method or malformed band.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r:.40}")
    band = checked_band(band)
    if band is not None and method not in ("hilbert", "wavelet"):
        raise ValueError(f"band has no meaning for method '{method}'")
    if band is not None and band[1] >= table.sample_rate / 2.0:
        raise ExtractorError(
            f"band must end below the Nyquist frequency {table.sample_rate / 2.0:g} per {table.time_unit}, "
            f"got {band[0]:g} to {band[1]:g}"
        )
    series: list[PhaseSeries] = []
    refused: list[Finding] = []
    axis = _event_axis(table) if method == "event" else None
    repaired: dict[str, Repaired] = {}
    for index, name in enumerate(table.names if method not in ("event", "symbolic") else ()):
        try:
            repaired[name] = repair(name, table.values[:, index], table.sample_rate)
        except ExtractorError as error:
            refused.append(_refusal(error))
    peaks = {name: channel.rhythm.frequency for name, channel in repaired.items()}
    for index, name in enumerate(table.names):
        values = table.values[:, index]
        try:
            if axis is not None:
                series.append(_event_series(table, name, values, axis))
            elif method == "symbolic":
                series.append(_symbolic_series(table, name, values))
            elif name in repaired:
                others = [peak for other, peak in peaks.items() if other != name]
                series.append(_signal_series(table, name, repaired[name], others, method, band, detrend=detrend))
        except ExtractorError as error:
            refused.append(_refusal(error))
    if not series:
        raise ExtractorError(f"{table.source}: no channel has a phase: {'; '.join(f.text for f in refused[:3])}")
    return tuple(series), tuple(refused)


def _refusal(error: ExtractorError) -> Finding:
    return Finding("constant" if "is constant" in str(error) else "unusable", str(error))


def _band_for(repaired: Repaired, method: str, sample_rate: float, *, alone: bool) -> tuple[float, float] | None:
    """Default pass band of a method."""
    if method == "zero-crossing":
        return None
    if alone or method == "wavelet":
        return band_around(repaired.rhythm.frequency, sample_rate)
    return band_with_sidebands(repaired.rhythm, sample_rate)


def _coupling_findings(
    dominant: float, others: Sequence[float], method: str, band: tuple[float, float] | None, unit: str
) -> list[Finding]:
    """Say what makes the phases unfit for `fit_phase_coupling`."""
    if not others:
        return []
    if method == "wavelet":
        text = "wavelets smooth phases over several turns: couplings fitted to these come out too weak; use hilbert"
        return [Finding("smoothed", text)]
    beat = max(abs(other - dominant) for other in others)
    kept = np.inf if band is None or not band[0] <= dominant <= band[1] else min(dominant - band[0], band[1] - dominant)
    if kept >= NARROW_BEATS * min(beat, 0.25 * dominant):
        return []
    text = (
        f"the band keeps {kept:.3g} per {unit} beside the peak, the beats have {beat:.3g}: couplings fitted to these "
        "phases come out too weak; give a wider band"
    )
    return [Finding("narrow_band", text)]


def _signal_series(
    table: SignalTable,
    name: str,
    repaired: Repaired,
    others: Sequence[float],
    method: str,
    band: tuple[float, float] | None,
    *,
    detrend: bool,
) -> PhaseSeries:
    dominant = repaired.rhythm.frequency
    used_band = band or _band_for(repaired, method, table.sample_rate, alone=not others)
    n_samples = repaired.signal.size
    unwrapped, frequency, amplitude = (np.full(n_samples, np.nan) for _ in range(3))
    state = repaired.state.copy()
    findings = list(repaired.findings)
    edges: list[tuple[int, int]] = []
    for first, after in repaired.segments:
        stretch = without_trend(repaired.signal[first:after], 1 if detrend else 0)
        try:
            reading = _read(stretch, table.sample_rate, method, used_band)
        except ExtractorError as error:
            if len(repaired.segments) == 1:
                raise ExtractorError(f"channel '{name}': {error}") from error
            state[first:after] = SampleState.GAP
            findings.append(Finding.about("short_segment_cut", f"{error}: cut ({{where}})", [(first, after)]))
            continue
        unwrapped[first:after] = reading.unwrapped
        amplitude[first:after] = reading.amplitude
        frequency[first:after] = _slope(reading.unwrapped) * table.sample_rate / TWO_PI
        edge = min(reading.edge, (after - first) // 2)
        edges += [(first, first + edge), (after - edge, after)] if edge else []
    for first, after in edges:
        state[first:after] = np.maximum(state[first:after], SampleState.EDGE)
    state[np.isnan(unwrapped)] = SampleState.GAP
    if edges:
        text = "{n} sample(s) at ends where the filter has not settled: marked ({where})"
        findings.append(Finding.about("edge", text, edges))
    findings += _coupling_findings(dominant, others, method, used_band, table.time_unit)
    if not repaired.rhythm.is_clear:
        text = f"no clear rhythm: the highest peak is {repaired.rhythm.prominence:.1f} times its background"
        findings.append(Finding("unclear_rhythm", text))
    if repaired.rhythm.slower_than is not None:
        text = (
            f"slower rhythms than {repaired.rhythm.slower_than:.4g} per {table.time_unit} are stronger but too slow "
            "for this record to be found: record longer, or give a band"
        )
        findings.append(Finding("too_short", text))
    if used_band is not None:
        outside = (
            (state == SampleState.OK) & (frequency > 0.0) & ((frequency < used_band[0]) | (frequency > used_band[1]))
        )
        if outside.sum() > MUCH_OUTSIDE * (state == SampleState.OK).sum():
            text = "{n} sample(s) where the frequency leaves the band: quality 0 ({where}); wider or drifting rhythm"
            findings.append(Finding.about("out_of_band", text, true_ranges(outside)))
    backwards = true_ranges((state == SampleState.OK) & (frequency <= 0.0))
    if backwards:
        text = "{n} sample(s) where the phase stands or runs backwards: quality 0 ({where})"
        findings.append(Finding.about("phase_slips", text, backwards))
    advance = np.abs(np.diff(unwrapped))
    if np.nanmedian(advance) > FASTEST_ADVANCE:
        text = f"the phase turns {np.nanmedian(advance) / TWO_PI:.2f} of a circle per sample: sample faster"
        findings.append(Finding("aliasing", text))
    quality = _signal_quality(amplitude, frequency, state, used_band)
    return PhaseSeries(
        name=name,
        method=method,
        sample_rate=table.sample_rate,
        start=table.start,
        time_unit=table.time_unit,
        unwrapped=unwrapped,
        frequency=frequency,
        amplitude=amplitude,
        quality=quality,
        state=state,
        signal=repaired.signal,
        dominant_frequency=dominant,
        band=used_band,
        findings=tuple(findings),
    )


def _read(signal: FloatArray, sample_rate: float, method: str, band: tuple[float, float] | None) -> _Reading:
    if method == "zero-crossing" or band is None:
        return _read_crossings(signal)
    return _read_hilbert(signal, sample_rate, band) if method == "hilbert" else _read_wavelet(signal, sample_rate, band)


def _read_hilbert(signal: FloatArray, sample_rate: float, band: tuple[float, float]) -> _Reading:
    # One over the bandwidth is how long the filter rings, or longer when the band begins close to zero. The stretch is
    # continued by its own mirror image (odd about the end points) for three times that, so that neither the filter nor
    # the transform sees a jump at its ends.
    ringing = int(np.ceil(sample_rate / min(band[1] - band[0], LOW_EDGE * band[0])))
    mirrored = min(signal.size - 1, 3 * ringing)
    before = 2.0 * signal[0] - signal[mirrored:0:-1]
    after = 2.0 * signal[-1] - signal[-2 : -mirrored - 2 : -1]
    filtered = band_pass(np.concatenate([before, signal, after]), sample_rate, band, FILTER_ORDER)
    analytic = analytic_signal(filtered)[mirrored : mirrored + signal.size]
    edge = max(edge_samples(FILTER_ORDER), int(np.ceil(EDGE_RINGS * ringing)))
    return _Reading(np.unwrap(np.angle(analytic)), np.abs(analytic), edge)


def _read_wavelet(signal: FloatArray, sample_rate: float, band: tuple[float, float]) -> _Reading:
    ridge = strongest_ridge(signal, sample_rate, band)
    return _Reading(np.unwrap(np.angle(ridge.coefficients)), np.abs(ridge.coefficients), ridge.edge)


def _read_crossings(signal: FloatArray) -> _Reading:
    crossings = schmitt_crossings(signal, 0.5)
    if crossings.positions.size < 2:
        raise ExtractorError(f"{crossings.positions.size} crossing(s) of the mean; two are needed")
    first = -0.5 * np.pi if crossings.rising[0] else 0.5 * np.pi
    samples = np.arange(signal.size)
    phase = np.interp(
        samples, crossings.positions, first + np.pi * np.arange(crossings.positions.size), left=np.nan, right=np.nan
    )
    return _Reading(phase, np.full(signal.size, np.sqrt(2.0) * crossings.rms), 0)


def _slope(unwrapped: FloatArray) -> FloatArray:
    """Phase gained per sample, centred; one-sided beside missing phases."""
    if unwrapped.size < 2:
        return np.full(unwrapped.size, np.nan)
    step = np.diff(unwrapped)
    before, after = np.concatenate([[np.nan], step]), np.concatenate([step, [np.nan]])
    both = 0.5 * (before + after)
    return np.where(np.isnan(before), after, np.where(np.isnan(after), before, both))


def _signal_quality(
    amplitude: FloatArray, frequency: FloatArray, state: NDArray[np.int8], band: tuple[float, float] | None
) -> FloatArray:
    inside = (frequency > 0.0) if band is None else (frequency >= band[0]) & (frequency <= band[1])
    typical = float(np.nanmedian(amplitude))
    relative = np.minimum(1.0, amplitude / typical) if typical > 0.0 else np.zeros_like(amplitude)
    quality = np.where(inside, relative, 0.0)
    quality = np.where(state == SampleState.OK, quality, 0.5 * quality)
    return np.where((state == SampleState.GAP) | np.isnan(quality), 0.0, quality)


def _symbolic_series(table: SignalTable, name: str, values: FloatArray) -> PhaseSeries:
    present = ~np.isnan(values)
    if not present.any():
        raise ExtractorError(f"channel '{name}': all {values.size} values are missing")
    n_states = int(np.nanmax(values)) + 1 if np.nanmax(values) >= 1 else 2
    extractor = SymbolicExtractor(n_states, name)
    unwrapped, frequency, quality = np.full(values.size, np.nan), np.full(values.size, np.nan), np.zeros(values.size)
    for first, after in true_ranges(present):
        try:
            symbols = extractor.checked_symbols(values[first:after])
        except ExtractorError as error:
            raise ExtractorError(f"channel '{name}': {error} of the stretch from sample {first}") from error
        unwrapped[first:after] = np.unwrap(extractor.phases(symbols))
        frequency[first:after] = _slope(unwrapped[first:after]) * table.sample_rate / TWO_PI
        quality[first:after] = extractor.qualities(symbols)
    findings: list[Finding] = []
    if not present.all():
        findings.append(Finding.about("missing_cut", "{n} missing symbol(s) cut ({where})", true_ranges(~present)))
    state = np.where(present, SampleState.OK, SampleState.GAP).astype(np.int8)
    return PhaseSeries(
        name=name,
        method="symbolic",
        sample_rate=table.sample_rate,
        start=table.start,
        time_unit=table.time_unit,
        unwrapped=unwrapped,
        frequency=frequency,
        amplitude=np.where(present, 1.0, np.nan),
        quality=quality,
        state=state,
        signal=values,
        dominant_frequency=float("nan"),
        band=None,
        findings=tuple(findings),
    )


@dataclass(frozen=True)
class _EventAxis:
    start: float
    rate: float
    n_samples: int
    marks: bool


def _event_axis(table: SignalTable) -> _EventAxis:
    """The axis that all event channels share: the table's own for marks, else one over all listed times."""
    if np.isin(table.values[~np.isnan(table.values)], (0.0, 1.0)).all():
        return _EventAxis(table.start, table.sample_rate, table.values.shape[0], marks=True)
    shortest, first, last = np.inf, np.inf, -np.inf
    for index in range(len(table.names)):
        column = table.values[:, index]
        times = np.unique(column[~np.isnan(column)])
        if times.size >= 2:
            shortest = min(shortest, float(np.median(np.diff(times))))
            first, last = min(first, float(times[0])), max(last, float(times[-1]))
    if not np.isfinite(shortest):
        raise ExtractorError(f"{table.source}: no channel lists two different event times")
    rate = EVENT_SAMPLES_PER_TURN / shortest
    n_samples = int(np.floor((last - first) * rate)) + 1
    if n_samples > 50_000_000:
        raise ExtractorError(f"{table.source}: events from {first:g} to {last:g} would need {n_samples} samples")
    return _EventAxis(first, rate, n_samples, marks=False)


def _event_series(table: SignalTable, name: str, values: FloatArray, axis: _EventAxis) -> PhaseSeries:
    present = values[~np.isnan(values)]
    try:
        events = distinct_events(table.times[values == 1.0] if axis.marks else present)
    except ExtractorError as error:
        raise ExtractorError(f"channel '{name}': {error}") from error
    if events.size < 2:
        raise ExtractorError(f"channel '{name}': {events.size} distinct event(s); two are needed")
    times = axis.start + np.arange(axis.n_samples) / axis.rate
    turns = np.interp(times, events, np.arange(events.size), left=np.nan, right=np.nan)
    interval = np.diff(events)
    position = np.clip(np.searchsorted(events, times, side="right") - 1, 0, interval.size - 1)
    outside = np.isnan(turns)
    quality = 1.0 / (1.0 + np.abs(np.log(interval / np.median(interval))))
    findings: list[Finding] = []
    if outside.any():
        text = "{n} sample(s) before the first or after the last event have no phase ({where})"
        findings.append(Finding.about("missing_cut", text, true_ranges(outside)))
    return PhaseSeries(
        name=name,
        method="event",
        sample_rate=axis.rate,
        start=axis.start,
        time_unit=table.time_unit,
        unwrapped=TWO_PI * turns,
        frequency=np.where(outside, np.nan, 1.0 / interval[position]),
        amplitude=np.where(outside, np.nan, 1.0),
        quality=np.where(outside, 0.0, quality[position]),
        state=np.where(outside, SampleState.GAP, SampleState.OK).astype(np.int8),
        signal=np.where(outside, np.nan, np.cos(TWO_PI * turns)),
        dominant_frequency=float(1.0 / np.median(interval)),
        band=None,
        findings=tuple(findings),
    )
