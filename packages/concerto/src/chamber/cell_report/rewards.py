"""What the stack costs: paired differences of the reward."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from chamber.cell.analysis import PairedComparison
from chamber.cell.config import Condition
from chamber.cell_report.style import CONDITION_COLOURS, INK, PAGE_WIDTH

__all__ = ["reward_figure"]


def reward_figure(comparisons: Sequence[PairedComparison]) -> Figure:
    """Draw the mean difference with its 95 % interval, one row per partner and one for all."""
    figure = Figure(figsize=(PAGE_WIDTH, 0.9 + 0.42 * len(comparisons)))
    axes = figure.subplots()
    axes.set_xlabel("mean reward per step, with stack minus without (m)")
    axes.axvline(0.0, color=INK, linewidth=0.8, linestyle=":")
    colour = CONDITION_COLOURS[Condition.WITH_STACK]
    rows = list(reversed(comparisons))
    for height, comparison in enumerate(rows):
        ci = comparison.difference
        axes.plot([ci.mean_ci_low, ci.mean_ci_high], [height, height], color=colour, linewidth=2.2)
        axes.plot(ci.mean, height, marker="o", markersize=7, color=colour)
    axes.set_yticks(range(len(rows)), [comparison.partner or "all partners" for comparison in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    return figure
