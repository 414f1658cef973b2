"""A cell's run, read back from its event log: everything the page and the tables are made of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from chamber.cell.config import Cell
from chamber.cell.outcome import EpisodeOutcome, judge
from chamber.cell.trace import EpisodeTrace
from ripieno.errors import InputError
from ripieno.run import read_events

__all__ = ["CELL_EVENT", "EPISODE_EVENT", "CellRecord", "read_cell_record"]

CELL_EVENT = "cell"
EPISODE_EVENT = "episode"


@dataclass(frozen=True)
class CellRecord:
    """What one run of a cell recorded.

    Attributes:
        cell: what was run.
        config_sha256: hash of the configuration, as in ``run.json``.
        outcomes: the episodes in the order in which they were run, judged.
    """

    cell: Cell
    config_sha256: str
    outcomes: tuple[EpisodeOutcome, ...]


def read_cell_record(folder: Path) -> CellRecord:
    """Rebuild the record of a run from ``events.jsonl`` alone; an interrupted run gives the episodes it has.

    Raises:
        InputError: no run of a cell.
        IntegrityError: a line of the log does not hold.
    """
    events = list(read_events(folder))
    if not events or events[0].kind != CELL_EVENT:
        raise InputError(f"{folder} is not a run of a cell: its log does not begin with the cell")
    try:
        cell = Cell.model_validate_json(json.dumps(events[0].fields["cell"]))
        config_sha256 = str(events[0].fields["config_sha256"])
    except (KeyError, ValidationError) as error:
        raise InputError(f"{folder} is not a run of a cell: {error!r}") from error
    traces = (EpisodeTrace.from_event(event.fields) for event in events if event.kind == EPISODE_EVENT)
    return CellRecord(cell, config_sha256, tuple(judge(cell, trace) for trace in traces))
