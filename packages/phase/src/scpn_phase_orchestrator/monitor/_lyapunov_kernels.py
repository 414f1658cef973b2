"""The flow of the phases together with its tangent vectors, compiled.

Tangent vectors are rows, the Jacobian is kept transposed; every inner loop runs over receivers.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numba import njit

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = ["spectrum"]

_ROWS_PER_PASS = 4
_ROWS_KEPT = 16


@njit(cache=True)
def _linearise(
    phases: FloatArray,
    omegas: FloatArray,
    even: FloatArray,
    odd: FloatArray,
    drive: FloatArray,
    velocity: FloatArray,
    jacobian: FloatArray,
) -> None:
    """Write dθ/dt and the transposed Jacobian; ``even`` and ``odd`` are ``(K cos α)ᵀ`` and ``(K sin α)ᵀ``."""
    count = phases.shape[0]
    sines = np.sin(phases)
    cosines = np.cos(phases)
    toward_cosine = drive[1].copy()
    toward_sine = drive[0].copy()
    for j in range(count):
        sine = sines[j]
        cosine = cosines[j]
        for i in range(count):
            along = even[j, i] * cosine + odd[j, i] * sine
            across = even[j, i] * sine - odd[j, i] * cosine
            toward_sine[i] += along
            toward_cosine[i] += across
            jacobian[j, i] = cosines[i] * along + sines[i] * across
    for i in range(count):
        velocity[i] = omegas[i] + (cosines[i] * toward_cosine[i] - sines[i] * toward_sine[i])
        jacobian[i, i] = -(cosines[i] * toward_sine[i] + sines[i] * toward_cosine[i])


@njit(cache=True)
def _carry(tangents: FloatArray, jacobian: FloatArray, out: FloatArray) -> None:
    """Write the derivative of every tangent vector, ``J v``.

    Sixteen rows of the Jacobian at a time stay in the fastest memory while all vectors pass, four rows per pass over
    the result. A library product would start threads of its own.
    """
    vectors, count = tangents.shape
    whole = count - count % _ROWS_PER_PASS
    out[:] = 0.0
    for first in range(0, whole, _ROWS_KEPT):
        last = min(first + _ROWS_KEPT, whole)
        for vector in range(vectors):
            for j in range(first, last, _ROWS_PER_PASS):
                part_0, part_1 = tangents[vector, j], tangents[vector, j + 1]
                part_2, part_3 = tangents[vector, j + 2], tangents[vector, j + 3]
                for i in range(count):
                    out[vector, i] = (
                        out[vector, i]
                        + part_0 * jacobian[j, i]
                        + part_1 * jacobian[j + 1, i]
                        + part_2 * jacobian[j + 2, i]
                        + part_3 * jacobian[j + 3, i]
                    )
    for vector in range(vectors):
        for j in range(whole, count):
            part = tangents[vector, j]
            for i in range(count):
                out[vector, i] += part * jacobian[j, i]


@njit(cache=True)
def _inner(first: FloatArray, second: FloatArray) -> float:
    """Give the inner product, in four sums that the processor adds side by side."""
    count = first.shape[0]
    whole = count - count % 4
    sum_0 = sum_1 = sum_2 = sum_3 = 0.0
    for i in range(0, whole, 4):
        sum_0 += first[i] * second[i]
        sum_1 += first[i + 1] * second[i + 1]
        sum_2 += first[i + 2] * second[i + 2]
        sum_3 += first[i + 3] * second[i + 3]
    for i in range(whole, count):
        sum_0 += first[i] * second[i]
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@njit(cache=True)
def _orthonormalise(tangents: FloatArray, growth: FloatArray) -> bool:
    """Make the vectors orthonormal by Gram-Schmidt, each pass twice; add the logarithms of their lengths to ``growth``.

    False when a vector has no length that could be divided by.
    """
    vectors, count = tangents.shape
    for vector in range(vectors):
        for _ in range(2):
            for earlier in range(vector):
                overlap = _inner(tangents[vector], tangents[earlier])
                for i in range(count):
                    tangents[vector, i] -= overlap * tangents[earlier, i]
        length = sqrt(_inner(tangents[vector], tangents[vector]))
        if not 0.0 < length < np.inf:
            return False
        growth[vector] += log(length)
        for i in range(count):
            tangents[vector, i] /= length
    return True


@njit(cache=True)
def spectrum(
    phases: FloatArray,
    omegas: FloatArray,
    even: FloatArray,
    odd: FloatArray,
    drive: FloatArray,
    dt: float,
    n_transient: int,
    n_steps: int,
    qr_interval: int,
) -> tuple[FloatArray, int]:
    """Give the summed logarithms of growth of each tangent vector, and the step that failed, or -1.

    Classic Runge-Kutta steps of the flow and of the tangent vectors together. The transient turns the tangent vectors
    into their lasting directions; what they grow meanwhile does not count.
    """
    count = phases.shape[0]
    state = phases.copy()
    tangents = np.eye(count)
    growth = np.zeros(count)
    velocity = np.empty((4, count))
    carried = np.empty((4, count, count))
    jacobian = np.empty((count, count))
    for step in range(n_transient + n_steps):
        _linearise(state, omegas, even, odd, drive, velocity[0], jacobian)
        _carry(tangents, jacobian, carried[0])
        for stage in range(1, 4):
            span = dt if stage == 3 else 0.5 * dt
            _linearise(state + span * velocity[stage - 1], omegas, even, odd, drive, velocity[stage], jacobian)
            _carry(tangents + span * carried[stage - 1], jacobian, carried[stage])
        state = (state + dt / 6.0 * (velocity[0] + 2.0 * velocity[1] + 2.0 * velocity[2] + velocity[3])) % TWO_PI
        tangents = tangents + dt / 6.0 * (carried[0] + 2.0 * carried[1] + 2.0 * carried[2] + carried[3])
        done = step + 1
        is_due = done % qr_interval == 0 or done == n_transient or done == n_transient + n_steps
        if not np.isfinite(state).all() or (is_due and not _orthonormalise(tangents, growth)):
            return growth, step
        if done == n_transient:
            growth[:] = 0.0
    return growth, -1
