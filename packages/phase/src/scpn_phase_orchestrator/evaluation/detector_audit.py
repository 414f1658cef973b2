"""The audit of a detector: how much it finds at a given rate of false alarms, and whether that could be chance.

A detector gives scores; higher means more alarming. *Event* scores were taken where there was something to find, *null*
scores where there was nothing. The threshold is set on the null scores, so that at most the allowed share of them
alarms; the detection rate is the share of event scores that alarm. A permutation test says how often labels that
are dealt at random do as well.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ripieno.canonical import content_hash
from ripieno.randomness import derive_substream
from ripieno.receipts import seal
from ripieno.statistics import wilson_interval
from scpn_phase_orchestrator.exceptions import ValidationError

__all__ = ["DetectorAudit", "alarm_threshold", "audit_detector_scores", "detector_audit_record"]

SCHEMA = "scpn_detector_audit_v1"
RECORD_SCHEMA = "scpn_detector_audit_record_v1"
_STREAM = "phase.evaluation.detector_audit"
_CHUNK_CELLS = 2**21
"""Scores that are shuffled at once, so that memory stays bounded."""


@dataclass(frozen=True)
class DetectorAudit:
    """What the scores say.

    Attributes:
        n_event: number of event scores.
        n_null: number of null scores.
        target_false_alarm: share of null scores that may alarm.
        allowed_false_alarms: ``floor(target * n_null)``.
        threshold: a score alarms when it is at least this.
        detections: event scores that alarm.
        detection_rate: their share.
        detection_rate_interval: its 95 % Wilson interval.
        false_alarms: null scores that alarm.
        false_alarm_rate: their share.
        n_permutations: number of random relabellings.
        seed: root seed of the relabellings.
        p_value: ``(1 + relabellings that detect at least as many) / (n_permutations + 1)``.
        alpha: level of significance.
        significant: whether ``p_value <= alpha``.
    """

    n_event: int
    n_null: int
    target_false_alarm: float
    allowed_false_alarms: int
    threshold: float
    detections: int
    detection_rate: float
    detection_rate_interval: tuple[float, float]
    false_alarms: int
    false_alarm_rate: float
    n_permutations: int
    seed: int
    p_value: float
    alpha: float
    significant: bool

    def to_audit_record(self) -> dict[str, Any]:
        """Give the audit as JSON values."""
        return {
            "schema": SCHEMA,
            **asdict(self),
            "detection_rate_interval": list(self.detection_rate_interval),
        }


def _scores(values: object, name: str) -> NDArray[np.float64]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise ValidationError(f"{name} must be an array of finite numbers, got {values!r:.80}")
    items = list(values)
    if not items:
        raise ValidationError(f"{name} must be non-empty")
    for index, item in enumerate(items):
        if isinstance(item, bool | np.bool_) or not isinstance(item, int | float | np.integer | np.floating):
            raise ValidationError(f"{name}[{index}] must be a number, got {item!r:.80}")
        if not abs(item) <= sys.float_info.max:
            raise ValidationError(f"{name}[{index}] must be finite and within the range of doubles, got {item!r:.80}")
    return np.array(items, dtype=np.float64)


def _share(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1.0:
        raise ValidationError(f"{name} must lie between 0 and 1 (both excluded), got {value!r}")
    return float(value)


def _allowed(n_null: int, target: float) -> int:
    # The product of two doubles may fall just below the integer that the decimal numbers give (0.29 * 100).
    return math.floor(target * n_null + 1e-9)


def alarm_threshold(null_scores: Sequence[float] | NDArray[np.float64], target_false_alarm: float = 0.1) -> float:
    """Give the smallest threshold at which at most ``k = floor(target * n)`` null scores alarm.

    It lies just above the null score with exactly ``k`` others before it in descending order, so with ``k = 0`` it
    lies just above the largest.

    Args:
        null_scores: finite, at least one.
        target_false_alarm: share that may alarm, between 0 and 1.

    Raises:
        ValidationError: an argument that is not allowed.

    Examples:
        >>> alarm_threshold([float(score) for score in range(10)], 0.2) > 7.0
        True
    """
    scores = _scores(null_scores, "null_scores")
    allowed = _allowed(scores.size, _share(target_false_alarm, "target_false_alarm"))
    return _threshold(scores, allowed)


def _threshold(scores: NDArray[np.float64], allowed: int) -> float:
    place = scores.size - 1 - allowed
    threshold = math.nextafter(float(np.partition(scores, place)[place]), math.inf)
    if not math.isfinite(threshold):
        raise ValidationError("null_scores reach the largest double, so that no threshold lies above them")
    return threshold


def _permuted_detections(
    pooled: NDArray[np.float64], n_event: int, allowed: int, n_permutations: int, seed: int
) -> NDArray[np.int64]:
    """Give the detections of random relabellings, each with the threshold of its own null scores."""
    generator = derive_substream(_STREAM, root_seed=seed).default_rng()
    place = pooled.size - n_event - 1 - allowed
    rows = max(1, _CHUNK_CELLS // pooled.size)
    counts: list[NDArray[np.int64]] = []
    for start in range(0, n_permutations, rows):
        n_rows = min(rows, n_permutations - start)
        shuffled = generator.permuted(np.broadcast_to(pooled, (n_rows, pooled.size)), axis=1)
        events, nulls = shuffled[:, :n_event], shuffled[:, n_event:]
        limits = np.partition(nulls, place, axis=1)[:, place]
        counts.append(np.count_nonzero(events > limits[:, np.newaxis], axis=1))
    return np.concatenate(counts)


def audit_detector_scores(
    event_scores: Sequence[float] | NDArray[np.float64],
    null_scores: Sequence[float] | NDArray[np.float64],
    *,
    target_false_alarm: float = 0.1,
    n_permutations: int = 10_000,
    seed: int = 0,
    alpha: float = 0.05,
) -> DetectorAudit:
    """Audit a detector.

    The test statistic is the number of detections at the threshold of the null scores. Every relabelling sets its
    threshold on *its* null scores, as the audit itself did: with the threshold of the true labels the test would not
    keep its level. Equal arguments give equal numbers on every machine.

    Args:
        event_scores: scores where there was something to find; finite, at least one.
        null_scores: scores where there was nothing; finite, at least one.
        target_false_alarm: share of null scores that may alarm, between 0 and 1.
        n_permutations: random relabellings, at least 1.
        seed: root seed, at least 0.
        alpha: level of significance, between 0 and 1.

    Raises:
        ValidationError: an argument that is not allowed.

    Examples:
        >>> audit = audit_detector_scores([5.0, 6.0, 7.0], [0.0, 1.0, 2.0, 3.0], n_permutations=999)
        >>> audit.detection_rate, audit.false_alarm_rate
        (1.0, 0.0)
    """
    events, nulls = _scores(event_scores, "event_scores"), _scores(null_scores, "null_scores")
    target, level = _share(target_false_alarm, "target_false_alarm"), _share(alpha, "alpha")
    for name, value, least in (("n_permutations", n_permutations, 1), ("seed", seed, 0)):
        if type(value) is not int or value < least:
            raise ValidationError(f"{name} must be an integer >= {least}, got {value!r}")
    allowed = _allowed(nulls.size, target)
    threshold = _threshold(nulls, allowed)
    detections = int(np.count_nonzero(events >= threshold))
    false_alarms = int(np.count_nonzero(nulls >= threshold))
    permuted = _permuted_detections(np.concatenate([events, nulls]), events.size, allowed, n_permutations, seed)
    p_value = (1 + int(np.count_nonzero(permuted >= detections))) / (n_permutations + 1)
    interval = wilson_interval(detections, events.size)
    return DetectorAudit(
        n_event=events.size,
        n_null=nulls.size,
        target_false_alarm=target,
        allowed_false_alarms=allowed,
        threshold=threshold,
        detections=detections,
        detection_rate=detections / events.size,
        detection_rate_interval=(float(interval[0]), float(interval[1])),
        false_alarms=false_alarms,
        false_alarm_rate=false_alarms / nulls.size,
        n_permutations=n_permutations,
        seed=seed,
        p_value=p_value,
        alpha=level,
        significant=p_value <= level,
    )


def detector_audit_record(
    audit: DetectorAudit,
    event_scores: Sequence[float],
    null_scores: Sequence[float],
    *,
    corpus_id: str,
    captured_at: str,
) -> dict[str, Any]:
    """Tie an audit to the scores it is about, in a sealed record (``receipt_sha256``).

    Args:
        audit: the audit.
        event_scores: the event scores, whose hash goes into the record.
        null_scores: the null scores, likewise.
        corpus_id: name of the recordings that were scored.
        captured_at: when they were taken, as text.

    Raises:
        ValidationError: a blank name or time.
    """
    for name, value in (("corpus_id", corpus_id), ("captured_at", captured_at)):
        if not value.strip():
            raise ValidationError(f"{name} must be a non-empty string")
    scores = {
        "event_scores": [float(score) for score in event_scores],
        "null_scores": [float(score) for score in null_scores],
    }
    return seal(
        {
            "schema": RECORD_SCHEMA,
            "corpus_id": corpus_id,
            "captured_at": captured_at,
            "scores_sha256": content_hash(scores),
            "audit": audit.to_audit_record(),
        }
    )
