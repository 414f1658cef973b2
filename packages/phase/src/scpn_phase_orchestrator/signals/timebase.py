"""From the time stamps of rows to a uniform time axis.

Rules, each of which leaves a note when it acts: stamps must not run backwards; rows with equal stamps are averaged;
a step of more than `GAP_STEPS` periods is a gap, whose samples are missing; where steps differ by more than
`JITTER` the rows are interpolated linearly onto the uniform axis, else they keep their values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals.table import SECONDS_PER_UNIT

__all__ = ["GAP_STEPS", "JITTER", "MAX_SAMPLES", "Stamps", "looks_like_time", "on_uniform_axis", "parse_stamps"]

JITTER = 0.02
"""Relative difference between steps up to which sampling counts as regular."""
GAP_STEPS = 2.5
"""A step of more than so many periods is a gap."""
MAX_SAMPLES = 50_000_000
"""Longest uniform axis that is made; gaps count."""
SHORTEST_PERIOD = 1e-100
"""Shortest accepted step: powers of the rate of a shorter one are no longer numbers."""

_TIME_NAME = re.compile(
    r"(?:time|t|date|datetime|timestamp|year|seconds?|(?:time|t)[ _\[(]+(?:us|ms|s|sec|min|h|day|week|year)s?[\])]?)",
    re.IGNORECASE,
)
_UNIT_NAME = re.compile(r"[_\[( ](us|ms|s|min|h|day|week|year)s?[\])]?\Z", re.IGNORECASE)
_COMPACT_DATE = re.compile(r"[12]\d{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")


@dataclass(frozen=True)
class Stamps:
    """Time stamps in some unit.

    Attributes:
        times: in units, shape ``(n_rows,)``.
        unit: a key of `SECONDS_PER_UNIT`.
        notes: what was decided.
    """

    times: FloatArray
    unit: str
    notes: tuple[str, ...]


def looks_like_time(name: str) -> bool:
    """Tell whether a column's name says that it holds time stamps."""
    return _TIME_NAME.fullmatch(name.strip()) is not None


def parse_stamps(source: str, name: str, cells: Sequence[str], lines: Sequence[int], unit: str | None) -> Stamps:
    """Read a column of time stamps: numbers, ISO 8601 dates or times, or dates written as YYYYMMDD.

    Without ``unit`` numbers are seconds unless the name ends in a unit (``t_ms``, ``time [h]``, ``YEAR``); dates are in
    seconds, or in years when rows are at least a day apart.

    Raises:
        ExtractorError: a cell is missing or cannot be read; the message names the line.
    """
    if all(_COMPACT_DATE.fullmatch(cell) for cell in cells) and "date" in name.lower():
        cells = [f"{cell[:4]}-{cell[4:6]}-{cell[6:]}" for cell in cells]
    numbers = _as_numbers(cells)
    if numbers is not None:
        _refuse_missing(source, name, numbers, lines)
        chosen = unit or _unit_of(name)
        notes = () if unit else (f"time column '{name}' is read in units of one {chosen}",)
        return Stamps(numbers, chosen, notes)
    seconds = np.array([_seconds(source, name, cell, line) for cell, line in zip(cells, lines, strict=True)])
    positive = np.diff(seconds)[np.diff(seconds) > 0.0]
    slow = positive.size > 0 and float(np.median(positive)) >= SECONDS_PER_UNIT["day"]
    chosen = unit or ("year" if slow else "s")
    notes = () if unit else (f"dates of '{name}' are counted in units of one {chosen} from the first row",)
    return Stamps((seconds - seconds[0]) / SECONDS_PER_UNIT[chosen], chosen, notes)


