"""Tasks with arms through the public door: run with a video, look, replay; and without rendering or simulator."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from chamber_command import assert_refused, run
from PIL import Image

from chamber.rollout.session import read_session
from ripieno.verify import verify

pytestmark = pytest.mark.egl

av = pytest.importorskip("av")


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two episodes of the matched pair, with a video, as the README says it."""
    home = tmp_path_factory.mktemp("carried")
    done = run("run", "cocarry", "--episodes", 2, "--out", "run", "--video", "out.mp4", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 episodes of cocarry@v2 end in success" in done.stdout
    return home / "run", home / "out.mp4"


def test_two_arms_carry_the_bar_and_the_folder_verifies(carried: tuple[Path, Path]):
    folder, _ = carried
    assert verify(folder).ok
    (record,) = read_session(folder).rounds
    assert [episode["success"] for episode in record.episodes] == [True, True]
    assert {seat["name"] for seat in record.team.values()} == {"cocarry_impedance"}
    page = (folder / "index.html").read_text()
    (strip,) = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    width, height = Image.open(io.BytesIO(base64.b64decode(strip))).size
    assert width == 3 * 4 * height // 3, "start, middle and end, side by side"
    assert "All succeed" in page


def test_the_video_shows_every_control_step_and_the_bar_moves(carried: tuple[Path, Path]):
    folder, video = carried
    steps = sum(episode["n_steps"] + 1 for episode in read_session(folder).rounds[0].episodes)
    with av.open(str(video)) as container:
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    assert len(frames) > steps
    first_of_last = frames[len(frames) // 2 + 1]
    assert np.abs(first_of_last - frames[-1]).max() > 60, "something moved"
    assert frames[0].std() > 10, "there is a picture"


def test_a_replay_of_two_arms_is_identical(carried: tuple[Path, Path]):
    folder, _ = carried
    summary = json.loads(run("replay", folder, "--json", cwd=folder.parent).stdout)
    assert [row["is_identical"] for row in summary["episodes"]] == [True, True]


def test_one_arm_alone_fails(tmp_path: Path):
    done = run(
        "run", "cocarry", "--condition", "cocarry_single_arm_positive_control", "--episode-length", 40,
        "--no-pictures", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(done.stdout)["successes"] == 0


@pytest.mark.parametrize(("suffix", "n_frames"), [("png", 1), ("gif", 4)])
def test_render_makes_a_picture(tmp_path: Path, suffix: str, n_frames: int):
    done = run("render", "cocarry", "--out", f"a.{suffix}", "--steps", 3, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"control step 3 of cocarry@v2, frames: {n_frames}" in done.stdout
    assert (tmp_path / f"a.{suffix}").stat().st_size > 5_000


def test_without_egl_the_answer_names_the_packages_and_states_still_run(tmp_path: Path):
    """An EGL that has no device stands for a machine without one."""
    blind = {"EGL_PLATFORM": "nowhere", "__EGL_VENDOR_LIBRARY_FILENAMES": "/dev/null"}
    done = run("render", "cocarry", "--out", "a.png", "--steps", 0, cwd=tmp_path, env=blind)
    assert_refused(done, "libegl1 libgl1-mesa-dri")
    assert list(tmp_path.iterdir()) == []
    done = run("run", "cocarry", "--out", "run", cwd=tmp_path, env=blind)
    assert done.returncode == 0, done.stderr
    assert "no pictures on the page" in done.stderr
    assert verify(tmp_path / "run").ok


def test_rendering_can_be_switched_off(tmp_path: Path):
    done = run("render", "cocarry", "--out", "a.png", cwd=tmp_path, env={"CHAMBER_RENDER_BACKEND": "none"})
    assert_refused(done, "switched off")
    done = run("run", "cocarry", cwd=tmp_path, env={"CHAMBER_RENDER_BACKEND": "vulkan"})
    assert_refused(done, "CHAMBER_RENDER_BACKEND must be one of")


@pytest.mark.parametrize(("task", "rate"), [("stage0_smoke", 100.0), ("coinsert", 20.0)])
def test_a_video_runs_in_real_time(tmp_path: Path, task: str, rate: float):
    done = run("render", task, "--out", "a.mp4", "--steps", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert float(container.streams.video[0].average_rate) == rate
