"""A run that dies at any moment verifies as interrupted and has lost nothing that was acknowledged."""

import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from _children import Child
from _writers import at_line, write_and_die_at, write_long_run, write_traced

from ripieno.run import read_events
from ripieno.verify import VerifyStatus, verify


def check_what_is_left(folder: Path, acknowledged: list[str]) -> VerifyStatus | None:
    """Hold a dead run against what its writer said; ``None`` when it died before the folder existed."""
    if not folder.exists():
        assert acknowledged == []
        return None
    report = verify(folder)
    assert report.first_problem == ""
    if "finished" in acknowledged:
        assert report.status is VerifyStatus.COMPLETE
    else:
        assert report.status in (VerifyStatus.INTERRUPTED, VerifyStatus.COMPLETE)
    steps = [event.fields["step"] for event in read_events(folder)]
    said = [int(line.split()[1]) for line in acknowledged if line.startswith("event")]
    assert steps == list(range(len(steps)))
    assert len(said) <= len(steps) <= len(said) + 1
    for line in acknowledged:
        if line.startswith("artifact"):
            step = int(line.split()[1])
            assert (folder / "files" / f"{step}.bin").read_bytes() == bytes([step]) * 5000
    return report.status


def check_that_damage_still_shows(folder: Path, choice: random.Random) -> None:
    """Flip one acknowledged byte of a dead run: that must not pass for an interruption."""
    path = folder / choice.choice(["run.json", "events.jsonl"])
    data = bytearray(path.read_bytes())
    end = data.rfind(b"\n") + 1  # behind it lies at most half a line that nobody was promised
    data[choice.randrange(end)] ^= 1
    path.write_bytes(data)
    assert verify(folder).status is VerifyStatus.TAMPERED


@pytest.mark.parametrize("seed", range(4))  # four times 50 moments, so that they can be tried in parallel
def test_killed_at_200_random_moments(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    seen: Counter[object] = Counter()
    longest = 0.0  # seconds from the first word to the end; learned from every tenth run, which is left alone
    for number in range(50):
        folder = tmp_path / str(number)
        writer = Child(write_long_run, folder)
        if number % 5 != 1:  # the others may die before they have said anything
            writer.wait_for_first_word()
        started = time.perf_counter()
        if number % 10:
            time.sleep(choice.uniform(0, longest))
            writer.process.kill()
        acknowledged = writer.acknowledged()
        if number % 10 == 0:
            longest = time.perf_counter() - started
        status = check_what_is_left(folder, acknowledged)
        seen[status] += 1
        if status is not None:
            check_that_damage_still_shows(folder, choice)
        shutil.rmtree(folder, ignore_errors=True)
    assert seen[VerifyStatus.COMPLETE] >= 5
    assert seen[VerifyStatus.INTERRUPTED] >= 5


# At every line of our own code, not only where the clock happens to stop


def count_lines(folder: Path) -> int:
    trace, count = at_line(-1, lambda: None)
    write_traced(lambda _: None, folder, trace)
    return count[0]


@pytest.mark.slow
def test_killed_before_every_line_of_code(tmp_path: Path) -> None:
    n_lines = count_lines(tmp_path / "whole")
    assert n_lines > 100
    seen: Counter[object] = Counter()
    for number in range(1, n_lines + 1):
        folder = tmp_path / str(number)
        seen[check_what_is_left(folder, Child(write_and_die_at, folder, number).acknowledged())] += 1
        shutil.rmtree(folder, ignore_errors=True)
    assert all(seen[status] > 0 for status in (None, VerifyStatus.INTERRUPTED, VerifyStatus.COMPLETE))


def interrupt() -> None:
    raise KeyboardInterrupt


# An exception between the opening of a file and the block that closes it leaves the closing to Python.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_before_every_line_of_code_leaves_a_run_that_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # outside of a repository git answers at once
    n_lines = count_lines(tmp_path / "whole")
    for number in range(1, n_lines + 1):
        folder = tmp_path / str(number)
        acknowledged: list[str] = []
        trace, _ = at_line(number, interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_traced(acknowledged.append, folder, trace)
        status = check_what_is_left(folder, acknowledged)
        names = [path.name for path in (tmp_path if status is None else folder).iterdir()]
        assert not [name for name in names if "partial" in name]
