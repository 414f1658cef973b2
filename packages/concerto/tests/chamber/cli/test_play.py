"""``chamber play``: a trained policy beside any partner, in one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chamber_command import run
from click.testing import CliRunner

from chamber.cli._app import chamber
from ripieno.files import sha256_file
from ripieno.verify import verify


def test_a_policy_plays_beside_a_partner_and_is_recorded(push_checkpoint: Path, tmp_path: Path):
    done = run(
        "play", "--checkpoint", push_checkpoint, "--partner", "push_stubborn", "--partner-parameter", "landmark=1",
        "--episodes", 1, "--safety", "--video", "a.gif", "--out", "run", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["episodes"] == 1
    assert "0 at the ego's fault." in summary["headline"]
    assert verify(tmp_path / "run", expect=summary["digest"]).ok
    assert (tmp_path / "a.gif").stat().st_size > 1000


def test_without_safety_contacts_are_counted_all_the_same(push_checkpoint: Path, tmp_path: Path):
    done = play(["--checkpoint", str(push_checkpoint), "--partner", "push_pursuer", "--no-pictures"], tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "Without the safety stack: " in done.stdout
    assert " at the ego's fault." in done.stdout
    page = " ".join((tmp_path / "run" / "index.html").read_text().split())
    assert "fault unless the ego is at rest in the step in which it begins" in page


def play(arguments: list[str], cwd: Path):
    return CliRunner().invoke(chamber, ["play", *arguments, "--out", str(cwd / "run")])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--checkpoint", "none.pt"], "there is no payload"),
        (["--checkpoint", "CHECKPOINT", "--partner", "nobody"], "Unknown partner class 'nobody'"),
        (["--checkpoint", "CHECKPOINT", "--partner", "cocarry_impedance"], "does not fit mpe_cooperative_push@v1"),
        (
            ["--checkpoint", "CHECKPOINT", "--task", "cocarry", "--no-pictures"],
            "its policy takes 10 numbers and gives 2",
        ),
        (["--checkpoint", "CHECKPOINT", "--task", "handover_place", "--no-pictures"], "has no state vector of 'ego'"),
        (["--checkpoint", "CHECKPOINT", "--task", "none"], "unknown task 'none'"),
        (["--checkpoint", "CHECKPOINT", "--condition", "x"], "this task has no conditions"),
        (["--checkpoint", "CHECKPOINT.json"], "there is no sidecar"),
        (["--checkpoint", "CHECKPOINT", "--video", "a.avi"], "must end in .gif, .mp4, .png"),
    ],
)
def test_what_does_not_fit_gets_one_line_and_leaves_nothing(
    arguments: list[str], said: str, push_checkpoint: Path, tmp_path: Path
):
    done = play([argument.replace("CHECKPOINT", str(push_checkpoint)) for argument in arguments], tmp_path)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_policy_of_unknown_widths_needs_a_task(save_policy, tmp_path: Path):
    path = save_policy(tmp_path / "odd", obs_dim=5, action_dim=2)
    done = play(["--checkpoint", str(path)], tmp_path)
    assert done.exit_code == 2
    assert "say it with --task" in done.stderr
    done = play(["--checkpoint", str(path), "--task", "mpe_cooperative_push"], tmp_path)
    assert done.exit_code == 2
    assert "its policy takes 5 numbers and gives 2, 'ego' observes 10 and acts with 2" in done.stderr


def test_a_damaged_checkpoint_is_refused_and_left_alone(push_checkpoint: Path, save_policy, tmp_path: Path):
    path = save_policy(tmp_path / "mine", obs_dim=10, action_dim=2)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    digest = sha256_file(path)
    done = play(["--checkpoint", str(path)], tmp_path)
    assert done.exit_code == 2
    assert "is not the payload that its sidecar vouches for" in done.stderr
    assert sha256_file(path) == digest
