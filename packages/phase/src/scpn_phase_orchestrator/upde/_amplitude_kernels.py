"""Compiled steps of the Stuart-Landau network.

With ``s_i = sin θ_i`` and ``c_i = cos θ_i`` the differences of angles split into products, so that a derivative needs
one sine and one cosine per oscillator and four products of a matrix and a vector::

    Σ_j K_ij sin(θ_j − θ_i − α_ij)      = c_i Σ_j (A_ij s_j − B_ij c_j) − s_i Σ_j (A_ij c_j + B_ij s_j)
    Σ_j L_ij r_j cos(θ_j − θ_i − α_ij)  = c_i Σ_j (C_ij r_j c_j + D_ij r_j s_j) + s_i Σ_j (C_ij r_j s_j − D_ij r_j c_j)

with ``A = K cos α``, ``B = K sin α``, ``C = L cos α``, ``D = L sin α``. The matrices are stored transposed: the inner
loop then runs over receivers, which the compiler turns into vector instructions without changing the order of any sum.
Results are therefore the same on every processor that has the same sine and cosine.

The three ``advance_*`` take the same arguments and give the state after ``dt``, the largest magnitude on the way and
the last internal step. The magnitude is infinite after a value that is not finite; the internal step is 0 when rk45
could not meet its tolerance. They are three functions so that only the one in use is compiled.
"""

from __future__ import annotations

from math import cos, inf, isfinite, sin
from typing import NamedTuple

import numpy as np
from numba import njit

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.upde._dormand_prince import ERROR_WEIGHTS, STAGE_WEIGHTS

__all__ = [
    "SMALLEST_STEP",
    "advance_euler",
    "advance_rk4",
    "advance_rk45",
    "amplitude_order",
    "prepare",
]

SMALLEST_STEP = 1e-10
"""Shortest internal step of rk45, as a share of the step asked for."""


class _Field(NamedTuple):
    """What the derivative depends on besides the state, with its scratch."""

    omegas: FloatArray
    mu: FloatArray
    phase_cosine: FloatArray
    phase_sine: FloatArray
    amplitude_cosine: FloatArray
    amplitude_sine: FloatArray
    drive: FloatArray  # ζ cos Ψ, ζ sin Ψ
    epsilon: float
    work: FloatArray


