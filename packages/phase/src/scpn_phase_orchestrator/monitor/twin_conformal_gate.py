"""Admit or refuse by conformal calibration, with a miscoverage that adapts to what comes.

Split conformal prediction (Vovk et al. 2005) takes the k-th smallest of n calibration scores as threshold, with
``k = ceil((1 - alpha)(n + 1))``. Adaptive conformal inference (Gibbs and Candes 2021) moves alpha after every tick,
``alpha <- clip(alpha + gamma (target - refused), 0, 1)``, so that the share of refusals stays near the target while the
scores drift within what the calibration has seen; beyond that the clip leaves more refusals than the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.monitor.twin_confidence import TwinConfidenceScore

__all__ = [
    "DEFAULT_REGIME",
    "ConformalDecision",
    "ConformalGateConfig",
    "TwinConformalGate",
    "confidence_nonconformity",
]

DEFAULT_REGIME = "default"
"""The calibration that serves every regime without one of its own."""


def confidence_nonconformity(score: TwinConfidenceScore) -> float:
    """How unlike the baseline a tick is: its `composite_z`, 0 or more."""
    return score.composite_z


@dataclass(frozen=True)
class ConformalGateConfig:
    """Settings of a gate.

    Attributes:
        target_miscoverage: share of ticks that may be refused in the long run, in (0, 1).
        adaptation_rate: gamma, how fast the miscoverage follows, in (0, 1].
        regime_conditioned: whether regimes with a calibration of their own are judged by it.

    Raises:
        ValueError: a setting is outside its range.
    """

    target_miscoverage: float = 0.1
    adaptation_rate: float = 0.02
    regime_conditioned: bool = True

    def __post_init__(self) -> None:
        target = _finite(self.target_miscoverage, "target_miscoverage")
        if not 0.0 < target < 1.0:
            raise ValueError(f"target_miscoverage must be in (0, 1), got {target}")
        rate = _finite(self.adaptation_rate, "adaptation_rate")
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"adaptation_rate must be in (0, 1], got {rate}")
        if self.regime_conditioned not in {True, False}:
            raise ValueError(f"regime_conditioned must be true or false, got {self.regime_conditioned!r}")


@dataclass(frozen=True)
class ConformalDecision:
    """One decision of a gate.

    Attributes:
        admitted: whether the score is at most the threshold.
        nonconformity_score: the score.
        threshold: infinite when the calibration is too small for the miscoverage.
        effective_miscoverage: alpha before this decision.
        empirical_coverage: share of admitted ticks so far, this one included.
        regime: whose calibration was used.
        tick: number of the decision, from 1.
        decision_hash: hash of the other fields.
    """

    admitted: bool
    nonconformity_score: float
    threshold: float
    effective_miscoverage: float
    empirical_coverage: float
    regime: str
    tick: int
    decision_hash: str

    def to_audit_record(self) -> dict[str, Any]:
        """All fields, JSON-safe: an infinite threshold is null."""
        return {
            "admitted": self.admitted,
            "nonconformity_score": self.nonconformity_score,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "effective_miscoverage": self.effective_miscoverage,
            "empirical_coverage": self.empirical_coverage,
            "regime": self.regime,
            "tick": self.tick,
            "decision_hash": self.decision_hash,
        }


@dataclass
class _Calibration:
    scores: list[float]
    miscoverage: float

    def threshold(self) -> float:
        """The k-th smallest score; rounding keeps ``0.3 * 10`` at 3."""
        k = math.ceil(round((1.0 - self.miscoverage) * (len(self.scores) + 1), 9))
        if k > len(self.scores):
            return math.inf
        return self.scores[max(k, 1) - 1]


class TwinConformalGate:
    """Judges nonconformity scores tick by tick.

    Args:
        config: settings; the defaults when None.
    """

    def __init__(self, config: ConformalGateConfig | None = None) -> None:
        self._config = ConformalGateConfig() if config is None else config
        self._calibrations: dict[str, _Calibration] = {}
        self._ticks = 0
        self._admitted = 0

    @property
    def config(self) -> ConformalGateConfig:
        """The settings."""
        return self._config

    def calibrate(self, scores: Iterable[float], *, regime: str = DEFAULT_REGIME) -> None:
        """Set the calibration scores of a regime and put its miscoverage back to the target.

        Raises:
            ValueError: no scores, a score that is not a finite number, or an empty regime name.
        """
        _require_name(regime)
        ordered = sorted(_finite(score, "calibration score") for score in scores)
        if not ordered:
            raise ValueError(f"calibration of regime {regime!r} needs at least one score")
        self._calibrations[regime] = _Calibration(ordered, self._config.target_miscoverage)

    def update(self, score: float, *, regime: str | None = None) -> ConformalDecision:
        """Judge one score and adapt.

        The calibration is that of `regime` when the gate is conditioned on regimes and has one, else the default one.

        Raises:
            ValueError: the score is not a finite number, or neither calibration exists.
        """
        value = _finite(score, "score")
        name = DEFAULT_REGIME
        if regime is not None:
            _require_name(regime)
            if self._config.regime_conditioned and regime in self._calibrations:
                name = regime
        calibration = self._calibrations.get(name)
        if calibration is None:
            raise ValueError(f"the gate must be calibrated first: regime {regime or DEFAULT_REGIME!r} has no scores")
        threshold = calibration.threshold()
        miscoverage = calibration.miscoverage
        admitted = value <= threshold
        change = self._config.adaptation_rate * (self._config.target_miscoverage - (not admitted))
        calibration.miscoverage = min(max(miscoverage + change, 0.0), 1.0)
        self._ticks += 1
        self._admitted += admitted
        decision = ConformalDecision(
            admitted, value, threshold, miscoverage, self.empirical_coverage(), name, self._ticks, decision_hash=""
        )
        record = decision.to_audit_record()
        del record["decision_hash"]
        return replace(decision, decision_hash=ASCII.hash(record))

    def empirical_coverage(self) -> float:
        """Share of admitted ticks so far; 1.0 before the first."""
        return self._admitted / self._ticks if self._ticks else 1.0


def _finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")  # noqa: TRY004 - one class for every bad argument
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def _require_name(regime: object) -> None:
    if not isinstance(regime, str) or not regime:
        raise ValueError(f"regime must be a non-empty name, got {regime!r}")
