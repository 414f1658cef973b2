"""Compiled sums behind the order parameters, the phase-locking values and the modulation index.

All sums run in index order, so that a layer's value does not depend on which public function asked for it.
"""

from __future__ import annotations

from math import atan2, cos, floor, log, sin, sqrt

import numpy as np
from numba import njit
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI

__all__ = [
    "amplitude_summary",
    "group_order_parameter",
    "layer_amplitude",
    "layer_order",
    "layer_plv",
    "modulation_index_columns",
    "modulation_index_pairs",
    "order_parameter",
    "phase_locking_value",
]

IntArray = NDArray[np.int64]


@njit(cache=True)
def _polar(real: float, imaginary: float, count: int) -> tuple[float, float]:
    """Give modulus (at most 1) and angle on [0, 2π) of a sum of ``count`` unit vectors."""
    modulus = min(sqrt(real * real + imaginary * imaginary) / count, 1.0)
    angle = atan2(imaginary, real)
    if angle < 0.0:
        angle += TWO_PI
        if angle >= TWO_PI:  # a tiny negative angle rounds up to a full turn
            angle = 0.0
    return modulus, angle


@njit(cache=True)
def order_parameter(phases: FloatArray) -> tuple[float, float]:
    """Give R and ψ of all phases; (0, 0) without any."""
    count = phases.shape[0]
    if count == 0:
        return 0.0, 0.0
    real = 0.0
    imaginary = 0.0
    for position in range(count):
        real += cos(phases[position])
        imaginary += sin(phases[position])
    return _polar(real, imaginary, count)


@njit(cache=True)
def phase_locking_value(first: FloatArray, second: FloatArray) -> float:
    """Give the modulus of the mean unit vector of the phase differences."""
    count = first.shape[0]
    if count == 0:
        return 0.0
    real = 0.0
    imaginary = 0.0
    for position in range(count):
        difference = first[position] - second[position]
        real += cos(difference)
        imaginary += sin(difference)
    return min(sqrt(real * real + imaginary * imaginary) / count, 1.0)


