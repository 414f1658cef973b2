"""Reading signals from CSV, Parquet and WAV files."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ripieno.files import open_regular
from scpn_phase_orchestrator._arrays import FloatArray, positive_number
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals.csv_text import LARGEST, TextTable, number_column, read_csv_text
from scpn_phase_orchestrator.signals.table import SECONDS_PER_UNIT, SignalTable
from scpn_phase_orchestrator.signals.timebase import (
    JITTER,
    SHORTEST_PERIOD,
    Stamps,
    looks_like_time,
    on_uniform_axis,
    parse_stamps,
)

__all__ = ["read_signals"]

_DATE = re.compile(
    r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}[ -]?[A-Za-z]{3,9}[ -]?\d{2,4})(?:[T ,]+\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
)
_UNIT_WORD = re.compile(
    r"(?:milli|micro)?sec(?:ond)?s?|s|ms|us|min(?:ute)?s?|h|hrs?|hours?|days?|weeks?|months?|elapsed|clock|zeit|uhrzeit",
    re.IGNORECASE,
)
MAX_VALUES = 200_000_000
"""Most values that are read from a Parquet file, rows times columns."""


@dataclass
class _Columns:
    """Columns before they have a time axis."""

    source: str
    names: list[str]
    values: FloatArray
    lines: Sequence[int]
    stamps: Stamps | None = None
    notes: list[str] = field(default_factory=list[str])
    unread_dates: tuple[str, str] | None = None


def read_signals(
    path: Path | str,
    *,
    columns: Sequence[str] = (),
    time_column: str | None = None,
    sample_rate: float | None = None,
    time_unit: str | None = None,
) -> SignalTable:
    """Read the signals of a file onto a uniform time axis.

    Args:
        path: ``.csv``, ``.tsv``, ``.txt``, ``.parquet`` or ``.wav``.
        columns: names of the channels; by default all numeric columns (all channels ``ch1``, ``ch2``, ... of a WAV).
        time_column: name of the column of time stamps; by default the first column when its name says time and it
            ascends. Ignored (with a note) when ``sample_rate`` is given too.
        sample_rate: samples per time unit, for files without stamps or with bad ones; a WAV has its own.
        time_unit: unit of numeric stamps and of the rate, a key of `SECONDS_PER_UNIT`; see `parse_stamps`.

    Raises:
        ExtractorError: the file or a named column cannot be used; the message names line and column.
        ImportError: Parquet without its extra.
        OSError: the file cannot be read.
        ValueError: ``sample_rate`` or ``time_unit`` is not valid.
    """
    path = Path(path)
    if sample_rate is not None:
        sample_rate = positive_number("sample_rate", sample_rate)
        if not SHORTEST_PERIOD <= sample_rate <= 1.0 / SHORTEST_PERIOD:
            raise ValueError(
                f"sample_rate must lie between {SHORTEST_PERIOD:g} and {1.0 / SHORTEST_PERIOD:g}, got {sample_rate:g}"
            )
    if time_unit is not None and time_unit not in SECONDS_PER_UNIT:
        raise ValueError(f"time_unit must be one of {', '.join(SECONDS_PER_UNIT)}, got {time_unit!r:.40}")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".txt"):
        return _with_axis(_from_csv(path, columns, time_column, time_unit), sample_rate, time_unit)
    if suffix == ".parquet":
        return _with_axis(_from_parquet(path, columns, time_column, time_unit), sample_rate, time_unit)
    if suffix == ".wav":
        return _from_wav(path, columns, sample_rate)
    raise ExtractorError(f"{path.name}: expected .csv, .tsv, .txt, .parquet or .wav, got '{suffix}'")


def _with_axis(columns: _Columns, sample_rate: float | None, time_unit: str | None) -> SignalTable:
    notes = list(columns.notes)
    if sample_rate is not None or columns.stamps is None:
        if sample_rate is None:
            _refuse_unread_dates(columns)
            notes += _rising_columns(columns)
            sample_rate = 1.0
            notes.append("no time column and no sample rate: one sample per second is assumed")
        elif columns.stamps is not None:
            notes.append("the given sample rate replaces the time stamps")
        unit = time_unit or "s"
        return SignalTable(columns.source, tuple(columns.names), columns.values, sample_rate, 0.0, unit, tuple(notes))
    if columns.stamps.unit in ("us", "ms"):
        seconds = columns.stamps.times * SECONDS_PER_UNIT[columns.stamps.unit]
        columns.stamps = Stamps(seconds, "s", (*columns.stamps.notes, f"{columns.stamps.unit} were turned into s"))
    values, rate, start, more = on_uniform_axis(columns.source, columns.stamps, columns.values, columns.lines)
    notes += [*columns.stamps.notes, *more]
    return SignalTable(columns.source, tuple(columns.names), values, rate, start, columns.stamps.unit, tuple(notes))


def _refuse_unread_dates(columns: _Columns) -> None:
    """Refuse to assume a rate beside a column of dates."""
    if columns.unread_dates is None:
        return
    name, cell = columns.unread_dates
    raise ExtractorError(
        f"{columns.source}: column '{name}' looks like dates ({cell!r:.40}) but is not used: write ISO dates "
        f"(2026-11-30T10:00:00) or numbers and give --time-column {name}, or give --sample-rate"
    )


def _rising_columns(columns: _Columns) -> list[str]:
    """Point out a first column that rises evenly, or any whose name is a unit of time."""
    found: list[str] = []
    for index, name in enumerate(columns.names):
        called = _UNIT_WORD.fullmatch(name.strip()) is not None
        if index and not called:
            continue
        steps = np.diff(columns.values[:, index])
        if steps.size < 3 or not np.isfinite(steps).all() or not (steps > 0.0).all():
            continue
        if called or np.ptp(steps) <= JITTER * float(np.median(steps)):
            found.append(f"column '{name}' rises from row to row like time; if it is, give --time-column {name}")
    return found


def _looks_like_dates(cells: Sequence[str]) -> bool:
    present = [cell for cell in cells if cell]
    return bool(present) and all(_DATE.fullmatch(cell) for cell in present)


def _from_csv(path: Path, wanted: Sequence[str], time_column: str | None, time_unit: str | None) -> _Columns:
    table = read_csv_text(path)
    notes = ["numbers are read with a decimal comma"] if table.decimal_comma else []
    time_index = _index(path.name, table.names, time_column) if time_column is not None else None
    if time_index is None and len(table.names) > 1 and looks_like_time(table.names[0]) and table.names[0] not in wanted:
        time_index = 0
        notes.append(f"time column '{table.names[0]}' was recognised by its name")
    stamps = None
    if time_index is not None:
        cells = table.columns[time_index]
        if table.decimal_comma:
            cells = [cell.replace(",", ".") for cell in cells]
        stamps = parse_stamps(path.name, table.names[time_index], cells, table.lines, time_unit)
    if wanted:
        chosen = [_index(path.name, table.names, name) for name in dict.fromkeys(wanted)]
        values = [number_column(path.name, table, index) for index in chosen]
    else:
        chosen, values = _numeric_columns(path.name, table, time_index, notes)
    names = [table.names[index] for index in chosen]
    dates = [k for k in range(len(table.names)) if k not in chosen and _looks_like_dates(table.columns[k])]
    unread = next(((table.names[k], next(filter(None, table.columns[k]))) for k in dates), None)
    return _Columns(path.name, names, np.column_stack(values), table.lines, stamps, notes, unread)


def _numeric_columns(
    source: str, table: TextTable, time_index: int | None, notes: list[str]
) -> tuple[list[int], list[FloatArray]]:
    chosen: list[int] = []
    values: list[FloatArray] = []
    last_refusal = "it has only the time column"
    for index, name in enumerate(table.names):
        if index == time_index:
            continue
        try:
            column = number_column(source, table, index)
        except ExtractorError as error:
            last_refusal = str(error)
            if "is larger than" in last_refusal:
                raise
            notes.append(f"column '{name}' is left out: {last_refusal.removeprefix(source + ': ')}")
            continue
        chosen.append(index)
        values.append(column)
    if not chosen:
        raise ExtractorError(f"{source}: no numeric column ({last_refusal.removeprefix(source + ': ')})")
    return chosen, values


def _index(source: str, names: Sequence[str], wanted: str) -> int:
    if wanted in names:
        return list(names).index(wanted)
    from difflib import get_close_matches

    near = get_close_matches(wanted, names, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f" (columns: {', '.join(names[:8])})"
    raise ExtractorError(f"{source}: no column '{wanted}'{hint}")


def _from_parquet(path: Path, wanted: Sequence[str], time_column: str | None, time_unit: str | None) -> _Columns:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'ripieno-phase[parquet]'") from error
    with open_regular(path) as stream:
        try:
            file: Any = parquet.ParquetFile(stream)
            names = [str(name) for name in file.schema_arrow.names]
            _refuse_parquet(path.name, names, file.metadata.num_rows)
            table: Any = file.read()
        except (arrow.ArrowException, OSError) as error:
            raise ExtractorError(f"{path.name}: no readable Parquet file: {error}") from error
    notes: list[str] = []
    if time_column is None and len(names) > 1 and looks_like_time(names[0]) and names[0] not in wanted:
        time_column = names[0]
        notes.append(f"time column '{time_column}' was recognised by its name")
    lines = range(1, table.num_rows + 1)
    stamps = None
    if time_column is not None:
        cells = table.column(_index(path.name, names, time_column)).to_pylist()
        texts = ["" if cell is None else str(cell) for cell in cells]
        stamps = parse_stamps(path.name, time_column, texts, lines, time_unit)
    numeric = {
        name
        for name in names
        if arrow.types.is_integer(table.schema.field(name).type)
        or arrow.types.is_floating(table.schema.field(name).type)
    }
    chosen = list(dict.fromkeys(wanted)) or [name for name in names if name in numeric and name != time_column]
    if not chosen:
        raise ExtractorError(f"{path.name}: no numeric column")
    left_out = [name for name in names if name not in numeric and name != time_column]
    if left_out and not wanted:
        notes.append(f"columns left out because they hold no numbers: {', '.join(left_out)}")
    values: list[FloatArray] = []
    for name in chosen:
        index = _index(path.name, names, name)
        if name not in numeric:
            raise ExtractorError(f"{path.name}: column '{name}' holds {table.schema.field(index).type}, not numbers")
        column = table.column(index).cast(arrow.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
        wrong = np.flatnonzero(np.isinf(column) | (np.abs(column) > LARGEST))
        if wrong.size:
            row = int(wrong[0])
            raise ExtractorError(
                f"{path.name}: row {row + 1}, column '{name}': {column[row]:g} is larger than {LARGEST:g}"
            )
        values.append(column)
    dates = [name for name in left_out if arrow.types.is_temporal(table.schema.field(name).type)]
    unread = (dates[0], str(table.column(dates[0])[0].as_py())) if dates and table.num_rows else None
    return _Columns(path.name, chosen, np.column_stack(values), lines, stamps, notes, unread)


def _refuse_parquet(source: str, names: Sequence[str], n_rows: int) -> None:
    """Refuse by what the footer says: a small file may unpack to more than the memory holds."""
    if len(set(names)) < len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise ExtractorError(f"{source}: two columns are called {twice!r:.60}")
    if n_rows == 0:
        raise ExtractorError(f"{source}: has no rows")
    if n_rows * len(names) > MAX_VALUES:
        raise ExtractorError(
            f"{source}: {n_rows} rows of {len(names)} columns, at most {MAX_VALUES} values are read; split the file"
        )


def _from_wav(path: Path, wanted: Sequence[str], sample_rate: float | None) -> SignalTable:
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with open_regular(path) as stream:
                rate, data = wavfile.read(stream)
    except FileNotFoundError:
        raise
    except (ValueError, EOFError, OSError, struct.error, TypeError, ZeroDivisionError) as error:
        raise ExtractorError(f"{path.name}: no readable WAV file: {error}") from error
    samples = np.atleast_2d(np.asarray(data).T).T
    if samples.shape[0] == 0 or rate <= 0:
        raise ExtractorError(f"{path.name}: holds no samples (rate {rate})")
    names = [f"ch{k + 1}" for k in range(samples.shape[1])]
    chosen = [_index(path.name, names, name) for name in dict.fromkeys(wanted)] or list(range(len(names)))
    values = _full_scale(samples[:, chosen])
    if not np.isfinite(values).all() or (np.abs(values) > LARGEST).any():
        row = int(np.flatnonzero(~(np.abs(values) <= LARGEST).all(axis=1))[0])
        raise ExtractorError(f"{path.name}: sample {row} is not a finite number")
    notes = [f"the file warns: {warning.message}" for warning in caught]
    if sample_rate is not None and sample_rate != rate:
        notes.append(f"the given sample rate replaces the file's own {rate} Hz")
    return SignalTable(
        path.name, tuple(names[k] for k in chosen), values, float(sample_rate or rate), 0.0, "s", tuple(notes)
    )


def _full_scale(samples: NDArray[Any]) -> FloatArray:
    """Scale integers to [-1, 1); 8-bit samples are unsigned, 24-bit ones arrive in the upper bytes of 32."""
    values = samples.astype(np.float64)
    if samples.dtype == np.uint8:
        return (values - 128.0) / 128.0
    if samples.dtype.kind == "i":
        return values / -float(np.iinfo(samples.dtype).min)
    return values
