"""What happened over the time of an episode: distance, slack, interventions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from chamber.cell.analysis import select
from chamber.cell.config import Cell, Condition
from chamber.cell.contacts import step_distances
from chamber.cell.outcome import EpisodeOutcome
from chamber.cell_report.style import (
    CONDITION_COLOURS,
    FAULT_COLOUR,
    INK,
    PAGE_WIDTH,
    SOURCE_STYLES,
    legend_below,
    partner_panels,
)
from chamber.envs.mpe_cooperative_push import DT

__all__ = ["distance_figure", "intervention_figure", "slack_figure"]

FloatArray = NDArray[np.float64]


def distance_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> Figure:
    """Draw the smallest distance of the centres in each step: range, median and every episode.

    One row of panels per partner, one column per condition.
    """
    n_rows, n_columns = len(cell.partners), len(cell.conditions)
    figure = Figure(figsize=(PAGE_WIDTH, 0.9 + 1.7 * n_rows))
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    for row, entry in enumerate(cell.partners):
        for column, condition in enumerate(cell.conditions):
            axes = panels[row, column]
            axes.set_title(f"{entry.label}, {condition.words}")
            _draw_safety_distance(axes, cell.task.safety_distance_m)
            paths = [
                step_distances(outcome.trace.ego_positions_m, outcome.trace.partner_positions_m)
                for outcome in select(outcomes, condition, entry.label)
            ]
            _draw_band(axes, np.stack(paths), CONDITION_COLOURS[condition], condition)
        panels[row, 0].set_ylabel("distance (m)")
    for axes in panels[-1]:
        axes.set_xlabel("time (s)")
    panels[0, 0].set(ylim=(0.0, None), xlim=(0.0, cell.task.episode_length * DT))
    legend_below(figure, *panels[0], ncols=n_columns + 1)
    return figure


def slack_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> Figure:
    """Draw the adaptive slack lambda with the stack: range, median and every episode, one panel per partner."""
    labels = [entry.label for entry in cell.partners]
    figure, panels = partner_panels(labels, xlabel="time (s)", ylabel="slack λ (m/s²)", height=2.0)
    for label, axes in zip(labels, panels, strict=True):
        axes.axhline(0.0, color=INK, linewidth=0.8, linestyle=":")
        paths = [outcome.trace.slack_m_s2 for outcome in select(outcomes, Condition.WITH_STACK, label)]
        _draw_band(axes, np.stack(paths), CONDITION_COLOURS[Condition.WITH_STACK], Condition.WITH_STACK)
    panels[0].set_xlim(0.0, cell.task.episode_length * DT)
    legend_below(figure, panels[0], ncols=1)
    return figure


def intervention_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> Figure:
    """Draw, for every step, in how many episodes the applied command came from which source."""
    labels = [entry.label for entry in cell.partners]
    figure, panels = partner_panels(labels, xlabel="time (s)", ylabel="episodes", height=2.4)
    for label, axes in zip(labels, panels, strict=True):
        episodes = select(outcomes, Condition.WITH_STACK, label)
        sources = np.array([outcome.trace.sources for outcome in episodes])
        middles = _times(sources.shape[1]) - DT / 2.0
        below = np.zeros(sources.shape[1])
        for source, (words, colour) in SOURCE_STYLES.items():
            count = (sources == source).sum(axis=0)
            if count.any():
                axes.bar(middles, count, DT, below, color=colour, label=words, linewidth=0)
                below = below + count
    panels[0].set(xlim=(0.0, cell.task.episode_length * DT), ylim=(0.0, cell.episodes))
    panels[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, *panels, ncols=2)
    return figure


def _draw_safety_distance(axes: Axes, safety_distance_m: float) -> None:
    axes.axhspan(0.0, safety_distance_m, color=FAULT_COLOUR, alpha=0.13, linewidth=0)
    axes.axhline(
        safety_distance_m, color=FAULT_COLOUR, linewidth=1.0, linestyle="--", label="safety distance: the discs touch"
    )


def _draw_band(axes: Axes, paths: FloatArray, colour: str, condition: Condition) -> None:
    times = _times(paths.shape[1])
    axes.fill_between(times, paths.min(axis=0), paths.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.plot(times, paths.T, color=colour, linewidth=0.6, alpha=0.45)
    axes.plot(times, np.median(paths, axis=0), color=colour, linewidth=2.0, label=f"{condition.words}: median")


def _times(n_steps: int) -> FloatArray:
    """End of every step, seconds."""
    return DT * np.arange(1.0, n_steps + 1.0)
