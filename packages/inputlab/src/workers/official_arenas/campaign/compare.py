"""Two complete campaigns over the same tasks: where, and by how much, a treatment did more in one than in the other.

Of every task, each campaign has the difference that a treatment made: score with the changed input minus score with
the original one. The comparison pairs these differences by task. A task that has no difference in one of the two stays
in the denominator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentinputlab.analysis.multiplicity import holm
from agentinputlab.analysis.paired import NO_INTERVAL, PairedOutcome, is_known_interval, summarise_pairs
from agentinputlab.contracts.errors import ValidationError
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas.campaign.collect import collect_rows
from workers.official_arenas.campaign.folder import EVENTS, PLAN, read_events, read_json
from workers.official_arenas.campaign.plan import CampaignPlan, Treatment, parse_plan
from workers.official_arenas.campaign.results import PRIMARY_METRIC, PairResult, metric_of, worst_after_correction

__all__ = ["compare_campaigns", "comparison_text"]

PROTOCOL = "agentinputlab.campaign-comparison.v1"
_RANGE_OF_SOLVED = 2.0
"""A treatment can move a solved-or-not score by 1 either way, so two of them can be 2 apart."""
_SAID = {
    "larger in B": "The change did more in B.",
    "smaller in B": "The change did less in B.",
    "not shown": "That is not enough to tell a difference.",
    "depends on unresolved pairs": "But with scores for the tasks that have none, it might be no difference at all.",
    "nothing scored": "No task has a score in both.",
}
_IDENTITY = ("benchmark_id", "source_revision", "scorer_id", "scorer_revision")


@dataclass(frozen=True, slots=True)
class _Campaign:
    folder: Path
    digest: str
    plan: CampaignPlan
    arena: Mapping[str, str]
    tasks: tuple[str, ...]
    rows: Sequence[PairResult]

    def pairs(self, slot: str, treatment: str) -> list[PairResult]:
        return [row for row in self.rows if (row.slot, row.treatment) == (slot, treatment)]

    def reference(self) -> dict[str, str]:
        return {"folder": str(self.folder), "digest": self.digest, "plan_hash": self.plan.plan_hash}


def compare_campaigns(first: Path, second: Path, *, alpha: float = 0.05) -> dict[str, Any]:
    """Compare what the treatments of two complete campaigns did, task by task.

    Args:
        first: folder A.
        second: folder B; positive differences mean that a treatment did more here.
        alpha: level of the exact test; Holm's correction covers all treatments that both have.

    Returns:
        ``protocol``, ``a`` and ``b`` (folder, digest, plan hash), ``arena``, ``split``, ``tasks``, ``alpha``,
        ``settings_that_differ`` (names of plan fields), ``comparisons``, ``only_in_a`` and ``only_in_b``.

    Raises:
        ValidationError: ``alpha`` is not between 0 and 1.
        InputError: a folder is no complete campaign, both are the same one, or they differ in arena, scorer, split,
            tasks or metric, or have no treatment in common.
        IntegrityError: a folder does not verify.
    """
    if not 0.0 < alpha < 1.0:
        raise ValidationError(f"alpha must be between 0 and 1, got {alpha}")
    a, b = _read(first), _read(second)
    _require_comparable(a, b)
    matched, only_in_a, only_in_b = _matched(a.plan, b.plan)
    if not matched:
        raise InputError(f"{first} and {second} have no treatment in common: nothing can be compared")
    rows = [_compared(a, b, slots, treatments, seed=a.plan.bootstrap_seed) for slots, treatments in matched]
    tested = [row for row in rows if row["p_value"] is not None]
    for row, corrected in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_value_holm"] = corrected
    for row in rows:
        row["verdict"] = _verdict(row, alpha)
    ours, theirs = a.plan.record(), b.plan.record()
    return {
        "protocol": PROTOCOL,
        "a": a.reference(),
        "b": b.reference(),
        "arena": dict(a.arena),
        "split": a.plan.split,
        "tasks": len(a.tasks),
        "alpha": alpha,
        "settings_that_differ": sorted(
            name for name in {**ours, **theirs} if name != "treatments" and ours.get(name) != theirs.get(name)
        ),
        "comparisons": rows,
        "only_in_a": only_in_a,
        "only_in_b": only_in_b,
    }


# --- what is compared ---------------------------------------------------------------------------------------


def _read(folder: Path) -> _Campaign:
    from ripieno.verify import VerifyStatus, verify
    from workers.official_arenas.campaign.verification import CAMPAIGN_VERIFIER

    if not CAMPAIGN_VERIFIER.recognises(folder):
        raise InputError(f"{folder} is no folder of a campaign")
    report = verify(folder)
    if not report.ok:
        raise IntegrityError(f"{folder} does not verify: {report.first_problem}")
    if report.status is not VerifyStatus.COMPLETE:
        raise InputError(f"{folder} is not complete; the command that began it goes on with it")
    plan, events = parse_plan(read_json(folder / PLAN)), read_events(folder / EVENTS)
    inventories = [
        read_json(
            folder / "capture" / slot.name / str(events[f"captured:{slot.name}"]["snapshot"]) / "dispositions.json"
        )
        for slot in plan.slots
    ]
    arena = {name: str(inventories[0][name]) for name in ("benchmark_id", "source_revision")}
    return _Campaign(
        folder,
        report.digest,
        plan,
        arena | _scorer(folder),
        tuple(inventories[0]["expected_task_ids"]),
        collect_rows(folder, plan),
    )


def _scorer(folder: Path) -> dict[str, str]:
    """Give who scored, as the requests say; a campaign in which nothing could be asked for has no request."""
    index = read_json(folder / "requests" / "index.json")
    if not index:
        return {}
    first = index[0]
    request = read_json(folder / "requests" / first["slot"] / first["treatment"] / f"{first['task']}.json")
    return {name: str(request["worker_parameters"][name]) for name in ("scorer_id", "scorer_revision")}


def _require_comparable(a: _Campaign, b: _Campaign) -> None:
    names = f"{a.folder} and {b.folder}"
    if a.digest == b.digest:
        raise InputError(f"{names} are the same campaign")
    for name in _IDENTITY:
        ours, theirs = a.arena.get(name), b.arena.get(name)
        if ours != theirs and None not in (ours, theirs):
            raise InputError(f"{names} cannot be compared: {name} is {ours} in A and {theirs} in B")
    if a.plan.split != b.plan.split:
        raise InputError(f"{names} cannot be compared: split is {a.plan.split} in A and {b.plan.split} in B")
    if a.tasks != b.tasks:
        raise InputError(
            f"{names} cannot be compared: they are over other tasks ({len(a.tasks)} in A, {len(b.tasks)} in B, "
            f"{len({*a.tasks} & {*b.tasks})} in both)"
        )


_Names = tuple[str, str]
_Both = tuple[Treatment, Treatment]


def _matched(a: CampaignPlan, b: CampaignPlan) -> tuple[list[tuple[_Names, _Both]], list[_Names], list[_Names]]:
    """Match treatments by name and slots by name; of two campaigns with one slot each, the slots belong together."""
    slots = [(slot.name, slot.name) for slot in a.slots if slot.name in {other.name for other in b.slots}]
    if len(a.slots) == len(b.slots) == 1:
        slots = [(a.slots[0].name, b.slots[0].name)]
    theirs = {treatment.name: treatment for treatment in b.treatments}
    matched = [
        (pair, (treatment, theirs[treatment.name]))
        for pair in slots
        for treatment in a.treatments
        if treatment.name in theirs
    ]

    def left_over(plan: CampaignPlan, side: int) -> list[_Names]:
        known = {(pair[side], both[0].name) for pair, both in matched}
        every = [(slot.name, treatment.name) for slot in plan.slots for treatment in plan.treatments]
        return [name for name in every if name not in known]

    return matched, left_over(a, 0), left_over(b, 1)


def _compared(a: _Campaign, b: _Campaign, slots: _Names, treatments: _Both, *, seed: int) -> dict[str, Any]:
    name = treatments[0].name
    ours, theirs = a.pairs(slots[0], name), b.pairs(slots[1], name)
    metrics = {metric_of(pairs) for pairs in (ours, theirs) if any(row.baseline is not None for row in pairs)}
    if len(metrics) > 1:
        raise InputError(f"{name}: the scores of A and B are of other metrics ({', '.join(sorted(metrics))})")
    metric = next(iter(metrics), PRIMARY_METRIC)
    before, after = _differences(ours), _differences(theirs)
    summary = summarise_pairs(
        [PairedOutcome(task, before[task], after[task]) for task in a.tasks], seed=seed, score_range=_RANGE_OF_SOLVED
    )
    bounds = list(summary.difference_bounds)
    return {
        "treatment": name,
        "same_treatment": treatments[0] == treatments[1],
        "slot_a": slots[0],
        "slot_b": slots[1],
        "metric": metric,
        "expected": summary.expected,
        "scored": summary.scored,
        "more_in_b": summary.wins,
        "less_in_b": summary.losses,
        "same": summary.ties,
        "unresolved": summary.unresolved,
        "unresolved_a": sum(value is None for value in before.values()),
        "unresolved_b": sum(value is None for value in after.values()),
        "difference_a": _per_task(before),
        "difference_b": _per_task(after),
        "difference": summary.difference,
        "difference_interval": list(summary.difference_interval),
        "difference_bounds": bounds if metric == PRIMARY_METRIC or not summary.unresolved else None,
        "p_value": summary.p_value,
        "p_value_worst": summary.p_value_worst,
        "p_value_holm": None,
    }


def _differences(rows: Sequence[PairResult]) -> dict[str, float | None]:
    return {
        row.task_id: None if row.baseline is None or row.treated is None else row.treated.score - row.baseline.score
        for row in rows
    }


def _per_task(differences: Mapping[str, float | None]) -> float:
    return math.fsum(value or 0.0 for value in differences.values()) / len(differences)


def _verdict(row: Mapping[str, Any], alpha: float) -> str:
    if row["p_value_holm"] is None:
        return "nothing scored"
    if row["p_value_holm"] > alpha:
        return "not shown"
    if worst_after_correction(row) > alpha:
        return "depends on unresolved pairs"
    return "larger in B" if row["more_in_b"] > row["less_in_b"] else "smaller in B"


# --- what is said -------------------------------------------------------------------------------------------


def comparison_text(compared: Mapping[str, Any]) -> str:
    """Give a comparison for a terminal: what A and B are, then a few sentences per treatment."""
    lines = [
        f"A: {compared['a']['folder']}",
        f"B: {compared['b']['folder']}",
        f"{compared['arena']['benchmark_id']}, split {compared['split']}, {compared['tasks']} tasks in both.",
    ]
    if compared["settings_that_differ"]:
        lines.append(f"Settings that differ: {', '.join(compared['settings_that_differ'])}.")
    lines += [_sentence(row) for row in compared["comparisons"]]
    for side in ("a", "b"):
        left = [f"{treatment} ({slot})" for slot, treatment in compared[f"only_in_{side}"]]
        if left:
            lines.append(f"Only in {side.upper()}: {', '.join(left)}.")
    return "\n".join(lines)


def _sentence(row: Mapping[str, Any]) -> str:
    slots = row["slot_a"] if row["slot_a"] == row["slot_b"] else f"{row['slot_a']} in A, {row['slot_b']} in B"
    name = f"{row['treatment']} ({slots})"
    if not row["same_treatment"]:
        name += ", which has other parameters in B"
    counts = (
        f"of {row['expected']} task{'' if row['expected'] == 1 else 's'} the change did more in B on "
        f"{row['more_in_b']}, less on {row['less_in_b']}, the same on {row['same']}"
    )
    if row["unresolved"]:
        counts += f"; {row['unresolved']} {'has' if row['unresolved'] == 1 else 'have'} no score in A or in B"
    if row["verdict"] == "nothing scored":
        return f"{name}: {counts}. {_SAID[row['verdict']]}"
    in_a, in_b, apart, low, high = (
        _amount(row, value)
        for value in (row["difference_a"], row["difference_b"], row["difference"], *row["difference_interval"])
    )
    unit = "points" if row["metric"] == PRIMARY_METRIC else f"in {row['metric']}"
    between = f"95 % {low} to {high}" if is_known_interval(row["difference_interval"]) else NO_INTERVAL
    numbers = (
        f"The change made {in_a} {unit} in A and {in_b} in B; B minus A, task by task, {apart} "
        f"({between}), exact p {_p(row['p_value'])}"
    )
    if row["p_value_holm"] != row["p_value"]:
        numbers += f", corrected {_p(row['p_value_holm'])}"
    return f"{name}: {counts}. {numbers}. {_SAID[row['verdict']]}"


def _amount(row: Mapping[str, Any], value: float) -> str:
    return f"{100.0 * value:+.1f}" if row["metric"] == PRIMARY_METRIC else f"{value:+.4g}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
