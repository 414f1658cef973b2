"""Pictures of a run: phases on the circle, order and regimes over time, layers, coupling, knobs.

A good layer is drawn by its order parameter R and a bad one by its lock level over a moving window, because these
decide the verdict; the momentary R of a bad layer, which swings up to 1 where it is free, is a pale line behind.

Every function draws with the caller's Matplotlib settings; `write_run_figure` and `write_comparison_figure` apply the
looks of the HTML reports themselves.
"""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ripieno.errors import InputError
from ripieno.files import write_atomic
from ripieno.report import FIGURE_STYLE, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from scpn_phase_orchestrator.runtime.history import RunHistory

__all__ = [
    "comparison_figure",
    "coupling_figure",
    "knob_figure",
    "layer_figure",
    "order_figure",
    "overview_figure",
    "phase_circle_figure",
    "write_comparison_figure",
    "write_run_figure",
]

REGIME_NAMES = ("nominal", "degraded", "recovery", "critical")
REGIME_COLOURS = ("#1f9270", "#c7a317", "#2f7ec2", "#c9445d")
GOOD_COLOUR, BAD_COLOUR = PALETTE[0], PALETTE[1]
MAX_NAMED_LAYERS = 7
"""Layers up to which each has a line of its own colour; beyond it a heat map shows them all."""
SHARED_COLOUR = "#000000"
"""Of what concerns all layers, so that no layer has it; pages turn it into their text colour."""
MAX_CELLS = 240
"""Most columns of a heat map over time."""
MAX_POINTS = 2_000
"""Most points of a curve; longer runs are thinned."""


def order_figure(history: RunHistory) -> Figure:
    """Draw R of the good and of the bad layers from moment to moment, the regime as a strip below."""
    figure = _new_figure(7.2, 3.0)
    _draw_order(figure, history)
    return figure


def layer_figure(history: RunHistory) -> Figure:
    """Draw R of the good layers and the lock level of the bad ones: lines for a few layers, a heat map for many."""
    figure = _new_figure(7.2, 3.4)
    _draw_layers(figure.subplots(), history)
    return figure


def phase_circle_figure(history: RunHistory) -> Figure:
    """Draw the final phases on the unit circle, one ring and colour a layer, and the layer's order as an arrow."""
    figure = _new_figure(7.2, 4.2)
    _draw_circle(figure.subplots(), history)
    return figure


def coupling_figure(history: RunHistory) -> Figure:
    """Draw the effective coupling at the end as a heat map, the borders of the layers as lines."""
    figure = _new_figure(7.2, 4.4)
    _draw_coupling(figure.subplots(), history)
    return figure


def knob_figure(history: RunHistory) -> Figure:
    """Draw what the supervisor turned, a panel a knob: gain on the coupling, lag, strength of the drive."""
    figure = _new_figure(7.2, 1.0 + 1.3 * len(_knobs_shown(history)))
    _draw_knobs(figure, history)
    return figure


def overview_figure(history: RunHistory) -> Figure:
    """Draw one page: order and regimes, layers, knobs, phases on the circle, coupling."""
    figure = _new_figure(14.0, 8.0)
    upper, lower = cast("Any", figure.subfigures(2, 1, height_ratios=[1.0, 1.1]))
    order, layers = upper.subfigures(1, 2)
    knobs, circle, matrix = lower.subfigures(1, 3, width_ratios=[1.3, 1.15, 1.0])
    _draw_order(order, history)
    _draw_layers(layers.subplots(), history)
    _draw_knobs(knobs, history)
    _draw_circle(circle.subplots(), history)
    _draw_coupling(matrix.subplots(), history)
    return figure


def comparison_figure(open_loop: RunHistory, supervised: RunHistory) -> Figure:
    """Draw the layers of one spec from one seed, open loop beside supervised, on common axes."""
    figure = _new_figure(8.2, 4.3)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, history, title in zip(axes, (open_loop, supervised), ("Open loop", "Supervised"), strict=True):
        _draw_layers(axis, history, with_legend=False)
        axis.set_title(title)
    axes[1].set_ylabel("")
    if len(supervised.layer_sizes) > MAX_NAMED_LAYERS:
        _add_layer_scale(axes[1].collections[0], axes, supervised)
    else:
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def write_run_figure(history: RunHistory, path: Path | str) -> Path:
    """Write the overview of a run as PNG or SVG, whichever the name ends with.

    Raises:
        InputError: another ending.
    """
    import matplotlib as mpl

    _require_ending(path)
    with mpl.rc_context(FIGURE_STYLE):
        return _save(overview_figure(history), Path(path))


