"""Phase of a continuous signal from its analytic signal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator._arrays import FloatArray, positive_number, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState, dispersion_quality, finite_series

__all__ = ["PhysicalExtractor", "analytic_signal", "band_pass", "checked_band", "edge_samples"]


def checked_band(band: Sequence[float] | None) -> tuple[float, float] | None:
    """Give a pass band in Hz as a pair of floats, or None.

    Raises:
        ValueError: not two finite numbers with ``0 < low < high``.
    """
    if band is None:
        return None
    edges = list(band)
    if len(edges) != 2:
        raise ValueError(f"band must be two frequencies (low, high), got {band!r:.80}")
    low, high = positive_number("band[0]", edges[0]), positive_number("band[1]", edges[1])
    if low >= high:
        raise ValueError(f"band must rise, got {low} to {high}")
    return low, high


def edge_samples(filter_order: int) -> int:
    """Samples cut at either end after filtering: ``3 (order + 1)``, as documented."""
    return 3 * (filter_order + 1)


def band_pass(signal: FloatArray, sample_rate: float, band: tuple[float, float], filter_order: int) -> FloatArray:
    """Butterworth band-pass run forwards and backwards, so that it delays nothing.

    The filter is designed in second-order sections: the polynomial form loses its digits for bands far below the
    sample rate.

    Raises:
        ExtractorError: the band reaches the Nyquist frequency or starts next to zero, or the signal is not longer than
            three times the filter (``3 (2 order + 1)`` samples).
    """
    from scipy.signal import butter, sosfiltfilt

    nyquist = sample_rate / 2.0
    if band[1] >= nyquist:
        raise ExtractorError(
            f"band must end below the Nyquist frequency {nyquist:g} Hz, got {band[0]:g} to {band[1]:g}"
        )
    padding = 3 * (2 * filter_order + 1)
    if signal.size <= padding:
        raise ExtractorError(
            f"signal must be longer than {padding} samples for a band-pass of order {filter_order}, got {signal.size}"
        )
    sections = butter(filter_order, band, btype="bandpass", fs=sample_rate, output="sos")
    try:
        return np.asarray(sosfiltfilt(sections, signal, padlen=padding), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise ExtractorError(
            f"band {band[0]:g} to {band[1]:g} Hz starts too close to zero to be filtered at {sample_rate:g} samples "
            "per s"
        ) from error


def analytic_signal(signal: FloatArray) -> NDArray[np.complex128]:
    """The signal plus ``i`` times its Hilbert transform (Gabor 1946): its angle is the phase, its modulus the envelope.

    Raises:
        ExtractorError: the signal is constant.
    """
    from scipy.signal import hilbert

    if np.ptp(signal) == 0.0:
        raise ExtractorError(f"signal is constant ({signal[0]:g}): it has no phase")
    return np.asarray(hilbert(signal), dtype=np.complex128)


class PhysicalExtractor(PhaseExtractor):
    """Phase of a continuous signal (channel P) from its analytic signal.

    With ``z = x + i H[x]`` after the optional band-pass and the cut of the ends: ``theta`` is the last angle mod 2π,
    ``omega`` 2π times the median instantaneous frequency, ``amplitude`` the mean of ``|z|``, ``quality``
    ``clip(1 - std |z| / mean |z|, 0, 1)``. A strong offset that no band removes hides the rhythm.

    Args:
        node_id: the oscillator.
        band: pass band (low, high) in Hz; None filters nothing.
        filter_order: order of the Butterworth filter.
        edge_trim: samples cut at either end; by default ``3 (filter_order + 1)`` when filtering, else none.

    Raises:
        ValueError: a setting is outside its range.

    References:
        Gabor, "Theory of communication", J. IEE 93 (1946); Pikovsky, Rosenblum, Kurths, "Synchronization" (2001), A2.

    Examples:
        >>> t = np.arange(1000) / 100.0
        >>> signal = np.cos(2 * np.pi * 2.0 * t)
        >>> (state,) = PhysicalExtractor("pump", band=(1.0, 3.0)).extract(signal, 100.0)
        >>> round(state.omega / (2 * np.pi), 2), round(state.amplitude, 2)
        (2.0, 1.0)
    """

    def __init__(
        self,
        node_id: str,
        *,
        band: Sequence[float] | None = None,
        filter_order: int = 4,
        edge_trim: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.band = checked_band(band)
        self.filter_order = whole_number("filter_order", filter_order, minimum=1, maximum=12)
        self.edge_trim = None if edge_trim is None else whole_number("edge_trim", edge_trim, minimum=0)

    def extract(self, signal: ArrayLike, sample_rate: float) -> list[PhaseState]:
        """Give one state: the phase at the end of the signal (of what the cut left)."""
        rate = positive_number("sample_rate", sample_rate)
        series = finite_series(signal, "signal", minimum=2)
        if self.band is not None:
            series = band_pass(series, rate, self.band, self.filter_order)
        analytic = analytic_signal(series)
        default_trim = 0 if self.band is None else edge_samples(self.filter_order)
        trim = default_trim if self.edge_trim is None else self.edge_trim
        kept = analytic[trim : analytic.size - trim]
        if kept.size < 2:
            raise ExtractorError(f"signal has {analytic.size} samples; cutting {trim} at either end leaves {kept.size}")
        envelope = np.abs(kept)
        frequency = np.median(np.diff(np.unwrap(np.angle(kept)))) * rate / TWO_PI
        return [
            PhaseState(
                theta=float(np.angle(kept[-1]) % TWO_PI),
                omega=float(TWO_PI * frequency),
                amplitude=float(envelope.mean()),
                quality=dispersion_quality(envelope),
                channel="P",
                node_id=self.node_id,
            )
        ]
