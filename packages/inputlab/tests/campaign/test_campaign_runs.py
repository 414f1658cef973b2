"""Whole campaigns: every expected pair has a row, nothing is started twice, one folder has one owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import (
    TREATMENT,
    calls,
    command_line,
    environment,
    fixture_plan,
    invoke,
    lab_plan,
    run,
    state_of,
    statuses,
    write_plan,
)
from kill_shim import in_child

from agentinputlab.model_server import ChatReply, ChatServer
from ripieno.errors import InputError
from ripieno.verify import VerifyStatus, verify
from workers.official_arenas.campaign._record_check import intervention_start
from workers.official_arenas.campaign.folder import write_json
from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.campaign.steps import play

OWN_TEXT = {"release": "own.text", "parameters": {"add_context": "x"}}
NEEDS_A_MODEL = "plan.plan_and_solve.plan_call"


def every_trouble(folder: Path, **more: Any) -> Any:
    """A plan in which each kind of failure happens on a task of its own."""
    return lab_plan(
        folder,
        tasks=6,
        fail_capture=["0"],
        fail_baseline=["1"],
        fail_treatment=["2"],
        solve_treatment=["3", "4"],
        solve_baseline=["4"],
        **more,
    )


def test_failures_of_every_kind_stay_in_the_denominator(tmp_path: Path) -> None:
    result = run(every_trouble(tmp_path), tmp_path / "out")
    assert statuses(result) == {
        "0": "capture_failed",
        "1": "arm_failed",
        "2": "arm_failed",
        "3": "paired_scored",
        "4": "paired_scored",
        "5": "paired_scored",
    }
    (row,) = result.analysis["comparisons"]
    assert (row["expected"], row["scored"], row["unresolved"]) == (6, 3, 3)
    assert (row["wins"], row["losses"], row["ties"]) == (1, 0, 2)
    assert row["difference"] == pytest.approx(1 / 6)
    assert row["difference_bounds"] == pytest.approx([(1 - 3) / 6, (1 + 3) / 6])
    assert row["statuses"] == {"paired_scored": 3, "arm_failed": 2, "capture_failed": 1}
    assert result.has_failures
    assert [item["failure"] for item in result.rows[:3]] == [None, "ValueError", "ValueError"]


def test_the_other_side_is_played_although_one_failed(tmp_path: Path) -> None:
    run(every_trouble(tmp_path), tmp_path / "out")
    assert {name: count for name, count in calls(tmp_path).items() if name.endswith((" 1", " 2"))} == {
        "capture 1": 1,
        "capture 2": 1,
        "arm baseline 1": 1,
        "arm treatment 1": 1,
        "arm baseline 2": 1,
        "arm treatment 2": 1,
    }


def test_an_intervention_that_fails_is_counted_and_its_pair_is_played(tmp_path: Path) -> None:
    result = run(lab_plan(tmp_path, treatments=[NEEDS_A_MODEL], solve_treatment=["0"]), tmp_path / "out")
    assert [row["intervention_status"] for row in result.rows] == ["failed", "failed"]
    assert set(statuses(result).values()) == {"paired_scored"}
    assert result.analysis["comparisons"][0]["interventions_failed"] == 2
    assert result.has_failures
    assert verify(result.folder).status is VerifyStatus.COMPLETE


@pytest.mark.parametrize(
    ("behaviour", "treatment"),
    [
        ({"fail_capture": ["0"]}, TREATMENT),
        ({"fail_baseline": ["1"]}, TREATMENT),
        ({"fail_treatment": ["1"]}, TREATMENT),
        ({}, NEEDS_A_MODEL),
    ],
    ids=["capture", "baseline", "treatment", "intervention"],
)
def test_a_campaign_with_a_failure_ends_with_exit_3(tmp_path: Path, behaviour: dict[str, Any], treatment: str) -> None:
    plan = write_plan(tmp_path / "plan.json", lab_plan(tmp_path, treatments=[treatment], **behaviour))
    result = invoke("campaign", "run", plan, "--out", tmp_path / "out", "--execute", "--json")
    assert result.exit_code == 3
    record = json.loads(result.stdout)
    assert record["verified"] is True
    assert (tmp_path / "out" / "index.html").exists()
    again = invoke("campaign", "run", plan, "--out", tmp_path / "out", "--execute", "--json")
    assert again.exit_code == 3
    assert json.loads(again.stdout)["was_complete"] is True


def test_a_captured_nothing_campaign_still_has_a_verdict(tmp_path: Path) -> None:
    result = run(lab_plan(tmp_path, fail_capture=["0", "1"]), tmp_path / "out")
    assert set(statuses(result).values()) == {"capture_failed"}
    assert result.analysis["comparisons"][0]["verdict"] == "nothing scored"
    assert "no pair could be scored" in result.headline
    assert verify(result.folder).status is VerifyStatus.COMPLETE


def test_treatments_and_slots_each_have_all_rows_in_plan_order(tmp_path: Path) -> None:
    one = {"args": {"calls": str(tmp_path / "calls.txt")}}
    fields = {
        "arena": "lab.retail",
        "split": "train",
        "tasks": 2,
        "durable": False,
        "treatments": [TREATMENT, {"name": "mine", "members": [OWN_TEXT]}],
        "slots": [{"name": "a", "agent": one}, {"name": "b", "agent": one}],
    }
    result = run(parse_plan(fields), tmp_path / "out")
    places = [(row["slot"], row["treatment"], row["task_id"]) for row in result.rows]
    assert places == [(slot, name, task) for slot in "ab" for name in (TREATMENT, "mine") for task in "01"]
    assert len(result.analysis["comparisons"]) == 4
    assert sum(calls(tmp_path).values()) == 2 * 2 + 8 * 2


def test_the_metric_that_was_compared_is_named(tmp_path: Path) -> None:
    assert run(fixture_plan(), tmp_path / "a").analysis["comparisons"][0]["metric"] == "official_success"
    assert run(lab_plan(tmp_path), tmp_path / "b").analysis["comparisons"][0]["metric"] == "terminal_success"


# --- started once -------------------------------------------------------------------------------------------


def test_a_second_start_of_a_complete_folder_runs_nothing_and_writes_nothing(tmp_path: Path) -> None:
    plan = every_trouble(tmp_path)
    first = run(plan, tmp_path / "out")
    before, asked = state_of(tmp_path / "out"), calls(tmp_path)
    second = run(plan, tmp_path / "out")
    assert (second.was_complete, second.digest, second.rows) == (True, first.digest, first.rows)
    assert state_of(tmp_path / "out") == before
    assert calls(tmp_path) == asked


def test_a_server_is_asked_once_per_intervention_and_never_by_a_second_start(tmp_path: Path) -> None:
    with ChatServer(lambda _: ChatReply("First look, then act.")) as server:
        slot = {
            "name": "served",
            "agent": {"backend": "openai", "model": "m", "args": {"api_base": server.base_url}},
            "intervention_model": {"kind": "agent"},
        }
        plan = parse_plan(
            {
                "arena": "lab.retail",
                "split": "train",
                "tasks": 3,
                "treatments": ["plan.plan_and_solve.plan_call"],
                "slots": [slot],
                "durable": False,
            }
        )
        result = run(plan, tmp_path / "out")
        assert [row["intervention_status"] for row in result.rows] == ["success"] * 3
        assert server.counts.requests == 3
        assert result.analysis["comparisons"][0]["usage"]["treatment"]["model_calls"] == 3 + 3
        run(plan, tmp_path / "out")
        assert server.counts.requests == 3


def test_the_embedded_arena_asks_its_agent_only_for_what_it_reports(tmp_path: Path) -> None:
    """Every request that a model server saw is in the usage of a side, and a second start sends none."""
    with ChatServer(lambda _: ChatReply("I cannot help you with that.")) as server:
        options = ["--tasks", "2", "--split", "train", "--model-url", server.base_url, "--model", "unhelpful"]
        command = ["retail", "run", "--treatment", TREATMENT, *options, "--out", tmp_path / "out", "--no-fsync"]
        assert invoke(*command).exit_code == 0
        assert (server.counts.requests, (tmp_path / "out").exists()) == (0, False)
        result = invoke(*command, "--execute", "--json")
        assert result.exit_code == 0, result.stderr
        (row,) = json.loads(result.stdout)["analysis"]["comparisons"]
        assert (row["expected"], row["scored"], row["metric"]) == (2, 2, "terminal_success")
        asked = server.counts.requests
        assert asked == sum(row["usage"][side]["model_calls"] for side in ("baseline", "treatment")) > 0
        assert json.loads(invoke(*command, "--execute", "--json").stdout)["was_complete"] is True
        assert server.counts.requests == asked


def test_the_embedded_arena_gives_equal_results_in_equal_campaigns(tmp_path: Path) -> None:
    plan = parse_plan({"arena": "embedded", "split": "train", "tasks": 3, "treatments": [TREATMENT], "durable": False})
    first, second = (run(plan, tmp_path / name) for name in "ab")
    assert set(statuses(first).values()) == {"paired_scored"}
    rows = [without_times([dict(row) for row in result.rows]) for result in (first, second)]
    assert [drop(row, "trace_hash") for row in rows[0]] == [drop(row, "trace_hash") for row in rows[1]]
    assert verify(first.folder).status is verify(second.folder).status is VerifyStatus.COMPLETE


def drop(row: dict[str, Any], name: str) -> dict[str, Any]:
    """A trace holds the times of its messages, so only its normalised hash is equal."""
    return {
        key: {inner: item for inner, item in value.items() if inner != name} if isinstance(value, dict) else value
        for key, value in row.items()
    }


def test_another_plan_in_the_same_folder_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", lab_plan(tmp_path))
    assert invoke("campaign", "run", plan, "--out", tmp_path / "out", "--execute").exit_code == 0
    before, asked = state_of(tmp_path / "out"), calls(tmp_path)
    others = {
        "tasks is 2, here it is 3": lab_plan(tmp_path, tasks=3),
        "slots: lab has other settings": lab_plan(tmp_path, reply="the secret answer"),
        "treatments are plan.plan_and_solve.ps_prompt, here they are own.text-": lab_plan(
            tmp_path, treatments=["own.text:add_context=the secret prompt"]
        ),
    }
    for reason, other in others.items():
        write_plan(plan, other)
        result = invoke("campaign", "run", plan, "--out", tmp_path / "out", "--execute")
        assert (result.exit_code, result.stdout) == (2, "")
        said = result.stderr.splitlines()[-1]
        assert said.startswith(f"agentinputlab: {tmp_path / 'out'} belongs to a campaign with another plan ({reason}")
        assert "secret" not in result.stderr
    assert state_of(tmp_path / "out") == before
    assert calls(tmp_path) == asked


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o700)
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'thesis\.txt' but no campaign"):
        run(lab_plan(tmp_path), out)
    assert sorted(path.name for path in out.iterdir()) == ["thesis.txt"]


def test_a_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o755)
    with pytest.raises(InputError, match="must be closed to group and others"):
        run(lab_plan(tmp_path), out)
    assert list(out.iterdir()) == []


def test_a_folder_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with pytest.raises(InputError):
        run(lab_plan(tmp_path), tmp_path / "out")
    assert list((tmp_path / "real").iterdir()) == []


# --- interrupted --------------------------------------------------------------------------------------------


def stopped_at(folder: Path, out: Path, slot: str, *, how: signal.Signals) -> tuple[int, str, str]:
    """Start the command, wait until a model was asked for a slot, and send a signal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentinputlab", "campaign", "run", folder / "plan.json", "--out", out, "--execute"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    wait_for(folder, slot)
    process.send_signal(how)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def wait_for(folder: Path, slot: str) -> None:
    deadline = time.monotonic() + 60
    while not calls(folder)[slot]:
        assert time.monotonic() < deadline, f"{slot} was never asked"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("waits", "slot", "status"),
    [
        ({"wait_capture": ["1"]}, "capture 1", "capture_unresolved"),
        ({"wait_baseline": ["1"]}, "arm baseline 1", "interrupted"),
        ({"wait_treatment": ["1"]}, "arm treatment 1", "interrupted"),
    ],
)
def test_ctrl_c_leaves_a_folder_that_verifies_and_goes_on(
    tmp_path: Path, waits: dict[str, Any], slot: str, status: str
) -> None:
    plan = lab_plan(tmp_path, tasks=3, **waits)
    write_plan(tmp_path / "plan.json", plan)
    code, stdout, stderr = stopped_at(tmp_path, tmp_path / "out", slot, how=signal.SIGINT)
    assert (code, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1] == "Stopped. What was recorded stays; the same command goes on from there."
    report = verify(tmp_path / "out")
    assert (report.status, report.first_problem) == (VerifyStatus.INTERRUPTED, "")
    result = invoke("campaign", "run", tmp_path / "plan.json", "--out", tmp_path / "out", "--execute", "--json")
    assert result.exit_code == 3
    rows = json.loads((tmp_path / "out" / "results.json").read_text())
    # An inventory is frozen only when every capture of its slot has an end; without one there is nothing to play.
    others = "inventory_incomplete" if status == "capture_unresolved" else "paired_scored"
    assert {row["task_id"]: row["status"] for row in rows} == {"0": others, "1": status, "2": others}
    assert max(calls(tmp_path).values()) == 1
    assert verify(tmp_path / "out").status is VerifyStatus.COMPLETE


