"""The page: the answer first, then the evidence for it, then how to check it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import matplotlib
from matplotlib.figure import Figure as MatplotlibFigure

from chamber.cell.analysis import Group, compare_pairs, group, verdicts
from chamber.cell.config import Cell, Condition, DecisionRule, EgoPolicy
from chamber.cell.loading import CHECKPOINT_NAME
from chamber.cell.record import CellRecord
from chamber.cell.tables import three_tables
from chamber.cell_report.rewards import reward_figure
from chamber.cell_report.time_series import distance_figure, intervention_figure, slack_figure
from chamber.cell_report.trajectories import telling_episode, trajectory_figure
from chamber.envs.mpe_cooperative_push import DT
from ripieno.errors import InputError
from ripieno.report import FIGURE_STYLE, Figure, Section, Table, figure_to_svg, render_page

__all__ = ["headline", "render_cell_page"]

_NBSP = "\N{NO-BREAK SPACE}"

_CONDITIONS_IN_WORDS = {Condition.WITH_STACK: "With the safety stack", Condition.WITHOUT_STACK: "Without it"}

_SHORT = {Condition.WITH_STACK: "with", Condition.WITHOUT_STACK: "without"}

_PARTNERS_IN_WORDS = {
    "push_cooperative": "covers the landmark that the ego does not take",
    "push_stubborn": "goes for one landmark whoever stands in the way, and never yields",
    "push_pursuer": "drives at the ego",
}
"""What the built-in partners do, for the reader only: the ego and the stack are never told."""


def headline(record: CellRecord) -> str:
    """Say what came out, in one paragraph."""
    cell, outcomes = record.cell, record.outcomes
    parts: list[str] = []
    for condition in sorted(cell.conditions):
        total = group(outcomes, condition)
        parts.append(
            f"{_CONDITIONS_IN_WORDS[condition]}: {total.episodes_with_contact_at_fault} of {total.n_episodes} episodes "
            f"with a contact at the ego's fault, {total.episodes_with_contact} with any contact."
        )
    comparisons = compare_pairs(cell, outcomes)
    if comparisons:
        ci = comparisons[-1].difference
        parts.append(
            f"The stack changes the mean reward per step by {ci.mean:+.2f} m "
            f"(95 % interval {ci.mean_ci_low:+.2f} to {ci.mean_ci_high:+.2f})."
        )
    results = verdicts(cell, outcomes)
    n_holding = sum(verdict.holds for verdict in results)
    return " ".join([*parts, f"{n_holding} of {len(results)} preregistered claims hold."])


def render_cell_page(record: CellRecord, *, learning: Section | None = None) -> str:
    """Make the HTML page of a record; equal records give equal bytes.

    Args:
        record: what was run.
        learning: a section on an ego that learns, see `chamber.cell_report.training`.

    Raises:
        InputError: the run was interrupted; its numbers would not answer what was preregistered.
    """
    if len(record.outcomes) != record.cell.n_episodes:
        raise InputError(
            f"only a finished run has a page: this one has {len(record.outcomes)} of {record.cell.n_episodes} episodes"
        )
    sections = [
        _what_was_run(record.cell),
        _preregistered(record),
        _contacts(record),
        _trajectories(record),
        _distances(record),
    ]
    if Condition.WITH_STACK in record.cell.conditions:
        sections += [_interventions(record), _slack(record)]
    if set(record.cell.conditions) == set(Condition):
        sections.append(_rewards(record))
    sections.append(_safety_tables(record))
    if learning is not None:
        sections.append(learning)
    sections.append(_how_to_check(record, exception="" if learning is None else f", but in '{learning.heading}',"))
    return render_page(
        title="Does the safety stack keep a robot out of trouble beside strangers?",
        lead=headline(record),
        sections=sections,
        footer=f"Cell {record.cell.name}, root seed {record.cell.root_seed}, configuration {record.config_sha256}.",
    )


def _what_was_run(cell: Cell) -> Section:
    task = cell.task
    return Section(
        heading="What was run",
        text=f"""
{cell.question}

Two robots, discs of radius {task.robot_radius_m:g} m, move on a square of 2 m by 2 m and share one reward: minus the
sum of the distances from each of two landmarks to the nearest robot. An episode lasts {task.episode_length * DT:g} s
({task.episode_length} steps). The discs pass through each other: a contact is recorded, but slows nobody down and costs
no reward. {_ego_in_words(cell)} Its partner is a
black box: the ego and the safety stack see where it is and how fast it moves, never what it intends. The stack is told
one thing about it, that it is never faster than {cell.safety.partner_max_speed_m_s:.4g} m/s.

