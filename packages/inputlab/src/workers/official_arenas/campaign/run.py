"""Run a campaign from its plan to its sealed folder, or go on with one that was interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentinputlab.contracts.errors import ValidationError
from ripieno.canonical import INDENTED_UNICODE_LINE
from ripieno.errors import IntegrityError, RipienoError
from ripieno.files import inventory
from ripieno.parallel import Executor
from ripieno.receipts import seal
from ripieno.verify import verify
from workers.official_arenas.campaign._record_check import record_problems
from workers.official_arenas.campaign.collect import collect_rows
from workers.official_arenas.campaign.environment import evidence_rows
from workers.official_arenas.campaign.folder import CAMPAIGN, EVENTS, CampaignFolder, read_json, write_json, write_new
from workers.official_arenas.campaign.opening import require_campaign_place
from workers.official_arenas.campaign.page import headline, render_campaign_page
from workers.official_arenas.campaign.plan import CampaignPlan
from workers.official_arenas.campaign.preflight import (
    Preflight,
    pin_rules,
    preflight,
    resolve_arena,
    silent_endpoints,
    slot_config,
    slot_spends,
)
from workers.official_arenas.campaign.remaining import pairs_left
from workers.official_arenas.campaign.results import PairResult, analyse
from workers.official_arenas.campaign.steps import capture_slot, prepare_pairs, run_interventions, run_pairs
from workers.official_arenas.protocol import OfficialArenaError, content_hash

__all__ = ["CampaignResult", "run_campaign"]

SEAL_PROTOCOL = "agentinputlab.campaign.v1"


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """What came out.

    Attributes:
        folder: where everything lies.
        digest: what to pin; `ripieno verify FOLDER --expect DIGEST` compares it.
        headline: the outcome in a sentence or two.
        rows: one row per expected pair.
        analysis: what the rows say.
        was_complete: nothing was run now, because the folder was complete already.
    """

    folder: Path
    digest: str
    headline: str
    rows: tuple[Mapping[str, Any], ...]
    analysis: Mapping[str, Any]
    was_complete: bool

    @property
    def has_failures(self) -> bool:
        """Whether any expected pair has no score, or an intervention failed."""
        return any(row["status"] != "paired_scored" or row["intervention_status"] == "failed" for row in self.rows)


def run_campaign(
    plan: CampaignPlan,
    folder: Path,
    *,
    command: Sequence[str],
    executor: Executor = "serial",
    workers: int | None = None,
    progress: bool | None = None,
    note: Callable[[str], None] | None = None,
    stop_after_failures: int | None = None,
) -> CampaignResult:
    """Run every step that is not done yet, each slot at most once, and seal the folder.

    Args:
        plan: what is measured.
        folder: new, or begun with the same plan.
        command: the command that a person gave; scopes refer to its hash.
        executor: where interventions and pairs run, see `ripieno.parallel.run_cells`.
        workers: how many at a time.
        progress: whether bars are shown; None shows them on a terminal.
        note: told in one sentence what is being done.
        stop_after_failures: as in the plan, in its place.

    Raises:
        OfficialArenaError: something stops the campaign; what was recorded stays, and the same call goes on later.
        InputError: the folder belongs to something else.
        IntegrityError: what was recorded was changed since.
    """
    if executor == "serial" and workers not in (None, 1):
        raise ValidationError(f"workers: executor 'serial' has one, got {workers}; name executor 'processes'")
    require_campaign_place(folder)
    plan = pin_rules(plan)
    found = preflight(plan)
    if not found.is_ready:
        raise OfficialArenaError("; ".join(found.blockers))
    opened = CampaignFolder.open(folder, plan, command)
    if opened.is_complete:
        return _finished(opened.root)
    try:
        say = note or _say_nothing
        silent = [] if "pairs" in opened.events else silent_endpoints(plan)
        if silent:
            raise OfficialArenaError("; ".join(silent))
        stop_after = plan.stop_after_failures if stop_after_failures is None else stop_after_failures
        _measure(opened, found, executor, workers, progress, say, stop_after_failures=stop_after)
        say("Analysing and sealing")
        _seal(opened)
    finally:
        opened.release()
    return _finished(opened.root, was_complete=False)


def _say_nothing(_text: str) -> None:
    """Be quiet."""


def _measure(
    folder: CampaignFolder,
    found: Preflight,
    executor: Executor,
    workers: int | None,
    progress: bool | None,
    note: Callable[[str], None],
    *,
    stop_after_failures: int | None,
) -> None:
    for slot in folder.plan.slots:
        note(f"Recording the first message of {len(found.tasks)} tasks (slot {slot.name})")
        with _bar(len(found.tasks), shown=progress) as advance:
            capture_slot(folder, slot, lambda _task, _status: advance())
    _require_whole(folder)
    note(f"Running the interventions of {len(folder.plan.treatments)} treatments")
    made = run_interventions(folder, executor, workers, progress=progress)
    _require_whole(folder)
    index = prepare_pairs(folder, made)
    left = len(pairs_left(folder.root, index))
    note(f"Playing {left} pairs" if left == len(index) else f"Playing the {left} of {len(index)} pairs that are left")
    run_pairs(folder, index, executor, workers, progress=progress, stop_after_failures=stop_after_failures)


def _require_whole(folder: CampaignFolder) -> None:
    """Refuse to go on over a gap: what is missing or exchanged would end as something that it is not."""
    problem = next(record_problems(folder.root, folder.plan, folder.events), None)
    if problem is not None:
        raise IntegrityError(f"{problem}; the campaign does not go on")


@contextmanager
def _bar(total: int, *, shown: bool | None) -> Generator[Callable[[], None]]:
    """Show a bar on a terminal, and give the function that moves it."""
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    # A descriptor of its own: while an arena runs, the console of this process leads to nowhere.
    with os.fdopen(os.dup(2), "w") as stream, Progress(console=Console(file=stream)) as progress:
        task = progress.add_task("tasks", total=total)
        yield lambda: progress.advance(task)


def _seal(folder: CampaignFolder) -> None:
    """Derive results, analysis and page from the receipts, list every file, and close the log.

    Raises:
        IntegrityError: a record is missing, or belongs to other work: nothing is sealed over a gap.
    """
    _require_whole(folder)
    rows = collect_rows(folder.root, folder.plan)
    records = [row.as_dict() for row in rows]
    results_sha256 = content_hash(records)
    analysis = analyse(folder.plan, rows)
    _put(folder.root / "results.json", records)
    _put(folder.root / "analysis.json", analysis)
    page = folder.root / "index.html"
    if not page.exists():
        write_new(page, _page(folder.root, folder.plan, rows, analysis, results_sha256).encode())
    files = {record.path: record.sha256 for record in inventory(folder.root) if record.path not in (CAMPAIGN, EVENTS)}
    sealed = seal(
        {
            "protocol": SEAL_PROTOCOL,
            "plan_hash": folder.plan.plan_hash,
            "command_sha256": folder.command_sha256,
            "results_sha256": results_sha256,
            "analysis_sha256": content_hash(analysis),
            "files": files,
        }
    )
    _put(folder.root / CAMPAIGN, sealed)
    folder.finish({"receipt_sha256": sealed["receipt_sha256"]})


def _put(path: Path, value: Any) -> None:
    """Write a derived file; one that an interrupted run left must say the same."""
    if not path.exists():
        write_json(path, value)
    elif path.read_bytes() != INDENTED_UNICODE_LINE.dumps(value):
        raise IntegrityError(f"{path.name} of the interrupted run says something else than its receipts do")


def _page(
    root: Path, plan: CampaignPlan, rows: Sequence[PairResult], analysis: Mapping[str, Any], results_sha256: str
) -> str:
    provider = resolve_arena(plan.arena)
    evidence = {
        "plan": plan.plan_hash,
        "results": results_sha256,
        "arena": f"{provider.benchmark_id} at {provider.source_revision}",
        "scorer": f"{provider.scorer_id} {provider.scorer_revision}",
        **evidence_rows(root, plan),
        "digest to pin": "receipt_sha256 in campaign.json",
    }
    return render_campaign_page(
        plan, rows, analysis, evidence=evidence, measured=_who_answered(plan), titles=_titles(plan, provider)
    )


def _titles(plan: CampaignPlan, provider: Any) -> dict[str, str]:
    """Give what the arena's author calls its tasks, where the arena says so."""
    if not hasattr(provider, "task_titles"):
        return {}
    return dict(provider.task_titles(slot_config(plan, plan.slots[0])))


def _who_answered(plan: CampaignPlan) -> str:
    models = [slot.agent.model for slot in plan.slots if slot_spends(slot)]
    if not models:
        return (
            "Agent and user follow written rules, so that the page shows how such an experiment works; "
            "it says nothing about any language model."
        )
    return f"The agent's words come from {', '.join(models)}."


def _finished(root: Path, *, was_complete: bool = True) -> CampaignResult:
    """Give what a complete folder says.

    Raises:
        IntegrityError: a file that it is read from is missing, or was changed.
    """
    try:
        sealed = read_json(root / CAMPAIGN)
        analysis = read_json(root / "analysis.json")
        return CampaignResult(
            folder=root,
            digest=str(sealed["receipt_sha256"]),
            headline=headline(analysis),
            rows=tuple(read_json(root / "results.json")),
            analysis=analysis,
            was_complete=was_complete,
        )
    except (RipienoError, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        problem = verify(root).first_problem or f"it cannot be read ({type(error).__name__})"
        raise IntegrityError(
            f"{root} is complete and was changed since: it does not verify ({problem}). Nothing was run; "
            "restore the folder from a copy, or name another one"
        ) from error
