"""Phase of a noisy or drifting signal from its strongest Morlet wavelet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator._arrays import FloatArray, positive_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState, dispersion_quality, finite_series

__all__ = ["MORLET_OMEGA", "N_FREQUENCIES", "Ridge", "WaveletExtractor", "morlet_coefficients", "strongest_ridge"]

MORLET_OMEGA = 6.0
"""Centre of the Morlet wavelet: radians of oscillation per scale."""
N_FREQUENCIES = 48
"""Analysed frequencies, geometrically spaced."""
MINIMUM_SAMPLES = 8
"""Below it the lowest frequency, three cycles in the record, would not lie below the highest, 0.4 of the rate."""


@dataclass(frozen=True)
class Ridge:
    """The strongest frequency of a signal.

    Attributes:
        frequency_hz: centre of the wavelet.
        coefficients: complex, one per sample; modulus is the amplitude, angle the phase.
        edge: samples at either end that the border of the record has touched (``√2`` scales).
    """

    frequency_hz: float
    coefficients: NDArray[np.complex128]
    edge: int


def morlet_coefficients(signal: FloatArray, sample_rate: float, frequency_hz: float) -> NDArray[np.complex128]:
    """Convolve a signal with an analytic Morlet wavelet; a unit cosine at its centre gives modulus 1.

    In the frequency domain the wavelet is ``2 exp(-(s ω - ω0)² / 2)`` for ω > 0 with scale ``s = ω0 / (2π f)``; the
    signal is padded with zeros to twice its length, so that its ends do not meet.

    References:
        Torrence, Compo, "A practical guide to wavelet analysis", BAMS 79 (1998), table 1 and equation 4.
    """
    n_fft = 1 << int(2 * signal.size - 1).bit_length()
    angular = TWO_PI * np.fft.fftfreq(n_fft, 1.0 / sample_rate)
    scale = MORLET_OMEGA / (TWO_PI * frequency_hz)
    window = np.where(angular > 0.0, 2.0 * np.exp(-0.5 * (scale * angular - MORLET_OMEGA) ** 2), 0.0)
    return np.fft.ifft(np.fft.fft(signal, n_fft) * window)[: signal.size]


def strongest_ridge(signal: FloatArray, sample_rate: float, band: tuple[float, float] | None = None) -> Ridge:
    """Find the wavelet with the largest mean energy away from the ends.

    Frequencies run from three cycles per record to 0.4 of the sample rate; with ``band`` only those inside it count.

    Raises:
        ExtractorError: constant or short signal, or no analysed frequency inside the band.
    """
    series = signal - signal.mean()
    if np.ptp(signal) == 0.0:
        raise ExtractorError(f"signal is constant ({signal[0]:g}): it has no phase")
    frequencies = np.geomspace(3.0 * sample_rate / series.size, 0.4 * sample_rate, N_FREQUENCIES)
    if band is not None:
        low, high = max(band[0], frequencies[0]), min(band[1], frequencies[-1])
        if low >= high:
            raise ExtractorError(
                f"band must overlap {frequencies[0]:g} to {frequencies[-1]:g} Hz (three cycles per record to 0.4 of "
                f"the sample rate), got {band[0]:g} to {band[1]:g}"
            )
        frequencies = np.geomspace(low, high, N_FREQUENCIES)
    best: Ridge | None = None
    best_energy = -1.0
    for frequency in frequencies:
        coefficients = morlet_coefficients(series, sample_rate, float(frequency))
        edge = min(
            int(np.ceil(np.sqrt(2.0) * MORLET_OMEGA / (TWO_PI * frequency) * sample_rate)), (series.size - 2) // 2
        )
        energy = float(np.mean(np.abs(coefficients[edge : series.size - edge]) ** 2))
        if energy > best_energy:
            best, best_energy = Ridge(float(frequency), coefficients, edge), energy
    assert best is not None  # noqa: S101 - there are always frequencies, and energies are not negative
    return best


class WaveletExtractor(PhaseExtractor):
    """Phase of a continuous signal (channel P) along its strongest complex Morlet wavelet (ω0 = 6).

    48 frequencies between three cycles per record and 0.4 of the sample rate compete; the one with the largest mean
    energy outside the border zone wins. ``omega`` is the median slope of the phase there, and ``theta`` is the last
    phase outside the border zone, carried on to the end of the record with that slope.

    Args:
        node_id: the oscillator.
        band: only frequencies inside (low, high) Hz compete; None allows all.

    Raises:
        ValueError: ``band`` is no rising pair of positive numbers.
    """

    def __init__(self, node_id: str, *, band: tuple[float, float] | None = None) -> None:
        from scpn_phase_orchestrator.oscillators.physical import checked_band

        self.node_id = node_id
        self.band = checked_band(band)

    def extract(self, signal: ArrayLike, sample_rate: float) -> list[PhaseState]:
        """Give one state: the phase at the end of the signal."""
        rate = positive_number("sample_rate", sample_rate)
        series = finite_series(signal, "signal", minimum=MINIMUM_SAMPLES)
        ridge = strongest_ridge(series, rate, self.band)
        interior = ridge.coefficients[ridge.edge : series.size - ridge.edge]
        angles = np.unwrap(np.angle(interior))
        slope = float(np.median(np.diff(angles)))
        envelope = np.abs(interior)
        return [
            PhaseState(
                theta=float((angles[-1] + slope * ridge.edge) % TWO_PI),
                omega=slope * rate,
                amplitude=float(envelope.mean()),
                quality=dispersion_quality(envelope),
                channel="P",
                node_id=self.node_id,
            )
        ]