@njit(cache=True)
def layer_order(phases: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Give R and ψ of every layer; layer ``l`` holds the positions ``starts[l] .. starts[l + 1] - 1``."""
    layer_count = starts.shape[0] - 1
    moduli = np.zeros(layer_count)
    angles = np.zeros(layer_count)
    for layer in range(layer_count):
        moduli[layer], angles[layer] = order_parameter(phases[starts[layer] : starts[layer + 1]])
    return moduli, angles


@njit(cache=True)
def layer_plv(phases: FloatArray, starts: IntArray) -> FloatArray:
    """Give the phase-locking value of every pair of layers over their first common positions, zero diagonal.

    The differences are taken in rectangular form, cos(a − b) and sin(a − b) from the sines and cosines of each
    phase, so that every phase costs one sine and one cosine however many layers there are.
    """
    layer_count = starts.shape[0] - 1
    values = np.zeros((layer_count, layer_count))
    count = phases.shape[0]
    cosines = np.empty(count)
    sines = np.empty(count)
    for position in range(count):
        cosines[position] = cos(phases[position])
        sines[position] = sin(phases[position])
    for first in range(layer_count):
        first_start = starts[first]
        first_size = starts[first + 1] - first_start
        for second in range(first + 1, layer_count):
            second_start = starts[second]
            common = min(first_size, starts[second + 1] - second_start)
            if common == 0:
                continue
            real = 0.0
            imaginary = 0.0
            for offset in range(common):
                cosine_a = cosines[first_start + offset]
                sine_a = sines[first_start + offset]
                cosine_b = cosines[second_start + offset]
                sine_b = sines[second_start + offset]
                real += cosine_a * cosine_b + sine_a * sine_b
                imaginary += sine_a * cosine_b - cosine_a * sine_b
            value = min(sqrt(real * real + imaginary * imaginary) / common, 1.0)
            values[first, second] = value
            values[second, first] = value
    return values


@njit(cache=True)
def group_order_parameter(phases: FloatArray, starts: IntArray, layers: IntArray) -> float:
    """Give R over the phases of the listed layers taken together; 0 when they hold none."""
    real = 0.0
    imaginary = 0.0
    count = 0
    for layer in layers:
        for position in range(starts[layer], starts[layer + 1]):
            real += cos(phases[position])
            imaginary += sin(phases[position])
            count += 1
    if count == 0:
        return 0.0
    return min(sqrt(real * real + imaginary * imaginary) / count, 1.0)


@njit(cache=True)
def layer_amplitude(amplitudes: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Give mean and relative spread of every layer's amplitudes; 0 for an empty layer or a mean of 0."""
    layer_count = starts.shape[0] - 1
    means = np.zeros(layer_count)
    spreads = np.zeros(layer_count)
    for layer in range(layer_count):
        count = starts[layer + 1] - starts[layer]
        if count == 0:
            continue
        total = 0.0
        for position in range(starts[layer], starts[layer + 1]):
            total += amplitudes[position]
        mean = total / count
        means[layer] = mean
        if mean > 0.0:
            squares = 0.0
            for position in range(starts[layer], starts[layer + 1]):
                squares += (amplitudes[position] - mean) ** 2
            spreads[layer] = sqrt(squares / count) / mean
    return means, spreads


@njit(cache=True)
def amplitude_summary(amplitudes: FloatArray, threshold: float) -> tuple[float, float]:
    """Give the mean amplitude and the share of amplitudes below the threshold."""
    count = amplitudes.shape[0]
    if count == 0:
        return 0.0, 0.0
    total = 0.0
    below = 0
    for position in range(count):
        total += amplitudes[position]
        if amplitudes[position] < threshold:
            below += 1
    return total / count, below / count


@njit(cache=True)
def _bin_of(phase: float, bin_count: int) -> int:
    turns = phase / TWO_PI
    return min(int((turns - floor(turns)) * bin_count), bin_count - 1)


@njit(cache=True)
def _index_of_bins(sums: FloatArray, counts: FloatArray) -> float:
    """Give the modulation index of amplitude sums and counts per phase bin."""
    bin_count = sums.shape[0]
    total = 0.0
    for slot in range(bin_count):
        if counts[slot] > 0:
            sums[slot] /= counts[slot]
            total += sums[slot]
    if not total > 0.0:
        return 0.0
    weighted = 0.0
    for slot in range(bin_count):
        share = sums[slot] / total
        if share > 0.0:
            weighted += share * log(share * bin_count)
    return min(max(weighted / log(bin_count), 0.0), 1.0)


@njit(cache=True)
def modulation_index_columns(phases: FloatArray, amplitudes: FloatArray, bin_count: int, start: int) -> FloatArray:
    """Give the modulation index of every column; the oldest row is ``start``, the rows form a ring."""
    row_count, column_count = phases.shape
    values = np.empty(column_count)
    sums = np.empty(bin_count)
    counts = np.empty(bin_count)
    for column in range(column_count):
        sums[:] = 0.0
        counts[:] = 0.0
        row = start
        for _ in range(row_count):
            slot = _bin_of(phases[row, column], bin_count)
            sums[slot] += amplitudes[row, column]
            counts[slot] += 1.0
            row += 1
            if row == row_count:
                row = 0
        values[column] = _index_of_bins(sums, counts)
    return values


@njit(cache=True)
def modulation_index_pairs(phases: FloatArray, amplitudes: FloatArray, bin_count: int) -> FloatArray:
    """Give the modulation index of every phase column with every amplitude column."""
    row_count, phase_count = phases.shape
    amplitude_count = amplitudes.shape[1]
    values = np.empty((phase_count, amplitude_count))
    slots = np.empty(row_count, dtype=np.int64)
    sums = np.empty(bin_count)
    counts = np.empty(bin_count)
    for phase_column in range(phase_count):
        for row in range(row_count):
            slots[row] = _bin_of(phases[row, phase_column], bin_count)
        for amplitude_column in range(amplitude_count):
            sums[:] = 0.0
            counts[:] = 0.0
            for row in range(row_count):
                sums[slots[row]] += amplitudes[row, amplitude_column]
                counts[slots[row]] += 1.0
            values[phase_column, amplitude_column] = _index_of_bins(sums, counts)
    return values
