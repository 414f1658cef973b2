"""Rows from receipts: how every expected pair ended, read from the ledgers and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ripieno.errors import InputError, IntegrityError
from workers.official_arenas._pair_ledger import OUTCOME, PAIRED_SCORED, RESPONSE, ROLES, TERMINAL
from workers.official_arenas.campaign.folder import EVENTS, PLAN, read_events, read_json
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.results import PRIMARY_METRIC, ArmResult, PairResult, PairStatus
from workers.official_arenas.campaign.steps import snapshot_of

__all__ = ["Place", "collect_rows", "ended_pair", "execution_of", "played_rows"]

Place = tuple[str, str, str]
"""Slot, treatment and task."""

_BEFORE_PAIRS = {"capture_failed": PairStatus.CAPTURE_FAILED, "reserved_unresolved": PairStatus.CAPTURE_UNRESOLVED}


def played_rows(root: Path) -> tuple[CampaignPlan, list[PairResult]]:
    """Give the plan of a folder and its rows, once every pair was played or refused.

    Raises:
        InputError: pairs are still to be played, or a receipt is not JSON.
        IntegrityError: the folder does not verify; nothing is said about receipts that were changed.
        OSError: the folder is none of a campaign.
    """
    from ripieno.verify import verify

    plan = parse_plan(read_json(root / PLAN))
    if "pairs" not in read_events(root / EVENTS):
        raise InputError(f"{root} is not played to its end; the command that began it goes on with it")
    report = verify(root)
    if not report.ok:
        raise IntegrityError(f"{root} does not verify: {report.first_problem}")
    return plan, collect_rows(root, plan)


def collect_rows(root: Path, plan: CampaignPlan, known: Mapping[Place, PairResult] | None = None) -> list[PairResult]:
    """Give one row per slot, treatment and expected task, in plan order.

    Args:
        root: of the campaign.
        plan: of the campaign.
        known: rows of indexed pairs whose receipts the caller has just read; they are not read again.

    Raises:
        InputError: a receipt is not JSON.
        OSError: a receipt that must exist cannot be read.
    """
    cells = {
        (row["slot"], row["treatment"], row["task"]): row["cell_id"]
        for row in read_json(root / "requests" / "index.json")
    }
    rows: list[PairResult] = []
    known = known or {}
    for slot in plan.slots:
        disposition = read_json(snapshot_of(root, slot.name) / "dispositions.json")
        statuses = {row["task_id"]: row["status"] for row in disposition["dispositions"]}
        for treatment in plan.treatments:
            for task in disposition["expected_task_ids"]:
                place = (slot.name, treatment.name, task)
                if statuses[task] in _BEFORE_PAIRS:
                    rows.append(PairResult(*place, _BEFORE_PAIRS[statuses[task]]))
                elif place not in cells:
                    rows.append(PairResult(*place, _without_request(root, place)))
                else:
                    row = known.get(place)
                    if row is None or row.cell_id != cells[place]:
                        row = _pair(root, place, cells[place])
                    rows.append(row)
    return rows


def _without_request(root: Path, place: tuple[str, str, str]) -> PairStatus:
    slot, treatment, task = place
    was_started = (root / "requests" / slot / treatment / f"{task}-start.json").exists()
    return PairStatus.INTERVENTION_INTERRUPTED if was_started else PairStatus.INVENTORY_INCOMPLETE


def _pair(root: Path, place: Place, cell_id: str) -> PairResult:
    slot, treatment, task = place
    execution = execution_of(read_json(Path(root, "requests", slot, treatment, f"{task}.json")))
    cell = Path(root, "pairs", slot, cell_id)
    if not cell.exists():
        return _row(place, cell_id, PairStatus.REFUSED, execution)
    end = cell / TERMINAL
    if not end.exists():
        return _row(place, cell_id, PairStatus.INTERRUPTED, execution)
    terminal = read_json(end)
    outcomes = {role: read_json(cell.joinpath(role, OUTCOME)) for role in ROLES}
    response = read_json(cell / RESPONSE) if terminal["status"] == PAIRED_SCORED else None
    return ended_pair(place, cell_id, execution, terminal=terminal, outcomes=outcomes, response=response)


def ended_pair(
    place: Place,
    cell_id: str,
    execution: Mapping[str, Any],
    *,
    terminal: Mapping[str, Any],
    outcomes: Mapping[str, Mapping[str, Any]],
    response: Any,
) -> PairResult:
    """Give the row of a pair that was played to its end.

    Args:
        place: slot, treatment and task.
        cell_id: name of the ledger.
        execution: see `execution_of`.
        terminal: how the ledger was closed.
        outcomes: of both arms.
        response: what the driver gave; only a scored pair has one.

    Raises:
        LookupError, TypeError, AttributeError, ValueError, StopIteration: a record has another shape than it should.
    """
    if terminal["status"] != PAIRED_SCORED:
        kinds = [str(outcomes[role].get("exception_type")) for role in terminal["failed_roles"] if role in outcomes]
        return _row(place, cell_id, PairStatus.ARM_FAILED, execution, failure=", ".join(kinds))
    arms = response["arms"]
    failure = execution.get("failure")
    return _row(
        place,
        cell_id,
        PairStatus.PAIRED,
        execution,
        baseline=_result(_arm(arms, "baseline"), outcomes["baseline"]),
        treated=_result(_arm(arms, "treatment"), outcomes["treatment"]),
        failure=str(failure["exception_type"]) if failure else None,
    )


def execution_of(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what a request says of how the intervention went; raises as `ended_pair`."""
    return _arm(envelope["atomic_request"]["arms"], "treatment")["payload"]["intervention_execution"]


def _row(place: Place, cell_id: str, status: PairStatus, execution: Mapping[str, Any], **more: Any) -> PairResult:
    return PairResult(*place, status, cell_id, str(execution["status"]), **more)


def _arm(arms: list[Mapping[str, Any]], role: str) -> Mapping[str, Any]:
    return next(arm for arm in arms if arm["role"] == role)


def _result(arm: Mapping[str, Any], outcome: Mapping[str, Any]) -> ArmResult:
    metrics: Mapping[str, float] = arm["metrics"]
    name = PRIMARY_METRIC if PRIMARY_METRIC in metrics else min(metrics)
    score = metrics[name]
    measured: Mapping[str, Any] = outcome.get("trace_measurement") or {}
    return ArmResult(
        metric=name,
        score=float(score),
        reward=float(metrics.get("official_reward", score)),
        hard_stops=float(metrics.get("adapter_hard_stops", 0.0)),
        usage=dict(arm["usage"]),
        trace_hash=str(arm["trace_hash"]),
        termination=str(measured.get("termination") or ""),
    )
