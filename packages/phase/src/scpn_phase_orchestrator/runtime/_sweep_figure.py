"""The picture of a sweep: curves over one setting, a map over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ripieno.report import FIGURE_STYLE, PALETTE, figure_to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scpn_phase_orchestrator.runtime.sweep import Variation

__all__ = ["sweep_figure_svg"]

_CURVES = (("r_good", "R of the good layers"), ("r_bad", "R of the bad layers"), ("score", "score"))


def sweep_figure_svg(variations: Sequence[Variation], rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw the sweep.

    One setting gives the mean over the seeds with the range of the seeds behind it; two give the mean score as a map;
    of more, the first two are shown and the others averaged.
    """
    with mpl.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        if len(variations) == 1:
            _draw_curves(axis, variations[0], rows)
        else:
            image = _draw_map(axis, variations[0], variations[1], rows)
            figure.colorbar(image, ax=axis, label="mean score")
        return figure_to_svg(figure)


def _draw_curves(axis: Axes, variation: Variation, rows: Sequence[Mapping[str, Any]]) -> None:
    values = sorted(set(variation.values))
    for (measure, label), colour in zip(_CURVES, PALETTE, strict=False):
        groups = [[row[measure] for row in rows if row[variation.path] == value] for value in values]
        axis.plot(values, [np.mean(group) for group in groups], color=colour, label=label, marker="o", markersize=3)
        axis.fill_between(
            values, [min(group) for group in groups], [max(group) for group in groups], color=colour, alpha=0.15, lw=0
        )
    axis.set_xlabel(variation.path)
    axis.set_ylabel("last quarter of the run")
    axis.set_ylim(-0.02, 1.02)
    axis.legend(loc="best", fontsize=8)


def _draw_map(axis: Axes, first: Variation, second: Variation, rows: Sequence[Mapping[str, Any]]) -> Any:
    across, up = sorted(set(first.values)), sorted(set(second.values))
    scores = np.array(
        [
            [np.mean([row["score"] for row in rows if row[first.path] == x and row[second.path] == y]) for x in across]
            for y in up
        ]
    )
    axis.grid(visible=False)
    image = axis.imshow(scores, origin="lower", aspect="auto", vmin=0.0, vmax=1.0, cmap="viridis")
    for ticks, values in ((axis.set_xticks, across), (axis.set_yticks, up)):
        shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), 6)).astype(int))
        ticks(shown, [f"{values[k]:g}" for k in shown])
    axis.set_xlabel(first.path)
    axis.set_ylabel(second.path)
    return image
