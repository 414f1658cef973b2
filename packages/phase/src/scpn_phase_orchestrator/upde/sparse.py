"""Kuramoto networks with sparse coupling in compressed rows: a step reads each edge once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from scpn_phase_orchestrator._arrays import LARGEST_DIAGONAL, FloatArray, real_array, square_coupling
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.upde._engine_base import PhaseEngine
from scpn_phase_orchestrator.upde._kernels_elementary import LARGEST_PHASE, stays_below
from scpn_phase_orchestrator.upde._kernels_products import SparseCoupling, split_values

__all__ = ["PreparedSparseCoupling", "SparseUPDEEngine"]

_STORAGE = (np.dtype(np.float64), np.dtype(np.float32))


@dataclass(frozen=True, eq=False)
class PreparedSparseCoupling:
    """Checked sparse coupling in the form in which the engine uses it.

    Attributes:
        n: Number of oscillators.
        coupling: Rows with ascending columns and their ``K cos(alpha)`` and ``K sin(alpha)``; the latter is empty when
            all lags are zero.
    """

    n: int
    coupling: SparseCoupling

    @classmethod
    def from_rows(
        cls,
        row_ptr: ArrayLike,
        col_indices: ArrayLike,
        knm_values: ArrayLike,
        alpha_values: ArrayLike | None = None,
        *,
        dtype: DTypeLike = np.float64,
    ) -> PreparedSparseCoupling:
        """Check and split compressed rows (CSR).

        Args:
            row_ptr: ``(n + 1,)`` whole numbers: the edges into oscillator i are ``row_ptr[i]`` to
                ``row_ptr[i + 1] - 1``.
            col_indices: ``(edges,)`` the oscillator from which each edge comes.
            knm_values: ``(edges,)`` strengths in rad/s.
            alpha_values: ``(edges,)`` lags in rad; None for none.
            dtype: Storage of the values, float64 or float32.

        Raises:
            ValueError: for pointers that do not describe rows, columns out of range, a self-edge above 1e-15, shapes
                that do not fit, or values that are not finite numbers.
        """
        storage = np.dtype(dtype)
        if storage not in _STORAGE:
            raise ValueError(f"dtype must be float64 or float32, got {storage}")
        pointers, columns = _whole_numbers(row_ptr, "row_ptr"), _whole_numbers(col_indices, "col_indices")
        strengths = real_array("knm_values", knm_values, (columns.size,))
        if pointers.size < 2:
            raise ValueError(f"row_ptr must have shape (n + 1,) with n >= 1, got {pointers.shape}")
        n, edges = pointers.size - 1, columns.size
        if pointers[0] != 0 or pointers[-1] != edges or (np.diff(pointers) < 0).any():
            raise ValueError(f"row_ptr must rise from 0 to {edges} edges, got {pointers[0]} to {pointers[-1]}")
        if edges and not (columns.min() >= 0 and columns.max() < n):
            raise ValueError(f"col_indices must lie in 0..{n - 1}, got {columns.min()} to {columns.max()}")
        lags = None if alpha_values is None else real_array("alpha_values", alpha_values, (edges,))
        rows = np.repeat(np.arange(n), np.diff(pointers))
        self_edges = np.flatnonzero((rows == columns) & (np.abs(strengths) > LARGEST_DIAGONAL))
        if self_edges.size:
            worst = int(self_edges[0])
            raise ValueError(f"knm_values must hold no self-coupling, got {strengths[worst]:g} at {rows[worst]}")
        if ((np.diff(columns) < 0) & (np.diff(rows) == 0)).any():
            order = np.lexsort((columns, rows))
            columns, strengths = columns[order], strengths[order]
            lags = None if lags is None else lags[order]
        return cls(n, _split(pointers, columns, strengths, lags, storage))

    @classmethod
    def from_matrices(
        cls, knm: ArrayLike, alpha: ArrayLike | None = None, *, dtype: DTypeLike = np.float64
    ) -> PreparedSparseCoupling:
        """Take the entries that are not zero from dense matrices ``(n, n)``, row = receiver."""
        strengths = square_coupling("knm", knm)
        lags = None if alpha is None else real_array("alpha", alpha, strengths.shape)
        rows, columns = np.nonzero(strengths)
        pointers = np.searchsorted(rows, np.arange(strengths.shape[0] + 1))
        values = None if lags is None else lags[rows, columns]
        return cls.from_rows(pointers, columns, strengths[rows, columns], values, dtype=dtype)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.coupling.col_indices.size


class SparseUPDEEngine(PhaseEngine):
    """Integrator of a sparsely coupled network; arguments and properties as for `UPDEEngine`, without threads.

    Where rows hold the nonzero entries of a dense matrix, the results have the bits of the dense engine.

    Examples:
        >>> import numpy as np
        >>> engine = SparseUPDEEngine(2, dt=0.01)
        >>> engine.step([0.0, np.pi / 2], [1.0, 2.0], [0, 1, 2], [1, 0], [0.5, 0.5]).round(12)
        array([0.015     , 1.58579633])
    """

    def step(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None = None,
        row_ptr: ArrayLike | PreparedSparseCoupling | None = None,
        col_indices: ArrayLike | None = None,
        knm_values: ArrayLike | None = None,
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha_values: ArrayLike | None = None,
    ) -> FloatArray:
        """Advance phases by ``dt``.

        Args:
            phases: ``(n,)`` in rad.
            omegas: Natural frequencies ``(n,)`` in rad/s; None for the engine's own.
            row_ptr: ``(n + 1,)`` starts of the rows, or a `PreparedSparseCoupling` (then without the other three).
            col_indices: ``(edges,)`` senders.
            knm_values: ``(edges,)`` strengths in rad/s.
            zeta: Drive strength in rad/s, one or ``(n,)``.
            psi: Drive phase in rad, one or ``(n,)``.
            alpha_values: ``(edges,)`` lags in rad; None for none.

        Returns:
            New phases ``(n,)`` in [0, 2 pi).

        Raises:
            ValueError: for a missing argument, a shape that does not fit, or values that are not finite numbers.
            EngineError: when the integration diverges, naming step and norm.
        """
        return self.run(phases, omegas, row_ptr, col_indices, knm_values, zeta, psi, alpha_values)

    def run(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None = None,
        row_ptr: ArrayLike | PreparedSparseCoupling | None = None,
        col_indices: ArrayLike | None = None,
        knm_values: ArrayLike | None = None,
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha_values: ArrayLike | None = None,
        n_steps: int = 1,
    ) -> FloatArray:
        """Advance phases by ``n_steps`` steps, with the bits of as many calls of `step`; 0 steps give a copy."""
        prepared = self._prepared(row_ptr, col_indices, knm_values, alpha_values)
        with self._lock:
            return self._integrate(phases, omegas, prepared, zeta, psi, n_steps)

    def _prepared(
        self,
        row_ptr: ArrayLike | PreparedSparseCoupling | None,
        col_indices: ArrayLike | None,
        knm_values: ArrayLike | None,
        alpha_values: ArrayLike | None,
    ) -> PreparedSparseCoupling:
        if row_ptr is None:
            raise ValueError("row_ptr is required")
        if isinstance(row_ptr, PreparedSparseCoupling):
            if any(value is not None for value in (col_indices, knm_values, alpha_values)):
                raise ValueError("a PreparedSparseCoupling comes without col_indices, knm_values and alpha_values")
            prepared = row_ptr
        else:
            if col_indices is None:
                raise ValueError("col_indices is required")
            if knm_values is None:
                raise ValueError("knm_values is required")
            prepared = PreparedSparseCoupling.from_rows(row_ptr, col_indices, knm_values, alpha_values)
        if prepared.n != self._n:
            raise ValueError(f"row_ptr must have shape ({self._n + 1},), got ({prepared.n + 1},)")
        return prepared


def _whole_numbers(value: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of whole numbers, got shape {array.shape} and dtype {array.dtype}")
    return array.astype(np.int64)


def _split(
    pointers: NDArray[np.int64],
    columns: NDArray[np.int64],
    strengths: FloatArray,
    lags: FloatArray | None,
    storage: np.dtype[Any],
) -> SparseCoupling:
    if lags is None or stays_below(lags, 0.0):
        return SparseCoupling(pointers, columns.astype(np.int32), strengths.astype(storage), np.zeros(0, storage))
    cosine_part, sine_part = np.empty(columns.size, storage), np.empty(columns.size, storage)
    folded = lags if stays_below(lags, LARGEST_PHASE) else np.mod(lags, TWO_PI)
    split_values(strengths, folded, cosine_part, sine_part)
    return SparseCoupling(pointers, columns.astype(np.int32), cosine_part, sine_part)
