"""Phase series as files, and such files read back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ripieno.files import write_atomic
from scpn_phase_orchestrator._arrays import FloatArray, true_ranges
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals.extraction import extract_phase_series
from scpn_phase_orchestrator.signals.phase_series import PhaseSeries, SampleState
from scpn_phase_orchestrator.signals.table import SignalTable

__all__ = ["EXTRACTION_NOTE", "QUANTITIES", "PhaseMatrix", "phase_matrix", "series_columns", "write_series"]

QUANTITIES = ("phase", "unwrapped", "frequency", "amplitude", "quality", "state")
"""Columns per channel, called ``<channel>:<quantity>``; state is 0 ok, 1 edge, 2 clipped, 3 bridged, 4 gap."""


EXTRACTION_NOTE = "intervals from extracted phases do not include the error of the extraction"
"""What a fit on phases that were read from signals has to say."""

LOOKS_LIKE_PHASES = (
    "all columns stay within one turn and wrap, like phases, but were read as signals: give --input phases if they are"
)
"""Said of columns of phases whose names do not tell."""


@dataclass(frozen=True)
class PhaseMatrix:
    """Unwrapped phases of several channels on one axis.

    Attributes:
        names: channels.
        phases: rad, shape ``(n_samples, n_channels)``; NaN where a channel has no usable phase.
        sample_period_s: seconds between samples.
        origin: ``phases`` when they were read, ``signals`` when they were extracted now.
        notes: what was decided.
    """

    names: tuple[str, ...]
    phases: FloatArray
    sample_period_s: float
    origin: str
    notes: tuple[str, ...]


def series_columns(series: Sequence[PhaseSeries]) -> dict[str, NDArray[Any]]:
    """Columns of the table of some series of one length: time, then the `QUANTITIES` of every channel."""
    first = series[0]
    columns: dict[str, NDArray[Any]] = {f"time_{first.time_unit}": first.times}
    for channel in series:
        values = (
            channel.wrapped,
            channel.unwrapped,
            channel.frequency,
            channel.amplitude,
            channel.quality,
            channel.state,
        )
        columns.update({f"{channel.name}:{name}": value for name, value in zip(QUANTITIES, values, strict=True)})
    return columns


def write_series(series: Sequence[PhaseSeries], path: Path) -> None:
    """Write series as CSV, Parquet or JSON, by the suffix; the file appears whole or not at all.

    Raises:
        ExtractorError: another suffix.
        ImportError: Parquet without its extra.
        OSError: the file cannot be written.
    """
    suffix = path.suffix.lower()
    columns = series_columns(series)
    if suffix == ".csv":
        write_atomic(path, _csv(columns))
    elif suffix == ".json":
        record = {
            "channels": [channel.summary() for channel in series],
            "columns": {
                name: [None if np.isnan(value) else value for value in column.tolist()]
                for name, column in columns.items()
            },
        }
        write_atomic(path, (json.dumps(record, indent=2, sort_keys=True, allow_nan=False) + "\n").encode())
    elif suffix == ".parquet":
        write_atomic(path, _parquet(columns))
    else:
        raise ExtractorError(f"{path.name}: output must end in .csv, .parquet or .json, got '{suffix}'")


def phase_matrix(table: SignalTable, *, origin: str = "auto", method: str = "hilbert") -> PhaseMatrix:
    """Give the phases of a table: its ``:unwrapped`` columns, its phase columns, or phases extracted from its signals.

    Phases from an extraction leave `EXTRACTION_NOTE`. Edges, gaps and samples of quality 0 have no usable phase.
    ``auto`` takes columns called ``<channel>:unwrapped`` (as `write_series` writes), else all columns if each name
    starts with ``phase`` or ``theta``, else extracts.

    Args:
        table: what `read_signals` gave.
        origin: ``auto``, ``phases`` (all columns are phases in rad, wrapped or not) or ``signals``.
        method: for the extraction.

    Raises:
        ExtractorError: as `extract_phase_series`.
    """
    written = [name.removesuffix(":unwrapped") for name in table.names if name.endswith(":unwrapped")]
    if origin != "signals" and written:
        columns = dict(zip(table.names, table.values.T, strict=True))
        phases = np.column_stack([columns[f"{name}:unwrapped"] for name in written])
        for position, name in enumerate(written):
            unusable = np.isin(columns.get(f"{name}:state", np.zeros(0)), (SampleState.EDGE, SampleState.GAP))
            if unusable.size:
                phases[unusable, position] = np.nan
            quality = columns.get(f"{name}:quality")
            if quality is not None:
                phases[quality <= 0.0, position] = np.nan
        return PhaseMatrix(tuple(written), phases, table.sample_period_s, "phases", (*table.notes, EXTRACTION_NOTE))
    if origin == "phases" or (
        origin == "auto" and all(name.lower().startswith(("phase", "theta")) for name in table.names)
    ):
        phases = np.column_stack([_unwrapped(column) for column in table.values.T])
        return PhaseMatrix(table.names, phases, table.sample_period_s, "phases", table.notes)
    looks = all(_looks_like_phase(column) for column in table.values.T)
    series, refused = extract_phase_series(table, method=method)
    phases = np.column_stack([s.usable_phase for s in series])
    notes = [LOOKS_LIKE_PHASES] if looks and origin == "auto" else []
    notes += [*table.notes, EXTRACTION_NOTE, *(finding.text for finding in refused)]
    notes += [f"channel '{s.name}': {f.text}" for s in series for f in s.findings if f.kind != "edge"]
    period = table.sample_period_s * table.sample_rate / series[0].sample_rate
    return PhaseMatrix(tuple(s.name for s in series), phases, period, "signals", tuple(notes))


def _looks_like_phase(column: FloatArray) -> bool:
    """Whether values fill one turn, [0, 2π) or [-π, π), and run through it with jumps of nearly a whole one."""
    values = column[~np.isnan(column)]
    if values.size < 3:
        return False
    low, high = float(values.min()), float(values.max())
    if not 0.8 * TWO_PI < high - low <= 1.001 * TWO_PI or not (low > -0.01 or high < np.pi + 0.01):
        return False
    steps = np.diff(values)
    wraps = np.abs(steps) > np.pi
    forward = float(np.median(steps)) > 0.0
    return bool(wraps.sum() >= 2 and ((steps[wraps] < 0.0) == forward).mean() > 0.8)


def _unwrapped(column: FloatArray) -> FloatArray:
    """Unwrap each stretch between missing phases."""
    unwrapped = column.copy()
    for first, after in true_ranges(~np.isnan(column)):
        unwrapped[first:after] = np.unwrap(column[first:after])
    return unwrapped


def _csv(columns: dict[str, NDArray[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    lists = [["" if np.isnan(value) else repr(value) for value in column.tolist()] for column in columns.values()]
    writer.writerows(zip(*lists, strict=True))
    return text.getvalue().encode()


def _parquet(columns: dict[str, NDArray[Any]]) -> bytes:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install 'ripieno-phase[parquet]'") from error
    buffer = io.BytesIO()
    parquet.write_table(
        arrow.table({name: arrow.array(value, from_pandas=True) for name, value in columns.items()}), buffer
    )
    return buffer.getvalue()
