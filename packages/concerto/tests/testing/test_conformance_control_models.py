"""The checks of control models: the shipped ones pass, and every check refuses a model that only it can refuse."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from concerto.safety import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    JacobianControlModel,
    VelocityCommandControlModel,
)
from concerto.testing import CheckRow, ConformanceError, check_control_model, control_model_checks, run_all

_RNG = np.random.default_rng(7)
_ARM_JACOBIAN = _RNG.normal(size=(3, 7))
_LINK_LENGTHS = np.array([0.4, 0.3])


def _two_link_jacobian(snapshot: AgentSnapshot) -> Any:
    assert snapshot.qpos is not None
    angles = np.cumsum(snapshot.qpos)
    columns = [_LINK_LENGTHS[k:] @ np.stack([-np.sin(angles[k:]), np.cos(angles[k:])], axis=1) for k in range(2)]
    return np.stack(columns, axis=1)


SHIPPED = {
    "double_integrator_2d": DoubleIntegratorControlModel("ego", 2),
    "double_integrator_3d": DoubleIntegratorControlModel("ego", 3),
    "velocity_command": VelocityCommandControlModel("ego", 2, 0.1),
    "redundant_arm": JacobianControlModel("arm", 7, 3, lambda _: _ARM_JACOBIAN, max_cartesian_accel_value=10.0),
    "position_increments": JacobianControlModel(
        "arm", 7, 3, lambda _: _ARM_JACOBIAN, max_cartesian_accel_value=10.0, scale=2500.0,
        offset_fn=lambda snapshot: -snapshot.velocity / 0.02,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_control_models_conform(name: str) -> None:
    check_control_model(SHIPPED[name])


def test_a_model_that_reads_joint_positions_is_judged_in_the_states_it_is_given() -> None:
    arm = JacobianControlModel("arm", 2, 2, _two_link_jacobian, max_cartesian_accel_value=5.0)
    states = [AgentSnapshot(np.zeros(2), np.ones(2), 0.1, np.array([0.3, bend])) for bend in (0.8, 1.4)]
    check_control_model(arm, snapshots=states)


def test_tolerance_is_what_damping_needs_near_a_singular_jacobian() -> None:
    thin = JacobianControlModel("arm", 2, 2, lambda _: np.diag([1.0, 0.02]), max_cartesian_accel_value=1.0)
    with pytest.raises(ConformanceError, match="right_inverse"):
        check_control_model(thin, tolerance=1e-5)
    check_control_model(thin, tolerance=1e-2)


class Broken(DoubleIntegratorControlModel):
    """A good model to break; the default of every method is right, and no map is offered besides."""

    affine: Any = None

    def __init__(self) -> None:
        super().__init__("ego", 2)
        object.__setattr__(self, "calls", itertools.count(1))


class UidIsANumber(Broken):
    @property
    def uid(self) -> Any:
        return 7

    @uid.setter
    def uid(self, value: Any) -> None: ...


class MatrixAcceleration(Broken):
    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        return super().action_to_cartesian_accel(state, action)[None, :]


class ActionAsList(Broken):
    def cartesian_accel_to_action(self, state: Any, cartesian_accel: Any) -> Any:
        return super().cartesian_accel_to_action(state, cartesian_accel).tolist()


class CountsItsCalls(Broken):
    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        return super().action_to_cartesian_accel(state, action) + 1e-15 * next(self.calls)


class WritesIntoTheSnapshot(Broken):
    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        state.velocity[:] = 0.5 * state.velocity
        return super().action_to_cartesian_accel(state, action)


class ReturnsItsArgument(Broken):
    def cartesian_accel_to_action(self, state: Any, cartesian_accel: Any) -> Any:
        super().cartesian_accel_to_action(state, cartesian_accel)
        return cartesian_accel


class ReusesABuffer(Broken):
    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "buffer", np.zeros(2))

    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        self.buffer[:] = super().action_to_cartesian_accel(state, action)
        return self.buffer


class CurvedMap(Broken):
    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        return np.sinh(super().action_to_cartesian_accel(state, action))

    def cartesian_accel_to_action(self, state: Any, cartesian_accel: Any) -> Any:
        return np.arcsinh(super().cartesian_accel_to_action(state, cartesian_accel))


class OffersAnotherMap(Broken):
    def affine(self, state: Any) -> Any:
        return 2.0 * np.eye(2), np.zeros(2)


class OffersTheWrongShapes(Broken):
    def affine(self, state: Any) -> Any:
        return np.eye(2), 0.0


class ForgetsTheGain(Broken):
    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        return 2.0 * super().action_to_cartesian_accel(state, action)


class NegativeCapacity(Broken):
    def max_cartesian_accel(self, bounds: Bounds) -> float:
        return -bounds.cartesian_accel_capacity


class NanCapacity(Broken):
    def max_cartesian_accel(self, bounds: Bounds) -> float:
        return math.nan


class Reshapes(Broken):
    def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
        return np.array(action, dtype=np.float64).reshape(-1)[:2].copy()


BROKEN = [
    (UidIsANumber, "protocol"),
    (MatrixAcceleration, "acceleration_form"),
    (ActionAsList, "action_form"),
    (CountsItsCalls, "determinism"),
    (WritesIntoTheSnapshot, "inputs_unchanged"),
    (ReturnsItsArgument, "fresh_output"),
    (ReusesABuffer, "fresh_output"),
    (CurvedMap, "affine"),
    (OffersAnotherMap, "offered_map"),
    (OffersTheWrongShapes, "offered_map"),
    (ForgetsTheGain, "right_inverse"),
    (NegativeCapacity, "positive_capacity"),
    (NanCapacity, "positive_capacity"),
    (Reshapes, "rejects_wrong_shape"),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN)
def test_a_broken_model_is_refused_by_the_check_for_its_defect_alone(broken: type[Broken], check: str) -> None:
    assert [row.check for row in run_all(control_model_checks(broken())) if not row.passed] == [check]


def test_a_subclass_that_changes_one_map_and_inherits_the_other_is_refused() -> None:
    class Geared(DoubleIntegratorControlModel):
        def action_to_cartesian_accel(self, state: Any, action: Any) -> Any:
            return 2.0 * super().action_to_cartesian_accel(state, action)

        def cartesian_accel_to_action(self, state: Any, cartesian_accel: Any) -> Any:
            return super().cartesian_accel_to_action(state, cartesian_accel) / 2.0

    rows = run_all(control_model_checks(Geared("ego", 2)))
    assert [row.check for row in rows if not row.passed] == ["offered_map"]


def test_every_check_is_proved_able_to_refuse() -> None:
    assert {check.name for check in control_model_checks(SHIPPED["velocity_command"])} == {name for _, name in BROKEN}


def test_the_error_names_the_check_the_problem_and_the_remedy() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_control_model(ForgetsTheGain())
    error = caught.value
    assert (error.check, str(error).startswith("right_inverse: accel(action(a)) misses a by")) == (
        "right_inverse",
        True,
    )
    assert f"How to mend it: {error.remedy}" in str(error)


def test_the_report_has_a_row_for_every_check_and_raises_nothing() -> None:
    class Hopeless:
        """Has no member of the Protocol at all."""

    rows = run_all(control_model_checks(Hopeless()))  # type: ignore[arg-type]
    assert len(rows) == len(control_model_checks(SHIPPED["velocity_command"]))
    assert not any(row.passed for row in rows)
    assert all(row.claim and row.problem and row.remedy for row in rows)
    assert run_all(control_model_checks(SHIPPED["velocity_command"]))[0] == CheckRow(
        "protocol", "The model has the attributes and methods of AgentControlModel.", True
    )
