"""Killed, out of disk, or with a rival: the log stays what was acknowledged, and can be continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from audit_runs import drive, judged, lines_of, records_of

from ripieno import chain
from ripieno.verify import VerifyStatus
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime import _audit_lines, audit_logger, audit_stream
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine

HERE = Path(__file__).parent

PRELUDE = f"""
import sys, resource
sys.path.append({str(HERE)!r})
from audit_runs import drive
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
say = lambda text: print(text, flush=True)
"""


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("step", [0, 17])
def test_a_killed_writer_leaves_every_acknowledged_step_and_can_be_continued(step: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = child("drive(AuditLogger(sys.argv[1]), 10**6, acknowledge=say)", path)
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) == step:
            break
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = max([step, *map(int, writer.stdout.read().split())])
    writer.stdout.close()
    writer.wait()
    assert judged(path, reexecute=True).status is VerifyStatus.INTERRUPTED
    assert len(ReplayEngine(path).step_entries()) >= acknowledged + 1
    before = ReplayEngine(path).load()
    with AuditLogger(path) as log:
        drive(log, 3)
    report = judged(path, reexecute=True)
    assert report.status is VerifyStatus.COMPLETE
    records = records_of(path)
    assert records[len(before)]["_previous_hash"] == before[-1]["_hash"]
    assert records[len(before)]["continuation"] == 1
    assert "knm_ref" in records[len(before) + 1]


@pytest.mark.parametrize("cut", [1, 40, 500])
def test_half_a_line_is_overwritten_when_the_log_is_continued(cut: int, open_log: Path) -> None:
    whole = open_log.read_bytes()
    open_log.write_bytes(whole[:-cut])
    with AuditLogger(open_log) as log:
        log.log_event("continued")
    records = records_of(open_log)
    assert records[-2]["event"] == "continued"
    assert judged(open_log).status is VerifyStatus.COMPLETE


def test_a_closed_log_is_never_continued(closed_log: Path) -> None:
    before = closed_log.read_bytes()
    with pytest.raises(AuditError, match="closed"):
        AuditLogger(closed_log)
    assert closed_log.read_bytes() == before


def test_a_changed_log_is_never_continued(open_log: Path) -> None:
    lines = lines_of(open_log)
    lines[3] = lines[3].replace(b'"zeta": 0.1', b'"zeta": 0.2')
    open_log.write_bytes(b"".join(lines))
    with pytest.raises(AuditError, match="line 4"):
        AuditLogger(open_log)
    assert lines_of(open_log) == lines


def test_another_file_is_never_continued(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("my notes\n")
    with pytest.raises(AuditError, match="line 1"):
        AuditLogger(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "my notes\n"


def test_create_only_refuses_any_existing_file(open_log: Path) -> None:
    with pytest.raises(AuditError, match="exists already"):
        AuditLogger(open_log, create_only=True)
    AuditLogger(open_log.with_name("new"), create_only=True).close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(AuditError):
        AuditLogger(tmp_path / "link")
    assert not (tmp_path / "target").exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="No such file"):
        AuditLogger(tmp_path / "no" / "log")


def test_a_second_writer_is_refused_while_the_first_has_the_log(tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log:
        with pytest.raises(AuditError, match="another writer"):
            AuditLogger(tmp_path / "log")
        log.log_event("still mine")
    assert judged(tmp_path / "log").status is VerifyStatus.COMPLETE


@pytest.mark.parametrize("create_only", [True, False])
def test_of_writers_that_race_for_one_log_exactly_one_gets_it(create_only: bool, tmp_path: Path) -> None:
    code = """
path, create_only = sys.argv[1], sys.argv[2] == "True"
say("ready")
sys.stdin.readline()
try:
    log = AuditLogger(path, create_only=create_only)
except AuditError:
    say("refused")
else:
    say("got it")
    sys.stdin.readline()
    log.log_event("mine")
    log.close()
