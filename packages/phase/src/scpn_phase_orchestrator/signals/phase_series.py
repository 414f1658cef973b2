"""One channel as phase, frequency, amplitude and quality at every sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = ["Finding", "PhaseSeries", "SampleState"]


class SampleState(IntEnum):
    """What the phase of a sample rests on; where several hold, the largest counts."""

    OK = 0
    EDGE = 1
    """Within reach of an end, where the filter has not settled."""
    CLIPPED = 2
    """The signal was at its limit."""
    BRIDGED = 3
    """The value was missing and interpolated."""
    GAP = 4
    """No value and no phase."""


@dataclass(frozen=True)
class Finding:
    """Something about a channel that the reader has to know.

    Attributes:
        kind: ``missing_bridged``, ``missing_cut``, ``stuck_cut``, ``clipped``, ``short_segment_cut``, ``edge``,
            ``constant``, ``unusable``, ``unclear_rhythm``, ``too_short``, ``out_of_band``, ``aliasing``,
            ``phase_slips``, ``smoothed`` or ``narrow_band``.
        text: the sentence for people.
        ranges: half-open ranges of samples ``(first, after_last)`` that it concerns; at most `MAX_RANGES` are kept.
        count: number of ranges.
    """

    MAX_RANGES = 1000

    kind: str
    text: str
    ranges: tuple[tuple[int, int], ...] = ()
    count: int = 0

    @classmethod
    def about(cls, kind: str, text: str, ranges: list[tuple[int, int]]) -> Finding:
        """Make a finding about ranges of samples; ``{n}`` and ``{where}`` in the text are filled in."""
        shown = ", ".join(f"{first}-{after - 1}" for first, after in ranges[:3])
        where = shown + (f" and {len(ranges) - 3} more" if len(ranges) > 3 else "")
        samples = sum(after - first for first, after in ranges)
        filled = text.format(n=samples, where=f"samples {where}")
        return cls(kind, filled, tuple(ranges[: cls.MAX_RANGES]), len(ranges))


@dataclass(frozen=True)
class PhaseSeries:
    """Phase of one channel over time; every array has shape ``(n_samples,)`` and is NaN in gaps.

    Attributes:
        name: the channel.
        method: how the phase was read.
        sample_rate: samples per time unit.
        start: time of the first sample in time units.
        time_unit: unit of time.
        unwrapped: phase in rad that counts turns; each stretch between gaps starts within [-π, π).
        frequency: instantaneous frequency in turns per time unit.
        amplitude: envelope in the signal's unit.
        quality: 0 to 1; 0 in gaps.
        state: `SampleState` of every sample.
        signal: what the phase was read from, gaps bridged.
        dominant_frequency: turns per time unit; NaN where the method needs none.
        band: pass band that was used, or None.
        findings: what was repaired, cut or doubtful.
    """

    name: str
    method: str
    sample_rate: float
    start: float
    time_unit: str
    unwrapped: FloatArray
    frequency: FloatArray
    amplitude: FloatArray
    quality: FloatArray
    state: NDArray[np.int8]
    signal: FloatArray
    dominant_frequency: float
    band: tuple[float, float] | None
    findings: tuple[Finding, ...] = field(default=())

    @property
    def wrapped(self) -> FloatArray:
        """Phase in [0, 2π)."""
        return self.unwrapped % TWO_PI

    @property
    def times(self) -> FloatArray:
        """Time of every sample in time units."""
        return self.start + np.arange(self.unwrapped.size) / self.sample_rate

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Samples with a phase that no edge has spoiled."""
        return (self.state != SampleState.GAP) & (self.state != SampleState.EDGE)

    @property
    def usable_phase(self) -> FloatArray:
        """Unwrapped phase in rad, NaN where it is not usable or its quality is 0."""
        return np.where(self.usable & (self.quality > 0.0), self.unwrapped, np.nan)

    @property
    def mean_quality(self) -> float:
        """Mean quality over all samples, gaps counting 0."""
        return float(self.quality.mean()) if self.quality.size else 0.0

    @property
    def mean_frequency(self) -> float:
        """Turns per time unit over the usable stretches: total advance over total time; NaN without any."""
        advance = np.diff(self.unwrapped)
        both = self.usable[1:] & self.usable[:-1]
        if not both.any():
            return float("nan")
        return float(advance[both].sum() / TWO_PI * self.sample_rate / both.sum())

    def summary(self) -> dict[str, Any]:
        """JSON-safe description without the arrays."""
        counts = {state.name.lower(): int((self.state == state).sum()) for state in SampleState}
        return {
            "channel": self.name,
            "method": self.method,
            "sample_rate": self.sample_rate,
            "time_unit": self.time_unit,
            "n_samples": int(self.state.size),
            "dominant_frequency": None if np.isnan(self.dominant_frequency) else self.dominant_frequency,
            "mean_frequency": None if np.isnan(self.mean_frequency) else self.mean_frequency,
            "band": None if self.band is None else list(self.band),
            "quality": self.mean_quality,
            "samples": counts,
            "findings": [
                {"kind": f.kind, "text": f.text, "count": f.count, "ranges": [list(r) for r in f.ranges]}
                for f in self.findings
            ],
        }
