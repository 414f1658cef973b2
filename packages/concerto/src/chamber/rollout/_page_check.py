"""What a folder shows besides its log: do ``episodes.json`` and ``index.html`` say what the log says?

The page is made again from the log, and its pictures from the episodes that were played again. Texts must be equal to
the letter. Pictures are compared by pixels, because graphics drivers differ in the smoothing of edges.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.rollout.session import Page, SessionRecord, episode_table
from chamber.rollout.snapshots import Snapshot

__all__ = ["LARGEST_PICTURE_DIFFERENCE", "FileReplay", "compare_episode_table", "compare_page", "n_pictures"]

LARGEST_PICTURE_DIFFERENCE = 32.0
"""Largest mean difference in any square of 8 x 8 pixels, of 255, that counts as the same picture.

Another graphics driver smooths edges in another way, which is a small part of a square; something that is there and
something that is not are most of one.
"""

_SQUARE = 8
_PICTURE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]*)")
_EMPTY_PICTURE = "data:image/png;base64,"
_STEP_OF_CAPTION = re.compile(r"Control step \d+")


@dataclass(frozen=True, slots=True)
class FileReplay:
    """A file of the folder that shows results, held against the log.

    Attributes:
        name: of the file.
        holds: whether it says what the log says; None when it could not be compared.
        words: what was compared, and what came out.
    """

    name: str
    holds: bool | None
    words: str


def compare_episode_table(data: bytes, record: SessionRecord) -> FileReplay:
    """Hold ``episodes.json`` against the log, byte for byte."""
    is_same = data == episode_table(record).encode()
    words = "says what the log says" if is_same else "does not say what the log says"
    return FileReplay("episodes.json", is_same, words)


def n_pictures(data: bytes) -> int:
    """Give the number of pictures in a page."""
    return len(_PICTURE.findall(data.decode("utf-8", "replace")))


def compare_page(
    data: bytes,
    record: SessionRecord,
    snapshots: Sequence[Snapshot],
    pages: Sequence[Page],
    *,
    why_no_pictures: str,
    same_machine: bool,
) -> FileReplay:
    """Hold ``index.html`` against the log and against pictures that were taken again.

    Args:
        data: the file.
        record: what the log says.
        snapshots: pictures that were taken again; those of a page without pictures are none.
        pages: what may have made the page.
        why_no_pictures: why ``snapshots`` only have the right size; empty when they are pictures.
        same_machine: whether the numbers of control steps in captions have to be the same.
    """
    name, text = "index.html", data.decode("utf-8", "replace")
    try:
        made = [page(record, snapshots) for page in pages]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return FileReplay(name, False, f"no page can be made of the log: {type(error).__name__}: {error}")
    said, words_made = _words(text, same_machine), [_words(again, same_machine) for again in made]
    best = max(range(len(made)), key=lambda place: _likeness(said, words_made[place]))
    problem = _first_difference(said, words_made[best])
    if problem:
        return FileReplay(name, False, f"is not the page that the log gives: {problem}")
    shown, taken = _PICTURE.findall(text), _PICTURE.findall(made[best])
    if not shown:
        return FileReplay(name, True, "says what the log says; it has no pictures")
    words = f"says what the log says; its {len(shown)} {'strip' if len(shown) == 1 else 'strips'} of pictures"
    if why_no_pictures:
        return FileReplay(name, True, f"{words} could not be compared: {why_no_pictures}")
    difference = max(_picture_difference(old, new) for old, new in zip(shown, taken, strict=True))
    if difference > LARGEST_PICTURE_DIFFERENCE:
        words = f"has a picture that the episode does not give: somewhere they differ by {difference:.0f} of 255"
        return FileReplay(name, False, words)
    return FileReplay(name, True, f"{words} came out again{', to the bit' if shown == taken else ''}")


def _words(text: str, same_machine: bool) -> str:
    """Everything but the pictures; which step of an episode says most may differ where numbers do."""
    words = _PICTURE.sub(_EMPTY_PICTURE, text)
    return words if same_machine else _STEP_OF_CAPTION.sub("Control step", words)


def _likeness(shown: str, made: str) -> tuple[bool, int]:
    """Give what is the larger the nearer two pages are: whether they are equal, and at which line they part."""
    return shown == made, _n_equal_lines(shown.splitlines(), made.splitlines())


def _n_equal_lines(lines: Sequence[str], expected: Sequence[str]) -> int:
    """Give the number of lines before the first that differs."""
    return next(
        (place for place, (one, other) in enumerate(zip(lines, expected, strict=False)) if one != other),
        min(len(lines), len(expected)),
    )


def _first_difference(shown: str, made: str) -> str:
    """Name the first line that differs, empty when none does."""
    if shown == made:
        return ""
    lines, expected = shown.splitlines(), made.splitlines()
    number = _n_equal_lines(lines, expected)
    found, wanted = ((rows[number : number + 1] or ["the end"])[0].strip() for rows in (lines, expected))
    start = next(
        (place for place, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other),
        min(len(found), len(wanted)),
    )
    part = slice(max(0, start - 20), start + 40)
    return f"line {number + 1} has {found[part]!r}, not {wanted[part]!r}"


def _picture_difference(shown: str, taken: str) -> float:
    """Give the largest mean difference of a square of pixels; 255 when the first is no picture of the second's size."""
    if shown == taken:
        return 0.0
    expected = _pixels(taken, None)
    found = _pixels(shown, expected)
    if found is None or expected is None:
        return 255.0
    difference = np.abs(found.astype(np.int16) - expected.astype(np.int16)).max(axis=2)
    height, width = ((size + _SQUARE - 1) // _SQUARE * _SQUARE for size in difference.shape)
    padded = np.zeros((height, width))
    padded[: difference.shape[0], : difference.shape[1]] = difference
    return float(padded.reshape(height // _SQUARE, _SQUARE, width // _SQUARE, _SQUARE).mean(axis=(1, 3)).max())


def _pixels(text: str, like: NDArray[Any] | None) -> NDArray[np.uint8] | None:
    """Read a picture; None when it is no plain one, or has not the size of ``like``, seen before it is unpacked."""
    from PIL import Image, UnidentifiedImageError

    try:
        data = base64.b64decode(text, validate=True)
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            if like is not None and picture.size != (like.shape[1], like.shape[0]):
                return None
            if picture.mode != "RGB" or not _is_plain(data):
                return None
            return np.asarray(picture)
    except (binascii.Error, UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None


def _is_plain(data: bytes) -> bool:
    """Whether a PNG has pixels and nothing else.

    Transparency, animation, colour profiles and the like are parts of their own; with one of them a browser shows
    something else than the pixels.
    """
    names: list[bytes] = []
    at = len(b"\x89PNG\r\n\x1a\n")
    while at < len(data):
        names.append(data[at + 4 : at + 8])
        at += 12 + int.from_bytes(data[at : at + 4])
    return names[:1] == [b"IHDR"] and set(names[1:-1]) == {b"IDAT"} and names[-1] == b"IEND"
