"""Frames become an MP4, one by one; a video that fails is given up with a warning, and what it shows goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chamber._h264 import H264File

__all__ = ["VideoFile"]

Frame = NDArray[np.uint8]


class VideoFile:
    """An H.264 video at a path, which is made with the first frame.

    Args:
        path: of the file.
        fps: frames per second.
    """

    def __init__(self, path: Path, *, fps: int) -> None:
        self._path = path
        self._file = H264File(path, fps)
        self._is_given_up = False

    def add(self, frame: Frame) -> None:
        """Encode one frame, shape ``(height, width, 3)``; an odd last row or column is left out."""
        self._try(lambda: self._file.add(frame))

    def close(self) -> bool:
        """End the video and say whether there is one."""
        self._try(self._file.close)
        return self._file.is_begun and not self._is_given_up

    def _try(self, act: Callable[[], None]) -> None:
        if self._is_given_up:
            return
        try:
            act()
        except ImportError as error:
            self._give_up(f"PyAV is not installed ({error}); pip install 'ripieno-concerto[chamber]'")
        except Exception as error:  # noqa: BLE001 - no failure of an encoder is worth the run that it shows
            self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, reason: str) -> None:
        self._is_given_up = True
        self._path.unlink(missing_ok=True)
        warnings.warn(f"there will be no video, the recording goes on without it: {reason}", stacklevel=6)
