"""Outcomes of a campaign: one row per expected pair, and what the rows say together.

Rows hold identities, statuses, scores and counts, and nothing that anybody said.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentinputlab.analysis.multiplicity import holm
from agentinputlab.analysis.paired import PairedOutcome, summarise_pairs
from workers.official_arenas.campaign.plan import CampaignPlan

__all__ = [
    "PRIMARY_METRIC",
    "ArmResult",
    "PairResult",
    "PairStatus",
    "analyse",
    "csv_text",
    "metric_of",
    "worst_after_correction",
]

PRIMARY_METRIC = "terminal_success"
"""Whether a task was solved: 1.0 or 0.0. The scores of any other metric have no bounds that we know."""


class PairStatus(StrEnum):
    """How the slot of a pair ended; `meaning` is the sentence for the reader."""

    PAIRED = "paired_scored"
    ARM_FAILED = "arm_failed"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    INTERVENTION_INTERRUPTED = "intervention_interrupted"
    INVENTORY_INCOMPLETE = "inventory_incomplete"
    CAPTURE_FAILED = "capture_failed"
    CAPTURE_UNRESOLVED = "capture_unresolved"

    @property
    def meaning(self) -> str:
        """What happened, in one sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    PairStatus.PAIRED: "Both sides ran to their end and were scored.",
    PairStatus.ARM_FAILED: "A side ended with an error and has no score; it was not tried again.",
    PairStatus.INTERRUPTED: "The pair was started and never reached its end; it was not started again.",
    PairStatus.REFUSED: "The driver refused the pair before any model call.",
    PairStatus.INTERVENTION_INTERRUPTED: "The intervention was started and never gave a result; it stays so.",
    PairStatus.INVENTORY_INCOMPLETE: "The capture of another task never ended, so that its slot has nothing to play.",
    PairStatus.CAPTURE_FAILED: "The simulated user gave no usable first message; there was nothing to start from.",
    PairStatus.CAPTURE_UNRESOLVED: "The capture was started and never ended; it was not started again.",
}


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm of a scored pair.

    Attributes:
        metric: name of what was measured.
        score: its value; of ``terminal_success`` 1.0 when the task was solved within all limits, else 0.0.
        reward: the arena's own score.
        hard_stops: how often a limit cut the agent off.
        usage: the eleven usage numbers, interventions included.
        trace_hash: hash of the recorded trace.
        termination: how the conversation ended.
    """

    metric: str
    score: float
    reward: float
    hard_stops: float
    usage: Mapping[str, float]
    trace_hash: str
    termination: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give the arm as JSON values."""
        return {
            "metric": self.metric,
            "score": self.score,
            "reward": self.reward,
            "hard_stops": self.hard_stops,
            "usage": dict(self.usage),
            "trace_hash": self.trace_hash,
            "termination": self.termination,
        }


