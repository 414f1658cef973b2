"""What an integration needs to be told, and the bound a time step has to keep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from scpn_phase_orchestrator._arrays import positive_number, real_array, real_scalar, scalar_or_vector, whole_number

__all__ = ["METHODS", "IntegrationConfig", "Method", "check_stability", "known_method", "largest_advance"]

Method = Literal["euler", "rk4", "rk45"]

METHODS: tuple[str, ...] = get_args(Method)
"""Names of the integration methods."""


@dataclass(frozen=True)
class IntegrationConfig:
    """How a state is advanced by one step.

    Attributes:
        dt: Length of a step in seconds.
        substeps: Equal parts of each step.
        method: ``euler``, ``rk4`` or ``rk45``.
        max_dt: Longest part in seconds; `effective_substeps` adds parts when ``dt / substeps`` is longer.
        atol: Absolute tolerance of ``rk45`` in radians.
        rtol: Relative tolerance of ``rk45``.

    Raises:
        ValueError: for a length or tolerance that is not positive and finite, a count below one, an unknown method.
    """

    dt: float
    substeps: int = 1
    method: str = "euler"
    max_dt: float = 0.01
    atol: float = 1e-6
    rtol: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("dt", "max_dt", "atol", "rtol"):
            positive_number(name, getattr(self, name))
        whole_number("substeps", self.substeps, minimum=1)
        known_method(self.method)

    @property
    def effective_substeps(self) -> int:
        """Fewest equal parts, at least ``substeps``, of which none is longer than ``max_dt``."""
        return max(self.substeps, math.ceil(self.dt / self.max_dt * (1.0 - 1e-12)))


def check_stability(dt: float, max_omega: float, max_coupling: float) -> bool:
    """Whether no phase can advance by half a turn or more in one step: ``dt (max_omega + max_coupling) < pi``.

    Args:
        dt: Length of a step in seconds.
        max_omega: Largest magnitude of a natural frequency in rad/s.
        max_coupling: Largest total pull on one oscillator in rad/s.

    Examples:
        >>> check_stability(0.01, 100, 200), check_stability(0.02, 100, 100)
        (True, False)
    """
    fastest = real_scalar("max_omega", max_omega, minimum=0.0) + real_scalar("max_coupling", max_coupling, minimum=0.0)
    return positive_number("dt", dt) * fastest < math.pi


def largest_advance(dt: float, omegas: ArrayLike, knm: ArrayLike, zeta: ArrayLike = 0.0, *, substeps: int = 1) -> float:
    """Bound on the advance of any phase in one internal step, in radians; a stable step keeps it below pi.

    ``dt / substeps * (max |omega_i| + max_i sum_j |K_ij| + max |zeta|)``: no phase moves faster than that, whatever
    the phases, lags and drive phase are.

    Args:
        dt: Length of a step in seconds.
        omegas: Natural frequencies ``(n,)`` in rad/s.
        knm: Coupling ``(n, n)`` in rad/s, row = receiver.
        zeta: Drive strength in rad/s, one or ``(n,)``.
        substeps: Equal parts of each step.

    Raises:
        ValueError: for shapes that do not fit or values that are not finite numbers.

    Examples:
        >>> largest_advance(0.01, [1.0, -3.0], [[0.0, 2.0], [1.0, 0.0]], 0.5)
        0.055
    """
    positive_number("dt", dt)
    whole_number("substeps", substeps, minimum=1)
    frequencies = real_array("omegas", omegas, (None,))
    n = whole_number("number of omegas", frequencies.size, minimum=1)
    coupling = real_array("knm", knm, (n, n))
    drive = scalar_or_vector("zeta", zeta, n)
    fastest = np.abs(frequencies).max() + np.abs(coupling).sum(axis=1).max() + np.abs(drive).max()
    return float(dt / substeps * fastest)


def known_method(method: object) -> str:
    """Return the name of a method, or raise `ValueError` naming those that exist."""
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"Unknown method {method!r}; expected one of {', '.join(METHODS)}")
    return method
