"""A training run that is stopped: it says how to go on, and goes on to the same bytes."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from chamber.cli._spike_progress import StopRequest
from chamber.cli.spike import main
from chamber.partners import ScriptedHeuristicPartner, register_partner
from ripieno.errors import InputError
from ripieno.verify import VerifyStatus, verify

ARGUMENTS = ["train", "--config", "mpe_cooperative_push"]
for override in (
    "partner.class_name=sends_a_signal",
    "total_frames=1000",
    "checkpoint_every=500",
    "happo.rollout_length=200",
    "happo.batch_size=100",
    "happo.hidden_dim=16",
    "+safety.enabled=true",
):
    ARGUMENTS += ["--override", override]
ORDINARY_PARTNER = ["--override", "partner.class_name=scripted_heuristic"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def wait_for(event: str, *, seconds: float = 120.0) -> None:
    """Wait until a log of the present folder tells of an event."""
    give_up = time.monotonic() + seconds
    places = ("logs/*.jsonl", "run.unfinished/logs/*.jsonl")
    while not any(f'"event": "{event}"' in log.read_text() for place in places for log in Path().glob(place)):
        assert time.monotonic() < give_up, f"no {event} within {seconds} s"
        time.sleep(0.002)


@register_partner("sends_a_signal")
class SendsASignal(ScriptedHeuristicPartner):
    """A partner that sends its own process a signal in the middle of a run, or breaks, when it is told to."""

    signal_number: ClassVar[int | None] = None
    breaks_with: ClassVar[BaseException | None] = None
    acts_left: ClassVar[int] = 0

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        SendsASignal.acts_left -= 1
        if SendsASignal.acts_left == 0 and SendsASignal.signal_number is not None:
            os.kill(os.getpid(), SendsASignal.signal_number)
        if SendsASignal.acts_left == 0 and SendsASignal.breaks_with is not None:
            raise SendsASignal.breaks_with
        return super().act(obs, deterministic=deterministic)


def interrupted(arguments: list[str], number: int, *, after: int = 330) -> int:
    """Run the command, and signal it in the middle of an episode and of a rollout."""
    SendsASignal.signal_number, SendsASignal.acts_left = number, after
    try:
        return main(arguments)
    finally:
        SendsASignal.signal_number = None


def result_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def assert_went_straight(run: Path, checkpoints: list[str]) -> None:
    """Compare with the checkpoints of a run without a stop; they hold curve, parameters and generators."""
    assert checkpoints
    for path in map(Path, checkpoints):
        assert (run / "artifacts" / path.name).read_bytes() == path.read_bytes()


def test_ctrl_c_saves_says_how_to_go_on_and_the_same_bytes_come_out(capsys: pytest.CaptureFixture[str]):
    handler = signal.getsignal(signal.SIGINT)
    assert interrupted([*ARGUMENTS, "--out", "run"], signal.SIGINT) == 130
    assert signal.getsignal(signal.SIGINT) is handler
    out, err = capsys.readouterr()
    assert out == ""
    *_, announcement, command = err.splitlines()
    assert announcement == "chamber-spike: stopped; go on with:"
    assert verify(Path("run")).status is VerifyStatus.INTERRUPTED

    program, *words = shlex.split(command)
    assert program == "chamber-spike"
    assert words[:-2] == [*ARGUMENTS, "--out", "run"]
    result = result_of(words, capsys)
    assert verify(Path("run"), expect=result["digest"]).ok
    assert verify(Path("run/attempts/1")).status is VerifyStatus.INTERRUPTED
    assert not Path("run.unfinished").exists()
    assert_went_straight(Path("run"), result_of(ARGUMENTS, capsys)["checkpoints"])
    events = [json.loads(line)["event"] for line in next(Path("run/logs").iterdir()).read_text().splitlines()]
    assert events.index("training_interrupted") < events.index("training_resumed") < events.index("training_end")
    assert events.count("training_start") == 1


def test_sigterm_is_a_wish_to_stop_too_and_json_says_how_to_go_on(capsys: pytest.CaptureFixture[str]):
    assert interrupted([*ARGUMENTS, "--json"], signal.SIGTERM) == 143
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "interrupted"
    assert Path(result["checkpoint"]).is_file()
    assert shlex.split(result["resume"]) == ["chamber-spike", *ARGUMENTS, "--json", "--resume", result["checkpoint"]]


def test_an_unfinished_run_is_not_begun_anew_over_itself(capsys: pytest.CaptureFixture[str]):
    assert interrupted([*ARGUMENTS, "--out", "run"], signal.SIGINT) == 130
    before = sorted(Path().rglob("*"))
    capsys.readouterr()
    assert main([*ARGUMENTS, "--out", "run"]) == 2
    assert "go on with --resume" in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before


def test_the_last_checkpoint_is_the_one_of_most_frames_that_is_whole(capsys: pytest.CaptureFixture[str]):
    """By frames, not by name; a process that was killed between payload and sidecar leaves the payload alone."""
    artifacts = Path("run.unfinished/artifacts")
    artifacts.mkdir(parents=True)
    for name in ("a_step500.pt", "a_step500.pt.json", "a_step1000.pt", "a_step1000.pt.json", "a_step1500.pt"):
        (artifacts / name).touch()
    assert main([*ARGUMENTS, "--out", "run"]) == 2
    assert f"go on with --resume {artifacts.absolute() / 'a_step1000.pt'}, or" in capsys.readouterr().err


def test_a_run_that_another_process_goes_on_with_is_left_to_it(capsys: pytest.CaptureFixture[str]):
    assert interrupted([*ARGUMENTS, "--out", "run"], signal.SIGINT) == 130
    (checkpoint,) = Path("run.unfinished/artifacts").glob("*.pt")
    before = sorted(Path().rglob("*"))
    with Path("run.unfinished/lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        capsys.readouterr()
        assert main([*ARGUMENTS, "--out", "run", "--resume", str(checkpoint)]) == 2
    assert "another process is training into" in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before


def test_the_second_ctrl_c_ends_at_once():
    with StopRequest() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stop.exit_code == 130


def broken(arguments: list[str], *, after: int, error: BaseException | None = None) -> int:
    """Run the command with a partner that breaks in the middle of the run."""
    SendsASignal.breaks_with, SendsASignal.acts_left = error or InputError("the partner is broken"), after
    try:
        return main(arguments)
    finally:
        SendsASignal.breaks_with = None


def test_a_run_that_breaks_before_its_first_checkpoint_leaves_a_failed_run_with_its_log(
    capsys: pytest.CaptureFixture[str],
):
    assert broken([*ARGUMENTS, "--out", "run"], after=330) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "chamber-spike: the partner is broken"
    assert verify(Path("run")).status is VerifyStatus.FAILED
    (log,) = Path("run/logs").iterdir()
    assert json.loads(log.read_text().splitlines()[-1])["event"] == "training_aborted"
    assert [path.name for path in Path().iterdir()] == ["run"]


def test_a_partner_that_ends_the_process_does_not_make_it_look_done(capsys: pytest.CaptureFixture[str]):
    assert broken([*ARGUMENTS, "--out", "run"], after=330, error=SystemExit(0)) == 2
    assert "called for the end of the process: SystemExit(0)" in capsys.readouterr().err
    assert verify(Path("run")).status is VerifyStatus.FAILED


def test_a_run_that_breaks_later_says_how_to_go_on_and_does(capsys: pytest.CaptureFixture[str]):
    assert broken([*ARGUMENTS, "--out", "run"], after=730) == 2
    said = capsys.readouterr().err
    assert "chamber-spike: the partner is broken" in said
    assert verify(Path("run")).status is VerifyStatus.FAILED
    program, *words = shlex.split(said.partition("go on with: ")[2])
    assert program == "chamber-spike"
    assert verify(Path("run"), expect=result_of(words, capsys)["digest"]).ok
    assert verify(Path("run/attempts/1")).status is VerifyStatus.FAILED


@pytest.mark.slow
def test_a_killed_run_loses_nothing_and_goes_on_from_its_last_checkpoint(capsys: pytest.CaptureFixture[str]):
    arguments = [*ARGUMENTS, *ORDINARY_PARTNER, "--override", "total_frames=8000", "--out", "run"]
    code = f"import sys; from chamber.cli.spike import main; sys.exit(main({arguments!r}))"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        wait_for("checkpoint_saved")
        process.kill()
    assert verify(Path("run")).status is VerifyStatus.INTERRUPTED
    assert main(arguments) == 2
    checkpoint = capsys.readouterr().err.partition("--resume ")[2].partition(",")[0]
    result = result_of([*arguments, "--resume", checkpoint], capsys)
    assert verify(Path("run"), expect=result["digest"]).ok
    assert_went_straight(Path("run"), result_of(arguments[:-2], capsys)["checkpoints"])


@pytest.mark.slow
def test_two_processes_do_not_train_into_one_folder():
    arguments = [*ARGUMENTS, *ORDINARY_PARTNER, "--override", "total_frames=200000", "--out", "run"]
    code = f"import sys; from chamber.cli.spike import main; sys.exit(main({arguments!r}))"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            wait_for("checkpoint_saved")
            checkpoint = next(Path("run.unfinished/artifacts").glob("*.pt"))
            second = [*arguments, "--resume", str(checkpoint)]
            code = f"import sys; from chamber.cli.spike import main; sys.exit(main({second!r}))"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        finally:
            process.kill()
    assert done.returncode == 2
    assert "another process is training into" in done.stderr
