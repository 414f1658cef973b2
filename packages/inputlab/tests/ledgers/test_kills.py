"""SIGKILL at every file operation of capture and of the paired driver.

Each case is a fork of this process that dies at one operation: before it, after it, or in the middle of a write. The
model calls are counted in a file that no ledger knows. After each kill the same command runs again.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kill_shim import KillShim, Moment, in_child
from ledger_lab import Lab, files_of

from ripieno.verify import VerifyStatus
from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.verification import verify_capture_root, verify_cell

FULL = {"captures": 400, "pairs": 500}
"""Fewest kills of each kind; a change that hides operations from the shim would shrink them."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: against SIGKILL every file system is the same, and this one is quick."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def operations_of(work: Callable[[], None]) -> list[str]:
    """The file operations that the work makes, found by a run that is not killed."""
    read_end, write_end = os.pipe()
    raw_write = os.write

    def traced() -> None:
        shim = KillShim()
        shim.install()
        work()
        raw_write(write_end, json.dumps([shim.trace, shim.bypassed]).encode())

    assert in_child(traced) == 0
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        trace, bypassed = json.loads(stream.read())
    assert bypassed == [], "something changed the file system past the counted operations"
    return trace


def kills(trace: list[str]) -> Iterator[tuple[int, Moment]]:
    for index, name in enumerate(trace):
        yield index, "before"
        yield index, "after"
        if name == "write":
            yield index, "torn"


def killed(work: Callable[[], None], index: int, moment: Moment) -> None:
    def dying() -> None:
        KillShim(index, moment).install()
        work()

    status = in_child(dying)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def assert_kept(before: dict[str, bytes], after: dict[str, bytes], case: str) -> None:
    """What had its final name when the process died has it still, with the same bytes."""
    lost = [name for name, data in before.items() if after.get(name) != data]
    assert lost == [], case


# --- captures -----------------------------------------------------------------------------------------------


def capture_lab(folder: Path, behaviour: dict[str, Any]) -> Lab:
    folder.mkdir(mode=0o700)
    return Lab(folder, limit=3, behaviour=behaviour)


def captured_trace(folder: Path, behaviour: dict[str, Any]) -> list[str]:
    """The operations of a capture, once everything that a process loads or looks up only once is there."""
    for name in ("warm", "dry"):
        lab = capture_lab(folder / name, behaviour)
        scope = lab.capture_scope()
        if name == "warm":
            capture_quietly(lab, scope)
    return operations_of(lambda: capture_quietly(lab, scope))


def capture_quietly(lab: Lab, scope: tuple[Path, str]) -> None:
    retail_capture.run(*scope, durable=True)


def check_capture_after_kill(lab: Lab, scope: tuple[Path, str], case: str) -> None:
    at_death = files_of(lab.captures)
    report = verify_capture_root(lab.captures)
    assert report.ok, f"{case}: {report.first_problem}"
    ended = {name for name in at_death if name.startswith("first-capture-") and not name.endswith("start.json")}
    if report.status is not VerifyStatus.INTERRUPTED:
        assert len(ended) == 3, f"{case}: complete although a receipt is missing"
    again = retail_capture.run(*scope, durable=False)
    calls = lab.calls()
    assert max(calls.values()) == 1, f"{case}: {calls}"
    assert_kept(at_death, files_of(lab.captures), case)
    for row in again["disposition"]["dispositions"]:
        start = f"first-capture-{row['task_id']}-start.json"
        if row["status"] == "reserved_unresolved":  # only a slot that was started and did not end
            assert start in at_death, case
            assert f"first-capture-{row['task_id']}.json" not in at_death, case
        else:
            assert calls[f"capture {row['task_id']}"] == 1, case
    terminal = again["disposition"]["all_tasks_terminal"]
    final = verify_capture_root(lab.captures)
    failing = bool(lab.behaviour.get("fail"))
    expected = VerifyStatus.INTERRUPTED if not terminal else VerifyStatus.FAILED if failing else VerifyStatus.COMPLETE
    statuses = {row["status"] for row in again["disposition"]["dispositions"]}
    assert "capture_failed" in statuses or not failing or not terminal, case
    assert (final.status, final.first_problem) == (expected, ""), case
    assert retail_capture.run(*scope, durable=False) == again, case
    assert lab.calls() == calls, case


