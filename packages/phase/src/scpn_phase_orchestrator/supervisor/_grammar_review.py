"""What the three mutation grammars share: their flags, and the ranking of candidates by an evaluator.

The grammars enumerate; they select nothing. An *evaluator* is any function that gives a candidate a score, higher being
better (for example the mean R of a replay with the mutated rules). The ranked shortlist stands beside the report and
is not part of its hash, because a score is an opinion of whoever evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TypeVar

from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._review_fields import finite_number, integer

__all__ = ["REVIEW_FLAGS", "RankedCandidate", "ReviewCandidate", "rank_candidates", "scores_as_evaluator"]

REVIEW_FLAGS: Mapping[str, bool] = {
    "operator_review_required": True,
    "execution_disabled": True,
    "live_merge_permitted": False,
    "hot_patch_permitted": False,
    "actuation_permitted": False,
    "non_actuating": True,
}
"""What every report of a grammar says about itself."""


class ReviewCandidate(Protocol):
    """What is ranked."""

    @property
    def candidate_id(self) -> str:
        """Name of the candidate within its report."""
        ...

    @property
    def status(self) -> str:
        """``accepted`` when the candidate may be considered."""
        ...


Candidate = TypeVar("Candidate", bound=ReviewCandidate)


@dataclass(frozen=True)
class RankedCandidate:
    """One place of a shortlist.

    Attributes:
        rank: place, from 1.
        candidate_id: which candidate.
        score: what the evaluator said.
    """

    rank: int
    candidate_id: str
    score: float

    def to_audit_record(self) -> dict[str, float | int | str]:
        """Give the place as JSON values."""
        return asdict(self)


def rank_candidates(
    candidates: Sequence[Candidate], evaluator: Callable[[Candidate], float], *, limit: int = 5
) -> tuple[RankedCandidate, ...]:
    """Score the accepted candidates and give the best, best first; equal scores keep the order of the report.

    Args:
        candidates: of one report.
        evaluator: gives a finite score, higher is better; it is called once per accepted candidate.
        limit: longest shortlist, at least 1.

    Raises:
        ValidationError: a score that is no finite number, or a limit below 1.
    """
    integer(limit, "limit", minimum=1)
    scored = [
        (finite_number(evaluator(candidate), f"score of {candidate.candidate_id}"), candidate.candidate_id)
        for candidate in candidates
        if candidate.status == "accepted"
    ]
    scored.sort(key=lambda pair: -pair[0])
    return tuple(RankedCandidate(rank, name, score) for rank, (score, name) in enumerate(scored[:limit], start=1))


def scores_as_evaluator(
    scores: Mapping[str, object], candidates: Sequence[ReviewCandidate]
) -> Callable[[ReviewCandidate], float]:
    """Turn scores by candidate id, computed elsewhere, into an evaluator.

    Raises:
        ValidationError: an accepted candidate without a score, or a score for no candidate.
    """
    accepted = {candidate.candidate_id for candidate in candidates if candidate.status == "accepted"}
    known = {candidate.candidate_id for candidate in candidates}
    missing, unknown = sorted(accepted - set(scores)), sorted(set(scores) - known)
    if missing:
        raise ValidationError(f"scores lack the accepted candidates {missing}")
    if unknown:
        raise ValidationError(f"scores name the unknown candidates {unknown}")
    return lambda candidate: finite_number(scores[candidate.candidate_id], f"score of {candidate.candidate_id}")
