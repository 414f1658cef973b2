"""Pairs played in a worker process: the generic driver, and workers that misbehave."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agentinputlab.benchmarks.paired_replay import AtomicExternalReplayRunner, AtomicReplayRequest
from agentinputlab.contracts import ArtifactError, ValidationError, to_jsonable
from agentinputlab.experiments.builders import (
    CHECKPOINT_INVENTORY_PROTOCOL,
    AtomicProcessBridge,
    AtomicProcessBridgeBuilder,
    GitCheckout,
    ProcessWorker,
    ProcessWorkerError,
    WorkerBinding,
    build_envelope,
    parse_response,
)
from workers.official_arenas import retail_driver
from workers.official_arenas.providers.fixture import FixtureProvider


@pytest.fixture(scope="module")
def bridge(pairs, fixture_pair) -> AtomicProcessBridge:
    _, binding, variables = fixture_pair
    worker = pairs.python_worker(pairs.DRIVER, environment=variables)
    return AtomicProcessBridgeBuilder(worker, binding).build()


@pytest.fixture(scope="module")
def answer(bridge, fixture_pair) -> dict:
    """What the generic driver answers to the fixture pair."""
    envelope = build_envelope(fixture_pair[0], bridge.worker_parameters())
    return json.loads(bridge.worker.ask(envelope))


def parse(value: object, answer: dict):
    return parse_response(json.dumps(value).encode(), answer["request_hash"])


# --- the generic driver and the host ------------------------------------------------------------------------


def test_a_fixture_pair_through_the_generic_driver_gives_the_documented_numbers(bridge, fixture_pair):
    record = AtomicExternalReplayRunner().run(bridge, fixture_pair[0])
    assert record.contract == "agentinputlab.atomic_external_pair.v1"
    assert record.baseline.metrics == {"official_success": 13.0}
    assert record.treatment.metrics == {"official_success": 20.0}
    assert record.deltas == {"official_success": 7.0}
    runtimes = {arm.role.value: arm.runtime_instance_id[:8] for arm in record.receipt.arms}
    assert runtimes == {"baseline": "f87342ec", "treatment": "dfa19df0"}
    assert record.receipt.bridge_revision == bridge.bridge_revision
    assert set(record.measurements) == {"baseline", "treatment"}


def test_the_origin_of_the_fixture_is_the_documented_one(fixture_pair):
    request = fixture_pair[0]
    assert request.origin_state_hash == "8aed5cb9237df7c65ed606aab71eaa8db4db0ceea042a62caee121909b1f8ae7"
    assert request.replay_identity == "1d3cd511bfc69bdd4486d929588792a9f6eec67ce72986ce165b277b9b1636f0"


def test_the_generic_drivers_answer_is_accepted_by_the_host(answer):
    assert all(set(row) == {"role", "arm_id", "metrics", "trace_hash", "usage"} for row in answer["arms"])
    assert len(answer["receipt"]) == 12
    assert parse(answer, answer).measurements


def test_an_answer_without_measurements_is_accepted_too(answer):
    value = {name: item for name, item in answer.items() if name != "measurements"}
    assert parse(value, answer).measurements == {}


def test_the_request_survives_json(fixture_pair):
    request = fixture_pair[0]
    again = AtomicReplayRequest.from_dict(json.loads(json.dumps(request.as_dict())))
    assert again == request
    assert again.request_hash == request.request_hash


def test_the_checkpoint_protocol_is_importable_here():
    assert CHECKPOINT_INVENTORY_PROTOCOL == "agentinputlab.external-checkpoint-inventory.v1"


def test_a_pair_through_the_durable_driver_is_accepted_and_asking_again_gives_the_same_record(
    pairs, fixture_pair, tmp_path
):
    request, binding, variables = fixture_pair
    root = tmp_path / "ledger"
    root.mkdir(mode=0o700)
    scope_path = tmp_path / "scope.json"
    scope = retail_driver.draft_scope(
        FixtureProvider(),
        pairs.CONFIG,
        output_root=root,
        phase="engineering",
        cell_ids=[retail_driver.cell_id(request.as_dict())],
        entrypoint=binding.provider_entrypoint,
    )
    choice = {"source_kind": "human_message", "thread_id": "t", "message_sha256": "0" * 64}
    scope.update(execution_enabled=True, authorizations={"scope": choice, "environment_models": choice})
    scope_path.write_text(json.dumps(scope))
    variables = {
        **variables,
        retail_driver.SCOPE_PATH_ENV: str(scope_path),
        retail_driver.SCOPE_SHA256_ENV: hashlib.sha256(scope_path.read_bytes()).hexdigest(),
    }
    worker = pairs.python_worker(Path(retail_driver.__file__), environment=variables)
    bridge = AtomicProcessBridgeBuilder(worker, binding).build()
    record = AtomicExternalReplayRunner().run(bridge, request)
    assert record.deltas == {"official_success": 7.0}
    assert AtomicExternalReplayRunner().run(bridge, request) == record
    assert len(list(root.iterdir())) == 1


# --- answers that are refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda a: a.update(schema_version=True), "schema_version"),
        (lambda a: a.update(protocol="other"), "protocol"),
        (lambda a: a.update(request_hash="0" * 64), "another request"),
        (lambda a: a.update(extra=1), "unknown field 'extra'"),
        (lambda a: a.pop("receipt"), "lacks the field 'receipt'"),
        (lambda a: a.update(measurements=[]), "measurements"),
        (lambda a: a["arms"][0].update(trace_measurement={}), "unknown field 'trace_measurement'"),
        (lambda a: a["arms"][0].pop("usage"), "lacks the field 'usage'"),
        (lambda a: a["arms"][0]["usage"].update(tokens=1), "unknown field 'tokens'"),
        (lambda a: a["arms"][0]["usage"].pop("cost_usd"), "lacks the field 'cost_usd'"),
        (lambda a: a["arms"][0]["usage"].update(model_calls=-1), "model_calls"),
        (lambda a: a["arms"][0].update(metrics={}), "at least one measure"),
        (lambda a: a["arms"][0]["metrics"].update(official_success=True), "finite number"),
        (lambda a: a["arms"][0].update(trace_hash="x"), "trace_hash"),
        (lambda a: a["arms"][0].update(role="baseline"), "one baseline and one treatment"),
        (lambda a: a["arms"].pop(), "one baseline and one treatment"),
        (lambda a: a["receipt"].update(extra=1), "unknown field 'extra'"),
        (lambda a: a["receipt"]["arms"][0].update(completed=False), "completed"),
        (lambda a: a["receipt"]["arms"][0].update(completed=1), "completed"),
        (lambda a: a["receipt"].update(seed=17.0), "seed"),
        (lambda a: a["receipt"].update(locked_dependency_hashes={}), "must not be empty"),
    ],
)
def test_an_answer_with_a_wrong_field_is_refused_and_the_field_named(answer, change, named):
    value = json.loads(json.dumps(answer))
    change(value)
    with pytest.raises(ValidationError, match=named):
        parse(value, answer)


@pytest.mark.parametrize("data", [b"", b"{}{}", b'{"a":1,"a":2}', b"NaN", b"\xff", b"[" * 10_000])
def test_an_answer_that_is_no_strict_json_is_refused_without_quoting_it(data):
    with pytest.raises(ValidationError, match="not strict JSON of allowed length"):
        parse_response(data, "0" * 64)


class Answering:
    """A bridge that gives a prepared answer."""

    def __init__(self, bridge: AtomicProcessBridge, value: dict) -> None:
        self.bridge_id, self.bridge_revision = bridge.bridge_id, bridge.bridge_revision
        self.scorer_id, self.scorer_revision = bridge.scorer_id, bridge.scorer_revision
        self._value = value

    def execute(self, request: AtomicReplayRequest):
        return parse(self._value, self._value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda a: a["receipt"].update(checkpoint_id="other"), "receipt.checkpoint_id differs"),
        (lambda a: a["receipt"].update(source_revision="1" * 40), "receipt.source_revision differs"),
        (lambda a: a["receipt"].update(seed=18), "receipt.seed differs"),
        (lambda a: a["receipt"].update(bridge_revision="other"), "receipt.bridge_revision differs"),
        (lambda a: a["receipt"].update(scorer_id="other"), "receipt.scorer_id differs"),
        (lambda a: a["receipt"]["arms"][0].update(arm_id="x"), "receipt of treatment: arm_id differs"),
        (lambda a: a["arms"][1].update(arm_id="x"), "result of baseline: arm_id differs"),
        (
            lambda a: a["receipt"]["arms"][0].update(origin_state_hash="0" * 64),
            "receipt of treatment: origin_state_hash differs",
        ),
        (
            lambda a: a["receipt"]["arms"][1].update(locked_dependency_hashes={"x": "0" * 64}),
            "receipt of baseline: locked_dependency_hashes differs",
        ),
        (
            lambda a: a["receipt"]["arms"][0].update(
                runtime_instance_id=a["receipt"]["arms"][1]["runtime_instance_id"]
            ),
            "in one runtime",
        ),
        (lambda a: a["arms"][0]["metrics"].update(other=1.0), "only one has other"),
        (
            lambda a: [
                row["metrics"].update(official_success=n) for row, n in zip(a["arms"], (1.7e308, -1.7e308), strict=True)
            ],
            "too large",
        ),
    ],
)
def test_a_pair_that_is_not_the_one_asked_for_is_refused(bridge, fixture_pair, answer, change, named):
    value = json.loads(json.dumps(answer))
    change(value)
    with pytest.raises(ValidationError, match=named):
        AtomicExternalReplayRunner().run(Answering(bridge, value), fixture_pair[0])


def test_the_unchanged_answer_passes_the_same_check(bridge, fixture_pair, answer):
    assert AtomicExternalReplayRunner().run(Answering(bridge, answer), fixture_pair[0]).deltas


# --- requests that are refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r: r["arms"].pop(), "one baseline and one treatment"),
        (lambda r: r["arms"][0].update(role="baseline"), "one baseline and one treatment"),
        (lambda r: r["arms"][0].update(arm_id=r["arms"][1]["arm_id"]), "different arm_id"),
        (lambda r: r["arms"][0].update(extra=1), "unknown field 'extra'"),
        (lambda r: r.update(seed=True), "seed"),
        (lambda r: r.update(replay_identity="x"), "replay_identity"),
        (lambda r: r.update(locked_dependency_hashes={"a": "b"}), "locked_dependency_hashes"),
        (lambda r: r.pop("checkpoint_id"), "lacks the field 'checkpoint_id'"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_starts(fixture_pair, change, named):
    value = fixture_pair[0].as_dict()
    change(value)
    with pytest.raises(ValidationError, match=named):
        AtomicReplayRequest.from_dict(value)


# --- workers --------------------------------------------------------------------------------------------------


def test_a_worker_is_bound_to_the_bytes_of_its_files(pairs, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("print('{}')")
    worker = pairs.python_worker(script)
    assert worker.ask({}) == b"{}\n"
    script.write_text("print('{ }')")
    with pytest.raises(ArtifactError, match=r"worker entrypoint .* has other bytes"):
        worker.ask({})
    with pytest.raises(ArtifactError, match=r"worker executable .* has other bytes"):
        replace(pairs.python_worker(script), executable_sha256="0" * 64).verify()
    script.unlink()
    with pytest.raises(ArtifactError, match="absent"):
        worker.verify()


def test_a_worker_that_replaces_itself_while_it_runs_is_found_out(pairs, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("open(__file__, 'a').write('#'); print('{}')")
    with pytest.raises(ArtifactError, match="has other bytes"):
        pairs.python_worker(script).ask({})


def test_an_entry_point_that_is_a_link_is_refused(pairs, tmp_path):
    (tmp_path / "real.py").write_text("print('{}')")
    (tmp_path / "link.py").symlink_to(tmp_path / "real.py")
    with pytest.raises(ArtifactError, match="no regular file"):
        pairs.python_worker(tmp_path / "link.py")


def test_a_worker_sees_only_the_variables_it_was_given(pairs, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY_OF_THE_HOST", "s3cret")
    monkeypatch.setenv("WANTED", "yes")
    script = tmp_path / "worker.py"
    script.write_text("import json, os; print(json.dumps(dict(os.environ)))")
    worker = pairs.python_worker(script, environment={"SET": "1"}, passthrough_environment=("WANTED",))
    seen = json.loads(worker.ask({}))
    assert (seen["SET"], seen["WANTED"]) == ("1", "yes")
    assert "SECRET_KEY_OF_THE_HOST" not in seen
    monkeypatch.delenv("WANTED")
    with pytest.raises(ValidationError, match="WANTED, which is not set"):
        worker.ask({})


def test_the_request_arrives_on_standard_input_as_canonical_json(pairs, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("import sys; sys.stdout.write(sys.stdin.read())")
    assert pairs.python_worker(script).ask({"b": "é", "a": [1, 2.0]}) == '{"a":[1,2.0],"b":"é"}'.encode()


def test_a_failing_worker_is_an_error_that_names_its_error_and_does_not_repeat_its_words(pairs, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        'import sys; print(\'{"error": "OfficialArenaError", "message": "my secret"}\', file=sys.stderr); sys.exit(2)'
    )
    with pytest.raises(ProcessWorkerError, match=r"exit code 2 \(OfficialArenaError\)") as caught:
        pairs.python_worker(script).ask({})
    assert "secret" not in str(caught.value)
    assert b"my secret" in caught.value.stderr
    assert (caught.value.exit_code, caught.value.error_type) == (2, "OfficialArenaError")


def test_a_worker_that_writes_too_much_is_killed(pairs, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("import sys\nwhile True: sys.stdout.write('x' * 65536)")
    with pytest.raises(ProcessWorkerError, match="too much to stdout"):
        pairs.python_worker(script).ask({}, max_bytes=1000)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_worker_that_takes_too_long_is_killed_with_its_children(pairs, tmp_path):
    pids = tmp_path / "pids"
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(ProcessWorkerError, match="longer than 2 s"):
        pairs.python_worker(script, timeout_seconds=2).ask({})
    for pid in map(int, pids.read_text().split()):
        for _ in range(100):
            if not _alive(pid):
                break
            time.sleep(0.05)
        assert not _alive(pid)


def test_a_worker_killed_from_outside_is_an_error(pairs, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ProcessWorkerError, match="exit code") as caught:
        pairs.python_worker(script).ask({})
    assert caught.value.exit_code == -signal.SIGKILL


def test_the_driver_refuses_an_altered_inventory_and_the_host_says_so(pairs, fixture_pair, tmp_path):
    request, binding, variables = fixture_pair
    other = tmp_path / "replays.json"
    other.write_text("{}")
    worker = pairs.python_worker(pairs.DRIVER, environment={**variables, pairs.PATH_VARIABLE: str(other)})
    bridge = AtomicProcessBridgeBuilder(worker, binding).build()
    with pytest.raises(ProcessWorkerError, match="OfficialArenaError"):
        bridge.execute(request)


# --- bindings -------------------------------------------------------------------------------------------------


def test_the_revision_of_a_bridge_names_bytes_and_settings_but_no_paths(pairs, fixture_pair, tmp_path):
    _, binding, variables = fixture_pair
    copies = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        copies.append(tmp_path / name / "worker.py")
        copies[-1].write_text("print('{}')")
    one, same = (AtomicProcessBridge(pairs.python_worker(path, environment=variables), binding) for path in copies)
    assert one.bridge_revision == same.bridge_revision
    other = AtomicProcessBridge(replace(one.worker, arguments=("--x",)), binding)
    assert other.bridge_revision != one.bridge_revision
    assert str(tmp_path) not in json.dumps(to_jsonable(one.worker.identity()))


def test_a_binding_whose_variables_the_worker_does_not_get_is_refused(pairs, fixture_pair, tmp_path):
    _, binding, _ = fixture_pair
    with pytest.raises(ValidationError, match=f"{pairs.SHA256_VARIABLE}, which the worker neither sets"):
        AtomicProcessBridgeBuilder(pairs.python_worker(pairs.DRIVER, environment={pairs.PATH_VARIABLE: "/x"}), binding)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds must be positive"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds"),
        ({"environment": {"A B": "x"}}, "no name of a variable"),
        ({"environment": {"A": 1}}, "environment"),
        ({"passthrough_environment": ("A=B",)}, "no name of a variable"),
        ({"environment": {"A": "1"}, "passthrough_environment": ("A",)}, "choose one"),
        ({"arguments": ("",)}, "arguments"),
    ],
)
def test_wrong_settings_of_a_worker_are_refused(pairs, settings, named):
    with pytest.raises(ValidationError, match=named):
        pairs.python_worker(pairs.DRIVER, **settings)


def test_paths_of_a_worker_are_absolute():
    with pytest.raises(ValidationError, match=r"worker\.executable must be an absolute path"):
        ProcessWorker(Path("python"), "0" * 64, Path("/x"), "0" * 64)


def test_a_binding_checks_its_digest():
    with pytest.raises(ValidationError, match="expected_replay_inventory_sha256"):
        WorkerBinding(
            provider_entrypoint="a:b",
            provider_config={},
            replay_inventory_environment="A",
            replay_inventory_sha256_environment="B",
            expected_replay_inventory_sha256="x",
            scorer_id="s",
            scorer_revision="r",
        )


def _git(path: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "-C", str(path), *arguments], check=True, capture_output=True)


def test_a_worker_in_a_checkout_is_bound_to_its_commit(pairs, tmp_path):
    root = tmp_path / "checkout"
    root.mkdir()
    script = root / "worker.py"
    script.write_text("print('{}')")
    _git(root, "init", "-q")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "one")
    checkout = GitCheckout.bind(root)
    worker = pairs.python_worker(script, checkout=checkout)
    assert worker.ask({}) == b"{}\n"
    assert worker.identity()["checkout_revision"] == checkout.revision
    (root / "data.txt").write_text("x")
    _git(root, "add", ".")
    with pytest.raises(ArtifactError, match="local changes"):
        worker.ask({})
    _git(root, "commit", "-q", "-m", "two")
    with pytest.raises(ArtifactError, match="is not at revision"):
        worker.ask({})
    with pytest.raises(ValidationError, match="must lie in"):
        replace(worker, entrypoint=Path(sys.executable))
    with pytest.raises(ArtifactError, match="no git checkout"):
        GitCheckout.bind(tmp_path)