@njit(cache=True)
def prepare(
    knm: FloatArray, knm_r: FloatArray, alpha: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Give ``(K cos α)ᵀ, (K sin α)ᵀ, (L cos α)ᵀ, (L sin α)ᵀ``; the sine parts are empty without any lag."""
    count = knm.shape[0]
    lag_count = 0
    for row in range(count):
        for column in range(count):
            if alpha[row, column] != 0.0:
                lag_count = count
    phase_cosine = np.empty((count, count))
    amplitude_cosine = np.empty((count, count))
    phase_sine = np.empty((lag_count, lag_count))
    amplitude_sine = np.empty((lag_count, lag_count))
    for row in range(count):
        for column in range(count):
            if lag_count:
                cosine = cos(alpha[row, column])
                sine = sin(alpha[row, column])
                phase_cosine[column, row] = knm[row, column] * cosine
                phase_sine[column, row] = knm[row, column] * sine
                amplitude_cosine[column, row] = knm_r[row, column] * cosine
                amplitude_sine[column, row] = knm_r[row, column] * sine
            else:
                phase_cosine[column, row] = knm[row, column]
                amplitude_cosine[column, row] = knm_r[row, column]
    return phase_cosine, phase_sine, amplitude_cosine, amplitude_sine


@njit(cache=True)
def _phase_sums(field: _Field) -> None:
    """Add ``Σ_j (A s − B c)`` and ``Σ_j (A c + B s)`` to the drive, in rows 2 and 3 of the scratch."""
    sines, cosines, toward_cosine, toward_sine = field.work[0], field.work[1], field.work[2], field.work[3]
    even, odd = field.phase_cosine, field.phase_sine
    count = sines.shape[0]
    for i in range(count):
        toward_cosine[i] = field.drive[1, i]
        toward_sine[i] = field.drive[0, i]
    for j in range(count):
        sine = sines[j]
        cosine = cosines[j]
        if odd.shape[0]:
            for i in range(count):
                toward_cosine[i] += even[j, i] * sine - odd[j, i] * cosine
                toward_sine[i] += even[j, i] * cosine + odd[j, i] * sine
        else:
            for i in range(count):
                toward_cosine[i] += even[j, i] * sine
                toward_sine[i] += even[j, i] * cosine


@njit(cache=True)
def _amplitude_sums(state: FloatArray, field: _Field) -> None:
    """Write ``Σ_j r (C c + D s)`` and ``Σ_j r (C s − D c)`` to rows 4 and 5 of the scratch."""
    sines, cosines, growth_cosine, growth_sine = field.work[0], field.work[1], field.work[4], field.work[5]
    even, odd = field.amplitude_cosine, field.amplitude_sine
    count = sines.shape[0]
    growth_cosine[:] = 0.0
    growth_sine[:] = 0.0
    if field.epsilon == 0.0:
        return
    for j in range(count):
        amplitude = max(state[count + j], 0.0)
        sine = sines[j] * amplitude
        cosine = cosines[j] * amplitude
        if odd.shape[0]:
            for i in range(count):
                growth_cosine[i] += even[j, i] * cosine + odd[j, i] * sine
                growth_sine[i] += even[j, i] * sine - odd[j, i] * cosine
        else:
            for i in range(count):
                growth_cosine[i] += even[j, i] * cosine
                growth_sine[i] += even[j, i] * sine


@njit(cache=True)
def _derivative(state: FloatArray, field: _Field, out: FloatArray) -> None:
    count = field.omegas.shape[0]
    sines, cosines = field.work[0], field.work[1]
    for i in range(count):
        sines[i] = sin(state[i])
        cosines[i] = cos(state[i])
    _phase_sums(field)
    _amplitude_sums(state, field)
    for i in range(count):
        amplitude = state[count + i]
        out[i] = field.omegas[i] + (cosines[i] * field.work[2, i] - sines[i] * field.work[3, i])
        out[count + i] = (field.mu[i] - amplitude * amplitude) * amplitude + field.epsilon * (
            cosines[i] * field.work[4, i] + sines[i] * field.work[5, i]
        )


@njit(cache=True)
def _clamp(state: FloatArray) -> float:
    """Lift negative amplitudes to 0; give the largest magnitude before, or infinity when one is not finite."""
    size = state.shape[0]
    largest = 0.0
    for i in range(size):
        if not isfinite(state[i]):
            return inf
        largest = max(largest, abs(state[i]))
    for i in range(size // 2, size):
        state[i] = max(state[i], 0.0)
    return largest


@njit(cache=True)
def _euler(state: FloatArray, field: _Field, step: float, substeps: int) -> float:
    slope = np.empty(state.shape[0])
    largest = 0.0
    for _ in range(substeps):
        _derivative(state, field, slope)
        for i in range(state.shape[0]):
            state[i] += step * slope[i]
        largest = max(largest, _clamp(state))
        if largest == inf:
            break
    return largest


@njit(cache=True)
def _rk4(state: FloatArray, field: _Field, step: float, substeps: int) -> float:
    size = state.shape[0]
    slopes = np.empty((4, size))
    stage = np.empty(size)
    largest = 0.0
    for _ in range(substeps):
        _derivative(state, field, slopes[0])
        for number in range(1, 4):
            span = step if number == 3 else 0.5 * step
            for i in range(size):
                stage[i] = state[i] + span * slopes[number - 1, i]
            _derivative(stage, field, slopes[number])
        for i in range(size):
            state[i] += step / 6.0 * (slopes[0, i] + 2.0 * slopes[1, i] + 2.0 * slopes[2, i] + slopes[3, i])
        largest = max(largest, _clamp(state))
        if largest == inf:
            break
    return largest


@njit(cache=True)
def _dormand_prince_trial(
    state: FloatArray, field: _Field, step: float, slopes: FloatArray, stage: FloatArray, atol: float, rtol: float
) -> float:
    """Write the solution after ``step`` to ``stage``, from the slope in row 0; give its error over the tolerance."""
    size = state.shape[0]
    for number in range(6):
        for i in range(size):
            change = 0.0
            for earlier in range(number + 1):
                change += STAGE_WEIGHTS[number, earlier] * slopes[earlier, i]
            stage[i] = state[i] + step * change
        _derivative(stage, field, slopes[number + 1])
    error = 0.0
    for i in range(size):
        gap = 0.0
        for number in range(7):
            gap += ERROR_WEIGHTS[number] * slopes[number, i]
        share = abs(step * gap) / (atol + rtol * max(abs(state[i]), abs(stage[i])))
        if not isfinite(share):
            return inf
        error = max(error, share)
    return error


@njit(cache=True)
def _dormand_prince(
    state: FloatArray, field: _Field, span: float, first_step: float, atol: float, rtol: float
) -> tuple[float, float]:
    """Advance ``state`` by exactly ``span``; give the largest magnitude on the way and the last internal step.

    An internal step of 0 says that the tolerance could not be met.
    """
    size = state.shape[0]
    slopes = np.empty((7, size))
    stage = np.empty(size)
    largest = 0.0
    done = 0.0
    step = first_step
    while True:
        is_last = done + step >= span * (1.0 - 1e-12)
        if is_last:
            step = span - done
        _derivative(state, field, slopes[0])
        error = _dormand_prince_trial(state, field, step, slopes, stage, atol, rtol)
        while error > 1.0:
            is_last = False
            step *= max(0.2, 0.9 * error**-0.25)
            if step < SMALLEST_STEP * span:
                return largest, 0.0
            error = _dormand_prince_trial(state, field, step, slopes, stage, atol, rtol)
        state[:] = stage
        largest = max(largest, _clamp(state))
        if is_last or largest == inf:
            return largest, step
        done += step
        step *= 5.0 if error == 0.0 else min(5.0, 0.9 * error**-0.2)


@njit(cache=True)
def _wrap(state: FloatArray, count: int) -> None:
    for i in range(count):
        if not 0.0 <= state[i] < TWO_PI:
            state[i] %= TWO_PI
            if state[i] >= TWO_PI:  # a tiny negative phase rounds up to a full turn
                state[i] = 0.0


@njit(cache=True)
def _make_field(
    omegas: FloatArray,
    mu: FloatArray,
    phase_cosine: FloatArray,
    phase_sine: FloatArray,
    amplitude_cosine: FloatArray,
    amplitude_sine: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    epsilon: float,
) -> _Field:
    """Bundle what the derivative needs; ``zeta`` and ``psi`` have one entry, or one per oscillator."""
    count = omegas.shape[0]
    drive = np.zeros((2, count))
    for i in range(count):
        strength = zeta[i % zeta.shape[0]]
        if strength != 0.0:
            target = psi[i % psi.shape[0]]
            drive[0, i] = strength * cos(target)
            drive[1, i] = strength * sin(target)
    work = np.empty((6, count))
    return _Field(omegas, mu, phase_cosine, phase_sine, amplitude_cosine, amplitude_sine, drive, epsilon, work)


@njit(cache=True)
def advance_euler(
    state: FloatArray,
    omegas: FloatArray,
    mu: FloatArray,
    phase_cosine: FloatArray,
    phase_sine: FloatArray,
    amplitude_cosine: FloatArray,
    amplitude_sine: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    epsilon: float,
    dt: float,
    substeps: int,
    atol: float,
    rtol: float,
) -> tuple[FloatArray, float, float]:
    """Advance by explicit Euler steps."""
    field = _make_field(omegas, mu, phase_cosine, phase_sine, amplitude_cosine, amplitude_sine, zeta, psi, epsilon)
    result = state.copy()
    largest = _euler(result, field, dt / substeps, substeps)
    step = dt / substeps
    _wrap(result, omegas.shape[0])
    return result, largest, step


@njit(cache=True)
def advance_rk4(
    state: FloatArray,
    omegas: FloatArray,
    mu: FloatArray,
    phase_cosine: FloatArray,
    phase_sine: FloatArray,
    amplitude_cosine: FloatArray,
    amplitude_sine: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    epsilon: float,
    dt: float,
    substeps: int,
    atol: float,
    rtol: float,
) -> tuple[FloatArray, float, float]:
    """Advance by classic Runge-Kutta steps."""
    field = _make_field(omegas, mu, phase_cosine, phase_sine, amplitude_cosine, amplitude_sine, zeta, psi, epsilon)
    result = state.copy()
    largest = _rk4(result, field, dt / substeps, substeps)
    step = dt / substeps
    _wrap(result, omegas.shape[0])
    return result, largest, step


@njit(cache=True)
def advance_rk45(
    state: FloatArray,
    omegas: FloatArray,
    mu: FloatArray,
    phase_cosine: FloatArray,
    phase_sine: FloatArray,
    amplitude_cosine: FloatArray,
    amplitude_sine: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    epsilon: float,
    dt: float,
    substeps: int,
    atol: float,
    rtol: float,
) -> tuple[FloatArray, float, float]:
    """Advance by the adaptive method of Dormand and Prince."""
    field = _make_field(omegas, mu, phase_cosine, phase_sine, amplitude_cosine, amplitude_sine, zeta, psi, epsilon)
    result = state.copy()
    largest, step = _dormand_prince(result, field, dt, dt / substeps, atol, rtol)
    _wrap(result, omegas.shape[0])
    return result, largest, step


@njit(cache=True)
def amplitude_order(state: FloatArray) -> tuple[float, float]:
    """Give real and imaginary part of ``mean(r e^{iθ})``."""
    count = state.shape[0] // 2
    real = 0.0
    imaginary = 0.0
    for i in range(count):
        real += state[count + i] * cos(state[i])
        imaginary += state[count + i] * sin(state[i])
    return real / count, imaginary / count
