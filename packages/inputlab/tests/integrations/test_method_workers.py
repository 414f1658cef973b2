"""The way from an intervention through its context to a worker, and what the run is charged for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentinputlab.contracts import (
    AlgorithmOutputError,
    BudgetExceededError,
    ExecutionBudget,
    ExternalDependencyError,
    FrozenAgentState,
    InputPatch,
    InterventionContext,
    SemanticFamily,
    ValidationError,
)
from agentinputlab.integrations.external_workers import (
    ALGORITHM_FAILURE_CODES,
    DockerSupervisor,
    JsonLineSubprocessWorker,
    LocalSubprocessSupervisor,
    MethodWorkerRequest,
    MethodWorkerResponse,
    OutputLimits,
    call_worker,
    resolve_worker,
    worker_fingerprint,
)
from agentinputlab.integrations.live_history import LiveHistoryResult
from agentinputlab.observability import ResourceLimits, ResourceUsage, RunMonitor
from agentinputlab.runner import FunctionWorkerClient, InterventionRunner

STATE = FrozenAgentState("q", budget=ExecutionBudget(max_model_calls=2))
USAGE = {"model_calls": 1, "retrieval_calls": 0, "input_tokens": 7, "output_tokens": 3}
WORKER = Path(__file__).with_name("echo_method_worker.py")


def request(minimum: ResourceUsage | None = None, **payload: Any) -> MethodWorkerRequest:
    return MethodWorkerRequest(
        "test", "test.release", "c" * 40, STATE.state_hash, payload, {}, minimum or ResourceUsage(model_calls=1)
    )


def worker() -> JsonLineSubprocessWorker:
    return JsonLineSubprocessWorker([sys.executable, str(WORKER)], revision="1")


class Handles:
    """A driver in this process with the mapping interface."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.seen: list[Mapping[str, Any]] = []

    def handle(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        self.seen.append(value)
        return {"request_id": value["request_id"], "status": "ok", **self.answer}


class Asks:
    method_id = "test"
    release_id = "test.release"
    family = SemanticFamily.ACQUIRE
    requests: ClassVar[tuple[MethodWorkerRequest, ...]] = ()

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        for item in self.requests:
            call_worker(context, item)
        return InputPatch.no_op(state, method_id="test", release_id="test.release")


def run(runtime: Any, *requests: MethodWorkerRequest, monitor: RunMonitor | None = None) -> Any:
    intervention = type("Asks", (Asks,), {"requests": requests})()
    return InterventionRunner(monitor=monitor).run(intervention, STATE, InterventionContext(external_runtime=runtime))


def test_a_request_survives_the_way_and_its_id_covers_every_field() -> None:
    one = request(text="é")
    assert MethodWorkerRequest.from_dict(json.loads(json.dumps(one.as_dict()))) == one
    assert one.request_id != request(text="e").request_id
    assert one.request_id != request(ResourceUsage(), text="é").request_id
    with pytest.raises(ValidationError, match="content hash"):
        MethodWorkerRequest.from_dict({**one.as_dict(), "release_id": "other"})


def test_a_program_answers_and_the_run_is_charged_what_it_reports() -> None:
    monitor = RunMonitor()
    record = run(worker(), request(answer="fine", usage={**USAGE, "token_counter": "words"}), monitor=monitor)
    usage = record.usage
    assert (usage.model_calls, usage.input_tokens, usage.output_tokens) == (1, 7, 3)
    assert usage.unpriced_model_calls == 1
    assert list(record.token_counters) == ["words"]
    (receipt,) = monitor.snapshot(record.monitor_run_id).receipts
    assert receipt.exit_code == 0
    assert receipt.cpu_seconds
    assert usage.cpu_seconds >= receipt.cpu_seconds


def test_a_driver_with_mappings_works_in_its_place() -> None:
    driver = Handles({"payload": {"x": 1}, "usage": USAGE})
    assert run(driver, request()).usage.model_calls == 1
    assert driver.seen[0]["minimum_reservation"]["model_calls"] == 1


def test_without_a_report_the_reserved_minimum_is_charged_and_unpriced() -> None:
    usage = run(worker(), request(answer="fine")).usage
    assert (usage.model_calls, usage.unpriced_model_calls) == (1, 1)


def test_a_report_below_the_reserved_minimum_is_refused() -> None:
    with pytest.raises(ExternalDependencyError, match="fewer model_calls"):
        run(worker(), request(usage={**USAGE, "model_calls": 0}))


def test_a_reservation_that_does_not_fit_starts_no_worker() -> None:
    driver = Handles({"usage": USAGE})
    with pytest.raises(BudgetExceededError):
        run(driver, request(ResourceUsage(model_calls=3)))
    assert driver.seen == []


def test_more_than_the_budget_is_recorded_and_ends_the_run() -> None:
    monitor = RunMonitor()
    with pytest.raises(BudgetExceededError, match="model_calls 3, allowed 2"):
        run(Handles({"usage": {**USAGE, "model_calls": 3}}), request(), monitor=monitor)
    assert monitor.list_snapshots()[0].usage.model_calls == 3


@pytest.mark.parametrize(("consumed", "charged"), [(False, 0), (True, 1)])
def test_a_failure_before_anything_was_used_is_free_and_any_other_is_not(consumed: bool, charged: int) -> None:
    monitor = RunMonitor()
    answer = {"status": "error", "failure_code": "SOURCE_MISMATCH", "message": "secret words", "consumed": consumed}
    with pytest.raises(ExternalDependencyError, match="SOURCE_MISMATCH") as caught:
        run(Handles(answer), request(), monitor=monitor)
    assert "secret words" not in str(caught.value)
    assert monitor.list_snapshots()[0].usage.model_calls == charged


@pytest.mark.parametrize("code", sorted(ALGORITHM_FAILURE_CODES))
def test_failures_of_the_method_are_its_output(code: str) -> None:
    context = InterventionContext(external_runtime=worker())
    with pytest.raises(AlgorithmOutputError, match=code):
        call_worker(context, request(failure_code=code))


@pytest.mark.parametrize("code", ["SELECTOR_FAILED", "TEXT_INVALID_X"])
def test_other_failures_are_of_the_outside(code: str) -> None:
    with pytest.raises(ExternalDependencyError, match=code):
        call_worker(InterventionContext(external_runtime=worker()), request(failure_code=code))


@pytest.mark.parametrize(
    "answer",
    [
        {"request_id": "f" * 64},
        {"protocol_version": "agentinputlab.method-worker.v0"},
        {"usage": {"model_calls": 1}},
        {"payload": 3},
        {"status": "error", "failure_code": "the user wrote this"},
        {"resource_receipt": {}},
    ],
)
def test_an_answer_that_is_none_is_refused(answer: Mapping[str, Any]) -> None:
    with pytest.raises(ExternalDependencyError):
        call_worker(InterventionContext(external_runtime=Handles(answer)), request())
    with pytest.raises(ExternalDependencyError):
        run(Handles(answer), request())


def test_the_worker_of_a_release_is_found_before_that_of_its_method() -> None:
    own, shared = worker(), worker()
    context = InterventionContext(external_runtime={"test.release": own, "test": shared})
    assert resolve_worker(context, release_id="test.release", method_id="test") is own
    assert resolve_worker(context, release_id="test.other", method_id="test") is shared
    with pytest.raises(ExternalDependencyError, match="external_runtime"):
        resolve_worker(context, release_id="x", method_id="y")
    with pytest.raises(ExternalDependencyError, match="external_runtime"):
        resolve_worker(InterventionContext(), release_id="x")
    with pytest.raises(ExternalDependencyError, match="must have call"):
        resolve_worker(InterventionContext(external_runtime=object()), release_id="x")


def test_a_mapping_of_workers_is_metered_too() -> None:
    assert run({"test": worker()}, request(usage=USAGE)).usage.model_calls == 1


def test_the_identity_of_a_worker_changes_with_what_it_is() -> None:
    base = worker_fingerprint(worker())
    assert base == worker_fingerprint(worker())
    argv = [sys.executable, str(WORKER)]
    others = [
        JsonLineSubprocessWorker(argv, revision="2"),
        JsonLineSubprocessWorker([*argv, "-x"], revision="1"),
        JsonLineSubprocessWorker(argv, revision="1", environment={"A": "1"}),
        JsonLineSubprocessWorker(argv, revision="1", supervisor=DockerSupervisor(IMAGE)),
        FunctionWorkerClient(lambda value: value, implementation_id="f", revision="1"),  # type: ignore[arg-type,return-value]
    ]
    identities = {base, *(worker_fingerprint(other) for other in others)}
    assert len(identities) == 6
    with pytest.raises(ExternalDependencyError, match="fingerprint"):
        worker_fingerprint(object())


# --- supervisors --------------------------------------------------------------------------------------------

IMAGE = "registry.example/worker@sha256:" + "a" * 64
FAKE_DOCKER = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$1" = "run" ]; then {action}; fi
"""


def fake_docker(folder: Path, action: str) -> tuple[str, Path]:
    program, log = folder / "docker", folder / "log"
    program.write_text(FAKE_DOCKER.format(log=log, action=action))
    program.chmod(0o700)
    return str(program), log


def supervise(supervisor: Any, timeout: float = 30, **limits: Any) -> Any:
    return supervisor.run(
        ["python", "driver.py"],
        stdin=b"x\n",
        limits=ResourceLimits(wall_timeout_seconds=timeout, **limits),
        output_limits=OutputLimits(),
        environment={"WORKER_TOKEN": "hidden-value"},
    )


def test_a_missing_docker_is_said_so() -> None:
    with pytest.raises(ExternalDependencyError, match="not installed here"):
        supervise(DockerSupervisor(IMAGE, docker="no-such-docker"))


def test_a_container_has_nothing_but_its_input(tmp_path: Path) -> None:
    docker, log = fake_docker(tmp_path, "cat")
    supervisor = DockerSupervisor(IMAGE, read_only_mounts={"/srv/weights": "/weights"}, docker=docker)
    result, receipt = supervise(supervisor, memory_bytes=10**9, cpus=1.5, pids_limit=64)
    assert result.stdout == b"x\n"
    assert receipt.supervisor == f"docker:{IMAGE}"
    command = log.read_text()
    for words in (
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "no-new-privileges",
        "--user 65534:65534",
        "--pull never",
        "--memory 1000000000",
        "--cpus 1.5",
        "--pids-limit 64",
        "type=bind,source=/srv/weights,target=/weights,readonly",
        "--env WORKER_TOKEN",
        f"{IMAGE} python driver.py",
    ):
        assert words in command
    assert "hidden-value" not in command
    assert len(command.splitlines()) == 1  # a container that ended needs no removal


def test_a_container_that_takes_too_long_is_removed(tmp_path: Path) -> None:
    docker, log = fake_docker(tmp_path, "sleep 600")
    result, receipt = supervise(DockerSupervisor(IMAGE, docker=docker), timeout=0.5)
    assert (result.exceeded, receipt.timed_out) == ("time", True)
    started, removed = log.read_text().splitlines()
    name = started.split("--name ")[1].split()[0]
    assert removed == f"rm --force {name}"


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "worker:latest"},
        {"image": "worker@sha256:abc"},
        {"image": "--privileged@sha256:" + "a" * 64},
        {"user": "0:0"},
        {"user": "root"},
        {"read_only_mounts": {"relative": "/x"}},
        {"read_only_mounts": {"/x,readonly=false": "/x"}},
        {"read_only_mounts": {"/x/../etc": "/x"}},
    ],
)
def test_a_container_that_would_not_be_closed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(changes))):
        DockerSupervisor(**{"image": IMAGE, **changes})


@pytest.mark.parametrize("limit", [{"cpus": 1.0}, {"pids_limit": 4}])
def test_a_limit_that_this_machine_cannot_keep_is_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(limit))):
        supervise(LocalSubprocessSupervisor(), **limit)


# --- live history -------------------------------------------------------------------------------------------


def test_a_live_history_is_read_with_its_usage_and_may_not_use_tools() -> None:
    result = LiveHistoryResult.from_dict({"messages": [{"role": "user", "content": "x"}], "usage": USAGE})
    assert result.messages[0]["content"] == "x"
    assert result.usage.model_calls == 1
    with pytest.raises(ValidationError, match="retrieval_calls"):
        LiveHistoryResult.from_dict({"messages": [], "usage": {**USAGE, "retrieval_calls": 1}})
    with pytest.raises(ValidationError, match="usage"):
        LiveHistoryResult.from_dict({"messages": []})
    with pytest.raises(ValidationError, match=r"messages\[0\]"):
        LiveHistoryResult((3,))  # type: ignore[arg-type]


def test_a_response_is_what_it_says() -> None:
    digest = "0" * 64
    assert MethodWorkerResponse.from_dict(MethodWorkerResponse(digest, "ok", {"a": 1}).as_dict()).payload == {"a": 1}
    for wrong in (
        {"status": "fine"},
        {"status": "error"},
        {"status": "ok", "message": "x"},
        {"status": "error", "failure_code": "X", "payload": {"a": 1}},
    ):
        with pytest.raises(ValidationError, match="MethodWorkerResponse"):
            MethodWorkerResponse.from_dict({"request_id": digest, **wrong})
