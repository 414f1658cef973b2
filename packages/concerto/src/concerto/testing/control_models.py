"""Judge a control model: the pair of maps between a robot's actions and its Cartesian acceleration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds, FloatArray
from concerto.testing._arrays import copy_of, demand_vector, flat, same_snapshot, shares_memory
from concerto.testing.conformance import Check, Suite, demand, demand_members, demand_raises, raise_first_problem
from ripieno.randomness import derive_substream

__all__ = ["check_control_model", "control_model_checks"]

_DEFAULT_BOUNDS = Bounds(
    action_linf_component=1.0,
    cartesian_accel_capacity=1.0,
    action_rate=10.0,
    comm_latency_ms=0.0,
    force_limit=50.0,
)
_N_ACTIONS = 8
_ROUNDING = 1e-9
"""Largest relative error that float64 arithmetic of any reasonable order leaves."""


@dataclass(frozen=True)
class _Trial:
    """A model, and the states and actions it is tried on."""

    model: AgentControlModel
    bounds: Bounds
    given_snapshots: tuple[AgentSnapshot, ...] | None
    tolerance: float

    @cached_property
    def snapshots(self) -> tuple[AgentSnapshot, ...]:
        """The states."""
        if self.given_snapshots is not None:
            return self.given_snapshots
        rng = derive_substream("concerto.testing.control_models.snapshots").default_rng()
        dim = self.model.position_dim
        return tuple(AgentSnapshot(rng.normal(size=dim), rng.normal(size=dim), 0.25) for _ in range(3))

    @cached_property
    def actions(self) -> FloatArray:
        """The actions, one a row."""
        rng = derive_substream("concerto.testing.control_models.actions").default_rng()
        return self.bounds.action_linf_component * rng.uniform(-1.0, 1.0, (_N_ACTIONS, self.model.action_dim))

    def cases(self) -> list[tuple[AgentSnapshot, FloatArray]]:
        """Every action in every state, as copies that a check may spoil."""
        return [(copy_of(state), action.copy()) for state in self.snapshots for action in self.actions]


_suite: Suite[_Trial] = Suite()


def control_model_checks(
    model: AgentControlModel,
    *,
    bounds: Bounds = _DEFAULT_BOUNDS,
    snapshots: Sequence[AgentSnapshot] | None = None,
    tolerance: float = 1e-4,
) -> list[Check]:
    """Give the checks of `AgentControlModel`, ready for `run_all`.

    Args:
        model: the implementation.
        bounds: limits it is asked about.
        snapshots: states it is tried in; by default three random ones of its ``position_dim``. Give your own
            when the model reads joint positions.
        tolerance: relative error that its right inverse may have. Damped least squares with damping ``d`` on
            a singular value ``s`` of the Jacobian has ``d^2/(s^2 + d^2)``.
    """
    given = None if snapshots is None else tuple(snapshots)
    return _suite.bind(_Trial(model, bounds, given, tolerance))


def check_control_model(
    model: AgentControlModel,
    *,
    bounds: Bounds = _DEFAULT_BOUNDS,
    snapshots: Sequence[AgentSnapshot] | None = None,
    tolerance: float = 1e-4,
) -> None:
    """Judge a control model; arguments as for `control_model_checks`.

    Raises:
        ConformanceError: the first clause of the contract that does not hold, and how to mend it.

    Examples:
        >>> from concerto.safety.api import DoubleIntegratorControlModel
        >>> check_control_model(DoubleIntegratorControlModel("ego", 2))
    """
    raise_first_problem(control_model_checks(model, bounds=bounds, snapshots=snapshots, tolerance=tolerance))


@_suite.check("give uid as text, action_dim and position_dim as int >= 1, and the three methods of AgentControlModel")
def protocol(trial: _Trial) -> None:
    """The model has the attributes and methods of AgentControlModel."""
    demand_members(trial.model, AgentControlModel)
    uid = getattr(trial.model, "uid", None)
    demand(isinstance(uid, str) and uid, f"uid is {uid!r}")
    for name in ("action_dim", "position_dim"):
        value = getattr(trial.model, name)
        demand(isinstance(value, int) and value >= 1, f"{name} is {value!r}")


@_suite.check("return a new float64 array of shape (position_dim,) from action_to_cartesian_accel")
def acceleration_form(trial: _Trial) -> None:
    """The acceleration of an action is a finite float64 vector of length position_dim."""
    for state, action in trial.cases():
        accel = trial.model.action_to_cartesian_accel(state, action)
        demand_vector("action_to_cartesian_accel(...)", accel, trial.model.position_dim)


@_suite.check("return a new float64 array of shape (action_dim,) from cartesian_accel_to_action")
def action_form(trial: _Trial) -> None:
    """The action for an acceleration is a finite float64 vector of length action_dim."""
    for state, action in trial.cases():
        accel = flat(trial.model.action_to_cartesian_accel(state, action))
        demand_vector(
            "cartesian_accel_to_action(...)",
            trial.model.cartesian_accel_to_action(state, accel),
            trial.model.action_dim,
        )


@_suite.check("compute the maps from their arguments alone: no counter, clock, cache of an old state or random draw")
def determinism(trial: _Trial) -> None:
    """Equal arguments give equal bytes, in whatever order the calls come."""
    first = [_both_maps(trial.model, state, action) for state, action in trial.cases()]
    second = [_both_maps(trial.model, state, action) for state, action in reversed(trial.cases())]
    demand(first == second[::-1], "two calls with equal arguments gave different bytes")


def _both_maps(model: AgentControlModel, state: AgentSnapshot, action: FloatArray) -> tuple[bytes, bytes]:
    accel = flat(model.action_to_cartesian_accel(state, action))
    back = flat(model.cartesian_accel_to_action(state, accel))
    return accel.tobytes(), back.tobytes()


@_suite.check("work on a copy of the action and of the snapshot's arrays")
def inputs_unchanged(trial: _Trial) -> None:
    """Neither map writes into the snapshot or the vector it is given."""
    for state, action in trial.cases():
        state_before, action_before = copy_of(state), action.copy()
        accel = flat(trial.model.action_to_cartesian_accel(state, action)).copy()
        demand(np.array_equal(action, action_before), "action_to_cartesian_accel wrote into the action")
        accel_before = accel.copy()
        trial.model.cartesian_accel_to_action(state, accel)
        demand(np.array_equal(accel, accel_before), "cartesian_accel_to_action wrote into the acceleration")
        demand(same_snapshot(state, state_before), "a map wrote into the snapshot")


@_suite.check("return a copy: the identity map too must not hand out the caller's array or a buffer of its own")
def fresh_output(trial: _Trial) -> None:
    """The result of a map is the caller's own: not a view of an argument and not reused by the next call."""
    (state, action), (_, other_action) = trial.cases()[:2]
    for name, convert in (
        ("action_to_cartesian_accel", trial.model.action_to_cartesian_accel),
        ("cartesian_accel_to_action", trial.model.cartesian_accel_to_action),
    ):
        vector = _argument_of(name, trial, state, action)
        result = convert(state, vector)
        demand(
            not shares_memory(result, vector, state.position, state.velocity), f"{name} returned a view of its argument"
        )
        before = flat(result).copy()
        convert(state, _argument_of(name, trial, state, other_action))
        demand(np.array_equal(flat(result), before), f"the next call of {name} changed an earlier result")


