"""An ego that learns, on a page: its curve, the check of the slope, and what both mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl

from concerto.training._curve_figures import slope_figure
from concerto.training.learning_signal_check import CheckStatus, SlopeReport
from ripieno.report import FIGURE_STYLE, Figure, Section, Table, figure_to_svg

if TYPE_CHECKING:
    from concerto.training.protocols import RewardCurve

__all__ = ["ShortTraining", "learning_headline", "learning_section", "missing_section", "slope_table"]

_HEADING = "An ego that learns"
_ENDS = 50
"""Episodes at either end of the curve whose mean is told."""


@dataclass(frozen=True)
class ShortTraining:
    """A training run, and what is told of it.

    Attributes:
        config: name of the configuration that comes with the package.
        frames: how long it was trained.
        partner: registered name of the frozen partner.
        seed: of the run.
        curve: what it earned.
        report: of the check of the slope.
        checkpoint: name of the last checkpoint in the folder of the page.
        log: name of the log in that folder.
    """

    config: str
    frames: int
    partner: str
    seed: int
    curve: RewardCurve
    report: SlopeReport
    checkpoint: str
    log: str


def learning_headline(training: ShortTraining) -> str:
    """Say what came out, in one sentence."""
    report = training.report
    return (
        f"An ego that learned for {training.frames:,} frames: the check of its learning curve says "
        f"{report.status.name} (slope {report.slope:+.4f} per episode, p = {report.p_value:.1e})."
    )


def learning_section(training: ShortTraining) -> Section:
    """Make the section of a training run; equal runs give equal bytes."""
    rewards, report = list(training.curve.per_episode_ego_rewards), training.report
    with mpl.rc_context(FIGURE_STYLE):
        svg = figure_to_svg(slope_figure(training.curve, report))
    return Section(
        heading=_HEADING,
        text=f"""
An ego need not be written by hand. This one learned while the demo ran: PPO (proximal policy optimisation) for
{training.frames:,} frames, which is {len(rewards)} episodes of the same task, beside one frozen partner,
{training.partner}, with seed {training.seed} and without the safety stack. {_ends_in_words(rewards)}

{_meaning(report)} It is a trip-wire: it says whether anything was learned, not how well. This run is short; the
shipped configuration is longer: 'chamber-spike train --config {training.config} --check-guarantee'.

The checkpoint is {training.checkpoint} in the folder of this page, beside its sidecar, the log {training.log}, and the
curve. Put the ego beside a partner that it has never met with 'chamber play --checkpoint FOLDER/{training.checkpoint}
--partner push_pursuer --safety --video out.mp4', or run the cell of this page with it:
'ripieno demo push --checkpoint FOLDER/{training.checkpoint}'.
""",
        figures=[
            Figure(
                svg,
                "Every point is the sum of the ego's rewards in one training episode, in which it explores; 0 is best. "
                "The line is the least-squares fit that the check is about.",
                f"Learning curve of {len(rewards)} episodes; the check of its slope says {report.status.name}.",
            )
        ],
        tables=[slope_table(report)],
    )


def slope_table(report: SlopeReport) -> Table:
    """Make the table of the check of the slope."""
    return Table(
        ["Slope per episode", "p", "p must be below", "R²", "Episodes", "Check"],
        [
            [
                f"{report.slope:+.5f}",
                f"{report.p_value:.2e}",
                f"{report.alpha:g}",
                f"{report.r_squared:.3f}",
                report.n_episodes,
                report.status.name,
            ]
        ],
        caption="The check of the slope: a one-sided t-test of the line through the rewards per episode.",
    )


def missing_section(packages: Sequence[str]) -> Section:
    """Make the section for a machine on which nothing can be trained."""
    return Section(
        heading=_HEADING,
        text=f"""
Here the demo trains an ego for a few seconds and shows its learning curve with the check of the slope. That needs
{", ".join(packages)}, which this Python does not have. Install what training needs with: pip install
'ripieno-concerto[train]'. Everything else on this page is as it would be with it.
""",
    )


def _ends_in_words(rewards: Sequence[float]) -> str:
    if len(rewards) < 2 * _ENDS:
        return ""
    first, last = sum(rewards[:_ENDS]) / _ENDS, sum(rewards[-_ENDS:]) / _ENDS
    return f"Its first {_ENDS} episodes had a mean reward of {first:.1f}, its last {_ENDS} of {last:.1f}."


def _meaning(report: SlopeReport) -> str:
    """Say what the verdict of the check means."""
    if report.status is CheckStatus.PASSED:
        return (
            f"The check of the slope says PASSED: the reward per episode grows, and without any trend a slope this "
            f"steep would turn up in {100.0 * report.p_value:.2g} % of all runs."
        )
    if report.status is CheckStatus.FAILED:
        return (
            "The check of the slope says FAILED: the reward per episode does not grow, or chance could explain it "
            f"(p = {report.p_value:.1e})."
        )
    if report.status is CheckStatus.INSUFFICIENT_DATA:
        return (
            f"The check of the slope says INSUFFICIENT DATA: {report.n_episodes} episodes are too few to say anything."
        )
    return "The check of the slope says INVALID: the reward of an episode is not a finite number."
