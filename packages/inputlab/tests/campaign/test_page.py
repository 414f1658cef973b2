"""The page says nothing that its own numbers contradict."""

from __future__ import annotations

from typing import Any

import pytest

from agentinputlab.analysis import required_pairs
from workers.official_arenas.campaign.page import explanation, render_campaign_page, verdict_sentence
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.results import ArmResult, PairResult, PairStatus, analyse

TWO = ("plan.plan_and_solve.ps_prompt", "plan.plan_and_solve.ps_plus_prompt")


def plan_of(*treatments: str, **fields: Any) -> CampaignPlan:
    return parse_plan({"treatments": list(treatments), **fields})


def rows_of(plan: CampaignPlan, *, wins: int, losses: int = 0, ties: int = 0, unscored: int = 0) -> list[PairResult]:
    """The same outcomes for every treatment of the plan."""
    scores = [(0.0, 1.0)] * wins + [(1.0, 0.0)] * losses + [(1.0, 1.0)] * ties

    def side(success: float) -> ArmResult:
        return ArmResult("terminal_success", success, success, 0.0, {}, "0" * 64, "user_stop")

    rows: list[PairResult] = []
    for treatment in plan.treatments:
        name = treatment.name
        for number, (before, after) in enumerate(scores):
            paired = PairStatus.PAIRED
            rows.append(PairResult("scripted", name, str(number), paired, baseline=side(before), treated=side(after)))
        rows.extend(
            PairResult("scripted", name, str(number), PairStatus.ARM_FAILED, failure="ValueError")
            for number in range(len(scores), len(scores) + unscored)
        )
    return rows


def page_of(plan: CampaignPlan, rows: list[PairResult]) -> str:
    return render_campaign_page(plan, rows, analyse(plan, rows), evidence={}, measured="")


@pytest.mark.parametrize(("treatments", "alpha"), [(TWO, 0.05), (TWO[:1], 0.01)])
def test_tasks_needed_are_for_the_level_that_decides(treatments: tuple[str, ...], alpha: float) -> None:
    plan = plan_of(*treatments, alpha=alpha)
    page = page_of(plan, rows_of(plan, wins=3, losses=1, ties=4))
    needed = required_pairs(helps=3 / 8, hurts=1 / 8, alpha=alpha / len(treatments))
    assert needed > required_pairs(helps=3 / 8, hurts=1 / 8)
    assert page.count(f"an experiment with {needed} tasks would show") == len(treatments)


def test_a_correction_that_turns_the_verdict_is_explained() -> None:
    plan = plan_of(*TWO)
    (row, _) = analyse(plan, rows_of(plan, wins=6, ties=2))["comparisons"]
    text = explanation(row, plan.alpha, comparisons=2)
    assert "in 3.12 % of such experiments, which counts as 6.25 % because 2 comparisons were made" in text
    assert "not enough" in text


def test_an_interval_without_zero_that_shows_nothing_is_explained() -> None:
    plan = plan_of(TWO[0])
    (row,) = analyse(plan, rows_of(plan, wins=4, ties=4))["comparisons"]
    assert row["difference_interval"][0] > 0.0
    assert row["verdict"] == "not shown"
    assert "the exact test decides" in explanation(row, plan.alpha)
    (row,) = analyse(plan, rows_of(plan, wins=3, losses=1, ties=4))["comparisons"]
    assert "the exact test decides" not in explanation(row, plan.alpha)


def test_where_nothing_was_scored_no_number_is_shown() -> None:
    plan = plan_of(TWO[0])
    page = page_of(plan, rows_of(plan, wins=0, unscored=2))
    assert "+0.0" not in page
    assert "A side ended with an error and has no score" in page


def test_the_page_names_the_settings_and_no_address() -> None:
    args = {"api_base": "http://127.0.0.1:8123/v1", "max_tokens": 77, "temperature": 0, "seed": 17}
    slot = {
        "name": "scripted",
        "agent": {"backend": "openai", "model": "little-7b", "args": args},
        "intervention_model": {"kind": "agent"},
    }
    plan = plan_of(TWO[0], slots=[slot], budget_multiplier=2.0)
    page = page_of(plan, rows_of(plan, wins=1))
    for words in ("little-7b", "max_tokens=77", "temperature=0", "seed=17", "the same model", "2 x the standard"):
        assert words in page
    assert "8123" not in page


def test_one_is_not_counted_as_many() -> None:
    plan = plan_of(TWO[0])
    (row,) = analyse(plan, rows_of(plan, wins=1, unscored=1))["comparisons"]
    assert "1 has no score" in verdict_sentence(row)
    (row,) = analyse(plan, rows_of(plan, wins=1))["comparisons"]
    assert "of 1 task it solved" in verdict_sentence(row)