@pytest.mark.parametrize(
    "behaviour",
    [{"fail": ["1"]}, pytest.param({}, marks=pytest.mark.slow)],
    ids=["one task fails", "all are captured"],
)
def test_a_capture_killed_at_any_file_operation_never_asks_twice_and_loses_nothing(
    folder: Path, behaviour: dict[str, Any]
) -> None:
    trace = captured_trace(folder, behaviour)
    count = 0
    for index, moment in kills(trace):
        lab = capture_lab(folder / f"{index}-{moment}", behaviour)
        scope = lab.capture_scope()
        killed(lambda lab=lab, scope=scope: capture_quietly(lab, scope), index, moment)
        check_capture_after_kill(lab, scope, f"{moment} operation {index} ({trace[index]})")
        count += 1
    assert count >= FULL["captures"]


def test_a_capture_killed_twice_still_never_asks_twice(folder: Path) -> None:
    trace = captured_trace(folder, {})
    links = [index for index, name in enumerate(trace) if name == "link"]
    for first in links[:6]:
        for offset in (3, 11, 19):
            lab = capture_lab(folder / f"{first}-{offset}", {})
            scope = lab.capture_scope()
            for index in (first, first + offset):
                killed(lambda lab=lab, scope=scope: capture_quietly(lab, scope), index, "after")
            check_capture_after_kill(lab, scope, f"after link {first} and then operation {first + offset}")


# --- pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviour", [{"files": True}, {"files": True, "treatment": "boom"}], ids=["scored", "treatment fails"]
)
def test_a_pair_killed_at_any_file_operation_is_never_played_twice(folder: Path, behaviour: dict[str, Any]) -> None:
    lab = Lab(folder, behaviour=behaviour)
    lab.prepare()
    envelope = lab.envelope()
    environment = lab.execution_scope(envelope)
    cell = lab.cell(envelope)

    def play(*, durable: bool = True) -> dict[str, Any] | str:
        try:
            return retail_driver.run(envelope, environment=environment, durable=durable)
        except OfficialArenaError as error:
            return f"{type(error).__name__}: {error}"

    play(durable=False)
    forget(lab, "warm")
    trace = operations_of(lambda: void(play()))
    count = 0
    for index, moment in kills(trace):
        case = f"{moment} operation {index} ({trace[index]})"
        forget(lab, f"{index}-{moment}")
        killed(lambda: void(play()), index, moment)
        check_pair_after_kill(lab, cell, play, case, fails=behaviour.get("treatment") == "boom")
        count += 1
    assert count >= FULL["pairs"]


def void(_: object) -> None:
    """A fork's result is what it leaves on disk."""


def forget(lab: Lab, name: str) -> None:
    """Begin with an empty ledger; the old one is kept aside, because deleting many files is what takes time."""
    lab.ledger.rename(lab.folder / f"ledger-{name}")
    lab.ledger.mkdir(mode=0o700)
    lab.calls_file.unlink(missing_ok=True)


def check_pair_after_kill(
    lab: Lab, cell: Path, play: Callable[..., dict[str, Any] | str], case: str, *, fails: bool
) -> None:
    at_death = files_of(lab.ledger)
    calls_at_death = lab.calls()
    was_taken = cell.exists()
    report = verify_cell(cell) if was_taken else None
    if report is not None:
        assert report.ok, f"{case}: {report.first_problem}"
        has_ended = f"{cell.name}/terminal.json" in at_death
        assert (report.status is VerifyStatus.INTERRUPTED) is not has_ended, case
    answer = play(durable=False)
    assert max(lab.calls().values(), default=0) <= 1, f"{case}: {lab.calls()}"
    assert_kept(at_death, files_of(lab.ledger), case)
    if was_taken:
        assert lab.calls() == calls_at_death, f"{case}: a started slot asked a model again"
        assert files_of(lab.ledger) == at_death, case
    if report is not None and report.status is VerifyStatus.INTERRUPTED:
        live = "Retail attempt is live or interrupted; automatic retry is forbidden"
        assert answer == f"RetailAttemptUnavailable: {live}", case
    elif fails:
        assert isinstance(answer, str), case
        assert answer.startswith("RetailAttemptUnavailable"), case
        assert verify_cell(cell).status is VerifyStatus.FAILED, case
    else:
        assert isinstance(answer, dict), f"{case}: {answer}"
        assert verify_cell(cell).status is VerifyStatus.COMPLETE, case
        assert play(durable=False) == answer, case