def test_of_two_processes_on_one_folder_one_is_refused(tmp_path: Path) -> None:
    plan = lab_plan(tmp_path, wait_baseline=["0"])
    write_plan(tmp_path / "plan.json", plan)
    options = ["campaign", "run", tmp_path / "plan.json", "--out", tmp_path / "out", "--execute"]
    first = subprocess.Popen(
        [sys.executable, "-m", "agentinputlab", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        wait_for(tmp_path, "arm baseline 0")
        before = state_of(tmp_path / "out")
        second = command_line(*options)
        assert (second.returncode, second.stdout) == (2, b"")
        assert b"another" in second.stderr.splitlines()[-1]
        assert state_of(tmp_path / "out") == before
    finally:
        first.kill()
        first.wait()
    assert calls(tmp_path) == {"capture 0": 1, "capture 1": 1, "arm baseline 0": 1}


def interrupted_before_sealing(folder: Path, plan: Any) -> None:
    """A campaign whose pairs are played and whose process died before it derived anything."""

    def work() -> None:
        def stop(text: str) -> None:
            if text == "Analysing and sealing":
                os.kill(os.getpid(), signal.SIGKILL)

        run(plan, folder / "out", note=stop)

    assert os.WIFSIGNALED(in_child(work))


@pytest.mark.parametrize(
    "name", ["terminal.json", "response.json", "treatment/arm-outcome.json", "pair-start.json", "the whole cell"]
)
def test_a_receipt_deleted_before_the_end_is_found_and_nothing_is_run_again(tmp_path: Path, name: str) -> None:
    plan = lab_plan(tmp_path)
    write_plan(tmp_path / "plan.json", plan)
    interrupted_before_sealing(tmp_path, plan)
    asked = calls(tmp_path)
    assert len(asked) == 6
    cell = min((tmp_path / "out" / "pairs" / "lab").iterdir())
    if name != "the whole cell":
        (cell / name).unlink()
    else:
        cell.rename(tmp_path / "elsewhere")
    result = invoke("campaign", "run", tmp_path / "plan.json", "--out", tmp_path / "out", "--execute")
    assert result.exit_code in {1, 2, 3}
    assert "Verified" not in result.stdout or result.exit_code == 3
    assert calls(tmp_path) == asked
    assert not verify(tmp_path / "out").ok


def test_a_start_that_was_never_answered_is_not_started_again(tmp_path: Path) -> None:
    """The intervention of task 1 died after its start was noted: the pair has no request, and gets none."""
    plan = lab_plan(tmp_path, treatments=["own.text:add_context=x"])

    def work() -> None:
        def stop(text: str) -> None:
            if text.startswith("Running the interventions"):
                place = tmp_path / "out" / "requests" / "lab" / plan.treatments[0].name
                for step in (place.parent.parent, place.parent, place):
                    step.mkdir(mode=0o700)
                write_json(place / "1-start.json", intervention_start("1", plan.treatments[0].name), durable=False)
                os.kill(os.getpid(), signal.SIGKILL)

        run(plan, tmp_path / "out", note=stop)

    assert os.WIFSIGNALED(in_child(work))
    result = run(plan, tmp_path / "out")
    assert statuses(result) == {"0": "paired_scored", "1": "intervention_interrupted"}
    assert not calls(tmp_path)["arm baseline 1"]
    assert verify(result.folder).status is VerifyStatus.COMPLETE


# --- executors ----------------------------------------------------------------------------------------------


def without_times(rows: Any) -> Any:
    """CPU time is measured; everything else follows from the plan."""
    for row in rows:
        for side in ("baseline", "treated"):
            if row[side] is not None:
                del row[side]["usage"]["cpu_seconds"]
    return rows


def test_worker_processes_give_the_results_of_one_process(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", every_trouble(tmp_path))
    found: list[Any] = []
    for executor, workers in (("serial", "1"), ("processes", "2")):
        out = tmp_path / executor
        done = command_line(
            "campaign", "run", plan, "--out", out, "--execute", "--executor", executor, "--workers", workers
        )
        assert done.returncode == 3, done.stderr
        assert verify(out).status is VerifyStatus.COMPLETE
        found.append(without_times(json.loads((out / "results.json").read_text())))
    assert found[0] == found[1]
    assert set(calls(tmp_path).values()) == {2}


def test_workers_that_the_executor_does_not_have_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", lab_plan(tmp_path))
    result = invoke("campaign", "run", plan, "--out", tmp_path / "out", "--execute", "--workers", "2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith("agentinputlab: workers: executor 'serial' has one, got 2")
    assert not (tmp_path / "out").exists()
    assert calls(tmp_path) == {}


def test_a_moved_folder_still_verifies_and_is_not_run_again(tmp_path: Path) -> None:
    plan = lab_plan(tmp_path)
    first = run(plan, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "archive")
    assert verify(tmp_path / "archive", expect=first.digest).ok
    assert run(plan, tmp_path / "archive").was_complete
    assert max(calls(tmp_path).values()) == 1


def test_a_pair_whose_request_is_unreadable_is_no_silent_success(tmp_path: Path) -> None:
    result = run(lab_plan(tmp_path, tasks=1), tmp_path / "out")
    request = next((result.folder / "requests" / "lab" / TREATMENT).glob("0.json"))
    request.write_text("{")
    with pytest.raises(InputError, match=r"0\.json"):
        play({"root": str(result.folder), "slot": "lab", "treatment": TREATMENT, "task": "0"})


@pytest.mark.parametrize("name", ["results.json", "campaign.json", "analysis.json"])
def test_a_complete_folder_that_lost_a_file_is_named_as_damaged_and_nothing_is_run(tmp_path: Path, name: str) -> None:
    plan = lab_plan(tmp_path)
    file = write_plan(tmp_path / "plan.json", plan)
    out = run(plan, tmp_path / "out").folder
    asked = calls(tmp_path)
    for damage in (lambda path: path.write_text("[]"), Path.unlink):
        damage(out / name)
        before = state_of(out)
        done = invoke("campaign", "run", file, "--out", out, "--execute")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "does not verify" in done.stderr.splitlines()[-1]
        assert name in done.stderr.splitlines()[-1]
        assert state_of(out) == before
    assert done.stderr.splitlines()[-1].startswith(f"agentinputlab: {out} is complete and was changed since")
    assert calls(tmp_path) == asked
