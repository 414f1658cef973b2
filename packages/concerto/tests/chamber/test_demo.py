"""``ripieno demo push`` as a user meets it: in a subprocess."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chamber.cell.loading import default_cell_text
from chamber.cell.record import read_cell_record
from chamber.demo import run_demo
from chamber.learning import load_policy
from ripieno.errors import InputError
from ripieno.files import sha256_file
from ripieno.run import read_events
from ripieno.verify import verify

COMMAND = [sys.executable, "-c", "from ripieno.cli import main; main()", "demo", "push"]
TEXT = default_cell_text()
NO_PARTNERS = TEXT[TEXT.index("partners:") : TEXT.index("episodes:")]


def demo(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, timeout=300
    )


def here(*arguments: str | Path | int) -> Result:
    """The demo in this process."""
    return CliRunner().invoke(run_demo, [*map(str, arguments)], catch_exceptions=False)


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert message in done.stderr


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The demo with one episode and two rollouts of training, and the folder that it made."""
    home = tmp_path_factory.mktemp("first")
    return home / "here/run", demo("--episodes", 1, "--training-frames", 2048, "--out", "here/run", cwd=home)


def test_the_demo_runs_verifies_itself_and_says_where_to_look(first):
    folder, done = first
    assert done.returncode == 0, done.stderr
    assert "With the safety stack: 0 of 3 episodes with a contact at the ego's fault" in done.stdout
    report = verify(folder)
    assert report.ok
    assert report.digest in done.stdout
    assert "here/run/index.html" in done.stdout
    assert done.stderr == "", "progress belongs on a terminal only"


def test_a_second_run_says_the_same_in_json_and_writes_the_same_bytes(first, tmp_path: Path):
    done = demo("--episodes", 1, "--training-frames", 2048, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    assert Path(summary["page"]).parent == Path(summary["folder"])
    assert summary["folder"].startswith("runs/push-2"), "the default folder is named after the time"
    folder = tmp_path / summary["folder"]
    assert verify(folder, expect=summary["digest"]).ok
    assert list(read_events(folder)) == list(read_events(first[0]))
    names = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert names == {path.relative_to(first[0]) for path in first[0].rglob("*") if path.is_file()}
    (log,) = {name for name in names if name.parent == Path("training") and name.suffix == ".jsonl"}
    for name in names - {Path("run.json"), Path("events.jsonl"), log}:  # they hold the time of day
        assert (folder / name).read_bytes() == (first[0] / name).read_bytes(), name


def test_an_ego_learns_and_the_page_says_what_its_curve_means(first):
    folder, done = first
    curve = json.loads((folder / "training/curve.json").read_text())
    assert len(curve["per_episode_ego_rewards"]) == 2048 // 50 + 1
    status = curve["report"]["status"].upper()
    assert f"An ego that learned for 2,048 frames: the check of its learning curve says {status}" in done.stdout
    page = (folder / "index.html").read_text()
    assert "An ego need not be written by hand." in page
    assert f"The check of the slope says {status}" in page
    assert f"training/{curve['run_id']}.jsonl" in page
    assert load_policy(folder / "training/ego.pt", ego_uid="ego").step == 2048


def test_the_learned_ego_takes_the_place_of_the_hand_written_one(first, tmp_path: Path):
    folder, _ = first
    done = here("--checkpoint", folder / "training/ego.pt", "--episodes", 1, "--out", tmp_path / "run")
    assert "With the safety stack: 0 of 3 episodes with a contact at the ego's fault" in done.stdout
    record = read_cell_record(tmp_path / "run")
    assert (
        record.cell.ego.checkpoint_sha256
        == sha256_file(folder / "training/ego.pt")
        == sha256_file(tmp_path / "run/ego.pt")
    )
    assert not (tmp_path / "run/training").exists(), "who brings an ego does not wait for another"


def test_without_pytorch_the_page_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("torch", "hydra"):
        monkeypatch.setitem(sys.modules, name, None)
    done = here("--episodes", 1, "--out", tmp_path / "run")
    assert "An ego that learned" not in done.stdout
    page = (tmp_path / "run/index.html").read_text()
    assert "torch, hydra, which this Python does not have" in page
    assert "ripieno-concerto[train]" in page
    assert not (tmp_path / "run/training").exists()


def test_an_own_cell_is_run_and_kept_beside_its_results(tmp_path: Path):
    text = TEXT.replace("episodes: 20", "episodes: 2").replace("[without_stack, with_stack]", "[with_stack]")
    rules = text.index("decision_rules:")
    text = text[:rules] + (
        "decision_rules:\n"
        "  - {claim: No contact is the ego's fault., number: contacts_at_fault, condition: with_stack, at_most: 0}\n"
    )
    (tmp_path / "mine.yaml").write_text(text)
    done = demo("--cell", "mine.yaml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/cell.yaml").read_text() == text
    assert len(read_cell_record(tmp_path / "run").outcomes) == 6
    assert "What safety costs" not in (tmp_path / "run/index.html").read_text()


@pytest.mark.parametrize(
    ("find", "replace", "message"),
    [
        ("episodes: 20", "episode: 20", "unknown key 'episode', did you mean 'episodes'?"),
        ("episodes: 20", "episodes: many", "episodes must be a valid integer, got 'many'"),
        ("robot_radius_m: 0.1", "robot_radius_m: .nan", "task.robot_radius_m must be a finite number, got nan"),
        (NO_PARTNERS, "partners: []\n", "partners must have at least 1 item"),
        ("push_pursuer", "push_persuer", "unknown partner 'push_persuer', did you mean 'push_pursuer'?"),
        ("task:", "task: [", "line "),
    ],
)
def test_a_bad_cell_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, find: str, replace: str, message: str
):
    (tmp_path / "bad.yaml").write_text(TEXT.replace(find, replace))
    assert_refused(demo("--cell", "bad.yaml", "--out", "run", cwd=tmp_path), message)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


