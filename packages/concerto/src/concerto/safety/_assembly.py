"""From snapshots and control models to packed arrays: what the filters need before the maths starts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from concerto.safety._barrier import write_constraint_rows
from concerto.safety._projection import nominal_is_feasible
from concerto.safety.api import (
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    FloatArray,
    VelocityCommandControlModel,
    canonical_pair_key,
)

__all__ = [
    "BAD_INPUT",
    "NEEDS_PROJECTION",
    "OVERFLOW",
    "PASS_THROUGH",
    "Team",
    "affine_map",
    "all_finite",
    "assemble",
    "bad_number_error",
    "bad_state_error",
    "is_state",
    "pack_states",
    "snapshots_of",
]

PASS_THROUGH = 0
"""The nominal action satisfies every row and the box."""
NEEDS_PROJECTION = 1
BAD_INPUT = 2
"""A number is not finite, or a radius is negative."""
OVERFLOW = 3
"""All numbers are finite, but so large that a row is not."""


@runtime_checkable
class _AffineModel(Protocol):
    def affine(self, state: AgentSnapshot) -> tuple[FloatArray, FloatArray]: ...


class Team:
    """The fixed part of one problem: who decides, which pairs have a row, where each action sits.

    Attributes:
        uids: every body of the problem, those that decide first.
        n_deciding: how many of ``uids`` have an action in the problem.
        keys: slack key of every row.
        pairs: body indices of every row, shape ``(p, 2)``.
        slots: first component of every body in the stacked action, shape ``(n,)``.
        action_dims: components of every body, 0 for one that does not decide, shape ``(n,)``.
        n_actions: length of the stacked action.
    """

    def __init__(
        self,
        deciding: Sequence[str],
        others: Sequence[str],
        pairs: Sequence[tuple[str, str]],
        models: Mapping[str, AgentControlModel | float],
        braking_fraction: float,
    ) -> None:
        self.uids = (*deciding, *others)
        self.n_deciding = len(deciding)
        self.keys = [canonical_pair_key(i, j) for i, j in pairs]
        index = {uid: k for k, uid in enumerate(self.uids)}
        self.pairs = np.array([(index[i], index[j]) for i, j in pairs], dtype=np.int64).reshape(-1, 2)
        self._models = models
        self._deciding_models = [_decision_model(uid, models) for uid in deciding]
        self._braking_fraction = braking_fraction
        widths = [model.action_dim for model in self._deciding_models] + [0] * len(others)
        self.action_dims = np.array(widths, dtype=np.int64)
        self.slots = np.concatenate(([0], np.cumsum(self.action_dims)[:-1])).astype(np.int64)
        self.n_actions = int(self.action_dims.sum())
        self._slot_list: list[int] = self.slots[: self.n_deciding].tolist()
        self._width_list = widths[: self.n_deciding]
        self._bounds_of_capacities: Bounds | None = None
        self._capacities = np.empty(0)
        self._limit_of_box = math.nan
        self._box = np.empty(0), np.empty(0)
        self._identity_maps: tuple[FloatArray, FloatArray] | None = None

    def layout(self) -> Iterator[tuple[str, int, int]]:
        """List uid, first component and number of components of every body that decides."""
        return zip(self.uids[: self.n_deciding], self._slot_list, self._width_list, strict=True)

    def slacks(self, lambda_: Mapping[tuple[str, str], float]) -> FloatArray:
        """Give the slack of every row.

        Raises:
            ValueError: the keys are not exactly those of the rows.
        """
        if len(lambda_) == len(self.keys):
            try:
                return np.array([lambda_[key] for key in self.keys], dtype=np.float64)
            except KeyError:
                pass
        raise ValueError(f"lambda keys must be exactly {sorted(self.keys)}, got {sorted(lambda_)}")

    def box(self, limit: float) -> tuple[FloatArray, FloatArray]:
        """Give lower and upper limits of the stacked action; shared between calls, never to be written."""
        if limit != self._limit_of_box:
            self._box = np.full(self.n_actions, -limit), np.full(self.n_actions, limit)
            self._limit_of_box = limit
        return self._box

    def capacities(self, bounds: Bounds) -> FloatArray:
        """Give the braking that every body contributes to its pairs, m/s^2, shape ``(n,)``.

        Raises:
            KeyError: a body has no control model.
            ValueError: a capacity is out of range.
        """
        if bounds is self._bounds_of_capacities:
            return self._capacities
        values = [_capacity(uid, self._models, bounds) for uid in self.uids]
        capacities = np.array(values, dtype=np.float64)
        capacities[self.n_deciding :] *= self._braking_fraction
        if all(_has_fixed_capacity(self._models[uid]) for uid in self.uids):
            self._bounds_of_capacities = bounds
            self._capacities = capacities
        return capacities

    def affine_maps(self, states: Sequence[AgentSnapshot], dim: int) -> tuple[FloatArray, FloatArray]:
        """Give Jacobians ``(n, d, m)`` and accelerations at zero action ``(n, d)``; zero for bodies that do not decide.

        Raises:
            ValueError: a control model and the snapshots disagree about the Cartesian dimension.
        """
        if self._identity_maps is not None and self._identity_maps[0].shape[1] == dim:
            return self._identity_maps
        jacobians = np.zeros((len(self.uids), dim, int(self.action_dims.max(initial=0))))
        drifts = np.zeros((len(self.uids), dim))
        for k, (model, state) in enumerate(zip(self._deciding_models, states, strict=False)):
            if model.position_dim != dim:
                raise ValueError(
                    f"snapshots must have the {model.position_dim} dimensions of the control model of {model.uid!r}, "
                    f"got {dim}"
                )
            jacobians[k, :, : model.action_dim], drifts[k] = affine_map(model, state)
        if all(type(model) is DoubleIntegratorControlModel for model in self._deciding_models):
            self._identity_maps = jacobians, drifts
        return jacobians, drifts


def _decision_model(uid: str, models: Mapping[str, AgentControlModel | float]) -> AgentControlModel:
    if uid not in models:
        raise KeyError(f"no control model for {uid!r}")
    model = models[uid]
    if isinstance(model, (int, float)):
        raise TypeError(f"{uid!r} decides an action and needs a control model, got the bare capacity {model}")
    return model


def _capacity(uid: str, models: Mapping[str, AgentControlModel | float], bounds: Bounds) -> float:
    if uid not in models:
        raise KeyError(f"no control model for {uid!r}")
    model = models[uid]
    if isinstance(model, (int, float)):
        if not (math.isfinite(model) and model >= 0.0):
            raise ValueError(f"capacity of {uid!r} must be finite and >= 0, got {model}")
        return float(model)
    capacity = model.max_cartesian_accel(bounds)
    if not (math.isfinite(capacity) and capacity > 0.0):
        raise ValueError(f"max_cartesian_accel of {uid!r} must be finite and > 0, got {capacity}")
    return capacity


def _has_fixed_capacity(model: AgentControlModel | float) -> bool:
    """Whether the capacity depends on the bounds alone, so that it may be kept; a subclass may do as it likes."""
    return isinstance(model, (int, float)) or type(model) in (DoubleIntegratorControlModel, VelocityCommandControlModel)


def affine_map(model: AgentControlModel, state: AgentSnapshot) -> tuple[FloatArray, FloatArray]:
    """Give J and a0 of ``a = J u + a0``: the model's own, or column by column."""
    if isinstance(model, _AffineModel):
        return model.affine(state)
    drift = model.action_to_cartesian_accel(state, np.zeros(model.action_dim))
    columns = [model.action_to_cartesian_accel(state, unit) - drift for unit in np.eye(model.action_dim)]
    return np.stack(columns, axis=1), drift


