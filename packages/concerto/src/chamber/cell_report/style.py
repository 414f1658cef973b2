"""Colours and words that all figures share; the look of axes is that of `ripieno.report.FIGURE_STYLE`."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chamber.cell.config import Condition
from chamber.cell.trace import WALL_STOP
from ripieno.report import PALETTE

__all__ = [
    "CONDITION_COLOURS",
    "EGO_COLOUR",
    "FAULT_COLOUR",
    "INK",
    "LANDMARK_COLOUR",
    "PAGE_WIDTH",
    "PARTNER_COLOUR",
    "SOURCE_STYLES",
    "legend_below",
    "partner_panels",
]

_BLUE, _ORANGE, _GREEN, _PURPLE, _RED, *_ = PALETTE

PAGE_WIDTH = 7.2
"""Width of a figure, inches: that of the text column."""
INK = "black"
"""Becomes the page's text colour, light or dark."""
EGO_COLOUR = _BLUE
PARTNER_COLOUR = _ORANGE
LANDMARK_COLOUR = _GREEN
FAULT_COLOUR = _RED
CONDITION_COLOURS = {Condition.WITHOUT_STACK: _ORANGE, Condition.WITH_STACK: _BLUE}

SOURCE_STYLES = {
    "pass_through": ("nominal command, unchanged", "#9db8cf"),
    "qp": ("nearest command that keeps the distance (QP)", _BLUE),
    "braking": ("braking", _ORANGE),
    "fallback": ("fallback: push away, or brake", _RED),
    WALL_STOP: ("stop, because a wall is in the way", _PURPLE),
}
"""Words and colour for every source of a command, from the least to the greatest intervention."""


def partner_panels(labels: Sequence[str], *, xlabel: str, ylabel: str, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure with one titled panel per partner, three to a row, on shared axes.

    Args:
        labels: labels of the partners.
        xlabel: under the lowest panels.
        ylabel: beside the leftmost panels.
        height: of a row of panels, inches.
    """
    n_columns = min(len(labels), 3)
    n_rows = -(-len(labels) // n_columns)
    figure = Figure(figsize=(PAGE_WIDTH, 0.6 + height * n_rows))
    panels = list(figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True).ravel())
    for index, axes in enumerate(panels):
        axes.set_visible(index < len(labels))
        axes.set_xlabel(xlabel)
        if index % n_columns == 0:
            axes.set_ylabel(ylabel)
    for axes, label in zip(panels, labels, strict=False):
        axes.set_title(label)
    return figure, panels[: len(labels)]


def legend_below(figure: Figure, *panels: Axes, ncols: int) -> None:
    """Put one legend below all panels, with every label of the given panels once."""
    entries = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=ncols)
