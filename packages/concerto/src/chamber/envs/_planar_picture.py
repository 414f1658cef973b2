"""The planar task from above: who is where, which way each robot came, and whether they touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.errors import ChamberEnvCompatibilityError

__all__ = ["PICTURE_SHAPE", "PlanarScene", "draw_scene"]

FloatArray = NDArray[np.float64]
Frame = NDArray[np.uint8]
Colour = tuple[int, int, int]

_SIDE = 480
"""Of the square and its surroundings, pixels."""
_HEADER = 44
"""Height of the line that says who is who, pixels."""
_SMOOTHING = 3
"""Everything is drawn this much larger and then reduced: smooth edges."""

PICTURE_SHAPE = (_SIDE + _HEADER, _SIDE, 3)

_PAPER: Colour = (255, 255, 255)
_OUTSIDE: Colour = (236, 239, 243)
_EDGE: Colour = (150, 158, 168)
_GRID: Colour = (240, 242, 245)
_INK: Colour = (40, 46, 54)
_ROBOTS: tuple[Colour, ...] = ((47, 126, 194), (210, 105, 30))
"""The ego is blue and its partner orange: these and the next two colours are those of the report pages' figures."""
_LANDMARK: Colour = (31, 146, 112)
_CONTACT: Colour = (201, 68, 93)

_TEXT_SIZE = 20
_WIDEST_NAME = 110.0
"""Pixels of the header that the name of a robot may take."""
_STAR_POINTS = 5


@dataclass(frozen=True, eq=False)
class PlanarScene:
    """What a picture shows; all lengths in metres.

    Attributes:
        uids: the robots, ego first.
        paths: positions from the start of the episode until now, shape ``(n_samples, n_robots, 2)``.
        landmarks: shape ``(n_landmarks, 2)``.
        radius: of every robot.
        half_side: half the side of the square that the robots stay in.
        time_s: time since the start of the episode, seconds.
    """

    uids: tuple[str, ...]
    paths: FloatArray
    landmarks: FloatArray
    radius: float
    half_side: float
    time_s: float

    @property
    def is_contact(self) -> bool:
        """Whether two robots overlap now."""
        now = self.paths[-1]
        gaps = np.linalg.norm(now[:, None] - now[None, :], axis=2)[np.triu_indices(len(now), k=1)]
        return bool((gaps < 2.0 * self.radius).any())


def draw_scene(scene: PlanarScene) -> Frame:
    """Draw a scene, shape `PICTURE_SHAPE`; equal scenes give equal pictures.

    Discs have the robots' radius, lines are the way they came, rings mark where they started, stars are landmarks.
    Robots that overlap have a red edge.

    Raises:
        ChamberEnvCompatibilityError: Pillow is not installed.
    """
    pillow, draw_module = _pillow()
    height, width, _ = PICTURE_SHAPE
    large = pillow.new("RGB", (width * _SMOOTHING, height * _SMOOTHING), _OUTSIDE)
    sheet = _Sheet(draw_module.Draw(large), scene)
    sheet.field()
    sheet.trails()
    for landmark in scene.landmarks:
        sheet.star(sheet.pixels(landmark), 11.0)
    sheet.robots()
    sheet.header()
    # Text is drawn after the reduction, at its own size: it would be blurred otherwise.
    picture = large.reduce(_SMOOTHING)
    _write(draw_module.Draw(picture), scene)
    return np.array(picture, dtype=np.uint8)


