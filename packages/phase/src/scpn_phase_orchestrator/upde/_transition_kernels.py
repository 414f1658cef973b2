"""Order parameter of a population over time, compiled, for dense templates and for the uniform one."""

from __future__ import annotations

from math import cos, sin, sqrt

import numpy as np
from numba import njit

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = ["order_over_window"]


@njit(cache=True)
def _velocity(
    phases: FloatArray,
    omegas: FloatArray,
    strength: float,
    even: FloatArray,
    odd: FloatArray,
    work: FloatArray,
    out: FloatArray,
) -> float:
    """Write dθ/dt and give the order parameter of ``phases``; without matrices everybody feels the mean field."""
    count = phases.shape[0]
    sines, cosines, toward_cosine, toward_sine = work[0], work[1], work[2], work[3]
    real = 0.0
    imaginary = 0.0
    for i in range(count):
        sines[i] = sin(phases[i])
        cosines[i] = cos(phases[i])
        real += cosines[i]
        imaginary += sines[i]
    if even.shape[0] == 0:
        for i in range(count):
            out[i] = omegas[i] + strength / count * (cosines[i] * imaginary - sines[i] * real)
    else:
        toward_cosine[:] = 0.0
        toward_sine[:] = 0.0
        for j in range(count):
            sine = sines[j]
            cosine = cosines[j]
            for i in range(count):
                toward_cosine[i] += even[j, i] * sine - odd[j, i] * cosine
                toward_sine[i] += even[j, i] * cosine + odd[j, i] * sine
        for i in range(count):
            out[i] = omegas[i] + strength * (cosines[i] * toward_cosine[i] - sines[i] * toward_sine[i])
    return sqrt(real * real + imaginary * imaginary) / count


@njit(cache=True)
def order_over_window(
    phases: FloatArray,
    omegas: FloatArray,
    strength: float,
    even: FloatArray,
    odd: FloatArray,
    dt: float,
    n_transient: int,
    n_measure: int,
) -> tuple[float, float]:
    """Give mean and population standard deviation of R over the last ``n_measure`` steps (classic Runge-Kutta)."""
    count = phases.shape[0]
    state = phases.copy()
    stage = np.empty(count)
    slopes = np.empty((4, count))
    work = np.empty((4, count))
    orders = np.empty(n_measure)
    for step in range(n_transient + n_measure):
        order = _velocity(state, omegas, strength, even, odd, work, slopes[0])
        if step >= n_transient:
            orders[step - n_transient] = order
        for number in range(1, 4):
            span = dt if number == 3 else 0.5 * dt
            for i in range(count):
                stage[i] = state[i] + span * slopes[number - 1, i]
            _velocity(stage, omegas, strength, even, odd, work, slopes[number])
        for i in range(count):
            state[i] = (
                state[i] + dt / 6.0 * (slopes[0, i] + 2.0 * slopes[1, i] + 2.0 * slopes[2, i] + slopes[3, i])
            ) % TWO_PI
    return orders.mean(), orders.std()
