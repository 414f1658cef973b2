"""Judge an emergency controller: the push away from every dangerous partner, in the robot's own actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds, FloatArray
from concerto.safety.emergency import EmergencyController
from concerto.testing._arrays import copy_of, demand_vector, flat, same_snapshot, shares_memory
from concerto.testing.conformance import Check, Suite, demand, demand_members, raise_first_problem
from ripieno.randomness import derive_substream

__all__ = ["check_emergency_controller", "emergency_controller_checks"]

_WIDE_BOUNDS = Bounds(
    action_linf_component=1e6,
    cartesian_accel_capacity=4.0,
    action_rate=10.0,
    comm_latency_ms=0.0,
    force_limit=50.0,
)
"""Limits under which the action box never binds, so that only the acceleration capacity shapes the answer."""


@dataclass(frozen=True)
class _Trial:
    """A controller, the robot it drives, and the dangers it is tried on."""

    controller: EmergencyController
    control_model: AgentControlModel | None
    given_snapshot: AgentSnapshot | None
    position_dim: int
    tolerance: float

    @property
    def snapshot(self) -> AgentSnapshot:
        """The state, at rest, as a copy that a check may spoil."""
        if self.given_snapshot is not None:
            return copy_of(self.given_snapshot)
        return AgentSnapshot(np.zeros(self.position_dim), np.zeros(self.position_dim), 0.25)

    @property
    def control_dim(self) -> int:
        """Length of an action."""
        return self.position_dim if self.control_model is None else self.control_model.action_dim

    @cached_property
    def dangers(self) -> list[list[FloatArray]]:
        """Lists of unit vectors, one to three dangerous partners each, none of which cancel."""
        rng = derive_substream("concerto.testing.emergency").default_rng()
        directions = rng.normal(size=(6, 3, self.position_dim))
        directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
        return [list(unit[: 1 + index % 3]) for index, unit in enumerate(directions)]

    def override(self, vectors: Sequence[FloatArray], bounds: Bounds = _WIDE_BOUNDS) -> object:
        """Ask for the override, as the controller gave it."""
        return self.controller.compute_override(self.snapshot, [v.copy() for v in vectors], bounds)

    def acceleration(self, vectors: Sequence[FloatArray]) -> FloatArray:
        """Give the Cartesian acceleration of the override."""
        action = flat(self.override(vectors))
        if self.control_model is None:
            return action
        return flat(self.control_model.action_to_cartesian_accel(self.snapshot, action))


_suite: Suite[_Trial] = Suite()


def emergency_controller_checks(
    controller: EmergencyController,
    *,
    control_model: AgentControlModel | None = None,
    snapshot: AgentSnapshot | None = None,
    position_dim: int = 2,
    tolerance: float = 1e-4,
) -> list[Check]:
    """Give the checks of `EmergencyController`, ready for `run_all`.

    Args:
        controller: the implementation.
        control_model: how the robot's actions move it; None for a robot whose action is its Cartesian
            acceleration. With a model, the override must also stay inside the action box.
        snapshot: state at rest the controller is tried in; by default the origin.
        position_dim: Cartesian dimensions when there is no control model.
        tolerance: relative error of magnitude and direction, for damped inverses.
    """
    dim = position_dim if control_model is None else control_model.position_dim
    return _suite.bind(_Trial(controller, control_model, snapshot, dim, tolerance))


def check_emergency_controller(
    controller: EmergencyController,
    *,
    control_model: AgentControlModel | None = None,
    snapshot: AgentSnapshot | None = None,
    position_dim: int = 2,
    tolerance: float = 1e-4,
) -> None:
    """Judge an emergency controller; arguments as for `emergency_controller_checks`.

    Raises:
        ConformanceError: the first clause of the contract that does not hold, and how to mend it.

    Examples:
        >>> from concerto.safety.emergency import CartesianAccelEmergencyController
        >>> check_emergency_controller(CartesianAccelEmergencyController())
    """
    raise_first_problem(
        emergency_controller_checks(
            controller, control_model=control_model, snapshot=snapshot, position_dim=position_dim, tolerance=tolerance
        )
    )


@_suite.check("give the class a method compute_override(agent_state, pairwise_repulsion_vectors, bounds)")
def protocol(trial: _Trial) -> None:
    """The controller has the method of EmergencyController, callable by its documented keywords."""
    demand_members(trial.controller, EmergencyController)
    trial.controller.compute_override(
        agent_state=trial.snapshot, pairwise_repulsion_vectors=list(trial.dangers[0]), bounds=_WIDE_BOUNDS
    )


@_suite.check("return a float64 array in the robot's control shape (action_dim,), not in Cartesian shape")
def control_form(trial: _Trial) -> None:
    """The override is a finite float64 vector in the shape of the robot's action."""
    for vectors in trial.dangers:
        demand_vector("compute_override(...)", trial.override(vectors), trial.control_dim)