A contact is the ego's fault unless the ego is at rest when it begins. The ego obeys a new velocity command within one
step, so it can always stop in time; a partner that drives into a robot at rest has itself to blame. Contacts and fault
are decided from the recorded positions by a judge that shares no number with the stack.
""",
        tables=[
            Table(
                headers=["Partner", "What it does", "Registered as"],
                rows=[
                    [entry.label, _PARTNERS_IN_WORDS.get(entry.class_name, "a black box"), entry.class_name]
                    for entry in cell.partners
                ],
                caption=f"{cell.episodes} episodes per partner and condition, from the same start states everywhere.",
            )
        ],
    )


def _ego_in_words(cell: Cell) -> str:
    if cell.ego.policy is EgoPolicy.TRAINED:
        return (
            "The ego does what it has learned: the mean of the policy in the checkpoint with SHA-256 "
            f"{cell.ego.checkpoint_sha256}, a file of this folder."
        )
    choice = "farther from" if cell.ego.policy is EgoPolicy.FARTHEST_LANDMARK else "nearer to"
    return f"The ego drives straight to the landmark that is {choice} its start."


def _contacts(record: CellRecord) -> Section:
    cell = record.cell
    rows = [
        [partner or "all", _SHORT[condition], *_group_cells(group(record.outcomes, condition, partner))]
        for partner in [*(entry.label for entry in cell.partners), None]
        for condition in cell.conditions
    ]
    return Section(
        heading="Contacts, and whose fault they were",
        text=f"""
At fault: episodes with a contact at the ego's fault. Contact: episodes with any contact, also while the ego stood
still; no stack can keep a partner from driving into a robot at rest. Nearest: smallest distance of the centres, in m;
the discs touch at {cell.task.safety_distance_m:g}. Success: episodes that end with both landmarks covered. Reward: mean
per step, in m; 0 is best.
""",
        tables=[
            Table(
                ["Partner", "Stack", "Episodes", "At fault", "Contact", "Nearest", "Success", "Reward"],
                rows,
                caption="Without and with the stack, beside each partner and beside all.",
            )
        ],
    )


def _group_cells(total: Group) -> list[object]:
    return [
        total.n_episodes,
        total.episodes_with_contact_at_fault,
        total.episodes_with_contact,
        f"{total.closest_distance_m:.3f}",
        total.n_successes,
        f"{total.mean_reward:.3f}",
    ]


def _trajectories(record: CellRecord) -> Section:
    figures = [
        _figure(
            partial(trajectory_figure, record.cell, record.outcomes, entry.label),
            caption=f"Beside the {entry.label} partner, start state {telling_episode(record.outcomes, entry.label)}.",
            alt=f"Paths of the ego and the {entry.label} partner from one start state, one panel per condition.",
        )
        for entry in record.cell.partners
    ]
    return Section(
        heading="One episode, side by side",
        text="""
For each partner: the first start state that leads to a contact at the ego's fault in the first condition, or the
nearest approach when there is none. All panels of a figure begin in the same state. Dots are 0.1 s apart; the discs
show both robots at their closest approach.
""",
        figures=figures,
    )


def _distances(record: CellRecord) -> Section:
    return Section(
        heading="How near they came",
        figures=[
            _figure(
                partial(distance_figure, record.cell, record.outcomes),
                caption=(
                    "Smallest distance of the two centres in each step. Thin lines are single episodes, the band is "
                    "their range. Below the dashed line the discs overlap: a contact, whoever is to blame."
                ),
                alt="Distance of the robots over time, one row per partner, one column per condition.",
            )
        ],
    )


def _interventions(record: CellRecord) -> Section:
    return Section(
        heading="Where the ego's commands came from",
        figures=[
            _figure(
                partial(intervention_figure, record.cell, record.outcomes),
                caption=(
                    "With the stack: in how many episodes the command of a step was the nominal one, and in how many "
                    "the stack changed it, and how. An ego that a partner leans on stays in braking or fallback."
                ),
                alt="Number of episodes by source of the command over time, one panel per partner.",
            )
        ],
    )


def _slack(record: CellRecord) -> Section:
    return Section(
        heading="How cautious the stack became",
        text="""
The slack λ adapts to how well the partner was forecast: below zero the stack keeps more distance than the barrier alone
asks for, above zero less. It starts at zero in each episode, so that episodes do not depend on each other. Whatever its
value, the stack applies no command after which the ego could not stop in time.
""",
        figures=[
            _figure(
                partial(slack_figure, record.cell, record.outcomes),
                caption="Slack with the stack. Thin lines are single episodes, the band is their range.",
                alt="Slack over time, one panel per partner.",
            )
        ],
    )


def _rewards(record: CellRecord) -> Section:
    comparisons = compare_pairs(record.cell, record.outcomes)
    rows = [
        [
            comparison.partner or "all",
            f"{comparison.without_stack:.3f}",
            f"{comparison.with_stack:.3f}",
            f"{comparison.difference.mean:+.3f}",
            f"{comparison.difference.mean_ci_low:+.3f}{_NBSP}to{_NBSP}{comparison.difference.mean_ci_high:+.3f}",
        ]
        for comparison in comparisons
    ]
    return Section(
        heading="What safety costs",
        text=f"""
