"""What the commands print: the cost beforehand, the outcome afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from workers.official_arenas.campaign.plan import CampaignPlan
    from workers.official_arenas.campaign.preflight import Preflight
    from workers.official_arenas.campaign.run import CampaignResult

__all__ = ["EXIT_FAILURES", "EXIT_NOT_READY", "print_preflight", "print_result"]

EXIT_NOT_READY = 2
EXIT_FAILURES = 3


def print_preflight(plan: CampaignPlan, found: Preflight, *, as_json: bool, err: bool = False) -> None:
    """Print what a campaign needs and can cost at most."""
    if as_json:
        click.echo(json.dumps({"plan_hash": plan.plan_hash, **found.as_dict()}), err=err)
        return
    click.echo(
        f"{plan.arena}, split {plan.split}: {len(found.tasks)} tasks x {len(plan.treatments)} treatments x "
        f"{len(plan.slots)} slots = {found.pairs} pairs, each played once.",
        err=err,
    )
    if not found.spends:
        click.echo("Cost: none. Every model is scripted and runs in this process.", err=err)
    else:
        for row in found.cost.calls:
            click.echo(
                f"  at most {_number(row.model_calls)} calls, {_number(row.input_tokens)} tokens read, "
                f"{_number(row.output_tokens)} written, {_money(row.cost)}: {row.purpose} ({row.slot})",
                err=err,
            )
        click.echo(f"Cost: at most {_number(found.cost.model_calls)} model calls, {_money(found.cost.cost)}.", err=err)
    for blocker in found.blockers:
        click.echo(f"Not ready: {blocker}", err=err)


def print_result(result: CampaignResult, *, as_json: bool, verified: bool) -> None:
    """Print what came out and where it lies."""
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
    if verified:
        click.echo(f"Verified: every receipt of {result.folder} holds, and the results follow from them.")
        click.echo(f"Digest {result.digest}")
    click.echo(f"Look at {page}; check again with: ripieno verify {result.folder}")


def _number(value: int | None) -> str:
    return "an unknown number of" if value is None else f"{value:,}"


def _money(value: float | None) -> str:
    return "cost unknown (no price given, or no bound)" if value is None else f"cost {value:,.4f}"
