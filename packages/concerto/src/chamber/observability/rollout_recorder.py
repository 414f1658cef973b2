"""Episodes recorded while a policy is trained: one line per step, and a video.

The files of a recording at training frame ``N`` are ``<archive_dir>/rollouts/<condition>/step_<N>.jsonl`` and ``.mp4``,
``N`` with at least six digits. They are apart from the log of the run, and readers of the log do not find them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array, leaf
from chamber.observability._video import VideoFile
from concerto.training.logging import json_line, set_aside, wall_time
from ripieno.errors import InputError, StorageError
from ripieno.files import write_all

__all__ = ["RolloutRecorder"]

_CONDITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_POSES = ("cube_pose", "goal_pos", "tcp_pose")
_JOINT_CHANNELS = ("qpos", "qvel")
_HANDS_OF_TWO_FINGERS = ("panda", "fetch")
"""Robots whose last two joints are the fingers of a parallel gripper, by the beginning of their uid."""
_WHOLE_OBSERVATIONS = ("final_observation", "final_info")


class RolloutRecorder:
    """Records episodes into two files, which appear whole under their names with `finalise`.

    Also a context manager: a block that is left by an exception leaves no files.

    Args:
        archive_dir: the folder is made below it.
        condition: what is recorded, e.g. a condition id; names a folder.
        global_step: frames trained so far.
        fps: frames per second of the video.
        per_step_jsonl: without, there is only the video.
        ego_uid: the robot that is recorded as ego.
        partner_uid: the one that is recorded as partner.

    Raises:
        InputError: (a ValueError) a condition that is no name of a folder, or a number below its range.

    Examples:
        >>> recorder = RolloutRecorder(archive, "as-hetero", 25_000)  # doctest: +SKIP
        >>> recorder.begin_episode(seed=3)  # doctest: +SKIP
        >>> recorder.record_step(obs, action, 0.5, {}, terminated=False, truncated=False, frame=None)  # doctest: +SKIP
        >>> video, lines = recorder.finalise()  # doctest: +SKIP
    """

    def __init__(
        self,
        archive_dir: Path,
        condition: str,
        global_step: int,
        fps: int = 20,
        per_step_jsonl: bool = True,
        ego_uid: str = "ego",
        partner_uid: str = "partner",
    ) -> None:
        if not _CONDITION.fullmatch(condition):
            raise InputError(f"condition must be a name of letters, digits, '_', '-' and '.', got {condition!r}")
        if global_step < 0 or fps < 1:
            raise InputError(f"global_step must be at least 0 and fps at least 1, got {global_step} and {fps}")
        self._condition = condition
        self._global_step = int(global_step)
        self._uids = {"ego": ego_uid, "partner": partner_uid}
        stem = Path(archive_dir).absolute() / "rollouts" / condition / f"step_{self._global_step:06d}"
        self._lines_path = stem.with_name(f"{stem.name}.jsonl")
        self._video_path = stem.with_name(f"{stem.name}.mp4")
        self._is_wanting_lines = per_step_jsonl
        self._video = VideoFile(_partial(self._video_path), fps=int(fps))
        self._lines: FileIO | None = None
        self._frame_shape: tuple[int, ...] = ()
        self._n_frames = 0
        self._step = 0
        self._seed: int | None = None
        self._is_over = False
        self._files: tuple[Path | None, Path | None] = (None, None)

    def begin_episode(self, *, seed: int | None = None) -> None:
        """Begin an episode; steps are counted from 0 again.

        Args:
            seed: what the episode was reset with.
        """
        self._step = 0
        self._seed = None if seed is None else int(seed)

    def record_step(
        self,
        obs: Mapping[str, Any],
        action: object,
        reward: object,
        info: Mapping[str, Any],
        *,
        terminated: object,
        truncated: object,
        frame: NDArray[Any] | None,
    ) -> None:
        """Record one step.

        Args:
            obs: the observation; only poses and joints of it are kept, never the state vector.
            action: of the ego, or of all robots by uid.
            reward: of the step.
            info: of the step, without whole observations.
            terminated: whether the episode ended by itself.
            truncated: whether it ended at a limit.
            frame: a picture, shape ``(height, width, 3)``, the same for all steps; None for none.

        Raises:
            InputError: (a ValueError) the frame is no picture, or of another size than the first, or the recording is
                over.
            StorageError: the line could not be written.
        """
        if self._is_over:
            raise InputError(f"the recording {self._lines_path} is over")
        frame_index = -1 if frame is None else self._add_frame(frame)
        if self._is_wanting_lines:
            self._write(
                {
                    "event": "rollout_step",
                    "metric_namespace": "rollout",
                    "step_global": self._global_step + self._step,
                    "step_episode": self._step,
                    "condition": self._condition,
                    "seed": self._seed,
                    "wall_time": wall_time(),
                    "obs_summary": self._summary(obs, info),
                    "action": action,
                    "reward": _only_element(reward),
                    "terminated": bool(_only_element(terminated)),
                    "truncated": bool(_only_element(truncated)),
                    "info": {name: value for name, value in info.items() if name not in _WHOLE_OBSERVATIONS},
                    "frame_index": frame_index,
                }
            )
        self._step += 1

    def finalise(self) -> tuple[Path | None, Path | None]:
        """End the recording; called again, it gives the same answer.

        A file that is there already is kept under another name, with a `UserWarning`.

        Returns:
            Absolute paths of the video and of the lines; None for one that there is not.
        """
        if not self._is_over:
            has_lines, has_video = self._lines is not None, self._end()
            video = _publish(self._video_path) if has_video else None
            self._files = video, _publish(self._lines_path) if has_lines else None
        return self._files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or self._is_over:
            self.finalise()
            return
        self._end()
        for path in (self._lines_path, self._video_path):
            _partial(path).unlink(missing_ok=True)

    def _end(self) -> bool:
        """Close both files, and say whether there is a video."""
        self._is_over = True
        if self._lines is not None:
            self._lines.close()
            self._lines = None
        return self._video.close()

    def _add_frame(self, frame: NDArray[Any]) -> int:
        shape = frame.shape if isinstance(cast("object", frame), np.ndarray) else type(frame).__name__
        if not isinstance(shape, tuple) or len(shape) != 3 or shape[2] != 3:
            raise InputError(f"a frame must be an array of shape (height, width, 3), got {shape}")
        if self._frame_shape and shape != self._frame_shape:
            raise InputError(f"all frames must have the shape of the first, {self._frame_shape}, got {shape}")
        self._frame_shape = shape
        self._make_folder()
        self._video.add(frame.astype(np.uint8, copy=False))
        self._n_frames += 1
        return self._n_frames - 1

    def _write(self, fields: Mapping[str, object]) -> None:
        try:
            if self._lines is None:
                self._make_folder()
                self._lines = FileIO(_partial(self._lines_path), "w")
            write_all(self._lines, json_line(fields))
        except OSError as error:
            raise StorageError(f"cannot record into {self._lines_path}: {error.strerror}") from error

    def _make_folder(self) -> None:
        try:
            self._lines_path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {self._lines_path.parent}: {error.strerror}") from error

    def _summary(self, obs: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, object]:
        """Give what a person asks of a step; what the observation does not have is left out."""
        arrays = {name: _row(leaf(obs, "extra", name)) for name in _POSES}
        for role, uid in self._uids.items():
            arrays |= {f"{role}_{channel}": _row(leaf(obs, "agent", uid, channel)) for channel in _JOINT_CHANNELS}
        summary: dict[str, object] = {name: values for name, values in arrays.items() if values is not None}
        is_grasped = info.get("is_grasped", leaf(obs, "extra", "is_grasped"))
        if is_grasped is not None:
            summary["is_grasped"] = bool(_only_element(is_grasped))
        joints = arrays["ego_qpos"]
        if joints is not None and len(joints) > 2 and self._uids["ego"].startswith(_HANDS_OF_TWO_FINGERS):
            summary["gripper_width"] = sum(joints[-2:])
        return summary


def _row(value: object | None) -> list[float] | None:
    """Give a vector, the first one of a batch."""
    array = as_array(value)
    if array is None:
        return None
    return np.atleast_2d(array)[0].tolist()


def _only_element(value: object) -> object:
    """Give what a scalar, or an array, tensor or list of one element holds; anything else as it is."""
    plain = cast("Any", value).tolist() if hasattr(value, "tolist") else value
    while isinstance(plain, list) and len(cast("list[object]", plain)) == 1:
        plain = cast("list[object]", plain)[0]
    return plain


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _publish(path: Path) -> Path:
    if path.exists():
        warnings.warn(f"{path} is of an earlier run; it is kept as {set_aside(path).name}", UserWarning, stacklevel=3)
    return _partial(path).replace(path)
