"""Results as a table for other programs: every expected pair, and nothing where nothing was measured."""

import csv
import io

from click.testing import CliRunner

from agentinputlab.cli._app import agentinputlab
from workers.official_arenas.campaign.results import ArmResult, PairResult, PairStatus, csv_text


def test_a_pair_without_a_score_has_empty_cells():
    arm = ArmResult("terminal_success", 1.0, 1.0, 0.0, {"model_calls": 3}, "0" * 64, "user_stop")
    rows = [
        PairResult("s", "t", "0", PairStatus.PAIRED, "c", "success", arm, arm),
        PairResult("s", "t", "1", PairStatus.ARM_FAILED, "c", "success", failure="ValueError"),
    ]
    first, second = csv.DictReader(io.StringIO(csv_text(rows)))
    assert (first["baseline_score"], first["treatment_model_calls"], first["treatment_tool_calls"]) == ("1.0", "3", "")
    assert (second["status"], second["failure"], second["baseline_score"]) == ("arm_failed", "ValueError", "")


def test_the_command_gives_one_line_per_expected_pair(tmp_path):
    folder = str(tmp_path.resolve() / "run")
    words = ["retail", "run", "--treatment", "plan.plan_and_solve.ps_prompt", "--tasks", "2", "--out", folder]
    assert CliRunner().invoke(agentinputlab, words).exit_code == 0
    done = CliRunner().invoke(agentinputlab, ["campaign", "export", folder])
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["task"] for row in rows] == ["16", "17"]
    assert {row["status"] for row in rows} == {"paired_scored"}
