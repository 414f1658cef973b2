"""Runs a cell into a run folder: every episode as one event, then everything that follows from the events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from chamber.cell.analysis import compare_pairs, group, verdicts
from chamber.cell.checkpoint import store_checkpoint
from chamber.cell.config import Cell
from chamber.cell.episode import CellRunner, start_states
from chamber.cell.loading import CHECKPOINT_NAME
from chamber.cell.record import CELL_EVENT, EPISODE_EVENT, CellRecord, read_cell_record
from chamber.cell.tables import three_tables
from concerto.safety.reporting import emit_three_tables
from ripieno.run import RunWriter, read_manifest

__all__ = ["RunResult", "run_cell"]

Page = Callable[[CellRecord], str]
Progress = Callable[[int, str], None]


@dataclass(frozen=True)
class RunResult:
    """A finished run: its record, and the digest that pins the whole folder."""

    record: CellRecord
    digest: str


def run_cell(
    cell: Cell,
    folder: Path,
    *,
    cell_text: str,
    checkpoint: Path | None = None,
    more: Callable[[], Mapping[str, str | bytes | Path]] | None = None,
    pages: Mapping[str, Page] | None = None,
    progress: Progress = lambda _done, _words: None,
) -> RunResult:
    """Run every episode of a cell and write the run folder.

    Besides the run's own ``run.json`` and ``events.jsonl`` the folder holds ``cell.yaml`` as it was given,
    ``episodes.json``, ``three_tables.json``, ``three_tables.md`` and the pages. All of them are computed from the
    event log after it was written.

    Args:
        cell: what to run.
        folder: must not exist.
        cell_text: the text that the cell was read from.
        checkpoint: file of a trained ego; it is copied into the folder with the sidecar that lies beside it.
        more: gives further files by name, those with a path to be copied; it is called after the last episode.
        pages: functions that make further files of the record, by file name.
        progress: called before each episode and each file with the number of episodes done and a few words.

    Raises:
        InputError: the folder cannot be made, or the cell cannot be run; nothing is left behind then.
    """
    starts = start_states(cell)
    runners = [(entry, CellRunner(cell, entry, checkpoint=checkpoint)) for entry in cell.partners]
    config = cell.model_dump(mode="json")
    with RunWriter(folder, system="chamber", kind="cell", config=config, seeds={"root_seed": cell.root_seed}) as run:
        run.artifact("cell.yaml", cell_text)
        if checkpoint is not None and cell.ego.checkpoint_sha256 is not None:
            store_checkpoint(run, CHECKPOINT_NAME, checkpoint, sha256=cell.ego.checkpoint_sha256)
        run.event(CELL_EVENT, cell=config, config_sha256=read_manifest(folder)["config_sha256"])
        done = 0
        for entry, runner in runners:
            for condition in cell.conditions:
                for index, start in enumerate(starts):
                    progress(done, f"{entry.label}, {condition.words}")
                    trace = runner.run(condition, episode_idx=index, initial_state_seed=start)
                    run.event(EPISODE_EVENT, **trace.to_event())
                    done += 1
        for name, content in (more() if more is not None else {}).items():
            run.artifact(name, content)
        progress(done, "tables and pages")
        record = read_cell_record(folder)
        run.artifact("episodes.json", _episode_table(record))
        _store_three_tables(run, record)
        for name, page in (pages or {}).items():
            run.artifact(name, page(record))
        return RunResult(record, run.finish(summary=_summary(record)))


def _episode_table(record: CellRecord) -> str:
    rows = [outcome.result().model_dump(mode="json") for outcome in record.outcomes]
    return "[\n" + ",\n".join(json.dumps(row, sort_keys=True) for row in rows) + "\n]\n"


def _store_three_tables(run: RunWriter, record: CellRecord) -> None:
    with TemporaryDirectory() as scratch:
        for path in emit_three_tables(out_dir=Path(scratch), report=three_tables(record.cell, record.outcomes)):
            run.artifact(path.name, path)


def _summary(record: CellRecord) -> dict[str, object]:
    cell, outcomes = record.cell, record.outcomes
    return {
        "groups": {
            f"{partner or 'all'}, {condition.words}": asdict(group(outcomes, condition, partner))
            for partner in [*(entry.label for entry in cell.partners), None]
            for condition in cell.conditions
        },
        "paired_reward": [asdict(comparison) for comparison in compare_pairs(cell, outcomes)],
        "verdicts": [
            {"claim": verdict.rule.claim, "value": verdict.value, "holds": verdict.holds}
            for verdict in verdicts(cell, outcomes)
        ],
    }
