"""How far a model has drifted from what it models, as one confidence per tick.

A tick holds phases of model and observation at one instant and a window of their order parameters. The phases are
compared as histograms (Jensen-Shannon divergence), the windows as distributions (Wasserstein-1). Ticks known to be good
give a baseline; later ones are scored by how many standard deviations they lie above it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ripieno.canonical import ASCII
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = [
    "STATUSES",
    "TwinConfidenceBaseline",
    "TwinConfidenceCalibrator",
    "TwinConfidenceScore",
    "TwinConfidenceSummary",
    "TwinDivergence",
    "phase_order_divergence",
    "score_twin_confidence",
    "summarise_twin_confidence",
    "twin_confidence_prometheus_text",
]

STATUSES = ("healthy", "warning", "critical")
"""From best to worst; the place in this tuple is the status level of the metrics."""

_LEAST_DEVIATION = 1e-12
_METRIC_PREFIX = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")


@dataclass(frozen=True)
class TwinDivergence:
    """How far model and observation differ: `phase_js_divergence` in nats, <= ln 2; `order_wasserstein` in [0, 1]."""

    phase_js_divergence: float
    order_wasserstein: float
    n_bins: int
    backend: str


@dataclass(frozen=True)
class TwinConfidenceBaseline:
    """Mean and population standard deviation of both divergences over `count` good ticks.

    A divergence is within its band up to ``mean + band_z * std``.

    Raises:
        ValueError: a number is not finite or negative, or `count` is below 1.
    """

    phase_js_mean: float
    phase_js_std: float
    order_w1_mean: float
    order_w1_std: float
    count: int = 1
    band_z: float = 3.0

    def __post_init__(self) -> None:
        for name in ("phase_js_mean", "phase_js_std", "order_w1_mean", "order_w1_std", "band_z"):
            _non_negative(getattr(self, name), name)
        _at_least_one(self.count, "count")


@dataclass(frozen=True)
class TwinConfidenceScore:
    """One scored tick; `score_hash` is the hash of its other fields."""

    confidence: float
    status: str
    phase_js_divergence: float
    order_wasserstein: float
    phase_js_z: float
    order_w1_z: float
    composite_z: float
    phase_js_within_band: bool
    order_w1_within_band: bool
    backend: str
    score_hash: str

    def to_audit_record(self) -> dict[str, Any]:
        """All fields, JSON-safe."""
        return asdict(self)


@dataclass(frozen=True)
class TwinConfidenceSummary:
    """Many scored ticks in a few numbers; `summary_hash` is the hash of the other fields."""

    tick_count: int
    healthy_count: int
    warning_count: int
    critical_count: int
    min_confidence: float
    mean_confidence: float
    latest_confidence: float
    worst_status: str
    latest_status: str
    summary_hash: str

    def to_audit_record(self) -> dict[str, Any]:
        """All fields, JSON-safe."""
        return asdict(self)


def phase_order_divergence(
    model_phases: ArrayLike,
    observed_phases: ArrayLike,
    model_order: ArrayLike,
    observed_order: ArrayLike,
    *,
    n_bins: int = 36,
) -> TwinDivergence:
    """Compare phases and order parameters of a model with what was observed.

    With histograms p, q of the phases over ``[0, 2 pi)`` and ``m = (p + q) / 2`` the divergence of Lin (1991) is
    ``JS = (KL(p || m) + KL(q || m)) / 2``; the Wasserstein-1 distance of two windows of equal length is the mean
    ``|sorted(a) - sorted(b)|``.

    Args:
        model_phases: phases in rad, shape ``(n,)``, any number of turns.
        observed_phases: shape ``(n,)``.
        model_order: order parameters in [0, 1], shape ``(w,)``.
        observed_order: shape ``(w,)``.
        n_bins: bins of the histograms.

    Raises:
        ValueError: empty, unequal or non-finite arrays, order parameters outside [0, 1], or `n_bins` below 1.

    Examples:
        >>> round(phase_order_divergence([0, 1, 2, 3], [0, 1, 2, 4], [0.5, 0.6], [0.4, 0.8]).order_wasserstein, 12)
        0.15
    """
    _at_least_one(n_bins, "n_bins")
    model, observed = _pair(model_phases, observed_phases, "model_phases", "observed_phases")
    model_window, observed_window = _pair(model_order, observed_order, "model_order", "observed_order")
    for window, name in ((model_window, "model_order"), (observed_window, "observed_order")):
        if window.min() < 0.0 or window.max() > 1.0:
            raise ValueError(f"{name} must lie in [0, 1], got {window.min():g} to {window.max():g}")
    p, q = _shares(model, n_bins), _shares(observed, n_bins)
    m = 0.5 * (p + q)
    js = 0.5 * (_relative_entropy(p, m) + _relative_entropy(q, m))
    w1 = float(np.mean(np.abs(np.sort(model_window) - np.sort(observed_window))))
    return TwinDivergence(min(max(js, 0.0), math.log(2.0)), w1, int(n_bins), "numpy")


class TwinConfidenceCalibrator:
    """Collects divergences of ticks that are known to be good.

    Args:
        band_z: width of the band in standard deviations, >= 0.

    Raises:
        ValueError: `band_z` is negative or not finite.
    """

    def __init__(self, band_z: float = 3.0) -> None:
        self._band_z = _non_negative(band_z, "band_z")
        self._observed: list[tuple[float, float]] = []

    def observe(self, divergence: TwinDivergence) -> None:
        """Take one tick.

        Raises:
            ValueError: not a `TwinDivergence`, or one with a negative or non-finite number.
        """
        _require(divergence, TwinDivergence, "divergence")
        self._observed.append(
            (
                _non_negative(divergence.phase_js_divergence, "phase_js_divergence"),
                _non_negative(divergence.order_wasserstein, "order_wasserstein"),
            )
        )

    def baseline(self) -> TwinConfidenceBaseline:
        """Mean and population standard deviation of what was observed.

        Raises:
            ValueError: nothing was observed.
        """
        if not self._observed:
            raise ValueError("a baseline needs at least one observed divergence")
        values = np.asarray(self._observed)
        js, w1 = values.mean(axis=0).tolist()
        js_std, w1_std = values.std(axis=0).tolist()
        return TwinConfidenceBaseline(js, js_std, w1, w1_std, len(self._observed), self._band_z)


def score_twin_confidence(
    divergence: TwinDivergence,
    baseline: TwinConfidenceBaseline,
    *,
    sensitivity: float = 3.0,
    warning_confidence: float = 0.6,
    critical_confidence: float = 0.3,
) -> TwinConfidenceScore:
    """Score a tick against a baseline.

    ``z = max(0, (x - mean) / max(std, 1e-12))`` for both divergences, ``composite_z`` their Euclidean norm and
    ``confidence = exp(-composite_z / sensitivity)``. Status: critical below `critical_confidence`, warning below
    `warning_confidence`, else healthy.

    Raises:
        ValueError: `sensitivity` is not positive, or not ``0 <= critical_confidence <= warning_confidence <= 1``.
    """
    _require(divergence, TwinDivergence, "divergence")
    _require(baseline, TwinConfidenceBaseline, "baseline")
    if _non_negative(sensitivity, "sensitivity") == 0.0:
        raise ValueError("sensitivity must be above 0, got 0")
    critical = _non_negative(critical_confidence, "critical_confidence")
    warning = _non_negative(warning_confidence, "warning_confidence")
    if not critical <= warning <= 1.0:
        raise ValueError(
            f"critical_confidence and warning_confidence must be ordered within [0, 1], got {critical} and {warning}"
        )
    js = _non_negative(divergence.phase_js_divergence, "phase_js_divergence")
    w1 = _non_negative(divergence.order_wasserstein, "order_wasserstein")
    js_z = _excess(js, baseline.phase_js_mean, baseline.phase_js_std)
    w1_z = _excess(w1, baseline.order_w1_mean, baseline.order_w1_std)
    composite_z = math.hypot(js_z, w1_z)
    confidence = math.exp(-composite_z / sensitivity)
    fields: dict[str, Any] = {
        "confidence": confidence,
        "status": "critical" if confidence < critical else "warning" if confidence < warning else "healthy",
        "phase_js_divergence": js,
        "order_wasserstein": w1,
        "phase_js_z": js_z,
        "order_w1_z": w1_z,
        "composite_z": composite_z,
        "phase_js_within_band": js <= baseline.phase_js_mean + baseline.band_z * baseline.phase_js_std,
        "order_w1_within_band": w1 <= baseline.order_w1_mean + baseline.band_z * baseline.order_w1_std,
        "backend": divergence.backend,
    }
    return TwinConfidenceScore(**fields, score_hash=ASCII.hash(fields))


def summarise_twin_confidence(scores: Sequence[TwinConfidenceScore]) -> TwinConfidenceSummary:
    """Counts by status, least, mean and latest confidence of ticks in order of time.

    Raises:
        ValueError: no scores.
    """
    if not scores:
        raise ValueError("scores must hold at least one score")
    statuses = [score.status for score in scores]
    unknown = sorted(set(statuses) - set(STATUSES))
    if unknown:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {unknown[0]!r}")
    confidences = [_non_negative(score.confidence, "confidence") for score in scores]
    fields: dict[str, Any] = {
        "tick_count": len(scores),
        "healthy_count": statuses.count("healthy"),
        "warning_count": statuses.count("warning"),
        "critical_count": statuses.count("critical"),
        "min_confidence": min(confidences),
        "mean_confidence": math.fsum(confidences) / len(confidences),
        "latest_confidence": confidences[-1],
        "worst_status": max(statuses, key=STATUSES.index),
        "latest_status": statuses[-1],
    }
    return TwinConfidenceSummary(**fields, summary_hash=ASCII.hash(fields))


def twin_confidence_prometheus_text(summary: TwinConfidenceSummary, *, prefix: str = "spo") -> str:
    """A summary in the text format of Prometheus, metric names starting with `prefix`.

    Raises:
        ValueError: `prefix` cannot start a metric name.
    """
    if not _METRIC_PREFIX.match(prefix):
        raise ValueError(f"prefix must be letters, digits, '_' or ':' and start with no digit, got {prefix!r}")
    name = f"{prefix}_twin_confidence"
    counts = (summary.healthy_count, summary.warning_count, summary.critical_count)
    by_status = [(f'{{status="{status}"}}', count) for status, count in zip(STATUSES, counts, strict=True)]
    metrics: list[tuple[str, str, str, Sequence[tuple[str, float]]]] = [
        ("mean", "gauge", "Mean confidence of the scored ticks.", [("", summary.mean_confidence)]),
        ("min", "gauge", "Least confidence of the scored ticks.", [("", summary.min_confidence)]),
        ("latest", "gauge", "Confidence of the latest tick.", [("", summary.latest_confidence)]),
        ("tick_count", "gauge", "Number of scored ticks.", [("", summary.tick_count)]),
        ("status_total", "counter", "Scored ticks by status.", by_status),
        (
            "worst_status_level",
            "gauge",
            "Worst status: 0 healthy, 1 warning, 2 critical.",
            [("", STATUSES.index(summary.worst_status))],
        ),
    ]
    lines: list[str] = []
    for suffix, kind, text, samples in metrics:
        lines += [f"# HELP {name}_{suffix} {text}", f"# TYPE {name}_{suffix} {kind}"]
        lines += [f"{name}_{suffix}{labels} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _shares(phases: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Share of phases per bin of one turn."""
    bins = np.floor(np.mod(phases, TWO_PI) * (n_bins / TWO_PI)).astype(np.int64) % n_bins
    return np.bincount(bins, minlength=n_bins) / len(phases)


