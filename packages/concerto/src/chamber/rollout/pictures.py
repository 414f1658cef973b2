"""Frames become files: a PNG, a GIF or an MP4, by the name's ending; whole or not at all."""

from __future__ import annotations

import importlib
import io
import os
import secrets
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from chamber._h264 import H264File
from chamber.errors import ChamberEnvCompatibilityError
from ripieno.errors import InputError

__all__ = [
    "MOST_GIF_FRAMES",
    "SUFFIXES",
    "Frame",
    "PictureFile",
    "captioned",
    "png_bytes",
    "require_package",
    "require_picture_path",
    "write_pictures",
]

Frame = NDArray[np.uint8]
"""One picture, shape ``(height, width, 3)``."""

SUFFIXES = (".gif", ".mp4", ".png")
"""What `write_pictures` can write."""

_PACKAGES = {"PIL": "Pillow", "av": "PyAV"}

MOST_GIF_FRAMES = 600
"""A GIF is held in memory until it is written, about 1 MB a frame."""

_STRIP_HEIGHT = 28
_STRIP_COLOUR = (24, 28, 34)
_TEXT_COLOUR = (235, 238, 242)
_TEXT_SIZE = 15


def require_package(module: str) -> None:
    """Check that a package is there before the work is done that needs it.

    Raises:
        ChamberEnvCompatibilityError: it is not; the message says how to install it.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ChamberEnvCompatibilityError(
            f"{_PACKAGES[module]} is not installed, and these pictures need it; install it with: "
            'pip install "ripieno-concerto[chamber]"'
        ) from error


def require_picture_path(path: Path, *, overwrite: bool = False) -> None:
    """Check a path before the work is done that fills it.

    Raises:
        InputError: the ending is none of `SUFFIXES`, the folder does not exist, or the file does and must not be
        replaced.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a picture's name must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist")
    if path.is_dir():
        raise InputError(f"{path} is a folder")
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} exists already; choose another name, or replace it with --force")


class PictureFile:
    """A file that takes frames one by one and appears under its name, whole, when the block ends.

    A PNG keeps the last frame. When the block is left by Ctrl-C the frames so far are kept; any other exception
    leaves no file. Frames of an MP4 are written as they come, so a long video needs little memory; a GIF holds them
    all until the end.

    Args:
        path: see `require_picture_path`.
        frames_per_second: of a video.
        overwrite: replace a file of this name.

    Raises:
        InputError: the path cannot be used, a frame is no picture or differs in size from the first, or there was none.
        ChamberEnvCompatibilityError: the package that writes such files is not installed.
    """

    def __init__(self, path: Path, *, frames_per_second: float = 20.0, overwrite: bool = False) -> None:
        require_picture_path(path, overwrite=overwrite)
        if not (np.isfinite(frames_per_second) and frames_per_second > 0.0):
            raise InputError(f"frames_per_second must be finite and > 0, got {frames_per_second}")
        require_package("av" if path.suffix.lower() == ".mp4" else "PIL")
        self.path = path
        self.n_frames = 0
        self._shape: tuple[int, ...] = ()
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        self._sink = _SINKS[path.suffix.lower()](self._temporary, frames_per_second)

    def add(self, frame: Frame) -> None:
        """Take one frame."""
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise InputError(f"a frame must be uint8 of shape (height, width, 3), got {frame.dtype} {frame.shape}")
        if self._shape and frame.shape != self._shape:
            raise InputError(f"all frames must have the shape of the first, {self._shape}, got {frame.shape}")
        self._shape = frame.shape
        with _said_in_one_line(self.path):
            self._sink.add(frame)
        self.n_frames += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        is_kept = kind is None or (issubclass(kind, KeyboardInterrupt) and self.n_frames > 0)
        try:
            if is_kept and self.n_frames == 0:
                raise InputError(f"there is no frame for {self.path}")
            with _said_in_one_line(self.path):
                self._sink.close()
                if is_kept:
                    self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


def write_pictures(
    path: Path, frames: Iterable[Frame], *, frames_per_second: float = 20.0, overwrite: bool = False
) -> int:
    """Write frames into one file, see `PictureFile`, and give their number."""
    with PictureFile(path, frames_per_second=frames_per_second, overwrite=overwrite) as file:
        for frame in frames:
            file.add(frame)
    return file.n_frames


def png_bytes(frame: Frame) -> bytes:
    """Give a frame as the bytes of a PNG file; equal frames give equal bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def captioned(frame: Frame, text: str) -> Frame:
    """Give a frame with one line of text in a strip below it."""
    from PIL import Image, ImageDraw, ImageFont

    height, width, _ = frame.shape
    picture = Image.new("RGB", (width, height + _STRIP_HEIGHT), _STRIP_COLOUR)
    picture.paste(Image.fromarray(frame), (0, 0))
    font = ImageFont.load_default(size=_TEXT_SIZE)
    ImageDraw.Draw(picture).text((10, height + _STRIP_HEIGHT // 2), text, fill=_TEXT_COLOUR, font=font, anchor="lm")
    return np.asarray(picture)


@contextmanager
def _said_in_one_line(path: Path) -> Generator[None]:
    """Turn what the file system or the encoder says into one clear error."""
    try:
        yield
    except OSError as error:  # the encoder's errors are of this family too
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


class _Sink(Protocol):
    def add(self, frame: Frame) -> None: ...

    def close(self) -> None: ...


class _PngSink:
    def __init__(self, path: Path, frames_per_second: float) -> None:
        del frames_per_second
        self._path = path
        self._last: Frame | None = None

    def add(self, frame: Frame) -> None:
        self._last = frame

    def close(self) -> None:
        if self._last is not None:
            self._path.write_bytes(png_bytes(self._last))


class _GifSink:
    def __init__(self, path: Path, frames_per_second: float) -> None:
        self._path = path
        self._frame_ms = round(1000.0 / frames_per_second)
        self._frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        if len(self._frames) == MOST_GIF_FRAMES:
            raise InputError(f"a GIF holds at most {MOST_GIF_FRAMES} frames; write an .mp4, or fewer steps")
        self._frames.append(frame)

    def close(self) -> None:
        from PIL import Image

        if not self._frames:
            return
        # One palette for all frames, so that still surfaces do not flicker.
        palette = Image.fromarray(_mosaic(self._frames)).quantize(colors=255)
        first, *others = (
            Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in self._frames
        )
        first.save(self._path, format="GIF", save_all=True, append_images=others, duration=self._frame_ms, loop=0)


def _mp4_sink(path: Path, frames_per_second: float) -> _Sink:
    return H264File(path, Fraction(frames_per_second).limit_denominator(1000))


_SINKS: dict[str, Callable[[Path, float], _Sink]] = {".gif": _GifSink, ".mp4": _mp4_sink, ".png": _PngSink}


def _mosaic(frames: Sequence[Frame]) -> Frame:
    """A few frames side by side, coarse: what the colours of all of them are chosen from."""
    chosen = [frames[index] for index in np.linspace(0, len(frames) - 1, min(len(frames), 6)).astype(int)]
    return np.ascontiguousarray(np.concatenate([frame[::2, ::2] for frame in chosen], axis=1))