def snapshots_of(obs: Mapping[str, Any]) -> dict[str, AgentSnapshot]:
    """Give the snapshots of an observation.

    Raises:
        ValueError: ``agent_states`` is missing or no dict.
    """
    snapshots = obs.get("agent_states")
    if not isinstance(snapshots, dict):
        raise ValueError(  # noqa: TRY004 - the documented type
            f"obs['agent_states'] must be a dict of uid to AgentSnapshot, got {type(snapshots).__name__}"
        )
    return cast("dict[str, AgentSnapshot]", snapshots)


def pack_states(
    uids: Sequence[str], states: Sequence[AgentSnapshot], forecasts: Sequence[AgentSnapshot]
) -> tuple[FloatArray, FloatArray]:
    """Stack positions and velocities of snapshots, then of the forecasts of the last of them.

    Returns:
        Shape ``(2 n + 2 m, d)``: n positions, n velocities, m forecast positions, m forecast velocities; and the
        n radii.

    Raises:
        ValueError: a position or velocity is not numeric, or the shapes differ.
    """
    try:
        vectors = [state.position for state in states]
        vectors += [state.velocity for state in states]
        vectors += [state.position for state in forecasts]
        vectors += [state.velocity for state in forecasts]
        packed = np.array(vectors, dtype=np.float64)
        radii = np.array([state.radius for state in states], dtype=np.float64)
    except AttributeError:
        raise ValueError(f"snapshots and forecasts of {list(uids)} must all be AgentSnapshot") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise _shape_error(uids, states, forecasts) from error
    if packed.ndim != 2 or packed.shape[1] not in (2, 3) or radii.ndim != 1:
        raise _shape_error(uids, states, forecasts)
    return packed, radii


