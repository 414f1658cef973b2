"""What every extractor takes and gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.exceptions import ExtractorError

__all__ = ["PhaseExtractor", "PhaseState", "dispersion_quality", "finite_series"]


@dataclass(frozen=True)
class PhaseState:
    """The phase of one oscillator at one moment, and how far it can be trusted.

    Attributes:
        theta: phase in rad, in [0, 2π).
        omega: angular frequency in rad/s.
        amplitude: size of the oscillation in the signal's unit; 1.0 where the signal has none (events, symbols).
        quality: 0 (worthless) to 1 (a clean rhythm).
        channel: channel id, ``P``, ``I`` or ``S`` for the documented extractors.
        node_id: the oscillator.
    """

    theta: float
    omega: float
    amplitude: float
    quality: float
    channel: str
    node_id: str


class PhaseExtractor(ABC):
    """Reads the phase of one oscillator from its signal."""

    @abstractmethod
    def extract(self, signal: ArrayLike, sample_rate: float) -> list[PhaseState]:
        """Give the phase states of a signal.

        Args:
            signal: one-dimensional; what its values mean is the extractor's matter.
            sample_rate: samples per second.

        Raises:
            ExtractorError: no phase can be read from this signal; the message says why.
        """

    def quality_score(self, phase_states: Sequence[PhaseState]) -> float:
        """Mean quality of some states, 0.0 when there are none."""
        if not phase_states:
            return 0.0
        return float(np.mean([state.quality for state in phase_states]))


def finite_series(values: ArrayLike, name: str, *, minimum: int = 0) -> FloatArray:
    """Give a one-dimensional array of finite real numbers as float64.

    Raises:
        ExtractorError: another shape, booleans, complex numbers, text, NaN or infinity, or fewer than ``minimum``
            values; the message names the first offending position.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ExtractorError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iuf":
        raise ExtractorError(f"{name} must hold real numbers, got {array.dtype}")
    array = array.astype(np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        position = int(np.argmin(finite))
        raise ExtractorError(f"{name} must be finite, got {array[position]} at position {position}")
    if array.size < minimum:
        raise ExtractorError(f"{name} must have at least {minimum} values, got {array.size}")
    return array


def dispersion_quality(values: FloatArray) -> float:
    """Quality ``clip(1 - std / mean, 0, 1)`` of values that a clean rhythm keeps constant; 0 when their mean is 0."""
    mean = float(values.mean())
    if mean <= 0.0:
        return 0.0
    return float(np.clip(1.0 - float(values.std()) / mean, 0.0, 1.0))
