"""Operational-space safety filter of one arm: a velocity QP over its joints with relaxable barrier rows.

The filter stays near a nominal joint velocity and a nominal end-effector twist while linear rows
``A qdot <= b`` (joint limits, collision barriers of sphere pairs) hold, each up to its own slack ``s_i >= 0``:

    min  Wj^2 |qdot - qdot_nom|^2 + Wo^2 |J qdot - nu_nom|^2 + rho |s|^2    s.t.  A qdot - s <= b

Source of the formulation: Morton & Pavone, "Safe, Task-Consistent Manipulation with Operational Space
Control Barrier Functions", 2025, arXiv 2503.06736.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Literal

import daqp
import numpy as np

from concerto.safety.api import FloatArray
from concerto.safety.solvers import ClarabelSolver, QPSolver

__all__ = [
    "DEFAULT_CBF_ALPHA",
    "DEFAULT_SLACK_PENALTY",
    "DEFAULT_W_JOINT",
    "DEFAULT_W_OPERATIONAL",
    "OSCBF",
    "OSCBFConstraints",
    "OSCBFResult",
    "collision_constraint_row",
    "joint_limit_constraint_row",
]

DEFAULT_CBF_ALPHA = 5.0
"""Decay rate of the collision barrier, 1/s: a gap may close at most at ``alpha * gap``."""
DEFAULT_SLACK_PENALTY = 100.0
"""Price of slack."""
DEFAULT_W_JOINT = 1.0
"""Weight of the joint velocity."""
DEFAULT_W_OPERATIONAL = 1.0
"""Weight of the end-effector twist."""

_ACTIVE_SLACK = 1e-4  # constraint units (rad/s or m/s)
_NEGATIVE_SLACK_WARNING = -1e-6
_COINCIDENT_DISTANCE = 1e-9  # m
_SINGULAR_RATIO = 1e-3  # singular values below this share of the largest one count as no task direction


@dataclass(frozen=True, eq=False)
class OSCBFConstraints:
    """Rows ``a @ qdot <= b`` of one control step.

    Attributes:
        a: coefficients, shape ``(m, n_joints)``.
        b: right-hand sides, shape ``(m,)``, rad/s for joint limits and m/s for collision rows.

    Raises:
        ValueError: ``a`` is not 2-D, ``b`` is not 1-D, or they differ in their number of rows.
    """

    a: FloatArray
    b: FloatArray

    def __post_init__(self) -> None:
        if np.ndim(self.a) != 2:
            raise ValueError(f"a must be 2-D (rows, joints), got shape {np.shape(self.a)}")
        if np.ndim(self.b) != 1:
            raise ValueError(f"b must be 1-D, got shape {np.shape(self.b)}")
        if len(self.a) != len(self.b):
            raise ValueError(f"a and b must have as many rows, got {len(self.a)} and {len(self.b)}")


@dataclass(frozen=True, eq=False)
class OSCBFResult:
    """Answer of one control step.

    Attributes:
        q_dot: joint velocities, shape ``(n_joints,)``, rad/s.
        slack: slack of every row, shape ``(m,)``, >= 0, in the row's unit.
        solve_ms: wall time of the solver call alone, ms.
        active_rows: indices of the relaxed rows (slack above 1e-4, or see `OSCBF`).
        max_slack: largest slack, 0.0 without rows.
        slack_l2: Euclidean norm of the slack, 0.0 without rows.
        solver_status: always ``"optimal"``; failures raise.
    """

    q_dot: FloatArray
    slack: FloatArray
    solve_ms: float
    active_rows: tuple[int, ...]
    max_slack: float
    slack_l2: float
    solver_status: str = "optimal"


class _Problem:
    """The QP over ``x = (qdot, s)`` for one number of rows; parts that never change are filled in once.

    ``min 1/2 x^T P x + q^T x`` subject to ``G x <= h`` with ``G = [[A, -I], [0, -I]]`` and ``h = [b, 0]``.
    """

    def __init__(self, n: int, m: int, *, slack_hessian: float, slack_gradient: float) -> None:
        self.P = np.zeros((n + m, n + m))
        self.P[n:, n:] = slack_hessian * np.eye(m)
        self.q = np.zeros(n + m)
        self.q[n:] = slack_gradient
        self.G = np.zeros((2 * m, n + m))
        self.G[:m, n:] = self.G[m:, n:] = -np.eye(m)
        self.h = np.zeros(2 * m)
        # With a purely quadratic price the optimal slack is never negative: the rows -s <= 0 say nothing new.
        rows = m if slack_gradient == 0.0 else 2 * m
        self.needed_G = self.G[:rows]
        self.needed_h = self.h[:rows]
        self.lower = np.full(rows, -np.inf)
        self.sense = np.zeros(rows, dtype=np.int32)


class OSCBF:
    """The filter of one arm; one instance serves one control loop (it reuses its matrices between calls).

    The default solver is DAQP, a dense dual active-set method that finds the optimum exactly. Slack with a
    quadratic price is never free of error: a row that pulls with multiplier ``mu`` keeps slack
    ``mu/(2 rho)`` although it could hold. ``slack="exact"`` charges ``rho * sum(s)`` on top: the first bit of
    slack then costs ``rho`` already, so a row that can hold at a multiplier below ``rho`` has none at all.

    Args:
        n_joints: number of joints, at least 1.
        weight_joint: weight Wj of the joint term, >= 0.
        weight_operational: weight Wo of the end-effector term, >= 0; not both weights are 0.
        slack_penalty: price rho of slack, > 0.
        solver: another solver of the same QP; None for DAQP, and Clarabel in the rare case that DAQP gives up.
        slack: ``"quadratic"`` for the price ``rho |s|^2``, ``"exact"`` for ``rho (sum(s) + |s|^2)``.
        null_space_objective: project the joint term into the null space of the task, as the paper does:
            ``Wj^2 |N (qdot - qdot_nom)|^2`` with ``N = I - J# J``, so that it never pulls against the task.
        active_multiplier: report a row as active when its multiplier ``2 rho s_i`` exceeds this value,
            instead of when its slack exceeds 1e-4; only for quadratic slack.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        *,
        n_joints: int,
        weight_joint: float = DEFAULT_W_JOINT,
        weight_operational: float = DEFAULT_W_OPERATIONAL,
        slack_penalty: float = DEFAULT_SLACK_PENALTY,
        solver: QPSolver | None = None,
        slack: Literal["quadratic", "exact"] = "quadratic",
        null_space_objective: bool = False,
        active_multiplier: float | None = None,
    ) -> None:
        if n_joints < 1:
            raise ValueError(f"n_joints must be at least 1, got {n_joints}")
        for name, weight in (("weight_joint", weight_joint), ("weight_operational", weight_operational)):
            if not (math.isfinite(weight) and weight >= 0.0):
                raise ValueError(f"{name} must be finite and >= 0, got {weight}")
        if weight_joint == 0.0 and weight_operational == 0.0:
            raise ValueError("weight_joint and weight_operational must not both be 0: nothing would be asked for")
        if not (math.isfinite(slack_penalty) and slack_penalty > 0.0):
            raise ValueError(f"slack_penalty must be finite and > 0, got {slack_penalty}")
        if slack not in ("quadratic", "exact"):
            raise ValueError(f"slack must be 'quadratic' or 'exact', got {slack!r}")
        if active_multiplier is not None and not (math.isfinite(active_multiplier) and active_multiplier > 0.0):
            raise ValueError(f"active_multiplier must be finite and > 0, got {active_multiplier}")
        if active_multiplier is not None and slack == "exact":
            raise ValueError("active_multiplier needs quadratic slack: exact slack is zero unless a row is relaxed")

        self._n_joints = n_joints
        self._joint_hessian = (2.0 * weight_joint**2) * np.eye(n_joints)
        self._operational_scale = 2.0 * weight_operational**2
        self._null_space_objective = null_space_objective
        self._slack_hessian = 2.0 * slack_penalty
        self._slack_gradient = slack_penalty if slack == "exact" else 0.0
        self._active_slack = _ACTIVE_SLACK if active_multiplier is None else active_multiplier / (2.0 * slack_penalty)
        self._solver = solver
        self._problem = self._new_problem(0)

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return self._n_joints

    def solve(
        self,
        *,
        q_dot_nom: FloatArray,
        nu_nom: FloatArray,
        jacobian: FloatArray,
        constraints: OSCBFConstraints,
        mass_matrix: FloatArray | None = None,
    ) -> OSCBFResult:
        """Give the joint velocities nearest to the nominal ones under the rows.

        Args:
            q_dot_nom: nominal joint velocities, shape ``(n_joints,)``, rad/s.
            nu_nom: nominal twist of the end effector, shape ``(k,)``, usually ``[v; omega]`` with k = 6.
            jacobian: end-effector Jacobian, shape ``(k, n_joints)``.
            constraints: rows of this step; none is fine.
            mass_matrix: joint-space inertia M, shape ``(n_joints, n_joints)``; makes the projection of
                ``null_space_objective`` dynamically consistent, ``J# = M^-1 J^T (J M^-1 J^T)^-1``. None for
                the identity.

        Raises:
            ValueError: a shape is wrong, a number is not finite, or the mass matrix is not positive definite.
            ConcertoSafetyInfeasible: the solver failed; its ``status`` says how.
        """
        q_dot_nom = _finite_array("q_dot_nom", q_dot_nom, (self._n_joints,))
        nu_nom = _finite_array("nu_nom", nu_nom, (np.size(nu_nom),))
        jacobian = _finite_array("jacobian", jacobian, (len(nu_nom), self._n_joints))
        m = len(constraints.b)
        a = _finite_array("constraints.a", constraints.a, (m, self._n_joints))
        b = _finite_array("constraints.b", constraints.b, (m,))

        problem = self._problem
        if len(problem.h) != 2 * m:
            problem = self._problem = self._new_problem(m)
        n = self._n_joints
        joint_hessian = self._joint_hessian
        if self._null_space_objective:
            projection = self._null_space_projection(jacobian, mass_matrix)
            joint_hessian = projection.T @ joint_hessian @ projection
        task_transposed = self._operational_scale * jacobian.T
        # For matrices this small, ndarray.dot takes half the time of the @ operator.
        problem.P[:n, :n] = joint_hessian + task_transposed.dot(jacobian)
        problem.q[:n] = -(joint_hessian.dot(q_dot_nom) + task_transposed.dot(nu_nom))
        problem.G[:m, :n] = a
        problem.h[:m] = b

        x, solve_ms = self._solve(problem)
        return self._result(x[:n], x[n:], solve_ms)

    def _new_problem(self, m: int) -> _Problem:
        return _Problem(self._n_joints, m, slack_hessian=self._slack_hessian, slack_gradient=self._slack_gradient)

    def _null_space_projection(self, jacobian: FloatArray, mass_matrix: FloatArray | None) -> FloatArray:
        """Give ``N = I - J# J``, shape ``(n_joints, n_joints)``: the joint motions that leave the task alone.

        With ``M = L L^T`` and the singular value decomposition ``J L^-T = U S V^T`` it is ``I - L^-T V V^T L^T``;
        leaving out the vanishing singular values keeps it bounded at singular poses.
        """
        if mass_matrix is None:
            return np.eye(self._n_joints) - _row_space_projection(jacobian)
        mass_matrix = _finite_array("mass_matrix", mass_matrix, (self._n_joints, self._n_joints))
        try:
            factor = np.linalg.cholesky(mass_matrix)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"mass_matrix must be positive definite, got {mass_matrix}") from error
        inverse = np.linalg.inv(factor).T
        return np.eye(self._n_joints) - inverse @ _row_space_projection(jacobian @ inverse) @ factor.T

    def _solve(self, problem: _Problem) -> tuple[FloatArray, float]:
        if self._solver is not None:
            return self._solver.solve(problem.P, problem.q, problem.G, problem.h)
        started = time.perf_counter()
        x, _, exit_flag, _ = daqp.solve(
            problem.P,
            problem.q,
            problem.needed_G,
            problem.needed_h,
            problem.lower,
            problem.sense,
            primal_tol=1e-10,
            dual_tol=1e-12,
            # Rows that repeat or contradict each other differ only by 1/(2 rho): not to be taken for dependent.
            zero_tol=1e-14,
            sing_tol=1e-16,
        )
        if exit_flag != 1:
            # Slack makes every problem feasible; the active set cycled between such rows at a huge price.
            x, _ = ClarabelSolver().solve(problem.P, problem.q, problem.G, problem.h)
        return np.asarray(x), (time.perf_counter() - started) * 1e3

    def _result(self, q_dot: FloatArray, raw_slack: FloatArray, solve_ms: float) -> OSCBFResult:
        # Plain floats: for the few dozen rows of an arm, lists are faster than array reductions.
        values = raw_slack.tolist()
        smallest, largest = min(values, default=0.0), max(values, default=0.0)
        if smallest < _NEGATIVE_SLACK_WARNING:
            warnings.warn(f"solver returned slack down to {smallest:.3g}; clipped at 0", UserWarning, stacklevel=3)
        slack = np.maximum(raw_slack, 0.0)
        return OSCBFResult(
            q_dot,
            slack,
            solve_ms,
            active_rows=tuple(row for row, value in enumerate(values) if value > self._active_slack),
            max_slack=max(largest, 0.0),
            slack_l2=math.sqrt(slack.dot(slack)),
        )


