"""What a campaign that was begun has still to play, and what that can cost at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentinputlab.analysis.cost import CallBound, bound_cost
from agentinputlab.contracts.errors import AgentInputLabError
from ripieno.chain import walk_chain
from ripieno.errors import RipienoError
from workers.official_arenas.campaign.folder import PLAN, read_json
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.preflight import Preflight

__all__ = ["pairs_left", "remaining"]


def remaining(plan: CampaignPlan, found: Preflight, folder: Path) -> Preflight | None:
    """Bound what is left of a campaign whose pairs are known already.

    Args:
        plan: what is measured.
        found: what `preflight` said of the whole campaign.
        folder: where it may have been begun.

    Returns:
        ``found`` with the pairs that were never started and what they can cost at most; None when everything is
        left, or the folder is no such campaign, which is refused elsewhere.
    """
    try:
        if parse_plan(read_json(folder / PLAN)).plan_hash != plan.plan_hash:
            return None
        index: list[Mapping[str, str]] = read_json(folder / "requests" / "index.json")
        left = pairs_left(folder, index)
        slots = [index[place]["slot"] for place in left]
    except (RipienoError, AgentInputLabError, OSError, ValueError, TypeError, LookupError, AttributeError):
        return None
    played = len(found.tasks) * len(plan.treatments)
    rows = [_of_pairs(row, slots.count(row.slot), played, len(found.tasks)) for row in found.cost.calls]
    return replace(found, pairs=len(left), cost=bound_cost(rows), spends=found.spends and bool(left))


def pairs_left(root: Path, index: Sequence[Mapping[str, str]]) -> list[int]:
    """Give the places in the index of the pairs that were never started and have no end.

    Args:
        root: of the campaign.
        index: every pair.
    """
    cells = root / "cells.jsonl"
    entries = walk_chain(cells) if cells.exists() else ()
    ended = {entry.payload.get("index") for entry in entries if entry.payload.get("status") == "ok"}
    return [
        place
        for place, row in enumerate(index)
        if place not in ended and not (root / "pairs" / row["slot"] / row["cell_id"]).exists()
    ]


def _of_pairs(row: CallBound, left: int, played: int, captures: int) -> CallBound:
    """Give the share of so many pairs; the first messages, which the simulated user wrote, are recorded by now."""
    calls = row.model_calls - (captures if row.purpose == "simulated user" else 0)

    def share(value: int | None) -> int | None:
        return None if value is None else value * left // played

    return replace(
        row,
        model_calls=calls * left // played,
        input_tokens=share(row.input_tokens),
        output_tokens=share(row.output_tokens),
    )
