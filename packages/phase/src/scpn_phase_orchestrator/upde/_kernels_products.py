"""What the oscillators feel from each other, as products with the sines s and cosines c of the phases.

With ``A = K cos(alpha)`` and ``B = K sin(alpha)``, ``P_i = sum_j A_ij s_j - B_ij c_j`` and
``Q_i = sum_j A_ij c_j + B_ij s_j`` give ``sum_j K_ij sin(theta_j - theta_i - alpha_ij) = c_i P_i - s_i Q_i``.
Each sum runs over j in ascending order, one fused multiply-add at a time, and P and Q start from what the caller wrote
there (the drive). Matrices lie transposed (``a[j, i]``), so that vector lanes hold receivers and no sum is ever split.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.upde._kernels_elementary import fused_multiply_add, sine_and_cosine

__all__ = [
    "DenseCoupling",
    "SparseCoupling",
    "UniformCoupling",
    "accumulate",
    "dense_products",
    "split_matrices",
    "split_values",
]

RowPointers = NDArray[np.int64]
Columns = NDArray[np.int32]

_ROWS_AT_ONCE = 16


class DenseCoupling(NamedTuple):
    """Transposed matrices ``(n, padded n)``; the second is ``(0, 0)`` without lags."""

    cosine_part: FloatArray
    sine_part: FloatArray


class SparseCoupling(NamedTuple):
    """Compressed rows, columns ascending; the last array is empty without lags."""

    row_ptr: RowPointers
    col_indices: Columns
    cosine_part: FloatArray
    sine_part: FloatArray


class UniformCoupling(NamedTuple):
    """Every oscillator pulls every other one alike: ``A_ij = cosine_part``, ``B_ij = sine_part`` for i != j."""

    n: int
    cosine_part: float
    sine_part: float


# Several senders a pass (eight, or four with lags, as measured): the sums of a receiver are then read and written once
# for that many rows, and the compiler, which vectorises over receivers, keeps the sines and cosines in registers.


@njit(cache=True, error_model="numpy")
def _plain_products(
    a: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
    first: int,
    last: int,
) -> None:
    n = a.shape[0]
    j = 0
    while j + 8 <= n:
        s0, s1, s2, s3, s4, s5, s6, s7 = (
            sine[j],
            sine[j + 1],
            sine[j + 2],
            sine[j + 3],
            sine[j + 4],
            sine[j + 5],
            sine[j + 6],
            sine[j + 7],
        )
        c0, c1, c2, c3, c4, c5, c6, c7 = (
            cosine[j],
            cosine[j + 1],
            cosine[j + 2],
            cosine[j + 3],
            cosine[j + 4],
            cosine[j + 5],
            cosine[j + 6],
            cosine[j + 7],
        )
        a0, a1, a2, a3, a4, a5, a6, a7 = a[j], a[j + 1], a[j + 2], a[j + 3], a[j + 4], a[j + 5], a[j + 6], a[j + 7]
        for i in range(first, last):
            p, q = pull_sine[i], pull_cosine[i]
            p, q = fused_multiply_add(a0[i], s0, p), fused_multiply_add(a0[i], c0, q)
            p, q = fused_multiply_add(a1[i], s1, p), fused_multiply_add(a1[i], c1, q)
            p, q = fused_multiply_add(a2[i], s2, p), fused_multiply_add(a2[i], c2, q)
            p, q = fused_multiply_add(a3[i], s3, p), fused_multiply_add(a3[i], c3, q)
            p, q = fused_multiply_add(a4[i], s4, p), fused_multiply_add(a4[i], c4, q)
            p, q = fused_multiply_add(a5[i], s5, p), fused_multiply_add(a5[i], c5, q)
            p, q = fused_multiply_add(a6[i], s6, p), fused_multiply_add(a6[i], c6, q)
            p, q = fused_multiply_add(a7[i], s7, p), fused_multiply_add(a7[i], c7, q)
            pull_sine[i], pull_cosine[i] = p, q
        j += 8
    while j < n:
        s0, c0, a0 = sine[j], cosine[j], a[j]
        for i in range(first, last):
            pull_sine[i] = fused_multiply_add(a0[i], s0, pull_sine[i])
            pull_cosine[i] = fused_multiply_add(a0[i], c0, pull_cosine[i])
        j += 1


@njit(cache=True, error_model="numpy")
def _lagged_products(
    a: FloatArray,
    b: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
    first: int,
    last: int,
) -> None:
    n = a.shape[0]
    j = 0
    while j + 4 <= n:
        s0, s1, s2, s3 = sine[j], sine[j + 1], sine[j + 2], sine[j + 3]
        c0, c1, c2, c3 = cosine[j], cosine[j + 1], cosine[j + 2], cosine[j + 3]
        a0, a1, a2, a3 = a[j], a[j + 1], a[j + 2], a[j + 3]
        b0, b1, b2, b3 = b[j], b[j + 1], b[j + 2], b[j + 3]
        for i in range(first, last):
            p, q = pull_sine[i], pull_cosine[i]
            p, q = fused_multiply_add(a0[i], s0, p), fused_multiply_add(a0[i], c0, q)
            p, q = fused_multiply_add(-b0[i], c0, p), fused_multiply_add(b0[i], s0, q)
            p, q = fused_multiply_add(a1[i], s1, p), fused_multiply_add(a1[i], c1, q)
            p, q = fused_multiply_add(-b1[i], c1, p), fused_multiply_add(b1[i], s1, q)
            p, q = fused_multiply_add(a2[i], s2, p), fused_multiply_add(a2[i], c2, q)
            p, q = fused_multiply_add(-b2[i], c2, p), fused_multiply_add(b2[i], s2, q)
            p, q = fused_multiply_add(a3[i], s3, p), fused_multiply_add(a3[i], c3, q)
            p, q = fused_multiply_add(-b3[i], c3, p), fused_multiply_add(b3[i], s3, q)
            pull_sine[i], pull_cosine[i] = p, q
        j += 4
    while j < n:
        s0, c0, a0, b0 = sine[j], cosine[j], a[j], b[j]
        for i in range(first, last):
            p, q = fused_multiply_add(a0[i], s0, pull_sine[i]), fused_multiply_add(a0[i], c0, pull_cosine[i])
            pull_sine[i], pull_cosine[i] = fused_multiply_add(-b0[i], c0, p), fused_multiply_add(b0[i], s0, q)
        j += 1


@njit(cache=True, error_model="numpy", nogil=True)
def dense_products(
    a: FloatArray,
    b: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
    first: int,
    last: int,
) -> None:
    """Add the products for the receivers ``first`` to ``last - 1``."""
    if b.shape[0] == 0:
        _plain_products(a, sine, cosine, pull_sine, pull_cosine, first, last)
    else:
        _lagged_products(a, b, sine, cosine, pull_sine, pull_cosine, first, last)


@njit(cache=True, error_model="numpy")
def sparse_products(
    row_ptr: RowPointers,
    col_indices: Columns,
    a: FloatArray,
    b: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
) -> None:
    """Add the products of compressed rows."""
    has_lags = b.shape[0] > 0
    for i in range(row_ptr.shape[0] - 1):
        p, q = pull_sine[i], pull_cosine[i]
        for k in range(int(row_ptr[i]), int(row_ptr[i + 1])):
            j = int(col_indices[k])
            p = fused_multiply_add(a[k], sine[j], p)
            q = fused_multiply_add(a[k], cosine[j], q)
            if has_lags:
                p = fused_multiply_add(-b[k], cosine[j], p)
                q = fused_multiply_add(b[k], sine[j], q)
        pull_sine[i], pull_cosine[i] = p, q


@njit(cache=True, error_model="numpy")
def ordered_sum(values: FloatArray, n: int, lanes: FloatArray) -> float:
    """Sum of the first ``n`` values: ``len(lanes)`` interleaved sums, added up in a fixed order."""
    width = lanes.shape[0]
    lanes[:] = 0.0
    whole = n - n % width
    for start in range(0, whole, width):
        for k in range(width):
            lanes[k] += values[start + k]
    for i in range(whole, n):
        lanes[i - whole] += values[i]
    total = 0.0
    for k in range(width):
        total += lanes[k]
    return total


@njit(cache=True, error_model="numpy")
def uniform_products(
    n: int,
    a: float,
    b: float,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
) -> None:
    """Add the products of the mean field, without each oscillator's own share."""
    lanes = np.empty(512)
    total_sine = ordered_sum(sine, n, lanes)
    total_cosine = ordered_sum(cosine, n, lanes)
    for i in range(n):
        others_sine, others_cosine = total_sine - sine[i], total_cosine - cosine[i]
        p = fused_multiply_add(a, others_sine, pull_sine[i])
        q = fused_multiply_add(a, others_cosine, pull_cosine[i])
        pull_sine[i] = fused_multiply_add(-b, others_cosine, p)
        pull_cosine[i] = fused_multiply_add(b, others_sine, q)


