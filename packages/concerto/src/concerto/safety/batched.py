"""The safety filter for thousands of environments at once, compiled and on all cores.

`BatchedSafetyFilter` gives for every environment what `concerto.safety.cbf_qp.ExpCBFQP` gives for one, for robots
whose action is their Cartesian acceleration. The rows come from the same compiled functions; several rows are
projected by `concerto.safety._active_set`. An environment without a safe action gets a braking command and is
reported in a mask: a batch never fails because of one of its members.
"""

from __future__ import annotations

import itertools
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from concerto.safety._active_set import float_scratch_shape, int_scratch_length, project_onto_rows
from concerto.safety._barrier import DEFAULT_CBF_GAMMA, write_constraint_rows
from concerto.safety._projection import OPTIMAL, nominal_is_feasible, project_onto_row
from concerto.safety.api import Bounds, FloatArray, SafetyMode

__all__ = ["BatchedFilterResult", "BatchedSafetyFilter"]

_PASS_THROUGH = 0
_PROJECTED = 1
_BRAKING = 2
_BAD_INPUT = 3

_CHUNKS_PER_THREAD = 4
_SMALLEST_CHUNK = 2000
"""Pairs that make it worth to wake a thread: about a millisecond of work."""


@dataclass(frozen=True, eq=False)
class BatchedFilterResult:
    """What the filter answered for every environment.

    Attributes:
        actions: safe actions, the shape of the nominal ones.
        is_pass_through: the nominal action was returned unchanged, shape ``(n_envs,)``.
        is_braking: no safe action was found and ``actions`` brakes along the velocity, shape ``(n_envs,)``.
        constraint_violation: ``max(0, -h)`` of every pair, m/s, shape ``(n_envs, n_pairs)``.
    """

    actions: FloatArray
    is_pass_through: NDArray[np.bool_]
    is_braking: NDArray[np.bool_]
    constraint_violation: FloatArray


