"""Kuramoto networks with dense coupling, phase lags and an external drive.

``d theta_i / dt = omega_i + sum_j K_ij sin(theta_j - theta_i - alpha_ij) + zeta_i sin(Psi_i - theta_i)``
(Kuramoto 1975; Sakaguchi and Kuramoto 1986). The sine of a difference is split into products, so that a step takes n
sines and two matrix-vector products instead of n^2 sines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from scpn_phase_orchestrator._arrays import FloatArray, real_array, square_coupling, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.upde._engine_base import OmegaSource, PhaseEngine, aligned_zeros, padded
from scpn_phase_orchestrator.upde._kernels_elementary import (
    LARGEST_PHASE,
    are_known_inputs,
    differ,
    stays_below,
)
from scpn_phase_orchestrator.upde._kernels_products import DenseCoupling, split_matrices
from scpn_phase_orchestrator.upde._kernels_threads import ThreadedProducts, choose_threads

__all__ = [
    "ACTIVE_BACKEND",
    "AVAILABLE_BACKENDS",
    "PreparedCoupling",
    "UPDEEngine",
    "upde_run",
    "upde_run_omega_schedule",
]

AVAILABLE_BACKENDS: tuple[str, ...] = ("numba",)
"""Ways to compute a step that this installation has."""

ACTIVE_BACKEND: str = "numba"
"""The way in use: named here and recorded in run headers, never chosen by a measurement."""

_LARGEST_KEPT_SIZE = 1024
_SMALLEST_SIZE_PROBED = 2000
_SHORTEST_RUN_PROBED = 20
_NO_MATRIX = np.zeros((0, 0))
_FLOAT64 = np.dtype(np.float64)
_STORAGE = (_FLOAT64, np.dtype(np.float32))


@dataclass(frozen=True, eq=False)
class PreparedCoupling:
    """Checked coupling in the form in which engines use it: ``A = K cos(alpha)`` and ``B = K sin(alpha)``.

    Make it once with `from_matrices` and use it for many steps. The arrays are the engine's: do not change them.

    Attributes:
        n: Number of oscillators.
        coupling: A and B, transposed and padded; B is empty when all lags are zero.
    """

    n: int
    coupling: DenseCoupling

    @classmethod
    def from_matrices(
        cls, knm: ArrayLike, alpha: ArrayLike | None = None, *, dtype: DTypeLike = np.float64
    ) -> PreparedCoupling:
        """Check and split the matrices.

        Args:
            knm: Coupling ``(n, n)`` in rad/s, row = receiver, zero diagonal.
            alpha: Phase lags ``(n, n)`` in rad; None for none.
            dtype: Storage of A and B, float64 or float32. float32 halves what a step reads and rounds each entry
                by up to 6e-8 of its size; phases and sums stay float64.

        Raises:
            ValueError: for shapes that do not fit, values that are not finite numbers, a diagonal entry above 1e-15,
                or another dtype.
        """
        storage = np.dtype(dtype)
        if storage not in _STORAGE:
            raise ValueError(f"dtype must be float64 or float32, got {storage}")
        strengths = square_coupling("knm", knm)
        n = len(strengths)
        lags = _NO_MATRIX if alpha is None else real_array("alpha", alpha, (n, n))
        if stays_below(lags.reshape(-1), 0.0):
            lags = _NO_MATRIX
        elif not stays_below(lags.reshape(-1), LARGEST_PHASE):
            lags = np.mod(lags, TWO_PI)
        shape = (n, padded(n))
        cosine_part = aligned_zeros(shape, storage)
        sine_part = aligned_zeros(shape if lags.size else (0, 0), storage)
        split_matrices(strengths, lags, cosine_part, sine_part)
        return cls(n, DenseCoupling(cosine_part, sine_part))

    @property
    def has_lags(self) -> bool:
        """Whether any lag differs from zero."""
        return self.coupling.sine_part.shape[0] > 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Storage type of the matrices."""
        return self.coupling.cosine_part.dtype

    @property
    def cosine_part(self) -> NDArray[Any]:
        """``A = K cos(alpha)``, ``(n, n)``, row = receiver (a view)."""
        return self.coupling.cosine_part[:, : self.n].T

    @property
    def sine_part(self) -> NDArray[Any]:
        """``B = K sin(alpha)``, ``(n, n)``, row = receiver (a view; zeros without lags)."""
        return self.coupling.sine_part[:, : self.n].T if self.has_lags else np.zeros((self.n, self.n), self.dtype)