class _Sheet:
    """Draws in pixels of the finished picture."""

    def __init__(self, draw: Any, scene: PlanarScene) -> None:
        self._draw = draw
        self._scene = scene
        reach = scene.half_side + 1.5 * scene.radius
        self._scale = _SIDE / (2.0 * reach)

    def pixels(self, point: FloatArray) -> tuple[float, float]:
        """Where a point of the plane is in the picture; y points up."""
        x, y = float(point[0]), float(point[1])
        return _SIDE / 2.0 + x * self._scale, _HEADER + _SIDE / 2.0 - y * self._scale

    def field(self) -> None:
        """The square, with a line every half metre."""
        half = self._scene.half_side
        corners = [self.pixels(np.array([-half, half])), self.pixels(np.array([half, -half]))]
        self._draw.rectangle(_large(*corners), fill=_PAPER)
        for at in np.arange(-half + 0.5, half, 0.5):
            for first, second in (((at, -half), (at, half)), ((-half, at), (half, at))):
                self._line([np.array(first), np.array(second)], _GRID, 1.0)
        self._draw.rectangle(_large(*corners), outline=_EDGE, width=2 * _SMOOTHING)

    def trails(self) -> None:
        """The way that every robot came, and a ring where it started."""
        for index in reversed(range(len(self._scene.uids))):
            colour = _ROBOTS[index % len(_ROBOTS)]
            path = self._scene.paths[:, index]
            self._line(list(path), _towards_white(colour, 0.35), 2.5)
            self.disc(self.pixels(path[0]), 5.0, fill=_PAPER, outline=colour, width=2.0)

    def robots(self) -> None:
        """The robots where they are, the ego on top; of one that it hides, the edge is drawn once more over it."""
        edge = _CONTACT if self._scene.is_contact else None
        radius = self._scene.radius * self._scale
        for index in reversed(range(len(self._scene.uids))):
            colour = _ROBOTS[index % len(_ROBOTS)]
            centre = self.pixels(self._scene.paths[-1, index])
            self.disc(centre, radius, fill=colour, outline=edge or _darker(colour), width=4.0 if edge else 2.0)
        if self._scene.is_contact:
            for index in range(1, len(self._scene.uids)):
                centre = self.pixels(self._scene.paths[-1, index])
                self.disc(centre, radius - 4.0, fill=None, outline=_ROBOTS[index % len(_ROBOTS)], width=4.0)

    def header(self) -> None:
        """The signs beside the names."""
        self._draw.rectangle(_large((0.0, 0.0), (float(_SIDE), float(_HEADER))), fill=_PAPER)
        for index, left in enumerate(_columns(self._scene)[:-1]):
            self.disc((left, _HEADER / 2.0), 9.0, fill=_ROBOTS[index % len(_ROBOTS)])
        self.star((_columns(self._scene)[-1], _HEADER / 2.0), 10.0)

    def disc(
        self,
        centre: tuple[float, float],
        radius: float,
        *,
        fill: Colour | None,
        outline: Colour | None = None,
        width: float = 0.0,
    ) -> None:
        """A disc whose edge, if it has one, lies inside its radius."""
        x, y = centre
        box = _large((x - radius, y - radius), (x + radius, y + radius))
        self._draw.ellipse(box, fill=fill, outline=outline, width=round(width * _SMOOTHING))

    def star(self, centre: tuple[float, float], radius: float) -> None:
        """A landmark."""
        corners: list[tuple[float, float]] = []
        for corner in range(2 * _STAR_POINTS):
            reach = radius if corner % 2 == 0 else 0.45 * radius
            angle = math.pi * corner / _STAR_POINTS
            corners.append((centre[0] + reach * math.sin(angle), centre[1] - reach * math.cos(angle)))
        self._draw.polygon(_large(*corners), fill=_LANDMARK)

    def _line(self, points: Sequence[FloatArray], colour: Colour, width: float) -> None:
        corners = _large(*(self.pixels(point) for point in points))
        self._draw.line(corners, fill=colour, width=round(width * _SMOOTHING), joint="curve")


def _write(draw: Any, scene: PlanarScene) -> None:
    """Who is who above the square; the time, and whether the robots touch, below it."""
    font = _font()
    names = [*(_short(uid) for uid in scene.uids), "landmark"]
    for left, name in zip(_columns(scene), names, strict=True):
        draw.text((left + 15.0, _HEADER / 2.0), name, fill=_INK, font=font, anchor="lm")
    foot = _HEADER + _SIDE - 15.0
    draw.text((_SIDE - 32.0, foot), f"{scene.time_s:.1f} s", fill=_INK, font=font, anchor="rm")
    if scene.is_contact:
        draw.text((32.0, foot), "contact", fill=_CONTACT, font=font, anchor="lm")


def _columns(scene: PlanarScene) -> list[float]:
    """Left edge of every sign of the header, the landmark's last."""
    columns = [20.0]
    for uid in scene.uids:
        columns.append(columns[-1] + 42.0 + float(_font().getlength(_short(uid))))
    return columns


def _short(uid: str) -> str:
    font, kept = _font(), len(uid)
    while font.getlength(_cut(uid, kept)) > _WIDEST_NAME:
        kept -= 1
    return _cut(uid, kept)


def _cut(text: str, kept: int) -> str:
    return text if kept == len(text) else f"{text[:kept]}…"


def _large(*points: tuple[float, float]) -> list[tuple[float, float]]:
    return [(x * _SMOOTHING, y * _SMOOTHING) for x, y in points]


def _towards_white(colour: Colour, share: float) -> Colour:
    red, green, blue = (round(value + share * (255 - value)) for value in colour)
    return red, green, blue


def _darker(colour: Colour) -> Colour:
    red, green, blue = (round(0.7 * value) for value in colour)
    return red, green, blue


def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size=_TEXT_SIZE)


def _pillow() -> tuple[ModuleType, ModuleType]:
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise ChamberEnvCompatibilityError(
            'Pillow is not installed, and pictures need it; install it with: pip install "ripieno-concerto[chamber]"'
        ) from error
    return Image, ImageDraw
