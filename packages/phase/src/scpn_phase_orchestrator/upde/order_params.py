"""Order parameters and phase-locking values: how coherent phases are at one instant.

``compute_*`` check their input. `layer_order_parameters`, `cross_layer_plv` and `objective_order_parameter` are what
the step loop calls: one compiled call each, on phases that the loop has checked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray, real_array, whole_number
from scpn_phase_orchestrator.upde import _metric_kernels as kernels

__all__ = [
    "SUBCRITICAL_AMPLITUDE",
    "LayerIndex",
    "amplitude_summary",
    "compute_layer_coherence",
    "compute_order_parameter",
    "compute_plv",
    "cross_layer_plv",
    "debiased_squared_order_parameter",
    "layer_amplitudes",
    "layer_order_parameters",
    "objective_order_parameter",
]

SUBCRITICAL_AMPLITUDE = 0.1
"""Amplitude below which an oscillator counts as silent."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerIndex:
    """Which contiguous block of oscillators belongs to which layer.

    Attributes:
        starts: ``(L + 1,)``; layer ``l`` holds the oscillators ``starts[l] .. starts[l + 1] - 1``.
    """

    starts: NDArray[np.int64]

    @classmethod
    def from_sizes(cls, sizes: Sequence[int]) -> LayerIndex:
        """Lay layers of the given sizes behind one another; empty layers are allowed.

        Raises:
            ValueError: a size is negative or no integer.

        Examples:
            >>> LayerIndex.from_sizes([3, 2]).starts
            array([0, 3, 5])
        """
        checked = [whole_number(f"sizes[{layer}]", size) for layer, size in enumerate(sizes)]
        starts = np.concatenate(([0], np.cumsum(np.array(checked, dtype=np.int64)))).astype(np.int64)
        starts.flags.writeable = False
        return cls(starts)

    @property
    def layer_count(self) -> int:
        """Number of layers."""
        return len(self.starts) - 1

    @property
    def oscillator_count(self) -> int:
        """Number of oscillators in all layers together."""
        return int(self.starts[-1])

    def layer_of(self) -> NDArray[np.int64]:
        """Give the position of the layer of every oscillator, ``(n,)``."""
        return np.repeat(np.arange(self.layer_count, dtype=np.int64), np.diff(self.starts))


def compute_order_parameter(phases: object) -> tuple[float, float]:
    """Give the Kuramoto order parameter ``R`` and the mean phase ``ψ`` of ``R e^{iψ} = (1/N) Σ e^{iθ_k}``.

    Args:
        phases: ``(n,)`` in rad.

    Returns:
        ``R`` in [0, 1] and ``ψ`` in [0, 2π); ``(0.0, 0.0)`` for no phases.

    Raises:
        ValueError: phases that are not one-dimensional, real and finite.

    Examples:
        >>> compute_order_parameter([0.0, 0.0])
        (1.0, 0.0)
    """
    return kernels.order_parameter(real_array("phases", phases, (None,)))


def compute_plv(first: object, second: object) -> float:
    """Give the phase-locking value ``|mean e^{i(a − b)}|`` of two series.

    Args:
        first: ``(n,)`` in rad.
        second: ``(n,)`` in rad.

    Returns:
        A value in [0, 1]; 0.0 for empty series.

    Raises:
        ValueError: different lengths, or values that are not real and finite.
    """
    a = real_array("first phases", first, (None,))
    b = real_array("second phases", second, (None,))
    if len(a) != len(b):
        raise ValueError(f"both phase series must have the same length, got {len(a)} and {len(b)}")
    return kernels.phase_locking_value(a, b)


def compute_layer_coherence(phases: object, members: object) -> float:
    """Give the order parameter ``R`` of some of the oscillators.

    Args:
        phases: ``(n,)`` in rad.
        members: a boolean mask ``(n,)``, or integer positions; negative ones count from the end.

    Returns:
        ``R`` in [0, 1]; 0.0 when nobody is selected.

    Raises:
        ValueError: a mask of another length, positions out of range or given twice, or members of another type.
    """
    values = real_array("phases", phases, (None,))
    chosen = np.asarray(members)
    if chosen.ndim != 1 or (chosen.dtype.kind not in "biu" and chosen.size):
        raise ValueError(f"members must be a mask or positions of shape (m,), got {chosen.dtype} of {chosen.shape}")
    if chosen.dtype.kind == "b":
        if len(chosen) != len(values):
            raise ValueError(f"a members mask must have shape ({len(values)},), got {chosen.shape}")
        return compute_order_parameter(values[chosen])[0]
    positions = chosen.astype(np.int64)
    if len(positions) and not (-len(values) <= positions.min() and positions.max() < len(values)):
        raise ValueError(f"members must be positions of {len(values)} phases, got {positions.tolist()}")
    positions %= max(len(values), 1)
    if len(np.unique(positions)) != len(positions):
        raise ValueError(f"members must not repeat a position, got {positions.tolist()}")
    return compute_order_parameter(values[positions])[0]


