"""The page of a campaign: what was compared, what came out, and how to check it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from agentinputlab.analysis.paired import NO_INTERVAL, is_known_interval
from agentinputlab.analysis.power import required_pairs
from agentinputlab.contracts.errors import ValidationError
from ripieno.canonical import canonical_json
from ripieno.report import Figure, Section, Table, Verdict, figure_to_svg, render_page
from workers.official_arenas.campaign.figures import (
    MAX_DRAWN,
    difference_figure,
    kind_of,
    kinds_of,
    laid_out_for_page,
    task_figure,
)
from workers.official_arenas.campaign.plan import CampaignPlan, Member
from workers.official_arenas.campaign.results import PRIMARY_METRIC, ArmResult, PairResult, PairStatus, metric_of

__all__ = ["explanation", "headline", "render_campaign_page", "verdict_sentence"]

_TONE: Mapping[str, Literal["good", "bad"]] = {"helps": "good", "hurts": "bad"}
_WORD = re.compile(r"[a-z][a-z0-9_.]{0,31}")


def render_campaign_page(
    plan: CampaignPlan,
    rows: Sequence[PairResult],
    analysis: Mapping[str, Any],
    *,
    evidence: Mapping[str, str],
    measured: str,
    titles: Mapping[str, str] | None = None,
) -> str:
    """Give the whole page as HTML.

    Args:
        plan: what was to be measured.
        rows: one per expected pair.
        analysis: what `analyse` gave for them.
        evidence: label and digest or file name of what a reader can check.
        measured: one sentence that says who answered (scripted rules, or which models).
        titles: what a task is about, in the words of the arena's author; no user's words.
    """
    comparisons: list[Mapping[str, Any]] = list(analysis["comparisons"])
    first = comparisons[0]
    return render_page(
        title="Does the changed input help?",
        lead=_lead(plan, rows, measured),
        verdict=_page_verdict(comparisons),
        sections=[
            Section(
                "What came out",
                "\n\n".join(explanation(row, plan.alpha, comparisons=len(comparisons)) for row in comparisons),
                figures=[_difference_figure(comparisons), _task_figure(plan, rows)],
                tables=[_comparison_table(comparisons)],
            ),
            Section("Task by task", _HOW_TO_READ_PAIRS, tables=_pair_tables(plan, rows, titles or {})),
            Section("What it used", _USAGE_TEXT, tables=[_usage_table(comparisons)]),
            *_failure_section(rows),
            Section("How it was measured", _METHOD_TEXT, tables=[_treatment_table(plan), _slot_table(plan)]),
            Section(
                "Check it yourself",
                "Every number on this page is derived from receipts in this folder. ripieno verify FOLDER reads every "
                "byte again, derives the results again and compares them. A digest finds a change only if you noted it "
                "where nobody else can write.",
                tables=[Table(["What", "Value"], list(evidence.items()), "What to pin")],
            ),
        ],
        footer=f"Arena {plan.arena}, split {plan.split}, metric {first['metric']}. 95 % paired bootstrap interval "
        f"(seed {plan.bootstrap_seed}); exact two-sided sign test; Holm's correction over {len(comparisons)} comparison"
        f"{'' if len(comparisons) == 1 else 's'}; level {plan.alpha:g}.",
    )


def headline(analysis: Mapping[str, Any]) -> str:
    """Give the outcome, one line per comparison, for a terminal."""
    return "\n".join(verdict_sentence(row) for row in analysis["comparisons"])


def verdict_sentence(row: Mapping[str, Any]) -> str:
    """Say in a few sentences what one comparison found."""
    name = f"{row['treatment']} ({row['slot']})"
    if row["verdict"] == "nothing scored":
        return f"{name}: no pair could be scored, so nothing can be said."
    tasks = f"of {row['expected']} task{'' if row['expected'] == 1 else 's'}"
    if _solves(row):
        counts = (
            f"{tasks} it solved {row['wins']} that the original input did not, and lost {row['losses']} "
            f"that the original input solved; {row['ties']} came out the same"
        )
    else:
        counts = (
            f"{tasks} it scored higher than the original input on {row['wins']}, and lower on {row['losses']}; "
            f"{row['ties']} came out the same"
        )
    between = f"95 % {_interval(row, row['difference_interval'])}" if _has_interval(row) else NO_INTERVAL
    number = f"Difference {_difference(row)} ({between}), exact p {_p(row['p_value'])}"
    corrected = f", corrected {_p(row['p_value_holm'])}" if row["p_value_holm"] != row["p_value"] else ""
    return f"{name}: {counts}{_missing(row)}. {number}{corrected}. {_meaning(row)}"


_MEANING = {
    "helps": "The changed input helped.",
    "hurts": "The changed input did harm.",
    "not shown": "That is not enough to tell a difference.",
    "depends on unresolved pairs": "But with scores for the pairs that have none, it might be no difference at all.",
}


_SCORED_MEANING = {
    **_MEANING,
    "helps": "The changed input scored higher more often than chance explains.",
    "hurts": "The changed input scored lower more often than chance explains.",
}


def _meaning(row: Mapping[str, Any]) -> str:
    return (_MEANING if _solves(row) else _SCORED_MEANING)[row["verdict"]]


def _missing(row: Mapping[str, Any]) -> str:
    parts: list[str] = []
    if row["unresolved"]:
        parts.append(f"{row['unresolved']} {'has' if row['unresolved'] == 1 else 'have'} no score")
    if row["interventions_failed"]:
        parts.append(f"on {row['interventions_failed']} the intervention failed and the input stayed as it was")
    return "".join(f"; {part}" for part in parts)


def explanation(row: Mapping[str, Any], alpha: float, *, comparisons: int = 1) -> str:
    """Say what one comparison means to somebody who has never seen such a page.

    Args:
        row: the comparison.
        alpha: level of the plan.
        comparisons: how many the plan makes; Holm's correction covers all of them.
    """
    name, differing = row["treatment"], row["wins"] + row["losses"]
    if row["verdict"] == "nothing scored":
        return f"{name}: no pair could be scored, so nothing can be said."
    if not differing:
        return (
            f"{name}: no task came out differently{_missing(row)}. "
            f"Tasks on which both sides agree cannot tell them apart.{_why_no_interval(row)}"
        )
    chance = (
        f"{name}: {differing} of {row['expected']} tasks came out differently, {row['wins']} in favour of the changed "
        f"input{_missing(row)}. If the change made no difference, a split at least this uneven would happen by chance "
        f"in {_share(row['p_value'])} of such experiments{_corrected(row, comparisons)}; the level set beforehand is "
        f"{_share(alpha)}"
    )
    needed = _tasks_needed(row, alpha / comparisons)
    return f"{chance}. {_meaning(row)}{_why_no_interval(row)}{_why_not_the_interval(row)}{needed}"


def _corrected(row: Mapping[str, Any], comparisons: int) -> str:
    if row["p_value_holm"] == row["p_value"]:
        return ""
    return f", which counts as {_share(row['p_value_holm'])} because {comparisons} comparisons were made"


def _has_interval(row: Mapping[str, Any]) -> bool:
    return is_known_interval(row["difference_interval"])


def _why_no_interval(row: Mapping[str, Any]) -> str:
    if _has_interval(row):
        return ""
    return (
        " There is no interval: it is found by drawing tasks again and again, and where every task differs by the same "
        "amount every draw gives the same mean, however few tasks there are."
    )


def _why_not_the_interval(row: Mapping[str, Any]) -> str:
    low, high = row["difference_interval"]
    if row["verdict"] != "not shown" or low <= 0.0 <= high or not _has_interval(row):
        return ""
    return " The 95 % interval leaves zero out, but it is rough with few differing tasks: the exact test decides."


def _tasks_needed(row: Mapping[str, Any], level: float) -> str:
    """Say how many tasks would do, at the level that is left for one comparison."""
    if row["verdict"] != "not shown" or row["wins"] == row["losses"]:
        return ""
    try:
        helps, hurts = row["wins"] / row["expected"], row["losses"] / row["expected"]
        needed = required_pairs(helps=helps, hurts=hurts, alpha=level)
    except ValidationError:
        return ""
    return (
        f" If these shares are what they seem, an experiment with {needed} tasks would show the difference "
        "four times out of five."
    )


def _page_verdict(comparisons: Sequence[Mapping[str, Any]]) -> Verdict:
    verdicts = [row["verdict"] for row in comparisons]
    word = verdicts[0] if len(set(verdicts)) == 1 else "mixed"
    unresolved = sum(row["unresolved"] for row in comparisons)
    tone = "warning" if unresolved or word not in _TONE else _TONE[word]
    words = {"helps": "It helps", "hurts": "It hurts", "not shown": "No difference shown", "mixed": "Mixed"}
    if not all(map(_solves, comparisons)):
        words |= {"helps": "It scores higher", "hurts": "It scores lower"}
    if len(comparisons) == 1:
        return Verdict(tone, words.get(word, word.capitalize()), verdict_sentence(comparisons[0]))
    counted = ", ".join(
        f"{verdicts.count(kind)} × {str(words.get(kind, kind)).lower()}" for kind in dict.fromkeys(verdicts)
    )
    return Verdict(tone, words.get(word, word.capitalize()), f"{len(comparisons)} comparisons: {counted}.")


def _lead(plan: CampaignPlan, rows: Sequence[PairResult], measured: str) -> str:
    tasks = len({row.task_id for row in rows})
    names = ", ".join(treatment.name for treatment in plan.treatments)
    return (
        f"An agent played {tasks} tasks of the arena {plan.arena} twice from the very same first message of the user: "
        f"once with the input as it was, once with the input changed by {names}. Each side was played once and never "
        f"repeated. {measured}"
    )


_HOW_TO_READ_PAIRS = (
    "One row is one task, played twice from the same start. Only rows where the two sides differ tell them apart. "
    "A row without a score stays in the denominator of every share on this page. The column Intervention says whether "
    "the change could be made, not whether it helped; user_stop and agent_stop say who ended the conversation."
)
_USAGE_TEXT = (
    "Sums over scored pairs. The changed side includes what the intervention itself used. The simulated user and the "
    "judge are part of the arena and not counted here."
)
_METHOD_TEXT = (
    "Before anything ran, a plan fixed the tasks, the changes and the test. The user's first message of a task was "
    "then recorded once; both sides start from that record. A slot that was started is never started again: a crash, "
    "a timeout or a wrong answer of a model stays what it was. One limit on calls and tokens covers the intervention "
    "and the agent together, so a change cannot win by spending more than the original could."
)


def _comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> Table:
    """One row per comparison; columns that would say the same in every row are left out."""
    solves = all(map(_solves, comparisons))
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "Changed by": lambda row: f"{row['treatment']} ({row['slot']})",
        "Tasks": lambda row: row["expected"],
        "Won": lambda row: row["wins"],
        "Lost": lambda row: row["losses"],
        "Same": lambda row: row["ties"],
        "No score": lambda row: row["unresolved"],
        "Points" if solves else "Mean": lambda row: _amount(row, row["difference"]) if row["scored"] else "none",
        "95 %": lambda row: (
            _interval(row, row["difference_interval"]) if row["scored"] and _has_interval(row) else "none"
        ),
        "If unscored were lost / won": lambda row: _interval(row, row["difference_bounds"]),
        "Exact p": lambda row: _p(row["p_value"]),
        "Corrected p": lambda row: _p(row["p_value_holm"]),
        "Verdict": lambda row: row["verdict"],
    }
    if not any(row["unresolved"] for row in comparisons):
        del columns["No score"], columns["If unscored were lost / won"]
    if len(comparisons) == 1:
        del columns["Corrected p"]
    rows = [[value(row) for value in columns.values()] for row in comparisons]
    unit = "points are percentage points" if solves else f"mean is the mean difference in {comparisons[0]['metric']}"
    return Table(list(columns), rows, f"Won and lost are seen from the changed input; {unit}")


def _pair_tables(plan: CampaignPlan, rows: Sequence[PairResult], titles: Mapping[str, str]) -> list[Table]:
    tables: list[Table] = []
    for slot in plan.slots:
        for treatment in plan.treatments:
            pairs = [row for row in rows if (row.slot, row.treatment) == (slot.name, treatment.name)]
            tables.append(
                Table(
                    ["Task", "Original", "Changed", "Outcome", "Intervention", "Calls", "Ended by"],
                    [
                        [
                            f"{row.task_id} {titles.get(row.task_id, '')}".strip(),
                            _outcome(row.baseline),
                            _outcome(row.treated),
                            kind_of(row)[0] if row.status is PairStatus.PAIRED else row.status.meaning,
                            row.intervention_status or "",
                            _both(row, _calls),
                            _both(row, _ending),
                        ]
                        for row in pairs
                    ],
                    f"{treatment.name}, slot {slot.name}: calls and endings are original / changed",
                )
            )
    return tables


def _usage_table(comparisons: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[object]] = []
    for row in comparisons:
        for role, label in (("baseline", "original"), ("treatment", "changed")):
            used = row["usage"][role]
            rows.append(
                [
                    f"{row['treatment']} ({row['slot']})",
                    label,
                    used.get("model_calls", 0),
                    used.get("tool_calls", 0),
                    used.get("input_tokens", 0),
                    used.get("output_tokens", 0),
                    used["hard_stops"],
                    "no price given" if used["priced_cost"] is None else f"{used['priced_cost']:.4f}",
                ]
            )
    headers = [
        "Changed by",
        "Side",
        "Model calls",
        "Tool calls",
        "Tokens read",
        "Tokens written",
        "Cut off by a limit",
        "Cost",
    ]
    return Table(headers, rows, "Usage per side")


_INTERVENTION_FAILED = "The intervention failed; the changed side was played with the unchanged input."


def _failure_section(rows: Sequence[PairResult]) -> list[Section]:
    failed = [row for row in rows if row.status is not PairStatus.PAIRED or row.intervention_status == "failed"]
    if not failed:
        return []
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for row in failed:
        what = row.status.meaning if row.status is not PairStatus.PAIRED else _INTERVENTION_FAILED
        grouped.setdefault((f"{row.treatment} ({row.slot})", what, row.failure or ""), []).append(row.task_id)
    table = Table(
        ["Changed by", "What happened", "Kind of error", "Tasks"],
        [[*group, ", ".join(tasks)] for group, tasks in grouped.items()],
        "Nothing here was tried again",
    )
    return [Section("What failed", "Failures are outcomes. They stay in the denominator.", tables=[table])]


def _treatment_table(plan: CampaignPlan) -> Table:
    rows = [
        [
            treatment.name,
            number,
            member.release,
            ", ".join(_parameter(member, name) for name in member.parameters) or "defaults",
        ]
        for treatment in plan.treatments
        for number, member in enumerate(treatment.members, start=1)
    ]
    return Table(["Changed by", "Step", "Release", "Parameters"], rows, "What the changes are made of")


def _slot_table(plan: CampaignPlan) -> Table:
    rows = [
        [
            slot.name,
            slot.agent.model,
            ", ".join(f"{name}={value}" for name, value in slot.agent.args.items() if _is_number(value)) or "none",
            _ASKED[slot.intervention_model.kind],
            f"{plan.budget_multiplier:g} x the standard",
        ]
        for slot in plan.slots
    ]
    headers = ["Slot", "Model, as the plan names it", "Settings", "Who answers interventions", "Budget of a side"]
    return Table(headers, rows, "Who played")


_ASKED = {"none": "nobody", "agent": "the same model", "rules": "a file of rules", "arena": "the arena's rules"}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _parameter(member: Member, name: str) -> str:
    """Show a number or a word; of a text, which may be a prompt that is nobody else's business, size and hash."""
    value: object = member.parameters[name]
    if isinstance(value, (bool, int, float)) or value is None:
        return f"{name}={value}"
    if isinstance(value, str) and _WORD.fullmatch(value) and member.release != "own.text":
        return f"{name}={value}"
    text = value if isinstance(value, str) else canonical_json(value).decode()
    return f"{name}=({len(text)} characters, SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:12]}…)"


