"""Chains read from robot descriptions: the same numbers as from tables, and refusals that name what is wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from chamber.agents import PandaJacobianProvider
from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS, ChainTable
from chamber.agents._urdf import read_chain
from chamber.agents.xarm6_jacobian import XArm6JacobianProvider

Q = (0.1, -0.2, 0.3, -1.5, 0.4, 1.8, 0.5)


def joint(name: str, kind: str, parent: str, child: str, body: str = "") -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{body}</joint>'


def description(table: ChainTable, *, more: str = "", root: str = "world") -> str:
    """Write a table as URDF, below a root that is fixed to its base."""
    parts = [joint("root", "fixed", root, table.base_link)]
    for parent, part in zip(table.link_names, table.joints, strict=False):
        x, y, z = part.axis
        parts.append(
            joint(
                part.name,
                "revolute",
                parent,
                part.child,
                f'<origin xyz="{" ".join(map(repr, part.xyz))}" rpy="{" ".join(map(repr, part.rpy))}"/>'
                f'<axis xyz="{x} {y} {z}"/>'
                f'<limit lower="{part.lower}" upper="{part.upper}" velocity="{part.velocity}" effort="{part.effort}"/>',
            )
        )
    before = table.link_names[-1]
    for fixed in table.tail:
        origin = f'<origin xyz="{" ".join(map(repr, fixed.xyz))}" rpy="{" ".join(map(repr, fixed.rpy))}"/>'
        parts.append(joint(fixed.name, "fixed", before, fixed.child, origin))
        before = fixed.child
    names = [root, *table.link_names, *(fixed.child for fixed in table.tail)]
    links = "".join(f'<link name="{name}"><inertial/></link>' for name in names)
    return f'<?xml version="1.0"?>\n<robot name="arm">{links}{"".join(parts)}{more}</robot>'


@pytest.fixture
def panda_file(tmp_path: Path) -> Path:
    file = tmp_path / "panda.urdf"
    fingers = '<link name="finger"/>' + joint("finger_joint", "prismatic", "panda_hand", "finger")
    file.write_text(description(CHAINS["panda"], more=fingers))
    return file


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "robot.urdf"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def read(file: Path, *, end_link: str = "b", n_joints: int = 1) -> ChainTable:
    return read_chain(file, end_link=end_link, n_joints=n_joints, reader="test")


def one_joint(body: str, *, kind: str = "revolute") -> str:
    return f'<robot name="r"><link name="a"/><link name="b"/>{joint("hinge", kind, "a", "b", body)}</robot>'


def test_a_described_panda_moves_like_the_built_in_one(panda_file: Path):
    described, built_in = PandaJacobianProvider(str(panda_file)), PandaJacobianProvider()
    np.testing.assert_allclose(described.fk_tcp_position(Q), built_in.fk_tcp_position(Q), atol=1e-14)
    np.testing.assert_allclose(described.jacobian_6x7(Q), built_in.jacobian_6x7(Q), atol=1e-14)
    np.testing.assert_allclose(described.chain.table.lower, built_in.chain.table.lower)
    np.testing.assert_allclose(described.chain.table.effort, built_in.chain.table.effort)
    assert described.chain.table.joint_names == built_in.chain.table.joint_names


def test_a_described_xarm6_moves_like_the_built_in_one(tmp_path: Path):
    file = written(tmp_path, description(CHAINS["xarm6"]))
    q = Q[:6]
    np.testing.assert_allclose(
        XArm6JacobianProvider(str(file)).jacobian_6x6(q), XArm6JacobianProvider().jacobian_6x6(q), atol=1e-14
    )


def test_home_directories_are_expanded(panda_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(panda_file.parent))
    assert PandaJacobianProvider("~/panda.urdf").ee_link == "panda_hand_tcp"


def test_fixed_joints_before_and_between_moving_ones_are_folded_in(tmp_path: Path):
    quarter = math.pi / 2
    links = "".join(f'<link name="{name}"/>' for name in "abcdef")
    text = (
        f'<robot name="r">{links}'
        + joint("mount", "fixed", "a", "b", f'<origin xyz="1 0 0" rpy="0 0 {quarter}"/>')
        + joint("first", "continuous", "b", "c", '<origin xyz="0.5 0 0"/><axis xyz="0 0 2"/>')
        + joint("bracket", "fixed", "c", "d", f'<origin xyz="0 0 0.2" rpy="0 {quarter} 0"/>')
        + joint("second", "revolute", "d", "e", '<axis xyz="0 1 0"/><limit lower="-1" upper="2"/>')
        + joint("tool", "fixed", "e", "f", '<origin xyz="0 0 0.3"/>')
        + "</robot>"
    )
    table = read(written(tmp_path, text), end_link="f", n_joints=2)
    assert table.base_link == "a"
    assert table.joint_names == ("first", "second")
    assert table.end_link == "f"
    assert [joint.axis for joint in table.joints] == [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0)]
    np.testing.assert_allclose(table.lower, [-math.inf, -1.0])
    np.testing.assert_allclose(table.upper, [math.inf, 2.0])
    chain = SerialChain(table)
    # The tool points along the turned x axis: base x turned by a quarter is y, and by the first joint's quarter -x.
    np.testing.assert_allclose(chain.tcp_position([0.0, 0.0]), [1.0, 0.8, 0.2], atol=1e-15)
    np.testing.assert_allclose(chain.tcp_position([quarter, 0.0]), [0.7, 0.5, 0.2], atol=1e-15)
    np.testing.assert_allclose(chain.tcp_position([0.0, quarter]), [1.0, 0.5, -0.1], atol=1e-15)


def test_a_joint_without_axis_turns_about_x_and_without_limits_freely(tmp_path: Path):
    table = read(written(tmp_path, one_joint("")))
    assert table.joints[0].axis == (1.0, 0.0, 0.0)
    assert (table.lower[0], table.upper[0], table.velocity[0]) == (-math.inf, math.inf, math.inf)


def test_another_number_of_joints_is_refused_with_both_counts(panda_file: Path):
    with pytest.raises(ValueError, match=r"needs a chain of exactly 7 joints.*panda_link4.* found 4"):
        PandaJacobianProvider(str(panda_file), ee_link="panda_link4")
    with pytest.raises(ValueError, match=r"exactly 7 joints.*found 8"):
        PandaJacobianProvider(str(panda_file), ee_link="finger")


def test_a_link_that_is_not_there_is_refused_with_those_that_are(panda_file: Path):
    with pytest.raises(ValueError, match=r"no chain that ends at 'elbow'.*panda_hand_tcp"):
        PandaJacobianProvider(str(panda_file), ee_link="elbow")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no XML"),
        ("<robot", "no XML"),
        ("\x00", "no XML"),
        ("<mujoco/>", "root element is 'mujoco'"),
        (one_joint("", kind="prismatic"), "'hinge' is prismatic"),
        (one_joint("", kind="floating"), "'hinge' is floating"),
        (one_joint('<mimic joint="other"/>'), "follows another joint"),
        (one_joint('<axis xyz="0 0 0"/>'), "must not be zero"),
        (one_joint('<axis xyz="0 0"/>'), "3 finite numbers, got '0 0'"),
        (one_joint('<origin xyz="0 0 nan"/>'), "3 finite numbers"),
        (one_joint('<limit lower="low"/>'), "lower of joint 'hinge' must be 1 finite numbers, got 'low'"),
        ('<robot><link name="b"/><joint name="j" type="revolute"><child link="b"/></joint></robot>', "no parent link"),
        ('<robot><link name="b"/><joint name="j" type="revolute"/></robot>', "names no child link"),
        (
            '<robot><link name="a"/><link name="b"/>'
            + joint("up", "revolute", "a", "b")
            + joint("down", "revolute", "b", "a")
            + "</robot>",
            "in a circle",
        ),
        (
            '<robot><link name="b"/>' + joint("one", "fixed", "x", "b") + joint("two", "fixed", "y", "b") + "</robot>",
            "hangs off two joints",
        ),
    ],
)
def test_what_is_no_chain_is_refused(tmp_path: Path, text: str, message: str):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, text))


BOMB = '<!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("declaration", [BOMB, '<!DOCTYPE robot SYSTEM "file:///etc/passwd">', "<!DOCTYPE robot>"])
def test_entity_declarations_are_refused_in_every_encoding(tmp_path: Path, declaration: str, encoding: str):
    head = f'<?xml version="1.0" encoding="{encoding}"?>{declaration}'
    with pytest.raises(ValueError, match="document type"):
        read(written(tmp_path, (head + one_joint("")).encode(encoding)))