class UPDEEngine(PhaseEngine):
    """Integrator of a densely coupled network.

    Args:
        n_oscillators: Number n of oscillators.
        dt: Length of a step in seconds.
        method: ``euler``, ``rk4`` (classic Runge-Kutta) or ``rk45`` (Dormand-Prince 1980 with step control inside each
            step; it always ends exactly ``dt`` later and starts each step afresh, so that a step depends on its inputs
            alone).
        atol: Absolute tolerance of rk45 in rad.
        rtol: Relative tolerance of rk45.
        omega: Natural frequencies ``(n,)`` in rad/s, or a function of time that returns them, for calls without
            ``omegas``. A function is sampled at the start of each step.
        t0: Time at the start in seconds.
        substeps: Equal parts of each step; phases are wrapped once per step.
        dtype: Storage of the matrices, float64 or float32 (see `PreparedCoupling.from_matrices`).
        threads: Threads that share a step. None means one below 2,000 oscillators; above, a short probe at the first
            long run decides between one and all. The number changes no bit. Two threads suffer when another process
            keeps a processor busy.

    Raises:
        ValueError: for an argument out of range, or an unknown method, naming those that exist.

    Examples:
        >>> import numpy as np
        >>> engine = UPDEEngine(2, dt=0.01)
        >>> knm = np.array([[0.0, 0.5], [0.5, 0.0]])
        >>> engine.step([0.0, np.pi / 2], [1.0, 2.0], knm, alpha=np.zeros((2, 2))).round(12)
        array([0.015     , 1.58579633])
    """

    def __init__(
        self,
        n_oscillators: int,
        dt: float,
        method: str = "euler",
        atol: float = 1e-6,
        rtol: float = 1e-3,
        *,
        omega: OmegaSource | None = None,
        t0: float = 0.0,
        substeps: int = 1,
        dtype: DTypeLike = np.float64,
        threads: int | None = None,
    ) -> None:
        super().__init__(n_oscillators, dt, method, atol, rtol, omega=omega, t0=t0, substeps=substeps)
        self._dtype = np.dtype(dtype)
        if self._dtype not in _STORAGE:
            raise ValueError(f"dtype must be float64 or float32, got {self._dtype}")
        self._threads = 1 if threads is None and self._n < _SMALLEST_SIZE_PROBED else threads
        if threads is not None:
            whole_number("threads", threads, minimum=1)
        self._matrix_shape = (self._n, self._n)
        self._kept_knm: FloatArray = _NO_MATRIX
        self._kept_alpha: FloatArray = _NO_MATRIX
        self._kept: PreparedCoupling | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Storage type of the matrices."""
        return self._dtype

    @property
    def threads(self) -> int | None:
        """Threads that share a step; None before the probe."""
        return self._threads

    def step(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None = None,
        knm: ArrayLike | PreparedCoupling | None = None,
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha: ArrayLike | None = None,
    ) -> FloatArray:
        """Advance phases by ``dt``.

        Args:
            phases: ``(n,)`` in rad.
            omegas: Natural frequencies ``(n,)`` in rad/s; None for the engine's own.
            knm: Coupling ``(n, n)`` in rad/s, row = receiver, zero diagonal; or a `PreparedCoupling` (then without
                ``alpha``).
            zeta: Drive strength in rad/s, one or ``(n,)``.
            psi: Drive phase in rad, one or ``(n,)``.
            alpha: Phase lags ``(n, n)`` in rad.

        Returns:
            New phases ``(n,)`` in [0, 2 pi).

        Raises:
            ValueError: for a missing argument, a shape that does not fit, or values that are not finite numbers.
            EngineError: when the integration diverges, naming step and norm.
        """
        with self._lock:
            if self._kept is not None and self._are_known(phases, omegas, knm, zeta, psi, alpha):
                return self.advance(cast("FloatArray", phases), cast("FloatArray", omegas), self._kept, zeta, psi)
            return self.run(phases, omegas, knm, zeta, psi, alpha)

    def run(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None = None,
        knm: ArrayLike | PreparedCoupling | None = None,
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha: ArrayLike | None = None,
        n_steps: int = 1,
    ) -> FloatArray:
        """Advance phases by ``n_steps`` steps, with the bits of as many calls of `step`; 0 steps give a copy.

        Arguments, result and errors are those of `step`; ``n_steps`` is at least 0.
        """
        with self._lock:
            return self._integrate(phases, omegas, self._prepared(knm, alpha), zeta, psi, n_steps)

    def _shared(self, coupling: DenseCoupling, n_steps: int) -> DenseCoupling | ThreadedProducts:
        if self._threads is None and n_steps >= _SHORTEST_RUN_PROBED:
            self._threads = choose_threads(coupling)
        return ThreadedProducts(coupling, self._threads) if self._threads and self._threads > 1 else coupling

    def _are_known(self, phases: Any, omegas: Any, knm: Any, zeta: Any, psi: Any, alpha: Any) -> bool:
        """Whether one compiled look at plain arrays can replace the checks: the matrices are those of the last call."""
        return (
            type(zeta) is float
            and math.isfinite(zeta)
            and type(psi) is float
            and -LARGEST_PHASE <= psi <= LARGEST_PHASE
            and _is_plain(phases, self._shape)
            and _is_plain(omegas, self._shape)
            and _is_plain(knm, self._matrix_shape)
            and _is_plain(alpha, self._matrix_shape)
            and are_known_inputs(phases, omegas, knm, alpha, self._kept_knm, self._kept_alpha)
        )

    def _prepared(self, knm: ArrayLike | PreparedCoupling | None, alpha: ArrayLike | None) -> PreparedCoupling:
        if knm is None:
            raise ValueError("knm is required")
        if isinstance(knm, PreparedCoupling):
            if alpha is not None:
                raise ValueError("alpha must be None with a PreparedCoupling, which holds the lags already")
            if knm.n != self._n:
                raise ValueError(f"knm must couple {self._n} oscillators, got a PreparedCoupling of {knm.n}")
            return knm
        if alpha is None:
            raise ValueError("alpha is required (zeros for no lag)")
        strengths = real_array("knm", knm, self._matrix_shape)
        lags = real_array("alpha", alpha, self._matrix_shape)
        if (
            self._kept is not None
            and not differ(strengths.reshape(-1), self._kept_knm.reshape(-1))
            and not differ(lags.reshape(-1), self._kept_alpha.reshape(-1))
        ):
            return self._kept
        prepared = PreparedCoupling.from_matrices(strengths, lags, dtype=self._dtype)
        if self._n <= _LARGEST_KEPT_SIZE:
            self._kept, self._kept_knm, self._kept_alpha = prepared, strengths.copy(), lags.copy()
        return prepared


def _is_plain(value: Any, shape: tuple[int, ...]) -> bool:
    return type(value) is np.ndarray and value.dtype == _FLOAT64 and value.shape == shape and value.flags.carray


def upde_run(
    phases: ArrayLike,
    omegas: ArrayLike,
    knm: ArrayLike | PreparedCoupling,
    alpha: ArrayLike | None,
    zeta: ArrayLike,
    psi: ArrayLike,
    dt: float,
    n_steps: int,
    method: str = "euler",
    n_substeps: int = 1,
    atol: float = 1e-6,
    rtol: float = 1e-3,
) -> FloatArray:
    """Advance phases by ``n_steps`` steps of ``dt`` and return the last ones; arguments as for `UPDEEngine`."""
    engine = UPDEEngine(np.size(phases), dt, method, atol, rtol, substeps=n_substeps)
    return engine.run(phases, omegas, knm, zeta, psi, alpha, n_steps)


def upde_run_omega_schedule(
    phases: ArrayLike,
    omega_schedule: ArrayLike,
    knm: ArrayLike | PreparedCoupling,
    alpha: ArrayLike | None,
    zeta: ArrayLike,
    psi: ArrayLike,
    dt: float,
    n_steps: int,
    method: str = "euler",
    n_substeps: int = 1,
    atol: float = 1e-6,
    rtol: float = 1e-3,
) -> FloatArray:
    """Like `upde_run`, with one row of natural frequencies per step: ``omega_schedule`` has shape ``(n_steps, n)``."""
    n = np.size(phases)
    rows = iter(real_array("omega_schedule", omega_schedule, (whole_number("n_steps", n_steps), n)))
    engine = UPDEEngine(n, dt, method, atol, rtol, omega=lambda _: next(rows), substeps=n_substeps)
    return engine.run(phases, None, knm, zeta, psi, alpha, n_steps)
