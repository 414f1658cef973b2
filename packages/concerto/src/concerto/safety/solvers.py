"""Quadratic programs ``min 1/2 x'P x + q'x  s.t.  A x <= b`` on three backends, each called directly.

| Class | Method | Use |
|---|---|---|
| `DAQPSolver` | dense dual active set | the default of the filter: exact, a few microseconds |
| `ClarabelSolver` | interior point | second opinion, 1e-8 |
| `OSQPSolver` | operator splitting with polishing | second opinion, warm start |

A backend is imported when its class is first used, prints nothing, and reports every failure as
`ConcertoSafetyInfeasible` whose ``status`` tells "no answer exists" from "I could not find it".
"""

# ruff: noqa: N803 - P and A are the documented argument names

from __future__ import annotations

import importlib
import time
from typing import Any, Protocol, runtime_checkable

import numpy as np

from concerto.safety.api import FloatArray
from concerto.safety.errors import ConcertoSafetyInfeasible, SolveStatus

__all__ = ["SUPPORTED_SOLVERS", "ClarabelSolver", "DAQPSolver", "OSQPSolver", "QPSolver", "make_solver"]

SUPPORTED_SOLVERS = ("clarabel", "osqp")
"""General backends that can be chosen by name in a configuration; ``make_solver`` also knows ``"daqp"``."""


@runtime_checkable
class QPSolver(Protocol):
    """Anything that solves the quadratic program of this module."""

    def solve(
        self, P: FloatArray, q: FloatArray, A: FloatArray, b: FloatArray, *, warm_start: bool = True
    ) -> tuple[FloatArray, float]:
        """Solve one program.

        Args:
            P: Hessian, symmetric positive semidefinite, shape ``(n, n)``.
            q: linear cost, shape ``(n,)``.
            A: rows, shape ``(m, n)``.
            b: right-hand sides, shape ``(m,)``; ``inf`` switches a row off.
            warm_start: start from the previous answer, where the backend can.

        Returns:
            The optimum, shape ``(n,)``, and the wall time of the backend call in ms.

        Raises:
            ConcertoSafetyInfeasible: there is no answer, or none was found.
            ValueError: the shapes do not fit, or a number is NaN or infinite where it must not be.
        """
        ...


