"""Missing, stuck and clipped samples: found, reported, and bridged or cut by rule.

Rules, with T the period of the dominant rhythm:

- a run of equal values at least T long (and at least `STUCK_SAMPLES`) in a signal of more than `FEW_VALUES` different
  values is a stuck sensor, and counts as missing;
- a missing run of at most T / 4 is bridged by a cubic through its neighbours that does not overshoot (PCHIP); a
  longer one is cut: no phase there, and filters never reach across it;
- a stretch between cuts that is shorter than 3 T is cut as well;
- samples at the highest or lowest value are clipped where at least `CLIPPED_SAMPLES` in a row have it and it occurs
  five times as often as the next value inwards; they keep their phase and are marked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray, true_ranges
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals.phase_series import Finding, SampleState
from scpn_phase_orchestrator.signals.spectrum import DominantRhythm, dominant_rhythm

__all__ = ["Repaired", "repair"]

BoolArray = NDArray[np.bool_]

FEW_VALUES = 16
"""A signal with so few different values may rest on one legitimately."""
STUCK_SAMPLES = 32
"""Shortest run of equal values that may be a stuck sensor."""
CLIPPED_SAMPLES = 4
"""Shortest run at the limit that counts as clipped."""
BRIDGED_PERIODS = 0.25
"""Longest bridged run, in periods of the dominant rhythm."""
SHORTEST_SEGMENT_PERIODS = 3.0
"""Shortest stretch that is kept, in periods of the dominant rhythm."""


@dataclass(frozen=True)
class Repaired:
    """A channel that is ready for its phase.

    Attributes:
        signal: NaN only where it was cut.
        state: `SampleState` of every sample (edges come later).
        segments: half-open ranges without a cut, in order.
        rhythm: the dominant rhythm.
        findings: what was done.
    """

    signal: FloatArray
    state: NDArray[np.int8]
    segments: tuple[tuple[int, int], ...]
    rhythm: DominantRhythm
    findings: tuple[Finding, ...]


def repair(name: str, values: FloatArray, sample_rate: float) -> Repaired:
    """Find the dominant rhythm of a channel, and bridge, cut and mark what the rules of this module say.

    Args:
        name: of the channel, for messages.
        values: shape ``(n_samples,)``, NaN where missing.
        sample_rate: samples per time unit.

    Raises:
        ExtractorError: all values missing or equal, or no stretch long enough for a rhythm.
    """
    present = ~np.isnan(values)
    if not present.any():
        raise ExtractorError(f"channel '{name}': all {values.size} values are missing")
    seen = values[present]
    if np.ptp(seen) == 0.0:
        raise ExtractorError(f"channel '{name}': is constant ({seen[0]:g}): it has no phase")
    flat = [] if np.unique(seen).size <= FEW_VALUES else _flat_runs(values)
    rhythm = _rhythm(name, values, flat, sample_rate)
    period = sample_rate / rhythm.frequency
    stuck = [(first, after) for first, after in flat if after - first >= period]
    state = np.zeros(values.size, dtype=np.int8)
    findings: list[Finding] = []
    clipped = _clipped(values, np.unique(seen), stuck)
    _mark(state, clipped, SampleState.CLIPPED)
    if clipped:
        text = "{n} sample(s) clipped at the limit of the signal: marked ({where})"
        findings.append(Finding.about("clipped", text, clipped))
    signal = values.copy()
    for first, after in stuck:
        signal[first:after] = np.nan
    if stuck:
        text = "{n} sample(s) of a value that does not move for a period or longer: cut ({where})"
        findings.append(Finding.about("stuck_cut", text, stuck))
    signal, bridged, cut = _bridge(signal, BRIDGED_PERIODS * period)
    _mark(state, bridged, SampleState.BRIDGED)
    _mark(state, cut, SampleState.GAP)
    if bridged:
        text = "{n} missing sample(s) bridged, each run at most a quarter of a period ({where})"
        findings.append(Finding.about("missing_bridged", text, bridged))
    only_missing = [(first, after) for first, after in cut if not any(s <= first < e for s, e in stuck)]
    if only_missing:
        text = "{n} missing sample(s) cut, each run longer than a quarter of a period or at an end ({where})"
        findings.append(Finding.about("missing_cut", text, only_missing))
    segments = true_ranges(~np.isnan(signal))
    short = [(first, after) for first, after in segments if after - first < SHORTEST_SEGMENT_PERIODS * period]
    kept = tuple(segment for segment in segments if segment not in short)
    if not kept:
        raise ExtractorError(
            f"channel '{name}': no stretch without a gap has {SHORTEST_SEGMENT_PERIODS:g} periods of the dominant "
            f"rhythm ({SHORTEST_SEGMENT_PERIODS * period:.4g} samples); the longest has "
            f"{max(b - a for a, b in segments)}"
        )
    if short:
        for first, after in short:
            signal[first:after] = np.nan
        _mark(state, short, SampleState.GAP)
        text = "{n} sample(s) between gaps cut, each stretch shorter than three periods ({where})"
        findings.append(Finding.about("short_segment_cut", text, short))
    return Repaired(signal, state, kept, rhythm, tuple(findings))


def _mark(state: NDArray[np.int8], ranges: list[tuple[int, int]], what: SampleState) -> None:
    for first, after in ranges:
        state[first:after] = np.maximum(state[first:after], what)


def _flat_runs(values: FloatArray) -> list[tuple[int, int]]:
    """Ranges of at least `STUCK_SAMPLES` equal values."""
    same = np.concatenate([[False], values[1:] == values[:-1]])
    return [(first - 1, after) for first, after in true_ranges(same) if after - first + 1 >= STUCK_SAMPLES]


def _rhythm(name: str, values: FloatArray, flat: list[tuple[int, int]], sample_rate: float) -> DominantRhythm:
    """The rhythm of the longest stretch, runs of up to three missing values bridged; flat runs count as missing."""
    trial = values.copy()
    for first, after in flat:
        trial[first:after] = np.nan
    trial, _, _ = _bridge(trial, 3.0)
    stretches = true_ranges(~np.isnan(trial))
    if not stretches:
        raise ExtractorError(f"channel '{name}': does not move at all")
    first, after = max(stretches, key=lambda run: run[1] - run[0])
    try:
        return dominant_rhythm(trial[first:after], sample_rate)
    except ExtractorError as error:
        raise ExtractorError(f"channel '{name}': {error}") from error


def _clipped(values: FloatArray, levels: FloatArray, stuck: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if levels.size <= FEW_VALUES:
        return []
    found: list[tuple[int, int]] = []
    for limit, inwards in ((levels[0], levels[1]), (levels[-1], levels[-2])):
        if np.sum(values == limit) >= 5 * np.sum(values == inwards):
            found += [
                (a, b) for a, b in true_ranges(values == limit) if b - a >= CLIPPED_SAMPLES and (a, b) not in stuck
            ]
    return sorted(found)


def _bridge(signal: FloatArray, longest: float) -> tuple[FloatArray, list[tuple[int, int]], list[tuple[int, int]]]:
    """Fill the missing runs of at most ``longest`` samples between present ones; give them and the others."""
    from scipy.interpolate import PchipInterpolator

    missing = true_ranges(np.isnan(signal))
    inner = [(a, b) for a, b in missing if a > 0 and b < signal.size and b - a <= max(1.0, longest)]
    others = [run for run in missing if run not in set(inner)]
    if not inner:
        return signal, [], others
    known = np.flatnonzero(~np.isnan(signal))
    if known.size < 2:
        return signal, [], missing
    interpolate = PchipInterpolator(known, signal[known], extrapolate=False)
    filled = signal.copy()
    where = np.concatenate([np.arange(a, b) for a, b in inner])
    filled[where] = interpolate(where)
    return filled, inner, others
