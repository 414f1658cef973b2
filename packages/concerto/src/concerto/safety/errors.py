"""The failure of a safety filter that its caller must answer."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ConcertoSafetyInfeasible", "SolveStatus"]


class SolveStatus(StrEnum):
    """Why a quadratic program has no usable answer."""

    INFEASIBLE = "infeasible"
    """No action satisfies every row and the box: brake."""
    ITERATION_LIMIT = "iteration_limit"
    """The solver ran out of iterations before it could decide: brake, and look at the scaling of the problem."""
    NUMERICAL_FAILURE = "numerical_failure"
    """The solver gave up or returned an answer that violates its own rows: brake, and report the problem."""


class ConcertoSafetyInfeasible(RuntimeError):  # noqa: N818 - the documented name has no Error suffix
    """The filter has no safe action to return; the caller must brake instead.

    Attributes:
        status: what went wrong; only `SolveStatus.INFEASIBLE` says that no safe action exists.
    """

    def __init__(self, message: str, *, status: SolveStatus = SolveStatus.INFEASIBLE) -> None:
        super().__init__(message)
        self.status = status
