"""SIGKILL at every change that a campaign makes to its folder; then the same call goes on.

Each case is a fork of this process that dies before or after one operation. Model calls are counted in a file that
the campaign does not know. (Operations inside the ledgers are also killed one by one in `tests/ledgers`.)
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from campaign_lab import calls, files_of, lab_plan, run
from kill_shim import die, in_child

from ripieno.verify import VerifyStatus, verify
from workers.official_arenas._evidence import is_leftover
from workers.official_arenas.campaign.page import headline

CHANGES = ("open", "mkdir", "rmdir", "link", "unlink", "remove", "rename", "replace", "symlink", "ftruncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
AUDITED = frozenset({"os.mkdir", "os.rmdir", "os.link", "os.remove", "os.rename", "os.symlink", "os.truncate"})
APPENDED = ("events.jsonl", "cells.jsonl")
ENDS = {"paired_scored", "interrupted", "intervention_interrupted", "capture_unresolved", "inventory_incomplete"}
"""How a slot can end when nothing but the kill went wrong."""
FEWEST = 150
"""Fewest kills of the slow test; a change that hides operations from the shim would shrink them."""

Moment = Literal["before", "after"]


@dataclass
class ChangeShim:
    """Counts what this process changes in the file system and kills it at one of the changes."""

    kill_at: int = -1
    moment: Moment = "before"
    trace: list[str] = field(default_factory=list)
    bypassed: list[str] = field(default_factory=list)
    _inside: bool = False

    def install(self) -> None:
        import sys

        for name in CHANGES:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        os.fsync = lambda _: None  # against SIGKILL it makes no difference, and it is what costs time
        sys.addaudithook(self._audit)

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & WRITING:
                return original(*args, **options)
            index = len(self.trace)
            self.trace.append(f"{name} {args[0]}")
            if index == self.kill_at and self.moment == "before":
                die()
            self._inside = True
            try:
                return original(*args, **options)
            finally:
                self._inside = False
                if index == self.kill_at:
                    die()

        return operation

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_path = not isinstance(arguments[0], int)  # a descriptor was counted when it was opened
        writes = event == "open" and is_path and isinstance(arguments[2], int) and arguments[2] & WRITING
        if (event in AUDITED or writes) and not self._inside and "calls.txt" not in repr(arguments[:1]):
            self.bypassed.append(f"{event} {arguments[0]!r}")


def campaign(folder: Path) -> Callable[[], None]:
    folder.mkdir(mode=0o700, exist_ok=True)
    plan = lab_plan(folder, tasks=2, treatments=["own.text:append_instruction=be brief"], solve_treatment=["0"])

    def work() -> None:
        result = run(plan, folder / "out", progress=False)
        rows = [[row["task_id"], row["status"]] for row in result.rows]
        (folder / "rows.json").write_text(json.dumps(rows))

    return work


def changes_of(folder: Path) -> list[str]:
    """What a campaign changes, found by one that is not killed; the first one loads what a process loads once."""
    campaign(folder / "warm")()
    work = campaign(folder / "dry")
    (folder / "dry" / "rows.json").touch()

    def traced() -> None:
        shim = ChangeShim()
        shim.install()
        work()
        trace = [line for line in shim.trace if "rows.json" not in line]
        Path(folder / "trace.json").write_text(json.dumps([trace, shim.bypassed]))

    assert in_child(traced) == 0
    trace, bypassed = json.loads((folder / "trace.json").read_text())
    bypassed = [line for line in bypassed if "rows.json" not in line and os.devnull not in line]
    assert bypassed == [], "changed past the counted operations"
    return trace


def kills(trace: list[str]) -> Iterator[tuple[int, Moment]]:
    for index in range(len(trace)):
        yield index, "before"
        yield index, "after"


def killed(work: Callable[[], None], index: int, moment: Moment) -> None:
    def dying() -> None:
        ChangeShim(index, moment).install()
        work()

    status = in_child(dying)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def kept(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """What had its final name when the process died and has it no more, or with other bytes."""
    return [
        name
        for name, data in before.items()
        if not is_leftover(Path(name).name)
        and not any(is_leftover(part) for part in Path(name).parts)
        and not (after.get(name, b"").startswith(data) if name in APPENDED else after.get(name) == data)
    ]


def check_after_kill(folder: Path, work: Callable[[], None], case: str) -> None:
    out = folder / "out"
    at_death = files_of(out) if out.exists() else {}
    if {"plan.json", "command.json"} <= set(at_death):
        report = verify(out)
        if "events.jsonl" in at_death:
            assert report.ok, f"{case}: {report.first_problem}"
        closed = b'"closing"' in at_death.get("events.jsonl", b"")
        assert (report.status is VerifyStatus.COMPLETE) is closed, f"{case}: {report.status}"
    asked = calls(folder)
    assert in_child(work) == 0, f"{case}: the same call does not go on"
    report = verify(out)
    assert (report.status, report.first_problem) == (VerifyStatus.COMPLETE, ""), case
    assert max(calls(folder).values()) == 1, f"{case}: {calls(folder)}"
    assert kept(at_death, files_of(out)) == [], case
    rows = dict(json.loads((folder / "rows.json").read_text()))
    assert set(rows) == {"0", "1"}, case
    assert set(rows.values()) <= ENDS, f"{case}: {rows}"
    lost = [status for status in rows.values() if status not in ("paired_scored", "inventory_incomplete")]
    assert len(lost) <= 1, f"{case}: one kill interrupted more than one slot: {rows}"
    assert "inventory_incomplete" not in rows.values() or lost == ["capture_unresolved"], f"{case}: {rows}"
    for task, status in rows.items():
        if status == "capture_unresolved":
            assert not asked[f"arm baseline {task}"], case
        if status == "paired_scored":
            wanted = {f"capture {task}": 1, f"arm baseline {task}": 1, f"arm treatment {task}": 1}
            assert wanted.items() <= calls(folder).items(), case
    assert not [name for name in files_of(out) if name.count("/") == 0 and name.startswith(".")], case


def check(tmp_path: Path, chosen: Callable[[list[tuple[int, Moment]]], list[tuple[int, Moment]]]) -> int:
    tmp_path.mkdir(mode=0o700, exist_ok=True)
    trace = changes_of(tmp_path)
    cases = chosen(list(kills(trace)))
    for index, moment in cases:
        folder = tmp_path / f"{index}-{moment}"
        work = campaign(folder)
        killed(work, index, moment)
        check_after_kill(folder, work, f"{moment} change {index} ({trace[index]})")
    return len(cases)


def test_a_campaign_killed_at_any_change_of_its_own_files_goes_on(tmp_path: Path) -> None:
    """The changes that the campaign itself makes; those of the ledgers are in the slow test below."""
    trace = changes_of(tmp_path)
    # A ledger reaches its files through the descriptor of their directory, the campaign by absolute paths.
    own = [index for index, line in enumerate(trace) if " /" in line][::4]
    count = check(tmp_path / "cases", lambda cases: [case for case in cases if case[0] in own])
    assert count >= FEWEST // 6


@pytest.mark.slow
def test_a_campaign_killed_at_any_change_goes_on(tmp_path: Path) -> None:
    assert check(tmp_path, lambda cases: cases) >= FEWEST


def test_a_campaign_killed_again_and_again_still_ends(tmp_path: Path) -> None:
    """Every start gets three changes further than the one before, and none starts a slot that was started."""
    campaign(tmp_path / "warm")()
    folder = tmp_path / "again"
    work = campaign(folder)
    for attempt in range(100):
        index = 4 + 3 * attempt

        def dying(index: int = index) -> None:
            ChangeShim(index, "after").install()
            work()

        if in_child(dying) == 0:
            break
        if (folder / "out" / "events.jsonl").exists():
            report = verify(folder / "out")
            assert report.ok, report.first_problem
    else:
        pytest.fail("it never ended")
    assert max(calls(folder).values()) == 1
    assert verify(folder / "out").status is VerifyStatus.COMPLETE
    assert headline(json.loads((folder / "out" / "analysis.json").read_text()))
