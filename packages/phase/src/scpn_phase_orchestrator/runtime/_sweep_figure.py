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

__all__ = ["sweep_figure_svg"]

_CURVES = (("r_good", "R of the good layers"), ("lock_bad", "highest lock of the bad layers"), ("score", "score"))


def sweep_figure_svg(settings: Mapping[str, Sequence[float]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw a sweep of the given settings over the given values.

    One setting gives the mean over the seeds with the range of the seeds behind it; two give the mean score as a map;
    of more, the first two are shown and the others averaged.
    """
    with mpl.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        if len(settings) == 1:
            _draw_curves(axis, settings, rows)
        else:
            image = _draw_map(axis, settings, rows)
            scale: Any = figure.colorbar(image, ax=axis, label="mean score")
            scale.solids.set_rasterized(False)  # shapes, not a bitmap: pages may not load images, not even from inside
        return figure_to_svg(figure)


def _draw_curves(axis: Axes, settings: Mapping[str, Sequence[float]], rows: Sequence[Mapping[str, Any]]) -> None:
    ((path, tried),) = settings.items()
    values = sorted(set(tried))
    for (measure, label), colour in zip(_CURVES, PALETTE, strict=False):
        if any(row[measure] is None for row in rows):
            continue
        groups = [[row[measure] for row in rows if row[path] == value] for value in values]
        axis.plot(values, [np.mean(group) for group in groups], color=colour, label=label, marker="o", markersize=3)
        axis.fill_between(
            values, [min(group) for group in groups], [max(group) for group in groups], color=colour, alpha=0.15, lw=0
        )
    axis.set_xlabel(path)
    axis.set_ylabel("at the end of the run")
    axis.set_ylim(-0.02, 1.02)
    axis.legend(loc="best", fontsize=8)


def _draw_map(axis: Axes, settings: Mapping[str, Sequence[float]], rows: Sequence[Mapping[str, Any]]) -> Any:
    first, second = list(settings)[:2]
    across, up = sorted(set(settings[first])), sorted(set(settings[second]))
    scores = np.array(
        [[np.mean([row["score"] for row in rows if row[first] == x and row[second] == y]) for x in across] for y in up]
    )
    axis.grid(visible=False)
    image = axis.pcolormesh(
        np.arange(len(across)), np.arange(len(up)), scores, shading="nearest", vmin=0.0, vmax=1.0, cmap="viridis"
    )
    for ticks, values in ((axis.set_xticks, across), (axis.set_yticks, up)):
        shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), 6)).astype(int))
        ticks(shown, [f"{values[k]:g}" for k in shown])
    axis.set_xlabel(first)
    axis.set_ylabel(second)
    return image
