"""What a file of signals holds, on a uniform time axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SECONDS_PER_UNIT", "SignalTable"]

SECONDS_PER_UNIT: dict[str, float] = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
    "year": 31557600.0,
}
"""Time units; a year is the Julian one of 365.25 days."""


@dataclass(frozen=True)
class SignalTable:
    """Channels sampled together.

    Attributes:
        source: the file.
        names: one name per channel.
        values: float64, shape ``(n_samples, n_channels)``; NaN where a value is missing.
        sample_rate: samples per time unit.
        start: time of the first sample, in time units.
        time_unit: a key of `SECONDS_PER_UNIT`; frequencies are per this unit.
        notes: what the reader decided by itself or had to repair.
    """

    source: str
    names: tuple[str, ...]
    values: NDArray[np.float64]
    sample_rate: float
    start: float
    time_unit: str
    notes: tuple[str, ...] = ()

    @property
    def times(self) -> NDArray[np.float64]:
        """Time of every sample in time units, shape ``(n_samples,)``."""
        return self.start + np.arange(self.values.shape[0]) / self.sample_rate

    @property
    def sample_period_s(self) -> float:
        """Seconds between two samples."""
        return SECONDS_PER_UNIT[self.time_unit] / self.sample_rate
