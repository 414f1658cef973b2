"""The fixture arena has its documented values, and a pair of it goes through the generic worker."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import workers.official_arenas.driver as worker
from agentinputlab.benchmarks.paired_replay import ArmRole
from agentinputlab.experiments.builders.responses import parse_response
from workers.official_arenas.capture_records import _records
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.providers import PROVIDERS, provider_entrypoint, resolve_provider
from workers.official_arenas.providers.fixture import FixtureProvider

RUNTIMES = {
    "baseline": "f87342ec69d6764785d08a686027f8558158dcf5e3955def3dd77c3f6028e754",
    "treatment": "dfa19df0f6ff9886d6787860515b22e79ca4223d55cebc84628ef0c220ee1101",
}
DRIVER_FILE = Path(worker.__file__)
WAYS_TO_START = {"file": [str(DRIVER_FILE)], "module": ["-m", "workers.official_arenas.driver"]}


def start(arguments, *, data=b"", environment=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AILAB_")}
    return subprocess.run(
        [sys.executable, *arguments], input=data, capture_output=True, env={**clean, **(environment or {})}, check=False
    )


def test_captured_checkpoint_has_the_documented_identities(fixture_config, tmp_path):
    visible, protected, unit_ids = _records(FixtureProvider(), fixture_config, split="test", output_root=tmp_path)
    assert unit_ids == ["fixture-1"]
    assert visible[0]["origin_state_hash"] == "8aed5cb9237df7c65ed606aab71eaa8db4db0ceea042a62caee121909b1f8ae7"
    assert visible[0]["replay_identity"] == "1d3cd511bfc69bdd4486d929588792a9f6eec67ce72986ce165b277b9b1636f0"
    assert visible[0]["group_id"] == "group_c7f28bce8a3c101ba0557598983a3d756796500a62fa5030e365eb2d9db1b798"
    assert visible[0]["visible_state_hash"] == "e916c05cc5bcae6b4a40038b7cc6e9e8eb9ebfeb1dbaa9ec37d1e834a932c622"
    assert protected[0]["visible_state_hash"] == visible[0]["visible_state_hash"]
    assert protected[0]["origin_state_hash"] == visible[0]["origin_state_hash"]


def test_pair_scores_the_lengths_of_its_queries_in_two_known_runtimes(make_pair):
    pair = make_pair("x" * 13, "y" * 20)
    response = worker.run(pair.envelope(), environment=pair.environment)
    assert [arm["metrics"] for arm in response["arms"]] == [{"official_success": 13.0}, {"official_success": 20.0}]
    assert {row["role"]: row["runtime_instance_id"] for row in response["receipt"]["arms"]} == RUNTIMES
    assert [arm["usage"]["tool_calls"] for arm in response["arms"]] == [1, 1]


def test_arm_rows_have_five_fields_and_the_rest_is_measured_apart(make_pair):
    pair = make_pair()
    response = worker.run(pair.envelope(), environment=pair.environment)
    assert {frozenset(arm) for arm in response["arms"]} == {
        frozenset({"role", "arm_id", "metrics", "trace_hash", "usage"})
    }
    assert len(response["receipt"]) == 12
    measured = response["measurements"]["treatment"]
    assert measured["trace_measurement"]["first_action"] == {"kind": "read_call", "message_index": 1}
    assert measured["intervention_failure"] is None


def test_host_accepts_what_the_generic_worker_answers(make_pair):
    pair = make_pair("x" * 13, "y" * 20)
    response = worker.run(pair.envelope(), environment=pair.environment)
    result = parse_response(json.dumps(response).encode(), response["request_hash"])
    assert result.arm(ArmRole.TREATMENT).metrics["official_success"] == 20.0
    assert set(result.measurements) == {"baseline", "treatment"}


@pytest.mark.parametrize("way", WAYS_TO_START)
def test_doctor_answers_however_the_worker_is_started(way, tmp_path):
    done = start([*WAYS_TO_START[way], "--doctor"])
    assert json.loads(done.stdout) == {"protocol": "agentinputlab.official-arena-worker.v1", "ready": True}
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("way", WAYS_TO_START)
def test_pair_through_a_process(way, make_pair):
    pair = make_pair("x" * 13, "y" * 20)
    envelope = pair.envelope()
    done = start(WAYS_TO_START[way], data=json.dumps(envelope).encode(), environment=pair.environment)
    assert (done.returncode, done.stderr) == (0, b"")
    result = parse_response(done.stdout, envelope["request_hash"])
    assert result.arm(ArmRole.BASELINE).metrics["official_success"] == 13.0
    assert done.stdout.count(b"\n") == 1


def test_started_as_a_file_the_worker_uses_the_code_beside_it(tmp_path):
    shutil.copytree(DRIVER_FILE.parents[2], tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    driver = tmp_path / "src" / "workers" / "official_arenas" / "driver.py"
    code = f"import runpy, sys; runpy.run_path({str(driver)!r}); print(sys.modules['workers'].__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == tmp_path / "src" / "workers" / "__init__.py"


@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"a":1,"a":2}', b"\xff", b"[" * 5000, b"[NaN]", b"", b'{"a":1} 2', b'"\\ud800"'],
    ids=["empty", "duplicate", "utf8", "depth", "nan", "nothing", "trailing", "surrogate"],
)
def test_bad_request_is_one_line_on_stderr_and_exit_2(data):
    done = start(WAYS_TO_START["file"], data=data)
    assert (done.returncode, done.stdout) == (2, b"")
    assert set(json.loads(done.stderr)) == {"error", "message"}


def test_request_longer_than_64_mib_is_refused():
    done = start(WAYS_TO_START["file"], data=b'"' + b"x" * (64 * 2**20) + b'"')
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"strict JSON" in done.stderr


def test_answer_is_utf8_whatever_the_locale_says(make_pair):
    pair = make_pair()
    for arm in pair.request["arms"]:
        arm["arm_id"] = arm["payload"]["arm_id"] = f"Ärm {arm['role']}"
    environment = {**pair.environment, "PYTHONIOENCODING": "ascii"}
    done = start(WAYS_TO_START["file"], data=json.dumps(pair.envelope()).encode(), environment=environment)
    assert [arm["arm_id"] for arm in json.loads(done.stdout)["arms"]] == ["Ärm baseline", "Ärm treatment"]


def test_refusal_shows_nothing_of_the_request(make_pair):
    pair = make_pair("PLANTED-SECRET-QUERY")
    pair.request["arms"][0]["payload"]["arm_id"] = "PLANTED-SECRET-ARM"
    pair.request["PLANTED-SECRET-FIELD"] = 1
    done = start(WAYS_TO_START["file"], data=json.dumps(pair.envelope()).encode(), environment=pair.environment)
    assert done.returncode == 2
    assert b"PLANTED" not in done.stdout + done.stderr


def test_worker_leaves_nothing_behind(make_pair, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    pair = make_pair()
    worker.run(pair.envelope(), environment=pair.environment)
    assert list(scratch.iterdir()) == []


def test_reserved_names_cannot_be_reached_by_other_entry_points():
    for entrypoint in ("os:getcwd", "workers.official_arenas.providers.fixture:FixtureProvider", "fixture:factory", ""):
        with pytest.raises(OfficialArenaError, match="accepted arenas"):
            resolve_provider(entrypoint)


def test_table_gives_arenas_by_name():
    assert provider_entrypoint("fixture.common_support") == PROVIDERS["fixture.common_support"]
    with pytest.raises(OfficialArenaError, match=r"installed are .*embedded\.retail"):
        provider_entrypoint("nope")


@pytest.mark.parametrize("name", ["fixture.common_support", "tau3.retail"])
def test_arena_declares_the_files_that_decide_its_outcome(name):
    provider = resolve_provider(PROVIDERS[name])
    files = provider.source_files()
    assert provider.benchmark_id == name
    assert provider.seed == 17
    assert set(provider.helper_files()) <= set(files)
    assert "workers/official_arenas/_requests.py" in files
    assert all(path.is_file() and path.as_posix().endswith(relative) for relative, path in files.items())


def test_numbered_tasks_are_disjoint_between_splits_and_digits(fixture_config):
    provider = FixtureProvider()
    agent = {"backend": "scripted", "model": "none", "args": {}}
    ids = {
        split: provider.task_ids(provider.campaign_config(split=split, limit=None, agent=agent, budget=None))
        for split in ("train", "test")
    }
    assert {split: len(part) for split, part in ids.items()} == dict(provider.split_sizes)
    assert not set(ids["train"]) & set(ids["test"])
    assert all(task_id.isascii() and task_id.isdigit() for part in ids.values() for task_id in part)
    assert provider.task_ids(fixture_config) == ["fixture-1"]


def test_numbered_tasks_are_captured_once_into_a_ledger(tmp_path):
    root = tmp_path / "ledger"
    root.mkdir(mode=0o700)
    provider = FixtureProvider()
    config = provider.campaign_config(split="train", limit=3, agent={}, budget=None)
    told = []
    batch = provider.capture_batch(config, output_root=root, on_task=lambda *row: told.append(row))
    assert told == [("0", "captured"), ("1", "captured"), ("2", "captured")]
    assert provider.capture_batch(config, output_root=root) == batch
    visible, _, _ = _records(provider, config, split="train", output_root=root)
    assert [row["checkpoint_id"] for row in visible] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "change",
    [
        {"fixture": 1},
        {"surplus": 1},
        {"locked_dependency_hashes": {"official_runtime": "2" * 64}},
        {"limit": 1},
        {"limit": True, "task_split_name": "train"},
        {"limit": 1001, "task_split_name": "train"},
        {"limit": 1, "task_split_name": "dev"},
    ],
)
def test_doctor_says_what_is_wrong_with_a_config(change, fixture_config):
    assert FixtureProvider().doctor(fixture_config) == ()
    assert len(FixtureProvider().doctor({**fixture_config, **change})) == 1
