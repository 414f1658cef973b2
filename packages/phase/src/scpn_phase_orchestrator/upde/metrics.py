"""What a step yields: locking between layers, coherence per layer, and the state that the supervisor decides on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["LayerState", "LockSignature", "UPDEState"]


@dataclass(frozen=True, slots=True)
class LockSignature:
    """How firmly two layers keep a common phase difference.

    Attributes:
        source_layer: index of the first layer.
        target_layer: index of the second layer.
        plv: phase-locking value in [0, 1].
        mean_lag: mean phase difference, in rad.
    """

    source_layer: int
    target_layer: int
    plv: float
    mean_lag: float


@dataclass(frozen=True, slots=True)
class LayerState:
    """Coherence of one layer at one instant.

    Attributes:
        R: order parameter in [0, 1].
        psi: mean phase, in rad on [0, 2π).
        lock_signatures: locking to other layers, by the name of the other layer.
        mean_amplitude: mean oscillator amplitude (amplitude mode).
        amplitude_spread: population standard deviation of the amplitudes over their mean (amplitude mode).
    """

    R: float
    psi: float
    lock_signatures: Mapping[str, LockSignature] = field(default_factory=dict[str, LockSignature])
    mean_amplitude: float = 0.0
    amplitude_spread: float = 0.0


@dataclass(frozen=True, slots=True)
class UPDEState:
    """What the supervisor sees after a step.

    Attributes:
        layers: one state per layer, in the order of the spec.
        cross_layer_alignment: phase-locking values between layers, ``(L, L)``, zero diagonal.
        stability_proxy: mean order parameter over the layers.
        regime_id: the regime before the decision of this step.
        mean_amplitude: mean amplitude over the oscillators (amplitude mode).
        pac_max: largest phase-amplitude modulation index of an oscillator (amplitude mode).
        subcritical_fraction: share of oscillators with an amplitude below 0.1 (amplitude mode).
        boundary_violation_count: boundaries violated in this step.
        imprint_mean: mean imprint before the update of this step.
    """

    layers: Sequence[LayerState]
    cross_layer_alignment: NDArray[np.float64]
    stability_proxy: float
    regime_id: str
    mean_amplitude: float = 0.0
    pac_max: float = 0.0
    subcritical_fraction: float = 0.0
    boundary_violation_count: int = 0
    imprint_mean: float = 0.0
