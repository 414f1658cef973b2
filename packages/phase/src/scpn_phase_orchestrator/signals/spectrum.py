"""The dominant rhythm of a signal, and the band around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.exceptions import ExtractorError

__all__ = [
    "CLEAR_PEAK",
    "DominantRhythm",
    "band_around",
    "band_with_sidebands",
    "dominant_rhythm",
    "without_trend",
]

CLEAR_PEAK = 15.0
"""Below this ratio of peak to background a rhythm is called unclear, for a spectrum of one window; with w windows the
limit is ``1 + 14 / √w``."""
SUBHARMONIC_SHARE = 0.2
"""A peak near the strongest frequency over 2 to `MOST_HARMONICS` with this share of its power is the fundamental."""
MOST_HARMONICS = 8
"""Highest harmonic that is recognised as one; from the fourth on, all harmonics in between must peak as well."""
OVERTONE_SHARE = 0.01
"""A peak near twice the frequency with this share of its power is an overtone, which a pass band must leave out."""
SMALLEST = 16
"""Fewest samples in which a rhythm is looked for."""


@dataclass(frozen=True)
class DominantRhythm:
    """The strongest rhythm of a signal.

    Attributes:
        frequency: per time unit.
        prominence: power of the peak over the median power between a third and three times its frequency.
        n_windows: windows that Welch's method averaged.
        slower_than: where the search ended when the power rises on towards slower rhythms than that, else None.
        has_overtone: whether the spectrum also peaks near twice the frequency.
    """

    frequency: float
    prominence: float
    n_windows: int
    slower_than: float | None = None
    has_overtone: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether the peak stands out as white noise would let it in fewer than one of ten records."""
        return self.prominence >= 1.0 + (CLEAR_PEAK - 1.0) / float(np.sqrt(self.n_windows))


def without_trend(signal: FloatArray, degree: int) -> FloatArray:
    """Subtract the least-squares polynomial of a degree (0: the mean, 1: a line, 2: a parabola)."""
    if degree == 0:
        return signal - signal.mean()
    axis = np.linspace(-1.0, 1.0, signal.size)
    basis = np.polynomial.legendre.legvander(axis, degree)
    coefficients = np.linalg.lstsq(basis, signal, rcond=None)[0]
    return signal - basis @ coefficients


def dominant_rhythm(signal: FloatArray, sample_rate: float) -> DominantRhythm:
    """Find the peak of the power spectrum that stands highest above its neighbourhood.

    The signal loses its parabola, then Welch's method (Hann windows of a sixteenth of the record but at least 1,024
    samples, half overlapping) gives the power P(f). The peak is the largest √f P(f) with at least three cycles per
    window: the weight keeps slow drifts from winning. If the spectrum also peaks near an eighth to half of that
    frequency (within 8 %, a fifth of the power, a valley of a third of it in between), then that one is the fundamental
    and the first its harmonic; a fourth or higher harmonic, as short pulses have, must be joined by those in between.

    Raises:
        ExtractorError: fewer than `SMALLEST` samples, or a constant signal.
    """
    from scipy.signal import welch

    if signal.size < SMALLEST:
        raise ExtractorError(f"a rhythm needs at least {SMALLEST} samples without a gap, got {signal.size}")
    if np.ptp(signal) == 0.0:
        raise ExtractorError(f"signal is constant ({signal[0]:g}): it has no phase")
    series = without_trend(signal / np.max(np.abs(signal)), 2)
    length = min(series.size, max(1024, series.size // 16))
    frequencies, power = welch(series, fs=sample_rate, nperseg=length, window="hann", nfft=_padded(length))
    allowed = (frequencies >= 3.0 * sample_rate / length) & (frequencies < 0.45 * sample_rate)
    if not allowed.any():
        allowed = frequencies > 0.0
    score = np.where(allowed, np.sqrt(frequencies) * power, 0.0)
    peak = int(np.argmax(score))
    resolution = sample_rate / length
    for divisor in range(MOST_HARMONICS, 1, -1):
        parts = range(1, divisor) if divisor > 3 else (1,)
        found = [_peak_near(frequencies[peak] * part / divisor, peak, frequencies, power, resolution) for part in parts]
        if all(position is not None and allowed[position] for position in found):
            peak = found[0] or peak
            break
    limit = float(frequencies[allowed][0])
    slower = power[(frequencies > 0.0) & (frequencies < limit)]
    rises = float(frequencies[peak]) <= 1.1 * limit and float(slower.max(initial=0.0)) > float(power[peak])
    near = (frequencies >= frequencies[peak] / 3.0) & (frequencies <= 3.0 * frequencies[peak])
    background = float(np.median(power[near]))
    prominence = float(power[peak]) / background if background > 0.0 else float("inf")
    n_windows = max(1, 2 * series.size // length - 1)
    return DominantRhythm(
        float(frequencies[peak]),
        prominence,
        n_windows,
        limit if rises else None,
        _has_overtone(peak, frequencies, power, resolution),
    )


def _has_overtone(peak: int, frequencies: FloatArray, power: FloatArray, resolution: float) -> bool:
    """Whether there is a peak near twice a frequency, well above the power between the two."""
    double = 2.0 * float(frequencies[peak])
    near = np.abs(frequencies - double) <= max(0.08 * double, 1.5 * resolution)
    between = (frequencies > 0.7 * double) & (frequencies < 0.85 * double)
    if not near.any() or not between.any():
        return False
    overtone = float(power[near].max())
    return overtone >= max(OVERTONE_SHARE * float(power[peak]), 3.0 * float(np.median(power[between])))


def _peak_near(
    target: float, strongest: int, frequencies: FloatArray, power: FloatArray, resolution: float
) -> int | None:
    """Find the peak near a frequency below the strongest one that is clearly apart from it; None without any."""
    candidates = np.flatnonzero(np.abs(frequencies - target) <= max(0.08 * target, 1.5 * resolution))
    if candidates.size == 0:
        return None
    low = int(candidates[np.argmax(power[candidates])])
    valley = float(power[low:strongest].min(initial=np.inf))
    return low if power[low] >= max(SUBHARMONIC_SHARE * power[strongest], 3.0 * valley) else None


def band_around(frequency: float, sample_rate: float) -> tuple[float, float]:
    """Give the default pass band: half to one and a half times the dominant frequency, kept below 0.95 Nyquist."""
    high = min(1.5 * frequency, 0.475 * sample_rate)
    return min(0.5 * frequency, 0.5 * high), high


def band_with_sidebands(rhythm: DominantRhythm, sample_rate: float) -> tuple[float, float]:
    """Give the pass band for a rhythm that may be coupled to others: a quarter to two and a half times its frequency.

    Coupling modulates a phase at the beats with the other rhythms, which puts sidebands at multiples of the beat
    frequency beside the peak; cutting them makes couplings look weaker and surer than they are. The peaks do not tell
    how far the sidebands reach (those of oscillators that lock and slip lie almost on each other), so the band is as
    wide as drifts below and noise above allow. Where the signal has an overtone, the band ends at one and a half
    times the frequency.
    """
    high = min((1.5 if rhythm.has_overtone else 2.5) * rhythm.frequency, 0.475 * sample_rate)
    return min(0.25 * rhythm.frequency, 0.5 * high), high


def _padded(length: int) -> int:
    """Four times zero padding, so that a peak lies near a bin."""
    return 1 << int(4 * length - 1).bit_length()