def _shape_error(
    uids: Sequence[str], states: Sequence[AgentSnapshot], forecasts: Sequence[AgentSnapshot]
) -> ValueError:
    """Give the error that names the first vector that does not fit."""
    expected = np.shape(states[0].position)
    for name, vector in _named_vectors(uids, states, forecasts):
        if np.shape(vector) != expected or expected not in ((2,), (3,)):
            return ValueError(
                f"{name} must have shape (2,) or (3,), the same for all, got {np.shape(vector)} "
                f"where the position of {uids[0]!r} has {expected}"
            )
    return ValueError("positions, velocities and radii must be real numbers")


def _named_vectors(
    uids: Sequence[str], states: Sequence[AgentSnapshot], forecasts: Sequence[AgentSnapshot]
) -> Iterator[tuple[str, FloatArray]]:
    for uid, state in zip(uids, states, strict=True):
        yield f"position of {uid!r}", state.position
        yield f"velocity of {uid!r}", state.velocity
    for uid, state in zip(uids[len(uids) - len(forecasts) :], forecasts, strict=True):
        yield f"forecast position of {uid!r}", state.position
        yield f"forecast velocity of {uid!r}", state.velocity


@njit(cache=True)
def all_finite(values: FloatArray) -> bool:
    """Whether no value is NaN or infinite."""
    for value in values.flat:  # noqa: SIM110 - not compilable as all()
        if not math.isfinite(value):
            return False
    return True


@njit(cache=True)
def is_state(nominal: FloatArray, packed: FloatArray, radii: FloatArray) -> bool:
    """Whether all values are finite and no radius is negative."""
    for radius in radii:
        if not 0.0 <= radius < math.inf:
            return False
    return all_finite(nominal) and all_finite(packed)


