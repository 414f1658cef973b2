"""Scores of two arms by task, brought together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentinputlab.analysis.paired import PairedOutcome
from agentinputlab.contracts.errors import ValidationError

__all__ = ["Harm", "harm", "pair_scores"]


class Harm(NamedTuple):
    """What a treatment breaks and mends.

    Attributes:
        harmed: share of the tasks the baseline solved that the treatment does not.
        rescued: share of the tasks the baseline did not solve that the treatment does.
    """

    harmed: float
    rescued: float


def pair_scores(
    unit_ids: Sequence[str], baseline: Mapping[str, float], treatment: Mapping[str, float]
) -> tuple[PairedOutcome, ...]:
    """Give one pair per expected task; a missing score stays missing, so that the pair stays in the denominator.

    Args:
        unit_ids: the expected tasks.
        baseline: score of the baseline by task.
        treatment: score of the treatment by task.

    Returns:
        Pairs for `agentinputlab.analysis.summarise_pairs`.

    Raises:
        ValidationError: a task is expected twice, or a score belongs to no expected task.
    """
    expected = set(unit_ids)
    if len(expected) != len(unit_ids):
        raise ValidationError("unit_ids must be distinct")
    for role, scores in (("baseline", baseline), ("treatment", treatment)):
        for unit_id in scores:
            if unit_id not in expected:
                raise ValidationError(f"{role} has a score for {unit_id!r:.80}, which is not among unit_ids")
    return tuple(PairedOutcome(unit_id, baseline.get(unit_id), treatment.get(unit_id)) for unit_id in unit_ids)


def harm(pairs: Sequence[PairedOutcome], *, threshold: float = 1.0) -> Harm:
    """Tell how many solved tasks a treatment breaks and how many unsolved ones it mends.

    A task without a treatment score counts as not solved by it; one without a baseline score is left out. A share of
    no tasks is 0.

    Args:
        pairs: the pairs.
        threshold: from which score on a task counts as solved.
    """
    solved = [pair for pair in pairs if pair.baseline is not None and pair.baseline >= threshold]
    unsolved = [pair for pair in pairs if pair.baseline is not None and pair.baseline < threshold]
    broken = sum(pair.treatment is None or pair.treatment < threshold for pair in solved)
    mended = sum(pair.treatment is not None and pair.treatment >= threshold for pair in unsolved)
    return Harm(broken / len(solved) if solved else 0.0, mended / len(unsolved) if unsolved else 0.0)