Episodes with and without the stack are paired by start state and partner. The intervals are 95 % cluster-bootstrap
intervals of the mean difference ({comparisons[0].difference.n_resamples} resamples; all episodes from one start state
are one cluster). Left of zero the stack costs reward.
""",
        figures=[
            _figure(
                partial(reward_figure, comparisons),
                caption="Mean paired difference and its 95 % interval.",
                alt="Mean difference of the reward with and without the stack, with intervals, per partner.",
            )
        ],
        tables=[
            Table(
                ["Partner", "Without stack (m)", "With stack (m)", "Difference (m)", "95 % interval (m)"],
                rows,
                caption="The numbers of the figure: mean reward per step.",
            )
        ],
    )


def _preregistered(record: CellRecord) -> Section:
    rows = [
        [
            verdict.rule.claim,
            f"{verdict.rule.number.words}, {verdict.rule.condition.words}, {verdict.rule.partner or 'all partners'}",
            _limits(verdict.rule),
            f"{verdict.value:g}",
            "holds" if verdict.holds else "does not hold",
        ]
        for verdict in verdicts(record.cell, record.outcomes)
    ]
    return Section(
        heading="What was preregistered, and the verdict",
        text=f"""
These rules are part of the configuration, which was hashed into run.json before the first episode
(SHA-256 {record.config_sha256}).
""",
        tables=[
            Table(
                ["Claim", "Number", "Rule", "Measured", "Verdict"],
                rows,
                caption="The claims. Contacts are counted one by one; an episode can have several.",
            )
        ],
    )


def _limits(rule: DecisionRule) -> str:
    limits = {"≥": rule.at_least, "≤": rule.at_most}
    return ", ".join(f"{sign}{_NBSP}{limit:g}" for sign, limit in limits.items() if limit is not None)


def _safety_tables(record: CellRecord) -> Section:
    report = three_tables(record.cell, record.outcomes)
    return Section(
        heading="The three-table safety report",
        text=f"The same tables as in three_tables.json and three_tables.md (content hash {report.content_hash()}).",
        tables=[
            Table(
                ["Assumption", "Description", "Violations", "Steps"],
                [[row.assumption, row.description, row.violations, row.n_steps] for row in report.table_1],
                caption=(
                    "Assumptions, and in how many steps each did not hold. The guarantee rests on A1 and A2; A3 is the "
                    "forecast that the slack learns from."
                ),
            ),
            Table(
                ["Predictor", "Conformal mode", "Episodes", "At fault", "Overrides"],
                [
                    [row.predictor, row.conformal_mode, row.n_episodes, row.violations, row.fallback_fires]
                    for row in report.table_2
                ],
                caption=(
                    "With the stack: the partner's motion is predicted (pred), the slack learns (Learn). At fault: "
                    "contacts at the ego's fault. Overrides: steps with braking, fallback or a stop at a wall."
                ),
            ),
            Table(
                ["Condition", "λ mean (m/s²)", "λ variance", "λ mean of the oracle"],
                [
                    [row.condition, f"{row.lambda_mean:.4g}", f"{row.lambda_var:.4g}", f"{row.oracle_lambda_mean:g}"]
                    for row in report.table_3
                ],
                caption="How much more cautious than an oracle that knows the partner's true motion and never learns.",
            ),
        ],
    )


def _how_to_check(record: CellRecord, *, exception: str) -> Section:
    ego = f" --checkpoint FOLDER/{CHECKPOINT_NAME}" if record.cell.ego.policy is EgoPolicy.TRAINED else ""
    return Section(
        heading="How to check this page",
        text=f"""
Run 'ripieno verify FOLDER' on the folder that holds this page. It checks every byte of every file, this one included,
against run.json and the hash chain in events.jsonl, and prints the digest of the run. The run printed the same digest
when it ended: with 'ripieno verify FOLDER --expect DIGEST' nobody can exchange the folder for another one.

Every number and figure here{exception} was computed from events.jsonl alone ({len(record.outcomes)} episodes, each
with every position and command of every step). To run the cell again, with the same events on any machine of the same
kind: 'ripieno demo push --cell FOLDER/cell.yaml{ego} --episodes {record.cell.episodes}'.
""",
    )


def _figure(make: Callable[[], MatplotlibFigure], *, caption: str, alt: str) -> Figure:
    with matplotlib.rc_context(FIGURE_STYLE):
        return Figure(svg=figure_to_svg(make()), caption=caption, alt=alt)