@njit(cache=True, error_model="numpy")
def assemble(
    packed: FloatArray,
    radii: FloatArray,
    capacities: FloatArray,
    jacobians: FloatArray,
    own_drifts: FloatArray,
    slots: NDArray[np.int64],
    action_dims: NDArray[np.int64],
    pairs: NDArray[np.int64],
    slacks: FloatArray,
    gamma: float,
    overlap_depth: bool,
    forecast_dt: float,
    nominal: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> tuple[int, FloatArray, FloatArray, FloatArray]:
    """Check the numbers, build the rows, and see whether the nominal action already satisfies all.

    Args:
        packed: as `pack_states` gives it, forecasts of the bodies that do not decide at the end.
        radii: m, shape ``(n,)``.
        capacities: m/s^2, shape ``(n,)``.
        jacobians: shape ``(n, d, m)``.
        own_drifts: accelerations at zero action, m/s^2, shape ``(n, d)``; those of forecast bodies are replaced by
            ``(v_forecast - v)/dt``.
        slots: shape ``(n,)``.
        action_dims: shape ``(n,)``.
        pairs: shape ``(p, 2)``.
        slacks: m/s^2, shape ``(p,)``.
        gamma: 1/s.
        overlap_depth: see `pair_barrier`.
        forecast_dt: horizon of the forecasts, s.
        nominal: stacked nominal action.
        lower: lower limits of it.
        upper: upper limits of it.

    Returns:
        `PASS_THROUGH`, `NEEDS_PROJECTION`, `BAD_INPUT` or `OVERFLOW`; ``max(0, -h)``, rows and right-hand sides.
    """
    n = radii.shape[0]
    n_forecasts = packed.shape[0] // 2 - n
    is_good = is_state(nominal, packed, radii) and all_finite(slacks)
    if not is_good or not all_finite(jacobians) or not all_finite(own_drifts):
        return BAD_INPUT, np.empty(0), np.empty((0, 0)), np.empty(0)
    velocities = packed[n : 2 * n]
    drifts = own_drifts
    if n_forecasts > 0:
        drifts = own_drifts.copy()
        for f in range(n_forecasts):
            body = n - n_forecasts + f
            for k in range(packed.shape[1]):
                drifts[body, k] = (packed[2 * n + n_forecasts + f, k] - velocities[body, k]) / forecast_dt
    n_rows = pairs.shape[0]
    violation = np.empty(n_rows)
    rows = np.empty((n_rows, nominal.shape[0]))
    right = np.empty(n_rows)
    is_finite = write_constraint_rows(
        packed[:n],
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
        np.empty(packed.shape[1]),
        violation,
        rows,
        right,
    )
    if not is_finite:
        return OVERFLOW, violation, rows, right
    verdict = PASS_THROUGH if nominal_is_feasible(nominal, rows, right, lower, upper) else NEEDS_PROJECTION
    return verdict, violation, rows, right


def bad_state_error(
    uids: Sequence[str], states: Sequence[AgentSnapshot], forecasts: Sequence[AgentSnapshot]
) -> ValueError | None:
    """Give the error that names the first vector that is not finite or the first bad radius; None without one."""
    for name, vector in _named_vectors(uids, states, forecasts):
        if not np.isfinite(np.asarray(vector, dtype=np.float64)).all():  # None, too, is no number
            return ValueError(f"{name} must be finite, got {np.asarray(vector).tolist()}")
    for uid, state in zip(uids, states, strict=True):
        if not 0.0 <= float(np.asarray(state.radius, dtype=np.float64)) < math.inf:
            return ValueError(f"radius of {uid!r} must be finite and >= 0, got {state.radius}")
    return None


def bad_number_error(
    team: Team,
    states: Sequence[AgentSnapshot],
    forecasts: Sequence[AgentSnapshot],
    slacks: FloatArray,
    nominal: FloatArray,
    maps: tuple[FloatArray, FloatArray],
) -> ValueError:
    """Give the error that names the first number of a problem that is not finite, or the first negative radius."""
    error = bad_state_error(team.uids, states, forecasts)
    if error is not None:
        return error
    for key, slack in zip(team.keys, slacks, strict=True):
        if not math.isfinite(slack):
            return ValueError(f"lambda of {key} must be finite, got {slack}")
    for k, uid in enumerate(team.uids[: team.n_deciding]):
        action = nominal[team.slots[k] : team.slots[k] + team.action_dims[k]]
        if not np.isfinite(action).all():
            return ValueError(f"proposed action of {uid!r} must be finite, got {action}")
        if not (np.isfinite(maps[0][k]).all() and np.isfinite(maps[1][k]).all()):
            return ValueError(f"control model of {uid!r} must give finite accelerations")
    raise AssertionError("the compiled check refused numbers that are all good")
