"""Oscillators with several phases each, coupled through maps between their components."""

from __future__ import annotations

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, real_array, real_scalar, scalar_or_vector, whole_number
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine

__all__ = ["SheafUPDEEngine"]


class SheafUPDEEngine:
    """Advances ``n`` oscillators with ``d`` phases each.

    ``dθ_ia/dt = ω_ia + Σ_jk B_ijak sin(θ_jk − θ_ia) + ζ sin(ψ_a − θ_ia)``: the restriction map ``B_ij`` says how the
    components of oscillator ``j`` act on those of ``i`` (a cellular sheaf over the graph of oscillators, Hansen and
    Ghrist 2019, J. Appl. Comput. Topol. 3). Written as one vector of ``n·d`` phases this is a Kuramoto network, and is
    advanced as one. Diagonal maps give ``d`` networks that do not see each other.

    Args:
        n: number of oscillators, at least 1.
        d: phases per oscillator, at least 1.
        dt: time that one step covers, in s, positive.
        method: ``euler``, ``rk4`` or ``rk45``.
        atol: absolute error that rk45 allows per internal step.
        rtol: error that rk45 allows per internal step, relative to the phase.
        substeps: equal parts of a step.

    Raises:
        ValueError: an argument out of range, or an unknown method.
    """

    def __init__(
        self,
        n: int,
        d: int,
        dt: float,
        method: str = "euler",
        atol: float = 1e-6,
        rtol: float = 1e-3,
        *,
        substeps: int = 1,
    ) -> None:
        self.n = whole_number("n", n, minimum=1)
        self.d = whole_number("d", d, minimum=1)
        self._engine = UPDEEngine(self.n * self.d, dt, method, atol, rtol, substeps=substeps)

    @property
    def dt(self) -> float:
        """Time that one step covers, in s."""
        return self._engine.dt

    @property
    def last_dt(self) -> float:
        """Length of the last internal step, in s."""
        return self._engine.last_dt

    def step(
        self, phases: object, omegas: object, restriction_maps: object, zeta: float = 0.0, psi: object = 0.0
    ) -> FloatArray:
        """Give the phases ``dt`` later; arguments as for `run`."""
        return self.run(phases, omegas, restriction_maps, zeta, psi, n_steps=1)

    def run(
        self,
        phases: object,
        omegas: object,
        restriction_maps: object,
        zeta: float = 0.0,
        psi: object = 0.0,
        n_steps: int = 1,
    ) -> FloatArray:
        """Give the phases ``n_steps`` steps later.

        Args:
            phases: ``(n, d)`` in rad.
            omegas: ``(n, d)`` natural frequencies in rad/s.
            restriction_maps: ``(n, n, d, d)`` in rad/s; entry ``[i, j, a, k]`` is the influence of component ``k`` of
                ``j`` on component ``a`` of ``i``. An entry of a component on itself has no effect.
            zeta: strength of the drive in rad/s.
            psi: phase of the drive in rad, a number or one per component, ``(d,)``.
            n_steps: number of steps; 0 gives a copy of the phases.

        Returns:
            ``(n, d)`` in [0, 2π).

        Raises:
            ValueError: an argument of another shape, or not real and finite.
            EngineError: the integration diverged; the message names step and size.
        """
        shape = (self.n, self.d)
        maps = real_array("restriction_maps", restriction_maps, (self.n, self.n, self.d, self.d))
        size = self.n * self.d
        flat_maps = maps.transpose(0, 2, 1, 3).reshape(size, size).copy()
        np.fill_diagonal(flat_maps, 0.0)
        return self._engine.run(
            real_array("phases", phases, shape).ravel(),
            real_array("omegas", omegas, shape).ravel(),
            PreparedCoupling.from_matrices(flat_maps),
            real_scalar("zeta", zeta),
            np.tile(np.broadcast_to(scalar_or_vector("psi", psi, self.d), self.d), self.n),
            n_steps=n_steps,
        ).reshape(shape)
