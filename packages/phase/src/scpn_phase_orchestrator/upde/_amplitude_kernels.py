"""Compiled steps of the Stuart-Landau network.

With ``s_i = sin θ_i`` and ``c_i = cos θ_i`` the differences of angles split into products, so that a derivative needs
one sine and one cosine per oscillator and four products of a matrix and a vector::

    Σ_j K_ij sin(θ_j − θ_i − α_ij)      = c_i Σ_j (A_ij s_j − B_ij c_j) − s_i Σ_j (A_ij c_j + B_ij s_j)
    Σ_j L_ij r_j cos(θ_j − θ_i − α_ij)  = c_i Σ_j (C_ij r_j c_j + D_ij r_j s_j) + s_i Σ_j (C_ij r_j s_j − D_ij r_j c_j)

with ``A = K cos α``, ``B = K sin α``, ``C = L cos α``, ``D = L sin α``. The matrices are stored transposed: the inner
loop then runs over receivers, which the compiler turns into vector instructions without changing the order of any sum.
Results are therefore the same on every processor that has the same sine and cosine.
"""

from __future__ import annotations

from math import cos, inf, isfinite, sin

import numpy as np
from numba import njit

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = ["advance", "amplitude_order", "prepare"]

EULER = 0
RK4 = 1
RK45 = 2

SMALLEST_STEP = 1e-10
"""Shortest internal step of rk45, as a share of the step asked for."""


