"""Many workers on one slot, and file systems that refuse: full, read-only, moved away, cut off."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kill_shim import in_child
from ledger_lab import Lab, files_of

from ripieno.verify import VerifyStatus, verify
from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas._evidence import EvidenceStorageError
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.retail_driver import PairSession, RetailAttemptUnavailable

WORKERS = 12


def race(work: Callable[[], str]) -> Counter[str]:
    """Let many processes do the same at the same moment; give what each of them said."""
    go_read, go_write = os.pipe()
    say_read, say_write = os.pipe()
    children = []
    for _ in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            os.close(go_write)
            os.read(go_read, 1)  # ends for all at once, when the parent closes its end
            os.write(say_write, f"{work()}\n".encode())
            os._exit(0)
        children.append(pid)
    os.close(go_write)
    os.close(go_read)
    os.close(say_write)
    with os.fdopen(say_read) as stream:
        said = Counter(stream.read().splitlines())
    for pid in children:
        os.waitpid(pid, 0)
    return said


def test_of_many_workers_on_one_pair_exactly_one_plays_it(paired: Lab) -> None:
    for round_number in range(10):
        envelope = paired.envelope(treatment={"arm_parameters": {"round": round_number}})
        environment = paired.execution_scope(envelope)

        def work(envelope: dict[str, object] = envelope, environment: dict[str, str] = environment) -> str:
            try:
                return str(retail_driver.run(envelope, environment=environment, durable=False)["request_hash"])
            except RetailAttemptUnavailable as error:
                return str(error)

        said = race(work)
        assert paired.calls() == {"arm baseline": round_number + 1, "arm treatment": round_number + 1}
        live = "Retail attempt is live or interrupted; automatic retry is forbidden"
        assert set(said) <= {envelope["request_hash"], live}
        assert said[envelope["request_hash"]] >= 1
        assert sum(said.values()) == WORKERS
        assert verify(paired.cell(envelope)).status is VerifyStatus.COMPLETE


def test_of_many_captures_on_one_root_each_task_is_asked_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    lab = Lab(tmp_path, limit=12)
    scope = lab.capture_scope()

    def work() -> str:
        try:
            retail_capture.run(*scope, durable=False)
        except OfficialArenaError as error:
            return str(error)
        return "done"

    said = race(work)
    assert set(said) <= {"done", "Retail unresolved capture changed during projection"}
    assert lab.calls() == {f"capture {number}": 1 for number in range(12)}
    assert lab.capture()["disposition"]["all_tasks_terminal"] is True
    assert verify(lab.captures).status is VerifyStatus.COMPLETE


# --- file systems that refuse -------------------------------------------------------------------------------

IN_A_NAMESPACE = ["unshare", "-rm", "sh", "-c"]
HAS_NAMESPACES = (
    shutil.which("unshare") is not None
    and subprocess.run([*IN_A_NAMESPACE, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False).returncode == 0
)
needs_mounts = pytest.mark.skipif(not HAS_NAMESPACES, reason="this machine gives no mount namespaces")

FULL_DISK = """
import json, sys
from pathlib import Path
from ledger_lab import Lab, files_of
from ripieno.verify import verify
from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas.protocol import OfficialArenaError
root, filler, kind = Path(sys.argv[1]), Path(sys.argv[1]) / "filler", sys.argv[2]
lab = Lab(root, limit=3, behaviour={"files": True})
if kind == "pair":
    lab.prepare()
    envelope = lab.envelope()
    environment = lab.execution_scope(envelope)
scope = lab.capture_scope()
def work():
    if kind == "pair":
        return retail_driver.run(envelope, environment=environment)
    return retail_capture.run(*scope)
