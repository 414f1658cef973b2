"""The identity of a run, the form of its log, and the copy of it that may fail."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import structlog
import torch

from concerto.training.logging import (
    GIT_SHA_UNKNOWN,
    LogNamespace,
    RunContext,
    bind_run_logger,
    compute_run_metadata,
    log_eval,
    log_scalars,
    make_wandb_run_sink,
)
from ripieno.errors import InputError, StorageError

CONTEXT = RunContext("0123456789abcdef", 3, GIT_SHA_UNKNOWN, "e3b0", "ego_aht_happo", {"task": "push"})
ENABLED = SimpleNamespace(enabled=True, project="concerto-chamber")


def read(path: Path) -> list[dict[str, Any]]:
    """Strict: no reader of JSON may stumble over a line."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text(encoding="utf-8").splitlines()]


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", root, *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    (root / "pyproject.toml").write_text("[project]\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


# --- identity -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "run_kind", "fingerprint", "run_id"),
    [
        (0, "empirical_guarantee", None, "0900d7a13562ee11"),
        (0, "empirical_guarantee", "0123456789abcdef", "99ddf980c2a944ed"),
        (7, "zoo_seed", None, "b010a0432af43d9f"),
        (np.int64(7), "zoo_seed", None, "b010a0432af43d9f"),
    ],
)
def test_acceptance_4_the_documented_run_ids(
    tmp_path: Path, seed: int, run_kind: str, fingerprint: str | None, run_id: str
) -> None:
    context = compute_run_metadata(seed=seed, run_kind=run_kind, repo_root=tmp_path, config_fingerprint=fingerprint)
    assert context.run_id == run_id
    assert (type(context.seed), context.git_sha) == (int, "unknown")
    assert context.pyproject_hash == hashlib.sha256(b"").hexdigest()
    assert (context.git_dirty, context.lock_file_sha256, context.extra) == (None, None, {})


def test_acceptance_6_a_moving_head_changes_nothing_within_a_process(repository: Path) -> None:
    before = compute_run_metadata(seed=0, run_kind="x", repo_root=repository)
    assert before.git_sha == git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert git(repository, "rev-parse", "HEAD") != before.git_sha
    assert compute_run_metadata(seed=0, run_kind="x", repo_root=repository) == before


def test_a_relative_root_is_the_folder_it_names_now(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.parent)
    outside = compute_run_metadata(seed=0, run_kind="x", repo_root=Path())
    monkeypatch.chdir(repository)
    inside = compute_run_metadata(seed=0, run_kind="x", repo_root=Path())
    assert (outside.git_sha, inside.git_sha) == (GIT_SHA_UNKNOWN, git(repository, "rev-parse", "HEAD"))


def test_dirt_and_locks_are_recorded_but_are_not_identity(repository: Path, tmp_path: Path) -> None:
    clean = compute_run_metadata(seed=0, run_kind="x", repo_root=repository)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", repository, copy], check=True)
    (copy / "pyproject.toml").write_text("[project] # changed\n")
    (copy / "uv.lock").write_text("pinned")
    changed = compute_run_metadata(seed=0, run_kind="x", repo_root=copy)
    (copy / "pyproject.toml").write_text("[project]\n")
    dirty = compute_run_metadata(seed=0, run_kind="x", repo_root=copy)
    assert (clean.git_dirty, clean.lock_file_sha256) == (False, None)
    assert (dirty.git_dirty, dirty.lock_file_sha256) == (True, hashlib.sha256(b"pinned").hexdigest())
    assert dirty.run_id == clean.run_id
    assert changed.run_id != clean.run_id, "the configuration of the project is identity"


def test_extra_is_copied(tmp_path: Path) -> None:
    extra = {"task": "push"}
    context = compute_run_metadata(seed=0, run_kind="x", repo_root=tmp_path, extra=extra)
    extra["task"] = "other"
    assert context.extra == {"task": "push"}


