"""A run folder holds what was given, exactly, and nothing is half made."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from _children import CONTEXT, Child, run_in_child
from _runs import ARTIFACTS, read_manifest_json, record_fsync, write_small_run
from _writers import race, write_from_a_fork, write_from_a_fork_while_a_thread_writes
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canonical import canonical_json, content_hash
from ripieno.errors import InputError, IntegrityError, RipienoError
from ripieno.files import sha256_file
from ripieno.receipts import check_sealed
from ripieno.run import Event, RunWriter, read_events, read_manifest
from ripieno.verify import VerifyStatus, verify


def start(folder: Path, **changes) -> RunWriter:
    return RunWriter(folder, **({"system": "test", "kind": "unit", "config": {"a": 1}} | changes))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail() -> None:
    raise ValueError("broken")


# What is recorded


def test_the_manifest_is_one_sealed_canonical_line_and_its_hash_is_the_digest(tmp_path: Path) -> None:
    with start(tmp_path / "run") as run:
        digest = run.finish(summary={"x": 0.5})
    data = (tmp_path / "run" / "run.json").read_bytes()
    manifest = json.loads(data)
    assert data == canonical_json(manifest) + b"\n"
    assert digest == sha256_file(tmp_path / "run" / "run.json")
    check_sealed(manifest)


def test_a_run_records_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.bin").write_bytes(b"input")
    write = start(tmp_path / "run", config={"gain": 1.0}, seeds={"root": 2**60}, inputs={"data": Path("data.bin")})
    write.finish()
    stored, manifest = read_manifest_json(tmp_path / "run"), read_manifest(tmp_path / "run")
    assert manifest["config"] == {"gain": 1.0}
    assert manifest["seeds"] == {"root": 2**60}
    assert manifest["config_sha256"] == content_hash(stored["config"])
    assert manifest["inputs"] == {"data": {"size": 5, "sha256": sha256_file(tmp_path / "data.bin")}}
    assert manifest["versions"]["python"] == sys.version.split()[0]
    assert {"ripieno", "numpy", "cryptography"} <= set(manifest["versions"])
    assert set(manifest["machine"]) == {
        "system", "release", "architecture", "cpu_model", "cpu_count", "cpu_features",
    }  # fmt: skip
    assert manifest["machine"]["cpu_count"] == os.cpu_count()
    assert manifest["started_at"] < manifest["ended_at"]
    assert (manifest["status"], manifest["error"], manifest["summary"]) == ("complete", None, None)


def test_no_path_of_the_machine_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"input")
    run = start(tmp_path / "run", inputs={"data": tmp_path / "data.bin"})
    run.artifact("copy.bin", tmp_path / "data.bin")
    run.finish()
    text = (tmp_path / "run" / "run.json").read_text() + (tmp_path / "run" / "events.jsonl").read_text()
    assert str(tmp_path) not in text
    assert str(Path.cwd()) not in text


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_the_state_of_the_repository_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    start(tmp_path / "outside").finish()
    git("init", "-q")
    start(tmp_path / "no-commit").finish()
    Path("code.py").write_text("a = 1\n")
    git("add", "code.py")
    git("commit", "-q", "-m", "first")
    start(tmp_path / "clean").finish()
    Path("code.py").write_text("a = 2\n")
    start(tmp_path / "dirty").finish()
    monkeypatch.setenv("PATH", "")
    start(tmp_path / "no-git").finish()
    states = {
        name: read_manifest(tmp_path / name)["git"] for name in ("outside", "no-commit", "clean", "dirty", "no-git")
    }
    assert states["outside"] is None
    assert states["no-commit"] is None
    assert states["no-git"] is None
    assert len(states["clean"]["sha"]) == 40
    assert states["clean"]["dirty"] is False
    assert states["dirty"] == {"sha": states["clean"]["sha"], "dirty": True}


def test_events_come_back_in_order_with_their_exact_values(tmp_path: Path) -> None:
    fields = [
        {"reward": 1.0, "steps": 2**60, "margin": float("-inf"), "kind": "inner", "self": 1},
        {"array": np.array([0.5, 1.0]), "flag": np.bool_(True), "none": None, "$tag": {"$float": "x"}},
        {},
    ]
    with start(tmp_path / "run") as run:
        for item in fields:
            run.event("step", **item)
        run.finish()
    expected = [fields[0], {"array": [0.5, 1.0], "flag": True, "none": None, "$tag": {"$float": "x"}}, {}]
    assert list(read_events(tmp_path / "run")) == [Event(n + 1, "step", item) for n, item in enumerate(expected)]


@settings(max_examples=25, deadline=None)
@given(
    events=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "$c"]), st.floats(allow_nan=False) | st.integers() | st.text())
    )
)
def test_any_events_come_back(events: list[dict[str, object]], tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("runs") / "run"
    with start(folder, durability="never") as run:
        for fields in events:
            run.event("x", **fields)
        run.finish()
    assert [event.fields for event in read_events(folder)] == events
    assert verify(folder).status is VerifyStatus.COMPLETE


def test_artifacts_are_private_files_with_their_content(small_run: Path, tmp_path: Path) -> None:
    for name, content in ARTIFACTS.items():
        assert (small_run / name).read_bytes() == content
        assert stat.S_IMODE((small_run / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(small_run.stat().st_mode) == 0o700
    run = start(tmp_path / "other")
    assert run.artifact("text.txt", "é").read_bytes() == "é".encode()
    (tmp_path / "source").write_bytes(b"x" * 3_000_000)
    (tmp_path / "link").symlink_to("source")
    assert run.artifact("deep/er/copy", tmp_path / "link").read_bytes() == b"x" * 3_000_000
    run.finish()
    assert verify(tmp_path / "other").status is VerifyStatus.COMPLETE


@pytest.mark.parametrize("durability", ["always", "batch", "never"])
def test_no_artifact_outlives_the_line_that_explains_it(
    durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(tmp_path / "run", durability=durability)
    named = tmp_path / "run" / "a.bin"
    synced = record_fsync(monkeypatch, lambda path: (path.name, named.exists()))
    run.artifact("a.bin", b"x")
    line = {"always": 2, "batch": 1, "never": 0}[durability]  # with "never" the system decides
    assert synced == [(".partial-1", False), ("run", False), *[("events.jsonl", False)] * line, ("run", True)]


def test_a_relative_folder_stays_where_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = start(Path("a/b/run"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run.artifact("x", "x")
    run.finish()
    assert verify(tmp_path / "a" / "b" / "run").status is VerifyStatus.COMPLETE


# How a run ends


def test_an_exception_is_recorded_and_passed_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), start(tmp_path / "run"):
        fail()
    assert read_manifest(tmp_path / "run")["error"] == {"type": "ValueError", "message": "broken"}
    report = verify(tmp_path / "run")
    assert (report.status, report.ok) == (VerifyStatus.FAILED, True)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_stop_from_outside_is_an_interruption(stop: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(stop), start(tmp_path / "run"):
        raise stop
    assert read_manifest(tmp_path / "run")["status"] == "interrupted"
    assert verify(tmp_path / "run").status is VerifyStatus.INTERRUPTED


def test_a_block_that_ends_without_finish_is_no_complete_run(tmp_path: Path) -> None:
    with start(tmp_path / "run") as run:
        run.event("only")
    assert read_manifest(tmp_path / "run")["error"]["type"] == "Unfinished"
    assert verify(tmp_path / "run").status is VerifyStatus.FAILED


def test_an_error_after_the_end_does_not_change_the_end(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    run.finish()
    with pytest.raises(ValueError, match="broken"), run:
        fail()
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE


def test_an_unprintable_error_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), start(tmp_path / "run"):
        raise ValueError("x\udcff" * 5000)
    assert read_manifest(tmp_path / "run")["error"]["message"].startswith("x\\udcff")
    assert verify(tmp_path / "run").status is VerifyStatus.FAILED


def test_after_the_end_nothing_can_be_added(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    run.finish()
    for act in (lambda: run.event("x"), lambda: run.artifact("x", "x"), run.finish):
        with pytest.raises(RipienoError, match="is over"):
            act()
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE


def test_a_forked_child_cannot_write_and_does_not_end_the_run(tmp_path: Path) -> None:
    (refusal,) = run_in_child(write_from_a_fork, tmp_path / "run")
    assert "by the process that started it" in refusal
    assert [event.kind for event in read_events(tmp_path / "run")] == ["from the parent"]
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE


def test_a_child_forked_while_a_thread_writes_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    assert run_in_child(write_from_a_fork_while_a_thread_writes, tmp_path / "run") == ["refused"]


def test_threads_share_a_writer(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for step in range(50):
            run.event("step", thread=number, step=step)
        run.artifact(f"thread-{number}.txt", str(number))

    with start(tmp_path / "run") as run:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run.finish()
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE
    by_thread = [[e.fields["step"] for e in read_events(tmp_path / "run") if e.fields["thread"] == n] for n in range(8)]
    assert by_thread == [list(range(50))] * 8


# Bad input changes nothing


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config": {"a": object()}}, "type object"),
        ({"config": {"a": "\ud800"}}, "lone surrogate"),
        ({"config": [1]}, "config must be a mapping"),
        ({"config": {"a": "x" * 2**26}}, "may be 67108864 bytes long"),
        ({"seeds": 7}, "seeds must be a mapping"),
        ({"seeds": {"root": 1.5}}, "the seed 'root' must be an integer, got 1.5"),
        ({"system": ""}, "system must be a non-empty"),
        ({"kind": "a\nb"}, "kind must be a non-empty printable"),
        ({"durability": "often"}, "'often'"),
        ({"inputs": {"\U0001f600": Path(__file__)}}, "input name must not hold characters above"),
        ({"inputs": {"data": Path("/nowhere/at/all")}}, "input 'data' .* No such file"),
        ({"inputs": {"data": Path("/")}}, "input 'data' .* not a regular file"),
        ({"inputs": {"data": Path("/dev/zero")}}, "input 'data' .* not a regular file"),
    ],
)
def test_a_run_that_cannot_start_leaves_nothing(changes: dict[str, object], reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        start(tmp_path / "new" / "parents" / "run", **changes)
    assert not list(tmp_path.iterdir())


def test_a_working_directory_that_is_gone_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match="cannot create the run folder run: No such file"):
        start(Path("run"))
    start(tmp_path / "run").finish()
    assert read_manifest(tmp_path / "run")["git"] is None


def test_an_existing_folder_file_or_link_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("nowhere")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for name in ("folder", "file", "link"):
        with pytest.raises(InputError, match="exists already"):
            start(tmp_path / name)
    with pytest.raises(InputError, match="cannot create the run folder"):
        start(tmp_path / "file" / "run")
    with pytest.raises(InputError, match="cannot create the run folder"):
        start(tmp_path / ("x" * 300))
    with pytest.raises(InputError, match="cannot create the run folder"):
        start(Path("/proc/nowhere/run"))  # a parent in which nobody, root included, can write
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".hidden", "a/.b", "run.json", "Events.jsonl",
     "signature.json", "run.json/x", "a\\b", "a\nb", "x" * 256, "a\x1b[31m", "\udcff", "\U0001f600"],
)  # fmt: skip
def test_names_that_mean_another_file_are_refused(name: str, tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    with pytest.raises(InputError, match="artifact name"):
        run.artifact(name, b"x")
    run.finish()
    assert names_in(tmp_path / "run") == ["events.jsonl", "run.json"]


def test_a_refused_artifact_or_event_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    run.artifact("a", b"x")
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    for name, content, reason in [
        ("a", b"y", "exists already"),
        ("a/b", b"y", "which is a file"),
        ("b", tmp_path / "absent", "No such file"),
        ("b", tmp_path, "regular file|directory"),
        ("b", Path("/dev/zero"), "regular file"),
        ("b", tmp_path / "run" / "a", "lies in the run folder"),
        ("b", "\ud800", "valid Unicode"),
        ("/".join(["x" * 200] * 30), b"y", "File name too long"),
        ("b", np.zeros(3), "must be bytes, text or a Path, got ndarray"),
        ("b", memoryview(b"12345678").cast("I"), "must be bytes, text or a Path, got memoryview"),
        ("b", None, "must be bytes, text or a Path, got NoneType"),
    ]:
        with pytest.raises(InputError, match=reason):
            run.artifact(name, content)
    for kind, fields in [("", {}), ("x", {"a": object()}), ("x", {"a": "\ud800"}), ("x", {"a": "y" * 2**24})]:
        with pytest.raises(InputError):
            run.event(kind, **fields)
    with pytest.raises(InputError, match="summary must be a mapping"):
        run.finish(summary=[1])  # type: ignore[arg-type]
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before
    assert names_in(tmp_path / "run") == ["a", "events.jsonl", "run.json"]
    run.finish()
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE


def test_reading_what_is_no_run_is_bad_input_and_a_damaged_one_an_integrity_error(
    tmp_path: Path, small_run: Path
) -> None:
    for read in (read_manifest, lambda folder: list(read_events(folder))):
        with pytest.raises(InputError, match="not a run folder"):
            read(tmp_path / "absent")
    for name in ("run.json", "events.jsonl"):
        data = bytearray((small_run / name).read_bytes())
        data[100] ^= 1
        (small_run / name).write_bytes(data)
    for read in (read_manifest, lambda folder: list(read_events(folder))):
        with pytest.raises(IntegrityError):
            read(small_run)


def test_two_runs_of_one_seed_record_the_same_events(tmp_path: Path) -> None:
    a, b = write_small_run(tmp_path / "a"), write_small_run(tmp_path / "b")
    assert list(read_events(a)) == list(read_events(b))


def test_of_two_writers_exactly_one_gets_the_folder(tmp_path: Path) -> None:
    barrier = CONTEXT.Barrier(2)
    for round_number in range(30):
        folder = tmp_path / str(round_number)
        writers = [Child(race, folder, barrier), Child(race, folder, barrier)]
        results = sorted(line for writer in writers for line in writer.acknowledged())
        assert len(results) == 2
        assert results[0] == "lost"
        assert [f"won {event.fields['pid']}" for event in read_events(folder)] == results[1:]
        assert verify(folder).status is VerifyStatus.COMPLETE
    assert len(list(tmp_path.iterdir())) == 30
