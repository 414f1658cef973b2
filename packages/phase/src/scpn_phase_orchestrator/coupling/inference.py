"""Who influences whom, from phase series alone.

Two questions, two tools. *Is there directed influence at all?* `phase_transfer_entropy` answers without a model, row by
source. *How strong, with which uncertainty?* `fit_phase_coupling` (see `coupling.regression`) answers inside the
Kuramoto model, row by receiver, as everywhere else in this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from scpn_phase_orchestrator._arrays import FloatArray, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.coupling.regression import LARGEST_PHASE, CouplingFit, fit_phase_coupling

__all__ = ["CouplingEstimate", "CouplingFit", "estimate_coupling", "fit_phase_coupling", "phase_transfer_entropy"]

MAX_BINS = 64
"""More bins make a histogram of bins cubed that no series fills."""
CHANCE = 1.5
"""Scores up to so many times the bias of finite series may be chance."""


@dataclass(frozen=True)
class CouplingEstimate:
    """Directed influence by transfer entropy; both matrices have the source as row.

    Attributes:
        scores: transfer entropy i -> j in nats, shape ``(n, n)``, zero diagonal.
        coupling: scores at or above the threshold, scaled as asked; all others 0.
        threshold: smallest score that was kept.
        n_bins: bins of the circle.
        normalisation: ``max`` or ``none``.
        warnings: what limits the result, in sentences.
    """

    scores: FloatArray
    coupling: FloatArray
    threshold: float
    n_bins: int
    normalisation: str
    warnings: tuple[str, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """JSON-safe form."""
        return {
            "coupling": self.coupling.tolist(),
            "method": "phase_transfer_entropy",
            "n_bins": self.n_bins,
            "n_oscillators": int(self.scores.shape[0]),
            "normalisation": self.normalisation,
            "orientation": "row is source, column is target",
            "scores_nats": self.scores.tolist(),
            "threshold": self.threshold,
            "warnings": list(self.warnings),
        }


def phase_transfer_entropy(phases: ArrayLike, *, n_bins: int = 8, delay: int = 1) -> FloatArray:
    """Transfer entropy between phase series whose values are sorted into equal bins of the circle.

    ``TE(i -> j) = H(j', j) - H(j) - H(j', j, i) + H(j, i)`` with ``j'`` the phase of j ``delay`` samples later:
    how much knowing i narrows what j does next. Finite series give a positive bias of about
    ``(n_bins - 1)² n_bins / (2 T)`` nats even without influence.

    Args:
        phases: shape ``(n_oscillators, n_samples)`` in rad, wrapped or not.
        n_bins: bins, from 2 to `MAX_BINS`.
        delay: samples between cause and effect.

    Returns:
        Shape ``(n, n)``, source as row, nats, zero diagonal.

    Raises:
        ValueError: fewer than two series, not more samples than ``delay + 1``, or values that are not finite reals.

    References:
        Schreiber, PRL 85 (2000) 461; Lobier, Siebenhühner, Palva, Palva, NeuroImage 85 (2014) 853.
    """
    from scpn_phase_orchestrator.coupling._transfer_entropy import pairwise_transfer_entropy

    bins = whole_number("n_bins", n_bins, minimum=2, maximum=MAX_BINS)
    lag = whole_number("delay", delay, minimum=1)
    array = np.asarray(phases)
    if array.ndim != 2 or array.shape[0] < 2:
        raise ValueError(f"phases must have shape (n_oscillators >= 2, n_samples), got {array.shape}")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"phases must be real numbers, got {array.dtype}")
    array = array.astype(np.float64)
    wrong = np.argwhere(~(np.abs(array) <= LARGEST_PHASE))
    if wrong.size:
        row, column = wrong[0]
        expected = f"at most {LARGEST_PHASE:g} rad in size" if np.isfinite(array[row, column]) else "finite"
        raise ValueError(f"phases must be {expected}, got {array[row, column]} at oscillator {row}, sample {column}")
    if array.shape[1] <= lag + 1:
        raise ValueError(f"phases must have more than {lag + 1} samples per oscillator, got {array.shape[1]}")
    symbols = np.minimum((array % TWO_PI) / TWO_PI * bins, bins - 1).astype(np.int64)
    return pairwise_transfer_entropy(symbols, bins, lag)


def estimate_coupling(
    phases: ArrayLike,
    *,
    n_bins: int = 8,
    threshold_quantile: float = 0.75,
    threshold_absolute: float | None = None,
    normalisation: Literal["max", "none"] = "max",
) -> CouplingEstimate:
    """Turn transfer entropies into a sparse coupling matrix.

    Kept are the scores at or above ``threshold_absolute``, else at or above the quantile of all positive scores.

    Args:
        phases: shape ``(n_oscillators, n_samples)`` in rad.
        n_bins: bins of the circle.
        threshold_quantile: in [0, 1].
        threshold_absolute: in nats; wins over the quantile.
        normalisation: ``max`` divides by the largest kept score, ``none`` keeps nats.

    Raises:
        ValueError: an argument is out of range, or see `phase_transfer_entropy`.
    """
    if isinstance(threshold_quantile, bool) or not 0.0 <= threshold_quantile <= 1.0:
        raise ValueError(f"threshold_quantile must be in [0, 1], got {threshold_quantile!r:.40}")
    if threshold_absolute is not None and not (np.isfinite(threshold_absolute) and threshold_absolute >= 0.0):
        raise ValueError(f"threshold_absolute must be finite and >= 0, got {threshold_absolute!r:.40}")
    if normalisation not in ("max", "none"):
        raise ValueError(f"normalisation must be 'max' or 'none', got {normalisation!r:.40}")
    scores = phase_transfer_entropy(phases, n_bins=n_bins)
    positive = scores[scores > 0.0]
    if threshold_absolute is not None:
        threshold = float(threshold_absolute)
    else:
        threshold = float(np.quantile(positive, threshold_quantile)) if positive.size else 0.0
    coupling = np.where((scores > 0.0) & (scores >= threshold), scores, 0.0)
    largest = float(coupling.max())
    if normalisation == "max" and largest > 0.0:
        coupling = coupling / largest
    warnings = _warnings(np.shape(phases), scores[coupling > 0.0], int(n_bins))
    return CouplingEstimate(scores, coupling, threshold, int(n_bins), normalisation, warnings)


def _warnings(shape: tuple[int, ...], kept: FloatArray, n_bins: int) -> tuple[str, ...]:
    n_oscillators, n_samples = shape
    warnings: list[str] = []
    if n_oscillators > n_samples:
        warnings.append(f"{n_oscillators} oscillators with {n_samples} samples each: are rows and columns swapped?")
    bias = (n_bins - 1) ** 2 * n_bins / (2.0 * n_samples)
    doubtful = int(np.count_nonzero(kept <= CHANCE * bias))
    if doubtful:
        warnings.append(
            f"{doubtful} of {kept.size} kept scores may be chance: {n_samples} samples in {n_bins} bins give up to "
            f"{bias:.3g} nats without any influence; record longer or use fewer bins"
        )
    return tuple(warnings)
