"""When the file system refuses a write there is one clear error, and what was acknowledged still verifies.

A limit on file sizes stands for the full disk: the system takes a part of the write, then refuses, for every
file of the process.
"""

from collections import Counter
from pathlib import Path

import _writers as writers
import pytest
from _children import run_in_child

from ripieno.run import read_events, read_manifest
from ripieno.verify import VerifyStatus, verify


@pytest.mark.parametrize("offset", [0, 45, 90, 135])
def test_full_at_any_size(offset: int, tmp_path: Path) -> None:
    seen: Counter[object] = Counter()
    for limit in range(offset, 8400, 180):
        folder = tmp_path / str(limit)
        *acknowledged, last = run_in_child(writers.write_until_full, folder, limit)
        if not folder.exists():
            assert last.startswith("InputError: cannot create the run folder")
            assert acknowledged == []
            seen["nothing"] += 1
            continue
        assert last == "finished" or last.startswith("StorageError: cannot write")
        report = verify(folder)
        assert report.first_problem == ""
        assert (report.status is VerifyStatus.COMPLETE) == (last == "finished")
        steps = [event.fields["step"] for event in read_events(folder)]
        assert steps == [int(line) for line in acknowledged if line.isdigit()]
        if "artifact" in acknowledged:
            assert (folder / "a.bin").read_bytes() == bytes(6500)
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
        seen[report.status] += 1
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert all(seen[result] > 0 for result in ("nothing", VerifyStatus.FAILED, VerifyStatus.COMPLETE))


def test_the_error_names_the_file_and_the_reason_and_keeps_the_cause(tmp_path: Path) -> None:
    message, cause = run_in_child(writers.write_one_event_too_many, tmp_path / "run")
    assert message == f"cannot write to {tmp_path}/run/events.jsonl: File too large"
    assert cause == "OSError"
    assert verify(tmp_path / "run").status is VerifyStatus.INTERRUPTED


def test_a_run_goes_on_when_there_is_space_again(tmp_path: Path) -> None:
    assert run_in_child(writers.write_with_a_pause_without_space, tmp_path / "run") == ["finished"]
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE
    assert [event.kind for event in read_events(tmp_path / "run")] == ["before", "after"]


def test_finish_can_be_tried_again_when_only_the_manifest_did_not_fit(tmp_path: Path) -> None:
    (message,) = run_in_child(writers.finish_twice, tmp_path / "run")
    assert message.startswith("cannot finish")
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE
    assert read_manifest(tmp_path / "run")["summary"] == {"x": 1}


def test_an_error_that_cannot_be_recorded_is_passed_on_with_a_note(tmp_path: Path) -> None:
    message, note = run_in_child(writers.fail_without_space, tmp_path / "run")
    assert message == "broken"
    assert "could not be recorded" in note
    assert verify(tmp_path / "run").status is VerifyStatus.INTERRUPTED


def test_a_run_that_cannot_be_made_for_lack_of_space_leaves_nothing(tmp_path: Path) -> None:
    (message,) = run_in_child(writers.start_without_space, tmp_path / "run")
    assert message == f"cannot create the run folder {tmp_path}/run: File too large"
    assert not list(tmp_path.iterdir())
