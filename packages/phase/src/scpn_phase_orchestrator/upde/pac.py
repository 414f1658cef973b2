"""Phase-amplitude coupling: how strongly a phase modulates an amplitude (Tort et al. 2010, J. Neurophysiol. 104)."""

from __future__ import annotations

from scpn_phase_orchestrator._arrays import FloatArray, real_array, real_scalar, whole_number
from scpn_phase_orchestrator.upde import _metric_kernels as kernels

__all__ = ["modulation_index", "modulation_indices", "pac_gate", "pac_matrix"]


def modulation_index(theta: object, amp: object, n_bins: int = 18) -> float:
    """Give the modulation index of one amplitude by one phase.

    The phases, mod 2π, fall into equal bins; with ``p`` the mean amplitude per bin over its sum (0 for an empty
    bin), ``MI = Σ p ln(p n) / ln n`` over ``p > 0``: the Kullback-Leibler distance from a flat distribution over its
    largest possible value.

    Args:
        theta: ``(T,)`` phases in rad.
        amp: ``(T,)`` amplitudes, not negative.
        n_bins: number of phase bins, at least 2.

    Returns:
        A value in [0, 1]; 0.0 when there is no amplitude at all.

    Raises:
        ValueError: different lengths, negative amplitudes, values that are not real and finite, too few bins.

    Examples:
        >>> modulation_index([0.1, 3.0], [1.0, 0.0])
        1.0
    """
    phases = real_array("theta", theta, (None,))
    amplitudes = _amplitudes("amp", amp, (len(phases),))
    bins = whole_number("n_bins", n_bins, minimum=2)
    columns = kernels.modulation_index_columns(phases.reshape(-1, 1), amplitudes.reshape(-1, 1), bins, 0)
    return float(columns[0])


def modulation_indices(phases: FloatArray, amplitudes: FloatArray, n_bins: int = 18, *, start: int = 0) -> FloatArray:
    """Give the modulation index of every oscillator's amplitude by its own phase in one compiled call, without checks.

    Args:
        phases: ``(T, n)`` float64, C-contiguous, finite, in rad; rows are instants.
        amplitudes: ``(T, n)`` float64, C-contiguous, not negative.
        n_bins: number of phase bins, at least 2.
        start: the oldest row of a ring buffer, in [0, T).

    Returns:
        ``(n,)``, equal to `modulation_index` of each column, oldest row first, to the last bit.
    """
    return kernels.modulation_index_columns(phases, amplitudes, n_bins, start)


def pac_matrix(phases: object, amplitudes: object, n_bins: int = 18) -> FloatArray:
    """Give the modulation index of every amplitude by every phase.

    Args:
        phases: ``(T, n)`` in rad; rows are instants.
        amplitudes: ``(T, m)``, not negative.
        n_bins: number of phase bins, at least 2.

    Returns:
        ``(n, m)``; entry ``[i, j]`` says how phase ``i`` modulates amplitude ``j``.

    Raises:
        ValueError: different numbers of rows, negative amplitudes, values that are not real and finite, too few bins.
    """
    theta = real_array("phases", phases, (None, None))
    amp = _amplitudes("amplitudes", amplitudes, (len(theta), None))
    return kernels.modulation_index_pairs(theta, amp, whole_number("n_bins", n_bins, minimum=2))


def pac_gate(value: float, threshold: float = 0.3) -> bool:
    """Tell whether a modulation index reaches the threshold.

    Raises:
        ValueError: a value or threshold outside [0, 1].
    """
    return real_scalar("value", value, minimum=0.0, maximum=1.0) >= real_scalar(
        "threshold", threshold, minimum=0.0, maximum=1.0
    )


def _amplitudes(name: str, value: object, shape: tuple[int | None, ...]) -> FloatArray:
    amplitudes = real_array(name, value, shape)
    if amplitudes.size and amplitudes.min() < 0.0:
        raise ValueError(f"{name} must not be negative, got {amplitudes.min():g}")
    return amplitudes
