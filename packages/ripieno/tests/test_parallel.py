"""Cells run independently: one that fails costs itself, and what is finished is not run again."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.chain import ChainWriter, verify_chain, walk_chain
from ripieno.errors import InputError, IntegrityError
from ripieno.parallel import CellOutcome, CellStatus, run_cells

HERE = str(Path(__file__).parent)
sys.path.append(HERE)  # spawned workers inherit it and find the functions by name

import _cell_functions as functions  # noqa: E402 - the line above makes it importable

BOTH = pytest.mark.parametrize("executor", ["serial", "processes"])


def essence(outcomes: list[CellOutcome]) -> list[tuple[object, ...]]:
    return [(o.index, o.label, o.status, o.value, o.error, o.attempts) for o in outcomes]


# Outcomes


@BOTH
def test_outcomes_come_in_the_order_of_the_cells(executor) -> None:
    cells = [3.0, -1.0, 0.5, 7.0, 2.0]
    outcomes = run_cells(functions.square, cells, executor=executor, labels=list("abcde"))
    assert [o.value for o in outcomes] == [9.0, 1.0, 0.25, 49.0, 4.0]
    assert [(o.index, o.label) for o in outcomes] == list(enumerate("abcde"))
    assert all(o.ok and o.attempts == 1 and o.seconds >= 0 and not o.error for o in outcomes)


@BOTH
def test_cell_that_raises_is_one_failed_outcome(executor) -> None:
    outcomes = run_cells(functions.raise_on_three, [1, 2, 3, 4], executor=executor)
    assert [o.status for o in outcomes] == ["ok", "ok", "failed", "ok"]
    assert outcomes[2].error == "ValueError: cell 3 is not to my taste"
    assert "in raise_on_three" in outcomes[2].traceback
    assert outcomes[2].value is None
    assert outcomes[2].label == "cell 2"


def test_worker_that_dies_costs_its_own_cell_only() -> None:
    cells = ["one", "kill", "two", "exit", "sys.exit", "segfault", "three", "raise", "unpicklable", "four"]
    outcomes = {
        o.label: o for o in run_cells(functions.misbehave, cells, executor="processes", workers=2, labels=cells)
    }
    assert {label for label, o in outcomes.items() if o.ok} == {"one", "two", "three", "four"}
    assert {label for label, o in outcomes.items() if o.status is CellStatus.DIED} == {
        "kill",
        "exit",
        "sys.exit",
        "segfault",
    }
    assert outcomes["kill"].error == "the worker process was killed by SIGKILL"
    assert outcomes["segfault"].error == "the worker process was killed by SIGSEGV"
    assert outcomes["exit"].error == "the worker process exited with code 7"
    assert outcomes["sys.exit"].error == "the worker process exited with code 3"
    assert outcomes["raise"].error == "RuntimeError: as asked"
    assert "the value cannot be pickled: " in outcomes["unpicklable"].error


def test_worker_that_dies_and_leaves_a_process_behind_is_noticed() -> None:
    started = time.monotonic()
    cells = ["kill, with a child", "one", "real-time signal", "two"]
    outcomes = run_cells(functions.misbehave, cells, executor="processes", workers=2)
    assert [o.status for o in outcomes] == ["died", "ok", "died", "ok"]
    assert outcomes[0].error == "the worker process was killed by SIGKILL"
    assert outcomes[2].error == f"the worker process was killed by signal {signal.SIGRTMIN + 6}"
    assert time.monotonic() - started < 30  # the process left behind holds the pipe for a minute


@BOTH
def test_an_error_of_many_lines_is_one_line(executor) -> None:
    (outcome,) = run_cells(functions.misbehave, ["raise lines"], executor=executor)
    assert outcome.error == "RuntimeError: one two"
    assert "one\n  two" in outcome.traceback


@pytest.mark.parametrize("how", ["raise", "die"])
@pytest.mark.parametrize(("retries", "expected"), [(0, 1), (1, 2), (2, 3), (5, 3)])
def test_retries_are_counted_and_end_with_the_first_success(
    how: str, retries: int, expected: int, tmp_path: Path
) -> None:
    cell = {"counter": str(tmp_path / "attempts"), "attempts": 3, "how": how}
    executor = "processes" if how == "die" else "serial"
    (outcome,) = run_cells(functions.fail_until, [cell], executor=executor, retries=retries)
    assert outcome.attempts == expected
    assert outcome.ok == (retries >= 2)
    assert outcome.value == (3 if retries >= 2 else None)
    assert (tmp_path / "attempts").read_text() == str(expected)


def test_processes_stay_alive_between_cells_and_are_gone_afterwards() -> None:
    outcomes = run_cells(functions.process_id, [0.05] * 8, executor="processes", workers=2)
    workers = {o.value for o in outcomes}
    assert len(workers) == 2
    assert os.getpid() not in workers
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_workers_share_the_cores_between_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    before = dict(os.environ)
    cores = len(os.sched_getaffinity(0))
    outcomes = run_cells(functions.thread_limits, [0, 1], executor="processes", workers=2)
    assert [o.value for o in outcomes] == [[str(max(1, cores // 2))] * 3] * 2
    assert dict(os.environ) == before


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=8), st.integers(0, 2))
def test_serial_run_equals_a_plain_loop(cells: list[int], retries: int) -> None:
    outcomes = run_cells(functions.raise_on_three, cells, retries=retries)
    assert [o.value for o in outcomes] == [None if cell == 3 else cell for cell in cells]
    assert [o.attempts for o in outcomes] == [1 + retries if cell == 3 else 1 for cell in cells]


def test_no_cells_give_no_outcomes() -> None:
    assert run_cells(functions.square, [], executor="processes") == []


def test_progress_is_drawn_on_standard_error_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    run_cells(functions.raise_on_three, [1, 3, 5], progress=True)
    captured = capfd.readouterr()
    assert "3/3" in captured.err
    assert "1 failed" in captured.err
    assert captured.out == ""
    run_cells(functions.raise_on_three, [1, 3, 5])
    assert capfd.readouterr() == ("", "")


# Ledger


def work(tmp_path: Path, *names: str) -> list[dict[str, str]]:
    log, trouble = str(tmp_path / "log"), str(tmp_path / "trouble")
    return [{"name": name, "log": log} | ({"trouble": trouble} if name == "b" else {}) for name in names]


@BOTH
def test_second_run_skips_what_has_a_value_and_tries_the_rest_again(executor, tmp_path: Path) -> None:
    cells, ledger, trouble = work(tmp_path, "a", "b", "c"), tmp_path / "cells.jsonl", tmp_path / "trouble"
    trouble.touch()
    call = partial(run_cells, functions.note_and_fail_when_told, cells, executor=executor, resume=ledger)
    first = call()
    assert [o.status for o in first] == ["ok", "failed", "ok"]
    assert verify_chain(ledger).closing is None
    trouble.unlink()
    second = call()
    assert [o.value for o in second] == ["A", "B", "C"]
    assert [o.from_ledger for o in second] == [True, False, True]
    assert sorted((tmp_path / "log").read_text().split()) == ["a", "b", "b", "c"]
    assert verify_chain(ledger).closing == {"n_cells": 3}
    content = ledger.read_bytes()
    third = call()
    assert essence(third) == essence(second)
    assert all(o.from_ledger for o in third)
    assert ledger.read_bytes() == content
    statuses = [entry.payload.get("status") for entry in walk_chain(ledger)]
    assert sorted(filter(None, statuses)) == ["failed", "ok", "ok", "ok"]  # the failure stays on record


def test_value_is_the_same_from_the_run_and_from_the_ledger(tmp_path: Path) -> None:
    call = partial(run_cells, functions.describe, [{"name": "x"}], resume=tmp_path / "cells.jsonl")
    ran, read = call()[0], call()[0]
    assert ran.value == {"name": "x", "pair": [1, 2.0], "array": [0.0, 0.5, 1.0], "nothing": None}
    assert read.value == ran.value
    assert repr(read.value) == repr(ran.value)
    assert (ran.seconds, ran.attempts) == (read.seconds, read.attempts)


def test_short_values_are_the_same_from_the_run_and_from_the_ledger_types_included(tmp_path: Path) -> None:
    cells = list(range(13))
    first = run_cells(functions.plain_value, cells, resume=tmp_path / "ledger.jsonl")
    second = run_cells(functions.plain_value, cells, resume=tmp_path / "ledger.jsonl")
    values = [None, True, False, "", "scored", "fähig", "\x00\n", "red", True, "text", 3, 1.0]
    for outcomes in (first, second):
        assert [outcome.value for outcome in outcomes[:12]] == values
        assert [type(outcome.value) for outcome in outcomes[:12]] == [type(value) for value in values]
        assert "lone surrogate" in outcomes[12].error


def test_value_that_cannot_be_recorded_makes_its_cell_fail(tmp_path: Path) -> None:
    outcomes = run_cells(functions.misbehave, ["fine", "unpicklable"], resume=tmp_path / "cells.jsonl")
    assert [o.status for o in outcomes] == ["ok", "failed"]
    assert outcomes[1].error.startswith("the value cannot be recorded: a value of type function")


def test_value_that_is_too_long_for_a_line_makes_its_cell_fail(tmp_path: Path) -> None:
    outcomes = run_cells(functions.text_of_length, [10, 2**24, 20], resume=tmp_path / "cells.jsonl")
    assert [o.status for o in outcomes] == ["ok", "failed", "ok"]
    assert "holds at most 16777216 bytes" in outcomes[1].error
    assert verify_chain(tmp_path / "cells.jsonl").entries == 4


def test_error_and_label_that_no_file_can_hold_are_recorded_escaped(tmp_path: Path) -> None:
    labels = ["a\udcff", "b", "c"]
    call = partial(run_cells, functions.raise_what_utf8_cannot_say, [1, 2, 3], labels=labels)
    outcomes = call(resume=tmp_path / "cells.jsonl")
    assert essence(outcomes) == essence(call())  # what the caller sees does not depend on the ledger
    assert [o.status for o in outcomes] == ["failed"] * 3
    recorded = [entry.payload for entry in walk_chain(tmp_path / "cells.jsonl")][1:]
    assert [line["label"] for line in recorded] == ["a\\udcff", "b", "c"]
    assert recorded[0]["error"].startswith("ValueError: \\udcff")
    assert max(len(line["error"]) for line in recorded) < 10_000


@pytest.mark.parametrize("keep", range(4))
def test_ledger_that_ends_anywhere_in_a_line_is_continued(keep: int, tmp_path: Path) -> None:
    cells, ledger = work(tmp_path, "a", "c", "d"), tmp_path / "cells.jsonl"
    complete = run_cells(functions.note_and_fail_when_told, cells, resume=ledger)
    lines = ledger.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    torn = b"".join(lines[:keep]) + lines[keep][: len(lines[keep]) // 2]
    ledger.write_bytes(torn)
    (tmp_path / "log").unlink()
    again = run_cells(functions.note_and_fail_when_told, cells, resume=ledger)
    assert [o.value for o in again] == [o.value for o in complete]
    assert (tmp_path / "log").read_text().split() == ["a", "c", "d"][max(0, keep - 1) :]
    assert verify_chain(ledger).closing == {"n_cells": 3}


def test_ledger_of_other_work_is_refused_and_left_alone(tmp_path: Path) -> None:
    ledger = tmp_path / "cells.jsonl"
    run_cells(functions.square, [1.0, 2.0], resume=ledger)
    content = ledger.read_bytes()
    with pytest.raises(InputError, match=r"other work: its function is '_cell_functions.square'.*raise_on_three"):
        run_cells(functions.raise_on_three, [1, 2], resume=ledger)
    with pytest.raises(InputError, match=r"its number of cells is 2, here it is 3"):
        run_cells(functions.square, [1.0, 2.0, 3.0], resume=ledger)
    with pytest.raises(InputError, match=r"its cells is"):
        run_cells(functions.square, [2.0, 1.0], resume=ledger)
    assert ledger.read_bytes() == content


def test_changed_ledger_is_refused(tmp_path: Path) -> None:
    ledger = tmp_path / "cells.jsonl"
    run_cells(functions.square, [1.5, 2.5], resume=ledger)
    ledger.write_bytes(ledger.read_bytes().replace(b"6.25", b"6.75"))
    with pytest.raises(IntegrityError, match="line 3"):
        run_cells(functions.square, [1.5, 2.5], resume=ledger)


@pytest.mark.parametrize(
    "changes",
    [{"index": 2}, {"index": -1}, {"index": 1}, {"index": "0"}, {"index": None}, {"cell": "0" * 64},
     {"value": {"$float": "x"}}, {"attempts": "many"}, {"seconds": []}],
)  # fmt: skip
def test_ledger_with_a_record_that_is_none_is_refused(changes: dict[str, object], tmp_path: Path) -> None:
    ledger, forged = tmp_path / "cells.jsonl", tmp_path / "forged.jsonl"
    run_cells(functions.square, [1.5, 2.5], resume=ledger)
    chain = ChainWriter(forged)
    header, first, *_ = (entry.payload for entry in walk_chain(ledger))
    chain.append(header)
    chain.append({**first, **changes})
    chain.abandon()
    with pytest.raises(IntegrityError, match="line 2: not the record of one of these cells"):
        run_cells(functions.square, [1.5, 2.5], resume=forged)


# Cancellation


def wait_for(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_end_of_the_run_ends_workers_and_their_children_and_leaves_a_resumable_ledger(end, tmp_path: Path) -> None:
    script, ledger = tmp_path / "job.py", tmp_path / "cells.jsonl"
    cells = [{"name": name, "folder": str(tmp_path)} for name in ("quick", "slow", "slower", "never")]
    script.write_text(
        "import sys\n"
        f"sys.path.append({HERE!r})\n"
        "from ripieno.parallel import run_cells\n"
        "import _cell_functions as functions\n"
        "if __name__ == '__main__':\n"
        f"    ledger, cells = {str(ledger)!r}, {cells}\n"
        "    run_cells(functions.sleep_with_a_child, cells, executor='processes', workers=2, resume=ledger)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: len(list(tmp_path.glob("*.pids"))) == 2)
        started = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
        assert len(started) == 4
        assert all(map(is_alive, started))
        if end is signal.SIGINT:
            os.killpg(process.pid, end)  # what a terminal does on Ctrl-C
        else:
            process.send_signal(end)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -end
    # Only the parent says that it was interrupted, the workers say nothing.
    assert stderr.count("Traceback") == (end is signal.SIGINT), stderr
    wait_for(lambda: not any(map(is_alive, started)))
    assert [entry.payload.get("label") for entry in walk_chain(ledger)] == [None, "cell 0"]
    assert verify_chain(ledger).closing is None
    assert not (tmp_path / "never.pids").exists()


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"executor": "threads"}, "executor must be one of serial, processes, ray, got 'threads'"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"workers": 2}, "executor 'serial' has one worker, got workers=2"),
        ({"retries": -1}, "retries must not be negative, got -1"),
        ({"labels": ["only one"]}, "one label per cell: 2 cells, 1 labels"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_cells(functions.square, [1.0, 2.0], **arguments)


def test_what_cannot_travel_is_refused_before_anything_runs(tmp_path: Path) -> None:
    ledger = tmp_path / "cells.jsonl"
    with pytest.raises(InputError, match="the function of the cells cannot be sent to a worker process"):
        run_cells(lambda cell: cell, [1, 2], executor="processes")
    with pytest.raises(InputError, match="cell 1 cannot be sent to a worker process"):
        run_cells(functions.square, [1.0, lambda: 2.0], executor="processes")
    with pytest.raises(InputError, match="a value of type function cannot be recorded"):
        run_cells(functions.square, [lambda: 2.0], resume=ledger)
    with pytest.raises(InputError, match=r"named function, got functools\.partial"):
        run_cells(partial(functions.square), [1.0], resume=ledger)
    assert not ledger.exists()


def test_importing_the_module_does_not_import_heavy_packages() -> None:
    code = (
        "import sys, ripieno.parallel; print([m for m in ('ray', 'numba', 'matplotlib', 'rich') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_missing_ray_is_one_import_error_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'ripieno\[cluster\]'"):
        run_cells(functions.square, [1.0], executor="ray")


# Stopping


@BOTH
def test_until_starts_no_further_cell_waits_for_those_under_way_and_leaves_the_rest_for_later(
    executor, tmp_path
) -> None:
    ledger, cells = tmp_path / "cells.jsonl", [1, 2, 3, 4, 5, 6, 7, 8]
    workers = 2 if executor == "processes" else 1
    first = run_cells(
        functions.raise_on_three,
        cells,
        executor=executor,
        workers=workers,
        resume=ledger,
        until=lambda outcome: not outcome.ok,
    )
    assert 3 <= len(first) <= 2 + workers
    assert [o.index for o in first] == list(range(len(first)))
    assert [o.status for o in first if not o.ok] == ["failed"]
    told: list[int] = []
    later = run_cells(
        functions.raise_on_three,
        cells,
        executor=executor,
        workers=workers,
        resume=ledger,
        until=lambda outcome: bool(told.append(outcome.index)),
    )
    assert [o.value for o in later] == [1, 2, None, 4, 5, 6, 7, 8]
    assert sorted(told) == [o.index for o in later if not o.from_ledger]


def test_until_starts_no_second_attempt_of_what_was_under_way(tmp_path: Path) -> None:
    outcomes = run_cells(
        functions.fail_once_stopped,
        [{}, {"folder": str(tmp_path)}],
        executor="processes",
        workers=2,
        retries=2,
        until=lambda _: (tmp_path / "stopped").touch() is None,
    )
    assert [(o.ok, o.attempts) for o in outcomes] == [(True, 1), (False, 1)]
    assert [path.name for path in tmp_path.glob("attempt-*")] == ["attempt-0"]
