"""A recording is one line per step and a video, whole or not there, and never in the way of the run."""

from __future__ import annotations

import json
import math
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chamber.envs import MPECooperativePushEnv
from chamber.observability import RolloutRecorder
from ripieno.errors import StorageError


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def record(recorder: RolloutRecorder, *, frame: Any = None, obs: Any = None, info: Any = None, **changed: Any) -> None:
    step: dict[str, Any] = {"action": np.zeros(2), "reward": 0.5, "terminated": False, "truncated": False, **changed}
    recorder.record_step(obs or {}, step.pop("action"), step.pop("reward"), info or {}, frame=frame, **step)


def picture(brightness: int, height: int = 48, width: int = 64) -> np.ndarray:
    return np.full((height, width, 3), brightness, dtype=np.uint8)


def frames_of(path: Path) -> list[np.ndarray]:
    import av

    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


# --- the real thing -----------------------------------------------------------------------------------------


def test_episodes_of_the_planar_task_become_lines_and_a_video(tmp_path: Path) -> None:
    env = MPECooperativePushEnv(render_mode="rgb_array", episode_length=4)
    recorder = RolloutRecorder(tmp_path, "as-hetero", 25_000)
    for seed in (3, 4):
        obs, _ = env.reset(seed=seed)
        recorder.begin_episode(seed=seed)
        truncated = False
        while not truncated:
            action = {uid: np.zeros(2, dtype=np.float32) for uid in env.agent_uids}
            obs, reward, terminated, truncated, info = env.step(action)
            recorder.record_step(
                obs, action["ego"], reward, info, terminated=terminated, truncated=truncated, frame=env.render()
            )
    video, lines_path = recorder.finalise()
    folder = tmp_path / "rollouts" / "as-hetero"
    assert (video, lines_path) == (folder / "step_025000.mp4", folder / "step_025000.jsonl")
    assert sorted(folder.iterdir()) == [lines_path, video]
    lines = read(folder / "step_025000.jsonl")
    assert [line["step_episode"] for line in lines] == [0, 1, 2, 3] * 2
    assert [line["step_global"] for line in lines] == [25_000, 25_001, 25_002, 25_003] * 2
    assert [line["seed"] for line in lines] == [3] * 4 + [4] * 4
    assert [line["truncated"] for line in lines] == [False, False, False, True] * 2
    assert [line["frame_index"] for line in lines] == list(range(8))
    assert all(line["reward"] < 0.0 and line["wall_time"].endswith("+00:00") for line in lines)
    assert "state" not in json.dumps(lines), "never the state vector"
    assert list(lines[0]) == sorted(lines[0])
    assert set(lines[0]) == {
        "action",
        "condition",
        "event",
        "frame_index",
        "info",
        "metric_namespace",
        "obs_summary",
        "reward",
        "seed",
        "step_episode",
        "step_global",
        "terminated",
        "truncated",
        "wall_time",
    }
    assert (lines[0]["event"], lines[0]["metric_namespace"], lines[0]["condition"]) == (
        "rollout_step",
        "rollout",
        "as-hetero",
    )
    assert len(frames_of(folder / "step_025000.mp4")) == 8


def test_what_is_recorded_of_an_arm_is_its_poses_joints_and_grip(tmp_path: Path) -> None:
    qpos = np.arange(9.0)[None]
    obs = {
        "agent": {
            "panda_wristcam": {"qpos": qpos, "qvel": torch.ones(1, 9), "state": np.zeros(65)},
            "fetch": {"qpos": np.zeros((1, 15)), "state": np.zeros(65)},
        },
        "extra": {"cube_pose": np.full((1, 7), 0.5), "goal_pos": [1.0, 2.0, 3.0], "force_torque": np.zeros(6)},
        "final_observation": {},
    }
    info = {"is_grasped": torch.tensor([True]), "success": np.array([False]), "final_observation": obs, "h": math.nan}
    recorder = RolloutRecorder(tmp_path, "c", 0, ego_uid="panda_wristcam", partner_uid="fetch")
    recorder.begin_episode(seed=np.int64(5))  # type: ignore[arg-type]
    done = {"terminated": torch.tensor([False]), "truncated": np.array([True])}
    record(recorder, obs=obs, info=info, reward=torch.tensor([1.5]), action={"panda_wristcam": np.ones((1, 8))}, **done)
    _, path = recorder.finalise()
    assert path is not None
    [line] = read(path)
    assert line["obs_summary"] == {
        "cube_pose": [0.5] * 7,
        "goal_pos": [1.0, 2.0, 3.0],
        "ego_qpos": list(range(9)),
        "ego_qvel": [1.0] * 9,
        "partner_qpos": [0.0] * 15,
        "is_grasped": True,
        "gripper_width": 15.0,
    }
    assert (line["reward"], line["terminated"], line["truncated"], line["seed"]) == (1.5, False, True, 5)
    assert line["info"] == {"is_grasped": [True], "success": [False], "h": None}
    assert line["action"] == {"panda_wristcam": [[1.0] * 8]}


# --- frames -------------------------------------------------------------------------------------------------


def test_frames_are_shown_in_order_and_odd_sides_are_cut(tmp_path: Path) -> None:
    recorder = RolloutRecorder(tmp_path, "c", 7, fps=10)
    for brightness in (20, 120, 220):
        record(recorder, frame=picture(brightness, 49, 65).astype(np.float64))
    record(recorder)
    video, lines = recorder.finalise()
    assert video is not None
    assert lines is not None
    shown = frames_of(video)
    assert [frame.shape for frame in shown] == [(48, 64, 3)] * 3
    assert [abs(frame.mean() - wanted) < 4 for frame, wanted in zip(shown, (20, 120, 220), strict=True)] == [True] * 3
    assert [line["frame_index"] for line in read(lines)] == [0, 1, 2, -1]


