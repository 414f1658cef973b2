"""Paired outcomes of one treatment: who won where, how much, and what the unresolved pairs could change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from agentinputlab.contracts.errors import ValidationError

__all__ = [
    "NO_INTERVAL",
    "Outcome",
    "PairedOutcome",
    "PairedSummary",
    "SignTest",
    "exact_sign_test",
    "is_known_interval",
    "summarise_pairs",
]

CONFIDENCE = 0.95
N_RESAMPLES = 10_000
NO_INTERVAL = "no interval: every task differs by the same amount"
"""What a reader is told in place of an interval of width zero."""


class Outcome(StrEnum):
    """What one pair says."""

    TREATMENT_WINS = "treatment_wins"
    BASELINE_WINS = "baseline_wins"
    TIE = "tie"
    UNRESOLVED = "unresolved"

    @property
    def meaning(self) -> str:
        """The sentence for the reader."""
        return _MEANINGS[self]


_MEANINGS = {
    Outcome.TREATMENT_WINS: "The changed input scored higher.",
    Outcome.BASELINE_WINS: "The original input scored higher.",
    Outcome.TIE: "Both scored the same.",
    Outcome.UNRESOLVED: "An arm, the capture or the intervention failed; the pair stays in the denominator.",
}


@dataclass(frozen=True, slots=True)
class PairedOutcome:
    """The scores of one pair.

    Attributes:
        unit_id: the task.
        baseline: score with the original input; None when there is none.
        treatment: score with the changed input; None when there is none.
    """

    unit_id: str
    baseline: float | None
    treatment: float | None

    def __post_init__(self) -> None:
        for role, score in (("baseline", self.baseline), ("treatment", self.treatment)):
            if score is not None and not math.isfinite(score):
                raise ValidationError(f"{role} of unit {self.unit_id!r} must be finite or None, got {score!r}")

    @property
    def difference(self) -> float | None:
        """Treatment minus baseline; None when a score is missing."""
        return None if self.baseline is None or self.treatment is None else self.treatment - self.baseline

    @property
    def outcome(self) -> Outcome:
        """Who won."""
        difference = self.difference
        if difference is None:
            return Outcome.UNRESOLVED
        if difference == 0.0:
            return Outcome.TIE
        return Outcome.TREATMENT_WINS if difference > 0.0 else Outcome.BASELINE_WINS


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


class SignTest(NamedTuple):
    """Exact sign test of the pairs that differ; on 0/1 scores this is the exact McNemar test.

    Attributes:
        p_value: two-sided, from the binomial distribution with probability 1/2; 1.0 when no pair differs.
        win_share: Clopper-Pearson interval of the chance that a differing pair is won by the treatment;
            (0, 1) when no pair differs.
    """

    p_value: float
    win_share: Interval


def exact_sign_test(wins: int, losses: int, *, confidence: float = CONFIDENCE) -> SignTest:
    """Test whether wins and losses are equally likely (McNemar 1947; Clopper and Pearson 1934).

    Args:
        wins: pairs that the treatment won.
        losses: pairs that the baseline won.
        confidence: two-sided coverage of the interval, between 0 and 1.

    Raises:
        ValidationError: a count is negative or the confidence is not between 0 and 1.

    Examples:
        >>> exact_sign_test(6, 0).p_value
        0.03125
    """
    if wins < 0 or losses < 0:
        raise ValidationError(f"wins and losses must not be negative, got {wins} and {losses}")
    if not 0.0 < confidence < 1.0:
        raise ValidationError(f"confidence must be between 0 and 1, got {confidence}")
    if wins + losses == 0:
        return SignTest(1.0, Interval(0.0, 1.0))
    from scipy.stats import binomtest

    test = binomtest(wins, wins + losses, 0.5)
    interval = test.proportion_ci(confidence, method="exact")
    return SignTest(float(test.pvalue), Interval(float(interval.low), float(interval.high)))


@dataclass(frozen=True, slots=True)
class PairedSummary:
    """What the pairs of one treatment say together.

    All shares and means have every expected pair in the denominator.

    Attributes:
        expected: pairs that were to be measured.
        scored: pairs with both scores.
        wins: pairs that the treatment won.
        losses: pairs that the baseline won.
        ties: pairs with equal scores.
        unresolved: pairs without two scores.
        baseline_mean: mean baseline score of the scored pairs, None when there are none.
        treatment_mean: mean treatment score of the scored pairs, None when there are none.
        difference: sum of the differences divided by ``expected``; an unresolved pair adds nothing to the sum.
        difference_interval: 95 % paired bootstrap interval of ``difference``; of width zero, and no knowledge, when
            every pair differs by the same amount, see `is_known_interval`.
        difference_bounds: ``difference`` if every unresolved pair had been lost, and if every one had been won, by
            ``score_range``.
        p_value: of the exact sign test; None when no pair was scored.
        p_value_worst: the largest that ``p_value`` could have become with scores for the unresolved pairs.
        win_share: see `SignTest`.
    """

    expected: int
    scored: int
    wins: int
    losses: int
    ties: int
    unresolved: int
    baseline_mean: float | None
    treatment_mean: float | None
    difference: float
    difference_interval: Interval
    difference_bounds: Interval
    p_value: float | None
    p_value_worst: float
    win_share: Interval

    def as_dict(self) -> dict[str, Any]:
        """Give the summary as JSON values."""
        record = asdict(self)
        for name in ("difference_interval", "difference_bounds", "win_share"):
            record[name] = list(record[name])
        return record


def summarise_pairs(
    pairs: Sequence[PairedOutcome], *, seed: int = 0, score_range: float = 1.0, n_resamples: int = N_RESAMPLES
) -> PairedSummary:
    """Summarise the pairs of one treatment; unresolved ones stay in the denominator.

    Args:
        pairs: one per expected unit, in the order of the inventory.
        seed: of the bootstrap; the same pairs and seed give the same digits.
        score_range: largest possible difference of two scores, for the bounds.
        n_resamples: bootstrap replicates.

    Raises:
        ValidationError: there are no pairs, two have one unit, or ``score_range`` is not positive.
    """
    if not pairs:
        raise ValidationError("pairs must not be empty: a summary needs the expected units")
    if len({pair.unit_id for pair in pairs}) != len(pairs):
        raise ValidationError("pairs must have distinct unit ids")
    if not (math.isfinite(score_range) and score_range > 0.0):
        raise ValidationError(f"score_range must be positive and finite, got {score_range!r}")
    outcomes = [pair.outcome for pair in pairs]
    wins, losses, ties, unresolved = (
        outcomes.count(kind)
        for kind in (Outcome.TREATMENT_WINS, Outcome.BASELINE_WINS, Outcome.TIE, Outcome.UNRESOLVED)
    )
    expected, scored = len(pairs), len(pairs) - unresolved
    total = math.fsum(pair.difference or 0.0 for pair in pairs)
    test = exact_sign_test(wins, losses)
    # The p-value grows until both sides are even; pairs left over then could be ties.
    behind = min(min(wins, losses) + unresolved, max(wins, losses))
    return PairedSummary(
        expected=expected,
        scored=scored,
        wins=wins,
        losses=losses,
        ties=ties,
        unresolved=unresolved,
        baseline_mean=_mean([pair.baseline for pair in pairs if pair.difference is not None]),
        treatment_mean=_mean([pair.treatment for pair in pairs if pair.difference is not None]),
        difference=total / expected,
        difference_interval=_bootstrap_interval([pair.difference or 0.0 for pair in pairs], seed, n_resamples),
        difference_bounds=Interval(
            (total - unresolved * score_range) / expected, (total + unresolved * score_range) / expected
        ),
        p_value=test.p_value if scored else None,
        p_value_worst=exact_sign_test(max(wins, losses), behind).p_value,
        win_share=test.win_share,
    )


def is_known_interval(interval: Sequence[float]) -> bool:
    """Tell whether a bootstrap interval says anything.

    Pairs that all differ by the same amount give that amount in every resample: the interval has no width, because
    nothing varied, and not because the difference is known.

    Args:
        interval: low and high.

    Examples:
        >>> is_known_interval((1.0, 1.0)), is_known_interval((0.0, 1.0))
        (False, True)
    """
    low, high = interval
    return not math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12)


def _mean(scores: Sequence[float | None]) -> float | None:
    return math.fsum(score or 0.0 for score in scores) / len(scores) if scores else None


def _bootstrap_interval(differences: Sequence[float], seed: int, n_resamples: int) -> Interval:
    from ripieno.randomness import derive_substream
    from ripieno.statistics import cluster_bootstrap

    rng = derive_substream("inputlab.paired-bootstrap", root_seed=seed).default_rng()
    clusters = {index: [difference] for index, difference in enumerate(differences)}
    result = cluster_bootstrap(clusters, n_resamples=n_resamples, rng=rng)
    return Interval(result.mean_ci_low, result.mean_ci_high)
