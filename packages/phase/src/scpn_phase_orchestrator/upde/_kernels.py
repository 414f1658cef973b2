"""The integrators: Euler, classic Runge-Kutta and Dormand-Prince, one source for every kind of coupling.

Compiled for a coupling tuple of `_kernels_products`; the same functions run interpreted (``.py_func``) with a coupling
that shares its products among threads. Both ways call the same compiled pieces and so give the same bits.

``work`` holds rows of scratch as long as the padded state: state, omega, the two drive rows, s, c, P, Q, then slopes.
Each function returns the index of the step that failed, or -1; ``report`` receives the size of the failing phase, the
last internal step and whether the tolerance was out of reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.upde._dormand_prince import ERROR_WEIGHTS, STAGE_WEIGHTS
from scpn_phase_orchestrator.upde._kernels_elementary import (
    LARGEST_PHASE,
    add_scaled,
    combine_rk4,
    copy_into,
    error_ratio,
    largest_magnitude,
    load_drive,
    sines,
    stays_below,
    velocity,
    weighted_sum,
    wrap,
)
from scpn_phase_orchestrator.upde._kernels_products import accumulate

__all__ = ["LARGEST_NUMBER_OF_ATTEMPTS", "WORK_ROWS", "integrate_euler", "integrate_rk4", "integrate_rk45"]

WORK_ROWS = {"euler": 9, "rk4": 13, "rk45": 17}
"""Rows of ``work`` that a method needs."""

LARGEST_NUMBER_OF_ATTEMPTS = 100_000
"""Internal steps, accepted or not, after which one adaptive step gives up."""

_STAGE_1, _STAGE_2, _STAGE_3, _STAGE_4, _STAGE_5, _FIFTH = (
    weights[: stage + 1].copy() for stage, weights in enumerate(STAGE_WEIGHTS)
)


@njit(cache=True, error_model="numpy")
def _begin_products(state: FloatArray, work: FloatArray) -> None:
    sines(state, work[4], work[5])
    copy_into(work[6], work[2])
    copy_into(work[7], work[3])


@register_jitable
def _derivative(coupling: Any, state: FloatArray, work: FloatArray, out: FloatArray) -> None:
    _begin_products(state, work)
    accumulate(coupling, work[4], work[5], work[6], work[7])
    velocity(out, work[1], work[4], work[5], work[6], work[7])


@njit(cache=True, error_model="numpy")
def _begin(
    phases: FloatArray, zeta: FloatArray, psi: FloatArray, work: FloatArray, report: FloatArray, h: float
) -> None:
    n = phases.shape[0]
    for row in range(4):
        for i in range(n, work.shape[1]):
            work[row, i] = 0.0
    copy_into(work[0], phases)
    load_drive(zeta, psi, n, work[2], work[3])
    report[0], report[1], report[2] = 0.0, h, 0.0


@njit(cache=True, error_model="numpy")
def _begin_step(step: int, omegas: FloatArray, work: FloatArray) -> None:
    if step == 0 or omegas.shape[0] > 1:
        copy_into(work[1], omegas[step])


@njit(cache=True, error_model="numpy")
def _finish_step(state: FloatArray, report: FloatArray) -> bool:
    if not stays_below(state, LARGEST_PHASE):
        report[0] = largest_magnitude(state)
        return False
    wrap(state)
    return True


@njit(cache=True, error_model="numpy", nogil=True)
def integrate_euler(
    coupling: Any,
    phases: FloatArray,
    omegas: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    out: FloatArray,
    work: FloatArray,
    report: FloatArray,
    dt: float,
    n_steps: int,
    n_substeps: int,
    atol: float,
    rtol: float,
) -> int:
    """``theta += h f(theta)``; ``omegas`` has one row for all steps or one per step."""
    h = dt / n_substeps
    _begin(phases, zeta, psi, work, report, h)
    state, slope = work[0], work[8]
    for step in range(n_steps):
        _begin_step(step, omegas, work)
        for _ in range(n_substeps):
            _derivative(coupling, state, work, slope)
            add_scaled(state, state, h, slope)
        if not _finish_step(state, report):
            return step
    copy_into(out, state)
    return -1


@njit(cache=True, error_model="numpy", nogil=True)
def integrate_rk4(
    coupling: Any,
    phases: FloatArray,
    omegas: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    out: FloatArray,
    work: FloatArray,
    report: FloatArray,
    dt: float,
    n_steps: int,
    n_substeps: int,
    atol: float,
    rtol: float,
) -> int:
    """Classic fourth-order Runge-Kutta; arguments as for `integrate_euler`."""
    h = dt / n_substeps
    _begin(phases, zeta, psi, work, report, h)
    state, stage, slopes = work[0], work[8], work[9:13]
    for step in range(n_steps):
        _begin_step(step, omegas, work)
        for _ in range(n_substeps):
            _derivative(coupling, state, work, slopes[0])
            add_scaled(stage, state, 0.5 * h, slopes[0])
            _derivative(coupling, stage, work, slopes[1])
            add_scaled(stage, state, 0.5 * h, slopes[1])
            _derivative(coupling, stage, work, slopes[2])
            add_scaled(stage, state, h, slopes[2])
            _derivative(coupling, stage, work, slopes[3])
            combine_rk4(state, h, slopes)
        if not _finish_step(state, report):
            return step
    copy_into(out, state)
    return -1


@register_jitable
def _dormand_prince_step(coupling: Any, h: float, work: FloatArray) -> None:
    """From the state and the first slope to the end in ``work[8]`` and all seven slopes."""
    state, end, slopes, total = work[0], work[8], work[9:16], work[16]
    weighted_sum(end, state, h, slopes, _STAGE_1, total)
    _derivative(coupling, end, work, slopes[1])
    weighted_sum(end, state, h, slopes, _STAGE_2, total)
    _derivative(coupling, end, work, slopes[2])
    weighted_sum(end, state, h, slopes, _STAGE_3, total)
    _derivative(coupling, end, work, slopes[3])
    weighted_sum(end, state, h, slopes, _STAGE_4, total)
    _derivative(coupling, end, work, slopes[4])
    weighted_sum(end, state, h, slopes, _STAGE_5, total)
    _derivative(coupling, end, work, slopes[5])
    weighted_sum(end, state, h, slopes, _FIFTH, total)
    _derivative(coupling, end, work, slopes[6])


@register_jitable
def _adaptive_stretch(
    coupling: Any, work: FloatArray, report: FloatArray, length: float, atol: float, rtol: float
) -> bool:
    """Advance the state by exactly ``length``, in as many internal steps as the tolerances ask for."""
    state, end, slopes, total = work[0], work[8], work[9:16], work[16]
    _derivative(coupling, state, work, slopes[0])
    remaining = length
    h = length
    for _ in range(LARGEST_NUMBER_OF_ATTEMPTS):
        is_last = h >= remaining
        if is_last:
            h = remaining
        _dormand_prince_step(coupling, h, work)
        ratio = error_ratio(state, end, h, slopes, ERROR_WEIGHTS, total, atol, rtol)
        if ratio > 1.0:
            h *= max(0.2, 0.9 * ratio**-0.25)
            continue
        copy_into(state, end)
        if np.isnan(ratio):
            return True
        report[1] = h
        if is_last:
            return True
        copy_into(slopes[0], slopes[6])
        remaining -= h
        h *= 5.0 if ratio == 0.0 else min(5.0, 0.9 * ratio**-0.2)
    report[2] = 1.0
    return False


@njit(cache=True, error_model="numpy", nogil=True)
def integrate_rk45(
    coupling: Any,
    phases: FloatArray,
    omegas: FloatArray,
    zeta: FloatArray,
    psi: FloatArray,
    out: FloatArray,
    work: FloatArray,
    report: FloatArray,
    dt: float,
    n_steps: int,
    n_substeps: int,
    atol: float,
    rtol: float,
) -> int:
    """Dormand-Prince with step control inside each step, so that every step ends exactly ``dt`` later.

    Each step tries its whole length first and keeps nothing from the step before: equal inputs give equal bits.
    """
    h = dt / n_substeps
    _begin(phases, zeta, psi, work, report, h)
    state = work[0]
    for step in range(n_steps):
        _begin_step(step, omegas, work)
        for _ in range(n_substeps):
            if not _adaptive_stretch(coupling, work, report, h, atol, rtol):
                return step
        if not _finish_step(state, report):
            return step
    copy_into(out, state)
    return -1
