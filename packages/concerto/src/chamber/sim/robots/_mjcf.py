"""Reads what is written in the MJCF of a robot, so that no number stands in two places; needs no simulator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import resources
from xml.etree import ElementTree

from chamber.sim.scene import Vector3

__all__ = ["Document"]


class Document:
    """The MJCF of a robot, without what one of its variants does not have.

    Args:
        file: name of the package data beside this module.
        model: name of the model.
        without: names of bodies and sites to leave out, with all that is in them.
        colors: by material, red, green and blue in [0, 1], where they are not those of the file.

    Raises:
        KeyError: the MJCF has no such body, site or material.
    """

    def __init__(
        self, file: str, *, model: str, without: tuple[str, ...] = (), colors: Mapping[str, Vector3] | None = None
    ) -> None:
        text = resources.files("chamber.sim.robots").joinpath(file).read_text(encoding="utf-8")
        self._root = ElementTree.fromstring(text)  # noqa: S314 - our own file
        self._root.set("model", model)
        for name in without:
            self._remove(name)
        for material, color in (colors or {}).items():
            self._paint(material, color)

    def text(self) -> str:
        """Give the MJCF."""
        return ElementTree.tostring(self._root, encoding="unicode")

    @cached_property
    def joint_ranges(self) -> dict[str, tuple[float, float]]:
        """Limits by joint in the order of the file, infinite for a joint without."""
        ranges: dict[str, tuple[float, float]] = {}
        for joint, text in self._joint_attribute("range").items():
            low, high = _numbers(text) if text else (-math.inf, math.inf)
            ranges[joint] = (low, high)
        return ranges

    @cached_property
    def joint_armatures(self) -> dict[str, float]:
        """Inertia by joint that its drive adds, in the order of the file."""
        return {joint: float(text or 0.0) for joint, text in self._joint_attribute("armature").items()}

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """Bodies and sites in the order of the file."""
        return tuple(element.attrib["name"] for element in self._world.iter() if element.tag in {"body", "site"})

    @cached_property
    def actuator_names(self) -> tuple[str, ...]:
        """Actuators in the order of the file."""
        actuators = self._root.find("actuator")
        return () if actuators is None else tuple(element.attrib["name"] for element in actuators)

    def capsules(self) -> Iterator[tuple[str, Vector3, Vector3, float]]:
        """Give link, start, end and radius of every capsule that can touch something."""
        for body in self._world.iter("body"):
            for geom in body.findall("geom"):
                if geom.get("class") != "visual" and "fromto" in geom.attrib:
                    x0, y0, z0, x1, y1, z1 = _numbers(geom.attrib["fromto"])
                    yield body.attrib["name"], (x0, y0, z0), (x1, y1, z1), float(geom.attrib["size"])

    def inertials(self) -> Iterator[tuple[str, float, Vector3, list[float]]]:
        """Give link, mass, centre of mass and inertia (xx, yy, zz, xy, xz, yz) of every body that has them."""
        for body in self._world.iter("body"):
            inertial = body.find("inertial")
            if inertial is not None:
                x, y, z = _numbers(inertial.attrib["pos"])
                moments = _numbers(inertial.get("fullinertia") or f"{inertial.attrib['diaginertia']} 0 0 0")
                yield body.attrib["name"], float(inertial.attrib["mass"]), (x, y, z), moments

    def _joint_attribute(self, attribute: str) -> dict[str, str | None]:
        """Give an attribute of every joint: its own, else that of its class."""
        of_class = {
            default.get("class"): joint.get(attribute)
            for default in self._root.iter("default")
            for joint in default.findall("joint")
        }
        return {
            joint.attrib["name"]: joint.get(attribute) or of_class.get(joint.get("class"))
            for joint in self._world.iter("joint")
        }

    @property
    def _world(self) -> ElementTree.Element:
        world = self._root.find("worldbody")
        if world is None:
            raise ValueError("an MJCF without <worldbody> describes no robot")
        return world

    def _remove(self, name: str) -> None:
        for parent in self._world.iter():
            for child in parent:
                if child.get("name") == name and child.tag in {"body", "site"}:
                    parent.remove(child)
                    return
        raise KeyError(f"the MJCF has no body or site {name!r}")

    def _paint(self, material: str, color: Vector3) -> None:
        for element in self._root.iter("material"):
            if element.get("name") == material:
                element.set("rgba", " ".join(str(part) for part in (*color, 1.0)))
                return
        raise KeyError(f"the MJCF has no material {material!r}")


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split()]
