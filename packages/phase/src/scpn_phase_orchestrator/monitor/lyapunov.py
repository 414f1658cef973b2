"""Lyapunov exponents of the phase flow, and a guard that watches its potential."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

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
from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.monitor import _lyapunov_kernels as kernels

__all__ = ["LyapunovGuard", "LyapunovState", "lyapunov_spectrum"]


def lyapunov_spectrum(
    phases_init: object,
    omegas: object,
    knm: object,
    alpha: object,
    dt: float = 0.01,
    n_steps: int = 1000,
    qr_interval: int = 10,
    zeta: object = 0.0,
    psi: object = 0.0,
    *,
    n_transient: int = 0,
) -> FloatArray:
    """Give the Lyapunov exponents of ``dθ_i/dt = ω_i + Σ_j K_ij sin(θ_j − θ_i − α_ij) + ζ sin(Ψ − θ_i)``.

    Flow and tangent vectors are integrated by the classic Runge-Kutta method. The Jacobian is
    ``K_ij cos(θ_j − θ_i − α_ij)`` off the diagonal and ``−Σ_j K_ij cos(θ_j − θ_i − α_ij) − ζ cos(Ψ − θ_i)`` on it.
    Every ``qr_interval`` steps the tangent vectors are made orthonormal (Gram-Schmidt, twice); the exponents are the
    summed logarithms of their lengths over the time (Benettin et al. 1980, Meccanica 15).

    Without a drive one exponent belongs to the common rotation and is 0. A positive one means chaos.

    Args:
        phases_init: ``(n,)`` in rad.
        omegas: ``(n,)`` natural frequencies in rad/s.
        knm: ``(n, n)`` in rad/s, zero diagonal.
        alpha: ``(n, n)`` lag in rad, or ``None`` for no lag.
        dt: step in s, positive.
        n_steps: steps over which growth is counted, at least 1.
        qr_interval: steps between two orthonormalisations, at least 1.
        zeta: strength of the drive in rad/s, a number or ``(n,)``.
        psi: phase of the drive in rad, a number or ``(n,)``.
        n_transient: steps before growth is counted. Without them the exponents include how the tangent vectors turn
            into their lasting directions, an error that falls as one over the time.

    Returns:
        ``(n,)`` in 1/s, descending.

    Raises:
        ValueError: an argument of another shape, not real and finite, or out of range.
        EngineError: the flow or a tangent vector is not finite any more; the message names the step.
    """
    phases = real_array("phases_init", phases_init, (None,))
    n = whole_number("number of phases", len(phases), minimum=1)
    frequencies = real_array("omegas", omegas, (n,))
    strengths = square_coupling("knm", knm, n)
    lag = np.zeros((n, n)) if alpha is None else real_array("alpha", alpha, (n, n))
    step = positive_number("dt", dt)
    counted = whole_number("n_steps", n_steps, minimum=1)
    drive_strength = np.broadcast_to(scalar_or_vector("zeta", zeta, n), n)
    target = np.broadcast_to(scalar_or_vector("psi", psi, n), n)
    growth, failed = kernels.spectrum(
        phases,
        frequencies,
        np.ascontiguousarray((strengths * np.cos(lag)).T),
        np.ascontiguousarray((strengths * np.sin(lag)).T),
        np.stack([drive_strength * np.cos(target), drive_strength * np.sin(target)]),
        step,
        whole_number("n_transient", n_transient),
        counted,
        whole_number("qr_interval", qr_interval, minimum=1),
    )
    if failed >= 0:
        raise EngineError(f"Lyapunov integration diverged at step {failed}: the flow or a tangent vector is not finite")
    return np.sort(growth)[::-1] / (counted * step)


@dataclass(frozen=True, slots=True)
class LyapunovState:
    """What the guard sees at one instant.

    Attributes:
        V: the potential, per oscillator, in rad/s.
        dV_dt: its change since the last evaluation; 0 at the first one.
        in_basin: whether every coupled pair is closer than the threshold.
        max_phase_diff: largest geodesic distance of a coupled pair, in rad; 0 without coupling.
    """

    V: float
    dV_dt: float  # noqa: N815 - the documented name
    in_basin: bool
    max_phase_diff: float


class LyapunovGuard:
    """Watches ``V = −Σ_ij K_ij cos(θ_i − θ_j)/(2N)``, which falls on every path toward synchrony.

    For a symmetric coupling without lag and equal frequencies the flow is the gradient descent of ``N·V``, so that a
    rising ``V`` means that something else pushes. While all coupled pairs stay closer than π/2, the synchronous state
    attracts (Dörfler and Bullo 2014, Automatica 50).

    Args:
        basin_threshold: largest distance of coupled phases that counts as inside, in rad on (0, π].

    Raises:
        ValueError: a threshold out of range.
    """

    def __init__(self, basin_threshold: float = pi / 2) -> None:
        self.basin_threshold = real_scalar("basin_threshold", basin_threshold, above=0.0, maximum=pi)
        self._last_potential: float | None = None

    def evaluate(self, phases: object, knm: object) -> LyapunovState:
        """Give potential, its change and the largest distance of coupled phases.

        Args:
            phases: ``(n,)`` in rad.
            knm: ``(n, n)`` in rad/s, zero diagonal.

        Raises:
            ValueError: another shape, or values that are not real and finite.
        """
        theta = real_array("phases", phases, (None,))
        n = whole_number("number of phases", len(theta), minimum=1)
        strengths = square_coupling("knm", knm, n)
        differences = theta[:, None] - theta[None, :]
        potential = float(-(strengths * np.cos(differences)).sum() / (2 * n))
        distances = np.abs((differences + pi) % (2 * pi) - pi)[strengths != 0.0]
        largest = float(distances.max(initial=0.0))
        change = 0.0 if self._last_potential is None else potential - self._last_potential
        self._last_potential = potential
        return LyapunovState(V=potential, dV_dt=change, in_basin=largest < self.basin_threshold, max_phase_diff=largest)

    def reset(self) -> None:
        """Forget the last potential."""
        self._last_potential = None