@_suite.check("scale the summed direction to bounds.cartesian_accel_capacity before converting it to an action")
def saturation(trial: _Trial) -> None:
    """The override accelerates the robot at exactly its capacity when the action box leaves room."""
    for capacity in (_WIDE_BOUNDS.cartesian_accel_capacity, 0.5):
        bounds = replace(_WIDE_BOUNDS, cartesian_accel_capacity=capacity)
        for vectors in trial.dangers:
            action = flat(trial.override(vectors, bounds))
            model = trial.control_model
            accel = action if model is None else flat(model.action_to_cartesian_accel(trial.snapshot, action))
            magnitude = float(np.linalg.norm(accel))
            demand(
                abs(magnitude - capacity) <= trial.tolerance * capacity,
                f"with {len(vectors)} partners the acceleration is {magnitude:.6g} m/s^2, the capacity {capacity:g}",
            )


@_suite.check("add up the vectors of all dangerous pairs and push along the sum")
def direction(trial: _Trial) -> None:
    """The override pushes along the sum of the repulsion vectors."""
    for vectors in trial.dangers:
        accel = trial.acceleration(vectors)
        total = np.sum(vectors, axis=0)
        length = float(np.linalg.norm(accel)) * float(np.linalg.norm(total))
        demand(length > 0.0, f"with {len(vectors)} partners there is no push at all")
        cosine = float(accel @ total) / length
        demand(cosine >= 1.0 - trial.tolerance, f"with {len(vectors)} partners the push is {cosine:.6f} along the sum")


@_suite.check("return zeros in the control shape when the sum is shorter than 1e-12: never divide by its length")
def cancelling(trial: _Trial) -> None:
    """Vectors that cancel leave a robot at rest without a push."""
    unit = trial.dangers[0][0]
    _demand_no_push(trial, [unit, -unit], "two opposite vectors")


@_suite.check("return zeros in the control shape for an empty list")
def no_danger(trial: _Trial) -> None:
    """An empty list leaves a robot at rest without a push."""
    _demand_no_push(trial, [], "an empty list")


def _demand_no_push(trial: _Trial, vectors: list[FloatArray], situation: str) -> None:
    override = trial.override(vectors)
    demand_vector(f"the override for {situation}", override, trial.control_dim)
    demand(not flat(override).any(), f"{situation} gave a push")


@_suite.check("clip every component of the action to +/- bounds.action_linf_component, after the conversion")
def action_box(trial: _Trial) -> None:
    """With a control model, no component of the override exceeds the action box."""
    if trial.control_model is None:
        return
    bounds = replace(_WIDE_BOUNDS, action_linf_component=0.1)
    for vectors in trial.dangers:
        largest = float(np.abs(flat(trial.override(vectors, bounds))).max())
        demand(largest <= bounds.action_linf_component, f"a component is {largest:.6g}, the limit 0.1")


@_suite.check("compute the override from its arguments alone: no counter, clock or random draw")
def determinism(trial: _Trial) -> None:
    """Equal arguments give equal bytes, in whatever order the calls come."""
    first = [flat(trial.override(vectors)).tobytes() for vectors in trial.dangers]
    second = [flat(trial.override(vectors)).tobytes() for vectors in reversed(trial.dangers)]
    demand(first == second[::-1], "two calls with equal arguments gave different bytes")


@_suite.check("work on copies: do not normalise or sum the caller's vectors in place")
def inputs_unchanged(trial: _Trial) -> None:
    """The snapshot and the vectors are read, never written; the list keeps its length."""
    for original in trial.dangers:
        state, vectors = trial.snapshot, [v.copy() for v in original]
        trial.controller.compute_override(state, vectors, _WIDE_BOUNDS)
        same = len(vectors) == len(original) and all(map(np.array_equal, vectors, original))
        demand(same, "compute_override wrote into the repulsion vectors")
        demand(same_snapshot(state, trial.snapshot), "compute_override wrote into the snapshot")


@_suite.check("return a new array from every call, also for zeros")
def fresh_output(trial: _Trial) -> None:
    """The override is the caller's own: not a view of an argument and not reused by the next call."""
    for vectors in ([v.copy() for v in trial.dangers[0]], []):
        state = trial.snapshot
        result = trial.controller.compute_override(state, vectors, _WIDE_BOUNDS)
        demand(
            not shares_memory(result, state.position, state.velocity, *vectors), "the override is a view of an argument"
        )
        again = trial.controller.compute_override(state, vectors, _WIDE_BOUNDS)
        demand(not shares_memory(result, flat(again)), "two calls returned the same array")