@dataclass(frozen=True, slots=True)
class PairResult:
    """One expected pair.

    Attributes:
        slot: name of the model slot.
        treatment: name of the treatment.
        task_id: the arena's id of the task.
        status: how it ended.
        cell_id: name of its ledger folder; None when it never got one.
        intervention_status: what the intervention's run said (``success``, ``no_op``, ``failed``, ...), else None.
        baseline: the unchanged arm; None without a score.
        treated: the changed arm; None without a score.
        failure: kind of the error where there was one (its type, never its text).
    """

    slot: str
    treatment: str
    task_id: str
    status: PairStatus
    cell_id: str | None = None
    intervention_status: str | None = None
    baseline: ArmResult | None = None
    treated: ArmResult | None = None
    failure: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give the row as JSON values."""
        return {
            "slot": self.slot,
            "treatment": self.treatment,
            "task_id": self.task_id,
            "status": self.status.value,
            "cell_id": self.cell_id,
            "intervention_status": self.intervention_status,
            "baseline": None if self.baseline is None else self.baseline.as_dict(),
            "treated": None if self.treated is None else self.treated.as_dict(),
            "failure": self.failure,
        }


def analyse(plan: CampaignPlan, rows: Sequence[PairResult]) -> dict[str, Any]:
    """Say what the rows say: per slot and treatment the paired difference, with everything expected as denominator.

    The primary metric is ``terminal_success``, or the first one by name in an arena without it. P-values are exact, and
    Holm's correction covers every comparison of the campaign.
    """
    comparisons: list[dict[str, Any]] = []
    for slot in plan.slots:
        for treatment in plan.treatments:
            pairs = [row for row in rows if (row.slot, row.treatment) == (slot.name, treatment.name)]
            summary = summarise_pairs([_scores(row) for row in pairs], seed=plan.bootstrap_seed)
            metric = metric_of(pairs)
            comparisons.append(
                {
                    "slot": slot.name,
                    "treatment": treatment.name,
                    "metric": metric,
                    **summary.as_dict(),
                    **({} if metric == PRIMARY_METRIC or not summary.unresolved else {"difference_bounds": None}),
                    "statuses": {
                        status.value: sum(row.status is status for row in pairs)
                        for status in PairStatus
                        if any(row.status is status for row in pairs)
                    },
                    "interventions_failed": sum(row.intervention_status == "failed" for row in pairs),
                    "usage": {
                        "baseline": _usage([row.baseline for row in pairs], slot.prices),
                        "treatment": _usage([row.treated for row in pairs], slot.prices),
                    },
                }
            )
    tested = [row for row in comparisons if row["p_value"] is not None]
    for row in comparisons:
        row["p_value_holm"] = None
    for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_value_holm"] = adjusted
    for row in comparisons:
        row["verdict"] = _verdict(row, plan.alpha)
    return {
        "protocol": "agentinputlab.campaign-analysis.v1",
        "plan_hash": plan.plan_hash,
        "alpha": plan.alpha,
        "comparisons": comparisons,
    }


def metric_of(pairs: Sequence[PairResult]) -> str:
    """Give the name of the score that was compared; every scored pair of an arena has the same."""
    return next((row.baseline.metric for row in pairs if row.baseline is not None), PRIMARY_METRIC)


def csv_text(rows: Sequence[PairResult]) -> str:
    """Give the rows as CSV with a header; a score or count that does not exist is an empty cell."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    sides = ("baseline", "treatment")
    table.writerow(
        ["slot", "treatment", "task", "status", "intervention", "failure"]
        + [f"{side}_{name}" for side in sides for name in ("score", "reward", "hard_stops", "ending", *_CSV_USAGE)]
    )
    for row in rows:
        arms = (row.baseline, row.treated)
        table.writerow(
            [row.slot, row.treatment, row.task_id, row.status.value, row.intervention_status, row.failure]
            + [cell for arm in arms for cell in _csv_cells(arm)]
        )
    return text.getvalue()


_CSV_USAGE = ("model_calls", "tool_calls", "input_tokens", "output_tokens")


def _csv_cells(arm: ArmResult | None) -> list[object]:
    if arm is None:
        return [None] * (4 + len(_CSV_USAGE))
    return [arm.score, arm.reward, arm.hard_stops, arm.termination, *(arm.usage.get(name) for name in _CSV_USAGE)]


def _scores(row: PairResult) -> PairedOutcome:
    scored = row.status is PairStatus.PAIRED
    return PairedOutcome(
        row.task_id,
        row.baseline.score if scored and row.baseline else None,
        row.treated.score if scored and row.treated else None,
    )


def _usage(arms: Sequence[ArmResult | None], prices: Any) -> dict[str, Any]:
    """Add up what an arm used over all scored pairs; money only where prices were given."""
    scored = [arm for arm in arms if arm is not None]
    names = sorted({name for arm in scored for name in arm.usage})
    totals: dict[str, Any] = {name: _total([arm.usage.get(name, 0) for arm in scored]) for name in names}
    totals["hard_stops"] = _total([arm.hard_stops for arm in scored])
    totals["priced_cost"] = (
        None
        if prices is None
        else (
            totals.get("input_tokens", 0) * prices.input_per_million
            + totals.get("output_tokens", 0) * prices.output_per_million
        )
        / 1e6
    )
    return totals


def _total(values: Sequence[float]) -> float | int:
    if all(isinstance(value, int) for value in values):
        return sum(int(value) for value in values)
    return math.fsum(values)


def worst_after_correction(row: Mapping[str, Any]) -> float:
    """Give the largest p-value that the unresolved pairs allow, after what Holm's correction made of the p-value.

    Args:
        row: ``p_value``, ``p_value_holm`` and ``p_value_worst``; a ``p_value`` too small for a float is 0.
    """
    correction = row["p_value_holm"] / row["p_value"] if row["p_value"] > 0.0 else 1.0
    return row["p_value_worst"] * correction


def _verdict(row: Mapping[str, Any], alpha: float) -> str:
    """One of ``helps``, ``hurts``, ``not shown``, ``depends on unresolved pairs``, ``nothing scored``."""
    if row["p_value_holm"] is None:
        return "nothing scored"
    if row["p_value_holm"] > alpha:
        return "not shown"
    if worst_after_correction(row) > alpha:
        return "depends on unresolved pairs"
    return "helps" if row["wins"] > row["losses"] else "hurts"
