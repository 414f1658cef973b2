"""Projection onto several rows and a box by the dual active-set method of Goldfarb & Idnani (1983), compiled.

The method starts at the unconstrained optimum, which for a projection is the point itself, adds the most violated
constraint, and drops constraints whose multiplier would turn negative. Every intermediate point is optimal for its
active set, so the answer is exact for the set it ends with. The active normals are kept as ``N = Q R``, with Q
orthogonal and R upper triangular, updated by Givens rotations. Rows are scaled to unit length first, so the
tolerances are relative.

A. Goldfarb, D. & Idnani, "A numerically stable dual method for solving strictly convex quadratic programs",
Mathematical Programming 27, 1-33, 1983.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from concerto.safety._projection import (
    FEASIBILITY_TOLERANCE,
    INFEASIBLE,
    ITERATION_LIMIT,
    NUMERICAL_FAILURE,
    OPTIMAL,
    kkt_residual,
)
from concerto.safety.api import FloatArray

__all__ = ["float_scratch_shape", "int_scratch_length", "project_onto_rows"]

_DEPENDENT_TOLERANCE = 1e-11
"""A unit normal whose part outside the span of the active normals is shorter than this lies in their span."""
_KKT_TOLERANCE = 1e-7
"""Largest optimality error of an answer that is handed out."""


@njit(cache=True)
def float_scratch_shape(n_actions: int) -> tuple[int, int]:
    """Shape of the float64 scratch of `project_onto_rows`."""
    return 2 * n_actions + 5, n_actions + 1


@njit(cache=True)
def int_scratch_length(n_actions: int, n_rows: int) -> int:
    """Length of the int64 scratch of `project_onto_rows`."""
    return n_actions + 1 + n_rows + 2 * n_actions


@njit(cache=True, error_model="numpy")
def project_onto_rows(
    nominal: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    out: FloatArray,
    multipliers: FloatArray,
    norms: FloatArray,
    floats: FloatArray,
    integers: NDArray[np.int64],
) -> int:
    """Project ``nominal`` onto the rows and the box.

    Args:
        nominal: point to project, shape ``(n,)``.
        rows: A, shape ``(p, n)``.
        right: b, shape ``(p,)``.
        lower: lower limits, shape ``(n,)``.
        upper: upper limits, shape ``(n,)``.
        out: the answer, shape ``(n,)``.
        multipliers: those of the scaled rows, the upper and the lower limits, shape ``(p + 2 n,)``.
        norms: scratch, shape ``(p,)``.
        floats: scratch of the shape `float_scratch_shape`.
        integers: scratch of the length `int_scratch_length`.

    Returns:
        `OPTIMAL`, `INFEASIBLE`, `ITERATION_LIMIT`, or `NUMERICAL_FAILURE` when the answer violates its optimality
        conditions.
    """
    n = nominal.shape[0]
    n_rows = rows.shape[0]
    q_matrix = floats[:n, :n]
    r_matrix = floats[n : 2 * n, :n]
    coordinates = floats[2 * n]  # of the new normal in the columns of Q
    direction = floats[2 * n + 1]  # part of the new normal outside the active ones
    dual_direction = floats[2 * n + 2]
    active_multipliers = floats[2 * n + 3]
    active = integers[: n + 1]
    is_active = integers[n + 1 :]

    status = _start(nominal, rows, right, out, norms, q_matrix, is_active)
    if status != OPTIMAL:
        return status
    multipliers[:] = 0.0
    n_active = 0
    for _ in range(20 * (n + n_rows) + 100):
        chosen, violation = _most_violated(rows, right, lower, upper, out, norms, is_active)
        if chosen < 0:
            for a in range(n_active):
                multipliers[active[a]] = active_multipliers[a]
            error = kkt_residual(nominal, out, multipliers, rows, right, lower, upper)
            return OPTIMAL if error <= _KKT_TOLERANCE else NUMERICAL_FAILURE
        new_multiplier = 0.0
        while is_active[chosen] == 0:
            _coordinates_of_normal(chosen, rows, norms, q_matrix, coordinates)
            outside = _primal_direction(q_matrix, coordinates, n_active, direction)
            _solve_triangular(r_matrix, coordinates, n_active, dual_direction)
            dropped, dual_step = _dual_step(active_multipliers, dual_direction, n_active)
            is_dependent = outside <= _DEPENDENT_TOLERANCE * _DEPENDENT_TOLERANCE
            primal_step = math.inf if is_dependent else max(violation, 0.0) / outside
            step = min(dual_step, primal_step)
            if step == math.inf:
                return INFEASIBLE

            for a in range(n_active):
                active_multipliers[a] -= step * dual_direction[a]
            new_multiplier += step
            if not is_dependent:
                for k in range(n):
                    out[k] -= step * direction[k]
            if primal_step <= dual_step:
                _add_column(q_matrix, r_matrix, coordinates, n_active)
                active[n_active] = chosen
                active_multipliers[n_active] = new_multiplier
                is_active[chosen] = 1
                n_active += 1
            else:
                is_active[active[dropped]] = 0
                _drop_column(q_matrix, r_matrix, dropped, n_active)
                n_active -= 1
                for a in range(dropped, n_active):
                    active[a] = active[a + 1]
                    active_multipliers[a] = active_multipliers[a + 1]
                violation = _violation(chosen, rows, right, lower, upper, out, norms)
    return ITERATION_LIMIT


@njit(cache=True, error_model="numpy")
def _start(
    nominal: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    out: FloatArray,
    norms: FloatArray,
    q_matrix: FloatArray,
    is_active: NDArray[np.int64],
) -> int:
    """Begin at ``nominal`` with no active constraint; refuse NaN and rows without components that cannot be met."""
    n = nominal.shape[0]
    is_active[:] = 0
    for k in range(n):
        out[k] = nominal[k]
        for j in range(n):
            q_matrix[k, j] = 1.0 if k == j else 0.0
    for i in range(rows.shape[0]):
        squares = 0.0
        for k in range(n):
            squares += rows[i, k] * rows[i, k]
        norms[i] = math.sqrt(squares)
        if math.isnan(norms[i]) or math.isnan(right[i]):
            return NUMERICAL_FAILURE
        if norms[i] == 0.0:
            if right[i] < 0.0:
                return INFEASIBLE
            is_active[i] = 1  # asks for nothing: never looked at again
    return OPTIMAL


@njit(cache=True, error_model="numpy")
def _primal_direction(q_matrix: FloatArray, coordinates: FloatArray, n_active: int, direction: FloatArray) -> float:
    """Write the part of the new normal outside the span of the active ones; give its squared length."""
    n = q_matrix.shape[0]
    squares = 0.0
    for k in range(n):
        total = 0.0
        for j in range(n_active, n):
            total += q_matrix[k, j] * coordinates[j]
        direction[k] = total
        squares += total * total
    return squares


@njit(cache=True, error_model="numpy")
def _solve_triangular(r_matrix: FloatArray, coordinates: FloatArray, n_active: int, dual_direction: FloatArray) -> None:
    """Write the weights of the active normals in the new one."""
    for a in range(n_active - 1, -1, -1):
        total = coordinates[a]
        for j in range(a + 1, n_active):
            total -= r_matrix[a, j] * dual_direction[j]
        dual_direction[a] = total / r_matrix[a, a]


@njit(cache=True, error_model="numpy")
def _dual_step(active_multipliers: FloatArray, dual_direction: FloatArray, n_active: int) -> tuple[int, float]:
    """Give the active constraint whose multiplier reaches zero first, and the step at which it does."""
    step = math.inf
    dropped = -1
    for a in range(n_active):
        if dual_direction[a] > 0.0 and active_multipliers[a] < step * dual_direction[a]:
            step = active_multipliers[a] / dual_direction[a]
            dropped = a
    return dropped, step


@njit(cache=True, error_model="numpy")
def _violation(
    chosen: int,
    rows: FloatArray,
    right: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    point: FloatArray,
    norms: FloatArray,
) -> float:
    """Give the violation of one constraint: a row, then the upper limits, then the lower limits."""
    n = point.shape[0]
    n_rows = rows.shape[0]
    if chosen < n_rows:
        value = -right[chosen]
        for k in range(n):
            value += rows[chosen, k] * point[k]
        return value / norms[chosen]
    if chosen < n_rows + n:
        return float(point[chosen - n_rows] - upper[chosen - n_rows])
    return float(lower[chosen - n_rows - n] - point[chosen - n_rows - n])


@njit(cache=True, error_model="numpy")
def _most_violated(
    rows: FloatArray,
    right: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    point: FloatArray,
    norms: FloatArray,
    is_active: NDArray[np.int64],
) -> tuple[int, float]:
    """Give the inactive constraint with the largest violation beyond tolerance, or -1."""
    n = point.shape[0]
    n_rows = rows.shape[0]
    chosen = -1
    largest = 0.0
    for i in range(n_rows + 2 * n):
        if is_active[i] != 0:
            continue
        violation = _violation(i, rows, right, lower, upper, point, norms)
        if i < n_rows:
            tolerance = FEASIBILITY_TOLERANCE * max(1.0, abs(right[i]) / norms[i])
        else:
            tolerance = FEASIBILITY_TOLERANCE * max(1.0, abs(point[(i - n_rows) % n]))
        if violation > tolerance and violation > largest:
            chosen = i
            largest = violation
    return chosen, largest


@njit(cache=True, error_model="numpy")
def _coordinates_of_normal(
    chosen: int, rows: FloatArray, norms: FloatArray, q_matrix: FloatArray, coordinates: FloatArray
) -> None:
    """Write ``Q^T c`` for the unit normal c of one constraint."""
    n = q_matrix.shape[0]
    n_rows = rows.shape[0]
    for j in range(n):
        if chosen < n_rows:
            total = 0.0
            for k in range(n):
                total += q_matrix[k, j] * rows[chosen, k]
            coordinates[j] = total / norms[chosen]
        elif chosen < n_rows + n:
            coordinates[j] = q_matrix[chosen - n_rows, j]
        else:
            coordinates[j] = -q_matrix[chosen - n_rows - n, j]


@njit(cache=True, error_model="numpy")
def _rotation(a: float, b: float) -> tuple[float, float, float]:
    """Give c, s and r with ``c a + s b = r`` and ``-s a + c b = 0``."""
    r = math.hypot(a, b)
    if r == 0.0:
        return 1.0, 0.0, 0.0
    return a / r, b / r, r


@njit(cache=True, error_model="numpy")
def _rotate_columns(q_matrix: FloatArray, first: int, second: int, c: float, s: float) -> None:
    for k in range(q_matrix.shape[0]):
        left = q_matrix[k, first]
        q_matrix[k, first] = c * left + s * q_matrix[k, second]
        q_matrix[k, second] = c * q_matrix[k, second] - s * left


@njit(cache=True, error_model="numpy")
def _add_column(q_matrix: FloatArray, r_matrix: FloatArray, coordinates: FloatArray, n_active: int) -> None:
    """Append the normal with these coordinates to ``N = Q R``."""
    for j in range(q_matrix.shape[0] - 1, n_active, -1):
        c, s, r = _rotation(coordinates[j - 1], coordinates[j])
        coordinates[j - 1] = r
        _rotate_columns(q_matrix, j - 1, j, c, s)
    for a in range(n_active + 1):
        r_matrix[a, n_active] = coordinates[a]


@njit(cache=True, error_model="numpy")
def _drop_column(q_matrix: FloatArray, r_matrix: FloatArray, dropped: int, n_active: int) -> None:
    """Remove one normal from ``N = Q R`` and make R triangular again."""
    for j in range(dropped, n_active - 1):
        for a in range(j + 2):
            r_matrix[a, j] = r_matrix[a, j + 1]
        c, s, r = _rotation(r_matrix[j, j], r_matrix[j + 1, j])
        r_matrix[j, j] = r
        r_matrix[j + 1, j] = 0.0
        for column in range(j + 2, n_active):
            upper = r_matrix[j, column]
            r_matrix[j, column] = c * upper + s * r_matrix[j + 1, column]
            r_matrix[j + 1, column] = c * r_matrix[j + 1, column] - s * upper
        _rotate_columns(q_matrix, j, j + 1, c, s)