def write_comparison_figure(open_loop: RunHistory, supervised: RunHistory, path: Path | str) -> Path:
    """Write open loop beside supervised as PNG or SVG, whichever the name ends with.

    Raises:
        InputError: another ending.
    """
    import matplotlib as mpl

    _require_ending(path)
    with mpl.rc_context(FIGURE_STYLE):
        return _save(comparison_figure(open_loop, supervised), Path(path))


def _new_figure(width: float, height: float) -> Figure:
    # Not through pyplot: nothing is registered globally and no display is looked for.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def _require_ending(path: Path | str) -> None:
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise InputError(f"a figure is written as .png or .svg, got {Path(path).name!r}")


def _save(figure: Figure, path: Path) -> Path:
    """Write a figure, whole or not at all."""
    import matplotlib as mpl

    ending = path.suffix.lower().removeprefix(".")
    metadata: dict[str, Any] = {"Software": None} if ending == "png" else {"Date": None}
    picture = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "spo"}):
        figure.savefig(picture, format=ending, dpi=130, facecolor="white", metadata=metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, picture.getvalue())
    return path


def _thinned(length: int, most: int = MAX_POINTS) -> slice:
    """Every n-th element, so that at most `most` are left."""
    return slice(None, None, max(1, math.ceil(length / most)))


def _layer_colours(count: int) -> list[Any]:
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    import matplotlib as mpl

    return [mpl.colormaps["turbo"](0.08 + 0.84 * k / (count - 1)) for k in range(count)]


def _label(history: RunHistory, position: int) -> str:
    name = history.layer_names[position]
    if position in history.good_positions:
        return f"{name} (good)"
    return f"{name} (bad)" if position in history.bad_positions else name


def _measure_label(history: RunHistory, position: int) -> str:
    """Name of a layer with what is drawn of it."""
    name = _label(history, position)
    return f"{name}: lock" if position in history.bad_positions else f"{name}: R"


def _draw_order(figure: Figure | SubFigure, history: RunHistory) -> None:
    curve, strip = figure.subplots(2, 1, sharex=True, height_ratios=[9, 1])
    part = _thinned(len(history.time_s))
    time_s = history.time_s[part]
    if history.good_positions:
        curve.plot(time_s, history.r_good[part], color=GOOD_COLOUR, label="good layers")
    if history.bad_positions:
        curve.plot(time_s, history.r_bad[part], color=BAD_COLOUR, label="bad layers, momentary", linewidth=0.9)
    curve.set_ylim(-0.02, 1.02)
    curve.set_ylabel("order parameter R")
    curve.set_title("R, layers taken together")
    curve.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.1)
    _draw_regimes(strip, history)


def _draw_regimes(strip: Axes, history: RunHistory) -> None:
    from matplotlib.patches import Patch

    codes = np.asarray(history.regime if history.is_supervised else ())
    seen = sorted({int(code) for code in codes})
    if len(codes):
        changes = np.flatnonzero(np.diff(codes)) + 1
        starts, ends = np.concatenate(([0], changes)), np.concatenate((changes, [len(codes)]))
        edges = np.concatenate((history.time_s[:1], history.time_s))  # a bar from the end of the step before
        for code in seen:
            bars = [
                (float(edges[a]), float(edges[b] - edges[a]))
                for a, b in zip(starts, ends, strict=True)
                if codes[a] == code
            ]
            strip.broken_barh(bars, (0.0, 1.0), facecolor=REGIME_COLOURS[code], linewidth=0.0)
    strip.set_yticks([])
    strip.grid(visible=False)
    if not history.is_supervised:
        strip.set_xlabel("time in s; the regime was not judged (open loop)")
        return
    strip.set_xlabel("time in s; strip: regime")
    strip.legend(
        handles=[Patch(color=REGIME_COLOURS[code], label=REGIME_NAMES[code]) for code in seen],
        loc="upper center",
        bbox_to_anchor=(0.5, -1.9),
        ncols=4,
        fontsize=8,
    )


