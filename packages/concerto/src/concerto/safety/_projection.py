"""The nearest point of a box that satisfies linear rows, compiled: ``min |u - v|^2`` with ``A u <= b, l <= u <= h``.

One row has a closed answer; several rows go to the dual active-set method of `concerto.safety._active_set`.
Everything here writes into buffers of the caller and allocates nothing.
"""

from __future__ import annotations

import math

from numba import njit

from concerto.safety.api import FloatArray

__all__ = [
    "FEASIBILITY_TOLERANCE",
    "INFEASIBLE",
    "ITERATION_LIMIT",
    "NUMERICAL_FAILURE",
    "OPTIMAL",
    "kkt_residual",
    "largest_violation",
    "nominal_is_feasible",
    "project_onto_row",
    "unit_rows",
]

OPTIMAL = 0
INFEASIBLE = 1
ITERATION_LIMIT = 2
NUMERICAL_FAILURE = 3

FEASIBILITY_TOLERANCE = 1e-10
"""Allowed violation of a row of unit length, relative to its right-hand side."""


@njit(cache=True, error_model="numpy")
def nominal_is_feasible(
    nominal: FloatArray, rows: FloatArray, right: FloatArray, lower: FloatArray, upper: FloatArray
) -> bool:
    """Whether ``nominal`` satisfies the box and every row, without any tolerance."""
    for k in range(nominal.shape[0]):
        if not lower[k] <= nominal[k] <= upper[k]:
            return False
    for i in range(rows.shape[0]):
        value = 0.0
        for k in range(nominal.shape[0]):
            value += rows[i, k] * nominal[k]
        if not value <= right[i]:
            return False
    return True


@njit(cache=True, error_model="numpy")
def project_onto_row(
    nominal: FloatArray, row: FloatArray, right: float, lower: FloatArray, upper: FloatArray, out: FloatArray
) -> int:
    """Project onto one row and the box, exactly.

    The answer is ``u(t) = clip(v - t a, l, h)`` for the smallest multiplier ``t >= 0`` with ``a.u(t) <= b``. Along t
    the value ``a.u(t)`` falls in straight pieces whose ends are the multipliers at which a component enters or
    leaves the box; the piece that contains the answer gives t in closed form.

    Returns:
        `OPTIMAL`, `NUMERICAL_FAILURE` for NaN, or `INFEASIBLE` when no point of the box satisfies the row; then
        ``out`` is the point of the box with the smallest ``a.u``.
    """
    n = nominal.shape[0]
    largest = 0.0
    smallest_value = 0.0
    value = 0.0
    for k in range(n):
        out[k] = min(max(nominal[k], lower[k]), upper[k])
        value += row[k] * out[k]
        smallest_value += min(row[k] * lower[k], row[k] * upper[k])
        largest = max(largest, abs(row[k]))
    if math.isnan(value) or math.isnan(smallest_value) or math.isnan(right):
        return NUMERICAL_FAILURE
    if value <= right:
        return OPTIMAL
    if smallest_value > right:
        for k in range(n):
            if row[k] != 0.0:
                out[k] = lower[k] if row[k] > 0.0 else upper[k]
        # The corner itself may miss the row by a rounding error only: then it is the answer.
        tolerance = FEASIBILITY_TOLERANCE * max(1.0, abs(right), largest)
        return OPTIMAL if smallest_value <= right + tolerance else INFEASIBLE
    t = 0.0
    while True:
        constant, squares, piece_end = _piece(nominal, row, lower, upper, t)
        if piece_end == math.inf or constant - piece_end * squares <= right:
            break
        t = piece_end
    if squares > 0.0:
        t = max(t, (constant - right) / squares)
    for k in range(n):
        out[k] = min(max(nominal[k] - t * row[k], lower[k]), upper[k])
    return OPTIMAL


