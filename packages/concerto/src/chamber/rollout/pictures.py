"""Frames become files: a PNG, a GIF or an MP4, by the name's ending; whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ripieno.errors import InputError

__all__ = ["SUFFIXES", "Frame", "captioned", "png_bytes", "require_picture_path", "write_pictures"]

Frame = NDArray[np.uint8]
"""One picture, shape ``(height, width, 3)``."""

SUFFIXES = (".gif", ".mp4", ".png")
"""What `write_pictures` can write."""

_STRIP_HEIGHT = 28
_STRIP_COLOUR = (24, 28, 34)
_TEXT_COLOUR = (235, 238, 242)
_TEXT_SIZE = 15


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


def write_pictures(
    path: Path, frames: Iterable[Frame], *, frames_per_second: float = 20.0, overwrite: bool = False
) -> int:
    """Write frames into one file and give their number; a PNG takes the last one.

    Frames of an MP4 are read one by one, so a long video needs little memory. The file appears under its name when it
    is complete.

    Raises:
        InputError: there is no frame, or see `require_picture_path`; nothing was written.
    """
    require_picture_path(path, overwrite=overwrite)
    if not (np.isfinite(frames_per_second) and frames_per_second > 0.0):
        raise InputError(f"frames_per_second must be finite and > 0, got {frames_per_second}")
    counted = _Counted(frames)
    first = next(counted, None)
    if first is None:
        raise InputError(f"there is no frame for {path}")
    every = chain([first], counted)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        if path.suffix.lower() == ".mp4":
            _write_mp4(temporary, every, frames_per_second)
        elif path.suffix.lower() == ".gif":
            _write_gif(temporary, every, frames_per_second)
        else:
            *_, last = every
            temporary.write_bytes(png_bytes(last))
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return counted.number


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


class _Counted(Iterator[Frame]):
    """Passes frames on, counts them, and refuses what is no picture."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._frames = iter(frames)
        self._shape: tuple[int, ...] | None = None
        self.number = 0

    def __next__(self) -> Frame:
        frame = next(self._frames)
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise InputError(f"a frame must be uint8 of shape (height, width, 3), got {frame.dtype} {frame.shape}")
        if self._shape is not None and frame.shape != self._shape:
            raise InputError(f"all frames must have the shape of the first, {self._shape}, got {frame.shape}")
        self._shape = frame.shape
        self.number += 1
        return frame


def _write_mp4(path: Path, frames: Iterable[Frame], frames_per_second: float) -> None:
    from fractions import Fraction

    import av

    with av.open(str(path), mode="w", format="mp4") as container:
        stream = None
        for frame in frames:
            even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # H.264 with 4:2:0 needs even sides
            if stream is None:
                rate = Fraction(frames_per_second).limit_denominator(1000)
                stream = container.add_stream("libx264", rate=rate, options={"crf": "20"})
                stream.height, stream.width, stream.pix_fmt = even.shape[0], even.shape[1], "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")))
        if stream is not None:
            container.mux(stream.encode(None))


def _write_gif(path: Path, frames: Iterable[Frame], frames_per_second: float) -> None:
    from PIL import Image

    # One palette for all frames, so that still surfaces do not flicker.
    first, *others = frames
    palette = Image.fromarray(_mosaic([first, *others])).quantize(colors=255)
    pictures = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in (first, *others)
    ]
    pictures[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000.0 / frames_per_second),
        loop=0,
    )


def _mosaic(frames: Sequence[Frame]) -> Frame:
    """A few frames side by side, coarse: what the colours of all of them are chosen from."""
    chosen = [frames[index] for index in np.linspace(0, len(frames) - 1, min(len(frames), 6)).astype(int)]
    return np.ascontiguousarray(np.concatenate([frame[::2, ::2] for frame in chosen], axis=1))