def _draw_layers(axis: Axes, history: RunHistory, *, with_legend: bool = True) -> None:
    if history.layer_r.shape[1] > MAX_NAMED_LAYERS:
        _draw_layer_map(axis, history, with_scale=with_legend)
    else:
        _draw_layer_curves(axis, history)
        if with_legend:
            axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    axis.set_title("Each layer: R if good, lock if bad")
    axis.set_xlabel("time in s")


def _draw_layer_map(axis: Axes, history: RunHistory, *, with_scale: bool) -> None:
    part = _thinned(len(history.time_s), MAX_CELLS)
    rows = history.layer_r.copy()
    bad = list(history.bad_positions)
    rows[:, bad] = history.moving_lock()[:, bad]
    n_layers = rows.shape[1]
    image = axis.pcolormesh(
        history.time_s[part], np.arange(n_layers), rows[part].T, vmin=0.0, vmax=1.0, cmap="viridis", shading="nearest"
    )
    axis.set_ylim(n_layers - 0.5, -0.5)
    axis.set_yticks(range(n_layers), [_measure_label(history, k) for k in range(n_layers)], fontsize=8)
    axis.grid(visible=False)
    if with_scale:
        _add_layer_scale(image, axis, history)


def _add_layer_scale(image: Any, axes: Any, history: RunHistory) -> None:
    """Put a scale beside maps of layers, with target and ceiling as lines across it."""
    scale = _add_scale(image, axes, "R, or lock of bad layers")
    marks = (
        (history.good_positions, history.good_target, ":", "target"),
        (history.bad_positions, history.bad_ceiling, "--", "ceiling"),
    )
    for positions, value, style, name in marks:
        if positions:
            scale.ax.axhline(value, linestyle=style, color="white", linewidth=1.4, label=name)
            scale.ax.text(-0.25, value, name, fontsize=8, ha="right", va="center")


def _draw_layer_curves(axis: Axes, history: RunHistory) -> None:
    part = _thinned(len(history.time_s))
    time_s, lock = history.time_s, history.moving_lock()
    is_pale_named = False
    for k, colour in enumerate(_layer_colours(history.layer_r.shape[1])):
        label = _measure_label(history, k)
        if k not in history.bad_positions:
            axis.plot(time_s[part], history.layer_r[part, k], color=colour, label=label, linewidth=1.3)
            continue
        pale = "_nolegend_" if is_pale_named else "R of a bad layer, momentary"
        is_pale_named = True
        axis.plot(time_s[part], history.layer_r[part, k], color=colour, label=pale, linewidth=0.7, alpha=0.45, zorder=1)
        axis.plot(time_s[part], lock[part, k], color=colour, label=label, linewidth=2.4, zorder=3)
        axis.plot(time_s[-1:], lock[-1:, k], "o", color=colour, markersize=5, zorder=4, clip_on=False)
    if history.good_positions:
        axis.axhline(history.good_target, linestyle=":", color=SHARED_COLOUR, linewidth=1.2, label="target (good R)")
    if history.bad_positions:
        axis.axhline(
            history.bad_ceiling, linestyle="--", color=SHARED_COLOUR, linewidth=1.0, label="ceiling (bad lock)"
        )
    if len(time_s):
        start = time_s[max(0, len(time_s) - history.window_steps)]
        axis.axvspan(
            start, time_s[-1], color="#808080", alpha=0.12, linewidth=0.0, zorder=0, label="what the verdict judges"
        )
    axis.set_ylim(-0.02, 1.02)
    axis.set_ylabel("R or lock level")


