"""Numeric matrices from CSV and NPY files."""

from __future__ import annotations

import tokenize
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ripieno.files import open_regular
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals.csv_text import TextTable, number_column, read_csv_text
from scpn_phase_orchestrator.signals.phase_series import SampleState
from scpn_phase_orchestrator.signals.timebase import looks_like_time

__all__ = ["read_matrix", "read_phase_matrix"]

MAX_COLUMNS = 1_000_000
"""Most columns of a CSV matrix, whose rows may be series."""


FEWEST_ROWS = 16
"""Fewest complete rows of phases."""


def read_phase_matrix(path: Path, *, rows_are_times: bool) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Read phases as ``(n_oscillators, n_samples)``, with notes on what was left out.

    A CSV file with columns called ``<channel>:phase`` (as `write_series` writes) or with a time column first has one
    row per sample whatever ``rows_are_times`` says. Of such files the time columns are skipped and only complete rows
    are used: every phase present, and none in a gap or at an edge. Anything else is read by `read_matrix`.

    Raises:
        ExtractorError: as `read_matrix`; fewer than `FEWEST_ROWS` complete rows.
        OSError: the file cannot be read.
    """
    if path.suffix.lower() != ".csv":
        matrix = read_matrix(path)
        return (matrix.T if rows_are_times else matrix), ()
    table = read_csv_text(path, max_columns=MAX_COLUMNS)
    written = [name for name in table.names if name.endswith(":phase")]
    timed = looks_like_time(table.names[0])
    if not written and not timed and not rows_are_times:
        return _complete(path.name, table), ()
    chosen = written or [name for name in table.names if not looks_like_time(name)]
    if not chosen:
        raise ExtractorError(f"{path.name}: it has only the time column")
    columns = {name: number_column(path.name, table, table.names.index(name)) for name in chosen}
    usable = np.isfinite(np.column_stack(list(columns.values()))).all(axis=1)
    for name in written:
        state = name.removesuffix(":phase") + ":state"
        if state in table.names:
            values = number_column(path.name, table, table.names.index(state))
            usable &= ~np.isin(values, (SampleState.EDGE, SampleState.GAP))
    notes: list[str] = []
    if not rows_are_times:
        notes.append("the header says that a row is a point in time")
    skipped = [name for name in table.names if looks_like_time(name)]
    if skipped:
        notes.append(f"time column(s) skipped: {', '.join(skipped)}")
    dropped = int((~usable).sum())
    if dropped:
        notes.append(f"{dropped} of {usable.size} rows dropped: a phase is missing, in a gap or at an edge")
    if usable.size - dropped < FEWEST_ROWS:
        raise ExtractorError(
            f"{path.name}: {usable.size - dropped} of {usable.size} rows have a phase of every oscillator; "
            f"{FEWEST_ROWS} are needed"
        )
    return np.vstack(list(columns.values()))[:, usable], tuple(notes)


def _complete(source: str, table: TextTable) -> NDArray[np.float64]:
    matrix = np.column_stack([number_column(source, table, index) for index in range(len(table.names))])
    missing = np.argwhere(np.isnan(matrix))
    if missing.size:
        row, column = missing[0]
        raise ExtractorError(f"{source}: line {table.lines[row]}, column {column + 1} is missing")
    return matrix


def read_matrix(path: Path) -> NDArray[np.float64]:
    """Read a complete matrix of finite numbers; a header line of a CSV file is skipped.

    Raises:
        ExtractorError: another suffix, no matrix, or a value that is missing or no number; the message names its place.
        OSError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _complete(path.name, read_csv_text(path, max_columns=MAX_COLUMNS))
    if suffix != ".npy":
        raise ExtractorError(f"{path.name}: expected .csv or .npy, got '{suffix}'")
    try:
        with open_regular(path) as stream:
            loaded = np.load(stream, allow_pickle=False)
    except (ValueError, EOFError, MemoryError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile) as error:
        raise ExtractorError(f"{path.name}: no readable NPY file of numbers: {error}") from error
    if not isinstance(loaded, np.ndarray) or loaded.ndim != 2 or loaded.dtype.kind not in "iuf":
        kind = f"shape {loaded.shape} of {loaded.dtype}" if isinstance(loaded, np.ndarray) else type(loaded).__name__
        raise ExtractorError(f"{path.name}: expected a matrix of real numbers, got {kind}")
    with np.errstate(over="ignore"):  # a long double beyond the doubles becomes infinite, and is refused as such
        matrix = loaded.astype(np.float64)
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        raise ExtractorError(f"{path.name}: value at row {bad[0][0]}, column {bad[0][1]} is {matrix[tuple(bad[0])]}")
    return matrix
