"""With which HTTP statuses endpoints refused calls, read from receipts that keep no text.

A receipt of a failure has the hash of the error's text. For an answer with another status than 200 that text is known
up to the number, so that the hash tells the status and nothing else.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agentinputlab.backends.llm._errors import status_text
from workers.official_arenas._pair_ledger import OUTCOME
from workers.official_arenas.campaign.folder import read_json

__all__ = ["http_status", "refusals_text"]

_STATUSES = range(100, 600)


def http_status(outcome: Mapping[str, Any]) -> int | None:
    """Give the HTTP status that ended a side, or the intervention before it; None when it was something else."""
    failure = outcome.get("intervention_failure") or {}
    return _status_of_text().get(outcome.get("exception_sha256") or failure.get("message_sha256"))


def refusals_text(root: Path, slot: str) -> str:
    """Say how often the endpoint of a slot refused a call with which status; empty when it did not.

    Args:
        root: of the campaign.
        slot: name of the slot.
    """
    found = Counter(http_status(read_json(path)) for path in (root / "pairs" / slot).glob(f"*/*/{OUTCOME}"))
    counts = sorted((status, count) for status, count in found.items() if status is not None)
    return ", ".join(f"HTTP status {status} ({count} {'side' if count == 1 else 'sides'})" for status, count in counts)


@cache
def _status_of_text() -> dict[str | None, int]:
    return {hashlib.sha256(status_text(status).encode()).hexdigest(): status for status in _STATUSES}
