"""When a campaign stops by itself: pairs that fail in a row say more of an endpoint than of a treatment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ripieno.parallel import CellOutcome
from workers.official_arenas._pair_ledger import OUTCOME, ROLES
from workers.official_arenas.campaign.folder import read_json
from workers.official_arenas.campaign.refusals import http_status
from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["CampaignStoppedError", "FailuresInARow", "stopped_message"]


class CampaignStoppedError(OfficialArenaError):
    """So many pairs in a row had no score that no further one was started."""


class FailuresInARow:
    """Tells, outcome by outcome, whether so many pairs in a row had no score.

    Args:
        limit: how many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_a_row = 0

    def __call__(self, outcome: CellOutcome[str]) -> bool:
        """Count one outcome; a pair that an earlier start left without an end says nothing of now."""
        if outcome.ok and outcome.value == "scored":
            self._in_a_row = 0
        elif not outcome.ok or outcome.value != "interrupted":
            self._in_a_row += 1
        return self._in_a_row >= self._limit


def stopped_message(root: Path, index: Sequence[Mapping[str, str]], ended: Sequence[int]) -> str:
    """Say that a campaign stopped, why, and what becomes of the pairs.

    Args:
        root: of the campaign.
        index: every pair.
        ended: places in the index of the pairs that have an end.
    """
    left = len(index) - len(ended)
    kinds = _kinds_of_failure(root, [index[place] for place in ended])
    return (
        f"Stopped: too many pairs in a row have no score{f' (last: {kinds})' if kinds else ''}. "
        f"{left} of {len(index)} pairs {'was' if left == 1 else 'were'} not started, and the same command plays them; "
        "those that were started keep their outcome"
    )


def _kinds_of_failure(root: Path, rows: Sequence[Mapping[str, str]]) -> str:
    """Give the kinds of error of the last failed pair, never their texts; empty when nothing is on record."""
    for row in reversed(rows):
        cell = root / "pairs" / row["slot"] / row["cell_id"]
        outcomes = [read_json(cell / role / OUTCOME) for role in ROLES if (cell / role / OUTCOME).is_file()]
        kinds = [_kind(outcome) for outcome in outcomes if "exception_type" in outcome]
        if kinds:
            return ", ".join(dict.fromkeys(kinds))
    return ""


def _kind(outcome: Mapping[str, Any]) -> str:
    status = http_status(outcome)
    return f"{outcome['exception_type']}{'' if status is None else f' with HTTP status {status}'}"
