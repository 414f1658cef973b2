"""What happened over the time of an episode: distance, slack, interventions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chamber.cell.config import Cell, Condition
from chamber.cell.contacts import step_distances
from chamber.cell.outcome import EpisodeOutcome
from chamber.cell_report.style import CONDITION_COLOURS, FAULT_COLOUR, INK, SOURCE_STYLES, single_axes
from chamber.envs.mpe_cooperative_push import DT

__all__ = ["distance_figure", "intervention_figure", "slack_figure"]

FloatArray = NDArray[np.float64]


def distance_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome], partner: str) -> Figure:
    """Draw the smallest distance of the centres in each step: median and range over the episodes."""
    figure, axes = single_axes(xlabel="time (s)", ylabel="distance of the centres (m)")
    touching = cell.task.safety_distance_m
    axes.axhspan(0.0, touching, color=FAULT_COLOUR, alpha=0.13, linewidth=0)
    axes.axhline(touching, color=FAULT_COLOUR, linewidth=1.0, linestyle="--", label="safety distance: discs touch")
    for condition in cell.conditions:
        paths = [
            step_distances(outcome.trace.ego_positions_m, outcome.trace.partner_positions_m)
            for outcome in _episodes(outcomes, partner, condition)
        ]
        _draw_band(axes, np.stack(paths), CONDITION_COLOURS[condition], condition.words)
    axes.set(ylim=(0.0, axes.get_ylim()[1]), xlim=(0.0, cell.task.episode_length * DT))
    figure.legend(loc="outside lower center", ncols=1)
    return figure


def slack_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome], partner: str) -> Figure:
    """Draw the adaptive slack lambda with the stack: median and range over the episodes."""
    figure, axes = single_axes(xlabel="time (s)", ylabel="slack λ (m/s²)")
    paths = [outcome.trace.slack_m_s2 for outcome in _episodes(outcomes, partner, Condition.WITH_STACK)]
    axes.axhline(0.0, color=INK, linewidth=0.8, linestyle=":")
    _draw_band(axes, np.stack(paths), CONDITION_COLOURS[Condition.WITH_STACK], Condition.WITH_STACK.words)
    axes.set(xlim=(0.0, cell.task.episode_length * DT))
    figure.legend(loc="outside lower center", ncols=1)
    return figure


def intervention_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome], partner: str) -> Figure:
    """Draw, for every step, in how many episodes the applied command came from which source."""
    episodes = _episodes(outcomes, partner, Condition.WITH_STACK)
    sources = np.array([outcome.trace.sources for outcome in episodes])
    figure, axes = single_axes(xlabel="time (s)", ylabel="episodes", size=(4.6, 3.6))
    middles = _times(sources.shape[1]) - DT / 2.0
    below = np.zeros(sources.shape[1])
    for source, (words, colour) in SOURCE_STYLES.items():
        count = (sources == source).sum(axis=0)
        if count.any():
            axes.bar(middles, count, DT, below, color=colour, label=words, linewidth=0)
            below = below + count
    axes.set(xlim=(0.0, cell.task.episode_length * DT), ylim=(0.0, len(episodes)))
    figure.legend(loc="outside lower center", ncols=1)
    return figure


def _draw_band(axes: Axes, paths: FloatArray, colour: str, label: str) -> None:
    times = _times(paths.shape[1])
    axes.fill_between(times, paths.min(axis=0), paths.max(axis=0), color=colour, alpha=0.18, linewidth=0)
    axes.plot(times, np.median(paths, axis=0), color=colour, linewidth=1.9, label=f"{label}: median and range")


def _times(n_steps: int) -> FloatArray:
    """End of every step, seconds."""
    return DT * np.arange(1.0, n_steps + 1.0)


def _episodes(outcomes: Sequence[EpisodeOutcome], partner: str, condition: Condition) -> list[EpisodeOutcome]:
    return [
        outcome for outcome in outcomes if outcome.trace.partner == partner and outcome.trace.condition is condition
    ]
