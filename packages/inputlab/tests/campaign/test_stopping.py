"""A campaign whose pairs fail in a row stops, keeps what it has, and goes on with the pairs that were not started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import calls, fixture_plan, invoke, lab_plan, run, statuses, write_plan

from agentinputlab.backends.chat import ChatRefusalError, ChatReply
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.model_server import ChatServer
from ripieno.errors import InputError
from ripieno.verify import VerifyStatus, verify
from workers.official_arenas import scripted_server
from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.protocol import OfficialArenaError

FAILING = ["1", "2", "3", "4"]


def started(out: Path) -> int:
    return len(list((out / "pairs").glob("*/*/pair-start.json")))


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_after_so_many_failures_in_a_row_nothing_more_is_started(tmp_path: Path, executor: Any) -> None:
    plan = lab_plan(tmp_path, tasks=6, fail_baseline=FAILING)
    workers = 2 if executor == "processes" else None
    with pytest.raises(OfficialArenaError, match="the same command plays") as refusal:
        run(plan, tmp_path / "out", stop_after_failures=2, executor=executor, workers=workers)
    count = started(tmp_path / "out")
    assert count in ((3,) if executor == "serial" else (2, 3, 4))
    left = 6 - count
    assert f"{left} of 6 pairs were not started" in str(refusal.value)
    assert "(last: ValueError)" in str(refusal.value)
    assert verify(tmp_path / "out").status is VerifyStatus.INTERRUPTED


def test_the_same_call_goes_on_with_what_was_not_started_and_repeats_nothing(tmp_path: Path) -> None:
    plan = lab_plan(tmp_path, tasks=6, fail_baseline=FAILING)
    for expected in (3, 5):  # 0, 1, 2 | 3, 4 | 5
        with pytest.raises(OfficialArenaError, match="Stopped"):
            run(plan, tmp_path / "out", stop_after_failures=2)
        assert started(tmp_path / "out") == expected
    result = run(plan, tmp_path / "out", stop_after_failures=2)
    assert [task for task, status in statuses(result).items() if status == "arm_failed"] == FAILING
    assert max(calls(tmp_path).values()) == 1
    assert verify(result.folder).status is VerifyStatus.COMPLETE


def test_failures_that_are_not_in_a_row_stop_nothing(tmp_path: Path) -> None:
    result = run(lab_plan(tmp_path, tasks=6, fail_baseline=["0", "2", "4"]), tmp_path / "out", stop_after_failures=2)
    assert list(statuses(result).values()).count("arm_failed") == 3


def test_failures_at_the_very_end_leave_nothing_to_stop(tmp_path: Path) -> None:
    result = run(lab_plan(tmp_path, tasks=3, fail_baseline=["1", "2"]), tmp_path / "out", stop_after_failures=2)
    assert verify(result.folder).status is VerifyStatus.COMPLETE


def test_without_the_limit_every_pair_is_played(tmp_path: Path) -> None:
    result = run(lab_plan(tmp_path, tasks=6, fail_baseline=FAILING), tmp_path / "out")
    assert started(result.folder) == 6


def test_the_plan_can_say_it_and_the_call_can_say_otherwise(tmp_path: Path) -> None:
    record = lab_plan(tmp_path, tasks=6, fail_baseline=FAILING).record()
    plan = parse_plan({**record, "stop_after_failures": 1})
    with pytest.raises(OfficialArenaError, match="Stopped"):
        run(plan, tmp_path / "out")
    assert started(tmp_path / "out") == 2
    with pytest.raises(InputError, match="stop_after_failures is 1, here it is null"):
        run(parse_plan(record), tmp_path / "out")
    assert started(run(plan, tmp_path / "out", stop_after_failures=100).folder) == 6


def test_plans_that_do_not_say_it_have_the_hash_they_always_had() -> None:
    plan = parse_plan({"arena": "fixture", "treatments": ["plan.plan_and_solve.ps_prompt"]})
    assert plan.plan_hash == "0751b6db44e07e9fad70e1b1a25402bf0b107042cb9d2fa9a82e6aeb3f30a9dc"
    assert "stop_after_failures" not in plan.record()
    assert plan.model_copy(update={"stop_after_failures": 3}).plan_hash != plan.plan_hash


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_a_limit_that_is_no_count_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="stop_after_failures"):
        parse_plan({**fixture_plan().record(), "stop_after_failures": value})


def test_a_dead_endpoint_stops_the_command_in_one_line_and_a_living_one_goes_on(tmp_path: Path) -> None:
    """All from the same port: first it dies after some answers, then it is there again."""
    lives = [20]

    def respond(body: dict[str, Any]) -> ChatReply:
        lives[0] -= 1
        if lives[0] < 0:
            raise ChatRefusalError("out of order", status=503)
        return scripted_server.respond(body)

    with ChatServer(respond) as server:
        words = ["retail", "run", "--treatment", "plan.plan_and_solve.ps_prompt", "--tasks", "5", "--split", "train"]
        words += ["--model-url", server.base_url, "--model", "small", "--no-fsync", "--execute"]
        words += ["--stop-after-failures", "2", "--out", str(tmp_path / "out")]
        stopped = invoke(*words)
        assert stopped.exit_code == 3  # pairs were played and failed
        assert stopped.stderr.splitlines()[-1].startswith("agentinputlab: Stopped: too many pairs in a row")
        assert "ModelEndpointError" in stopped.stderr
        count = started(tmp_path / "out")
        assert count < 5
        lives[0] = 10**6
        finished = invoke(*words)
    assert finished.exit_code == 3
    assert started(tmp_path / "out") == 5
    assert verify(tmp_path / "out").status is VerifyStatus.COMPLETE


def test_the_option_is_there_where_a_plan_is_run(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", lab_plan(tmp_path, tasks=6, fail_baseline=FAILING))
    done = invoke("campaign", "run", plan, "--out", tmp_path / "out", "--execute", "--stop-after-failures", "2")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "pairs were not started" in done.stderr


def test_going_on_says_how_many_pairs_are_left_and_what_they_can_cost(tmp_path: Path) -> None:
    with ChatServer(scripted_server.respond) as server:
        words = ["retail", "run", "--treatment", "plan.plan_and_solve.ps_prompt", "--tasks", "4", "--split", "train"]
        words += ["--model-url", server.base_url, "--model", "small", "--no-fsync", "--out", str(tmp_path / "out")]
        assert "Begun" not in invoke(*words).stderr
        whole = json.loads(invoke(*words, "--json").stdout)
        assert invoke(*words, "--execute").exit_code == 0
        assert "0 pairs are left to play.\nCost: none. No model is asked again." in invoke(*words).stderr
        forget_last_pair(tmp_path / "out")
        shown = invoke(*words).stderr
        left = json.loads(invoke(*words, "--json").stdout)["left"]
        done = invoke(*words, "--execute")
    assert "1 pair is left to play." in shown
    assert left["pairs"] == 1
    assert left["cost_at_most"]["model_calls"] == whole["cost_at_most"]["model_calls"] // 4
    assert f"at most {left['cost_at_most']['model_calls']} model calls" in shown
    assert "Playing the 1 of 4 pairs that are left" in done.stderr


def forget_last_pair(out: Path) -> None:
    """What a kill before the last pair leaves."""
    last = json.loads((out / "requests" / "index.json").read_bytes())[-1]
    shutil.rmtree(out / "pairs" / last["slot"] / last["cell_id"])
    for name in ("results.json", "analysis.json", "index.html", "campaign.json"):
        (out / name).unlink()
    for name in ("cells.jsonl", "events.jsonl"):  # without the closing record and the one before
        lines = (out / name).read_bytes().splitlines(keepends=True)
        (out / name).write_bytes(b"".join(lines[:-2]))