for free_pages in range(int(sys.argv[3])):
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            pass
        stream.truncate(max(0, stream.tell() - 4096 * free_pages))
    evidence = lab.ledger if kind == "pair" else lab.captures
    before, calls = files_of(evidence), lab.calls()
    try:
        work()
        said = "done"
    except OfficialArenaError as error:
        said = type(error).__name__
    filler.unlink()
    after = files_of(evidence)
    status = verify(evidence).status.value if any(evidence.iterdir()) else "nothing"
    lost = [name for name in before if before[name] != after.get(name)]
    print(json.dumps([said, status, lost, max(lab.calls().values(), default=0)]))
try:
    work()
    print(json.dumps(["done", verify(evidence).status.value, [], max(lab.calls().values(), default=0)]))
except OfficialArenaError as error:
    print(json.dumps([type(error).__name__, verify(evidence).status.value, [], max(lab.calls().values(), default=0)]))
"""


@needs_mounts
@pytest.mark.parametrize(("kind", "rounds"), [("capture", 14), ("pair", 1), ("pair", 6), ("pair", 12), ("pair", 17)])
def test_a_full_disk_is_a_typed_refusal_and_loses_nothing(
    tmp_path: Path, plugin_path: str, kind: str, rounds: int
) -> None:
    program = tmp_path / "program.py"
    program.write_text(FULL_DISK)
    mount = f"mount -t tmpfs -o size=256k,mode=700 tmpfs {tmp_path}/disk"
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        [*IN_A_NAMESPACE, f"{mount} && exec {sys.executable} -B {program} {tmp_path}/disk {kind} {rounds}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": plugin_path},
        check=False,
    )
    assert done.stderr == ""
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == rounds + 1
    for said, status, lost, calls in rows:
        assert said in {"done", "EvidenceStorageError", "RetailAttemptUnavailable", "OfficialArenaError"}
        assert status in {"nothing", "interrupted", "complete", "failed"}
        assert (lost, calls <= 1) == ([], True)
    assert rows[0][0] == "EvidenceStorageError"  # no page was free


READ_ONLY = """
import sys
from pathlib import Path
from ledger_lab import Lab
from workers.official_arenas import retail_capture
import os
lab = Lab(Path(sys.argv[1]))
scope = lab.capture_scope()
assert os.system(f"mount -o remount,ro {sys.argv[1]}") == 0
try:
    retail_capture.run(*scope)
except Exception as error:
    print(type(error).__name__, error)
