"""Frames become an MP4, one by one; a video that fails is given up with a warning, and what it shows goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        self._fps = fps
        self._container: Any = None
        self._stream: Any = None
        self._is_given_up = False

    def add(self, frame: Frame) -> None:
        """Encode one frame, shape ``(height, width, 3)``; an odd last row or column is left out."""
        self._try(lambda: self._encode(frame))

    def close(self) -> bool:
        """End the video and say whether there is one."""
        if self._container is not None:
            self._try(self._finish)
        return self._container is not None and not self._is_given_up

    def _encode(self, frame: Frame) -> None:
        import av

        even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # H.264 with 4:2:0 needs even sides
        if self._container is None:
            self._container = av.open(str(self._path), mode="w", format="mp4")
            self._stream = self._container.add_stream("libx264", rate=self._fps, options={"crf": "20"})
            self._stream.height, self._stream.width = even.shape[:2]
            self._stream.pix_fmt = "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
        self._container.mux(self._stream.encode(picture))

    def _finish(self) -> None:
        self._container.mux(self._stream.encode(None))
        self._container.close()

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