class BatchedSafetyFilter:
    """Braking-distance barrier filter for batches of double integrators.

    In EGO_ONLY mode agent 0 is the ego and the pairs are (0, 1), (0, 2), ...; in CENTRALIZED mode the pairs are the
    upper triangle, row by row. With the agents in the order of their sorted uids this is the order of `ExpCBFQP`.

    Args:
        mode: `SafetyMode.EGO_ONLY` or `SafetyMode.CENTRALIZED`.
        cbf_gamma: rate of the barrier, 1/s, > 0.
        partner_braking_fraction: share in [0, 1] of its capacity that a partner is counted on to brake with
            (EGO_ONLY); use 0 for black-box partners.
        overlap_depth: see `ExpCBFQP`.
        parallel: use all cores of this process for large batches; the answers are the same bytes either way.

    Raises:
        ValueError: the mode is not supported, or a number is out of range.

    Examples:
        >>> filter = BatchedSafetyFilter()
        >>> result = filter.filter(
        ...     [[1.0, 0.0]], [[[0.0, 0.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.0, 0.0]]], 0.25,
        ...     bounds=Bounds(1.0, 1.0, 10.0, 0.0, 50.0),
        ... )
        >>> result.actions.round(8).tolist()
        [[0.65685425, 0.0]]
    """

    def __init__(
        self,
        *,
        mode: SafetyMode = SafetyMode.EGO_ONLY,
        cbf_gamma: float = DEFAULT_CBF_GAMMA,
        partner_braking_fraction: float = 1.0,
        overlap_depth: bool = False,
        parallel: bool = True,
    ) -> None:
        if mode is SafetyMode.SHARED_CONTROL:
            raise ValueError("mode must be EGO_ONLY or CENTRALIZED, got SHARED_CONTROL")
        if not (math.isfinite(cbf_gamma) and cbf_gamma > 0.0):
            raise ValueError(f"cbf_gamma must be finite and > 0, got {cbf_gamma}")
        if not 0.0 <= partner_braking_fraction <= 1.0:
            raise ValueError(f"partner_braking_fraction must be in [0, 1], got {partner_braking_fraction}")
        self._mode = mode
        self._gamma = float(cbf_gamma)
        self._partner_braking_fraction = float(partner_braking_fraction)
        self._overlap_depth = overlap_depth
        self._parallel = parallel

    def filter(
        self,
        nominal_actions: ArrayLike,
        positions: ArrayLike,
        velocities: ArrayLike,
        radii: ArrayLike,
        *,
        bounds: Bounds,
        lambda_: ArrayLike = 0.0,
        partner_accelerations: ArrayLike = 0.0,
        capacities: ArrayLike | None = None,
        dt: float = math.inf,
    ) -> BatchedFilterResult:
        """Give the nearest safe action of every environment.

        Args:
            nominal_actions: m/s^2, shape ``(n_envs, d)`` for the ego alone, ``(n_envs, n_agents, d)`` for all.
            positions: m, shape ``(n_envs, n_agents, d)`` with d = 2 or 3.
            velocities: m/s, shape ``(n_envs, n_agents, d)``.
            radii: m, >= 0; anything that broadcasts to ``(n_envs, n_agents)``.
            bounds: component limit of the actions and, by default, the capacity of every agent.
            lambda_: slack, m/s^2; anything that broadcasts to ``(n_envs, n_pairs)``.
            partner_accelerations: forecast acceleration of agents 1, 2, ... in EGO_ONLY mode, m/s^2; anything that
                broadcasts to ``(n_envs, n_agents - 1, d)``.
            capacities: capacity of every agent, m/s^2, shape ``(n_agents,)``, where it is not that of ``bounds``.
            dt: length of the control step, s; a braking command then does not go beyond rest.

        Returns:
            Actions, masks and violations of every environment.

        Raises:
            ValueError: shapes do not fit, or a number is not finite or out of range; the message names the argument.
        """
        positions = _array("positions", positions)
        if positions.ndim != 3 or positions.shape[1] < 1 or positions.shape[2] not in (2, 3):
            raise ValueError(f"positions must have shape (n_envs, n_agents, 2 or 3), got {positions.shape}")
        n_envs, n_agents, dim = positions.shape
        is_ego_only = self._mode is SafetyMode.EGO_ONLY
        n_deciding = 1 if is_ego_only else n_agents
        pairs = _pairs(n_agents, is_ego_only)
        action_shape = (n_envs, dim) if is_ego_only else positions.shape
        inputs = {
            "nominal_actions": _exactly("nominal_actions", nominal_actions, action_shape),
            "positions": positions,
            "velocities": _exactly("velocities", velocities, positions.shape),
            "radii": _broadcast("radii", radii, (n_envs, n_agents)),
            "lambda_": _broadcast("lambda_", lambda_, (n_envs, len(pairs))),
            "partner_accelerations": _broadcast(
                "partner_accelerations", partner_accelerations, (n_envs, n_agents - n_deciding, dim)
            ),
        }
        if not (bounds.action_linf_component > 0.0 and math.isfinite(bounds.action_linf_component)):
            raise ValueError(f"bounds.action_linf_component must be finite and > 0, got {bounds.action_linf_component}")
        if not dt > 0.0:
            raise ValueError(f"dt must be > 0, got {dt}")
        own_capacities = _capacities(bounds, capacities, n_agents)
        pair_capacities = own_capacities.copy()
        pair_capacities[n_deciding:] *= self._partner_braking_fraction

        actions = np.empty((n_envs, n_deciding * dim))
        violation = np.empty((n_envs, len(pairs)))
        outcome = np.empty(n_envs, dtype=np.int8)
        arrays = (
            inputs["nominal_actions"].reshape(n_envs, n_deciding * dim),
            positions,
            inputs["velocities"],
            inputs["radii"],
            inputs["lambda_"],
            inputs["partner_accelerations"],
            actions,
            violation,
            outcome,
        )
        constants = (
            pair_capacities,
            own_capacities,
            pairs,
            self._gamma,
            self._overlap_depth,
            float(bounds.action_linf_component),
            float(dt),
        )

        kernel: Any = _filter_chunk  # the checker cannot count unpacked arguments

        def run(chunk: slice) -> None:
            kernel(*(array[chunk] for array in arrays), *constants)

        chunks = self._chunks(n_envs, len(pairs))
        if len(chunks) == 1:
            run(chunks[0])
        else:
            with ThreadPoolExecutor(_n_cores()) as pool:
                for _ in pool.map(run, chunks):
                    pass
        if (outcome == _BAD_INPUT).any():
            raise _bad_input(inputs)
        return BatchedFilterResult(
            actions=actions.reshape(action_shape),
            is_pass_through=outcome == _PASS_THROUGH,
            is_braking=outcome == _BRAKING,
            constraint_violation=violation,
        )

    def _chunks(self, n_envs: int, n_pairs: int) -> list[slice]:
        """Divide the environments into chunks for the threads; one chunk when threads would not pay."""
        n_threads = _n_cores() if self._parallel else 1
        affordable = n_envs * max(1, n_pairs) // _SMALLEST_CHUNK
        n_chunks = min(_CHUNKS_PER_THREAD * n_threads, affordable) if n_threads > 1 else 1
        edges = np.linspace(0, n_envs, max(1, n_chunks) + 1).astype(int).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _array(name: str, value: ArrayLike) -> FloatArray:
    try:
        return np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from error


