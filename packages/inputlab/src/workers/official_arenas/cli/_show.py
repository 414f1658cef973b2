"""What the commands print: the cost beforehand, the outcome afterwards."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from workers.official_arenas.campaign.plan import CampaignPlan
    from workers.official_arenas.campaign.preflight import Preflight
    from workers.official_arenas.campaign.run import CampaignResult

__all__ = ["EXIT_FAILURES", "EXIT_NOT_READY", "print_preflight", "print_result", "typed_command"]

EXIT_NOT_READY = 2
EXIT_FAILURES = 3


def print_preflight(
    plan: CampaignPlan, found: Preflight, *, as_json: bool, err: bool = False, folder: Path | None = None
) -> None:
    """Print what a campaign needs and can cost at most; of one that was begun in the folder, what is left of it."""
    from workers.official_arenas.campaign.remaining import remaining

    left = None if folder is None else remaining(plan, found, folder)
    if as_json:
        record = {"plan_hash": plan.plan_hash, **found.as_dict()}
        if left is not None:
            record["left"] = {"pairs": left.pairs, "cost_at_most": left.cost.as_dict()}
        click.echo(json.dumps(record), err=err)
        return
    click.echo(
        f"{plan.arena}, split {plan.split}: {_count(len(found.tasks), 'task')} x "
        f"{_count(len(plan.treatments), 'treatment')} x {_count(len(plan.slots), 'slot')} = "
        f"{_count(found.pairs, 'pair')}, each played once.",
        err=err,
    )
    if left is not None:
        are = "is" if left.pairs == 1 else "are"
        click.echo(f"Begun before in {folder}: {_count(left.pairs, 'pair')} {are} left to play.", err=err)
    if left is not None and not left.pairs:
        click.echo("Cost: none. No model is asked again.", err=err)
    elif not found.spends:
        click.echo("Cost: none. Every model is scripted and runs in this process.", err=err)
    else:
        cost = (left or found).cost
        for row in cost.calls:
            click.echo(
                f"  at most {_number(row.model_calls)} calls, {_number(row.input_tokens)} tokens read, "
                f"{_number(row.output_tokens)} written, {_money(row.cost)}: {row.purpose} ({row.slot})",
                err=err,
            )
        click.echo(f"Cost: at most {_number(cost.model_calls)} model calls, {_money(cost.cost)}.", err=err)
    for blocker in found.blockers:
        click.echo(f"Not ready: {blocker}", err=err)


def typed_command(ctx: click.Context) -> list[str]:
    """Give the command as it was typed, for the record: the program's name and its arguments."""
    return [str(ctx.find_root().info_name), *sys.argv[1:]]


def print_result(result: CampaignResult, *, as_json: bool, verified: bool) -> None:
    """Print what came out and where it lies."""
    from workers.official_arenas.campaign.refusals import refusals_text

    page = result.folder / "index.html"
    if as_json:
        record = {
            "folder": str(result.folder),
            "page": str(page),
            "digest": result.digest,
            "verified": verified,
            "was_complete": result.was_complete,
            "headline": result.headline,
            "analysis": dict(result.analysis),
        }
        click.echo(json.dumps(record))
        return
    if result.was_complete:
        click.echo("This campaign is complete; nothing was run again.")
    click.echo(result.headline)
    failures = _failures(result.rows)
    if failures:
        click.echo(f"Failures, which stay in the count: {failures}. The page says on which tasks.")
        for slot in dict.fromkeys(str(row["slot"]) for row in result.rows):
            refusals = refusals_text(result.folder, slot)
            if refusals:
                click.echo(f"The endpoint of slot {slot} refused calls: {refusals}.")
    if verified:
        click.echo(f"Verified: every receipt of {result.folder} holds, and the results follow from them.")
        click.echo(f"Digest {result.digest}")
    click.echo(f"Look at {page}; check again with: ripieno verify {result.folder}")


def _failures(rows: Sequence[Mapping[str, Any]]) -> str:
    """Count how pairs failed: status or intervention, with the kind of the error."""
    counted: Counter[str] = Counter()
    for row in rows:
        status = str(row["status"])
        if status == "paired_scored" and row["intervention_status"] != "failed":
            continue
        what = "intervention failed" if status == "paired_scored" else status
        kinds = ", ".join(dict.fromkeys(str(row["failure"]).split(", "))) if row["failure"] else ""
        counted[f"{what} ({kinds})" if kinds else what] += 1
    return ", ".join(f"{number} x {what}" for what, number in counted.items())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _number(value: int | None) -> str:
    return "an unknown number of" if value is None else f"{value:,}"


def _money(value: float | None) -> str:
    return "cost unknown (no price given, or no bound)" if value is None else f"cost {value:,.4f}"
