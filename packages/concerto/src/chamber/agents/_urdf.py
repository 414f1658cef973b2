"""Reads a serial chain of rotary joints out of a URDF file: as much of that format as kinematics needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from chamber.agents._chain_tables import ChainTable, FixedJoint, RotaryJoint, Vector3
from chamber.agents._transforms import rotation_to_rpy, transform

__all__ = ["read_chain"]

FloatArray = NDArray[np.float64]

_ORIGIN: Vector3 = (0.0, 0.0, 0.0)


def read_chain(path: str | Path, *, end_link: str, n_joints: int, reader: str) -> ChainTable:
    """Give the chain from the root of a robot to one of its links.

    Joints that are fixed before the last one that turns are folded into the one after them; the base is the root link.

    Args:
        path: URDF file; ``~`` is the home directory.
        end_link: last link of the chain.
        n_joints: how many joints that are not fixed the chain must have.
        reader: who needs it; the first word of messages.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no URDF or declares a document type, no chain ends at ``end_link``, the chain has
            another number of joints, or one of them is neither revolute nor continuous.
    """
    file = Path(path).expanduser()
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{reader}: there is no robot description {file}; without urdf_path the built-in table is used"
        ) from error
    source = f"{reader}: {file}"
    path_to_link = list(_path_to(end_link, _parse(content, source), source))[::-1]
    moving = [joint for joint in path_to_link if joint.get("type") != "fixed"]
    if len(moving) != n_joints:
        raise ValueError(
            f"{reader} needs a chain of exactly {n_joints} joints to {end_link!r}, found {len(moving)} in {file}"
        )
    return _table(path_to_link, source)


def _parse(content: bytes, source: str) -> Element:
    """Give the root element; a document type, the home of entity bombs and outside references, is refused."""

    def refuse(*_: object) -> NoReturn:
        raise ValueError(f"{source} declares a document type or entities, which a robot description does not need")

    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ValueError(f"{source} is no XML: {error}") from error
    robot = builder.close()
    if robot.tag != "robot":
        raise ValueError(f"{source} is no URDF: its root element is {robot.tag!r}, not 'robot'")
    return robot


def _path_to(end_link: str, robot: Element, source: str) -> Iterator[Element]:
    """Give the joints from ``end_link`` back to the root."""
    links = {link.get("name") for link in robot.iterfind("link")}
    if end_link not in links:
        raise ValueError(f"{source} has no chain that ends at {end_link!r}; its links are {sorted(map(str, links))}")
    joint_above: dict[str, Element] = {}
    for joint in robot.iterfind("joint"):
        child = _link_of(joint, "child", source)
        if child in joint_above:
            raise ValueError(f"{source}: link {child!r} hangs off two joints")
        joint_above[child] = joint
    link, n_left = end_link, len(joint_above)
    while link in joint_above:
        if n_left == 0:
            raise ValueError(f"{source}: the joints above {end_link!r} run in a circle")
        joint = joint_above[link]
        yield joint
        link, n_left = _link_of(joint, "parent", source), n_left - 1


def _table(joints: list[Element], source: str) -> ChainTable:
    rotary: list[RotaryJoint] = []
    tail: list[FixedJoint] = []
    before = np.eye(4)
    last_moving = max(place for place, joint in enumerate(joints) if joint.get("type") != "fixed")
    for place, joint in enumerate(joints):
        name, child = joint.get("name", "without a name"), _link_of(joint, "child", source)
        origin = joint.find("origin")
        xyz = _numbers(origin, "xyz", _ORIGIN, joint=name, source=source)
        rpy = _numbers(origin, "rpy", _ORIGIN, joint=name, source=source)
        if place > last_moving:
            tail.append(FixedJoint(name, child, xyz, rpy))
            continue
        before = before @ transform(xyz, rpy)
        if joint.get("type") != "fixed":
            rotary.append(_rotary_joint(joint, name, child, before, source))
            before = np.eye(4)
    return ChainTable(_link_of(joints[0], "parent", source), tuple(rotary), tuple(tail))


def _rotary_joint(joint: Element, name: str, child: str, pose: FloatArray, source: str) -> RotaryJoint:
    kind = joint.get("type")
    if kind not in {"revolute", "continuous"}:
        raise ValueError(f"{source}: joint {name!r} is {kind}; a chain has revolute and continuous joints")
    if joint.find("mimic") is not None:
        raise ValueError(f"{source}: joint {name!r} follows another joint; every joint of a chain moves by itself")
    axis = _numbers(joint.find("axis"), "xyz", (1.0, 0.0, 0.0), joint=name, source=source)
    length = math.hypot(*axis)
    if length == 0.0:
        raise ValueError(f"{source}: the axis of joint {name!r} must not be zero")
    x, y, z = axis
    limit = joint.find("limit")
    is_endless = kind == "continuous"
    return RotaryJoint(
        name,
        child,
        xyz=(float(pose[0, 3]), float(pose[1, 3]), float(pose[2, 3])),
        rpy=rotation_to_rpy(pose[:3, :3]),
        lower=-math.inf if is_endless else _number(limit, "lower", -math.inf, joint=name, source=source),
        upper=math.inf if is_endless else _number(limit, "upper", math.inf, joint=name, source=source),
        velocity=_number(limit, "velocity", math.inf, joint=name, source=source),
        effort=_number(limit, "effort", math.inf, joint=name, source=source),
        axis=(x / length, y / length, z / length),
    )


def _link_of(joint: Element, side: str, source: str) -> str:
    element = joint.find(side)
    link = None if element is None else element.get("link")
    if link is None:
        raise ValueError(f"{source}: joint {joint.get('name')!r} names no {side} link")
    return link


def _number(element: Element | None, key: str, default: float, *, joint: str, source: str) -> float:
    text = None if element is None else element.get(key)
    return default if text is None else _parse_numbers(text, 1, key, joint, source)[0]


def _numbers(element: Element | None, key: str, default: Vector3, *, joint: str, source: str) -> Vector3:
    text = None if element is None else element.get(key)
    if text is None:
        return default
    x, y, z = _parse_numbers(text, 3, key, joint, source)
    return x, y, z


def _parse_numbers(text: str, count: int, key: str, joint: str, source: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{source}: {key} of joint {joint!r} must be {count} finite numbers, got {text!r}")
    return numbers