@njit(cache=True)
def prepare(
    knm: FloatArray, knm_r: FloatArray, alpha: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Give ``(K cos α)ᵀ, (K sin α)ᵀ, (L cos α)ᵀ, (L sin α)ᵀ``; the sine parts are empty without any lag."""
    count = knm.shape[0]
    has_lag = False
    for row in range(count):
        for column in range(count):
            if alpha[row, column] != 0.0:
                has_lag = True
    phase_cosine = np.empty((count, count))
    amplitude_cosine = np.empty((count, count))
    lag_count = count if has_lag else 0
    phase_sine = np.empty((lag_count, lag_count))
    amplitude_sine = np.empty((lag_count, lag_count))
    for row in range(count):
        for column in range(count):
            if has_lag:
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
def _derivative(
    state: FloatArray,
    omegas: FloatArray,
    mu: FloatArray,
    phase_cosine: FloatArray,
    phase_sine: FloatArray,
    amplitude_cosine: FloatArray,
    amplitude_sine: FloatArray,
    drive: FloatArray,
    epsilon: float,
    work: FloatArray,
    out: FloatArray,
) -> None:
    """Write the derivative of ``state`` to ``out``; ``drive`` holds ζ cos Ψ and ζ sin Ψ."""
    count = omegas.shape[0]
    has_lag = phase_sine.shape[0] > 0
    sines, cosines = work[0], work[1]
    toward_cosine, toward_sine = work[2], work[3]
    growth_cosine, growth_sine = work[4], work[5]
    for i in range(count):
        sines[i] = sin(state[i])
        cosines[i] = cos(state[i])
        toward_cosine[i] = drive[1, i]
        toward_sine[i] = drive[0, i]
        growth_cosine[i] = 0.0
        growth_sine[i] = 0.0
    for j in range(count):
        sine = sines[j]
        cosine = cosines[j]
        if has_lag:
            for i in range(count):
                toward_cosine[i] += phase_cosine[j, i] * sine - phase_sine[j, i] * cosine
                toward_sine[i] += phase_cosine[j, i] * cosine + phase_sine[j, i] * sine
        else:
            for i in range(count):
                toward_cosine[i] += phase_cosine[j, i] * sine
                toward_sine[i] += phase_cosine[j, i] * cosine
    if epsilon != 0.0:
        for j in range(count):
            amplitude = max(state[count + j], 0.0)
            sine = sines[j] * amplitude
            cosine = cosines[j] * amplitude
            if has_lag:
                for i in range(count):
                    growth_cosine[i] += amplitude_cosine[j, i] * cosine + amplitude_sine[j, i] * sine
                    growth_sine[i] += amplitude_cosine[j, i] * sine - amplitude_sine[j, i] * cosine
            else:
                for i in range(count):
                    growth_cosine[i] += amplitude_cosine[j, i] * cosine
                    growth_sine[i] += amplitude_cosine[j, i] * sine
    for i in range(count):
        amplitude = state[count + i]
        out[i] = omegas[i] + (cosines[i] * toward_cosine[i] - sines[i] * toward_sine[i])
        out[count + i] = (mu[i] - amplitude * amplitude) * amplitude + epsilon * (
            cosines[i] * growth_cosine[i] + sines[i] * growth_sine[i]
        )


@njit(cache=True)
def _clamp(state: FloatArray, count: int) -> float:
    """Lift negative amplitudes to 0; give the largest magnitude before, or infinity when one is not finite."""
    largest = 0.0
    for i in range(2 * count):
        if not isfinite(state[i]):
            return inf
        largest = max(largest, abs(state[i]))
    for i in range(count, 2 * count):
        state[i] = max(state[i], 0.0)
    return largest


@njit(cache=True)
def _dormand_prince(
    state: FloatArray,
    omegas: FloatArray,
    mu: FloatArray,
    phase_cosine: FloatArray,
    phase_sine: FloatArray,
    amplitude_cosine: FloatArray,
    amplitude_sine: FloatArray,
    drive: FloatArray,
    epsilon: float,
    work: FloatArray,
    slopes: FloatArray,
    stage: FloatArray,
    span: float,
    atol: float,
    rtol: float,
    first_step: float,
) -> tuple[float, float]:
    """Advance ``state`` by exactly ``span``; give the largest magnitude seen and the last internal step.

    Dormand and Prince (1980), J. Comput. Appl. Math. 6: the fifth-order solution is kept, the embedded fourth-order one
    measures the error. An internal step of 0 says that the tolerance could not be met.
    """
    size = state.shape[0]
    count = size // 2
    largest = 0.0
    done = 0.0
    step = min(first_step, span)
    taken = step
    while done < span:
        is_last = done + step >= span * (1.0 - 1e-12)
        if is_last:
            step = span - done
        _derivative(
            state,
            omegas,
            mu,
            phase_cosine,
            phase_sine,
            amplitude_cosine,
            amplitude_sine,
            drive,
            epsilon,
            work,
            slopes[0],
        )
        accepted = False
        while not accepted:
            for number in range(1, 7):
                for i in range(size):
                    k1, k2, k3, k4 = slopes[0, i], slopes[1, i], slopes[2, i], slopes[3, i]
                    k5, k6 = slopes[4, i], slopes[5, i]
                    if number == 1:
                        change = k1 / 5.0
                    elif number == 2:
                        change = 3.0 / 40.0 * k1 + 9.0 / 40.0 * k2
                    elif number == 3:
                        change = 44.0 / 45.0 * k1 - 56.0 / 15.0 * k2 + 32.0 / 9.0 * k3
                    elif number == 4:
                        change = (
                            19372.0 / 6561.0 * k1 - 25360.0 / 2187.0 * k2 + 64448.0 / 6561.0 * k3 - 212.0 / 729.0 * k4
                        )
                    elif number == 5:
                        change = (
                            9017.0 / 3168.0 * k1
                            - 355.0 / 33.0 * k2
                            + 46732.0 / 5247.0 * k3
                            + 49.0 / 176.0 * k4
                            - 5103.0 / 18656.0 * k5
                        )
                    else:
                        change = (
                            35.0 / 384.0 * k1
                            + 500.0 / 1113.0 * k3
                            + 125.0 / 192.0 * k4
                            - 2187.0 / 6784.0 * k5
                            + 11.0 / 84.0 * k6
                        )
                    stage[i] = state[i] + step * change
                _derivative(
                    stage,
                    omegas,
                    mu,
                    phase_cosine,
                    phase_sine,
                    amplitude_cosine,
                    amplitude_sine,
                    drive,
                    epsilon,
                    work,
                    slopes[number],
                )
            error = 0.0
            for i in range(size):
                gap = step * (
                    71.0 / 57600.0 * slopes[0, i]
                    - 71.0 / 16695.0 * slopes[2, i]
                    + 71.0 / 1920.0 * slopes[3, i]
                    - 17253.0 / 339200.0 * slopes[4, i]
                    + 22.0 / 525.0 * slopes[5, i]
                    - slopes[6, i] / 40.0
                )
                share = abs(gap) / (atol + rtol * max(abs(state[i]), abs(stage[i])))
                error = max(error, share) if isfinite(share) else inf
                if error == inf:
                    break
            accepted = error <= 1.0
            if not accepted:
                step *= max(0.2, 0.9 * error**-0.25)
                is_last = False
                if step < SMALLEST_STEP * span:
                    return (inf if error == inf else largest), 0.0
        for i in range(size):
            state[i] = stage[i]
        magnitude = _clamp(state, count)
        largest = max(largest, magnitude)
        if magnitude == inf:
            return inf, step
        taken = step
        if is_last:
            return largest, taken
        done += step
        step *= 5.0 if error == 0.0 else min(5.0, 0.9 * error**-0.2)
    return largest, taken


@njit(cache=True)
def advance(
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
    method: int,
    atol: float,
    rtol: float,
) -> tuple[FloatArray, float, float]:
    """Give the state after ``dt``, the largest magnitude on the way and the last internal step.

    ``zeta`` and ``psi`` have one entry, or one per oscillator. The magnitude is infinite after a value that is not
    finite; the internal step is 0 when rk45 could not meet its tolerance.
    """
    count = omegas.shape[0]
    size = 2 * count
    work = np.empty((6, count))
    drive = np.empty((2, count))
    for i in range(count):
        strength = zeta[i] if zeta.shape[0] > 1 else zeta[0]
        if strength == 0.0:
            drive[0, i] = 0.0
            drive[1, i] = 0.0
        else:
            target = psi[i] if psi.shape[0] > 1 else psi[0]
            drive[0, i] = strength * cos(target)
            drive[1, i] = strength * sin(target)
    result = state.copy()
    largest = 0.0
    step = dt / substeps
    taken = step
    if method == EULER:
        slope = np.empty(size)
        for _ in range(substeps):
            _derivative(
                result,
                omegas,
                mu,
                phase_cosine,
                phase_sine,
                amplitude_cosine,
                amplitude_sine,
                drive,
                epsilon,
                work,
                slope,
            )
            for i in range(size):
                result[i] += step * slope[i]
            largest = max(largest, _clamp(result, count))
            if largest == inf:
                break
    elif method == RK4:
        slopes = np.empty((4, size))
        stage = np.empty(size)
        for _ in range(substeps):
            for number in range(4):
                for i in range(size):
                    if number == 0:
                        stage[i] = result[i]
                    else:
                        stage[i] = result[i] + (step if number == 3 else 0.5 * step) * slopes[number - 1, i]
                _derivative(
                    stage,
                    omegas,
                    mu,
                    phase_cosine,
                    phase_sine,
                    amplitude_cosine,
                    amplitude_sine,
                    drive,
                    epsilon,
                    work,
                    slopes[number],
                )
            for i in range(size):
                result[i] += step / 6.0 * (slopes[0, i] + 2.0 * slopes[1, i] + 2.0 * slopes[2, i] + slopes[3, i])
            largest = max(largest, _clamp(result, count))
            if largest == inf:
                break
    else:
        largest, taken = _dormand_prince(
            result,
            omegas,
            mu,
            phase_cosine,
            phase_sine,
            amplitude_cosine,
            amplitude_sine,
            drive,
            epsilon,
            work,
            np.empty((7, size)),
            np.empty(size),
            dt,
            atol,
            rtol,
            step,
        )
    for i in range(count):
        if not 0.0 <= result[i] < TWO_PI:
            result[i] %= TWO_PI
            if result[i] >= TWO_PI:  # a tiny negative phase rounds up to a full turn
                result[i] = 0.0
    return result, largest, taken


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
