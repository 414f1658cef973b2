"""Whether a campaign may be begun in a place, found out before anything is written."""

from __future__ import annotations

from pathlib import Path

from agentinputlab.cli._places import require_place_outside_runs
from ripieno.errors import InputError
from workers.official_arenas.campaign.folder import PLAN, require_no_strangers

__all__ = ["require_campaign_place"]


def require_campaign_place(folder: Path) -> None:
    """Refuse a folder that belongs to something else than a campaign, or lies in a run.

    Whether a campaign that is there has the same plan, and whether others can read it, is found out when it is opened.

    Raises:
        InputError: the message names the folder and what stands in the way.
    """
    require_place_outside_runs(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if not (folder / PLAN).exists():
        require_no_strangers(folder)