@pytest.mark.parametrize("seed", [True, 1.5, "3"])
def test_a_seed_is_a_whole_number(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(InputError, match="seed must be a whole number"):
        compute_run_metadata(seed=seed, run_kind="x", repo_root=tmp_path)


def test_extra_cannot_hide_the_identity() -> None:
    with pytest.raises(ValueError, match="no extra may be named run_id, step"):
        RunContext("a", 0, "b", "c", "d", {"step": "1", "run_id": "other", "fine": "x"})


# --- lines --------------------------------------------------------------------------------------------------


def test_every_line_has_the_context_in_sorted_keys_and_nothing_goes_to_stdout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "deep" / "run.jsonl"
    with bind_run_logger(CONTEXT, jsonl_path=path) as logger:
        assert isinstance(logger, structlog.BoundLogger)
        logger.info("training_start", total_frames=100, checkpoint_every=30)
        logger.bind(worker=2).warning("slow")
        assert len(read(path)) == 2, "a line is there as soon as the call returns"
    first, second = read(path)
    context = {
        "git_sha": "unknown",
        "pyproject_hash": "e3b0",
        "run_id": "0123456789abcdef",
        "run_kind": "ego_aht_happo",
        "seed": 3,
        "task": "push",
    }
    assert first == {
        **context,
        "event": "training_start",
        "level": "info",
        "total_frames": 100,
        "checkpoint_every": 30,
    }
    assert second == {**context, "event": "slow", "level": "warning", "worker": 2}
    assert list(first) == sorted(first)
    assert capfd.readouterr() == ("", "")


class Kind(Enum):
    A = "a"


def test_numbers_of_any_library_are_numbers_and_what_json_cannot_say_is_null_or_text(tmp_path: Path) -> None:
    values: dict[str, tuple[object, object]] = {
        "float32": (np.float32(0.5), 0.5),
        "int64": (np.int64(2**40), 2**40),
        "bool_": (np.bool_(True), True),
        "array": (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        "tensor": (torch.tensor([1.0, float("inf")], requires_grad=True), [1.0, None]),
        "scalar_tensor": (torch.tensor(2.5), 2.5),
        "nan": (float("nan"), None),
        "np_nan": (np.float64("nan"), None),
        "infinities": ({"high": float("inf"), "low": -np.inf, 3: (1, 2)}, {"high": None, "low": None, "3": [1, 2]}),
        "path": (Path("/a/b"), "/a/b"),
        "kind": (Kind.A, "Kind.A"),
        "none": (None, None),
        "text": ("é\ud800\n", "é\ud800\n"),
    }
    with bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl") as logger:
        logger.info("all", **{name: given for name, (given, _) in values.items()})
    [line] = read(tmp_path / "run.jsonl")
    assert {name: line[name] for name in values} == {name: wanted for name, (_, wanted) in values.items()}


def test_acceptance_7_scalars_have_a_namespace_of_the_list(tmp_path: Path) -> None:
    with bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl") as logger:
        with pytest.raises(ValueError, match=r"\['eval', 'hardware', 'rollout', 'safety', 'train'\], got 'trian'"):
            log_scalars(logger, step=1, namespace="trian", x=1.0)  # type: ignore[arg-type]
        for namespace in get_args(LogNamespace):
            log_scalars(logger, step=8, namespace=namespace, mean_reward=-1.5, other=None)
    lines = read(tmp_path / "run.jsonl")
    assert [line["metric_namespace"] for line in lines] == ["train", "eval", "safety", "hardware", "rollout"]
    last = lines[-1]
    assert (last["event"], last["level"], last["step"], last["mean_reward"], last["other"]) == (
        "scalar",
        "info",
        8,
        -1.5,
        None,
    )
    assert last["wall_time"].endswith("+00:00")


def test_an_evaluation_is_one_line_of_its_namespace(tmp_path: Path) -> None:
    with bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl") as logger:
        log_eval(logger, step=np.int64(500), condition="as-hetero", success_rate=0.25, n_terminated=3)  # type: ignore[arg-type]
    [line] = read(tmp_path / "run.jsonl")
    assert line["event"] == "eval"
    assert line["wall_time"].endswith("+00:00")
    wanted = {"metric_namespace": "eval", "step": 500, "condition": "as-hetero", "success_rate": 0.25}
    assert wanted.items() <= line.items()


@pytest.mark.parametrize(
    "name", ["event", "level", "run_id", "seed", "metric_namespace", "wall_time", "task", "condition"]
)
def test_a_metric_cannot_replace_what_every_line_says(tmp_path: Path, name: str) -> None:
    metric: dict[str, Any] = {name: 1.0}
    with bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl") as logger:
        with pytest.raises(ValueError, match=f"no scalar may be named {name}"):
            log_scalars(logger, step=1, namespace="train", **metric)
        if name != "condition":  # a parameter of log_eval
            with pytest.raises(ValueError, match=f"no result may be named {name}"):
                log_eval(logger, step=1, condition="x", **metric)
    assert read(tmp_path / "run.jsonl") == []


# --- opening and closing ------------------------------------------------------------------------------------


def test_a_closed_log_takes_nothing_more_and_can_be_closed_again(tmp_path: Path) -> None:
    logger = bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl")
    child = logger.bind(part=1)
    child.info("one")
    child.close()
    logger.close()
    with pytest.raises(ValueError, match=r"run\.jsonl is closed.*'two'"):
        logger.info("two")
    assert [line["event"] for line in read(tmp_path / "run.jsonl")] == ["one"]


def test_an_earlier_log_is_kept_where_no_reader_of_logs_looks(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for number in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with bind_run_logger(CONTEXT, jsonl_path=path) as logger:
                logger.info(f"run {number}")
        assert [warning.category for warning in caught] == [UserWarning] * (number > 0)
        assert all(f"run.previous-{number}.jsonl.old" in str(warning.message) for warning in caught)
    assert list(tmp_path.glob("**/*.jsonl")) == [path]
    kept = [tmp_path / f"run.previous-{number}.jsonl.old" for number in (1, 2)]
    assert [read(log)[0]["event"] for log in (*kept, path)] == ["run 0", "run 1", "run 2"]


def test_an_empty_log_is_not_worth_keeping(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").touch()
    bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl").close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


@pytest.mark.parametrize("torn", [b"", b'{"event": "ro'])
def test_a_resumed_run_appends_and_completes_a_torn_line(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "run.jsonl"
    with bind_run_logger(CONTEXT, jsonl_path=path) as logger:
        logger.info("before")
    before = path.read_bytes() + torn
    path.write_bytes(before)
    with bind_run_logger(CONTEXT, jsonl_path=path, resume=True) as logger:
        logger.info("training_resumed")
    lines = path.read_bytes().splitlines()
    assert path.read_bytes().startswith(before)
    assert [json.loads(lines[index])["event"] for index in (0, -1)] == ["before", "training_resumed"]
    assert len(lines) == 2 + bool(torn)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.jsonl"]


def test_a_resumed_run_without_its_log_begins_one(tmp_path: Path) -> None:
    with bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl", resume=True) as logger:
        logger.info("training_resumed")
    assert len(read(tmp_path / "run.jsonl")) == 1


@pytest.mark.parametrize("resume", [False, True])
def test_a_log_that_is_being_written_is_left_alone(tmp_path: Path, resume: bool) -> None:
    path = tmp_path / "run.jsonl"
    with bind_run_logger(CONTEXT, jsonl_path=path) as logger:
        logger.info("one")
        with pytest.raises(InputError, match="this run is already running"):
            bind_run_logger(CONTEXT, jsonl_path=path, resume=resume)
        logger.info("two")
    assert [line["event"] for line in read(path)] == ["one", "two"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "run.jsonl", tmp_path):
        with pytest.raises(InputError, match=f"cannot open the log {path}"):
            bind_run_logger(CONTEXT, jsonl_path=path)


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """The kernel refuses what lies beyond, after it has taken what fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_and_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with bind_run_logger(CONTEXT, jsonl_path=path) as logger:
        logger.info("before")
        with files_of_at_most(path.stat().st_size + 20), pytest.raises(StorageError, match="cannot write to the log"):
            logger.info("lost", blob="x" * 1000)
        logger.info("after")
    assert [line["event"] for line in read(path)] == ["before", "after"]


def test_without_structlog_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    with pytest.raises(ImportError, match=r"pip install 'ripieno-concerto\[train\]'"):
        bind_run_logger(CONTEXT, jsonl_path=tmp_path / "run.jsonl")
    assert not (tmp_path / "run.jsonl").exists()


def test_the_modules_import_without_any_extra() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'structlog', 'wandb', 'hydra', 'av'): sys.modules[name] = None\n"
        "import concerto.training.logging, concerto.training.checkpoints, concerto.training.safety_telemetry\n"
        "import chamber.observability\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Weights & Biases ---------------------------------------------------------------------------------------


@dataclass
class ListSink:
    """A sink that remembers everything, and can be told to fail."""

    fails_from: int = 10**9
    events: list[tuple[dict[str, object], int | None]] = field(default_factory=list)
    config: list[dict[str, object]] = field(default_factory=list)
    n_closed: int = 0

    def log(self, data: Mapping[str, object], *, step: int | None = None) -> None:
        self.events.append((dict(data), step))
        if len(self.events) > self.fails_from:
            raise ConnectionError("the cloud is gone")

    def set_config(self, config: Mapping[str, object]) -> None:
        self.config.append(dict(config))
        if self.fails_from == 0:
            raise ConnectionError("the cloud is gone")

    def add_tags(self, tags: Iterable[str]) -> None:
        raise AssertionError("the logger invents no tags")

    def close(self) -> None:
        self.n_closed += 1
        if self.n_closed <= self.fails_from < 10**9:
            raise ConnectionError("the cloud is gone")


def write_a_run(path: Path, sink: ListSink | None) -> list[dict[str, Any]]:
    """Everything but the wall time, which no two runs share."""
    with bind_run_logger(CONTEXT, jsonl_path=path, wandb_sink=sink) as logger:
        logger.info("training_start", total_frames=10)
        for step in (np.int64(4), 8):
            log_scalars(logger, step=step, namespace="train", policy_loss=np.float32(0.5))  # type: ignore[arg-type]
        logger.info("odd", step="not a number")
    return [{name: value for name, value in line.items() if name != "wall_time"} for line in read(path)]


def test_a_sink_gets_every_event_without_the_identity_it_was_configured_with(tmp_path: Path) -> None:
    sink = ListSink()
    write_a_run(tmp_path / "run.jsonl", sink)
    assert sink.config == [
        {
            "run_id": "0123456789abcdef",
            "seed": 3,
            "git_sha": "unknown",
            "pyproject_hash": "e3b0",
            "run_kind": "ego_aht_happo",
            "task": "push",
        }
    ]
    payloads = [event for event, _ in sink.events]
    assert [step for _, step in sink.events] == [None, 4, 8, None]
    assert payloads[0] == {"event": "training_start", "level": "info", "task": "push", "total_frames": 10}
    assert payloads[1].keys() == {
        "event",
        "level",
        "task",
        "step",
        "metric_namespace",
        "wall_time",
        "policy_loss",
    }
    assert sink.n_closed == 1


@pytest.mark.parametrize("fails_from", [0, 2, 10**9])
def test_the_log_is_the_same_with_a_sink_without_one_and_with_one_that_fails(
    tmp_path: Path, fails_from: int, caplog: pytest.LogCaptureFixture
) -> None:
    sink = ListSink(fails_from=fails_from)
    with caplog.at_level(logging.WARNING):
        with_sink = write_a_run(tmp_path / "with.jsonl", sink)
    assert with_sink == write_a_run(tmp_path / "without.jsonl", None)
    assert len(with_sink) == 4
    if fails_from < 10**9:
        assert len(sink.events) == fails_from + 1, "a sink that failed is asked once more at most"
        assert all("the JSONL log goes on: ConnectionError: the cloud is gone" in text for text in caplog.messages)
        assert caplog.messages


def test_acceptance_8_a_copy_that_cannot_be_made_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.warns(UserWarning, match="WANDB_API_KEY is not set") as caught:
        assert make_wandb_run_sink(ENABLED, CONTEXT) is None
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_wandb_run_sink(SimpleNamespace(enabled=False, project="x"), CONTEXT) is None


class FakeRun:
    """What `wandb.init` gives, as far as a sink uses it."""

    def __init__(self, *, finish_fails: bool = False) -> None:
        self.logged: list[tuple[dict[str, Any], int | None]] = []
        self.config: dict[str, Any] = {}
        self.tags: tuple[str, ...] | None = None
        self._finish_fails = finish_fails

    def log(self, data: dict[str, Any], *, step: int | None) -> None:
        self.logged.append((data, step))

    def finish(self) -> None:
        if self._finish_fails:
            raise BrokenPipeError("x" * 1000)


@pytest.mark.parametrize("mode", ["offline", "disabled", "dryrun"])
def test_modes_that_send_nothing_need_no_key(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", mode)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    asked: list[dict[str, Any]] = []
    run = FakeRun()

    def init(**arguments: Any) -> FakeRun:
        asked.append(arguments)
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    sink = make_wandb_run_sink(
        ENABLED, CONTEXT, tags=["stage:1", "backfill:false"], config_extras={"task": "wins", "prereg_sha": "ab"}
    )
    assert sink is not None
    assert asked == [
        {
            "id": "0123456789abcdef",
            "name": "0123456789abcdef",
            "project": "concerto-chamber",
            "tags": ("stage:1", "backfill:false"),
            "config": {**CONTEXT.fields(), "task": "wins", "prereg_sha": "ab"},
            "resume": "never",
            "reinit": True,
        }
    ]
    make_wandb_run_sink(ENABLED, CONTEXT, resume=True)
    assert (asked[1]["tags"], asked[1]["resume"]) == (None, "allow")
    sink.log({"x": 1}, step=3)
    sink.set_config({"a": 1})
    sink.add_tags(["b", "a", "b"])
    sink.add_tags(["a", "c"])
    assert (run.logged, run.config, run.tags) == ([({"x": 1}, 3)], {"a": 1}, ("b", "a", "c"))


def test_a_failing_start_is_one_short_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")

    def init(**_: Any) -> None:
        raise RuntimeError("y" * 1000)

    for module, words in ((SimpleNamespace(init=init), "wandb.init failed"), (None, "wandb cannot be imported")):
        monkeypatch.setitem(sys.modules, "wandb", module)
        with pytest.warns(UserWarning, match=words) as caught:
            assert make_wandb_run_sink(ENABLED, CONTEXT) is None
        assert len(caught) == 1
        assert len(str(caught[0].message)) < 400


def test_a_failing_end_is_a_short_line_of_the_library_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: FakeRun(finish_fails=True)))
    sink = make_wandb_run_sink(ENABLED, CONTEXT)
    assert sink is not None
    sink.close()
    assert [len(text) < 300 for text in caplog.messages] == [True]
    assert "BrokenPipeError" in caplog.text


REAL_RUN = """
import random, sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from concerto.training.logging import RunContext, bind_run_logger, log_scalars, make_wandb_run_sink
from concerto.training.seeding import derive_substream

path, enabled = Path(sys.argv[1]), sys.argv[2] == "with"
random.seed(1), np.random.seed(1)
context = RunContext("0123456789abcdef", 3, "unknown", "e3b0", "ego_aht_happo", {"task": "push"})
sink = make_wandb_run_sink(SimpleNamespace(enabled=enabled, project="p"), context, tags=["stage:1"])
assert (sink is not None) is enabled
draws = derive_substream("trajectory").default_rng()
with bind_run_logger(context, jsonl_path=path, wandb_sink=sink) as logger:
    for step in range(1, 6):
        reward = draws.normal() + random.random() + np.random.random()
        log_scalars(logger, step=step, namespace="train", policy_loss=reward, nothing=float("nan"))
    logger.info("training_end", n_episodes=5)
"""


@pytest.mark.slow
def test_the_real_package_offline_leaves_log_and_randomness_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    folders = {
        name: str(tmp_path / name) for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR")
    }
    for folder in folders.values():
        Path(folder).mkdir()
    environment = {**os.environ, **folders, "WANDB_MODE": "offline", "WANDB_API_KEY": ""}
    lines: dict[str, list[dict[str, Any]]] = {}
    for kind in ("with", "without"):
        path = tmp_path / f"{kind}.jsonl"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", REAL_RUN, path, kind],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        lines[kind] = [{name: value for name, value in line.items() if name != "wall_time"} for line in read(path)]
    assert lines["with"] == lines["without"]
    assert len(lines["with"]) == 6
    [record] = Path(folders["WANDB_DIR"]).glob("wandb/offline-run-*/run-0123456789abcdef.wandb")
    written = record.read_bytes()
    assert all(word in written for word in (b"policy_loss", b"training_end", b"stage:1", b"ego_aht_happo"))
    assert not (tmp_path / "wandb").exists()
