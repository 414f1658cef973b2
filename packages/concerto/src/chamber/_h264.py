"""Frames become an H.264 video in an MP4 file, one by one."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["H264File"]


class H264File:
    """A video at a path, which is made with the first frame.

    Args:
        path: of the file; an existing one is replaced.
        frames_per_second: of the video.
    """

    def __init__(self, path: Path, frames_per_second: Fraction | int) -> None:
        self._path = path
        self._rate = frames_per_second
        self._container: Any = None
        self._stream: Any = None

    @property
    def is_begun(self) -> bool:
        """Whether there is a file, because there was a frame."""
        return self._container is not None

    def add(self, frame: NDArray[np.uint8]) -> None:
        """Encode one frame, shape ``(height, width, 3)``; an odd last row or column is left out.

        Raises:
            ImportError: PyAV is not installed.
            OSError: the file system or the encoder refuses; PyAV's own errors are of this family.
        """
        import av

        even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # H.264 with 4:2:0 needs even sides
        if self._container is None:
            self._container = av.open(str(self._path), mode="w", format="mp4")
            self._stream = self._container.add_stream("libx264", rate=self._rate, options={"crf": "20"})
            self._stream.height, self._stream.width = even.shape[:2]
            self._stream.pix_fmt = "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
        self._container.mux(self._stream.encode(picture))

    def close(self) -> None:
        """End the video; without a frame there is none.

        Raises:
            OSError: as `add`.
        """
        if self._container is None:
            return
        self._container.mux(self._stream.encode(None))
        self._container.close()