@njit(cache=True, error_model="numpy")
def _piece(
    nominal: FloatArray, row: FloatArray, lower: FloatArray, upper: FloatArray, t: float
) -> tuple[float, float, float]:
    """Give c, s and the end of the piece of ``a.u(t) = c - s t`` that starts at the multiplier t."""
    constant = 0.0
    squares = 0.0
    piece_end = math.inf
    for k in range(nominal.shape[0]):
        if row[k] == 0.0:
            continue
        near = upper[k] if row[k] > 0.0 else lower[k]
        far = lower[k] if row[k] > 0.0 else upper[k]
        enters = (nominal[k] - near) / row[k]
        leaves = (nominal[k] - far) / row[k]
        if t < enters:
            constant += row[k] * near
            piece_end = min(piece_end, enters)
        elif t < leaves:
            constant += row[k] * nominal[k]
            squares += row[k] * row[k]
            piece_end = min(piece_end, leaves)
        else:
            constant += row[k] * far
    return constant, squares, piece_end


@njit(cache=True, error_model="numpy")
def unit_rows(rows: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the same rows scaled to unit length; a row without components stays as it is."""
    scaled_rows = rows.copy()
    scaled_right = right.copy()
    for i in range(rows.shape[0]):
        norm = _norm(rows[i])
        if norm > 0.0:
            scaled_right[i] /= norm
            for k in range(rows.shape[1]):
                scaled_rows[i, k] /= norm
    return scaled_rows, scaled_right


@njit(cache=True, error_model="numpy")
def largest_violation(
    point: FloatArray, rows: FloatArray, right: FloatArray, lower: FloatArray, upper: FloatArray
) -> float:
    """Give the largest amount by which ``point`` misses the box or a row, rows scaled to unit length.

    A row is measured relative to ``max(1, |right-hand side|)``; a point inside gives 0.
    """
    n = point.shape[0]
    worst = 0.0
    for k in range(n):
        worst = max(worst, lower[k] - point[k], point[k] - upper[k])
    for i in range(rows.shape[0]):
        value = 0.0
        squares = 0.0
        for k in range(n):
            value += rows[i, k] * point[k]
            squares += rows[i, k] * rows[i, k]
        norm = math.sqrt(squares)
        if norm > 0.0:
            worst = max(worst, (value - right[i]) / norm / max(1.0, abs(right[i]) / norm))
        elif right[i] < 0.0:
            worst = math.inf
    return worst


@njit(cache=True, error_model="numpy")
def kkt_residual(
    nominal: FloatArray,
    point: FloatArray,
    multipliers: FloatArray,
    rows: FloatArray,
    right: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> float:
    """Give the largest violation of the optimality conditions of a projection.

    Args:
        nominal: the point that was projected, shape ``(n,)``.
        point: the answer, shape ``(n,)``.
        multipliers: of the rows scaled to unit length, the upper limits and the lower limits, shape ``(p + 2 n,)``.
        rows: A, shape ``(p, n)``.
        right: b, shape ``(p,)``.
        lower: lower limits, shape ``(n,)``.
        upper: upper limits, shape ``(n,)``.

    Returns:
        The maximum of the feasibility, stationarity, sign and complementarity errors, the last three relative to the
        size of the multipliers.
    """
    n = nominal.shape[0]
    n_rows = rows.shape[0]
    size = 1.0
    for i in range(multipliers.shape[0]):
        size = max(size, abs(multipliers[i]))
    worst = largest_violation(point, rows, right, lower, upper)
    for i in range(multipliers.shape[0]):
        worst = max(worst, -multipliers[i] / size)
    for k in range(n):
        gradient = point[k] - nominal[k] + multipliers[n_rows + k] - multipliers[n_rows + n + k]
        for i in range(n_rows):
            if multipliers[i] != 0.0:
                gradient += multipliers[i] * rows[i, k] / _norm(rows[i])
        worst = max(worst, abs(gradient) / size)
        worst = max(worst, abs(multipliers[n_rows + k] * (upper[k] - point[k])) / size)
        worst = max(worst, abs(multipliers[n_rows + n + k] * (point[k] - lower[k])) / size)
    for i in range(n_rows):
        if multipliers[i] != 0.0:
            slack = right[i]
            for k in range(n):
                slack -= rows[i, k] * point[k]
            worst = max(worst, abs(multipliers[i] * slack / _norm(rows[i])) / size)
    return worst


@njit(cache=True, error_model="numpy")
def _norm(vector: FloatArray) -> float:
    squares = 0.0
    for k in range(vector.shape[0]):
        squares += vector[k] * vector[k]
    return math.sqrt(squares)
