"""The checks of emergency controllers: the shipped ones pass, and every check can refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from concerto.safety import (
    CartesianAccelEmergencyController,
    JacobianControlModel,
    JacobianEmergencyController,
    VelocityCommandControlModel,
)
from concerto.testing import (
    ConformanceError,
    check_emergency_controller,
    emergency_controller_checks,
    run_all,
)

_ARM_JACOBIAN = np.random.default_rng(5).normal(size=(3, 7))
ARM = JacobianControlModel("arm", 7, 3, lambda _: _ARM_JACOBIAN, max_cartesian_accel_value=10.0)


@pytest.mark.parametrize("brake_when_squeezed", [False, True])
@pytest.mark.parametrize("position_dim", [2, 3])
def test_shipped_cartesian_controller_conforms(position_dim: int, brake_when_squeezed: bool) -> None:
    controller = CartesianAccelEmergencyController(brake_when_squeezed=brake_when_squeezed)
    check_emergency_controller(controller, position_dim=position_dim)


@pytest.mark.parametrize("model", [ARM, VelocityCommandControlModel("ego", 2, 0.1)], ids=["arm", "velocity_command"])
def test_shipped_jacobian_controller_conforms(model: Any) -> None:
    check_emergency_controller(JacobianEmergencyController(control_model=model), control_model=model)


def test_a_cartesian_controller_does_not_conform_for_a_robot_in_joint_space() -> None:
    with pytest.raises(ConformanceError, match="control_form"):
        check_emergency_controller(CartesianAccelEmergencyController(), control_model=ARM)


class Broken:
    """A good controller to break; it wraps the shipped one."""

    def __init__(self) -> None:
        self.good = JacobianEmergencyController(control_model=ARM)
        self.calls = itertools.count(1)

    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        return self.good.compute_override(agent_state, pairwise_repulsion_vectors, bounds)


class OtherKeywords(Broken):
    def compute_override(self, state: Any, vectors: Any, bounds: Any) -> Any:
        return super().compute_override(state, vectors, bounds)


class ColumnVector(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        override = super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)
        return override[:, None] if override.any() else override


class HalfCapacity(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        return 0.5 * super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)


class NearestPartnerOnly(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        chosen = pairwise_repulsion_vectors[:1] if len(pairwise_repulsion_vectors) == 3 else pairwise_repulsion_vectors
        return super().compute_override(agent_state, chosen, bounds)


class PushesWhenSqueezed(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        override = super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)
        return override if override.any() or not pairwise_repulsion_vectors else np.full(7, 0.1)


class CartesianZeros(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        if not pairwise_repulsion_vectors:
            return np.zeros(3)
        return super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)


class NoBox(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        wide = type(bounds)(1e6, bounds.cartesian_accel_capacity, 10.0, 0.0, 50.0)
        return super().compute_override(agent_state, pairwise_repulsion_vectors, wide)


class Trembles(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        override = super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)
        return override * (1.0 - 1e-12 * next(self.calls))


class NormalisesInPlace(Broken):
    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        override = super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)
        for vector in pairwise_repulsion_vectors:
            vector[:] = vector * bounds.cartesian_accel_capacity
        return override


class ReusesABuffer(Broken):
    buffer = np.zeros(7)

    def compute_override(self, agent_state: Any, pairwise_repulsion_vectors: Any, bounds: Any) -> Any:
        self.buffer[:] = super().compute_override(agent_state, pairwise_repulsion_vectors, bounds)
        return self.buffer


BROKEN = [
    (OtherKeywords, "protocol"),
    (ColumnVector, "control_form"),
    (HalfCapacity, "saturation"),
    (NearestPartnerOnly, "direction"),
    (PushesWhenSqueezed, "cancelling"),
    (CartesianZeros, "no_danger"),
    (NoBox, "action_box"),
    (Trembles, "determinism"),
    (NormalisesInPlace, "inputs_unchanged"),
    (ReusesABuffer, "fresh_output"),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN)
def test_a_broken_controller_is_refused_by_the_check_for_its_defect_alone(broken: type[Broken], check: str) -> None:
    rows = run_all(emergency_controller_checks(broken(), control_model=ARM))
    assert [row.check for row in rows if not row.passed] == [check]


def test_every_check_is_proved_able_to_refuse() -> None:
    assert {check.name for check in emergency_controller_checks(Broken())} == {name for _, name in BROKEN}
