"""Compiled pieces that work element by element: sines, sums of stages, wrapping, checks.

Every rounding here is spelled out (fused multiply-adds are explicit, no reassociation is allowed), so that one input
gives the same bits at any vector width, batch size and thread count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from scpn_phase_orchestrator._arrays import FloatArray

__all__ = [
    "LARGEST_PHASE",
    "add_scaled",
    "are_known_inputs",
    "combine_rk4",
    "copy_into",
    "differ",
    "error_ratio",
    "fused_multiply_add",
    "largest_magnitude",
    "load_drive",
    "sine_and_cosine",
    "sines",
    "stays_below",
    "velocity",
    "weighted_sum",
    "wrap",
]

LARGEST_PHASE = 2.0**30
"""Largest magnitude, in radians, for which the sines below keep their accuracy; a larger phase counts as divergence."""

_LARGEST_FLOAT = float(np.finfo(np.float64).max)
_TWO_PI = math.tau
_TURNS_PER_RADIAN = 1.0 / math.tau
_QUADRANTS_PER_RADIAN = 2.0 / math.pi
# Adding this number rounds to the nearest whole number and leaves it in the lowest bits of the significand.
_ROUNDING_OFFSET = 1.5 * 2.0**52
# pi / 2 as a sum of three doubles (Cody and Waite).
_HALF_PI_HIGH, _HALF_PI_MIDDLE, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33
# Coefficients of the minimax polynomials of FreeBSD's msun (k_sin.c and k_cos.c) on [-pi/4, pi/4].
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5, _S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
_C1, _C2, _C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_C4, _C5, _C6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11


def _fused_multiply_add(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


def _bits_of_float(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _float_of_bits(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


def _round_down(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.floor", [ir.DoubleType()]), arguments)

    return types.float64(types.float64), generate


fused_multiply_add = cast("Callable[[float, float, float], float]", intrinsic(_fused_multiply_add))
"""``a * b + c`` with one rounding (compiled code only)."""

_bits_of = cast("Callable[[float], int]", intrinsic(_bits_of_float))
_number_of = cast("Callable[[int], float]", intrinsic(_float_of_bits))
_floor = cast("Callable[[float], float]", intrinsic(_round_down))


@njit(cache=True, error_model="numpy")
def sine_and_cosine(angle: float) -> tuple[float, float]:
    """Sine and cosine of one angle up to `LARGEST_PHASE`, without branches, within two units in the last place."""
    shifted = fused_multiply_add(angle, _QUADRANTS_PER_RADIAN, _ROUNDING_OFFSET)
    quadrant = _bits_of(shifted)
    turns = shifted - _ROUNDING_OFFSET
    rest = fused_multiply_add(-turns, _HALF_PI_HIGH, angle)
    rest = fused_multiply_add(-turns, _HALF_PI_MIDDLE, rest)
    rest = fused_multiply_add(-turns, _HALF_PI_LOW, rest)
    z = rest * rest
    tail = fused_multiply_add(z, _S6, _S5)
    tail = fused_multiply_add(z, tail, _S4)
    tail = fused_multiply_add(z, tail, _S3)
    tail = fused_multiply_add(z, tail, _S2)
    tail = fused_multiply_add(z, tail, _S1)
    sine = fused_multiply_add(rest * z, tail, rest)
    tail = fused_multiply_add(z, _C6, _C5)
    tail = fused_multiply_add(z, tail, _C4)
    tail = fused_multiply_add(z, tail, _C3)
    tail = fused_multiply_add(z, tail, _C2)
    tail = fused_multiply_add(z, tail, _C1)
    half = 0.5 * z
    head = 1.0 - half
    cosine = head + fused_multiply_add(z * z, tail, (1.0 - head) - half)
    is_swapped = (quadrant & 1) != 0
    first = cosine if is_swapped else sine
    second = sine if is_swapped else cosine
    return (
        _number_of(_bits_of(first) ^ ((quadrant & 2) << 62)),
        _number_of(_bits_of(second) ^ (((quadrant + 1) & 2) << 62)),
    )


@njit(cache=True, error_model="numpy", nogil=True)
def sines(angles: FloatArray, sine: FloatArray, cosine: FloatArray) -> None:
    """Write the sines and cosines of all angles."""
    for i in range(angles.shape[0]):
        sine[i], cosine[i] = sine_and_cosine(angles[i])


@njit(cache=True, error_model="numpy")
def load_drive(zeta: FloatArray, psi: FloatArray, n: int, drive_sine: FloatArray, drive_cosine: FloatArray) -> None:
    """Write ``zeta sin(psi)`` and ``zeta cos(psi)``; one value each stands for all ``n`` oscillators."""
    if zeta.shape[0] == 1 and psi.shape[0] == 1:
        sine, cosine = sine_and_cosine(psi[0])
        for i in range(n):
            drive_sine[i] = zeta[0] * sine
            drive_cosine[i] = zeta[0] * cosine
        return
    for i in range(n):
        sine, cosine = sine_and_cosine(psi[i if psi.shape[0] > 1 else 0])
        strength = zeta[i if zeta.shape[0] > 1 else 0]
        drive_sine[i] = strength * sine
        drive_cosine[i] = strength * cosine


@njit(cache=True, error_model="numpy")
def copy_into(out: FloatArray, values: FloatArray) -> None:
    """Write the values to the beginning of ``out``, which may be longer or shorter."""
    for i in range(min(out.shape[0], values.shape[0])):
        out[i] = values[i]


@njit(cache=True, error_model="numpy")
def velocity(
    out: FloatArray,
    omega: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
) -> None:
    """``omega + c P - s Q``, where P and Q are the summed sines and cosines of what pulls."""
    for i in range(out.shape[0]):
        rest = fused_multiply_add(-sine[i], pull_cosine[i], omega[i])
        out[i] = fused_multiply_add(cosine[i], pull_sine[i], rest)


@njit(cache=True, error_model="numpy")
def add_scaled(out: FloatArray, start: FloatArray, step: float, slope: FloatArray) -> None:
    """``out = start + step * slope``."""
    for i in range(out.shape[0]):
        out[i] = fused_multiply_add(step, slope[i], start[i])


@njit(cache=True, error_model="numpy")
def combine_rk4(state: FloatArray, step: float, slopes: FloatArray) -> None:
    """``state += step / 6 (k1 + 2 k2 + 2 k3 + k4)``."""
    for i in range(state.shape[0]):
        middle = slopes[1, i] + slopes[2, i]
        total = fused_multiply_add(2.0, middle, slopes[0, i] + slopes[3, i])
        state[i] = fused_multiply_add(step / 6.0, total, state[i])


@njit(cache=True, error_model="numpy")
def weighted_sum(
    out: FloatArray, start: FloatArray, step: float, slopes: FloatArray, weights: FloatArray, total: FloatArray
) -> None:
    """``out = start + step * sum_r weights[r] slopes[r]``; ``total`` is scratch."""
    for i in range(total.shape[0]):
        total[i] = 0.0
    for row in range(weights.shape[0]):
        weight = weights[row]
        for i in range(total.shape[0]):
            total[i] = fused_multiply_add(weight, slopes[row, i], total[i])
    for i in range(out.shape[0]):
        out[i] = fused_multiply_add(step, total[i], start[i])


@njit(cache=True, error_model="numpy")
def error_ratio(
    start: FloatArray,
    end: FloatArray,
    step: float,
    slopes: FloatArray,
    weights: FloatArray,
    total: FloatArray,
    atol: float,
    rtol: float,
) -> float:
    """Largest ratio of the estimated error to what the tolerances allow; NaN if any is not a number."""
    for i in range(total.shape[0]):
        total[i] = 0.0
    for row in range(weights.shape[0]):
        weight = weights[row]
        for i in range(total.shape[0]):
            total[i] = fused_multiply_add(weight, slopes[row, i], total[i])
    largest = 0.0
    for i in range(total.shape[0]):
        ratio = abs(step * total[i]) / (atol + rtol * max(abs(start[i]), abs(end[i])))
        if not ratio <= largest:
            largest = ratio
            if np.isnan(ratio):
                break
    return largest


@njit(cache=True, error_model="numpy")
def wrap(phases: FloatArray) -> None:
    """Bring phases up to `LARGEST_PHASE` to [0, 2 pi), with the bits of ``numpy.mod``, or 0 where it gives 2 pi."""
    for i in range(phases.shape[0]):
        phase = phases[i]
        turns = _floor(phase * _TURNS_PER_RADIAN)
        turns = turns - 1.0 if fused_multiply_add(-turns, _TWO_PI, phase) < 0.0 else turns
        rest = fused_multiply_add(-turns, _TWO_PI, phase)
        phases[i] = rest - _TWO_PI if rest >= _TWO_PI else rest


@njit(cache=True, error_model="numpy")
def largest_magnitude(values: FloatArray) -> float:
    """Largest absolute value; NaN if any is not a number."""
    largest = 0.0
    for i in range(values.shape[0]):
        size = abs(values[i])
        if not size <= largest:
            largest = size
            if np.isnan(size):
                break
    return largest


@njit(cache=True, error_model="numpy")
def stays_below(values: FloatArray, limit: float) -> bool:
    """Whether every magnitude of a flat array is at most ``limit`` (NaN is not)."""
    outside = 0
    for i in range(values.shape[0]):
        outside |= np.int64(not (abs(values[i]) <= limit))
    return outside == 0


@njit(cache=True, error_model="numpy")
def differ(first: FloatArray, second: FloatArray) -> bool:
    """Whether two flat arrays of one length differ anywhere (NaN always differs)."""
    different = 0
    for i in range(first.shape[0]):
        different |= np.int64(first[i] != second[i])
    return different != 0


@njit(cache=True, error_model="numpy")
def are_known_inputs(
    phases: FloatArray,
    omegas: FloatArray,
    knm: FloatArray,
    alpha: FloatArray,
    known_knm: FloatArray,
    known_alpha: FloatArray,
) -> bool:
    """Whether the vectors are in range and the matrices, of one shape, are the checked ones."""
    return (
        stays_below(phases, LARGEST_PHASE)
        and stays_below(omegas, _LARGEST_FLOAT)
        and not differ(knm.reshape(-1), known_knm.reshape(-1))
        and not differ(alpha.reshape(-1), known_alpha.reshape(-1))
    )
