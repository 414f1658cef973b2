"""Numeric matrices from CSV and NPY files."""

from __future__ import annotations

import tokenize
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ripieno.files import open_regular
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals.csv_text import number_column, read_csv_text

__all__ = ["read_matrix"]

MAX_COLUMNS = 1_000_000
"""Most columns of a CSV matrix, whose rows may be series."""


def read_matrix(path: Path) -> NDArray[np.float64]:
    """Read a complete matrix of finite numbers; a header line of a CSV file is skipped.

    Raises:
        ExtractorError: another suffix, no matrix, or a value that is missing or no number; the message names its place.
        OSError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        table = read_csv_text(path, max_columns=MAX_COLUMNS)
        matrix = np.column_stack([number_column(path.name, table, index) for index in range(len(table.names))])
        missing = np.argwhere(np.isnan(matrix))
        if missing.size:
            row, column = missing[0]
            raise ExtractorError(f"{path.name}: line {table.lines[row]}, column {column + 1} is missing")
        return matrix
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
