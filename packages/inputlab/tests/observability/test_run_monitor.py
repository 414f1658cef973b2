"""Runs as a monitor sees them, and what its events keep to themselves."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.contracts import BudgetExceededError, IntentViolationError, ValidationError
from agentinputlab.observability import (
    REDACTED,
    EventKind,
    JsonlEventSink,
    MonitorEvent,
    ResourceReceipt,
    ResourceUsage,
    RunMonitor,
    RunStatus,
    TokenCounts,
    redact,
)

STATE = "0" * 64


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BudgetExceededError("x"), RunStatus.BUDGET_EXHAUSTED),
        (IntentViolationError("x"), RunStatus.INTENT_REJECTED),
        (KeyError("x"), RunStatus.FAILED),
        (KeyboardInterrupt(), RunStatus.CANCELLED),
    ],
)
def test_the_error_that_leaves_a_run_decides_its_status(error: BaseException, status: RunStatus) -> None:
    monitor = RunMonitor()
    with pytest.raises(type(error)), monitor.run_scope("r", STATE):
        raise error
    (run,) = monitor.list_snapshots()
    assert run.status is status
    assert [failure["exception_type"] for failure in run.failures] == [type(error).__name__]


def test_a_run_tells_its_events_in_order_and_adds_processor_time_at_its_end() -> None:
    events: list[MonitorEvent] = []
    monitor = RunMonitor(sinks=(events.append,))
    with monitor.run_scope("r", STATE, {"arm": "treatment"}) as run_id:
        assert monitor.snapshot(run_id).status is RunStatus.RUNNING
        with monitor.stage(run_id, "propose"):
            sum(range(200_000))
        monitor.record_resource_receipt(run_id, ResourceReceipt("local-subprocess", exit_code=0))
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events] == [
        EventKind.RUN_STARTED,
        EventKind.STAGE_STARTED,
        EventKind.STAGE_FINISHED,
        EventKind.RESOURCE_RECEIPT_RECORDED,
        EventKind.RUN_FINISHED,
    ]
    run = monitor.snapshot(run_id)
    assert run.status is RunStatus.SUCCEEDED
    assert run.usage.cpu_seconds > 0
    assert run.tags == {"arm": "treatment"}
    json.dumps(run.as_dict())


def test_tokens_are_added_up_counter_by_counter() -> None:
    monitor = RunMonitor()
    with monitor.run_scope("r", STATE) as run_id:
        for counter in ("words", "words", "endpoint:m"):
            monitor.record_usage(run_id, ResourceUsage(input_tokens=2, output_tokens=1), token_counter=counter)
        monitor.record_usage(run_id, ResourceUsage(retrieval_calls=1))
    run = monitor.snapshot(run_id)
    assert run.token_counters == {"words": TokenCounts(4, 2), "endpoint:m": TokenCounts(2, 1)}
    assert run.usage.input_tokens == 6


def test_an_ended_run_takes_no_more_usage_and_no_second_end() -> None:
    monitor = RunMonitor()
    with monitor.run_scope("r", STATE) as run_id:
        monitor.finish_run(run_id, "cancelled")
    assert monitor.snapshot(run_id).status is RunStatus.CANCELLED
    for late in (
        lambda: monitor.record_usage(run_id, ResourceUsage()),
        lambda: monitor.finish_run(run_id, "failed"),
    ):
        with pytest.raises(ValidationError, match="has ended"):
            late()
    with pytest.raises(ValidationError, match="not known"):
        monitor.snapshot("nothing")


def test_a_sink_that_fails_is_heard_and_the_run_has_ended_all_the_same() -> None:
    def full(event: MonitorEvent) -> None:
        if event.kind is not EventKind.RUN_STARTED:
            raise OSError(28, "No space left on device")

    monitor = RunMonitor(sinks=(full,))
    with pytest.raises(OSError, match="No space left"), monitor.run_scope("r", STATE):
        pass
    assert monitor.list_snapshots()[0].status is RunStatus.SUCCEEDED


def test_old_runs_are_forgotten_and_running_ones_are_not() -> None:
    monitor = RunMonitor(keep_runs=2)
    with monitor.run_scope("running", STATE):
        for _ in range(5):
            with monitor.run_scope("r", STATE):
                pass
        assert [run.release_id for run in monitor.list_snapshots()] == ["running", "r", "r"]


SECRETS = (
    "Bearer abc.def-123",
    "authorization: bearer s3cr3t",
    "sk-proj-abcdefgh12345678",
    "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_looking_text_never_reaches_a_sink(secret: str) -> None:
    events: list[MonitorEvent] = []
    monitor = RunMonitor(sinks=(events.append,))

    def fail_in_a_run() -> None:
        with monitor.run_scope("r", STATE, {"note": secret, secret: 1}) as run_id:
            monitor.emit(run_id, EventKind.STAGE_STARTED, {"deep": [{"text": f"x {secret} y"}]})
            raise BudgetExceededError(f"refused {secret}")

    with pytest.raises(BudgetExceededError):
        fail_in_a_run()
    told = json.dumps([event.as_dict() for event in events]) + json.dumps(monitor.list_snapshots()[0].as_dict())
    core = secret.rsplit(maxsplit=1)[-1]
    assert core not in told
    assert REDACTED in told


@pytest.mark.parametrize(
    "key", ["api_key", "apiKey", "API-KEY", "Authorization", "access_token", "token", "dbPassword", "client_secret"]
)
def test_a_secret_looking_key_hides_its_value(key: str) -> None:
    assert redact({"a": {key: "plain"}}) == {"a": {key: REDACTED}}
    assert redact({key: ["plain"]}) == {key: REDACTED}


@pytest.mark.parametrize("key", ["input_tokens", "token_counter", "max_tokens", "monkey", "keyboard", "secretary"])
def test_counts_and_ordinary_words_are_not_secrets(key: str) -> None:
    assert redact({key: "task-12345678"}) == {key: "task-12345678"}


def test_an_unknown_error_gives_its_type_and_not_its_text() -> None:
    monitor = RunMonitor()
    with pytest.raises(KeyError), monitor.run_scope("r", STATE):
        raise KeyError("what the user wrote")
    assert "what the user wrote" not in json.dumps(monitor.list_snapshots()[0].as_dict())


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_redaction_is_idempotent(value: object) -> None:
    once = redact(value)
    assert redact(once) == once


def test_a_file_of_events_is_private_and_whole_line_by_line_under_threads(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with JsonlEventSink(path) as sink:
        monitor = RunMonitor(sinks=(sink,))

        def work() -> None:
            for _ in range(20):
                with monitor.run_scope("r", STATE) as run_id:
                    monitor.record_usage(run_id, ResourceUsage(tool_calls=1))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 4 * 20 * 3
    by_run: dict[str, list[int]] = {}
    for row in rows:
        by_run.setdefault(row["run_id"], []).append(row["sequence"])
    assert set(map(tuple, by_run.values())) == {(1, 2, 3)}


def test_a_file_of_events_is_appended_to_and_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        with JsonlEventSink(path) as sink, RunMonitor(sinks=(sink,)).run_scope("r", STATE):
            pass
    assert len(path.read_text().splitlines()) == 4
    link = tmp_path / "link"
    os.symlink(path, link)  # noqa: PTH211
    with pytest.raises(OSError, match="symbolic"):
        JsonlEventSink(link)