def _draw_circle(axis: Axes, history: RunHistory) -> None:
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    axis.plot(np.cos(turn), np.sin(turn), color="#808080", linewidth=0.6)
    start = 0
    colours = _layer_colours(len(history.layer_sizes))
    for k, (size, colour) in enumerate(zip(history.layer_sizes, colours, strict=True)):
        phases = history.final_phases[start : start + size]
        start += size
        if not size:
            continue
        radius = 1.0 - 0.55 * k / max(1, len(history.layer_sizes))
        mean = np.exp(1j * phases).mean()
        marker = "s" if k in history.bad_positions else "o"
        axis.scatter(
            radius * np.cos(phases),
            radius * np.sin(phases),
            s=26,
            color=colour,
            marker=marker,
            label=_label(history, k),
        )
        axis.plot([0.0, radius * mean.real], [0.0, radius * mean.imag], color=colour, linewidth=1.6)
    axis.set_aspect("equal")
    axis.set_xlim(-1.15, 1.15)
    axis.set_ylim(-1.15, 1.15)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(visible=False)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.set_title("Phases at the end; a line: R of its layer")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _draw_coupling(axis: Axes, history: RunHistory) -> None:
    matrix: NDArray[np.float64] = history.final_knm
    reach = float(np.abs(matrix).max()) or 1.0
    is_signed = bool((matrix < 0.0).any())
    image = axis.pcolormesh(
        matrix, cmap="RdBu_r" if is_signed else "viridis", vmin=-reach if is_signed else 0.0, vmax=reach
    )
    axis.invert_yaxis()
    axis.set_aspect("equal")
    borders = np.cumsum(history.layer_sizes)
    for border in borders[:-1]:
        axis.axhline(border, color="white", linewidth=0.7)
        axis.axvline(border, color="white", linewidth=0.7)
    centres = borders - np.asarray(history.layer_sizes) / 2.0
    axis.set_yticks(centres, history.layer_names, fontsize=8)
    axis.set_xticks([])
    axis.grid(visible=False)
    axis.set_xlabel("sender")
    axis.set_ylabel("receiver")
    axis.set_title("Coupling at the end")
    _add_scale(image, axis, "K", shrink=0.75)


def _add_scale(image: Any, axes: Any, label: str, *, shrink: float = 1.0) -> Any:
    # As shapes, not as a bitmap: pages may not load images, not even from inside.
    scale: Any = image.figure.colorbar(image, ax=axes, label=label, shrink=shrink)
    scale.solids.set_rasterized(False)
    return scale


def _knobs_shown(history: RunHistory) -> list[str]:
    """Coupling and drive always, the lag where it was turned."""
    return ["K", "alpha", "zeta"] if np.any(history.alpha_layers != 0.0) else ["K", "zeta"]


def _draw_knobs(figure: Figure | SubFigure, history: RunHistory) -> None:
    names = _knobs_shown(history)
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    part = _thinned(len(history.time_s))
    time_s = history.time_s[part]
    # Of every knob: what its axis says, what layers share, and by how much each layer differs from that.
    usual_zeta = np.sort(history.zeta_layers, axis=1)[:, (history.zeta_layers.shape[1] - 1) // 2]
    shared: dict[str, tuple[str, NDArray[np.float64] | None, NDArray[np.float64]]] = {
        "K": ("gain on K", history.k_global, history.k_layers - 1.0),
        "alpha": ("lag alpha in rad", None, history.alpha_layers),
        "zeta": ("drive zeta", usual_zeta, history.zeta_layers - usual_zeta[:, None]),
    }
    own = {"K": history.k_layers, "alpha": history.alpha_layers, "zeta": history.zeta_layers}
    for name, axis in zip(names, panels, strict=True):
        label, common, excess = shared[name]
        if common is not None:
            words = "other layers" if name == "zeta" and np.any(excess) else "all layers"
            axis.plot(time_s, common[part], ":", color=SHARED_COLOUR, linewidth=1.8, label=f"{name}, {words}")
        for k, colour in enumerate(_layer_colours(own[name].shape[1])):
            if np.any(excess[:, k]):
                axis.plot(
                    time_s, own[name][part, k], color=colour, label=f"{name}, {_label(history, k)}", linewidth=1.3
                )
        # A knob at rest is a flat line above or on 0, not a line in a scale of rounding errors.
        axis.update_datalim([(time, least) for time in time_s[:1] for least in (0.0, 0.1)])
        axis.autoscale_view()
        axis.set_ylabel(label)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    panels[0].set_title("Knobs: what the supervisor turned")
    panels[-1].set_xlabel("time in s")
