"""Phase of a clean, roughly symmetric signal from where it crosses its mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator._arrays import FloatArray, positive_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState, dispersion_quality, finite_series

__all__ = ["Crossings", "ZeroCrossingExtractor", "schmitt_crossings"]


@dataclass(frozen=True)
class Crossings:
    """Where a signal crosses its mean.

    Attributes:
        positions: in samples, with fractions, ascending.
        rising: True for upward crossings; the entries alternate.
        rms: root mean square of the signal about its mean.
    """

    positions: FloatArray
    rising: NDArray[np.bool_]
    rms: float


def schmitt_crossings(signal: FloatArray, hysteresis: float) -> Crossings:
    """Find the crossings of a Schmitt trigger: a swing counts once it has passed ``hysteresis`` times the rms.

    The crossing itself is placed by linear interpolation at the last change of sign before that.

    Raises:
        ExtractorError: the signal is constant.
    """
    series = signal - signal.mean()
    rms = float(np.sqrt(np.mean(series**2)))
    if np.ptp(signal) == 0.0:
        raise ExtractorError(f"signal is constant ({signal[0]:g}): it has no phase")
    level = hysteresis * rms
    armed = np.where(series > level, 1, np.where(series < -level, -1, 0))
    decided = np.flatnonzero(armed)
    flips = decided[1:][np.diff(armed[decided]) != 0]
    # The last sample before each flip that still had the old sign.
    signs = np.where(series >= 0.0, 1, -1)
    changes = np.flatnonzero(np.diff(signs))
    before = changes[np.searchsorted(changes, flips, side="left") - 1] if flips.size else flips
    step = series[before + 1] - series[before]
    return Crossings(before - series[before] / step, armed[flips] > 0, rms)


class ZeroCrossingExtractor(PhaseExtractor):
    """Phase of a continuous signal (channel P) from its crossings of the mean, with hysteresis.

    ``omega`` is π over the mean half period; ``theta`` follows the convention of the analytic signal (0 at a
    maximum, 3π/2 at an upward crossing), carried on from the last crossing to the end of the record; ``amplitude``
    is √2 times the rms; ``quality`` is ``clip(1 - cv, 0, 1)`` of the half periods.

    Args:
        node_id: the oscillator.
        hysteresis: a swing counts when it passes this share of the rms.

    Raises:
        ValueError: ``hysteresis`` is not positive and finite.
    """

    def __init__(self, node_id: str, *, hysteresis: float = 0.5) -> None:
        self.node_id = node_id
        self.hysteresis = positive_number("hysteresis", hysteresis)

    def extract(self, signal: ArrayLike, sample_rate: float) -> list[PhaseState]:
        """Give one state: the phase at the end of the signal."""
        rate = positive_number("sample_rate", sample_rate)
        series = finite_series(signal, "signal", minimum=4)
        crossings = schmitt_crossings(series, self.hysteresis)
        if crossings.positions.size < 2:
            raise ExtractorError(f"signal has {crossings.positions.size} crossing(s) of its mean; two are needed")
        half_periods = np.diff(crossings.positions) / rate
        omega = np.pi / float(half_periods.mean())
        since = (series.size - 1 - crossings.positions[-1]) / rate
        at_crossing = 1.5 * np.pi if crossings.rising[-1] else 0.5 * np.pi
        return [
            PhaseState(
                theta=float((at_crossing + omega * since) % TWO_PI),
                omega=float(omega),
                amplitude=float(np.sqrt(2.0) * crossings.rms),
                quality=dispersion_quality(half_periods),
                channel="P",
                node_id=self.node_id,
            )
        ]
