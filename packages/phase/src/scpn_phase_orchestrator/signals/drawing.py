"""Pictures of phase series: a chart for terminals and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import true_ranges
from scpn_phase_orchestrator.signals.phase_series import PhaseSeries, SampleState

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MAX_DRAWN", "draw_phase_series", "frequency_chart"]

_BLOCKS = "▁▂▃▄▅▆▇█"
MAX_DRAWN = 4
"""Most channels in one figure."""
SHOWN_CYCLES = 15
"""Cycles that the panels of signal and phase show of a longer record."""


def frequency_chart(series: PhaseSeries, width: int = 60) -> str:
    """One line of block characters: instantaneous frequency over the record, blank where there is no usable phase.

    The lowest block is the 5th, the highest the 95th percentile of the usable samples.
    """
    usable = series.usable & (series.quality > 0.0)
    if not usable.any():
        return " " * width
    low, high = np.quantile(series.frequency[usable], [0.05, 0.95])
    groups = np.array_split(np.arange(usable.size), min(width, usable.size))
    cells: list[str] = []
    for group in groups:
        inside = group[usable[group]]
        if inside.size == 0:
            cells.append(" ")
            continue
        level = float(np.median(series.frequency[inside]))
        share = 0.5 if high <= low else (level - low) / (high - low)
        cells.append(_BLOCKS[int(np.clip(share * len(_BLOCKS), 0, len(_BLOCKS) - 1))])
    return "".join(cells)


def draw_phase_series(series: Sequence[PhaseSeries]) -> Figure:
    """Draw up to `MAX_DRAWN` channels: the signal with the rhythm and its envelope, the phase, and the frequency.

    Of records longer than 40 cycles, signal and phase show `SHOWN_CYCLES` cycles from the middle.

    Returns:
        A figure of three panels per channel; the caller saves it.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from ripieno.report import FIGURE_STYLE

    drawn = list(series[:MAX_DRAWN])
    with mpl.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(9.0, 5.2 * len(drawn)))
        axes = figure.subplots(3 * len(drawn), 1, height_ratios=[3, 2, 2] * len(drawn), squeeze=False)[:, 0]
        for number, channel in enumerate(drawn):
            _draw_channel(list(axes[3 * number : 3 * number + 3]), channel)
        _freeze_layout(figure)
    return figure


def _freeze_layout(figure: Figure) -> None:
    """Lay out once and round: the solver differs in its last digits, which the names of clip paths depend on."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(value), 6) for value in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _window(series: PhaseSeries) -> slice:
    """All samples, or some cycles in the middle of the longest usable stretch of a long record."""
    frequency = series.mean_frequency
    if np.isnan(frequency) or series.state.size / series.sample_rate * frequency <= 40.0:
        return slice(0, series.state.size)
    first, after = max(true_ranges(series.usable), key=lambda run: run[1] - run[0])
    half = int(SHOWN_CYCLES / 2.0 / frequency * series.sample_rate)
    middle = (first + after) // 2
    return slice(max(0, middle - half), min(series.state.size, middle + half))


def _draw_channel(axes: Sequence[Axes], series: PhaseSeries) -> None:
    from ripieno.report import PALETTE

    shown = _window(series)
    times, unit = series.times, series.time_unit
    signal, phase, frequency = axes
    part = times[shown]
    band = "" if series.band is None else f", band {series.band[0]:.4g} to {series.band[1]:.4g} per {unit}"
    note = "" if part.size == times.size else f" ({part.size} of {times.size})"
    signal.set_title(f"{series.name}: signal, rhythm and envelope{note}")
    centre = _local_centre(series, shown)
    signal.plot(part, series.signal[shown], color=PALETTE[6], linewidth=0.9, label="signal")
    rhythm = series.amplitude[shown] * np.cos(series.unwrapped[shown])
    signal.plot(part, centre + rhythm, color=PALETTE[0], label="rhythm")
    for sign in (1.0, -1.0):
        label = "envelope" if sign > 0 else None
        edge = centre + sign * series.amplitude[shown]
        signal.plot(part, edge, color=PALETTE[1], linewidth=1.0, linestyle="--", label=label)
    signal.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1, handlelength=1.2, columnspacing=1.0
    )
    wrapped = series.wrapped[shown].copy()
    wrapped[1:][np.abs(np.diff(wrapped)) > np.pi] = np.nan
    phase.plot(part, wrapped, color=PALETTE[2], linewidth=1.2)
    phase.set_yticks([0.0, np.pi, 2.0 * np.pi], ["0", "π", "2π"])
    phase.set_ylabel("phase (rad)")
    usable = np.where(series.usable & (series.quality > 0.0), series.frequency, np.nan)
    frequency.set_title(f"frequency over the whole record ({series.method}{band})")
    frequency.plot(times, series.frequency, color=PALETTE[6], linewidth=0.6, alpha=0.6, label="edge or quality 0")
    frequency.plot(times, usable, color=PALETTE[3], linewidth=1.0, label="usable")
    if np.isfinite(usable).any():
        low, high = np.nanquantile(usable, [0.005, 0.995])
        margin = 0.15 * (high - low) or 0.1 * abs(high) or 1.0
        frequency.set_ylim(low - margin, high + margin)
    frequency.set_ylabel(f"per {unit}")
    frequency.set_xlabel(f"time ({unit})")
    for axis in axes[:2]:
        axis.set_xlim(part[0], part[-1])
    frequency.set_xlim(times[0], times[-1])
    for first, after in true_ranges(series.state == SampleState.GAP)[:200]:
        frequency.axvspan(float(times[first]), float(times[after - 1]), color=PALETTE[4], alpha=0.15, linewidth=0)


def _local_centre(series: PhaseSeries, shown: slice) -> NDArray[np.float64]:
    """Moving mean of the signal over one period, on which the rhythm rides."""
    values = series.signal
    if np.isnan(series.mean_frequency) or series.mean_frequency <= 0.0:
        return np.full(values[shown].size, float(np.nanmean(values)), dtype=np.float64)
    width = max(1, round(series.sample_rate / series.mean_frequency))
    present = ~np.isnan(values)
    kernel: NDArray[np.float64] = np.ones(width)
    total = np.convolve(np.where(present, values, 0.0), kernel, mode="same")
    count = np.convolve(present.astype(np.float64), kernel, mode="same")
    centre = total / np.maximum(count, 1.0)
    return np.asarray(centre[shown], dtype=np.float64)