def _difference_figure(comparisons: Sequence[Mapping[str, Any]]) -> Figure:
    return Figure(
        figure_to_svg(laid_out_for_page(difference_figure(comparisons))),
        f"Difference in {'solved tasks' if all(map(_solves, comparisons)) else comparisons[0]['metric']}, "
        "with its 95 % interval. A bar that crosses zero does not show a difference; "
        "whether one that does not cross it does, the exact test decides."
        + (
            " A point without a bar has no interval: every task differs by the same amount."
            if any(row["scored"] and not _has_interval(row) for row in comparisons)
            else ""
        )
        + (" Dashed: where unscored pairs could move it." if any(map(_is_dashed, comparisons)) else ""),
        "; ".join(
            f"{row['treatment']}: {_difference(row) if row['scored'] else 'nothing scored'}" for row in comparisons
        ),
    )


def _is_dashed(row: Mapping[str, Any]) -> bool:
    return bool(row["unresolved"]) and row["difference_bounds"] is not None


def _task_figure(plan: CampaignPlan, rows: Sequence[PairResult]) -> Figure:
    kinds = [kind_of(row)[0] for row in rows]
    metric = metric_of(rows)
    counted = "; ".join(f"{kinds.count(kind)} {kind}" for kind, _, _ in kinds_of(metric) if kind in kinds)
    marks = (
        "left mark original, right mark changed; filled means solved"
        if metric == PRIMARY_METRIC
        else f"which side had the higher {metric}"
    )
    tasks = len({row.task_id for row in rows})
    cut = f" The first {MAX_DRAWN} of {tasks} tasks are drawn." if tasks > MAX_DRAWN else ""
    return Figure(
        figure_to_svg(laid_out_for_page(task_figure(plan, rows))),
        f"Every task: {marks}.{cut}",
        counted,
    )