def on_uniform_axis(
    source: str, stamps: Stamps, values: FloatArray, lines: Sequence[int]
) -> tuple[FloatArray, float, float, tuple[str, ...]]:
    """Put rows onto a uniform axis.

    Args:
        source: name for messages.
        stamps: time of every row.
        values: shape ``(n_rows, n_channels)``.
        lines: line of every row, for messages.

    Returns:
        Values on the axis (NaN in gaps), samples per unit, time of the first sample, notes.

    Raises:
        ExtractorError: stamps run backwards, all are equal, lie closer than `SHORTEST_PERIOD` or further apart than
            its inverse, or the axis would be longer than `MAX_SAMPLES`.
    """
    times = stamps.times
    backwards = np.flatnonzero(np.diff(times) < 0.0)
    if backwards.size:
        row = int(backwards[0]) + 1
        raise ExtractorError(
            f"{source}: line {lines[row]}: time runs backwards ({times[row]:.9g} after {times[row - 1]:.9g})"
        )
    notes: list[str] = []
    distinct, first = np.unique(times, return_index=True)
    if distinct.size < 2:
        raise ExtractorError(f"{source}: all rows have the same time {times[0]:.9g}")
    if distinct.size < times.size:
        notes.append(f"{times.size - distinct.size} row(s) share the time of the row before; they were averaged")
        values = _average_rows(values, first)
    steps = np.diff(distinct)
    period = float(np.median(steps))
    if not SHORTEST_PERIOD <= period <= 1.0 / SHORTEST_PERIOD:
        raise ExtractorError(
            f"{source}: the usual step between rows is {period:g} {stamps.unit}; steps from {SHORTEST_PERIOD:g} to "
            f"{1.0 / SHORTEST_PERIOD:g} are read"
        )
    inside = steps[steps <= GAP_STEPS * period]
    regular = float(np.max(np.abs(inside - period))) <= JITTER * period
    period = float(inside.mean()) if regular else period
    gaps = np.flatnonzero(steps > GAP_STEPS * period)
    n_samples = round((distinct[-1] - distinct[0]) / period) + 1
    if n_samples > MAX_SAMPLES:
        raise ExtractorError(
            f"{source}: {n_samples:.3g} samples of {period:g} {stamps.unit} would be needed from first to last row, "
            f"at most {MAX_SAMPLES} are made"
        )
    if gaps.size:
        longest = float(steps[gaps].max())
        notes.append(
            f"{gaps.size} gap(s) in time, the longest {longest:.6g} {stamps.unit} (line {lines[int(first[gaps[0]])]} "
            "is the last row before the first one)"
        )
    if regular and not _collide(distinct, period):
        placed = np.full((n_samples, values.shape[1]), np.nan)
        placed[np.round((distinct - distinct[0]) / period).astype(np.int64)] = values
        return placed, 1.0 / period, float(distinct[0]), tuple(notes)
    notes.append(
        f"irregular sampling (steps {inside.min():.6g} to {inside.max():.6g} {stamps.unit}): interpolated linearly to "
        f"one sample every {period:.6g} {stamps.unit}"
    )
    n_samples = int((distinct[-1] - distinct[0]) / period * (1.0 + 1e-12)) + 1  # no sample after the last row
    axis = distinct[0] + period * np.arange(n_samples)
    interpolated = np.column_stack([np.interp(axis, distinct, values[:, k]) for k in range(values.shape[1])])
    before = np.clip(np.searchsorted(distinct, axis, side="right") - 1, 0, steps.size - 1)
    off_row = np.abs(axis - distinct[before]) > 1e-9 * period
    interpolated[np.isin(before, gaps) & off_row] = np.nan
    return interpolated, 1.0 / period, float(distinct[0]), tuple(notes)


def _collide(times: FloatArray, period: float) -> bool:
    """Whether two rows round to one sample: the period drifts against the axis."""
    positions = np.round((times - times[0]) / period)
    return bool((np.diff(positions) < 1.0).any())


def _average_rows(values: FloatArray, first: NDArray[np.intp]) -> FloatArray:
    """Average the rows of each group that starts at ``first``; missing values do not count."""
    present = ~np.isnan(values)
    sums = np.add.reduceat(np.where(present, values, 0.0), first, axis=0)
    counts = np.add.reduceat(present.astype(np.float64), first, axis=0)
    return np.where(counts > 0.0, sums / np.maximum(counts, 1.0), np.nan)


def _as_numbers(cells: Sequence[str]) -> FloatArray | None:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return None


def _refuse_missing(source: str, name: str, numbers: FloatArray, lines: Sequence[int]) -> None:
    missing = np.flatnonzero(~np.isfinite(numbers))
    if missing.size:
        raise ExtractorError(f"{source}: line {lines[int(missing[0])]}: time column '{name}' has no finite value")


def _unit_of(name: str) -> str:
    if name.strip().lower() in ("year", "years"):
        return "year"
    match = _UNIT_NAME.search(name.strip())
    return match[1].lower() if match else "s"


def _seconds(source: str, name: str, cell: str, line: int) -> float:
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError as error:
        raise ExtractorError(
            f"{source}: line {line}: time column '{name}' must hold numbers or ISO dates, got {cell!r:.60}; "
            "write 2026-11-30T10:00:00, or give --sample-rate"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