def _relative_entropy(p: NDArray[np.float64], m: NDArray[np.float64]) -> float:
    """``sum p ln(p / m)`` over p > 0."""
    held = p > 0.0
    return float(np.sum(p[held] * np.log(p[held] / m[held])))


def _pair(
    first: ArrayLike, second: ArrayLike, first_name: str, second_name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = _vector(first, first_name), _vector(second, second_name)
    if len(one) != len(other):
        raise ValueError(f"{first_name} and {second_name} must have equal lengths, got {len(one)} and {len(other)}")
    return one, other


def _vector(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a one-dimensional array of numbers") from error
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf" or _holds_boolean(values):
        raise ValueError(
            f"{name} must be a non-empty one-dimensional array of real numbers, "
            f"got shape {array.shape} of {array.dtype}"
        )
    vector = array.astype(np.float64)
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite")
    return vector


def _holds_boolean(values: ArrayLike) -> bool:
    """Whether a list mixes booleans with numbers, which an array would hide."""
    return isinstance(values, list | tuple) and any(isinstance(value, bool | np.bool_) for value in values)


def _excess(value: float, mean: float, deviation: float) -> float:
    return max(0.0, (value - mean) / max(deviation, _LEAST_DEVIATION))


def _non_negative(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")  # noqa: TRY004 - one class for every bad argument
    number = float(value)
    if not (math.isfinite(number) and number >= 0.0):
        raise ValueError(f"{name} must be finite and >= 0, got {number}")
    return number


def _at_least_one(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def _require(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")  # noqa: TRY004 - as above
