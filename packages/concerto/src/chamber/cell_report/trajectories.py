"""The same episode without and with the stack, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from chamber.cell.config import Cell
from chamber.cell.outcome import EpisodeOutcome
from chamber.cell_report.style import EGO_COLOUR, FAULT_COLOUR, INK, LANDMARK_COLOUR, PAGE_WIDTH, PARTNER_COLOUR
from chamber.envs.mpe_cooperative_push import POSITION_BOUND

__all__ = ["telling_episode", "trajectory_figure"]


def telling_episode(outcomes: Sequence[EpisodeOutcome], partner: str) -> int:
    """Choose the start state to show: the first with a contact at fault, else the one with the nearest approach.

    The rule looks at the first condition that was run, so it cannot be tuned to flatter the other.
    """
    mine = [outcome for outcome in outcomes if outcome.trace.partner == partner]
    first = [outcome for outcome in mine if outcome.trace.condition is mine[0].trace.condition]
    at_fault = [outcome for outcome in first if outcome.n_at_fault]
    chosen = at_fault[0] if at_fault else min(first, key=lambda outcome: outcome.closest.distance_m)
    return chosen.trace.initial_state_seed


def trajectory_figure(cell: Cell, outcomes: Sequence[EpisodeOutcome], partner: str) -> Figure:
    """Draw one start state of one partner, one panel per condition, discs at the closest approach."""
    start = telling_episode(outcomes, partner)
    shown = {
        outcome.trace.condition: outcome
        for outcome in outcomes
        if outcome.trace.partner == partner and outcome.trace.initial_state_seed == start
    }
    figure = Figure(figsize=(PAGE_WIDTH, 4.3))
    panels = figure.subplots(1, len(shown), squeeze=False, sharex=True, sharey=True)[0]
    for axes, condition in zip(panels, cell.conditions, strict=True):
        axes.set(title=f"{condition.words.capitalize()}: {_what_happened(shown[condition])}", xlabel="x (m)")
        _draw_episode(axes, shown[condition], radius=cell.task.robot_radius_m)
    panels[0].set_ylabel("y (m)")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=3)
    return figure


def _draw_episode(axes: Axes, outcome: EpisodeOutcome, *, radius: float) -> None:
    trace, closest = outcome.trace, outcome.closest
    axes.scatter(*trace.landmarks_m.T, marker="*", s=120, color=LANDMARK_COLOUR, zorder=1, linewidths=0)
    for path, disc, colour in (
        (trace.partner_positions_m, closest.partner, PARTNER_COLOUR),
        (trace.ego_positions_m, closest.ego, EGO_COLOUR),
    ):
        axes.plot(*path.T, color=colour, marker=".", markersize=3.5, zorder=3)
        axes.plot(*path[0], marker="o", markersize=7, markerfacecolor="none", color=colour, zorder=3)
        centre = (float(disc[0]), float(disc[1]))
        axes.add_patch(Circle(centre, radius, color=colour, alpha=0.35, zorder=2, linewidth=0))
    for contact in outcome.contacts:
        if contact.at_fault:
            where = trace.ego_positions_m[contact.step : contact.step + 2].mean(axis=0)
            axes.plot(*where, marker="x", markersize=11, markeredgewidth=2.6, color=FAULT_COLOUR, zorder=4)
    reach = POSITION_BOUND + radius
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])


def _what_happened(outcome: EpisodeOutcome) -> str:
    if outcome.n_at_fault:
        return "ego at fault"
    if outcome.contacts:
        return "hit while at rest"
    return "no contact"


def _legend() -> list[Line2D]:
    line = {"linestyle": "-"}
    marks: list[tuple[str, str, dict[str, Any]]] = [
        ("ego", EGO_COLOUR, line),
        ("partner", PARTNER_COLOUR, line),
        ("start", INK, {"marker": "o", "markersize": 7, "markerfacecolor": "none"}),
        ("landmark", LANDMARK_COLOUR, {"marker": "*", "markersize": 10}),
        ("disc, closest approach", INK, {"marker": "o", "markersize": 11, "alpha": 0.35}),
        ("contact at the ego's fault", FAULT_COLOUR, {"marker": "x", "markersize": 9, "markeredgewidth": 2.4}),
    ]
    handles: list[Line2D] = []
    for label, colour, style in marks:
        handle = Line2D([], [], label=label, color=colour, linestyle="none")
        handle.update(style)
        handles.append(handle)
    return handles
