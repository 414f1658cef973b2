"""What a run shows to the callables that it is given: scenario hooks and sources of twin confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray, real_scalar
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.coupling.geometry_constraints import validate_knm
from scpn_phase_orchestrator.coupling.knm import CouplingState

if TYPE_CHECKING:
    from scpn_phase_orchestrator.monitor.twin_confidence import TwinConfidenceScore

__all__ = [
    "ScenarioCallback",
    "SimulationScenarioContext",
    "SimulationTwinConfidenceContext",
    "TwinConfidenceSource",
    "check_scenario",
]


@dataclass
class SimulationScenarioContext:
    """What a scenario hook may read and change before a step is integrated; step 0 included.

    A changed ``omegas``, ``coupling``, ``zeta`` or ``psi_target`` is the new base for later steps: what actions had
    moved on that knob ends. ``psi_target`` lasts one step where a driver sets the drive phase.

    Attributes:
        spec_name: name of the spec.
        step: the step that comes.
        sample_period_s: length of a step.
        phases: shape ``(n,)`` in rad; wrapped to [0, 2π) afterwards.
        omegas: shape ``(n,)`` in rad/s.
        coupling: the coupling with the gains and lags of actions, before imprint and geometry.
        zeta: drive strength of the global scope.
        psi_target: drive phase of the global scope, in rad.
        layer_osc_ranges: positions of the oscillators by index of the layer.
        rng: generator of the run.
    """

    spec_name: str
    step: int
    sample_period_s: float
    phases: FloatArray
    omegas: FloatArray
    coupling: CouplingState
    zeta: float
    psi_target: float
    layer_osc_ranges: dict[int, list[int]]
    rng: np.random.Generator


@dataclass(frozen=True)
class SimulationTwinConfidenceContext:
    """What a source of twin confidence sees at a control tick.

    Attributes:
        spec_name: name of the spec.
        step: the step.
        sample_period_s: length of a step.
        model_phases: phases after the integration, a copy.
        r_good: order parameter of the good layers together.
        r_bad: order parameter of the bad layers together.
        regime: regime after the decision of the tick.
        boundary_violation_count: boundaries violated in this step.
        proposed_action_count: actions of the tick, after projection.
        layer_order_parameters: executed order parameter of every layer.
    """

    spec_name: str
    step: int
    sample_period_s: float
    model_phases: FloatArray
    r_good: float
    r_bad: float
    regime: str
    boundary_violation_count: int
    proposed_action_count: int
    layer_order_parameters: tuple[float, ...]


ScenarioCallback = Callable[[SimulationScenarioContext], None]
TwinConfidenceSource = Callable[[SimulationTwinConfidenceContext], "TwinConfidenceScore"]


def check_scenario(context: SimulationScenarioContext, n: int) -> None:
    """Check what a hook left in its context, and put arrays, numbers and wrapped phases in its place.

    Raises:
        ValueError: a field has the wrong type or shape, or is not finite.
    """
    context.coupling = _checked_coupling(context.coupling, n)
    context.phases = np.mod(_vector("phases", context.phases, n), TWO_PI)
    context.omegas = _vector("omegas", context.omegas, n)
    context.zeta = real_scalar("scenario zeta", context.zeta)
    context.psi_target = real_scalar("scenario psi_target", context.psi_target)


def _vector(name: str, value: object, n: int) -> FloatArray:
    array: NDArray[np.float64] = np.ascontiguousarray(np.asarray(value))
    if array.dtype.kind not in "fiu":
        raise ValueError(f"scenario {name} must hold real numbers, got {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"scenario {name} must have shape ({n},)")
    if not np.isfinite(array).all():
        raise ValueError(f"scenario {name} must contain only finite values")
    return array.astype(np.float64)


def _checked_coupling(coupling: object, n: int) -> CouplingState:
    if not isinstance(coupling, CouplingState):
        raise ValueError("scenario coupling must be a CouplingState")  # noqa: TRY004 - documented
    for name in ("knm", "alpha", "knm_r"):
        matrix = getattr(coupling, name)
        if matrix is None and name == "knm_r":
            continue
        array = np.asarray(matrix)
        if array.shape != (n, n):
            raise ValueError(f"scenario coupling.{name} must have shape ({n}, {n}), got {array.shape}")
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise ValueError(f"scenario coupling.{name} must contain only finite values")
    try:
        validate_knm(coupling.knm)
    except ValueError as error:
        raise ValueError(f"scenario coupling: {error}") from error
    return CouplingState(
        knm=_copied(coupling.knm),
        alpha=_copied(coupling.alpha),
        active_template=coupling.active_template,
        knm_r=None if coupling.knm_r is None else _copied(coupling.knm_r),
    )


def _copied(matrix: FloatArray) -> FloatArray:
    """Give a matrix that a hook which kept its own cannot change afterwards."""
    return np.array(matrix, dtype=np.float64, order="C")