def _argument_of(name: str, trial: _Trial, state: AgentSnapshot, action: FloatArray) -> FloatArray:
    if name == "action_to_cartesian_accel":
        return action.copy()
    return flat(trial.model.action_to_cartesian_accel(state, action)).copy()


@_suite.check("make the acceleration affine in the action, a = J(state) u + a0(state); linearise inside the model")
def affine(trial: _Trial) -> None:
    """The acceleration is affine in the action: f(x + y) - f(x) - f(y) + f(0) = 0."""
    for state in trial.snapshots:
        origin = _accel(trial, state, np.zeros(trial.model.action_dim))
        for x, y in zip(trial.actions[:-1], trial.actions[1:], strict=True):
            parts = [_accel(trial, state, x + y), _accel(trial, state, x), _accel(trial, state, y), origin]
            residual = np.abs(parts[0] - parts[1] - parts[2] + parts[3]).max()
            scale = 1.0 + max(np.abs(part).max() for part in parts)
            demand(residual <= _ROUNDING * scale, f"f(x + y) differs from f(x) + f(y) - f(0) by {residual:.3g} m/s^2")


def _accel(trial: _Trial, state: AgentSnapshot, action: FloatArray) -> FloatArray:
    return flat(trial.model.action_to_cartesian_accel(copy_of(state), action.copy()))


