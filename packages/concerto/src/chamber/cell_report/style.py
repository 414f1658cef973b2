"""Colours and words that all figures share; the look of axes is that of `ripieno.report.FIGURE_STYLE`."""

from __future__ import annotations

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
    "PARTNER_COLOUR",
    "SOURCE_STYLES",
    "single_axes",
]

_BLUE, _ORANGE, _GREEN, _PURPLE, _RED, *_ = PALETTE

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


def single_axes(*, xlabel: str, ylabel: str, size: tuple[float, float] = (4.6, 3.0)) -> tuple[Figure, Axes]:
    """Make a figure of one panel, small enough to stay readable on a telephone; size in inches."""
    figure = Figure(figsize=size)
    axes = figure.subplots()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure, axes
