"""The masses that the joints of an arm move, read from its MJCF, so that no number stands in two places."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

__all__ = ["carried_inertials"]

FloatArray = NDArray[np.float64]


def carried_inertials(mjcf: str, links: tuple[str, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give mass, centre of mass and inertia of every link together with all that is fixed to it.

    Bodies behind joints that are not among ``links``, such as fingers, count as fixed where they are at zero.

    Args:
        mjcf: text of a model whose bodies carry explicit inertials.
        links: bodies whose joints are moved, from the base outwards.

    Returns:
        Masses, kg, shape ``(n,)``; centres of mass in the frame of the link, m, shape ``(n, 3)``; inertias about the
        centre of mass in the axes of the link, kg m^2, shape ``(n, 3, 3)``.

    Raises:
        KeyError: a link is not in the model.
    """
    root = ElementTree.fromstring(mjcf)  # noqa: S314 - the text of our own robot models
    bodies = {body.attrib["name"]: body for body in root.iter("body")}
    for link in links:
        if link not in bodies:
            raise KeyError(f"the MJCF has no body {link!r}; it has {sorted(bodies)}")
    parts = [_sum(_parts(bodies[link], np.eye(4), links)) for link in links]
    return (
        np.array([mass for mass, _, _ in parts]),
        np.array([center for _, center, _ in parts]),
        np.array([inertia for _, _, inertia in parts]),
    )


_Part = tuple[float, FloatArray, FloatArray]


def _parts(body: ElementTree.Element, pose: FloatArray, links: tuple[str, ...]) -> list[_Part]:
    """Give the inertials of a body and its fixed descendants in the frame where the body has ``pose``."""
    parts: list[_Part] = []
    inertial = body.find("inertial")
    if inertial is not None:
        rotation = pose[:3, :3] @ _rotation(inertial)
        center = pose[:3, :3] @ _numbers(inertial.get("pos"), "0 0 0") + pose[:3, 3]
        parts.append((float(inertial.attrib["mass"]), center, rotation @ _inertia(inertial) @ rotation.T))
    for child in body.findall("body"):
        if child.get("name") not in links:
            step = np.eye(4)
            step[:3, :3] = _rotation(child)
            step[:3, 3] = _numbers(child.get("pos"), "0 0 0")
            parts += _parts(child, pose @ step, links)
    return parts


def _sum(parts: list[_Part]) -> _Part:
    mass = sum(part[0] for part in parts)
    if mass == 0.0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    center = np.asarray(sum(part[0] * part[1] for part in parts)) / mass
    inertia = np.zeros((3, 3))
    for part_mass, part_center, part_inertia in parts:
        offset = part_center - center
        inertia += part_inertia + part_mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))
    return mass, center, inertia


def _inertia(inertial: ElementTree.Element) -> FloatArray:
    if "fullinertia" in inertial.attrib:
        xx, yy, zz, xy, xz, yz = _numbers(inertial.get("fullinertia"))
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return np.diag(_numbers(inertial.get("diaginertia")))


def _rotation(element: ElementTree.Element) -> FloatArray:
    """Give the rotation that ``quat`` or ``axisangle`` (radians) says; the identity without."""
    if "axisangle" in element.attrib:
        *axis, angle = _numbers(element.get("axisangle"))
        direction = np.array(axis) / np.linalg.norm(axis)
        quaternion = np.array([math.cos(angle / 2.0), *(math.sin(angle / 2.0) * direction)])
    else:
        quaternion = _numbers(element.get("quat"), "1 0 0 0")
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def _numbers(text: str | None, default: str | None = None) -> FloatArray:
    chosen = text if text is not None else default
    if chosen is None:
        raise ValueError("an inertial needs fullinertia or diaginertia")
    return np.array([float(part) for part in chosen.split()])
