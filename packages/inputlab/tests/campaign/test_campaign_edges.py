"""Campaigns in a process that outlives their folders, pairs that could not be started, scores that are no 0 or 1."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from campaign_lab import TREATMENT, calls, fixture_plan, invoke, lab_plan, run, statuses

from ripieno.verify import verify
from workers.official_arenas.campaign.page import render_campaign_page, verdict_sentence
from workers.official_arenas.campaign.plan import CampaignPlan
from workers.official_arenas.campaign.results import ArmResult, PairResult, PairStatus, analyse
from workers.official_arenas.campaign.run import run_campaign
from workers.official_arenas.protocol import OfficialArenaError

SOLVED = re.compile(r"\bsolved?\b")


@pytest.mark.parametrize(
    "second", [{"tasks": 3}, {"solve_treatment": ["0"]}, {"treatments": ["own.text:add_context=x"]}]
)
def test_a_campaign_in_the_place_of_a_removed_one_is_not_played_from_what_was_read_before(
    tmp_path: Path, second: dict[str, object]
) -> None:
    run(lab_plan(tmp_path), tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    plan = lab_plan(tmp_path, **second)  # type: ignore[arg-type]
    again = run_campaign(plan, tmp_path / "out", command=["another command"])
    assert set(statuses(again).values()) == {"paired_scored"}
    assert verify(tmp_path / "out", expect=again.digest).ok


def test_a_pair_that_could_not_be_started_is_started_by_the_next_call(tmp_path: Path) -> None:
    plan, out = lab_plan(tmp_path, tasks=3), tmp_path / "out"
    request = out / "requests" / "lab" / TREATMENT / "1.json"
    kept: list[bytes] = []

    def spoil(said: str) -> None:
        if said.startswith("Playing"):
            kept.append(request.read_bytes())
            request.write_bytes(b"{")

    with pytest.raises(OfficialArenaError, match=r"1 of 3 pairs could not be started; first: .* task 1: .*InputError$"):
        run(plan, out, note=spoil)
    assert not (out / "campaign.json").exists()
    for command in ("analyze", "export"):  # the pair that is still to be played has no outcome to speak of
        done = invoke("campaign", command, out)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "is not played to its end" in done.stderr
    request.write_bytes(kept[0])
    result = run(plan, out)
    assert statuses(result) == dict.fromkeys("012", "paired_scored")
    assert max(calls(tmp_path).values()) == 1
    assert verify(out, expect=result.digest).ok


def scored_rows(plan: CampaignPlan, *, wins: int, unscored: int) -> list[PairResult]:
    def side(score: float) -> ArmResult:
        return ArmResult("official_success", score, score, 0.0, {}, "0" * 64, "agent_stop")

    name = plan.treatments[0].name
    return [
        PairResult("scripted", name, str(task), PairStatus.PAIRED, baseline=side(13.0), treated=side(20.5))
        for task in range(wins)
    ] + [PairResult("scripted", name, str(wins + task), PairStatus.ARM_FAILED) for task in range(unscored)]


def test_an_arena_that_scores_otherwise_than_solved_or_not_is_not_said_to_solve(tmp_path: Path) -> None:
    result = run(fixture_plan(tasks=3), tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "scored higher than the original input on 0, and lower on 0; 3 came out the same" in result.headline
    assert not SOLVED.search(page + result.headline)
    assert "percentage points" not in page
    assert ">13<" in page  # the length of the query, as the arena gives it
    plan = fixture_plan(tasks=8)
    rows = scored_rows(plan, wins=8, unscored=0)
    (row,) = analyse(plan, rows)["comparisons"]
    assert row["verdict"] == "helps"
    said = verdict_sentence(row)
    assert "Difference +7.5 in official_success (no interval: every task differs by the same amount)" in said
    page = render_campaign_page(plan, rows, analyse(plan, rows), evidence={}, measured="")
    assert "It scores higher" in page
    assert "the changed input scored higher" in page
    assert not SOLVED.search(page)


@pytest.mark.parametrize(
    ("unscored", "verdict"), [(1, "helps"), (2, "depends on unresolved pairs"), (8, "depends on unresolved pairs")]
)
def test_scores_without_bounds_have_no_bounds_of_their_difference(unscored: int, verdict: str) -> None:
    plan = fixture_plan(tasks=16)
    rows = scored_rows(plan, wins=8, unscored=unscored)
    (row,) = analyse(plan, rows)["comparisons"]
    assert (row["difference_bounds"], row["verdict"]) == (None, verdict)
    page = render_campaign_page(plan, rows, analyse(plan, rows), evidence={}, measured="")
    assert "<td>unknown</td>" in page
    assert "Dashed" not in page


def test_the_other_name_of_a_command_shows_itself() -> None:
    said = invoke("campaign", "run-all", "--help").stdout
    assert "agentinputlab campaign run-all plan.yaml --out runs/campaign --execute" in said
    assert "campaign run plan" not in said
    assert "--executor" in said
