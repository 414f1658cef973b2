"""The two pictures of a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentinputlab.analysis.paired import is_known_interval
from ripieno.report import FIGURE_STYLE, PALETTE
from workers.official_arenas.campaign.plan import CampaignPlan
from workers.official_arenas.campaign.results import PRIMARY_METRIC, PairResult, PairStatus, metric_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MAX_DRAWN", "difference_figure", "kind_of", "kinds_of", "laid_out_for_page", "task_figure"]

_NO_SCORE = ("no score", "#f0f0f0", "?")
_SOLVED = (
    ("both solved it", PALETTE[6], "●●"),
    ("only the changed input solved it", PALETTE[2], "○●"),
    ("only the original input solved it", PALETTE[4], "●○"),
    ("neither solved it", "#c9c9c9", "○○"),
    _NO_SCORE,
)
_SCORED = (
    ("the changed input scored higher", PALETTE[2], "▲"),
    ("the original input scored higher", PALETTE[4], "▼"),
    ("both scored the same", "#c9c9c9", "="),
    _NO_SCORE,
)
MAX_DRAWN = 60
"""More tasks than this do not fit side by side; the table has all of them."""
SVG_DPI = 72.0
"""The resolution at which SVG is laid out, whatever a figure is made for."""


def kinds_of(metric: str) -> tuple[tuple[str, str, str], ...]:
    """Give what a pair can be: words, colour, and marks.

    Where a task is solved or not, the marks are of original and changed side, and filled means solved.
    """
    return _SOLVED if metric == PRIMARY_METRIC else _SCORED


def kind_of(row: PairResult) -> tuple[str, str, str]:
    """Give the entry of `kinds_of` that a pair is."""
    if row.status is not PairStatus.PAIRED or row.baseline is None or row.treated is None:
        return _NO_SCORE
    before, after = row.baseline.score, row.treated.score
    if row.baseline.metric == PRIMARY_METRIC:
        return _SOLVED[2 * (after <= 0.0) + (before <= 0.0)]
    return _SCORED[2 if before == after else int(before > after)]


def difference_figure(comparisons: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the difference of every comparison with its interval, and dashed where unscored pairs could move it.

    A point without a bar has no interval, see `is_known_interval`.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    solves = all(row["metric"] == PRIMARY_METRIC for row in comparisons)
    scale = 100.0 if solves else 1.0
    with rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(7.2, 1.1 + 0.5 * len(comparisons)))
        axes = figure.subplots()
        for place, row in enumerate(comparisons):
            low, high = (scale * bound for bound in row["difference_interval"])
            bounds = [scale * bound for bound in row["difference_bounds"] or ()]
            if row["unresolved"] and bounds:
                axes.plot(bounds, [place, place], color=PALETTE[6], linewidth=1.0, linestyle=(0, (2, 2)))
            if row["scored"]:
                if is_known_interval(row["difference_interval"]):
                    axes.plot([low, high], [place, place], color=PALETTE[0], linewidth=3.0, solid_capstyle="butt")
                axes.plot([scale * row["difference"]], [place], "o", color=PALETTE[0], markersize=7)
        axes.axvline(0.0, color="#000000", linewidth=0.8)
        axes.set_yticks(
            range(len(comparisons)), [_shortened(f"{row['treatment']} ({row['slot']})") for row in comparisons]
        )
        axes.set_ylim(len(comparisons) - 0.5, -0.5)
        bounds = [
            scale * bound
            for row in comparisons
            for bound in (*row["difference_interval"], *(row["difference_bounds"] or ()))
        ]
        limit = max(25.0 if solves else 0.0, *map(abs, bounds)) or 1.0
        axes.set_xlim(-1.05 * limit, 1.05 * limit)
        what = "solved tasks, points" if solves else comparisons[0]["metric"]
        axes.set_xlabel(f"difference in {what} (right: changed is {'better' if solves else 'higher'})")
    return figure


def task_figure(plan: CampaignPlan, rows: Sequence[PairResult]) -> Figure:
    """Draw every task of every comparison, coloured and marked by what its pair is (`kinds_of`)."""
    from matplotlib import rc_context
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    tasks = list(dict.fromkeys(row.task_id for row in rows))[:MAX_DRAWN]
    lines = [(slot.name, treatment.name) for slot in plan.slots for treatment in plan.treatments]
    by_place = {(row.slot, row.treatment, row.task_id): row for row in rows}
    kinds = kinds_of(metric_of(rows))
    names = [kind[0] for kind in kinds]
    grid = [
        [
            names.index(kind_of(by_place[*line, task])[0]) if (*line, task) in by_place else len(kinds) - 1
            for task in tasks
        ]
        for line in lines
    ]
    with rc_context({**FIGURE_STYLE, "axes.grid": False}):
        figure = Figure(figsize=(7.2, 1.5 + 0.42 * len(lines)))
        axes = figure.subplots()
        axes.pcolormesh(
            grid,
            cmap=ListedColormap([kind[1] for kind in kinds]),
            vmin=-0.5,
            vmax=len(kinds) - 0.5,
            edgecolors="#808080",
            linewidth=0.5,
        )
        for vertical, line in enumerate(grid):
            for horizontal, kind in enumerate(line):
                axes.text(
                    horizontal + 0.5,
                    vertical + 0.5,
                    kinds[kind][2],
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="#000001",
                    in_layout=False,  # inside a cell of the grid
                )
        axes.set_xticks([place + 0.5 for place in range(len(tasks))], tasks, rotation=90 if len(tasks) > 20 else 0)
        axes.set_yticks([place + 0.5 for place in range(len(lines))], [_shortened(f"{t} ({s})") for s, t in lines])
        axes.set_ylim(len(lines), 0)
        axes.set_xlabel("task")
        used = sorted({kind for line in grid for kind in line})
        figure.legend(
            handles=[Patch(facecolor=kinds[kind][1], edgecolor="#808080", label=kinds[kind][0]) for kind in used],
            loc="outside upper center",
            ncols=min(len(used), 3),
        )
    return figure


def laid_out_for_page(figure: Figure) -> Figure:
    """Place everything of a figure now, as SVG has it: one that is still to be laid out is drawn twice to be written.

    Args:
        figure: is changed, and given back.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    figure.dpi = SVG_DPI
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    with rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        figure.set_layout_engine(None)
    return figure


def _shortened(text: str, limit: int = 46) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
