"""What goes wrong around the command: packages that are missing, Ctrl-C, names that collide. One line each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chamber_command import COMMAND, assert_refused, run

from ripieno.verify import verify

BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
sys.argv = {arguments!r}
from {package} import main
main()
"""


def without(blocked: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``chamber`` or ``ripieno`` where a package is not installed."""
    package = {"chamber": "chamber.cli.main", "ripieno": "ripieno.cli"}[arguments[0]]
    code = BLOCK.format(blocked=blocked, arguments=list(arguments), package=package)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize(
    ("blocked", "arguments"),
    [
        ("av", ("chamber", "run", "cocarry", "--out", "run", "--video", "out.mp4")),
        ("av", ("chamber", "render", "cocarry", "--out", "out.mp4")),
        ("PIL", ("chamber", "run", "cocarry", "--out", "run", "--video", "out.gif")),
        ("PIL", ("chamber", "run", "cocarry", "--out", "run", "--video", "out.mp4")),
        ("PIL", ("chamber", "render", "cocarry", "--out", "out.png")),
        ("mujoco", ("chamber", "run", "cocarry", "--out", "run")),
        ("mujoco", ("ripieno", "demo", "cocarry", "--out", "run")),
        ("gymnasium", ("chamber", "run", "handover_place", "--out", "run", "--no-pictures")),
        ("gymnasium", ("ripieno", "demo", "cocarry", "--out", "run")),
    ],
)
@pytest.mark.egl
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(
    tmp_path: Path, blocked: str, arguments: tuple[str, ...]
):
    done = without(blocked, *arguments, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert 'pip install "ripieno-concerto[chamber]"' in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_pillow_a_session_is_played_and_its_page_has_no_pictures(tmp_path: Path):
    done = without("PIL", "chamber", "run", "cocarry", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no pictures on the page: Pillow is not installed" in done.stderr
    assert verify(tmp_path / "run").ok


def test_ctrl_c_is_no_verdict_and_what_was_played_verifies(tmp_path: Path):
    arguments = ["run", "mpe_cooperative_push", "--episodes", "1000", "--out", "run", "--no-pictures"]
    with subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60.0
        # The second file comes after the first episode is in the log.
        while len(list(tmp_path.glob("run/trajectories/*/*.npz"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "chamber: stopped"
    assert verify(tmp_path / "run").ok
    done = run("replay", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "It was interrupted: 1000 episodes were planned." in done.stdout


def test_a_video_under_the_name_of_the_folder_is_refused_before_anything_is_played(tmp_path: Path):
    done = run("run", "cocarry", "--out", "both.mp4", "--video", "./both.mp4", cwd=tmp_path)
    assert_refused(done, "--video and --out are both both.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_warning_is_one_line_without_the_code_it_comes_from(tmp_path: Path):
    (tmp_path / "noisy.py").write_text("import warnings\nwarnings.warn('the colour\\nis red', stacklevel=1)\n")
    done = run(
        "run", "mpe_cooperative_push", "--import", "noisy", "--no-pictures",
        cwd=tmp_path, env={"PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "default")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = {line for line in done.stderr.splitlines() if "colour" in line}
    assert line == "warning: the colour is red"
    assert ".py" not in done.stderr


def test_foreign_code_that_ends_the_process_does_not_make_a_command_look_done(tmp_path: Path):
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "leaves_later.py").write_text(
        "from chamber.partners import ScriptedHeuristicPartner, register_partner\n"
        "@register_partner('leaves')\n"
        "class Leaves(ScriptedHeuristicPartner):\n"
        "    def act(self, obs, *, deterministic=True):\n"
        "        raise SystemExit(0)\n"
    )
    task = ("run", "mpe_cooperative_push", "--no-pictures")
    for imported in (("--import", "leaves"), ("--import", "leaves_later", "--partner", "leaves")):
        done = run(*task, *imported, cwd=tmp_path)
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr == "chamber: foreign code called for the end of the process: SystemExit(0)\n"
