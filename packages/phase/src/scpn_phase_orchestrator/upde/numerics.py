"""What an integration needs to be told, and the bound a time step has to keep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["METHODS", "IntegrationConfig", "Method", "check_stability", "largest_advance", "positive_number"]

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
            positive_number(getattr(self, name), name)
        positive_count(self.substeps, "substeps")
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
    positive_number(dt, "dt")
    for name, value in (("max_omega", max_omega), ("max_coupling", max_coupling)):
        if not _is_finite_number(value) or value < 0:
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return dt * (max_omega + max_coupling) < math.pi


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
    positive_number(dt, "dt")
    positive_count(substeps, "substeps")
    frequencies = finite_array(omegas, "omegas")
    coupling = finite_array(knm, "knm")
    drive = finite_array(zeta, "zeta")
    if frequencies.ndim != 1 or frequencies.size == 0:
        raise ValueError(f"omegas must have shape (n,) with n >= 1, got {frequencies.shape}")
    n = frequencies.size
    if coupling.shape != (n, n):
        raise ValueError(f"knm must have shape ({n}, {n}), got {coupling.shape}")
    if drive.shape not in {(), (n,)}:
        raise ValueError(f"zeta must be one number or have shape ({n},), got {drive.shape}")
    fastest = np.abs(frequencies).max() + np.abs(coupling).sum(axis=1).max() + np.abs(drive).max()
    return float(dt / substeps * fastest)


def positive_number(value: object, name: str) -> float:
    """Return a positive finite number as float, or raise `ValueError` naming it."""
    if not _is_finite_number(value) or value <= 0:  # type: ignore[operator]
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return float(value)  # type: ignore[arg-type]


def positive_count(value: object, name: str, *, at_least: int = 1) -> int:
    """Return a whole number from ``at_least`` on as int, or raise `ValueError` naming it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < at_least:
        raise ValueError(f"{name} must be a whole number >= {at_least}, got {value!r}")
    return int(value)


def known_method(method: object) -> str:
    """Return the name of a method, or raise `ValueError` naming those that exist."""
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"Unknown method {method!r}; expected one of {', '.join(METHODS)}")
    return method


def finite_array(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return real finite numbers as a contiguous float64 array (a copy only where needed), or raise `ValueError`."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    array = np.require(array, np.float64, ["C", "A", "W"]) if array.ndim else array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must contain only finite values")
    return array


def _is_finite_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and math.isfinite(value)
