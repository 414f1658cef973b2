"""Figures of metrics over training frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chamber.cli._analyze_archive import Reading
from ripieno.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["metric_figure"]


def metric_figure(
    readings: Mapping[str, Sequence[Reading]],
    *,
    metric: str,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    window: int = 1,
    y_limits: tuple[float | None, float | None] = (None, None),
    is_logarithmic: bool = False,
) -> Figure:
    """Draw a metric over the frames of training, one line per run.

    Args:
        readings: values by run; those without a frame are left out.
        metric: name on the vertical axis.
        names: what the legend calls a run; by default its id.
        title: above the axes; the metric's name by default.
        window: a point is the mean of so many values, the last of which is its own.
        y_limits: lowest and highest value shown; None for what the values need.
        is_logarithmic: whether the vertical axis is.

    Raises:
        InputError: a run has no value at any frame or fewer than the window needs, or the limits are the wrong way
            round or not positive on a logarithmic axis.
    """
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    from ripieno._printable import printable
    from ripieno.report import FIGURE_STYLE

    low, high = y_limits
    if low is not None and high is not None and low >= high:
        raise InputError(f"--ymin must be less than --ymax, got {low:g} and {high:g}")
    if is_logarithmic and any(limit is not None and limit <= 0.0 for limit in y_limits):
        raise InputError("--ymin and --ymax must be above 0 with --logy")
    with mpl.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(8.0, 5.0), dpi=120)
        axes = figure.subplots()
        for run_id, values in readings.items():
            points = [(value.step, value.value) for value in values if value.step is not None]
            if not points:
                raise InputError(f"metric {metric!r} of run {run_id} has no steps, so it cannot be drawn over them")
            if is_logarithmic and not any(value > 0.0 for _, value in points):
                raise InputError(f"metric {metric!r} of run {run_id} has no value above 0, so --logy shows nothing")
            if len(points) < window:
                raise InputError(f"--window {window} is more than the {len(points)} values of run {run_id}")
            steps = [step for step, _ in points[window - 1 :]]
            heights = np.convolve([height for _, height in points], np.full(window, 1.0 / window), mode="valid")
            # A single point has no line to be seen by.
            axes.plot(
                steps,
                heights,
                label=printable((names or {}).get(run_id, run_id)),
                marker="o" if len(steps) == 1 else None,
            )
        axes.set_xlabel("frame")
        unit = metric if window == 1 else f"{metric}, mean of {window} values"
        axes.set_ylabel(printable(unit), parse_math=False)
        axes.set_title(printable(title or metric), parse_math=False)
        if is_logarithmic:
            axes.set_yscale("log")
        axes.set_ylim(low, high)
        if len(readings) > 1 or title is None:
            axes.legend()
    return figure