def debiased_squared_order_parameter(phases: object) -> float:
    """Give ``(N R² − 1)/(N − 1)``, whose mean is 0 for independent uniform phases whatever ``N`` is.

    ``R`` of ``N`` independent phases is about ``1/√N``, so that small groups look coherent. The average of
    ``cos(θ_i − θ_j)`` over all pairs ``i ≠ j``, which this is, has no such bias. It is 1 in full synchrony and
    ``−1/(N − 1)`` in perfect balance.

    Args:
        phases: ``(n,)`` in rad, at least two.

    Raises:
        ValueError: fewer than two phases, or phases that are not real and finite.
    """
    values = real_array("phases", phases, (None,))
    count = len(values)
    if count < 2:
        raise ValueError(f"phases must hold at least 2 values for a debiased order parameter, got {count}")
    modulus, _ = kernels.order_parameter(values)
    return (count * modulus * modulus - 1.0) / (count - 1)


def layer_order_parameters(phases: FloatArray, index: LayerIndex) -> tuple[FloatArray, FloatArray]:
    """Give ``R`` and ``ψ`` of every layer in one compiled call, without checks.

    Args:
        phases: ``(n,)`` float64, finite, in rad; ``n`` as in the index.
        index: which block belongs to which layer.

    Returns:
        Two arrays ``(L,)``, equal to `compute_order_parameter` of each layer to the last bit; 0 for an empty layer.
    """
    return kernels.layer_order(phases, index.starts)


def cross_layer_plv(phases: FloatArray, index: LayerIndex) -> FloatArray:
    """Give the phase-locking value between all layers in one compiled call, without checks.

    Two layers are compared over their first ``min(size)`` oscillators, at this instant.

    Args:
        phases: ``(n,)`` float64, finite, in rad; ``n`` as in the index.
        index: which block belongs to which layer.

    Returns:
        A symmetric array ``(L, L)`` in [0, 1] with zero diagonal; 0 where a layer is empty.
    """
    return kernels.layer_plv(phases, index.starts)


def objective_order_parameter(phases: FloatArray, index: LayerIndex, layers: NDArray[np.int64]) -> float:
    """Give ``R`` over the oscillators of several layers taken together, in one compiled call, without checks.

    Args:
        phases: ``(n,)`` float64, finite, in rad; ``n`` as in the index.
        index: which block belongs to which layer.
        layers: positions of the layers, an int64 array; may be empty.

    Returns:
        ``R`` in [0, 1]; 0.0 when the layers hold no oscillator.
    """
    return kernels.group_order_parameter(phases, index.starts, layers)


def layer_amplitudes(amplitudes: FloatArray, index: LayerIndex) -> tuple[FloatArray, FloatArray]:
    """Give the mean amplitude and its relative spread of every layer in one compiled call, without checks.

    Args:
        amplitudes: ``(n,)`` float64, finite, not negative; ``n`` as in the index.
        index: which block belongs to which layer.

    Returns:
        Two arrays ``(L,)``: the mean, and the population standard deviation over the mean. Both are 0 for an empty
        layer; the spread is 0 where the mean is.
    """
    return kernels.layer_amplitude(amplitudes, index.starts)


def amplitude_summary(amplitudes: FloatArray, threshold: float = SUBCRITICAL_AMPLITUDE) -> tuple[float, float]:
    """Give the mean amplitude and the share of amplitudes below the threshold in one compiled call, without checks.

    Args:
        amplitudes: ``(n,)`` float64, finite, not negative.
        threshold: amplitude below which an oscillator counts as silent.

    Returns:
        Mean and share; ``(0.0, 0.0)`` for no oscillators.
    """
    return kernels.amplitude_summary(amplitudes, threshold)
