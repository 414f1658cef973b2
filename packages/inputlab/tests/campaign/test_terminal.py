"""What a person reads on the terminal, and what the record says that was typed."""

from __future__ import annotations

import json
from pathlib import Path

from campaign_lab import command_line, fixture_plan, invoke, lab_plan, write_plan


def test_the_command_on_record_is_the_one_that_was_typed(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.yaml", fixture_plan(tasks=1))
    for number, words in enumerate(
        (
            ["campaign", "run", str(plan), "--execute", "--out"],
            ["retail", "run", "--arena", "fixture", "--tasks", "1", "--append-instruction", str(plan), "--out"],
        )
    ):
        out = tmp_path / str(number)
        done = command_line(*words, out)
        assert done.returncode == 0, done.stderr
        argv = json.loads((out / "command.json").read_text())["argv"]
        assert Path(argv[0]).name in {"agentinputlab", "python -m agentinputlab"}
        assert argv[1:] == [*words, str(out)]


def test_failures_are_named_with_their_kind(tmp_path: Path) -> None:
    plan = lab_plan(tmp_path, tasks=5, fail_capture=["0"], fail_baseline=["1"], fail_treatment=["2"])
    result = invoke("campaign", "run", write_plan(tmp_path / "plan.yaml", plan), "--out", tmp_path / "out", "--execute")
    assert result.exit_code == 3
    assert "Failures, which stay in the count: 1 x capture_failed, 2 x arm_failed (ValueError)." in result.stdout


def test_an_intervention_without_its_artifact_is_named(tmp_path: Path) -> None:
    words = ("retail", "run", "--tasks", "1", "--treatment", "rewrite.query2doc.official_cached")
    result = invoke(*words, "--out", tmp_path / "out")
    assert result.exit_code == 3
    assert "1 x intervention failed (ArtifactError)" in result.stdout


def test_nothing_is_said_of_failures_where_there_are_none(tmp_path: Path) -> None:
    result = invoke("campaign", "smoke", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "Failures" not in result.stdout


def test_a_plan_that_can_start_is_called_ready(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.yaml", fixture_plan(tasks=1))
    result = invoke("campaign", "doctor", plan)
    assert result.exit_code == 0
    assert f"Ready. Start it with: agentinputlab campaign run {plan} --out FOLDER --execute" in result.stderr
    assert "1 task x 1 treatment x 1 slot = 1 pair," in result.stdout


def test_a_plan_that_asks_a_model_is_not_called_ready_without_a_condition(tmp_path: Path) -> None:
    args = {"api_base": "http://127.0.0.1:9/v1", "max_tokens": 16, "timeout": 5.0}
    args |= {"temperature": 0, "seed": 17, "num_retries": 0}
    slot = {"name": "gone", "agent": {"backend": "openai", "model": "m", "args": args}}
    plan = {"tasks": 1, "treatments": ["plan.plan_and_solve.ps_prompt"], "slots": [slot]}
    result = invoke("campaign", "doctor", write_plan(tmp_path / "plan.yaml", plan))
    assert result.exit_code == 0
    assert "Ready, once the model server answers: it was not asked." in result.stderr
    result = invoke("campaign", "run", tmp_path / "plan.yaml", "--out", tmp_path / "out", "--execute")
    assert result.exit_code == 2
    assert "start the server and give the same command again" in result.stderr


def test_more_tasks_than_there_are_is_said_in_the_words_of_the_option(tmp_path: Path) -> None:
    words = ("retail", "run", "--treatment", "plan.plan_and_solve.ps_prompt", "--tasks", 99)
    result = invoke(*words, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "tasks must be at most 8, the size of split test of embedded.retail, got 99" in result.stderr
    assert not (tmp_path / "out").exists()