def _checked(*data: FloatArray) -> tuple[FloatArray, ...]:
    """Give P, q, A and b as float64 arrays; refuse wrong shapes and numbers that make a backend drop a row."""
    hessian, q, rows, b = checked = tuple(np.asarray(array, dtype=np.float64) for array in data)
    if q.ndim != 1 or hessian.shape != (q.size, q.size):
        raise ValueError(f"P must have shape (n, n) and q (n,), got {hessian.shape} and {q.shape}")
    if b.ndim != 1 or rows.shape != (b.size, q.size):
        raise ValueError(f"A must have shape (m, {q.size}) and b (m,), got {rows.shape} and {b.shape}")
    for name, array in (("P", hessian), ("q", q), ("A", rows)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
    if not (b > -np.inf).all():
        raise ValueError("b must not contain NaN or -inf")
    return checked


def _failure(solver: str, detail: str, status: SolveStatus, rows: tuple[int, ...], n: int) -> ConcertoSafetyInfeasible:
    return ConcertoSafetyInfeasible(
        f"{solver} found no answer ({status}: {detail}) for P with shape ({n}, {n}) and A with shape {rows}",
        status=status,
    )


class ClarabelSolver:
    """Clarabel's interior-point method with its native tolerances (1e-8)."""

    name = "clarabel"

    def solve(
        self, P: FloatArray, q: FloatArray, A: FloatArray, b: FloatArray, *, warm_start: bool = True
    ) -> tuple[FloatArray, float]:
        """Solve one program; see `QPSolver.solve`. An interior-point method has no use for ``warm_start``."""
        from scipy.sparse import csc_matrix

        clarabel: Any = importlib.import_module("clarabel")

        hessian, q, rows, b = _checked(P, q, A, b)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        problem = clarabel.DefaultSolver(
            csc_matrix(np.triu(hessian)), q, csc_matrix(rows), b, [clarabel.NonnegativeConeT(b.size)], settings
        )
        start = time.perf_counter()
        solution = problem.solve()
        elapsed_ms = (time.perf_counter() - start) * 1e3
        status = clarabel.SolverStatus
        if solution.status != status.Solved:
            if solution.status in (status.PrimalInfeasible, status.AlmostPrimalInfeasible):
                reason = SolveStatus.INFEASIBLE
            elif solution.status in (status.MaxIterations, status.MaxTime):
                reason = SolveStatus.ITERATION_LIMIT
            else:
                reason = SolveStatus.NUMERICAL_FAILURE
            raise _failure(self.name, str(solution.status), reason, rows.shape, q.size)
        return np.array(solution.x, dtype=np.float64), elapsed_ms


class OSQPSolver:
    """OSQP's operator splitting with tight tolerances and a polishing step.

    The answer depends on the starting point in its last digits; `reset` forgets the previous one, so that equal
    sequences after a reset give equal bytes.
    """

    name = "osqp"

    def __init__(self) -> None:
        self._previous: FloatArray | None = None

    def reset(self) -> None:
        """Forget the previous answer."""
        self._previous = None

    def solve(
        self, P: FloatArray, q: FloatArray, A: FloatArray, b: FloatArray, *, warm_start: bool = True
    ) -> tuple[FloatArray, float]:
        """Solve one program; see `QPSolver.solve`. The previous answer is a start when its shape fits."""
        from scipy.sparse import csc_matrix

        osqp: Any = importlib.import_module("osqp")

        hessian, q, rows, b = _checked(P, q, A, b)
        problem = osqp.OSQP()
        problem.setup(
            csc_matrix(np.triu(hessian)),
            q,
            csc_matrix(rows),
            np.full(b.size, -np.inf),
            b,
            eps_abs=1e-9,
            eps_rel=1e-9,
            max_iter=50_000,
            polishing=False,  # OSQP's own step prints to stdout when nothing is active: see _polish
            verbose=False,
        )
        if warm_start and self._previous is not None and self._previous.shape == q.shape:
            problem.warm_start(x=self._previous)
        start = time.perf_counter()
        result: Any = problem.solve(raise_error=False)
        elapsed_ms = (time.perf_counter() - start) * 1e3
        status = osqp.SolverStatus
        if result.info.status_val != status.OSQP_SOLVED:
            if result.info.status_val in (status.OSQP_PRIMAL_INFEASIBLE, status.OSQP_PRIMAL_INFEASIBLE_INACCURATE):
                reason = SolveStatus.INFEASIBLE
            elif result.info.status_val in (status.OSQP_MAX_ITER_REACHED, status.OSQP_TIME_LIMIT_REACHED):
                reason = SolveStatus.ITERATION_LIMIT
            else:
                reason = SolveStatus.NUMERICAL_FAILURE
            raise _failure(self.name, str(result.info.status), reason, rows.shape, q.size)
        x = _polish(np.array(result.x, dtype=np.float64), np.asarray(result.y, dtype=np.float64), hessian, q, rows, b)
        self._previous = x.copy()
        return x, elapsed_ms


def _polish(
    x: FloatArray, multipliers: FloatArray, hessian: FloatArray, q: FloatArray, rows: FloatArray, b: FloatArray
) -> FloatArray:
    """Solve the optimality conditions of the rows that look active (Stellato et al. 2020, section 4).

    The polished point is kept when it violates no row by more than the given one does.
    """
    is_active = b - rows @ x < multipliers
    normals = rows[is_active]
    n_active = len(normals)
    system = np.block([[hessian, normals.T], [normals, np.zeros((n_active, n_active))]])
    solution = np.linalg.lstsq(system, np.concatenate((-q, b[is_active])), rcond=None)[0]
    polished = solution[: x.size].astype(np.float64)
    if np.max(rows @ polished - b, initial=0.0) > max(np.max(rows @ x - b, initial=0.0), 1e-12):
        return x
    return polished


class DAQPSolver:
    """DAQP's dense dual active-set method (Arnstrom, Bemporad & Axehill 2022): exact for the active set it ends with.

    Besides general programs it projects onto rows and a box (`project`), which is the program of the filter; one row
    is answered in closed form there. Rows are scaled to unit length first: DAQP silently drops a row whose components
    are smaller than about 1e-6.
    """

    name = "daqp"

    def __init__(self) -> None:
        import daqp

        from concerto.safety import _projection

        self._solve = daqp.solve
        self._projection = _projection
        self._identities: dict[int, FloatArray] = {}

    def solve(
        self, P: FloatArray, q: FloatArray, A: FloatArray, b: FloatArray, *, warm_start: bool = True
    ) -> tuple[FloatArray, float]:
        """Solve one program; see `QPSolver.solve`. The method starts cold every time, whatever ``warm_start`` says."""
        hessian, q, rows, b = _checked(P, q, A, b)
        rows, b = self._projection.unit_rows(rows, b)
        return self._call(hessian, q, rows, b, np.full(b.size, -np.inf))

    def project(
        self, nominal: FloatArray, rows: FloatArray, right: FloatArray, lower: FloatArray, upper: FloatArray
    ) -> tuple[FloatArray, float]:
        """Give the point nearest to ``nominal`` with ``rows @ u <= right`` and ``lower <= u <= upper``.

        Args:
            nominal: point to project, shape ``(n,)``.
            rows: shape ``(p, n)``.
            right: shape ``(p,)``.
            lower: finite lower limits, shape ``(n,)``.
            upper: finite upper limits, shape ``(n,)``, not below ``lower``.

        Returns:
            The point and the wall time in ms.

        Raises:
            ConcertoSafetyInfeasible: no point satisfies all, or none was found.
        """
        if len(right) > 1:
            unit_rows, unit_right = self._projection.unit_rows(rows, right)
            x, elapsed_ms = self._call(
                self._identity(nominal.size),
                -nominal,
                unit_rows,
                np.concatenate((upper, unit_right)),
                np.concatenate((lower, np.full(right.size, -np.inf))),
            )
            np.clip(x, lower, upper, out=x)
            if self._projection.largest_violation(x, rows, right, lower, upper) > _LARGEST_VIOLATION:
                raise _failure(
                    self.name, "the answer violates a row", SolveStatus.NUMERICAL_FAILURE, rows.shape, nominal.size
                )
            return x, elapsed_ms
        start = time.perf_counter()
        if len(right) == 0:
            return np.clip(nominal, lower, upper), (time.perf_counter() - start) * 1e3
        x = np.empty_like(nominal)
        status = self._projection.project_onto_row(nominal, rows[0], right[0], lower, upper, x)
        elapsed_ms = (time.perf_counter() - start) * 1e3
        if status != self._projection.OPTIMAL:
            raise _failure(
                self.name, "the row cannot be met in the box", SolveStatus.INFEASIBLE, rows.shape, nominal.size
            )
        return x, elapsed_ms

    def _identity(self, n: int) -> FloatArray:
        if n not in self._identities:
            self._identities[n] = np.eye(n)
        return self._identities[n]

    def _call(
        self, hessian: FloatArray, q: FloatArray, rows: FloatArray, upper: FloatArray, lower: FloatArray
    ) -> tuple[FloatArray, float]:
        start = time.perf_counter()
        x, _, flag, _ = self._solve(
            hessian, q, rows, upper, lower, np.zeros(upper.size, dtype=np.int32), primal_tol=1e-10, dual_tol=1e-12
        )
        elapsed_ms = (time.perf_counter() - start) * 1e3
        if flag < 1:
            reason = _DAQP_STATUS.get(flag, SolveStatus.NUMERICAL_FAILURE)
            raise _failure(self.name, f"exit flag {flag}", reason, rows.shape, q.size)
        return np.asarray(x, dtype=np.float64), elapsed_ms


_DAQP_STATUS = {-1: SolveStatus.INFEASIBLE, -4: SolveStatus.ITERATION_LIMIT}
_LARGEST_VIOLATION = 1e-7
"""Relative violation of a row beyond which an answer is not handed out."""


def make_solver(name: str) -> QPSolver:
    """Make a solver by its name: ``"clarabel"``, ``"osqp"`` or ``"daqp"``.

    Raises:
        ValueError: the name is unknown.
    """
    if name == "clarabel":
        return ClarabelSolver()
    if name == "osqp":
        return OSQPSolver()
    if name == "daqp":
        return DAQPSolver()
    raise ValueError(f"solver must be one of {(*SUPPORTED_SOLVERS, 'daqp')}, got {name!r}")
