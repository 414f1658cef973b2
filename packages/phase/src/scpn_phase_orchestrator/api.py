"""The Python door: run a spec from a file or an object, without a command line."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.binding.validator import validate_binding_spec
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.runtime._model import DrivePhase, base_coupling, base_drive
from scpn_phase_orchestrator.runtime.simulation import SimulationResult, simulate
from scpn_phase_orchestrator.upde.engine import UPDEEngine
from scpn_phase_orchestrator.upde.order_params import compute_order_parameter

__all__ = ["Orchestrator", "OrchestratorState", "evaluate_binding_spec"]


@dataclass(frozen=True, eq=False)
class OrchestratorState:
    """Where an open run of a network ended.

    Attributes:
        spec_name: name of the spec.
        steps: number of steps.
        phases: shape ``(n,)`` in rad.
        omegas: natural frequencies, shape ``(n,)`` in rad/s.
        knm: coupling, shape ``(n, n)``.
        alpha: phase lags, shape ``(n, n)``.
        order_parameter: R over all oscillators.
        mean_phase: mean phase in rad.
        sample_period_s: length of a step.
    """

    spec_name: str
    steps: int
    phases: FloatArray
    omegas: FloatArray
    knm: FloatArray
    alpha: FloatArray
    order_parameter: float
    mean_phase: float
    sample_period_s: float

    def to_record(self) -> dict[str, Any]:
        """Give the state without its arrays as JSON-safe values."""
        return {
            "spec_name": self.spec_name,
            "steps": self.steps,
            "oscillator_count": len(self.phases),
            "order_parameter": self.order_parameter,
            "mean_phase": self.mean_phase,
            "sample_period_s": self.sample_period_s,
        }


class Orchestrator:
    """Runs the network of a research spec without a supervisor, in one compiled call."""

    def __init__(self, spec: BindingSpec) -> None:
        """Check the spec.

        Raises:
            TypeError: `spec` is no `BindingSpec`.
            ValueError: the spec is invalid, of another tier than ``research``, without oscillators, or has amplitudes.
        """
        _require_spec(spec)
        _require_valid(spec)
        if spec.safety_tier != "research":
            raise ValueError(f"safety_tier must be 'research' for an Orchestrator, got {spec.safety_tier!r}")
        if spec.amplitude is not None:
            raise ValueError("an Orchestrator runs phases only, and the spec has an amplitude block; use simulate")
        if not any(layer.oscillator_ids for layer in spec.layers):
            raise ValueError("no oscillators defined in layers")
        self.spec = spec

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> Orchestrator:
        """Read the spec from a file.

        Raises:
            BindingError: the file cannot be read or is no spec.
        """
        return cls(load_binding_spec(Path(path)))

    def run(self, *, steps: int = 100, seed: int = 42) -> OrchestratorState:
        """Advance the network from seeded phases, with the constant drive of the spec.

        The initial phases are those of `simulate`. A drive phase that a driver moves keeps its first value.

        Raises:
            ValueError: `steps` or `seed` is no integer >= 0.
            EngineError: the integration diverged.
        """
        spec = self.spec
        steps, seed = whole_number("steps", steps), whole_number("seed", seed)
        omegas = np.array(spec.get_omegas(), dtype=np.float64)
        coupling = base_coupling(spec, len(omegas))
        engine = UPDEEngine(
            len(omegas), spec.sample_period_s, spec.integration.method, substeps=spec.integration.substeps
        )
        phases = engine.run(
            np.random.default_rng(seed).uniform(0.0, TWO_PI, len(omegas)),
            omegas,
            coupling.knm,
            base_drive(spec),
            DrivePhase(spec).at(0),
            coupling.alpha,
            n_steps=steps,
        )
        order, mean_phase = compute_order_parameter(phases)
        return OrchestratorState(
            spec_name=spec.name,
            steps=steps,
            phases=phases,
            omegas=omegas,
            knm=coupling.knm,
            alpha=coupling.alpha,
            order_parameter=order,
            mean_phase=mean_phase,
            sample_period_s=spec.sample_period_s,
        )


def evaluate_binding_spec(
    spec: BindingSpec | str | PathLike[str], *, steps: int = 100, seed: int = 42, policy_enabled: bool = True
) -> SimulationResult:
    """Run a spec or a spec file; any safety tier, because nothing here actuates.

    Args:
        spec: a spec, or the path of one; rules are read beside a path.
        steps: how many steps.
        seed: of the initial phases.
        policy_enabled: ``False`` gives the open-loop baseline.

    Raises:
        BindingError: the file cannot be read or is no spec.
        ValidationError: the spec breaks a constraint.
        ValueError: `steps` or `seed` is no integer >= 0.

    Examples:
        >>> from scpn_phase_orchestrator.domainpacks import resolve_spec_path
        >>> evaluate_binding_spec(resolve_spec_path("power_grid"), steps=20).steps
        20
    """
    loaded = spec if isinstance(spec, BindingSpec) else load_binding_spec(Path(spec))
    # The file, not what was asked for: that may be the folder, and rules are read beside the file.
    path = loaded.origin.path if loaded is not spec and loaded.origin is not None else None
    _require_valid(loaded)
    return simulate(
        loaded,
        steps=whole_number("steps", steps),
        seed=whole_number("seed", seed),
        policy_enabled=policy_enabled,
        binding_spec_path=path,
    )


def _require_spec(spec: object) -> None:
    if not isinstance(spec, BindingSpec):
        raise TypeError(f"spec must be a BindingSpec, got {type(spec).__name__}")


def _require_valid(spec: BindingSpec) -> None:
    problems = validate_binding_spec(spec)
    if problems:
        raise ValidationError("; ".join(problems))