@_suite.check("keep affine(state), where it is offered, equal to action_to_cartesian_accel: override both or neither")
def offered_map(trial: _Trial) -> None:
    """An offered affine(state) gives the acceleration of every action: J u + a0 = action_to_cartesian_accel."""
    cases, model = trial.cases(), trial.model
    offered = getattr(model, "affine", None)
    if offered is None:
        return
    for state, action in cases:
        jacobian, offset = offered(copy_of(state))
        shapes = np.shape(jacobian), np.shape(offset)
        expected = (model.position_dim, model.action_dim), (model.position_dim,)
        demand(shapes == expected, f"affine(state) has the shapes {shapes}, not {expected}")
        accel = _accel(trial, state, action)
        error = np.abs(jacobian @ action + offset - accel).max()
        allowed = _ROUNDING * (1.0 + np.abs(accel).max())
        demand(error <= allowed, f"affine(state) and action_to_cartesian_accel differ by {error:.3g} m/s^2")


@_suite.check("make cartesian_accel_to_action a right inverse of the other map, offset included; or lower the damping")
def right_inverse(trial: _Trial) -> None:
    """accel(action(a)) = a for every acceleration the robot can have, within the stated tolerance."""
    for state, action in trial.cases():
        wanted = _accel(trial, state, action)
        back = flat(trial.model.cartesian_accel_to_action(copy_of(state), wanted.copy()))
        error = np.abs(_accel(trial, state, back) - wanted).max()
        allowed = trial.tolerance * (1.0 + np.abs(wanted).max())
        demand(error <= allowed, f"accel(action(a)) misses a by {error:.3g} m/s^2, allowed are {allowed:.3g}")


@_suite.check("return the largest acceleration available in every direction, a finite float > 0, in m/s^2")
def positive_capacity(trial: _Trial) -> None:
    """The acceleration capacity is finite and > 0."""
    capacity = trial.model.max_cartesian_accel(trial.bounds)
    demand(isinstance(capacity, float), f"max_cartesian_accel is a {type(capacity).__name__}, not a float")
    demand(math.isfinite(capacity) and capacity > 0.0, f"max_cartesian_accel is {capacity}")


@_suite.check("raise ValueError naming shape, uid and expected length when the vector has the wrong shape")
def rejects_wrong_shape(trial: _Trial) -> None:
    """A vector of the wrong shape is refused with ValueError, not reshaped or broadcast."""
    model, state = trial.model, copy_of(trial.snapshots[0])
    for shape in ((model.action_dim + 1,), (1, model.action_dim)):
        demand_raises(
            ValueError,
            lambda shape=shape: model.action_to_cartesian_accel(state, np.zeros(shape)),
            f"an action of shape {shape}",
        )
    for shape in ((model.position_dim + 1,), (1, model.position_dim)):
        demand_raises(
            ValueError,
            lambda shape=shape: model.cartesian_accel_to_action(state, np.zeros(shape)),
            f"an acceleration of shape {shape}",
        )
