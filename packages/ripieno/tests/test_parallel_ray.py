"""Cells on a Ray cluster that the tests start on this machine, and end."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ripieno.chain import verify_chain, walk_chain
from ripieno.parallel import CellStatus, run_cells

HERE = str(Path(__file__).parent)
sys.path.append(HERE)  # local tasks find the functions by name

import _cell_functions as functions  # noqa: E402 - the line above makes it importable

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster_address() -> Iterator[str]:
    """A cluster of one node with two cores; its workers can import what this process can."""
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def test_cluster_gives_what_the_serial_run_gives(cluster_address: str) -> None:
    cells = [1, 2, 3, 4]
    serial = run_cells(functions.raise_on_three, cells)
    cluster = run_cells(functions.raise_on_three, cells, executor="ray", address=cluster_address)
    for ours, theirs in zip(serial, cluster, strict=True):
        assert (ours.index, ours.label, ours.status, ours.value) == (
            theirs.index,
            theirs.label,
            theirs.status,
            theirs.value,
        )
        assert (ours.error, ours.attempts) == (theirs.error, theirs.attempts)


def test_ray_address_is_found_in_the_environment(cluster_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setenv("RAY_ADDRESS", cluster_address)
    node_of_task = run_cells(lambda _: ray.get_runtime_context().gcs_address, [0], executor="ray")[0]
    assert node_of_task.value == cluster_address
    assert not ray.is_initialized()  # what was connected here is disconnected


def test_connection_of_the_caller_is_used_and_kept(cluster_address: str) -> None:
    import ray

    ray.init(address=cluster_address, log_to_driver=False, logging_level="error")
    try:
        assert run_cells(functions.square, [3.0], executor="ray")[0].value == 9.0
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_task_whose_worker_dies_costs_its_own_cell_and_can_be_retried(cluster_address: str, tmp_path: Path) -> None:
    cells = ["one", "kill", "two", "exit", "raise"]
    call = partial(run_cells, executor="ray", workers=2, address=cluster_address)
    outcomes = call(functions.misbehave, cells)
    assert [o.status for o in outcomes] == ["ok", "died", "ok", "died", "failed"]
    assert "died" in outcomes[1].error
    assert "\n" not in outcomes[1].error
    cell = {"counter": str(tmp_path / "attempts"), "attempts": 2, "how": "die"}
    (outcome,) = call(functions.fail_until, [cell], retries=1)
    assert (outcome.status, outcome.value, outcome.attempts) == (CellStatus.OK, 2, 2)


def test_ledger_of_a_cluster_run_is_continued_by_a_serial_one(cluster_address: str, tmp_path: Path) -> None:
    log, trouble, ledger = tmp_path / "log", tmp_path / "trouble", tmp_path / "cells.jsonl"
    cells = [{"name": "a", "log": str(log)}, {"name": "b", "log": str(log), "trouble": str(trouble)}]
    trouble.touch()
    call = partial(run_cells, functions.note_and_fail_when_told, cells, resume=ledger)
    assert [o.status for o in call(executor="ray", address=cluster_address)] == ["ok", "failed"]
    trouble.unlink()
    assert [(o.value, o.from_ledger) for o in call()] == [("A", True), ("B", False)]
    assert verify_chain(ledger).closing == {"n_cells": 2}


def test_local_ray_is_started_limited_and_ended() -> None:
    import ray

    outcomes = run_cells(functions.thread_limits, [0, 1, 2], executor="ray", workers=2)
    assert [o.value for o in outcomes] == [["1"] * 3] * 3
    assert not ray.is_initialized()


def test_interrupt_ends_local_tasks_and_leaves_a_resumable_ledger(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        f"sys.path.append({HERE!r})\n"
        "from ripieno.parallel import run_cells\n"
        "import _cell_functions as functions\n"
        f"cells = [{{'name': n, 'folder': {str(tmp_path)!r}}} for n in ('quick', 'slow', 'never')]\n"
        "run_cells(functions.sleep_with_a_child, cells, executor='ray', workers=1, "
        f"resume={str(tmp_path / 'cells.jsonl')!r})\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "slow.pids").exists():
            assert time.monotonic() < deadline, "the second cell did not start in time"
            time.sleep(0.1)
        worker, child = map(int, (tmp_path / "slow.pids").read_text().split())
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        process.wait(timeout=60)
    finally:
        process.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline, "the worker outlived the run"
        time.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # Ray promises to end its workers, not what they started
    entries = list(walk_chain(tmp_path / "cells.jsonl"))
    assert [entry.payload.get("label") for entry in entries] == [None, "cell 0"]
    assert not (tmp_path / "never.pids").exists()