def accumulate(
    coupling: Any, sine: FloatArray, cosine: FloatArray, pull_sine: FloatArray, pull_cosine: FloatArray
) -> None:
    """Add the products of any coupling.

    Compiled code picks the kernel by the type of the coupling; interpreted, the coupling brings its own way.
    """
    coupling.accumulate(sine, cosine, pull_sine, pull_cosine)


@overload(accumulate)
def _accumulate_compiled(coupling: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any) -> Any:
    kind = getattr(coupling, "instance_class", None)
    if kind is DenseCoupling:

        def dense(coupling: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any) -> None:
            dense_products(
                coupling.cosine_part, coupling.sine_part, sine, cosine, pull_sine, pull_cosine, 0, pull_sine.shape[0]
            )

        return dense
    if kind is SparseCoupling:

        def sparse(coupling: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any) -> None:
            sparse_products(
                coupling.row_ptr,
                coupling.col_indices,
                coupling.cosine_part,
                coupling.sine_part,
                sine,
                cosine,
                pull_sine,
                pull_cosine,
            )

        return sparse
    if kind is UniformCoupling:

        def uniform(coupling: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any) -> None:
            uniform_products(coupling.n, coupling.cosine_part, coupling.sine_part, sine, cosine, pull_sine, pull_cosine)

        return uniform
    return None


@njit(cache=True, error_model="numpy")
def split_values(strengths: FloatArray, lags: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Write ``K cos(alpha)`` and ``K sin(alpha)`` of flat arrays."""
    for k in range(strengths.shape[0]):
        sine, cosine = sine_and_cosine(lags[k])
        a[k] = strengths[k] * cosine
        b[k] = strengths[k] * sine


@njit(cache=True, error_model="numpy")
def split_matrices(knm: FloatArray, alpha: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Write ``A^T`` and, when lags are given, ``B^T`` (both padded), a few rows at a time."""
    n = knm.shape[0]
    height = min(_ROWS_AT_ONCE, n)
    cosine_rows, sine_rows = np.empty((height, n)), np.empty((height, n))
    for first in range(0, n, height):
        rows = min(height, n - first)
        if alpha.shape[0] == 0:
            for j in range(n):
                for i in range(rows):
                    a[j, first + i] = knm[first + i, j]
            continue
        for i in range(rows):
            split_values(knm[first + i], alpha[first + i], cosine_rows[i], sine_rows[i])
        for j in range(n):
            for i in range(rows):
                a[j, first + i] = cosine_rows[i, j]
                b[j, first + i] = sine_rows[i, j]
