"""``ripieno demo cocarry`` as a user meets it: in a subprocess."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chamber.rollout.replay import replay_session
from chamber.rollout.session import read_session
from ripieno.verify import verify

COMMAND = [sys.executable, "-c", "from ripieno.cli import main; main()", "demo", "cocarry"]


def demo(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, timeout=600
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The demo with one episode a round."""
    home = tmp_path_factory.mktemp("arms")
    done = demo("--episodes", 1, "--out", "run", "--no-pictures", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "progress belongs on a terminal only"
    return home / "run", json.loads(done.stdout)


def test_two_arms_can_one_cannot_and_the_guard_keeps_them_apart(first: tuple[Path, dict]):
    folder, summary = first
    assert verify(folder, expect=summary["digest"]).ok
    rounds = {played.name: played for played in read_session(folder).rounds}
    assert list(rounds) == ["matched", "one-arm", "misbehaving", "misbehaving-guarded"]
    assert rounds["matched"].n_successes == 1
    assert rounds["one-arm"].n_successes == 0
    assert rounds["one-arm"].episodes[0]["metrics"]["max_tilt_deg"] > 45.0
    assert summary["smallest_gap_m"]["misbehaving"] < 0.0, "without the guard the arms run into each other"
    assert summary["smallest_gap_m"]["misbehaving-guarded"] > 0.02
    assert rounds["misbehaving-guarded"].episodes[0]["metrics"]["interventions"] > 0


def test_the_page_says_what_the_rounds_show(first: tuple[Path, dict]):
    page = (first[0] / "index.html").read_text()
    for words in (
        "Kept apart",
        "One arm cannot",
        "A partner that misbehaves",
        "with the safety filter",
        "apart with it",
    ):
        assert words in page


def test_the_same_demo_gives_the_same_bytes(first: tuple[Path, dict], tmp_path: Path):
    folder, _ = first
    done = demo("--episodes", 1, "--no-pictures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Two arms carry the bar to the goal in 1 of 1 episodes, one arm in 0 of 1." in done.stdout
    (again,) = (tmp_path / "runs").iterdir()
    for name in ("episodes.json", "index.html", "trajectories/misbehaving-guarded/0000.npz"):
        assert (again / name).read_bytes() == (folder / name).read_bytes(), name


def test_an_existing_folder_is_refused(first: tuple[Path, dict]):
    done = demo("--out", first[0], "--no-pictures", cwd=first[0].parent)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert verify(first[0]).ok


def test_a_replay_makes_the_page_of_the_demo_again(first: tuple[Path, dict]):
    replay = replay_session(first[0])
    assert replay.holds
    assert [(file.name, file.holds) for file in replay.files] == [("episodes.json", True), ("index.html", True)]
