"""From a spec to what is integrated: base coupling, frequencies, drive, engine, and what of the spec has no effect."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.binding.types import AmplitudeSpec, BindingSpec
from scpn_phase_orchestrator.coupling.geometry_constraints import constraints_from_type
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder, CouplingState
from scpn_phase_orchestrator.coupling.modulation import IMPRINT_TARGETS
from scpn_phase_orchestrator.drivers.psi_informational import InformationalDriver
from scpn_phase_orchestrator.drivers.psi_physical import PhysicalDriver
from scpn_phase_orchestrator.drivers.psi_symbolic import SymbolicDriver
from scpn_phase_orchestrator.exceptions import EngineError, ValidationError
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine
from scpn_phase_orchestrator.upde.numerics import largest_advance
from scpn_phase_orchestrator.upde.stuart_landau import PreparedAmplitudeCoupling, StuartLandauEngine

__all__ = [
    "AmplitudeModel",
    "DrivePhase",
    "KuramotoModel",
    "base_coupling",
    "base_drive",
    "constraint_names",
    "imprint_targets",
    "make_model",
    "notes_on",
]


class KuramotoModel:
    """Phases only."""

    amplitudes: FloatArray | None = None
    mu: FloatArray | None = None
    epsilon: float | None = None

    def __init__(self, coupling: CouplingState, dt: float, method: str, substeps: int) -> None:
        """Make the engine."""
        self._engine = UPDEEngine(len(coupling.knm), dt=dt, method=method, substeps=substeps)
        self.prepare(coupling, None)

    def prepare(self, coupling: CouplingState, mu: FloatArray | None) -> None:
        """Take the effective coupling for the steps that follow."""
        self._prepared = PreparedCoupling.from_matrices(coupling.knm, coupling.alpha)

    def advance(
        self, phases: FloatArray, omegas: FloatArray, zeta: float | FloatArray, psi: float | FloatArray
    ) -> FloatArray:
        """Give the phases one step later."""
        return self._engine.advance(phases, omegas, self._prepared, zeta, psi)


class AmplitudeModel:
    """Phases and amplitudes.

    Attributes:
        amplitudes: amplitudes now, shape ``(n,)``.
        mu: declared growth, shape ``(n,)``.
        epsilon: scale of the amplitude coupling.
    """

    def __init__(
        self, coupling: CouplingState, dt: float, method: str, substeps: int, amplitude: AmplitudeSpec
    ) -> None:
        """Make the engine and start at the amplitude of an uncoupled oscillator."""
        self._n = len(coupling.knm)
        self._engine = StuartLandauEngine(self._n, dt=dt, method=method, substeps=substeps)
        self.mu = np.full(self._n, amplitude.mu, dtype=np.float64)
        self.epsilon = amplitude.epsilon
        self.amplitudes = np.sqrt(np.maximum(self.mu, 0.0))
        self.prepare(coupling, self.mu)

    def prepare(self, coupling: CouplingState, mu: FloatArray | None) -> None:
        """Take the effective coupling and growth for the steps that follow."""
        self._prepared = PreparedAmplitudeCoupling.from_matrices(coupling.knm, coupling.knm_r, coupling.alpha)
        self._effective_mu = self.mu if mu is None else mu

    def advance(
        self, phases: FloatArray, omegas: FloatArray, zeta: float | FloatArray, psi: float | FloatArray
    ) -> FloatArray:
        """Give the phases one step later and move the amplitudes."""
        state = np.concatenate((phases, self.amplitudes))
        state = self._engine.advance(state, omegas, self._effective_mu, self._prepared, zeta, psi, self.epsilon)
        self.amplitudes = state[self._n :]
        return state[: self._n]


class DrivePhase:
    """The drive phase that the drivers of a spec set, or a constant."""

    def __init__(self, spec: BindingSpec) -> None:
        """Take the first that is declared: physical ``frequency``, informational ``cadence_hz``, symbolic ``sequence``.

        Raises:
            ValueError: a setting of the driver is out of range.
        """
        physical, informational, symbolic = spec.drivers.physical, spec.drivers.informational, spec.drivers.symbolic
        self.constant = float(physical.get("psi", 0.0))
        self._dt = spec.sample_period_s
        self._timed: PhysicalDriver | InformationalDriver | None = None
        self._stepped: SymbolicDriver | None = None
        if "frequency" in physical:
            self._timed = PhysicalDriver(physical["frequency"], physical.get("amplitude", 1.0))
        elif "cadence_hz" in informational:
            self._timed = InformationalDriver(informational["cadence_hz"])
        elif "sequence" in symbolic:
            self._stepped = SymbolicDriver(symbolic["sequence"])

    @property
    def is_constant(self) -> bool:
        """Whether no driver moves the phase."""
        return self._timed is None and self._stepped is None

    def at(self, step: int) -> float:
        """Phase in rad at the beginning of a step."""
        if self._timed is not None:
            return self._timed.compute(step * self._dt)
        return self.constant if self._stepped is None else self._stepped.compute(step)


def base_coupling(spec: BindingSpec, n: int) -> CouplingState:
    """Give the matrices that the spec declares."""
    builder, coupling, amplitude = CouplingBuilder(), spec.coupling, spec.amplitude
    if coupling.template is not None:
        declared = base_coupling(replace(spec, coupling=replace(coupling, template=None)), n)
        matrices = {coupling.template: np.array(coupling.templates[coupling.template], dtype=np.float64)}
        return builder.switch_template(declared, coupling.template, matrices)
    if amplitude is None:
        return builder.build(n, coupling.base_strength, coupling.decay_alpha)
    return builder.build_with_amplitude(
        n,
        coupling.base_strength,
        coupling.decay_alpha,
        amplitude.amp_coupling_strength,
        amplitude.amp_coupling_decay,
    )


def base_drive(spec: BindingSpec) -> float:
    """Give the strongest ``zeta`` among the drivers of all channels; 0 without one."""
    return max(float(config.get("zeta", 0.0)) for config in spec.drivers.all_channel_configs().values())


def make_model(
    spec: BindingSpec, coupling: CouplingState, method: str, substeps: int
) -> KuramotoModel | AmplitudeModel:
    """Make the engine of the spec."""
    if spec.amplitude is None:
        return KuramotoModel(coupling, spec.sample_period_s, method, substeps)
    return AmplitudeModel(coupling, spec.sample_period_s, method, substeps, spec.amplitude)


def constraint_names(spec: BindingSpec) -> tuple[str, ...]:
    """Give the geometry constraints of the spec by name.

    Raises:
        ValidationError: the constraint type is unknown.
    """
    if spec.geometry_prior is None:
        return ()
    try:
        return tuple(one.name for one in constraints_from_type(spec.geometry_prior.constraint_type))
    except ValueError as error:
        raise ValidationError(str(error)) from error


def imprint_targets(spec: BindingSpec) -> tuple[str, ...]:
    """Give what the imprint modulates; everything when the spec does not say.

    Raises:
        ValidationError: a target is unknown.
    """
    if spec.imprint_model is None:
        return ()
    for name in spec.imprint_model.modulates:
        if name not in IMPRINT_TARGETS:
            raise ValidationError(f"imprint_model.modulates must name {', '.join(IMPRINT_TARGETS)}, got {name!r}")
    return tuple(name for name in IMPRINT_TARGETS if name in spec.imprint_model.modulates) or IMPRINT_TARGETS


def notes_on(
    spec: BindingSpec, omegas: FloatArray, coupling: CouplingState, zeta: float, method: str, substeps: int
) -> tuple[str, ...]:
    """Check the time step and say what of the spec the loop does not use.

    Raises:
        EngineError: a natural frequency alone turns a phase by half a turn or more in one internal step, so that no
            result could mean anything.
    """
    notes: list[str] = []
    dt = spec.sample_period_s / substeps
    fastest = float(np.abs(omegas).max())
    if dt * fastest >= pi:
        needed = int(spec.sample_period_s * fastest / pi) + 1
        raise EngineError(
            f"a time step of {dt:g} s is too long for a natural frequency of {fastest:g} rad/s: the phase would turn "
            f"by {dt * fastest:.3g} rad, expected less than pi; use at least {needed} substeps or a shorter "
            "sample_period_s"
        )
    advance = largest_advance(spec.sample_period_s, omegas, coupling.knm, zeta, substeps=substeps)
    if method != "rk45" and advance >= pi:
        notes.append(
            f"the time step may be too long: frequencies, coupling and drive can turn a phase by {advance:.3g} rad per "
            "internal step, expected less than pi; use more substeps or the method rk45"
        )
    if spec.supervisor.strategy == "mean_coherence" and spec.objectives.bad_layers:
        notes.append(
            "the strategy mean_coherence strengthens bad layers too; 'supervisor: {strategy: objectives}' judges each "
            "layer by itself"
        )
    if spec.coupling.templates and spec.coupling.template is None:
        notes.append("coupling.templates are not used: coupling.template names none of them")
    if spec.cross_channel_couplings:
        notes.append("cross_channel_couplings are reported as evidence only: they do not change the coupling matrix")
    if spec.value_alignment:
        notes.append("value_alignment is not used by a run")
    if spec.geometry_prior is not None and spec.geometry_prior.params:
        notes.append("geometry_prior.params are not used: constraint_type alone decides")
    return tuple(notes)