"""
    prelude = PRELUDE.replace("from audit_runs import drive\n", "")
    command = [sys.executable, "-c", prelude + code, str(tmp_path / "log"), str(create_only)]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(3)
    ]
    answers = []
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
    for racer in racers:
        assert racer.stdout is not None
        answers.append(racer.stdout.readline().strip())
    for racer in racers:
        racer.communicate("end\n")
    assert sorted(answers) == ["got it", "refused", "refused"]
    assert judged(tmp_path / "log").status is VerifyStatus.COMPLETE


FULL_DISK = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = AuditLogger(sys.argv[1], event_stream=sys.argv[3] if len(sys.argv) > 3 else None)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    drive(log, 10**4, acknowledge=say)
except AuditError as error:
    say(f"refused: {error}")
"""


def test_a_full_disk_is_said_and_leaves_every_acknowledged_step(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = child(FULL_DISK, path, 12_000)
    *steps, refusal = writer.communicate()[0].splitlines()
    assert writer.returncode == 0
    assert "cannot record a step" in refusal
    assert judged(path, reexecute=True).status is VerifyStatus.INTERRUPTED
    assert len(ReplayEngine(path).step_entries()) == len(steps)
    with AuditLogger(path) as log:
        log.log_event("continued")
    assert judged(path).status is VerifyStatus.COMPLETE


def test_a_log_that_lost_a_record_is_never_closed_as_complete(tmp_path: Path) -> None:
    writer = child(FULL_DISK + "log.close()", tmp_path / "log", 12_000)  # the closing record is short enough to fit
    assert "cannot record a step" in writer.communicate()[0]
    assert writer.returncode == 0
    assert judged(tmp_path / "log").status is VerifyStatus.FAILED
    assert "cannot write" in records_of(tmp_path / "log")[-1]["closing"]["error"]["message"]


def test_a_full_disk_of_the_event_stream_is_said_too(tmp_path: Path) -> None:
    writer = child(FULL_DISK, tmp_path / "log", 9_000, tmp_path / "stream")
    assert "cannot record a step" in writer.communicate()[0]
    assert writer.returncode == 0
    assert judged(tmp_path / "log").status is VerifyStatus.INTERRUPTED
    assert judged(tmp_path / "stream").status is VerifyStatus.INTERRUPTED


def test_an_interrupt_at_any_line_leaves_log_and_stream_in_step(tmp_path: Path) -> None:
    """Ctrl-C anywhere while a record is written; whoever catches it can go on and close."""
    sources = tuple(str(Path(module.__file__ or "")) for module in (audit_logger, audit_stream, _audit_lines, chain))
    number, is_over = 0, False
    while not is_over:
        number += 1
        count = 0

        def trace(frame: FrameType, event: str, _: object, wanted: int = number) -> Any:
            nonlocal count
            if frame.f_code.co_filename not in sources:
                return None
            if event == "line":
                count += 1
                if count == wanted:
                    raise KeyboardInterrupt
            return trace

        path = tmp_path / str(number)
        log = AuditLogger(path, event_stream=path.with_suffix(".spoa"), fsync="never")
        log.log_event("before")
        sys.settrace(trace)
        try:
            log.log_event("interrupted")
            is_over = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        log.log_event("after")
        log.close()
        assert judged(path).status is VerifyStatus.COMPLETE, number
        assert judged(path.with_suffix(".spoa")).status is VerifyStatus.COMPLETE, number
        names = [record["event"] for record in records_of(path)[:-1]]
        assert names in (["before", "after"], ["before", "interrupted", "after"])
        assert [event.event_type for event in audit_stream.read_event_stream(path.with_suffix(".spoa"))] == names
    assert number > 50


def test_a_fork_cannot_write_what_its_parent_writes(tmp_path: Path) -> None:
    code = """
import os
log = AuditLogger(sys.argv[1])
log.log_event("parent")
pid = os.fork()
if pid == 0:
    try:
        log.log_event("child")
    except AuditError as error:
        say(error)
    os._exit(0)
os.waitpid(pid, 0)
log.close()
"""
    writer = child(code, tmp_path / "log")
    assert "the process that opened it" in writer.communicate()[0]
    assert [record.get("event") for record in records_of(tmp_path / "log")] == ["parent", None]
    assert judged(tmp_path / "log").status is VerifyStatus.COMPLETE