def _exactly(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    array = _array(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def _broadcast(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    array = _array(name, value)
    if array.shape == shape:
        return array
    full = np.empty(shape)
    try:
        full[...] = array
    except ValueError:
        raise ValueError(f"{name} must broadcast to shape {shape}, got {array.shape}") from None
    return full


def _capacities(bounds: Bounds, capacities: ArrayLike | None, n_agents: int) -> FloatArray:
    value = bounds.cartesian_accel_capacity if capacities is None else capacities
    result = _broadcast("capacities", value, (n_agents,))
    if not (np.isfinite(result).all() and (result > 0.0).all()):
        name = "bounds.cartesian_accel_capacity" if capacities is None else "capacities"
        raise ValueError(f"{name} must be finite and > 0, got {value}")
    return result


def _pairs(n_agents: int, is_ego_only: bool) -> NDArray[np.int64]:
    first, second = np.triu_indices(n_agents, k=1)
    pairs = np.stack((first, second), axis=1).astype(np.int64)
    return np.ascontiguousarray(pairs[first == 0]) if is_ego_only else pairs


def _bad_input(inputs: dict[str, FloatArray]) -> ValueError:
    """Give the error that names the first argument and environment with a bad number."""
    for name, array in inputs.items():
        is_bad = ~np.isfinite(array)
        if name == "radii":
            is_bad |= array < 0.0
        if is_bad.any():
            where = tuple(int(k) for k in np.argwhere(is_bad)[0])
            expectation = "finite and >= 0" if name == "radii" else "finite"
            return ValueError(f"{name} must be {expectation}, got {array[where]} at {list(where)}")
    raise AssertionError("the compiled check refused numbers that are all good")


@njit(cache=True, error_model="numpy", nogil=True)
def _filter_chunk(
    nominal: FloatArray,
    positions: FloatArray,
    velocities: FloatArray,
    radii: FloatArray,
    slacks: FloatArray,
    partner_accelerations: FloatArray,
    actions: FloatArray,
    violation: FloatArray,
    outcome: NDArray[np.int8],
    pair_capacities: FloatArray,
    own_capacities: FloatArray,
    pairs: NDArray[np.int64],
    gamma: float,
    overlap_depth: bool,
    action_limit: float,
    dt: float,
) -> None:
    """Filter the environments of one chunk; all of them share one set of scratch buffers."""
    n_envs, n_agents, dim = positions.shape
    n_pairs = pairs.shape[0]
    n_actions = nominal.shape[1]
    n_deciding = n_actions // dim
    slots = np.arange(n_agents) * dim
    action_dims = np.zeros(n_agents, dtype=np.int64)
    action_dims[:n_deciding] = dim
    jacobians = np.zeros((n_agents, dim, dim))
    for agent in range(n_deciding):
        for k in range(dim):
            jacobians[agent, k, k] = 1.0
    lower = np.full(n_actions, -action_limit)
    upper = np.full(n_actions, action_limit)
    drifts = np.zeros((n_agents, dim))
    normal = np.empty(dim)
    rows = np.empty((n_pairs, n_actions))
    right = np.empty(n_pairs)
    norms = np.empty(n_pairs)
    multipliers = np.empty(n_pairs + 2 * n_actions)
    floats = np.empty(float_scratch_shape(n_actions))
    integers = np.empty(int_scratch_length(n_actions, n_pairs), dtype=np.int64)
    for env in range(n_envs):
        outcome[env] = _filter_one(
            nominal[env],
            positions[env],
            velocities[env],
            radii[env],
            slacks[env],
            partner_accelerations[env],
            pair_capacities,
            pairs,
            gamma,
            overlap_depth,
            lower,
            upper,
            jacobians,
            slots,
            action_dims,
            drifts,
            normal,
            rows,
            right,
            norms,
            multipliers,
            floats,
            integers,
            actions[env],
            violation[env],
        )
        if outcome[env] == _BRAKING:
            for agent in range(n_deciding):
                _brake(
                    velocities[env, agent],
                    own_capacities[agent],
                    action_limit,
                    dt,
                    actions[env, agent * dim : (agent + 1) * dim],
                )


@njit(cache=True, error_model="numpy", inline="always")
def _filter_one(
    nominal: FloatArray,
    positions: FloatArray,
    velocities: FloatArray,
    radii: FloatArray,
    slacks: FloatArray,
    partner_accelerations: FloatArray,
    capacities: FloatArray,
    pairs: NDArray[np.int64],
    gamma: float,
    overlap_depth: bool,
    lower: FloatArray,
    upper: FloatArray,
    jacobians: FloatArray,
    slots: NDArray[np.int64],
    action_dims: NDArray[np.int64],
    drifts: FloatArray,
    normal: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    norms: FloatArray,
    multipliers: FloatArray,
    floats: FloatArray,
    integers: NDArray[np.int64],
    action: FloatArray,
    violation: FloatArray,
) -> int:
    """Filter one environment; an outcome of braking leaves ``action`` to the caller."""
    if not _is_good(nominal, positions, velocities, radii, slacks, partner_accelerations):
        return _BAD_INPUT
    n_partners = partner_accelerations.shape[0]
    first_partner = positions.shape[0] - n_partners
    for partner in range(n_partners):
        for k in range(positions.shape[1]):
            drifts[first_partner + partner, k] = partner_accelerations[partner, k]
    is_finite = write_constraint_rows(
        positions,
        velocities,
        radii,
        capacities,
        jacobians,
        drifts,
        slots,
        action_dims,
        pairs,
        slacks,
        gamma,
        overlap_depth,
        normal,
        violation,
        rows,
        right,
    )
    if not is_finite:
        return _BRAKING
    if nominal_is_feasible(nominal, rows, right, lower, upper):
        for k in range(nominal.shape[0]):
            action[k] = nominal[k]
        return _PASS_THROUGH
    if pairs.shape[0] == 1:
        status = project_onto_row(nominal, rows[0], right[0], lower, upper, action)
    else:
        status = project_onto_rows(nominal, rows, right, lower, upper, action, multipliers, norms, floats, integers)
    if status != OPTIMAL:
        return _BRAKING
    for k in range(nominal.shape[0]):
        action[k] = min(max(action[k], lower[k]), upper[k])
    return _PROJECTED


@njit(cache=True, error_model="numpy", inline="always")
def _is_good(
    nominal: FloatArray,
    positions: FloatArray,
    velocities: FloatArray,
    radii: FloatArray,
    slacks: FloatArray,
    accelerations: FloatArray,
) -> bool:
    """Whether all numbers of one environment are finite and no radius is negative."""
    total = 0.0  # 0 * x is 0 for a finite x and NaN for any other
    for k in range(nominal.shape[0]):
        total += 0.0 * nominal[k]
    for agent in range(positions.shape[0]):
        total += 0.0 * radii[agent]
        if radii[agent] < 0.0:
            return False
        for k in range(positions.shape[1]):
            total += 0.0 * positions[agent, k] + 0.0 * velocities[agent, k]
    for row in range(slacks.shape[0]):
        total += 0.0 * slacks[row]
    for partner in range(accelerations.shape[0]):
        for k in range(accelerations.shape[1]):
            total += 0.0 * accelerations[partner, k]
    return total == 0.0


@njit(cache=True, error_model="numpy")
def _brake(velocity: FloatArray, capacity: float, action_limit: float, dt: float, out: FloatArray) -> None:
    """Write the strongest deceleration along ``-v`` within capacity and box that does not go beyond rest in ``dt``.

    This is the fallback of Wang, Ames & Egerstedt 2017, eq. 17, kept inside the box.
    """
    speed = 0.0
    largest = 0.0
    for k in range(velocity.shape[0]):
        speed += velocity[k] * velocity[k]
        largest = max(largest, abs(velocity[k]))
    speed = math.sqrt(speed)
    if speed == 0.0:
        out[:] = 0.0
        return
    deceleration = min(capacity, action_limit * speed / largest, speed / dt)
    for k in range(velocity.shape[0]):
        out[k] = -deceleration * velocity[k] / speed
