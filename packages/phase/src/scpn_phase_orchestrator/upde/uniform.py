"""Kuramoto networks in which everybody is coupled alike: the mean field makes a step linear in n."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from scpn_phase_orchestrator._arrays import FloatArray, real_scalar
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.upde._engine_base import PhaseEngine
from scpn_phase_orchestrator.upde._kernels_products import UniformCoupling

__all__ = ["PreparedUniformCoupling", "UniformUPDEEngine"]


@dataclass(frozen=True)
class PreparedUniformCoupling:
    """Checked uniform coupling: ``K_ij = strength / n`` and ``alpha_ij = lag`` for i != j."""

    n: int
    coupling: UniformCoupling


class UniformUPDEEngine(PhaseEngine):
    """Integrator of a network with ``K_ij = K / n``; arguments and properties as for `UPDEEngine`, without threads.

    ``d theta_i / dt = omega_i + K / n sum_(j != i) sin(theta_j - theta_i - alpha) + zeta_i sin(Psi_i - theta_i)``
    (Kuramoto 1975; with lag Sakaguchi and Kuramoto 1986), from the sums of all sines and cosines.

    Examples:
        >>> import numpy as np
        >>> engine = UniformUPDEEngine(2, dt=0.01)
        >>> engine.step([0.0, np.pi / 2], [1.0, 2.0], 1.0).round(12)
        array([0.015     , 1.58579633])
    """

    def step(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None = None,
        strength: float = 0.0,
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha: float = 0.0,
    ) -> FloatArray:
        """Advance phases by ``dt``.

        Args:
            phases: ``(n,)`` in rad.
            omegas: Natural frequencies ``(n,)`` in rad/s; None for the engine's own.
            strength: K in rad/s; each pair is coupled with ``K / n``.
            zeta: Drive strength in rad/s, one or ``(n,)``.
            psi: Drive phase in rad, one or ``(n,)``.
            alpha: Phase lag in rad, the same for all pairs.

        Returns:
            New phases ``(n,)`` in [0, 2 pi).

        Raises:
            ValueError: for a missing argument, a shape that does not fit, or values that are not finite numbers.
            EngineError: when the integration diverges, naming step and norm.
        """
        return self.run(phases, omegas, strength, zeta, psi, alpha)

    def run(
        self,
        phases: ArrayLike,
        omegas: ArrayLike | None = None,
        strength: float = 0.0,
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha: float = 0.0,
        n_steps: int = 1,
    ) -> FloatArray:
        """Advance phases by ``n_steps`` steps, with the bits of as many calls of `step`; 0 steps give a copy."""
        prepared = self.prepare(strength, alpha)
        with self._lock:
            return self._integrate(phases, omegas, prepared, zeta, psi, n_steps)

    def prepare(self, strength: float, alpha: float = 0.0) -> PreparedUniformCoupling:
        """Check the coupling for use with ``advance``."""
        pair = real_scalar("strength", strength) / self._n
        lag = math.fmod(real_scalar("alpha", alpha), TWO_PI)
        return PreparedUniformCoupling(self._n, UniformCoupling(self._n, pair * math.cos(lag), pair * math.sin(lag)))
