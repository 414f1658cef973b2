"""What all phase engines share: time, frequencies, checked vectors, scratch memory, and the call into compiled code."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator._arrays import (
    FloatArray,
    positive_number,
    real_array,
    real_scalar,
    scalar_or_vector,
    whole_number,
)
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde import _kernels
from scpn_phase_orchestrator.upde._kernels_elementary import LARGEST_PHASE
from scpn_phase_orchestrator.upde.numerics import known_method

__all__ = ["OmegaSource", "PhaseEngine", "Prepared", "aligned_zeros", "padded", "within_range"]

OmegaSource = ArrayLike | Callable[[float], ArrayLike]

_LANES = 8
_CACHE_LINE = 64
_INTEGRATORS = {
    "euler": _kernels.integrate_euler,
    "rk4": _kernels.integrate_rk4,
    "rk45": _kernels.integrate_rk45,
}


def padded(n: int) -> int:
    """Round up to whole vector registers."""
    return -(-n // _LANES) * _LANES


def aligned_zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """Zeros that start on a cache line, so that no vector load of a padded row crosses one."""
    item = np.dtype(dtype).itemsize
    count = math.prod(shape)
    raw = np.zeros(count + _CACHE_LINE // item, dtype)
    offset = (-raw.__array_interface__["data"][0] % _CACHE_LINE) // item
    return raw[offset : offset + count].reshape(shape)


class Prepared(Protocol):
    """Checked coupling; engines look at ``coupling`` only."""

    @property
    def coupling(self) -> Any:
        """The tuple that compiled code reads."""
        ...


class PhaseEngine:
    """State and checks of an engine; a subclass says how its oscillators are coupled.

    One engine may be called from several threads: calls wait for each other.
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
    ) -> None:
        self._n = whole_number("n_oscillators", n_oscillators, minimum=1)
        self._shape = (self._n,)
        self._dt = positive_number("dt", dt)
        self._method = known_method(method)
        self._atol = positive_number("atol", atol)
        self._rtol = positive_number("rtol", rtol)
        self._substeps = whole_number("substeps", substeps, minimum=1)
        self._start = real_scalar("t0", t0)
        self._omega = omega if omega is None or callable(omega) else self._vector(omega, "omega").copy()
        self._n_steps_done = 0
        self._last_dt = self._dt
        self._lock = threading.RLock()
        self._integrator = _INTEGRATORS[self._method]
        self._work: FloatArray = aligned_zeros((_kernels.WORK_ROWS[self._method], padded(self._n)))
        self._report: FloatArray = np.zeros(3)
        self._zeta: FloatArray = np.zeros(1)
        self._psi: FloatArray = np.zeros(1)

    @property
    def n_oscillators(self) -> int:
        """Number of oscillators."""
        return self._n

    @property
    def dt(self) -> float:
        """Length of a step in seconds."""
        return self._dt

    @property
    def method(self) -> str:
        """Name of the integration method."""
        return self._method

    @property
    def substeps(self) -> int:
        """Equal parts of each step."""
        return self._substeps

    @property
    def time(self) -> float:
        """Time reached, in seconds."""
        return self._time_of(self._n_steps_done)

    @property
    def last_dt(self) -> float:
        """Length of the last internal step in seconds: ``dt / substeps``, or what rk45 chose."""
        return self._last_dt

    @property
    def omega_current(self) -> FloatArray | None:
        """Natural frequencies ``(n,)`` of the engine at its present time; None if it was given none."""
        if self._omega is None:
            return None
        return self._vector(self._omega(self.time), "omega(t)").copy() if callable(self._omega) else self._omega.copy()

    def advance(
        self, phases: FloatArray, omegas: FloatArray, prepared: Prepared, zeta: ArrayLike, psi: ArrayLike
    ) -> FloatArray:
        """Advance phases by ``dt`` without checks, with the bits of ``step``.

        Args:
            phases: ``(n,)`` contiguous float64, finite, within 2^30 rad.
            omegas: ``(n,)`` contiguous float64, finite.
            prepared: The checked coupling of these n oscillators.
            zeta: One float, or ``(n,)`` contiguous float64.
            psi: One float, or ``(n,)`` contiguous float64, within 2^30 rad.

        Raises:
            EngineError: when the integration diverges, naming step and norm.
        """
        with self._lock:
            if isinstance(zeta, np.ndarray):
                strengths = zeta
            else:
                strengths = self._zeta
                strengths[0] = zeta
            if isinstance(psi, np.ndarray):
                drive_phases = psi
            else:
                drive_phases = self._psi
                drive_phases[0] = psi
            return self._advance(prepared.coupling, phases, omegas.reshape(1, -1), strengths, drive_phases, 1)

    def _integrate(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None,
        prepared: Prepared,
        zeta: ArrayLike,
        psi: ArrayLike,
        n_steps: int,
    ) -> FloatArray:
        """Check the vectors and integrate; the caller holds the lock."""
        whole_number("n_steps", n_steps)
        checked = self._phases(phases)
        frequencies = self._frequencies(omegas, n_steps)
        strengths, drive_phases = self._drive(zeta, psi)
        if n_steps == 0:
            return np.array(phases, np.float64)
        coupling = self._shared(prepared.coupling, n_steps)
        return self._advance(coupling, checked, frequencies, strengths, drive_phases, n_steps)

    def _shared(self, coupling: Any, n_steps: int) -> Any:
        """Coupling as the integrator gets it; engines that use threads hand out a shared one."""
        return coupling

    def _advance(
        self, coupling: Any, phases: FloatArray, omegas: FloatArray, zeta: FloatArray, psi: FloatArray, n_steps: int
    ) -> FloatArray:
        """Integrate checked inputs; ``omegas`` has one row, or one per step."""
        out = np.empty(self._n)
        # Coupling shared among threads runs the same source interpreted.
        integrate = self._integrator if isinstance(coupling, tuple) else self._integrator.py_func
        failed = integrate(
            coupling, phases, omegas, zeta, psi, out, self._work, self._report,
            self._dt, n_steps, self._substeps, self._atol, self._rtol,
        )  # fmt: skip
        if failed >= 0:
            raise self._error(failed)
        if n_steps > 0:
            self._last_dt = float(self._report[1])
        self._n_steps_done += n_steps
        return out

    def _restart(self, n_steps_done: int) -> None:
        """Count steps and time from there (for engines that others advance for their own runs)."""
        self._n_steps_done = n_steps_done

    def _time_of(self, step: int) -> float:
        # A product, not a running sum: a run has to sample omega(t) where as many single steps do.
        return self._start + step * self._dt

    def _error(self, failed: int) -> EngineError:
        step = self._n_steps_done + failed
        where = f"{self._method} at step {step} (t = {self._time_of(step):.6g} s, dt = {self._dt:g} s)"
        if self._report[2]:
            return EngineError(
                f"{where} needs more than {_kernels.LARGEST_NUMBER_OF_ATTEMPTS} internal steps (the last was "
                f"{self._report[1]:.3g} s) to keep atol = {self._atol:g}, rtol = {self._rtol:g}; use a shorter dt or a "
                f"looser tolerance"
            )
        return EngineError(
            f"{where} diverged: the norm max |phase| before wrapping is {self._report[0]:.6g} rad, at most "
            f"{LARGEST_PHASE:.6g} is meaningful; use a shorter dt, or smaller frequencies, coupling or drive"
        )

    def _frequencies(self, omegas: ArrayLike | None, n_steps: int) -> FloatArray:
        """Rows of natural frequencies: the argument, the engine's own, or its function sampled at every step."""
        if omegas is not None:
            return self._vector(omegas, "omegas").reshape(1, -1)
        if self._omega is None:
            raise ValueError("omegas is required: the engine was made without omega")
        if not callable(self._omega):
            return self._omega.reshape(1, -1)
        moments = (self._time_of(self._n_steps_done + k) for k in range(n_steps))
        rows = [self._vector(self._omega(moment), "omega(t)") for moment in moments]
        return np.array(rows) if rows else np.zeros((1, self._n))

    def _phases(self, phases: ArrayLike) -> FloatArray:
        return within_range(self._vector(phases, "phases"))

    def _vector(self, value: ArrayLike, name: str) -> FloatArray:
        return real_array(name, value, self._shape)

    def _number_or_vector(self, value: ArrayLike, name: str, kept: FloatArray) -> FloatArray:
        """Return one number in ``kept`` ``(1,)``, or one value per oscillator."""
        number_or_vector = scalar_or_vector(name, value, self._n)
        if isinstance(number_or_vector, np.ndarray):
            return number_or_vector
        kept[0] = number_or_vector
        return kept

    def _drive(self, zeta: ArrayLike, psi: ArrayLike) -> tuple[FloatArray, FloatArray]:
        strengths = self._number_or_vector(zeta, "zeta", self._zeta)
        return strengths, within_range(self._number_or_vector(psi, "psi", self._psi))


def within_range(angles: FloatArray) -> FloatArray:
    """Angles whose sines are accurate: as given, or folded by whole turns when one is very large."""
    return angles if np.abs(angles).max() <= LARGEST_PHASE else np.mod(angles, TWO_PI)
