"""The transition to synchrony: order parameter against coupling strength, and where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, nan

import numpy as np

from ripieno.randomness import derive_substream
from scpn_phase_orchestrator._arrays import (
    FloatArray,
    positive_number,
    real_array,
    real_scalar,
    square_coupling,
    whole_number,
)
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde import _transition_kernels as kernels

__all__ = [
    "LARGEST_COUPLING",
    "ONSET",
    "SETTLED_SPREAD",
    "BifurcationDiagram",
    "BifurcationPoint",
    "find_critical_coupling",
    "trace_sync_transition",
]

ONSET = 0.1
"""Order parameter from which a population counts as synchronising."""

SETTLED_SPREAD = 0.05
"""Largest standard deviation of the order parameter over the window of a state that counts as settled."""

LARGEST_COUPLING = 20.0
"""Strength up to which `find_critical_coupling` searches."""


@dataclass(frozen=True, slots=True)
class BifurcationPoint:
    """One coupling strength.

    Attributes:
        K: coupling strength in rad/s.
        R: mean order parameter over the window.
        stable: whether the order parameter had settled: its standard deviation is at most `SETTLED_SPREAD`.
    """

    K: float
    R: float
    stable: bool


@dataclass(frozen=True, slots=True)
class BifurcationDiagram:
    """Order parameter against coupling strength.

    Attributes:
        points: ascending in ``K``.
        K_critical: strength at which ``R`` first rises through the onset, by linear interpolation; the first strength
            when ``R`` starts above it; NaN when ``R`` never gets there.
    """

    points: tuple[BifurcationPoint, ...]
    K_critical: float

    @property
    def K_values(self) -> FloatArray:  # noqa: N802 - the field's symbol
        """Coupling strengths, ``(n_points,)``."""
        return np.array([point.K for point in self.points])

    @property
    def R_values(self) -> FloatArray:  # noqa: N802 - the field's symbol
        """Order parameters, ``(n_points,)``."""
        return np.array([point.R for point in self.points])


def trace_sync_transition(
    omegas: object,
    knm_template: object = None,
    alpha: object = None,
    K_range: tuple[float, float] = (0.0, 5.0),  # noqa: N803 - the documented name
    n_points: int = 50,
    dt: float = 0.01,
    n_transient: int = 2000,
    n_measure: int = 500,
    seed: int = 42,
    *,
    onset: float = ONSET,
) -> BifurcationDiagram:
    """Measure the order parameter at equally spaced coupling strengths.

    Every strength starts from the same random phases and runs on its own, so that a point does not depend on the
    others. A population of ``N`` independent phases has ``R`` near ``0.9/√N``: below a hundred oscillators the default
    onset of 0.1 does not tell order from chance; give a higher one.

    Args:
        omegas: ``(n,)`` natural frequencies in rad/s.
        knm_template: ``(n, n)`` zero-diagonal matrix that the strength multiplies; ``None`` couples everybody by
            ``1/n`` and costs ``O(n)`` per step.
        alpha: ``(n, n)`` lag in rad; ``None`` for no lag.
        K_range: first and last strength.
        n_points: number of strengths, at least 2.
        dt: step of the classic Runge-Kutta method in s, positive.
        n_transient: steps before the window.
        n_measure: steps of the window, at least 1.
        seed: root seed of the initial phases.
        onset: order parameter that marks the transition, in (0, 1).

    Raises:
        ValueError: an argument of another shape, not real and finite, or out of range.
        EngineError: the phases are not finite any more.
    """
    population = _Population.from_arguments(omegas, knm_template, alpha, dt, n_transient, n_measure, seed)
    if len(K_range) != 2:
        raise ValueError(f"K_range must hold two strengths, got {len(K_range)}")
    first, last = (real_scalar(f"K_range[{place}]", value) for place, value in enumerate(K_range))
    if not first < last:
        raise ValueError(f"K_range must ascend, got {first:g} to {last:g}")
    level = _onset(onset)
    points: list[BifurcationPoint] = []
    for strength in np.linspace(first, last, whole_number("n_points", n_points, minimum=2)).tolist():
        order, spread = population.order_at(strength)
        points.append(BifurcationPoint(K=strength, R=order, stable=spread <= SETTLED_SPREAD))
    return BifurcationDiagram(points=tuple(points), K_critical=_crossing(points, level))


def find_critical_coupling(
    omegas: object,
    knm_template: object = None,
    alpha: object = None,
    dt: float = 0.01,
    n_transient: int = 2000,
    n_measure: int = 500,
    seed: int = 42,
    tol: float = 0.05,
    *,
    onset: float = ONSET,
) -> float:
    """Find by bisection on [0, 20] the coupling strength at which the order parameter exceeds the onset.

    For a wide population with a symmetric frequency density ``g`` of one maximum, the strength tends to
    ``2/(π g(0))`` (Kuramoto 1984) as ``n`` grows.

    Args:
        omegas: ``(n,)`` natural frequencies in rad/s.
        knm_template: see `trace_sync_transition`.
        alpha: ``(n, n)`` lag in rad; ``None`` for no lag.
        dt: step in s, positive.
        n_transient: steps before the window.
        n_measure: steps of the window, at least 1.
        seed: root seed of the initial phases.
        tol: width of the final bracket, positive.
        onset: order parameter that marks the transition, in (0, 1).

    Returns:
        The middle of the bracket; 0.0 when ``R`` exceeds the onset without coupling; NaN when it does not at 20.

    Raises:
        ValueError: an argument of another shape, not real and finite, or out of range.
        EngineError: the phases are not finite any more.
    """
    population = _Population.from_arguments(omegas, knm_template, alpha, dt, n_transient, n_measure, seed)
    width = positive_number("tol", tol)
    level = _onset(onset)
    below, above = 0.0, LARGEST_COUPLING
    if population.order_at(below)[0] > level:
        return below
    if not population.order_at(above)[0] > level:
        return nan
    while above - below > width:
        middle = (below + above) / 2.0
        if middle in {below, above}:  # the bracket holds no further number
            break
        if population.order_at(middle)[0] > level:
            above = middle
        else:
            below = middle
    return (below + above) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class _Population:
    phases: FloatArray
    omegas: FloatArray
    even: FloatArray
    odd: FloatArray
    dt: float
    n_transient: int
    n_measure: int

    @classmethod
    def from_arguments(
        cls,
        omegas: object,
        knm_template: object,
        alpha: object,
        dt: float,
        n_transient: int,
        n_measure: int,
        seed: int,
    ) -> _Population:
        frequencies = real_array("omegas", omegas, (None,))
        n = whole_number("number of omegas", len(frequencies), minimum=1)
        even = odd = np.empty((0, 0))
        if knm_template is not None or alpha is not None:
            template = (
                (1.0 - np.eye(n)) / n if knm_template is None else square_coupling("knm_template", knm_template, n)
            )
            lag = np.zeros((n, n)) if alpha is None else real_array("alpha", alpha, (n, n))
            even = np.ascontiguousarray((template * np.cos(lag)).T)
            odd = np.ascontiguousarray((template * np.sin(lag)).T)
        stream = derive_substream("phase.bifurcation.initial_phases", root_seed=whole_number("seed", seed))
        return cls(
            phases=stream.default_rng().uniform(0.0, TWO_PI, n),
            omegas=frequencies,
            even=even,
            odd=odd,
            dt=positive_number("dt", dt),
            n_transient=whole_number("n_transient", n_transient),
            n_measure=whole_number("n_measure", n_measure, minimum=1),
        )

    def order_at(self, strength: float) -> tuple[float, float]:
        order, spread = kernels.order_over_window(
            self.phases, self.omegas, strength, self.even, self.odd, self.dt, self.n_transient, self.n_measure
        )
        if not isfinite(order):
            raise EngineError(f"phases are not finite any more at coupling strength {strength:g} with dt {self.dt:g}")
        return order, spread


def _onset(value: float) -> float:
    level = real_scalar("onset", value, above=0.0)
    if level >= 1.0:
        raise ValueError(f"onset must be less than 1, got {level:g}")
    return level


def _crossing(points: list[BifurcationPoint], level: float) -> float:
    if level <= points[0].R:
        return points[0].K
    for before, after in pairwise(points):
        if level <= after.R:
            return before.K + (level - before.R) / (after.R - before.R) * (after.K - before.K)
    return nan