def _calls(arm: ArmResult) -> str:
    return f"{arm.usage.get('model_calls', 0):g}"


def _ending(arm: ArmResult) -> str:
    return arm.termination


def _both(row: PairResult, value: Callable[[ArmResult], str]) -> str:
    if row.baseline is None or row.treated is None:
        return ""
    return f"{value(row.baseline)} / {value(row.treated)}"


def _outcome(arm: ArmResult | None) -> str:
    if arm is None:
        return "no score"
    if arm.metric != PRIMARY_METRIC:
        return f"{arm.score:.6g}"
    return "solved" if arm.score > 0.0 else "not solved"


def _solves(row: Mapping[str, Any]) -> bool:
    """Whether the score of a comparison says that a task was solved, or not."""
    return row["metric"] == PRIMARY_METRIC


def _amount(row: Mapping[str, Any], value: float) -> str:
    return f"{100.0 * value:+.1f}" if _solves(row) else f"{value:+.4g}"


def _difference(row: Mapping[str, Any]) -> str:
    return f"{_amount(row, row['difference'])} {'points' if _solves(row) else 'in ' + str(row['metric'])}"


def _share(value: float) -> str:
    return f"{100.0 * value:.3g} %"


def _interval(row: Mapping[str, Any], bounds: Sequence[float] | None) -> str:
    return "unknown" if bounds is None else f"{_amount(row, bounds[0])} to {_amount(row, bounds[1])}"


def _p(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
