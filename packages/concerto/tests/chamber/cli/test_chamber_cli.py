"""The command ``chamber`` as a user meets it: in a subprocess."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chamber_command import assert_refused, run

from chamber import tasks
from chamber.cli._app import COMMANDS, chamber
from chamber.partners import list_registered
from ripieno.verify import verify


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of the planar task, played by the command."""
    home = tmp_path_factory.mktemp("cli")
    done = run("run", "mpe_cooperative_push", "--episodes", 2, "--out", "runs/one", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "2 episodes of mpe_cooperative_push@v1" in done.stdout
    assert done.stderr == ""
    return home / "runs/one"


def test_every_command_says_what_it_does_with_an_example():
    for name, (_, _, line) in COMMANDS.items():
        command = chamber.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert command.get_short_help_str(200) == line
        assert f"chamber {name}" in (command.help or ""), name


def test_list_names_every_task_condition_and_partner(tmp_path: Path):
    done = run("list", cwd=tmp_path)
    assert done.returncode == 0
    for slug in tasks.list_registered():
        assert slug in done.stdout
    for name in ("cocarry_single_arm_positive_control", "cocarry_impedance", "panda_wristcam", "fetch"):
        assert name in done.stdout
    found = json.loads(run("list", "--json", cwd=tmp_path).stdout)
    assert {row["slug"] for row in found["tasks"]} == set(tasks.list_registered())
    assert set(json.loads(run("list", "robots", "--json", cwd=tmp_path).stdout)) == {"robots"}


def test_a_session_verifies_and_replays(push: Path):
    assert verify(push).ok
    done = run("replay", push, cwd=push.parent)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 episodes are identical; compared bit for bit." in done.stdout
    assert "actions, observations, rewards, seed, and what became of it" in done.stdout
    assert "episodes.json says what the log says." in done.stdout
    assert "index.html says what the log says; its 1 strip of pictures came out again, to the bit." in done.stdout
    summary = json.loads(run("replay", push, "--json", cwd=push.parent).stdout)
    assert summary["holds"] is True
    assert len(summary["episodes"]) == 2
    assert [(file["name"], file["holds"]) for file in summary["files"]] == [
        ("episodes.json", True),
        ("index.html", True),
    ]


def test_the_planar_task_has_pictures_and_videos(push: Path, tmp_path: Path):
    page = (push / "index.html").read_text()
    assert "From left to right, the first episode of mpe_cooperative_push. The start." in page
    done = run("run", "mpe_cooperative_push", "--episode-length", 5, "--video", "a.gif", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    image = pytest.importorskip("PIL.Image")
    with image.open(tmp_path / "a.gif") as video:
        assert (video.n_frames, video.info["duration"]) == (6, 100), "the start and every step, in real time"
    done = run("render", "mpe_cooperative_push", "--steps", 3, "--out", "a.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "control step 3 of mpe_cooperative_push@v1" in done.stdout


def test_a_tampered_session_ends_with_1_and_names_the_file(push: Path, tmp_path: Path):
    import shutil

    shutil.copytree(push, tmp_path / "copy")
    (tmp_path / "copy/trajectories/mpe_cooperative_push/0000.npz").write_bytes(b"other")
    done = run("replay", "copy", cwd=tmp_path)
    assert done.returncode == 1
    assert "0000.npz" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_one_object_on_standard_output(tmp_path: Path):
    done = run("run", "mpe_cooperative_push", "--json", "--no-pictures", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert done.stderr == ""
    assert (tmp_path / summary["page"]).exists()
    assert verify(tmp_path / summary["folder"], expect=summary["digest"]).ok


def test_check_passes_for_an_own_task_and_says_what_it_tried(tmp_path: Path):
    done = run("check", "mpe_cooperative_push", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "ok   a start forgets earlier episodes" in done.stdout
    rows = json.loads(run("check", "mpe_cooperative_push", "--json", cwd=tmp_path).stdout)
    assert all(row["passed"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["carry"], "No such command 'carry'"),
        (["rum", "cocarry"], "Did you mean 'run'?"),
        (["run", "cocary"], "unknown task 'cocary'"),
        (["run", "cocarry", "--condition", "alone"], "unknown condition 'alone'"),
        (["run", "cocarry", "--episodes", "0"], "--episodes"),
        (["run", "cocarry", "--partner", "nobody", "--no-pictures"], "Unknown partner class 'nobody'"),
        (["run", "cocarry", "--partner-parameter", "kp"], "KEY=VALUE"),
        (
            ["run", "cocarry", "--no-pictures", "--partner", "cocarry_impedance", "--partner-parameter", "lag=4"],
            "cocarry_impedance has no parameter 'lag'; it has ",
        ),
        (["run", "cocarry", "--video", "out.avi"], "must end in .gif, .mp4, .png"),
        (["run", "cocarry", "--video", "nowhere/out.mp4"], "does not exist"),
        (["run", "cocarry", "--video", "out.mp4", "--no-pictures"], "leave --no-pictures out"),
        (["run", "co_hold_secure"], "has no environment to play in"),
        (["run", "handover_place", "--video", "out.mp4"], "has no camera"),
        pytest.param(
            ["render", "cocarry", "--out", "a.png", "--camera", "ceiling"],
            "no camera 'ceiling'; it has render_camera",
            marks=pytest.mark.egl,
        ),
        (["render", "handover_place", "--out", "a.png"], "has no camera"),
        (
            ["render", "mpe_cooperative_push", "--out", "a.png", "--camera", "ceiling"],
            "no camera 'ceiling'; it has render_camera",
        ),
        pytest.param(
            ["render", "cocarry", "--out", "a.png", "--partner", "handover_presenter"],
            "does not fit cocarry@v2",
            marks=pytest.mark.egl,
        ),
        (["replay", "nowhere"], "nowhere"),
        (["check", "amr_handover_dynamic"], "has no environment to play in"),
    ],
)
def test_bad_input_gets_one_clear_answer_and_leaves_nothing(arguments: list[str], said: str, tmp_path: Path):
    assert_refused(run(*arguments, cwd=tmp_path), said)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_folder_is_left_alone(push: Path):
    done = run("run", "mpe_cooperative_push", "--out", push, "--no-pictures", cwd=push.parent)
    assert_refused(done, "exists already")
    assert verify(push).ok


def test_an_existing_video_is_kept_unless_it_may_go(tmp_path: Path):
    (tmp_path / "out.mp4").write_text("precious")
    done = run("run", "cocarry", "--video", "out.mp4", cwd=tmp_path)
    assert_refused(done, "--force")
    assert (tmp_path / "out.mp4").read_text() == "precious"


def test_help_needs_no_simulator_and_no_numbers(tmp_path: Path):
    code = (
        "import sys, runpy; sys.argv = ['chamber', '--help']\n"
        "try:\n    from chamber.cli.main import main; main()\n"
        "except SystemExit: pass\n"
        "heavy = {'mujoco', 'gymnasium', 'numba', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", ["list", "list partners", "run --help", "render --help"])
def test_what_only_tells_loads_no_compiler_and_no_simulator(words: str, tmp_path: Path):
    code = (
        f"import sys; sys.argv = ['chamber', *{words.split()}]\n"
        "try:\n    from chamber.cli.main import main; main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'mujoco', 'gymnasium', 'numba', 'scipy', 'torch', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_where_nothing_can_be_won_no_success_is_claimed_or_missed(tmp_path: Path):
    done = run("run", "stage0_smoke", "--no-pictures", "--episode-length", 5, cwd=tmp_path)
    assert "1 episode of stage0_smoke@v1; it has no success, the mean reward is 0.000." in done.stdout
    done = run("check", "mpe_cooperative_push", cwd=tmp_path)
    assert "the reference reaches success" not in done.stdout
    assert "success was not tried" in done.stdout


LAZY = """
import numpy as np
from chamber.partners import PartnerBase, register_partner

@register_partner("lazy")
class LazyPartner(PartnerBase):
    '''Stays where it is.'''

    def act(self, obs, *, deterministic=True):
        return np.zeros(2, dtype=np.float32)
"""


def test_a_partner_of_ones_own_is_imported_played_and_replayed(tmp_path: Path):
    (tmp_path / "lazy.py").write_text(LAZY)
    played = ("run", "mpe_cooperative_push", "--partner", "lazy", "--no-pictures", "--out", "run")
    assert_refused(run(*played, cwd=tmp_path), "--import MODULE")
    done = run(*played, "--import", "lazy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 episodes are identical" in run("replay", "--import", "lazy", "run", cwd=tmp_path).stdout
    assert_refused(run("replay", "run", cwd=tmp_path), "--import MODULE")


def test_a_module_that_cannot_be_imported_is_refused_with_its_own_words(tmp_path: Path):
    (tmp_path / "broken.py").write_text("raise RuntimeError('half done')")
    for module, said in (("broken", "'broken': RuntimeError: half done"), ("missing", "No module named 'missing'")):
        assert_refused(run("run", "mpe_cooperative_push", "--import", module, cwd=tmp_path), said)


def test_every_partner_of_the_list_says_what_it_does_and_what_can_be_set(tmp_path: Path):
    lines = run("list", "partners", cwd=tmp_path).stdout.splitlines()
    # What a fresh process lists: other tests register partners of their own in this one.
    found = json.loads(run("list", "partners", "--json", cwd=tmp_path).stdout)
    names, details = found["partners"], found["partner_details"]
    assert set(names) == set(details)
    assert set(names) <= set(list_registered())
    for name in names:
        place = lines.index(f"    {name}") + 1
        assert len(lines[place].split()) > 3, name
        parameters = details[name]["parameters"]
        assert parameters, name
        shown = lines[place + 1 : place + 1 + len(parameters)]
        assert [line.split()[0] for line in shown] == [parameter["name"] for parameter in parameters]
    assert len(lines) == 2 + 2 * len(names) + sum(len(detail["parameters"]) for detail in details.values())
    by_name = {parameter["name"]: parameter for parameter in details["cocarry_erratic"]["parameters"]}
    assert by_name["swing_speed"] == {"name": "swing_speed", "default": "0.35", "unit": "m/s"}
    assert details["partner_ablated_zero"]["parameters"] == [{"name": "action_dim", "default": None, "unit": ""}]


def test_a_partner_of_ones_own_is_listed_with_what_it_declares(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "from chamber.partners import PartnerBase, register_partner\n"
        "@register_partner('mine')\nclass Mine(PartnerBase):\n"
        "    '''Does this and that.'''\n"
        "    defaults = {'speed': '1'}\n    units = {'speed': 'm/s'}\n"
        "@register_partner('silent')\nclass Silent(PartnerBase):\n    pass\n"
    )
    shown = run("list", "partners", "--import", "mine", cwd=tmp_path).stdout
    assert "    mine\n        Does this and that.\n          speed                 1                 m/s\n" in shown
    found = json.loads(run("list", "partners", "--import", "mine", "--json", cwd=tmp_path).stdout)["partner_details"]
    assert found["silent"]["parameters"] == []
