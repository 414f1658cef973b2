"""What a coupling matrix must look like, as projections onto the nearest matrix that does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, real_array, square_coupling

__all__ = [
    "CONSTRAINTS",
    "GeometryConstraint",
    "NonNegativeConstraint",
    "SymmetryConstraint",
    "constraints_from_type",
    "project_knm",
    "validate_knm",
]


class GeometryConstraint(ABC):
    """One property of a coupling matrix.

    Attributes:
        name: how records and specs call it.
    """

    name: ClassVar[str]

    @abstractmethod
    def project(self, knm: FloatArray) -> FloatArray:
        """Give the nearest matrix (in the Frobenius norm) that has the property; the input stays as it is."""

    @abstractmethod
    def is_met(self, knm: FloatArray, atol: float = 1e-12) -> bool:
        """Tell whether the matrix has the property, up to ``atol`` per entry."""


class SymmetryConstraint(GeometryConstraint):
    """Influence is mutual: ``K_ij = K_ji``; projects to ``(K + Kᵀ)/2``."""

    name = "symmetric"

    def project(self, knm: FloatArray) -> FloatArray:
        """Give ``(K + Kᵀ)/2``."""
        return (knm + knm.T) * 0.5

    def is_met(self, knm: FloatArray, atol: float = 1e-12) -> bool:
        """Tell whether no entry differs from its mirror by more than ``atol``."""
        return bool(np.abs(knm - knm.T).max(initial=0.0) <= atol)


class NonNegativeConstraint(GeometryConstraint):
    """Nobody repels: ``K_ij ≥ 0``; projects to ``max(K, 0)``."""

    name = "non_negative"

    def project(self, knm: FloatArray) -> FloatArray:
        """Give ``max(K, 0)``."""
        return np.maximum(knm, 0.0)

    def is_met(self, knm: FloatArray, atol: float = 1e-12) -> bool:
        """Tell whether no entry lies below ``−atol``."""
        return bool(knm.min(initial=0.0) >= -atol)


CONSTRAINTS: dict[str, GeometryConstraint] = {
    constraint.name: constraint for constraint in (SymmetryConstraint(), NonNegativeConstraint())
}
"""Every constraint by its name."""


def constraints_from_type(constraint_type: str) -> tuple[GeometryConstraint, ...]:
    """Read the ``constraint_type`` of a spec's geometry prior.

    Any case. A text with ``symmetric`` asks for symmetry, one with ``non_negative`` or ``nonneg`` for entries that
    are not negative; ``symmetric_non_negative`` asks for both, symmetry first.

    Raises:
        ValueError: the text asks for neither.

    Examples:
        >>> [constraint.name for constraint in constraints_from_type("symmetric_non_negative")]
        ['symmetric', 'non_negative']
    """
    text = constraint_type.lower()
    found: list[GeometryConstraint] = []
    if "symmetric" in text:
        found.append(CONSTRAINTS["symmetric"])
    if "non_negative" in text or "nonneg" in text:
        found.append(CONSTRAINTS["non_negative"])
    if not found:
        raise ValueError(
            f"geometry constraint_type must name symmetric, non_negative or symmetric_non_negative, "
            f"got {constraint_type!r}"
        )
    return tuple(found)


def project_knm(knm: FloatArray, constraints: Sequence[GeometryConstraint]) -> FloatArray:
    """Apply the constraints in order, then zero the diagonal.

    Args:
        knm: ``(n, n)``; stays as it is.
        constraints: what the result must look like.

    Raises:
        ValueError: a matrix that is not square or not finite.
    """
    projected = real_array("knm", knm, (None, None)).copy()
    if projected.shape[0] != projected.shape[1]:
        raise ValueError(f"knm must be square, got {projected.shape}")
    for constraint in constraints:
        projected = constraint.project(projected)
    np.fill_diagonal(projected, 0.0)
    return projected


def validate_knm(knm: object, constraints: Sequence[GeometryConstraint] = ()) -> FloatArray:
    """Check a coupling matrix and give it as a float64 array.

    Raises:
        ValueError: not square, not finite, a diagonal other than zero, or a constraint that does not hold.
    """
    matrix = square_coupling("knm", knm)
    for constraint in constraints:
        if not constraint.is_met(matrix):
            raise ValueError(f"knm must be {constraint.name.replace('_', '-')}")
    return matrix
