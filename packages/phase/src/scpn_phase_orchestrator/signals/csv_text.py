"""CSV text as named columns, or one sentence that says which line and column is wrong.

Accepted: UTF-8 with or without byte order mark; comma, semicolon, tab or bar between cells; a decimal comma where the
separator is not a comma; quoted cells; a header line or none; leading lines that start with ``#``.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ripieno.files import open_regular
from scpn_phase_orchestrator.exceptions import ExtractorError

__all__ = ["LARGEST", "MAX_BYTES", "MAX_COLUMNS", "TextTable", "number_column", "read_csv_text"]

MAX_BYTES = 2**30
"""Longest accepted file."""
MAX_COLUMNS = 10_000
"""Most accepted columns."""
LARGEST = 1e150
"""Largest accepted magnitude: the square of a larger one is no longer a number."""

_MISSING = frozenset({"", "-", "na", "n/a", "nan", "none", "null", "#n/a", "."})
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SEPARATORS = (";", "\t", "|", ",")


@dataclass(frozen=True)
class TextTable:
    """Cells of a CSV file.

    Attributes:
        names: header, or ``column_1`` and so on.
        columns: one list of cells per name, all of one length, stripped.
        lines: line of the file on which each row begins.
        decimal_comma: commas inside numbers are decimal points.
    """

    names: tuple[str, ...]
    columns: tuple[list[str], ...]
    lines: list[int]
    decimal_comma: bool


def read_csv_text(path: Path, *, max_columns: int = MAX_COLUMNS) -> TextTable:
    """Read a CSV file into columns of text.

    Raises:
        ExtractorError: empty, too large, binary, not UTF-8, ragged, with duplicate names or broken quotes; the message
            names line and column.
        OSError: the file cannot be read.
    """
    with open_regular(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ExtractorError(f"{path.name}: larger than {MAX_BYTES} bytes; split it or use Parquet")
    rows, lines = _split(path.name, _decode(path.name, data))
    header = rows[0]
    if len(header) > max_columns:
        raise ExtractorError(f"{path.name}: line {lines[0]} has {len(header)} columns, at most {max_columns} are read")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise ExtractorError(f"{path.name}: line {line} has {len(row)} columns, line {lines[0]} has {len(header)}")
    has_header = not all(_is_number_or_missing(cell) for cell in header) or not any(header)
    names = _names(path.name, header, lines[0]) if has_header else [f"column_{k + 1}" for k in range(len(header))]
    body, numbers = (rows[1:], lines[1:]) if has_header else (rows, lines)
    if not body:
        raise ExtractorError(f"{path.name}: has a header but no rows")
    columns = tuple([cell.strip() for cell in column] for column in zip(*body, strict=True))
    return TextTable(tuple(names), columns, numbers, _has_decimal_commas(columns))


def number_column(name: str, table: TextTable, index: int) -> NDArray[np.float64]:
    """Give a column as float64 with NaN for missing cells.

    Raises:
        ExtractorError: a cell is no number, or infinite or larger than `LARGEST`; the message names line and column.
    """
    cells = table.columns[index]
    if table.decimal_comma:
        cells = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if _NUMBER.fullmatch(cell):
            values[row] = float(cell)
        elif cell.lower() not in _MISSING:
            raise ExtractorError(
                f"{name}: line {table.lines[row]}, column '{table.names[index]}': expected a number, got {cell!r:.60}"
            )
    wrong = np.flatnonzero(np.abs(values) > LARGEST)
    if wrong.size:
        row = int(wrong[0])
        raise ExtractorError(
            f"{name}: line {table.lines[row]}, column '{table.names[index]}': {cells[row]} is larger than {LARGEST:g}"
        )
    return values


def _decode(name: str, data: bytes) -> str:
    if not data.strip():
        raise ExtractorError(f"{name}: is empty")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ExtractorError(f"{name}: is UTF-16 text; save it as UTF-8")
    zero = data.find(b"\0")
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise ExtractorError(f"{name}: line {line} holds a NUL byte (at byte {zero}); this is no text file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ExtractorError(
            f"{name}: line {line} is not UTF-8 (byte 0x{data[error.start]:02x} at byte {error.start}); save it as UTF-8"
        ) from error


def _split(name: str, text: str) -> tuple[list[list[str]], list[int]]:
    first = next((line for line in io.StringIO(text) if line.strip() and not line.startswith("#")), "")
    if not first:
        raise ExtractorError(f"{name}: holds comments only")
    unquoted = re.sub(r'"[^"]*"', "", first)
    separator = next((mark for mark in _SEPARATORS if mark in unquoted), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    before = 0
    try:
        for row in reader:
            line, before = before + 1, reader.line_num
            if not row or (not rows and row[0].startswith("#")):
                continue
            rows.append(row)
            lines.append(line)
    except csv.Error as error:
        raise ExtractorError(f"{name}: line {before + 1}: {error}") from error
    return rows, lines


def _names(name: str, header: list[str], line: int) -> list[str]:
    names = [cell.strip() or f"column_{position + 1}" for position, cell in enumerate(header)]
    seen: dict[str, int] = {}
    for position, column in enumerate(names):
        if column in seen:
            raise ExtractorError(
                f"{name}: line {line}: columns {seen[column] + 1} and {position + 1} are both called {column!r:.60}"
            )
        seen[column] = position
    return names


def _is_number_or_missing(cell: str) -> bool:
    text = cell.strip()
    return text.lower() in _MISSING or _NUMBER.fullmatch(text) is not None or _DECIMAL_COMMA.fullmatch(text) is not None


def _has_decimal_commas(columns: tuple[list[str], ...]) -> bool:
    return any(_DECIMAL_COMMA.fullmatch(cell) is not None for column in columns for cell in column if "," in cell)