def joint_limit_constraint_row(
    *, n_joints: int, joint_index: int, upper: float | None = None, lower: float | None = None
) -> tuple[FloatArray, float]:
    """Row that keeps the velocity of one joint below ``upper`` or above ``lower``.

    Args:
        n_joints: number of joints of the arm.
        joint_index: the joint, in ``[0, n_joints)``.
        upper: largest velocity, rad/s; the row is ``(+e_k, upper)``.
        lower: smallest velocity, rad/s; the row is ``(-e_k, -lower)``.

    Returns:
        The row, shape ``(n_joints,)``, and its right-hand side.

    Raises:
        ValueError: the index is out of range, or not exactly one finite bound is given.
    """
    if not 0 <= joint_index < n_joints:
        raise ValueError(f"joint_index must be in [0, {n_joints}), got {joint_index}")
    row = np.zeros(n_joints)
    if upper is not None and lower is None:
        row[joint_index] = 1.0
        return row, _finite_number("upper", upper)
    if lower is not None and upper is None:
        row[joint_index] = -1.0
        return row, -_finite_number("lower", lower)
    raise ValueError(f"exactly one of upper and lower must be given, got upper={upper} and lower={lower}")


def collision_constraint_row(
    *,
    n_joints: int,
    sphere_a_center: FloatArray,
    sphere_b_center: FloatArray,
    sphere_a_radius: float,
    sphere_b_radius: float,
    sphere_a_jacobian: FloatArray,
    sphere_b_jacobian: FloatArray | None = None,
    cbf_alpha: float = DEFAULT_CBF_ALPHA,
    lambda_ij: float = 0.0,
    coincident: Literal["zero_row", "separate"] = "zero_row",
) -> tuple[FloatArray, float]:
    """Row that keeps two spheres apart: ``h' >= -alpha h - lambda`` for their gap h.

    With ``h = |c_a - c_b| - (r_a + r_b)`` and the unit vector n from b to a, ``h' = n^T (J_a - J_b) qdot``,
    so the row is ``-n^T (J_a - J_b)`` and its right-hand side ``alpha h + lambda``, m/s. A positive lambda
    relaxes. It is a velocity: the slack of the outer filter is an acceleration and must not be passed on.

    Args:
        n_joints: number of joints; every Jacobian has as many columns.
        sphere_a_center: centre of a, shape ``(3,)``, m.
        sphere_b_center: centre of b, shape ``(3,)``, m.
        sphere_a_radius: radius of a, m, >= 0.
        sphere_b_radius: radius of b, m, >= 0.
        sphere_a_jacobian: position Jacobian of the centre of a, shape ``(3, n_joints)``.
        sphere_b_jacobian: the same for b; None for an obstacle that does not move.
        cbf_alpha: decay rate, 1/s, >= 0.
        lambda_ij: slack, m/s.
        coincident: what to do when the centres are closer than 1e-9 m and there is no direction:
            ``"zero_row"`` gives a zero row with right-hand side ``lambda_ij - 1``, which asks the joints for
            nothing and shows as slack; ``"separate"`` takes +x for n, which at least separates.

    Returns:
        The row, shape ``(n_joints,)``, and its right-hand side.

    Raises:
        ValueError: a shape is wrong, a number is not finite, or a radius or ``cbf_alpha`` is negative.
    """
    center_a = _finite_array("sphere_a_center", sphere_a_center, (3,))
    center_b = _finite_array("sphere_b_center", sphere_b_center, (3,))
    relative_jacobian = _finite_array("sphere_a_jacobian", sphere_a_jacobian, (3, n_joints))
    if sphere_b_jacobian is not None:
        relative_jacobian = relative_jacobian - _finite_array("sphere_b_jacobian", sphere_b_jacobian, (3, n_joints))
    radius_a = _finite_number("sphere_a_radius", sphere_a_radius, minimum=0.0)
    radius_b = _finite_number("sphere_b_radius", sphere_b_radius, minimum=0.0)
    alpha = _finite_number("cbf_alpha", cbf_alpha, minimum=0.0)
    slack = _finite_number("lambda_ij", lambda_ij)
    if coincident not in ("zero_row", "separate"):
        raise ValueError(f"coincident must be 'zero_row' or 'separate', got {coincident!r}")

    offset = center_a - center_b
    distance = math.sqrt(offset @ offset)
    if distance >= _COINCIDENT_DISTANCE:
        normal = offset / distance
    elif coincident == "separate":
        normal = np.array([1.0, 0.0, 0.0])
    else:
        return np.zeros(n_joints), slack - 1.0
    gap = distance - (radius_a + radius_b)
    return -(normal @ relative_jacobian), alpha * gap + slack


def _row_space_projection(matrix: FloatArray) -> FloatArray:
    """Projection onto the span of the rows; directions with a vanishing singular value are left out."""
    _, singular_values, right = np.linalg.svd(matrix, full_matrices=False)
    span = right[singular_values > _SINGULAR_RATIO * singular_values.max(initial=0.0)]
    return span.T @ span


def _finite_array(name: str, value: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    # One dot product notices NaN and infinity three times faster; only numbers near overflow need the second look.
    if not (math.isfinite(np.vdot(array, array)) or np.isfinite(array).all()):
        raise ValueError(f"{name} must be finite, got {array}")
    return array


def _finite_number(name: str, value: float, *, minimum: float = -math.inf) -> float:
    if not (math.isfinite(value) and value >= minimum):
        expected = "finite" if minimum == -math.inf else f"finite and >= {minimum:g}"
        raise ValueError(f"{name} must be {expected}, got {value}")
    return float(value)
