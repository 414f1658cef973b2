"""A run that dies at any moment verifies as interrupted and has lost nothing that was acknowledged."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _killed_writer import write
from _runs import fork

import ripieno
from ripieno.run import RunWriter, read_events
from ripieno.verify import VerifyStatus, verify

WRITING_CODE = tuple(str(Path(ripieno.__file__).with_name(f"{name}.py")) for name in ("run", "chain", "files"))
HERE = Path(__file__).parent


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


def read_pipe(descriptor: int) -> list[str]:
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read().decode().split("\n")[:-1]


def test_killed_at_200_random_moments(tmp_path: Path) -> None:
    choice = random.Random(20261129)
    seen: Counter[object] = Counter()
    longest = 0.05  # seconds; learned from the runs that reach their end
    for number in range(200):
        folder = tmp_path / str(number)
        read_end, write_end = os.pipe()

        def act(folder: Path = folder, pipe: int = write_end) -> None:
            write(folder, lambda text: os.write(pipe, f"{text}\n".encode()))

        started = time.perf_counter()
        child = fork(act)
        os.close(write_end)
        if number % 20 == 0:  # now and then one may finish, which also tells how long a run takes
            os.waitpid(child, 0)
            longest = time.perf_counter() - started
        else:
            time.sleep(choice.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        status = check_what_is_left(folder, read_pipe(read_end))
        seen[status] += 1
        if status is not None:
            check_that_damage_still_shows(folder, choice)
        shutil.rmtree(folder, ignore_errors=True)
    assert seen[VerifyStatus.COMPLETE] >= 10
    assert seen[VerifyStatus.INTERRUPTED] >= 20


def test_a_separate_process_is_killed_while_it_talks(tmp_path: Path) -> None:
    for number, n_lines in enumerate([1, 2, 7, 20, 35]):
        folder = tmp_path / str(number)
        command = [sys.executable, str(HERE / "_killed_writer.py"), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            acknowledged = [writer.stdout.readline().strip() for _ in range(n_lines)]
            writer.kill()
            acknowledged += writer.stdout.read().split("\n")[:-1]
        assert check_what_is_left(folder, acknowledged) is not None


# At every line of our own code, not only where the clock happens to stop


def at_line(number: int, act: Callable[[], object]) -> tuple[Any, list[int]]:
    """Give a trace function that acts before the given executed line of writing code, and its counter."""
    count = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in WRITING_CODE:
            return None
        if event == "line":
            count[0] += 1
            if count[0] == number:
                act()
        return trace

    return trace, count


def small_run(folder: Path, acknowledge: Callable[[str], object]) -> None:
    with RunWriter(folder, system="test", kind="killed", config={}) as run:
        acknowledge("created")
        for step in range(2):
            run.event("step", step=step)
            acknowledge(f"event {step}")
        run.artifact("files/0.bin", bytes(5000))
        acknowledge("artifact 0")
        run.finish()
        acknowledge("finished")


def traced_small_run(folder: Path, trace: Any, acknowledge: Callable[[str], object]) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        small_run(folder, acknowledge)
    finally:
        sys.settrace(before)


def count_lines(folder: Path) -> int:
    trace, count = at_line(-1, lambda: None)
    traced_small_run(folder, trace, lambda _: None)
    return count[0]


def die_at(number: int, folder: Path) -> list[str]:
    read_end, write_end = os.pipe()

    def act() -> None:
        trace, _ = at_line(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        traced_small_run(folder, trace, lambda text: os.write(write_end, f"{text}\n".encode()))

    child = fork(act)
    os.close(write_end)
    os.waitpid(child, 0)
    return read_pipe(read_end)


@pytest.mark.slow
def test_killed_before_every_line_of_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # outside of a repository git answers at once
    n_lines = count_lines(tmp_path / "whole")
    assert n_lines > 100
    seen: Counter[object] = Counter()
    for number in range(1, n_lines + 1):
        seen[check_what_is_left(tmp_path / str(number), die_at(number, tmp_path / str(number)))] += 1
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
    assert all(seen[status] > 0 for status in (None, VerifyStatus.INTERRUPTED, VerifyStatus.COMPLETE))


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
# An exception between the opening of a file and the block that closes it leaves the closing to Python.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_before_every_line_of_code_leaves_a_run_that_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    n_lines = count_lines(tmp_path / "whole")
    for number in range(1, n_lines + 1):
        folder = tmp_path / str(number)
        acknowledged: list[str] = []
        trace, _ = at_line(number, interrupt)
        with pytest.raises(KeyboardInterrupt):
            traced_small_run(folder, trace, acknowledged.append)
        check_what_is_left_after_ctrl_c(folder, acknowledged)


def check_what_is_left_after_ctrl_c(folder: Path, acknowledged: list[str]) -> None:
    status = check_what_is_left(folder, acknowledged)
    if status is None:
        assert [path.name for path in folder.parent.iterdir() if path.name.endswith(".partial")] == []
    else:
        assert [path.name for path in folder.iterdir() if path.name.startswith(".partial")] == []
