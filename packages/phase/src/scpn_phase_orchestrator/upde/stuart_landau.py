"""Networks of Stuart-Landau oscillators: phases as in the Kuramoto engine, and an amplitude each."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, hypot, isfinite

import numpy as np

from scpn_phase_orchestrator._arrays import (
    FloatArray,
    positive_number,
    real_array,
    real_scalar,
    scalar_or_vector,
    square_coupling,
    whole_number,
)
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde import _amplitude_kernels as kernels
from scpn_phase_orchestrator.upde.numerics import known_method

__all__ = ["DIVERGENCE_LIMIT", "PreparedAmplitudeCoupling", "StuartLandauEngine"]

DIVERGENCE_LIMIT = 1e9
"""Largest phase advance in rad or amplitude of one step that still counts as a solution."""

_METHODS = {"euler": kernels.advance_euler, "rk4": kernels.advance_rk4, "rk45": kernels.advance_rk45}


@dataclass(frozen=True, slots=True, eq=False)
class PreparedAmplitudeCoupling:
    """Coupling matrices that were checked once and split for the compiled step.

    With ``K`` the phase coupling, ``L`` the amplitude coupling and ``α`` the lag, all transposed and C-contiguous.

    Attributes:
        phase_cosine: ``(K cos α)ᵀ``, ``(n, n)``.
        phase_sine: ``(K sin α)ᵀ``, or ``(0, 0)`` when every lag is zero.
        amplitude_cosine: ``(L cos α)ᵀ``, ``(n, n)``.
        amplitude_sine: ``(L sin α)ᵀ``, or ``(0, 0)`` when every lag is zero.
    """

    phase_cosine: FloatArray
    phase_sine: FloatArray
    amplitude_cosine: FloatArray
    amplitude_sine: FloatArray

    @classmethod
    def from_matrices(cls, knm: object, knm_r: object, alpha: object = None) -> PreparedAmplitudeCoupling:
        """Check and split the matrices.

        Args:
            knm: ``(n, n)`` phase coupling in rad/s, zero diagonal.
            knm_r: ``(n, n)`` amplitude coupling in 1/s, zero diagonal.
            alpha: ``(n, n)`` lag in rad; ``None`` for no lag.

        Raises:
            ValueError: another shape, values that are not real and finite, or a diagonal other than zero.
        """
        phase = square_coupling("knm", knm)
        n = len(phase)
        amplitude = square_coupling("knm_r", knm_r, n)
        lag = np.zeros((n, n)) if alpha is None else real_array("alpha", alpha, (n, n))
        return cls(*kernels.prepare(phase, amplitude, lag))


class StuartLandauEngine:
    """Advances phases and amplitudes of ``n`` coupled oscillators.

    ``dθ_i/dt = ω_i + Σ_j K_ij sin(θ_j − θ_i − α_ij) + ζ_i sin(Ψ_i − θ_i)`` and
    ``dr_i/dt = (μ_i − r_i²) r_i + ε Σ_j L_ij max(r_j, 0) cos(θ_j − θ_i − α_ij)``. Uncoupled, ``r`` goes to ``√μ`` for
    ``μ > 0`` and to 0 otherwise. After a step phases lie in [0, 2π); amplitudes that an internal step took below 0 are
    lifted to 0.

    A step is a function of its arguments alone, so several threads may share an engine, and a recorded step can be
    repeated on its own. Only `last_dt` and the number of steps in error messages remember anything.

    Args:
        n: number of oscillators, at least 1.
        dt: time that one step covers, in s, positive. rk45 lands on it exactly.
        method: ``euler``, ``rk4`` or ``rk45`` (Dormand-Prince, adaptive inside the step).
        atol: absolute error that rk45 allows per internal step.
        rtol: error that rk45 allows per internal step, relative to the value.
        substeps: equal parts of a step of ``euler`` and ``rk4``; where rk45 starts to look for its internal step.

    Raises:
        ValueError: an argument out of range, or an unknown method.
    """

    def __init__(
        self,
        n: int,
        dt: float,
        method: str = "euler",
        atol: float = 1e-6,
        rtol: float = 1e-3,
        *,
        substeps: int = 1,
    ) -> None:
        self.n = whole_number("n", n, minimum=1)
        self.dt = positive_number("dt", dt)
        self.method = known_method(method)
        self.atol = positive_number("atol", atol)
        self.rtol = real_scalar("rtol", rtol, minimum=0.0)
        self.substeps = whole_number("substeps", substeps, minimum=1)
        self._advance = _METHODS[self.method]
        self._last_dt = self.dt / self.substeps
        self._step_count = 0

    @property
    def last_dt(self) -> float:
        """Length of the last internal step, in s."""
        return self._last_dt

    def step(
        self,
        state: object,
        omegas: object,
        mu: object,
        knm: object,
        knm_r: object,
        zeta: object,
        psi: object,
        alpha: object,
        epsilon: float = 1.0,
    ) -> FloatArray:
        """Check the arguments and give the state ``dt`` later.

        Args:
            state: ``(2n,)``: phases in rad, then amplitudes, not negative.
            omegas: ``(n,)`` natural frequencies in rad/s.
            mu: ``(n,)`` growth rates in 1/s.
            knm: ``(n, n)`` phase coupling in rad/s, zero diagonal.
            knm_r: ``(n, n)`` amplitude coupling in 1/s, zero diagonal.
            zeta: strength of the drive in rad/s, a number or ``(n,)``.
            psi: phase of the drive in rad, a number or ``(n,)``.
            alpha: ``(n, n)`` lag in rad; ``None`` for no lag.
            epsilon: scale of the amplitude coupling, not negative.

        Returns:
            A new array ``(2n,)``, equal to what `advance` gives to the last bit.

        Raises:
            ValueError: an argument of another shape, not real and finite, or out of range.
            EngineError: the integration diverged; the message names step and size.
        """
        n = self.n
        values = real_array("state", state, (2 * n,))
        if values[n:].min() < 0.0:
            raise ValueError(f"state must hold amplitudes of at least 0, got {values[n:].min():g}")
        prepared = PreparedAmplitudeCoupling.from_matrices(knm, knm_r, alpha)
        if len(prepared.phase_cosine) != n:
            raise ValueError(f"knm must have shape ({n}, {n}), got {prepared.phase_cosine.shape}")
        return self.advance(
            values,
            real_array("omegas", omegas, (n,)),
            real_array("mu", mu, (n,)),
            prepared,
            scalar_or_vector("zeta", zeta, n),
            scalar_or_vector("psi", psi, n),
            real_scalar("epsilon", epsilon, minimum=0.0),
        )

    def advance(
        self,
        state: FloatArray,
        omegas: FloatArray,
        mu: FloatArray,
        prepared: PreparedAmplitudeCoupling,
        zeta: float | FloatArray,
        psi: float | FloatArray,
        epsilon: float,
    ) -> FloatArray:
        """Give the state ``dt`` later without checking the arguments; see `step` for their meaning.

        Arrays must be C-contiguous float64 of the documented shapes.

        Raises:
            EngineError: the integration diverged; the message names step and size.
        """
        result, largest, taken = self._advance(
            state,
            omegas,
            mu,
            prepared.phase_cosine,
            prepared.phase_sine,
            prepared.amplitude_cosine,
            prepared.amplitude_sine,
            zeta if isinstance(zeta, np.ndarray) else np.array((zeta,), dtype=np.float64),
            psi if isinstance(psi, np.ndarray) else np.array((psi,), dtype=np.float64),
            epsilon,
            self.dt,
            self.substeps,
            self.atol,
            self.rtol,
        )
        self._step_count += 1
        if not largest <= DIVERGENCE_LIMIT:
            size = f"{largest:.6g}" if isfinite(largest) else "infinite"
            raise EngineError(
                f"Stuart-Landau integration diverged at step {self._step_count}: largest phase or amplitude {size}, "
                f"expected at most {DIVERGENCE_LIMIT:g} (method {self.method}, dt {self.dt:g})"
            )
        if taken == 0.0:
            raise EngineError(
                f"Stuart-Landau integration could not meet its tolerance at step {self._step_count}: rk45 needs an "
                f"internal step below {kernels.SMALLEST_STEP * self.dt:g} s at largest phase or amplitude {largest:.6g}"
            )
        self._last_dt = taken
        return result

    def compute_order_parameter(self, state: object) -> tuple[float, float]:
        """Give modulus and angle in [0, 2π) of ``mean(r e^{iθ})``.

        Raises:
            ValueError: a state of another shape, or not real and finite.
        """
        real, imaginary = kernels.amplitude_order(real_array("state", state, (2 * self.n,)))
        return hypot(real, imaginary), atan2(imaginary, real) % TWO_PI

    def compute_mean_amplitude(self, state: object) -> float:
        """Give the mean amplitude.

        Raises:
            ValueError: a state of another shape, or not real and finite.
        """
        return float(real_array("state", state, (2 * self.n,))[self.n :].mean())
