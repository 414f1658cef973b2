"""The providers of arm kinematics: documented numbers, shapes and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chamber.agents import PandaJacobianProvider
from chamber.agents.panda_jacobian import CARTESIAN_POSITION_DIM, PANDA_ARM_DOF
from chamber.agents.xarm6_jacobian import XARM6_ARM_DOF, XArm6JacobianProvider
from concerto.safety.api import AgentSnapshot, JacobianControlModel

Q = (0.1, -0.2, 0.3, -1.5, 0.4, 1.8, 0.5)
SNAPSHOT = AgentSnapshot(position=np.zeros(3), velocity=np.zeros(3), radius=0.1)


@pytest.fixture(scope="module")
def panda() -> PandaJacobianProvider:
    return PandaJacobianProvider()


@pytest.fixture(scope="module")
def xarm() -> XArm6JacobianProvider:
    return XArm6JacobianProvider()


def panda_methods(panda: PandaJacobianProvider) -> dict[str, Callable[[object], object]]:
    return {
        "fk_tcp_position": panda.fk_tcp_position,
        "fk_tcp_rotation": panda.fk_tcp_rotation,
        "jacobian_6x7": panda.jacobian_6x7,
        "fk_and_jacobian": panda.fk_and_jacobian,
        "": lambda q: panda(SNAPSHOT, q),
    }


def xarm_methods(xarm: XArm6JacobianProvider) -> dict[str, Callable[[object], object]]:
    return {
        "fk_tcp_position": xarm.fk_tcp_position,
        "fk_tcp_rotation": xarm.fk_tcp_rotation,
        "jacobian": xarm.jacobian,
        "jacobian_6x6": xarm.jacobian_6x6,
        "fk_and_jacobian": xarm.fk_and_jacobian,
        "": lambda q: xarm(SNAPSHOT, q),
    }


def test_constants():
    assert (PANDA_ARM_DOF, XARM6_ARM_DOF, CARTESIAN_POSITION_DIM) == (7, 6, 3)


def test_panda_gives_the_documented_numbers(panda: PandaJacobianProvider):
    np.testing.assert_allclose(panda.fk_tcp_position(Q), [0.465697, 0.295523, 0.703320], atol=1e-5)
    np.testing.assert_allclose(panda(SNAPSHOT, Q)[:, 3], [-0.057279, 0.009394, 0.521679], atol=1e-5)
    np.testing.assert_allclose(panda.jacobian_6x7(Q)[3:, 6], [0.289919, 0.479360, -0.828349], atol=1e-5)
    rest = [0, math.pi / 8, 0, -5 * math.pi / 8, 0, 3 * math.pi / 4, math.pi / 4]
    np.testing.assert_allclose(panda.fk_tcp_rotation(rest), np.diag([1.0, -1.0, -1.0]), atol=1e-5)


def test_xarm6_gives_the_documented_numbers(xarm: XArm6JacobianProvider):
    np.testing.assert_allclose(xarm.fk_tcp_position(np.zeros(6)), [0.2070, 0, -0.0380], atol=1e-5)
    np.testing.assert_allclose(xarm.jacobian(np.zeros(6))[0], [0, -0.305, -0.5895, 0, -0.247, 0], atol=1e-5)


def test_the_linear_jacobian_is_the_first_half_of_the_full_one(
    panda: PandaJacobianProvider, xarm: XArm6JacobianProvider
):
    assert panda(None, Q).tobytes() == panda.jacobian_6x7(Q)[:3].tobytes()
    assert xarm(None, Q[:6]).tobytes() == xarm.jacobian(Q[:6]).tobytes()
    assert xarm.jacobian(Q[:6]).tobytes() == xarm.jacobian_6x6(Q[:6])[:3].tobytes()


def test_results_are_contiguous_float64(panda: PandaJacobianProvider, xarm: XArm6JacobianProvider):
    single_precision = np.array(Q, dtype=np.float32)
    shapes = {"fk_tcp_position": (3,), "fk_tcp_rotation": (3, 3), "jacobian_6x7": (6, 7), "": (3, 7)}
    shapes_of_xarm = {"fk_tcp_position": (3,), "fk_tcp_rotation": (3, 3), "jacobian": (3, 6), "jacobian_6x6": (6, 6)}
    results = [(panda_methods(panda)[name](single_precision), shape) for name, shape in shapes.items()]
    results += [(xarm_methods(xarm)[name](single_precision[:6]), shape) for name, shape in shapes_of_xarm.items()]
    for result, shape in results:
        assert isinstance(result, np.ndarray)
        assert result.shape == shape
        assert result.dtype == np.float64
        assert result.flags.c_contiguous


def test_one_pass_gives_position_rotation_and_jacobian(panda: PandaJacobianProvider):
    together = panda.fk_and_jacobian(Q)
    assert together.position.tobytes() == panda.fk_tcp_position(Q).tobytes()
    assert together.rotation.tobytes() == panda.fk_tcp_rotation(Q).tobytes()
    assert together.jacobian.tobytes() == panda.jacobian_6x7(Q).tobytes()


def test_batches_equal_single_configurations(panda: PandaJacobianProvider, xarm: XArm6JacobianProvider):
    many = np.outer(np.linspace(-1, 1, 9), Q)
    for provider, joints, jacobian, jacobian_batch in (
        (panda, many, panda.jacobian_6x7, panda.jacobian_6x7_batch),
        (xarm, many[:, :6], xarm.jacobian_6x6, xarm.jacobian_6x6_batch),
    ):
        together = provider.fk_and_jacobian_batch(joints)
        for one, batch, part in (
            (provider.fk_tcp_position, provider.fk_tcp_position_batch, together.position),
            (provider.fk_tcp_rotation, provider.fk_tcp_rotation_batch, together.rotation),
            (jacobian, jacobian_batch, together.jacobian),
        ):
            expected = np.stack([one(row) for row in joints]).tobytes()
            assert batch(joints).tobytes() == expected
            assert part.tobytes() == expected


@pytest.mark.parametrize("shape", [(9,), (1, 7), (6,), (7, 1), (), (0,)])
def test_single_methods_of_the_panda_take_seven_joints_only(panda: PandaJacobianProvider, shape: tuple[int, ...]):
    for name, method in panda_methods(panda).items():
        with pytest.raises(ValueError, match=r"\(7,\)") as refused:
            method(np.zeros(shape))
        assert f"PandaJacobianProvider{'.' if name else ''}{name}:" in str(refused.value)
        assert str(shape) in str(refused.value)


@pytest.mark.parametrize("shape", [(7,), (1, 6), (5,)])
def test_single_methods_of_the_xarm6_take_six_joints_only(xarm: XArm6JacobianProvider, shape: tuple[int, ...]):
    for name, method in xarm_methods(xarm).items():
        with pytest.raises(ValueError, match=r"\(6,\)") as refused:
            method(np.zeros(shape))
        assert f"XArm6JacobianProvider{'.' if name else ''}{name}:" in str(refused.value)


def test_batch_methods_refuse_single_configurations(panda: PandaJacobianProvider, xarm: XArm6JacobianProvider):
    for method, q in (
        (panda.fk_tcp_position_batch, np.zeros(7)),
        (panda.fk_tcp_rotation_batch, np.zeros((3, 6))),
        (panda.jacobian_6x7_batch, np.zeros((2, 3, 7))),
        (panda.fk_and_jacobian_batch, np.zeros(7)),
        (xarm.jacobian_6x6_batch, np.zeros((3, 7))),
    ):
        with pytest.raises(ValueError, match=r"must have shape \(m, "):
            method(q)


def test_the_end_link_is_read_only(panda: PandaJacobianProvider, xarm: XArm6JacobianProvider):
    assert panda.ee_link == "panda_hand_tcp"
    assert xarm.ee_link == "eef"
    with pytest.raises(AttributeError):
        panda.ee_link = "panda_hand"  # type: ignore[misc]


def test_another_end_link_moves_the_tcp(panda: PandaJacobianProvider):
    hand = PandaJacobianProvider(ee_link="panda_hand")
    np.testing.assert_allclose(
        hand.fk_tcp_position(Q) + 0.1034 * hand.fk_tcp_rotation(Q)[:, 2], panda.fk_tcp_position(Q), atol=1e-12
    )


def test_a_link_with_fewer_joints_is_refused_with_both_counts():
    with pytest.raises(ValueError, match=r"needs a chain of exactly 7 joints.*panda_link4.* found 4"):
        PandaJacobianProvider(ee_link="panda_link4")


@pytest.mark.parametrize("link", ["panda_leftfinger", "elbow", ""])
def test_a_link_without_chain_is_refused(link: str):
    with pytest.raises(ValueError, match="no chain that ends at"):
        PandaJacobianProvider(ee_link=link)


@pytest.mark.parametrize("provider", [PandaJacobianProvider, XArm6JacobianProvider])
def test_a_missing_robot_description_is_named(
    provider: type[PandaJacobianProvider], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(FileNotFoundError, match=r"missing\.urdf"):
        provider(str(tmp_path / "missing.urdf"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        provider("~/missing.urdf")


def test_a_control_model_uses_a_provider_as_it_is(panda: PandaJacobianProvider):
    model = JacobianControlModel(
        "panda_wristcam", action_dim=7, position_dim=3, jacobian_fn=lambda snap: panda(snap, Q), damping=0.0
    )
    wanted = np.array([0.3, -0.2, 0.1])
    action = model.cartesian_accel_to_action(SNAPSHOT, wanted)
    np.testing.assert_allclose(model.action_to_cartesian_accel(SNAPSHOT, action), wanted, atol=1e-12)


def test_nothing_about_a_provider_changes_when_it_is_used(panda: PandaJacobianProvider):
    q = np.array(Q)
    first = panda.jacobian_6x7(q)
    kept = first.copy()
    panda.jacobian_6x7(q + 1.0)
    assert (first == kept).all()
    assert (q == Q).all()
    assert panda.jacobian_6x7(q).tobytes() == kept.tobytes()