print(list(lab.captures.iterdir()))
"""


@needs_mounts
def test_a_read_only_root_is_a_typed_refusal(tmp_path: Path, plugin_path: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(READ_ONLY)
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o mode=700 tmpfs {tmp_path}/disk"
    done = subprocess.run(
        [*IN_A_NAMESPACE, f"{mount} && exec {sys.executable} -B {program} {tmp_path}/disk"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": plugin_path},
        check=False,
    )
    assert done.stdout.splitlines()[0].startswith("EvidenceStorageError Retail evidence first-capture-0-start.json")
    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("limit", [0, 100, 700])
def test_a_write_that_is_cut_off_leaves_no_receipt(lab: Lab, limit: int) -> None:
    scope = lab.capture_scope()

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            retail_capture.run(*scope, durable=False)
        except EvidenceStorageError:
            os._exit(7)

    assert os.waitstatus_to_exitcode(in_child(work)) == 7
    assert all(name.endswith("-start.json") for name in files_of(lab.captures))
    assert [path.name for path in lab.captures.iterdir() if path.name.startswith(".")] == []
    if any(lab.captures.iterdir()):
        assert verify(lab.captures).status is VerifyStatus.INTERRUPTED
    document = lab.capture()["disposition"]
    assert max(lab.calls().values()) == 1
    assert document["all_tasks_terminal"] is (limit in {0, 100})


@pytest.mark.parametrize("spare", range(6))
def test_a_process_without_free_descriptors_is_a_typed_refusal(paired: Lab, spare: int) -> None:
    envelope = paired.envelope()
    environment = paired.execution_scope(envelope)

    def work() -> None:
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + spare, lowest_free + spare))
        try:
            retail_driver.run(envelope, environment=environment, durable=False)
        except OfficialArenaError:
            os._exit(7)

    assert os.waitstatus_to_exitcode(in_child(work)) in {0, 7}
    if any(paired.ledger.iterdir()):
        assert verify(paired.ledger).ok
    try:
        retail_driver.run(envelope, environment=environment, durable=False)
    except RetailAttemptUnavailable:
        assert verify(paired.ledger).ok
    assert max(paired.calls().values(), default=0) <= 1


def test_a_refused_start_gives_the_slot_back(paired: Lab) -> None:
    envelope = paired.envelope()
    environment = paired.execution_scope(envelope)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        try:
            retail_driver.run(envelope, environment=environment, durable=False)
        except EvidenceStorageError:
            os._exit(7)

    assert os.waitstatus_to_exitcode(in_child(work)) == 7
    assert list(paired.ledger.iterdir()) == []
    assert retail_driver.run(envelope, environment=environment, durable=False)["arms"]


# --- swaps and clocks ---------------------------------------------------------------------------------------


def test_a_root_that_is_replaced_during_an_attempt_ends_it(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"baseline": "move"})
    environment = paired.execution_scope(envelope)
    with pytest.raises(RetailAttemptUnavailable, match="Retail ledger root was moved during the attempt"):
        retail_driver.run(envelope, environment=environment, durable=False)
    moved = paired.folder / "moved" / retail_driver.cell_id(envelope)
    assert verify(moved).status is VerifyStatus.INTERRUPTED
    assert paired.calls() == {"arm baseline": 1}


def test_a_session_does_not_follow_a_root_that_becomes_a_link(paired: Lab) -> None:
    first, second = paired.envelope("0"), paired.envelope("1")
    with PairSession(paired.execution_scope(first, second), durable=False) as session:
        session.run(first)
        aside = paired.folder / "aside"
        paired.ledger.rename(aside)
        paired.ledger.symlink_to(aside)
        with pytest.raises(OfficialArenaError, match="Retail ledger root must be an existing owned private directory"):
            session.run(second)
    assert paired.calls() == {"arm baseline": 1, "arm treatment": 1}


def test_bytes_that_were_checked_are_the_bytes_that_are_used(paired: Lab) -> None:
    """Scope and inventory are read once: what is written over them later changes nothing in a session."""
    first, second = paired.envelope("0"), paired.envelope("1")
    environment = paired.execution_scope(first, second)
    with PairSession(environment, durable=False) as session:
        session.run(first)
        Path(environment[retail_driver.SCOPE_PATH_ENV]).write_bytes(b"{}")
        paired.replays.write_bytes(b"{}")
        assert session.run(second)["receipt"]["checkpoint_id"] == "1"
    assert verify(paired.ledger).status is VerifyStatus.COMPLETE


def test_a_clock_that_jumps_changes_nothing(paired: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    envelope = paired.envelope()
    environment = paired.execution_scope(envelope)
    response = retail_driver.run(envelope, environment=environment, durable=False)
    for moment in (0.0, 4e9):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        for path in paired.ledger.rglob("*"):
            os.utime(path, (moment, moment))
        assert retail_driver.run(envelope, environment=environment, durable=False) == response
    assert paired.calls() == {"arm baseline": 1, "arm treatment": 1}


def test_a_hundred_megabytes_are_refused_unread(paired: Lab) -> None:
    envelope = paired.envelope()
    environment = paired.execution_scope(envelope)
    path = Path(environment[retail_driver.SCOPE_PATH_ENV])
    with path.open("wb") as stream:
        stream.truncate(100 * 2**20)
    with pytest.raises(OfficialArenaError, match="Retail execution scope differs"):
        retail_driver.run(envelope, environment=environment, durable=False)
    with pytest.raises(OfficialArenaError, match="longer than"):
        retail_driver._read(path)