@pytest.mark.parametrize(
    "frame", [np.zeros((4, 4)), np.zeros((4, 4, 4)), np.zeros((1, 4, 4, 3)), [[[0, 0, 0]]], picture(0, 46)]
)
def test_what_is_no_picture_is_refused_and_the_recording_goes_on(tmp_path: Path, frame: Any) -> None:
    recorder = RolloutRecorder(tmp_path, "c", 7)
    record(recorder, frame=picture(0))
    with pytest.raises(ValueError, match="frame"):
        record(recorder, frame=frame)
    record(recorder, frame=picture(0))
    video, lines = recorder.finalise()
    assert video is not None
    assert lines is not None
    assert [line["step_episode"] for line in read(lines)] == [0, 1]


def test_without_frames_there_is_no_video_and_without_lines_only_one(tmp_path: Path) -> None:
    recorder = RolloutRecorder(tmp_path, "a", 7)
    record(recorder)
    assert [path and path.name for path in recorder.finalise()] == [None, "step_000007.jsonl"]
    recorder = RolloutRecorder(tmp_path, "b", 1_234_567, per_step_jsonl=False)
    record(recorder, frame=picture(9))
    assert [path and path.name for path in recorder.finalise()] == ["step_1234567.mp4", None]
    assert RolloutRecorder(tmp_path, "none", 7).finalise() == (None, None)
    assert sorted(path.name for path in (tmp_path / "rollouts").iterdir()) == ["a", "b"]


def recorded(tmp_path: Path, frame: np.ndarray) -> tuple[Path | None, Path | None]:
    recorder = RolloutRecorder(tmp_path, "c", 7)
    for _ in range(3):
        record(recorder, frame=frame)
    return recorder.finalise()


@pytest.mark.parametrize("is_missing", [True, False], ids=["no PyAV", "an encoder that fails"])
def test_a_video_that_cannot_be_made_is_one_warning_and_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_missing: bool
) -> None:
    if is_missing:
        monkeypatch.setitem(sys.modules, "av", None)
    frame = picture(9) if is_missing else picture(9, 1, 1)  # of which nothing is left without odd row and column
    with pytest.warns(UserWarning, match="there will be no video, the recording goes on without it") as caught:
        video, lines = recorded(tmp_path, frame)
    assert len(caught) == 1
    assert ("pip install 'ripieno-concerto[chamber]'" in str(caught[0].message)) is is_missing
    assert video is None
    assert lines is not None
    assert [line["frame_index"] for line in read(lines)] == [0, 1, 2]
    assert list(lines.parent.iterdir()) == [lines]


# --- files --------------------------------------------------------------------------------------------------


def test_files_have_their_names_only_when_they_are_whole(tmp_path: Path) -> None:
    recorder = RolloutRecorder(tmp_path, "c", 7)
    record(recorder, frame=picture(9))
    assert all(path.name.endswith(".partial") for path in (tmp_path / "rollouts" / "c").iterdir())
    assert recorder.finalise() == recorder.finalise()
    with pytest.raises(ValueError, match="is over"):
        record(recorder)


def test_a_block_that_fails_leaves_no_files(tmp_path: Path) -> None:
    def fail() -> None:
        with RolloutRecorder(tmp_path, "c", 7) as recorder:
            record(recorder, frame=picture(9))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list((tmp_path / "rollouts" / "c").iterdir()) == []
    with RolloutRecorder(tmp_path, "c", 7) as recorder:
        record(recorder)
    assert [path.name for path in (tmp_path / "rollouts" / "c").iterdir()] == ["step_000007.jsonl"]


def test_an_earlier_recording_is_kept_where_no_reader_looks(tmp_path: Path) -> None:
    for reward in (1.0, 2.0):
        recorder = RolloutRecorder(tmp_path, "c", 7)
        record(recorder, reward=reward, frame=picture(9))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, path = recorder.finalise()
        assert len(caught) == (0 if reward == 1.0 else 2)
    assert path is not None
    assert read(path)[0]["reward"] == 2.0
    assert read(path.with_name("step_000007.previous-1.jsonl.old"))[0]["reward"] == 1.0
    assert [found.name for found in tmp_path.glob("rollouts/**/step_*.jsonl")] == ["step_000007.jsonl"]


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    recorder = RolloutRecorder(tmp_path, "c", 7)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
    try:
        with pytest.raises(StorageError, match=r"cannot record into .*step_000007\.jsonl"), recorder:
            record(recorder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "rollouts" / "c").iterdir()) == []


@pytest.mark.parametrize("condition", ["", "..", "a/b", "../c", ".hidden", "a b"])
def test_a_condition_is_the_name_of_a_folder(tmp_path: Path, condition: str) -> None:
    with pytest.raises(ValueError, match="condition must be a name"):
        RolloutRecorder(tmp_path, condition, 0)


@pytest.mark.parametrize("numbers", [{"global_step": -1}, {"global_step": 0, "fps": 0}])
def test_numbers_below_their_range_are_refused(tmp_path: Path, numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="global_step must be at least 0 and fps at least 1"):
        RolloutRecorder(tmp_path, "c", **numbers)