@pytest.mark.parametrize("cell", ["missing.yaml", ".", "noise.bin"])
def test_a_cell_that_cannot_be_read_is_refused(tmp_path: Path, cell: str):
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    assert_refused(demo("--cell", cell, "--out", "run", cwd=tmp_path), cell)
    assert not (tmp_path / "run").exists()


def test_debug_shows_where_an_error_comes_from(tmp_path: Path):
    done = demo("--cell", "absent.yaml", "--debug", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert "absent.yaml" in done.stderr.splitlines()[-1]


def test_an_existing_folder_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/precious").write_text("mine")
    assert_refused(demo("--out", "run", cwd=tmp_path), "exists already")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("out", ["file/run", "/proc/run", "/dev/null/run"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, out: str):
    (tmp_path / "file").write_text("not a folder")
    assert_refused(demo("--out", out, cwd=tmp_path), "cannot create the run folder")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path, save_policy):
    wide = save_policy(tmp_path / "wide", obs_dim=46, action_dim=8)
    with pytest.raises(InputError, match="does not fit mpe_cooperative_push"):
        here("--checkpoint", wide, "--out", tmp_path / "run")
    with pytest.raises(InputError, match=r"cannot read the checkpoint none\.pt"):
        here("--checkpoint", "none.pt", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("episodes", ["0", "-3", "many", "nan"])
def test_a_bad_number_of_episodes_is_refused(tmp_path: Path, episodes: str):
    assert_refused(demo("--episodes", episodes, cwd=tmp_path), "--episodes")
    assert list(tmp_path.iterdir()) == []


def stop_after_events(tmp_path: Path, stop: Callable[[subprocess.Popen[str]], None]) -> tuple[int, str]:
    """Start a run that would take long, stop it in the middle of its episodes, and give exit code and stderr."""
    arguments = [*COMMAND, "--episodes", "5000", "--out", "run"]
    with subprocess.Popen(arguments, cwd=tmp_path, text=True, stderr=subprocess.PIPE) as process:
        events = tmp_path / "run/events.jsonl"
        deadline = time.monotonic() + 240.0
        while not events.exists() or events.read_bytes().count(b"\n") < 40:
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline, "the run did not get going"
            time.sleep(0.05)
        stop(process)
        _, stderr = process.communicate(timeout=60)
        return process.returncode, stderr


def test_a_killed_run_verifies_as_interrupted_and_keeps_its_events(tmp_path: Path):
    code, _ = stop_after_events(tmp_path, lambda process: process.kill())
    assert code == -signal.SIGKILL
    report = verify(tmp_path / "run")
    assert (report.ok, report.status) == (True, "interrupted")
    n_events = sum(1 for _ in read_events(tmp_path / "run"))
    assert len(read_cell_record(tmp_path / "run").outcomes) == n_events - 1 >= 37


def test_ctrl_c_leaves_an_interrupted_run_and_no_traceback(tmp_path: Path):
    code, stderr = stop_after_events(tmp_path, lambda process: os.kill(process.pid, signal.SIGINT))
    assert code == 130
    assert stderr.strip() == "ripieno: stopped"
    report = verify(tmp_path / "run")
    assert (report.ok, report.status) == (True, "interrupted")
